//! Bytes passed on both ways, untouched.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

use crate::limits::TUNNEL_COPY_BYTES;

/// Passes bytes on until both sides have ended, one has failed, or nothing came from either for so long.
pub(crate) async fn relay<A, B>(a: A, b: B, idle: Duration) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let began = Instant::now();
    let last = Arc::new(AtomicU64::new(0));
    let mut a = Watched { io: a, began, last: last.clone() };
    let mut b = Watched { io: b, began, last: last.clone() };
    let both = tokio::io::copy_bidirectional_with_sizes(&mut a, &mut b, TUNNEL_COPY_BYTES, TUNNEL_COPY_BYTES);
    let silent = async {
        loop {
            let until = began + Duration::from_millis(last.load(Ordering::Relaxed)) + idle;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    };
    tokio::select! {
        ended = both => ended.map(drop),
        () = silent => Err(io::Error::new(io::ErrorKind::TimedOut, "nothing was sent for too long")),
    }
}

/// A stream that notes when something last came from it.
struct Watched<T> {
    io: T,
    began: Instant,
    /// Milliseconds after `began`.
    last: Arc<AtomicU64>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if read.is_ready() {
            let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.last.store(now, Ordering::Relaxed);
        }
        read
    }
}

crate::write_through::write_through!(Watched);

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn row_65_a_silent_relay_ends_and_a_speaking_one_goes_on() {
        let (mut client, a) = tokio::io::duplex(64);
        let (b, mut server) = tokio::io::duplex(64);
        let idle = Duration::from_secs(1);
        let relaying = tokio::spawn(relay(a, b, idle));
        let began = Instant::now();
        while began.elapsed() < idle * 2 {
            client.write_all(b"x").await.unwrap();
            assert_eq!(server.read_u8().await.unwrap(), b'x');
        }
        let silent = Instant::now();
        assert_eq!(relaying.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(silent.elapsed() >= idle - Duration::from_millis(5), "{:?}", silent.elapsed());
    }
}
