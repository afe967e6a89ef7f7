//! Collections from a gateway over real HTTP and from a real folder into a real store.

mod gateway;

use std::{fs, net::Ipv4Addr, path::Path, process::Command, sync::Arc};

use agentenv_deploy::{DeployDir, DeployRecord, RecordedCaptures};
use agentenv_protocol::{
    DeployId, Home, Name, TrafficRing,
    control::{ControlError, DeployInfo, DeployState},
};
use agentenv_store::{Holder, Store};

use super::*;
use crate::{
    Answer, ControlDeploys, DeployEnv, DeployRequest, Events, MakeDeploys, PlannedDeploy, Runner, StoreLog,
    Universes as _, Work,
};
use gateway::{Behaviour, FakeGateway};

/// Nothing is made in these tests.
struct Nothing;

impl MakeDeploys for Nothing {
    fn plan<'a>(&'a self, _: &'a DeployEnv) -> Answer<'a, PlannedDeploy> {
        Box::pin(async { Err(ControlError::infrastructure("not in this test")) })
    }
    fn deploy(&self, _: DeployRequest) -> Answer<'_, DeployInfo> {
        Box::pin(async { Err(ControlError::infrastructure("not in this test")) })
    }
    fn reap(&self) -> Work<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A home with a deploy, a store, and five files that the deploy has captured.
struct Fixture {
    home: Home,
    dir: DeployDir,
    deploy: DeployId,
    store: Store,
    runner: Runner,
}

/// The packets of each file, of 84 bytes each.
const PACKETS: [usize; 5] = [20, 20, 20, 20, 7];

impl Fixture {
    async fn new(folder: &Path, payload: usize) -> Self {
        let home = Home::at(folder);
        let deploy = DeployId::random();
        let dir = DeployDir::new(home.deploy(&deploy));
        let ring = dir.captures().join("shop");
        fs::create_dir_all(&ring).unwrap();
        for (packets, generation) in PACKETS.iter().zip(1..) {
            fs::write(ring.join(format!("{generation:010}.pcap")), pcap(generation, *packets, payload)).unwrap();
        }
        let store = Store::open(&home).await.unwrap();
        let deploys = Arc::new(ControlDeploys::new(home.clone(), Arc::new(Nothing)));
        let log = Arc::new(StoreLog::new(store.clone()));
        let runner = Runner::new(home.clone(), deploys, log, Events::nowhere());
        let fixture = Self { home, dir, deploy, store, runner };
        fixture.save(DeployState::Closed, "http://127.0.0.1:1");
        fixture
    }

    /// Writes the deploy's record.
    fn save(&self, state: DeployState, gateway_url: &str) {
        let name = Name::parse("office").unwrap();
        let info = DeployInfo {
            deploy: self.deploy.clone(),
            name: None,
            env: name.clone(),
            provider: "sandbox".to_owned(),
            gateway_url: gateway_url.to_owned(),
            ca_file: String::new(),
            live: false,
            websites: Vec::new(),
            browsers: Vec::new(),
            computers: Vec::new(),
            captures: vec![TrafficRing {
                website: Name::parse("shop").unwrap(),
                services: Vec::new(),
                gateway_address: Ipv4Addr::LOCALHOST,
                recording: true,
                files: 10,
                file_bytes: 1_000_000,
                dropped: 0,
                gaps: Vec::new(),
            }],
            warnings: Vec::new(),
            ready_ms: 1,
        };
        let record = DeployRecord::new(self.deploy.clone(), None, name, Vec::new(), false);
        let captures = RecordedCaptures { files: 10, file_bytes: 1_000_000, unstored: Vec::new() };
        self.dir.save(&DeployRecord { state, info: Some(info), captures: Some(captures), ..record }).unwrap();
        fs::write(self.dir.control_token(), gateway::TOKEN).unwrap();
    }

    async fn rescue(&self) -> Rescued {
        self.runner.rescue_deploy(&self.deploy).await.unwrap()
    }

    /// What is stored, checked against what was captured: no artifact is out of reach.
    async fn stored(&self) -> Vec<u64> {
        let holder = Holder::Deploy(self.deploy.clone());
        let entry = self.runner.captures_outside(&self.deploy).await.unwrap().unwrap();
        let artifacts = self.store.list_artifacts(&holder).await.unwrap();
        assert_eq!(artifacts.len(), entry.files.len(), "{entry:?}");
        for artifact in &artifacts {
            assert!(artifact.sensitive && artifact.media_type == "application/vnd.tcpdump.pcap");
            assert_eq!(artifact.universe.as_ref(), Some(&entry.universe_id));
            let file = entry.files.iter().find(|file| file.artifact == artifact.id.as_str()).expect("it is listed");
            let mut copy = tempfile::NamedTempFile::new().unwrap();
            self.store.read_artifact(&artifact.id, copy.reopen().unwrap()).await.unwrap();
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(copy.as_file_mut(), &mut bytes).unwrap();
            let payload = (bytes.len() - 24) / PACKETS[file.generation as usize - 1] - 16;
            assert!(bytes == pcap(file.generation as u32, PACKETS[file.generation as usize - 1], payload));
        }
        entry.files.iter().map(|file| file.generation).collect()
    }
}

