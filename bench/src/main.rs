//! `cargo xtask bench deploy|reset|computer|capture|proxy`: how long a deploy, a reset and a teardown take, against the floor, in turns in one run;
//! what a capture loses and costs, and what the network's proxies do, against other programs.
//!
//! The floor is the same processes in the same namespaces and nothing else: the sandbox crate alone, told to start what a
//! deploy was seen to run, in the same order, and to wait until it is up. No command line, store, plan, records, gateway, cards,
//! `ready`, logs or probes. It loads as many tabs as a deploy does, with one word each.

mod captures;
mod computers;
mod deploys;
mod devtools;
mod floor;
mod numbers;
mod office;
mod proxy;
mod resets;
mod say;
mod seen;

use std::process::ExitCode;

use say::say;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        // The floor's spawner is this program again.
        [agentenv_sandbox::SPAWNER_COMMAND, ..] => agentenv_sandbox::spawner_main(),
        ["deploy"] => deploys::bench(),
        ["reset"] => resets::bench(),
        ["computer"] => computers::bench(),
        ["capture"] => captures::bench(),
        [captures::INSIDE] => captures::inside(),
        ["proxy"] => proxy::bench(),
        [proxy::INSIDE] => proxy::inside(),
        [proxy::ours::OURS, folder] => proxy::ours::serve(folder.as_ref()),
        [proxy::splice::SPLICE] => proxy::splice::serve(),
        _ => {
            say!("usage: agentenv-bench deploy|reset|computer|capture|proxy");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
