use agentenv_model::{Abilities, EnvSpec, EnvVersion, FileSpec, PlanInput, parse_env, plan};
use agentenv_protocol::Digest;
use secrecy::ExposeSecret as _;

use super::*;

const AUTHORITIES: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

fn website(head: &str) -> PlannedWebsite {
    let text = format!(
        "format = 1\nkind = 'website'\nname = 'site'\n{head}\nserver = {{ command = ['true'], port = 8000 }}\n\
         services.db = {{ command = ['true'], port = 5432 }}"
    );
    let file = parse_env("env.toml", &text).unwrap();
    let FileSpec::Website(site) = file.spec else { panic!("it is a website") };
    let tree = Digest::parse(&"ab".repeat(32)).ok();
    let env = EnvVersion { name: file.name, version: 1, spec: EnvSpec::Website(site), tree };
    let input = PlanInput { env, members: Vec::new(), abilities: Abilities::sandbox(), capture_traffic: None };
    plan(&input).unwrap().websites.remove(0)
}

fn etc(website: &PlannedWebsite, path: &str) -> Option<String> {
    let host = Host { trees: BTreeMap::new(), program: "/agent-env".into(), authorities: AUTHORITIES.to_owned() };
    let spec = service(website, &website.services[0], &host, false).unwrap();
    let found = spec.etc.into_iter().find(|(file, _)| file == path);
    found.map(|(_, bytes)| String::from_utf8(bytes).unwrap())
}

fn value(variables: &Variables, name: &str) -> Option<String> {
    let found = variables.iter().find(|(variable, _)| variable == name);
    found.map(|(_, value)| value.expose_secret().to_owned())
}

#[test]
fn a_live_sites_services_are_told_the_way_to_the_real_site() {
    let live = website("live = true\ndomains = ['github.com']");
    assert_eq!(etc(&live, "resolv.conf").unwrap().lines().next(), Some("nameserver 127.0.0.53"));
    assert_eq!(etc(&live, "ssl/certs/ca-certificates.crt").as_deref(), Some(AUTHORITIES));
    for variables in [variables(&live, &live.services[0]), exec_variables(Some(&live))] {
        for name in ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"] {
            assert_eq!(value(&variables, name).as_deref(), Some("http://127.0.0.1:3128"), "{name}");
        }
        for name in ["NO_PROXY", "no_proxy"] {
            assert_eq!(value(&variables, name).as_deref(), Some("localhost,127.0.0.1,db,server"), "{name}");
        }
        assert_eq!(value(&variables, "SSL_CERT_FILE").as_deref(), Some("/etc/ssl/certs/ca-certificates.crt"));
    }
}

#[test]
fn a_synthetic_sites_services_are_told_of_nothing_outside() {
    let synthetic = website("domains = ['site.test']");
    assert_eq!(etc(&synthetic, "hosts").as_deref(), Some("127.0.0.1 localhost db server\n"));
    assert_eq!((etc(&synthetic, "resolv.conf"), etc(&synthetic, "ssl/certs/ca-certificates.crt")), (None, None));
    let names: Vec<String> = variables(&synthetic, &synthetic.services[0]).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["PATH", "HOME", "LANG", "PORT"]);
    assert_eq!(value(&exec_variables(Some(&synthetic)), "HTTPS_PROXY"), None);
    assert_eq!(value(&exec_variables(None), "HOME").as_deref(), Some(crate::browser::HOME));
}

#[test]
fn a_probe_is_told_what_its_sandbox_has() {
    let live = website("live = true\ndomains = ['github.com']");
    let host = Host { trees: BTreeMap::new(), program: "/agent-env".into(), authorities: String::new() };
    let like = service(&live, &live.services[0], &host, false).unwrap();
    let names = ["github.com".to_owned()];
    for (forward_port, open, expected) in [
        (false, false, &["internal-probe", "github.com"][..]),
        (true, false, &["internal-probe", "--forward-port", "github.com"]),
        (true, true, &["internal-probe", "--forward-port", "--open", "github.com"]),
    ] {
        let spec = probe(&like, &host, Probed { forward_port, open, names: &names });
        assert_eq!(spec.command[1..], *expected);
    }
}