/// A capture file.
fn pcap(generation: u32, packets: usize, payload: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for packet in 0..packets as u32 {
        let length = payload as u32;
        for word in [1_700_000_000 + generation, packet, length, length] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(std::iter::repeat_n(generation as u8, payload));
    }
    bytes
}

#[tokio::test]
async fn a_closed_deploys_folder_is_stored_and_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(folder.path(), 68).await;
    let rescued = fixture.rescue().await;
    assert_eq!((rescued.stored, rescued.reason), (5, None));
    let entry = rescued.captures.unwrap();
    let packets: Vec<_> = entry.files.iter().map(|file| file.packets.unwrap() as usize).collect();
    assert_eq!(packets, PACKETS);
    assert!(entry.files[0].first_packet.as_ref().unwrap().starts_with("2023-11-14T"));
    assert_eq!(fixture.stored().await, [1, 2, 3, 4, 5]);
    assert!(!fixture.dir.captures().join("shop").exists(), "what is stored whole is on disk no more");
    assert_eq!(fixture.rescue().await.stored, 0, "twice is harmless");
    assert_eq!(fixture.stored().await, [1, 2, 3, 4, 5]);
    assert_eq!(fixture.store.gc().await.unwrap().blobs, 0);
}

#[tokio::test]
async fn row_79_of_a_torn_file_the_whole_records_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(folder.path(), 68).await;
    let last = fixture.dir.captures().join("shop/0000000005.pcap");
    let mut bytes = fs::read(&last).unwrap();
    bytes.extend([1; 40]);
    fs::write(&last, &bytes).unwrap();
    let rescued = fixture.rescue().await;
    assert_eq!(rescued.reason, None);
    let file = rescued.captures.unwrap().files.pop().unwrap();
    assert_eq!((file.bytes, file.packets, file.state), (612, Some(7), Some(agentenv_protocol::CaptureState::Damaged)));
    assert_eq!(fixture.stored().await, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn a_running_deploys_files_come_from_its_gateway_exactly_as_listed() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(folder.path(), 68).await;
    let gateway = FakeGateway::new(&fixture.dir).await;
    fixture.save(DeployState::Ready, &gateway.url);
    let rescued = fixture.rescue().await;
    assert_eq!((rescued.stored, rescued.reason), (5, None));
    assert_eq!(fixture.stored().await, [1, 2, 3, 4, 5]);
    assert!(fixture.dir.captures().join("shop").exists(), "a running deploy keeps its ring");
    let ranges: Vec<String> = gateway.asked().into_iter().filter_map(|(_, range)| range).collect();
    assert_eq!(ranges, ["0-1703", "0-1703", "0-1703", "0-1703", "0-611"]);
    // Closed, with nothing new: nothing is stored again, and the folder goes.
    fixture.save(DeployState::Closed, &gateway.url);
    assert_eq!(fixture.rescue().await.stored, 0);
    assert!(!fixture.dir.captures().join("shop").exists());
}

#[tokio::test]
async fn what_grew_after_it_was_stored_stays_on_disk_until_it_is_stored_again() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(folder.path(), 68).await;
    let gateway = FakeGateway::new(&fixture.dir).await;
    let last = fixture.dir.captures().join("shop/0000000005.pcap");
    let whole = fs::read(&last).unwrap();
    fs::write(&last, &whole[..24 + 84]).unwrap();
    fixture.save(DeployState::Ready, &gateway.url);
    let entry = fixture.rescue().await.captures.unwrap();
    assert!(entry.is_complete() && entry.files[4].packets == Some(1));
    // It closes by itself, with more packets.
    fs::write(&last, &whole).unwrap();
    fixture.save(DeployState::Closed, &gateway.url);
    fixture.runner.deploys.discard_captures(&fixture.deploy, &entry).await.unwrap();
    assert!(last.exists());
    let rescued = fixture.rescue().await;
    assert_eq!((rescued.stored, rescued.captures.unwrap().files[4].packets), (1, Some(7)));
    assert_eq!(fixture.stored().await, [1, 2, 3, 4, 5]);
    assert!(!last.exists());
}

