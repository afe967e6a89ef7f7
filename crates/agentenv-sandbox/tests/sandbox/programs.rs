//! Real programs run, as on a host.

use crate::support::*;
use agentenv_sandbox::{ExitInfo, NetworkKind};

crate::trials![a_program_runs_and_its_exit_is_known];

fn a_program_runs_and_its_exit_is_known() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let output = host.output(&sandbox, &["sh", "-c", "echo out; echo err >&2; id; ls -la / /etc /dev /dev/shm /home /proc/1; cat /proc/self/status /proc/mounts; ls -l /proc/self/fd; exit 7"]);
    assert_eq!(output.exit, ExitInfo::Code(7), "{} {}", output.stdout, output.stderr);
    println!("{} {}", output.stdout, output.stderr);
}
