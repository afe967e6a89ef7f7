//! The generated `/etc`.

use std::{
    collections::BTreeMap,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use crate::{failure::Failure, kernel::Kernel, messages::Start};

use super::{attach, clone_tree, file, folder, symlink};

/// Where a file waits that goes on top of one of the host's.
const GENERATED: &str = "/etc/.generated";

/// Writes the caller's files and, where it gave none, the defaults.
pub(super) fn write(kernel: Kernel, start: &Start, contents: &[u8]) -> Result<(), Failure> {
    let mut files = defaults(&start.hostname);
    let mut rest = contents;
    for (path, length) in &start.etc {
        let (content, after) = rest.split_at_checked(*length).unwrap_or((rest, &[]));
        rest = after;
        files.insert(path.clone(), content.to_vec());
    }
    folder(kernel, Path::new("/etc"))?;
    for (index, (path, content)) in files.iter().enumerate() {
        let target = Path::new("/etc").join(path);
        if !target.exists() {
            folder(kernel, target.parent().unwrap_or(Path::new("/etc")))?;
            file(kernel, &target, content, 0o644)?;
            continue;
        }
        // The host's, read-only, in a folder such as /etc/ssl/certs: ours covers it.
        folder(kernel, Path::new(GENERATED))?;
        let waiting = Path::new(GENERATED).join(index.to_string());
        file(kernel, &waiting, content, 0o644)?;
        attach(kernel, clone_tree(kernel, &waiting, false)?.as_fd(), &target)?;
    }
    if !Path::new("/etc/mtab").exists() {
        symlink(kernel, Path::new("/proc/self/mounts"), "/etc/mtab")?;
    }
    Ok(())
}

fn defaults(hostname: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let machine_id = new_machine_id();
    let texts = [
        (
            "passwd",
            "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nagent:x:1000:1000:agent:/home/agent:/bin/sh\n\
             nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
                .to_owned(),
        ),
        ("group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n".to_owned()),
        ("hosts", format!("127.0.0.1 localhost {hostname}\n::1 localhost\n")),
        ("hostname", format!("{hostname}\n")),
        // Nothing but files and our own DNS: other modules would ask daemons over the host's sockets.
        (
            "nsswitch.conf",
            "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\n\
             services: files\nethers: files\nrpc: files\n"
                .to_owned(),
        ),
        ("machine-id", format!("{machine_id}\n")),
        ("shells", "/bin/sh\n".to_owned()),
        ("timezone", "Etc/UTC\n".to_owned()),
    ];
    texts.into_iter().map(|(path, text)| (PathBuf::from(path), text.into_bytes())).collect()
}

/// 32 hexadecimal digits, new for each start: the host's would tell where one is. The kernel makes a new UUID at each
/// read; a generator of our own would repeat itself in every fork of the spawner.
fn new_machine_id() -> String {
    let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    uuid.chars().filter(char::is_ascii_hexdigit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_name_this_machine_and_ask_no_daemon() {
        let files = defaults("shop");
        let text = |path: &str| String::from_utf8(files[Path::new(path)].clone()).unwrap();
        assert!(text("hosts").contains("localhost shop"));
        assert!(text("nsswitch.conf").contains("hosts: files dns"));
        assert_eq!(text("machine-id").trim().len(), 32);
        assert_ne!(new_machine_id(), new_machine_id());
    }
}
