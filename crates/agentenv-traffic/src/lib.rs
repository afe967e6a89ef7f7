//! Captured packets, read as HTTP exchanges and flows, and written as HAR.
//!
//! ```text
//! capture files ─► packets ─► TCP connections ─► HTTP messages ─► exchanges ─► HAR, rows
//!  (pcap-file)   (etherparse)     (tcp)         (http, httparse)   (record)     (har, row)
//! ```
//!
//! [`RingTraffic`] is an iterator over what one ring holds: it takes the ring as the gateway lists it, which says who listens where,
//! and its files, the oldest first, and keeps no file in memory. [`merge`] makes one timeline of several rings. [`HarWriter`] writes
//! HAR 1.2, and [`Row`] is the line of a table.
//!
//! # What is said of an exchange
//!
//! A capture may begin in the middle of a connection, and may lack packets. Then the reader looks for the next segment that begins
//! with a message, in each direction, and goes on from there. An exchange of which anything is missing carries [`Flag::Incomplete`];
//! the first one that was found again carries [`Flag::Resynchronised`]. Where pipelined requests and lost bytes leave more than
//! one way to pair them, requests and responses are given apart, with [`Flag::Unpaired`].
//!
//! # Secrets
//!
//! A capture file holds what was sent on the wire, the site's key (`Agentenv-Site-Key`) in calls to its server included: whoever
//! has the file has them. What this crate gives out has [`MASK`] in the place of the values of `Agentenv-Site-Key` and
//! `Agentenv-Control-Token`, in these headers and wherever else in heads and bodies they appear, as they are. Everything else is
//! shown: cookies, passwords that were typed, the site's own tokens.
//!
//! # Limits
//!
//! Sites have a say in every packet. All that is held of unfinished messages, segments out of order, decoders and kept bodies is
//! taken from one account of 128 MiB a ring; connections, heads, headers, pipelined requests and decoded bytes have limits of their own.

mod budget;
mod har;
mod http;
mod limits;
mod merge;
mod note;
mod order;
mod packet;
mod reader;
mod record;
mod row;
mod secrets;
mod step;
mod tcp;
mod tls;
mod tracker;
mod who;

pub use har::HarWriter;
pub use merge::{Merged, merge};
pub use note::{Damage, FileNote, TrafficError};
pub use reader::{CaptureFile, Options, RingTraffic, Summary};
pub use record::{
    Application, Body, Exchange, Flag, Flow, Header, Party, Peers, Record, Request, Response, Upgrade, Version,
};
pub use row::Row;
pub use secrets::MASK;
pub use step::Step;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
