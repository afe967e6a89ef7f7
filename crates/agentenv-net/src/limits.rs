//! Every limit of this crate, with its reason.

use std::time::Duration;

/// Bytes of a request's or an answer's head: sites with large cookies need 32 KiB, nobody needs more than this.
pub(crate) const HEAD_BYTES: usize = 64 * 1024;
/// Header fields of a head: browsers send about 25.
pub(crate) const HEAD_FIELDS: usize = 128;
/// Interim answers (1xx) before an answer: a long operation may say now and then that it goes on.
pub(crate) const INTERIM_ANSWERS: usize = 256;
/// The buffer of an HTTP/1 connection: one head, and one read of a body beside it.
pub(crate) const HTTP1_BUFFER_BYTES: usize = 128 * 1024;
/// Concurrent streams of an HTTP/2 connection: what browsers assume.
pub(crate) const HTTP2_STREAMS: u32 = 128;
/// Streams that a client may reset before we have looked at them (rapid reset).
pub(crate) const HTTP2_PENDING_RESETS: usize = 32;
/// Connections of one listener at a time: a sandbox's own descriptor limit is 1024, and one sandbox must not take the
/// supervisor's descriptors from others.
pub(crate) const LISTENER_CONNECTIONS: usize = 1024;
/// The shortest and longest wait after a failed `accept` (no descriptors left), so that a full table is no busy loop.
pub(crate) const ACCEPT_BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// Idle connections kept for one upstream: a page loads over six at a time.
pub(crate) const POOL_IDLE: usize = 16;
/// How long an idle upstream connection is kept: less than the 5 s after which common servers close theirs.
pub(crate) const POOL_IDLE_FOR: Duration = Duration::from_secs(4);
/// A ClientHello is 16 KiB at most, and as much again is left for the headers of the records that it may be cut into.
pub(crate) const CLIENT_HELLO_BYTES: usize = 2 * 16 * 1024;
/// Names that may get an address or a leaf because a wildcard covers them: a page can ask for any number.
pub(crate) const WILDCARD_NAMES: usize = 4096;
/// Bytes of a DNS message over UDP without EDNS, and what we answer at most over it with EDNS.
pub(crate) const DNS_UDP_BYTES: usize = 1232;
/// Bytes of a DNS question over TCP: a question has one name of 255 bytes; the rest is options.
pub(crate) const DNS_TCP_BYTES: usize = 4096;
/// Questions answered over one TCP connection, so that a connection ends.
pub(crate) const DNS_TCP_QUESTIONS: usize = 128;
/// How long a DNS client may take over one TCP question.
pub(crate) const DNS_TCP_WAIT: Duration = Duration::from_secs(10);
/// How long names may be kept: they are fixed for the deploy.
pub(crate) const DNS_TTL_S: u32 = 300;
/// A CDP message at most: a screenshot of a long page or a download is tens of MiB.
pub(crate) const CDP_MESSAGE_BYTES: usize = 256 * 1024 * 1024;
/// A DevTools listing at most: hundreds of tabs.
pub(crate) const DEVTOOLS_BODY_BYTES: usize = 8 * 1024 * 1024;
/// CDP connections of a deploy at a time.
pub(crate) const CDP_CONNECTIONS: usize = 256;
/// Viewers of a deploy's computers at a time: people.
pub(crate) const VNC_CONNECTIONS: usize = 16;
/// What a viewer sends at once: keys, the pointer, a clipboard.
pub(crate) const VNC_MESSAGE_BYTES: usize = 1024 * 1024;
/// Bytes of an action: 10,000 characters, each escaped.
pub(crate) const ACTION_BYTES: usize = 256 * 1024;
/// How often a browser that doesn't answer yet is tried.
pub(crate) const CDP_RETRY: Duration = Duration::from_millis(25);
/// How long a closing handshake may take: the peer only has to echo.
pub(crate) const CDP_CLOSE_WAIT: Duration = Duration::from_secs(1);
/// An answer of a site's operation at most: the whole data of a site.
pub(crate) const OPERATION_BODY_BYTES: usize = 256 * 1024 * 1024;
/// What is read of an operation's error before it is called garbage.
pub(crate) const OPERATION_ERROR_BYTES: usize = 64 * 1024;
/// Bytes of a capture that are read at once: at 20 MB a file, 80 calls.
pub(crate) const CAPTURE_CHUNK_BYTES: u64 = 256 * 1024;
/// Downloads of captures at a time: a collector takes one file after the other. Clients that take nothing can hold as many
/// files that the rings have removed, and two chunks each.
pub(crate) const CAPTURE_DOWNLOADS: usize = 16;
/// Threads that list or open captures at a time; further requests wait for one, as long as for a site's answer.
pub(crate) const CAPTURE_CALLS: usize = 4;
/// How much of a host name that was asked for goes to the denied log: a name has 253 bytes.
pub(crate) const DENIED_HOST_CHARS: usize = 255;
/// Addresses of a real name that are tried: large sites give about ten.
pub(crate) const REAL_ADDRESSES: usize = 8;
/// Bytes of one copy of a tunnel to a real host, each way: a TLS record is 16 KiB, and a fast one fills some.
pub(crate) const TUNNEL_COPY_BYTES: usize = 64 * 1024;
/// Bytes of one copy of a relay.
pub(crate) const RELAY_BYTES: usize = 16 * 1024;

/// The waits and numbers that a composing crate or a test may lower; the defaults are what runs.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Until a connection to a site is made: it is on this machine.
    pub connect: Duration,
    /// Until a site's answer begins; then 504.
    pub answer: Duration,
    /// Until a client has sent its whole head, from the first idle moment on: also how long a connection may be idle.
    pub head: Duration,
    /// Until a TLS handshake is done.
    pub handshake: Duration,
    /// Between two pieces of a request's body.
    pub request_body: Duration,
    /// While a client takes nothing of what is written to it.
    pub write: Duration,
    /// A request waits this long for a browser that restarts; then 503.
    pub browser: Duration,
    /// Requests and connections under way may take this long to end after a shutdown began.
    pub grace: Duration,
    /// Connections to one website at a time; further requests to it wait for one, as long as for its answer.
    pub site_connections: usize,
    /// Tunnels of one forward port at a time; further ones get 503.
    pub tunnels: usize,
    /// Until a real host is resolved and connected to.
    pub real_connect: Duration,
    /// While nothing goes through a tunnel to a real host; browsers keep idle connections for five minutes.
    pub tunnel_idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(60),
            head: Duration::from_secs(60),
            handshake: Duration::from_secs(10),
            request_body: Duration::from_secs(60),
            write: Duration::from_secs(120),
            browser: Duration::from_secs(30),
            grace: Duration::from_secs(2),
            // A quarter of what a service may have open, so that it can always answer the supervisor.
            site_connections: 256,
            tunnels: LISTENER_CONNECTIONS,
            real_connect: Duration::from_secs(10),
            tunnel_idle: Duration::from_secs(600),
        }
    }
}
