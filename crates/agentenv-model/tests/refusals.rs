//! Every refusal of ENV-2, by its message.

use agentenv_model::{EnvFile, Flags, Problems, parse_env, parse_env_with_flags};

/// A website that is right, for what is put before its tables.
fn website(head: &str, tables: &str) -> String {
    format!(
        "format = 1\nkind = \"website\"\nname = \"shop\"\n{head}\n[server]\ncommand = [\"./shop\"]\nport = 8000\n{tables}\n"
    )
}

fn refused(text: &str) -> String {
    parse_env("env.toml", text).expect_err(text).to_string()
}

fn flagged(text: &str, flags: &Flags) -> Result<EnvFile, Problems> {
    parse_env_with_flags("env.toml", text, flags)
}

macro_rules! refusals {
    ($($name:ident: $text:expr => $message:expr;)*) => {
        $(#[test]
        fn $name() {
            assert_eq!(refused($text), $message);
        })*
    };
}

const NAME_RULE: &str = "accepted: lower-case letters, digits and `-`, a letter first, 63 characters at most";
const PATTERN_RULE: &str = "accepted: a host name such as `shop.test`, or `*.shop.test` for every name below it";
const COMMAND_RULE: &str =
    "accepted: an array of a program and its arguments, such as [\"./bin/shop\", \"--quiet\"]; no shell runs it";

