//! What `traffic har` and `traffic flows` read: the rings of a deploy as one timeline, its task's steps, and what is wrong with them.

use std::{io, sync::Arc};

use agentenv_protocol::{ExitCode, Home, Name, TrafficRing, control::ControlError};
use agentenv_task::{RunRecord, StepRecord};
use agentenv_traffic::{CaptureFile, Options, Record, RingTraffic, Step, TrafficError, merge};
use clap::Args;
use tokio::runtime::Handle;

use super::captures::{Captures, note_unreachable};
use crate::output::Output;

/// What to read.
#[derive(Args, Debug)]
pub(crate) struct ReadArgs {
    /// A deploy's id or name; it may be closed
    pub(super) deploy: String,
    /// Only this website's
    #[arg(long, value_name = "WEBSITE")]
    site: Option<Name>,
    /// Only what began in this step of the deploy's task: its name, or its number from 1
    #[arg(long)]
    step: Option<String>,
}

/// Captures that are about to be read.
pub(super) struct Reading {
    captures: Arc<Captures>,
    rings: Vec<TrafficRing>,
    /// The steps of the task that made the deploy.
    pub steps: Vec<Step>,
    /// The place of the only step that is wanted.
    only: Option<usize>,
}

impl Reading {
    /// Opens the captures of a deploy.
    pub(super) async fn open(home: &Home, output: Output, args: &ReadArgs) -> Result<Self, ControlError> {
        let captures = Captures::open(home, &args.deploy).await?;
        note_unreachable(output, &captures);
        let mut rings = rings(&captures);
        if let Some(site) = &args.site {
            rings.retain(|ring| ring.website == *site);
            if rings.is_empty() {
                return Err(ControlError::new(ExitCode::Refused, format!("the deploy captures no website `{site}`"))
                    .hint(format!("`agent-env traffic list {}` lists what it captured", args.deploy)));
            }
        }
        let steps = captures.run.as_ref().map(steps).unwrap_or_default();
        let only = args.step.as_deref().map(|step| only_step(&steps, step)).transpose()?;
        Ok(Self { captures: Arc::new(captures), rings, steps, only })
    }

    /// Reads everything, beside the runtime's threads, and gives it record by record. Returns what is to be said about the files.
    pub(super) async fn each<T: Send + 'static>(
        self,
        body_bytes: Option<usize>,
        mut state: T,
        mut take: impl FnMut(&mut T, Record, &[Step]) -> io::Result<()> + Send + 'static,
    ) -> Result<(T, Vec<String>), ControlError> {
        let runtime = Handle::current();
        let read = move || {
            let options = || Options { steps: self.steps.clone(), body_bytes };
            let rings = self.rings.iter().map(|ring| {
                let files = self.captures.clone().ring(&ring.website, runtime.clone());
                let files =
                    files.map(|file| file.map(|(name, bytes)| CaptureFile { name, bytes }).map_err(TrafficError::Open));
                RingTraffic::new(ring.clone(), files, options())
            });
            let mut traffic = merge(rings.collect());
            let mut notes = self.gaps();
            for record in traffic.by_ref() {
                match record {
                    Ok(record) if self.only.is_some() && record.step() != self.only => {}
                    Ok(record) => match take(&mut state, record, &self.steps) {
                        Ok(()) => {}
                        // Who closed the pipe has read enough.
                        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                        Err(error) => return Err(unwritten(&error)),
                    },
                    // The ring went on while it was read.
                    Err(TrafficError::Open(error)) if error.kind() == io::ErrorKind::NotFound => {
                        notes.push(error.to_string());
                    }
                    Err(error) => return Err(ControlError::infrastructure(error.to_string())),
                }
            }
            notes.extend(traffic.summaries().flat_map(|summary| summary.notes.iter().map(ToString::to_string)));
            Ok((state, notes))
        };
        tokio::task::spawn_blocking(read)
            .await
            .unwrap_or_else(|error| Err(ControlError::infrastructure(format!("the reading was cut short: {error}"))))
    }

    /// What was not recorded.
    fn gaps(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for ring in &self.rings {
            let website = &ring.website;
            notes.extend(ring.gaps.iter().map(|gap| {
                let to = gap.to.as_ref().map_or_else(|| " on".to_owned(), |to| format!(" to {to}"));
                format!("{website} was not recorded from {}{to}: {}", gap.from, gap.reason)
            }));
            if ring.dropped > 0 {
                notes.push(format!("the kernel dropped {} packets of {website}", ring.dropped));
            }
        }
        notes
    }
}

/// The rings, those too of which only files are left: then nobody says who speaks in them.
fn rings(captures: &Captures) -> Vec<TrafficRing> {
    let mut rings = captures.rings.clone();
    for found in &captures.files {
        let website = &found.capture.website;
        if !rings.iter().any(|ring| ring.website == *website) {
            rings.push(TrafficRing {
                website: website.clone(),
                services: Vec::new(),
                gateway_address: std::net::Ipv4Addr::UNSPECIFIED,
                recording: false,
                files: 0,
                file_bytes: 0,
                dropped: 0,
                gaps: Vec::new(),
            });
        }
    }
    rings
}

fn steps(run: &RunRecord) -> Vec<Step> {
    run.steps.iter().enumerate().filter_map(|(place, step)| as_step(place + 1, step)).collect()
}

/// A step that has begun.
fn as_step(number: usize, step: &StepRecord) -> Option<Step> {
    let us = |time: jiff::Timestamp| u64::try_from(time.as_microsecond()).unwrap_or(0);
    let name = step.label().to_owned();
    Some(Step { number, name, started_us: us(step.started_at?), ended_us: step.ended_at.map(us) })
}

fn only_step(steps: &[Step], wanted: &str) -> Result<usize, ControlError> {
    let named = steps.iter().position(|step| step.name == wanted);
    let numbered = || steps.iter().position(|step| wanted.parse() == Ok(step.number));
    named.or_else(numbered).ok_or_else(|| {
        if steps.is_empty() {
            return ControlError::new(ExitCode::Refused, "no task made this deploy, so there are no steps");
        }
        let names: Vec<String> = steps.iter().map(|step| format!("{} {}", step.number, step.name)).collect();
        ControlError::new(ExitCode::Refused, format!("no step `{wanted}` of the task has begun"))
            .hint(format!("there are: {}", names.join(", ")))
    })
}

pub(super) fn unwritten(error: &io::Error) -> ControlError {
    ControlError::infrastructure(format!("the result cannot be written: {error}"))
}

/// The end of what was written to standard output: who closed the pipe has read enough.
pub(super) fn ended(written: io::Result<()>) -> Result<(), ControlError> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(unwritten(&error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_found_by_name_then_by_number() {
        let step = |number, name: &str| Step { number, name: name.to_owned(), started_us: 0, ended_us: None };
        let steps = [step(1, "deploy"), step(3, "agent"), step(4, "1")];
        assert_eq!(only_step(&steps, "agent").unwrap(), 1);
        assert_eq!(only_step(&steps, "3").unwrap(), 1);
        assert_eq!(only_step(&steps, "1").unwrap(), 2);
        let error = only_step(&steps, "2").unwrap_err();
        assert_eq!((error.exit, error.hint.as_str()), (ExitCode::Refused, "there are: 1 deploy, 3 agent, 4 1"));
        assert!(only_step(&[], "2").is_err());
    }
}
