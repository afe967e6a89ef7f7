//! `traffic flows`

use std::{
    io::{self, BufWriter, Write},
    mem,
};

use agentenv_protocol::{Home, control::ControlError};
use agentenv_traffic::Row;
use clap::Args;

use super::read::{ReadArgs, Reading, ended};
use crate::{
    output::{Output, word},
    progress,
};

/// Rows whose widths are found together: those of the first make the columns, later ones only widen them.
const BLOCK: usize = 500;
/// Characters of a URL that are shown; `--json` has the whole.
const URL_WIDTH: usize = 100;
/// Characters of any other cell.
const CELL_WIDTH: usize = 40;

const HEAD: [&str; 12] =
    ["TIME", "STEP", "SITE", "CLIENT", "SERVICE", "METHOD", "URL", "STATUS", "SENT", "RECEIVED", "MS", ""];
/// The columns of numbers, which are set to the right.
const NUMBERS: [usize; 3] = [8, 9, 10];

/// Arguments of `traffic flows`.
#[derive(Args, Debug)]
pub(crate) struct FlowsArgs {
    #[command(flatten)]
    read: ReadArgs,
}

/// `traffic flows`
pub(super) async fn flows(home: &Home, output: Output, args: &FlowsArgs) -> Result<(), ControlError> {
    let reading = Reading::open(home, output, &args.read).await?;
    let table = Table::new(BufWriter::new(io::stdout()));
    let (table, notes) = reading
        .each(None, table, move |table, record, steps| match Row::of(&record, steps) {
            None => Ok(()),
            Some(row) if output.json => row.to_json().and_then(|json| table.line(&json)),
            Some(row) => table.row(cells(&row)),
        })
        .await?;
    ended(table.finish(output.json))?;
    notes.iter().for_each(|note| progress::note(output, note));
    Ok(())
}

/// A table that is printed while its rows come.
struct Table<W: Write> {
    out: W,
    block: Vec<[String; 12]>,
    widths: [usize; 12],
    printed: bool,
}

impl<W: Write> Table<W> {
    fn new(out: W) -> Self {
        let widths = HEAD.map(str::len);
        Self { out, block: Vec::new(), widths, printed: false }
    }

    fn row(&mut self, cells: [String; 12]) -> io::Result<()> {
        self.block.push(cells);
        if self.block.len() < BLOCK { Ok(()) } else { self.print() }
    }

    /// A line that is none of the table's.
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        self.out.write_all(line)?;
        self.out.write_all(b"\n")
    }

    fn print(&mut self) -> io::Result<()> {
        let mut rows = mem::take(&mut self.block);
        if !mem::replace(&mut self.printed, true) {
            rows.insert(0, HEAD.map(str::to_owned));
        }
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        for row in rows {
            let cells = row.iter().zip(self.widths).enumerate().map(|(column, (cell, width))| {
                if NUMBERS.contains(&column) { format!("{cell:>width$}") } else { format!("{cell:width$}") }
            });
            writeln!(self.out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }

    fn finish(mut self, json: bool) -> io::Result<()> {
        if self.block.is_empty() && !self.printed && !json {
            writeln!(self.out, "nothing was captured")?;
        } else if !self.block.is_empty() {
            self.print()?;
        }
        self.out.flush()
    }
}

fn cells(row: &Row) -> [String; 12] {
    let text = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), |text| cell(text, CELL_WIDTH));
    let url = row.url.as_ref().or(row.sni.as_ref()).map_or(row.server_address.as_str(), String::as_str);
    let flags: Vec<String> = row.flags.iter().map(word).collect();
    [
        // The time of day: `2026-11-29T18:30:00.123456Z` without the rest.
        row.time.get(11..23).unwrap_or(&row.time).to_owned(),
        text(&row.step),
        row.site.clone(),
        row.client.clone(),
        row.service.clone(),
        row.method.as_ref().map_or_else(|| cell(&row.protocol, CELL_WIDTH), |method| cell(method, CELL_WIDTH)),
        cell(url, URL_WIDTH),
        row.status.map_or_else(|| "-".to_owned(), |status| status.to_string()),
        row.request_bytes.to_string(),
        row.response_bytes.to_string(),
        format!("{:.1}", row.duration_ms),
        flags.join(" "),
    ]
}

/// Text of a site as a cell: in one line, without what a terminal obeys or is turned around by, and not longer than that.
fn cell(text: &str, width: usize) -> String {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let harmless = |c: char| if c.is_control() || turns(c) { char::REPLACEMENT_CHARACTER } else { c };
    let mut shown: String = text.chars().take(width).map(harmless).collect();
    if text.chars().nth(width).is_some() {
        shown.pop();
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_harmless_line() {
        assert_eq!(cell("/a?b=é", 100), "/a?b=é");
        assert_eq!(cell("\u{1b}[2J\n\t\u{9b}\u{202e}x", 100), "\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}\u{fffd}x");
        assert_eq!((cell("abcd", 3), cell("abc", 3)), ("ab…".to_owned(), "abc".to_owned()));
    }

    #[test]
    fn a_table_is_printed_in_blocks_that_keep_their_columns() {
        let row = |url: &str| {
            let mut cells = [(); 12].map(|()| "x".to_owned());
            cells[6] = url.to_owned();
            cells
        };
        let mut table = Table::new(Vec::new());
        for number in 0..=BLOCK {
            table.row(row(if number == 3 { "/long" } else { "/" })).unwrap();
        }
        table.print().unwrap();
        let text = String::from_utf8(table.out.clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), BLOCK + 2);
        assert_eq!(lines[0], "TIME  STEP  SITE  CLIENT  SERVICE  METHOD  URL    STATUS  SENT  RECEIVED  MS");
        assert_eq!(lines[1], "x     x     x     x       x        x       /      x          x         x   x  x");
        assert_eq!(lines[1], lines[BLOCK + 1]);
    }

    #[test]
    fn an_empty_table_says_so() {
        let mut out = Vec::new();
        Table::new(&mut out).finish(false).unwrap();
        assert_eq!(out, b"nothing was captured\n");
        let mut out = Vec::new();
        Table::new(&mut out).finish(true).unwrap();
        assert!(out.is_empty());
    }
}
