use super::*;

fn record(stamp_us: u64, bytes: &[u8]) -> Vec<u8> {
    let record = Record {
        seconds: (stamp_us / 1_000_000) as u32,
        microseconds: (stamp_us % 1_000_000) as u32,
        captured: bytes.len() as u32,
        length: bytes.len() as u32,
    };
    [&record.encode()[..], bytes].concat()
}

fn scan_bytes(bytes: &[u8]) -> Contents {
    let read = |buffer: &mut [u8], offset: u64| {
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        // Short reads too.
        let count = rest.len().min(buffer.len()).min(1000);
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    };
    scan(bytes.len() as u64, read).unwrap()
}

#[test]
fn the_header_is_as_tcpdump_writes_it() {
    let written = "d4c3b2a1 0200 0400 00000000 00000000 00000400 01000000";
    let bytes: Vec<u8> = written
        .split(' ')
        .flat_map(|word| (0..word.len()).step_by(2).map(|at| u8::from_str_radix(&word[at..at + 2], 16).unwrap()))
        .collect();
    assert_eq!(header()[..], bytes);
}

#[test]
fn row_79_whatever_a_file_is_cut_to_its_whole_records_count() {
    let records = [record(3, &[1; 60]), record(1, &[2; 0]), record(2, &[3; 5000])];
    let whole = [&header()[..], &records.concat()].concat();
    let mut ends = vec![24];
    for record in &records {
        ends.push(ends.last().unwrap() + record.len());
    }
    for cut in 0..=whole.len() {
        let contents = scan_bytes(&whole[..cut]);
        let good = ends.iter().copied().filter(|end| *end <= cut).max().unwrap_or(0);
        assert_eq!(contents.bytes, good as u64, "{cut}");
        assert_eq!(contents.packets as usize, ends.iter().filter(|end| **end <= cut).count().saturating_sub(1));
        assert_eq!(contents.damaged, cut != good || cut < 24, "{cut}");
    }
    // In the order of the file, whatever the clock said.
    assert_eq!((scan_bytes(&whole).first_us, scan_bytes(&whole).last_us), (Some(3), Some(2)));
}

#[test]
fn row_79_garbage_ends_what_is_believed() {
    let good = [&header()[..], &record(5, &[1; 10])].concat();
    let with = |change: fn(&mut Record)| {
        let mut record = Record { seconds: 1, microseconds: 1, captured: 4, length: 4 };
        change(&mut record);
        [&good[..], &record.encode(), &[0; 4]].concat()
    };
    for bad in [
        with(|record| record.captured = SNAP_LENGTH + 1),
        with(|record| (record.captured, record.length) = (u32::MAX, u32::MAX)),
        with(|record| record.length = 3),
        with(|record| record.microseconds = 1_000_000),
        [&good[..], &[0xff; 300]].concat(),
    ] {
        let contents = scan_bytes(&bad);
        assert_eq!((contents.bytes, contents.packets, contents.damaged), (good.len() as u64, 1, true));
    }
    for change in 0..HEADER_BYTES {
        let mut bytes = good.clone();
        bytes[change] ^= 1;
        let contents = scan_bytes(&bytes);
        assert_eq!((contents.bytes, contents.packets, contents.damaged), (0, 0, true), "{change}");
    }
    assert_eq!(scan_bytes(&header()), Contents { bytes: 24, ..Contents::default() });
    assert_eq!(scan_bytes(&[]), Contents { damaged: true, ..Contents::default() });
}

#[test]
fn records_fit_whole_or_not_at_all() {
    let records = [record(1, &[0; 84]), record(2, &[0; 84]), record(3, &[0; 284])].concat();
    for (room, first, expected) in [
        (0, false, 0),
        (99, false, 0),
        (100, false, 100),
        (199, false, 100),
        (200, false, 200),
        (499, false, 200),
        (500, false, 500),
        (10_000, false, 500),
        // One that is longer than a file has it for itself.
        (0, true, 100),
        (99, true, 100),
        (200, true, 200),
    ] {
        assert_eq!(fitting(&records, room, first).bytes, expected, "{room} {first}");
    }
    assert_eq!(fitting(&[], 100, true).bytes, 0);
}

#[test]
fn whole_records_of_a_partial_write_are_found() {
    let records = [record(7, &[1; 10]), record(9, &[2; 20])].concat();
    for written in 0..=records.len() {
        let contents = whole_records(&records[..written]);
        let (bytes, packets) = match written {
            0..26 => (0, 0),
            26..62 => (26, 1),
            _ => (62, 2),
        };
        assert_eq!((contents.bytes, contents.packets), (bytes, packets), "{written}");
        assert_eq!(contents.damaged, written as u64 != bytes);
    }
}
