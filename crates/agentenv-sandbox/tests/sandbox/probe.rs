//! What attacks a sandbox from inside. Each probe prints what it saw; the test decides.

#![expect(unsafe_code, reason = "attacks are system calls that no safe wrapper makes")]

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    time::Duration,
};

use libc::{c_int, c_long};

/// The word that makes this program a probe.
pub const COMMAND: &str = "internal-probe";

/// Runs a probe and ends.
pub fn run(words: &[&str]) -> ! {
    match words {
        ["families"] => families(),
        ["protocols"] => protocols(),
        ["calls"] => calls(),
        ["namespaces"] => namespaces(),
        ["nowhere"] => nowhere(),
        ["open", paths @ ..] => paths.iter().for_each(|path| println!("{path} {}", outcome(open(path)))),
        ["abstract", name] => println!("{}", outcome(abstract_socket(name))),
        ["descriptors"] => descriptors(),
        ["init"] => init(),
        ["orphans"] => orphans(),
        ["environments"] => environments(),
        ["exhaust"] => exhaust(),
        ["resources"] => resources(),
        ["shm", key] => println!("{}", outcome(call(libc::SYS_shmget, &[key.parse().unwrap(), 0, 0]))),
        ["listen", address] => listen(address),
        ["hold", address] => hold(address),
        ["bind", addresses @ ..] => addresses.iter().for_each(|address| bind(address)),
        ["connect", address] => connect(address),
        ["fill", path] => println!("{}", outcome(fill(path))),
        ["files", folder] => println!("{}", files(folder)),
        ["sleep"] => loop {
            println!("sleeping");
            std::thread::park();
        },
        other => panic!("no probe {other:?}"),
    }
    std::io::stdout().flush().unwrap();
    std::process::exit(0)
}

fn call(number: c_long, arguments: &[c_long]) -> std::io::Result<c_long> {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    // SAFETY: an attack may well be unsound; it is a process of its own that does nothing else.
    let value = unsafe { libc::syscall(number, all[0], all[1], all[2], all[3], all[4], all[5]) };
    if value < 0 { Err(std::io::Error::last_os_error()) } else { Ok(value) }
}

/// Puts this process under a filter that allows everything and has a listener: whatever comes of it can't have another.
pub fn listen_to_calls() -> std::io::Result<()> {
    let mut allow =
        libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
    let program = libc::sock_fprog { len: 1, filter: &raw mut allow };
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER.into(), libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as c_long);
    call(libc::SYS_seccomp, &[mode, flags, (&raw const program) as c_long]).map(|_| ())
}

/// The errno's name, or `ok`.
fn outcome<T>(result: std::io::Result<T>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(error) => match error.raw_os_error() {
            Some(libc::EPERM) => "EPERM".to_owned(),
            Some(libc::ENOSYS) => "ENOSYS".to_owned(),
            Some(libc::EACCES) => "EACCES".to_owned(),
            Some(libc::ENOENT) => "ENOENT".to_owned(),
            Some(libc::ENOTSOCK) => "ENOTSOCK".to_owned(),
            Some(libc::EROFS) => "EROFS".to_owned(),
            Some(libc::ENETUNREACH) => "ENETUNREACH".to_owned(),
            Some(libc::EADDRINUSE) => "EADDRINUSE".to_owned(),
            Some(libc::ECONNREFUSED) => "ECONNREFUSED".to_owned(),
            Some(libc::ENOSPC) => "ENOSPC".to_owned(),
            Some(libc::EINVAL) => "EINVAL".to_owned(),
            Some(libc::EADDRNOTAVAIL) => "EADDRNOTAVAIL".to_owned(),
            _ => error.to_string(),
        },
    }
}

fn socket(family: c_int, kind: c_int, protocol: c_int) -> std::io::Result<OwnedFd> {
    // SAFETY: the new descriptor is nobody else's.
    call(libc::SYS_socket, &[family.into(), kind.into(), protocol.into()])
        .map(|fd| unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap()) })
}

