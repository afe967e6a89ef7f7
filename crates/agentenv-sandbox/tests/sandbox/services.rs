//! What a service finds and what may go wrong with it.

use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _};

use agentenv_sandbox::{ExitInfo, Mount, NetworkKind, SandboxError, ServiceSpec};

use crate::{probe, support::*};

crate::trials![
    data_outlives_services_and_nothing_else_does,
    every_file_system_is_limited,
    the_generated_etc_is_the_callers,
    what_cannot_be_started_is_named,
    a_source_under_a_closed_folder_is_mounted,
    exec_joins_the_service,
    terminals_are_the_services_own,
    a_service_begins_when_what_has_to_be_first_is_done_or_never,
    limits_hold,
];

fn data_outlives_services_and_nothing_else_does() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let write = "for d in /data /tmp /home/agent /dev/shm; do echo x > $d/file; done";
    assert_eq!(host.output(&sandbox, &["sh", "-c", write]).exit, ExitInfo::Code(0));
    let kept = host.output(&sandbox, &["sh", "-c", "ls -A /data /tmp /home/agent /dev/shm"]).stdout;
    assert_eq!(kept.matches("file").count(), 1, "{kept}");
    // Services of one pod share it while both run, too.
    let mut writer = host.start(&sandbox, &spec(&sandbox, &["sh", "-c", "echo y > /data/live; echo done; sleep 1000"]));
    assert_eq!(line(&mut writer), "done");
    assert_eq!(host.output(&sandbox, &["cat", "/data/live"]).stdout, "y\n");
    let other = host.create(NetworkKind::Pod);
    assert_eq!(host.output(&other, &["ls", "-A", "/data"]).stdout, "");
    let without = ServiceSpec { data: false, ..spec(&other, &["ls", "/data"]) };
    assert_eq!(finish(host.start(&other, &without)).exit, ExitInfo::Code(2));
}

fn every_file_system_is_limited() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    for folder in ["/data", "/tmp", "/dev/shm", "/home/agent"] {
        assert_eq!(host.probe(&sandbox, &["fill", &format!("{folder}/file")]), "ENOSPC");
        let files: u64 = host.probe(&sandbox, &["files", folder]).parse().unwrap();
        assert!((200..70_000).contains(&files), "{folder}: {files} empty files");
    }
    let mounts = host.output(&sandbox, &["cat", "/proc/mounts"]).stdout;
    for mount in mounts.lines().filter(|line| line.contains(" tmpfs ")) {
        assert!(mount.contains("size=") && mount.contains("nr_inodes=") && mount.contains("nosuid,nodev"), "{mount}");
    }
    // What comes from the host can't be written, and has no devices and no set-uid programs.
    for mount in mounts.lines().filter(|line| !["tmpfs", "proc", "devtmpfs"].iter().any(|kind| line.contains(kind))) {
        assert!(mount.contains(" ro,nosuid,nodev"), "{mount}");
    }
}

fn the_generated_etc_is_the_callers() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Browser);
    let certificates = "/etc/ssl/certs/ca-certificates.crt";
    let etc = [
        ("hosts", "127.0.0.1 localhost db\n"),
        ("resolv.conf", "nameserver 127.0.0.9\n"),
        ("chromium/policies/managed/x.json", "{}"),
        ("ssl/certs/ca-certificates.crt", "ours\n"),
    ];
    let etc = etc.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())).to_vec();
    let files = ["/etc/hosts", "/etc/resolv.conf", "/etc/chromium/policies/managed/x.json", certificates];
    let command: Vec<_> = ["cat"].into_iter().chain(files).collect();
    let output = finish(host.start(&sandbox, &ServiceSpec { etc, ..spec(&sandbox, &command) }));
    assert_eq!(output.stdout, "127.0.0.1 localhost db\nnameserver 127.0.0.9\n{}ours\n", "{}", output.stderr);
    // A bundle of a real size, and more than a message holds.
    let etc = vec![("big".to_owned(), vec![b'x'; 3 << 20])];
    let big = ServiceSpec { etc, ..spec(&sandbox, &["wc", "-c", "/etc/big"]) };
    assert_eq!(finish(host.start(&sandbox, &big)).stdout.trim(), "3145728 /etc/big");
    assert!(host.output(&sandbox, &["cat", "/etc/nsswitch.conf"]).stdout.contains("hosts: files dns\n"));
    assert_eq!(host.output(&sandbox, &["uname", "-n"]).stdout, "shop\n");
}

