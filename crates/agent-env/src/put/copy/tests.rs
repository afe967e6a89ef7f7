use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

/// What a bundle's file may become between the look at it and the copy: neither is read, and the pipe is not waited for.
#[test]
fn row_98_what_has_taken_a_files_place_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("outside"), "secret").unwrap();
    symlink(at("outside"), at("link")).unwrap();
    mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for taken in ["link", "pipe"] {
        assert!(copy_file(&at(taken), &at("copy"), false).is_err(), "{taken}");
        assert!(!at("copy").exists(), "{taken}");
    }
    // Nor is anything written through a link in the copy's place.
    fs::write(at("file"), "content").unwrap();
    symlink(at("outside"), at("copy")).unwrap();
    let _ = copy_file(&at("file"), &at("copy"), false);
    assert_eq!(fs::read_to_string(at("outside")).unwrap(), "secret");
}
