//! What this crate connects to, through a trait that somebody else implements.

use std::{fmt, io};

use agentenv_protocol::Name;
use futures_util::future::BoxFuture;
use tokio::net::TcpStream;

/// Which service of a website.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Speaks `website/v1`.
    Server,
    /// Serves the pages where there is one.
    Frontend,
}

/// Something to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Upstream {
    /// A service of a website.
    Service {
        /// Which website.
        website: Name,
        /// Which of its services.
        service: Role,
    },
    /// The DevTools port of a browser, alone or a computer's.
    DevTools {
        /// Which browser.
        browser: Name,
    },
    /// The VNC port of a computer.
    Vnc {
        /// Which computer.
        computer: Name,
    },
}

/// Connects to an upstream: by a placed socket of its sandbox, or in a test to a local listener.
pub trait Dial: Send + Sync {
    /// Connects. Errors mean that the upstream is down; the caller limits the time.
    fn dial<'a>(&'a self, target: &'a Upstream) -> BoxFuture<'a, io::Result<TcpStream>>;
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service { website, service: Role::Server } => write!(f, "{website}/server"),
            Self::Service { website, service: Role::Frontend } => write!(f, "{website}/frontend"),
            Self::DevTools { browser: name } | Self::Vnc { computer: name } => write!(f, "{name}"),
        }
    }
}
