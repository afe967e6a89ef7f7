//! What a program writes: kept on disk within a bound, and heard line by line.

use std::{collections::VecDeque, fs, io, io::Write as _, path::Path};

/// What is kept of the beginning of a stream.
const HEAD_BYTES: usize = 16 << 20;
/// What is kept of its end, where it is longer: the error is at the end.
const TAIL_BYTES: usize = 1 << 20;
/// The longest line that listeners hear.
const LINE_BYTES: usize = 4096;

/// A stream on disk: its beginning at once, its end when it is over.
pub(crate) struct OutputFile {
    file: fs::File,
    head: usize,
    tail: VecDeque<u8>,
    left_out: usize,
    failed: Option<io::Error>,
}

impl OutputFile {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = fs::File::create(path)?;
        Ok(Self { file, head: 0, tail: VecDeque::new(), left_out: 0, failed: None })
    }

    /// Keeps bytes. A disk error is remembered: the stream must be read on, or the program would hang.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let (head, tail) = bytes.split_at(bytes.len().min(HEAD_BYTES - self.head));
        if self.failed.is_none() {
            self.failed = self.file.write_all(head).err();
        }
        self.head += head.len();
        self.tail.extend(tail);
        let over = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..over);
        self.left_out += over;
    }

    /// Writes the end.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.left_out > 0 {
            write!(self.file, "\n[... {} bytes left out ...]\n", self.left_out)?;
        }
        let (front, back) = self.tail.as_slices();
        self.file.write_all(front)?;
        self.file.write_all(back)
    }
}

/// Cuts a stream into lines that are safe to show: no control characters, bounded.
#[derive(Default)]
pub(crate) struct Lines {
    line: Vec<u8>,
    cut: bool,
}

impl Lines {
    pub(crate) fn feed(&mut self, bytes: &[u8], line: &mut impl FnMut(String)) {
        for &byte in bytes {
            match byte {
                b'\n' => self.emit(line),
                _ if self.line.len() < LINE_BYTES => self.line.push(byte),
                _ => self.cut = true,
            }
        }
    }

    pub(crate) fn finish(mut self, line: &mut impl FnMut(String)) {
        if !self.line.is_empty() {
            self.emit(line);
        }
    }

    fn emit(&mut self, line: &mut impl FnMut(String)) {
        let text = String::from_utf8_lossy(&self.line);
        // Escape sequences of a page or a model must not reach the terminal.
        let mut clean: String = text.chars().filter(|c| !c.is_control() || *c == '\t').collect();
        if std::mem::take(&mut self.cut) {
            clean.push_str("...");
        }
        self.line.clear();
        line(clean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_stream_keeps_its_beginning_and_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let mut file = OutputFile::create(&path).unwrap();
        file.write(b"first");
        for _ in 0..18 {
            file.write(&vec![b'-'; 1 << 20]);
        }
        file.write(b"last");
        file.finish().unwrap();
        let kept = fs::read(&path).unwrap();
        assert!(kept.starts_with(b"first") && kept.ends_with(b"last"));
        assert!(kept.len() < HEAD_BYTES + TAIL_BYTES + 64, "{}", kept.len());
        assert!(String::from_utf8_lossy(&kept).contains("[... 1048585 bytes left out ...]"));
    }

    #[test]
    fn lines_are_cut_and_cleaned() {
        let mut heard = Vec::new();
        let mut lines = Lines::default();
        let mut line = |text| heard.push(text);
        lines.feed(b"a\r\n\x1b[31mred\x1b[0m\n", &mut line);
        lines.feed(&[b'x'; LINE_BYTES + 5], &mut line);
        lines.feed(b"\n\xff", &mut line);
        lines.finish(&mut line);
        assert_eq!(heard[0], "a");
        assert_eq!(heard[1], "[31mred[0m");
        assert_eq!(heard[2].len(), LINE_BYTES + 3);
        assert_eq!(heard[3], "\u{fffd}");
    }
}
