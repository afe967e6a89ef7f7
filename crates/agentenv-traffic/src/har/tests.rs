//! HAR as a file.

use serde_json::{Value, json};

use super::{HarWriter, date_time, write_json};
use crate::{
    reader::Options,
    step::Step,
    testing::{BEGIN_US, Read, Talk, pcap, read_files, with_bodies},
};

/// What HAR 1.2 wants of each object: names, types, and which may be absent (`?`). Names with `_` are free.
fn schema() -> Value {
    let nv = json!([{ "name": "string", "value": "string" }]);
    let cookies = json!([{
        "name": "string", "value": "string", "path?": "string", "domain?": "string", "expires?": "date", "httpOnly?": "bool",
        "secure?": "bool", "sameSite?": "string",
    }]);
    json!({ "log": {
        "version": "string",
        "creator": { "name": "string", "version": "string" },
        "pages": [{
            "startedDateTime": "date", "id": "string", "title": "string",
            "pageTimings": { "onContentLoad": "number", "onLoad": "number" },
        }],
        "entries": [{
            "pageref?": "string", "startedDateTime": "date", "time": "time",
            "request": {
                "method": "string", "url": "url", "httpVersion": "string", "cookies": cookies, "headers": nv, "queryString": nv,
                "postData?": { "mimeType": "string", "params": nv, "text": "string" },
                "headersSize": "number", "bodySize": "number",
            },
            "response": {
                "status": "number", "statusText": "string", "httpVersion": "string", "cookies": cookies, "headers": nv,
                "content": {
                    "size": "number", "compression?": "number", "mimeType": "string", "text?": "string", "encoding?": "string",
                },
                "redirectURL": "string", "headersSize": "number", "bodySize": "number",
            },
            "cache": {},
            "timings": {
                "blocked": "number", "dns": "number", "connect": "number", "ssl": "number",
                "send": "time", "wait": "time", "receive": "time",
            },
            "serverIPAddress": "string", "connection": "string",
        }],
    } })
}

fn check(value: &Value, schema: &Value, at: &str) {
    match schema {
        Value::Array(items) => {
            let values = value.as_array().unwrap_or_else(|| panic!("{at} is no list"));
            values.iter().for_each(|value| check(value, &items[0], &format!("{at}[]")));
        }
        Value::Object(wanted) => {
            let object = value.as_object().unwrap_or_else(|| panic!("{at} is no object"));
            for (name, schema) in wanted {
                let plain = name.trim_end_matches('?');
                match object.get(plain) {
                    Some(value) => check(value, schema, &format!("{at}.{plain}")),
                    None => assert!(name.ends_with('?'), "{at}.{name} is missing"),
                }
            }
            let known = |name: &String| wanted.contains_key(name) || wanted.contains_key(&format!("{name}?"));
            let unknown: Vec<_> = object.keys().filter(|name| !name.starts_with('_') && !known(name)).collect();
            assert!(unknown.is_empty(), "{at} has {unknown:?}");
        }
        _ => {
            let fits = match schema.as_str().unwrap() {
                "string" => value.is_string(),
                "bool" => value.is_boolean(),
                "number" => value.is_number(),
                "time" => value.as_f64().is_some_and(|time| time >= 0.0),
                "url" => value.as_str().is_some_and(|url| url.starts_with("http://")),
                "date" => value.as_str().is_some_and(|date| date.parse::<jiff::Timestamp>().is_ok()),
                other => panic!("{other}"),
            };
            assert!(fits, "{at} is {value}, not a {schema}");
        }
    }
}

fn har(read: Read, steps: &[Step]) -> (String, Value) {
    let mut writer = HarWriter::begin(Vec::new(), "1.2.3", steps).unwrap();
    for exchange in read.exchanges {
        writer.entry(exchange).unwrap();
    }
    let text = String::from_utf8(writer.finish().unwrap()).unwrap();
    let value = serde_json::from_str(&text).unwrap();
    check(&value, &schema(), "");
    (text, value)
}

