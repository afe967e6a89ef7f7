use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    thread,
};

use agentenv_protocol::{Home, SecretPath};
use secrecy::{ExposeSecret as _, SecretString};
use tempfile::TempDir;

use crate::{MAX_SECRET_BYTES, SecretError, SecretFiles, SecretValueError, secret_value};

fn fixture() -> (TempDir, PathBuf, SecretFiles) {
    let folder = TempDir::new().unwrap();
    let home = Home::at(folder.path().join("home"));
    let files = SecretFiles::of(&home);
    (folder, home.secrets(), files)
}

fn path(text: &str) -> SecretPath {
    SecretPath::parse(text).unwrap()
}

fn value(files: &SecretFiles, text: &str) -> Option<String> {
    files.get(&path(text)).unwrap().map(|value| value.expose_secret().to_owned())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_secret_is_stored_replaced_listed_and_removed() {
    let (_folder, place, files) = fixture();
    assert!(files.list().unwrap().is_empty() && !files.remove(&path("a")).unwrap());
    assert!(!place.exists(), "looking makes nothing");
    let odd = "quote\" 'x' $HOME \\ line\nnext\ttab ü";
    assert!(!files.set(&path("github/token"), &odd.into()).unwrap());
    assert!(!files.set(&path("github"), &"parent".into()).unwrap(), "a path and one below it are two secrets");
    assert_eq!(value(&files, "github/token").as_deref(), Some(odd));
    assert!(files.set(&path("github/token"), &"new".into()).unwrap());
    assert_eq!(
        (value(&files, "github/token").as_deref(), value(&files, "github").as_deref()),
        (Some("new"), Some("parent"))
    );
    assert_eq!(files.list().unwrap(), [path("github"), path("github/token")]);
    assert!(files.remove(&path("github/token")).unwrap() && !files.remove(&path("github/token")).unwrap());
    assert_eq!(value(&files, "github/token"), None);
    assert_eq!(files.list().unwrap(), [path("github")]);
}

#[test]
fn secrets_are_for_their_user_alone() {
    let (_folder, place, files) = fixture();
    files.set(&path("a/b"), &"hunter2".into()).unwrap();
    assert_eq!((mode(&place), mode(&place.join("a+b"))), (0o700, 0o600));
    // A folder that somebody opened is closed again, and a secret that lay open is one no more.
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place.join("a+b"), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(files.get(&path("a/b")), Err(SecretError::Open { .. })));
    files.set(&path("c"), &"x".into()).unwrap();
    files.set(&path("a/b"), &"new".into()).unwrap();
    assert_eq!((mode(&place), mode(&place.join("a+b"))), (0o700, 0o600));
    assert_eq!(value(&files, "a/b").as_deref(), Some("new"));
    assert!(!format!("{files:?}").contains("hunter2"));
}

#[test]
fn row_55_no_link_is_followed_and_no_pipe_waited_for() {
    let (folder, place, files) = fixture();
    files.set(&path("first"), &"x".into()).unwrap();
    let outside = folder.path().join("outside");
    fs::write(&outside, "outside").unwrap();
    symlink(&outside, place.join("link")).unwrap();
    assert!(files.get(&path("link")).is_err());
    // What is written takes the link's place.
    files.set(&path("link"), &"mine".into()).unwrap();
    assert_eq!(
        (value(&files, "link").as_deref(), fs::read_to_string(&outside).unwrap().as_str()),
        (Some("mine"), "outside")
    );
    fs::hard_link(&outside, place.join("hard")).unwrap();
    assert!(matches!(files.get(&path("hard")), Err(SecretError::Damaged { .. })));
    rustix::fs::mknodat(rustix::fs::CWD, place.join("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    assert!(matches!(files.get(&path("pipe")), Err(SecretError::Damaged { .. })));
    for (name, bytes) in [("empty", vec![]), ("binary", vec![0xff, 0xfe]), ("long", vec![b'x'; MAX_SECRET_BYTES + 1])] {
        fs::write(place.join(name), bytes).unwrap();
        fs::set_permissions(place.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(files.get(&path(name)), Err(SecretError::Damaged { .. })), "{name}");
    }
}

#[test]
fn row_81_what_a_killed_command_left_is_no_secret_and_goes() {
    let (_folder, place, files) = fixture();
    files.set(&path("a"), &"x".into()).unwrap();
    fs::write(place.join("+new-abc"), "half of a sec").unwrap();
    assert_eq!(files.list().unwrap(), [path("a")]);
    files.set(&path("b"), &"y".into()).unwrap();
    assert!(!place.join("+new-abc").exists());
}

#[test]
fn many_writers_leave_one_whole_value() {
    let (_folder, place, files) = fixture();
    let values: Vec<String> = (0..8).map(|index| index.to_string().repeat(4000)).collect();
    thread::scope(|scope| {
        for text in &values {
            let files = &files;
            scope.spawn(move || files.set(&path("a"), &SecretString::from(text.as_str())).unwrap());
        }
    });
    assert!(values.contains(&value(&files, "a").unwrap()));
    assert_eq!(fs::read_dir(place).unwrap().count(), 2, "the secret and the lock");
}

#[test]
fn a_value_is_text_without_the_line_end_that_commands_put_behind_it() {
    let text = |bytes: &[u8]| secret_value(bytes.to_vec()).map(|value| value.expose_secret().to_owned());
    for (bytes, value) in
        [("a", "a"), ("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), (" a ", " a "), ("a\nb\n", "a\nb")]
    {
        assert_eq!(text(bytes.as_bytes()).as_deref(), Ok(value), "{bytes:?}");
    }
    for (bytes, error) in [
        (&b""[..], SecretValueError::Empty),
        (b"\n", SecretValueError::Empty),
        (b"\r\n", SecretValueError::Empty),
        (b"a\0b", SecretValueError::NotText),
        (b"\xff", SecretValueError::NotText),
        (&[b'x'; MAX_SECRET_BYTES + 1], SecretValueError::TooLong),
    ] {
        assert_eq!(text(bytes), Err(error), "{:?}", &bytes[..bytes.len().min(8)]);
    }
    assert_eq!(text(&[b'x'; MAX_SECRET_BYTES]).map(|text| text.len()), Ok(MAX_SECRET_BYTES));
}
