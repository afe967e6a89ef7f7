//! A website's pod: one sandbox, its services in the order of their start, ready when the site says so (RUN-6).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agentenv_model::{PlannedService, PlannedWebsite, Role, compare_card, resolve_settings};
use agentenv_net::{Limits, SiteClient, SiteError, Upstream};
use agentenv_protocol::{
    ErrorBody, ErrorKind, ExitCode, HostPattern, Name, SandboxName, SiteKey,
    control::{ControlError, ServiceStatus},
};
use agentenv_sandbox::{DataDir, NetworkKind, SandboxSpec};
use futures_util::future::join;
use secrecy::SecretString;
use tokio::sync::oneshot;

use super::{
    build::Context,
    captures::Starting,
    ports::listening,
    probe, reach,
    service::{Recipe, Supervised},
    sockets::Sockets,
    specs,
};
use crate::{
    logs::ServiceLog,
    mask::Mask,
    sandbox_net::{DNS, FORWARD_PORT, HTTP, TLS},
};

/// The first wait between two looks whether a port accepts or a site is ready; doubled up to [`POLL_LONGEST`].
const POLL_SHORTEST: Duration = Duration::from_millis(1);
/// See [`POLL_SHORTEST`].
const POLL_LONGEST: Duration = Duration::from_millis(4);
/// The same for `ready` of a live site: each look may be a request to the real one, which counts them.
const LIVE_POLL: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(4));

/// A website that runs.
pub(crate) struct Pod {
    pub(crate) website: PlannedWebsite,
    /// Its names: those stored, or its card's.
    pub(crate) domains: Vec<HostPattern>,
    pub(crate) key: SiteKey,
    /// Hides the deploy's secrets, and the key.
    mask: Mask,
    pub(crate) client: SiteClient,
    pub(crate) sockets: Sockets,
    pub(crate) services: Vec<Arc<Supervised>>,
}

impl Pod {
    /// Starts a website: returns once every port accepts, `ready` is 200, and the card says what was stored.
    pub(crate) async fn start(context: &Context, website: PlannedWebsite) -> Result<Self, ControlError> {
        let began = Instant::now();
        let deadline = began + Duration::from_secs(website.ready_timeout_s.into());
        let spec = SandboxSpec {
            cgroup: context.cgroup()?,
            name: website.name.to_string(),
            network: if website.reach.is_empty() { NetworkKind::Pod } else { NetworkKind::LivePod },
            uid: context.uid()?,
            data: Some(DataDir { bytes: specs::DATA_BYTES }),
            packets: context.captures.are_wanted(),
        };
        let sockets = context.create(spec).await?;
        let capture = context.captures.start(&website, &sockets);
        // Before its services: a live site is ready when the real one answers.
        reach::serve_pod(context, &website, &sockets).await?;
        let key = SiteKey::random();
        let client =
            SiteClient::new(Arc::clone(&context.dialer) as _, website.name.clone(), key.clone(), Limits::default());
        let settings = resolve_settings(&website, &context.values)
            .map_err(|problems| ControlError::new(problems.exit(), problems.to_string()))?;
        let mask = context.mask.and([key.expose().into()]);
        let mut pod = Self { domains: Vec::new(), key, mask, client, sockets, services: Vec::new(), website };
        pod.start_services(context, &settings, capture, deadline).await?;
        context.starter.progress(format!("{} is ready after {} ms", pod.website.name, began.elapsed().as_millis()));
        Ok(pod)
    }

    /// Starts one service after the other. The probe runs while the last one comes up: earlier it would hold up their mounts, which
    /// the kernel makes one at a time.
    async fn start_services(
        &mut self,
        context: &Context,
        settings: &SecretString,
        mut capture: Starting,
        deadline: Instant,
    ) -> Result<(), ControlError> {
        let services = self.website.services.clone();
        let Some((last, others)) = services.split_last() else { return Ok(()) };
        for service in others {
            let running = self.start_service(context, service, settings, &mut capture).await?;
            self.wait_accepts(&running, service.port, deadline).await?;
        }
        let running = self.start_service(context, last, settings, &mut capture).await?;
        let this = &*self;
        let ready = async {
            this.wait_accepts(&running, last.port, deadline).await?;
            this.wait_ready(deadline).await?;
            this.check_card().await
        };
        let probe = probe::pod(context, &this.website, &this.sockets);
        let (domains, ()) = futures_util::try_join!(ready, probe)?;
        self.domains = domains;
        Ok(())
    }

