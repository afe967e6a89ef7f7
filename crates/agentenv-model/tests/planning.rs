//! Members of multi envs, plans, cards and settings.

mod common;
mod office;

use agentenv_model::{
    Abilities, EnvSpec, EnvVersion, Plan, PlanInput, Problems, Reference, Values, compare_card, hidden_values, plan,
    resolve_multi, resolve_settings,
};
use agentenv_protocol::{HostPattern, WebsiteParams};
use office::multi;
use secrecy::ExposeSecret as _;

fn stored(text: &str, version: u64) -> EnvVersion {
    common::stored(text, version, &[])
}

fn website(name: &str, head: &str) -> EnvVersion {
    stored(&format!("kind = 'website'\nname = '{name}'\n{head}\n[server]\ncommand = ['./{name}']\nport = 8080"), 1)
}

fn browser(tabs: &str) -> EnvVersion {
    stored(&format!("kind = 'browser'\nname = 'browser'\nstart_tabs = [{tabs}]"), 3)
}

fn input(env: EnvVersion, members: &[EnvVersion]) -> PlanInput {
    PlanInput { env, members: members.to_vec(), abilities: Abilities::sandbox(), capture_traffic: None }
}

fn office(text: &str, members: &[EnvVersion]) -> Result<Plan, Problems> {
    office::office(text, members, Abilities::sandbox())
}

fn values(list: &[(&str, &str)]) -> Values {
    let mut values = Values::default();
    list.iter().for_each(|(reference, value)| values.insert(&reference.parse::<Reference>().unwrap(), (*value).into()));
    values
}

const OFFICE: &str = "websites = ['shop', 'tracker']\nbrowsers = ['browser']";

