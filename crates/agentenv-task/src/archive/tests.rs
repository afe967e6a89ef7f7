use std::path::Path;

use jiff::Timestamp;
use tar::{EntryType, Header};

use super::*;
use crate::parse_task;

const ID: &str = "a-0123456789ab";

fn record(artifacts: &[(&str, &[u8])]) -> RunRecord {
    let text = "format = 1\nname = \"t\"\ngoal = \"g\"\n[[step]]\nkind = \"deploy_env\"\nenv = \"a\"\n";
    let none = |_: &str| Err(io::ErrorKind::NotFound.into());
    let task = parse_task(Path::new("task.toml"), Path::new("/"), text, &none).unwrap();
    let mut record = RunRecord::new(RunId::random(), &task, Timestamp::now());
    record.state = RunState::Done;
    record.artifacts = artifacts
        .iter()
        .map(|(id, bytes)| ArtifactRecord {
            id: (*id).to_owned(),
            name: "../../name".to_owned(),
            media_type: "text/plain".to_owned(),
            size: bytes.len() as u64,
            sha256: hex::encode(Sha256::digest(bytes)),
            step: 0,
            sensitive: false,
            universe: None,
        })
        .collect();
    record
}

/// Writes a tar of these entries, names as they are, and unpacks it.
fn unpacked(entries: &[(&str, EntryType, &[u8])]) -> Result<(), String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut tar = tar::Builder::new(file.as_file());
    for (name, kind, bytes) in entries {
        let mut header = Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(bytes.len() as u64);
        if matches!(kind, EntryType::Symlink | EntryType::Link) {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        tar.append(&header, *bytes).unwrap();
    }
    tar.into_inner().unwrap();
    match unpack(file.path()) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string().split(": ").skip(1).collect::<Vec<_>>().join(": ")),
    }
}

#[test]
fn row_57_a_hostile_file_is_refused_and_nothing_of_it_lands_outside() {
    let good = serde_json::to_vec(&record(&[(ID, b"one")])).unwrap();
    let artifact = format!("artifacts/{ID}");
    let first = (RECORD_NAME, EntryType::Regular, good.as_slice());
    let body = (artifact.as_str(), EntryType::Regular, b"one".as_slice());
    assert_eq!(unpacked(&[first, body]), Ok(()));
    let outside = std::env::temp_dir().join("agentenv-row-57");
    let absolute = outside.display().to_string();
    for (entries, reason) in [
        (vec![], "it is empty"),
        (vec![body, first], "it does not begin with run.json"),
        (vec![(RECORD_NAME, EntryType::Symlink, b"".as_slice())], "it does not begin with run.json"),
        (vec![first], "artifact a-0123456789ab is missing"),
        (vec![first, body, body], "`artifacts/a-0123456789ab` does not belong in it"),
        (vec![first, (artifact.as_str(), EntryType::Symlink, b"")], "`artifacts/a-0123456789ab` does not belong in it"),
        (vec![first, (artifact.as_str(), EntryType::Link, b"")], "`artifacts/a-0123456789ab` does not belong in it"),
        (vec![first, (artifact.as_str(), EntryType::Fifo, b"")], "`artifacts/a-0123456789ab` does not belong in it"),
        (vec![first, ("artifacts/../x", EntryType::Regular, b"one")], "`artifacts/../x` does not belong in it"),
        (vec![first, (absolute.as_str(), EntryType::Regular, b"one")], "`/tmp/agentenv-row-57` does not belong in it"),
        (
            vec![first, (artifact.as_str(), EntryType::Regular, b"two")],
            "the bytes of artifact a-0123456789ab are not those of the record",
        ),
        (
            vec![first, (artifact.as_str(), EntryType::Regular, b"one and more")],
            "the bytes of artifact a-0123456789ab are not those of the record",
        ),
        (vec![(RECORD_NAME, EntryType::Regular, b"{}")], "run.json: missing field `format`"),
    ] {
        let refused = unpacked(&entries).expect_err(reason);
        assert!(refused.starts_with(reason), "{refused} is not {reason}");
    }
    assert!(!outside.exists());
    let path = serde_json::to_vec(&record(&[("../../etc/x", b"one")])).unwrap();
    let refused = unpacked(&[(RECORD_NAME, EntryType::Regular, &path)]).unwrap_err();
    assert_eq!(refused, "`../../etc/x` is not an artifact's id");
    let mut going = record(&[]);
    going.state = RunState::Running;
    let going = serde_json::to_vec(&going).unwrap();
    assert_eq!(unpacked(&[(RECORD_NAME, EntryType::Regular, &going)]), Err("the run was not over".to_owned()));
}

#[test]
fn row_81_a_file_torn_anywhere_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut tar = tar::Builder::new(file.as_file());
    let good = serde_json::to_vec(&record(&[(ID, b"one")])).unwrap();
    append(&mut tar, RECORD_NAME, good.len() as u64, good.as_slice()).unwrap();
    append(&mut tar, &format!("artifacts/{ID}"), 3, b"one".as_slice()).unwrap();
    tar.into_inner().unwrap();
    let whole = fs::read(file.path()).unwrap();
    // The end of a tar is padding: what is cut there takes nothing away.
    let content = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for end in (0..content).step_by(7) {
        fs::write(file.path(), &whole[..end]).unwrap();
        assert!(unpack(file.path()).is_err(), "cut at {end} of {content}");
    }
}
