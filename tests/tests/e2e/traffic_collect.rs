//! Captured traffic on its way into the store: by a run's step, by its teardown, by the recovery of a killed run, and by hand
//! (CAP-5..7).

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    time::Duration,
};

use agentenv_protocol::ExitCode;
use agentenv_tests::{Deploy, Home, Outcome, PATIENCE, PySite, captures_on_disk, eventually, run_within, tcpdump};
use serde_json::Value;

/// A few deploys of a small site, and megabytes of packets.
const LIMIT: Duration = Duration::from_secs(100);

/// Megabytes through the site, so that its ring of 1 MB files turns: the answers are as long as the requests.
const TALK: &str = r#"
import json, os, urllib.request
site = json.loads(os.environ["AGENTENV_DEPLOY"])["websites"][0]["browse_url"]
for number in range(4):
    body = json.dumps({"text": "x" * 400000, "number": number}).encode()
    urllib.request.urlopen(urllib.request.Request(site + "post", data=body)).read()
print(urllib.request.urlopen(site + "?the-last-words").status)
"#;

fn home() -> Home {
    let home = Home::empty();
    home.put(&PySite::new("wiki").bundle());
    home
}

/// Writes a task that deploys the site with captures and has an agent talk to it, with these steps afterwards.
fn task(home: &Home, steps: &str) -> String {
    let folder = home.path().join("task");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("talk.py"), TALK).expect("a file");
    fs::write(folder.join("kill.py"), KILL).expect("a file");
    let text = format!(
        "format = 1\nname = \"talk\"\ngoal = \"Talk.\"\n\
         [[step]]\nkind = \"deploy_env\"\nenv = \"wiki\"\ncapture_traffic = true\ncapture_file_mb = 1\ncapture_files = 9\n\
         [[step]]\nkind = \"agent\"\ncommand = [\"/usr/bin/python3\", \"talk.py\"]\n{steps}"
    );
    let path = folder.join("task.toml");
    fs::write(&path, text).expect("a file");
    path.display().to_string()
}

/// A harness is a trusted program: this one kills the deploy's supervisor.
const KILL: &str = r#"
import json, os, pathlib
deploy = json.loads(os.environ["AGENTENV_DEPLOY"])["deploy"]
for process in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        arguments = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        continue
    if b"internal-supervisor" in arguments and any(one.endswith(deploy.encode()) for one in arguments):
        os.kill(int(process.name), 9)
"#;
const COLLECT: &str = "[[step]]\nkind = \"collect_traffic_capture\"\n";

fn run_task(home: &Home, task: &str) -> Outcome {
    run_within(LIMIT, &mut home.command(["task", "run", task]), None)
}

#[track_caller]
fn latest(home: &Home) -> Value {
    home.run(&["run", "show", "latest", "--json"]).json()
}

/// The record's entry of its only deploy.
#[track_caller]
fn captures(record: &Value) -> (String, &Value) {
    let deploy = record["deploys"][0]["deploy"].as_str().expect("a deploy").to_owned();
    let entry = &record["context"]["metadata"]["traffic_captures"][&deploy];
    (deploy, entry)
}

/// How many packets tcpdump reads in a file; it must be content with all of it.
#[track_caller]
fn packets(path: &Path) -> usize {
    let read = tcpdump(path, &[]);
    assert!(read.code == 0 && !read.stderr.contains("truncated"), "{read:?}");
    read.stdout.lines().count()
}

fn on_disk(home: &Home, deploy: &str) -> Vec<PathBuf> {
    captures_on_disk(&home.deploy_folder(deploy), "wiki")
}

