//! Debian packages: what is needed, what is missing, installing it.

use std::{fs, process::Command};

use crate::run::{self, Failure, install_line, say, step};

/// What a deploy with a browser needs, and what the demo's sites need to be built.
pub const DEMO: &[&str] = &[
    "ca-certificates",
    "chromium",
    "fonts-dejavu-core",
    "fonts-liberation",
    "fonts-noto-cjk",
    "fonts-noto-color-emoji",
    "gcc",
    "libc6-dev",
    "python3",
    "python3-pip",
    "python3-venv",
    "uidmap",
];

/// What the tests need beyond that.
const TESTS_ONLY: &[&str] = &[
    "curl",
    "git",
    "iproute2",
    "locales",
    "mousepad",
    "openbox",
    "openssl",
    "pcmanfm",
    "tcpdump",
    "tigervnc-standalone-server",
    "tint2",
    "tshark",
    "util-linux",
    "x11-utils",
    "xterm",
    "xvfb",
];

/// What `bench computer` needs: a desktop, and what it is compared with.
pub const BENCH_COMPUTER: &[&str] =
    &["mousepad", "openbox", "pcmanfm", "scrot", "tigervnc-standalone-server", "tint2", "xdotool", "xterm", "xvfb"];

/// What the tests need.
pub const TESTS: &[&str] = &{
    let mut all = [""; DEMO.len() + TESTS_ONLY.len()];
    let mut at = 0;
    while at < DEMO.len() {
        all[at] = DEMO[at];
        at += 1;
    }
    while at < all.len() {
        all[at] = TESTS_ONLY[at - DEMO.len()];
        at += 1;
    }
    all
};

/// Installs what is missing as root; says what to run as anybody else.
pub fn install_missing(wanted: &[&str]) -> Result<(), Failure> {
    let missing = missing(wanted)?;
    if missing.is_empty() {
        return Ok(());
    }
    if !is_root() {
        return Err(Failure::Missing(missing));
    }
    step(&format!("install {}", missing.join(" ")), || {
        let apt = |arguments: &[&str]| {
            run::run(
                Command::new("apt-get")
                    .env("DEBIAN_FRONTEND", "noninteractive")
                    .args(["--quiet=2", "--option", "Dpkg::Use-Pty=0"])
                    .args(arguments),
            )
        };
        say!("    {}", install_line(&missing));
        apt(&["update"])?;
        let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
        arguments.extend(missing.iter().map(String::as_str));
        apt(&arguments)
    })
}

/// The packages of these that are not installed.
fn missing(wanted: &[&str]) -> Result<Vec<String>, Failure> {
    // dpkg-query ends with 1 where it doesn't know a package: that is an answer here.
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat", "${Package} ${db:Status-Status}\n"])
        .args(wanted)
        .output()
        .map_err(|error| Failure::Start("dpkg-query (the set-up knows Debian's packages only)".to_owned(), error))?;
    Ok(not_installed(wanted, &String::from_utf8_lossy(&output.stdout)))
}

fn not_installed(wanted: &[&str], status: &str) -> Vec<String> {
    let installed: Vec<&str> = status.lines().filter_map(|line| line.strip_suffix(" installed")).collect();
    wanted.iter().filter(|package| !installed.contains(package)).map(|&package| package.to_owned()).collect()
}

/// Whether this process may install packages.
pub fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("Uid:")).and_then(|ids| ids.split('\t').nth(2));
    effective == Some("0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing() {
        let status = "chromium installed\ncurl config-files\nuidmap installed\n";
        assert_eq!(not_installed(&["chromium", "curl", "uidmap", "git"], status), ["curl", "git"]);
        assert_eq!(
            Failure::Missing(vec!["curl".to_owned(), "git".to_owned()]).to_string().lines().last(),
            Some("apt-get update && apt-get install --yes --no-install-recommends curl git")
        );
    }

    #[test]
    fn the_tests_need_what_the_demo_needs() {
        assert!(DEMO.iter().chain(TESTS_ONLY).all(|package| TESTS.contains(package)));
    }
}
