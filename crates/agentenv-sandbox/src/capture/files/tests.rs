use std::{fs, io::Read as _};

use super::*;
use crate::capture::{folder::read_ring, pcap::Record};

/// A record whose whole size is `size`.
fn record(number: u32, size: usize) -> Vec<u8> {
    let captured = (size - pcap::RECORD_BYTES) as u32;
    let record = Record { seconds: number, microseconds: 0, captured, length: captured };
    let mut bytes = record.encode().to_vec();
    bytes.resize(size, number as u8);
    bytes
}

struct Ring {
    folder: tempfile::TempDir,
    index: Arc<Index>,
    writer: Writer,
}

fn open(kernel: Kernel, folder: &Path, files: u32, file_bytes: u64) -> Result<(Arc<Index>, Writer), Failure> {
    let index = Arc::new(Index::new(Instant::now()));
    let folder = Arc::new(Folder::make(kernel, folder)?);
    let options = RingOptions { files, file_bytes, ..RingOptions::default() };
    Ok((Arc::clone(&index), Writer::open(kernel, folder, options, index)?))
}

impl Ring {
    fn new(files: u32, file_bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (index, writer) = open(Kernel::default(), folder.path(), files, file_bytes).unwrap();
        Self { folder, index, writer }
    }

    fn files(&self) -> Vec<CaptureFile> {
        self.index.state().files.iter().cloned().collect()
    }

    fn bytes_on_disk(&self) -> u64 {
        let entries = fs::read_dir(self.folder.path()).unwrap().map(Result::unwrap);
        let captures = entries.filter(|entry| entry.file_name().to_str().unwrap().contains(".pcap"));
        captures.map(|entry| entry.metadata().unwrap().len()).sum()
    }
}

#[test]
fn row_61_the_folder_never_holds_more_than_the_ring_and_a_packet_a_file() {
    let mut ring = Ring::new(3, 1000);
    let mut most = 0;
    for number in 0..200 {
        let batch: Vec<u8> = (0..5).flat_map(|part| record(number, 60 + (number as usize * 37 + part) % 700)).collect();
        ring.writer.write(&batch).unwrap();
        most = most.max(ring.bytes_on_disk());
        let files = ring.files();
        assert!(files.len() <= 3 && files.iter().all(|file| file.bytes <= 1000), "{files:?}");
    }
    assert!(most <= 3 * 1000, "{most}");
    // A packet that is longer than a file has one for itself.
    ring.writer.write(&[record(1, 5000), record(2, 100), record(3, 5000)].concat()).unwrap();
    let sizes: Vec<_> = ring.files().iter().map(|file| (file.packets, file.bytes)).collect();
    assert_eq!(sizes, [(1, 5024), (1, 124), (1, 5024)]);
    assert_eq!(read_ring(ring.folder.path()).unwrap().len(), 3);
}

#[test]
fn what_the_index_tells_is_what_is_on_disk() {
    let mut ring = Ring::new(4, 1000);
    for number in 0..50 {
        ring.writer.write(&record(number, 100 + number as usize)).unwrap();
        ring.writer
            .count(Statistics { dropped: u64::from(number == 49), ..Statistics::default() }, Instant::now())
            .unwrap();
        let mut told = ring.files();
        assert_eq!(
            told.pop().map(|file| (file.state, file.last_us)),
            Some((CaptureState::Growing, Some(u64::from(number) * 1_000_000)))
        );
        let mut found = read_ring(ring.folder.path()).unwrap();
        found.pop();
        assert_eq!(told, found);
    }
    ring.writer.finish().unwrap();
    assert_eq!(ring.files().last().map(|file| (file.state, file.dropped)), Some((CaptureState::Complete, 1)));
    assert_eq!(ring.files(), read_ring(ring.folder.path()).unwrap());
}

#[test]
fn row_80_an_open_file_is_read_to_its_end_after_it_was_rotated_away() {
    let mut ring = Ring::new(2, 1000);
    ring.writer.write(&record(7, 500)).unwrap();
    let mut open = ring.writer.folder.open_file(1).unwrap();
    let inode = |file: &fs::File| std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap());
    let before = inode(&open);
    ring.writer.write(&(0..20).flat_map(|number| record(number, 400)).collect::<Vec<_>>()).unwrap();
    assert!(ring.files()[0].generation > 1);
    let mut bytes = Vec::new();
    open.read_to_end(&mut bytes).unwrap();
    assert_eq!((inode(&open), bytes.len()), (before, 24 + 500 + 400));
}