/// Everything that the run's deploy captured is stored: each file is listed everywhere, readable and as it is on record, and
/// nothing is on disk any more.
#[track_caller]
fn all_is_stored(home: &Home, record: &Value) {
    let (deploy, entry) = captures(record);
    assert_eq!((&entry["status"], &entry["reason"]), (&"complete".into(), &Value::Null), "{entry:#}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let to = folder.path().display().to_string();
    let run = record["run"].as_str().expect("an id");
    home.run(&["run", "artifacts", run, "--output", &to]).ok();
    let mut generation = 0;
    for file in entry["files"].as_array().expect("files") {
        let path = folder.path().join(file["name"].as_str().expect("a name"));
        assert_eq!(fs::metadata(&path).expect("it is an artifact of the run").len(), file["bytes"]);
        assert_eq!(packets(&path), file["packets"], "{file}");
        let artifact =
            record["artifacts"].as_array().expect("artifacts").iter().find(|one| one["id"] == file["artifact"]);
        let artifact = artifact.unwrap_or_else(|| panic!("{file} among the artifacts"));
        assert_eq!(artifact["media_type"], "application/vnd.tcpdump.pcap");
        assert_eq!((&artifact["sensitive"], &artifact["universe"]), (&true.into(), &entry["universe_id"]));
        assert!(generation == 0 || file["generation"] == generation + 1, "{entry:#}");
        generation = file["generation"].as_u64().expect("a number");
    }
    assert!(generation > 3, "the ring has turned: {entry:#}");
    assert!(on_disk(home, &deploy).is_empty());
    let listed = home.run(&["traffic", "list", &deploy, "--json"]).json();
    let places: Vec<&Value> =
        listed["captures"].as_array().expect("captures").iter().map(|one| &one["place"]).collect();
    assert_eq!(places.len(), entry["files"].as_array().expect("files").len());
    assert!(places.iter().all(|place| *place == "store"), "{listed:#}");
    let garbage = home.run(&["store", "gc", "--json"]).json();
    assert!(
        home.run(&["traffic", "get", &deploy, "wiki.2.pcap", "--output", &format!("{to}/again")]).code == 0,
        "{garbage}"
    );
}

#[test]
fn a_run_collects_its_traffic_to_the_last_packet() {
    for steps in [COLLECT, ""] {
        let home = home();
        let outcome = run_task(&home, &task(&home, steps));
        assert_eq!(outcome.code, 0, "{outcome:?}");
        assert!(!outcome.stdout.contains("warning"), "{outcome:?}");
        let record = latest(&home);
        all_is_stored(&home, &record);
        // To the last packet: the connections that the gateway kept open end when the site does.
        let (deploy, entry) = captures(&record);
        let last = entry["files"].as_array().expect("files").last().expect("a file");
        assert_eq!(last["state"], "complete");
        let to = home.path().join("last.pcap");
        let id = last["id"].as_str().expect("an id");
        home.run(&["traffic", "get", &deploy, id, "--output", &to.display().to_string()]).ok();
        let read = tcpdump(&to, &["-A"]).ok();
        assert!(read.contains("the-last-words") && read.contains("Flags [F"), "{read}");
        let shown = home.run(&["run", "show", "latest"]).ok();
        assert!(shown.contains("traffic/wiki/0000000001.pcap"), "{shown}");
        if !steps.is_empty() {
            assert_eq!(record["steps"][2]["result"]["status"], "complete");
        }
        home.assert_idle();
        // A run goes to another home with its captures.
        let tar = home.path().join("run.tar").display().to_string();
        home.run(&["run", "export", "latest", &tar]).ok();
        let other = Home::empty();
        other.run(&["run", "import", &tar]).ok();
        let there = latest(&other);
        assert_eq!(captures(&there).1["universe_id"], entry["universe_id"]);
        other.run(&["traffic", "get", &deploy, id, "--output", &format!("{tar}.pcap")]).ok();
        assert_eq!(packets(Path::new(&format!("{tar}.pcap"))), last["packets"]);
    }
}

/// Starts a task and kills its runner as soon as it says this.
#[track_caller]
fn killed_at(home: &Home, task: &str, word: &str) {
    let mut child = home.start(&["task", "run", task, "--json"]);
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let said = lines.by_ref().map_while(Result::ok).any(|line| line.contains(word));
    child.kill().expect("a child can be killed");
    child.wait().expect("a child");
    assert!(said, "the runner never said {word}");
}

#[test]
fn row_72_a_killed_run_is_ended_with_all_of_its_traffic() {
    // In the middle of the agent's work; between the first file's storing and the next; in its teardown.
    for (steps, word) in [("", "\"output\""), (COLLECT, "traffic/wiki/0000000001.pcap"), ("", "teardown_started")] {
        let home = home();
        killed_at(&home, &task(&home, steps), word);
        // The next command ends it.
        let record = latest(&home);
        assert_eq!(record["state"], "done", "{word}: {record:#}");
        let outcome = if word == "teardown_started" { "passed" } else { "infrastructure_error" };
        assert_eq!(record["outcome"], outcome, "{word}: {:#}", record["reason"]);
        all_is_stored(&home, &record);
        home.assert_idle();
    }
}

#[test]
fn row_69_a_deploy_that_dies_before_its_collection_is_collected_from_disk() {
    for (fail, code) in [("", ExitCode::Done), ("fail_task_on_error = true\n", ExitCode::Infrastructure)] {
        let home = home();
        let kill = "[[step]]\nkind = \"agent\"\ncommand = [\"/usr/bin/python3\", \"kill.py\"]\n";
        let outcome = run_task(&home, &task(&home, &format!("{kill}{COLLECT}{fail}")));
        let record = latest(&home);
        assert_eq!(outcome.code, code as i32, "{outcome:?}");
        let step = &record["steps"][3];
        let said = if fail.is_empty() { &step["warnings"][0] } else { &step["message"] };
        assert!(said.as_str().expect("it is said").contains("is not stored whole"), "{step:#}");
        all_is_stored(&home, &record);
        home.assert_idle();
    }
}

fn captured<'h>(home: &'h Home, more: &[&str]) -> Deploy<'h> {
    let arguments: Vec<&str> =
        ["--capture-traffic", "--capture-file-mb", "1"].into_iter().chain(more.iter().copied()).collect();
    let deploy = home.deploy_with("wiki", &arguments);
    for _ in 0..2 {
        deploy.talk("wiki/post", 700_000);
    }
    deploy
}

