//! What is read from a server's Rust source (ENV-5).

use agentenv_model::{
    Declaration, Declared, DeclaredSettings, Problems, RustManifest, RustPackage, SourceFile, is_source, read_rust,
};
use proptest::prelude::*;

const CARGO: &str = "[package]\nname = \"my-site\"\n[dependencies]\nagentenv-sdk = \"0.1\"\n";

fn package(files: &[(&str, &str)]) -> RustPackage {
    let file = |(path, text): &(&str, &str)| SourceFile {
        path: (*path).to_owned(),
        inner: (*path).to_owned(),
        text: (*text).to_owned(),
    };
    RustPackage {
        path: "Cargo.toml".to_owned(),
        manifest: RustManifest::read(CARGO),
        files: files.iter().filter(|(path, _)| is_source(path)).map(file).collect(),
    }
}

fn read(files: &[(&str, &str)]) -> Result<Declaration, Problems> {
    read_rust(&[package(files)])
}

fn site(text: &str) -> Declaration {
    read(&[("src/main.rs", text)]).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

/// A field as this page writes it: a value, `?EXPRESSION` where it is unknown, `-VALUE` where it is left out.
fn shown<T>(field: &Declared<T>, value: impl Fn(&T) -> String) -> String {
    match field {
        Declared::LeftOut(left) => format!("-{}", value(left)),
        Declared::Written { value: written, .. } => value(written),
        Declared::Unknown { expression, .. } => format!("?{expression}"),
    }
}

fn fields(declaration: &Declaration) -> [String; 4] {
    let patterns =
        |list: &Vec<agentenv_protocol::HostPattern>| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    [
        shown(&declaration.name, ToString::to_string),
        shown(&declaration.domains, patterns),
        shown(&declaration.live, ToString::to_string),
        shown(&declaration.allow_hosts, patterns),
    ]
}

#[test]
fn every_field_by_itself() {
    for (text, expected) in [
        ("#[website(domains = [\"shop.test\"])] struct Shop;", ["-shop", "shop.test", "-false", "-"]),
        (
            "#[website(domains = [\"github.com\"], live = true, allow_hosts = [\"*.github.com\", \"*.githubassets.com\"])]\n\
             pub(crate) struct GitHub { a: u8 }",
            ["-git-hub", "github.com", "true", "*.github.com *.githubassets.com"],
        ),
        (
            "#[website(name = \"hub\", domains = &[r\"a.test\", \"B.Test.\"], live = false)] struct X(u8);",
            ["hub", "a.test b.test", "false", "-"],
        ),
        (
            "#[website(domains = ([\"a.test\"]), live = (true), allow_hosts = [])] struct A;",
            ["-a", "a.test", "true", ""],
        ),
        ("#[agentenv_sdk::website(domains = [\"a.test\"])] struct A;", ["-a", "a.test", "-false", "-"]),
        ("#[::agentenv_sdk::website(domains = [\"a.test\"])] struct A;", ["-a", "a.test", "-false", "-"]),
        (
            "use agentenv_sdk::website as site; #[site(domains = [\"a.test\"])] struct A;",
            ["-a", "a.test", "-false", "-"],
        ),
        ("use agentenv_sdk as sdk; #[sdk::website(domains = [\"a.test\"])] struct A;", ["-a", "a.test", "-false", "-"]),
        (
            "use agentenv_sdk::{self as s, Website}; #[s::website(domains = [\"a.test\"])] struct A;",
            ["-a", "a.test", "-false", "-"],
        ),
        (
            "extern crate agentenv_sdk as e; #[e::website(domains = [\"a.test\"])] struct A;",
            ["-a", "a.test", "-false", "-"],
        ),
        ("#[cfg_attr(all(), website(domains = [\"a.test\"]))] struct A;", ["-a", "a.test", "-false", "-"]),
        (
            "mod inner { #[website(domains = [\"a.test\"])] pub struct HTTPEcho2; }",
            ["-http-echo2", "a.test", "-false", "-"],
        ),
        // What has to be run is unknown, and says so.
        (
            "#[website(name = NAMES[0], domains = hosts(), live = !cfg!(x), allow_hosts = concat_hosts!(\"a\", \"b\"))] struct A;",
            ["?NAMES[0]", "?hosts()", "?!cfg!(x)", "?concat_hosts!(\"a\", \"b\")"],
        ),
        (
            "#[website(domains = [\"a.test\", OTHER], live = LIVE)] struct A;",
            ["-a", "?[\"a.test\", OTHER]", "?LIVE", "-"],
        ),
        ("#[website(domains = [\"a.test\"], live = \"yes\")] struct A;", ["-a", "a.test", "?\"yes\"", "-"]),
        ("#[website(domains = \"a.test\")] struct A;", ["-a", "?\"a.test\"", "-false", "-"]),
        ("#[website(domains = [5])] struct A;", ["-a", "?[5]", "-false", "-"]),
        (
            "#[website(domains = [\n  \"a.test\",\n  env!(\"HOST\") ])]\nstruct A;",
            ["-a", "?[ \"a.test\", env!(\"HOST\") ]", "-false", "-"],
        ),
        ("#[website] struct A;", ["-a", "-", "-false", "-"]),
        ("#[website(live = true, live = false, domains = [\"a.test\"])] struct A;", ["-a", "a.test", "true", "-"]),
        (
            "#[website(domains = [\"bücher.example\", \"*.A.test\"])] struct A;",
            ["-a", "xn--bcher-kva.example *.a.test", "-false", "-"],
        ),
    ] {
        assert_eq!(fields(&site(text)), expected, "{text}");
    }
}

#[test]
fn constants_of_the_package_are_followed_as_far_as_they_are_literals() {
    const SITE: &str = "#[website(name = NAME, domains = HOSTS, live = LIVE, allow_hosts = MORE)] struct A;";
    for (more, expected) in [
        (
            "const NAME: &str = \"hub\"; const HOSTS: &[&str] = &[\"a.test\", B]; const B: &str = \"b.test\";\n\
             static LIVE: bool = YES; const YES: bool = (true); pub const MORE: [&str; 1] = [\"c.test\"];",
            ["hub", "a.test b.test", "true", "c.test"],
        ),
        (
            "use crate::config::{NAME, HOSTS as THESE}; use self::config::inner::LIVE; const HOSTS: &[&str] = THESE;\n\
             const MORE: &[&str] = config::MORE;\n\
             mod config { pub const NAME: &str = super::REAL; pub const HOSTS: &[&str] = &[\"a.test\"]; pub use more::MORE;\n\
             mod more { pub const MORE: &[&str] = &[]; } pub mod inner { pub const LIVE: bool = crate::config::ON; }\n\
             pub const ON: bool = true; }\nconst REAL: &str = \"hub\";",
            ["hub", "a.test", "true", ""],
        ),
        // Not one, not here, not written as a literal, or only sometimes compiled.
        (
            "const NAME: &str = \"a\"; const NAME: &str = \"b\"; use other::HOSTS; mod inner { pub const HOSTS: &[&str] = &[\"a.test\"]; }\n\
             #[cfg(feature = \"x\")] const LIVE: bool = true; const MORE: &[&str] = &more();",
            ["?NAME", "?HOSTS", "?LIVE", "?MORE"],
        ),
        (
            "use config::*; mod config { pub const NAME: &str = \"a\"; }\n\
             const HOSTS: &[&str] = HOSTS; const LIVE: bool = NOT_LIVE == false; const MORE: &[&str] = &[concat!(\"a\", \".test\")];",
            ["?NAME", "?HOSTS", "?LIVE", "?MORE"],
        ),
        // `not(test)` is what a site always is, and a constant of tests is none.
        (
            "#[cfg(not(test))] const LIVE: bool = true; #[cfg(test)] const LIVE: bool = false;\n\
             #[cfg(all(test, unix))] const NAME: &str = \"t\"; const NAME: &str = \"hub\"; const HOSTS: &[&str] = &[\"a.test\"];\n\
             const MORE: &[&str] = A::MORE; impl A { const MORE: &[&str] = &[]; }",
            ["hub", "a.test", "true", "?MORE"],
        ),
    ] {
        assert_eq!(fields(&site(&format!("{more}\n{SITE}"))), expected, "{more}");
    }
}

#[test]
fn constants_in_other_files_are_found_by_their_modules() {
    let declared = read(&[
        ("src/main.rs", "mod config; mod site; fn main() {}"),
        (
            "src/site/mod.rs",
            "use crate::config::hosts::ALL;\n#[website(domains = ALL, live = super::config::LIVE, name = my_site::NAME)]\nstruct Hub;",
        ),
        ("src/config.rs", "pub mod hosts; pub const LIVE: bool = true;"),
        ("src/config/hosts.rs", "pub const ALL: &[&str] = &[\"hub.test\"];"),
        ("src/lib.rs", "pub const NAME: &str = \"the-hub\";"),
        ("src/bin/other.rs", "mod config { pub const LIVE: bool = false; }"),
    ]);
    assert_eq!(
        fields(&declared.unwrap()),
        ["the-hub", "hub.test", "?super::config::LIVE", "-"],
        "two roots have a `config`"
    );
}

#[test]
fn comments_strings_macros_and_tests_declare_nothing() {
    let text = r####"#!/usr/bin/env run
//! #[website(domains = ["doc.test"])] struct Doc;
// #[website(domains = ["comment.test"])] struct Comment;
/* #[website(domains = ["block.test"])] /* nested */ struct Block; */
const TEXT: &str = r##"#[website(domains = ["raw.test"])] struct Raw;"##;
macro_rules! site { ($name:ident) => { #[website(domains = ["macro.test"])] struct $name; } }
site!(Made);
#[cfg(test)]
mod tests { #[website(domains = ["test.test"])] struct Test; }
#[cfg(all(test, feature = "x"))] #[website(domains = ["all.test"])] struct All;
#[cfg_attr(test, website(domains = ["attr.test"]))] struct Attr;
fn inside() { #[website(domains = ["function.test"])] struct Function; let deep = [[[{ "}" }]]]; }
mod other { use another::website; #[website(domains = ["another.test"])] struct Another; }
#[another::website(domains = ["far.test"])] struct Far;
#[site(domains = ["site.test"])] struct Site;
#[website(domains = ["real.test"])]
struct Real<'a>(&'a str);
"####;
    let declared = site(text);
    assert_eq!(fields(&declared), ["-real", "real.test", "-false", "-"]);
    assert_eq!(declared.place.to_string(), "src/main.rs:16:3");
}

#[test]
fn files_of_tests_examples_and_build_scripts_are_left_out() {
    const OTHER: &str = "#[website(domains = [\"other.test\"])] struct Other;";
    let declared = read(&[
        (
            "src/main.rs",
            "#[cfg(test)] mod tests;\nmod deep;\n#[cfg(test)] #[path = \"odd/place.rs\"] mod odd;\nmod inner { #[cfg(test)] mod far; }\n#[website(domains = [\"a.test\"])] struct A;",
        ),
        ("src/deep.rs", "#[cfg(any(test))] mod tests;"),
        ("src/tests/mod.rs", OTHER),
        ("src/tests/harness.rs", OTHER),
        ("src/deep/tests.rs", OTHER),
        ("src/odd/place.rs", OTHER),
        ("src/inner/far.rs", OTHER),
        ("src/alone.rs", "#![cfg(test)]\n#[website(domains = [\"other.test\"])] struct Other;"),
        ("tests/site.rs", OTHER),
        ("benches/site.rs", OTHER),
        ("examples/site.rs", OTHER),
        ("build.rs", OTHER),
    ]);
    assert_eq!(fields(&declared.unwrap()), ["-a", "a.test", "-false", "-"]);
    // A module called `tests` that everybody compiles is a module.
    let declared = read(&[("src/main.rs", "mod tests;"), ("src/tests.rs", OTHER)]);
    assert_eq!(fields(&declared.unwrap())[1], "other.test");
}

#[test]
fn none_and_several_are_refused_by_their_files() {
    const SITE: &str = "#[website(domains = [\"a.test\"])]\nstruct A;";
    for (files, message) in [
        (vec![], "Cargo.toml:1:1: the package has no Rust source; put it on the struct that holds the site's state"),
        (
            vec![("src/main.rs", "fn main() {}"), ("src/a.rs", "// #[website]")],
            "Cargo.toml:1:1: the package uses the SDK, and no `#[website(...)]` is in src/main.rs, src/a.rs; put it on the \
             struct that holds the site's state",
        ),
        (
            vec![("src/main.rs", "mod b;\n#[website(domains = [\"a.test\"])] struct A;"), ("src/b.rs", SITE)],
            "src/b.rs:1:3: a second site is declared; the first is at src/main.rs:2:3; one server is one site: put the \
             other into a package of its own, or name its file in .gitignore",
        ),
        (
            vec![("src/main.rs", "#[website(domains = [\"a.test\")]\nstruct A;")],
            "src/main.rs:1:30: it is not Rust that can be read: brackets or quotes do not match, or a character is none of Rust's; mend it; the site's declaration is read from it",
        ),
        (
            vec![("src/main.rs", "#[website(domains = [\"a.test\"])]\nstruct A {{}}")],
            "src/main.rs:2:11: it is not Rust that can be read: expected identifier; mend it; the site's declaration is \
             read from it",
        ),
        (
            vec![("src/main.rs", "#[website(domains [\"a.test\"], live)]\nstruct A;")],
            "src/main.rs:1:11: `#[website(...)]` has `domains [\"a.test\"]`; write `key = value`, such as `domains = \
             [\"shop.test\"]`\n\
             src/main.rs:1:31: `#[website(...)]` has `live`; write `key = value`, such as `domains = [\"shop.test\"]`",
        ),
        (
            vec![("src/main.rs", "#[website(domains = [\"a.test\"] \"b.test\")]\nstruct A;")],
            "src/main.rs:1:3: `#[website(...)]` cannot be read: expected `,`; write `key = value`, such as `domains = \
             [\"shop.test\"]`",
        ),
        (
            vec![(
                "src/main.rs",
                "const B: &str = \"10.0.0.1\";\n#[website(name = \"The Site\", domains = [\"a.test:80\", B])]\nstruct A;",
            )],
            "src/main.rs:1:17: `domains` has \"10.0.0.1\": `10.0.0.1` is an IP address, not a host name; accepted: a host \
             name such as `shop.test`, or `*.shop.test` for every name below it\n\
             src/main.rs:2:18: `name` is \"The Site\"; accepted: lower-case letters, digits and `-`, a letter first, 63 \
             characters at most\n\
             src/main.rs:2:41: `domains` has \"a.test:80\": `a.test:80` has a port; accepted: a host name such as \
             `shop.test`, or `*.shop.test` for every name below it",
        ),
    ] {
        assert_eq!(read(&files).unwrap_err().to_string(), message, "{files:?}");
    }
    // What cannot be read matters only where nothing else was found.
    assert!(read(&[("src/main.rs", SITE), ("src/odd.rs", "website {{{")]).is_ok());
    assert!(read(&[("src/main.rs", SITE), ("src/odd.rs", "#![feature(x)] fn (")]).is_ok());
    let many: Vec<(String, String)> = (0..20).map(|index| (format!("src/m{index}.rs"), String::new())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    assert!(read(&many).unwrap_err().to_string().contains("src/m7.rs and 12 more"));
}

/// Settings as this page writes them: `token!` is a secret.
fn settings(text: &str) -> String {
    let text = format!("{text}\n#[website(domains = [\"a.test\"])] struct A;");
    match site(&text).settings {
        DeclaredSettings::Fields { fields, .. } => {
            let shown = |field: &agentenv_model::DeclaredSetting| {
                format!("{}{}", field.name, if field.secret { "!" } else { "" })
            };
            fields.iter().map(shown).collect::<Vec<_>>().join(" ")
        }
        DeclaredSettings::Unknown { type_name, place } => format!("?{type_name} {place}"),
        DeclaredSettings::Unnamed => "(unnamed)".to_owned(),
    }
}

const OPEN: &str = "impl Website for A { fn open(settings: S, data: &Path) -> Result<Self> { todo!() } }";

#[test]
fn settings_are_the_fields_of_the_type_that_open_takes_and_secrets_are_known_by_their_type() {
    for (text, expected) in [
        (
            "#[derive(Settings)] struct S { title: String, token: SecretString, maybe: Option<SecretString>, r#type: u8 }",
            "title token! maybe! type",
        ),
        (
            "#[derive(Debug, agentenv_sdk::Settings)] struct S { a: agentenv_sdk::SecretString, b: ::secrecy::SecretString,\n\
             c: std::option::Option<secrecy::SecretString>, d: Box<SecretString>, e: Vec<Option<SecretString>>, f: Secret }",
            "a! b! c! d! e! f",
        ),
        (
            "use agentenv_sdk::{SecretString as Hidden, Settings as Read}; use secrecy as s; use std::option::Option as Maybe;\n\
             #[derive(Read)] struct S { a: Hidden, b: s::SecretString, c: Maybe<Hidden>, d: (Hidden), e: Token, f: NotHidden }\n\
             type Token = Option<Hidden>; type NotHidden = String;",
            "a! b! c! d! e! f",
        ),
        (
            "#[derive(Settings)] struct S { a: secrecy::SecretBox<str>, #[cfg(test)] b: SecretString, #[setting(default = 5)] c: u8 }",
            "a! c",
        ),
        (
            "use crate::inner::{Settings as S, Kept}; mod inner { use super::Hidden as H; #[derive(agentenv_sdk::Settings)] pub struct Settings { a: H, b: super::Plain } pub struct Kept; }\n\
          pub use agentenv_sdk::SecretString as Hidden; type Plain = u8;",
            "a! b",
        ),
        ("type S = Other; #[derive(Settings)] struct Other { a: SecretString }", "a!"),
        ("type S = ();", ""),
        ("#[derive(Settings)] struct S;", ""),
        ("#[cfg_attr(not(test), derive(Settings))] struct S { a: u8 }", "a"),
        ("use inner::*; mod inner { #[derive(Settings)] pub struct S { a: SecretString } }", "a!"),
        // Not a type of the package, or one that reads itself by hand.
        ("use other::S;", "?S src/main.rs:2:40"),
        ("struct S { a: SecretString } impl Settings for S {}", "?S src/main.rs:2:40"),
        (
            "#[cfg(x)] #[derive(Settings)] struct S { a: u8 } #[cfg(y)] #[derive(Settings)] struct S { b: u8 }",
            "?S src/main.rs:2:40",
        ),
    ] {
        assert_eq!(
            settings(&format!("{text}\n{OPEN}").replacen('\n', " ", text.matches('\n').count())),
            expected,
            "{text}"
        );
    }
    for (text, expected) in [
        ("impl Website for A { fn open(_: (), data: &Path) -> Result<Self> {} }", ""),
        ("impl agentenv_sdk::Website for crate::A { type Settings = S; } #[derive(Settings)] struct S { a: u8 }", "a"),
        (
            "use agentenv_sdk::Website as W; impl W for self::A { fn open(s: S, d: &Path) {} } #[derive(Settings)] struct S { a: u8 }",
            "a",
        ),
        ("impl Website for Other { fn open(s: S, d: &Path) {} } #[derive(Settings)] struct S { a: u8 }", "(unnamed)"),
        ("impl Display for A { type Settings = S; } #[derive(Settings)] struct S { a: u8 }", "(unnamed)"),
        ("", "(unnamed)"),
    ] {
        assert_eq!(settings(text), expected, "{text}");
    }
    let of_field = site(
        "#[website(domains = [\"a.test\"])] struct A { settings: S }\n#[derive(Settings)] struct S { a: SecretString }",
    );
    assert!(of_field.settings.fields()[0].secret);
}

#[test]
fn what_would_take_the_parser_too_deep_is_refused() {
    let deep = |before: &str, after: &str, times: usize| {
        format!(
            "const X: u8 = {}1{};\n#[website(domains = [\"a.test\"])] struct A;",
            before.repeat(times),
            after.repeat(times)
        )
    };
    for (text, part) in [
        (deep("(", ")", 100_000), "brackets are nested"),
        (deep("- ", "", 100_000), "parts"),
        (deep("", " + 1", 100_000), "parts"),
        (deep("if a { 1 } else ", "", 50_000), "parts"),
        (deep("", ".a()", 50_000), "parts"),
        (deep("(- ", ")", 200).replace("- ", &"- ".repeat(100)), "parts"),
        (format!("#[website]\nstruct A{};", "<A".repeat(50_000)), "parts"),
    ] {
        let read = || read(&[("src/main.rs", text.as_str())]).unwrap_err().to_string();
        let message = with_stack(read);
        assert!(message.contains(part), "{message}");
    }
    // Long is not deep: tables, and many items.
    let table = "    (\"a\", [1, 2, 3]),\n".repeat(20_000);
    let text = format!("const T: &[u8] = &[{table}];\n{}", "struct X {} impl X {} fn f() {}\n".repeat(20_000));
    let text = format!("{text}\n#[website(domains = [\"a.test\"])] struct A;");
    assert_eq!(with_stack(|| fields(&site(&text))[1].clone()), "a.test");
    // What is deep in a function does not matter.
    let text = format!("fn f() {{ {} }}\n#[website(domains = [\"a.test\"])] struct A;", "a + ".repeat(50_000));
    assert_eq!(with_stack(|| fields(&site(&text))[1].clone()), "a.test");
}

fn with_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(agentenv_model::READ_STACK_BYTES);
        thread.spawn_scoped(scope, work).unwrap().join().unwrap()
    })
}

/// Pieces that declarations are made of, so that random files get past the first token.
fn piece() -> impl Strategy<Value = String> {
    let fixed = [
        "#[website(domains = [\"a.test\"], live = LIVE)]",
        "struct A;",
        "struct S { token: Option<SecretString> }",
        "mod m {",
        "}",
        "use crate::m::*;",
        "use self::A as B;",
        "const LIVE: bool = crate::m::LIVE;",
        "pub use super::LIVE;",
        "type S = T;",
        "type T = S;",
        "#[cfg(test)]",
        "#[derive(Settings)]",
        "impl Website for A {",
        "fn open(s: S, d: &Path) {}",
        "#[cfg_attr(x, website(name = N))]",
        "extern crate agentenv_sdk as website;",
        "use website::website;",
        "static N: &str = N;",
        "macro_rules! m {",
        "=> {",
        "(",
        ")",
        "[",
        "]",
        ";",
        ",",
        "'a",
        "r#\"",
        "\"#",
        "//",
        "/*",
        "\n",
    ];
    prop_oneof![6 => proptest::sample::select(fixed.to_vec()).prop_map(str::to_owned), 1 => "[ -~\\n\u{80}-\u{7ff}]{0,12}"]
}

proptest! {
    #[test]
    fn no_source_makes_the_reader_panic_or_go_on_for_ever(
        first in proptest::collection::vec(piece(), 0..20),
        second in proptest::collection::vec(piece(), 0..20),
    ) {
        let (first, second) = (first.join(" "), second.join(" "));
        let read = read(&[("src/main.rs", first.as_str()), ("src/m.rs", second.as_str())]);
        if let Err(problems) = read {
            prop_assert!(!problems.as_slice().is_empty());
        }
    }

    #[test]
    fn no_cargo_toml_makes_the_reader_panic(text in "\\PC{0,100}", lines in "(\\[(dependencies|target.x.dependencies|lib)\\]\n|(name|path|agentenv-sdk) = [\"a-z.{}=5]{0,9}\n){0,6}") {
        let _ = RustManifest::read(&text);
        let _ = RustManifest::read(&lines);
        let _ = agentenv_model::server_folder(&text);
    }
}
