//! Finds the files of a step that become artifacts. The folder is written by programs that we did not write: no link is
//! followed, nothing but plain files is taken, and what is left out is said.

use std::{
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat},
    io::Errno,
};

/// The most files of one step: a screenshot every few seconds for hours.
const MAX_FILES: usize = 10_000;
/// How deep folders are looked into.
const MAX_DEPTH: usize = 32;

/// What a folder holds.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Plain files, relative to the folder, in order.
    pub files: Vec<PathBuf>,
    /// What was left out, and why.
    pub left_out: Vec<String>,
}

/// Looks through a folder; one that is not there is empty.
pub(crate) fn find(folder: &Path) -> Found {
    let mut found = Found::default();
    match open(CWD, folder.as_os_str()) {
        Ok(opened) => walk(&opened, Path::new(""), 0, &mut found),
        Err(Errno::NOENT) => {}
        Err(error) => found.left_out.push(format!("{}: {error}", folder.display())),
    }
    found.files.sort();
    found
}

fn open(at: impl rustix::fd::AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn walk(folder: &OwnedFd, path: &Path, depth: usize, found: &mut Found) {
    let entries = match Dir::read_from(folder) {
        Ok(entries) => entries,
        Err(error) => return found.left_out.push(format!("`{}`: {error}", path.display())),
    };
    for entry in entries.flatten() {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let whole = path.join(name);
        let left_out =
            |found: &mut Found, why: &str| found.left_out.push(format!("`{}` is left out: {why}", whole.display()));
        let Ok(stat) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if stat.st_nlink > 1 => left_out(found, "it has other names (hard links)"),
            FileType::RegularFile if found.files.len() >= MAX_FILES => {
                left_out(found, &format!("a step keeps {MAX_FILES} files at most"));
                return;
            }
            FileType::RegularFile => found.files.push(whole),
            FileType::Directory if depth >= MAX_DEPTH => left_out(found, "it is nested too deep"),
            FileType::Directory => match open(folder, name) {
                Ok(inner) => walk(&inner, &whole, depth + 1, found),
                Err(error) => left_out(found, &error.to_string()),
            },
            FileType::Symlink => left_out(found, "it is a symbolic link"),
            _ => left_out(found, "it is not a plain file"),
        }
    }
}

/// The media type by a file's name.
pub(crate) fn media_type(path: &Path) -> &'static str {
    match path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase).as_deref() {
        Some("txt" | "log" | "md") => "text/plain",
        Some("json" | "har") => "application/json",
        Some("jsonl") => "application/jsonl",
        Some("html") => "text/html",
        Some("csv") => "text/csv",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("webm") => "video/webm",
        Some("zip") => "application/zip",
        Some("pdf") => "application/pdf",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn row_55_links_and_fifos_are_named_and_never_followed() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "x").unwrap();
        let folder = tempfile::tempdir_in(outside.path()).unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("shots")).unwrap();
        fs::write(at("shots/1.png"), "1").unwrap();
        fs::write(at("a.txt"), "a").unwrap();
        symlink(outside.path(), at("folder-link")).unwrap();
        symlink(outside.path().join("secret"), at("link")).unwrap();
        fs::hard_link(outside.path().join("secret"), at("hard")).unwrap();
        rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let mut found = find(folder.path());
        found.left_out.sort();
        assert_eq!(found.files, [Path::new("a.txt"), Path::new("shots/1.png")]);
        assert_eq!(
            found.left_out,
            [
                "`fifo` is left out: it is not a plain file",
                "`folder-link` is left out: it is a symbolic link",
                "`hard` is left out: it has other names (hard links)",
                "`link` is left out: it is a symbolic link",
            ]
        );
        assert!(find(&at("nowhere")).files.is_empty());
        let linked = find(&at("folder-link"));
        assert!(linked.files.is_empty() && linked.left_out.len() == 1, "the folder itself is not followed either");
    }
}
