//! A computer's desktop: what its sandbox holds, and the program that keeps it running inside (BR-3).
//!
//! [`launch`] is pure: environment and `/etc` files of the sandbox. [`desktop_main`] runs in it: an X server that speaks VNC,
//! a window manager, a panel, a file manager that draws the icons, and Chromium. Everything that an agent can change is in the home,
//! which is empty at each start; everything that a desktop is made of is in `/etc`, which nothing inside can write.

mod files;
mod java;
mod locale;
mod session;

#[cfg(test)]
mod tests;

use std::path::Path;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::browser::{HOME, Launch};
use locale::Locale;

pub(crate) use java::{TRUST_STORE as JAVA_TRUST_STORE, settings as java_settings, trust_store as java_trust_store};
pub use session::desktop_main;

/// The hidden command of the program that runs a computer's desktop.
pub const DESKTOP_COMMAND: &str = "internal-desktop";
/// Where the X server listens for the supervisor, in the sandbox.
pub(crate) const X11_PORT: u16 = 6000;
/// Where it listens for viewers.
pub(crate) const VNC_PORT: u16 = 5900;
/// The desktop's own plan, in the sandbox.
const PLAN_FILE: &str = "/etc/agent-env/desktop.json";
/// Starts Chromium with the flags of the deploy; a second time it opens a window of the first.
const BROWSER_SCRIPT: &str = "/etc/agent-env/browser";
/// The deploy's own authority alone, for programs that are told whom to trust one by one.
const AUTHORITY_FILE: &str = "/etc/ssl/agent-env.pem";
/// The variable by which the desktop is told its cookie; its programs don't get it.
const COOKIE_VARIABLE: &str = "AGENTENV_DESKTOP_COOKIE";
/// Where X programs find the cookie.
const XAUTHORITY: &str = "/home/agent/.Xauthority";
/// What programs call the desktop.
const DISPLAY: &str = ":0";
/// What a screen has at scale 1.
const DPI: f64 = 96.0;
/// A cursor at scale 1, in pixels: unset, each program takes one by the height of the screen.
const CURSOR: f64 = 24.0;

/// The programs that a desktop is made of, each with its Debian package.
const PROGRAMS: [(&str, &str); 6] = [
    ("/usr/bin/Xtigervnc", "tigervnc-standalone-server"),
    ("/usr/bin/openbox", "openbox"),
    ("/usr/bin/tint2", "tint2"),
    ("/usr/bin/pcmanfm", "pcmanfm"),
    ("/usr/bin/mousepad", "mousepad"),
    ("/usr/bin/xterm", "xterm"),
];

/// The packages of a desktop that this machine lacks.
pub fn missing_packages() -> Vec<&'static str> {
    PROGRAMS.iter().filter(|(program, _)| !Path::new(program).exists()).map(|(_, package)| *package).collect()
}

/// What varies between desktops.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DesktopSpec {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) scale: f64,
}

/// What the session reads in its sandbox.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct SessionPlan {
    width: u32,
    height: u32,
    dpi: u32,
    /// What is made before the programs start, where their language needs one.
    locale: Option<String>,
    /// What they can't speak.
    unknown_language: Option<String>,
}

/// The secret by which the supervisor connects to an X server: new at each start.
#[derive(Clone, Debug)]
pub(crate) struct Cookie([u8; 16]);

impl Cookie {
    /// Makes a new one.
    pub(crate) fn random() -> Self {
        Self(rand::random())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The variable that hands it over.
    pub(crate) fn variable(&self) -> (String, SecretString) {
        (COOKIE_VARIABLE.to_owned(), hex::encode(self.0).into())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }
}

/// Plans a desktop around its browser: the browser's files and environment, and the desktop's own. The command is the caller's.
pub(crate) fn launch(spec: &DesktopSpec, browser: Launch, authority: &str) -> Launch {
    let Launch { command, mut environment, mut etc, .. } = browser;
    environment.retain(|(name, _)| name != "PATH");
    environment.extend(own_environment(spec.scale));
    let language = environment.iter().find(|(name, _)| name == "LANGUAGE").map_or("en", |(_, value)| value);
    let (locale, unknown_language) = match Locale::of(language) {
        Locale::BuiltIn => (None, None),
        Locale::Defined(name) => (Some(name), None),
        Locale::Unknown => (None, Some(language.to_owned())),
    };
    if let Some(name) = &locale {
        environment.retain(|(name, _)| name != "LANG");
        let variables = [("LANG", format!("{name}.UTF-8")), ("LOCPATH", session::LOCALE_PATH.to_owned())];
        environment.extend(variables.map(|(name, value)| (name.to_owned(), value)));
    }
    let dpi = (DPI * spec.scale).round() as u32;
    let session = SessionPlan { width: spec.width, height: spec.height, dpi, locale, unknown_language };
    etc.extend(files::all(&command, authority, spec));
    let session = serde_json::to_vec(&session).expect("numbers and texts have a JSON form");
    etc.push((below_etc(PLAN_FILE), session));
    Launch { command: Vec::new(), cwd: HOME.into(), environment, etc }
}

/// What every program of the desktop is told.
fn own_environment(scale: f64) -> Vec<(String, String)> {
    // GTK doubles its pixels by whole numbers only; the rest is the size of its texts.
    let whole = scale.floor();
    [
        ("PATH", crate::tools::PATH),
        ("DISPLAY", DISPLAY),
        ("XAUTHORITY", XAUTHORITY),
        ("USER", "agent"),
        ("LOGNAME", "agent"),
        ("SHELL", "/bin/bash"),
        ("XDG_CURRENT_DESKTOP", "LXDE"),
        ("XDG_SESSION_TYPE", "x11"),
        ("XDG_RUNTIME_DIR", session::RUNTIME_DIR),
        ("XDG_CONFIG_DIRS", "/etc/xdg"),
        ("XDG_DATA_DIRS", "/etc/agent-env/share:/usr/local/share:/usr/share"),
        ("XENVIRONMENT", "/etc/agent-env/Xresources"),
        // There is no session bus, and what would be asked by it is not there.
        ("GIO_USE_VFS", "local"),
        ("GSETTINGS_BACKEND", "memory"),
        ("NO_AT_BRIDGE", "1"),
        ("GTK_A11Y", "none"),
        ("BROWSER", BROWSER_SCRIPT),
        ("EDITOR", "mousepad"),
        ("GDK_SCALE", &format!("{whole}")),
        ("GDK_DPI_SCALE", &format!("{:.3}", scale / whole)),
        ("QT_SCALE_FACTOR", &format!("{scale}")),
        ("XCURSOR_THEME", "Adwaita"),
        ("XCURSOR_SIZE", &format!("{:.0}", CURSOR * scale)),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

fn below_etc(path: &str) -> String {
    path.trim_start_matches("/etc/").to_owned()
}
