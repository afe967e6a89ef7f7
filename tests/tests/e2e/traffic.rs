//! Captured traffic: what is recorded of the websites, how it is listed and given, and what becomes of it when things go wrong.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use agentenv_protocol::{
    ExitCode, TrafficCapture, TrafficCaptureListing,
    control::{DeployState, DeployStatus},
};
use agentenv_tests::{
    Bundle, Deploy, Home, PATIENCE, PySite, captures_on_disk, eventually, playwright, raw_http, run_within, tcpdump,
};
use serde_json::{Value, json};

use crate::{
    desk::{browser_env, pods},
    python::program,
};

/// A file is small, and on this machine.
const FETCH_LIMIT: Duration = Duration::from_secs(60);

/// Fetches from the deploy's traffic API with the control token, by curl, to a file: gives the status.
#[track_caller]
fn fetch(deploy: &Deploy<'_>, path: &str, to: &Path) -> String {
    let url = format!("{}{path}", deploy.info.gateway_url.trim_end_matches('/'));
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--write-out", "%{http_code}", "--output"]).arg(to);
    curl.args(["--header", &format!("Authorization: Bearer {}", deploy.token()), &url]);
    run_within(FETCH_LIMIT, &mut curl, None).ok().to_owned()
}

/// What the deploy has captured.
#[track_caller]
fn listing(deploy: &Deploy<'_>) -> TrafficCaptureListing {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    assert_eq!(fetch(deploy, "/traffic/v1/captures", file.path()), "200");
    let text = fs::read_to_string(file.path()).expect("the listing is text");
    serde_json::from_str(&text).expect("the listing has its shape")
}

/// Fetches one file, and checks that it is as long as it was listed, or longer where it grows.
#[track_caller]
fn get(deploy: &Deploy<'_>, capture: &TrafficCapture, folder: &Path) -> PathBuf {
    let path = folder.join(capture.id.to_string());
    assert_eq!(fetch(deploy, &format!("/traffic/v1/captures/{}", capture.id), &path), "200", "{capture:?}");
    let length = fs::metadata(&path).expect("it was fetched").len();
    assert!(length >= capture.bytes, "{length} bytes of {capture:?}");
    path
}

/// The packets that tcpdump reads in a file, a line each; it must be content with all of it.
#[track_caller]
fn packets(path: &Path) -> Vec<String> {
    let read = tcpdump(path, &["-A"]);
    assert_eq!(read.code, 0, "{read:?}");
    assert!(!read.stderr.contains("truncated"), "{read:?}");
    let lines = read.stdout.lines().map(str::to_owned).collect::<Vec<_>>();
    // Each begins with a time; the rest is what was in it.
    let mut packets: Vec<String> = Vec::new();
    for line in lines {
        let begins = line.split(' ').next().is_some_and(|time| time.len() == 15 && time.matches(':').count() == 2);
        match packets.last_mut() {
            Some(packet) if !begins => packet.push_str(&format!("\n{line}")),
            _ => packets.push(line),
        }
    }
    packets
}

fn page(deploy: &Deploy<'_>, site: &str, query: &str) -> u16 {
    let request = format!("GET /website/{site}/?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    raw_http(&deploy.info.gateway_url, request.as_bytes()).status
}

/// The record on disk.
fn record(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("deploy.json")).expect("the record is there");
    serde_json::from_str(&text).expect("the record is JSON")
}

