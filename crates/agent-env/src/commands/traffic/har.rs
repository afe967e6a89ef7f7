//! `traffic har`

use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use agentenv_protocol::{Home, control::ControlError};
use agentenv_traffic::{HarWriter, Record};
use clap::Args;
use serde_json::json;
use tempfile::NamedTempFile;

use super::read::{ReadArgs, Reading, ended, unwritten};
use crate::{output::Output, progress, put};

/// Means standard output.
const STDOUT: &str = "-";

/// Arguments of `traffic har`.
#[derive(Args, Debug)]
pub(crate) struct HarArgs {
    #[command(flatten)]
    read: ReadArgs,
    /// With the bodies of requests and responses
    #[arg(long)]
    bodies: bool,
    /// How much of each body, in KiB
    #[arg(long, value_name = "N", default_value_t = 1024, requires = "bodies", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    max_body_kb: u32,
    /// Where to write it: a file, or `-` for standard output, which it is without this
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// `traffic har`
pub(super) async fn har(home: &Home, output: Output, args: &HarArgs) -> Result<(), ControlError> {
    let reading = Reading::open(home, output, &args.read).await?;
    let body_bytes = args.bodies.then_some(args.max_body_kb as usize * 1024);
    let Some(path) = args.output.as_deref().filter(|path| *path != Path::new(STDOUT)) else {
        let (har, notes) = write(reading, body_bytes, BufWriter::new(io::stdout())).await?;
        ended(har.finish().map(drop))?;
        notes.iter().for_each(|note| progress::note(output, note));
        return Ok(());
    };
    // What was typed into a site is in it: a file of its owner's, which is there when it is whole.
    let failed =
        |error: &io::Error| ControlError::infrastructure(format!("{} cannot be written: {error}", path.display()));
    // That error names the temporary file.
    let file = NamedTempFile::with_prefix_in(".agent-env-har-", put::parent(path))
        .map_err(|error| failed(&error.kind().into()))?;
    let (har, notes) = write(reading, body_bytes, BufWriter::new(file)).await?;
    let entries = har.entries();
    let file = har.finish().and_then(|out| out.into_inner().map_err(io::IntoInnerError::into_error));
    file.and_then(|file| file.persist(path).map_err(|error| error.error)).map_err(|error| failed(&error))?;
    notes.iter().for_each(|note| progress::note(output, note));
    let result = json!({ "file": path, "entries": entries, "notes": notes });
    output.result(&result, || format!("{entries} requests are in {}", path.display()))
}

async fn write<W: Write + Send + 'static>(
    reading: Reading,
    body_bytes: Option<usize>,
    out: W,
) -> Result<(HarWriter<W>, Vec<String>), ControlError> {
    let har = HarWriter::begin(out, env!("CARGO_PKG_VERSION"), &reading.steps).map_err(|error| unwritten(&error))?;
    reading
        .each(body_bytes, har, |har, record, _| match record {
            Record::Exchange(exchange) => har.entry(*exchange),
            Record::Flow(_) => Ok(()),
        })
        .await
}
