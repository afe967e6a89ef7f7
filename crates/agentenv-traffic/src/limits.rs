//! What reading a ring may take, whatever is in it: hostile sites have a say in every packet.

/// Bytes of one read of a capture file, and so the longest record that is read: a packet of 262,144 bytes and room to spare.
pub(crate) const READ_BYTES: usize = 1 << 20;

/// Bytes that a ring's reader may hold of packets and messages that aren't over yet, all connections together.
pub(crate) const BUFFERED_BYTES: usize = 128 << 20;

/// Bytes that one TCP connection may hold while a missing segment may still come: more than the largest default receive window.
pub(crate) const HELD_BYTES: usize = 8 << 20;

/// What a held segment takes beside its bytes.
pub(crate) const HELD_OVERHEAD: usize = 128;

/// Connections and flows that are followed at a time. The longest idle ones are ended when there are more.
pub(crate) const CONNECTIONS: usize = 16_384;

/// A missing segment is lost once this many further packets of its connection came after its receiver acknowledged it: a capture
/// that saw it out of order would have shown it by then.
pub(crate) const LOST_AFTER_PACKETS: u64 = 200;

/// Or once that much time went by, in microseconds.
pub(crate) const LOST_AFTER_US: u64 = 1_000_000;

/// The same for a segment that nobody has acknowledged: the sender is still repeating it.
pub(crate) const UNACKNOWLEDGED_AFTER_PACKETS: u64 = 10_000;

/// Longer than the kernel's longest first repetitions.
pub(crate) const UNACKNOWLEDGED_AFTER_US: u64 = 60_000_000;

/// Packets of a connection that began before the capture, until its first byte is taken to be the lowest seen.
pub(crate) const SETTLE_PACKETS: u64 = 32;

/// Or that much time, in microseconds.
pub(crate) const SETTLE_US: u64 = 200_000;

/// How long a closed connection is remembered for packets that are late, in microseconds.
pub(crate) const LINGER_US: u64 = 1_000_000;

/// Bytes of a message's head, or of a chunked body's trailers: four times what servers take.
pub(crate) const HEAD_BYTES: usize = 256 << 10;

/// Header lines of a message.
pub(crate) const HEADERS: usize = 1024;

/// Bytes of a line that gives a chunk's size.
pub(crate) const CHUNK_LINE_BYTES: usize = 4096;

/// Requests of one connection that wait for their responses; browsers don't pipeline at all.
pub(crate) const PENDING: usize = 256;

/// Interim responses that are noted for one request.
pub(crate) const INTERIM: usize = 16;

/// Bytes to which one body is decoded.
pub(crate) const DECODED_BYTES: u64 = 64 << 20;

/// Bytes to which all bodies of a ring are decoded together: a bomb in every response must not cost hours.
pub(crate) const DECODED_BYTES_OF_RING: u64 = 8 << 30;

/// What a gzip or deflate decoder takes.
pub(crate) const INFLATE_MEMORY: usize = 64 << 10;

/// What a brotli decoder takes with the largest window.
pub(crate) const BROTLI_MEMORY: usize = 17 << 20;

/// Bytes of a TLS ClientHello: browsers' are below 2 KiB, post-quantum ones below 4 KiB.
pub(crate) const CLIENT_HELLO_BYTES: usize = 32 << 10;

/// Records that are held to be given in the order in which they began.
pub(crate) const ORDERED_RECORDS: usize = 16_384;

/// Bytes of them.
pub(crate) const ORDERED_BYTES: usize = 64 << 20;

/// Values of secret headers that are remembered, to mask them wherever else they appear.
pub(crate) const SECRETS: usize = 64;

/// Notes on damaged files; a ring has ten files, and a run may have stored more.
pub(crate) const NOTES: usize = 1024;
