//! HAR 1.2, written entry by entry.

mod cookie;
mod entry;
#[cfg(test)]
mod tests;
mod types;

use std::io::{self, Write};

use jiff::Timestamp;
use memchr::memchr2_iter;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::{record::Exchange, step::Step};
use entry::{entry, page_id};
use types::{Creator, Page, PageTimings};

/// Microseconds since 1970 as RFC 3339, UTC, with microseconds.
pub(crate) fn date_time(us: u64) -> String {
    let time = i64::try_from(us).ok().and_then(|us| Timestamp::from_microsecond(us).ok());
    format!("{:.6}", time.unwrap_or(Timestamp::MAX))
}

/// Writes a HAR file: its begin, then the entries one by one, then its end. Each task step is a page.
pub struct HarWriter<W> {
    out: W,
    steps: Vec<Step>,
    entries: u64,
}

impl<W: Write> HarWriter<W> {
    /// Writes the begin. `creator` is the version of the program.
    pub fn begin(mut out: W, creator: &str, steps: &[Step]) -> io::Result<Self> {
        out.write_all(b"{\"log\":{\"version\":\"1.2\",\"creator\":")?;
        write_json(&mut out, &Creator { name: "agent-env", version: creator })?;
        out.write_all(b",\"pages\":")?;
        let pages = steps.iter().map(|step| Page {
            started_date_time: date_time(step.started_us),
            id: page_id(step),
            title: &step.name,
            page_timings: PageTimings { on_content_load: -1, on_load: -1 },
        });
        write_json(&mut out, &pages.collect::<Vec<_>>())?;
        out.write_all(b",\"entries\":[")?;
        Ok(Self { out, steps: steps.to_vec(), entries: 0 })
    }

    /// Writes one exchange.
    pub fn entry(&mut self, exchange: Exchange) -> io::Result<()> {
        self.out.write_all(if self.entries == 0 { b"\n" } else { b",\n" })?;
        self.entries += 1;
        self.out.write_all(&entry_json(exchange, &self.steps)?)
    }

    /// How many entries were written.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Writes the end.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(b"\n]}}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Not generic, so that it is this crate's to optimize.
fn entry_json(exchange: Exchange, steps: &[Step]) -> io::Result<Vec<u8>> {
    let mut json = Vec::new();
    write_json(&mut json, &entry(exchange, steps))?;
    Ok(json)
}

/// Writes JSON in which nothing is left that a terminal obeys: the control characters that JSON lets stand are escaped too.
pub(crate) fn write_json(out: impl Write, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Harmless)).map_err(io::Error::from)
}

struct Harmless;

impl Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        // Those that are left are 0x7f, and what UTF-8 begins with 0xc2: most fragments have none of either.
        let mut written = 0;
        for at in memchr2_iter(0x7f, 0xc2, fragment.as_bytes()) {
            let Some(c) = fragment[at..].chars().next().filter(|c| c.is_control()) else { continue };
            out.write_all(&fragment.as_bytes()[written..at])?;
            write!(out, "\\u{:04x}", u32::from(c))?;
            written = at + c.len_utf8();
        }
        out.write_all(&fragment.as_bytes()[written..])
    }
}
