//! Serves `control.sock`: the control API of `agentenv_protocol::control`, to processes of the same user and root only.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    sync::Arc,
};

use agentenv_protocol::{
    ExitCode,
    control::{
        CloseRequest, ControlError, DeniedEntry, DeployStatus, ExecFrame, ExecRequest, GetRequest, LoadRequest,
        ResetReport, SignInReport, SignInRequest,
    },
};
use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Request, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{StatusCode, header};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream, unix::pipe},
    sync::{mpsc, watch},
};

use super::deploy::Deploy;
use crate::{
    DeployDir,
    client::{open_folder, read_frame},
};

/// What `data/load` may take: as much as a site's own limit.
const BODY_LIMIT: usize = 256 << 20;
/// Frames of a command's output on their way to a slow reader.
const FRAMES: usize = 16;
/// What a command that has ended may have left in a pipe: the most that an ordinary user's pipe holds.
const PIPE_BYTES: usize = 1 << 20;

type Answer<T> = Result<Json<T>, Failed>;

/// Binds the socket; its folder is 0700, so only this user comes near it.
pub(crate) fn bind(dir: &DeployDir) -> io::Result<UnixListener> {
    // By a descriptor of the folder: its path may be longer than a socket address holds.
    let folder = open_folder(dir)?;
    UnixListener::bind(format!("/proc/self/fd/{}/control.sock", folder.as_raw_fd()))
}

/// Serves until the task is dropped.
pub(crate) async fn serve(listener: UnixListener, deploy: Arc<Deploy>) {
    let router = Router::new()
        .route("/status", get(status))
        .route("/denied", get(denied))
        .route("/data/load", post(load))
        .route("/data/get", post(data))
        .route("/sign-in", post(sign_in))
        .route("/reset", post(reset))
        .route("/close", post(close))
        .route("/exec", post(exec))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(Arc::clone(&deploy));
    loop {
        match listener.accept().await {
            Ok((stream, _)) if is_owner(&stream) => {
                let service = TowerToHyperService::new(router.clone());
                let guest = deploy.context.down.guest();
                tokio::spawn(async move {
                    let connection = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .with_upgrades();
                    if let Err(error) = connection.await {
                        tracing::debug!(%error, "control connection");
                    }
                    drop(guest);
                });
            }
            Ok(_) => tracing::warn!("a process of another user was turned away from the control socket"),
            Err(error) => {
                tracing::warn!(%error, "control socket");
                tokio::task::yield_now().await;
            }
        }
    }
}

