use std::{
    fs,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
};

use agentenv_protocol::Digest;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tar::{Builder, EntryType, Header};

use super::{Fixture, files};
use crate::{
    BuildKey, StoreError, TreeError,
    blobs::{BlobKind, Measuring},
};

#[tokio::test]
async fn a_tree_comes_back_as_it_was_with_even_modes_and_times() {
    let fixture = Fixture::new().await;
    let site = fixture.site("site");
    let tree = fixture.store.put_tree(&site).await.unwrap();
    let place = fixture.store.checkout_tree(&tree).await.unwrap();
    assert_eq!(fs::read_to_string(place.join("pages/index.html")).unwrap(), "hello");
    assert_eq!(fs::read_link(place.join("pages/run")).unwrap(), Path::new("../run"));
    for (path, mode) in [("", 0o755), ("pages/deep", 0o755), ("run", 0o755), ("pages/index.html", 0o644)] {
        assert_eq!(place.join(path).metadata().unwrap().mode() & 0o7777, mode, "{path}");
    }
    assert_eq!(place.join("run").metadata().unwrap().mtime().unsigned_abs(), crate::SOURCE_DATE_EPOCH);
    // What comes out is what went in, whatever times and owners have become.
    assert_eq!(fixture.store.put_tree(&place).await.unwrap(), tree);
}

