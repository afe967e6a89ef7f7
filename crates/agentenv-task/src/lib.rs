//! Tasks: steps, the runner and the run record.