fn everything() -> Talk {
    let mut talk = Talk::open();
    talk.up("GET /search?q=a+b%20c&x&e=%C3%BC#f HTTP/1.1\r\nHost: s.test\r\nCookie: sid=1; b=2\r\n\r\n");
    talk.down("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 3\r\nSet-Cookie: sid=2; Path=/; HttpOnly; Expires=Wed, 21 Oct 2026 07:28:00 GMT\r\n\r\nh\u{e9}".as_bytes());
    talk.up("POST /form HTTP/1.1\r\nHost: s.test\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\na=1&b=%20");
    talk.down("HTTP/1.1 303 See Other\r\nLocation: /done\r\nContent-Length: 0\r\n\r\n");
    talk.up("PUT /file HTTP/1.1\r\nHost: s.test\r\nContent-Length: 3\r\n\r\n");
    talk.up(b"\xff\xd8\x00");
    talk.down(b"HTTP/1.1 200 OK\r\nContent-Type: image/jpeg\r\nContent-Length: 3\r\n\r\n\xff\xd8\x00");
    talk.up("GET /ws HTTP/1.1\r\nHost: s.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    talk.down("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    talk.up(b"\x81\x00").reset(false);
    talk
}

#[test]
fn every_kind_of_exchange_is_valid() {
    let steps = [Step { number: 3, name: "agent".to_owned(), started_us: BEGIN_US, ended_us: None }];
    let options = Options { steps: steps.to_vec(), ..with_bodies() };
    let mut sent = everything().sent;
    // A response alone, a request alone.
    let mut alone = Talk::between("127.0.0.2:40009", "127.0.0.1:8000");
    alone.up("GET /lost HTTP/1.1\r\n\r\n").down("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    alone.up("GET /last HTTP/1.1\r\nHost: s.test\r\n\r\n");
    sent.extend_from_slice(&alone.sent[5..]);
    let (_, value) = har(read_files(vec![pcap(&sent)], options), &steps);
    let log = &value["log"];
    assert_eq!((&log["version"], &log["creator"]["version"]), (&json!("1.2"), &json!("1.2.3")));
    assert_eq!(log["pages"][0]["id"], "step_3");
    let entries = log["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 6);
    let page = &entries[0];
    assert_eq!(
        (&page["pageref"], &page["_step"], &page["_client"]),
        (&json!("step_3"), &json!("agent"), &json!("gateway"))
    );
    let pairs = json!([{ "name": "q", "value": "a b c" }, { "name": "x", "value": "" }, { "name": "e", "value": "ü" }]);
    assert_eq!(page["request"]["queryString"], pairs);
    assert_eq!(page["request"]["cookies"][1], json!({ "name": "b", "value": "2" }));
    assert_eq!(page["response"]["cookies"][0]["expires"], "2026-10-21T07:28:00Z");
    let content = &page["response"]["content"];
    assert_eq!(*content, json!({ "size": 3, "mimeType": "text/html; charset=utf-8", "text": "hé" }));
    assert_eq!(entries[1]["request"]["postData"]["params"][1], json!({ "name": "b", "value": " " }));
    assert_eq!(entries[1]["response"]["redirectURL"], "/done");
    assert_eq!(entries[2]["response"]["content"]["text"], "/9gA");
    assert_eq!(entries[2]["response"]["content"]["encoding"], "base64");
    assert_eq!(entries[2]["request"]["postData"]["_encoding"], "base64");
    assert_eq!(
        (&entries[3]["_resourceType"], &entries[3]["_upgrade"]["toServerBytes"]),
        (&json!("websocket"), &json!(2))
    );
    assert_eq!((&entries[4]["request"]["method"], &entries[4]["response"]["status"]), (&json!("UNKNOWN"), &json!(200)));
    assert_eq!(
        (&entries[5]["request"]["url"], &entries[5]["response"]["status"]),
        (&json!("http://s.test/last"), &json!(0))
    );
}

#[test]
fn bodies_are_left_out_unless_asked_for() {
    let (text, value) = har(read_files(vec![pcap(&everything().sent)], Options::default()), &[]);
    assert!(!text.contains("postData") && !text.contains("\"text\""));
    assert_eq!(value["log"]["entries"][0]["response"]["content"]["size"], 3);
    assert_eq!(value["log"]["pages"], json!([]));
}

#[test]
fn a_har_without_entries_is_valid() {
    let (text, _) = har(read_files(Vec::new(), Options::default()), &[]);
    assert!(text.ends_with("\"entries\":[\n]}}\n"));
}

#[test]
fn nothing_that_a_terminal_obeys_is_written() {
    let mut out = Vec::new();
    write_json(&mut out, &json!({ "a\u{9b}": "\u{1b}[2J\u{7f}\u{85}é\n\"" })).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text, r#"{"a\u009b":"\u001b[2J\u007f\u0085é\n\""}"#);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({ "a\u{9b}": "\u{1b}[2J\u{7f}\u{85}é\n\"" }));
}

#[test]
fn times_are_written_with_microseconds() {
    assert_eq!(date_time(1_800_000_000_000_001), "2027-01-15T08:00:00.000001Z");
    assert_eq!(date_time(0), "1970-01-01T00:00:00.000000Z");
    date_time(u64::MAX);
}
