//! Bad input: each ends in one sentence that names the thing, the site's last log lines, the right exit code, and nothing left.

use std::{os::unix::process::ExitStatusExt, process::Command, time::Duration};

use agentenv_protocol::ExitCode;
use agentenv_tests::{Bundle, Home, Outcome, PATIENCE, Process, Processes, PySite, eventually, is_root, run_within};

use crate::desk::desk;

/// Deploys a site of its own; it must fail with this code, naming these things.
#[track_caller]
fn deploy_fails(site: &PySite, more: &[&str], code: ExitCode, names: &[&str]) -> Outcome {
    let home = Home::empty();
    home.put(&site.bundle());
    let mut arguments = vec!["env", "deploy", "alpha"];
    arguments.extend(more);
    let outcome = home.run(&arguments);
    outcome.fails(code, names);
    home.assert_idle();
    let running = home.run(&["env", "status", "--json"]).json();
    assert_eq!(running, serde_json::json!([]), "a failed deploy runs on");
    outcome
}

#[test]
fn a_site_that_never_gets_ready_shows_its_last_reason() {
    let site =
        PySite::new("alpha").before("READY = (503, 'the catalogue is still empty')\nlog('waiting for the catalogue')");
    let outcome = deploy_fails(
        &site,
        &["--ready-timeout", "2"],
        ExitCode::TimedOut,
        &["alpha", "the catalogue is still empty", "waiting for the catalogue"],
    );
    assert!(outcome.took < Duration::from_secs(20), "{outcome:?}");
}

#[test]
fn a_site_that_exits_shows_its_code_and_last_lines() {
    let site = PySite::new("alpha").before("log('no configuration found')\nsys.exit(7)");
    deploy_fails(&site, &[], ExitCode::Infrastructure, &["alpha", "7", "no configuration found"]);
}

#[test]
fn a_site_that_is_killed_names_the_signal() {
    let site = PySite::new("alpha").before("log('about to go')\nimport signal\nos.kill(os.getpid(), signal.SIGSEGV)");
    deploy_fails(&site, &[], ExitCode::Infrastructure, &["alpha", "about to go"]);
}

const GARBAGE: &str = r#"
import socket
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", PORT))
listener.listen(10)
log("talking nonsense")
while True:
    connection, _ = listener.accept()
    connection.sendall(b"\x00\xff this is not HTTP \r\n\r\n")
    connection.close()
"#;

#[test]
fn a_site_that_answers_garbage_is_named() {
    let site = PySite::new("alpha").before(GARBAGE);
    deploy_fails(&site, &["--ready-timeout", "5"], ExitCode::Infrastructure, &["alpha", "talking nonsense"]);
}

#[test]
fn a_site_whose_card_is_garbage_is_named() {
    let site = PySite::new("alpha").before("def card(): return 'not a card'");
    deploy_fails(&site, &["--ready-timeout", "5"], ExitCode::Infrastructure, &["alpha", "card"]);
}

#[test]
fn a_card_that_differs_from_the_record_is_refused() {
    for (change, named) in [
        ("params['domains'] = ['other.test']", "other.test"),
        ("params['live'] = True; params['routes'] = []", "live"),
        ("params['domains'] = []", "domains"),
    ] {
        deploy_fails(&PySite::new("alpha").card(change), &[], ExitCode::Refused, &["alpha", named]);
    }
}

#[test]
fn a_site_that_listens_elsewhere_is_told_where_it_should() {
    let site = PySite::new("alpha").before("PORT = 8111\nlog('listening elsewhere')");
    deploy_fails(&site, &["--ready-timeout", "3"], ExitCode::Infrastructure, &["alpha", "8000", "listening elsewhere"]);
}