#[test]
fn what_a_captured_site_sends_and_receives_is_listed_and_given() {
    let home = Home::new();
    let deploy = home.deploy_with("shop", &["--capture-traffic"]);
    let ring = &deploy.info.captures[0];
    assert_eq!((deploy.info.captures.len(), ring.website.as_str(), ring.recording), (1, "shop", true));
    assert_eq!((ring.files, ring.file_bytes, ring.dropped), (10, 20_000_000, 0));
    assert_eq!(page(&deploy, "shop", "captured-by-row-1"), 200);

    let listed = listing(&deploy);
    let [capture] = listed.captures.as_slice() else { panic!("{listed:?}") };
    assert_eq!(capture.id.to_string(), "shop.1.pcap");
    assert_eq!(capture.services.len(), ring.services.len());
    assert!(capture.packets > 10 && capture.dropped == 0, "{capture:?}");
    assert!(capture.first_packet.is_some() && capture.first_packet <= capture.last_packet, "{capture:?}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let read = packets(&get(&deploy, capture, folder.path()));
    assert!(read.len() as u64 >= capture.packets, "{} packets of {capture:?}", read.len());
    let asked: Vec<_> = read.iter().filter(|packet| packet.contains("captured-by-row-1")).collect();
    assert!(asked.iter().any(|packet| packet.contains("IP 127.0.0.2.")), "the gateway asks: {asked:?}");
    // From before the first service: what waited for it to listen, too, and its handshakes.
    assert!(read[0].contains("Flags [S]"), "{}", read[0]);

    assert!(card(&deploy).contains("urn:agentenv:traffic/v1"));
    let bare = b"GET /traffic/v1/captures HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    assert_eq!(raw_http(&deploy.info.gateway_url, bare).status, 401);
    let none = folder.path().join("none");
    assert_eq!(fetch(&deploy, "/traffic/v1/captures/shop.2.pcap", &none), "404");
    deploy.close();
}

fn card(deploy: &Deploy<'_>) -> String {
    let request = b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    let reply = raw_http(&deploy.info.gateway_url, request);
    assert_eq!(reply.status, 200, "{}", reply.raw);
    reply.raw
}

#[test]
fn a_deploy_that_does_not_capture_has_nothing_of_it() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy("pods");
    assert!(deploy.info.captures.is_empty() && deploy.status().captures.is_empty());
    assert!(!card(&deploy).contains("traffic/v1"));
    let nowhere = tempfile::NamedTempFile::new().expect("a temporary file");
    assert_eq!(fetch(&deploy, "/traffic/v1/captures", nowhere.path()), "404");
    assert!(!deploy.folder().join("captures").exists());
    assert_eq!(record(&deploy.folder())["captures"], Value::Null);
}

#[test]
fn what_a_browser_asks_is_captured_in_each_sites_own_ring() {
    let home = pods(&[PySite::new("alpha"), PySite::new("beta")]);
    home.put(&browser_env());
    home.put(&Bundle::multi("desk", &["alpha", "beta"], Some("lookout")));
    let deploy = home.deploy_with("desk", &["--capture-traffic"]);
    playwright(&deploy, "page.goto('https://alpha.test/?only-for-alpha')");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let captured: Vec<(String, String)> = listing(&deploy)
        .captures
        .iter()
        .map(|capture| (capture.website.to_string(), packets(&get(&deploy, capture, folder.path())).join("\n")))
        .collect();
    for (website, text) in &captured {
        // Decrypted: TLS ends before the site.
        assert_eq!(text.contains("GET /?only-for-alpha"), website == "alpha", "{website}: {text}");
    }
    assert_eq!(captured.len(), 2);
}

#[test]
fn services_of_a_site_are_told_apart_by_their_ports() {
    let worker = r#"
[services.worker]
command = ["/usr/bin/python3", "-m", "http.server", "9000", "--bind", "127.0.0.1", "--directory", "/site"]
port = 9000
"#;
    let home = pods(&[PySite::new("alpha").toml(worker)]);
    let deploy = home.deploy_with("pods", &["--capture-traffic"]);
    let services = &deploy.info.captures[0].services;
    let names: Vec<_> = services.iter().map(|service| (service.name.as_str(), service.port)).collect();
    assert_eq!(names, [("worker", 9000), ("server", 8000)]);
    let ports: Vec<_> = services.iter().map(|service| service.client_ports.expect("this kernel can")).collect();
    assert!(ports[0].1 < ports[1].0, "{ports:?}");
    let ask = r#"
import urllib.request
show(urllib.request.urlopen("http://worker:9000/site.py?who-asks").status)"#;
    assert_eq!(deploy.python("alpha/server", &program(ask)), json!(200));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let read = packets(&get(&deploy, &listing(&deploy).captures[0], folder.path()));
    let asked = read.iter().find(|packet| packet.contains("who-asks") && packet.contains(".9000:"));
    let asked = asked.unwrap_or_else(|| panic!("{read:#?}"));
    let from: u16 = asked
        .split(" > ")
        .next()
        .and_then(|head| head.rsplit('.').next())
        .and_then(|port| port.parse().ok())
        .unwrap_or_else(|| panic!("{asked}"));
    assert!((ports[1].0..=ports[1].1).contains(&from), "the server asks from {ports:?}: {asked}");
}

