//! Files by digest in the object store: `trees/DIGEST` and `artifacts/DIGEST`.

use std::{
    fmt,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use agentenv_protocol::Digest;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use object_store::{ObjectStore, ObjectStoreExt as _, WriteMultipart, local::LocalFileSystem, path::Path as Key};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use crate::StoreError;

/// Size of the pieces that go between the blocking reader or writer and the object store.
const PIECE_BYTES: usize = 1024 * 1024;
/// Pieces in flight: enough to keep both sides busy, 4 MiB at most.
const PIECES_IN_FLIGHT: usize = 4;
/// Parts of one upload that are written at once.
const PARTS_IN_FLIGHT: usize = 4;

/// What a blob is; also its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlobKind {
    Tree,
    Artifact,
}

impl BlobKind {
    pub(crate) const ALL: [Self; 2] = [Self::Tree, Self::Artifact];

    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Tree => "trees",
            Self::Artifact => "artifacts",
        }
    }
}

/// The object store.
#[derive(Clone)]
pub(crate) struct Blobs {
    store: Arc<dyn ObjectStore>,
    root: PathBuf,
}

impl fmt::Debug for Blobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Blobs").field(&self.root).finish()
    }
}

impl Blobs {
    pub(crate) fn open(root: &Path) -> Result<Self, StoreError> {
        let store = LocalFileSystem::new_with_prefix(root).map_err(|error| StoreError::object(root, error))?;
        // A row never names a file that a power cut takes away.
        Ok(Self { store: Arc::new(store.with_fsync(true)), root: root.to_owned() })
    }

    pub(crate) fn path(&self, kind: BlobKind, digest: &Digest) -> PathBuf {
        self.root.join(kind.folder()).join(digest.as_str())
    }

    fn key(kind: BlobKind, digest: &Digest) -> Key {
        Key::from_iter([kind.folder(), digest.as_str()])
    }

