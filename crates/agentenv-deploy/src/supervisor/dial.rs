//! How gateway, browsers and the supervisor itself reach what runs in the sandboxes: by placed sockets.

use std::{
    collections::HashMap,
    io,
    sync::{PoisonError, RwLock},
};

use agentenv_net::{Dial, Upstream};
use futures_util::future::BoxFuture;
use tokio::net::TcpStream;

use super::sockets::Sockets;

/// Every upstream of the deploy, by the sandbox and the port it is at.
#[derive(Default)]
pub(crate) struct Dialer(RwLock<HashMap<Upstream, (Sockets, u16)>>);

impl Dialer {
    pub(crate) fn add(&self, upstream: Upstream, sockets: Sockets, port: u16) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(upstream, (sockets, port));
    }

    /// Forgets every sandbox, so that no socket keeps a namespace alive.
    pub(crate) fn clear(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn find(&self, upstream: &Upstream) -> Option<(Sockets, u16)> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(upstream).cloned()
    }
}

impl Dial for Dialer {
    fn dial<'a>(&'a self, target: &'a Upstream) -> BoxFuture<'a, io::Result<TcpStream>> {
        Box::pin(async move {
            let (sockets, port) = self.find(target).ok_or(io::ErrorKind::NotFound)?;
            sockets.dial(port).await
        })
    }
}
