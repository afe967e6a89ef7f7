//! What the two programs of `echo.test` share: the log of requests.
//!
//! `echo-raw`, the frontend, serves the pages and writes down each request as it came; `echo`, the server, answers
//! `data/get` from it.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// The folder of the log within the data directory.
pub const FOLDER: &str = "log";
/// As much of one request as is written down.
const MAX_LOGGED_BYTES: usize = 64 * 1024;

/// One request as it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The connection it came on, counted from 1.
    pub connection: u64,
    /// The target of the request line.
    pub target: String,
    /// Its bytes, with those that are not UTF-8 replaced.
    pub text: String,
    /// Its bytes in hexadecimal.
    pub hex: String,
    /// How many bytes it had; the other fields hold the first 65,536.
    pub bytes: usize,
}

/// The log.
#[derive(Clone, Debug)]
pub struct Log(PathBuf);

impl Log {
    /// The log in its folder.
    pub fn within(folder: &Path) -> Self {
        Self(folder.join("requests.jsonl"))
    }

    /// Adds a request. The file is opened anew each time: a reset puts another in its place.
    pub fn add(&self, connection: u64, target: &str, bytes: &[u8]) -> io::Result<()> {
        let kept = &bytes[..bytes.len().min(MAX_LOGGED_BYTES)];
        let request = Request {
            connection,
            target: target.to_owned(),
            text: String::from_utf8_lossy(kept).into_owned(),
            hex: hex::encode(kept),
            bytes: bytes.len(),
        };
        let mut line = serde_json::to_string(&request)?;
        line.push('\n');
        // One write to a file opened for appending: lines of several connections never mix.
        OpenOptions::new().append(true).create(true).open(&self.0)?.write_all(line.as_bytes())
    }

    /// The requests so far.
    pub fn read(&self) -> io::Result<Vec<Request>> {
        let text = match fs::read_to_string(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    }
}
