//! The desktop's own process, inside its sandbox: starts the X server and what draws on it, and starts again what dies.

use std::{
    fs, io,
    io::{BufRead as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use agentenv_desktop::Desktop;

use super::{
    AUTHORITY_FILE, BROWSER_SCRIPT, COOKIE_VARIABLE, Cookie, DISPLAY, PLAN_FILE, SessionPlan, VNC_PORT, X11_PORT,
    XAUTHORITY, files, locale,
};
use crate::browser::HOME;

/// Sockets of the desktop's programs.
pub(super) const RUNTIME_DIR: &str = "/tmp/.desktop";
/// Where the locale of the desktop's language is made.
const LOCALES: &str = "/tmp/.desktop/locale";
/// Where programs look for locales: there, and for the C library's own.
pub(super) const LOCALE_PATH: &str = "/tmp/.desktop/locale:/usr/lib/locale";
/// Before something that died at once is started again; doubled up to [`RESTART_LONGEST`].
const RESTART_SHORTEST: Duration = Duration::from_millis(100);
/// See [`RESTART_SHORTEST`].
const RESTART_LONGEST: Duration = Duration::from_secs(5);
/// Who ran this long did not die at once.
const RAN: Duration = Duration::from_secs(10);

/// How long the window manager may take to be up.
const MANAGED_LIMIT: Duration = Duration::from_secs(10);
/// Between two looks whether it is.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Draws windows' frames, and keeps the order.
const WINDOW_MANAGER: &[&str] = &["openbox", "--config-file", "/etc/xdg/openbox/rc.xml"];
/// What is kept running beside it: programs and their arguments.
const KEPT: [&[&str]; 2] =
    [&["tint2", "-c", "/etc/xdg/tint2/tint2rc"], &["pcmanfm", "--desktop", "--profile", "default"]];

/// Why there is no desktop.
#[derive(Debug, thiserror::Error)]
enum SessionError {
    #[error("{PLAN_FILE} cannot be read: {0}")]
    Plan(io::Error),
    #[error("the desktop was given no cookie")]
    Cookie,
    #[error("{path} cannot be written: {source}")]
    Home { path: String, source: io::Error },
    #[error("the X server cannot be started: {0}")]
    Server(io::Error),
    #[error("the X server ended before it was up")]
    NotUp,
    #[error("the X server ended: {0}")]
    Ended(String),
}

/// Runs the desktop until its X server ends, which is never a success.
pub fn desktop_main() -> ExitCode {
    let error = match run() {
        Ok(never) => match never {},
        Err(error) => error,
    };
    say(&error.to_string());
    ExitCode::FAILURE
}

fn run() -> Result<std::convert::Infallible, SessionError> {
    let plan = fs::read(PLAN_FILE).map_err(SessionError::Plan)?;
    let plan: SessionPlan =
        serde_json::from_slice(&plan).map_err(|error| SessionError::Plan(io::Error::other(error)))?;
    let cookie = std::env::var(COOKIE_VARIABLE).ok().and_then(|hex| Cookie::parse(&hex)).ok_or(SessionError::Cookie)?;
    prepare_home(&cookie)?;
    let speaking = thread::spawn({
        let (locale, unknown) = (plan.locale.clone(), plan.unknown_language.clone());
        move || learn(locale.as_deref(), unknown.as_deref())
    });
    let mut server = start_server(&plan)?;
    // Programs look for their locale when they start.
    let _ = speaking.join();
    thread::spawn(|| keep(WINDOW_MANAGER));
    thread::spawn(move || {
        // What starts before it takes a desktop's window for an ordinary one.
        if !wait_managed(&cookie) {
            say("the window manager is not up yet");
        }
        for words in KEPT {
            thread::spawn(move || keep(words));
        }
    });
    thread::spawn(trust);
    thread::spawn(|| once(&["sh", BROWSER_SCRIPT, "about:blank"]));
    let ended = server.wait();
    Err(SessionError::Ended(ended.map_or_else(|error| error.to_string(), |status| status.to_string())))
}

/// Makes what a person finds in a new home.
fn prepare_home(cookie: &Cookie) -> Result<(), SessionError> {
    let at = |path: &str| {
        let path = path.to_owned();
        |source| SessionError::Home { path, source }
    };
    fs::DirBuilder::new().mode(0o700).recursive(true).create(RUNTIME_DIR).map_err(at(RUNTIME_DIR))?;
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(XAUTHORITY);
    file.as_mut()
        .map_err(|error| io::Error::from(error.kind()))
        .and_then(|file| file.write_all(&authority_entry(cookie)))
        .map_err(at(XAUTHORITY))?;
    for folder in ["Desktop", "Documents", "Downloads", ".config/pcmanfm/default"] {
        let path = format!("{HOME}/{folder}");
        fs::create_dir_all(&path).map_err(at(&path))?;
    }
    let items = format!("{HOME}/.config/pcmanfm/default/desktop-items-0.conf");
    fs::write(&items, files::DESKTOP_ITEMS).map_err(at(&items))?;
    for program in &files::PROGRAMS {
        let path = format!("{HOME}/Desktop/{}", program.file);
        fs::write(&path, program.entry()).map_err(at(&path))?;
    }
    Ok(())
}

/// An entry of an authority file that is for every display: lengths are 16 bits, big-endian.
fn authority_entry(cookie: &Cookie) -> Vec<u8> {
    /// `FamilyWild` of Xauth.h.
    const ANY: u16 = 0xffff;
    let mut entry = ANY.to_be_bytes().to_vec();
    for field in [b"", b"", &b"MIT-MAGIC-COOKIE-1"[..], cookie.bytes()] {
        entry.extend(u16::try_from(field.len()).unwrap_or(0).to_be_bytes());
        entry.extend(field);
    }
    entry
}

/// Starts the X server; it accepts connections when this returns.
fn start_server(plan: &SessionPlan) -> Result<Child, SessionError> {
    let mut command = program(&["Xtigervnc", DISPLAY]);
    command
        .args(["-geometry", &format!("{}x{}", plan.width, plan.height), "-depth", "24"])
        .args(["-dpi", &plan.dpi.to_string()])
        .args(["-auth", XAUTHORITY, "-listen", "tcp", "-noreset", "-s", "0"])
        // Whoever comes to the port has been let in by the gateway; nothing but the sandbox's own programs is beside it.
        .args(["-rfbport", &VNC_PORT.to_string(), "-SecurityTypes", "None", "-localhost"])
        .args(["-AlwaysShared", "-AcceptSetDesktopSize=0", "-desktop", "agent-env"])
        .args(["-displayfd", "1"])
        .stdout(Stdio::piped());
    let mut server = command.spawn().map_err(SessionError::Server)?;
    let mut line = String::new();
    if let Some(stdout) = server.stdout.take() {
        io::BufReader::new(stdout).read_line(&mut line).map_err(SessionError::Server)?;
    }
    if line.trim().is_empty() { Err(SessionError::NotUp) } else { Ok(server) }
}

/// Waits until windows are managed; whether they are.
fn wait_managed(cookie: &Cookie) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, X11_PORT));
    let connected = TcpStream::connect(address).ok().and_then(|stream| Desktop::connect(stream, cookie.bytes()).ok());
    let Some(desktop) = connected else { return false };
    let began = Instant::now();
    while began.elapsed() < MANAGED_LIMIT {
        match desktop.work_area() {
            Ok(None) => thread::sleep(LOOK_AGAIN),
            Ok(Some(_)) => return true,
            Err(_) => return false,
        }
    }
    false
}

