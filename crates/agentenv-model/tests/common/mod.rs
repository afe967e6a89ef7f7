//! Envs as `put` has stored them.

use agentenv_model::{EnvSpec, EnvVersion, FileSpec, parse_env, resolve_multi};
use agentenv_protocol::Digest;

/// A stored env, by its env.toml without `format`; a multi env names some of `members`.
pub fn stored(text: &str, version: u64, members: &[EnvVersion]) -> EnvVersion {
    let file = parse_env("env.toml", &format!("format = 1\n{text}")).unwrap_or_else(|problems| panic!("{problems}"));
    let (spec, tree) = match file.spec {
        FileSpec::Website(site) => (EnvSpec::Website(site), Some(Digest::parse(&"ab".repeat(32)).unwrap())),
        FileSpec::Browser(browser) => (EnvSpec::Browser(browser), None),
        FileSpec::Computer(computer) => (EnvSpec::Computer(computer), None),
        FileSpec::Multi(multi) => (EnvSpec::Multi(resolve_multi(&multi, members, false).unwrap()), None),
    };
    EnvVersion { name: file.name, version, spec, tree }
}
