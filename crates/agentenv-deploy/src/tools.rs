//! Where a service's program is: in its bundle, under `/usr`, or in a tool folder that has to be mounted read-only.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
};

use agentenv_protocol::Home;
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

/// Folders of a home that hold far more than tools.
const PERSONAL: [&str; 6] = ["", ".local", ".local/share", ".config", ".ssh", ".gnupg"];
/// Where the first user of a host begins; those before are services, whose homes are no people's.
const FIRST_PERSON: u32 = 1000;

/// Finds the program of a command and the mounts that it needs. `tree` is the built tree on the host.
pub(crate) fn mounts_for(program: &str, tree: &Path) -> Result<Vec<Mount>, ToolError> {
    mounts_without(program, tree, &Private::of_host())
}

/// What a site may not see by naming a program in it: its env.toml is anybody's.
struct Private {
    /// Neither these nor what they are in.
    whole: Vec<PathBuf>,
    /// Nor what is in these: our own state, with tokens and other sites' trees.
    within: Vec<PathBuf>,
}

impl Private {
    fn of_host() -> Self {
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let homes = homes(&passwd).chain(std::env::var_os("HOME").map(PathBuf::from));
        let state = Home::from_env().into_iter().flat_map(|home| [home.root().to_owned(), home.cache().to_owned()]);
        Self {
            whole: homes.flat_map(|home| PERSONAL.map(|folder| real(&home.join(folder)))).collect(),
            within: state.map(|folder| real(&folder)).collect(),
        }
    }

    fn covers(&self, folder: &Path) -> bool {
        let folder = real(folder);
        NEVER.iter().any(|never| folder.starts_with(never))
            || self.whole.iter().chain(&self.within).any(|private| private.starts_with(&folder))
            || self.within.iter().any(|private| folder.starts_with(private))
    }
}

/// The homes of people and of root in a passwd file.
fn homes(passwd: &str) -> impl Iterator<Item = PathBuf> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2);
        let (uid, home) = (fields.next()?.parse::<u32>().ok()?, fields.nth(2)?);
        ((uid == 0 || uid >= FIRST_PERSON) && home.len() > 1 && home.starts_with('/')).then(|| PathBuf::from(home))
    })
}

/// The path that a path leads to; itself where it leads nowhere.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn mounts_without(program: &str, tree: &Path, private: &Private) -> Result<Vec<Mount>, ToolError> {
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
        add(&mut mounts, &link, private)?;
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

/// Adds the tool folder of a program: the folder above `bin`, or the program's own. Of one that is private, such as
/// `~/.local`, only `bin` and `lib`.
fn add(mounts: &mut Vec<Mount>, program: &Path, private: &Private) -> Result<(), ToolError> {
    if PRESENT.iter().any(|folder| program.starts_with(folder)) {
        return Ok(());
    }
    let unreachable = || ToolError::Unreachable(program.to_owned());
    let folder = program.parent().unwrap_or(Path::new("/"));
    let above = if folder.file_name().is_some_and(|name| name == "bin") { folder.parent() } else { None };
    let tool = above.unwrap_or(folder);
    if tool.components().count() <= 2 || NEVER.iter().any(|never| tool.starts_with(never)) {
        return Err(unreachable());
    }
    let tools = match above {
        Some(tool) if private.covers(tool) => vec![folder.to_owned(), tool.join("lib")],
        _ => vec![tool.to_owned()],
    };
    if private.covers(&tools[0]) {
        return Err(unreachable());
    }
    for tool in tools.into_iter().filter(|tool| tool.is_dir() && !private.covers(tool)) {
        if !mounts.iter().any(|mount| tool.starts_with(mount.target())) {
            mounts.push(Mount::ReadOnly { source: tool.clone(), target: tool });
        }
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

    #[test]
    fn a_program_in_a_home_does_not_bring_the_home() {
        let base = tempfile::tempdir_in("/var/tmp").unwrap();
        let home = base.path().join("ada");
        let state = home.join(".local/state/agent-env");
        let private = Private {
            whole: PERSONAL.map(|folder| home.join(folder)).into(),
            within: vec![state.clone(), base.path().join("cache")],
        };
        let programs = [
            "ada/bin/x",
            "ada/x",
            "ada/.local/bin/x",
            "ada/.local/lib/x/bin/x",
            "ada/.pyenv/versions/3/bin/x",
            "x",
            "ada/.local/share/uv/python/3/bin/x",
            "ada/.ssh/x",
            "ada/.local/state/agent-env/cache/trees/1/bin/x",
            "cache/trees/1/x",
            "other/bin/x",
        ];
        for program in programs {
            fs::create_dir_all(base.path().join(program).parent().unwrap()).unwrap();
            fs::copy("/bin/true", base.path().join(program)).unwrap();
        }
        std::os::unix::fs::symlink(&home, base.path().join("link")).unwrap();
        for (program, expected) in [
            ("other/bin/x", Some(vec!["other"])),
            ("ada/bin/x", Some(vec!["ada/bin"])),
            ("link/bin/x", Some(vec!["link/bin"])),
            ("ada/.local/bin/x", Some(vec!["ada/.local/bin", "ada/.local/lib"])),
            ("ada/.local/lib/x/bin/x", Some(vec!["ada/.local/lib/x"])),
            ("ada/.pyenv/versions/3/bin/x", Some(vec!["ada/.pyenv/versions/3"])),
            ("ada/.local/share/uv/python/3/bin/x", Some(vec!["ada/.local/share/uv/python/3"])),
            ("ada/x", None),
            ("link/x", None),
            ("x", None),
            ("ada/.ssh/x", None),
            ("ada/.local/state/agent-env/cache/trees/1/bin/x", None),
            ("cache/trees/1/x", None),
        ] {
            let mounts = mounts_without(base.path().join(program).to_str().unwrap(), &state, &private);
            let seen =
                mounts.ok().map(|mounts| mounts.iter().map(|mount| mount.target().to_owned()).collect::<Vec<_>>());
            let expected = expected.map(|all| all.iter().map(|folder| base.path().join(folder)).collect::<Vec<_>>());
            assert_eq!(seen, expected, "{program}");
        }
    }

    #[test]
    fn homes_are_those_of_people_and_root() {
        let passwd = "root:x:0:0::/root:/bin/sh\ndaemon:x:1:1::/usr/sbin:\nada:x:1000:1000::/home/ada:/bin/sh\n\
            odd:x:1001:1001::/:/bin/sh\nnonsense\n";
        assert_eq!(homes(passwd).collect::<Vec<_>>(), [Path::new("/root"), Path::new("/home/ada")]);
    }
}
