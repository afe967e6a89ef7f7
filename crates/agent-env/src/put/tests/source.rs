//! Bundles whose server declares the site in its Rust source.

use std::fs;

use agentenv_model::{EnvSpec, Flags, WebsiteSpec};
use agentenv_protocol::ExitCode;

use super::{Fixture, SERVE, SERVER, write};
use crate::put::latest_versions;

const CARGO: &str = "[package]\nname = \"hub\"\n[dependencies]\nagentenv-sdk = \"0.1\"\n";
const HUB: &str = "#[website(domains = [\"github.com\"], live = true, allow_hosts = HOSTS)]\nstruct Hub { settings: S }\n\
    const HOSTS: &[&str] = &[\"*.github.com\"];\n#[derive(Settings)] struct S { token: SecretString }\n";

/// Writes a bundle without a name of its own.
fn bundle(fixture: &Fixture, name: &str, env: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
    let bundle = fixture.bundle(name, "", files);
    write(&bundle, "env.toml", &format!("format = 1\nkind = \"website\"\n{env}"));
    bundle
}

async fn stored(fixture: &Fixture, name: &str) -> WebsiteSpec {
    let found = latest_versions(&fixture.store).await.unwrap().into_iter().find(|env| env.name.as_str() == name);
    match found.unwrap().spec {
        EnvSpec::Website(site) => site,
        _ => panic!("it is a website"),
    }
}

#[tokio::test]
async fn what_the_source_declares_is_stored() {
    let fixture = Fixture::new().await;
    let files = [SERVE, ("Cargo.toml", CARGO), ("src/main.rs", HUB), ("src/bin/other.rs", "fn main() {}")];
    let put = fixture.website(&bundle(&fixture, "any", SERVER, &files)).await.unwrap();
    assert_eq!((put.name.as_str(), put.warnings.len()), ("hub", 0));
    let site = stored(&fixture, "hub").await;
    assert!(site.live && site.secret_settings.iter().any(|name| name.as_str() == "token"));
    assert_eq!(
        (site.domains[0].to_string(), site.allow_hosts[0].to_string()),
        ("github.com".into(), "*.github.com".into())
    );
    // Nothing ran to know it: the package does not even compile.
    assert!(!put.built);
}

#[tokio::test]
async fn a_contradiction_is_refused_naming_both_places() {
    let fixture = Fixture::new().await;
    let files = [SERVE, ("Cargo.toml", CARGO), ("src/main.rs", HUB)];
    let env = format!("live = false\n{SERVER}");
    let error = fixture.website(&bundle(&fixture, "any", &env, &files)).await.unwrap_err();
    let place = fixture.path("any").display().to_string();
    assert_eq!(
        error.message,
        format!(
            "{place}/env.toml:3:8: `live` is false, and the site's source declares true at {place}/src/main.rs:1:44"
        )
    );
    assert_eq!(error.exit, ExitCode::Refused);
    let flags = Flags { domains: vec!["other.test".to_owned()], ..Flags::default() };
    let error = fixture.with_flags(Some(&bundle(&fixture, "any", SERVER, &files)), &flags).await.unwrap_err();
    assert!(error.message.starts_with("--domain: `domains` is [\"other.test\"]"), "{}", error.message);
    assert!(fixture.store.list_envs(None).await.unwrap().is_empty());
}

