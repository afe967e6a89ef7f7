//! A proxy that this machine has to go through.

use std::{fmt, str::FromStr};

use agentenv_protocol::HostName;
use base64::Engine as _;
use http::{HeaderValue, Method, Request, Uri, header};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::RealError;

/// The port of a proxy that names none, as curl has it.
const DEFAULT_PORT: u16 = 1080;

/// An HTTP proxy that takes CONNECT: `http://[USER:PASSWORD@]HOST[:PORT]`.
#[derive(Clone)]
pub struct UpstreamProxy {
    host: String,
    port: u16,
    authorization: Option<HeaderValue>,
}

/// Why a text names no proxy. It doesn't hold the text, which may have a password.
#[derive(Debug, thiserror::Error)]
#[error("an upstream proxy is written `http://[USER:PASSWORD@]HOST[:PORT]`")]
pub struct UpstreamProxyError;

impl FromStr for UpstreamProxy {
    type Err = UpstreamProxyError;

    fn from_str(text: &str) -> Result<Self, UpstreamProxyError> {
        let uri: Uri = text.parse().map_err(|_| UpstreamProxyError)?;
        let (Some("http"), Some(authority), "" | "/") = (uri.scheme_str(), uri.authority(), uri.path()) else {
            return Err(UpstreamProxyError);
        };
        if authority.host().is_empty() || uri.query().is_some() {
            return Err(UpstreamProxyError);
        }
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| user);
        let authorization = user.map(|user| {
            let decoded = percent_encoding::percent_decode_str(user).collect::<Vec<u8>>();
            let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(decoded));
            let mut value = HeaderValue::from_str(&basic).map_err(|_| UpstreamProxyError)?;
            value.set_sensitive(true);
            Ok(value)
        });
        Ok(Self {
            host: authority.host().to_owned(),
            port: authority.port_u16().unwrap_or(DEFAULT_PORT),
            authorization: authorization.transpose()?,
        })
    }
}

impl fmt::Debug for UpstreamProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}

impl UpstreamProxy {
    /// A connection to the host through the proxy.
    pub(super) async fn connect(&self, name: &HostName, port: u16) -> Result<TcpStream, RealError> {
        let proxy = TcpStream::connect((self.host.trim_matches(['[', ']']), self.port)).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(proxy)).await.map_err(refused)?;
        let connection = tokio::spawn(connection.with_upgrades());
        let mut request = Request::new(Empty::<bytes::Bytes>::new());
        let target = format!("{name}:{port}");
        *request.method_mut() = Method::CONNECT;
        *request.uri_mut() = target.parse().map_err(|_| RealError::Proxy("the name is no authority".to_owned()))?;
        request
            .headers_mut()
            .insert(header::HOST, HeaderValue::from_str(&target).map_err(|error| RealError::Proxy(error.to_string()))?);
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, authorization.clone());
        }
        let answer = sender.send_request(request).await.map_err(refused)?;
        if !answer.status().is_success() {
            connection.abort();
            return Err(RealError::Proxy(answer.status().to_string()));
        }
        let tunnel = hyper::upgrade::on(answer).await.map_err(refused)?;
        let parts = tunnel
            .downcast::<TokioIo<TcpStream>>()
            .map_err(|_| RealError::Proxy("its connection is not ours".to_owned()))?;
        if !parts.read_buf.is_empty() {
            return Err(RealError::Proxy("it spoke before it was asked".to_owned()));
        }
        Ok(parts.io.into_inner())
    }
}

fn refused(error: impl std::fmt::Display) -> RealError {
    RealError::Proxy(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_read_and_its_password_never_shown() {
        let proxy: UpstreamProxy = "http://user:p%40ss@proxy.corp:3128".parse().unwrap();
        assert_eq!(format!("{proxy:?}"), "http://proxy.corp:3128");
        assert_eq!(proxy.authorization.as_ref().unwrap().to_str().unwrap(), "Basic dXNlcjpwQHNz");
        assert_eq!("http://proxy.corp".parse::<UpstreamProxy>().unwrap().port, DEFAULT_PORT);
        for bad in [
            "",
            "proxy.corp:3128",
            "https://proxy.corp",
            "socks5://proxy.corp",
            "http://",
            "http://proxy/path",
            "http://p?q",
        ] {
            assert!(bad.parse::<UpstreamProxy>().is_err(), "{bad}");
        }
    }
}
