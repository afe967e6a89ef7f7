//! Rows of ATTACKS.md, tried from inside.

use std::os::linux::net::SocketAddrExt as _;

use agentenv_sandbox::{ExitInfo, NetworkKind, Service, UidAllocator, UidMode};

use crate::{probe, support::*};

crate::trials![
    row_36_there_is_nowhere_to_go,
    row_37_a_browser_has_no_ipv6,
    row_45_kernel_files_are_refused,
    row_46_there_is_no_sys_and_no_cgroup,
    row_47_the_hosts_sockets_are_absent,
    row_48_49_52_calls_are_refused,
    row_49_namespaces_only_where_a_browser_needs_them,
    row_50_90_only_three_pipes_are_open,
    row_51_no_capability_no_new_privilege_a_filter,
    row_53_84_only_families_with_a_namespace,
    row_77_orphans_are_reaped,
    row_85_86_nothing_of_the_host_shows,
    row_87_attacks_on_pid_1_are_harmless,
    row_87_attacks_on_pid_1_are_harmless_with_a_single_uid,
    row_88_one_sandbox_cannot_exhaust_another,
    row_94_a_frontend_cannot_read_the_servers_settings,
    row_58_secrets_are_in_the_service_alone,
    row_60_what_is_inside_dies_before_the_host,
];

/// `name value` lines as pairs.
fn pairs(text: &str) -> Vec<(&str, &str)> {
    text.lines().map(|line| line.rsplit_once(' ').unwrap()).collect()
}

fn value<'t>(text: &'t str, name: &str) -> &'t str {
    let found = pairs(text).into_iter().find(|(key, _)| *key == name);
    found.unwrap_or_else(|| panic!("no {name} in {text}")).1
}

fn row_36_there_is_nowhere_to_go() {
    let host = Host::new();
    for network in [NetworkKind::Pod, NetworkKind::Browser] {
        let sandbox = host.create(network);
        let text = host.probe(&sandbox, &["nowhere"]);
        for (what, outcome) in
            pairs(&text).iter().filter(|(what, _)| what.starts_with("tcp") || what.starts_with("udp"))
        {
            assert!(["ENETUNREACH", "EADDRNOTAVAIL"].contains(outcome), "{what} {outcome}");
        }
        assert_eq!(value(&text, "links"), if network == NetworkKind::Pod { "lo" } else { "eth0,lo" });
        assert_eq!(value(&text, "routes"), "0");
    }
    let sandbox = host.create(NetworkKind::Pod);
    let output = host.output(&sandbox, &["curl", "--noproxy", "*", "-sS", "-m", "5", "http://1.1.1.1/"]);
    assert_eq!(output.exit, ExitInfo::Code(7), "{}", output.stderr);
}

fn row_37_a_browser_has_no_ipv6() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Browser);
    assert_eq!(value(&host.probe(&sandbox, &["nowhere"]), "inet6"), "0");
}

fn row_45_kernel_files_are_refused() {
    let host = Host::new();
    for network in [NetworkKind::Pod, NetworkKind::Browser] {
        let sandbox = host.create(network);
        let files = [
            "w:/proc/sys/kernel/core_pattern",
            "w:/proc/sys/kernel/modprobe",
            "w:/proc/sys/vm/overcommit_memory",
            "w:/proc/sys/net/ipv4/ip_unprivileged_port_start",
            "w:/proc/sysrq-trigger",
            "d:/proc/1/root/",
            "/proc/kcore",
            "c:/proc/1/oom_score_adj",
        ];
        let text = host.probe(&sandbox, &[&["open"], &files[..]].concat());
        for (file, outcome) in pairs(&text) {
            assert!(["EACCES", "EPERM", "EROFS", "ENOENT"].contains(&outcome), "{file} {outcome}");
        }
    }
}

