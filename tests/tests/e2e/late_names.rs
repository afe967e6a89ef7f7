//! Sites that store no names: what `put` could not check is checked at deploy, with the names on the cards (ENV-8, ENV-9).

use agentenv_protocol::ExitCode;
use agentenv_tests::{Bundle, Home, PySite};

use crate::desk::pods;

/// A site whose only names are those of its card.
fn nameless(name: &str, domains: &str) -> PySite {
    PySite::new(name).at(&[]).card(&format!("params['domains'] = {domains}"))
}

#[test]
fn a_site_that_stores_no_names_takes_its_cards() {
    let home = pods(&[nameless("alpha", "['late.test']")]);
    let deploy = home.deploy("pods");
    assert_eq!(deploy.info.websites[0].urls, ["https://late.test/"]);
}

#[test]
fn two_cards_with_one_name_are_refused_naming_both() {
    let home = pods(&[nameless("alpha", "['same.test']"), nameless("beta", "['beta.test', 'SAME.test']")]);
    home.run(&["env", "deploy", "pods"]).fails(ExitCode::Refused, &["alpha", "beta", "same.test"]);
    home.assert_idle();
}

#[test]
fn a_start_tab_that_no_card_has_is_refused_naming_tab_and_browser() {
    let home = Home::empty();
    home.put(&nameless("alpha", "['late.test']").bundle());
    let tabs = "start_tabs = [\"https://late.test/\", \"https://elsewhere.test/x\"]\n";
    home.put(&Bundle::new(&format!("format = 1\nkind = \"browser\"\nname = \"tabs\"\n{tabs}")));
    home.put(&Bundle::multi("late-desk", &["alpha"], Some("tabs")));
    let refused = home.run(&["env", "deploy", "late-desk"]);
    refused.fails(ExitCode::Refused, &["https://elsewhere.test/x", "tabs", "elsewhere.test"]);
    home.assert_idle();
}

#[test]
fn a_start_tab_that_does_not_load_is_no_ready_deploy() {
    let broken = "class Site(Site):\n    def do_GET(self):\n        \
                  if self.path == '/broken': return self.answer(500, 'out of order', 'text/plain')\n        return super().do_GET()\n";
    let home = Home::empty();
    home.put(&PySite::new("alpha").before(broken).bundle());
    let tabs = "start_tabs = [\"https://alpha.test/\", \"https://alpha.test/broken\"]\n";
    home.put(&Bundle::new(&format!("format = 1\nkind = \"browser\"\nname = \"tabs\"\n{tabs}")));
    home.put(&Bundle::multi("desk", &["alpha"], Some("tabs")));
    let refused = home.run(&["env", "deploy", "desk"]);
    refused.fails(ExitCode::Infrastructure, &["https://alpha.test/broken", "tabs", "500"]);
    home.assert_idle();
}