#[test]
fn what_cannot_be_captured_is_refused_before_anything_runs() {
    let home = pods(&[PySite::new("alpha")]);
    home.put(&browser_env());
    home.put(&Bundle::new("format = 1\nkind = \"multi\"\nname = \"browsers\"\nbrowsers = [\"lookout\"]\n"));
    for (env, what) in [("lookout", "a browser"), ("browsers", "a multi env without a website")] {
        home.run(&["env", "deploy", env, "--capture-traffic"])
            .fails(ExitCode::Refused, &[env, what, "packets of websites"]);
    }
    let deploy = |more: &[&str]| {
        let mut arguments = vec!["env", "deploy", "pods"];
        arguments.extend(more);
        home.run(&arguments)
    };
    for flag in ["--capture-files", "--capture-file-mb"] {
        deploy(&[flag, "5"]).fails(ExitCode::Usage, &["--capture-traffic"]);
        deploy(&["--capture-traffic", flag, "1001"]).fails(ExitCode::Usage, &["1001", "..=1000"]);
        deploy(&["--capture-traffic", flag, "0"]).fails(ExitCode::Usage, &["0", "..=1000"]);
    }
    deploy(&["--capture-traffic", "--capture-files", "1"]).fails(ExitCode::Usage, &["2..=1000"]);
    assert!(home.deploy_ids().is_empty(), "nothing was made");
}

/// Deploys while captures cannot run: refused, naming website and reason, and nothing is left.
#[track_caller]
fn refused(home: &Home, reason: &str) {
    let known = home.deploy_ids();
    let outcome = home.run(&["env", "deploy", "pods", "--capture-traffic"]);
    outcome.fails(ExitCode::Infrastructure, &["`alpha` is not captured", reason]);
    home.assert_idle();
    for id in home.deploy_ids().iter().filter(|id| !known.contains(id)) {
        assert_eq!(record(&home.deploy_folder(id))["state"], "failed");
    }
}

#[test]
fn row_69_a_deploy_whose_capture_ends_hangs_or_has_no_folder_is_refused() {
    let home = pods(&[PySite::new("alpha")]);
    let home = home.with("AGENTENV_TEST_CAPTURE", "exit");
    refused(&home, "ended");
    let home = home.without("AGENTENV_TEST_CAPTURE").with("AGENTENV_TEST_CAPTURE", "hang");
    let began = Instant::now();
    refused(&home, "does not answer");
    assert!(began.elapsed() < Duration::from_secs(30), "a capture that hangs holds nobody up: {:?}", began.elapsed());

    // Something is where the folder would be, put there as soon as the deploy has one of its own.
    let home = home.without("AGENTENV_TEST_CAPTURE");
    let known = home.deploy_ids();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let start = Instant::now();
            while start.elapsed() < PATIENCE {
                if let Some(id) = home.deploy_ids().iter().find(|id| !known.contains(id)) {
                    fs::write(home.deploy_folder(id).join("captures"), "").expect("the file can be written");
                    return;
                }
            }
        });
        refused(&home, "captures/alpha");
    });
}

#[test]
fn row_69_a_capture_that_dies_degrades_the_deploy_and_another_goes_on() {
    another_goes_on("exit-after=1500", "ended");
}

#[test]
fn row_69_a_capture_that_hangs_degrades_the_deploy_and_another_goes_on() {
    another_goes_on("hang-after=1500", "has not been heard of");
}