#[test]
fn a_missing_program_is_refused_by_its_path() {
    for program in ["/usr/bin/no-such-program", "no-such-program"] {
        let site = PySite::new("alpha").command(&format!("\"{program}\""));
        deploy_fails(&site, &[], ExitCode::Refused, &["alpha", program]);
    }
    // One of the bundle's own is missed when it is put.
    let home = Home::empty();
    let bundle = PySite::new("alpha").command("\"bin/no-such-program\"").bundle();
    home.run(&["website", "put", bundle.path()]).fails(ExitCode::Refused, &["alpha", "bin/no-such-program"]);
}

#[test]
fn a_port_in_use_inside_the_sandbox_is_named() {
    let helper = "\n[services.helper]\ncommand = [\"/usr/bin/python3\", \"-u\", \"helper.py\"]\nport = 9000\n";
    let takes_both = "import http.server, threading\n\
        for port in (8000, 9000):\n\
        \x20   server = http.server.ThreadingHTTPServer(('127.0.0.1', port), http.server.SimpleHTTPRequestHandler)\n\
        \x20   threading.Thread(target=server.serve_forever).start()\n";
    let site = PySite::new("alpha").toml(helper).file("helper.py", takes_both);
    deploy_fails(&site, &[], ExitCode::Infrastructure, &["alpha/server", "8000", "in use"]);
}

#[test]
fn two_services_on_one_port_are_refused_before_anything_starts() {
    let helper = "\n[services.helper]\ncommand = [\"/usr/bin/python3\", \"helper.py\"]\nport = 8000\n";
    let home = Home::empty();
    let bundle = PySite::new("alpha").toml(helper).bundle();
    home.run(&["website", "put", bundle.path()]).fails(ExitCode::Refused, &["8000", "helper"]);
}

#[test]
fn an_unknown_env_is_refused_by_name() {
    let home = Home::empty();
    home.run(&["env", "deploy", "nowhere"]).fails(ExitCode::Refused, &["nowhere"]);
    let multi = Bundle::multi("office", &["no-such-site"], None);
    home.run(&["env", "put", multi.path()]).fails(ExitCode::Refused, &["no-such-site"]);
    home.run(&["env", "put", "/no/such/folder"]).fails(ExitCode::Refused, &["/no/such/folder"]);
}

#[test]
fn a_broken_env_toml_shows_every_problem_with_its_place() {
    let home = Home::empty();
    let bundle = Bundle::new(
        "format = 1\nkind = \"website\"\nname = \"Alpha\"\ndomains = [\"127.0.0.1\", \"ok.test\"]\ncolour = \"red\"\n\n\
         [server]\ncommand = \"site.py\"\nport = 99999\n",
    );
    let outcome = home.run(&["website", "put", bundle.path()]);
    outcome.fails(
        ExitCode::Refused,
        &["env.toml:3:", "Alpha", ":4:", "127.0.0.1", ":5:", "colour", ":8:", ":9:", "99999"],
    );
    let torn = Bundle::new("format = 1\nkind = \"website\nname = 3");
    home.run(&["website", "put", torn.path()]).fails(ExitCode::Refused, &["env.toml:2:"]);
    let newer = Bundle::new("format = 99\nkind = \"website\"\n");
    home.run(&["env", "put", newer.path()]).fails(ExitCode::Refused, &["99", "newer"]);
    assert!(home.run(&["env", "list", "--json"]).json().as_array().is_some_and(Vec::is_empty), "nothing was stored");
}

#[test]
fn a_wrong_command_line_is_usage() {
    let home = Home::empty();
    for arguments in
        [&["env", "deploy"][..], &["nonsense"], &["env", "close"], &["website", "put", "x", "--no-such-flag"]]
    {
        assert_eq!(home.run(arguments).code, ExitCode::Usage as i32, "{arguments:?}");
    }
}

