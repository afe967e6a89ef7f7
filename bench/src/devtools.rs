//! As much of DevTools as opens tabs and tells whether they are loaded.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use serde_json::Value;

/// How long Chromium may take to answer; a browser that is starting is asked again.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// A start tab of the floor: a page with a title and nothing else.
pub const TAB: &str = "data:text/html,%3Ctitle%3Eup%3C/title%3E";

/// The tabs there are, and how many of them show [`TAB`]; `None` where DevTools don't answer yet.
pub fn tabs(stream: TcpStream) -> Option<(usize, usize)> {
    let targets: Vec<Value> = serde_json::from_slice(&ask(stream, "GET", "/json/list")?).ok()?;
    let pages = targets.iter().filter(|target| target["type"] == "page");
    let loaded = pages.clone().filter(|page| page["title"] == "up").count();
    Some((pages.count(), loaded))
}

/// Opens one more tab.
pub fn open_tab(stream: TcpStream) {
    // Whether it is there, the next look tells.
    let _ = ask(stream, "PUT", &format!("/json/new?{TAB}"));
}

fn ask(mut stream: TcpStream, method: &str, path: &str) -> Option<Vec<u8>> {
    stream.set_read_timeout(Some(ANSWER_LIMIT)).ok()?;
    stream.write_all(format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes()).ok()?;
    let mut reader = BufReader::new(stream);
    let mut length = None;
    let mut line = String::new();
    while reader.read_line(&mut line).ok()? > 0 && line != "\r\n" {
        let field = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        length = field.map_or(length, |(_, value)| value.trim().parse().ok());
        line.clear();
    }
    let mut body = vec![0; length?];
    reader.read_exact(&mut body).ok()?;
    Some(body)
}
