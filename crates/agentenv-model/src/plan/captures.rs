//! What captures traffic, and what refuses to (CAP-1).

use std::ops::RangeInclusive;

use agentenv_protocol::{CAPTURE_FILE_MB, CAPTURE_FILE_MB_DEFAULT, CAPTURE_FILES, CAPTURE_FILES_DEFAULT};
use serde::{Deserialize, Serialize};

use super::PlanInput;
use crate::EnvSpec;

/// Bytes of a MB (CAP-3).
const MB: u64 = 1_000_000;

/// How the packets of a website are kept: a ring of files, one for each website (CAP-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureOptions {
    /// How many files; the oldest goes.
    pub files: u32,
    /// How long each of them gets, in bytes.
    pub file_bytes: u64,
}

impl CaptureOptions {
    /// Takes what flags and task steps say, and what holds where they say nothing. Planning says what is out of range.
    pub fn new(files: Option<u32>, file_mb: Option<u32>) -> Self {
        Self {
            files: files.unwrap_or(CAPTURE_FILES_DEFAULT),
            file_bytes: u64::from(file_mb.unwrap_or(CAPTURE_FILE_MB_DEFAULT)) * MB,
        }
    }
}

impl Default for CaptureOptions {
    fn default() -> Self {
        Self::new(None, None)
    }
}

/// Everything that is in the way of the captures that were asked for: what, and what to do.
pub(super) fn refusals(input: &PlanInput) -> Vec<(String, String)> {
    let Some(options) = input.capture_traffic else { return Vec::new() };
    let mut refusals = Vec::new();
    if let Some(what) = without_websites(&input.env.spec) {
        let message = format!("traffic capture was asked for, and it is {what}: only packets of websites are recorded");
        refusals.push((message, "deploy it without traffic capture, or in a multi env with a website".to_owned()));
    }
    if !input.abilities.captures {
        let message = format!(
            "traffic capture was asked for, which the `{}` provider does not have: its websites have no network namespace \
             of their own",
            input.abilities.provider
        );
        refusals.push((message, "deploy it without traffic capture, or with `--provider sandbox`".to_owned()));
    }
    let accepted =
        |range: &RangeInclusive<u32>, of: &str| format!("accepted: {} to {} {of}", range.start(), range.end());
    if !CAPTURE_FILES.contains(&options.files) {
        let message = format!("traffic capture was asked for in rings of {} files", options.files);
        refusals.push((message, accepted(&CAPTURE_FILES, "files")));
    }
    let bytes = u64::from(*CAPTURE_FILE_MB.start()) * MB..=u64::from(*CAPTURE_FILE_MB.end()) * MB;
    if !bytes.contains(&options.file_bytes) {
        let message = format!("traffic capture was asked for in files of {} bytes", options.file_bytes);
        refusals.push((message, accepted(&CAPTURE_FILE_MB, "MB")));
    }
    refusals
}

/// What an env is that has no website.
fn without_websites(env: &EnvSpec) -> Option<&'static str> {
    match env {
        EnvSpec::Website(_) => None,
        EnvSpec::Browser(_) => Some("a browser"),
        EnvSpec::Computer(_) => Some("a computer"),
        EnvSpec::Multi(multi) => multi.websites.is_empty().then_some("a multi env without a website"),
    }
}
