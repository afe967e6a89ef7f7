//! A service's root: an empty tmpfs and what is put into it, nothing of the host that isn't named.
//!
//! 1. open everything of the host by `open_tree`, while the process still has the caller's uid: a state directory is
//!    0700 (and make the new proc: the kernel wants to see the old one for that);
//! 2. become the inside uid, so that every new inode has an owner that exists inside;
//! 3. mount the tmpfs, pivot into it, detach the old root: from here on a path can't mean anything of the host;
//! 4. fill it, then make it read-only.

use std::{
    fs,
    io::Write as _,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType},
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    },
};

use crate::{
    failure::Failure,
    kernel::{self, Kernel},
    messages::Start,
    spec::{HOME, INSIDE_ID, Mount},
};

mod etc;

/// Where a pod's `/data` waits in the broker's mount namespace: the one folder of every host that no service may see
/// anything of.
pub(crate) const DATA_PARKED: &str = "/sys";
/// Where the new root is mounted for a moment, for the same reason.
const ROOT_STAGED: &str = "/sys";

/// The root holds folders, links and the generated `/etc`; on top of the contents of that.
const ROOT_BYTES: u64 = 1 << 20;
/// Its inodes: the skeleton has about 60, each mount and file of `/etc` a few more for its folders.
const ROOT_INODES: u64 = 1024;
const ROOT_INODES_EACH: u64 = 8;
/// One inode for this many bytes: an empty file costs kernel memory too.
const BYTES_PER_INODE: u64 = 4096;
const MIN_INODES: u64 = 256;

const RESTRICTED: u32 = (libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV) as u32;
const DEVICE: u32 = (libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC) as u32;

/// What a system has at its top beside `/usr`; links into `/usr`, or folders on older systems.
const TOP: [&str; 6] = ["bin", "sbin", "lib", "lib64", "lib32", "libx32"];
/// What of the host's `/etc` shows, where it exists: nothing that names users, hosts or secrets.
const HOST_ETC: [&str; 9] = [
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates",
    "fonts",
    "alternatives",
    "ld.so.cache",
    "mime.types",
    "services",
    "protocols",
];
/// The terminal of whoever opens it: of those that [`terminals`] makes.
const TERMINAL: &str = "tty";
/// Terminals of one service: a person has a dozen open.
const MAX_TERMINALS: u32 = 64;
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// Files of `/proc` that say something about the host or other users, or do something. An ordinary uid is refused most
/// of them anyway.
const MASKED: [&str; 8] =
    ["kcore", "keys", "key-users", "kmsg", "sysrq-trigger", "timer_list", "sched_debug", "latency_stats"];

