//! The probe of NET-6 in a real deploy: what gets out of a sandbox keeps the deploy from being, and what only looks like it
//! does not.

use std::{process::Command, time::Duration};

use agentenv_protocol::ExitCode;
use agentenv_tests::{PySite, is_root, program, run_within};

use crate::desk::{desk, desk_of, pods};

/// The name that the probe asks for is nobody's, so a site that claims it is a leak to the probe.
#[test]
fn a_sandbox_that_lets_something_out_is_refused_naming_each() {
    let home = desk_of(&[PySite::new("alpha").at(&["alpha.test", "*.agent-env-probe.invalid"])]);
    let refused = home.run(&["env", "deploy", "desk"]);
    refused.fails(
        ExitCode::Infrastructure,
        &["lookout", "is not sealed", "the name name.agent-env-probe.invalid resolves to", "the forward port took"],
    );
    home.assert_idle();
    let record = home.run(&["env", "status", "--all", "--json"]).json();
    assert_eq!(record[0]["state"], "failed", "{record}");
}

#[test]
fn a_website_may_be_on_the_port_that_browsers_have_their_proxy_on() {
    let proxy = "\n[services.helper]\ncommand = [\"/usr/bin/python3\", \"-u\", \"-m\", \"http.server\", \"3128\", \"--bind\", \"127.0.0.1\"]\nport = 3128\n";
    let home = pods(&[PySite::new("alpha").toml(proxy)]);
    home.deploy("pods").close();
}

#[test]
fn what_the_probe_tries_is_not_on_the_denied_log() {
    let home = desk();
    let deploy = home.deploy("desk");
    let denied = deploy.denied();
    assert!(denied.iter().all(|entry| !entry.host.contains("agent-env-probe")), "{denied:?}");
}

/// Makes a namespace in which all that the probe tries gets somewhere, and runs it there.
const OPEN: &str = r#"
import fcntl, os, socket, struct, subprocess, sys, threading, time
folder, program = sys.argv[1:]
with open(f"{folder}/hosts", "w") as hosts:
    hosts.write("127.0.0.1 localhost\n127.0.0.1 name.agent-env-probe.invalid\n")
subprocess.run(["mount", "--bind", f"{folder}/hosts", "/etc/hosts"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
four = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
def interface(name, request, payload): fcntl.ioctl(four, request, struct.pack("16s24s", name, payload))
interface(b"lo", 0x8914, struct.pack("h", 0x49))
interface(b"lo:1", 0x8916, struct.pack("HH4s", socket.AF_INET, 0, socket.inet_aton("203.0.113.1")))
fcntl.ioctl(six, 0x8916, struct.pack("16sIi", socket.inet_pton(socket.AF_INET6, "2001:db8::1"), 128, socket.if_nametoindex("lo")))
def when_it_is_there(address, limit=time.monotonic() + 20):
    # The kernel takes its time before an address of IPv6 may be used.
    while True:
        try: return socket.create_server(address, family=socket.AF_INET6)
        except OSError:
            if time.monotonic() > limit: raise
def serve(listener, answer):
    while True:
        connection, _ = listener.accept()
        if answer:
            connection.recv(4096)
            connection.sendall(answer)
for listener, answer in (
    (socket.create_server(("0.0.0.0", 443)), b"\x16"),
    (when_it_is_there(("2001:db8::1", 443)), b""),
    (socket.create_server(("127.0.0.1", 3128)), b"HTTP/1.1 200 OK\r\n\r\n"),
):
    threading.Thread(target=serve, args=(listener, answer), daemon=True).start()
docker = socket.socket(socket.AF_UNIX)
docker.bind("/run/docker.sock")
docker.listen()
probe = subprocess.run([program, "internal-probe", "--forward-port", "127.0.0.1"], stdout=subprocess.PIPE, text=True)
print(probe.returncode, probe.stdout, sep="\n", end="")
try: socket.socket(40, socket.SOCK_STREAM)
except OSError: print("(this machine has no vsock)")
"#;

#[test]
fn the_probe_sees_every_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut open = Command::new("unshare");
    if !is_root() {
        open.args(["--user", "--map-root-user"]);
    }
    open.args(["--mount", "--propagation", "private", "--net", "--", "/usr/bin/python3", "-c", OPEN]);
    open.arg(folder.path()).arg(program());
    let report = run_within(Duration::from_secs(60), &mut open, None).ok();
    let ways = [
        "1\n",
        "the name name.agent-env-probe.invalid resolves to 127.0.0.1:443\n",
        "a connection to 203.0.113.1:443 was made\n",
        "a connection to [2001:db8::1]:443 was made\n",
        "a datagram to 203.0.113.1:53 was sent\n",
        "a datagram to [2001:db8::1]:443 was sent\n",
        "vsock",
        "a packet socket was made\n",
        "the host's socket /run/docker.sock answers\n",
        "a TLS handshake with 127.0.0.1 for another name was taken\n",
        "the forward port took a connection to a name that no site has\n",
    ];
    let missed: Vec<&str> = ways.into_iter().filter(|way| !report.contains(way)).collect();
    assert!(missed.is_empty(), "{missed:#?} of\n{report}");
}
