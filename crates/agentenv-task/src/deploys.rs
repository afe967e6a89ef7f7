//! What a run does with deploys, as a trait: the runner's tests fail its Nth call.

use agentenv_protocol::{
    DataReply, DeployId, HostPattern, Name, RunId,
    control::{DeployInfo, DeployState, GetRequest, LoadRequest, ResetReport, SignInReport, SignInRequest},
};
use tokio::time::Instant;

use crate::{
    action::DeployEnv,
    event::{Answer, StepProgress},
    traffic::{CaptureSource, TrafficCaptures},
};

/// A deploy that is about to be made.
#[derive(Clone, Debug)]
pub struct DeployRequest {
    /// The id that it gets: already on the run's record.
    pub deploy: DeployId,
    /// The run that it is of.
    pub run: RunId,
    /// What the step says.
    pub step: DeployEnv,
    /// Whether a later step resets it.
    pub expects_reset: bool,
    /// When it must be ready.
    pub deadline: Instant,
    /// Where to say what is going on.
    pub progress: StepProgress,
}

/// What is known about a deploy before it exists, from the stored env.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlannedDeploy {
    /// The provider that it will run on.
    pub provider: String,
    /// The versions that it will run.
    pub versions: Vec<(Name, u64)>,
    /// Its websites.
    pub websites: Vec<Name>,
    /// Its browsers, computers' included.
    pub browsers: Vec<Name>,
    /// Its live websites.
    pub live: Vec<PlannedLiveWebsite>,
}

/// A live website of a planned deploy.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedLiveWebsite {
    /// The site.
    pub name: Name,
    /// Its names.
    pub domains: Vec<HostPattern>,
    /// Further hosts that it may reach.
    pub allow_hosts: Vec<HostPattern>,
}

/// Makes deploys and works with them.
pub trait Deploys: Send + Sync {
    /// Plans a deploy without making anything: an unknown env or a refused setting ends the task before it begins.
    fn plan<'a>(&'a self, step: &'a DeployEnv) -> Answer<'a, PlannedDeploy>;

    /// Makes the deploy with the request's id; returns when it is ready. Whatever the answer, and also when the returned
    /// future is dropped, [`Deploys::close`] leaves nothing of it.
    fn deploy(&self, request: DeployRequest) -> Answer<'_, DeployInfo>;

    /// Loads data.
    fn load<'a>(&'a self, deploy: &'a DeployId, request: LoadRequest) -> Answer<'a, ()>;

    /// Reads data.
    fn get<'a>(&'a self, deploy: &'a DeployId, request: GetRequest) -> Answer<'a, DataReply>;

    /// Signs users in.
    fn sign_in<'a>(&'a self, deploy: &'a DeployId, request: SignInRequest) -> Answer<'a, SignInReport>;

    /// Resets sites and browsers.
    fn reset<'a>(&'a self, deploy: &'a DeployId) -> Answer<'a, ResetReport>;

    /// Tells how the deploy is: whether a harness's failure is its own or the deploy's.
    fn state<'a>(&'a self, deploy: &'a DeployId) -> Answer<'a, DeployState>;

    /// The deploy's captures, wherever they are now: at its gateway while it runs, in its folder when it is over.
    fn captures<'a>(&'a self, deploy: &'a DeployId) -> Answer<'a, Box<dyn CaptureSource>>;

    /// Removes what is on disk of the captures of a deploy that is over, website by website: of each whose every file is stored
    /// to its end. One that still runs keeps all of it.
    fn discard_captures<'a>(&'a self, deploy: &'a DeployId, stored: &'a TrafficCaptures) -> Answer<'a, ()>;

    /// Ends the deploy in whatever state it is, also one that never began, or whose processes are dead; returns when
    /// nothing is left.
    fn close<'a>(&'a self, deploy: &'a DeployId) -> Answer<'a, ()>;
}