#[track_caller]
fn another_goes_on(fault: &str, reason: &str) {
    let home = pods(&[PySite::new("alpha")]).with("AGENTENV_TEST_CAPTURE", fault);
    let deploy = home.deploy_with("pods", &["--capture-traffic"]);
    assert_eq!(deploy.status().state, DeployState::Ready);
    let ring = |status: &DeployStatus| status.captures[0].clone();
    let status = eventually("the capture died and another runs", PATIENCE, || {
        deploy.talk("alpha/echo", 1 << 18);
        let status = deploy.status();
        ring(&status).gaps.first().is_some_and(|gap| gap.to.is_some()).then_some(status)
    });
    assert_eq!(status.state, DeployState::Degraded);
    let ring = ring(&status);
    let gap = &ring.gaps[0];
    assert!(ring.recording && ring.gaps.len() == 1, "{ring:?}");
    assert!(Some(&gap.from) < gap.to.as_ref() && gap.reason.contains(reason), "{gap:?}");
    assert_eq!(record(&deploy.folder())["state"], "degraded");
    // The new capture has a file of its own, and what happens now is in it.
    assert_eq!(page(&deploy, "alpha", "after-the-gap"), 200);
    let listed = listing(&deploy);
    assert_eq!(listed.rings[0].gaps, ring.gaps);
    let next = listed.captures.last().expect("a file");
    assert_eq!(Some(next.generation), gap.next_generation, "{listed:?}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert!(packets(&get(&deploy, next, folder.path())).iter().any(|packet| packet.contains("after-the-gap")));
    // The gap is a fact, whatever happens later.
    home.run(&["env", "reset", deploy.id()]).ok();
    assert_eq!(deploy.status().state, DeployState::Degraded);
    let shown = home.run(&["env", "status", deploy.id()]).ok().to_owned();
    assert!(shown.contains("degraded") && shown.contains("alpha missed packets from"), "{shown}");
}

#[test]
fn a_capture_that_cannot_be_started_again_is_said_to_record_no_more() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy_with("pods", &["--capture-traffic", "--capture-files", "2", "--capture-file-mb", "1"]);
    let ring = deploy.folder().join("captures/alpha");
    fs::remove_dir_all(&ring).expect("the ring can be removed");
    fs::write(&ring, "").expect("a file can be in its place");
    let status = eventually("nothing is recorded any more", PATIENCE, || {
        deploy.talk("alpha/echo", 1 << 20);
        let status = deploy.status();
        status.captures[0].gaps.first().is_some_and(|gap| gap.reason.contains("within a minute")).then_some(status)
    });
    assert_eq!(status.state, DeployState::Degraded);
    let ring = &status.captures[0];
    assert!(!ring.recording && ring.gaps[0].to.is_none(), "{ring:?}");
    assert_eq!(page(&deploy, "alpha", "the-site-lives"), 200);
}

#[test]
fn row_61_and_80_a_ring_turns_and_stays_within_its_size() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy_with("pods", &["--capture-traffic", "--capture-files", "3", "--capture-file-mb", "1"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    for _ in 0..6 {
        deploy.talk("alpha/echo", 1 << 20);
        let size: u64 = captures_on_disk(&deploy.folder(), "alpha")
            .iter()
            .filter_map(|path| fs::metadata(path).ok())
            .map(|file| file.len())
            .sum();
        assert!(size <= 3 * (1_000_000 + 65_565), "{size} bytes");
    }
    let listed = listing(&deploy);
    let generations: Vec<u64> = listed.captures.iter().map(|capture| capture.generation).collect();
    assert_eq!(generations.len(), 3, "{listed:?}");
    assert!(generations[0] > 5 && generations.is_sorted(), "{generations:?}");
    assert_eq!(listed.rings[0].dropped, 0, "{listed:?}");
    for capture in &listed.captures {
        let read = packets(&get(&deploy, capture, folder.path())).len() as u64;
        assert!(
            read == capture.packets || capture.state != agentenv_protocol::CaptureState::Complete,
            "{read} {capture:?}"
        );
    }
    assert_eq!(fetch(&deploy, "/traffic/v1/captures/alpha.1.pcap", &folder.path().join("gone")), "410");

    // A reset leaves the ring as it is.
    home.run(&["env", "reset", deploy.id()]).ok();
    let after = listing(&deploy);
    assert_eq!(after.captures.last().map(|last| last.generation), listed.captures.last().map(|last| last.generation));
    assert!(after.rings[0].recording && after.rings[0].gaps.is_empty());
    assert_eq!(deploy.status().state, DeployState::Ready);
}

#[test]
fn closing_stores_captures_unless_they_are_to_be_discarded() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy_with("pods", &["--capture-traffic"]);
    assert_eq!(page(&deploy, "alpha", "the-last-words"), 200);
    let (id, folder) = (deploy.id().to_owned(), deploy.folder());
    deploy.close();
    // They are in the store: nothing that tidies up removes them.
    assert!(captures_on_disk(&folder, "alpha").is_empty());
    assert_eq!(record(&folder)["captures"]["unstored"], json!([]));
    home.run(&["env", "gc"]).ok();
    home.run(&["store", "gc"]).ok();
    let kept = tempfile::tempdir().expect("a temporary folder");
    let to = kept.path().display().to_string();
    home.run(&["traffic", "get", &id, "--all", "--output", &to]).ok();
    let file = kept.path().join("alpha.1.pcap");
    assert!(packets(&file).iter().any(|packet| packet.contains("the-last-words")));

    let deploy = home.deploy_with("pods", &["--capture-traffic"]);
    let folder = deploy.folder();
    home.run(&["env", "close", deploy.id(), "--discard-captures"]).ok();
    assert!(!folder.join("captures").exists());
    assert_eq!(record(&folder)["captures"]["unstored"], json!([]));
    let processes = [];
    deploy.gone(&processes);
}

