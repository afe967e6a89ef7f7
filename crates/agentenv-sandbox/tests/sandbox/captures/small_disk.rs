//! A stand-alone capture, in a network namespace that isn't a sandbox's, on a disk that fills up.

use std::process::Command;

use agentenv_sandbox::PacketSocket;

use super::*;

crate::trials![row_70_a_full_disk_ends_a_capture_and_leaves_it_valid];

/// The word that makes this program one that captures on a small disk, whose path follows.
pub const SMALL_DISK: &str = "internal-small-disk";

/// Smaller than the ring.
const DISK: &str = "size=1m,mode=0700";

fn row_70_a_full_disk_ends_a_capture_and_leaves_it_valid() {
    let disk = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o \"$1\" none \"$3\" && ip link set lo up && shift && exec \"$0\" \"$@\"";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "--net", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .args([DISK, SMALL_DISK])
        .arg(disk.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

pub fn on_a_small_disk(disk: &Path) -> ! {
    let folder = disk.join("ring");
    let options = small(10, 200_000);
    let out = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Nobody listens there; what comes back is not what is counted.
    let to = UdpSocket::bind("127.0.0.1:4001").unwrap();
    out.connect(to.local_addr().unwrap()).unwrap();
    let capture = Capture::start(PacketSocket::open().unwrap(), "lo", &folder, options).unwrap();
    send_numbered(&out, 0..30_000, 100);
    eventually("the disk is full", || capture.health() != Health::Running);
    let Health::Ended { reason } = capture.health() else { panic!("{:?}", capture.health()) };
    assert!(reason.contains(folder.to_str().unwrap()) && reason.contains("No space left on device"), "{reason}");
    let told = capture.files();
    assert!(matches!(capture.stop(), Err(CaptureError::Ended { .. })));
    // What was told is there, whatever part of a record follows it.
    let found = read_ring(&folder).unwrap();
    assert_eq!(told, found);
    let numbers: Vec<_> = numbers(&folder, &told);
    assert!(numbers.len() > 3000 && numbers.iter().copied().eq(0..numbers.len() as u64));
    let last = told.last().unwrap();
    let length = fs::metadata(path(&folder, last.generation)).unwrap().len();
    assert_eq!(last.state == CaptureState::Damaged, length > last.bytes, "{last:?} of {length}");
    // With room again another capture goes on in the next file, and what was there stays as it was.
    fs::remove_file(path(&folder, 1)).unwrap();
    let capture = Capture::start(PacketSocket::open().unwrap(), "lo", &folder, options).unwrap();
    send_numbered(&out, 0..100, 100);
    let files = capture.stop().unwrap().files;
    let (before, after) = files.split_at(files.len() - 1);
    assert_eq!(before, &told[1..]);
    assert_eq!(
        (after[0].generation, after[0].packets, after[0].state),
        (last.generation + 1, 100, CaptureState::Complete)
    );
    std::process::exit(0)
}