fn is_owner(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

/// The answer of a route in which a website has a part: what it says of an error may hold what nothing shows.
fn answer<T>(deploy: &Deploy, result: Result<T, ControlError>) -> Answer<T> {
    result.map(Json).map_err(|error| Failed(deploy.context.mask.error(error)))
}

async fn status(State(deploy): State<Arc<Deploy>>) -> Answer<DeployStatus> {
    Ok(Json(deploy.status()))
}

async fn denied(State(deploy): State<Arc<Deploy>>) -> Answer<Vec<DeniedEntry>> {
    Ok(Json(deploy.denied()))
}

async fn load(State(deploy): State<Arc<Deploy>>, Json(request): Json<LoadRequest>) -> Answer<Value> {
    answer(&deploy, deploy.load(request).await.map(|()| json!({})))
}

async fn data(
    State(deploy): State<Arc<Deploy>>,
    Json(request): Json<GetRequest>,
) -> Answer<agentenv_protocol::DataReply> {
    answer(&deploy, deploy.data(request).await)
}

async fn sign_in(State(deploy): State<Arc<Deploy>>, Json(request): Json<SignInRequest>) -> Answer<SignInReport> {
    answer(&deploy, deploy.sign_in(request).await)
}

async fn reset(State(deploy): State<Arc<Deploy>>) -> Answer<ResetReport> {
    answer(&deploy, deploy.reset().await)
}

async fn close(State(deploy): State<Arc<Deploy>>, Json(request): Json<CloseRequest>) -> Answer<Value> {
    deploy.close(&request).await?;
    Ok(Json(json!({})))
}

/// Starts the command, answers 101, then relays frames: the caller's descriptors never enter a sandbox.
async fn exec(State(deploy): State<Arc<Deploy>>, mut request: Request) -> Result<Response, Failed> {
    let upgrade = hyper::upgrade::on(&mut request);
    let body = axum::body::to_bytes(request.into_body(), BODY_LIMIT).await.map_err(|error| bad_request(&error))?;
    let request: ExecRequest = serde_json::from_slice(&body).map_err(|error| bad_request(&error))?;
    let mut command = deploy.exec(&request).await?;
    tokio::spawn(async move {
        let relayed = async {
            let upgraded = upgrade.await.map_err(io::Error::other)?;
            relay(TokioIo::new(upgraded), &mut command).await
        };
        if let Err(error) = relayed.await {
            tracing::debug!(%error, "exec");
        }
        command.kill();
    });
    let headers = [(header::CONNECTION, "upgrade"), (header::UPGRADE, "agentenv-exec")];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
}

/// Relays until the command has ended and its output is read. Others may hold its pipes open for longer: its children, and
/// whatever else runs in the sandbox, by way of `/proc`.
async fn relay(stream: TokioIo<hyper::upgrade::Upgraded>, command: &mut agentenv_sandbox::Service) -> io::Result<()> {
    let (mut from, mut to) = tokio::io::split(stream);
    let mut stdin = command.stdin.take().map(pipe::Sender::from_owned_fd).transpose()?;
    let (frames, mut output) = mpsc::channel::<ExecFrame>(FRAMES);
    let outputs = [
        (command.stdout.take(), ExecFrame::Stdout as fn(Vec<u8>) -> ExecFrame),
        (command.stderr.take(), ExecFrame::Stderr),
    ];
    let (over, is_over) = watch::channel(false);
    for (pipe, frame) in outputs {
        if let Some(pipe) = pipe {
            tokio::spawn(forward(pipe, frame, frames.clone(), is_over.clone()));
        }
    }
    drop(frames);
    let command = &*command;
    let feed = async {
        while let Some(ExecFrame::Stdin(bytes)) = read_frame(&mut from).await? {
            match &mut stdin {
                Some(pipe) if !bytes.is_empty() => {
                    // A command that reads no more is no error of the one who writes.
                    let _ = pipe.write_all(&bytes).await;
                }
                _ => stdin = None,
            }
        }
        io::Result::Ok(())
    };
    let drain = async {
        let ended = async {
            let exit = super::service::ended(command).await;
            over.send_replace(true);
            io::Result::Ok(exit)
        };
        let write = async {
            while let Some(frame) = output.recv().await {
                to.write_all(&frame.encode()).await?;
            }
            Ok(())
        };
        let (exit, ()) = tokio::try_join!(ended, write)?;
        to.write_all(&ExecFrame::Exit(super::service::exit_code(exit)).encode()).await?;
        to.shutdown().await
    };
    tokio::pin!(feed);
    tokio::select! {
        done = drain => done,
        // The caller is gone: so is the command.
        gone = &mut feed => gone,
    }
}

/// Forwards a pipe to its end, or until the command is over and what it left there is read.
async fn forward(
    pipe: OwnedFd,
    frame: fn(Vec<u8>) -> ExecFrame,
    frames: mpsc::Sender<ExecFrame>,
    mut over: watch::Receiver<bool>,
) {
    let Ok(mut pipe) = pipe::Receiver::from_owned_fd(pipe) else { return };
    let mut buffer = vec![0; ExecFrame::MAX_LEN];
    loop {
        let read = tokio::select! {
            read = pipe.read(&mut buffer) => read,
            _ = over.wait_for(|over| *over) => break,
        };
        let Ok(length @ 1..) = read else { return };
        if frames.send(frame(buffer[..length].to_vec())).await.is_err() {
            return;
        }
    }
    let mut left = PIPE_BYTES;
    // Asked of the kernel itself: the runtime may not have heard yet that there is something to read.
    while let Ok(length @ 1..) = rustix::io::read(&pipe, &mut buffer) {
        if frames.send(frame(buffer[..length].to_vec())).await.is_err() || length > left {
            return;
        }
        left -= length;
    }
}

fn bad_request(error: &dyn std::fmt::Display) -> ControlError {
    ControlError::new(ExitCode::Usage, format!("the request cannot be read: {error}"))
}

/// A failed command as an answer: the one place that maps exit codes to statuses.
struct Failed(ControlError);

impl From<ControlError> for Failed {
    fn from(error: ControlError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = match self.0.exit {
            ExitCode::Usage | ExitCode::Refused => StatusCode::BAD_REQUEST,
            ExitCode::Done | ExitCode::Failed => StatusCode::CONFLICT,
            ExitCode::Infrastructure => StatusCode::INTERNAL_SERVER_ERROR,
            ExitCode::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        };
        (status, Json(self.0)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    #[tokio::test]
    async fn output_ends_with_its_command_whoever_holds_the_pipe() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        let (over, is_over) = watch::channel(false);
        let (frames, mut output) = mpsc::channel(FRAMES);
        tokio::spawn(forward(reader, ExecFrame::Stdout, frames, is_over));
        for round in ["first", "last"] {
            rustix::io::write(&writer, round.as_bytes()).unwrap();
            if round == "last" {
                over.send_replace(true);
            }
            assert_eq!(output.recv().await, Some(ExecFrame::Stdout(round.into())));
        }
        let end = tokio::time::timeout(Duration::from_secs(10), output.recv()).await;
        assert_eq!(end, Ok(None), "`writer` is still open");
    }
}