#[test]
fn row_67_and_79_captures_survive_the_death_of_their_supervisor() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy_with("pods", &["--capture-traffic", "--capture-files", "2", "--capture-file-mb", "1"]);
    let (processes, folder) = (deploy.processes(), deploy.folder());
    for _ in 0..2 {
        deploy.talk("alpha/echo", 1 << 20);
    }
    assert_eq!(page(&deploy, "alpha", "before-the-kill"), 200);
    let listed = listing(&deploy);
    deploy.supervisor().kill_and_wait();
    deploy.gone(&processes);
    let files = captures_on_disk(&folder, "alpha");
    assert_eq!(files.len(), listed.captures.len());
    for (file, capture) in files.iter().zip(&listed.captures) {
        assert!(packets(file).len() as u64 >= capture.packets, "{capture:?}");
    }
    let last = packets(files.last().expect("a file"));
    assert!(last.iter().any(|packet| packet.contains("before-the-kill")), "what was listed is on disk");
    let record = record(&folder);
    assert_eq!((&record["state"], &record["captures"]["unstored"]), (&json!("failed"), &json!(["alpha"])));
    home.run(&["env", "gc"]).ok();
    assert_eq!(captures_on_disk(&folder, "alpha"), files);
}

#[test]
fn row_67_and_79_a_supervisor_killed_at_any_moment_leaves_valid_files() {
    let home = pods(&[PySite::new("alpha")]);
    let mut captured = 0;
    for wait_ms in [0, 40, 60, 80, 100, 120, 150, 200, 300] {
        let known = home.deploy_ids();
        let mut child = home.start(&["env", "deploy", "pods", "--capture-traffic"]);
        let supervisor = eventually("a supervisor", PATIENCE, || home.supervisor());
        // Not a wait for anything: the moment of the kill is the test's input.
        std::thread::park_timeout(Duration::from_millis(wait_ms));
        supervisor.kill_and_wait();
        eventually("the command ends", PATIENCE, || child.try_wait().expect("a child"));
        home.run(&["env", "list"]).ok();
        home.assert_idle();
        for id in home.deploy_ids().iter().filter(|id| !known.contains(id)) {
            let folder = home.deploy_folder(id);
            let files = captures_on_disk(&folder, "alpha");
            captured += files.iter().map(|file| packets(file).len()).sum::<usize>();
            let unstored = if files.is_empty() { json!([]) } else { json!(["alpha"]) };
            assert_eq!(record(&folder)["captures"]["unstored"], unstored, "killed after {wait_ms} ms");
        }
    }
    assert!(captured > 0, "not once was anything captured before the kill");
}

#[test]
fn row_58_neither_the_control_token_nor_a_secret_setting_is_in_a_capture() {
    let secret = "canary-of-a-secret-setting";
    let site = PySite::new("alpha").root("secret_settings = [\"key\"]").toml("[settings]\nkey = \"env:ALPHA_KEY\"\n");
    let home = pods(&[site]).with("ALPHA_KEY", secret);
    let deploy = home.deploy_with("pods", &["--capture-traffic"]);
    let token = deploy.token();
    // The token on its way to the server's operations, which are in the capture.
    deploy.operation("alpha", "data/load", &json!({"data": {"rows": ["canary-of-the-data"]}}));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = get(&deploy, &listing(&deploy).captures[0], folder.path());
    let bytes = fs::read(file).expect("it was fetched");
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("canary-of-the-data"), "what was sent is in it");
    assert!(!holds(&token), "the control token is in it");
    assert!(!holds(secret), "a secret setting is in it");
}