fn row_46_there_is_no_sys_and_no_cgroup() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let folders =
        ["d:/sys", "d:/sys/fs/cgroup", "d:/run", "d:/var", "d:/root", "d:/mnt", "d:/opt", "d:/srv", "d:/boot"];
    let text = host.probe(&sandbox, &[&["open"], &folders[..]].concat());
    assert!(pairs(&text).iter().all(|(_, outcome)| *outcome == "ENOENT"), "{text}");
    let output = host.output(&sandbox, &["ls", "-A", "/", "/home"]);
    let expected = "/:\nbin\ndata\ndev\netc\nhome\nlib\nlib64\nprobe\nproc\nsbin\ntmp\nusr\n\n/home:\nagent\n";
    let listed: Vec<_> = output.stdout.lines().filter(|line| !["lib32", "libx32"].contains(line)).collect();
    assert_eq!(listed, expected.lines().collect::<Vec<_>>());
    // The old root is gone, not only out of sight; and nothing else is mounted.
    let mounts = host.output(&sandbox, &["cat", "/proc/mounts"]).stdout;
    let targets: Vec<_> = mounts.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(targets.iter().filter(|target| **target == "/").count(), 1, "{mounts}");
    let known = ["/usr", "/etc/", "/dev/", "/proc", "/tmp", "/data", "/home/agent", "/probe", "/lib32", "/libx32"];
    assert!(targets.iter().all(|target| *target == "/" || known.iter().any(|top| target.starts_with(top))), "{mounts}");
    // Nothing can be added to it either.
    let text =
        host.probe(&sandbox, &["open", "c:/new", "c:/etc/new", "c:/usr/new", "c:/dev/new", "c:/probe", "c:/home/x"]);
    assert!(pairs(&text).iter().all(|(_, outcome)| *outcome == "EROFS"), "{text}");
    let text = host.probe(&sandbox, &["open", "c:/tmp/new", "c:/home/agent/new", "c:/data/new", "c:/dev/shm/new"]);
    assert!(pairs(&text).iter().all(|(_, outcome)| *outcome == "ok"), "{text}");
}

fn row_47_the_hosts_sockets_are_absent() {
    let name = format!("agent-env-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    assert!(std::os::unix::net::UnixStream::connect_addr(&address).is_ok(), "the host reaches it");
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    assert_eq!(host.probe(&sandbox, &["abstract", &name]), "ECONNREFUSED");
    let sockets = ["/var/run/docker.sock", "/run/docker.sock", "/run/dbus/system_bus_socket", "/tmp/.X11-unix/X0"];
    let text = host.probe(&sandbox, &[&["open"], &sockets[..]].concat());
    assert!(pairs(&text).iter().all(|(_, outcome)| *outcome == "ENOENT"), "{text}");
}

fn row_48_49_52_calls_are_refused() {
    let host = Host::new();
    for network in [NetworkKind::Pod, NetworkKind::Browser] {
        let sandbox = host.create(network);
        let text = host.probe(&sandbox, &["calls"]);
        for (call, outcome) in pairs(&text) {
            let expected = match call {
                "clone3" | "io_uring" | "newer" => "ENOSYS",
                "personality_query" => "ok",
                // Let through: only the descriptor is wrong.
                "tclass" => "ENOTSOCK",
                _ => "EPERM",
            };
            assert_eq!(outcome, expected, "{call} in {network:?}");
        }
    }
}

fn row_49_namespaces_only_where_a_browser_needs_them() {
    let host = Host::new();
    for network in [NetworkKind::Pod, NetworkKind::Browser] {
        let sandbox = host.create(network);
        for (call, outcome) in pairs(&host.probe(&sandbox, &["namespaces"])) {
            // Without a user namespace of one's own the others need a capability that nobody has.
            let chromiums = ["clone_user", "unshare_user", "nested_pid", "nested_net"];
            let allowed = network == NetworkKind::Browser && chromiums.contains(&call);
            assert_eq!(outcome, if allowed { "ok" } else { "EPERM" }, "{call} in {network:?}");
        }
    }
}

fn row_50_90_only_three_pipes_are_open() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let text = host.probe(&sandbox, &["descriptors"]);
    assert_eq!(pairs(&text)[..3], [("0", "pipe"), ("1", "pipe"), ("2", "pipe")]);
    assert_eq!(pairs(&text).len(), 4, "{text}");
    assert_eq!(value(&text, "reopened"), "EINVAL");
    // Programs that log there find it, as on a host.
    let output = host.output(&sandbox, &["sh", "-c", "echo out > /dev/stdout; echo err > /dev/stderr; cat /dev/stdin"]);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out\n", "err\n"));
}