fn families() {
    // Every family that there is, and a few that there may be.
    let kinds = [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET, libc::SOCK_RAW];
    let reachable = |family: c_int| kinds.iter().any(|&kind| socket(family, kind, 0).is_ok());
    let open: Vec<_> = (0..64).filter(|&family| reachable(family)).map(|family| family.to_string()).collect();
    println!("{}", open.join(" "));
    println!("vsock {}", outcome(socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0)));
    // Garbage in the upper half of an argument that the kernel reads as an int.
    let dirty = (1 << 32) | c_long::from(libc::AF_VSOCK);
    println!("dirty {}", outcome(call(libc::SYS_socket, &[dirty, c_long::from(libc::SOCK_STREAM), 0])));
}

fn protocols() {
    let (stream, dgram, raw) = (libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_RAW);
    for (name, family, kind, protocol) in [
        ("tcp", libc::AF_INET, stream | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, libc::IPPROTO_TCP),
        ("udp6", libc::AF_INET6, dgram, libc::IPPROTO_UDP),
        ("icmp", libc::AF_INET, dgram, libc::IPPROTO_ICMP),
        ("raw", libc::AF_INET, raw, libc::IPPROTO_ICMP),
        ("sctp", libc::AF_INET, stream, libc::IPPROTO_SCTP),
        ("mptcp", libc::AF_INET, stream, libc::IPPROTO_MPTCP),
        ("dccp", libc::AF_INET, 6, libc::IPPROTO_DCCP),
        ("netfilter", libc::AF_NETLINK, raw, libc::NETLINK_NETFILTER),
        ("packet", libc::AF_PACKET, raw, 0),
    ] {
        println!("{name} {}", outcome(socket(family, kind, protocol)));
    }
}

fn calls() {
    let path = c"/tmp".as_ptr() as c_long;
    let one = c_long::from(std::process::id());
    for (name, number, arguments) in [
        ("ptrace", libc::SYS_ptrace, vec![libc::PTRACE_ATTACH.into(), 1]),
        ("ptrace_self", libc::SYS_ptrace, vec![libc::PTRACE_TRACEME.into()]),
        ("process_vm_readv", libc::SYS_process_vm_readv, vec![one, 0, 0, 0, 0, 0]),
        ("setns", libc::SYS_setns, vec![0, 0]),
        ("mount", libc::SYS_mount, vec![path, path, path, 0, 0]),
        ("umount", libc::SYS_umount2, vec![path, 0]),
        ("pivot_root", libc::SYS_pivot_root, vec![path, path]),
        ("fsopen", libc::SYS_fsopen, vec![path, 0]),
        ("open_tree", libc::SYS_open_tree, vec![libc::AT_FDCWD.into(), path, 1]),
        ("bpf", libc::SYS_bpf, vec![0, 0, 0]),
        ("io_uring", libc::SYS_io_uring_setup, vec![1, path]),
        ("keyctl", libc::SYS_keyctl, vec![0, -3, 0]),
        ("add_key", libc::SYS_add_key, vec![path, path, 0, 0, -3]),
        ("perf", libc::SYS_perf_event_open, vec![path, 0, -1, -1, 0]),
        ("userfaultfd", libc::SYS_userfaultfd, vec![0]),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, vec![0, path, 0]),
        ("kexec", libc::SYS_kexec_load, vec![0, 0, 0, 0]),
        ("init_module", libc::SYS_init_module, vec![0, 0, path]),
        ("quotactl", libc::SYS_quotactl, vec![0, path, 0, 0]),
        ("vhangup", libc::SYS_vhangup, vec![]),
        ("syslog", libc::SYS_syslog, vec![3, 0, 0]),
        ("personality", libc::SYS_personality, vec![0x0040_0000]),
        ("personality_query", libc::SYS_personality, vec![0xffff_ffff]),
        ("tiocsti", libc::SYS_ioctl, vec![0, libc::TIOCSTI as c_long, path]),
        ("tiocsti_dirty", libc::SYS_ioctl, vec![0, (1 << 32) | libc::TIOCSTI as c_long, path]),
        ("tioclinux", libc::SYS_ioctl, vec![0, libc::TIOCLINUX as c_long, path]),
        // IPT_SO_SET_REPLACE, IP6T_SO_SET_REPLACE, EBT_SO_SET_ENTRIES, IPT_SO_GET_INFO.
        ("netfilter", libc::SYS_setsockopt, vec![0, libc::SOL_IP.into(), 64, path, 4]),
        ("netfilter_dirty", libc::SYS_setsockopt, vec![0, 1 << 32, (1 << 32) | 64, path, 4]),
        ("netfilter6", libc::SYS_setsockopt, vec![0, libc::SOL_IPV6.into(), 64, path, 4]),
        ("netfilter_bridge", libc::SYS_setsockopt, vec![0, libc::SOL_IP.into(), 128, path, 4]),
        ("netfilter_get", libc::SYS_getsockopt, vec![0, libc::SOL_IP.into(), 64, path, path]),
        ("tclass", libc::SYS_setsockopt, vec![0, libc::SOL_IPV6.into(), libc::IPV6_TCLASS.into(), path, 4]),
        ("chroot", libc::SYS_chroot, vec![path]),
        ("clone3", libc::SYS_clone3, vec![0, 0]),
        ("newer", 470, vec![]),
    ] {
        println!("{name} {}", outcome(call(number, &arguments)));
    }
}

