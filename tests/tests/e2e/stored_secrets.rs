//! Stored secrets: set, found by a deploy, and shown nowhere, whatever a site does with them.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use agentenv_protocol::ExitCode;
use agentenv_tests::{Home, Outcome, PySite, playwright, run_within, text};
use serde_json::json;

use crate::desk::{desk_of, pods};

/// Commands that make no deploy.
const LIMIT: Duration = Duration::from_secs(30);
/// Everything that quoting, shells, Compose and JSON trip over.
const ODD: &str = "canary-A\"51c'$HOME${X}\\n\\\ncanary-B\t7e ü/<&>%s$$";
/// What no file, output or process may have; the pieces survive any quoting.
const PIECES: [&str; 2] = ["canary-A", "canary-B"];

/// A site that says its secret in every way that it knows.
fn blabber() -> PySite {
    let read = r#"
settings = json.loads(os.environ["AGENTENV_WEBSITE_SETTINGS"])
token = settings["token"]
assert os.environ["AGENTENV_WEBSITE_SETTINGS"].count("\n") == 0, "one line"
assert token == open("expected").read(), "the value arrives as it was stored"
assert settings["plain"] == "none" and settings["also"] == token
for said in (token, repr(token), json.dumps(token), json.dumps({"a": json.dumps(token)}), str(settings), str(token.encode()),
             os.environ["AGENTENV_WEBSITE_SETTINGS"], json.dumps(token, ensure_ascii=False), "x" * 8180 + token + "y" * 9000):
    log(said)
def refuse_with_secret(self, status, kind, message):
    self.answer(status, {"kind": kind, "message": message + token, "hint": repr(token)})
Site.refuse = refuse_with_secret
"#;
    let more = "\n[settings]\ntoken = \"secret:github/token\"\nplain = \"secret:no/such?default=none\"\n\
                also = \"secret:github/token\"\n";
    PySite::new("alpha").before(read).root("secret_settings = [\"token\"]").toml(more).file("expected", ODD)
}

fn assert_silent(what: &str, text: &str) {
    for piece in PIECES {
        assert!(!text.contains(piece), "{what} shows {piece}: {text}");
    }
}

/// Looks through every file of the home but the stored secrets and what the test itself put there.
fn assert_absent(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !path.ends_with("secrets") && !path.ends_with("store") => assert_absent(&path),
            Ok(kind) if kind.is_file() => {
                let bytes = fs::read(&path).unwrap_or_default();
                assert_silent(&path.display().to_string(), &String::from_utf8_lossy(&bytes));
            }
            _ => {}
        }
    }
}

#[test]
fn row_58_a_stored_secret_reaches_its_server_and_is_shown_nowhere() {
    let home = desk_of(&[blabber()]);
    home.set_secret("github/token", ODD).ok();
    let stored = home.path().join("secrets/github+token");
    let mode = |path: &Path| fs::metadata(path).expect("it is stored").permissions().mode() & 0o777;
    assert_eq!((mode(&stored), mode(&home.path().join("secrets"))), (0o600, 0o700));
    let deploy = home.deploy("desk");
    deploy.operation("alpha", "data/get", &json!({}));
    playwright(&deploy, "page.goto('https://alpha.test/')");
    // The site's errors hold it, and what commands say of them does not.
    let id = deploy.id();
    let outcome = home.run(&["env", "sign-in", id, "alpha=nobody", "--json"]);
    assert_silent("sign-in", &text(&outcome));
    let logs = home.run(&["env", "logs", id, "alpha/server"]).ok();
    assert!(logs.contains('…') && logs.contains("listening on"), "the log is there: {logs}");
    assert_silent("the log", &logs);
    let listed = [
        &["env", "show", "alpha"][..],
        &["env", "show", "alpha", "--json"],
        &["env", "status", id],
        &["env", "status", id, "--json"],
        &["secret", "list"],
        &["secret", "list", "--json"],
        &["env", "list", "--json"],
    ];
    for arguments in listed {
        assert_silent(&arguments.join(" "), &text(&home.run(arguments)));
    }
    let server = deploy.service("alpha/server");
    let servers = agentenv_tests::Processes::all().tree(server.pid);
    for process in deploy.processes() {
        assert_silent("arguments", &process.arguments());
        if !servers.iter().any(|own| own.pid == process.pid) {
            assert_silent("an environment", &process.environment().unwrap_or_default());
        }
    }
    assert_silent("exec", &deploy.exec("alpha/server", &["env"]).ok());
    assert_silent("the deploy's JSON", &serde_json::to_string(&deploy.info).expect("JSON"));
    assert_absent(home.path());
    deploy.close();
    assert_absent(home.path());
}

#[test]
fn row_58_a_site_that_fails_with_its_secret_on_its_lips_does_not_tell_it() {
    for (last, code, named) in [
        ("READY = (503, 'the account refuses ' + token)", ExitCode::TimedOut, "the account refuses"),
        ("sys.exit(token)", ExitCode::Infrastructure, "alpha"),
        ("def card(): raise ValueError(token)", ExitCode::Infrastructure, "alpha"),
    ] {
        let home = pods(&[blabber().before(last)]);
        home.set_secret("github/token", ODD).ok();
        let outcome = home.run(&["env", "deploy", "pods", "--ready-timeout", "3"]);
        outcome.fails(code, &[named]);
        assert_silent("the error", &text(&outcome));
        assert_absent(home.path());
        home.assert_idle();
    }
}