fn what_cannot_be_started_is_named() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let script = folder.path().join("script");
    fs::write(&script, "#!/opt/nowhere/python\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.path().join("text"), "x").unwrap();
    let start = |command: &[&str], change: &dyn Fn(&mut ServiceSpec)| {
        let mut spec = spec(&sandbox, command);
        spec.mounts.push(Mount::ReadOnly { source: folder.path().to_owned(), target: "/site".into() });
        change(&mut spec);
        host.spawner.start(&sandbox, &spec, &environment()).unwrap_err()
    };
    let same = |_: &mut ServiceSpec| {};
    let before = crate::lifecycle::descendants(host.spawner.pid());
    let error = start(&["no-such-program"], &same);
    assert!(matches!(&error, SandboxError::ProgramMissing { program, .. } if program == "no-such-program"), "{error}");
    let error = start(&["/site/none"], &same);
    assert!(matches!(&error, SandboxError::ProgramMissing { program, .. } if program == "/site/none"), "{error}");
    let error = start(&["/site/script"], &same);
    assert!(matches!(&error, SandboxError::InterpreterMissing { program, .. } if program == "/site/script"), "{error}");
    let error = start(&["/site/text"], &same);
    assert!(matches!(&error, SandboxError::ProgramRefused { program, .. } if program == "/site/text"), "{error}");
    let error = start(&["true"], &|spec| spec.cwd = "/site/none".into());
    assert!(matches!(&error, SandboxError::Cwd { path, .. } if path.ends_with("site/none")), "{error}");
    let gone = folder.path().join("gone");
    let error = start(&["true"], &|spec| {
        spec.mounts.push(Mount::ReadOnly { source: gone.clone(), target: "/tool".into() });
    });
    assert!(matches!(&error, SandboxError::Source { path, .. } if *path == gone), "{error}");
    assert!(error.hint().is_some());
    let error = start(&[], &same);
    assert!(matches!(&error, SandboxError::Spec { .. }), "{error}");
    eventually("nothing of them is left", || crate::lifecycle::descendants(host.spawner.pid()).len() == before.len());
    assert_eq!(host.output(&sandbox, &["true"]).exit, ExitInfo::Code(0));
}

fn a_source_under_a_closed_folder_is_mounted() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    // A state directory is 0700; what is mounted from it is readable all the same, and nothing beside it.
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let tree = state.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::set_permissions(&tree, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(tree.join("file"), "site").unwrap();
    fs::write(state.path().join("token"), "secret").unwrap();
    std::os::unix::fs::symlink("../token", tree.join("link")).unwrap();
    let mut spec = spec(&sandbox, &["sh", "-c", "cat /site/file; cat /site/link /site/../token; echo x > /site/file"]);
    spec.mounts.push(Mount::ReadOnly { source: tree.clone(), target: "/site".into() });
    spec.mounts.push(Mount::Tmpfs { target: "/opt/scratch".into(), bytes: 1 << 20 });
    spec.cwd = "/opt/scratch".into();
    let output = finish(host.start(&sandbox, &spec));
    assert_eq!(output.stdout, "site");
    assert!(output.stderr.contains("Read-only file system") && !output.stderr.contains("secret"), "{}", output.stderr);
}

fn terminals_are_the_services_own() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Browser);
    let script = "import os, pty\nmaster, slave = pty.openpty()\nprint(os.ttyname(slave), os.listdir('/dev/pts'))";
    let mut with = spec(&sandbox, &["/usr/bin/python3", "-c", script]);
    with.mounts.push(Mount::Terminals);
    let output = finish(host.start(&sandbox, &with));
    // The first of its own: none of the host's is among them.
    assert_eq!(output.stdout, "/dev/pts/0 ['0', 'ptmx']\n", "{}", output.stderr);
    let without = spec(&sandbox, &["sh", "-c", "ls /dev/pts /dev/ptmx /dev/tty; true"]);
    assert_eq!(finish(host.start(&sandbox, &without)).stdout, "");
}

