//! What steps did, in words.

use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus};

use agentenv_protocol::{
    Name,
    control::{ResetReport, SignInReport},
};
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

/// What a reset took, whether its browsers were cold, and what it can't undo.
pub(super) fn reset(report: &ResetReport) -> String {
    let mut text = format!("data {:.0} ms", report.data_ms);
    if !report.browsers.is_empty() {
        let browsers: Vec<String> = report.browsers.iter().map(|(name, how)| format!("{name}: {how}")).collect();
        text.push_str(&format!(", browsers {:.0} ms ({})", report.browser_ms, browsers.join(", ")));
    }
    if !report.not_undone.is_empty() {
        let sites: Vec<&str> = report.not_undone.iter().map(Name::as_str).collect();
        text.push_str(&format!("; what was changed on the real {} stays", sites.join(", ")));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_says_what_it_cannot_undo() {
        let report = |not_undone: &[&str]| ResetReport {
            total_ms: 30.0,
            data_ms: 2.0,
            browser_ms: 28.0,
            tabs_ms: 10.0,
            browsers: [(Name::parse("desk").unwrap(), "cold".to_owned())].into(),
            not_undone: not_undone.iter().map(|name| Name::parse(name).unwrap()).collect(),
        };
        assert_eq!(reset(&report(&[])), "data 2 ms, browsers 28 ms (desk: cold)");
        let live = "data 2 ms, browsers 28 ms (desk: cold); what was changed on the real github stays";
        assert_eq!(reset(&report(&["github"])), live);
    }
}