    async fn start_service(
        &mut self,
        context: &Context,
        service: &PlannedService,
        settings: &SecretString,
        capture: &mut Starting,
    ) -> Result<Arc<Supervised>, ControlError> {
        let name = SandboxName::of_service(&self.website.name, &service.name);
        if self.sockets.is_taken(service.port).await {
            return Err(self.port_taken(&name, service.port));
        }
        let spec =
            specs::service(&self.website, service, &context.host, context.captures.are_wanted()).map_err(|error| {
                ControlError::new(ExitCode::Refused, format!("`{name}` cannot run: {error}"))
                    .hint("programs are those of the built bundle, or under /usr; see `command` in env.toml")
            })?;
        let mut environment = specs::variables(&self.website, service);
        if service.role == Role::Server {
            environment.extend(specs::server_variables(settings.clone(), &self.key));
        }
        self.publish(context, service);
        let log = ServiceLog::new(&context.dir.logs(), name.as_str(), self.mask.clone());
        let recipe = Recipe {
            spawner: context.spawner.clone(),
            sockets: self.sockets.clone(),
            spec,
            environment,
            log,
            restarts: true,
        };
        // Its program begins only when packets are recorded (CAP-2), and is prepared meanwhile.
        let (go, word) = oneshot::channel();
        let captured = async {
            capture.joined().await?;
            // A start that failed has nobody who hears it.
            let _ = go.send(());
            Ok(())
        };
        let (running, captured) = join(Supervised::start_after(recipe, word), captured).await;
        let running = running.map(Arc::new).inspect(|running| context.down.service(running));
        captured?;
        let running = running.map_err(|error| context.sandbox_error(&error))?;
        if let Some(ports) = running.current().await.and_then(|service| service.client_ports()) {
            context.captures.set_client_ports(&self.website.name, &service.name, &ports);
        }
        self.services.push(Arc::clone(&running));
        Ok(running)
    }

    fn port_taken(&self, name: &SandboxName, port: u16) -> ControlError {
        let placed = [DNS, FORWARD_PORT, HTTP, TLS].iter().any(|address| address.port() == port);
        if placed && !self.website.reach.is_empty() {
            let message =
                format!("port {port} of `{name}` is where a live site's sandbox has its way to the real site");
            return ControlError::new(ExitCode::Refused, message).hint("let it listen on another one, such as 8000");
        }
        ControlError::infrastructure(format!(
            "port {port} of `{name}` is in use inside its sandbox by another service of it"
        ))
        .hint("give each service of env.toml the port it listens on")
    }

    /// Makes the service reachable for gateway and browsers.
    fn publish(&self, context: &Context, service: &PlannedService) {
        let role = match service.role {
            Role::Server => agentenv_net::Role::Server,
            Role::Frontend => agentenv_net::Role::Frontend,
            Role::Further => return,
        };
        let upstream = Upstream::Service { website: self.website.name.clone(), service: role };
        context.dialer.add(upstream, self.sockets.clone(), service.port);
    }

    async fn wait_accepts(&self, running: &Supervised, port: u16, deadline: Instant) -> Result<(), ControlError> {
        let accepts = async {
            let mut wait = POLL_SHORTEST;
            while self.sockets.dial(port).await.is_err() {
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(POLL_LONGEST);
            }
        };
        tokio::select! {
            () = accepts => return Ok(()),
            reason = running.failed() => return Err(exited(running, &reason)),
            () = tokio::time::sleep_until(deadline.into()) => {}
        }
        let name = running.name();
        let seconds = self.website.ready_timeout_s;
        let others: Vec<String> = listening(&self.sockets).into_iter().map(|port| port.to_string()).collect();
        if others.is_empty() {
            return Err(ControlError::new(
                ExitCode::TimedOut,
                format!("`{name}` did not listen on its port {port} within {seconds} s"),
            )
            .hint("see its log; `ready_timeout_s` in env.toml gives it longer")
            .log(running.log().last()));
        }
        let message =
            format!("`{name}` does not listen on its port {port}; its sandbox listens on {}", others.join(", "));
        Err(ControlError::infrastructure(message)
            .hint("listen on 127.0.0.1 or 0.0.0.0 at the port that the variable PORT names")
            .log(running.log().last()))
    }