/// The flag of `CLONE_NEWTIME`, which `clone` reads as part of a signal.
const CLONE_NEWTIME: c_int = 0x80;

fn namespaces() {
    let flags = [
        ("mnt", libc::CLONE_NEWNS),
        ("uts", libc::CLONE_NEWUTS),
        ("ipc", libc::CLONE_NEWIPC),
        ("cgroup", libc::CLONE_NEWCGROUP),
        ("pid", libc::CLONE_NEWPID),
        ("net", libc::CLONE_NEWNET),
        ("user", libc::CLONE_NEWUSER),
    ];
    println!("unshare_time {}", outcome(call(libc::SYS_unshare, &[CLONE_NEWTIME.into()])));
    for (name, flag) in flags {
        let child = call(libc::SYS_clone, &[c_long::from(flag | libc::SIGCHLD), 0, 0, 0, 0]);
        if matches!(child, Ok(0)) {
            std::process::exit(0);
        }
        println!("clone_{name} {}", outcome(child));
        println!("unshare_{name} {}", outcome(call(libc::SYS_unshare, &[flag.into()])));
    }
    // Where the last one worked, we have every capability now, in a namespace of our own: still nothing to use them on.
    for (name, flag) in flags.iter().rev().skip(1) {
        println!("nested_{name} {}", outcome(call(libc::SYS_unshare, &[(*flag).into()])));
    }
    let path = c"/tmp".as_ptr() as c_long;
    println!("nested_mount {}", outcome(call(libc::SYS_mount, &[path, path, c"tmpfs".as_ptr() as c_long, 0, 0])));
}

fn nowhere() {
    let limit = Duration::from_secs(5);
    for address in ["1.1.1.1:443", "169.254.169.254:80", "10.0.0.1:22", "192.168.1.1:80", "[2606:4700::1111]:443"] {
        let address: SocketAddr = address.parse().unwrap();
        println!("tcp {address} {}", outcome(TcpStream::connect_timeout(&address, limit)));
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        println!("udp {address} {}", outcome(UdpSocket::bind(any).and_then(|socket| socket.send_to(b"x", address))));
    }
    println!("links {}", links());
    println!("inet6 {}", fs::read_to_string("/proc/net/if_inet6").unwrap_or_default().lines().count());
    println!("routes {}", fs::read_to_string("/proc/net/route").unwrap().lines().skip(1).count());
}

