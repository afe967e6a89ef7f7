//! A computer: a desktop with Chromium on it (BR-3).

use std::sync::Arc;

use agentenv_model::{PlannedComputer, computer_settings};
use agentenv_net::BrowserSockets;
use agentenv_protocol::{ExitCode, SandboxName, control::ControlError};

use super::{
    build::Context,
    machine::{Desk, Kind, Machine, Place, Seat, browser_spec},
    screen::Screen,
    specs,
};
use crate::{
    browser::Viewport,
    desktop::{self, DesktopSpec},
};

/// Makes the sandbox and starts the desktop in it.
pub(super) async fn start(context: &Context, plan: PlannedComputer) -> Result<(Machine, BrowserSockets), ControlError> {
    check_programs(&SandboxName::of_browser(&plan.name))?;
    let settings = computer_settings(&plan, &context.values)
        .map_err(|problems| ControlError::new(problems.exit(), problems.to_string()))?;
    let place = Place::make(context, Kind::Computer, &plan.name, &plan.network).await?;
    let drawn = DesktopSpec { width: plan.resolution.width, height: plan.resolution.height, scale: settings.scale };
    let mut browser = browser_spec(context, Viewport { width: drawn.width, height: drawn.height });
    browser.desktop = Some(settings.scale);
    (browser.language, browser.time_zone) = (settings.language, settings.time_zone);
    let launch = desktop::launch(&drawn, place.chromium(&browser)?, context.authority().await?.ca_pem());
    let seat = Seat {
        spec: specs::computer(&place.sandbox, &launch, &place.trusted.all, &context.host),
        variables: specs::computer_variables(&launch),
        desk: Some(Desk { settings: settings.variables, screen: Arc::new(Screen::new(plan.name.clone())) }),
        name: plan.name,
        network: plan.network,
        start_tabs: plan.start_tabs,
        route_sites: plan.route_sites,
    };
    Machine::start(context, seat, place).await
}

fn check_programs(name: &SandboxName) -> Result<(), ControlError> {
    let missing = desktop::missing_packages();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(" ");
    let message = format!("computer `{name}` needs programs that this machine lacks: {missing}");
    Err(ControlError::new(ExitCode::Refused, message).hint(format!("install them: `apt-get install {missing}`")))
}
