//! The steps of a task, to which exchanges are tied.

/// A step and when it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its place in the task, from 1.
    pub number: usize,
    /// What it is called.
    pub name: String,
    /// When it began, in microseconds since 1970.
    pub started_us: u64,
    /// When it ended; absent while it runs.
    pub ended_us: Option<u64>,
}

/// The last of the steps that ran at a time: its place.
pub(crate) fn step_at(steps: &[Step], time_us: u64) -> Option<usize> {
    steps
        .iter()
        .rposition(|step| step.started_us <= time_us && step.ended_us.is_none_or(|ended_us| time_us <= ended_us))
}
