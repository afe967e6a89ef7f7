//! Content codings, undone while the bytes come.

use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

use crate::limits;

/// Bytes of brotli's output that are passed on at a time.
const BROTLI_BUFFER: usize = 8192;

/// Where decoded bytes go: counted, and the first of them kept.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) bytes: u64,
    pub(crate) kept: Vec<u8>,
    pub(crate) keep: usize,
    /// Bytes that may still come.
    pub(crate) left: u64,
    pub(crate) over: bool,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len() as u64;
        if length > self.left {
            self.over = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.left -= length;
        self.bytes += length;
        let room = self.keep.saturating_sub(self.kept.len()).min(bytes.len());
        self.kept.extend_from_slice(&bytes[..room]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A decoder that is fed.
pub(crate) enum Decoder {
    Identity(Sink),
    Gzip(Box<MultiGzDecoder<Sink>>),
    /// `deflate` means zlib's format, and some servers send it without: the first two bytes tell.
    Deflate(Sink, Vec<u8>),
    Zlib(Box<ZlibDecoder<Sink>>),
    RawDeflate(Box<DeflateDecoder<Sink>>),
    Brotli(Box<DecompressorWriter<Sink>>),
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoder")
    }
}

/// A content coding that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    Deflate,
    Brotli,
}

impl Coding {
    /// What a `Content-Encoding` names; `None` for one that is not known, or several of them.
    pub(crate) fn parse(value: Option<&str>) -> Option<Self> {
        match value.unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Some(Self::Identity),
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "deflate" => Some(Self::Deflate),
            "br" => Some(Self::Brotli),
            _ => None,
        }
    }

    /// What its decoder takes of memory.
    pub(crate) fn memory(self) -> usize {
        match self {
            Self::Identity => 0,
            Self::Gzip | Self::Deflate => limits::INFLATE_MEMORY,
            Self::Brotli => limits::BROTLI_MEMORY,
        }
    }
}

impl Decoder {
    pub(crate) fn new(coding: Coding, sink: Sink) -> Self {
        match coding {
            Coding::Identity => Self::Identity(sink),
            Coding::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(sink))),
            Coding::Deflate => Self::Deflate(sink, Vec::new()),
            Coding::Brotli => Self::Brotli(Box::new(DecompressorWriter::new(sink, BROTLI_BUFFER))),
        }
    }

    /// Takes encoded bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Identity(sink) => sink.write_all(bytes),
            Self::Gzip(decoder) => decoder.write_all(bytes),
            Self::Zlib(decoder) => decoder.write_all(bytes),
            Self::RawDeflate(decoder) => decoder.write_all(bytes),
            Self::Brotli(decoder) => decoder.write_all(bytes),
            Self::Deflate(sink, first) => {
                first.extend_from_slice(bytes);
                let [a, b, ..] = first[..] else { return Ok(()) };
                let (sink, first) = (std::mem::take(sink), std::mem::take(first));
                let zlib = a & 0x0f == 8 && u16::from_be_bytes([a, b]).is_multiple_of(31);
                *self = if zlib {
                    Self::Zlib(Box::new(ZlibDecoder::new(sink)))
                } else {
                    Self::RawDeflate(Box::new(DeflateDecoder::new(sink)))
                };
                self.write(&first)
            }
        }
    }

    /// Passes on what is still inside; an error where the encoded bytes aren't whole.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Identity(_) => Ok(()),
            Self::Gzip(decoder) => decoder.try_finish(),
            Self::Zlib(decoder) => decoder.try_finish(),
            Self::RawDeflate(decoder) => decoder.try_finish(),
            Self::Brotli(decoder) => decoder.close(),
            Self::Deflate(_, first) if first.is_empty() => Ok(()),
            Self::Deflate(..) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    pub(crate) fn sink(&mut self) -> &mut Sink {
        match self {
            Self::Identity(sink) | Self::Deflate(sink, _) => sink,
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Zlib(decoder) => decoder.get_mut(),
            Self::RawDeflate(decoder) => decoder.get_mut(),
            Self::Brotli(decoder) => decoder.get_mut(),
        }
    }
}
