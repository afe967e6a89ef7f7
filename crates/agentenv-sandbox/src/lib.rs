//! Sealed sandboxes with placed sockets; the only crate with unsafe code.
