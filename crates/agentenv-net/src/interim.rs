//! A limit on interim answers (1xx). hyper skips as many as come without a pause, so that a site that sends them without
//! end keeps a thread of the runtime, and with it other sites, from going on.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use http::Request;
use tokio::io::{AsyncRead, ReadBuf};

use crate::limits::INTERIM_ANSWERS;

/// The interim answers to the request that is under way on a connection.
#[derive(Clone, Default)]
pub(crate) struct Interim(Arc<AtomicUsize>);

impl Interim {
    /// Counts those to this request, from the first.
    pub(crate) fn count<B>(&self, request: &mut Request<B>) {
        let seen = self.0.clone();
        seen.store(0, Ordering::Relaxed);
        hyper::ext::on_informational(request, move |_| {
            seen.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// A connection that ends when there are too many.
    pub(crate) fn limit<T>(&self, io: T) -> Limited<T> {
        Limited { io, seen: self.clone() }
    }
}

/// See [`Interim::limit`].
pub(crate) struct Limited<T> {
    io: T,
    seen: Interim,
}

impl<T: AsyncRead + Unpin> AsyncRead for Limited<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.seen.0.load(Ordering::Relaxed) > INTERIM_ANSWERS {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "interim answers without end")));
        }
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

crate::write_through::write_through!(Limited);