#[test]
fn row_71_order_is_that_of_generations_whatever_the_clock_does() {
    let mut ring = Ring::new(10, 500);
    // An hour forward, back again, and back to 1970 within a file.
    for number in [1000, 1001, 4601, 4602, 1002, 0, 1003] {
        ring.writer.write(&record(number, 400)).unwrap();
        ring.writer.count(Statistics { dropped: 1, ..Statistics::default() }, Instant::now()).unwrap();
    }
    let files = read_ring(ring.folder.path()).unwrap();
    let seconds: Vec<_> = files.iter().map(|file| (file.generation, file.first_us.unwrap() / 1_000_000)).collect();
    assert_eq!(seconds, [(1, 1000), (2, 1001), (3, 4601), (4, 4602), (5, 1002), (6, 0), (7, 1003)]);
    assert_eq!(ring.files().iter().map(|file| file.dropped).sum::<u64>(), 7);
}

#[test]
fn a_capture_goes_on_where_another_ended() {
    let mut ring = Ring::new(3, 1000);
    ring.writer.write(&(0..6).flat_map(|number| record(number, 700)).collect::<Vec<_>>()).unwrap();
    let before = ring.files();
    assert_eq!(before.iter().map(|file| file.generation).collect::<Vec<_>>(), [4, 5, 6]);
    // It died: a torn tail, and a file that was about to be published.
    let torn = ring.folder.path().join("0000000006.pcap");
    fs::File::options().append(true).open(torn).and_then(|mut file| io_write(&mut file)).unwrap();
    fs::write(ring.folder.path().join("0000000007.pcap.part"), "x").unwrap();
    let (index, mut writer) = open(Kernel::default(), ring.folder.path(), 3, 1000).unwrap();
    writer.write(&record(9, 100)).unwrap();
    let files: Vec<_> = index.state().files.iter().map(|file| (file.generation, file.bytes, file.state)).collect();
    let expected = [(5, 724, CaptureState::Complete), (6, 724, CaptureState::Damaged), (7, 124, CaptureState::Growing)];
    assert_eq!(files, expected);
    // Even where every file was taken away meanwhile, no generation comes twice.
    drop(writer);
    for file in read_ring(ring.folder.path()).unwrap() {
        fs::remove_file(ring.folder.path().join(format!("{:010}.pcap", file.generation))).unwrap();
    }
    let (index, _writer) = open(Kernel::default(), ring.folder.path(), 3, 1000).unwrap();
    assert_eq!(index.state().files.back().map(|file| file.generation), Some(8));
}

fn io_write(file: &mut fs::File) -> std::io::Result<()> {
    std::io::Write::write_all(file, b"half a record")
}

/// Calls that the workload below makes at most.
const MAX_CALLS: u32 = 500;

#[test]
fn row_70_any_call_may_fail_and_what_is_there_stays_valid() {
    for errno in [Errno::NOSPC, Errno::IO, Errno::MFILE] {
        let failed = (1..MAX_CALLS).take_while(|&nth| fails_cleanly(nth, errno)).count();
        assert!((20..MAX_CALLS as usize - 1).contains(&failed), "{failed} calls are behind the gate");
    }
}

/// Whether a call failed; if one did, by an error that names a path, and with nothing told that isn't there.
fn fails_cleanly(nth: u32, errno: Errno) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ring");
    let kernel = Kernel::failing(nth, errno).unwrap();
    let mut told = None;
    let mut work = || -> Result<(), Failure> {
        let (index, mut writer) = open(kernel, &path, 2, 1000)?;
        told = Some(Arc::clone(&index));
        for number in 0..6 {
            writer.write(&record(number, 400))?;
            writer.count(Statistics { dropped: 1, ..Statistics::default() }, Instant::now())?;
        }
        writer.finish()
    };
    let Err(failure) = work() else { return false };
    assert_eq!(failure.errno, errno.raw_os_error());
    assert!(told.is_none() || failure.what.contains(path.to_str().unwrap()), "{}", failure.what);
    let on_disk = if path.exists() { read_ring(&path).unwrap() } else { Vec::new() };
    assert!(on_disk.iter().all(|file| file.state == CaptureState::Complete), "{on_disk:?}");
    for file in told.iter().flat_map(|index| index.state().files.clone()) {
        // One that was to be removed next may still be there; one that is told of is.
        let found = on_disk.iter().find(|found| found.generation == file.generation).unwrap();
        assert_eq!((found.bytes, found.packets), (file.bytes, file.packets));
    }
    // And another capture goes on.
    let (index, mut writer) = open(Kernel::default(), &path, 2, 1000).unwrap();
    writer.write(&record(1, 100)).unwrap();
    assert_eq!(index.state().files.back().map(|file| file.packets), Some(1));
    true
}