refusals! {
    broken_toml: "format = 1\nkind =\n" =>
        "env.toml:2:7: string values must be quoted, expected literal string; accepted: TOML 1.0";
    a_key_given_twice: "format = 1\nformat = 1\n" => "env.toml:2:1: `format`: duplicate key; accepted: TOML 1.0";
    a_newer_format: "format = 2\nkind = \"hologram\"\n" =>
        "env.toml:1:10: `format` is 2, which is newer than this agent-env; accepted: 1; use a newer agent-env";
    a_format_of_another_type: "format = \"1\"\nkind = \"browser\"\nname = \"b\"\n" =>
        "env.toml:1:10: `format` is \"1\"; accepted: 1";
    no_format: "kind = \"browser\"\nname = \"b\"\n" => "env.toml:1:1: `format` is missing; accepted: `format = 1`";
    an_unknown_kind: "format = 1\nkind = \"webiste\"\nname = \"b\"\n" =>
        "env.toml:2:8: `kind` is \"webiste\"; did you mean `website`? accepted: `website`, `browser`, `computer`, `multi`";
    no_kind: "format = 1\nname = \"b\"\n" =>
        "env.toml:1:1: `kind` is missing; accepted: `website`, `browser`, `computer`, `multi`";
    no_name: "format = 1\nkind = \"browser\"\n" =>
        "env.toml:1:1: `name` is missing; accepted: the name of the env, such as `name = \"shop\"`";
    a_bad_name: "format = 1\nkind = \"browser\"\nname = \"The Shop\"\n" =>
        format!("env.toml:3:8: `name` is \"The Shop\"; {NAME_RULE}");
    a_name_of_another_type: "format = 1\nkind = \"browser\"\nname = 5\n" =>
        "env.toml:3:8: `name` is 5; accepted: a string";
    an_unknown_key: &website("domain = [\"shop.test\"]", "") =>
        "env.toml:4:1: `domain` is not a key; did you mean `domains`? accepted: `allow_hosts`, `domains`, `format`, \
         `frontend`, `image`, `kind`, `live`, `name`, `ready_timeout_s`, `secret_settings`, `server`, `services`, \
         `settings`";
    an_unknown_key_of_a_table: &website("", "prot = 1") =>
        "env.toml:8:1: `server.prot` is not a key; did you mean `port`? accepted: `build`, `command`, `port`";
    a_key_of_another_kind: "format = 1\nkind = \"browser\"\nname = \"b\"\ndomains = []\n" =>
        "env.toml:4:1: `domains` is not a key; accepted: `format`, `kind`, `name`, `network`, `start_tabs`, `viewport`";
    a_bad_pattern: &website("domains = [\"shop.test\", \"localhost\"]", "") =>
        format!("env.toml:4:25: `domains` has \"localhost\": `localhost` is a name of the machine itself; {PATTERN_RULE}");
    an_address_as_a_pattern: &website("domains = [\"127.1\"]", "") =>
        format!("env.toml:4:12: `domains` has \"127.1\": `127.1` is an IP address, not a host name; {PATTERN_RULE}");
    a_pattern_with_a_port: &website("domains = [\"shop.test:80\"]", "") =>
        format!("env.toml:4:12: `domains` has \"shop.test:80\": `shop.test:80` has a port; {PATTERN_RULE}");
    a_wildcard_inside: &website("domains = [\"a.*.test\"]", "") =>
        format!("env.toml:4:12: `domains` has \"a.*.test\": `a.*.test` has a `*` that is not its whole first label; {PATTERN_RULE}");
    a_pattern_given_twice: &website("domains = [\"shop.test\", \"SHOP.test.\"]", "") =>
        "env.toml:4:25: `domains` has `shop.test` twice; accepted: each once";
    domains_of_another_type: &website("domains = \"shop.test\"", "") =>
        "env.toml:4:11: `domains` is \"shop.test\"; accepted: an array of host patterns";
    a_domain_of_another_type: &website("domains = [\"shop.test\", 5]", "") =>
        "env.toml:4:25: `domains[1]` is 5; accepted: a string";
    live_of_another_type: &website("live = \"yes\"", "") =>
        "env.toml:4:8: `live` is \"yes\"; accepted: `true` or `false`";
    live_without_domains: &website("live = true", "") =>
        "env.toml:4:8: the site is live and has no domains; accepted: the real site's names, such as `domains = \
         [\"github.com\"]`";
    live_with_a_frontend: &website("live = true\ndomains = [\"github.com\"]", "[frontend]\ncommand = [\"x\"]\nport = 1") =>
        "env.toml:9:2: `frontend` is given for a live site; leave it out: a live site's pages are the real site's";
    live_with_a_static_frontend: &website("live = true\ndomains = [\"github.com\"]", "[frontend]\nstatic = \"dist\"") =>
        "env.toml:9:2: `frontend` is given for a live site; leave it out: a live site's pages are the real site's";
    allow_hosts_without_live: &website("allow_hosts = [\"cdn.com\"]", "") =>
        "env.toml:4:16: `allow_hosts` is given for a site that is not live; accepted: with `live = true` only; what else \
         a synthetic site's pages need is part of the site";
    a_literal_secret: &website("secret_settings = [\"key\"]", "[settings]\nkey = \"hunter2\"") =>
        "env.toml:9:7: `settings.key` is a secret setting, and its value is not a bare reference; accepted: \"env:NAME\" or \
         \"secret:PATH\", without a default";
    a_secret_with_a_default: &website("secret_settings = [\"key\"]", "[settings]\nkey = \"env:KEY?default=hunter2\"") =>
        "env.toml:9:7: `settings.key` is a secret setting, and its value is not a bare reference; accepted: \"env:NAME\" or \
         \"secret:PATH\", without a default";
    a_number_as_a_secret: &website("secret_settings = [\"key\"]", "[settings]\nkey = 1234") =>
        "env.toml:9:7: `settings.key` is a secret setting, and its value is not a bare reference; accepted: \"env:NAME\" or \
         \"secret:PATH\", without a default";
    a_bad_reference: &website("", "[settings]\nkey = \"env:1KEY\"") =>
        "env.toml:9:7: `settings.key`: `env:1KEY` does not name an environment variable; accepted: `env:NAME`, a name of \
         letters, digits and `_`, no digit first";
    a_setting_that_is_a_table: &website("", "[settings]\nkey = { a = 1 }") =>
        "env.toml:9:7: `settings.key` is { a = 1 }; accepted: a string, a number, `true`, `false`, or a reference such as \
         \"env:NAME\"";
    a_setting_that_json_cannot_say: &website("", "[settings]\nkey = nan") =>
        "env.toml:9:7: `settings.key` is nan; accepted: a string, a number, `true`, `false`, or a reference such as \
         \"env:NAME\"";
    a_bad_setting_name: &website("", "[settings]\n\"a-b\" = 1") =>
        "env.toml:9:1: \"a-b\" is not a setting's name; accepted: letters, digits and `_`, no digit first, 64 characters at \
         most";
    no_server: "format = 1\nkind = \"website\"\nname = \"shop\"\n" =>
        "env.toml:1:1: the website has no `[server]`; accepted: a `[server]` with `command` and `port`, or an `image`";
    a_server_without_a_port: "format = 1\nkind = \"website\"\nname = \"shop\"\n[server]\ncommand = [\"x\"]\n" =>
        "env.toml:4:1: `server.port` is missing; accepted: an integer from 1 to 65535, where the program listens";
    a_server_of_another_type: "format = 1\nkind = \"website\"\nname = \"shop\"\nserver = \"x\"\n" =>
        "env.toml:4:10: `server` is \"x\"; accepted: a table with `command` and `port`";
    port_0: "format = 1\nkind = \"website\"\nname = \"shop\"\nserver = { command = [\"x\"], port = 0 }\n" =>
        "env.toml:4:36: `server.port` is 0; accepted: an integer from 1 to 65535";
    a_command_as_a_string: "format = 1\nkind = \"website\"\nname = \"shop\"\nserver = { command = \"x y\", port = 1 }\n" =>
        format!("env.toml:4:22: `server.command` is \"x y\"; {COMMAND_RULE}");
    an_empty_command: "format = 1\nkind = \"website\"\nname = \"shop\"\nserver = { command = [], port = 1 }\n" =>
        format!("env.toml:4:22: `server.command` is []; {COMMAND_RULE}");
    an_empty_build: &website("", "build = []") => format!("env.toml:8:9: `server.build` is []; {COMMAND_RULE}");
    two_services_of_one_name: &website("", "[services.server]\ncommand = [\"x\"]\nport = 1") =>
        "env.toml:8:11: two services are named `server`; `[server]` has that name; accepted: another one";
    two_tables_of_one_service: &website("", "[services.db]\ncommand = [\"x\"]\nport = 1\n[services.db]\n") =>
        "env.toml:11:11: `db`: duplicate key; accepted: TOML 1.0";
    a_bad_service_name: &website("", "[services.My_DB]\ncommand = [\"x\"]\nport = 1") =>
        format!("env.toml:8:11: a service's name is \"My_DB\"; {NAME_RULE}");
    one_port_twice: &website("", "[services.db]\ncommand = [\"x\"]\nport = 8000") =>
        "env.toml:7:8: `server.port` is 8000, the port of `services.db` too; accepted: a port for each; services of a \
         website share one network";
    a_folder_and_a_program: &website("", "[frontend]\nstatic = \"dist\"\nport = 1") =>
        "env.toml:10:1: `frontend.port` is given beside `frontend.static`; accepted: a folder, or a program and its port";
    a_folder_outside: &website("", "[frontend]\nstatic = \"../dist\"") =>
        "env.toml:9:10: `frontend.static` is \"../dist\"; accepted: a folder of the bundle, such as \"dist\"";
    an_image_beside_services: &website("image = \"shop:1\"", "") =>
        "env.toml:5:2: `server` is given beside an image; accepted: one of the two";
    a_bad_image: "format = 1\nkind = \"website\"\nname = \"shop\"\nimage = \"--privileged\"\n" =>
        "env.toml:4:9: `image` is \"--privileged\"; accepted: the name of an image, such as \"ghcr.io/acme/shop:1.2\"";
    a_timeout_of_nothing: &website("ready_timeout_s = 0", "") =>
        "env.toml:4:19: `ready_timeout_s` is 0; accepted: an integer from 1 to 3600";
    a_tab_with_a_port: "format = 1\nkind = \"browser\"\nname = \"b\"\nstart_tabs = [\"https://shop.test:8443/\"]\n" =>
        "env.toml:4:15: `start_tabs` has \"https://shop.test:8443/\": `https://shop.test:8443/` has a port: sites answer at \
         the standard ports; accepted: a URL at a site's own name, such as \"https://shop.test/\"";
    a_tab_at_an_address: "format = 1\nkind = \"browser\"\nname = \"b\"\nstart_tabs = [\"http://10.0.0.1/\"]\n" =>
        "env.toml:4:15: `start_tabs` has \"http://10.0.0.1/\": `10.0.0.1` is an IP address, not a host name; accepted: a URL \
         at a site's own name, such as \"https://shop.test/\"";
    an_unknown_network: "format = 1\nkind = \"browser\"\nname = \"b\"\nnetwork = \"all\"\n" =>
        "env.toml:4:11: `network` is \"all\"; accepted: \"sites\", \"open\", or an array of host patterns";
    a_flat_viewport: "format = 1\nkind = \"browser\"\nname = \"b\"\nviewport = { width = 1280, height = 1 }\n" =>
        "env.toml:4:37: `viewport.height` is 1; accepted: an integer from 100 to 8192";
    a_multi_env_of_nothing: "format = 1\nkind = \"multi\"\nname = \"office\"\n" =>
        "env.toml:1:1: the multi env has no members; accepted: at least one of `websites`, `computers`, `browsers`, each an \
         array of names of stored envs";
    two_members_of_one_name: "format = 1\nkind = \"multi\"\nname = \"office\"\nwebsites = [\"shop\", \"shop\"]\n" =>
        "env.toml:4:21: two members are named `shop`; accepted: a name for each: give one an `alias`";
    a_member_without_an_env: "format = 1\nkind = \"multi\"\nname = \"office\"\nwebsites = [{ alias = \"shop\" }]\n" =>
        "env.toml:4:13: `websites[0]` needs either `env` or `path`; accepted: one of `env`, the name of a stored env, and \
         `path`, a bundle beside this file";
    a_member_outside: "format = 1\nkind = \"multi\"\nname = \"office\"\nbrowsers = [{ path = \"../b.toml\" }]\n" =>
        "env.toml:4:22: `browsers[0].path` is \"../b.toml\"; accepted: a bundle or an env file beside this one, such as \
         \"browser.toml\"";
    a_member_of_another_type: "format = 1\nkind = \"multi\"\nname = \"office\"\nwebsites = [1]\n" =>
        "env.toml:4:13: `websites[0]` is 1; accepted: the name of a stored env, or a table such as { env = \"shop\", alias = \
         \"store\" }";
    columns_are_characters: "format = 1\nkind = \"browser\"\nname = \"b\"\nnetwork = [\"bücher.example\", \"1.1.1.1\"]\n" =>
        format!("env.toml:4:30: `network` has \"1.1.1.1\": `1.1.1.1` is an IP address, not a host name; {PATTERN_RULE}");
}

