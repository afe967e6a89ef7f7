//! Progress of long work (RUN-5): a moving line and finished lines on a terminal, plain lines elsewhere, JSON lines with
//! `--json`. All of it goes to standard error, but for the events of a task with `--json`, which are its output.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use agentenv_task::{Event, Events, Outcome, Stream};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::output::{Output, harmless, print};

/// How often the moving line moves.
const TICK: Duration = Duration::from_millis(100);

/// One piece of long work.
pub(crate) struct Activity {
    output: Output,
    /// Drawn on a terminal only.
    bar: Option<ProgressBar>,
}

impl Activity {
    /// Begins one.
    pub(crate) fn start(output: Output, what: impl Into<String>) -> Self {
        let what = what.into();
        let bar = (!output.json && io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}");
            let bar = ProgressBar::new_spinner();
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(TICK);
            bar
        });
        let activity = Self { output, bar };
        activity.say(&what);
        activity
    }

    /// Says what is going on now: the moving line on a terminal, a line elsewhere.
    pub(crate) fn say(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(harmless(what).into_owned()),
            None if self.output.json => to_stderr(&json!({ "event": "progress", "message": what }).to_string()),
            None => to_stderr(what),
        }
    }

    /// Shows a line that stays.
    pub(crate) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(harmless(text)),
            None => to_stderr(text),
        }
    }

    /// Ends it: the moving line goes.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        // Nothing moves on a terminal after the work is over.
        self.finish();
    }
}

/// Says something beside a command's result.
pub(crate) fn note(output: Output, text: &str) {
    if output.json {
        to_stderr(&json!({ "event": "note", "message": text }).to_string());
    } else {
        to_stderr(&format!("note: {text}"));
    }
}

fn to_stderr(text: &str) {
    // Where standard error is closed there is nobody to tell.
    let _ = writeln!(io::stderr().lock(), "{}", harmless(text));
}

/// Shows the events of a run.
pub(crate) fn run_events(output: Output) -> Events {
    if output.json {
        return Events::to(|event| {
            if let Ok(line) = serde_json::to_string(event) {
                // A reader that has gone has read enough; the run goes on.
                let _ = print(&line);
            }
        });
    }
    let view = Mutex::new(View { activity: None, output, steps: 0, at: String::new() });
    Events::to(move |event| view.lock().unwrap_or_else(PoisonError::into_inner).show(event))
}

/// What people see of a run.
struct View {
    activity: Option<Activity>,
    output: Output,
    steps: usize,
    /// The step that goes on, as its line begins.
    at: String,
}

impl View {
    fn show(&mut self, event: &Event) {
        match event {
            Event::RunStarted { run, task, steps, .. } => {
                self.steps = *steps;
                self.activity = Some(Activity::start(self.output, format!("run {run}: {task}, {steps} steps")));
            }
            Event::StepStarted { step, label, .. } => {
                self.at = format!("{}/{} {label}", step + 1, self.steps);
                self.say(&self.at);
            }
            Event::DeployIntended { deploy, env, .. } => self.say(&format!("deploy {deploy} of {env}")),
            Event::Progress { message, .. } => self.say(&format!("{}: {message}", self.at)),
            Event::Output { stream, line, .. } => {
                let mark = if *stream == Stream::Stderr { '!' } else { '|' };
                self.line(&format!("    {mark} {line}"));
            }
            Event::ArtifactStored { name, size, .. } => self.say(&format!("{}: stored {name}, {size} bytes", self.at)),
            Event::Warning { message, .. } => self.line(&format!("  warning: {message}")),
            Event::StepDone { step, label, outcome, duration_ms, message, .. } => {
                let mark = if *outcome == Outcome::Passed { "ok  " } else { "FAIL" };
                let took = seconds(*duration_ms);
                let mut text = format!("{mark} {}/{} {label}  {took}", step + 1, self.steps);
                match (outcome, message) {
                    (Outcome::Passed, None) => {}
                    (Outcome::Passed, Some(done)) => text.push_str(&format!("  {done}")),
                    (failed, why) => text.push_str(&format!("  {failed}: {}", why.as_deref().unwrap_or_default())),
                }
                self.line(&text);
            }
            Event::TeardownStarted { deploys, .. } => {
                let deploys: Vec<String> = deploys.iter().map(ToString::to_string).collect();
                self.say(&format!("closing {}", deploys.join(", ")));
            }
            Event::TeardownDone { failed, .. } if failed.is_empty() => self.line("ok   teardown"),
            Event::TeardownDone { failed, .. } => self.line(&format!("FAIL teardown: {} left", failed.len())),
            Event::RunDone { .. } => self.activity = None,
        }
    }

    fn say(&self, text: &str) {
        // Elsewhere than on a terminal every word would be a line of its own: the finished ones are enough.
        if let Some(activity) = self.activity.as_ref().filter(|activity| activity.bar.is_some()) {
            activity.say(text);
        }
    }

    fn line(&self, text: &str) {
        match &self.activity {
            Some(activity) => activity.line(text),
            None => to_stderr(text),
        }
    }
}

/// A time as people read it.
pub(crate) fn seconds(duration_ms: u64) -> String {
    match duration_ms {
        0..1000 => format!("{duration_ms} ms"),
        1000..60_000 => format!("{}.{} s", duration_ms / 1000, duration_ms % 1000 / 100),
        _ => format!("{} min {} s", duration_ms / 60_000, duration_ms % 60_000 / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_by_table() {
        for (ms, text) in [(0, "0 ms"), (999, "999 ms"), (1250, "1.2 s"), (59_999, "59.9 s"), (61_000, "1 min 1 s")] {
            assert_eq!(seconds(ms), text);
        }
    }
}
