//! The floor: sandboxes and their services, started by the sandbox crate and waited for until they are up.

use std::{
    fs::File,
    io::Read as _,
    net::{Ipv4Addr, SocketAddrV4, TcpStream},
    thread,
    time::{Duration, Instant},
};

use agentenv_sandbox::{
    Cgroup, DataDir, Environment, NetworkKind, Sandbox, SandboxError, SandboxSpec, Service as Started, ServiceSpec,
    Spawner, UidAllocator,
};

use crate::devtools;

/// How long a service may take to be up, as in a deploy.
const UP_LIMIT: Duration = Duration::from_secs(60);
/// Between two looks whether it is: nothing else is measured so finely.
const LOOK: Duration = Duration::from_micros(500);
/// How long what was killed may take to end.
const END_LIMIT: Duration = Duration::from_secs(10);
/// A website's `/data`.
const DATA_BYTES: u64 = 512 << 20;

/// The services of one sandbox, in the order of their start: each waits until the one before it is up, as RUN-6 has it.
pub type Pod = Vec<Service>;

/// One service.
#[derive(Clone)]
pub struct Service {
    /// What runs.
    pub spec: ServiceSpec,
    /// Its variables.
    pub environment: Vec<(String, String)>,
    /// When it is up.
    pub up: Up,
    /// What its sandbox is for.
    pub network: NetworkKind,
}

/// When a service is up.
#[derive(Clone, Copy)]
pub enum Up {
    /// This port accepts.
    Port(u16),
    /// DevTools at this port answer, and show so many loaded tabs.
    Tabs(u16, usize),
}

/// Sandboxes that run.
pub struct Running {
    spawner: Spawner,
    pods: Vec<(Sandbox, Vec<Started>)>,
}

/// Starts all of them side by side, and returns when every service is up. Call it from the main thread.
pub fn start(pods: &[Pod]) -> Running {
    let spawner = Spawner::launch("bench-floor").expect("a spawner starts");
    let uids = UidAllocator::detect();
    let pods = thread::scope(|scope| {
        let started: Vec<_> = pods.iter().map(|pod| scope.spawn(|| start_pod(&spawner, &uids, pod))).collect();
        started.into_iter().map(|pod| pod.join().expect("a thread of the floor").expect("a sandbox starts")).collect()
    });
    Running { spawner, pods }
}

fn start_pod(spawner: &Spawner, uids: &UidAllocator, pod: &Pod) -> Result<(Sandbox, Vec<Started>), SandboxError> {
    let first = pod.first().expect("a pod has a service");
    let data = first.spec.data.then_some(DataDir { bytes: DATA_BYTES });
    let (name, network) = (first.spec.hostname.clone(), first.network);
    let spec = SandboxSpec { name, network, uid: uids.allocate()?, data, packets: false, cgroup: Cgroup::default() };
    let sandbox = spawner.create(&spec)?;
    let services = pod.iter().map(|service| service.start(spawner, &sandbox)).collect::<Result<_, _>>()?;
    Ok((sandbox, services))
}

impl Service {
    fn start(&self, spawner: &Spawner, sandbox: &Sandbox) -> Result<Started, SandboxError> {
        let variables = self.environment.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
        let environment = Environment::new(variables).expect("variables that were seen can be given");
        let mut started = spawner.start(sandbox, &self.spec, &environment)?;
        let began = Instant::now();
        while !self.is_up(sandbox)? {
            let ended = started.try_wait();
            assert!(ended.is_none(), "{} of the floor ended: {ended:?}: {}", self.spec.name, said(&mut started));
            assert!(began.elapsed() < UP_LIMIT, "{} of the floor is not up", self.spec.name);
            thread::park_timeout(LOOK);
        }
        Ok(started)
    }

    fn is_up(&self, sandbox: &Sandbox) -> Result<bool, SandboxError> {
        let (port, wanted) = match self.up {
            Up::Port(port) => return Ok(dial(sandbox, port)?.is_some()),
            Up::Tabs(port, wanted) => (port, wanted),
        };
        // The browser starts with one tab; the others are opened as soon as it is there.
        let Some((there, loaded)) = dial(sandbox, port)?.and_then(devtools::tabs) else { return Ok(false) };
        if there > 0 {
            (there..wanted)
                .try_for_each(|_| dial(sandbox, port).map(|stream| stream.map_or((), devtools::open_tab)))?;
        }
        Ok(loaded == wanted)
    }
}

/// What an ended service wrote about it.
fn said(service: &mut Started) -> String {
    let mut text = Vec::new();
    let streams = [service.stdout.take(), service.stderr.take()].into_iter().flatten();
    streams.for_each(|stream| drop(File::from(stream).read_to_end(&mut text)));
    String::from_utf8_lossy(&text).into_owned()
}

/// A connection inside the sandbox, if somebody accepts.
fn dial(sandbox: &Sandbox, port: u16) -> Result<Option<TcpStream>, SandboxError> {
    let stream = sandbox.tcp(1)?.pop().map(TcpStream::from).expect("what was asked for");
    stream.set_nonblocking(false).expect("a socket can wait");
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    Ok(rustix::net::connect(&stream, &address).is_ok().then_some(stream))
}

impl Running {
    /// Ends the first service of the last sandbox, which is the browser's, and starts it again.
    pub fn start_again(&mut self, service: &Service) {
        let (sandbox, services) = self.pods.last_mut().expect("there is a sandbox");
        for service in services.drain(..) {
            service.kill();
            service.wait_exit(END_LIMIT).expect("what was killed ends");
        }
        services.push(service.start(&self.spawner, sandbox).expect("a service starts again"));
    }

    /// Ends all of them; returns when nothing is left.
    pub fn stop(self) {
        for (_, services) in &self.pods {
            services.iter().for_each(Started::kill);
        }
        drop(self.pods);
        self.spawner.shutdown().expect("a spawner ends");
    }
}
