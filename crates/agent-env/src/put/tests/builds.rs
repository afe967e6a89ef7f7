use std::fs;

use agentenv_protocol::ExitCode;

use super::{Fixture, SERVE, write};

/// An env whose server is built by a shell script of the bundle.
const BUILT: &str = "[server]\ncommand = [\"out/serve\"]\nport = 8000\nbuild = [\"./build.sh\", \"an argument\"]\n";

fn script(lines: &str) -> String {
    format!("#!/bin/sh\nset -e\nmkdir -p out\ncp serve out/serve\n{lines}\n")
}

fn built(fixture: &Fixture, lines: &str) -> std::path::PathBuf {
    fixture.bundle("shop", BUILT, &[SERVE, ("build.sh", &script(lines)), (".gitignore", "/out/\n")])
}

#[tokio::test]
async fn a_build_runs_once_for_all_that_went_into_it() {
    let fixture = Fixture::new().await;
    let count = fixture.path("count");
    let bundle = built(&fixture, &format!("echo \"$1\" >> {}\necho $PWD; echo and this >&2", count.display()));
    let runs = || fs::read_to_string(&count).unwrap_or_default().lines().count();
    let put = fixture.website(&bundle).await.unwrap();
    assert!(put.built && put.stored && runs() == 1);
    assert_eq!(fs::read_to_string(&count).unwrap(), "an argument\n");
    assert_eq!(fixture.stored(&put).await, [".gitignore", "build.sh", "env.toml", "out/serve", "serve"]);
    let again = fixture.website(&bundle).await.unwrap();
    assert!(!again.built && !again.stored && runs() == 1);
    write(&bundle, "page", "x");
    assert!(fixture.website(&bundle).await.unwrap().built && runs() == 2);
    // The first content again is known already.
    fs::remove_file(bundle.join("page")).unwrap();
    let back = fixture.website(&bundle).await.unwrap();
    assert!(!back.built && back.version == 1 && runs() == 2);
    // A build that is forgotten runs again.
    fixture.store.remove_env(&put.name, None).await.unwrap();
    fixture.store.gc().await.unwrap();
    assert!(fixture.website(&bundle).await.unwrap().built && runs() == 3);
    let said = fixture.said.lock().unwrap();
    assert!(said.iter().any(|line| line == "building `shop`: ./build.sh an argument"), "{said:?}");
    assert!(said.iter().any(|line| line == "and this") && said.iter().any(|line| line.ends_with("/build/shop/site")));
}

#[tokio::test]
async fn a_build_starts_from_the_bundle_and_nothing_else() {
    let fixture = Fixture::new().await;
    let bundle =
        built(&fixture, "test ! -e left; echo x > left; rm -f env.toml; ln -s out other; echo changed > .gitignore");
    fixture.website(&bundle).await.unwrap();
    write(&bundle, "page", "x");
    let put = fixture.website(&bundle).await.unwrap();
    assert_eq!(fixture.stored(&put).await, [".gitignore", "build.sh", "left", "other", "out/serve", "page", "serve"]);
}

#[tokio::test]
async fn row_98_a_build_that_writes_outside_its_scratch_copy_has_no_effect_on_what_is_stored() {
    let fixture = Fixture::new().await;
    let quiet = built(&fixture, "");
    let expected = fixture.website(&quiet).await.unwrap();
    // It writes to its own bundle, beside its scratch copy, and into another site's.
    let other = fixture.bundle("bank", BUILT, &[SERVE, ("build.sh", &script(""))]);
    let before = fixture.website(&other).await.unwrap();
    let site = fixture.path("shop");
    let loud = format!(
        "echo evil > {0}/serve\necho evil > {0}/new\necho evil > ../beside\necho evil > ../../bank/site/serve\n\
         echo evil > ../../bank/site/new\nmkdir -p ../../bank/.cargo\necho '[build' > ../../bank/.cargo/config.toml\n\
         rm -rf ../../bank/site/build.sh\nln -s /etc ../../bank/site/build.sh",
        site.display()
    );
    let bundle = built(&fixture, &loud);
    let put = fixture.website(&bundle).await.unwrap();
    let mut files = fixture.stored(&put).await;
    files.retain(|path| path != "build.sh");
    let mut quiet_files = fixture.stored(&expected).await;
    quiet_files.retain(|path| path != "build.sh");
    assert_eq!(files, quiet_files);
    assert_eq!(fixture.read(&put, "serve").await, SERVE.1);
    // The other site is copied and built again as if nothing had been.
    write(&other, "page", "x");
    let after = fixture.website(&other).await.unwrap();
    assert!(after.built);
    assert_eq!(fixture.stored(&after).await, ["build.sh", "env.toml", "out/serve", "page", "serve"]);
    assert_eq!(fixture.read(&after, "serve").await, fixture.read(&before, "serve").await);
}