fn links() -> String {
    let text = fs::read_to_string("/proc/net/dev").unwrap();
    let mut names: Vec<_> = text.lines().skip(2).filter_map(|line| line.trim().split(':').next()).collect();
    names.sort_unstable();
    names.join(",")
}

fn open(path: &str) -> std::io::Result<()> {
    match path.split_once(':') {
        Some(("w", path)) => fs::OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(b"0")),
        Some(("c", path)) => fs::write(path, "x"),
        Some(("d", path)) => fs::read_dir(path).map(drop),
        _ => fs::File::open(path).and_then(|mut file| file.read(&mut [0; 1])).map(drop),
    }
}

fn abstract_socket(name: &str) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt as _;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    std::os::unix::net::UnixStream::connect_addr(&address).map(drop)
}

fn descriptors() {
    let mut open: Vec<i32> = fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    open.sort_unstable();
    // The last one is the folder that was being read.
    open.pop();
    for fd in open {
        let link = fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
        println!("{fd} {}", link.display().to_string().split(':').next().unwrap());
    }
    // A file as standard output could be emptied this way; a pipe has nothing to empty.
    let reopened = fs::OpenOptions::new().write(true).truncate(true).open("/proc/self/fd/1");
    println!("reopened {}", outcome(reopened.and_then(|file| file.set_len(0))));
}

/// Attacks on pid 1, which has the same uid.
fn init() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let limit = (&raw mut limit) as c_long;
    let nofile = c_long::from(libc::RLIMIT_NOFILE);
    println!("prlimit {}", outcome(call(libc::SYS_prlimit64, &[1, nofile, limit, 0])));
    println!("prlimit_self {}", outcome(call(libc::SYS_prlimit64, &[0, nofile, 0, limit])));
    println!("oom {}", outcome(fs::write("/proc/1/oom_score_adj", "1000")));
    for file in ["root", "cwd", "exe", "environ", "mem", "maps", "fd", "ns/net"] {
        let path = format!("/proc/1/{file}");
        let opened = match file {
            "fd" => fs::read_dir(&path).map(drop),
            "root" | "cwd" | "exe" | "ns/net" => fs::read_link(&path).map(drop),
            _ => fs::read(&path).map(drop),
        };
        println!("{file} {}", outcome(opened));
    }
    for signal in (1..32).chain([34, 40, 64]) {
        let _ = call(libc::SYS_kill, &[1, signal]);
        // SAFETY: plain data; the value asks for nothing.
        let info = unsafe { std::mem::zeroed::<libc::siginfo_t>() };
        let _ = call(libc::SYS_rt_sigqueueinfo, &[1, signal, (&raw const info) as c_long]);
    }
    // Had one of them worked, this would not be printed: we end with pid 1.
    std::thread::park_timeout(Duration::from_millis(50));
    println!("alive");
}

/// Leaves children behind that pid 1 has to reap.
fn orphans() {
    for _ in 0..50 {
        if call(libc::SYS_clone, &[libc::SIGCHLD.into(), 0, 0, 0, 0]).unwrap() == 0 {
            if call(libc::SYS_clone, &[libc::SIGCHLD.into(), 0, 0, 0, 0]).unwrap() == 0 {
                let _ = call(libc::SYS_setsid, &[]);
            }
            std::process::exit(0);
        }
        // SAFETY: waits for a child of ours.
        unsafe { libc::wait(std::ptr::null_mut()) };
    }
    let processes = || {
        let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        entries.filter(|entry| entry.file_name().to_str().unwrap().parse::<u32>().is_ok()).count()
    };
    for _ in 0..5000 {
        if processes() == 2 {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    println!("{}", processes());
}

fn environments() {
    for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        for file in ["environ", "cmdline", "mountinfo"] {
            if let Ok(text) = fs::read(entry.path().join(file)) {
                println!("{}", String::from_utf8_lossy(&text).replace('\0', "\n"));
            }
        }
    }
}

/// Takes all that the kernel gives one uid, and keeps it.
fn exhaust() {
    for _ in 0..4 {
        if call(libc::SYS_clone, &[libc::SIGCHLD.into(), 0, 0, 0, 0]).unwrap() == 0 {
            let mut instances = 0;
            while call(libc::SYS_inotify_init1, &[0]).is_ok() {
                instances += 1;
            }
            let _ = in_flight(1250);
            let mut kept = Vec::new();
            while let Ok((reader, writer)) = rustix::pipe::pipe() {
                let _ = rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20);
                kept.push((reader, writer));
            }
            println!("full {instances} {}", kept.len());
            std::io::stdout().flush().unwrap();
            loop {
                std::thread::park();
            }
        }
    }
    loop {
        std::thread::park();
    }
}

