//! `doctor`: runs the whole recipe of a sandbox, and says what to change where a step fails.

use std::{path::Path, process::ExitCode};

use agentenv_protocol::{ExitCode as Exit, control::ControlError};
use serde_json::json;

use crate::output::{Output, columns};

/// Programs that deploys may need, with the Debian package that has each.
const PROGRAMS: [(&str, &str, &str); 3] = [
    ("/usr/lib/chromium/chromium", "chromium", "browsers"),
    ("/usr/bin/python3", "python3", "sites written in Python"),
    ("/usr/bin/newuidmap", "uidmap", "a uid of its own for every sandbox, as an ordinary user"),
];

struct Finding {
    name: String,
    ok: bool,
    detail: String,
    fix: String,
}

/// Whether this machine has what a desktop is made of.
fn computer() -> Finding {
    let missing = agentenv_deploy::missing_desktop_packages();
    Finding {
        name: "computer".to_owned(),
        ok: missing.is_empty(),
        detail: "the programs of a computer's desktop".to_owned(),
        fix: format!("apt-get install {}", missing.join(" ")),
    }
}

/// `doctor`
pub(crate) fn doctor(output: Output) -> Result<ExitCode, ControlError> {
    let mut findings: Vec<Finding> = agentenv_sandbox::doctor()
        .into_iter()
        .map(|check| Finding {
            name: check.name.to_owned(),
            ok: check.ok,
            detail: check.detail,
            fix: check.fix.unwrap_or_default(),
        })
        .collect();
    findings.extend(PROGRAMS.iter().map(|(path, package, what)| Finding {
        name: format!("program {path}"),
        ok: Path::new(path).exists(),
        detail: format!("for {what}"),
        fix: format!("apt-get install {package}"),
    }));
    findings.push(computer());
    let all = findings.iter().all(|finding| finding.ok);
    let rows = |finding: &Finding| json!({ "name": finding.name, "ok": finding.ok, "detail": finding.detail, "fix": if finding.ok { "" } else { &finding.fix } });
    output.result(&findings.iter().map(rows).collect::<Vec<_>>(), || {
        let line = |finding: &Finding| {
            let mark = if finding.ok { "ok" } else { "FAILS" };
            let fix =
                if finding.ok || finding.fix.is_empty() { String::new() } else { format!("fix: {}", finding.fix) };
            vec![mark.to_owned(), finding.name.clone(), finding.detail.clone(), fix]
        };
        columns(&findings.iter().map(line).collect::<Vec<_>>())
    })?;
    // What is missing has been said above, each with its fix.
    Ok(if all { ExitCode::SUCCESS } else { Exit::Infrastructure.into() })
}
