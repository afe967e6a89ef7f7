//! A fake of deploys and of the store, each call of which may be made to fail, to hang, or to be the last one.

mod captures;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use agentenv_protocol::{
    CaptureGap, DataReply, DeployId, ErrorKind, ExitCode, Home, Name, RunId, UniverseId,
    control::{
        BrowserInfo, ControlError, DeployInfo, DeployState, GetRequest, LoadRequest, ResetReport, SignInReport,
        SignInRequest, SignedIn, WebsiteInfo,
    },
};
use serde_json::{Value, json};

use crate::{
    action::DeployEnv,
    deploys::{DeployRequest, Deploys, PlannedDeploy, PlannedLiveWebsite},
    event::{Answer, Event, Events, Work},
    record::{ArtifactRecord, RunRecord},
    run_log::{LogError, NewFile, RunLog},
    runner::Runner,
    traffic::{CaptureSource, TrafficCaptures},
};
use captures::FakeSource;
pub(super) use captures::{FakeCapture, FakeUniverse, bytes, id as capture_id};

/// What a chosen call does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Fail,
    TimeOut,
    Blocked,
    Hang,
    /// Does its work, then never returns: the moment after an effect.
    HangAfter,
    /// What was asked for was rotated away.
    Gone,
}

/// Everything outside the runner.
#[derive(Default)]
pub(super) struct World {
    /// Every call, in order: `deploy d-..`, `update`.
    pub calls: Vec<String>,
    /// Calls counted from 0, with what they do instead.
    pub faults: BTreeMap<usize, Fault>,
    /// Calls by name, with what each of them does instead.
    pub broken: BTreeMap<String, Fault>,
    /// Deploys that exist.
    pub alive: Vec<DeployId>,
    /// Deploys that ever existed.
    pub ever: Vec<DeployId>,
    pub loaded: BTreeMap<Name, Value>,
    pub live: bool,
    pub state: Option<DeployState>,
    pub records: BTreeMap<RunId, RunRecord>,
    pub artifacts: BTreeMap<String, Vec<u8>>,
    /// How many artifacts were ever stored.
    pub stored: usize,
    pub universes: BTreeMap<UniverseId, FakeUniverse>,
    /// What a deploy that captures has captured once it is ready: a file of each of these lengths, the last one growing.
    pub captured: Vec<usize>,
    /// Bytes that come to the growing file while a deploy is closed.
    pub tail: usize,
    /// What is still there of each deploy's captures.
    pub rings: BTreeMap<DeployId, Vec<FakeCapture>>,
    pub gaps: Vec<CaptureGap>,
    pub events: Vec<Event>,
}

#[derive(Clone, Default)]
pub(super) struct Fakes(pub Arc<Mutex<World>>);

impl Fakes {
    pub fn with(&self, change: impl FnOnce(&mut World)) -> Self {
        change(&mut self.0.lock().unwrap());
        self.clone()
    }

    /// Makes the call of this number do something else.
    pub fn fault(&self, number: usize, fault: Fault) -> Self {
        self.with(|world| {
            world.faults.insert(number, fault);
        })
    }

    /// Makes every call of this name do something else.
    pub fn broken(&self, call: &str, fault: Fault) -> Self {
        self.with(|world| {
            world.broken.insert(call.to_owned(), fault);
        })
    }

    pub fn runner(&self, home: &std::path::Path) -> Runner {
        let events = self.clone();
        let sink = Events::to(move |event| events.0.lock().unwrap().events.push(event.clone()));
        Runner::new(Home::at(home), Arc::new(self.clone()), Arc::new(self.clone()), sink)
    }

    pub fn record(&self) -> RunRecord {
        self.0.lock().unwrap().records.values().next().expect("a record").clone()
    }

    /// Counts a call, does its work unless it is made to fail, and answers.
    pub async fn call<T>(&self, name: String, work: impl FnOnce(&mut World) -> T) -> Result<T, Fault> {
        let (fault, done) = {
            let mut world = self.0.lock().unwrap();
            let number = world.calls.len();
            let fault = world.faults.get(&number).or_else(|| world.broken.get(&name)).copied();
            world.calls.push(name);
            let works = matches!(fault, None | Some(Fault::HangAfter));
            (fault, works.then(|| work(&mut world)))
        };
        // An await of its own in every call, so that a drop may happen between its work and its answer.
        tokio::task::yield_now().await;
        match fault {
            Some(Fault::Hang | Fault::HangAfter) => std::future::pending().await,
            Some(fault) => Err(fault),
            None => Ok(done.expect("it worked")),
        }
    }

