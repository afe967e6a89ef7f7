//! `env view`: where people see a computer's screen.

use std::{io, os::unix::fs::PermissionsExt as _, path::PathBuf, sync::Arc};

use agentenv_protocol::{
    ExitCode, Home, Name,
    control::{BrowserInfo, ControlError},
};
use clap::Args;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UnixListener, UnixStream},
    sync::Semaphore,
};
use tokio_tungstenite::tungstenite::Message;

use super::deploys::DeployArg;
use crate::output::{Output, print};

/// Viewers at one socket.
const VIEWERS: usize = 8;
/// What is read at once of a viewer: it sends keys and clicks.
const BUFFER_BYTES: usize = 16 << 10;

/// Arguments of `env view`.
#[derive(Args, Debug)]
pub(crate) struct ViewArgs {
    #[command(flatten)]
    deploy: DeployArg,
    /// The computer, where there are several
    computer: Option<Name>,
    /// Serve plain VNC at a socket of this path, until interrupted
    #[arg(long, value_name = "PATH")]
    vnc_socket: Option<PathBuf>,
}

/// `env view`
pub(crate) async fn view(home: &Home, output: Output, args: &ViewArgs) -> Result<(), ControlError> {
    let info = args.deploy.client(home)?.status().await?.info;
    let computer = choose(&info.computers, args.computer.as_ref())?;
    let url = format!("{}/view/", computer.cdp_url);
    let Some(path) = &args.vnc_socket else {
        return output.result(&json!({ "computer": computer.name, "url": url }), || url.clone());
    };
    let failed = |error: io::Error| {
        ControlError::new(ExitCode::Refused, format!("{} cannot be a socket: {error}", path.display()))
    };
    let listener = UnixListener::bind(path).map_err(failed)?;
    // Whoever may connect sees the screen and has the keyboard.
    let guarded = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
    let served = async {
        guarded.map_err(failed)?;
        if !output.json {
            print(&format!("VNC of {} at {}; ^C ends it", computer.name, path.display()))?;
        }
        tokio::select! {
            served = serve(&listener, &computer.cdp_url) => served.map_err(failed),
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    };
    let served = served.await;
    // Made by this command; it may be gone already.
    let _ = std::fs::remove_file(path);
    served
}

fn choose<'a>(computers: &'a [BrowserInfo], wanted: Option<&Name>) -> Result<&'a BrowserInfo, ControlError> {
    let known: Vec<&str> = computers.iter().map(|computer| computer.name.as_str()).collect();
    let refused = |message: String| {
        let hint = if known.is_empty() { String::new() } else { format!("it has: {}", known.join(", ")) };
        ControlError::new(ExitCode::Refused, message).hint(hint)
    };
    match (wanted, computers) {
        (Some(name), _) => computers
            .iter()
            .find(|computer| computer.name == *name)
            .ok_or_else(|| refused(format!("the deploy has no computer `{name}`"))),
        (None, [computer]) => Ok(computer),
        (None, []) => Err(refused("the deploy has no computer".to_owned())),
        (None, _) => Err(refused("the deploy has several computers: name one".to_owned())),
    }
}

async fn serve(listener: &UnixListener, base: &str) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(VIEWERS));
    loop {
        let (viewer, _) = listener.accept().await?;
        // Who comes when all places are taken is turned away.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let url = format!("{}/vnc", base.replacen("http://", "ws://", 1));
        tokio::spawn(async move {
            if let Err(error) = relay(viewer, &url).await {
                tracing::warn!(%error, "viewer");
            }
            drop(place);
        });
    }
}

/// Relays one viewer's bytes until one end closes.
async fn relay(viewer: UnixStream, url: &str) -> io::Result<()> {
    let uri: http::Uri = url.parse().map_err(io::Error::other)?;
    let gateway = TcpStream::connect(uri.authority().map_or("", http::uri::Authority::as_str)).await?;
    let (gateway, _) = tokio_tungstenite::client_async(url, gateway).await.map_err(io::Error::other)?;
    let (mut to_gateway, mut from_gateway) = gateway.split();
    let (mut from_viewer, mut to_viewer) = viewer.into_split();
    let up = async {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let length = from_viewer.read(&mut buffer).await?;
            if length == 0 {
                return to_gateway.close().await.map_err(io::Error::other);
            }
            to_gateway.send(Message::Binary(buffer[..length].to_vec().into())).await.map_err(io::Error::other)?;
        }
    };
    let down = async {
        while let Some(message) = from_gateway.next().await {
            match message.map_err(io::Error::other)? {
                Message::Binary(bytes) => to_viewer.write_all(&bytes).await?,
                // VNC has no words for it: whoever serves the socket is told.
                Message::Close(Some(frame)) => return Err(io::Error::other(frame.reason.as_str().to_owned())),
                _ => {}
            }
        }
        Ok(())
    };
    tokio::select! {
        ended = up => ended,
        ended = down => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computer_is_named_where_there_are_several() {
        let named = |name: &str| BrowserInfo { name: Name::parse(name).unwrap(), cdp_url: String::new() };
        let (one, two) = (vec![named("a")], vec![named("a"), named("b")]);
        let b = Name::parse("b").unwrap();
        assert_eq!(choose(&one, None).unwrap().name.as_str(), "a");
        assert_eq!(choose(&two, Some(&b)).unwrap().name.as_str(), "b");
        for (computers, wanted) in [(&one, Some(&b)), (&two, None), (&vec![], None)] {
            assert_eq!(choose(computers, wanted).unwrap_err().exit, ExitCode::Refused);
        }
    }
}