#[test]
fn a_secret_that_is_not_stored_is_named_with_its_setting() {
    let home = pods(&[blabber()]);
    let outcome = home.run(&["env", "deploy", "pods"]);
    outcome.fails(ExitCode::Refused, &["`token`", "secret:github/token", "agent-env secret set github/token"]);
    home.assert_idle();
    let list = home.run(&["secret", "list", "--json"]).json();
    let row = &list[0];
    assert_eq!(
        (&row["path"], &row["source"], &row["used_by"]),
        (&json!("github/token"), &json!(null), &json!(["alpha"]))
    );
}

#[test]
fn a_variable_comes_first_and_the_supervisor_does_not_have_it() {
    let home =
        pods(&[blabber()]).with("AGENTENV_SECRET_GITHUB_TOKEN", ODD).with("AGENTENV_SECRET_OTHER", "canary-A-other");
    home.set_secret("github/token", "stored").ok();
    let list = text(&home.run(&["secret", "list"]));
    assert!(list.contains("variable AGENTENV_SECRET_GITHUB_TOKEN"), "{list}");
    assert_silent("the list", &list);
    let deploy = home.deploy("pods");
    let server = deploy.service("alpha/server");
    let servers = agentenv_tests::Processes::all().tree(server.pid);
    for process in deploy.processes().iter().filter(|process| !servers.iter().any(|own| own.pid == process.pid)) {
        assert_silent("an environment", &process.environment().unwrap_or_default());
    }
    assert_absent(home.path());
}

#[test]
fn a_command_of_the_users_hands_secrets_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("ask");
    let script = |body: &str| {
        fs::write(&program, format!("#!/bin/sh\n{body}\n")).expect("it can be written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it can be run");
    };
    let value = folder.path().join("value");
    fs::write(&value, format!("{ODD}\n")).expect("it can be written");
    let home = pods(&[blabber()]).with("AGENTENV_SECRETS_COMMAND", program.to_str().expect("a plain name"));
    script(&format!("test \"$1\" = github/token && cat {} || true", value.display()));
    let deploy = home.deploy("pods");
    assert_absent(home.path());
    deploy.close();
    for (body, named) in [
        ("echo canary-A; exit 3", "ended with exit status: 3"),
        ("head -c 70000 /dev/zero | tr '\\0' x", "longer than"),
    ] {
        script(body);
        let outcome = home.run(&["env", "deploy", "pods"]);
        outcome.fails(ExitCode::Refused, &["secret:github/token", named]);
        assert_silent("the error", &text(&outcome));
    }
    script("exit 0");
    home.run(&["env", "deploy", "pods"]).fails(ExitCode::Refused, &["`token`", "secret:github/token"]);
    fs::remove_file(&program).expect("it is there");
    home.run(&["env", "deploy", "pods"]).fails(ExitCode::Refused, &["secret:github/token", "cannot be started"]);
    home.assert_idle();
}

#[test]
fn secrets_are_set_from_standard_input_alone() {
    let home = Home::empty();
    assert_eq!(home.set_secret("a/b", "hunter2\n").ok(), "secret a/b is stored\n");
    assert_eq!(home.set_secret("a/b", "other").ok(), "secret a/b is stored in the place of an earlier one\n");
    assert_eq!(fs::read_to_string(home.path().join("secrets/a+b")).ok().as_deref(), Some("other"));
    // A value as an argument would be on record in the shell's history, and in the list of processes.
    run_within(LIMIT, &mut home.command(["secret", "set", "a/b", "hunter2"]), None).fails_usage();
    run_within(LIMIT, &mut home.command(["secret", "set", "../b"]), None).fails_usage();
    for (value, named) in [("", "empty"), ("\n", "empty"), ("a\0b", "NUL")] {
        home.set_secret("a/c", value).fails(ExitCode::Refused, &["a/c", named]);
    }
    home.set_secret("a/c", &"x".repeat(64 * 1024 + 1)).fails(ExitCode::Refused, &["a/c", "longer than"]);
    home.set_secret("big", &"x".repeat(64 * 1024)).ok();
    let list = home.run(&["secret", "list"]).ok();
    assert!(list.contains("a/b") && list.contains("big") && !list.contains("other"), "{list}");
    assert_eq!(home.run(&["secret", "rm", "a/b"]).ok(), "secret a/b is removed\n");
    home.run(&["secret", "rm", "a/b"]).fails(ExitCode::Refused, &["a/b"]);
    fs::set_permissions(home.path().join("secrets/big"), fs::Permissions::from_mode(0o644)).expect("it is there");
    home.run(&["secret", "list"]).ok();
}

trait FailsUsage {
    fn fails_usage(&self);
}

impl FailsUsage for Outcome {
    #[track_caller]
    fn fails_usage(&self) {
        assert_eq!(self.code, ExitCode::Usage as i32, "{self:?}");
    }
}
