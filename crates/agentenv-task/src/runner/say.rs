//! What steps did, in words.

use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus};

use agentenv_protocol::control::{ResetReport, SignInReport};
use serde_json::{Value, json};

use crate::harness::Ended;

/// Who is signed in where, and how that is known (BR-2).
pub(super) fn signed_in(report: &SignInReport) -> String {
    let one = |entry: &agentenv_protocol::control::SignedIn| {
        let how = if entry.verified { "seen on a page" } else { "read back" };
        format!("{} at {} in {} ({how})", entry.user, entry.website, entry.browser)
    };
    report.signed_in.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What a reset took, and whether its browsers were cold.
pub(super) fn reset(report: &ResetReport) -> String {
    let mut text = format!("data {:.0} ms", report.data_ms);
    if !report.browsers.is_empty() {
        let browsers: Vec<String> = report.browsers.iter().map(|(name, how)| format!("{name}: {how}")).collect();
        text.push_str(&format!(", browsers {:.0} ms ({})", report.browser_ms, browsers.join(", ")));
    }
    text
}

/// How a program ended, after its name.
pub(super) fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => format!("ended: {status}"),
    }
}

/// How a program ended, for a step's result.
pub(super) fn exit(ended: &Ended) -> Value {
    match ended {
        Ended::Exited(status) => json!({ "exit_code": status.code(), "signal": status.signal() }),
        Ended::TimedOut => json!({ "ended": "timed_out" }),
        Ended::Stopped(why) => json!({ "ended": why }),
    }
}
