use std::{collections::BTreeMap, sync::Mutex};

use super::*;
use crate::stop::stop;

struct Heard {
    finished: Finished,
    lines: Vec<String>,
    took: Duration,
    run: RunId,
    folder: tempfile::TempDir,
}

async fn sh(script: &str, limit: Duration) -> Heard {
    let folder = tempfile::tempdir().unwrap();
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    let program = Program { command, env: BTreeMap::new() };
    let run = RunId::random();
    let begun = Instant::now();
    let job = Job {
        run: &run,
        program: &program,
        folder: folder.path(),
        variables: Vec::new(),
        logs: folder.path().join("logs"),
        deadline: begun + limit,
        masked: vec!["t0ken".to_owned()],
    };
    let lines = Mutex::new(Vec::new());
    let (_sender, stop) = stop();
    let finished = super::run(job, &stop, &|_, line| lines.lock().unwrap().push(line)).await.unwrap();
    Heard { finished, lines: lines.into_inner().unwrap(), took: begun.elapsed(), run: run.clone(), folder }
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn output_is_heard_and_kept() {
    let heard = sh("echo one; echo two >&2; printf three", LONG).await;
    assert!(matches!(heard.finished.ended, Ended::Exited(status) if status.success()));
    let mut lines = heard.lines.clone();
    lines.sort();
    assert_eq!(lines, ["one", "three", "two"]);
    assert_eq!(std::fs::read_to_string(heard.folder.path().join("logs/stdout.log")).unwrap(), "one\nthree");
    assert_eq!(heard.finished.tail, ["two"]);
}

#[tokio::test]
async fn row_58_a_token_that_a_program_prints_is_masked() {
    let heard = sh("echo agent/t0ken/browser; echo t0ken t0ken >&2", LONG).await;
    let mut lines = heard.lines.clone();
    lines.sort();
    assert_eq!(lines, ["*** ***", "agent/***/browser"]);
    assert_eq!(heard.finished.tail, ["*** ***"]);
}

#[tokio::test]
async fn row_77_children_that_outlive_the_program_are_ended_with_it() {
    // One in the group, one in a session of its own, each holding the pipes.
    let heard = sh("sleep 600 & setsid sleep 600 & echo done", LONG).await;
    assert!(matches!(heard.finished.ended, Ended::Exited(status) if status.success()));
    assert!(heard.took < Duration::from_secs(30), "nobody waited for the sleepers: {:?}", heard.took);
    assert_eq!(strays::kill(&heard.run), 0, "none is left");
}

#[tokio::test]
async fn row_77_a_child_without_its_runs_mark_is_ended_with_its_group() {
    let heard = sh("env -i sleep 600 & echo $!", LONG).await;
    let pid = heard.lines[0].trim();
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
}

#[tokio::test]
async fn a_program_that_ignores_term_is_killed_after_its_grace() {
    let heard = sh("trap '' TERM; echo began; while :; do sleep 1; done", Duration::from_millis(300)).await;
    assert_eq!(heard.finished.ended, Ended::TimedOut);
    assert!(heard.took >= TERM_GRACE && heard.took < TERM_GRACE + Duration::from_secs(20));
}

#[tokio::test]
async fn row_76_a_process_of_another_run_is_not_touched() {
    let run = RunId::random();
    let mut other = Command::new("sleep").arg("600").env(RUN_ENV, run.as_str()).spawn().unwrap();
    let heard = sh("true", LONG).await;
    assert_eq!(strays::kill(&heard.run), 0);
    assert!(other.try_wait().unwrap().is_none(), "it lives");
    assert_eq!(strays::kill(&run), 1);
    other.wait().unwrap();
}

#[test]
fn the_callers_own_variables_are_not_handed_on() {
    /// In a process of its own, for the variables of this one are every test's.
    const OUTER: &str = "AGENTENV_TEST_OUTER";
    if std::env::var_os(OUTER).is_none() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "harness::tests::the_callers_own_variables_are_not_handed_on"]);
        assert!(again.env(OUTER, "x").status().unwrap().success());
        return;
    }
    let names: Vec<_> = inherited().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    assert!(names.iter().any(|name| name == "PATH"));
    assert!(names.iter().all(|name| !name.starts_with("AGENTENV_") || name == HOME_ENV || name == CACHE_ENV));
}
