use std::{
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
};

use agentenv_model::{EnvSpec, Flags};
use agentenv_protocol::ExitCode;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{Fixture, SERVE, SERVER, write};
use crate::put::latest_versions;

#[tokio::test]
async fn the_same_bundle_twice_stores_nothing_new() {
    let fixture = Fixture::new().await;
    let bundle = fixture.bundle("shop", &format!("domains = [\"shop.test\"]\n{SERVER}"), &[SERVE]);
    let first = fixture.website(&bundle).await.unwrap();
    assert_eq!((first.version, first.stored, first.built), (1, true, false));
    let second = fixture.website(&bundle).await.unwrap();
    assert_eq!((second.version, second.stored), (1, false));
    write(&bundle, "page.html", "hello");
    assert_eq!(fixture.website(&bundle).await.unwrap().version, 2);
    fs::remove_file(bundle.join("page.html")).unwrap();
    let back = fixture.website(&bundle).await.unwrap();
    assert_eq!((back.version, back.stored, back.tree), (1, false, first.tree));
}

#[tokio::test]
async fn what_gitignore_names_is_not_stored() {
    let fixture = Fixture::new().await;
    let files = [
        SERVE,
        (".gitignore", "/target/\n*.log\n!keep.log\n"),
        ("target/debug/big", "x"),
        ("inner/a.log", "x"),
        ("inner/keep.log", "x"),
        ("inner/.gitignore", "secret\n"),
        ("inner/secret", "x"),
        (".hidden", "x"),
        (".ignore", "page.html\n"),
        (".git/config", "x"),
        ("page.html", "x"),
    ];
    let bundle = fixture.bundle("shop", SERVER, &files);
    // What is above a bundle that is in no repository is somebody else's.
    write(fixture.folder.path(), ".gitignore", "*\n");
    let put = fixture.website(&bundle).await.unwrap();
    assert_eq!(
        fixture.stored(&put).await,
        [".gitignore", ".hidden", ".ignore", "env.toml", "inner/.gitignore", "inner/keep.log", "page.html", "serve"]
    );
    // And so it is above a repository, but within one it is not.
    fs::remove_dir_all(bundle.join(".git")).unwrap();
    assert_eq!(fixture.website(&bundle).await.unwrap().version, put.version);
    write(fixture.folder.path(), ".gitignore", "*.html\n");
    fs::create_dir(fixture.path(".git")).unwrap();
    let put = fixture.website(&bundle).await.unwrap();
    assert!(!fixture.stored(&put).await.contains(&"page.html".to_owned()));
}

#[tokio::test]
async fn row_98_a_bundle_with_links_out_of_its_tree_is_refused() {
    let fixture = Fixture::new().await;
    write(fixture.folder.path(), "secret", "canary");
    for (index, (target, message)) in [
        ("../secret", "the link bad -> ../secret leaves the tree"),
        ("/etc/passwd", "the link bad -> /etc/passwd is absolute"),
        ("hard", "bad is a hard link to a file outside the bundle"),
        ("pipe", "bad is neither folder, nor plain file, nor symbolic link"),
    ]
    .into_iter()
    .enumerate()
    {
        let bundle = fixture.bundle(&format!("shop{index}"), SERVER, &[SERVE]);
        match target {
            "hard" => fs::hard_link(fixture.path("secret"), bundle.join("bad")).unwrap(),
            "pipe" => mknodat(CWD, bundle.join("bad"), FileType::Fifo, Mode::RUSR, 0).unwrap(),
            target => symlink(target, bundle.join("bad")).unwrap(),
        }
        let error = fixture.website(&bundle).await.unwrap_err();
        assert!(error.message.contains(message), "{}", error.message);
        assert_eq!((error.exit, error.hint.is_empty()), (ExitCode::Refused, false));
        // Named in .gitignore it is not part of the bundle.
        write(&bundle, ".gitignore", "bad\n");
        fixture.website(&bundle).await.unwrap();
    }
    let inside = fixture.bundle("inside", SERVER, &[SERVE, ("lib/a", "x")]);
    symlink("lib/a", inside.join("a")).unwrap();
    let put = fixture.website(&inside).await.unwrap();
    assert_eq!(fixture.read(&put, "a").await, "x");
}

#[tokio::test]
async fn a_link_that_becomes_a_folder_and_back_leaves_nothing_behind() {
    let fixture = Fixture::new().await;
    let bundle = fixture.bundle("shop", SERVER, &[SERVE, ("a/one", "1"), ("b/two", "2")]);
    symlink("a", bundle.join("c")).unwrap();
    fixture.website(&bundle).await.unwrap();
    fs::remove_file(bundle.join("c")).unwrap();
    write(&bundle, "c/three", "3");
    fs::remove_dir_all(bundle.join("a")).unwrap();
    symlink("b", bundle.join("a")).unwrap();
    let put = fixture.website(&bundle).await.unwrap();
    assert_eq!(fixture.stored(&put).await, ["a", "b/two", "c/three", "env.toml", "serve"]);
    assert_eq!(fixture.read(&put, "a/two").await, "2");
    assert_eq!(fs::read_to_string(bundle.join("b/two")).unwrap(), "2");
}

