//! Messages with descriptors over `SOCK_SEQPACKET`: one JSON text and at most [`MAX_FDS`] descriptors each.

use std::{
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    },
};
use serde::{Serialize, de::DeserializeOwned};

use crate::environment::{read_all, sealed};

/// Descriptors in one message; the kernel's limit is 253.
pub(crate) const MAX_FDS: usize = 128;
/// Bytes in one message. Longer texts travel in a memory file: a socket buffer holds 208 KiB by default.
const MAX_BYTES: usize = 32 << 10;
/// A text in a memory file at most: a full specification with every mount has a tenth of it.
const MAX_LONG_BYTES: u64 = 4 << 20;

/// What is wrong with something that came over a socket.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The other side has closed.
    #[error("the other side has closed the connection")]
    Closed,
    /// No answer in time.
    #[error("no answer came in time")]
    TimedOut,
    /// The kernel's answer.
    #[error("the socket failed: {0}")]
    Socket(#[source] std::io::Error),
    /// The kernel cut the message or its descriptors (`MSG_TRUNC`, `MSG_CTRUNC`): no descriptor was free here, most likely.
    #[error("the kernel cut a message short; too many open descriptors here?")]
    Truncated,
    /// A message that isn't ours.
    #[error("a message made no sense: {0}")]
    Text(#[source] serde_json::Error),
    /// Another number of descriptors than was asked for.
    #[error("{got} descriptors came instead of {expected}")]
    Count {
        /// How many came.
        got: usize,
        /// How many were asked for.
        expected: usize,
    },
    /// A descriptor that isn't the socket that was asked for.
    #[error("a descriptor came that is not {expected}")]
    NotThatSocket {
        /// What was asked for.
        expected: &'static str,
    },
    /// The other side could not do it.
    #[error("the other side answered: {0}")]
    Refused(#[source] std::io::Error),
}

impl From<Errno> for WireError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::AGAIN => Self::TimedOut,
            Errno::PIPE | Errno::CONNRESET => Self::Closed,
            errno => Self::Socket(errno.into()),
        }
    }
}

/// A pair of connected sockets.
pub(crate) fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends bytes and descriptors as one message.
pub(crate) fn send_bytes(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), WireError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if fds.len() > MAX_FDS || !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(WireError::Count { got: fds.len(), expected: MAX_FDS });
    }
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
    })?;
    Ok(())
}

/// Receives one message into `buffer`: its bytes and its descriptors, all of them or an error.
pub(crate) fn receive_bytes<'b>(
    socket: BorrowedFd<'_>,
    buffer: &'b mut [u8],
) -> Result<(&'b [u8], Vec<OwnedFd>), WireError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    // Not before the descriptors are ours: what came with a cut message is closed by dropping it.
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(WireError::Truncated);
    }
    if received.bytes == 0 {
        return Err(WireError::Closed);
    }
    Ok((&buffer[..received.bytes], fds))
}

/// How the text of a message travels; its first byte.
const INLINE: u8 = b'i';
const LONG: u8 = b'l';

/// Sends a message.
pub(crate) fn send(socket: BorrowedFd<'_>, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> Result<(), WireError> {
    let mut bytes = vec![INLINE];
    serde_json::to_writer(&mut bytes, message).map_err(WireError::Text)?;
    if bytes.len() <= MAX_BYTES {
        return send_bytes(socket, &bytes, fds);
    }
    let text = sealed("message", &bytes[1..]).map_err(WireError::Socket)?;
    let mut all = vec![text.as_fd()];
    all.extend(fds);
    send_bytes(socket, &[LONG], &all)
}

/// Receives a message.
pub(crate) fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> Result<(T, Vec<OwnedFd>), WireError> {
    let mut buffer = vec![0; MAX_BYTES];
    let (bytes, mut fds) = receive_bytes(socket, &mut buffer)?;
    let text = |bytes: &[u8]| serde_json::from_slice(bytes).map_err(WireError::Text);
    if bytes[0] == INLINE {
        return Ok((text(&bytes[1..])?, fds));
    }
    if fds.is_empty() {
        return Err(WireError::Count { got: 0, expected: 1 });
    }
    let file = fds.remove(0);
    let long = rustix::fs::fstat(&file)?.st_size;
    if u64::try_from(long).is_ok_and(|long| long <= MAX_LONG_BYTES) {
        let bytes = read_all(file.as_fd()).map_err(WireError::Socket)?;
        return Ok((text(&bytes)?, fds));
    }
    Err(WireError::Truncated)
}

/// Checks the number of descriptors that came.
pub(crate) fn exactly<const N: usize>(fds: Vec<OwnedFd>) -> Result<[OwnedFd; N], WireError> {
    fds.try_into().map_err(|fds: Vec<OwnedFd>| WireError::Count { got: fds.len(), expected: N })
}

#[cfg(test)]
mod tests;