/// Sends descriptors that nobody receives.
fn in_flight(count: usize) -> std::io::Result<()> {
    use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType};
    let mut kept = Vec::new();
    for _ in 0..count {
        let (a, b) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)?;
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let stdout = std::io::stdout();
        let fds = [std::os::fd::AsFd::as_fd(&stdout)];
        control.push(SendAncillaryMessage::ScmRights(&fds));
        rustix::net::sendmsg(&a, &[std::io::IoSlice::new(b"x")], &mut control, SendFlags::empty())?;
        kept.push((a, b));
        if kept.len() > 400 {
            // Sockets whose only reference is in flight keep what they carry.
            std::mem::forget(std::mem::take(&mut kept));
        }
    }
    std::mem::forget(kept);
    Ok(())
}

fn resources() {
    println!("inotify {}", outcome(call(libc::SYS_inotify_init1, &[0])));
    println!("inflight {}", outcome(in_flight(5)));
    let (_reader, writer) = rustix::pipe::pipe().unwrap();
    println!("pipe {}", rustix::pipe::fcntl_getpipe_size(&writer).unwrap());
}

fn listen(address: &str) {
    let listener = TcpListener::bind(address).unwrap();
    println!("listening");
    let (mut stream, _) = listener.accept().unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    stream.write_all(text.to_uppercase().as_bytes()).unwrap();
}

/// Listens and never accepts.
fn hold(address: &str) {
    let _listener = TcpListener::bind(address).unwrap();
    println!("listening");
    loop {
        std::thread::park();
    }
}

/// Tries to take an address that somebody has, with every option that shares one.
fn bind(address: &str) {
    let parsed: std::net::SocketAddrV4 = address.parse().unwrap();
    for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
        let fd = socket(libc::AF_INET, kind, 0).unwrap();
        for option in [libc::SO_REUSEADDR, libc::SO_REUSEPORT] {
            let on: c_int = 1;
            let on = (&raw const on) as c_long;
            let fd = c_long::from(fd.as_raw_fd());
            call(libc::SYS_setsockopt, &[fd, libc::SOL_SOCKET.into(), option.into(), on, 4]).unwrap();
        }
        let bound = rustix::net::bind(&fd, &parsed).map_err(std::io::Error::from);
        let taken = bound.and_then(|()| match kind {
            libc::SOCK_STREAM => rustix::net::listen(&fd, 1).map_err(Into::into),
            _ => Ok(()),
        });
        println!("{address} {}", outcome(taken));
    }
}

fn connect(address: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"hello").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    println!("{text}");
}

fn fill(path: &str) -> std::io::Result<()> {
    let mut file = fs::File::create(path)?;
    let block = vec![0; 1 << 20];
    // Far more than any tmpfs of the tests has.
    let filled = (0..1024).try_for_each(|_| file.write_all(&block));
    fs::remove_file(path)?;
    filled
}

/// Makes empty files until there is no inode left.
fn files(folder: &str) -> usize {
    let made = (0..1_000_000).take_while(|index| fs::File::create(format!("{folder}/{index}")).is_ok()).count();
    (0..made).for_each(|index| fs::remove_file(format!("{folder}/{index}")).unwrap());
    made
}
