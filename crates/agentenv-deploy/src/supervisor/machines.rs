//! What an agent works at: the browsers and computers of a deploy.

use agentenv_protocol::control::ControlError;
use futures_util::future::try_join_all;

use super::{browser::BrowserBox, build::Context, computer::ComputerBox, probe};

/// All of a deploy, in the order of its env.
#[derive(Default)]
pub(crate) struct Machines {
    pub(crate) browsers: Vec<BrowserBox>,
    pub(crate) computers: Vec<ComputerBox>,
}

impl Machines {
    /// Probes every sandbox (NET-6), whose placed sockets are served by now.
    pub(crate) async fn probe(&self, context: &Context, names: &[String]) -> Result<(), ControlError> {
        let (browsers, computers) =
            (probe::browsers(context, &self.browsers, names), probe::computers(context, &self.computers, names));
        futures_util::try_join!(browsers, computers).map(drop)
    }

    /// Opens every start tab.
    pub(crate) async fn open_tabs(&self) -> Result<(), ControlError> {
        let browsers = try_join_all(self.browsers.iter().map(BrowserBox::open_tabs));
        let computers = try_join_all(self.computers.iter().map(ComputerBox::open_tabs));
        futures_util::try_join!(browsers, computers).map(drop)
    }
}