    async fn answer<T>(&self, name: String, work: impl FnOnce(&mut World) -> T) -> Result<T, ControlError> {
        self.call(name, work).await.map_err(|fault| match fault {
            Fault::TimeOut => ControlError::new(ExitCode::TimedOut, "shop was not ready within 60 s"),
            Fault::Blocked => ControlError::new(ExitCode::Failed, "a human, please").kind(ErrorKind::BlockedBySite),
            _ => ControlError::infrastructure("it broke").hint("mend it").log(vec!["last words".to_owned()]),
        })
    }

    pub async fn keep<T>(&self, name: &str, work: impl FnOnce(&mut World) -> T) -> Result<T, LogError> {
        self.call(name.to_owned(), work).await.map_err(|_| LogError::Store("the disk is full".to_owned()))
    }
}

pub(super) fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

impl Deploys for Fakes {
    fn plan<'a>(&'a self, step: &'a DeployEnv) -> Answer<'a, PlannedDeploy> {
        Box::pin(async move {
            if step.env.as_str() == "unknown" {
                return Err(ControlError::new(ExitCode::Refused, "there is no env `unknown`").hint("put it first"));
            }
            let live = self.0.lock().unwrap().live;
            let site = PlannedLiveWebsite { name: name("shop"), domains: Vec::new(), allow_hosts: Vec::new() };
            Ok(PlannedDeploy {
                provider: "sandbox".to_owned(),
                versions: vec![(step.env.clone(), 3)],
                websites: vec![name("shop"), name("tracker")],
                browsers: vec![name("browser")],
                live: live.then_some(site).into_iter().collect(),
            })
        })
    }

    fn deploy(&self, request: DeployRequest) -> Answer<'_, DeployInfo> {
        Box::pin(async move {
            request.progress.say("starting shop");
            let made = self.answer(format!("deploy {}", request.deploy), |world| {
                world.alive.push(request.deploy.clone());
                world.ever.push(request.deploy.clone());
                if request.step.capture_traffic {
                    world.capture(&request.deploy);
                }
            });
            made.await?;
            Ok(info(request.deploy, request.step.env))
        })
    }

    fn load<'a>(&'a self, _deploy: &'a DeployId, request: LoadRequest) -> Answer<'a, ()> {
        Box::pin(self.answer("load".to_owned(), move |world| world.loaded.extend(request.data)))
    }

    fn get<'a>(&'a self, _deploy: &'a DeployId, request: GetRequest) -> Answer<'a, DataReply> {
        Box::pin(self.answer(format!("get {}", request.website), move |world| DataReply {
            data: world.loaded.get(&request.website).cloned().unwrap_or_default(),
        }))
    }

    fn sign_in<'a>(&'a self, _deploy: &'a DeployId, request: SignInRequest) -> Answer<'a, SignInReport> {
        let one = |(website, user)| SignedIn { website, user, browser: name("browser"), verified: false };
        Box::pin(self.answer("sign_in".to_owned(), move |_| SignInReport {
            signed_in: request.users.into_iter().map(one).collect(),
        }))
    }

    fn reset<'a>(&'a self, _deploy: &'a DeployId) -> Answer<'a, ResetReport> {
        Box::pin(self.answer("reset".to_owned(), |world| {
            world.loaded.clear();
            let browsers = BTreeMap::from([(name("browser"), "cold".to_owned())]);
            ResetReport {
                total_ms: 21.0,
                data_ms: 1.0,
                browser_ms: 20.0,
                tabs_ms: 5.0,
                browsers,
                not_undone: Vec::new(),
            }
        }))
    }

    fn state<'a>(&'a self, _deploy: &'a DeployId) -> Answer<'a, DeployState> {
        Box::pin(self.answer("state".to_owned(), |world| world.state.unwrap_or(DeployState::Ready)))
    }

    fn captures<'a>(&'a self, deploy: &'a DeployId) -> Answer<'a, Box<dyn CaptureSource>> {
        Box::pin(async move {
            if self.0.lock().unwrap().broken.contains_key("captures") {
                return Err(ControlError::infrastructure("its record is torn"));
            }
            Ok(Box::new(FakeSource { fakes: self.clone(), deploy: deploy.clone() }) as Box<_>)
        })
    }

    fn discard_captures<'a>(&'a self, deploy: &'a DeployId, stored: &'a TrafficCaptures) -> Answer<'a, ()> {
        Box::pin(self.answer("discard".to_owned(), move |world| world.discard(deploy, stored)))
    }

    fn close<'a>(&'a self, deploy: &'a DeployId) -> Answer<'a, ()> {
        Box::pin(self.answer(format!("close {deploy}"), move |world| {
            world.alive.retain(|alive| alive != deploy);
            world.end_capture(deploy);
        }))
    }
}

