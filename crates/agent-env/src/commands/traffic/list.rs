//! `traffic list`

use agentenv_protocol::{CaptureState, Home, control::ControlError};
use clap::Args;
use serde_json::{Value, json};

use super::captures::{Captures, Found, note_unreachable};
use crate::output::{Output, columns};

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
    output.result(&document(&captures)?, || table(&captures))
}

/// As a gateway lists it, and beside it where each file is and what was collected.
fn document(captures: &Captures) -> Result<Value, ControlError> {
    let files: Result<Vec<Value>, serde_json::Error> = captures.files.iter().map(file).collect();
    let files = files
        .map_err(|error| ControlError::infrastructure(format!("the result cannot be written as JSON: {error}")))?;
    let collected = captures.collected.as_ref();
    Ok(json!({
        "deploy": captures.deploy,
        "run": captures.run.as_ref().map(|run| &run.run),
        "captures": files,
        "rings": captures.rings,
        "universe_id": collected.map(|collected| &collected.universe_id),
        "status": collected.map(|collected| collected.status),
        "reason": collected.and_then(|collected| collected.reason.as_ref()),
        "rotated_away": collected.map(|collected| collected.rotated_away.as_slice()).unwrap_or_default(),
    }))
}

fn file(found: &Found) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(&found.capture)?;
    value["place"] = serde_json::to_value(found.place)?;
    value["artifact"] = serde_json::to_value(&found.artifact)?;
    Ok(value)
}

fn table(captures: &Captures) -> String {
    let mut lines = Vec::new();
    if captures.files.is_empty() {
        lines.push("no file is there".to_owned());
    } else {
        let head = ["ID", "BYTES", "PACKETS", "FIRST PACKET", "LAST PACKET", "STATE", "DROPPED", "IN"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(captures.files.iter().map(row));
        lines.push(columns(&rows));
    }
    for ring in &captures.rings {
        for gap in &ring.gaps {
            let to = gap.to.as_ref().map_or_else(|| " on".to_owned(), |to| format!(" to {to}"));
            lines.push(format!("gap: {} was not recorded from {}{to}: {}", ring.website, gap.from, gap.reason));
        }
    }
    if let Some(collected) = &captures.collected {
        let status = if collected.is_complete() { "all of it is stored" } else { "not all of it is stored" };
        let reason = collected.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        lines.push(format!("{status}, in artifact universe {}{reason}", collected.universe_id));
    }
    lines.join("\n")
}

fn row(found: &Found) -> Vec<String> {
    let capture = &found.capture;
    let state = match capture.state {
        CaptureState::Complete => "complete",
        CaptureState::Growing => "growing",
        CaptureState::Damaged => "damaged",
    };
    let time = |time: &Option<String>| time.clone().unwrap_or_else(|| "-".to_owned());
    vec![
        capture.id.to_string(),
        capture.bytes.to_string(),
        capture.packets.to_string(),
        time(&capture.first_packet),
        time(&capture.last_packet),
        state.to_owned(),
        capture.dropped.to_string(),
        found.place.as_str().to_owned(),
    ]
}