#[test]
fn an_unknown_sandbox_and_a_missing_command_are_named() {
    let home = desk();
    let deploy = home.deploy("desk");
    let unknown = deploy.exec("gamma/server", &["true"]);
    unknown.fails(ExitCode::Refused, &["gamma/server", "alpha/server"]);
    deploy.exec("alpha/server", &["no-such-program"]).fails(ExitCode::Refused, &["no-such-program"]);
    assert_eq!(deploy.exec("alpha/server", &["sh", "-c", "exit 42"]).code, 42, "the command's exit code is ours");
}

#[test]
fn a_start_tab_that_no_site_claims_is_refused_naming_both() {
    let home = desk();
    home.put(&Bundle::new(
        "format = 1\nkind = \"browser\"\nname = \"tabs\"\nstart_tabs = [\"https://elsewhere.test/\"]\n",
    ));
    let multi = Bundle::multi("bad", &["alpha"], Some("tabs"));
    home.run(&["env", "put", multi.path()]).fails(ExitCode::Refused, &["https://elsewhere.test/", "elsewhere.test"]);
}

#[test]
fn a_browser_that_crashes_during_the_deploy_ends_it() {
    let home = desk();
    let child = home.start(&["env", "deploy", "desk"]);
    let id = child.id();
    // Every Chromium of this deploy is killed as soon as it is seen, so that no restart helps.
    let output = std::thread::spawn(move || child.wait_with_output().expect("the command ends"));
    eventually("the deploy ends", Duration::from_secs(90), || {
        let all = Processes::all();
        for process in chromiums(&home, &all) {
            process.kill();
        }
        output.is_finished().then_some(())
    });
    let output = output.join().expect("the command was waited for");
    let outcome = Outcome {
        command: format!("env deploy desk ({id})"),
        code: output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or_default()),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        took: PATIENCE,
    };
    outcome.fails(ExitCode::Infrastructure, &["lookout"]);
    home.assert_idle();
}

/// The Chromiums that descend from the supervisors of this home.
fn chromiums(home: &Home, all: &Processes) -> Vec<Process> {
    let folder = home.deploys();
    let trees = all.supervisors(&folder).flat_map(|supervisor| all.tree(supervisor.pid));
    trees.filter(|process| process.name.starts_with("chrom")).collect()
}

#[test]
fn a_full_disk_is_said_and_leaves_nothing() {
    let home = Home::empty();
    home.put(&PySite::new("alpha").bundle());
    // A home on a small disk that is full but for a few pages, in a mount namespace of its own.
    let script = format!(
        "set -e\ncp -a {home}/. /tmp/ae-full.$$\nmount -t tmpfs -o size=1m tmpfs {home}\ncp -a /tmp/ae-full.$$/. {home}\nrm -rf /tmp/ae-full.$$\n\
         dd if=/dev/zero of={home}/filler bs=4k status=none 2>/dev/null || true\n\
         code=0; \"$@\" || code=$?; ls {home}/deploys 2>/dev/null || true; exit $code",
        home = home.path().display()
    );
    let namespace: &[&str] = if is_root() { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    let full = |arguments: &[&str]| {
        let own = home.command(arguments.iter().copied());
        let mut command = Command::new("unshare");
        command.args(namespace).args(["--propagation", "private", "--", "sh", "-c", &script, "sh"]);
        command.arg(own.get_program()).args(own.get_args());
        for (name, value) in own.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        run_within(Duration::from_secs(60), &mut command, None)
    };
    let put = full(&["website", "put", PySite::new("beta").bundle().path()]);
    put.fails(ExitCode::Infrastructure, &[]);
    assert!(put.stderr.to_lowercase().contains("space") || put.stderr.contains("full"), "{put:?}");
    // Root inside a user namespace of the ordinary user's is not the user's own case: only root goes on.
    if is_root() {
        let deploy = full(&["env", "deploy", "alpha"]);
        deploy.fails(ExitCode::Infrastructure, &[]);
        assert!(deploy.stderr.to_lowercase().contains("space") || deploy.stderr.contains("full"), "{deploy:?}");
    }
    home.assert_idle();
}