    async fn wait_ready(&self, deadline: Instant) -> Result<(), ControlError> {
        let (mut wait, longest) = if self.website.live { LIVE_POLL } else { (POLL_SHORTEST, POLL_LONGEST) };
        let mut reason = "it did not answer".to_owned();
        let mut hint = "see its log; `ready_timeout_s` in env.toml gives it longer".to_owned();
        loop {
            let answer = tokio::select! {
                answer = tokio::time::timeout_at(deadline.into(), self.client.ready()) => answer,
                error = self.any_failed() => return Err(error),
            };
            match answer {
                Ok(Ok(())) => return Ok(()),
                // Waiting helps against everything but a real site that wants a human.
                Ok(Err(error @ SiteError::Refused { body: ErrorBody { kind: ErrorKind::BlockedBySite, .. }, .. })) => {
                    return Err(self.failed(&error));
                }
                Ok(Err(SiteError::Refused { body, .. })) => {
                    reason = body.message;
                    if !body.hint.is_empty() {
                        hint = body.hint;
                    }
                }
                Ok(Err(error @ SiteError::Garbage { .. })) => return Err(self.failed(&error)),
                Ok(Err(error)) => reason = error.to_string(),
                Err(_) => {}
            }
            if Instant::now() + wait >= deadline {
                let seconds = self.website.ready_timeout_s;
                let message = format!("website `{}` was not ready within {seconds} s: {reason}", self.website.name);
                return Err(ControlError::new(ExitCode::TimedOut, message).hint(hint).log(self.log()));
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(longest);
        }
    }

    /// Resolves when a service of the site is failed for good.
    async fn any_failed(&self) -> ControlError {
        let failures = self.services.iter().map(|service| {
            Box::pin(async move {
                let reason = service.failed().await;
                exited(service, &reason)
            })
        });
        match self.services.is_empty() {
            true => std::future::pending().await,
            false => futures_util::future::select_all(failures).await.0,
        }
    }

    async fn check_card(&self) -> Result<Vec<HostPattern>, ControlError> {
        let card = self.client.card().await.map_err(|error| self.failed(&error))?;
        let garbage = |what: String| {
            ControlError::infrastructure(format!(
                "website `{}` answered garbage to its card: {what}",
                self.website.name
            ))
            .hint("`agent-env website check` tells which rule its server breaks")
            .log(self.log())
        };
        let params = card
            .website()
            .ok_or_else(|| garbage("it has no website extension".to_owned()))?
            .map_err(|error| garbage(error.to_string()))?;
        compare_card(&self.website, &params)
            .map_err(|problems| ControlError::new(problems.exit(), problems.to_string()))
    }

    /// An error of the site as the deploy's.
    pub(crate) fn failed(&self, error: &SiteError) -> ControlError {
        let exit = match error {
            SiteError::Slow { .. } => ExitCode::TimedOut,
            SiteError::Refused { body, status, .. } => match body.kind {
                agentenv_protocol::ErrorKind::BlockedBySite => ExitCode::Failed,
                _ if status.is_client_error() => ExitCode::Refused,
                _ => ExitCode::Infrastructure,
            },
            _ => ExitCode::Infrastructure,
        };
        let hint = match error {
            SiteError::Refused { body, .. } if !body.hint.is_empty() => body.hint.clone(),
            SiteError::Garbage { .. } => "`agent-env website check` tells which rule its server breaks".to_owned(),
            _ => format!("see the log of `{}/server`", self.website.name),
        };
        let log = if exit == ExitCode::Refused { Vec::new() } else { self.log() };
        let kind = match &error {
            SiteError::Refused { body, .. } => Some(body.kind),
            _ => None,
        };
        self.mask.error(ControlError { kind, ..ControlError::new(exit, error.to_string()).hint(hint).log(log) })
    }

    /// The last lines of the server.
    fn log(&self) -> Vec<String> {
        let server = self.services.iter().find(|service| service.name().as_str().ends_with("/server"));
        server.map(|service| service.log().last()).unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &Name {
        &self.website.name
    }

    /// The state of every service.
    pub(crate) fn status(&self) -> impl Iterator<Item = (SandboxName, ServiceStatus)> {
        self.services.iter().map(|service| (service.name().clone(), service.status()))
    }

    /// Whether every service is up.
    pub(crate) fn is_up(&self) -> bool {
        self.services.iter().all(|service| service.is_up())
    }
}

fn exited(service: &Supervised, reason: &str) -> ControlError {
    ControlError::infrastructure(format!("`{}` does not stay up: {reason}", service.name()))
        .hint(format!("see its last lines, or all of them with `agent-env env logs DEPLOY {}`", service.name()))
        .log(service.log().last())
}
