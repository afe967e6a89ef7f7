//! The server of a site.

use std::{net::Ipv4Addr, process::ExitCode, sync::Arc, time::Duration};

use agentenv_protocol::{AgentCard, HostPattern, Name, WebsiteParams};
use axum::{Extension, Router, serve::ListenerExt};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::{
    Environment, Error, Result, Settings, Website,
    error::log,
    operations::{self, Served},
    session::Sessions,
};

/// Threads of a site: enough that a page that waits for its database stops no other, few for the many sites of one machine.
const MAX_WORKERS: usize = 4;
/// How long requests may go on after TERM: the supervisor waits a little longer before it kills.
const DRAIN: Duration = Duration::from_secs(2);

/// Serves the site until it is told to stop; a site's whole `main`.
///
/// Reads the deploy's environment, opens the site, then listens at `PORT` on 127.0.0.1. Settings that don't fit fail
/// `ready`; anything else that keeps the site from starting ends it, with the reason in the log.
pub fn serve<W: Website>() -> ExitCode {
    match start::<W>() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log(format_args!("{} did not start: {error}", W::NAME));
            ExitCode::FAILURE
        }
    }
}

fn start<W: Website>() -> Result<()> {
    let environment = Environment::from_process()?;
    let port = Environment::port()?;
    let workers = std::thread::available_parallelism().map_or(MAX_WORKERS, |cores| cores.get().clamp(2, MAX_WORKERS));
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()?
        .block_on(listen::<W>(environment, port))
}

async fn listen<W: Website>(environment: Environment, port: u16) -> Result<()> {
    if environment.key.is_none() {
        log(format_args!("{}: no site key, so every operation answers 404", W::NAME));
    }
    let app = app::<W>(environment).await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(|error| {
        Error::internal(format!("port {port}: {error}")).hint("another service of the site may have taken it")
    })?;
    log(format_args!("{} listens at http://{}", W::NAME, listener.local_addr()?));
    // Small answers on a kept connection would otherwise wait for the other side's delayed ACK.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let drain = async move {
        tokio::select! { _ = term.recv() => {}, _ = interrupt.recv() => {} }
        let _ = stop.send(());
    };
    let late = async {
        // Without a signal this never ends, as `drain` keeps its sender.
        let _ = stopped.await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        ended = axum::serve(listener, app).with_graceful_shutdown(drain).into_future() => Ok(ended?),
        () = late => Ok(()),
    }
}

/// Opens the site and makes its router: operations, card and pages. [`serve`] serves it; tests call it directly.
///
/// # Errors
/// The declaration names what is no name or host pattern, or [`Website::open`] fails.
pub async fn app<W: Website>(environment: Environment) -> Result<Router> {
    let Environment { data_dir, key, settings } = environment;
    let params = params::<W>()?;
    let sessions = Sessions::open(W::NAME, params.domains.clone(), key.as_ref(), &data_dir)?;
    let url = format!("{}/", sessions.origin());
    let description = format!("The website {}", W::NAME);
    let card = AgentCard::new(W::NAME, &description, env!("CARGO_PKG_VERSION"), &url, vec![params.extension()]);
    let settings = match W::Settings::from_json(settings.as_deref().unwrap_or("{}")) {
        Ok(settings) => settings,
        Err(error) => {
            log(format_args!("{}: {error}", W::NAME));
            return Ok(operations::misfit(&error, key, &card));
        }
    };
    let site = W::open(settings, &data_dir).await?;
    let served = Arc::new(Served::new(site, sessions.clone(), data_dir));
    let pages = if W::HAS_PAGES { Arc::clone(&served.site).pages() } else { Router::new() };
    // A fallback and not a merge: whatever the pages are, the operations stand before them.
    Ok(operations::routes(served, key, &card).fallback_service(pages.layer(Extension(sessions))))
}

/// What the card says of the site.
fn params<W: Website>() -> Result<WebsiteParams> {
    let patterns = |texts: &[&str]| texts.iter().map(|text| HostPattern::parse(text)).collect::<Result<Vec<_>, _>>();
    let routes = if W::HAS_PAGES && !W::LIVE { vec!["/".to_owned()] } else { Vec::new() };
    Ok(WebsiteParams {
        name: Name::parse(W::NAME)?,
        domains: patterns(W::DOMAINS)?,
        live: W::LIVE,
        allow_hosts: patterns(W::ALLOW_HOSTS)?,
        routes,
    })
}
