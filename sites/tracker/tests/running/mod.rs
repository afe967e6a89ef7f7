//! Starts the server and Roundup as the sandbox does, and speaks HTTP to both.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A machine that also compiles is slow to start Python.
const START_LIMIT: Duration = Duration::from_secs(30);
const KEY: &str = "the-key-of-the-tests";
const BUNDLE: &str = env!("CARGO_MANIFEST_DIR");

/// Both services over one data folder; ended with the value.
pub struct Running {
    server: Service,
    frontend: Service,
    // After the services, which work in it.
    data: tempfile::TempDir,
}

struct Service {
    child: Child,
    port: u16,
}

/// What was answered.
pub struct Answer {
    pub status: u16,
    body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

impl Running {
    pub fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let server = start_server(data.path());
        let frontend = start_frontend(data.path());
        Self { server, frontend, data }
    }

    /// Ends the server without notice and starts another on the same data.
    pub fn restart_server(&mut self) {
        self.server.child.kill().unwrap();
        self.server.child.wait().unwrap();
        self.server = start_server(self.data.path());
    }

    /// Kills the server's data process, as a kernel short of memory does.
    pub fn kill_data_process(&self) {
        let threads = fs::read_dir(format!("/proc/{}/task", self.server.child.id())).unwrap();
        let children = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("children")).unwrap());
        let pids: Vec<String> =
            children.flat_map(|text| text.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
        let [pid] = &pids.into_iter().filter(|pid| !pid.is_empty()).collect::<Vec<_>>()[..] else {
            panic!("one child")
        };
        assert!(Command::new("kill").args(["-KILL", pid]).status().unwrap().success());
        let started = Instant::now();
        // Until the server's next request it stays as a zombie.
        while !fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z ")) {
            assert!(started.elapsed() < START_LIMIT, "{pid} goes on");
            std::thread::yield_now();
        }
    }

    /// The tracker home.
    pub fn home(&self) -> PathBuf {
        self.data.path().join("tracker")
    }

    /// A data process of the test's own, for requests that the server would not send.
    pub fn data_process(&self) -> Child {
        let mut command = Command::new("/usr/bin/python3");
        command
            .args(["-I", "-S"])
            .arg(site().join("roundup_data.py"))
            .arg(self.home())
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    pub fn load(&self, data: &Value) -> Answer {
        self.post("/api/data/load", &json!({"data": data}))
    }

    pub fn get(&self, selector: Option<&Value>) -> Value {
        let body = selector.map_or(json!({}), |selector| json!({"selector": selector}));
        let answer = self.post("/api/data/get", &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["data"].take()
    }

    pub fn reset(&self) -> Answer {
        self.post("/api/data/reset", &json!({}))
    }

    pub fn session(&self, user: Option<&str>) -> Answer {
        self.post("/api/session", &user.map_or(json!({}), |user| json!({"user": user})))
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        let headers = format!("Agentenv-Site-Key: {KEY}\r\nContent-Type: application/json\r\n");
        request(self.server.port, "POST", path, &headers, body.to_string().as_bytes())
    }

    pub fn post_without_key(&self, path: &str, body: &Value) -> Answer {
        request(self.server.port, "POST", path, "Content-Type: application/json\r\n", body.to_string().as_bytes())
    }

    /// A page of Roundup, as the browser asks the gateway for it.
    pub fn page(&self, path: &str, cookie: Option<&str>) -> Answer {
        request(self.frontend.port, "GET", path, &cookie_header(cookie), b"")
    }

    /// Submits a form of Roundup.
    pub fn submit(&self, path: &str, cookie: Option<&str>, fields: &[(&str, &str)]) -> Answer {
        let body: Vec<String> =
            fields.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
        let headers = format!(
            "{}Origin: https://tracker.test\r\nReferer: https://tracker.test/issues/\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n",
            cookie_header(cookie)
        );
        request(self.frontend.port, "POST", path, &headers, body.join("&").as_bytes())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The value of a form's hidden field.
pub fn form_value(page: &str, name: &str) -> String {
    let field = page
        .split("<input")
        .filter_map(|part| part.split_once('>'))
        .map(|(field, _)| field)
        .find(|field| field.contains(&format!("name=\"{name}\"")))
        .unwrap_or_else(|| panic!("no field {name} in {page}"));
    let (_, value) = field.split_once("value=\"").unwrap();
    value.split_once('"').unwrap().0.to_owned()
}

/// The bundle as it is in a deploy: built as `website put` does it, in a scratch copy.
fn site() -> &'static Path {
    static SITE: OnceLock<PathBuf> = OnceLock::new();
    SITE.get_or_init(|| {
        let site = Path::new(env!("CARGO_TARGET_TMPDIR")).join("site");
        fs::create_dir_all(&site).unwrap();
        let lock = File::create(site.join("lock")).unwrap();
        lock.lock().unwrap();
        let copies = ["build.py", "requirements.txt", "roundup_data.py"].map(|file| copy(file, &site));
        let built = site.join("built");
        if copies[..2].contains(&true) || !built.exists() {
            let status = Command::new("/usr/bin/python3").arg("build.py").current_dir(&site).status().unwrap();
            assert!(status.success(), "build.py: {status}");
            File::create(built).unwrap();
        }
        site
    })
}

/// Copies a file of the bundle; tells whether it was another one before.
fn copy(file: &str, site: &Path) -> bool {
    let text = fs::read(Path::new(BUNDLE).join(file)).unwrap();
    let changed = fs::read(site.join(file)).ok().as_ref() != Some(&text);
    if changed {
        fs::write(site.join(file), text).unwrap();
    }
    changed
}

fn start_server(data: &Path) -> Service {
    start(|port| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tracker"));
        command.env("AGENTENV_DATA_DIR", data).env("AGENTENV_SITE_KEY", KEY).env("PORT", port.to_string());
        command
    })
}

fn start_frontend(data: &Path) -> Service {
    start(|port| {
        // The command of env.toml; only the port and the data folder differ.
        let env = fs::read_to_string(Path::new(BUNDLE).join("env.toml")).unwrap();
        let (_, frontend) = env.split_once("\n[frontend]\ncommand = ").unwrap();
        let words: Vec<String> = serde_json::from_str(frontend.lines().next().unwrap()).unwrap();
        let words: Vec<String> = words
            .iter()
            .map(|word| word.replace("8080", &port.to_string()).replace("/data", data.to_str().unwrap()))
            .collect();
        let words = as_ordinary_user(&words);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("HOME", "/tmp");
        command
    })
}

fn start(command: impl Fn(u16) -> Command) -> Service {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = command(port);
    command.current_dir(site()).stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(started.elapsed() < START_LIMIT, "{command:?} does not listen");
        assert_eq!(child.try_wait().unwrap(), None, "{command:?} ended");
        std::thread::yield_now();
    }
    Service { child, port }
}

/// Roundup refuses to run as root, so root runs it in a user namespace, where it is somebody else to itself.
fn as_ordinary_user(command: &[String]) -> Vec<String> {
    let unshare = ["/usr/bin/unshare", "--user", "--map-user=1000", "--map-group=1000", "--"];
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let prefix: &[&str] = if is_root { &unshare } else { &[] };
    prefix.iter().map(|word| (*word).to_owned()).chain(command.iter().cloned()).collect()
}

fn cookie_header(cookie: Option<&str>) -> String {
    cookie.map_or(String::new(), |cookie| format!("Cookie: {cookie}\r\n"))
}

fn request(port: u16, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(START_LIMIT)).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: tracker.test\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("{method} {path}: {line:?}")).parse().unwrap();
    while line.trim_end() != "" {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    let mut body = Vec::new();
    reader.read_to_end(&mut body).unwrap();
    Answer { status, body }
}

fn escape(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
