//! The spawner's own side: one thread, one loop. It starts everything, reaps everything, and takes everything with it.

use std::{
    collections::HashMap,
    os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    pipe::PipeFlags,
    process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions},
};

use crate::{
    broker, enter,
    enter::{BIRTH_BYTES, Entry},
    failure::Failure,
    ids,
    kernel::{self, Cloned, Kernel},
    messages::{Create, EXEC_FDS, Exec, Program, Reply, Request, START_FDS, Start},
    process::raise_descriptor_limit,
    program::Streams,
    seccomp::Filters,
    service::ExitInfo,
    spec::SeccompProfile,
    wire::{self, WireError},
};

/// Where the supervisor leaves the spawner's end of their socket.
pub(crate) const CONTROL_FD: RawFd = 3;

/// The life of a spawner: `agent-env internal-spawner`. Its control socket is descriptor 3.
pub fn spawner_main() -> ! {
    run(Kernel::default())
}

/// A spawner whose `nth` system call of creations fails with `errno`; for tests of this crate and those that use it.
#[doc(hidden)]
pub fn spawner_main_failing(nth: u32, errno: i32) -> ! {
    match Kernel::failing(nth, Errno::from_raw_os_error(errno)) {
        Ok(kernel) => run(kernel),
        Err(_) => kernel::exit_now(1),
    }
}

fn run(kernel: Kernel) -> ! {
    let control = kernel::inherited(CONTROL_FD);
    let code = match Spawner::new(kernel, control).and_then(|mut spawner| spawner.serve()) {
        Ok(()) => 0,
        Err(errno) => {
            complain(&format!("the spawner failed: {errno}"));
            1
        }
    };
    kernel::exit_now(code)
}

/// Says something to the supervisor's log; nobody has set up another one in this process.
fn complain(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr().lock(), "spawner: {text}");
}

struct Spawner {
    kernel: Kernel,
    control: OwnedFd,
    signals: OwnedFd,
    /// Held by nobody else: its other end is readable when this process is gone.
    life: (OwnedFd, OwnedFd),
    births: (OwnedFd, OwnedFd),
    service: Filters,
    browser: Filters,
    broker: Filters,
    maker: Filters,
    children: HashMap<Pid, Child>,
    /// Where to write the exit of a service whose pid isn't known yet.
    expected: HashMap<u32, OwnedFd>,
    next_token: u32,
}

enum Child {
    Broker,
    /// Between us and a service, or the maker of its sockets; the token it was given.
    Entry(u32),
    /// Where its exit is written, and the token of its entry.
    Service(OwnedFd, u32),
    MapHelper,
}

