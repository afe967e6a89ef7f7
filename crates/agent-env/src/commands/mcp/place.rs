//! Where a browser or a computer is at the gateway.

use std::{io, time::Duration};

use tokio::net::TcpStream;

/// The gateway is on this machine, or near it.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// An agent URL, in its parts. It holds the agent token, so it is never shown.
#[derive(Clone)]
pub(super) struct Place {
    host: String,
    port: u16,
    path: String,
}

impl Place {
    /// Of `http://HOST:PORT/agent/TOKEN/NAME`; nothing of any other URL.
    pub(super) fn parse(url: &str) -> Option<Self> {
        let uri: http::Uri = url.parse().ok()?;
        let plain = uri.scheme_str() == Some("http") && uri.query().is_none();
        let path = uri.path().trim_end_matches('/');
        if !plain || !path.starts_with("/agent/") {
            return None;
        }
        Some(Self { host: uri.host()?.to_owned(), port: uri.port_u16()?, path: path.to_owned() })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// What goes before the paths of the machine.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// A URL of the machine.
    pub(super) fn url(&self, rest: &str) -> String {
        format!("http://{}:{}{}{rest}", self.host, self.port, self.path)
    }

    pub(super) async fn dial(&self) -> io::Result<TcpStream> {
        let host = self.host.trim_matches(['[', ']']);
        match tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect((host, self.port))).await {
            Ok(dialled) => dialled,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_url_is_taken_apart_and_no_other_is() {
        let place = Place::parse("http://127.0.0.1:4000/agent/t/desk").unwrap();
        assert_eq!((place.port(), place.path()), (4000, "/agent/t/desk"));
        assert_eq!(place.url("/act"), "http://127.0.0.1:4000/agent/t/desk/act");
        for other in [
            "https://127.0.0.1:4000/agent/t/desk",
            "http://127.0.0.1/agent/t/desk",
            "http://127.0.0.1:4000/svc/shop",
            "http://127.0.0.1:4000/agent/t/desk?x",
            "/agent/t/desk",
            "",
        ] {
            assert!(Place::parse(other).is_none(), "{other}");
        }
    }
}