fn row_51_no_capability_no_new_privilege_a_filter() {
    let host = Host::new();
    for network in [NetworkKind::Pod, NetworkKind::Browser] {
        let sandbox = host.create(network);
        let output = host.output(&sandbox, &["cat", "/proc/self/status", "/proc/1/status"]);
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(output.stdout.matches(&format!("{set}:\t0000000000000000\n")).count(), 2, "{}", output.stdout);
        }
        for line in
            ["NoNewPrivs:\t1\n", "Seccomp:\t2\n", "Uid:\t1000\t1000\t1000\t1000\n", "Gid:\t1000\t1000\t1000\t1000\n"]
        {
            assert_eq!(output.stdout.matches(line).count(), 2, "{line}");
        }
        let maps = host.output(&sandbox, &["cat", "/proc/self/uid_map", "/proc/self/gid_map"]).stdout;
        for map in maps.lines() {
            let fields: Vec<_> = map.split_ascii_whitespace().collect();
            assert_eq!((fields[0], fields[2]), ("1000", "1"), "{maps}");
        }
    }
}

fn row_53_84_only_families_with_a_namespace() {
    let host = Host::new();
    for network in [NetworkKind::Pod, NetworkKind::Browser] {
        let sandbox = host.create(network);
        let text = host.probe(&sandbox, &["families"]);
        // AF_UNIX, AF_INET, AF_INET6, AF_NETLINK.
        assert_eq!(text.lines().next(), Some("1 2 10 16"));
        assert_eq!((value(&text, "vsock"), value(&text, "dirty")), ("EPERM", "EPERM"));
        for (protocol, outcome) in pairs(&host.probe(&sandbox, &["protocols"])) {
            let expected = if ["tcp", "udp6"].contains(&protocol) { "ok" } else { "EPERM" };
            assert_eq!(outcome, expected, "{protocol}");
        }
    }
}

fn row_77_orphans_are_reaped() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    // Pid 1 and the probe.
    assert_eq!(host.probe(&sandbox, &["orphans"]), "2");
}

fn row_85_86_nothing_of_the_host_shows() {
    let canary = std::path::PathBuf::from(format!("/dev/shm/agent-env-test-{}", std::process::id()));
    std::fs::write(&canary, "x").unwrap();
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let listed = host.output(&sandbox, &["ls", "-A", "/dev/shm", "/tmp", "/proc/sys/fs/mqueue"]).stdout;
    std::fs::remove_file(&canary).unwrap();
    assert!(!listed.contains("agent-env-test"), "{listed}");
    let key = std::process::id().to_string();
    let ipcmk = std::process::Command::new("python3")
        .args([
            "-c",
            "import ctypes,sys; c=ctypes.CDLL(None); i=c.shmget(int(sys.argv[1]),4096,0o1666); print(i)",
            &key,
        ])
        .output()
        .unwrap();
    let id = String::from_utf8(ipcmk.stdout).unwrap();
    assert_ne!(id.trim(), "-1");
    let seen = host.probe(&sandbox, &["shm", &key]);
    assert!(std::process::Command::new("ipcrm").args(["-m", id.trim()]).status().unwrap().success());
    assert_eq!(seen, "ENOENT");
    // No key of anybody's, no lock of anybody's.
    for file in ["/proc/keys", "/proc/key-users"] {
        assert_eq!(host.output(&sandbox, &["cat", file]).stdout, "");
    }
    let etc = host.output(&sandbox, &["cat", "/etc/passwd", "/etc/group", "/etc/machine-id", "/etc/hostname"]).stdout;
    let id = std::fs::read_to_string("/etc/machine-id").unwrap_or_else(|_| "no machine id".into());
    assert!(etc.contains("agent:x:1000:1000") && !etc.contains(id.trim()), "{etc}");
}

fn row_87_attacks_on_pid_1_are_harmless() {
    attack_init(&Host::new());
}

fn row_87_attacks_on_pid_1_are_harmless_with_a_single_uid() {
    // Root never shares its uid: it owns what the kernel takes away from the others.
    if rustix::process::geteuid().is_root() {
        return;
    }
    // There pid 1 never changes its uid, so nothing hides it but itself.
    let uids = UidAllocator::with_mode(UidMode::Single { reason: "test".into() });
    attack_init(&Host { uids, ..Host::new() });
}

fn attack_init(host: &Host) {
    let sandbox = host.create(NetworkKind::Pod);
    let text = host.probe(&sandbox, &["init"]);
    assert!(text.ends_with("alive"), "{text}");
    for (what, outcome) in pairs(text.strip_suffix("\nalive").unwrap()) {
        match what {
            "prlimit_self" => assert_eq!(outcome, "ok"),
            "maps" => {}
            _ => assert!(["EPERM", "EACCES"].contains(&outcome), "{what} {outcome}"),
        }
    }
}

