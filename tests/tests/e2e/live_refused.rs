//! Live sites and settings of the host that are refused before anything is reached: no internet is needed.

use std::time::Duration;

use agentenv_protocol::ExitCode;
use agentenv_tests::{Home, PySite, run_within, text};

/// A live site that asks nobody.
fn live() -> PySite {
    PySite::new("mirror").at(&["mirror.test"]).live(&["*.mirror.test"])
}

#[test]
fn a_bad_setting_of_the_host_is_refused_by_name() {
    let home = Home::empty();
    home.put(&PySite::new("alpha").bundle());
    let garbage = home.path().join("garbage.pem");
    std::fs::write(&garbage, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .expect("the file is written");
    let garbage = garbage.to_str().expect("a plain path");
    for (bundle, says) in [
        ("/nowhere/ca.pem", "cannot be read"),
        (garbage, "is not one or more certificates"),
        ("/tmp", "not a plain file"),
    ] {
        home.run(&["env", "deploy", "alpha", "--ca-bundle", bundle]).fails(ExitCode::Refused, &[bundle, says]);
    }
    for server in ["dns.corp", "192.0.2.53:0"] {
        let outcome = home.run(&["env", "deploy", "alpha", "--dns-server", server]);
        assert_eq!(outcome.code, ExitCode::Usage as i32, "{outcome:?}");
    }
    let mut command = home.command(["env", "deploy", "alpha"]);
    command.env("AGENTENV_UPSTREAM_PROXY", "socks5://ada:canary-1d@proxy.corp");
    let outcome = run_within(Duration::from_secs(60), &mut command, None);
    outcome.fails(ExitCode::Usage, &["an upstream proxy is written"]);
    assert!(!text(&outcome).contains("canary-1d"), "{outcome:?}");
    assert_eq!(home.deploy_ids(), [] as [String; 0], "nothing was made");
    // Set and empty says nothing; what is set is checked, and a deploy without a real site does without it.
    let home = home.with("AGENTENV_DNS_SERVERS", "").with("AGENTENV_CA_BUNDLE", "").with("AGENTENV_UPSTREAM_PROXY", "");
    home.deploy("alpha").close();
}

#[test]
fn a_live_card_that_differs_from_what_is_stored_is_refused() {
    let home = Home::empty();
    for (name, card, says) in [
        (
            "wider",
            "params['allow_hosts'] = ['*.mirror.test', '*.more.test']",
            "its card says [\"*.mirror.test\", \"*.more.test\"]",
        ),
        ("other", "params['domains'] = ['other.test']", "its card says [\"other.test\"]"),
        ("synthetic", "params['live'] = False", "was stored with live true, and its card says false"),
    ] {
        home.put(&PySite::new(name).at(&["mirror.test"]).live(&["*.mirror.test"]).card(&format!("; {card}")).bundle());
        home.run(&["env", "deploy", name]).fails(ExitCode::Refused, &[name, says]);
    }
    home.assert_idle();
}

#[test]
fn a_live_sites_service_on_a_port_of_its_way_out_is_refused() {
    let home = Home::empty();
    let helper = "\n[services.helper]\ncommand = [\"/usr/bin/python3\", \"-u\", \"-m\", \"http.server\", \"3128\"]\nport = 3128\n";
    home.put(&live().toml(helper).bundle());
    home.run(&["env", "deploy", "mirror"])
        .fails(ExitCode::Refused, &["port 3128 of `mirror/helper`", "its way to the real site"]);
    home.assert_idle();
}
