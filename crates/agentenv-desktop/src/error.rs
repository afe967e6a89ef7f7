//! What can go wrong with a desktop.

use agentenv_protocol::ComputerErrorKind;
use x11rb::errors::{ConnectError, ConnectionError, ReplyError};

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum DesktopError {
    /// A place that is not on the screen.
    #[error("{what} is outside the screen of {width}x{height}")]
    OutOfBounds {
        /// What was given.
        what: String,
        /// The screen's width.
        width: u16,
        /// The screen's height.
        height: u16,
    },
    /// A name that is no key's.
    #[error("there is no key `{0}`")]
    UnknownKey(String),
    /// More than is taken.
    #[error("{what}: {given} is more than {limit}")]
    TooMuch {
        /// What.
        what: &'static str,
        /// How much was given.
        given: String,
        /// How much is taken.
        limit: String,
    },
    /// The keyboard has no key left that a character can be put on.
    #[error("the keyboard has no free key")]
    NoFreeKey,
    /// The X server refused the connection.
    #[error("the X server can't be connected to: {0}")]
    Connect(#[from] ConnectError),
    /// The connection ended.
    #[error("the connection to the X server ended: {0}")]
    Connection(#[from] ConnectionError),
    /// The X server refused a request, or the connection ended.
    #[error("the X server refused: {0}")]
    Reply(#[from] ReplyError),
    /// The stream can't be used.
    #[error("the stream to the X server: {0}")]
    Stream(#[from] std::io::Error),
    /// The server's pictures are of a kind that no server of ours has.
    #[error("the screen has {depth} bits a pixel in {bits}, expected 24 in 32")]
    PixelFormat {
        /// Bits that mean something.
        depth: u8,
        /// Bits that a pixel takes.
        bits: u8,
    },
    /// A picture can't be written.
    #[error("the picture can't be written: {0}")]
    Png(#[from] png::EncodingError),
    /// The server sent fewer pixels than it said.
    #[error("the picture is shorter than it should be")]
    ShortPicture,
}

impl DesktopError {
    /// The kind that agents are told.
    pub fn kind(&self) -> ComputerErrorKind {
        match self {
            Self::OutOfBounds { .. } => ComputerErrorKind::OutOfBounds,
            Self::UnknownKey(_) => ComputerErrorKind::UnknownKey,
            Self::TooMuch { .. } => ComputerErrorKind::TooMuch,
            _ => ComputerErrorKind::Away,
        }
    }
}