#[tokio::test]
async fn a_file_that_did_not_change_keeps_its_place_and_a_changed_one_is_new() {
    let fixture = Fixture::new().await;
    let bundle = fixture.bundle("shop", SERVER, &[SERVE, ("same", "x"), ("changed", "one")]);
    fixture.website(&bundle).await.unwrap();
    let at = |path: &str| fixture.home.cache().join("build/shop/site").join(path).metadata().unwrap();
    let (same, changed) = (at("same"), at("changed"));
    // The same length, and a time in the past, as a restored file has.
    write(&bundle, "changed", "two");
    let past = fs::File::options().write(true).open(bundle.join("changed")).unwrap();
    past.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let put = fixture.website(&bundle).await.unwrap();
    assert_eq!((at("same").ino(), at("same").mtime_nsec()), (same.ino(), same.mtime_nsec()));
    assert!(at("changed").modified().unwrap() > changed.modified().unwrap());
    assert_eq!(fixture.read(&put, "changed").await, "two");
}

#[tokio::test]
async fn what_the_env_names_has_to_be_there() {
    let fixture = Fixture::new().await;
    for (name, env, files, message) in [
        (
            "gone",
            "[server]\ncommand = [\"bin/gone\"]\nport = 8000\n",
            &[][..],
            "the server of `gone` runs `bin/gone`, which is not in the built bundle",
        ),
        (
            "plain",
            "[server]\ncommand = [\"./plain\"]\nport = 8000\n",
            &[("plain", "not a program")],
            "the server of `plain` runs `./plain`, which is not executable",
        ),
        (
            "folder",
            "[server]\ncommand = [\"./serve\"]\nport = 8000\n[frontend]\nstatic = \"dist\"\n",
            &[SERVE],
            "the frontend of `folder` is the folder `dist`, which is not in the built bundle",
        ),
    ] {
        let error = fixture.website(&fixture.bundle(name, env, files)).await.unwrap_err();
        assert_eq!((error.message.as_str(), error.exit), (message, ExitCode::Refused));
    }
    assert!(latest_versions(&fixture.store).await.unwrap().is_empty());
    // A bare name and an absolute path are the sandbox's to find.
    let env = "[server]\ncommand = [\"python3\", \"x.py\"]\nport = 8000\n[frontend]\ncommand = [\"/usr/bin/true\"]\nport = 1\n";
    fixture.website(&fixture.bundle("elsewhere", env, &[])).await.unwrap();
}

#[tokio::test]
async fn a_broken_env_file_is_refused_with_everything_that_is_wrong() {
    let fixture = Fixture::new().await;
    let bundle = fixture.bundle("shop", "live = \"no\"\ncolour = 1\n", &[]);
    let error = fixture.website(&bundle).await.unwrap_err();
    assert_eq!((error.message.as_str(), error.exit), ("the env has 3 problems", ExitCode::Refused));
    assert!(error.log.iter().any(|line| line.contains("env.toml:4:8: `live` is \"no\"")), "{:?}", error.log);
    let error = fixture.website(&fixture.path("nowhere")).await.unwrap_err();
    assert!(error.message.contains("nowhere: No such file"), "{}", error.message);
    fs::create_dir(fixture.path("empty")).unwrap();
    let error = fixture.website(&fixture.path("empty")).await.unwrap_err();
    assert!(error.message.ends_with("empty/env.toml does not exist"), "{}", error.message);
    fs::write(bundle.join("env.toml"), [0xff, 0xfe]).unwrap();
    assert_eq!(fixture.website(&bundle).await.unwrap_err().exit, ExitCode::Refused);
    fs::remove_file(bundle.join("env.toml")).unwrap();
    mknodat(CWD, bundle.join("env.toml"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    assert_eq!(fixture.website(&bundle).await.unwrap_err().exit, ExitCode::Refused, "and it does not hang");
}

#[tokio::test]
async fn flags_and_images() {
    let fixture = Fixture::new().await;
    let flags = Flags {
        name: Some("app".to_owned()),
        image: Some("ghcr.io/acme/app:1".to_owned()),
        domains: vec!["app.test".to_owned()],
        ..Flags::default()
    };
    let put = fixture.with_flags(None, &flags).await.unwrap();
    assert_eq!((put.name.as_str(), put.tree), ("app", None));
    let stored = latest_versions(&fixture.store).await.unwrap();
    assert!(matches!(&stored[0].spec, EnvSpec::Website(site) if site.domains.len() == 1));
    let error = fixture.with_flags(None, &Flags::default()).await.unwrap_err();
    assert_eq!(error.exit, ExitCode::Refused);
    // The name of the flag is the name of what is stored.
    let bundle = fixture.bundle("shop", SERVER, &[SERVE]);
    let renamed = Flags { name: Some("store".to_owned()), ..Flags::default() };
    assert_eq!(fixture.with_flags(Some(&bundle), &renamed).await.unwrap().name.as_str(), "store");
}
