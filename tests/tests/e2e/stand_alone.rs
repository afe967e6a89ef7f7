//! `agent-env capture`: the capture of a deploy, by itself, in a network namespace that a test makes (CAP-2).

use std::{fs, process::Command};

use agentenv_tests::{Outcome, PATIENCE, program, run_within, tcpdump};
use serde_json::Value;

/// A shell's script in a network namespace of its own, whose arguments are the program and a folder.
fn inside(script: &str, folder: &tempfile::TempDir) -> Outcome {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "sh", "-euc", script, "sh"]).arg(program()).arg(folder.path());
    // It writes where it is told to and nowhere else.
    run_within(PATIENCE, command.env_remove("HOME").env_remove("AGENTENV_HOME"), None)
}

#[test]
fn it_records_until_it_is_told_to_stop() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = r#"
        ip link set lo up
        "$1" --json capture --interface lo --output "$2/ring" --files 3 --file-mb 1 &
        until [ -e "$2/ring/0000000001.pcap" ]; do sleep 0.01; done
        python3 -c '
import socket
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
to.bind(("127.0.0.1", 0))
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(4000):
    out.sendto(b"x" * 1458, to.getsockname())
'
        kill -TERM $!
        wait $!
    "#;
    let outcome = inside(script, &folder);
    let summary: Value = serde_json::from_str(&outcome.ok()).expect("JSON");
    assert_eq!((&summary["packets"], &summary["dropped"]), (&4000.into(), &0.into()), "{summary:#}");
    // A record has 1,516 bytes: 659 of them and the header are what goes into a megabyte.
    let files = summary["files"].as_array().expect("files");
    let shape: Vec<_> = files.iter().map(|file| (&file["generation"], &file["packets"], &file["state"])).collect();
    let expected = [(5, 659, "complete"), (6, 659, "complete"), (7, 46, "complete")];
    let expected = expected.map(|(generation, packets, state)| (generation.into(), packets.into(), state.into()));
    assert_eq!(shape, expected.iter().map(|(a, b, c): &(Value, Value, Value)| (a, b, c)).collect::<Vec<_>>());
    let mut names: Vec<_> = fs::read_dir(folder.path().join("ring"))
        .expect("the ring")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    assert_eq!(names, ["0000000005.pcap", "0000000006.pcap", "0000000007.pcap", "ring.json"]);
}

/// What leaves by a card passes it once, unlike on loopback.
#[test]
fn both_directions_of_a_card_are_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = r#"
        ip link add here type veth peer name there
        ip address add 10.9.8.1/24 dev here
        ip link set here up
        ip link set there up
        ip neighbour add 10.9.8.2 lladdr 02:00:00:00:00:02 dev here
        "$1" capture --interface here --output "$2/ring" >&2 &
        until [ -e "$2/ring/0000000001.pcap" ]; do sleep 0.01; done
        python3 -c '
import socket
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(50):
    out.sendto(b"x" * 100, ("10.9.8.2", 4001))
# And one that comes in.
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind(("there", 0))
raw.send(bytes([255] * 6 + [2, 0, 0, 0, 0, 2, 0x88, 0xb5]) + b"hello" * 10)
'
        kill -TERM $!
        wait $!
    "#;
    inside(script, &folder).ok();
    let file = folder.path().join("ring/0000000001.pcap");
    for (what, count) in [("udp port 4001", "50 packets"), ("ether proto 0x88b5", "1 packet")] {
        assert_eq!(tcpdump(&file, &["--count", what]).ok().trim(), count, "{what}");
    }
}

#[test]
fn what_it_cannot_record_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (script, code, said) in [
        (r#"exec "$1" capture --interface eth7 --output "$2/ring""#, 3, "there is no interface `eth7`"),
        (r#"exec "$1" capture --interface lo --output /proc/ring"#, 4, "the folder `/proc/ring`"),
        (
            r#"exec setpriv --bounding-set -net_raw --inh-caps -net_raw "$1" capture --interface lo --output "$2/ring""#,
            4,
            "CAP_NET_RAW",
        ),
        (r#"exec "$1" capture --interface lo --output "$2/ring" --files 0"#, 2, "--files"),
    ] {
        let outcome = inside(script, &folder);
        assert_eq!(outcome.code, code, "{outcome:?}");
        assert!(outcome.stderr.contains(said), "{outcome:?}");
    }
}
