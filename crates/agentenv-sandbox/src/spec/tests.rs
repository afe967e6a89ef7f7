use super::*;

fn spec() -> ServiceSpec {
    ServiceSpec {
        name: SandboxName::parse("shop/server").unwrap(),
        command: vec!["true".into()],
        cwd: "/".into(),
        mounts: Vec::new(),
        etc: Vec::new(),
        hostname: "shop".into(),
        data: false,
        tmp_bytes: 1 << 20,
        shm_bytes: 1 << 20,
        home_bytes: None,
        seccomp: SeccompProfile::Service,
        limits: Limits::default(),
        client_ports: None,
    }
}

#[test]
fn commands_and_paths() {
    assert_eq!(spec().check(), Ok(()));
    assert_eq!(ServiceSpec { command: vec![], ..spec() }.check(), Err(SpecError::EmptyCommand));
    assert!(matches!(ServiceSpec { command: vec!["a\0b".into()], ..spec() }.check(), Err(SpecError::Nul(_))));
    for cwd in ["relative", "/a/../b", ""] {
        assert!(ServiceSpec { cwd: cwd.into(), ..spec() }.check().is_err(), "{cwd}");
    }
    assert!(ServiceSpec { hostname: "x".repeat(65), ..spec() }.check().is_err());
}

#[test]
fn mounts_never_cover_what_is_ours() {
    for (target, good) in [
        ("/site", true),
        ("/root/.pyenv/versions/3.11.7", true),
        ("/usr/local/tools", true),
        ("/", false),
        ("/proc/sys", false),
        ("/dev", false),
        ("/sys", false),
        ("/run/user", false),
        ("site", false),
    ] {
        let mount = Mount::ReadOnly { source: "/opt".into(), target: target.into() };
        assert_eq!(ServiceSpec { mounts: vec![mount], ..spec() }.check().is_ok(), good, "{target}");
    }
    let many = vec![Mount::Tmpfs { target: "/x".into(), bytes: 1 }; MAX_MOUNTS + 1];
    assert!(matches!(ServiceSpec { mounts: many, ..spec() }.check(), Err(SpecError::TooMany { .. })));
}

#[test]
fn etc_stays_below_etc() {
    for (path, good) in [
        ("hosts", true),
        ("chromium/policies/managed/a.json", true),
        ("", false),
        ("../x", false),
        ("/etc/x", false),
        ("a/./b", true),
        ("a\0", false),
    ] {
        let etc = vec![(path.to_owned(), Vec::new())];
        assert_eq!(ServiceSpec { etc, ..spec() }.check().is_ok(), good, "{path}");
    }
}
