//! A browser alone: Chromium, headless, and what the supervisor says to it over CDP.

use agentenv_model::{PlannedBrowser, Reach};
use agentenv_net::BrowserSockets;
use agentenv_protocol::{ExitCode, control::ControlError};

use super::{
    build::Context,
    machine::{Kind, Machine, Place, Seat, browser_spec},
    reach::has_reach,
    specs,
};
use crate::browser::{BrowserError, Viewport};

/// Makes the sandbox and starts Chromium in it.
pub(super) async fn start(context: &Context, plan: PlannedBrowser) -> Result<(Machine, BrowserSockets), ControlError> {
    let place = Place::make(context, Kind::Browser, &plan.name, &plan.network).await?;
    let viewport = Viewport { width: plan.viewport.width, height: plan.viewport.height };
    let launch = place.chromium(&browser_spec(context, viewport))?;
    let seat = Seat {
        name: plan.name,
        network: plan.network,
        start_tabs: plan.start_tabs,
        route_sites: true,
        spec: specs::browser(&place.sandbox, &launch, &place.trusted.all),
        variables: specs::launch_variables(&launch),
        desk: None,
    };
    Machine::start(context, seat, place).await
}

/// Whom a browser's sandbox trusts, in PEM: the deploy's authority, and where it reaches real sites those of the host.
pub(super) struct Trusted {
    /// For Chromium, which has the public ones built in.
    pub(super) beside_public: String,
    /// For every other program.
    pub(super) all: String,
}

impl Trusted {
    pub(super) fn of(context: &Context, network: &Reach, ca_pem: &str) -> Self {
        let (further, all) = match context.real.as_ref().filter(|_| has_reach(network)) {
            Some(real) => (real.further_authorities.as_str(), real.authorities.as_str()),
            None => ("", ""),
        };
        Self { beside_public: format!("{ca_pem}{further}"), all: format!("{ca_pem}{all}") }
    }
}

pub(super) fn browser_error(error: &BrowserError, log: &[String]) -> ControlError {
    let exit = match error {
        BrowserError::NotInstalled { .. } => ExitCode::Refused,
        _ => ExitCode::Infrastructure,
    };
    ControlError::new(exit, error.to_string()).hint(error.hint()).log(log.to_vec())
}
