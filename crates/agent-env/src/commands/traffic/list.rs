//! `traffic list`

use agentenv_protocol::{Home, TrafficRing, control::ControlError};
use agentenv_task::{TrafficCaptures, capture_gaps};
use clap::Args;
use serde_json::{Value, json};

use super::captures::{Captures, Found, note_unreachable};
use crate::output::{Output, columns, word};

/// Arguments of `traffic list`.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// A deploy's id or name; it may be closed
    deploy: String,
}

/// `traffic list`
pub(super) async fn list(home: &Home, output: Output, args: &ListArgs) -> Result<(), ControlError> {
    let captures = Captures::open(home, &args.deploy).await?;
    note_unreachable(output, &captures);
    output.result(&document(&captures), || table(&captures.files, &captures.rings, captures.collected.as_ref()))
}

/// As a gateway lists it, and beside it where each file is and what was collected.
fn document(captures: &Captures) -> Value {
    let collected = captures.collected.as_ref();
    json!({
        "deploy": captures.deploy,
        "run": captures.run.as_ref().map(|run| &run.run),
        "captures": captures.files,
        "rings": captures.rings,
        "universe_id": collected.map(|collected| &collected.universe_id),
        "status": collected.map(|collected| collected.status),
        "reason": collected.and_then(|collected| collected.reason.as_ref()),
        "rotated_away": collected.map(|collected| collected.rotated_away.as_slice()).unwrap_or_default(),
    })
}

fn table(files: &[Found], rings: &[TrafficRing], collected: Option<&TrafficCaptures>) -> String {
    let mut lines = Vec::new();
    if files.is_empty() {
        lines.push("no file is there".to_owned());
    } else {
        let head = ["ID", "BYTES", "PACKETS", "FIRST PACKET", "LAST PACKET", "STATE", "DROPPED", "IN"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(files.iter().map(row));
        lines.push(columns(&rows));
    }
    lines.extend(capture_gaps(rings).into_iter().map(|gap| format!("gap: {gap}")));
    if let Some(collected) = collected {
        let status = if collected.is_complete() { "all of it is stored" } else { "not all of it is stored" };
        let reason = collected.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        lines.push(format!("{status}, in artifact universe {}{reason}", collected.universe_id));
    }
    lines.join("\n")
}

fn row(found: &Found) -> Vec<String> {
    let capture = &found.capture;
    let time = |time: &Option<String>| time.clone().unwrap_or_else(|| "-".to_owned());
    vec![
        capture.id.to_string(),
        capture.bytes.to_string(),
        capture.packets.to_string(),
        time(&capture.first_packet),
        time(&capture.last_packet),
        word(&capture.state),
        capture.dropped.to_string(),
        word(&found.place),
    ]
}

#[cfg(test)]
mod tests {
    use agentenv_protocol::{CaptureGap, CaptureState};

    use super::*;
    use crate::commands::traffic::captures::Place;

    fn found(generation: u64, state: CaptureState, place: Place) -> Found {
        let capture = serde_json::from_value(json!({
            "id": format!("shop.{generation}.pcap"), "website": "shop", "services": ["server"], "generation": generation,
            "bytes": 20_000_000, "packets": 17, "first_packet": "2026-11-29T15:00:00.000001Z", "last_packet": null,
            "state": state, "dropped": 0,
        }));
        Found { capture: capture.expect("a capture"), place, artifact: None }
    }

    fn ring(gaps: &[CaptureGap]) -> TrafficRing {
        let ring = json!({
            "website": "shop", "services": [], "gateway_address": "127.0.0.2", "recording": true, "files": 10,
            "file_bytes": 1, "dropped": 0, "gaps": gaps,
        });
        serde_json::from_value(ring).expect("a ring")
    }

    #[test]
    fn a_file_is_listed_as_a_gateway_lists_it_with_its_place_and_artifact_behind() {
        let file = found(1, CaptureState::Damaged, Place::Disk);
        insta::assert_snapshot!(serde_json::to_string(&file).expect("a file"), @r#"{"id":"shop.1.pcap","website":"shop","services":["server"],"generation":1,"bytes":20000000,"packets":17,"first_packet":"2026-11-29T15:00:00.000001Z","last_packet":null,"state":"damaged","dropped":0,"place":"disk","artifact":null}"#);
    }

    #[test]
    fn files_gaps_and_what_was_collected() {
        let files = [found(1, CaptureState::Complete, Place::Store), found(10, CaptureState::Growing, Place::Gateway)];
        let gap = CaptureGap { from: "1".to_owned(), to: None, reason: "it hung".to_owned(), next_generation: None };
        let collected = serde_json::from_value(json!({
            "env_id": "d-000000000000", "universe_id": "u-000000000000", "status": "partial",
            "reason": "shop.2.pcap: the disk is full", "files": [],
        }));
        let collected: TrafficCaptures = collected.expect("an entry");
        insta::assert_snapshot!(table(&files, &[ring(&[gap])], Some(&collected)), @r"
        ID            BYTES     PACKETS  FIRST PACKET                 LAST PACKET  STATE     DROPPED  IN
        shop.1.pcap   20000000  17       2026-11-29T15:00:00.000001Z  -            complete  0        store
        shop.10.pcap  20000000  17       2026-11-29T15:00:00.000001Z  -            growing   0        gateway
        gap: the traffic of shop was not recorded from 1 on: it hung
        not all of it is stored, in artifact universe u-000000000000: shop.2.pcap: the disk is full
        ");
        insta::assert_snapshot!(table(&[], &[ring(&[])], None), @"no file is there");
    }
}