#[test]
fn a_deploy_outside_any_run_is_stored_at_its_close_unless_that_is_not_wanted() {
    let home = home();
    let deploy = captured(&home, &[]);
    let id = deploy.id().to_owned();
    deploy.close();
    assert!(on_disk(&home, &id).is_empty());
    let listed = home.run(&["traffic", "list", &id, "--json"]).json();
    assert_eq!((&listed["status"], &listed["run"]), (&"complete".into(), &Value::Null), "{listed:#}");
    let count = listed["captures"].as_array().expect("captures").len();
    assert!(count >= 3, "{listed:#}");
    assert!(home.run(&["store", "gc", "--json"]).json()["blobs"] == 0);
    let again = home.run(&["traffic", "rescue", &id, "--json"]).json();
    assert_eq!((&again[0]["stored_now"], &again[0]["status"]), (&0.into(), &"complete".into()));
    home.run(&["env", "close", &id]).ok();

    let deploy = captured(&home, &[]);
    let id = deploy.id().to_owned();
    home.run(&["env", "close", &id, "--discard-captures"]).ok();
    deploy.gone(&[]);
    assert!(on_disk(&home, &id).is_empty());
    home.run(&["traffic", "get", &id, "wiki.1.pcap"]).fails(ExitCode::Refused, &["wiki.1.pcap"]);
}