fn row_88_one_sandbox_cannot_exhaust_another() {
    let host = Host::new();
    let (greedy, other) = (host.create(NetworkKind::Pod), host.create(NetworkKind::Pod));
    if greedy.uid().is_shared() {
        // The declared limit of a single uid: said, not kept.
        assert!(matches!(host.uids.mode(), UidMode::Single { .. }));
        return;
    }
    let mut service = host.start(&greedy, &spec(&greedy, &[PROBE, probe::COMMAND, "exhaust"]));
    for _ in 0..4 {
        assert!(line(&mut service).starts_with("full"));
    }
    let text = host.probe(&other, &["resources"]);
    assert_eq!(value(&text, "inotify"), "ok");
    assert_eq!(value(&text, "inflight"), "ok");
    // A uid that has used its pages up gets pipes of one page or two.
    assert_eq!(value(&text, "pipe"), "65536");
    // And we ourselves go on.
    assert_eq!(other.tcp(200).unwrap().len(), 200);
    assert_eq!(greedy.tcp(200).unwrap().len(), 200);
}

fn canary_environment() -> agentenv_sandbox::Environment {
    agentenv_sandbox::Environment::new([("PATH".into(), "/usr/bin".into()), ("SECRET".into(), "canary-4711".into())])
        .unwrap()
}

fn row_94_a_frontend_cannot_read_the_servers_settings() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let sleep = spec(&sandbox, &[PROBE, probe::COMMAND, "sleep"]);
    let mut server: Service = host.spawner.start(&sandbox, &sleep, &canary_environment()).unwrap();
    assert_eq!(line(&mut server), "sleeping");
    assert!(!host.probe(&sandbox, &["environments"]).contains("canary-4711"));
    // The probe does find what is there: beside the server itself, in its pid namespace, it shows.
    let command = [PROBE, probe::COMMAND, "environments"].map(str::to_owned).to_vec();
    let beside = host.spawner.exec(&sandbox, &server, command, &environment()).unwrap();
    assert!(finish(beside).stdout.contains("canary-4711"));
}

fn row_58_secrets_are_in_the_service_alone() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let sleep = spec(&sandbox, &[PROBE, probe::COMMAND, "sleep"]);
    let mut server = host.spawner.start(&sandbox, &sleep, &canary_environment()).unwrap();
    assert_eq!(line(&mut server), "sleeping");
    for pid in [host.spawner.pid(), sandbox.broker_pid(), server.pid()] {
        for file in ["environ", "cmdline"] {
            let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&text).contains("canary"), "{pid} {file}");
        }
        // Root may read all of a process's memory; nobody else has to be kept out.
        assert!(!memory_contains(pid, b"canary-4711"), "{pid}");
    }
}

fn row_60_what_is_inside_dies_before_the_host() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let score = |pid| std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap().trim().parse::<i32>();
    let own = score(std::process::id()).unwrap();
    let text = host.output(&sandbox, &["cat", "/proc/1/oom_score_adj", "/proc/self/oom_score_adj"]).stdout;
    assert_eq!(text, format!("{0}\n{0}\n", own.max(800)));
    assert_eq!((score(host.spawner.pid()), score(sandbox.broker_pid())), (Ok(own), Ok(own)));
    // Not even by what runs there: pid 1's end is everybody's.
    assert_eq!(host.probe(&sandbox, &["open", "c:/proc/1/oom_score_adj"]), "c:/proc/1/oom_score_adj EACCES");
}

/// Whether a process's writable memory holds a text; `false` where we may not look.
fn memory_contains(pid: u32, needle: &[u8]) -> bool {
    use std::os::unix::fs::FileExt as _;
    let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else { return false };
    let Ok(memory) = std::fs::File::open(format!("/proc/{pid}/mem")) else { return false };
    maps.lines().filter(|line| line.contains(" rw")).any(|line| {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [from, to] = [from, to].map(|address| u64::from_str_radix(address, 16).unwrap());
        let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
        memory.read_exact_at(&mut bytes, from).is_ok() && bytes.windows(needle.len()).any(|window| window == needle)
    })
}
