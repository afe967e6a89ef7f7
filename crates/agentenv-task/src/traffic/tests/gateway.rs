//! A gateway's traffic API over a deploy's folder, each file of which may be made to go wrong.

use std::{
    collections::BTreeMap,
    io::Read as _,
    sync::{Arc, Mutex},
};

use agentenv_deploy::{DeployDir, captures};
use agentenv_protocol::{CAPTURE_STATE_HEADER, CaptureId, PCAP_MEDIA_TYPE, TRAFFIC_CAPTURES_PATH};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
};

/// Its control token.
pub(super) const TOKEN: &str = "fake-token";

/// What a file does instead of coming whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// Half of it comes, then the connection ends.
    Die,
    /// Half of it comes, then nothing more.
    Stall,
    /// It was rotated away.
    Gone,
    /// The gateway is busy.
    Refuse,
    /// Less is announced than was listed.
    Short,
}

/// The server. Dropped, it is gone.
pub(super) struct FakeGateway {
    pub url: String,
    /// Told when a download stands still.
    pub stalled: Arc<Notify>,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    behaviours: BTreeMap<String, Behaviour>,
    /// Paths and ranges.
    asked: Vec<(String, Option<String>)>,
}

impl FakeGateway {
    pub async fn new(dir: &DeployDir) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (state, stalled) = (Arc::<Mutex<State>>::default(), Arc::<Notify>::default());
        let (dir, kept, told) = (dir.clone(), Arc::clone(&state), Arc::clone(&stalled));
        let task = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                if answer(&mut stream, &dir, &kept).await.is_none() {
                    // It stands still for as long as the gateway is there.
                    open.push(stream);
                    told.notify_one();
                }
            }
        });
        Self { url, stalled, state, task }
    }

    pub fn at(&self, file: &str, behaviour: Behaviour) {
        self.state.lock().unwrap().behaviours.insert(file.to_owned(), behaviour);
    }

    pub fn asked(&self) -> Vec<(String, Option<String>)> {
        self.state.lock().unwrap().asked.clone()
    }
}

impl Drop for FakeGateway {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap().to_lowercase()
}

/// None where it goes on without an end.
async fn answer(stream: &mut TcpStream, dir: &DeployDir, state: &Mutex<State>) -> Option<()> {
    let head = head(stream).await;
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let range = head.lines().find_map(|line| line.strip_prefix("range: bytes=")).map(str::to_owned);
    assert!(head.contains(&format!("authorization: bearer {TOKEN}\r\n")), "{head}");
    let name = path.strip_prefix(TRAFFIC_CAPTURES_PATH).unwrap().trim_start_matches('/').to_owned();
    let behaviour = {
        let mut state = state.lock().unwrap();
        state.asked.push((path, range.clone()));
        state.behaviours.get(&name).copied()
    };
    if name.is_empty() {
        let listing = serde_json::to_string(&captures::listing(dir).unwrap()).unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", listing.len());
        stream.write_all((head + &listing).as_bytes()).await.unwrap();
        return Some(());
    }
    match behaviour {
        Some(Behaviour::Gone) => {
            stream.write_all(b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await.unwrap();
            return Some(());
        }
        Some(Behaviour::Refuse) => {
            stream.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await.unwrap();
            return Some(());
        }
        _ => {}
    }
    let id = CaptureId::parse(&name).unwrap();
    let listed = captures::listing(dir).unwrap().captures.into_iter().find(|capture| capture.id == id).unwrap();
    let mut bytes = Vec::new();
    captures::open(dir, &id).unwrap().take(listed.bytes).read_to_end(&mut bytes).unwrap();
    let whole = bytes.len();
    let last: usize = range.as_deref().unwrap().strip_prefix("0-").unwrap().parse().unwrap();
    bytes.truncate(if behaviour == Some(Behaviour::Short) { 24 } else { last + 1 });
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Type: {PCAP_MEDIA_TYPE}\r\nContent-Length: {}\r\nContent-Range: bytes 0-{}/{whole}\r\n\
         ETag: \"1-{whole}\"\r\n{CAPTURE_STATE_HEADER}: complete\r\nConnection: close\r\n\r\n",
        bytes.len(),
        bytes.len() - 1,
    );
    if matches!(behaviour, Some(Behaviour::Die | Behaviour::Stall)) {
        bytes.truncate(bytes.len() / 2);
    }
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    (behaviour != Some(Behaviour::Stall)).then_some(())
}
