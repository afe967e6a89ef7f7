use serde_json::json;

use super::*;

fn at(website: &str, pointer: &str) -> ValueAt {
    ValueAt { website: Name::parse(website).unwrap(), selector: None, pointer: Pointer::parse(pointer).unwrap() }
}

#[test]
fn pointers_by_table() {
    for (text, good) in
        [("", true), ("/", true), ("/a/0", true), ("/a~0b~1c", true), ("a", false), ("/a~2", false), ("/~", false)]
    {
        assert_eq!(Pointer::parse(text).is_ok(), good, "{text}");
    }
}

#[test]
fn every_test_holds_where_it_should_and_only_there() {
    let data = json!({
        "n": 12, "f": 12.0, "s": "Order 4711: a mug", "a": [1, {"k": "v"}], "o": {"x": 1, "y": null}, "z": null, "e": ""
    });
    let equals = Test::Equals;
    let contains = Test::Contains;
    let matches = |pattern: &str| Test::Matches(Regex::new(pattern).unwrap());
    for (pointer, test, holds) in [
        ("/n", equals(json!(12)), true),
        ("/n", equals(json!(12.0)), true),
        ("/f", equals(json!(12)), true),
        ("/n", equals(json!("12")), false),
        ("/n", equals(json!(13)), false),
        ("/o", equals(json!({"y": null, "x": 1.0})), true),
        ("/o", equals(json!({"x": 1})), false),
        ("/a", equals(json!([1, {"k": "v"}])), true),
        ("/missing", equals(json!(null)), false),
        ("/s", contains(json!("mug")), true),
        ("/s", contains(json!(4711)), true),
        ("/s", contains(json!("cup")), false),
        ("/a", contains(json!({"k": "v"})), true),
        ("/a", contains(json!(2)), false),
        ("/n", contains(json!(1)), false),
        ("/s", matches("^Order [0-9]+"), true),
        ("/s", matches("^mug"), false),
        ("/n", matches("12"), false),
        ("/z", Test::Exists(true), true),
        ("/z", Test::Exists(false), false),
        ("/missing", Test::Exists(false), true),
        ("/missing", Test::Exists(true), false),
        ("/a", Test::Length(2), true),
        ("/o", Test::Length(2), true),
        ("/s", Test::Length(17), true),
        ("/e", Test::Length(0), true),
        ("/n", Test::Length(2), false),
        ("", Test::Length(7), true),
    ] {
        let expectation = Expectation { at: at("shop", pointer), test };
        let verdict = expectation.judge(&data, None);
        assert_eq!(verdict.is_ok(), holds, "{pointer} {:?}: {verdict:?}", expectation.test);
    }
}

#[test]
fn values_of_two_sites_are_compared() {
    let shop = json!({"orders": [{"number": "A-17"}]});
    let number = at("shop", "/orders/0/number");
    let contains = Expectation { at: at("tracker", "/title"), test: Test::ContainsValueAt(number.clone()) };
    assert_eq!(contains.judge(&json!({"title": "mug, order A-17"}), Some(&shop)), Ok(()));
    let wrong = contains.judge(&json!({"title": "mug"}), Some(&shop)).unwrap_err();
    assert_eq!(
        wrong,
        "tracker /title: is \"mug\", expected something that contains \"A-17\" (of shop /orders/0/number)"
    );
    let nothing = contains.judge(&json!({"title": "mug"}), Some(&json!({"orders": []}))).unwrap_err();
    assert_eq!(nothing, "shop /orders/0/number: nothing is there to compare tracker /title with");
    let equals = Expectation { at: at("tracker", "/title"), test: Test::EqualsValueAt(number) };
    assert!(equals.judge(&json!({"title": "A-17"}), Some(&shop)).is_ok());
}

#[test]
fn messages_say_what_is_there_and_cut_it() {
    let expectation = Expectation { at: at("shop", "/a"), test: Test::Length(1) };
    assert_eq!(expectation.judge(&json!({}), None).unwrap_err(), "shop /a: nothing is there, expected a length of 1");
    let message = expectation.judge(&json!({"a": "ü".repeat(1000)}), None).unwrap_err();
    assert!(message.chars().count() < 250 && message.contains("..."), "{message}");
}
