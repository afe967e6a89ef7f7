//! `traffic list|get|har|flows|rescue`: one file a command, and [`captures`], which opens a deploy's captures wherever they are.

mod captures;
mod flows;
mod get;
mod har;
mod list;
mod read;
mod rescue;

use std::process::ExitCode;

use agentenv_protocol::{Home, control::ControlError};
use clap::Subcommand;

use crate::output::Output;

pub(crate) use rescue::store_of_closed;

/// The commands on captured traffic.
#[derive(Subcommand, Debug)]
pub(crate) enum TrafficCommand {
    /// List what was captured of a deploy
    List(list::ListArgs),
    /// Write captured packets into pcap files
    Get(get::GetArgs),
    /// Write the HTTP requests of a deploy as HAR, for a browser's network panel
    Har(har::HarArgs),
    /// List the HTTP requests of a deploy, and other connections
    Flows(flows::FlowsArgs),
    /// Store what is still on disk of a deploy's captures, or of a run's
    Rescue(rescue::RescueArgs),
}

/// Runs the command.
pub(crate) async fn run(home: &Home, output: Output, command: TrafficCommand) -> Result<ExitCode, ControlError> {
    let done = match command {
        TrafficCommand::List(args) => list::list(home, output, &args).await,
        TrafficCommand::Get(args) => get::get(home, output, &args).await,
        TrafficCommand::Har(args) => har::har(home, output, &args).await,
        TrafficCommand::Flows(args) => flows::flows(home, output, &args).await,
        TrafficCommand::Rescue(args) => rescue::rescue(home, output, &args).await,
    };
    done.map(|()| ExitCode::SUCCESS)
}
