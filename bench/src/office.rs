//! The project's office, stored in a home of the benchmark's own, deployed, and its floor.

use std::{
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use agentenv_tests::{Bundle, Home, clone_root};
use serde_json::Value;

use crate::{
    floor::{Pod, Service},
    seen,
};

/// The browser of the office.
pub const BROWSER: &str = "desk-browser";
/// The env of the two sites alone.
pub const SITES: &str = "sites-only";
/// The env of the two sites and the browser.
pub const OFFICE: &str = "office";

/// A home where the office is stored.
pub fn home() -> Home {
    let home = Home::empty();
    for (kind, bundle) in
        [("website", "sites/shop"), ("website", "sites/tracker"), ("env", "envs/desk-browser"), ("env", "envs/office")]
    {
        let bundle = clone_root().join(bundle).display().to_string();
        let done = home.command([kind, "put", &bundle]).stdin(Stdio::null()).output().expect("the program starts");
        assert!(done.status.success(), "{bundle}: {}", String::from_utf8_lossy(&done.stderr));
    }
    home.put(&Bundle::multi(SITES, &["shop", "tracker"], None));
    home
}

/// Runs a command to its end, and says how long it took.
pub fn timed(home: &Home, arguments: &[&str]) -> (Value, Duration) {
    let mut command = home.command(arguments.iter().copied());
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let began = Instant::now();
    let done = command.output().expect("the program starts");
    let took = began.elapsed();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    (serde_json::from_slice(&done.stdout).unwrap_or_default(), took)
}

/// What the office runs.
pub struct Parts {
    /// The services of both sites.
    pub sites: Vec<Pod>,
    /// The browser.
    pub browser: Service,
}

impl Parts {
    /// Looks at a deploy, which is closed again.
    pub fn of(home: &Home) -> Self {
        let deploy = home.deploy(OFFICE);
        let [shop, tracker] = ["shop", "tracker"].map(|site| tree(home, site));
        let sites = vec![
            vec![seen::service(&deploy, "shop", "server", &shop)],
            vec![
                seen::service(&deploy, "tracker", "server", &tracker),
                seen::service(&deploy, "tracker", "frontend", &tracker),
            ],
        ];
        let browser = seen::browser(&deploy, BROWSER, 2);
        deploy.close();
        Self { sites, browser }
    }

    /// The sandboxes of the sites, and of the browser where it is wanted.
    pub fn pods(&self, with_browser: bool) -> Vec<Pod> {
        let browser = with_browser.then(|| vec![self.browser.clone()]);
        self.sites.iter().cloned().chain(browser).collect()
    }
}

/// The unpacked tree of a site.
fn tree(home: &Home, site: &str) -> PathBuf {
    let (shown, _) = timed(home, &["env", "show", site, "--json"]);
    let digest = shown["tree"].as_str().unwrap_or_else(|| panic!("{site} has no tree: {shown}"));
    let cache = std::env::var_os("AGENTENV_CACHE_DIR")
        .map_or_else(|| agentenv_tests::target().join("site-cache"), PathBuf::from);
    cache.join("trees").join(digest)
}