#[tokio::test]
async fn row_98_links_that_a_build_makes_out_of_its_tree_are_refused() {
    let fixture = Fixture::new().await;
    for (lines, message) in [
        ("ln -s /etc out/etc", "the link out/etc -> /etc is absolute"),
        ("ln -s ../../x out/x", "the link out/x -> ../../x leaves the tree"),
        ("mkfifo out/pipe", "out/pipe is a named pipe"),
        ("cd ..; mv site away; ln -s /etc site", "site is not a folder"),
    ] {
        let error = fixture.website(&built(&fixture, lines)).await.unwrap_err();
        assert!(error.message.contains(message), "{lines}: {}", error.message);
        assert_eq!(error.exit, ExitCode::Refused);
        assert!(fixture.store.list_envs(None).await.unwrap().is_empty());
    }
    // And what is left of it does not spoil the next put.
    fixture.website(&built(&fixture, "")).await.unwrap();
}

#[tokio::test]
async fn a_build_that_fails_says_why_and_stores_nothing() {
    let fixture = Fixture::new().await;
    let bundle = built(&fixture, "for i in $(seq 100); do echo line $i; done\necho 'no such crate' >&2\nexit 7");
    let error = fixture.website(&bundle).await.unwrap_err();
    assert_eq!(error.message, "the build of `shop` failed: `./build.sh an argument` ended with exit status: 7");
    assert_eq!((error.exit, error.log.len()), (ExitCode::Refused, 20));
    assert!(error.log.contains(&"line 100".to_owned()) && error.log.contains(&"no such crate".to_owned()));
    assert!(fixture.store.list_envs(None).await.unwrap().is_empty());
    let env = "[server]\ncommand = [\"./serve\"]\nport = 8000\nbuild = [\"no-such-builder\", \"x\"]\n";
    let error = fixture.website(&fixture.bundle("bank", env, &[SERVE])).await.unwrap_err();
    assert!(error.message.starts_with("the build of `bank` needs the program `no-such-builder`"), "{}", error.message);
    assert_eq!(error.exit, ExitCode::Refused);
}

#[tokio::test]
async fn a_build_that_leaves_something_running_does_not_hold_the_put() {
    let fixture = Fixture::new().await;
    let bundle = built(&fixture, "sleep 60 & echo $! > pid");
    let put = fixture.website(&bundle).await.unwrap();
    let pid = fixture.read(&put, "pid").await;
    std::process::Command::new("kill").arg(pid.trim()).status().unwrap();
}

#[tokio::test]
async fn a_build_finds_the_machines_python_the_shared_target_and_a_fixed_time() {
    let fixture = Fixture::new().await;
    let lines = "echo \"$CARGO_TARGET_DIR\" > out/target; echo \"$SOURCE_DATE_EPOCH\" > out/epoch\n\
                 echo \"$CARGO_MANIFEST_DIR\" > out/manifest; readlink -f \"$(command -v python3)\" > out/python";
    let put = fixture.website(&built(&fixture, lines)).await.unwrap();
    let target = fixture.home.cache().join("target");
    assert_eq!(fixture.read(&put, "out/target").await.trim(), target.display().to_string());
    assert_eq!(fixture.read(&put, "out/epoch").await, "315532800\n");
    assert_eq!(fixture.read(&put, "out/manifest").await, "\n");
    let python = fs::canonicalize("/usr/bin/python3").unwrap();
    assert_eq!(fixture.read(&put, "out/python").await.trim(), python.display().to_string());
}

#[tokio::test]
async fn cargo_is_told_of_the_sdk_beside_the_scratch_copy() {
    let fixture = Fixture::new().await;
    fixture.website(&built(&fixture, "")).await.unwrap();
    let config = fs::read_to_string(fixture.home.cache().join("build/shop/.cargo/config.toml")).unwrap();
    let config: toml_edit::DocumentMut = config.parse().unwrap();
    let sdk = config["patch"]["crates-io"]["agentenv-sdk"]["path"].as_str().unwrap();
    assert!(fs::metadata(std::path::Path::new(sdk).join("Cargo.toml")).unwrap().is_file());
    assert_eq!(config["build"]["target-dir"].as_str().unwrap(), fixture.home.cache().join("target").to_str().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn puts_of_one_env_at_once_wait_for_each_other() {
    let fixture = Fixture::new().await;
    let running = fixture.path("running");
    // It fails where another is at work in the same place.
    let lines = format!("mkdir {0}\nsleep 0.1\nrmdir {0}", running.display());
    let bundles: Vec<_> = (0..4)
        .map(|index| {
            let bundle = built(&fixture, &format!("{lines}\n: {index}"));
            let own = fixture.path(&format!("own{index}"));
            fs::rename(bundle, &own).unwrap();
            own
        })
        .collect();
    let puts = futures(&fixture, &bundles).await;
    let mut versions: Vec<_> = puts.into_iter().map(|put| put.unwrap().version).collect();
    versions.sort_unstable();
    assert_eq!(versions, [1, 2, 3, 4]);
}

async fn futures(
    fixture: &Fixture,
    bundles: &[std::path::PathBuf],
) -> Vec<Result<crate::put::Put, agentenv_protocol::control::ControlError>> {
    let (a, b, c, d) = tokio::join!(
        fixture.website(&bundles[0]),
        fixture.website(&bundles[1]),
        fixture.website(&bundles[2]),
        fixture.website(&bundles[3]),
    );
    vec![a, b, c, d]
}