fn exec_joins_the_service() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let mut service = host.start(&sandbox, &spec(&sandbox, &["sh", "-c", "echo x > /tmp/mine; echo up; sleep 1000"]));
    assert_eq!(line(&mut service), "up");
    let command = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let script =
        "cat; cat /tmp/mine; id -u; hostname; cat /proc/1/comm; grep -E 'Cap|NoNew|Seccomp:' /proc/self/status; exit 5";
    let mut beside = host.spawner.exec(&sandbox, &service, command(&["sh", "-c", script]), &environment()).unwrap();
    fs::File::from(beside.stdin.take().unwrap()).write_all(b"from outside\n").unwrap();
    let output = finish(beside);
    assert_eq!(output.exit, ExitInfo::Code(5), "{}", output.stderr);
    assert!(output.stdout.starts_with("from outside\nx\n1000\nshop\nae-init\n"), "{}", output.stdout);
    assert_eq!(output.stdout.matches("0000000000000000").count(), 5);
    assert!(output.stdout.contains("NoNewPrivs:\t1") && output.stdout.contains("Seccomp:\t2"));
    let attack = command(&[PROBE, probe::COMMAND, "calls"]);
    let output = finish(host.spawner.exec(&sandbox, &service, attack, &environment()).unwrap());
    assert!(output.stdout.contains("mount EPERM") && output.stdout.contains("setns EPERM"), "{}", output.stdout);
    let missing = host.spawner.exec(&sandbox, &service, command(&["no-such"]), &environment());
    assert!(matches!(missing, Err(SandboxError::ProgramMissing { .. })));
    // It ends with the service.
    let long = host.spawner.exec(&sandbox, &service, command(&["sleep", "1000"]), &environment()).unwrap();
    service.kill();
    assert_eq!(long.wait_exit(LIMIT), Some(ExitInfo::Signal(9)));
    assert!(host.spawner.exec(&sandbox, &service, command(&["true"]), &environment()).is_err());
}

fn limits_hold() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let limits = host.output(&sandbox, &["cat", "/proc/self/limits"]).stdout;
    for (name, value) in [("Max open files", "1024"), ("Max processes", "1024"), ("Max core file size", "0")] {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        assert_eq!(line.split_ascii_whitespace().take(2).collect::<Vec<_>>(), [value, value], "{name}");
    }
    // A fork bomb (row 59) meets its limit, and a neighbour of the same pod does not.
    let mut bomb =
        spec(&sandbox, &["sh", "-c", "i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done; echo all"]);
    bomb.limits.nproc = 50;
    let output = finish(host.start(&sandbox, &bomb));
    assert!(!output.stdout.contains("all"), "{}", output.stdout);
    assert_eq!(host.output(&sandbox, &["true"]).exit, ExitInfo::Code(0));
}

fn a_service_begins_when_what_has_to_be_first_is_done_or_never() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let writes = spec(&sandbox, &["sh", "-c", "echo began > /data/began"]);
    let seen = || host.output(&sandbox, &["ls", "/data"]).stdout;
    let refused = host.spawner.start_after(&sandbox, &writes, &environment(), || false);
    assert!(matches!(refused, Err(SandboxError::CalledOff { .. })), "{refused:?}");
    let begun = host.spawner.start_after(&sandbox, &writes, &environment(), || {
        // It is prepared by now, or soon; and has not begun.
        assert_eq!(seen(), "");
        true
    });
    assert_eq!(finish(begun.unwrap()).exit, ExitInfo::Code(0));
    assert_eq!(seen(), "began\n");
    let missing = host.spawner.start_after(&sandbox, &spec(&sandbox, &["/nowhere"]), &environment(), || true);
    assert!(matches!(missing, Err(SandboxError::ProgramMissing { .. })), "{missing:?}");
}
