//! The client of a running deploy's `control.sock`.

use std::{
    fs::File,
    io,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::PathBuf,
    time::Duration,
};

use agentenv_protocol::{
    DataReply, ExitCode,
    control::{
        CloseRequest, ControlError, DeniedEntry, DeployStatus, ExecFrame, ExecRequest, GetRequest, LoadRequest,
        ResetReport, SignInReport, SignInRequest,
    },
};
use agentenv_sandbox::liveness;
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::UnixStream,
};

use crate::{DeployDir, reaper};

/// The longest answer taken: what a site's `data/get` may hold, and some.
const ANSWER_LIMIT: usize = 256 << 20;
/// How long any one command may take; each has shorter limits of its own in the supervisor.
const COMMAND_LIMIT: Duration = Duration::from_secs(600);

/// How long a supervisor may take to end after it said that nothing else is left.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Between two looks whether it has.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
const LOOK: &str = "look at `agent-env env logs`";

/// Commands one running deploy.
#[derive(Clone, Debug)]
pub struct ControlClient {
    dir: DeployDir,
}

impl ControlClient {
    /// Takes the deploy's folder; connects at each call.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: DeployDir::new(dir) }
    }

    /// Asks how the deploy is.
    pub async fn status(&self) -> Result<DeployStatus, ControlError> {
        self.call(Method::GET, "/status", &()).await
    }

    /// Asks for the denied log, oldest first.
    pub async fn denied(&self) -> Result<Vec<DeniedEntry>, ControlError> {
        self.call(Method::GET, "/denied", &()).await
    }

    /// Loads data into websites.
    pub async fn load(&self, request: &LoadRequest) -> Result<(), ControlError> {
        self.call::<_, serde_json::Value>(Method::POST, "/data/load", request).await.map(drop)
    }

    /// Reads a website's data.
    pub async fn get(&self, request: &GetRequest) -> Result<DataReply, ControlError> {
        self.call(Method::POST, "/data/get", request).await
    }

    /// Signs users in, in browsers.
    pub async fn sign_in(&self, request: &SignInRequest) -> Result<SignInReport, ControlError> {
        self.call(Method::POST, "/sign-in", request).await
    }

    /// Resets sites and browsers.
    pub async fn reset(&self) -> Result<ResetReport, ControlError> {
        self.call(Method::POST, "/reset", &()).await
    }

    /// Ends the deploy, one that is starting too; returns when nothing is left of it.
    pub async fn close(&self, request: &CloseRequest) -> Result<(), ControlError> {
        let terminated = self.terminate_unready();
        if !terminated {
            self.call::<_, serde_json::Value>(Method::POST, "/close", request).await.map(drop)?;
        }
        // The supervisor ends right after its answer; its lock goes with it.
        let gone = async {
            while matches!(liveness::probe(&self.dir.lock()), Ok(Some(_))) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        tokio::time::timeout(END_LIMIT, gone)
            .await
            .map_err(|_| ControlError::infrastructure("the supervisor of the deploy did not end").hint(LOOK))?;
        if terminated {
            // Too young to undo what it had made, it may have died of the signal.
            let dir = self.dir.clone();
            let reaped = tokio::task::spawn_blocking(move || reaper::reap_terminated(&dir)).await;
            reaped.map_err(|error| ControlError::infrastructure(format!("what the deploy left: {error}")))?;
        }
        Ok(())
    }

    /// Tells a supervisor that is not commanded yet to give up. Whether there was one.
    fn terminate_unready(&self) -> bool {
        if self.dir.control_socket().exists() {
            return false;
        }
        let Ok(Some(holder)) = liveness::probe(&self.dir.lock()) else { return false };
        let pid = i32::try_from(holder).ok().and_then(Pid::from_raw);
        pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok())
    }

    /// Runs a command in a sandbox, relaying standard input and output, and returns its exit code.
    pub async fn exec(
        &self,
        request: &ExecRequest,
        mut stdin: impl AsyncRead + Unpin + Send + 'static,
        mut stdout: impl AsyncWrite + Unpin,
        mut stderr: impl AsyncWrite + Unpin,
    ) -> Result<i32, ControlError> {
        let response = self.send(Method::POST, "/exec", request, true).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(read_error(response).await);
        }
        let upgraded = hyper::upgrade::on(response).await.map_err(|error| self.broken(&error))?;
        let (mut from, mut to) = tokio::io::split(TokioIo::new(upgraded));
        let input = tokio::spawn(async move {
            let mut buffer = vec![0; ExecFrame::MAX_LEN];
            loop {
                let length = stdin.read(&mut buffer).await.unwrap_or(0);
                let frame = ExecFrame::Stdin(buffer[..length].to_vec()).encode();
                if to.write_all(&frame).await.is_err() || length == 0 {
                    return to;
                }
            }
        });
        let code = loop {
            match read_frame(&mut from).await.map_err(|error| self.broken(&error))? {
                Some(ExecFrame::Stdout(bytes)) => write_all(&mut stdout, &bytes).await?,
                Some(ExecFrame::Stderr(bytes)) => write_all(&mut stderr, &bytes).await?,
                Some(ExecFrame::Exit(code)) => break code,
                Some(ExecFrame::Stdin(_)) | None => {
                    return Err(self.broken(&io::Error::from(io::ErrorKind::UnexpectedEof)));
                }
            }
        };
        input.abort();
        Ok(code)
    }

    async fn call<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &B,
    ) -> Result<T, ControlError> {
        let work = async {
            let response = self.send(method, path, body, false).await?;
            if !response.status().is_success() {
                return Err(read_error(response).await);
            }
            let bytes = Limited::new(response.into_body(), ANSWER_LIMIT)
                .collect()
                .await
                .map_err(|error| self.broken(&error))?
                .to_bytes();
            serde_json::from_slice(&bytes).map_err(|error| self.broken(&error))
        };
        match tokio::time::timeout(COMMAND_LIMIT, work).await {
            Ok(result) => result,
            Err(_) => Err(ControlError::new(
                ExitCode::TimedOut,
                format!("{path} of the deploy did not end within {} s", COMMAND_LIMIT.as_secs()),
            )
            .hint(LOOK)),
        }
    }

    async fn send<B: Serialize + Sync>(
        &self,
        method: Method,
        path: &str,
        body: &B,
        upgrade: bool,
    ) -> Result<http::Response<hyper::body::Incoming>, ControlError> {
        let stream = self.connect().await.map_err(|error| self.unreachable(&error))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.broken(&error))?;
        tokio::spawn(connection.with_upgrades());
        let bytes = serde_json::to_vec(body).map_err(|error| self.broken(&error))?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "control")
            .header(header::CONTENT_TYPE, "application/json");
        if upgrade {
            request = request.header(header::CONNECTION, "upgrade").header(header::UPGRADE, "agentenv-exec");
        }
        let request = request.body(Full::new(Bytes::from(bytes))).map_err(|error| self.broken(&error))?;
        sender.send_request(request).await.map_err(|error| self.broken(&error))
    }

    async fn connect(&self) -> io::Result<UnixStream> {
        // By a descriptor of the folder: its path may be longer than the 107 bytes that a socket address holds.
        let folder = open_folder(&self.dir)?;
        UnixStream::connect(format!("/proc/self/fd/{}/control.sock", folder.as_raw_fd())).await
    }

    fn unreachable(&self, error: &io::Error) -> ControlError {
        ControlError::infrastructure(format!("the deploy in {} does not answer: {error}", self.dir.path().display()))
            .hint("it may have ended; `agent-env env status` tells")
    }

    fn broken(&self, error: &dyn std::fmt::Display) -> ControlError {
        ControlError::infrastructure(format!(
            "the deploy in {} broke off its answer: {error}",
            self.dir.path().display()
        ))
        .hint(LOOK)
    }
}

