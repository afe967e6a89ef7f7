//! Plain HTTP, byte by byte: what no client library would send.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::Duration,
};

/// A response that was read to the end of the connection.
#[derive(Debug)]
pub struct Reply {
    /// Status code; 0 where the connection was closed without a response.
    pub status: u16,
    /// Everything that came, as it came.
    pub raw: String,
}

impl Reply {
    /// What follows the head.
    pub fn body(&self) -> &str {
        self.raw.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }
}

/// Sends these bytes to an `http://host:port...` URL's host, and reads until the other side closes.
#[track_caller]
pub fn raw_http(url: &str, request: &[u8]) -> Reply {
    let rest = url.strip_prefix("http://").expect("a plain URL");
    let address = rest.split('/').next().expect("an address");
    let mut stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time limit can be set");
    stream.write_all(request).expect("the request can be sent");
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 * 1024];
    while let Ok(count) = stream.read(&mut chunk) {
        if count == 0 {
            break;
        }
        bytes.extend_from_slice(&chunk[..count]);
    }
    let raw = String::from_utf8_lossy(&bytes).into_owned();
    let status = raw.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    Reply { status, raw }
}

/// Reads up to and with these bytes, and nothing of what follows them.
pub fn read_until(stream: &mut impl Read, end: &[u8]) -> io::Result<String> {
    let mut read = Vec::new();
    while !read.ends_with(end) {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        read.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&read).into_owned())
}
