use std::os::unix::fs::symlink;

use super::*;

/// A folder with one good file of one packet, generation 3.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(file_name(3)), good()).unwrap();
    folder
}

fn good() -> Vec<u8> {
    let record = pcap::Record { seconds: 1, microseconds: 2, captured: 4, length: 4 };
    [&pcap::header()[..], &record.encode(), b"data"].concat()
}

fn damaged(files: &[CaptureFile]) -> Vec<(u64, u64, bool)> {
    files.iter().map(|file| (file.generation, file.bytes, file.state == CaptureState::Damaged)).collect()
}

#[test]
fn names_have_one_spelling() {
    assert_eq!(file_name(7), "0000000007.pcap");
    assert_eq!(generation("0000000007.pcap"), Some(7));
    assert_eq!(generation(&file_name(u64::MAX)), Some(u64::MAX));
    let long = format!("{}7.pcap", "0".repeat(30));
    for other in
        ["", "7.pcap", "0000000000.pcap", "+000000007.pcap", "0000000007.pcap.part", "0000000007.PCAP", "x.pcap", &long]
    {
        assert_eq!(generation(other), None, "{other}");
    }
}

#[test]
fn row_55_links_and_fifos_are_not_followed_and_do_not_hang() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), good()).unwrap();
    let folder = folder();
    let path = |generation| folder.path().join(file_name(generation));
    symlink(outside.path().join("secret"), path(4)).unwrap();
    symlink(path(3), path(5)).unwrap();
    fs::hard_link(outside.path().join("secret"), path(6)).unwrap();
    rustix::fs::mkfifoat(CWD, path(7), Mode::RUSR | Mode::WUSR).unwrap();
    fs::create_dir(path(8)).unwrap();
    symlink("/dev/zero", path(9)).unwrap();
    let files = read_ring(folder.path()).unwrap();
    let expected: Vec<_> = (3..=9).map(|n| if n == 3 { (n, 44, false) } else { (n, 0, true) }).collect();
    assert_eq!(damaged(&files), expected);
    for generation in 4..=9 {
        assert!(matches!(open_beneath(folder.path(), generation), Err(OpenCaptureError::Io(_))), "{generation}");
    }
    let open = open_beneath(folder.path(), 3).unwrap();
    assert_eq!((open.bytes, open.complete), (44, true));
    // The folder itself may not be a link either.
    let link = outside.path().join("ring");
    symlink(folder.path(), &link).unwrap();
    assert!(read_ring(&link).is_err());
}

#[test]
fn row_79_what_is_torn_is_flagged_and_its_good_part_told() {
    let folder = folder();
    let good = good();
    let contents = [
        (4, Vec::new()),
        (5, good[..10].to_vec()),
        (6, good[..24].to_vec()),
        (7, [&good[..], &good[24..40]].concat()),
        (8, vec![0xaa; 5000]),
    ];
    for (generation, bytes) in contents {
        fs::write(folder.path().join(file_name(generation)), bytes).unwrap();
    }
    let files = read_ring(folder.path()).unwrap();
    let expected = [(3, 44, false), (4, 0, true), (5, 0, true), (6, 24, false), (7, 44, true), (8, 0, true)];
    assert_eq!(damaged(&files), expected);
    assert_eq!((files[0].packets, files[0].first_us, files[0].last_us), (1, Some(1_000_002), Some(1_000_002)));
    assert_eq!(open_beneath(folder.path(), 7).unwrap().bytes, 44);
}

#[test]
fn what_was_rotated_away_is_told_from_what_never_was() {
    let folder = folder();
    let gone = |generation| match open_beneath(folder.path(), generation) {
        Err(OpenCaptureError::Gone) => true,
        Err(OpenCaptureError::Unknown) => false,
        other => panic!("{other:?}"),
    };
    assert!(gone(1) && gone(2));
    assert!(!gone(0) && !gone(4) && !gone(u64::MAX));
    let ring = Folder::open(folder.path()).unwrap();
    ring.write_record(Kernel::default(), &RingRecord { generation: 5, files: Vec::new() }).unwrap();
    assert!(gone(4) && gone(5) && !gone(6));
}

#[test]
fn row_81_a_record_that_is_torn_or_somebody_elses_counts_for_nothing() {
    let folder = folder();
    let ring = Folder::open(folder.path()).unwrap();
    let mut files = ring.list().unwrap();
    files[0].dropped = 9;
    ring.write_record(Kernel::default(), &RingRecord { generation: 3, files }).unwrap();
    assert_eq!(ring.list().unwrap()[0].dropped, 9);
    let path = folder.path().join(RECORD);
    let whole = fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        assert_eq!(damaged(&ring.list().unwrap()), [(3, 44, false)], "{cut}");
    }
    fs::remove_file(&path).unwrap();
    rustix::fs::mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    assert_eq!(ring.list().unwrap()[0].dropped, 0);
}

#[test]
fn a_file_is_published_with_its_header_and_never_over_another() {
    let folder = folder();
    let ring = Folder::open(folder.path()).unwrap();
    ring.publish(Kernel::default(), 4).unwrap();
    assert_eq!(fs::read(folder.path().join(file_name(4))).unwrap(), pcap::header());
    let failure = ring.publish(Kernel::default(), 3).unwrap_err();
    assert_eq!(failure.errno, libc::EEXIST);
    assert_eq!(fs::read(folder.path().join(file_name(3))).unwrap(), good());
    let names: Vec<_> = ring.names().unwrap();
    assert!(names.iter().all(|name| !name.ends_with(PART)), "{names:?}");
}

#[test]
fn leftovers_of_ours_are_removed_and_nothing_else() {
    let folder = folder();
    let ours = ["0000000004.pcap.part", "ring.json.part"];
    let others = ["0000000003.pcap", "4.pcap.part", "about.json", "about.json.part", "x.part"];
    for name in ours.iter().chain(&others[1..]) {
        fs::write(folder.path().join(name), "x").unwrap();
    }
    let ring = Folder::open(folder.path()).unwrap();
    ring.remove_parts().unwrap();
    let mut names = ring.names().unwrap();
    names.retain(|name| !name.starts_with('.'));
    names.sort_unstable();
    assert_eq!(names, others);
}