/// Opens the folder itself, to reach what is in it.
pub(crate) fn open_folder(dir: &DeployDir) -> io::Result<File> {
    File::options().read(true).custom_flags(rustix::fs::OFlags::DIRECTORY.bits().cast_signed()).open(dir.path())
}

/// Reads one frame; `None` at a clean end.
pub(crate) async fn read_frame(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<ExecFrame>> {
    let mut head = [0; 5];
    match from.read_exact(&mut head).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if length > ExecFrame::MAX_LEN {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is longer than allowed"));
    }
    let mut payload = vec![0; length];
    from.read_exact(&mut payload).await?;
    ExecFrame::decode(head[0], payload)
        .map(Some)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a frame is of no known kind"))
}

async fn write_all(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<(), ControlError> {
    let write = async {
        to.write_all(bytes).await?;
        to.flush().await
    };
    write.await.map_err(|error: io::Error| {
        ControlError::infrastructure(format!("the command's output cannot be written: {error}"))
    })
}

async fn read_error(response: http::Response<hyper::body::Incoming>) -> ControlError {
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
    body.ok()
        .and_then(|body| serde_json::from_slice(&body.to_bytes()).ok())
        .unwrap_or_else(|| ControlError::infrastructure(format!("the deploy answered {status}")).hint(LOOK))
}
