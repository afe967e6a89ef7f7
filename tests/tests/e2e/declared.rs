//! `website put` of a site whose Rust source says what it is: nothing of it is run to know that.

use agentenv_protocol::ExitCode;
use agentenv_tests::{Bundle, Home, text};
use serde_json::json;

const CARGO: &str =
    "[package]\nname = \"hub\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\nagentenv-sdk = \"0.1\"\n";
const HUB: &str = "use agentenv_sdk::{SecretString as Hidden, Settings, website};\n\
    const HOSTS: &[&str] = &[\"*.github.com\", \"*.githubassets.com\"];\n\
    #[website(domains = [\"github.com\"], live = true, allow_hosts = HOSTS)]\n\
    struct Hub { settings: HubSettings }\n\
    #[derive(Settings)]\n\
    struct HubSettings { token: Hidden, page_size: u16 }\n\
    compile_error!(\"nobody compiles this\");\n";

fn bundle(head: &str, tables: &str, source: &str) -> Bundle {
    let server = "[server]\ncommand = [\"/usr/bin/python3\"]\nport = 8000\n";
    Bundle::new(&format!("format = 1\nkind = \"website\"\n{head}\n{server}{tables}"))
        .with("Cargo.toml", CARGO)
        .with("src/main.rs", source)
}

#[test]
fn what_the_source_declares_is_stored_and_shown() {
    let home = Home::empty();
    let bundle = bundle("", "[settings]\ntoken = \"secret:hub/token\"\n", HUB);
    assert_eq!(home.run(&["website", "put", bundle.path()]).ok(), "website env hub@1 stored\n");
    let shown = home.run(&["env", "show", "hub", "--json"]).json();
    let env = &shown["env"];
    assert_eq!(env["live"], json!(true));
    assert_eq!(env["domains"], json!(["github.com"]));
    assert_eq!(env["allow_hosts"], json!(["*.github.com", "*.githubassets.com"]));
    assert_eq!(env["secret_settings"], json!(["token"]));
    let lines = home.run(&["env", "show", "hub"]).ok();
    for line in [
        "live",
        "reaches   github.com",
        "reaches   *.githubassets.com",
        "name      github.com -> the real site, as `hub`",
    ] {
        assert!(lines.contains(line), "{line}: {lines}");
    }
}

#[test]
fn what_contradicts_the_source_or_is_missing_there_is_refused() {
    let put = |head: &str, tables: &str, flags: &[&str], source: &str, names: &[&str]| {
        let home = Home::empty();
        let bundle = bundle(head, tables, source);
        let mut arguments = vec!["website", "put", bundle.path()];
        arguments.extend(flags);
        let outcome = home.run(&arguments);
        outcome.fails(ExitCode::Refused, names);
        assert!(!text(&outcome).contains("hunter2"), "{outcome:?}");
        assert_eq!(home.run(&["env", "list", "--json"]).json(), json!([]), "nothing is stored");
    };
    put("live = false", "", &[], HUB, &["env.toml:3:8", "src/main.rs:3:"]);
    put("", "", &["--no-live"], HUB, &["--no-live", "src/main.rs:3:"]);
    put("", "", &["--domain", "gitlab.com"], HUB, &["--domain", "gitlab.com", "github.com", "src/main.rs:3:"]);
    put("", "", &["--allow-host", "cdn.com"], HUB, &["--allow-host", "cdn.com", "src/main.rs:3:"]);
    put("", "[settings]\ntoken = \"hunter2\"\n", &[], HUB, &["settings.token", "src/main.rs:6:", "bare reference"]);
    put("", "", &["--setting", "token=hunter2"], HUB, &["settings.token", "bare reference"]);
    put("", "", &["--setting", "pagesize=5"], HUB, &["pagesize", "did you mean `page_size`"]);
    let unknown = HUB.replace("live = true", "live = cfg!(feature = \"live\")");
    put("", "", &[], &unknown, &["cfg!(feature = \"live\")", "src/main.rs:3:", "--live"]);
    let unknown = HUB.replace("[\"github.com\"]", "hosts()");
    put("", "", &[], &unknown, &["hosts()", "src/main.rs:3:", "--domain"]);
    put("", "", &[], "fn main() {}", &["src/main.rs", "#[website(...)]"]);
    put(
        "",
        "",
        &[],
        &format!("{HUB}\n#[website(domains = [\"b.test\"])] struct Second;"),
        &["src/main.rs:9:", "src/main.rs:3:"],
    );
    put("", "", &[], "#[website(", &["src/main.rs:1:"]);
}

#[test]
fn an_image_states_what_it_is_with_flags() {
    let home = Home::empty();
    let flags = [
        "--image",
        "ghcr.io/acme/hub:1",
        "--name",
        "hub",
        "--live",
        "--domain",
        "github.com",
        "--allow-host",
        "*.github.com",
        "--secret-setting",
        "token",
        "--setting",
        "token=env:TOKEN",
    ];
    let mut arguments = vec!["website", "put"];
    arguments.extend(flags);
    home.run(&arguments).ok();
    let env = home.run(&["env", "show", "hub", "--json"]).json()["env"].clone();
    assert_eq!(
        (&env["live"], &env["domains"], &env["source"]["image"]),
        (&json!(true), &json!(["github.com"]), &json!("ghcr.io/acme/hub:1"))
    );
    home.run(&["website", "put", "--image", "a:1", "--name", "x", "--allow-host", "b.com"])
        .fails(ExitCode::Refused, &["--allow-host"]);
}
