//! Picture, mouse and keyboard of a computer, over X11's own protocol and extensions (BR-3).
//!
//! A [`Desktop`] is one connection to an X server, over a stream that somebody else made: a placed socket of the computer's sandbox.
//! Everything here blocks; the caller bounds the time, and ends what takes too long with the stream's `shutdown`, which every call
//! then answers with an error. What is inside the sandbox may be hostile: nothing that it says is trusted to be short or well formed.

mod desktop;
mod error;
mod keyboard;
mod keys;
mod picture;

pub use desktop::{Desktop, Drawn};
pub use error::DesktopError;
pub use picture::Scale;