/// What was opened of the host.
pub(crate) struct Sources {
    trees: Vec<(Tree, PathBuf)>,
    links: Vec<(String, PathBuf)>,
    devices: Vec<(OwnedFd, &'static str)>,
    data: Option<OwnedFd>,
    proc: OwnedFd,
}

struct Tree {
    fd: OwnedFd,
    folder: bool,
}

/// Step 1. Must be in the service's own namespaces, with the caller's uid.
pub(crate) fn open(kernel: Kernel, start: &Start) -> Result<Sources, Failure> {
    let mut trees = vec![(tree(kernel, Path::new("/usr"), true)?, PathBuf::from("/usr"))];
    let mut links = Vec::new();
    for name in TOP {
        let path = Path::new("/").join(name);
        match fs::read_link(&path) {
            Ok(target) => links.push((path.display().to_string(), target)),
            Err(_) if path.is_dir() => trees.push((tree(kernel, &path, true)?, path)),
            Err(_) => {}
        }
    }
    // A folder that the caller puts files into is the caller's whole: the host's own certificates or fonts don't mix in.
    let replaced = |path: &str| start.etc.iter().any(|(file, _)| file.starts_with(path));
    for name in HOST_ETC {
        let path = Path::new("/etc").join(name);
        if path.exists() && !replaced(name) {
            trees.push((tree(kernel, &path, false)?, path));
        }
    }
    for mount in &start.mounts {
        if let Mount::ReadOnly { source, target } = mount {
            let opened = tree(kernel, source, true).map_err(|failure| failure.of_source(source))?;
            trees.push((opened, target.clone()));
        }
    }
    let mut devices = Vec::new();
    let terminals = start.mounts.contains(&Mount::Terminals).then_some(TERMINAL);
    for name in DEVICES.into_iter().chain(terminals) {
        devices.push((clone_tree(kernel, &Path::new("/dev").join(name), false)?, name));
    }
    let data = start.data.then(|| clone_tree(kernel, Path::new(DATA_PARKED), false)).transpose()?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let proc = file_system(kernel, "proc", &[], attributes)?;
    Ok(Sources { trees, links, devices, data, proc })
}

/// Steps 3 and 4. Must be in the service's own namespaces, with the inside uid and all capabilities.
pub(crate) fn build(kernel: Kernel, start: &Start, sources: &Sources, etc: &[u8]) -> Result<(), Failure> {
    enter_new_root(kernel, start, etc.len())?;
    for (link, target) in &sources.links {
        symlink(kernel, target, link)?;
    }
    dev(kernel, sources, start.shm_bytes)?;
    if start.mounts.contains(&Mount::Terminals) {
        terminals(kernel)?;
    }
    folder(kernel, Path::new("/proc"))?;
    attach(kernel, sources.proc.as_fd(), Path::new("/proc"))?;
    let null = Path::new("/dev/null");
    for name in MASKED {
        let path = Path::new("/proc").join(name);
        if path.exists() {
            attach(kernel, clone_tree(kernel, null, false)?.as_fd(), &path)?;
        }
    }
    let settings = clone_tree(kernel, Path::new("/proc/sys"), false)?;
    restrict(kernel, &settings, false, RESTRICTED)?;
    attach(kernel, settings.as_fd(), Path::new("/proc/sys"))?;

    tmpfs(kernel, Path::new("/tmp"), start.tmp_bytes, "1777")?;
    if let Some(bytes) = start.home_bytes {
        tmpfs(kernel, Path::new(HOME), bytes, "0700")?;
    }
    if let Some(data) = &sources.data {
        folder(kernel, Path::new("/data"))?;
        attach(kernel, data.as_fd(), Path::new("/data"))?;
    }
    for (tree, target) in &sources.trees {
        place(kernel, tree, target)?;
    }
    for mount in &start.mounts {
        if let Mount::Tmpfs { target, bytes } = mount {
            tmpfs(kernel, target, *bytes, "0755")?;
        }
    }
    etc::write(kernel, start, etc)?;
    let root = kernel.at("open", "/", || rustix::fs::open("/", PATH_ONLY, rustix::fs::Mode::empty()))?;
    restrict(kernel, &root, false, RESTRICTED)
}

const PATH_ONLY: rustix::fs::OFlags = rustix::fs::OFlags::PATH.union(rustix::fs::OFlags::CLOEXEC);

fn enter_new_root(kernel: Kernel, start: &Start, etc_bytes: usize) -> Result<(), Failure> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    kernel.at("mount (private)", "/", || rustix::mount::mount_change("/", private))?;
    // Twice the contents: tmpfs counts whole pages.
    let bytes = ROOT_BYTES + 2 * u64::try_from(etc_bytes).unwrap_or(u64::MAX / 4) + 4096 * start.etc.len() as u64;
    let inodes = ROOT_INODES + ROOT_INODES_EACH * (start.etc.len() + start.mounts.len()) as u64;
    let options = [("size", bytes.to_string()), ("nr_inodes", inodes.to_string()), ("mode", "0755".into())];
    let root = file_system(kernel, "tmpfs", &options, MountAttrFlags::MOUNT_ATTR_NODEV)?;
    attach(kernel, root.as_fd(), Path::new(ROOT_STAGED))?;
    kernel.call("fchdir", || rustix::process::fchdir(&root))?;
    // The old root ends up on top of the new one, where the working directory still is below it.
    kernel.call("pivot_root", || rustix::process::pivot_root(".", "."))?;
    kernel.call("umount of the old root", || rustix::mount::unmount(".", UnmountFlags::DETACH))?;
    kernel.at("chdir", "/", || rustix::process::chdir("/"))
}

fn dev(kernel: Kernel, sources: &Sources, shm_bytes: u64) -> Result<(), Failure> {
    folder(kernel, Path::new("/dev"))?;
    for (device, name) in &sources.devices {
        let path = Path::new("/dev").join(name);
        file(kernel, &path, b"", 0o644)?;
        restrict(kernel, device, false, DEVICE)?;
        attach(kernel, device.as_fd(), &path)?;
    }
    for (link, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(kernel, Path::new(target), &format!("/dev/{link}"))?;
    }
    tmpfs(kernel, Path::new("/dev/shm"), shm_bytes, "1777")
}

/// Pseudo-terminals that only this service has: each mount of `devpts` is an instance of its own.
fn terminals(kernel: Kernel) -> Result<(), Failure> {
    let target = Path::new("/dev/pts");
    let options = [("ptmxmode", "0666".to_owned()), ("mode", "0620".to_owned()), ("max", MAX_TERMINALS.to_string())];
    // Devices are what it is for; the kernel makes no others in it.
    let mounted = file_system(kernel, "devpts", &options, MountAttrFlags::MOUNT_ATTR_NOEXEC)?;
    folder(kernel, target)?;
    attach(kernel, mounted.as_fd(), target)?;
    symlink(kernel, Path::new("pts/ptmx"), "/dev/ptmx")
}