/// A program of the desktop, not started yet.
fn program(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env_remove(COOKIE_VARIABLE).stdin(Stdio::null());
    command
}

/// Runs a program for as long as there is a desktop.
fn keep(words: &[&str]) {
    let mut pause = RESTART_SHORTEST;
    loop {
        let began = Instant::now();
        once(words);
        if began.elapsed() > RAN {
            pause = RESTART_SHORTEST;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(RESTART_LONGEST);
    }
}

fn once(words: &[&str]) {
    match program(words).status() {
        Ok(status) => say(&format!("{} ended: {status}", words[0])),
        Err(error) => say(&format!("{} cannot be started: {error}", words[0])),
    }
}

/// Makes the locale of the desktop's language.
fn learn(locale: Option<&str>, unknown: Option<&str>) {
    if let Some(language) = unknown {
        say(&format!("only the browser speaks `{language}`: the package `locales` has no definition of it"));
    }
    let Some(name) = locale else { return };
    let made = fs::create_dir_all(LOCALES).and_then(|()| {
        let target = format!("{LOCALES}/{name}.UTF-8");
        program(&[locale::COMPILER, "--inputfile", name, "--charmap", "UTF-8", "--no-archive", &target]).status()
    });
    match made {
        Ok(status) if status.success() => {}
        Ok(status) => say(&format!("the locale {name} could not be made: localedef ended with {status}")),
        Err(error) => say(&format!("the locale {name} could not be made: {error}")),
    }
}

/// Puts the deploy's authority where programs that use NSS look, if there is a program that can.
fn trust() {
    if !Path::new("/usr/bin/certutil").exists() {
        return;
    }
    let folder = format!("{HOME}/.pki/nssdb");
    if let Err(error) = fs::create_dir_all(&folder) {
        return say(&format!("{folder} cannot be made: {error}"));
    }
    let database = format!("sql:{folder}");
    let certutil = |more: &[&str]| {
        let status = program(&[&["certutil", "-d", &database], more].concat()).status();
        status.is_ok_and(|status| status.success())
    };
    let done = certutil(&["-N", "--empty-password"])
        && certutil(&["-A", "-t", "C,,", "-n", "agent-env", "-i", AUTHORITY_FILE]);
    if !done {
        say("the deploy's authority is not in the NSS database");
    }
}

fn say(what: &str) {
    // The log may be gone, with whoever reads it.
    let _ = writeln!(io::stderr().lock(), "agent-env: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authority_file_is_as_xau_reads_it() {
        let cookie = Cookie::parse("000102030405060708090a0b0c0d0e0f").unwrap();
        let mut expected = vec![0xff, 0xff, 0, 0, 0, 0, 0, 18];
        expected.extend(b"MIT-MAGIC-COOKIE-1");
        expected.extend([0, 16]);
        expected.extend(0..16);
        assert_eq!(authority_entry(&cookie), expected);
        for bad in ["", "00", "000102030405060708090a0b0c0d0e0g", "000102030405060708090a0b0c0d0e0f00"] {
            assert!(Cookie::parse(bad).is_none(), "{bad}");
        }
    }
}
