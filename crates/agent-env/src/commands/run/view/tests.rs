use agentenv_task::RunRecord;
use serde_json::json;

use super::*;

fn record() -> RunRecord {
    let step = |kind: &str, state: &str, outcome: Option<&str>| {
        let began = (state == "done" || state == "running").then_some("2026-11-29T15:00:01Z");
        let ended = (state == "done").then_some("2026-11-29T15:00:03.5Z");
        json!({
            "name": null, "kind": kind, "state": state, "timeout_s": 60.0, "started_at": began, "ended_at": ended,
            "duration_ms": ended.map(|_| 2500), "outcome": outcome,
            "summary": (outcome == Some("passed")).then_some("d-000000000000 is ready after 412 ms"),
        })
    };
    let mut failed = step("check", "done", Some("failed"));
    failed["name"] = json!("ada bought it");
    failed["message"] = json!("shop /orders: nothing is there");
    failed["log"] = json!(["last words"]);
    failed["warnings"] = json!(["`link` is left out: it is a symbolic link"]);
    let artifact = json!({
        "id": "a-000000000000", "name": "step-2-stdout.log", "media_type": "text/plain", "size": 1234, "sha256": "",
        "step": 1,
    });
    let deploy = json!({
        "deploy": "d-000000000000", "env": "office", "step": 0, "state": "closed", "provider": "sandbox", "live": false,
        "versions": [["office", 1]], "info": null,
    });
    serde_json::from_value(json!({
        "format": 1, "run": "r-000000000000", "task": "buy", "file": "/tasks/buy.toml", "goal": "g", "state": "done",
        "outcome": "failed", "reason": "step 2 ada bought it: shop /orders: nothing is there", "interrupted": null,
        "created_at": "2026-11-29T15:00:00Z", "ended_at": "2026-11-29T15:01:05Z",
        "runner": { "pid": 1, "version": "0.1.0" },
        "steps": [step("deploy_env", "done", Some("passed")), failed, step("close_env", "skipped", None)],
        "deploys": [deploy], "teardown": null, "context": { "metadata": {} }, "artifacts": [artifact],
        "warnings": ["something is odd"],
    }))
    .expect("a record")
}

#[test]
fn a_finished_run() {
    insta::assert_snapshot!(show(&Home::at("/home"), &record(), false), @r#"
    run      r-000000000000
    task     buy  /tasks/buy.toml
    state    done
    outcome  failed
    reason   step 2 ada bought it: shop /orders: nothing is there
    began    2026-11-29 15:00:00 UTC
    took     1 min 5 s
    folder   /home/runs/r-000000000000

    #  STEP           KIND        STATE    TOOK   OUTCOME  WHAT
    1  -              deploy_env  done     2.5 s  passed   d-000000000000 is ready after 412 ms
    2  ada bought it  check       done     2.5 s  failed
    3  -              close_env   skipped  -      -

    step 2 ada bought it
      shop /orders: nothing is there
      | last words
      warning: `link` is left out: it is a symbolic link

    deploys
      d-000000000000  office  sandbox  closed

    artifacts
      a-000000000000  step-2-stdout.log  text/plain  1.2 kB

    warnings
      something is odd
    "#);
}

#[test]
fn captured_traffic_and_its_gaps_are_shown() {
    let mut record = record();
    record.deploys[0].degraded.push("the traffic of shop was not recorded from 1 to 2: it hung".to_owned());
    let file = json!({
        "id": "shop.1.pcap", "artifact": "a-000000000001", "name": "traffic/shop/0000000001.pcap", "website": "shop",
        "generation": 1, "bytes": 2_500_000, "sha256": "", "packets": 9, "first_packet": null, "last_packet": null, "state": "complete",
    });
    let entry = json!({ "d-000000000000": {
        "env_id": "d-000000000000", "universe_id": "u-000000000000", "status": "partial",
        "reason": "shop.2.pcap: the disk is full", "files": [file],
    } });
    record.context.metadata.insert("traffic_captures".to_owned(), entry);
    let shown = show(&Home::at("/home"), &record, false);
    let parts: Vec<&str> =
        shown.split("\n\n").filter(|part| part.starts_with("deploys") || part.starts_with("traffic")).collect();
    insta::assert_snapshot!(parts.join("\n\n"), @r"
    deploys
      d-000000000000  office  sandbox  closed    the traffic of shop was not recorded from 1 to 2: it hung

    traffic
      d-000000000000  u-000000000000  partial  1 file, 2.5 MB  shop.2.pcap: the disk is full
    ");
}

#[test]
fn an_interrupted_run_says_so() {
    let mut record = record();
    record.state = RunState::Running;
    (record.outcome, record.reason, record.ended_at) = (None, None, None);
    record.steps[1].state = StepState::Running;
    record.steps[1].outcome = None;
    record.artifacts.clear();
    record.warnings.clear();
    record.deploys.clear();
    insta::assert_snapshot!(show(&Home::at("/home"), &record, false), @r#"
    run     r-000000000000
    task    buy  /tasks/buy.toml
    state   interrupted
    step    2/3 ada bought it
    began   2026-11-29 15:00:00 UTC
    folder  /home/runs/r-000000000000
    hint    `agent-env run resume r-000000000000` closes what it left

    #  STEP           KIND        STATE    TOOK   OUTCOME  WHAT
    1  -              deploy_env  done     2.5 s  passed   d-000000000000 is ready after 412 ms
    2  ada bought it  check       running  2.5 s  -
    3  -              close_env   skipped  -      -

    step 2 ada bought it
      shop /orders: nothing is there
      | last words
      warning: `link` is left out: it is a symbolic link
    "#);
    insta::assert_snapshot!(list(&[Entry::of(&record, false), Entry::of(&record, true)]), @r#"
    RUN             TASK  STATE        OUTCOME  STEPS  BEGAN                    TOOK
    r-000000000000  buy   interrupted  -        1/3    2026-11-29 15:00:00 UTC  -
    r-000000000000  buy   running      -        1/3    2026-11-29 15:00:00 UTC  -
    "#);
}
