//! What becomes of connections, and of files.

use std::io::{self, Cursor};

use agentenv_protocol::TrafficRing;

use crate::{
    merge::merge,
    note::{Damage, TrafficError},
    reader::{CaptureFile, Options, RingTraffic},
    record::{Application, Flag, Record},
    testing::{BEGIN_US, Sent, Talk, frame, line, lines, pcap, pcap_from, read, read_files, ring, with_bodies},
};

fn ask(path: &str) -> String {
    format!("GET /{path} HTTP/1.1\r\nHost: s.test\r\n\r\n")
}

fn say(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn talk(client: &str, path: &str) -> Talk {
    let mut talk = Talk::between(client, "127.0.0.1:8000");
    talk.up(ask(path)).down(say(path));
    talk
}

fn want(path: &str, flags: &str) -> String {
    format!("GET http://s.test/{path} 0 > 200 {} {path} [{flags}]", path.len())
}

#[test]
fn the_same_addresses_and_ports_are_used_again() {
    let first = talk("127.0.0.2:40000", "one").close().sent.clone();
    let mut second = talk("127.0.0.2:40000", "two").sent;
    for sent in &mut second {
        sent.seq = sent.seq.wrapping_add(if sent.up { 5_000_000 } else { 77 });
        sent.ack = sent.ack.map(|ack| ack.wrapping_add(if sent.up { 77 } else { 5_000_000 }));
    }
    let read = read(&[first, second].concat());
    assert_eq!(lines(&read), [want("one", ""), want("two", "")]);
    assert_eq!(read.flows.len(), 2);
    assert_ne!(read.exchanges[0].peers.connection, read.exchanges[1].peers.connection);
}

#[test]
fn what_is_late_of_a_closed_connection_begins_none() {
    let mut sent = talk("127.0.0.2:40000", "one").close().sent.clone();
    sent.extend_from_within(3..);
    let read = read(&sent);
    assert_eq!(lines(&read), [want("one", "")]);
    assert_eq!(read.flows.len(), 1);
}

#[test]
fn a_half_closed_connection_goes_on() {
    let mut talk = Talk::open();
    talk.up(ask("a")).fin(true).down("HTTP/1.0 200 OK\r\n\r\nfirst").down("second").fin(false);
    assert_eq!(lines(&read(&talk.sent)), ["GET http://s.test/a 0 > 200 11 firstsecond []"]);
}

#[test]
fn a_reset_is_said_where_it_cut_something() {
    let mut cut = talk("127.0.0.2:40000", "one");
    cut.up(ask("two")).down("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart").reset(false);
    let read_cut = read(&cut.sent);
    let wanted = [want("one", ""), "GET http://s.test/two 0 > 200 4 part [Incomplete Reset]".to_owned()];
    assert_eq!(lines(&read_cut), wanted);
    assert!(read_cut.flows[0].flags.contains(&Flag::Reset));
    assert_eq!(lines(&read(&talk("127.0.0.2:40000", "one").reset(true).sent)), [want("one", "")]);
}

#[test]
fn what_goes_on_when_the_capture_ends_is_said() {
    let mut talk = talk("127.0.0.2:40000", "one");
    talk.up(ask("two"));
    let read = read(&talk.sent);
    let wanted = [want("one", ""), "GET http://s.test/two 0 > - [Incomplete ResponseMissing Open]".to_owned()];
    assert_eq!(lines(&read), wanted);
    assert!(read.flows[0].flags.contains(&Flag::Open));
}

#[test]
fn a_capture_that_begins_in_the_middle_goes_on_at_the_next_message() {
    let mut talk = Talk::open();
    talk.segment = 20;
    talk.up("POST /a HTTP/1.1\r\nHost: s.test\r\nContent-Length: 60\r\n\r\n".to_owned() + &"x".repeat(60));
    talk.down(say(&"y".repeat(90)));
    talk.segment = 1000;
    for path in ["b", "c", "d"] {
        talk.up(ask(path)).down(say(path));
    }
    talk.close();
    let all = talk.sent.len();
    let last = |from: usize| lines(&read(&talk.sent[from..]));
    // Within the request, between both, within the response.
    for from in [5, 8, 11, 14] {
        let lines = last(from);
        let tail = &lines[lines.len() - 3..];
        assert_eq!(tail, [want("b", "Resynchronised"), want("c", ""), want("d", "")], "from {from} of {all}");
        assert!(lines.len() <= 4, "{lines:?}");
        if lines.len() == 4 {
            assert!(lines[0].starts_with("- > 200 90"), "{lines:?}");
            assert!(lines[0].contains("RequestMissing"), "{lines:?}");
        }
    }
}

#[test]
fn a_response_without_its_request_stands_alone() {
    let mut talk = talk("127.0.0.2:40000", "one");
    talk.up(ask("two")).down(say("two")).close();
    let lines = lines(&read(&talk.sent[5..]));
    assert_eq!(lines, ["- > 200 3 one [Resynchronised RequestMissing]".to_owned(), want("two", "Resynchronised")]);
}

#[test]
fn requests_cross_files_anywhere() {
    let mut talk = Talk::open();
    talk.segment = 11;
    talk.up("POST /a HTTP/1.1\r\nHost: s.test\r\nContent-Length: 20\r\n\r\n".to_owned() + &"x".repeat(20));
    talk.down(say("answer")).up(ask("b")).down(say("b")).close();
    let frames: Vec<_> = talk.sent.iter().map(frame).collect();
    let whole = lines(&read(&talk.sent));
    assert_eq!(whole, ["POST http://s.test/a 20 xxxxxxxxxxxxxxxxxxxx > 200 6 answer []".to_owned(), want("b", "")]);
    for cut in 0..=frames.len() {
        let files = vec![pcap_from(0, &frames[..cut]), pcap_from(cut, &frames[cut..]), pcap_from(0, &[])];
        let read = read_files(files, with_bodies());
        assert_eq!(lines(&read), whole, "cut at {cut}");
        assert_eq!((read.summary.files, read.summary.packets), (3, frames.len() as u64));
        assert!(read.summary.notes.is_empty());
    }
}

#[test]
fn row_79_damaged_files_are_read_as_far_as_they_go() {
    let frames: Vec<_> = talk("127.0.0.2:40000", "one").close().sent.iter().map(frame).collect();
    let good = pcap_from(0, &frames);
    let mut long = good.clone();
    // The length of a record that no packet has.
    long.extend_from_slice(&[0; 8]);
    long.extend_from_slice(&u32::MAX.to_le_bytes());
    long.extend_from_slice(&[0; 100]);
    let mut link = good.clone();
    link[20] = 105;
    let cut = |bytes: &[u8], by: usize| bytes[..bytes.len() - by].to_vec();
    for (file, damage, packets) in [
        (cut(&good, 1), Damage::Truncated, frames.len() - 1),
        (cut(&good, frames[frames.len() - 1].len() + 3), Damage::Truncated, frames.len() - 1),
        (long, Damage::Truncated, frames.len()),
        (Vec::new(), Damage::NotPcap, 0),
        (good[..23].to_vec(), Damage::NotPcap, 0),
        (b"garbage that is longer than a header".to_vec(), Damage::NotPcap, 0),
        (link, Damage::UnknownLink(105), 0),
    ] {
        let read = read_files(vec![file, good.clone()], with_bodies());
        assert_eq!(read.summary.notes.len(), 1, "{damage:?}");
        assert_eq!((read.summary.notes[0].file.as_str(), read.summary.notes[0].damage), ("shop.1.pcap", damage));
        assert_eq!(read.summary.packets, (packets + frames.len()) as u64, "{damage:?}");
        assert_eq!(lines(&read).last().unwrap(), &want("one", ""), "{damage:?}");
    }
}

#[test]
fn other_formats_of_pcap_are_read() {
    use pcap_file::{
        DataLink, Endianness,
        pcap::{PcapHeader, PcapPacket, PcapTsResolution, PcapWriter},
    };
    let frames: Vec<_> = talk("127.0.0.2:40000", "one").close().sent.iter().map(frame).collect();
    let cooked = |frame: &[u8]| [&[0; 14][..], &frame[12..]].concat();
    for (datalink, endianness, resolution) in [
        (DataLink::ETHERNET, Endianness::Big, PcapTsResolution::MicroSecond),
        (DataLink::RAW, Endianness::Little, PcapTsResolution::MicroSecond),
        (DataLink::LINUX_SLL, Endianness::Big, PcapTsResolution::NanoSecond),
    ] {
        let header = PcapHeader { datalink, endianness, ts_resolution: resolution, ..PcapHeader::default() };
        let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
        for frame in &frames {
            let bytes = match datalink {
                DataLink::ETHERNET => frame.clone(),
                DataLink::RAW => frame[14..].to_vec(),
                _ => cooked(frame),
            };
            let time = std::time::Duration::from_micros(BEGIN_US);
            writer.write_packet(&PcapPacket::new(time, bytes.len() as u32, bytes).unwrap()).unwrap();
        }
        let read = read_files(vec![writer.into_inner()], with_bodies());
        assert_eq!(lines(&read), [want("one", "")], "{datalink:?}");
        assert_eq!(read.exchanges[0].started_us, BEGIN_US);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_the_others_are_read() {
    struct Failing;
    impl io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
    let good = || Box::new(Cursor::new(pcap(&talk("127.0.0.2:40000", "one").close().sent))) as Box<dyn io::Read>;
    let file = |name: &str, bytes: Box<dyn io::Read>| Ok(CaptureFile { name: name.to_owned(), bytes });
    let files = [
        file("a", good()),
        file("b", Box::new(Failing)),
        Err(TrafficError::Open(io::Error::other("c"))),
        file("d", good()),
    ];
    let ring = RingTraffic::new(ring(), files.into_iter(), with_bodies());
    let (mut errors, mut exchanges) = (Vec::new(), 0);
    for record in ring {
        match record {
            Ok(Record::Exchange(_)) => exchanges += 1,
            Ok(Record::Flow(_)) => {}
            Err(TrafficError::Read { file, .. }) => errors.push(file),
            Err(TrafficError::Open(error)) => errors.push(error.to_string()),
        }
    }
    assert_eq!((errors, exchanges), (vec!["b".to_owned(), "c".to_owned()], 1), "the second is the first again");
}

#[test]
fn rings_are_merged_in_time() {
    let name = |name: &str| agentenv_protocol::Name::parse(name).unwrap();
    let talks = [talk("127.0.0.2:40000", "one").sent, talk("127.0.0.2:40001", "two").sent];
    let rings = ["shop", "tracker"].iter().enumerate().map(|(number, website)| {
        let frames: Vec<_> = talks[number].iter().map(frame).collect();
        // The second ring's packets are a moment after the first's.
        let file = CaptureFile { name: "x".to_owned(), bytes: Cursor::new(pcap_from(number * 2, &frames)) };
        let ring = TrafficRing { website: name(website), ..ring() };
        RingTraffic::new(ring, vec![Ok(file)].into_iter(), Options::default())
    });
    let mut merged = merge(rings.collect());
    let order: Vec<_> = merged
        .by_ref()
        .map(|record| match record.unwrap() {
            Record::Exchange(exchange) => format!("{} exchange", exchange.peers.website),
            Record::Flow(flow) => format!("{} flow", flow.peers.website),
        })
        .collect();
    assert_eq!(order, ["shop flow", "tracker flow", "shop exchange", "tracker exchange"]);
    assert!(merged.summaries().all(|summary| summary.files == 1));
}

#[test]
fn datagrams_are_flows() {
    let datagram = |source: [u8; 4], from, to, length: usize| {
        let mut frame = Vec::new();
        let builder =
            etherparse::PacketBuilder::ethernet2([0; 6], [0; 6]).ipv4(source, [127, 0, 0, 1], 64).udp(from, to);
        builder.write(&mut frame, &vec![0; length]).unwrap();
        frame
    };
    let frames = [datagram([127, 0, 0, 1], 21_000, 9000, 5), datagram([127, 0, 0, 1], 9000, 21_000, 7)];
    let read = read_files(vec![pcap_from(0, &frames)], Options::default());
    let flow = &read.flows[0];
    assert_eq!((flow.transport, flow.to_server_bytes, flow.to_client_bytes), ("udp", 5, 7));
    assert_eq!(
        (flow.peers.client.to_string().as_str(), flow.peers.service.to_string().as_str()),
        ("frontend", "worker")
    );
    assert_eq!(flow.application, Application::Other);
}

#[test]
fn a_cut_packet_is_a_hole() {
    let mut talk = Talk::open();
    talk.up(ask("a")).down(say(&"x".repeat(100))).up(ask("b")).down(say("b")).close();
    let frames: Vec<_> = talk.sent.iter().map(frame).collect();
    let mut bytes = pcap_from(0, &frames[..5]);
    let cut = &frames[5][..120];
    // A record of 120 captured bytes of a longer packet.
    bytes.extend_from_slice(&(BEGIN_US / 1_000_000).to_le_bytes()[..4]);
    bytes.extend_from_slice(&500u32.to_le_bytes());
    bytes.extend_from_slice(&120u32.to_le_bytes());
    bytes.extend_from_slice(&(frames[5].len() as u32).to_le_bytes());
    bytes.extend_from_slice(cut);
    let read = read_files(vec![bytes, pcap_from(6, &frames[6..])], with_bodies());
    let first = line(&read.exchanges[0]);
    assert!(first.starts_with("GET http://s.test/a 0 > 200 ") && first.ends_with("[Incomplete]"), "{first}");
    assert_eq!(line(&read.exchanges[1]), want("b", ""));
    assert!(read.flows[0].lost_bytes > 0);
}

#[test]
fn very_many_connections_are_followed_within_a_limit() {
    let mut frames = Vec::new();
    let count = 20_000u32;
    for number in 0..count {
        let [_, a, b, c] = number.to_be_bytes();
        let client = format!("10.{a}.{b}.{c}:40000");
        let talk = talk(&client, "x");
        frames.extend(talk.sent[..if number % 2 == 0 { 6 } else { 4 }].iter().map(frame));
    }
    let read = read_files(vec![pcap_from(0, &frames)], Options::default());
    assert_eq!(read.exchanges.len(), count as usize);
    assert_eq!(read.flows.len(), count as usize);
}

/// Segments are sent again, joined with others and in parts, and the first of their bytes count.
#[test]
fn repeated_segments_that_overlap_are_read_once() {
    let mut talk = Talk::open();
    talk.segment = 10;
    talk.up(ask("a")).down(say("0123456789abcdefghij")).close();
    let mut sent: Vec<Sent> = Vec::new();
    for (number, one) in talk.sent.iter().enumerate() {
        sent.push(one.clone());
        let before = number.checked_sub(1).map(|before| &talk.sent[before]);
        if let Some(before) = before.filter(|before| before.up == one.up && !before.payload.is_empty()) {
            let payload = [&before.payload[5..], &one.payload[..]].concat();
            sent.push(Sent { seq: before.seq.wrapping_add(5), payload, fin: false, ..one.clone() });
        }
    }
    assert_eq!(lines(&read(&sent)), ["GET http://s.test/a 0 > 200 20 0123456789abcdefghij []"]);
}

/// Row 71: the clock is set forward by an hour, and back.
#[test]
fn row_71_a_clock_that_is_set_changes_no_exchange() {
    let mut talk = Talk::open();
    for path in ["a", "b", "c"] {
        talk.up(ask(path)).down(say(path));
    }
    talk.close();
    let frames: Vec<_> = talk.sent.iter().map(frame).collect();
    let hour = 36_000_000;
    for (first, second) in [(0, hour), (hour, 0)] {
        let files = vec![pcap_from(first, &frames[..8]), pcap_from(second + 8, &frames[8..])];
        let read = read_files(files, with_bodies());
        let mut lines = lines(&read);
        lines.sort();
        assert_eq!(lines, [want("a", ""), want("b", ""), want("c", "")]);
        let long = read.exchanges.iter().filter(|exchange| exchange.duration_us() > 1_000_000).count();
        assert!(long <= 1, "only what was going on then");
    }
}
