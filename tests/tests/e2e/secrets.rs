//! Canaries: unique secrets, and then everything is searched for them.

use std::{fs, path::Path};

use agentenv_tests::{Home, Processes, PySite, playwright};
use serde_json::json;

use crate::{
    desk::{browser_of, desk_of},
    python::program,
};

pub const CANARY: &str = "canary-5f2b7c91e4";

/// A site with a secret setting, a frontend beside its server, and a browser.
fn with_secret() -> Home {
    desk_of(&[site_with_secret()]).with("CANARY_KEY", CANARY)
}

/// A site that reads its secret setting from `CANARY_KEY`, with a frontend beside its server.
pub fn site_with_secret() -> PySite {
    let read = "\nimport json as j\nsettings = j.loads(os.environ['AGENTENV_WEBSITE_SETTINGS'])\n\
                assert settings['api_key'].startswith('canary'), 'the server has its secret'\n";
    let more = "\n[frontend]\ncommand = [\"/usr/bin/python3\", \"-u\", \"front.py\"]\nport = 8080\n\n\
                [settings]\napi_key = \"env:CANARY_KEY\"\nplain = \"seen\"\n";
    PySite::new("alpha").before(read).card("params['routes'] = []").root("secret_settings = [\"api_key\"]").toml(more).file(
        "front.py",
        "import http.server, os\nos.chdir('/tmp')\n\
         http.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), http.server.SimpleHTTPRequestHandler).serve_forever()\n",
    )
}

#[test]
fn row_58_the_control_token_and_secret_settings_are_nowhere_else() {
    let home = with_secret();
    let deploy = home.deploy("desk");
    let token = deploy.token();
    let server = deploy.service("alpha/server");
    // Use both: a canary that was never used proves nothing.
    deploy.operation("alpha", "data/get", &json!({}));
    playwright(&deploy, "page.goto('https://alpha.test/')");
    let secrets = [CANARY, token.as_str()];
    let token_file = deploy.folder().join("control.token");
    assert_eq!(mode(&token_file), 0o600);
    for (path, secret) in files_with(home.path(), &secrets) {
        assert!(path == token_file.display().to_string() && secret == token, "{secret} is in {path}");
    }
    let servers = Processes::all().tree(server.pid);
    for process in deploy.processes() {
        let arguments = process.arguments();
        assert!(!secrets.iter().any(|secret| arguments.contains(secret)), "in the arguments of {process:?}");
        let its_own = servers.iter().any(|own| own.pid == process.pid);
        let environment = process.environment().unwrap_or_default();
        assert!(!environment.contains(&token), "the control token is in the environment of {process:?}");
        assert!(its_own || !environment.contains(CANARY), "the secret is in the environment of {process:?}");
    }
    let inside = deploy.exec("alpha/server", &["env"]).ok();
    assert!(
        !inside.contains(CANARY) && !inside.contains("AGENTENV_SITE_KEY"),
        "exec has neither settings nor keys: {inside}"
    );
    let shown = serde_json::to_string(&deploy.info).expect("JSON");
    assert!(!shown.contains(&token), "the deploy's JSON holds the control token");
    deploy.close();
    assert_eq!(files_with(home.path(), &secrets), [], "after the end");
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).expect("the token is stored").permissions().mode() & 0o777
}

/// The files under a folder that contain one of these.
fn files_with(folder: &Path, secrets: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_with(&path, secrets)),
            Ok(kind) if kind.is_file() => {
                let bytes = fs::read(&path).unwrap_or_default();
                let holds = |secret: &&&str| bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
                found.extend(
                    secrets.iter().find(holds).map(|secret| (path.display().to_string(), (*secret).to_owned())),
                );
            }
            _ => {}
        }
    }
    found
}

#[test]
fn a_missing_secret_is_named_and_its_value_never_shown() {
    let home = with_secret().without("CANARY_KEY");
    let outcome = home.run(&["env", "deploy", "desk"]);
    outcome.fails(agentenv_protocol::ExitCode::Refused, &["api_key", "env:CANARY_KEY"]);
    home.assert_idle();
}

/// Row 94: command lines and environments of every process.
pub const ENVIRONMENTS: &str = r#"
found = {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    try: found[pid] = open(f"/proc/{pid}/cmdline").read() + open(f"/proc/{pid}/environ").read()
    except OSError: found[pid] = ""
show(found)"#;

#[test]
fn row_94_the_frontend_finds_no_process_of_the_server() {
    let home = with_secret();
    let deploy = home.deploy("desk");
    for sandbox in ["alpha/frontend", browser_of(&deploy)] {
        let found = deploy.python(sandbox, &program(ENVIRONMENTS)).to_string();
        assert!(!found.contains(CANARY) && !found.contains("site.py"), "{sandbox}: {found}");
    }
    let own = deploy.python("alpha/server", &program(ENVIRONMENTS)).to_string();
    assert!(own.contains("site.py"), "the server is in its own: {own}");
}

#[test]
fn the_agent_token_does_not_open_the_control_routes() {
    let home = desk_of(&[PySite::new("alpha")]);
    let deploy = home.deploy("desk");
    let cdp_url = &deploy.info.browsers[0].cdp_url;
    let agent = cdp_url.split("/agent/").nth(1).and_then(|rest| rest.split('/').next()).expect("the agent token");
    let ask = |token: &str| {
        let head = format!(
            "GET /svc/alpha/api/ready HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        agentenv_tests::raw_http(&deploy.info.gateway_url, head.as_bytes()).status
    };
    assert_eq!((ask(agent), ask(&deploy.token())), (401, 200));
}

#[test]
fn row_58_what_a_server_prints_of_its_secrets_is_masked_in_its_log() {
    let home = with_secret_that_prints();
    let deploy = home.deploy("desk");
    let log = home.run(&["env", "logs", deploy.id(), "alpha/server"]).ok();
    assert!(log.contains("my key is … and my secret …"), "{log}");
    assert_eq!(files_with(home.path(), &[CANARY]), []);
}

fn with_secret_that_prints() -> Home {
    let print = "\nimport json as j\nlog(f\"my key is {KEY} and my secret {j.loads(os.environ['AGENTENV_WEBSITE_SETTINGS'])['api_key']}\")\n";
    let settings = "\n[settings]\napi_key = \"env:CANARY_KEY\"\n";
    let site = PySite::new("alpha").before(print).root("secret_settings = [\"api_key\"]").toml(settings);
    desk_of(&[site]).with("CANARY_KEY", CANARY)
}

#[test]
fn row_58_the_agent_token_is_in_no_log() {
    let home = desk_of(&[PySite::new("alpha")]).with("AGENTENV_LOG", "debug");
    let deploy = home.deploy("desk");
    playwright(&deploy, "page.goto('https://alpha.test/')");
    home.run(&["env", "reset", deploy.id()]).ok();
    let cdp_url = &deploy.info.browsers[0].cdp_url;
    let token = cdp_url.split("/agent/").nth(1).and_then(|rest| rest.split('/').next()).expect("the agent token");
    let logs = deploy.folder().join("logs");
    assert!(fs::read_to_string(logs.join("supervisor.log")).is_ok_and(|log| !log.is_empty()), "there is a log");
    for folder in [logs, home.path().join("store")] {
        assert_eq!(files_with(&folder, &[token]), []);
    }
}
