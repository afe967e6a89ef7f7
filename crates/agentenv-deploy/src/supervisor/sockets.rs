//! Placed sockets as the runtime's: listeners, datagram sockets, and connections into a sandbox.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
};

use agentenv_net::BrowserSockets;
use agentenv_sandbox::{Sandbox, SandboxError};
use tokio::net::{TcpSocket, TcpStream};

use crate::sandbox_net::{DNS, FORWARD_PORT, GATEWAY, HTTP, TLS};

/// How many sockets a broker is asked for at once: a batch costs hardly more than one.
const BATCH: usize = 16;
/// Connections that wait to be accepted on a placed listener.
const BACKLOG: u32 = 1024;

/// Makes sockets in one sandbox, some ahead of need.
#[derive(Clone)]
pub(crate) struct Sockets(Arc<Inner>);

struct Inner {
    sandbox: Sandbox,
    spare: Mutex<Vec<OwnedFd>>,
}

impl Sockets {
    pub(crate) fn new(sandbox: Sandbox) -> Self {
        Self(Arc::new(Inner { sandbox, spare: Mutex::new(Vec::new()) }))
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        &self.0.sandbox
    }

    /// Connects to a port on the sandbox's loopback.
    pub(crate) async fn dial(&self, port: u16) -> io::Result<TcpStream> {
        let socket = TcpSocket::from_std_stream(self.tcp().await?.into());
        socket.bind(SocketAddrV4::new(GATEWAY, 0).into())?;
        let stream = socket.connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port).into()).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Whether somebody in the sandbox has this port. Asked by binding: the kernel's table of sockets takes it 10 ms to write.
    pub(crate) async fn is_taken(&self, port: u16) -> bool {
        let Ok(socket) = self.tcp().await else { return false };
        let bound = rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port));
        bound == Err(rustix::io::Errno::ADDRINUSE)
    }

    async fn tcp(&self) -> io::Result<OwnedFd> {
        let spare = self.0.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(socket) = spare {
            return Ok(socket);
        }
        // The broker answers in microseconds, but a broker that was killed does not: never on a thread of the runtime.
        let inner = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || {
            let mut batch = inner.sandbox.tcp(BATCH).map_err(io::Error::other)?;
            let socket = batch.pop().ok_or_else(|| io::Error::other("the broker made no socket"))?;
            inner.spare.lock().unwrap_or_else(PoisonError::into_inner).append(&mut batch);
            Ok(socket)
        })
        .await
        .map_err(io::Error::other)?
    }
}

/// Places the sockets of a sandbox's network: all that it can reach.
pub(crate) fn place(sockets: &Sockets) -> Result<BrowserSockets, SocketError> {
    let sandbox = sockets.sandbox();
    Ok(BrowserSockets {
        dns_udp: Some(datagrams(sandbox, *DNS.ip(), DNS.port())?),
        dns_tcp: Some(listen(sandbox, *DNS.ip(), DNS.port())?),
        https: Some(listen(sandbox, *TLS.ip(), TLS.port())?),
        http: Some(listen(sandbox, *HTTP.ip(), HTTP.port())?),
        forward_port: Some(listen(sandbox, *FORWARD_PORT.ip(), FORWARD_PORT.port())?),
    })
}

/// Makes a listener in the sandbox.
fn listen(sandbox: &Sandbox, address: Ipv4Addr, port: u16) -> Result<std::net::TcpListener, SocketError> {
    let failed = |source| SocketError { address: SocketAddr::from((address, port)), source };
    let socket = one(sandbox.tcp(1)).map_err(failed)?;
    let socket = TcpSocket::from_std_stream(socket.into());
    let listen = || -> io::Result<_> {
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddrV4::new(address, port).into())?;
        socket.listen(BACKLOG)?.into_std()
    };
    listen().map_err(failed)
}

/// Makes a datagram socket in the sandbox.
fn datagrams(sandbox: &Sandbox, address: Ipv4Addr, port: u16) -> Result<std::net::UdpSocket, SocketError> {
    let failed = |source| SocketError { address: SocketAddr::from((address, port)), source };
    let socket = one(sandbox.udp(1)).map_err(failed)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(address, port)).map_err(|error| failed(error.into()))?;
    Ok(socket.into())
}

fn one(batch: Result<Vec<OwnedFd>, SandboxError>) -> io::Result<OwnedFd> {
    batch.map_err(io::Error::other)?.pop().ok_or_else(|| io::Error::other("the broker made no socket"))
}

/// Why a socket cannot be placed.
#[derive(Debug, thiserror::Error)]
#[error("no socket can be placed on {address}: {source}")]
pub(crate) struct SocketError {
    address: SocketAddr,
    source: io::Error,
}
