//! Real programs run, as on a host.

use std::{fs, path::Path};

use agentenv_sandbox::{ExitInfo, NetworkKind};

use crate::support::*;

crate::trials![
    a_program_runs_and_its_exit_is_known,
    python_and_curl_run,
    chromium_runs_with_its_own_sandbox,
    chromium_is_online,
];

fn a_program_runs_and_its_exit_is_known() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let output = host.output(&sandbox, &["sh", "-c", "echo out; echo err >&2; cat; exit 7"]);
    let seen = (output.exit, output.stdout.as_str(), output.stderr.as_str());
    assert_eq!(seen, (ExitInfo::Code(7), "out\n", "err\n"));
    let output = host.output(&sandbox, &["env"]);
    assert_eq!(output.stdout, "PATH=/usr/bin:/bin\nLANG=C.UTF-8\n");
}

fn python_and_curl_run() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let script = "
import json, multiprocessing, os, sqlite3, socket, ssl, subprocess, tempfile, threading, http.server
threading.Thread(target=lambda: None).start()
db = sqlite3.connect('/data/test.db'); db.execute('create table t(x)'); db.commit()
server = http.server.ThreadingHTTPServer(('127.0.0.1', 80), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
tempfile.TemporaryFile().write(b'x')
print(socket.gethostbyname('localhost'), socket.gethostname(), os.getuid(), ssl.OPENSSL_VERSION[:7])
print(subprocess.run(['curl', '-sS', '-o', '/dev/null', '-w', '%{http_code}', 'http://localhost/etc/hostname'], capture_output=True, text=True).stdout)
";
    let output = host.output(&sandbox, &["/usr/bin/python3", "-c", script]);
    assert_eq!(output.exit, ExitInfo::Code(0), "{}", output.stderr);
    assert_eq!(output.stdout, "127.0.0.1 shop 1000 OpenSSL\n200\n");
}

const CHROMIUM: &str = "/usr/lib/chromium/chromium";

/// Chromium as a browser's sandbox runs it. Never `--no-sandbox`.
fn chromium(more: &[&str]) -> Option<Vec<String>> {
    let installed = Path::new(CHROMIUM).exists();
    // Set where tests must not be skipped for want of a program.
    assert!(installed || std::env::var_os("CI").is_none(), "chromium is not installed");
    let base = [CHROMIUM, "--headless=new", "--no-first-run", "--disable-gpu", "--user-data-dir=/home/agent/profile"];
    installed.then(|| base.iter().chain(more).map(|word| (*word).to_owned()).collect())
}

fn browser_environment() -> agentenv_sandbox::Environment {
    let variables = [("PATH", "/usr/bin:/bin"), ("HOME", "/home/agent"), ("LANG", "C.UTF-8")];
    agentenv_sandbox::Environment::new(variables.map(|(name, value)| (name.to_owned(), value.into()))).unwrap()
}

fn chromium_runs_with_its_own_sandbox() {
    let page = "data:text/html,<title>t</title><p>hello";
    let Some(command) = chromium(&["--remote-debugging-port=9222", page]) else { return };
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Browser);
    let words: Vec<_> = command.iter().map(String::as_str).collect();
    let service = host.spawner.start(&sandbox, &spec(&sandbox, &words), &browser_environment()).unwrap();
    // Renderers are in pid namespaces of their own, two below ours, under filters beyond ours.
    let mut renderers = Vec::new();
    eventually("a renderer runs", || {
        assert_eq!(service.try_wait(), None, "chromium has ended");
        renderers = statuses_of(service.pid(), "--type=renderer");
        !renderers.is_empty()
    });
    let field = |status: &str, name: &str| -> String {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().to_owned()
    };
    eventually("every renderer is confined", || {
        statuses_of(service.pid(), "--type=renderer").iter().all(|status| {
            field(status, "NSpid:").split_ascii_whitespace().count() >= 3
                && field(status, "Seccomp_filters:").parse::<u32>().unwrap() > 2
                && field(status, "CapEff:") == "0000000000000000"
        })
    });
    drop(service);
}

/// The `/proc/PID/status` of a service's processes with a word in their command line.
fn statuses_of(service: u32, word: &str) -> Vec<String> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|&pid| {
        // Chromium writes the command lines of its zygote's children anew, with blanks between the words.
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word) && is_below(pid, service)
    })
    .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok())
    .collect()
}

fn is_below(mut pid: u32, ancestor: u32) -> bool {
    while pid > 1 {
        if pid == ancestor {
            return true;
        }
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        pid = parent.and_then(|parent| parent.trim().parse().ok()).unwrap_or(0);
    }
    false
}

fn chromium_is_online() {
    let page = "data:text/html,<script>document.write('online: ' + navigator.onLine)</script>";
    let Some(command) = chromium(&["--dump-dom", page]) else { return };
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Browser);
    let words: Vec<_> = command.iter().map(String::as_str).collect();
    let service = host.spawner.start(&sandbox, &spec(&sandbox, &words), &browser_environment()).unwrap();
    let output = finish(service);
    assert!(output.stdout.contains("online: true"), "{}{}", output.stdout, output.stderr);
}