#[tokio::test]
async fn only_the_servers_own_package_is_read() {
    let fixture = Fixture::new().await;
    let other = "#[website(domains = [\"other.test\"])] struct Other;";
    let server = "[server]\ncommand = [\"./serve\"]\nport = 8000\n\
                  build = [\"/bin/true\"]\n";
    let in_folder =
        "[server]\ncommand = [\"./serve\"]\nport = 8000\nbuild = [\"./cargo\", \"install\", \"--path\", \"server\"]\n";
    let files = [
        SERVE,
        ("cargo", "#!/bin/sh\n"),
        ("server/Cargo.toml", CARGO),
        ("server/src/main.rs", HUB),
        ("server/tests/site.rs", other),
        ("server/nested/Cargo.toml", CARGO),
        ("server/nested/src/main.rs", other),
        ("Cargo.toml", "[workspace]\nmembers = [\"server\", \"elsewhere\"]\n"),
        ("elsewhere/Cargo.toml", "[package]\nname = \"tool\"\n[dev-dependencies]\nagentenv-sdk = \"0.1\"\n"),
        ("elsewhere/src/main.rs", other),
        ("vendor/site/Cargo.toml", CARGO),
        ("vendor/site/src/main.rs", other),
        (".gitignore", "/ignored/\n"),
        ("ignored/Cargo.toml", CARGO),
        ("ignored/src/main.rs", other),
    ];
    let at = bundle(&fixture, "any", in_folder, &files);
    assert_eq!(fixture.website(&at).await.unwrap().name.as_str(), "hub");
    // From the workspace's own folder there are two sites, until one is left.
    write(&at, "env.toml", &format!("format = 1\nkind = \"website\"\n{server}"));
    let error = fixture.website(&at).await.unwrap_err();
    assert!(
        error.message.contains("server/nested/src/main.rs:1:3") || error.message.contains("server/src/main.rs:1:3"),
        "{}",
        error.message
    );
    fs::remove_dir_all(at.join("server/nested")).unwrap();
    assert_eq!(fixture.website(&at).await.unwrap().name.as_str(), "hub");
}

#[tokio::test]
async fn a_server_that_is_not_in_our_sdk_declares_nothing() {
    let fixture = Fixture::new().await;
    let other = "#[website(domains = [\"other.test\"])] struct Other;";
    for (index, cargo) in
        ["", "[package]\nname = \"x\"\n[dependencies]\naxum = \"0.8\"\n", "not toml"].iter().enumerate()
    {
        let name = format!("shop{index}");
        let files = [SERVE, ("src/main.rs", other), ("Cargo.toml", *cargo)];
        let at = fixture.bundle(&name, &format!("domains = [\"shop.test\"]\n{SERVER}"), &files);
        if cargo.is_empty() {
            fs::remove_file(at.join("Cargo.toml")).unwrap();
        }
        fixture.website(&at).await.unwrap();
        assert_eq!(stored(&fixture, &name).await.domains[0].to_string(), "shop.test");
    }
    // One that is has to declare one.
    let error = fixture
        .website(&bundle(&fixture, "none", SERVER, &[SERVE, ("Cargo.toml", CARGO), ("src/main.rs", "")]))
        .await
        .unwrap_err();
    assert!(
        error.message.ends_with(
            "no `#[website(...)]` is in {}/src/main.rs"
                .replace("{}", &fixture.path("none").display().to_string())
                .as_str()
        ),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_multi_env_reads_the_sites_that_it_names_by_their_path() {
    let fixture = Fixture::new().await;
    let folder = fixture.path("office");
    write(&folder, "env.toml", "format = 1\nkind = \"multi\"\nname = \"office\"\nwebsites = [{ path = \"hub\" }]\n");
    write(&folder, "hub/env.toml", &format!("format = 1\nkind = \"website\"\n{SERVER}"));
    for (path, text) in [SERVE, ("Cargo.toml", CARGO), ("src/main.rs", HUB)] {
        write(&folder.join("hub"), path, text);
    }
    assert_eq!(fixture.env(&folder).await.unwrap().members[0].name.as_str(), "hub");
    assert!(stored(&fixture, "hub").await.live);
}

#[tokio::test]
async fn what_is_too_much_to_read_is_refused() {
    let fixture = Fixture::new().await;
    let at = bundle(&fixture, "any", SERVER, &[SERVE, ("Cargo.toml", CARGO), ("src/main.rs", HUB)]);
    // Long files were made by programs, and others are no text.
    write(&at, "src/table.rs", &format!("// {}\n{HUB}", "x".repeat(1 << 20)));
    fs::write(at.join("src/odd.rs"), [0xff, 0xfe]).unwrap();
    fixture.website(&at).await.unwrap();
    for index in 0..5000 {
        write(&at, &format!("src/m/f{index}.rs"), "");
    }
    let error = fixture.website(&at).await.unwrap_err();
    assert!(error.message.contains("is too much to read"), "{}", error.message);
    assert_eq!(error.exit, ExitCode::Refused);
}