#[test]
fn what_a_killed_deploy_captured_stays_on_disk_until_it_is_rescued() {
    let home = home();
    let killed = captured(&home, &[]);
    let (processes, id) = (killed.processes(), killed.id().to_owned());
    killed.supervisor().kill_and_wait();
    killed.gone(&processes);
    let files = on_disk(&home, &id);
    assert!(files.len() >= 3, "{files:?}");
    let listed = home.run(&["traffic", "list", &id, "--json"]).json();
    let captures = listed["captures"].as_array().expect("captures");
    assert!(captures.iter().all(|one| one["place"] == "disk"), "{listed:#}");
    let rescued = home.run(&["traffic", "rescue", &id, "--json"]).json();
    assert_eq!((&rescued[0]["status"], &rescued[0]["stored_now"]), (&"complete".into(), &files.len().into()));
    assert!(on_disk(&home, &id).is_empty());
    readable(&home, &id, captures);
}

#[test]
fn what_a_deploy_captured_that_nobody_closed_in_time_is_stored_at_its_end() {
    let home = home();
    let deploy = captured(&home, &["--ttl", "2"]);
    let id = deploy.id().to_owned();
    assert!(on_disk(&home, &id).len() >= 2);
    let listed = eventually("its captures are stored", PATIENCE, || {
        let listed = home.run(&["traffic", "list", &id, "--json"]).json();
        (listed["status"] == "complete").then_some(listed)
    });
    deploy.gone(&[]);
    home.assert_idle();
    assert!(on_disk(&home, &id).is_empty());
    let captures = listed["captures"].as_array().expect("captures");
    assert!(captures.len() >= 3 && captures.iter().all(|one| one["place"] == "store"), "{listed:#}");
    readable(&home, &id, captures);
}

/// Each file is given, and tcpdump reads as many packets in it as are on record.
#[track_caller]
fn readable(home: &Home, deploy: &str, captures: &[Value]) {
    let to = home.path().join(deploy);
    home.run(&["traffic", "get", deploy, "--all", "--output", &to.display().to_string()]).ok();
    for one in captures {
        assert_eq!(packets(&to.join(one["id"].as_str().expect("an id"))), one["packets"], "{one}");
    }
}

#[test]
fn traffic_commands_say_what_is_wrong() {
    let home = home();
    let deploy = home.deploy("wiki");
    let id = deploy.id();
    for command in [&["traffic", "list", id][..], &["traffic", "rescue", id], &["traffic", "get", id, "wiki.1.pcap"]] {
        home.run(command).fails(ExitCode::Refused, &[id, "captures no traffic", "--capture-traffic"]);
    }
    home.run(&["traffic", "list", "d-000000000000"]).fails(ExitCode::Refused, &["d-000000000000"]);
    home.run(&["traffic", "rescue", "--run", "r-000000000000"]).fails(ExitCode::Refused, &["r-000000000000"]);
    assert_eq!(home.run(&["traffic", "get", id]).code, ExitCode::Usage as i32);
    assert_eq!(home.run(&["traffic", "rescue"]).code, ExitCode::Usage as i32);
    assert_eq!(home.run(&["traffic", "get", id, "../wiki.1.pcap"]).code, ExitCode::Usage as i32);
    let capturing = captured(&home, &[]);
    let id = capturing.id();
    let listed = home.run(&["traffic", "list", id]).ok();
    assert!(listed.contains("wiki.1.pcap") && listed.contains("growing") && listed.contains("gateway"), "{listed}");
    home.run(&["traffic", "get", id, "wiki.99.pcap"]).fails(ExitCode::Refused, &["wiki.99.pcap", "traffic list"]);
    let folder = home.path().join("files");
    let to = folder.display().to_string();
    home.run(&["traffic", "get", id, "--all", "--output", &to]).ok();
    let before = fs::read(folder.join("wiki.1.pcap")).expect("written");
    home.run(&["traffic", "get", id, "--all", "--output", &to])
        .fails(ExitCode::Refused, &["is there already", "--force"]);
    assert_eq!(fs::read(folder.join("wiki.1.pcap")).expect("still there"), before);
    home.run(&["traffic", "get", id, "--all", "--output", &to, "--force"]).ok();
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(folder.join("wiki.1.pcap")).expect("there").permissions().mode();
    assert_eq!(mode & 0o077, 0, "nobody else reads it");
}
