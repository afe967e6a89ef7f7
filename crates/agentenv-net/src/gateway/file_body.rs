//! A part of a file as a body, read beside the async runtime.

use std::{
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::{sync::OwnedSemaphorePermit, task::JoinHandle};

use crate::{
    body::{Body, BodyError},
    limits::CAPTURE_CHUNK_BYTES,
};

/// The bytes of a file within a range. One chunk is read ahead of what the client takes, so a client that takes nothing costs
/// two chunks, a descriptor and a place, and no thread (row 66).
pub(super) struct FileBody {
    file: Arc<File>,
    left: Range<u64>,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    _place: OwnedSemaphorePermit,
}

impl FileBody {
    pub(super) fn new(file: File, range: Range<u64>, place: OwnedSemaphorePermit) -> Self {
        let mut body = Self { file: Arc::new(file), left: range, reading: None, _place: place };
        body.read_on();
        body
    }

    pub(super) fn boxed(self) -> Body {
        self.boxed_unsync()
    }

    /// Begins to read the next chunk, if there is one.
    fn read_on(&mut self) {
        self.reading = (!self.left.is_empty()).then(|| {
            let (file, at) = (self.file.clone(), self.left.start);
            let length = (self.left.end - at).min(CAPTURE_CHUNK_BYTES);
            tokio::task::spawn_blocking(move || chunk(&file, at, length))
        });
    }
}

/// Reads exactly so many bytes: it is an error that a file is shorter than it was said to be.
fn chunk(file: &File, at: u64, length: u64) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes.into())
}

impl HttpBody for FileBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(reading) = &mut self.reading else { return Poll::Ready(None) };
        let read = ready!(Pin::new(reading).poll(cx)).unwrap_or_else(|panic| Err(io::Error::other(panic)));
        self.reading = None;
        match read {
            Ok(bytes) => {
                self.left.start += bytes.len() as u64;
                self.read_on();
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Err(error) => {
                tracing::warn!(%error, "a capture can't be read on");
                self.left = 0..0;
                Poll::Ready(Some(Err(BodyError::File(error))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.end - self.left.start)
    }
}
