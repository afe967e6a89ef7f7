//! A capture file on its way here.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{HeaderMap, HeaderName, Response, StatusCode, header, request};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::{ClientError, Connection};
use crate::{CAPTURE_STATE_HEADER, CaptureId, CaptureState, PCAP_MEDIA_TYPE};

/// A part of a capture file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureRange {
    /// The first byte.
    pub start: u64,
    /// The byte behind the last one; the file's end where absent.
    pub end: Option<u64>,
    /// Only of a file that still has this entity tag, which changes as a file grows; otherwise the whole file comes.
    pub etag: Option<String>,
}

impl CaptureRange {
    /// From this byte to the file's end: to go on with a download. What is before it never changes.
    pub fn from(start: u64) -> Self {
        Self { start, end: None, etag: None }
    }

    pub(super) fn ask(&self, request: request::Builder) -> request::Builder {
        let last = self.end.map(|end| end.saturating_sub(1).to_string()).unwrap_or_default();
        let request = request.header(header::RANGE, format!("bytes={}-{last}", self.start));
        match &self.etag {
            Some(etag) => request.header(header::IF_RANGE, etag),
            None => request,
        }
    }
}

/// A download that has begun. Dropping it ends it.
#[derive(Debug)]
pub struct CaptureDownload {
    /// Which file.
    pub id: CaptureId,
    /// Bytes that come.
    pub length: u64,
    /// Where in the file they begin: 0, also where a range was asked for and the file's tag was another.
    pub offset: u64,
    /// The file's bytes in all, at this moment.
    pub file_bytes: u64,
    /// The file's entity tag, for [`CaptureRange::etag`]; quotes included.
    pub etag: Option<String>,
    /// Whether the file can still grow.
    pub state: CaptureState,
    received: u64,
    idle: Duration,
    body: Incoming,
    _connection: Connection,
}

impl CaptureDownload {
    /// Begins to read an answer of status 200 or 206; or says what is wrong with it.
    pub(super) fn begin(
        id: &CaptureId,
        range: Option<&CaptureRange>,
        answer: Response<Incoming>,
        connection: Connection,
        idle: Duration,
    ) -> Result<Self, String> {
        let headers = answer.headers();
        if text(headers, header::CONTENT_TYPE) != Some(PCAP_MEDIA_TYPE) {
            return Err("the file is not a capture".to_owned());
        }
        let length = text(headers, header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let length: u64 = length.ok_or("the file's length is not announced")?;
        let (offset, file_bytes) = match (answer.status(), range) {
            (StatusCode::OK, _) => (0, length),
            (_, Some(range)) => {
                let given = text(headers, header::CONTENT_RANGE).and_then(content_range);
                let (start, end, bytes) = given.ok_or("the range that is given is not named")?;
                if start != range.start || range.end.is_some_and(|asked| end > asked) || end - start != length {
                    return Err(format!("bytes {start} to {end} of {bytes} are not the range that was asked for"));
                }
                (start, bytes)
            }
            (_, None) => return Err("a range that nobody asked for".to_owned()),
        };
        let word = text(headers, HeaderName::from_static(CAPTURE_STATE_HEADER));
        let mut states = [CaptureState::Complete, CaptureState::Growing].into_iter();
        let state = states.find(|state| word == Some(state.as_str()));
        let state = state.ok_or("it does not say whether the file is complete")?;
        let etag = text(headers, header::ETAG).map(str::to_owned);
        let (body, id) = (answer.into_body(), id.clone());
        Ok(Self { id, length, offset, file_bytes, etag, state, received: 0, idle, body, _connection: connection })
    }

    /// Bytes that have come.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The next bytes; `None` when all that were announced have come.
    ///
    /// # Errors
    /// [`ClientError::Incomplete`] or [`ClientError::Stalled`]. [`Self::received`] says from where to go on.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        while self.received < self.length {
            match timeout(self.idle, self.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    let Ok(bytes) = frame.into_data() else { continue };
                    self.received += bytes.len() as u64;
                    if !bytes.is_empty() {
                        return Ok(Some(bytes));
                    }
                }
                Ok(Some(Err(error))) => return Err(self.incomplete(Some(error))),
                Ok(None) => return Err(self.incomplete(None)),
                Err(_) => {
                    let (id, received, length) = (self.id.clone(), self.received, self.length);
                    return Err(ClientError::Stalled { id, received, length, after: self.idle });
                }
            }
        }
        Ok(None)
    }

    /// The bytes as a stream, which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, ClientError>> + Send + Unpin + 'static {
        Box::pin(stream::try_unfold(self, async |mut download| {
            Ok(download.chunk().await?.map(|bytes| (bytes, download)))
        }))
    }

    fn incomplete(&self, source: Option<hyper::Error>) -> ClientError {
        let (id, received, length) = (self.id.clone(), self.received, self.length);
        ClientError::Incomplete { id, received, length, source }
    }
}

/// What a 416 says.
pub(super) fn beyond(id: &CaptureId, headers: &HeaderMap) -> ClientError {
    let bytes = text(headers, header::CONTENT_RANGE).and_then(|range| range.strip_prefix("bytes */")?.parse().ok());
    ClientError::RangeBeyond { id: id.clone(), bytes }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// `bytes FIRST-LAST/ALL` as start, end and all.
fn content_range(text: &str) -> Option<(u64, u64, u64)> {
    let (range, all) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (start, end, all) = (first.parse().ok()?, last.parse::<u64>().ok()?.checked_add(1)?, all.parse().ok()?);
    (start < end && end <= all).then_some((start, end, all))
}
