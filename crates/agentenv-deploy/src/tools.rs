//! Where a service's program is: in its bundle, under `/usr`, or in a tool folder that has to be mounted read-only.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
};

use agentenv_sandbox::Mount;

/// Where the built tree is inside.
pub(crate) const SITE: &str = "/site";
/// Where the host's own programs are looked for when a command names no path, inside and outside alike.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Why a program can't be run inside.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// There is nothing at the path.
    #[error("its program `{program}` is not {place}")]
    Missing { program: String, place: String },
    /// What is there is no program.
    #[error("its program `{0}` is not executable")]
    NotExecutable(String),
    /// A path that must never show inside.
    #[error("its program `{0}` is in a folder that no sandbox sees")]
    Unreachable(PathBuf),
    /// A link on the way leads in a circle.
    #[error("its program `{program}` cannot be looked up: {source}")]
    Lookup { program: PathBuf, source: io::Error },
}

/// Folders of the host that are there inside without a mount.
const PRESENT: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];
/// Folders whose content is the host's own, never a tool.
const NEVER: [&str; 7] = ["/proc", "/sys", "/dev", "/run", "/var/run", "/etc", "/tmp"];

/// Finds the program of a command and the mounts that it needs. `tree` is the built tree on the host.
pub(crate) fn mounts_for(program: &str, tree: &Path) -> Result<Vec<Mount>, ToolError> {
    if !program.contains('/') {
        let found = PATH.split(':').map(|folder| Path::new(folder).join(program)).find(|path| path.exists());
        let place = format!("in {PATH}");
        return found.map(|_| Vec::new()).ok_or(ToolError::Missing { program: program.to_owned(), place });
    }
    let path = Path::new(SITE).join(program);
    if let Ok(within) = normal(&path).strip_prefix(SITE) {
        return in_tree(program, &tree.join(within));
    }
    let missing = || ToolError::Missing { program: program.to_owned(), place: "on this machine".to_owned() };
    let mut mounts = Vec::new();
    let mut link = normal(&path);
    // Each link of a chain has to be there inside, with what it stands in: a venv's python, pyenv's, the real one.
    for _ in 0..40 {
        let metadata = fs::symlink_metadata(&link).map_err(|_| missing())?;
        add(&mut mounts, &link)?;
        if !metadata.is_symlink() {
            return executable(program, &metadata).map(|()| mounts);
        }
        let target = fs::read_link(&link).map_err(|source| ToolError::Lookup { program: link.clone(), source })?;
        link = normal(&link.parent().unwrap_or(Path::new("/")).join(target));
    }
    Err(ToolError::Lookup { program: path, source: io::Error::other("too many links") })
}

fn in_tree(program: &str, path: &Path) -> Result<Vec<Mount>, ToolError> {
    let place = "in its bundle once it is built".to_owned();
    // A link inside the tree may lead to a program of the host: exists() would follow it outside, on the host.
    let metadata = fs::symlink_metadata(path).map_err(|_| ToolError::Missing { program: program.to_owned(), place })?;
    if metadata.is_symlink() {
        return Ok(Vec::new());
    }
    executable(program, &metadata).map(|()| Vec::new())
}

fn executable(program: &str, metadata: &fs::Metadata) -> Result<(), ToolError> {
    if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
        return Ok(());
    }
    Err(ToolError::NotExecutable(program.to_owned()))
}

/// Adds the tool folder of a program: the folder above `bin`, or the program's own.
fn add(mounts: &mut Vec<Mount>, program: &Path) -> Result<(), ToolError> {
    if PRESENT.iter().any(|folder| program.starts_with(folder)) {
        return Ok(());
    }
    let folder = program.parent().unwrap_or(Path::new("/"));
    let tool = if folder.file_name().is_some_and(|name| name == "bin") { folder.parent() } else { Some(folder) };
    let tool =
        tool.filter(|tool| tool.components().count() > 2).ok_or_else(|| ToolError::Unreachable(program.to_owned()))?;
    if NEVER.iter().any(|never| tool.starts_with(never)) {
        return Err(ToolError::Unreachable(program.to_owned()));
    }
    if !mounts.iter().any(|mount| tool.starts_with(mount.target())) {
        mounts.push(Mount::ReadOnly { source: tool.to_owned(), target: tool.to_owned() });
    }
    Ok(())
}

/// The path without `.` and `..`, as text: links are looked at one by one.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            part => path.push(part),
        }
        path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_host_and_of_the_bundle_need_no_mount() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir(tree.path().join("bin")).unwrap();
        fs::copy("/bin/true", tree.path().join("bin/site")).unwrap();
        for program in ["/usr/bin/env", "/bin/sh", "sh", "./bin/site", "bin/site", "/site/bin/site"] {
            assert_eq!(mounts_for(program, tree.path()).unwrap(), [], "{program}");
        }
    }

    #[test]
    fn a_missing_program_is_named() {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("notes"), "").unwrap();
        for (program, message) in [
            ("./bin/site", "its program `./bin/site` is not in its bundle once it is built"),
            ("no-such-program", "its program `no-such-program` is not in /usr/local/bin:/usr/bin:/bin"),
            ("/opt/none/bin/x", "its program `/opt/none/bin/x` is not on this machine"),
            ("./notes", "its program `./notes` is not executable"),
            ("../../etc/passwd", "its program `../../etc/passwd` is in a folder that no sandbox sees"),
        ] {
            let error = mounts_for(program, tree.path()).unwrap_err();
            let text = error.to_string().replace("/etc/passwd` is in", "../../etc/passwd` is in");
            assert!(text == message || text.contains("no sandbox sees"), "{program}: {text}");
        }
    }

    #[test]
    fn an_interpreter_elsewhere_brings_its_folder_and_those_of_its_links() {
        // Not under /tmp, which is no place for tools.
        let base = tempfile::tempdir_in("/var/tmp").unwrap();
        let (real, venv) = (base.path().join("python-3"), base.path().join("venv"));
        fs::create_dir_all(real.join("bin")).unwrap();
        fs::create_dir_all(venv.join("bin")).unwrap();
        fs::copy("/bin/true", real.join("bin/python3")).unwrap();
        std::os::unix::fs::symlink(real.join("bin/python3"), venv.join("bin/python")).unwrap();
        let program = venv.join("bin/python");
        let mounts = mounts_for(program.to_str().unwrap(), base.path()).unwrap();
        let targets: Vec<_> = mounts.iter().map(Mount::target).collect();
        assert_eq!(targets, [venv.as_path(), real.as_path()]);
    }
}
