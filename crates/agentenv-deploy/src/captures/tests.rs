use std::os::unix::fs::symlink;

use agentenv_protocol::{CaptureGap, CaptureState, DeployId, control::DeployState};
use tempfile::TempDir;

use super::*;
use crate::RecordedCaptures;

/// A deploy that is over, with these packets in the files of `shop`, from generation 3 on.
fn deploy(files: &[usize]) -> (TempDir, DeployDir) {
    let folder = tempfile::tempdir().unwrap();
    let dir = DeployDir::new(folder.path());
    let mut record = DeployRecord::new(DeployId::random(), None, name("shop"), Vec::new(), false);
    record.captures =
        Some(RecordedCaptures { files: 10, file_bytes: 20_000_000, unstored: vec![name("shop"), name("tracker")] });
    record.state = DeployState::Closed;
    dir.save(&record).unwrap();
    let ring = dir.captures().join("shop");
    fs::create_dir_all(&ring).unwrap();
    for (index, packets) in files.iter().enumerate() {
        fs::write(ring.join(format!("{:010}.pcap", index + 3)), pcap(*packets)).unwrap();
    }
    (folder, dir)
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// A file of packets of 4 bytes, a second apart.
fn pcap(packets: usize) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut bytes = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, 1]);
    for second in 0..u32::try_from(packets).unwrap() {
        bytes.extend(words(&[1_700_000_000 + second, 5, 4, 4, 0xffff_ffff]));
    }
    bytes
}

fn about() -> TrafficRing {
    TrafficRing {
        website: name("shop"),
        services: Vec::new(),
        gateway_address: crate::sandbox_net::GATEWAY,
        recording: true,
        files: 7,
        file_bytes: 1_000_000,
        dropped: 5,
        gaps: vec![CaptureGap { from: "a".to_owned(), to: None, reason: "b".to_owned(), next_generation: None }],
    }
}

#[test]
fn a_closed_deploy_lists_what_it_still_has() {
    let (_folder, dir) = deploy(&[2, 0]);
    write_about(&dir.captures().join("shop"), &about()).unwrap();
    let listing = listing(&dir).unwrap();
    let ids: Vec<String> = listing.captures.iter().map(|capture| capture.id.to_string()).collect();
    assert_eq!(ids, ["shop.3.pcap", "shop.4.pcap"]);
    let first = &listing.captures[0];
    assert_eq!((first.bytes, first.packets, first.state), (24 + 2 * 20, 2, CaptureState::Complete));
    assert_eq!(first.first_packet.as_deref(), Some("2023-11-14T22:13:20.000005Z"));
    assert_eq!(first.last_packet.as_deref(), Some("2023-11-14T22:13:21.000005Z"));
    assert_eq!(listing.captures[1].first_packet, None, "a header alone is a valid file");
    let ring = &listing.rings[0];
    assert_eq!((ring.files, ring.dropped, ring.gaps.len()), (7, 5, 1), "as its supervisor said");
    assert!(!ring.recording, "nobody records any more");
}

#[test]
fn row_81_what_the_supervisor_said_may_be_torn_at_every_byte() {
    let (_folder, dir) = deploy(&[1]);
    let path = dir.captures().join("shop").join(ABOUT);
    write_about(&dir.captures().join("shop"), &about()).unwrap();
    let whole = fs::read(&path).unwrap();
    for end in 0..whole.len() {
        fs::write(&path, &whole[..end]).unwrap();
        let listing = listing(&dir).unwrap();
        assert_eq!(listing.captures.len(), 1, "cut at {end}");
        assert_eq!((listing.rings[0].files, listing.rings[0].file_bytes), (10, 20_000_000), "as the record says");
    }
}

#[test]
fn row_55_links_and_what_else_lies_about_are_not_followed() {
    let (_folder, dir) = deploy(&[1]);
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("0000000001.pcap"), pcap(9)).unwrap();
    symlink(other.path(), dir.captures().join("tracker")).unwrap();
    symlink(other.path().join("0000000001.pcap"), dir.captures().join("shop/0000000009.pcap")).unwrap();
    symlink("/dev/zero", dir.captures().join("shop").join(ABOUT)).unwrap();
    fs::create_dir(dir.captures().join("..not a name")).unwrap();
    let listing = listing(&dir).unwrap();
    assert_eq!(listing.rings.len(), 1, "{listing:?}");
    assert_eq!(listing.captures.iter().map(|capture| capture.packets).sum::<u64>(), 1, "{listing:?}");
    let id = CaptureId::parse("shop.9.pcap").unwrap();
    assert!(matches!(open(&dir, &id), Err(OpenCaptureError::Io(_))));
    discard(&dir, None).unwrap();
    assert!(other.path().join("0000000001.pcap").exists(), "nothing outside is removed");
}

#[test]
fn a_file_is_listed_to_its_last_whole_record_and_opened() {
    let (_folder, dir) = deploy(&[2]);
    let path = dir.captures().join("shop/0000000003.pcap");
    fs::write(&path, &pcap(2)[..24 + 20 + 7]).unwrap();
    let open_id = |id: &str| open(&dir, &CaptureId::parse(id).unwrap());
    let listed = listing(&dir).unwrap().captures.remove(0);
    assert_eq!((listed.bytes, listed.state), (24 + 20, CaptureState::Damaged));
    assert_eq!(open_id("shop.3.pcap").unwrap().metadata().unwrap().len(), 24 + 20 + 7);
    assert!(matches!(open_id("shop.4.pcap"), Err(OpenCaptureError::Unknown)));
    assert!(open_id("tracker.1.pcap").is_err());
}

#[test]
fn what_is_discarded_is_named_no_more_and_twice_is_harmless() {
    let (_folder, dir) = deploy(&[1]);
    let unstored = || dir.load().unwrap().captures.unwrap().unstored;
    discard(&dir, Some(&name("tracker"))).unwrap();
    assert_eq!(unstored(), [name("shop")]);
    assert!(any(&dir.captures()));
    for _ in 0..2 {
        discard(&dir, None).unwrap();
        assert!(unstored().is_empty());
        assert!(!any(&dir.captures()));
        assert_eq!(listing(&dir).unwrap(), TrafficCaptureListing::default());
    }
    let mut record = dir.load().unwrap();
    record.state = DeployState::Degraded;
    dir.save(&record).unwrap();
    assert!(matches!(discard(&dir, None), Err(DiscardError::Running)));
}
