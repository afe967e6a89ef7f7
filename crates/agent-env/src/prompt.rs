//! A question on a terminal whose answer is not shown.

use std::io::{self, IsTerminal as _, Write as _};

use rustix::{
    stdio::stdin,
    termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr},
};

/// What ^C, ^D and backspace are while the terminal hands over bytes.
const INTERRUPT: u8 = 3;
const END: u8 = 4;
const ERASE: [u8; 2] = [8, 127];

/// Whether somebody sits there to answer.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal()
}

/// Puts the terminal back as it was, however the question ends.
struct Quiet(Termios);

impl Quiet {
    fn enter() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut quiet = before.clone();
        // Not ISIG either: a ^C that killed this process would leave the terminal mute.
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(stdin(), OptionalActions::Flush, &self.0);
    }
}

/// Asks, and reads one line of at most `limit` bytes without showing it.
pub(crate) fn hidden(question: &str, limit: usize) -> io::Result<Vec<u8>> {
    let quiet = Quiet::enter()?;
    let mut errors = io::stderr().lock();
    write!(errors, "{question}: ")?;
    errors.flush()?;
    let mut answer = Vec::with_capacity(limit);
    let ended = loop {
        let mut byte = [0];
        match rustix::io::read(stdin(), &mut byte) {
            Ok(0) => break Ok(()),
            Ok(_) => match byte[0] {
                b'\n' | b'\r' | END => break Ok(()),
                INTERRUPT => break Err(io::ErrorKind::Interrupted.into()),
                erase if ERASE.contains(&erase) => {
                    // A whole character of UTF-8.
                    while answer.pop().is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {}
                }
                byte if answer.len() <= limit => answer.push(byte),
                _ => {}
            },
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => break Err(error.into()),
        }
    };
    drop(quiet);
    writeln!(errors)?;
    ended.map(|()| answer)
}
