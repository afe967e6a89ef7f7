//! A small internet for browsers under test: a forward proxy that knows two sites, over HTTP and trusted HTTPS, and logs
//! whatever else is asked for.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

/// The names that exist.
pub(super) const HOSTS: [&str; 2] = ["shop.test", "tracker.test"];

/// A running one. Its tasks end with the test's runtime.
#[derive(Clone)]
pub(super) struct Internet {
    pub(super) proxy: std::net::SocketAddrV4,
    pub(super) ca_pem: String,
    log: Arc<Mutex<Vec<String>>>,
}

impl Internet {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let std::net::SocketAddr::V4(proxy) = listener.local_addr().unwrap() else { unreachable!("bound to IPv4") };
        let (ca_pem, tls) = authority();
        let internet = Self { proxy, ca_pem, log: Arc::default() };
        let accepting = internet.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(accepting.clone().serve(stream, "http", tls.clone()));
            }
        });
        internet
    }

    /// What was asked for so far: `CONNECT host:port`, `GET https://host/path`.
    pub(super) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    async fn serve<S>(self, stream: S, scheme: &'static str, tls: TlsAcceptor)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(move |request| {
            let (internet, tls) = (self.clone(), tls.clone());
            async move { Ok::<_, Infallible>(internet.answer(request, scheme, tls).await) }
        });
        http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades().await.ok();
    }

    async fn answer(self, request: Request<Incoming>, scheme: &'static str, tls: TlsAcceptor) -> Response<Full<Bytes>> {
        if request.method() == Method::CONNECT {
            return self.tunnel(request, tls);
        }
        let host = request.uri().host().or_else(|| host_header(&request)).unwrap_or_default().to_owned();
        self.log.lock().unwrap().push(format!("{} {scheme}://{host}{}", request.method(), request.uri().path()));
        if !HOSTS.contains(&host.as_str()) {
            return status(403);
        }
        if request.uri().path() == "/slow" {
            std::future::pending::<()>().await;
        }
        page(&request, &host)
    }

    fn tunnel(self, request: Request<Incoming>, tls: TlsAcceptor) -> Response<Full<Bytes>> {
        let target = request.uri().to_string();
        self.log.lock().unwrap().push(format!("CONNECT {target}"));
        if !HOSTS.iter().any(|host| target == format!("{host}:443")) {
            return status(403);
        }
        tokio::spawn(async move {
            let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
            let Ok(stream) = tls.accept(TokioIo::new(upgraded)).await else { return };
            // Type erasure: this future holds itself otherwise.
            let serve: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(self.serve(stream, "https", tls));
            serve.await;
        });
        status(200)
    }
}

fn authority() -> (String, TlsAcceptor) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let leaf_key = KeyPair::generate().unwrap();
    let names: Vec<String> = HOSTS.iter().map(|host| (*host).to_owned()).collect();
    let leaf = CertificateParams::new(names).unwrap().signed_by(&leaf_key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], leaf_key.serialize_der().try_into().unwrap())
        .unwrap();
    (ca.pem(), TlsAcceptor::from(Arc::new(config)))
}

fn host_header(request: &Request<Incoming>) -> Option<&str> {
    request.headers().get(header::HOST)?.to_str().ok()
}

fn status(code: u16) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

/// Every page of both sites.
fn page(request: &Request<Incoming>, host: &str) -> Response<Full<Bytes>> {
    let cookie = request.headers().get(header::COOKIE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let user = cookie.split("; ").find_map(|pair| pair.strip_prefix("sid=")).unwrap_or("nobody");
    let (code, body) = match request.uri().path() {
        "/" => (200, format!("<title>{host}</title><h1>{host}</h1><form><input name=q><input type=password></form>")),
        "/error" => (503, "the database is down".to_owned()),
        "/empty-error" => (500, String::new()),
        "/gone" => (204, String::new()),
        "/dialog" => (200, "<script>alert('hello'); confirm('sure?')</script>after".to_owned()),
        "/onward" => (200, "<script>location.replace('/')</script>".to_owned()),
        "/out" => (200, "<script>location.replace('https://nowhere.test/')</script>".to_owned()),
        "/never" => (200, "<img src=/slow>".to_owned()),
        "/account" if user == "nobody" => (200, "<script>'Signed in as alice'</script>Please sign in".to_owned()),
        "/account" => (200, format!("Signed in as {user}")),
        "/forbidden" => (403, "Signed in as alice".to_owned()),
        "/late" => (
            200,
            "<script>setTimeout(() => { document.body.append('token ' + localStorage.getItem('token')) }, 50)</script><body>"
                .to_owned(),
        ),
        "/episode" => (
            200,
            "<title>zebra-canary</title><script>document.cookie = 'left=zebra-canary; max-age=9999'; \
             localStorage.left = 'zebra-canary'; indexedDB.open('zebra-canary')</script>zebra-canary"
                .to_owned(),
        ),
        "/file" => (200, "zebra-canary".to_owned()),
        _ => (404, "no such page".to_owned()),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=9999"));
    if request.uri().path() == "/file" {
        headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=zebra.txt"));
    }
    response
}
