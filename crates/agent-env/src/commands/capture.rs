//! `capture`: records the packets of the network namespace that it runs in, as a deploy's supervisor does for its sites.

use std::{io::Write as _, path::PathBuf, process::ExitCode, time::Duration};

use agentenv_protocol::{CAPTURE_FILE_MB_DEFAULT, CAPTURE_FILES_DEFAULT, ExitCode as Exit, control::ControlError};
use agentenv_sandbox::{Capture, CaptureError, CaptureSummary, Health, PacketSocket, RingOptions};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::output::Output;

/// How often it is looked at whether the capture still runs.
const LOOK: Duration = Duration::from_millis(500);

/// Arguments of `capture`.
#[derive(Args, Debug)]
pub(crate) struct CaptureArgs {
    /// The interface whose packets to record
    #[arg(long)]
    interface: String,
    /// Where to write the files; a capture that was there before goes on
    #[arg(long)]
    output: PathBuf,
    /// How many files to keep; the oldest is removed
    #[arg(long, default_value_t = CAPTURE_FILES_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=1000))]
    files: u32,
    /// How long each gets, in MB of 10^6 bytes
    #[arg(
        long,
        default_value_t = CAPTURE_FILE_MB_DEFAULT.into(),
        value_parser = clap::value_parser!(u64).range(1..=100_000),
    )]
    file_mb: u64,
}

/// Records until TERM or ^C, or until it can't.
pub(crate) fn capture(output: Output, args: &CaptureArgs) -> Result<ExitCode, ControlError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ControlError::infrastructure(format!("no runtime can be made: {error}")))?;
    runtime.block_on(record(output, args))
}

async fn record(output: Output, args: &CaptureArgs) -> Result<ExitCode, ControlError> {
    let failed = |what: &str, error: std::io::Error| ControlError::infrastructure(format!("{what}: {error}"));
    // Before anything is recorded: from here on an early signal ends it in order too.
    let listen = |kind| signal(kind).map_err(|error| failed("signals cannot be heard", error));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let socket = PacketSocket::open().map_err(|error| {
        failed("no packet socket can be made here", error)
            .hint("it takes root, or `CAP_NET_RAW` in this network namespace")
    })?;
    let options = RingOptions { files: args.files, file_bytes: args.file_mb * 1_000_000, ..RingOptions::default() };
    let capture = Capture::start(socket, &args.interface, &args.output, options).map_err(|error| refusal(&error))?;
    if !output.json {
        // Where standard error is closed there is nobody to tell.
        let _ = writeln!(
            std::io::stderr().lock(),
            "recording {} into {}; ^C ends it",
            args.interface,
            args.output.display()
        );
    }
    loop {
        tokio::select! {
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            () = tokio::time::sleep(LOOK) => {}
        }
        if capture.health() != Health::Running {
            break;
        }
    }
    let summary = capture.stop().map_err(|error| ControlError::infrastructure(error.to_string()))?;
    output.result(&summary, || text(&summary))?;
    Ok(ExitCode::SUCCESS)
}

fn refusal(error: &CaptureError) -> ControlError {
    let exit = match error {
        CaptureError::Interface { .. } => Exit::Refused,
        _ => Exit::Infrastructure,
    };
    ControlError::new(exit, error.to_string())
}

fn text(summary: &CaptureSummary) -> String {
    let bytes: u64 = summary.files.iter().map(|file| file.bytes).sum();
    format!(
        "{} packets recorded, {} dropped; {} files, {bytes} bytes",
        summary.packets,
        summary.dropped,
        summary.files.len()
    )
}
