//! The forward port: an HTTP proxy that leads to the deploy's websites and nowhere else (NET-2, NET-3).

use std::{net::IpAddr, sync::Arc};

use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::{Answerer, Net, Origin};
use crate::{
    DenyReason,
    body::{self, Body},
    decide::printable,
    error::ProxyError,
    headers::{authority, parse_port, split_port},
    serve,
};

impl Net {
    pub(super) async fn forward_port(self: Arc<Self>, stream: TcpStream) {
        let Ok(peer) = stream.peer_addr() else { return };
        let (net, limits, life) = (self.clone(), self.config.sites.limits().clone(), self.life.clone());
        serve::http1(stream, &limits, &life, move |request| {
            let net = net.clone();
            async move {
                match net.proxy(peer.ip(), request).await {
                    Ok(response) => response,
                    Err(error) => error.answer(),
                }
            }
        })
        .await;
    }

    async fn proxy(self: Arc<Self>, peer: IpAddr, request: Request<Incoming>) -> Result<Response<Body>, ProxyError> {
        if request.method() == Method::CONNECT {
            return self.connect(peer, request).await;
        }
        // Origin form, or a host alone: not what a proxy is asked.
        let Some(scheme) = request.uri().scheme_str() else {
            return Err(ProxyError::BadRequest("the forward port takes CONNECT and absolute URLs"));
        };
        let https = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(ProxyError::BadRequest("the forward port takes http URLs, and CONNECT for the rest")),
        };
        let asked = authority(&request)?;
        let (name, answerer) = self.asked(&asked, if https { 443 } else { 80 })?;
        if https || !matches!(split_port(&asked).1, None | Some("80")) {
            return Err(ProxyError::BadRequest("https goes through CONNECT"));
        }
        self.answer(&Origin { name, answerer, https, peer }, request).await
    }

    /// Decides what was asked for, as it was written.
    fn asked(&self, authority: &str, default_port: u16) -> Result<(agentenv_protocol::HostName, Answerer), ProxyError> {
        let (host, port) = split_port(authority);
        let denied = |reason| ProxyError::Denied { host: printable(host), reason };
        match port.map_or(Some(default_port), parse_port) {
            Some(port) => self.verdict(host, port).map_err(denied),
            None => {
                self.deny(authority, 0, &DenyReason::BadName);
                Err(denied(DenyReason::BadName))
            }
        }
    }

    /// Grants a tunnel. One to a website is served in this process: TLS at 443, plain HTTP at 80. One to a live host goes on to
    /// the real one, which was connected to before the tunnel is granted.
    async fn connect(
        self: Arc<Self>,
        peer: IpAddr,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, ProxyError> {
        let asked = authority(&request)?;
        let port = split_port(&asked).1.and_then(parse_port);
        let (name, answerer) = self.asked(&asked, 0)?;
        let origin = Origin { name, answerer, https: port == Some(443), peer };
        let place = self.tunnels.clone().try_acquire_owned().map_err(|_| ProxyError::Busy("tunnels"))?;
        let real = match origin.answerer {
            Answerer::Real if origin.https => Some(self.dial_real(&origin.name, 443).await?),
            _ => None,
        };
        let upgrade = hyper::upgrade::on(&mut request);
        let life = self.life.clone();
        life.spawn(async move {
            match upgrade.await {
                Ok(tunnel) => self.serve(TokioIo::new(tunnel), origin, real).await,
                Err(error) => tracing::debug!(%error, "tunnel ended before it began"),
            }
            drop(place);
        });
        Ok(Response::new(body::empty()))
    }
}
