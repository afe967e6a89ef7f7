//! What most tests deploy: two small sites and a browser.

use agentenv_tests::{Bundle, Deploy, Home, PySite};
use serde_json::Value;

use crate::python::program;

/// The service that most programs run in.
pub const SERVICE: &str = "alpha/server";

/// Where X servers listen: nobody's is to be reached from a sandbox that has none.
pub const DISPLAYS: [&str; 2] = ["/tmp/.X11-unix/X0", "\0/tmp/.X11-unix/X0"];

/// Stored as `lookout`: a browser without start tabs.
pub fn browser_env() -> Bundle {
    Bundle::new("format = 1\nkind = \"browser\"\nname = \"lookout\"\n")
}

/// A home where `desk` is stored: the sites `alpha.test` and `beta.test`, and a browser.
pub fn desk() -> Home {
    desk_of(&[PySite::new("alpha"), PySite::new("beta")])
}

/// A home where `desk` is stored: these sites, and a browser.
pub fn desk_of(sites: &[PySite]) -> Home {
    let home = sites_only(sites);
    home.put(&browser_env());
    let names: Vec<&str> = sites.iter().map(PySite::name).collect();
    home.put(&Bundle::multi("desk", &names, Some("lookout")));
    home
}

/// A home where these sites are stored, and `pods`, all of them without a browser.
pub fn pods(sites: &[PySite]) -> Home {
    let home = sites_only(sites);
    let names: Vec<&str> = sites.iter().map(PySite::name).collect();
    home.put(&Bundle::multi("pods", &names, None));
    home
}

fn sites_only(sites: &[PySite]) -> Home {
    let home = Home::empty();
    for site in sites {
        home.put(&site.bundle());
    }
    home
}

/// The sandbox of a deploy's browser.
pub fn browser_of<'d>(deploy: &'d Deploy<'_>) -> &'d str {
    deploy.info.browsers.first().expect("the deploy has a browser").name.as_str()
}

/// Runs the program in a service and in the browser, and gives both answers to the check.
#[track_caller]
pub fn everywhere(body: &str, check: impl Fn(&str, &Value)) {
    let home = desk();
    let deploy = home.deploy("desk");
    for sandbox in [SERVICE, browser_of(&deploy)] {
        check(sandbox, &deploy.python(sandbox, &program(body)));
    }
}

/// Checks that every attempt in the answer failed.
#[track_caller]
pub fn all_refused(sandbox: &str, answer: &Value) {
    for (attempt, outcome) in answer.as_object().expect("an object of attempts") {
        let outcome = outcome.as_str().unwrap_or_default();
        assert!(!outcome.starts_with("ok"), "{sandbox}: {attempt} worked: {outcome}");
    }
}