#[tokio::test]
async fn row_72_a_gateway_that_fails_within_a_file_leaves_those_before_it_and_the_folder_completes_it() {
    for (behaviour, said) in [
        (Behaviour::Die, "the download of capture `shop.2.pcap` ended after"),
        (Behaviour::Refuse, "shop.2.pcap: the gateway at"),
        (Behaviour::Short, "shop.2.pcap"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let fixture = Fixture::new(folder.path(), 68).await;
        let gateway = FakeGateway::new(&fixture.dir).await;
        gateway.at("shop.2.pcap", behaviour);
        fixture.save(DeployState::Ready, &gateway.url);
        let rescued = fixture.rescue().await;
        let reason = rescued.reason.unwrap();
        assert!(rescued.stored == 1 && reason.contains(said), "{behaviour:?}: {reason}");
        assert_eq!(fixture.stored().await, [1], "{behaviour:?}");
        let entry = rescued.captures.unwrap();
        assert_eq!(entry.status, CollectionStatus::Partial);
        assert_eq!(entry.not_stored.len(), 4);
        let universe = fixture.store.get_universe(&entry.universe_id).await.unwrap();
        assert_eq!(universe.document["reason"].as_str(), Some(reason.as_str()));
        // Gone for good: what is on disk is read.
        drop(gateway);
        let unreachable = fixture.rescue().await;
        assert!(unreachable.reason.unwrap().contains("cannot be listed"), "{behaviour:?}");
        fixture.save(DeployState::Failed, "http://127.0.0.1:1");
        assert_eq!(fixture.rescue().await.stored, 4, "{behaviour:?}");
        assert_eq!(fixture.stored().await, [1, 2, 3, 4, 5], "{behaviour:?}");
    }
}

#[tokio::test]
async fn row_73_a_download_that_stands_still_is_cut_and_what_is_there_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(folder.path(), 68).await;
    let gateway = FakeGateway::new(&fixture.dir).await;
    gateway.at("shop.3.pcap", Behaviour::Stall);
    fixture.save(DeployState::Ready, &gateway.url);
    let source = open_captures(&fixture.home, &fixture.deploy).unwrap();
    let log = StoreLog::new(fixture.store.clone());
    let ledger = &mut DeployLedger { deploy: fixture.deploy.clone(), entry: None };
    let collection = Collection { source: &*source, universes: &log, ledger };
    let stalled = async {
        gateway.stalled.notified().await;
        "it was not done within 1 s".to_owned()
    };
    let collected = collection.run(stalled).await;
    assert_eq!(collected.reason.as_deref(), Some("it was not done within 1 s"));
    assert!(collected.kept);
    assert_eq!(fixture.stored().await, [1, 2]);
    let document = log.universe(&collected.entry.unwrap().universe_id).await.unwrap().unwrap().document;
    assert_eq!((&document["status"], document["not_stored"].as_array().unwrap().len()), (&"partial".into(), 3));
}

#[tokio::test]
async fn row_80_a_file_that_is_rotated_away_meanwhile_is_named_and_the_others_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(folder.path(), 68).await;
    let gateway = FakeGateway::new(&fixture.dir).await;
    gateway.at("shop.1.pcap", Behaviour::Gone);
    fixture.save(DeployState::Ready, &gateway.url);
    let rescued = fixture.rescue().await;
    assert_eq!(rescued.reason.as_deref(), Some("shop.1.pcap was removed before it was stored"));
    assert_eq!(fixture.stored().await, [2, 3, 4, 5]);
    assert_eq!(rescued.captures.unwrap().rotated_away[0].to_string(), "shop.1.pcap");
}

/// Set where this test runs itself again, on a disk of three megabytes.
const SMALL_DISK: &str = "AGENTENV_TEST_SMALL_DISK";

#[test]
fn row_70_a_full_disk_leaves_what_was_stored_in_reach_and_room_lets_it_go_on() {
    let name = "traffic::tests::row_70_a_full_disk_leaves_what_was_stored_in_reach_and_room_lets_it_go_on";
    if let Some(disk) = std::env::var_os(SMALL_DISK) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(on_a_full_disk(Path::new(&disk)));
    }
    let disk = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=12m,mode=0700 none \"$1\" && shift && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(disk.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(SMALL_DISK, disk.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{complained}");
}

async fn on_a_full_disk(disk: &Path) {
    // Five files of half a megabyte, and room for two or three more.
    let fixture = Fixture::new(disk, 25_000).await;
    let filler = disk.join("filler");
    let used: u64 = PACKETS.iter().map(|packets| (24 + packets * 25_016) as u64).sum();
    fs::write(&filler, vec![0; 12 * 1024 * 1024 - used as usize - 2_000_000]).unwrap();
    let rescued = fixture.rescue().await;
    let reason = rescued.reason.unwrap();
    assert!(reason.contains("no space is left for") || reason.contains("No space left"), "{reason}");
    let kept = fixture.stored().await;
    assert!(!kept.is_empty() && kept.len() < 5, "{kept:?}");
    assert_eq!(rescued.captures.unwrap().status, CollectionStatus::Partial);
    assert!(fixture.dir.captures().join("shop/0000000001.pcap").exists(), "nothing is removed before all is stored");
    fs::remove_file(filler).unwrap();
    let rescued = fixture.rescue().await;
    assert_eq!((rescued.stored, rescued.reason), (5 - kept.len(), None));
    assert_eq!(fixture.stored().await, [1, 2, 3, 4, 5]);
    assert!(!fixture.dir.captures().join("shop").exists());
}
