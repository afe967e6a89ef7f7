//! The sandbox, for real: namespaces, mounts, filters, Chromium. Runs as root and as an ordinary user.
//!
//! The spawner is this program started again, and so is what attacks a sandbox from inside; hence a `main` of its own.

#![expect(clippy::print_stdout, reason = "a probe says what it saw on its standard output")]

mod attacks;
mod captures;
mod client_ports;
mod faults;
mod lifecycle;
mod network;
mod probe;
mod programs;
mod services;
mod support;

use libtest_mimic::{Arguments, Trial};

/// The word that makes this program a supervisor that is going to be killed.
const SUPERVISOR: &str = "internal-supervisor";
/// Instead of a marker: that it runs out of descriptors.
const SHORT: &str = "short-of-descriptors";

fn main() {
    let words: Vec<String> = std::env::args().collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, agentenv_sandbox::SPAWNER_COMMAND, marker] => faults::spawner(marker),
        [_, SUPERVISOR, SHORT] => faults::short_of_descriptors(),
        [_, SUPERVISOR, marker] => lifecycle::supervisor(marker),
        [_, captures::small_disk::SMALL_DISK, disk] => captures::small_disk::on_a_small_disk(disk.as_ref()),
        [_, probe::COMMAND, ref probe @ ..] => probe::run(probe),
        _ => {}
    }
    let tests = [
        attacks::tests(),
        captures::tests(),
        captures::readers::tests(),
        captures::small_disk::tests(),
        client_ports::tests(),
        faults::tests(),
        lifecycle::tests(),
        network::tests(),
        programs::tests(),
        services::tests(),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests.concat_trials()).exit();
}

trait Concat {
    fn concat_trials(self) -> Vec<Trial>;
}

impl<const N: usize> Concat for [Vec<Trial>; N] {
    fn concat_trials(self) -> Vec<Trial> {
        self.into_iter().flatten().collect()
    }
}

/// Lists functions as tests under their own names.
macro_rules! trials {
    ($($name:ident),* $(,)?) => {
        pub fn tests() -> Vec<libtest_mimic::Trial> {
            vec![$(libtest_mimic::Trial::test(
                concat!(module_path!(), "::", stringify!($name)).replace("sandbox::", ""),
                || { $name(); Ok(()) },
            )),*]
        }
    };
}
pub(crate) use trials;