/// A copy of what the host has at a path, read-only, without devices and set-uid programs.
fn tree(kernel: Kernel, path: &Path, recursive: bool) -> Result<Tree, Failure> {
    let fd = clone_tree(kernel, path, recursive)?;
    restrict(kernel, &fd, recursive, RESTRICTED)?;
    let stat = kernel.at("fstat", path, || rustix::fs::fstat(&fd))?;
    Ok(Tree { fd, folder: FileType::from_raw_mode(stat.st_mode) == FileType::Directory })
}

fn clone_tree(kernel: Kernel, path: &Path, recursive: bool) -> Result<OwnedFd, Failure> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    // What is mounted below comes along: in a user namespace the kernel refuses to uncover it.
    flags.set(OpenTreeFlags::AT_RECURSIVE, recursive);
    kernel.at("open_tree", path, || rustix::mount::open_tree(CWD, path, flags))
}

fn restrict(kernel: Kernel, tree: &OwnedFd, recursive: bool, attributes: u32) -> Result<(), Failure> {
    kernel.call("mount_setattr", || kernel::mount_setattr(tree.as_fd(), recursive, attributes))
}

fn attach(kernel: Kernel, tree: BorrowedFd<'_>, target: &Path) -> Result<(), Failure> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    kernel.at("move_mount", target, || rustix::mount::move_mount(tree, "", CWD, target, flags))
}

/// A file system that nobody has mounted yet, without set-uid programs.
fn file_system(
    kernel: Kernel,
    kind: &str,
    options: &[(&str, String)],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, Failure> {
    let attributes = attributes | MountAttrFlags::MOUNT_ATTR_NOSUID;
    let context = kernel.at("fsopen", kind, || rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC))?;
    for (key, value) in options {
        kernel.at("fsconfig", key, || rustix::mount::fsconfig_set_string(&context, *key, value.as_str()))?;
    }
    kernel.at("fsconfig", kind, || rustix::mount::fsconfig_create(&context))?;
    kernel.at("fsmount", kind, || rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes))
}

/// A tmpfs that nobody has mounted yet, limited in bytes and inodes.
pub(crate) fn limited_tmpfs(kernel: Kernel, bytes: u64, mode: &str) -> Result<OwnedFd, Failure> {
    let inodes = (bytes / BYTES_PER_INODE).max(MIN_INODES);
    let options = [
        ("size", bytes.to_string()),
        ("nr_inodes", inodes.to_string()),
        ("mode", mode.to_owned()),
        ("uid", INSIDE_ID.to_string()),
        ("gid", INSIDE_ID.to_string()),
    ];
    file_system(kernel, "tmpfs", &options, MountAttrFlags::MOUNT_ATTR_NODEV)
}

/// Parks a pod's `/data` in the broker's mount namespace.
pub(crate) fn park_data(kernel: Kernel, bytes: u64) -> Result<(), Failure> {
    let private = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    kernel.at("mount (slave)", "/", || rustix::mount::mount_change("/", private))?;
    let data = limited_tmpfs(kernel, bytes, "0700")?;
    attach(kernel, data.as_fd(), Path::new(DATA_PARKED))
}

fn tmpfs(kernel: Kernel, target: &Path, bytes: u64, mode: &str) -> Result<(), Failure> {
    folder(kernel, target)?;
    attach(kernel, limited_tmpfs(kernel, bytes, mode)?.as_fd(), target)
}

/// Mounts a tree at a path that may have to be made first.
fn place(kernel: Kernel, tree: &Tree, target: &Path) -> Result<(), Failure> {
    if tree.folder {
        folder(kernel, target)?;
    } else if !target.exists() {
        folder(kernel, target.parent().unwrap_or(Path::new("/")))?;
        file(kernel, target, b"", 0o644)?;
    }
    attach(kernel, tree.fd.as_fd(), target)
}

fn folder(kernel: Kernel, path: &Path) -> Result<(), Failure> {
    kernel.at("mkdir", path, || {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(|error| kernel::errno(&error))
    })
}

fn file(kernel: Kernel, path: &Path, contents: &[u8], mode: u32) -> Result<(), Failure> {
    kernel.at("write", path, || {
        let opened = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
        opened.and_then(|mut file| file.write_all(contents)).map_err(|error| kernel::errno(&error))
    })
}

fn symlink(kernel: Kernel, target: &Path, link: &str) -> Result<(), Failure> {
    kernel.at("symlink", link, || rustix::fs::symlink(target, link))
}
