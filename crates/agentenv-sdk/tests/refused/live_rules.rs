//! PR-5: every rule about live sites, all of one declaration at once.
use agentenv_sdk::website;

#[website(live = true)]
struct WithoutDomains;

#[website(domains = ["shop.test"], allow_hosts = ["cdn.test"])]
struct AllowHostsNotLive;

#[website(allow_hosts = ["cdn.test"], name = "Bad Name")]
struct ThreeProblems;

const NONE: &[&str] = &[];
const HOSTS: &[&str] = &["cdn.test"];

#[website(domains = NONE, allow_hosts = HOSTS)]
struct FoundByTheCompiler;

fn main() {}
