//! What is given beside what a server's Rust source declares (ENV-5).

use agentenv_model::{
    Declaration, EnvFile, FileSpec, Flags, Problems, RustManifest, RustPackage, SourceFile, WebsiteSpec,
    parse_env_of_source, read_rust,
};

fn site(text: &str) -> Declaration {
    let path = "src/main.rs".to_owned();
    let file = SourceFile { path: path.clone(), inner: path, text: text.to_owned() };
    let manifest = RustManifest::read("[dependencies]\nagentenv-sdk = \"0.1\"\n");
    let package = RustPackage { path: "Cargo.toml".to_owned(), manifest, files: vec![file] };
    read_rust(&[package]).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

const SERVER: &str = "\n[server]\ncommand = [\"x\"]\nport = 80\n";

fn put(head: &str, flags: &Flags, source: &str) -> Result<EnvFile, Problems> {
    let text = format!("format = 1\nkind = \"website\"\n{head}{SERVER}");
    parse_env_of_source("env.toml", &text, flags, Some(&site(source)))
}

fn website(file: EnvFile) -> WebsiteSpec {
    let FileSpec::Website(site) = file.spec else { panic!() };
    site
}

const HUB: &str = "#[website(name = \"hub\", domains = [\"github.com\"], live = true, allow_hosts = [\"*.github.com\"])]\n\
    struct Hub { settings: HubSettings }\n#[derive(Settings)] struct HubSettings { token: SecretString, size: u8 }\n";

#[test]
fn what_is_not_given_is_read() {
    let file = put("", &Flags::default(), HUB).unwrap();
    assert_eq!((file.name.as_str(), file.warnings.len()), ("hub", 0));
    let site = website(file);
    assert!(site.live && site.domains.len() == 1 && site.allow_hosts.len() == 1);
    assert_eq!(site.secret_settings.iter().map(ToString::to_string).collect::<Vec<_>>(), ["token"]);
    // The same once more, in other words and another order, contradicts nothing.
    let given = "name = \"hub\"\ndomains = [\"GitHub.com.\"]\nlive = true\nallow_hosts = [\"*.GITHUB.com\"]\n\
                 settings = { token = \"secret:hub/token\", size = 5 }\nsecret_settings = [\"token\"]";
    assert!(put(given, &Flags::default(), HUB).is_ok());
    // A name that the source leaves out is its struct's, and yields to any.
    let shop = "#[website(domains = [\"shop.test\"])] struct Site;";
    assert_eq!(put("name = \"shop\"", &Flags::default(), shop).unwrap().name.as_str(), "shop");
    assert_eq!(put("", &Flags::default(), shop).unwrap().name.as_str(), "site");
}

#[test]
fn what_is_given_must_not_contradict_the_source() {
    let flags = |change: &dyn Fn(&mut Flags)| {
        let mut flags = Flags::default();
        change(&mut flags);
        flags
    };
    let none = Flags::default();
    let shop = "#[website(domains = [\"shop.test\", \"*.shop.test\"])] struct Shop;";
    let tail = "; make both say the same, or leave it to the source";
    for (head, flags, source, message) in [
        (
            "live = false",
            none.clone(),
            HUB,
            "env.toml:3:8: `live` is false, and the site's source declares true at src/main.rs:1:58",
        ),
        (
            "",
            flags(&|f| f.live = Some(false)),
            HUB,
            "--no-live: `live` is false, and the site's source declares true at src/main.rs:1:58",
        ),
        (
            "",
            flags(&|f| f.live = Some(true)),
            shop,
            "--live: `live` is true, and the site's source declares false at src/main.rs:1:3",
        ),
        (
            "name = \"other\"",
            none.clone(),
            HUB,
            "env.toml:3:8: `name` is \"other\", and the site's source declares \"hub\" at src/main.rs:1:18",
        ),
        (
            "",
            flags(&|f| f.name = Some("other".to_owned())),
            HUB,
            "--name: `name` is \"other\", and the site's source declares \"hub\" at src/main.rs:1:18",
        ),
        (
            "domains = [\"shop.test\"]",
            none.clone(),
            shop,
            "env.toml:3:11: `domains` is [\"shop.test\"], and the site's source declares [\"*.shop.test\", \"shop.test\"] at \
             src/main.rs:1:21",
        ),
        (
            "domains = []",
            none.clone(),
            shop,
            "env.toml:3:11: `domains` is [], and the site's source declares [\"*.shop.test\", \"shop.test\"] at \
             src/main.rs:1:21",
        ),
        (
            "",
            flags(&|f| f.domains = vec!["other.test".to_owned()]),
            shop,
            "--domain: `domains` is [\"other.test\"], and the site's source declares [\"*.shop.test\", \"shop.test\"] at \
             src/main.rs:1:21",
        ),
        (
            "",
            flags(&|f| f.allow_hosts = vec!["cdn.com".to_owned()]),
            HUB,
            "--allow-host: `allow_hosts` is [\"cdn.com\"], and the site's source declares [\"*.github.com\"] at \
             src/main.rs:1:78",
        ),
        (
            "allow_hosts = [\"cdn.com\"]",
            none.clone(),
            "#[website(domains = [\"github.com\"], live = true)] struct Hub;",
            "env.toml:3:15: `allow_hosts` is [\"cdn.com\"], and the site's source declares [] at src/main.rs:1:3",
        ),
    ] {
        assert_eq!(put(head, &flags, source).unwrap_err().to_string(), format!("{message}{tail}"), "{head} {flags:?}");
    }
}

#[test]
fn what_is_unknown_and_needed_has_to_be_given() {
    let none = Flags::default();
    let unknown = "#[website(name = name!(), domains = hosts(), live = LIVE, allow_hosts = more())]\nstruct Hub;";
    assert_eq!(
        put("", &none, unknown).unwrap_err().to_string(),
        "src/main.rs:1:18: `name` is `name!()`, which has to be run to be known; accepted: the name of the env, such as \
         `name = \"shop\"`\n\
         src/main.rs:1:53: `live` is `LIVE`, which has to be run to be known; say it with `--live` or `--no-live`, or as \
         `live` in env.toml"
    );
    assert_eq!(
        put("name = \"hub\"\nlive = true", &none, unknown).unwrap_err().to_string(),
        "src/main.rs:1:37: `domains` of a live site is `hosts()`, which has to be run to be known; say them with \
         `--domain`, or as `domains` in env.toml"
    );
    // A synthetic site's names are its card's.
    let site = website(put("name = \"hub\"\nlive = false", &none, unknown).unwrap());
    assert!(site.domains.is_empty() && !site.live);
    let file = put("name = \"hub\"\nlive = true\ndomains = [\"github.com\"]", &none, unknown).unwrap();
    assert_eq!(file.warnings.len(), 1, "what the card says is compared at deploy");
    assert!(file.warnings[0].contains("`more()` at src/main.rs:1:73"), "{:?}", file.warnings);
    let given = "name = \"hub\"\nlive = true\ndomains = [\"github.com\"]\nallow_hosts = [\"*.github.com\"]";
    let file = put(given, &none, unknown).unwrap();
    assert!(file.warnings.is_empty() && website(file).allow_hosts.len() == 1);
}

#[test]
fn the_rules_hold_for_what_is_read() {
    let none = Flags::default();
    for (head, source, message) in [
        (
            "",
            "#[website(live = true)] struct Hub;",
            "src/main.rs:1:18: the site is live and has no domains; accepted: the real site's names, such as `domains = \
             [\"github.com\"]`",
        ),
        (
            "",
            "#[website(domains = [\"a.test\"], allow_hosts = [\"cdn.com\"])] struct Shop;",
            "src/main.rs:1:47: `allow_hosts` is given for a site that is not live; accepted: with `live = true` only; what \
             else a synthetic site's pages need is part of the site",
        ),
        (
            "frontend = { static = \"dist\" }",
            "#[website(domains = [\"github.com\"], live = true)] struct Hub;",
            "env.toml:3:1: `frontend` is given for a live site; leave it out: a live site's pages are the real site's",
        ),
        (
            "settings = { token = \"hunter2\", sizes = 5 }\nsecret_settings = [\"tokens\"]",
            HUB,
            "env.toml:3:22: `settings.token` is a secret setting by its type at src/main.rs:3:42, and its value is not a \
             bare reference; accepted: \"env:NAME\" or \"secret:PATH\", without a default\n\
             env.toml:3:33: `sizes` is not a setting of the site: `HubSettings` at src/main.rs:3:28 has no such field; did \
             you mean `size`? accepted: `token`, `size`\n\
             env.toml:4:20: `tokens` is not a setting of the site: `HubSettings` at src/main.rs:3:28 has no such field; did \
             you mean `token`? accepted: `token`, `size`",
        ),
        (
            "settings = { a = 1 }",
            "#[website(domains = [\"a.test\"])] struct A; impl Website for A { fn open(_: (), d: &Path) {} }",
            "env.toml:3:14: `a` is not a setting of the site: `()` at src/main.rs:1:76 has no such field; leave it out: the \
             site takes no settings",
        ),
    ] {
        assert_eq!(put(head, &none, source).unwrap_err().to_string(), message, "{head} {source}");
    }
    let flags = Flags { settings: vec!["token=hunter2".to_owned(), "colour=red".to_owned()], ..Flags::default() };
    let text = put("", &flags, HUB).unwrap_err().to_string();
    assert!(!text.contains("hunter2") && text.contains("--setting: `colour` is not a setting"), "{text}");
    // A type that cannot be read is told, and checks nothing.
    let far = "#[website(domains = [\"a.test\"])] struct A { settings: far::S }";
    let file = put("settings = { any = 1 }", &none, far).unwrap();
    assert_eq!(
        file.warnings,
        ["the settings type `far::S` at src/main.rs:1:55 cannot be read: name its secrets in `secret_settings`"]
    );
}
