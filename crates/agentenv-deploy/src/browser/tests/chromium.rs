//! A real Chromium by the real launch plan, with `/etc/chromium` of its own in a private mount namespace, as uid 1000 of
//! a user namespace: its own sandbox is on, as in a deploy.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
    sync::oneshot,
    time::timeout,
};

use super::{
    super::{origin::OriginPage, residue::Residue, *},
    site::Internet,
};
use crate::cdp::Cdp;

/// Two browsers start at once on a machine that also builds.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// Counts what an origin stores; workers and caches exist at secure origins only.
const COUNT_STORAGE: &str = r"
(async () => ({
  'local storage': localStorage.length,
  'databases': (await indexedDB.databases()).length,
  'caches': self.caches ? (await caches.keys()).length : 0,
  'service workers': navigator.serviceWorker ? (await navigator.serviceWorker.getRegistrations()).length : 0,
}))()";

pub(super) struct Running {
    pub(super) browser: Browser,
    pub(super) port: u16,
    process: Child,
    folder: TempDir,
}

impl Running {
    pub(super) async fn start(internet: &Internet) -> Self {
        Self::start_with(internet, |_| {}).await
    }

    /// Starts a browser whose plan was changed.
    pub(super) async fn start_with(internet: &Internet, change: impl FnOnce(&mut Launch)) -> Self {
        let spec = BrowserSpec::forward(internet.proxy, Viewport::default());
        let mut launch = chromium(&find_chromium().unwrap(), &spec, &internet.ca_pem, &font_cache()).unwrap();
        change(&mut launch);
        let folder = tempfile::tempdir().unwrap();
        let mut process = spawn(&launch, folder.path());
        let port = timeout(LIMIT, listening(&mut process)).await.expect("Chromium starts in time");
        let name = agentenv_protocol::Name::parse("browser").unwrap();
        let browser = Browser::connect(name, || TcpStream::connect(("127.0.0.1", port)), port, LIMIT).await.unwrap();
        Self { browser, port, process, folder }
    }

    pub(super) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Another client, such as an agent.
    pub(super) async fn client(&self) -> Cdp {
        Cdp::connect(|| TcpStream::connect(("127.0.0.1", self.port)), self.port, LIMIT).await.unwrap()
    }

    /// What the browser holds; storage is asked for by origin, such as `1 local storage of https://shop.test`.
    pub(super) async fn residue(&self, origins: &[String]) -> (Residue, Vec<String>) {
        let page = OriginPage::open(&self.browser.cdp, None).await.unwrap();
        let mut storage = Vec::new();
        for origin in origins {
            let counts = page.evaluate(origin, COUNT_STORAGE).await.unwrap();
            let some = counts.as_object().unwrap().iter().filter(|(_, count)| count.as_u64() != Some(0));
            storage.extend(some.map(|(kind, count)| format!("{count} {kind} of {origin}")));
        }
        page.close().await.unwrap();
        (Residue::read(&self.browser.cdp).await.unwrap(), storage)
    }

    /// Closes the browser and waits until its process is gone; the folder stays until this is dropped.
    pub(super) async fn close(&mut self) {
        self.browser.cdp.call("Browser.close", serde_json::json!({})).await.unwrap();
        timeout(LIMIT, self.process.wait()).await.expect("Chromium exits in time").unwrap();
    }

    /// Kills it as the provider does.
    pub(super) async fn kill(&mut self) {
        self.process.kill().await.unwrap();
    }

    /// Files of the home that hold the text.
    pub(super) fn files_with(&self, text: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.home()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() && contains(&fs::read(entry.path()).unwrap_or_default(), text.as_bytes()) {
                    found.push(entry.path());
                }
            }
        }
        found
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Writes the plan's files below the folder and starts its command there.
fn spawn(launch: &Launch, folder: &Path) -> Child {
    let home = folder.join("home");
    fs::create_dir(&home).unwrap();
    let here = |text: &str| text.replace(HOME, home.to_str().unwrap());
    for (name, bytes) in launch.etc.iter().filter(|(name, _)| name.starts_with("chromium/")) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, here(std::str::from_utf8(bytes).unwrap())).unwrap();
    }
    let mut arguments: Vec<String> = launch.command.iter().map(|argument| here(argument)).collect();
    for argument in &mut arguments {
        if argument.starts_with("--remote-debugging-port=") {
            "--remote-debugging-port=0".clone_into(argument);
        }
    }
    Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
        .arg("mount --bind \"$0\" /etc/chromium && exec unshare --user --map-user=1000 --map-group=1000 \"$@\"")
        .arg(folder.join("chromium"))
        .args(arguments)
        .env_clear()
        .envs(launch.environment.iter().map(|(name, value)| (name, here(value))))
        .current_dir(&home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// The port that it chose, from its log.
async fn listening(process: &mut Child) -> u16 {
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let (sender, receiver) = oneshot::channel();
    tokio::spawn(async move {
        let mut sender = Some(sender);
        let mut log = Vec::new();
        // Read to the end: a full pipe would hold the browser up.
        while let Ok(Some(line)) = lines.next_line().await {
            let port = line
                .strip_prefix("DevTools listening on ws://127.0.0.1:")
                .and_then(|rest| rest.split('/').next()?.parse().ok());
            if let (Some(port), Some(sender)) = (port, sender.take_if(|_| port.is_some())) {
                sender.send(Ok::<u16, String>(port)).ok();
            }
            log.push(line);
            log.drain(..log.len().saturating_sub(20));
        }
        if let Some(sender) = sender {
            sender.send(Err(log.join("\n"))).ok();
        }
    });
    receiver.await.unwrap().expect("Chromium listens")
}
