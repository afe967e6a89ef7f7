//! Whether a tree's symbolic links stay within it.

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

/// How many links one path may go through; the kernel's own limit.
const MAX_LINKS: usize = 40;

/// Why a symbolic link is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the link {path} -> {target} {reason}")]
pub struct LinkError {
    /// The link, relative to the tree.
    pub path: PathBuf,
    /// Where it points.
    pub target: PathBuf,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// Checks every link of a tree, given as link to target. A link is followed as the kernel would, through the other links:
/// `a/l -> ../b/..` says nothing about where it ends if `b` is a link itself.
pub fn check_links(links: &BTreeMap<PathBuf, PathBuf>) -> Result<(), LinkError> {
    for (path, target) in links {
        follow(links, path).map_err(|reason| LinkError { path: path.clone(), target: target.clone(), reason })?;
    }
    Ok(())
}

fn follow(links: &BTreeMap<PathBuf, PathBuf>, link: &Path) -> Result<(), &'static str> {
    let mut here = PathBuf::new();
    let mut rest: VecDeque<OsString> = link.components().map(|part| part.as_os_str().to_owned()).collect();
    let mut followed = 0;
    while let Some(part) = rest.pop_front() {
        match Path::new(&part).components().next() {
            None | Some(Component::CurDir) => {}
            Some(Component::RootDir | Component::Prefix(_)) => return Err("is absolute"),
            Some(Component::ParentDir) => {
                if !here.pop() {
                    return Err("leaves the tree");
                }
            }
            Some(Component::Normal(name)) => {
                here.push(name);
                if let Some(target) = links.get(&here) {
                    followed += 1;
                    if followed > MAX_LINKS {
                        return Err("goes through too many links");
                    }
                    here.pop();
                    for part in target.components().rev() {
                        rest.push_front(part.as_os_str().to_owned());
                    }
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(links: &[(&str, &str)]) -> Result<(), &'static str> {
        let links = links.iter().map(|(path, target)| (PathBuf::from(path), PathBuf::from(target))).collect();
        check_links(&links).map_err(|error| error.reason)
    }

    #[test]
    fn row_98_links_stay_within_the_tree() {
        for links in [
            &[("lib64", "lib")][..],
            &[("a/b", "../c"), ("c", "d")],
            &[("dangling", "nowhere/at/all")],
            &[("a/b/root", "../.."), ("x", "a/b/root/y")],
        ] {
            assert_eq!(check(links), Ok(()), "{links:?}");
        }
        for (links, reason) in [
            (&[("a", "/etc/passwd")][..], "is absolute"),
            (&[("a", "../x")], "leaves the tree"),
            (&[("a/b", "../../x")], "leaves the tree"),
            (&[("a", "b/../../x")], "leaves the tree"),
            // Read as text `a/b/l/../x` is `a/b/x`; the kernel goes to the root's parent.
            (&[("a/b/l", "../.."), ("a/b/m", "l/../x")], "leaves the tree"),
            (&[("a", "b"), ("b", "a")], "goes through too many links"),
            (&[("a", "a")], "goes through too many links"),
        ] {
            assert_eq!(check(links), Err(reason), "{links:?}");
        }
    }
}