impl Spawner {
    fn new(kernel: Kernel, control: OwnedFd) -> Result<Self, Errno> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        let _ = rustix::thread::set_name(c"ae-spawner");
        // A terminal's ^C is for the supervisor, which closes in order.
        let _ = rustix::process::setsid();
        let set = kernel::block_signals(&[libc::SIGCHLD])?;
        // Every start holds its mounts as descriptors for a moment; services get a limit of their own.
        let _ = raise_descriptor_limit();
        let filters = |profile| Filters::of(profile).map_err(|_| Errno::INVAL);
        Ok(Self {
            kernel,
            control,
            signals: kernel::signal_fd(&set)?,
            life: rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?,
            births: rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?,
            service: filters(SeccompProfile::Service)?,
            browser: filters(SeccompProfile::Browser)?,
            broker: Filters::of_broker(),
            maker: Filters::of_socket_maker().map_err(|_| Errno::INVAL)?,
            children: HashMap::new(),
            expected: HashMap::new(),
            next_token: 0,
        })
    }

    /// Serves until the supervisor closes or dies, then ends everything.
    fn serve(&mut self) -> Result<(), Errno> {
        let served = loop {
            let mut fds = [&self.control, &self.signals, &self.births.0].map(|fd| PollFd::new(fd, PollFlags::IN));
            if let Err(errno) = rustix::io::retry_on_intr(|| poll(&mut fds, None)) {
                break Err(errno);
            }
            let [control, signals, births] = fds.map(|fd| !fd.revents().is_empty());
            if births {
                self.learn_births();
            }
            if signals {
                self.reap();
            }
            if control {
                match self.answer() {
                    Ok(()) => {}
                    Err(WireError::Closed) => break Ok(()),
                    // The message is used up, its descriptors are closed: this request failed, the next may not.
                    Err(WireError::Truncated | WireError::Count { .. }) => {
                        let reply: Reply = Err(Failure::setup("receiving descriptors", Errno::MFILE));
                        if wire::send(self.control.as_fd(), &reply, &[]).is_err() {
                            break Ok(());
                        }
                    }
                    Err(error) => {
                        complain(&format!("the supervisor said something that makes no sense: {error}"));
                        break Err(Errno::PROTO);
                    }
                }
            }
        };
        self.end_all();
        served
    }

    fn answer(&mut self) -> Result<(), WireError> {
        let (request, fds) = wire::receive(self.control.as_fd())?;
        let done = match request {
            Request::Create(create) => {
                let [socket] = wire::exactly(fds)?;
                self.create(&create, &socket).map(|(pid, pidfd)| (pid, Some(pidfd)))
            }
            Request::Start(start) => self.start(&start, wire::exactly(fds)?).map(|pid| (pid, None)),
            Request::Exec(exec) => self.exec(&exec, wire::exactly(fds)?).map(|pid| (pid, None)),
        };
        let (reply, pidfd): (Reply, _) = match done {
            Ok((pid, pidfd)) => (Ok(pid.as_raw_nonzero().get().unsigned_abs()), pidfd),
            Err(failure) => (Err(failure), None),
        };
        let fds: Vec<_> = pidfd.iter().map(OwnedFd::as_fd).collect();
        wire::send(self.control.as_fd(), &reply, &fds)
    }

    fn create(&mut self, create: &Create, socket: &OwnedFd) -> Result<(Pid, OwnedFd), Failure> {
        let kernel = self.kernel;
        let (wait, go) = kernel.call("pipe", || rustix::pipe::pipe_with(PipeFlags::CLOEXEC))?;
        match kernel.call("clone3", || kernel::clone(libc::CLONE_NEWUSER))? {
            Cloned::Child => {
                self.keep_only(&[socket.as_fd(), wait.as_fd(), self.life.0.as_fd()]);
                broker::main(kernel, create, socket, wait.as_fd(), self.life.0.as_fd(), &self.broker)
            }
            Cloned::Parent { pid, pidfd } => {
                self.children.insert(pid, Child::Broker);
                match ids::map(kernel, pid, &create.ids, socket.as_fd(), go.as_fd()) {
                    Ok(helper) => self.children.extend(helper.map(|helper| (helper, Child::MapHelper))),
                    // Without its maps the broker sees `go` close and ends.
                    Err(failure) => return Err(failure),
                }
                Ok((pid, pidfd))
            }
        }
    }

    fn start(&mut self, start: &Start, fds: [OwnedFd; START_FDS]) -> Result<Pid, Failure> {
        let [user, net, mnt, stdin, stdout, stderr, environment, status, exit, etc] = fds;
        let streams = Streams { stdio: [stdin, stdout, stderr], environment, status };
        let namespaces = [user, net, mnt];
        let keep: Vec<_> = namespaces.iter().chain([&etc]).collect();
        self.enter(&start.program, streams, &keep, exit, |entry| enter::start(entry, start, &namespaces, Some(&etc)))
    }

    fn exec(&mut self, exec: &Exec, fds: [OwnedFd; EXEC_FDS]) -> Result<Pid, Failure> {
        let [user, net, mnt, pid, ipc, uts, cgroup, stdin, stdout, stderr, environment, status, exit] = fds;
        let streams = Streams { stdio: [stdin, stdout, stderr], environment, status };
        let namespaces = [user, net, mnt, pid, ipc, uts, cgroup];
        let keep: Vec<_> = namespaces.iter().collect();
        self.enter(&exec.program, streams, &keep, exit, |entry| enter::exec(entry, exec, &namespaces))
    }

    /// Forks the process that enters a sandbox.
    fn enter(
        &mut self,
        program: &Program,
        streams: Streams,
        keep: &[&OwnedFd],
        exit: OwnedFd,
        body: impl FnOnce(&Entry<'_>),
    ) -> Result<Pid, Failure> {
        self.next_token = self.next_token.wrapping_add(1);
        let token = self.next_token;
        match self.kernel.call("fork", kernel::fork)? {
            None => {
                let ours = [&self.life.0, &self.births.1, &streams.environment, &streams.status];
                let keep: Vec<_> = keep.iter().copied().chain(&streams.stdio).chain(ours).map(OwnedFd::as_fd).collect();
                self.keep_only(&keep);
                let filters = match program.seccomp {
                    SeccompProfile::Service => &self.service,
                    SeccompProfile::Browser => &self.browser,
                };
                let (life, births) = (self.life.0.as_fd(), self.births.1.as_fd());
                let (kernel, maker) = (self.kernel, &self.maker);
                body(&Entry { kernel, filters, maker, life, births, token, streams });
                kernel::exit_now(127)
            }
            Some(pid) => {
                self.children.insert(pid, Child::Entry(token));
                self.expected.insert(token, exit);
                Ok(pid)
            }
        }
    }

    /// In a child: closes all that isn't its own, the spawner's end of `life` first of all.
    fn keep_only(&self, keep: &[BorrowedFd<'_>]) {
        // 2 is the supervisor's log, for a panic's message.
        let keep: Vec<_> = keep.iter().map(AsRawFd::as_raw_fd).chain([0, 1, 2]).collect();
        if kernel::close_all_but(&keep).is_err() {
            kernel::exit_now(127);
        }
    }

    fn learn_births(&mut self) {
        let mut bytes = [0; BIRTH_BYTES];
        while let Ok(BIRTH_BYTES) = rustix::io::read(&self.births.0, &mut bytes) {
            let (token, pid) = enter::parse_birth(bytes);
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            if let (Some(pid), Some(exit)) = (pid, self.expected.remove(&token)) {
                self.children.insert(pid, Child::Service(exit, token));
            }
        }
    }

    fn reap(&mut self) {
        // Taking the signal out is all that is wanted of it.
        let _ = rustix::io::read(&self.signals, &mut [0_u8; 1024]);
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while let Ok(Some(_)) = rustix::process::waitid(WaitId::All, peek) {
            // A service lives only once its birth is written, so whoever has ended by now is known after this.
            self.learn_births();
            let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) else { return };
            match self.children.remove(&pid) {
                Some(Child::Service(exit, _)) => {
                    let info = ExitInfo::of(status);
                    // A supervisor that has closed doesn't want to know.
                    let _ = rustix::io::write(&exit, &info.to_bytes());
                }
                Some(Child::Entry(token)) => {
                    // A birth that never came: dropping the pipe tells the supervisor.
                    drop(self.expected.remove(&token));
                    if status.exit_status() != Some(0) {
                        self.kill_service_of(token);
                    }
                }
                Some(Child::Broker | Child::MapHelper) | None => {}
            }
        }
    }

    /// Kills the service of an entry that failed: without the maker of its sockets it would go on and reach nothing.
    fn kill_service_of(&self, entry: u32) {
        let of_entry = |child: &Child| matches!(child, Child::Service(_, token) if *token == entry);
        for (&pid, _) in self.children.iter().filter(|(_, child)| of_entry(child)) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }

    /// Kills what is left and waits for it, so that nothing is left when this process ends.
    fn end_all(&mut self) {
        // Entries first: they make others. Killing a pid 1 kills its whole namespace.
        let (entries, others): (Vec<_>, Vec<_>) =
            self.children.iter().partition(|(_, child)| matches!(child, Child::Entry(_)));
        for (&pid, _) in entries.into_iter().chain(others) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        loop {
            self.learn_births();
            for (&pid, child) in &self.children {
                if matches!(child, Child::Service(..)) {
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                }
            }
            match rustix::process::wait(WaitOptions::empty()) {
                Ok(Some((pid, _))) => drop(self.children.remove(&pid)),
                Ok(None) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}
