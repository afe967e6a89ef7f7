//! One account of memory for everything that a ring's reader holds.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// An account of bytes, shared by all that buffer.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    left: Arc<AtomicUsize>,
    #[cfg(test)]
    total: usize,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            left: Arc::new(AtomicUsize::new(bytes)),
            #[cfg(test)]
            total: bytes,
        }
    }

    /// Takes bytes from the account until the reservation is dropped.
    pub(crate) fn reserve(&self, bytes: usize) -> Option<Reservation> {
        let left = self.left.load(Ordering::Relaxed).checked_sub(bytes)?;
        self.left.store(left, Ordering::Relaxed);
        Some(Reservation { budget: self.clone(), bytes })
    }

    /// Bytes that are taken.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.total - self.left.load(Ordering::Relaxed)
    }
}

/// Bytes taken from a [`Budget`], given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Budget,
    bytes: usize,
}

impl Reservation {
    /// Takes more; false where the account has no more.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let Some(mut more) = self.budget.reserve(bytes) else { return false };
        self.bytes += std::mem::take(&mut more.bytes);
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// Bytes within a limit of their own and the shared account.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    reservation: Reservation,
    limit: usize,
}

impl Buffer {
    pub(crate) fn new(budget: &Budget, limit: usize) -> Self {
        Self { bytes: Vec::new(), reservation: Reservation { budget: budget.clone(), bytes: 0 }, limit }
    }

    /// Appends all of the bytes, or nothing.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        let fits = self.bytes.len() + bytes.len() <= self.limit && self.reservation.grow(bytes.len());
        if fits {
            self.bytes.extend_from_slice(bytes);
        }
        fits
    }

    pub(crate) fn clear(&mut self) {
        self.bytes = Vec::new();
        self.reservation = Reservation { budget: self.reservation.budget.clone(), bytes: 0 };
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_given_back() {
        let budget = Budget::new(10);
        let mut buffer = Buffer::new(&budget, 8);
        assert!(buffer.push(b"12345"));
        assert!(!buffer.push(b"6789"), "its own limit");
        let other = budget.reserve(5).unwrap();
        assert!(!buffer.push(b"6"), "the shared limit");
        assert_eq!((&*buffer, budget.taken()), (&b"12345"[..], 10));
        drop(other);
        assert!(buffer.push(b"6"));
        buffer.clear();
        assert_eq!(budget.taken(), 0);
    }
}
