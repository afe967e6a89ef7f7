//! `cargo xtask bench deploy|reset`: how long a deploy and a reset take, against the floor, measured in turns in one run.
//!
//! The floor is the same processes in the same namespaces and nothing else: cloned, given the files they need, started in the
//! same order, and waited for until they listen. No gateway, no cards, no filters, no probes, no records.

mod deploys;
mod floor;
mod numbers;
mod resets;
mod say;
mod sites;

use std::process::ExitCode;

use say::say;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        // Re-executed by the floor, once for each sandbox and each service.
        [floor::SANDBOX, spec] => floor::sandbox(spec),
        [floor::SERVICE, spec] => floor::service(spec),
        ["deploy" | "reset"] if !agentenv_tests::is_root() => {
            say!("the floor is made without a helper for ids: run the benchmarks as root");
            return ExitCode::from(3);
        }
        ["deploy"] => deploys::bench(),
        ["reset"] => resets::bench(),
        _ => {
            say!("usage: agentenv-bench deploy|reset");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
