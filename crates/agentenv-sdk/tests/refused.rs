//! What the macros refuse, with what they say (PR-5).

#[test]
fn what_is_refused_says_what_to_write_instead() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/refused/*.rs");
}
