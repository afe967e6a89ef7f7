//! Bodies that stream both ways.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

/// Why a body ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the peer's body failed: {0}")]
    Peer(#[from] hyper::Error),
    #[error("the body came too slowly")]
    Slow,
    #[error("the file can't be read: {0}")]
    File(std::io::Error),
}

pub(crate) type Body = UnsyncBoxBody<Bytes, BodyError>;

/// A body that is all there.
pub(crate) fn full(data: impl Into<Bytes>) -> Body {
    Full::new(data.into()).map_err(|never| match never {}).boxed_unsync()
}

pub(crate) fn empty() -> Body {
    full(Bytes::new())
}

/// When a request last made progress, and whether its body broke: the wait for the answer begins then.
#[derive(Clone)]
pub(crate) struct Progress(Arc<Mutex<(Instant, Option<String>)>>);

impl Progress {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new((Instant::now(), None))))
    }

    fn last(&self) -> Instant {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits for the answer, as long as the request makes progress and then for the limit; `None` where that is over.
    pub(crate) async fn in_time<T>(&self, limit: Duration, answer: impl Future<Output = T>) -> Option<T> {
        let mut answer = std::pin::pin!(answer);
        loop {
            if let Ok(answer) = tokio::time::timeout_at(self.last() + limit, answer.as_mut()).await {
                return Some(answer);
            }
            if self.last() + limit <= Instant::now() {
                return None;
            }
        }
    }

    /// Why the client's body broke, where it did.
    pub(crate) fn broken(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    fn mark(&self, broken: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), broken);
    }
}

/// A client's body on its way to a site: without trailers (row 10), each piece within a limit of time.
pub(crate) struct RequestBody {
    inner: Incoming,
    progress: Progress,
    wait: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl RequestBody {
    pub(crate) fn new(inner: Incoming, progress: Progress, wait: Duration) -> Self {
        Self { inner, progress, wait, timer: None }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            match Pin::new(&mut self.inner).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.progress.mark(None);
                    self.timer = None;
                    if frame.is_data() {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.progress.mark(Some(error.to_string()));
                    return Poll::Ready(Some(Err(error.into())));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    let wait = self.wait;
                    let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
                    ready!(timer.as_mut().poll(cx));
                    self.progress.mark(Some(BodyError::Slow.to_string()));
                    return Poll::Ready(Some(Err(BodyError::Slow)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A site's body on its way to a client: without trailers. `done` runs once it was taken to its end.
pub(crate) struct AnswerBody<F: FnOnce() + Unpin> {
    inner: Incoming,
    done: Option<F>,
}

impl<F: FnOnce() + Unpin> AnswerBody<F> {
    pub(crate) fn new(inner: Incoming, done: F) -> Self {
        Self { inner, done: Some(done) }
    }

    fn finish(&mut self) {
        if let Some(done) = self.done.take() {
            done();
        }
    }
}

impl<F: FnOnce() + Unpin> HttpBody for AnswerBody<F> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(Ok(frame)) if frame.is_data() => return Poll::Ready(Some(Ok(frame))),
                Some(Ok(_trailers)) => {}
                Some(Err(error)) => {
                    self.done = None;
                    return Poll::Ready(Some(Err(error.into())));
                }
                None => {
                    self.finish();
                    return Poll::Ready(None);
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<F: FnOnce() + Unpin> Drop for AnswerBody<F> {
    fn drop(&mut self) {
        // A body that is known to be over is often not asked for its end.
        if self.inner.is_end_stream() {
            self.finish();
        }
    }
}
