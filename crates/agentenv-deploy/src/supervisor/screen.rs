//! A computer's screen as the gateway has it: connections to its X server, by placed sockets (BR-3).

use std::{
    net::{Shutdown, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agentenv_desktop::{Desktop, DesktopError, Drawn, Scale};
use agentenv_net::Computer;
use agentenv_protocol::{ComputerAction, ComputerError, ComputerErrorKind, Coordinate, Name, Region};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    time::{Instant, timeout},
};

use super::sockets::Sockets;
use crate::desktop::{Cookie, X11_PORT};

/// How long an action waits for those before it: the longest is a wait of a minute.
const TURN_LIMIT: Duration = Duration::from_secs(90);
/// How long the X server may take to let us in: a round trip or two.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long it may take to say that it is there.
const ALIVE_LIMIT: Duration = Duration::from_secs(2);
/// How long a picture may take: 13 ms at 1280x800, the largest screens a second.
const PICTURE_LIMIT: Duration = Duration::from_secs(10);
/// How long an action may take beside the time that it asks for: 10,000 characters take seconds.
const ACT_LIMIT: Duration = Duration::from_secs(30);
/// Between two looks at a desktop that is being started.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// One computer's screen, mouse and keyboard. Pictures and actions have a connection each, so that an action that waits keeps
/// nobody from looking.
pub(crate) struct Screen {
    name: Name,
    /// Where the X server runs now, and its cookie; none while there is none.
    server: Mutex<Option<(Sockets, Cookie)>>,
    actions: Lane,
    pictures: Lane,
}

#[derive(Default)]
struct Lane {
    link: Arc<AsyncMutex<Option<Desktop>>>,
    /// The stream of the link, to end a call that takes too long.
    stream: Mutex<Option<TcpStream>>,
}

impl Lane {
    fn cut(&self) {
        if let Some(stream) = locked(&self.stream).take() {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Ends the connection, and what is being done by it.
    async fn close(&self) {
        self.cut();
        if let Ok(mut link) = timeout(ALIVE_LIMIT, self.link.lock()).await {
            *link = None;
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in here panics half-way; a poisoned lock still holds a whole value.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Screen {
    pub(crate) fn new(name: Name) -> Self {
        Self { name, server: Mutex::default(), actions: Lane::default(), pictures: Lane::default() }
    }

    /// An X server with this cookie is there, or being started.
    pub(crate) fn open(&self, sockets: Sockets, cookie: Cookie) {
        *locked(&self.server) = Some((sockets, cookie));
    }

    /// The X server is about to be ended: nobody gets a connection until another one is there.
    pub(crate) async fn close(&self) {
        *locked(&self.server) = None;
        tokio::join!(self.actions.close(), self.pictures.close());
    }

    /// Waits until the desktop is there: a window manager that gives a panel its place, and a picture that has come to rest.
    pub(crate) async fn wait_drawn(&self, limit: Duration) -> Result<(), ComputerError> {
        let deadline = Instant::now() + limit;
        let left = || deadline.saturating_duration_since(Instant::now());
        let not_drawn = || self.error(ComputerErrorKind::Slow, format!("is not drawn after {} s", limit.as_secs()));
        loop {
            match self.with(&self.pictures, left(), |desktop| has_panel(desktop)).await {
                Ok(true) => break,
                Ok(false) | Err(ComputerError { kind: ComputerErrorKind::Away, .. }) if !left().is_zero() => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                Ok(false) => return Err(not_drawn()),
                Err(error) => return Err(error),
            }
        }
        let rest = left();
        match self.with(&self.pictures, rest + ALIVE_LIMIT, move |desktop| desktop.wait_drawn(rest)).await? {
            Drawn::Yes => Ok(()),
            Drawn::NotYet => Err(not_drawn()),
        }
    }

    /// Does something by a connection, which is made first where there is none, on a thread that may block.
    async fn with<T: Send + 'static>(
        &self,
        lane: &Lane,
        limit: Duration,
        work: impl FnOnce(&mut Desktop) -> Result<T, DesktopError> + Send + 'static,
    ) -> Result<T, ComputerError> {
        let turn = timeout(TURN_LIMIT, Arc::clone(&lane.link).lock_owned()).await;
        let mut link = self.alive(lane, turn.map_err(|_| self.slow(TURN_LIMIT))?).await?;
        if link.is_none() {
            *link = Some(self.connect(lane).await?);
        }
        let task = tokio::task::spawn_blocking(move || {
            let done = work(link.as_mut()?);
            if done.as_ref().is_err_and(|error| error.kind() == ComputerErrorKind::Away) {
                *link = None;
            }
            Some(done)
        });
        match timeout(limit, task).await {
            Ok(Ok(Some(Ok(done)))) => Ok(done),
            Ok(Ok(Some(Err(error)))) => Err(self.failed(&error)),
            Ok(Ok(None) | Err(_)) => Err(self.error(ComputerErrorKind::Away, "is not there")),
            Err(_) => {
                lane.cut();
                Err(self.slow(limit))
            }
        }
    }

    /// The link, empty if its connection has ended: programs of the desktop can end it, and nothing was asked for yet.
    async fn alive(
        &self,
        lane: &Lane,
        mut link: OwnedMutexGuard<Option<Desktop>>,
    ) -> Result<OwnedMutexGuard<Option<Desktop>>, ComputerError> {
        if link.is_none() {
            return Ok(link);
        }
        let look = tokio::task::spawn_blocking(move || {
            if link.as_ref().is_some_and(|desktop| desktop.cursor_position().is_err()) {
                *link = None;
            }
            link
        });
        match timeout(ALIVE_LIMIT, look).await {
            Ok(Ok(link)) => Ok(link),
            Ok(Err(_)) => Err(self.error(ComputerErrorKind::Away, "is not there")),
            Err(_) => {
                lane.cut();
                Err(self.slow(ALIVE_LIMIT))
            }
        }
    }

    async fn connect(&self, lane: &Lane) -> Result<Desktop, ComputerError> {
        let away = |why: String| self.error(ComputerErrorKind::Away, why);
        let server = locked(&self.server).clone();
        let (sockets, cookie) = server.ok_or_else(|| away("is being started".to_owned()))?;
        let connect = async {
            let dialled = async {
                let stream = sockets.dial(X11_PORT).await?.into_std()?;
                stream.set_nonblocking(false)?;
                *locked(&lane.stream) = Some(stream.try_clone()?);
                std::io::Result::Ok(stream)
            };
            let stream = dialled.await.map_err(|error| away(format!("is not there: {error}")))?;
            tokio::task::spawn_blocking(move || Desktop::connect(stream, cookie.bytes()))
                .await
                .map_err(|error| away(format!("is not there: {error}")))?
                .map_err(|error| self.failed(&error))
        };
        match timeout(CONNECT_LIMIT, connect).await {
            Ok(connected) => connected,
            Err(_) => {
                lane.cut();
                Err(self.slow(CONNECT_LIMIT))
            }
        }
    }

    fn error(&self, kind: ComputerErrorKind, what: impl std::fmt::Display) -> ComputerError {
        ComputerError { kind, message: format!("the desktop of `{}` {what}", self.name) }
    }

    fn slow(&self, limit: Duration) -> ComputerError {
        self.error(ComputerErrorKind::Slow, format!("did not answer within {} s", limit.as_secs()))
    }

    fn failed(&self, error: &DesktopError) -> ComputerError {
        match error.kind() {
            ComputerErrorKind::Away => self.error(ComputerErrorKind::Away, format!("is not there: {error}")),
            kind => ComputerError { kind, message: error.to_string() },
        }
    }
}

fn has_panel(desktop: &Desktop) -> Result<bool, DesktopError> {
    let (width, height) = desktop.size();
    let whole = (u32::from(width), u32::from(height));
    Ok(desktop.work_area()?.is_some_and(|area| (area.width, area.height) != whole))
}

impl Computer for Screen {
    fn screenshot(&self, region: Option<Region>, scale: Option<f64>) -> BoxFuture<'_, Result<Vec<u8>, ComputerError>> {
        let scale = scale.and_then(Scale::new);
        self.with(&self.pictures, PICTURE_LIMIT, move |desktop| desktop.screenshot(region, scale)).boxed()
    }

    fn act(&self, action: ComputerAction) -> BoxFuture<'_, Result<Coordinate, ComputerError>> {
        let asked = match &action {
            ComputerAction::Wait { duration } | ComputerAction::HoldKey { duration, .. } => *duration,
            _ => 0.0,
        };
        // What is no time is refused by the action itself.
        let limit = ACT_LIMIT + Duration::try_from_secs_f64(asked).unwrap_or_default().min(TURN_LIMIT);
        let act = move |desktop: &mut Desktop| {
            desktop.act(&action)?;
            desktop.cursor_position()
        };
        self.with(&self.actions, limit, act).boxed()
    }
}
