//! TCP connections put together again from captured segments.
//!
//! What was captured twice is passed on once, what came out of order in its order, and what was lost is said. A segment is passed on
//! after everything that its sender had received by then, as its acknowledgement says: so a response comes after its request also
//! where the capture shows them the other way round.

mod connection;
mod half;

pub(crate) use connection::{Application, Connection, Piece};

/// One of the two directions of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    ToServer,
    ToClient,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::ToServer, Self::ToClient];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }
}
