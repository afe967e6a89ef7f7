//! The agent-env program.

fn main() {}
