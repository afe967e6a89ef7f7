//! later
crate::trials![];
