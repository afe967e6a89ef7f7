//! Row 70: the Nth system call of a creation fails.

use agentenv_sandbox::{ExitInfo, NetworkKind, SandboxError, ServiceSpec, process::ProcessId};
use rustix::io::Errno;

use crate::support::*;

crate::trials![row_70_any_call_may_fail, row_70_without_descriptors_the_supervisor_gets_errors];

/// How the marker of a spawner begins that has a seccomp listener above it.
pub const LISTENED: &str = "listened";

/// What the spawner's marker says in these tests: `fail:NTH:ERRNO`, [`LISTENED`], or a deploy's id.
pub fn spawner(marker: &str) -> ! {
    if let Some((nth, errno)) = marker.strip_prefix("fail:").and_then(|rest| rest.split_once(':')) {
        agentenv_sandbox::spawner_main_failing(nth.parse().unwrap(), errno.parse().unwrap());
    }
    if marker.starts_with(LISTENED) {
        crate::probe::listen_to_calls().unwrap();
    }
    agentenv_sandbox::spawner_main()
}

/// Calls that a start makes at most; the loop below ends when a run makes fewer than it was to fail.
const MAX_CALLS: u32 = 1000;

fn row_70_any_call_may_fail() {
    // Every call once; with the other errors, and in a browser's sandbox, one in a few.
    let kinds = [
        (Errno::NOMEM, NetworkKind::Pod, 1),
        (Errno::NOSPC, NetworkKind::Browser, 13),
        (Errno::MFILE, NetworkKind::Pod, 17),
    ];
    for (errno, network, step) in kinds {
        let done = (1..MAX_CALLS).step_by(step).find(|&nth| !fails_cleanly(nth, errno, network));
        let done = done.expect("a creation makes fewer calls");
        assert!(done > 100, "only {done} calls are behind the gate");
    }
}

/// Whether the creation failed; if it did, with a clean error, nothing left, and a spawner that goes on.
fn fails_cleanly(nth: u32, errno: Errno, network: NetworkKind) -> bool {
    let host = Host::marked(&format!("fail:{nth}:{}", errno.raw_os_error()));
    let attempt = host.try_create(network).and_then(|sandbox| {
        // With a socket maker, whose calls can fail too.
        let client_ports = (network == NetworkKind::Pod).then_some(40_000..=50_000);
        let spec = ServiceSpec { client_ports, ..spec(&sandbox, &["true"]) };
        host.spawner.start(&sandbox, &spec, &environment()).map(|service| (sandbox, service))
    });
    let error = match attempt {
        Ok((_sandbox, service)) => {
            assert_eq!(service.wait_exit(LIMIT), Some(ExitInfo::Code(0)));
            return false;
        }
        Err(error) => error,
    };
    match &error {
        SandboxError::Setup { source, step, .. } => {
            assert_eq!(source.raw_os_error(), Some(errno.raw_os_error()), "{error}");
            assert!(!step.is_empty());
        }
        // The calls that report a failure can fail too.
        SandboxError::Died { .. } | SandboxError::Source { .. } => {}
        other => panic!("call {nth}: {other:?}"),
    }
    let below = || std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", host.spawner.pid())).unwrap();
    eventually(&format!("nothing is left of call {nth}: {error}"), || {
        below().split_ascii_whitespace().all(|pid| ProcessId::of(pid.parse().unwrap()).is_none())
    });
    let sandbox = host.create(network);
    assert_eq!(host.output(&sandbox, &["true"]).exit, ExitInfo::Code(0));
    true
}

/// In a process of its own, since the limit is the process's.
fn row_70_without_descriptors_the_supervisor_gets_errors() {
    let exe = std::env::current_exe().unwrap();
    let output = std::process::Command::new(exe).args([crate::SUPERVISOR, crate::SHORT]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs out of descriptors in the middle of creating, placing and starting, one descriptor later each time.
pub fn short_of_descriptors() -> ! {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let limits = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum: limits.maximum }).unwrap();
    let (spec, environment) = (spec(&sandbox, &["true"]), environment());
    let (mut created, mut started, mut placed) = (0, 0, 0);
    for free in 0..40 {
        let mut fillers = Vec::new();
        while let Ok(filler) = std::fs::File::open("/dev/null") {
            fillers.push(filler);
        }
        fillers.truncate(fillers.len() - free);
        created += u32::from(host.try_create(NetworkKind::Pod).is_ok());
        started += u32::from(host.spawner.start(&sandbox, &spec, &environment).is_ok());
        placed += u32::from(sandbox.tcp(10).is_ok());
    }
    // Each worked once there was room, and the sandbox never broke.
    assert!((1..40).contains(&created) && (1..40).contains(&started) && (1..40).contains(&placed));
    assert_eq!(host.output(&sandbox, &["true"]).exit, ExitInfo::Code(0));
    std::process::exit(0)
}
