//! Bounded logs of services: what they print is masked, cut and kept in two files that take turns.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::unix::pipe,
};

use crate::mask::Mask;

/// A log file's size before the other one's turn: enough for an afternoon's access log, small beside a deploy's memory.
const FILE_LIMIT: u64 = 1 << 20;
/// A longer line is cut, so that one endless line grows nothing.
const LINE_LIMIT: u64 = 8 << 10;
/// How many last lines an error shows.
const LAST_LINES: usize = 12;

/// One service's log.
#[derive(Clone)]
pub(crate) struct ServiceLog(Arc<Inner>);

struct Inner {
    path: PathBuf,
    mask: Mask,
    state: Mutex<State>,
}

struct State {
    file: Option<File>,
    written: u64,
    last: VecDeque<String>,
}

impl ServiceLog {
    /// Makes the log `NAME.log` in the folder; nothing that the mask hides will be in it.
    pub(crate) fn new(folder: &Path, name: &str, mask: Mask) -> Self {
        let path = folder.join(format!("{}.log", name.replace('/', ".")));
        Self(Arc::new(Inner { path, mask, state: Mutex::new(State { file: None, written: 0, last: VecDeque::new() }) }))
    }

    /// Follows a pipe until its end.
    pub(crate) fn follow(&self, pipe: OwnedFd) -> io::Result<()> {
        let mut reader = BufReader::new(pipe::Receiver::from_owned_fd(pipe)?);
        let log = self.clone();
        tokio::spawn(async move {
            let mut line = Vec::new();
            loop {
                let ended = matches!((&mut reader).take(LINE_LIMIT).read_until(b'\n', &mut line).await, Ok(0) | Err(_));
                let whole = ended || line.ends_with(b"\n");
                // The rest of a line that goes on comes with what follows: a secret may be cut in two.
                let at = if whole { line.len() } else { log.0.mask.cut(&line) };
                if at > 0 {
                    log.write(&String::from_utf8_lossy(&line[..at]));
                }
                line.drain(..at);
                if ended {
                    return;
                }
            }
        });
        Ok(())
    }

    /// Writes a line.
    pub(crate) fn write(&self, line: &str) {
        let line = harmless(&self.0.mask.text(line.trim_end_matches(['\n', '\r'])));
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.len() == LAST_LINES {
            state.last.pop_front();
        }
        state.last.push_back(line.clone());
        // A full disk costs log lines, never the deploy.
        if let Err(error) = self.append(&mut state, &line) {
            tracing::debug!(%error, path = %self.0.path.display(), "log line lost");
        }
    }

    fn append(&self, state: &mut State, line: &str) -> io::Result<()> {
        if state.written >= FILE_LIMIT {
            std::fs::rename(&self.0.path, self.0.path.with_extension("log.1"))?;
            *state = State { file: None, written: 0, last: std::mem::take(&mut state.last) };
        }
        let file = match &mut state.file {
            Some(file) => file,
            None => state.file.insert(File::options().create(true).append(true).open(&self.0.path)?),
        };
        file.write_all(format!("{line}\n").as_bytes())?;
        state.written += line.len() as u64 + 1;
        Ok(())
    }

    /// The last lines.
    pub(crate) fn last(&self) -> Vec<String> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).last.iter().cloned().collect()
    }
}

/// The text with its control characters made visible: what a service prints is shown on terminals, which obey them.
fn harmless(text: &str) -> String {
    /// Where Unicode has pictures of the first 32 of them.
    const PICTURES: u32 = 0x2400;
    let shown = |c: char| match c {
        '\t' => c,
        '\u{7f}' => '\u{2421}',
        c if c < ' ' => char::from_u32(PICTURES + u32::from(c)).unwrap_or(char::REPLACEMENT_CHARACTER),
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(shown).collect()
}

/// Takes lines of `tracing`, which writes each whole.
impl io::Write for ServiceLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        String::from_utf8_lossy(bytes).lines().for_each(|line| ServiceLog::write(self, line));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_58_secrets_are_masked() {
        let folder = tempfile::tempdir().unwrap();
        let log = ServiceLog::new(folder.path(), "shop/server", Mask::of(["hunter2".into(), String::new().into()]));
        log.write("password hunter2, again hunter2\n");
        assert_eq!(log.last(), ["password …, again …"]);
        assert_eq!(std::fs::read_to_string(folder.path().join("shop.server.log")).unwrap(), "password …, again …\n");
    }

    #[test]
    fn a_service_commands_no_terminal() {
        let folder = tempfile::tempdir().unwrap();
        let log = ServiceLog::new(folder.path(), "shop/server", Mask::default());
        log.write("\u{1b}]0;title\u{7}\t\u{1b}[2J\rredrawn\u{9b}31m\u{7f} größe\r\n");
        assert_eq!(log.last(), ["␛]0;title␇\t␛[2J␍redrawn\u{fffd}31m␡ größe"]);
        let written = std::fs::read_to_string(folder.path().join("shop.server.log")).unwrap();
        assert_eq!(written, format!("{}\n", log.last()[0]));
    }

    #[tokio::test]
    async fn row_61_a_line_without_end_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let log = ServiceLog::new(folder.path(), "shop/server", Mask::of([]));
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        log.follow(reader).unwrap();
        let lines = 3;
        let bytes = vec![b'x'; usize::try_from(LINE_LIMIT).unwrap() * lines];
        assert_eq!(rustix::io::write(&writer, &bytes).unwrap(), bytes.len(), "it fits a pipe");
        // The pipe stays open: whoever writes is not done.
        let written = async {
            while log.last().len() < lines {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(10), written).await.expect("no end is waited for");
        assert!(log.last().iter().all(|line| line.len() as u64 == LINE_LIMIT));
        drop(writer);
    }

    #[test]
    fn row_61_a_log_never_grows_past_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let log = ServiceLog::new(folder.path(), "shop/server", Mask::default());
        let line = "x".repeat(8000);
        for _ in 0..600 {
            log.write(&line);
        }
        let sizes: Vec<u64> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
        assert_eq!(sizes.len(), 2);
        assert!(sizes.iter().all(|size| *size <= FILE_LIMIT + 8001), "{sizes:?}");
        assert_eq!(log.last().len(), LAST_LINES);
    }
}