#[test]
fn every_problem_of_a_file_is_told_at_once() {
    let text = r#"format = 1
kind = "website"
name = "Shop"
domains = ["shop.test", "10.0.0.1"]
allow_hosts = ["cdn.com"]
secret_settings = ["api_key"]
colour = "blue"

[server]
comand = ["./shop"]
port = "8000"

[frontend]
static = "/etc"

[settings]
api_key = "hunter2"
when = 2026-11-29
"#;
    insta::assert_snapshot!(refused(text));
}

#[test]
fn a_secret_never_is_in_a_message() {
    for value in
        ["\"hunter2\"", "\"env:A?default=hunter2\"", "\"secret:hunter2 x\"", "\"env:hunter2-\"", "[\"hunter2\"]"]
    {
        let text = website("secret_settings = [\"key\"]", &format!("[settings]\nkey = {value}"));
        assert!(!refused(&text).contains("hunter2"), "{}", refused(&text));
    }
    for setting in ["key=hunter2", "key=\"hunter2\"", "key=env:A?default=hunter2", "hunter2"] {
        let flags =
            Flags { settings: vec![setting.to_owned()], secret_settings: vec!["key".to_owned()], ..Flags::default() };
        let problems = flagged(&website("", ""), &flags).unwrap_err().to_string();
        assert!(!problems.contains("hunter2"), "{problems}");
    }
}