    /// The size of a stored blob.
    pub(crate) async fn size(&self, kind: BlobKind, digest: &Digest) -> Result<Option<u64>, StoreError> {
        match self.store.head(&Self::key(kind, digest)).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(StoreError::object(self.path(kind, digest), error)),
        }
    }

    /// Stores what `produce` writes, unless it is there already with that size. What is written must have the digest.
    pub(crate) async fn put<E>(
        &self,
        kind: BlobKind,
        expected: &Measure,
        produce: impl FnOnce(&mut dyn Write) -> Result<(), E> + Send + 'static,
    ) -> Result<bool, StoreError>
    where
        E: Into<StoreError> + Send + 'static,
    {
        if self.size(kind, &expected.digest).await? == Some(expected.size) {
            return Ok(false);
        }
        let path = self.path(kind, &expected.digest);
        let key = Self::key(kind, &expected.digest);
        let upload = self.store.put_multipart(&key).await.map_err(|error| StoreError::object(&path, error))?;
        let mut upload = WriteMultipart::new(upload);
        let (sender, mut receiver) = mpsc::channel(PIECES_IN_FLIGHT);
        let producer = tokio::task::spawn_blocking(move || {
            let mut writer = PieceWriter { sender, buffer: BytesMut::new(), measuring: Measuring::default() };
            produce(&mut writer).map_err(Into::into)?;
            writer.finish()
        });
        let mut written = Ok(());
        while let Some(piece) = receiver.recv().await {
            written = upload.wait_for_capacity(PARTS_IN_FLIGHT).await;
            if written.is_err() {
                break;
            }
            upload.put(piece);
        }
        drop(receiver);
        let produced = producer.await.map_err(|_| StoreError::Cut { path: path.clone() });
        let outcome = match (written, produced) {
            (Err(error), _) => Err(StoreError::object(&path, error)),
            (Ok(()), Err(cut) | Ok(Err(cut))) => Err(cut),
            (Ok(()), Ok(Ok(measure))) if measure != *expected => Err(StoreError::Changed { path: path.clone() }),
            (Ok(()), Ok(Ok(_))) => Ok(()),
        };
        match outcome {
            Ok(()) => {
                upload.finish().await.map_err(|error| StoreError::object(&path, error))?;
                Ok(true)
            }
            Err(error) => {
                // The first error is the one that counts; a staged file that stays is garbage for gc.
                if let Err(abort) = upload.abort().await {
                    tracing::debug!(%abort, path = %path.display(), "a staged file stays until gc");
                }
                Err(error)
            }
        }
    }

    /// Hands the bytes of a blob to `consume` and checks their digest afterwards.
    pub(crate) async fn get<T: Send + 'static>(
        &self,
        kind: BlobKind,
        digest: &Digest,
        consume: impl FnOnce(&mut dyn Read) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Option<T>, StoreError> {
        let path = self.path(kind, digest);
        let mut pieces = match self.store.get(&Self::key(kind, digest)).await {
            Ok(found) => found.into_stream(),
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(StoreError::object(path, error)),
        };
        let (sender, receiver) = mpsc::channel(PIECES_IN_FLIGHT);
        let consumer = tokio::task::spawn_blocking(move || {
            let mut reader = PieceReader { receiver, piece: Bytes::new(), hash: Sha256::new() };
            let value = consume(&mut reader);
            // Also what the consumer left unread, such as padding, is part of the digest.
            io::copy(&mut reader, &mut io::sink()).map(|_| (value, reader.hash.finalize()))
        });
        while let Some(piece) = pieces.next().await {
            let failed = piece.is_err();
            if sender.send(piece.map_err(io::Error::other)).await.is_err() || failed {
                break;
            }
        }
        drop(sender);
        let consumed = consumer.await.map_err(|_| StoreError::Cut { path: path.clone() })?;
        let (value, hash) = consumed.map_err(|error| StoreError::io(&path, error))?;
        // What is made of wrong bytes fails for odd reasons: the wrong bytes are the reason to name.
        if Digest::from_sha256(hash.into()) != *digest {
            return Err(StoreError::Damaged { path });
        }
        value.map(Some)
    }

    /// Every blob of a kind.
    pub(crate) async fn list(&self, kind: BlobKind) -> Result<Vec<(String, u64)>, StoreError> {
        let prefix = Key::from(kind.folder());
        let mut found = Vec::new();
        let mut listing = self.store.list(Some(&prefix));
        while let Some(meta) = listing.next().await {
            let meta = meta.map_err(|error| StoreError::object(&self.root, error))?;
            if let Some(name) = meta.location.filename() {
                found.push((name.to_owned(), meta.size));
            }
        }
        Ok(found)
    }

    pub(crate) async fn delete(&self, kind: BlobKind, name: &str) -> Result<(), StoreError> {
        let key = Key::from_iter([kind.folder(), name]);
        match self.store.delete(&key).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(StoreError::object(self.root.join(kind.folder()).join(name), error)),
        }
    }

    /// The folder of a kind, for what the object store itself does not list: staged files.
    pub(crate) fn folder(&self, kind: BlobKind) -> PathBuf {
        self.root.join(kind.folder())
    }
}

/// Digest and size of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Measure {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
}

/// Measures what is written to it.
#[derive(Default)]
pub(crate) struct Measuring {
    hash: Sha256,
    size: u64,
}

impl Measuring {
    pub(crate) fn finish(self) -> Measure {
        Measure { digest: Digest::from_sha256(self.hash.finalize().into()), size: self.size }
    }
}

impl Write for Measuring {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The blocking side of an upload.
struct PieceWriter {
    sender: mpsc::Sender<Bytes>,
    buffer: BytesMut,
    measuring: Measuring,
}

impl PieceWriter {
    fn send(&mut self) -> io::Result<()> {
        let piece = self.buffer.split().freeze();
        self.sender.blocking_send(piece).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn finish(mut self) -> Result<Measure, StoreError> {
        if !self.buffer.is_empty() {
            // Whoever closed the other side has the reason.
            let _ = self.send();
        }
        Ok(self.measuring.finish())
    }
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.measuring.write_all(bytes)?;
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The blocking side of a download.
struct PieceReader {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
    hash: Sha256,
}

impl Read for PieceReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.receiver.blocking_recv() {
                Some(piece) => self.piece = piece?,
                None => return Ok(0),
            }
        }
        let taken = self.piece.split_to(out.len().min(self.piece.len()));
        out[..taken.len()].copy_from_slice(&taken);
        self.hash.update(&taken);
        Ok(taken.len())
    }
}
