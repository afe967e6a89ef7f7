use agentenv_protocol::Name;

use super::*;

/// Artifact, generation, bytes.
type Rows = &'static [(&'static str, u64, u64)];
/// Generation, bytes.
type Listed = &'static [(u64, u64)];
type Ids = &'static [&'static str];

fn id(generation: u64) -> CaptureId {
    CaptureId { website: Name::parse("shop").unwrap(), generation }
}

fn capture(generation: u64, bytes: u64) -> TrafficCapture {
    StoredCapture::of(id(generation), &artifact("", generation, bytes)).capture()
}

fn artifact(artifact: &str, generation: u64, size: u64) -> ArtifactRecord {
    ArtifactRecord {
        id: artifact.to_owned(),
        name: artifact_name(&id(generation)),
        media_type: String::new(),
        size,
        sha256: String::new(),
        step: 0,
        sensitive: true,
        universe: None,
    }
}

fn listing(captures: &[(u64, u64)]) -> TrafficCaptureListing {
    let captures = captures.iter().map(|(generation, bytes)| capture(*generation, *bytes)).collect();
    TrafficCaptureListing { captures, rings: Vec::new() }
}

fn entry(files: &[(&str, u64, u64)]) -> TrafficCaptures {
    let mut entry = TrafficCaptures::new(DeployId::random());
    for (name, generation, bytes) in files {
        entry.add(&capture(*generation, *bytes), &artifact(name, *generation, *bytes));
    }
    entry
}

fn ids(entry: &TrafficCaptures) -> Vec<&str> {
    entry.files.iter().map(|file| file.artifact.as_str()).collect()
}

#[test]
fn an_artifacts_name_means_one_capture() {
    assert_eq!(artifact_name(&id(3)), "traffic/shop/0000000003.pcap");
    assert_eq!(capture_id("traffic/shop/0000000003.pcap"), Some(id(3)));
    assert_eq!(capture_id("traffic/shop/12345678901.pcap"), Some(id(12_345_678_901)));
    for other in
        ["traffic/shop/3.pcap", "traffic/0000000003.pcap", "shop/0000000003.pcap", "traffic/SHOP/0000000003.pcap", ""]
    {
        assert_eq!(capture_id(other), None, "{other}");
    }
}

#[test]
fn what_is_to_be_stored_by_table() {
    // Stored, listed, to be stored.
    let table: [(Rows, Listed, &'static [u64]); 6] = [
        (&[], &[(1, 100), (2, 50)], &[1, 2]),
        (&[("a", 1, 100)], &[(1, 100), (2, 50)], &[2]),
        (&[("a", 1, 100), ("b", 2, 50)], &[(1, 100), (2, 50)], &[]),
        (&[("a", 1, 100), ("b", 2, 50)], &[(2, 60), (3, 24)], &[2, 3]),
        // A ring whose end was lost in a crash is shorter than what is stored.
        (&[("a", 1, 100)], &[(1, 90)], &[]),
        // No header, nothing to store.
        (&[], &[(1, 23), (2, 24)], &[2]),
    ];
    for (stored, listed, expected) in table {
        let mut entry = entry(stored);
        let missing: Vec<u64> = entry.look(&listing(listed)).iter().map(|capture| capture.generation).collect();
        assert_eq!(missing, expected, "{stored:?} {listed:?}");
        assert!(entry.rotated_away.is_empty());
    }
}

#[test]
fn what_was_to_be_stored_and_is_gone_is_lost() {
    let mut entry = entry(&[("b", 2, 50)]);
    entry.look(&listing(&[(1, 100), (2, 60), (3, 30)]));
    assert_eq!(entry.not_stored.iter().map(|left| left.id.generation).collect::<Vec<_>>(), [1, 2, 3]);
    entry.look(&listing(&[(3, 100), (4, 30)]));
    // 2 is stored as far as it was when it was stored.
    assert_eq!(entry.rotated_away, [id(1)]);
    assert_eq!(entry.loss().as_deref(), Some("shop.1.pcap was removed before it was stored"));
    entry.look(&listing(&[(3, 100), (4, 30)]));
    assert_eq!(entry.rotated_away, [id(1)], "once");
}

#[test]
fn of_each_capture_the_longest_artifact_counts() {
    // On record, in the universe, then on record, superseded, new.
    let table: [(Rows, Rows, Ids, Ids, Ids); 7] = [
        (&[], &[], &[], &[], &[]),
        (&[("a", 1, 9)], &[("a", 1, 9), ("b", 2, 9)], &["a", "b"], &[], &["b"]),
        (&[("a", 1, 9)], &[("a", 1, 9)], &["a"], &[], &[]),
        (&[("a", 1, 9)], &[("a", 1, 9), ("b", 1, 10)], &["b"], &["a"], &["b"]),
        (&[("b", 1, 10)], &[("a", 1, 9), ("b", 1, 10)], &["b"], &["a"], &[]),
        // Equal ones: the one on record, else the last.
        (&[("a", 1, 9)], &[("a", 1, 9), ("b", 1, 9), ("c", 1, 9)], &["a"], &["b", "c"], &[]),
        (&[], &[("b", 2, 9), ("a", 1, 9), ("c", 1, 8)], &["a", "b"], &["c"], &["a", "b"]),
    ];
    for (known, universe, files, superseded, new) in table {
        let what = format!("{known:?} {universe:?}");
        let mut entry = entry(known);
        let universe: Vec<_> = universe.iter().map(|(id, generation, size)| artifact(id, *generation, *size)).collect();
        let found = entry.reconcile(&universe);
        assert_eq!(ids(&entry), files, "{what}");
        assert_eq!(found.superseded, superseded, "{what}");
        assert_eq!(found.new.iter().map(|artifact| artifact.id.as_str()).collect::<Vec<_>>(), new, "{what}");
        let rest: Vec<_> = universe.into_iter().filter(|artifact| !found.superseded.contains(&artifact.id)).collect();
        assert_eq!(entry.reconcile(&rest), Reconciled::default(), "{what}: it is settled");
    }
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let mut entry = entry(&[("a", 1, 9)]);
    entry.look(&listing(&[(1, 9), (2, 100)]));
    let json = serde_json::to_value(&entry).unwrap();
    assert_eq!(json["files"][0]["id"], "shop.1.pcap");
    assert_eq!(json["not_stored"][0]["id"], "shop.2.pcap");
    assert_eq!(serde_json::from_value::<TrafficCaptures>(json).unwrap(), entry);
}
