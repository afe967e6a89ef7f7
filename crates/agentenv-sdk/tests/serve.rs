//! `serve` as a process: this test program starts itself as a site.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, ExitCode, Output, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use agentenv_sdk::{
    Error, Result, Settings, Value, Website,
    axum::{Router, routing::get},
    json, website, website_methods,
};

/// How long a site may take to listen, and to stop.
const LIMIT: Duration = Duration::from_secs(10);
/// The variable that makes a site of this program.
const SERVE: &str = "AGENTENV_TEST_SERVES";

#[derive(Settings)]
struct ClockSettings {
    #[setting(default = "clock")]
    title: String,
}

#[website(domains = ["clock.test"])]
struct Clock {
    settings: ClockSettings,
}

#[website_methods]
impl Website for Clock {
    fn open(settings: ClockSettings, data_dir: &Path) -> Result<Self> {
        if settings.title == "broken" {
            return Err(Error::internal("the spring is broken").hint("wind it up"));
        }
        std::fs::write(data_dir.join("opened"), "")?;
        Ok(Self { settings })
    }
    fn load(&self, _data: Value) -> Result<()> {
        Ok(())
    }
    fn get(&self, _selector: Option<Value>) -> Result<Value> {
        // The same values without `open`'s argument (PR-6).
        Ok(json!([self.settings.title, ClockSettings::load()?.title]))
    }
    fn reset(&self) -> Result<()> {
        Ok(())
    }
    fn pages(self: Arc<Self>) -> Router {
        Router::new().route("/slow", get(async || tokio::time::sleep(Duration::from_secs(3600)).await))
    }
}

/// No test: the site that the others start.
#[test]
fn the_site() {
    if std::env::var_os(SERVE).is_some() {
        // `ExitCode` can't be looked into; what it is made of can be compared.
        let served = format!("{:?}", agentenv_sdk::serve::<Clock>());
        std::process::exit(i32::from(served != format!("{:?}", ExitCode::SUCCESS)));
    }
}

struct Site {
    child: Child,
    port: u16,
    _data: tempfile::TempDir,
}

fn command(settings: &str, data: &Path, port: u16) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "the_site", "--nocapture"])
        .env(SERVE, "1")
        .env("PORT", port.to_string())
        .env("AGENTENV_DATA_DIR", data)
        .env("AGENTENV_SITE_KEY", "key")
        .env("AGENTENV_WEBSITE_SETTINGS", settings)
        .stderr(Stdio::piped());
    command
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Site {
    fn start(settings: &str) -> Self {
        let (data, port) = (tempfile::tempdir().unwrap(), free_port());
        let child = command(settings, data.path(), port).spawn().unwrap();
        let site = Self { child, port, _data: data };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < LIMIT, "the site does not listen");
            std::thread::yield_now();
        }
        site
    }

    fn send(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    fn operate(&self, request: &str) -> String {
        let key = "Agentenv-Site-Key: key";
        let mut answer = String::new();
        let text = format!("{request} HTTP/1.1\r\nHost: clock.test\r\n{key}\r\nConnection: close\r\n\r\n");
        self.send(&text).read_to_string(&mut answer).unwrap();
        answer
    }

    fn terminate(mut self) -> Output {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let start = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < LIMIT, "the site does not stop");
            std::thread::yield_now();
        }
        let mut log = Vec::new();
        self.child.stderr.take().unwrap().read_to_end(&mut log).unwrap();
        Output { status: self.child.wait().unwrap(), stdout: Vec::new(), stderr: log }
    }
}

fn ended(mut command: Command) -> (bool, String) {
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_site_listens_and_stops_when_told_even_with_a_request_that_does_not_end() {
    let site = Site::start(r#"{"title": "Grandfather"}"#);
    assert!(site.operate("GET /api/ready").starts_with("HTTP/1.1 200"));
    assert!(site.operate("POST /api/data/get").ends_with(r#"{"data":["Grandfather","Grandfather"]}"#));
    let hanging = site.send("GET /slow HTTP/1.1\r\nHost: clock.test\r\n\r\n");
    let stopped = site.terminate();
    assert!(stopped.status.success(), "{:?}", stopped.status);
    drop(hanging);
}

#[test]
fn settings_that_do_not_fit_keep_the_site_up_and_unready() {
    let site = Site::start(r#"{"titel": "hunter2"}"#);
    let ready = site.operate("GET /api/ready");
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("the site has no setting `titel`"), "{ready}");
    assert!(!site.terminate().stderr.windows(7).any(|window| window == b"hunter2"));
}

#[test]
fn what_keeps_a_site_from_starting_is_its_last_line() {
    let data = tempfile::tempdir().unwrap();
    let (success, log) = ended(command(r#"{"title": "broken"}"#, data.path(), free_port()));
    assert!(!success && log.ends_with("clock did not start: the spring is broken (wind it up)\n"), "{log}");
    assert!(!data.path().join("opened").exists());

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let (success, log) = ended(command("{}", data.path(), port));
    assert!(!success && log.contains(&format!("port {port}: Address already in use")), "{log}");

    let mut without_port = command("{}", data.path(), 1);
    without_port.env_remove("PORT");
    let (success, log) = ended(without_port);
    assert!(!success && log.contains("PORT is not set"), "{log}");
}
