//! The #[website] and Settings macros of the agent-env SDK; a proc-macro crate has to stand alone.
