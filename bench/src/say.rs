//! One line on standard output; a reader that is gone is no failure.

macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, $($text)*).and_then(|()| out.flush());
    }};
}
pub(crate) use say;
