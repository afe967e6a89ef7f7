//! Probes every sandbox of a deploy before it is ready (NET-6).

use std::time::Duration;

use agentenv_model::PlannedWebsite;
use agentenv_protocol::{HostPattern, control::ControlError};
use agentenv_sandbox::{Environment, ServiceSpec};
use tokio::{io::AsyncReadExt as _, net::unix::pipe};

use super::{
    build::Context,
    service::{described, ended, exit_code},
    sockets::Sockets,
    specs::{self, Probed},
};

/// How long a probe may take: in a sealed sandbox some milliseconds.
const PROBE_LIMIT: Duration = Duration::from_secs(30);
/// What a probe may say.
const REPORT_LIMIT: u64 = 64 << 10;

/// Probes a website's pod; the deploy is refused if anything gets out of it. Its network is complete when it is made: its
/// services add nothing to it.
pub(crate) async fn pod(context: &Context, website: &PlannedWebsite, sockets: &Sockets) -> Result<(), ControlError> {
    // The services of a pod share its network; the first stands for all.
    let Some(service) = website.services.first() else { return Ok(()) };
    // A service that cannot be planned is told of by its start.
    let Ok(spec) = specs::service(website, service, &context.host, false) else { return Ok(()) };
    // A name that it reaches: its address must take a handshake for that name only.
    let exact = website.reach.iter().find(|pattern| matches!(pattern, HostPattern::Exact(_)));
    let names: Vec<String> = exact.iter().map(ToString::to_string).collect();
    let probed = Probed { forward_port: !website.reach.is_empty(), open: false, names: &names };
    one(context, sockets, &spec, probed).await
}

/// Probes one sandbox, in which a service such as `like` is to run, or runs.
pub(crate) async fn one(
    context: &Context,
    sockets: &Sockets,
    like: &ServiceSpec,
    probed: Probed<'_>,
) -> Result<(), ControlError> {
    let name = like.name.clone();
    let broken = |what: String| {
        ControlError::infrastructure(format!("the probe of sandbox `{name}` {what}")).hint("see `agent-env doctor`")
    };
    let spec = specs::probe(like, &context.host, probed);
    let environment = Environment::new([]).map_err(|error| broken(format!("could not be started: {error}")))?;
    let (spawner, placed) = (context.spawner.clone(), sockets.clone());
    let started = tokio::task::spawn_blocking(move || spawner.start(placed.sandbox(), &spec, &environment));
    let mut probe = started
        .await
        .map_err(|error| broken(format!("could not be started: {error}")))?
        .map_err(|error| context.sandbox_error(&error))?;
    let stdout = probe.stdout.take().ok_or_else(|| broken("has no output".to_owned()))?;
    let run = async {
        let mut report = String::new();
        pipe::Receiver::from_owned_fd(stdout)?.take(REPORT_LIMIT).read_to_string(&mut report).await?;
        std::io::Result::Ok((report, ended(&probe).await))
    };
    let run = tokio::time::timeout(PROBE_LIMIT, run).await;
    probe.kill();
    let (report, exit) = run
        .map_err(|_| broken(format!("did not end within {} s", PROBE_LIMIT.as_secs())))?
        .map_err(|error| broken(format!("could not be read: {error}")))?;
    match (exit_code(exit), report.trim()) {
        (0, "") => Ok(()),
        (_, "") => Err(broken(described(exit))),
        (_, leaks) => {
            let leaks = leaks.lines().collect::<Vec<_>>().join("; ");
            Err(ControlError::infrastructure(format!("sandbox `{name}` is not sealed: {leaks}"))
                .hint("the deploy was refused; see `agent-env doctor`"))
        }
    }
}