#[tokio::test]
async fn the_digest_is_of_what_is_there_and_not_of_how_it_came() {
    let fixture = Fixture::new().await;
    let one = fixture.store.put_tree(&fixture.site("one")).await.unwrap();
    let other = fixture.path("other");
    fs::create_dir(&other).unwrap();
    for path in ["run", "pages/run", "pages/index.html", "pages/deep"] {
        fs::create_dir_all(other.join("pages")).unwrap();
        match path {
            "pages/run" => symlink("../run", other.join(path)).unwrap(),
            "pages/deep" => fs::create_dir(other.join(path)).unwrap(),
            "run" => {
                fs::write(other.join(path), "#!/bin/sh\n").unwrap();
                fs::set_permissions(other.join(path), fs::Permissions::from_mode(0o555)).unwrap();
            }
            _ => fs::write(other.join(path), "hello").unwrap(),
        }
    }
    assert_eq!(fixture.store.put_tree(&other).await.unwrap(), one);
    fs::set_permissions(other.join("run"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_ne!(fixture.store.put_tree(&other).await.unwrap(), one);
    assert_eq!(files(&fixture.path("home/store/blobs")).len(), 2);
}

#[tokio::test]
async fn long_names_and_odd_names_survive() {
    let fixture = Fixture::new().await;
    let site = fixture.path("site");
    let deep = site.join(["d".repeat(200), "e".repeat(200)].join("/"));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("f".repeat(200)), "x").unwrap();
    fs::write(site.join("new\nline \u{e9}"), "x").unwrap();
    symlink("g".repeat(200), deep.join("link")).unwrap();
    let tree = fixture.store.put_tree(&site).await.unwrap();
    let place = fixture.store.checkout_tree(&tree).await.unwrap();
    assert_eq!(fixture.store.put_tree(&place).await.unwrap(), tree);
}

#[tokio::test]
async fn row_98_links_out_of_the_tree_are_refused() {
    let fixture = Fixture::new().await;
    fs::write(fixture.path("secret"), "canary").unwrap();
    type Make = fn(&Path);
    let cases: [(Make, &str); 5] = [
        (|site| symlink("../secret", site.join("bad")).unwrap(), "the link bad -> ../secret leaves the tree"),
        (|site| symlink("/etc/passwd", site.join("bad")).unwrap(), "the link bad -> /etc/passwd is absolute"),
        (
            |site| {
                symlink("../..", site.join("pages/deep/up")).unwrap();
                symlink("up/../secret", site.join("pages/deep/out")).unwrap();
            },
            "the link pages/deep/out -> up/../secret leaves the tree",
        ),
        (|site| fs::hard_link(site.join("../secret"), site.join("bad")).unwrap(), "is a hard link to a file outside"),
        (|site| mknodat(CWD, site.join("bad"), FileType::Fifo, Mode::RUSR, 0).unwrap(), "is a named pipe"),
    ];
    for (index, (make, message)) in cases.into_iter().enumerate() {
        let site = fixture.site(&format!("site{index}"));
        make(&site);
        let error = fixture.store.put_tree(&site).await.unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(error.exit(), agentenv_protocol::ExitCode::Refused);
        assert!(!error.hint().is_empty());
    }
    symlink("/etc", fixture.path("linked")).unwrap();
    let error = fixture.store.put_built_tree(&fixture.path("linked")).await.unwrap_err();
    assert!(error.to_string().ends_with("linked is not a folder"), "{error}");
    assert!(files(&fixture.path("home/store/blobs")).is_empty());
}

#[tokio::test]
async fn hard_links_within_the_tree_are_files_and_a_builds_links_into_a_cache_are_copies() {
    let fixture = Fixture::new().await;
    let site = fixture.site("site");
    fs::hard_link(site.join("run"), site.join("again")).unwrap();
    let tree = fixture.store.put_tree(&site).await.unwrap();
    let place = fixture.store.checkout_tree(&tree).await.unwrap();
    assert_eq!(place.join("again").metadata().unwrap().nlink(), 1);
    fs::write(fixture.path("cached"), "x").unwrap();
    fs::hard_link(fixture.path("cached"), site.join("module")).unwrap();
    assert!(matches!(fixture.store.put_tree(&site).await, Err(StoreError::Tree(TreeError::HardLink { .. }))));
    assert!(fixture.store.put_built_tree(&site).await.is_ok());
}

#[tokio::test]
async fn what_a_build_made_is_found_by_everything_that_went_into_it() {
    let fixture = Fixture::new().await;
    let tree = fixture.store.put_tree(&fixture.site("site")).await.unwrap();
    let other = Digest::parse(&"0".repeat(64)).unwrap();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let key = BuildKey {
        source: tree.clone(),
        commands: vec![words("make all"), words("make install")],
        toolchain: "rustc 1.95".to_owned(),
        sdk: other.clone(),
    };
    fixture.store.record_build(&key, &tree).await.unwrap();
    assert_eq!(fixture.store.find_build(&key).await.unwrap(), Some(tree.clone()));
    for changed in [
        BuildKey { source: other.clone(), ..key.clone() },
        BuildKey { commands: vec![words("make all make"), words("install")], ..key.clone() },
        BuildKey { commands: vec![words("make all command make install")], ..key.clone() },
        BuildKey { toolchain: "rustc 1.96".to_owned(), ..key.clone() },
        BuildKey { sdk: tree.clone(), ..key.clone() },
    ] {
        assert_eq!(fixture.store.find_build(&changed).await.unwrap(), None, "{changed:?}");
    }
    // A build whose tree is gone is no build.
    fixture.store.gc().await.unwrap();
    assert_eq!(fixture.store.find_build(&key).await.unwrap(), None);
}

struct Hostile(Builder<Vec<u8>>);

impl Hostile {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// Appends an entry with a path that the `tar` crate itself would refuse.
    fn entry(mut self, kind: EntryType, path: &str, link: &str, body: &str) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o4777);
        header.set_size(body.len() as u64);
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.append(&header, body.as_bytes()).unwrap();
        self
    }

    fn file(self, path: &str) -> Self {
        self.entry(EntryType::Regular, path, "", "canary")
    }

    fn folder(self, path: &str) -> Self {
        self.entry(EntryType::Directory, path, "", "")
    }

    fn link(self, path: &str, target: &str) -> Self {
        self.entry(EntryType::Symlink, path, target, "")
    }

    /// A PAX header that says where the next entry really is.
    fn pax(mut self, key: &str, value: &str) -> Self {
        self.0.append_pax_extensions([(key, value.as_bytes())]).unwrap();
        self
    }

    fn finish(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

/// Stores bytes as they are, as an import from elsewhere might.
async fn plant(fixture: &Fixture, bytes: Vec<u8>) -> Digest {
    let mut measuring = Measuring::default();
    measuring.write_all(&bytes).unwrap();
    let measure = measuring.finish();
    let produce = move |out: &mut dyn std::io::Write| {
        out.write_all(&bytes).map_err(|error| StoreError::io(Path::new("planted"), error))
    };
    fixture.store.blobs.put(BlobKind::Tree, &measure, produce).await.unwrap();
    measure.digest
}

#[tokio::test]
async fn row_57_a_hostile_tar_writes_nothing_outside() {
    let fixture = Fixture::new().await;
    let cases = [
        ("dots", Hostile::new().file("../outside")),
        ("dots inside", Hostile::new().folder("a").file("a/../../outside")),
        ("absolute", Hostile::new().file("/tmp/agentenv-outside")),
        ("pax path", Hostile::new().pax("path", "../outside").file("inside")),
        ("pax absolute", Hostile::new().pax("path", "/tmp/agentenv-outside").file("inside")),
        ("pax link", Hostile::new().pax("linkpath", "/etc").link("a", "b")),
        ("link then file", Hostile::new().link("a", "/tmp").file("a/agentenv-outside")),
        ("link then the same name", Hostile::new().link("a", "../outside").file("a")),
        ("link then folder", Hostile::new().link("a", "..").folder("a").file("a/outside")),
        ("folder then link", Hostile::new().folder("a").link("a", "..").file("a/outside")),
        ("file as folder", Hostile::new().file("a").file("a/b")),
        ("link through links", Hostile::new().folder("a").link("a/l", "..").link("a/m", "l/../outside")),
        ("hard link", Hostile::new().entry(EntryType::Link, "a", "/etc/passwd", "")),
        ("device", Hostile::new().entry(EntryType::Char, "a", "", "")),
        ("pipe", Hostile::new().entry(EntryType::Fifo, "a", "", "")),
        ("no folder", Hostile::new().file("a/b")),
        ("global header", Hostile::new().entry(EntryType::XGlobalHeader, "g", "", "16 path=../x1\n")),
    ];
    for (what, tar) in cases {
        let digest = plant(&fixture, tar.finish()).await;
        let error = fixture.store.checkout_tree(&digest).await.expect_err(what);
        assert!(matches!(error, StoreError::Tree(_)), "{what}: {error}");
        assert!(!fixture.path("home/cache/trees").join(digest.as_str()).exists(), "{what}");
    }
    assert!(files(&fixture.path("home/cache")).is_empty());
    assert!(!Path::new("/tmp/agentenv-outside").exists());
    let outside = files(fixture.folder.path()).into_iter().filter(|(path, _)| path.ends_with("outside")).count();
    assert_eq!(outside, 0);
}

#[tokio::test]
async fn modes_of_a_foreign_tar_are_evened_out() {
    let fixture = Fixture::new().await;
    let digest = plant(&fixture, Hostile::new().folder("a").file("a/setuid").finish()).await;
    let place = fixture.store.checkout_tree(&digest).await.unwrap();
    assert_eq!(place.join("a/setuid").metadata().unwrap().mode() & 0o7777, 0o755);
}

#[tokio::test]
async fn a_tree_that_is_not_stored_is_named() {
    let fixture = Fixture::new().await;
    let digest = Digest::parse(&"1".repeat(64)).unwrap();
    let error = fixture.store.checkout_tree(&digest).await.unwrap_err();
    assert_eq!(error.to_string(), format!("tree {digest} is not stored"));
}