#[test]
fn flags_obey_the_same_rules() {
    let flags = |change: &dyn Fn(&mut Flags)| {
        let mut flags = Flags::default();
        change(&mut flags);
        flags
    };
    let list = |text: &str| vec![text.to_owned()];
    for (flags, message) in [
        (
            flags(&|flags| flags.domains = list("localhost")),
            format!("--domain: `domains` has \"localhost\": `localhost` is a name of the machine itself; {PATTERN_RULE}"),
        ),
        (
            flags(&|flags| flags.live = Some(true)),
            "--live: the site is live and has no domains; accepted: the real site's names, such as `domains = \
             [\"github.com\"]`"
                .to_owned(),
        ),
        (
            flags(&|flags| flags.allow_hosts = list("cdn.com")),
            "--allow-host: `allow_hosts` is given for a site that is not live; accepted: with `live = true` only; what \
             else a synthetic site's pages need is part of the site"
                .to_owned(),
        ),
        (flags(&|flags| flags.settings = list("key")), "--setting: the value has no `=`; accepted: KEY=VALUE".to_owned()),
        (flags(&|flags| flags.name = Some("X".to_owned())), format!("--name: `name` is \"X\"; {NAME_RULE}")),
        (
            flags(&|flags| flags.secret_settings = list("a-b")),
            "--secret-setting: \"a-b\" is not a setting's name; accepted: letters, digits and `_`, no digit first, 64 \
             characters at most"
                .to_owned(),
        ),
        (
            flags(&|flags| flags.image = Some("shop:1".to_owned())),
            "env.toml:5:2: `server` is given beside an image; accepted: one of the two".to_owned(),
        ),
    ] {
        assert_eq!(flagged(&website("", ""), &flags).unwrap_err().to_string(), message);
    }
}

#[test]
fn flags_are_for_websites() {
    let flags = Flags { live: Some(false), ..Flags::default() };
    let text = "format = 1\nkind = \"browser\"\nname = \"b\"\n";
    let problems = flagged(text, &flags).unwrap_err().to_string();
    assert_eq!(
        problems,
        "env.toml:2:8: `kind` is \"browser\", and the flags of `website put` were given; accepted: \"website\""
    );
}

#[test]
fn a_file_of_a_megabyte_is_not_parsed() {
    let problems = refused(&"#".repeat(1 << 20));
    assert_eq!(problems, "env.toml:1:1: the file has 1048576 bytes; accepted: up to 262144");
}