fn info(deploy: DeployId, env: Name) -> DeployInfo {
    let website =
        WebsiteInfo { name: name("shop"), urls: vec!["https://shop.test/".to_owned()], browse_url: None, live: false };
    let browser = BrowserInfo { name: name("browser"), cdp_url: "http://127.0.0.1:1/agent/t0ken/browser".to_owned() };
    DeployInfo {
        deploy,
        name: None,
        env,
        provider: "sandbox".to_owned(),
        gateway_url: "http://127.0.0.1:1".to_owned(),
        ca_file: "/ca.pem".to_owned(),
        live: false,
        websites: vec![website],
        browsers: vec![browser],
        computers: Vec::new(),
        captures: Vec::new(),
        warnings: Vec::new(),
        ready_ms: 12,
    }
}

impl RunLog for Fakes {
    fn create<'a>(&'a self, record: &'a RunRecord) -> Work<'a, Result<(), LogError>> {
        Box::pin(self.keep("create", |world| drop(world.records.insert(record.run.clone(), through_json(record)))))
    }

    fn update<'a>(&'a self, record: &'a RunRecord) -> Work<'a, Result<(), LogError>> {
        Box::pin(self.keep("update", |world| drop(world.records.insert(record.run.clone(), through_json(record)))))
    }

    fn get<'a>(&'a self, run: &'a RunId) -> Work<'a, Result<RunRecord, LogError>> {
        Box::pin(async move {
            let world = self.0.lock().unwrap();
            let mut record = world.records.get(run).cloned().ok_or_else(|| LogError::NoRun(run.clone()))?;
            world.reconcile(&mut record);
            Ok(record)
        })
    }

    fn list(&self, _limit: u32) -> Work<'_, Result<Vec<RunRecord>, LogError>> {
        Box::pin(async move { Ok(self.0.lock().unwrap().records.values().cloned().collect()) })
    }

    fn put_file<'a>(&'a self, _run: &'a RunId, file: NewFile) -> Work<'a, Result<ArtifactRecord, LogError>> {
        Box::pin(self.keep("put_file", move |world| {
            let bytes = std::fs::read(file.folder.join(&file.path)).unwrap();
            let artifact = ArtifactRecord {
                id: world.next_artifact(),
                name: file.name,
                media_type: file.media_type,
                size: bytes.len() as u64,
                sha256: String::new(),
                step: file.step,
                sensitive: file.sensitive,
                universe: file.universe,
            };
            world.artifacts.insert(artifact.id.clone(), bytes);
            artifact
        }))
    }

    fn write_artifact<'a>(
        &'a self,
        run: &'a RunId,
        artifact: &'a ArtifactRecord,
        to: PathBuf,
    ) -> Work<'a, Result<(), LogError>> {
        Box::pin(async move {
            let missing = || LogError::NoArtifact { run: run.clone(), artifact: artifact.id.clone() };
            let bytes = self.0.lock().unwrap().artifacts.get(&artifact.id).cloned().ok_or_else(missing)?;
            std::fs::write(to, bytes).map_err(|error| LogError::Store(error.to_string()))
        })
    }
}

/// A record as a store gives it back.
fn through_json(record: &RunRecord) -> RunRecord {
    serde_json::from_value(json!(record)).unwrap()
}
