//! What most tests deploy: two small sites and a browser.

use agentenv_tests::{Bundle, Deploy, Home, PySite};

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