#[test]
fn two_sites_and_a_browser() {
    let shop = stored(
        "kind = 'website'\nname = 'shop'\ndomains = ['*.shop.test', 'shop.test']\nsecret_settings = ['key']\n\
         [server]\ncommand = ['./bin/shop']\nport = 8080\n[frontend]\nstatic = 'dist'\n\
         [services.worker]\ncommand = ['./bin/worker', '-v']\nport = 9000\n[settings]\nkey = 'env:KEY'\nsize = 5",
        2,
    );
    let members = [shop, website("tracker", "domains = ['tracker.test']"), browser("'https://tracker.test/issues/'")];
    let plan = office(OFFICE, &members).unwrap();
    let json = serde_json::to_string_pretty(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    insta::assert_snapshot!(json);
}

#[test]
fn a_website_alone() {
    let plan = plan(&input(website("shop", "domains = ['shop.test']"), &[])).unwrap();
    assert_eq!((plan.websites.len(), plan.browsers.len(), plan.versions.len()), (1, 0, 1));
}

#[test]
fn what_a_multi_env_may_not_name() {
    let members = [website("shop", "domains = ['shop.test']"), browser("")];
    for (text, message) in [
        (
            "websites = ['shpo']",
            "env.toml:4:13: there is no env `shpo`; did you mean `shop`? put it first; `agent-env env list` shows what is \
             stored",
        ),
        (
            "browsers = ['shop']",
            "env.toml:4:13: env `shop` is a website env; accepted: a browser env here; name it under `websites`",
        ),
        ("browsers = [{ path = 'b.toml' }]", "env.toml:4:13: `b.toml` is not stored; put it first"),
    ] {
        assert_eq!(resolve_multi(&multi(text), &members, false).unwrap_err().to_string(), message, "{text}");
    }
    let name = "inner".parse().unwrap();
    let spec = EnvSpec::Multi(resolve_multi(&multi("websites = ['shop']"), &members, false).unwrap());
    let nested = [EnvVersion { name, version: 1, spec, tree: None }];
    assert_eq!(
        resolve_multi(&multi("websites = ['inner']"), &nested, false).unwrap_err().to_string(),
        "env.toml:4:13: env `inner` is a multi env; accepted: its members by name; multi envs are never nested"
    );
}

#[test]
fn versions_are_pinned_unless_the_latest_is_wanted() {
    let members = [website("shop", ""), browser("")];
    let versions = |latest| {
        let spec = resolve_multi(&multi("websites = ['shop']\nbrowsers = ['browser']"), &members, latest).unwrap();
        spec.members().map(|member| member.version).collect::<Vec<_>>()
    };
    assert_eq!(versions(false), [Some(1), Some(3)]);
    assert_eq!(versions(true), [None, None]);
}

#[test]
fn two_sites_of_one_name_are_refused_when_put_and_when_deployed() {
    let members = [website("a", "domains = ['x.test']"), website("b", "domains = ['X.test']")];
    let text = "websites = ['a', 'b']";
    assert_eq!(
        office(text, &members).unwrap_err().to_string(),
        "env.toml:4:18: `a` and `b` both claim `x.test`; accepted: each name by one website"
    );
    // A member that is not pinned may have changed since.
    let before = [website("a", "domains = ['x.test']"), website("b", "domains = ['y.test']")];
    let spec = EnvSpec::Multi(resolve_multi(&multi(text), &before, true).unwrap());
    let env = EnvVersion { name: "office".parse().unwrap(), version: 1, spec, tree: None };
    assert_eq!(
        plan(&input(env, &members)).unwrap_err().to_string(),
        "env `office`: `a` and `b` both claim `x.test`; accepted: each name by one website"
    );
    // One env twice claims its names twice.
    let twice = "websites = ['a', { env = 'a', alias = 'c' }]";
    assert!(office(twice, &members).unwrap_err().to_string().contains("`a` and `c` both claim `x.test`"));
}

#[test]
fn start_tabs_are_claimed_unless_a_site_stores_no_names() {
    let named = [website("shop", "domains = ['shop.test']"), browser("'https://shop.test/', 'https://evil.test/'")];
    let text = "websites = ['shop']\nbrowsers = [{ env = 'browser', alias = 'desk' }]";
    assert_eq!(
        office(text, &named).unwrap_err().to_string(),
        "env.toml:5:13: the start tab `https://evil.test/` of `desk` is at `evil.test`, which no website claims; accepted: \
         names of the env's websites"
    );
    let nameless = [website("shop", ""), named[1].clone()];
    assert!(office(text, &nameless).unwrap().site_table.is_empty());
    let alone = plan(&input(named[1].clone(), &[])).unwrap_err().to_string();
    assert!(alone.contains("`evil.test`, which no website claims"), "{alone}");
}

#[test]
fn what_the_sandbox_provider_lacks_is_refused_by_name() {
    let image = stored("kind = 'website'\nname = 'shop'\nimage = 'shop:1'", 1);
    assert_eq!(
        plan(&input(EnvVersion { tree: None, ..image }, &[])).unwrap_err().to_string(),
        "env `shop`: it is the image `shop:1`, which the `sandbox` provider does not have; deploy it with `--provider \
         compose`"
    );
}

#[test]
fn a_provider_without_a_way_to_real_sites_refuses_them_by_name() {
    let abilities = Abilities {
        provider: "other".to_owned(),
        live_sites: false,
        networks: false,
        computers: false,
        ..Abilities::sandbox()
    };
    for (env, message) in [
        (
            stored("kind = 'computer'\nname = 'desk'", 1),
            "env `desk`: it is a computer, which the `other` provider does not have; deploy it with `--provider sandbox`",
        ),
        (
            website("shop", "live = true\ndomains = ['github.com']"),
            "env `shop`: it is a live site, which the `other` provider does not have; deploy it with `--provider sandbox`",
        ),
        (
            stored("kind = 'browser'\nname = 'b'\nnetwork = 'open'", 1),
            "env `b`: its network is \"open\", which the `other` provider does not have; accepted there: `network = \"sites\"`",
        ),
        (
            stored("kind = 'browser'\nname = 'b'\nnetwork = ['x.test']", 1),
            "env `b`: its network is an allowlist, which the `other` provider does not have; accepted there: `network = \"sites\"`",
        ),
    ] {
        let input = PlanInput { abilities: abilities.clone(), ..input(env, &[]) };
        assert_eq!(plan(&input).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_member_that_is_gone_is_named() {
    let members = [website("shop", "")];
    let spec = EnvSpec::Multi(resolve_multi(&multi("websites = ['shop']"), &members, false).unwrap());
    let env = EnvVersion { name: "office".parse().unwrap(), version: 1, spec, tree: None };
    assert_eq!(
        plan(&input(env, &[])).unwrap_err().to_string(),
        "env `office`: it names env `shop` version 1, which is not stored; put it again"
    );
}

#[test]
fn a_card_is_compared_with_what_is_stored() {
    let patterns = |texts: &[&str]| texts.iter().map(|text| HostPattern::parse(text).unwrap()).collect::<Vec<_>>();
    let card = |domains: &[&str], live, allow_hosts: &[&str]| WebsiteParams {
        name: "shop".parse().unwrap(),
        domains: patterns(domains),
        live,
        allow_hosts: patterns(allow_hosts),
        routes: vec!["/".to_owned()],
    };
    let planned = |head: &str| plan(&input(website("shop", head), &[])).unwrap().websites.remove(0);
    let two = planned("domains = ['a.test', 'b.test']");
    assert_eq!(compare_card(&two, &card(&["B.test", "a.test"], false, &[])).unwrap(), two.domains);
    for (card, message) in [
        (
            card(&["a.test"], false, &[]),
            "website `shop` was stored with domains [\"a.test\", \"b.test\"], and its card says [\"a.test\"]",
        ),
        (card(&["a.test", "b.test"], true, &[]), "website `shop` was stored with live false, and its card says true"),
        (
            card(&["a.test", "b.test"], false, &["cdn.com"]),
            "website `shop` was stored with allow_hosts [], and its card says [\"cdn.com\"]",
        ),
    ] {
        let problems = compare_card(&two, &card).unwrap_err();
        assert_eq!(problems.as_slice().len(), 1);
        assert_eq!(problems.as_slice()[0].message, message);
    }
    let none = planned("");
    assert_eq!(compare_card(&none, &card(&["c.test"], false, &[])).unwrap(), patterns(&["c.test"]));
    assert_eq!(compare_card(&none, &card(&["c.test"], true, &["d.test"])).unwrap_err().as_slice().len(), 2);
}

#[test]
fn references_become_values_and_what_is_missing_is_named_without_one() {
    let head = "secret_settings = ['key']";
    let text = format!(
        "kind = 'website'\nname = 'shop'\n{head}\nserver = {{ command = ['x'], port = 1 }}\n[settings]\nkey = 'env:KEY'\n\
         region = 'env:REGION?default=eu'\nsize = 5\nname = \"a\\nb\""
    );
    let site = plan(&input(stored(&text, 1), &[])).unwrap().websites.remove(0);
    let values = values(&[("env:KEY", "hunter2"), ("env:UNUSED", "x")]);
    let value = resolve_settings(&site, &values).unwrap();
    assert_eq!(value.expose_secret(), r#"{"key":"hunter2","name":"a\nb","region":"eu","size":5}"#);
    assert!(!format!("{value:?}").contains("hunter2"));
    let missing = resolve_settings(&site, &Values::default()).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "env `shop`: setting `key` of `shop` is `env:KEY`, which is not set; set the variable for the command that deploys"
    );
}

#[test]
fn stored_secrets_become_values_and_what_is_hidden_is_known() {
    let text = "kind = 'website'\nname = 'shop'\nsecret_settings = ['token', 'key']\n\
                server = { command = ['x'], port = 1 }\n[settings]\ntoken = 'secret:github/token'\nkey = 'env:KEY'\n\
                motto = 'secret:motto?default=none'\ncity = 'env:CITY'\nagain = 'secret:github/token'";
    let plan = plan(&input(stored(text, 1), &[])).unwrap();
    let wanted: Vec<String> = plan.references().iter().map(ToString::to_string).collect();
    assert_eq!(wanted, ["env:CITY", "env:KEY", "secret:github/token", "secret:motto"]);
    let site = &plan.websites[0];
    // A dollar, quotes and a line's end are the value's own.
    let token = "a\"b\\c\nd$e${F}'";
    let values = values(&[("secret:github/token", token), ("env:KEY", "hunter2"), ("env:CITY", "Oslo")]);
    let line = resolve_settings(site, &values).unwrap();
    let line = line.expose_secret();
    assert!(!line.contains('\n'), "one line: {line}");
    let json: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(
        json,
        serde_json::json!({ "token": token, "again": token, "key": "hunter2", "motto": "none", "city": "Oslo" })
    );
    let hidden: Vec<_> = hidden_values(site, &values).iter().map(|value| value.expose_secret().to_owned()).collect();
    assert_eq!(hidden, [token, "hunter2", token], "by the names of settings");
    let shown = format!("{values:?}");
    assert!(shown.contains("github/token") && !shown.contains("hunter2") && !shown.contains("b\\"), "{shown}");
    assert_eq!(
        resolve_settings(site, &Values::default()).unwrap_err().to_string(),
        "env `shop`: setting `again` of `shop` is `secret:github/token`, which is not stored; store it with `agent-env \
         secret set github/token`\n\
         env `shop`: setting `city` of `shop` is `env:CITY`, which is not set; set the variable for the command that \
         deploys\n\
         env `shop`: setting `key` of `shop` is `env:KEY`, which is not set; set the variable for the command that \
         deploys\n\
         env `shop`: setting `token` of `shop` is `secret:github/token`, which is not stored; store it with `agent-env \
         secret set github/token`"
    );
}
