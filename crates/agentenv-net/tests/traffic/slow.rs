//! Clients that take nothing, captures that don't answer, a gateway that goes (ATTACKS row 66).

use std::{
    sync::{Condvar, Mutex},
    time::Duration,
};

use agentenv_net::{CaptureBytes, Limits};
use agentenv_protocol::CaptureId;

use super::*;

/// Downloads at a time, and calls: those of the gateway's limits.
const DOWNLOADS: usize = 16;
const CALLS: usize = 4;

async fn deploy_within(limits: Limits, captures: Arc<dyn Captures>) -> Deploy {
    Deploy::with_captures(limits, Echo::labelled("shop").await, Some(captures)).await
}

/// Begins a download and takes no more than its head.
async fn stalled(deploy: &Deploy) -> TcpStream {
    let mut stream = TcpStream::connect(deploy.at).await.unwrap();
    stream.write_all(get(&path(1), HOST, &bearer(deploy)).as_bytes()).await.unwrap();
    assert_eq!(status(&read_head(&mut stream).await), 200);
    stream
}

/// The most memory that this process has had, in KiB.
fn peak_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn row_66_clients_that_take_nothing_are_bounded_and_nobody_waits_for_them() {
    let limits = Limits { write: Duration::from_secs(3), ..limits() };
    let deploy = deploy_within(limits, Arc::new(Sparse(1 << 30))).await;
    let before = peak_kib();
    let mut streams = Vec::new();
    for _ in 0..DOWNLOADS {
        streams.push(stalled(&deploy).await);
    }
    // While they are there: one more is told so, and everything else goes on.
    let one_more = deploy.raw(&get(&path(1), HOST, &bearer(&deploy))).await;
    assert!(status(&one_more) == 503 && one_more.contains("too many downloads"), "{one_more}");
    assert_eq!(status(&deploy.raw(&get(LIST, HOST, &bearer(&deploy))).await), 200);
    let head = get(&path(1), HOST, &bearer(&deploy)).replacen("GET", "HEAD", 1);
    assert_eq!(status(&deploy.raw(&head).await), 200, "a length takes no place");
    assert_eq!(status(&deploy.raw(&get("/website/shop/", HOST, "")).await), 200);
    // They are cut, and all their places are free.
    let mut others = Vec::new();
    within(async {
        while others.len() < DOWNLOADS {
            let mut stream = TcpStream::connect(deploy.at).await.unwrap();
            stream.write_all(get(&path(1), HOST, &bearer(&deploy)).as_bytes()).await.unwrap();
            if status(&read_head(&mut stream).await) == 200 {
                others.push(stream);
            }
        }
    })
    .await;
    let grown = peak_kib() - before;
    assert!(grown < 64 * 1024, "{grown} KiB for {DOWNLOADS} clients that take nothing");
    for mut stream in streams {
        let mut taken = 0;
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = within(stream.read(&mut buffer)).await {
            taken += count;
        }
        assert!(taken < 1 << 28, "it was cut: {taken}");
    }
}

async fn read_head_of(deploy: &Deploy, request: &str) -> String {
    let mut stream = TcpStream::connect(deploy.at).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    read_head(&mut stream).await
}

#[tokio::test]
async fn a_client_that_goes_gives_its_place_back() {
    let deploy = deploy(Arc::new(Sparse(1 << 30))).await;
    for _ in 0..3 * DOWNLOADS {
        within(async {
            // The gateway hears of it a moment later.
            while status(&read_head_of(&deploy, &get(&path(1), HOST, &bearer(&deploy))).await) != 200 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_gateway_that_goes_within_a_file_leaves_what_came_and_an_error() {
    let deploy = deploy(Arc::new(Sparse(1 << 30))).await;
    let mut download = client_of(&deploy).fetch_traffic_capture(&id(1), None).await.unwrap();
    let mut received = download.chunk().await.unwrap().unwrap().len() as u64;
    within(deploy.gateway.shutdown()).await;
    let error = loop {
        match download.chunk().await {
            Ok(Some(bytes)) => received += bytes.len() as u64,
            Ok(None) => panic!("it looked whole"),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, ClientError::Incomplete { received: r, length: 0x4000_0000, .. } if r == received),
        "{error:?}"
    );
    assert_eq!(download.received(), received);
}

/// Captures that answer when they are let.
#[derive(Default)]
struct Hanging {
    going: Mutex<bool>,
    changed: Condvar,
}

impl Captures for Hanging {
    fn list(&self) -> TrafficCaptureListing {
        drop(self.changed.wait_while(self.going.lock().unwrap(), |going| !*going));
        TrafficCaptureListing::default()
    }

    fn open(&self, _: &CaptureId) -> Result<CaptureBytes, CaptureMissing> {
        Err(CaptureMissing::Unknown)
    }
}

#[tokio::test]
async fn captures_that_hang_hold_a_few_threads_and_no_request() {
    let captures = Arc::new(Hanging::default());
    let limits = Limits { answer: Duration::from_millis(150), ..limits() };
    let deploy = deploy_within(limits, captures.clone()).await;
    let request = get(LIST, HOST, &bearer(&deploy));
    let answers = futures_util::future::join_all((0..3 * CALLS).map(|_| deploy.raw(&request))).await;
    assert!(answers.iter().all(|answer| status(answer) == 500), "{answers:?}");
    // All places are taken by calls that hang: no more threads.
    assert_eq!(status(&deploy.raw(&get(&path(1), HOST, &bearer(&deploy))).await), 500);
    assert_eq!(status(&deploy.raw(&get("/website/shop/", HOST, "")).await), 200);
    *captures.going.lock().unwrap() = true;
    captures.changed.notify_all();
    assert_eq!(status(&deploy.raw(&request).await), 200);
    assert_eq!(status(&deploy.raw(&get(&path(1), HOST, &bearer(&deploy))).await), 404);
}
