//! The sandbox, for real: namespaces, mounts, filters.

fn main() {}
