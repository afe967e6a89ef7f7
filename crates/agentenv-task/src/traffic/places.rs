//! The places where captures are: at the gateway of a deploy that runs, in the folder of one that is over.

use std::{fs, io, path::PathBuf};

use agentenv_deploy::{
    DeployDir, RecordError,
    captures::{self, OpenCaptureError},
};
use agentenv_protocol::{
    ControlToken, DeployId, Home, TrafficCapture, TrafficCaptureListing,
    client::{CaptureRange, ClientError, GatewayClient},
    control::ControlError,
};
use tokio::io::AsyncWriteExt as _;

use super::{CaptureError, CaptureSource, OpenCapture};
use crate::event::Work;

/// Opens the captures of a deploy of this home wherever they are now: at its gateway while it runs, in its folder when it is
/// over. Downloads go to a file without a name in the store's folder, since they are about to be stored.
pub fn open_captures(home: &Home, deploy: &DeployId) -> Result<Box<dyn CaptureSource>, ControlError> {
    let dir = DeployDir::new(home.deploy(deploy));
    let record = match dir.load() {
        Ok(record) => record,
        // Never begun, or removed whole: then its folder holds nothing.
        Err(RecordError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(Box::new(Folder(dir)));
        }
        Err(error) => return Err(ControlError::infrastructure(error.to_string())),
    };
    if record.is_over() {
        return Ok(Box::new(Folder(dir)));
    }
    let unready = || ControlError::infrastructure(format!("deploy `{deploy}` is not ready, so it has no gateway yet"));
    let info = record.info.ok_or_else(unready)?;
    let path = dir.control_token();
    let token = fs::read_to_string(&path)
        .map_err(|error| ControlError::infrastructure(format!("{} cannot be read: {error}", path.display())))?;
    let client = GatewayClient::new(&info.gateway_url, ControlToken::from_stored(token))
        .map_err(|error| ControlError::infrastructure(error.to_string()))?;
    Ok(Box::new(Gateway { client, scratch: home.store() }))
}

/// The folder of a deploy that is over.
struct Folder(DeployDir);

impl CaptureSource for Folder {
    fn list(&self) -> Work<'_, Result<TrafficCaptureListing, CaptureError>> {
        let dir = self.0.clone();
        let path = dir.captures();
        Box::pin(aside(move || {
            captures::listing(&dir).map_err(|error| CaptureError::Failed(format!("{}: {error}", path.display())))
        }))
    }

    fn open<'a>(&'a self, capture: &'a TrafficCapture) -> Work<'a, Result<OpenCapture, CaptureError>> {
        let (dir, id) = (self.0.clone(), capture.id.clone());
        let path = dir.captures().join(id.website.as_str()).join(format!("{:010}.pcap", id.generation));
        Box::pin(aside(move || match captures::open(&dir, &id) {
            Ok(file) => Ok(OpenCapture { file, path }),
            Err(OpenCaptureError::Gone | OpenCaptureError::Unknown) => Err(CaptureError::RotatedAway),
            Err(error) => Err(CaptureError::Failed(format!("{}: {error}", path.display()))),
        }))
    }
}

/// Reads files off the async threads.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CaptureError> + Send + 'static,
) -> Result<T, CaptureError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(CaptureError::Failed("the reading was cut short".to_owned())))
}

/// The gateway of a deploy that runs.
struct Gateway {
    client: GatewayClient,
    /// Where downloads go: on the disk of the store.
    scratch: PathBuf,
}

impl CaptureSource for Gateway {
    fn list(&self) -> Work<'_, Result<TrafficCaptureListing, CaptureError>> {
        Box::pin(async { self.client.list_traffic_captures().await.map_err(failed) })
    }

    fn open<'a>(&'a self, capture: &'a TrafficCapture) -> Work<'a, Result<OpenCapture, CaptureError>> {
        Box::pin(async move {
            let at = |error: io::Error| CaptureError::Failed(format!("{}: {error}", self.scratch.display()));
            let mut file = tokio::fs::File::from_std(tempfile::tempfile_in(&self.scratch).map_err(at)?);
            // Exactly what was listed, so that what is on record of the file is true of what is stored.
            let range = CaptureRange { start: 0, end: Some(capture.bytes), etag: None };
            let mut download = self.client.fetch_traffic_capture(&capture.id, Some(range)).await.map_err(failed)?;
            while let Some(bytes) = download.chunk().await.map_err(failed)? {
                file.write_all(&bytes).await.map_err(at)?;
            }
            file.flush().await.map_err(at)?;
            Ok(OpenCapture { file: file.into_std().await, path: self.scratch.join(capture.id.to_string()) })
        })
    }
}

fn failed(error: ClientError) -> CaptureError {
    match error {
        ClientError::RotatedAway { .. } => CaptureError::RotatedAway,
        error => CaptureError::Failed(error.to_string()),
    }
}
