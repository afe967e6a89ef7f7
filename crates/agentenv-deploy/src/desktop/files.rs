//! The files of `/etc` that make a desktop: menus, panel, icons, what opens what.

use super::{AUTHORITY_FILE, BROWSER_SCRIPT, DesktopSpec, below_etc};

/// Files by their path below `/etc`. An `@` before a number makes it one of pixels at scale 1; see [`at_scale`].
const PLAIN: [(&str, &str); 9] = [
    ("xdg/openbox/rc.xml", include_str!("etc/rc.xml")),
    ("xdg/openbox/menu.xml", include_str!("etc/menu.xml")),
    ("xdg/tint2/tint2rc", include_str!("etc/tint2rc")),
    ("xdg/pcmanfm/default/pcmanfm.conf", include_str!("etc/pcmanfm.conf")),
    ("xdg/libfm/libfm.conf", include_str!("etc/libfm.conf")),
    ("xdg/mimeapps.list", include_str!("etc/mimeapps.list")),
    ("gtk-3.0/settings.ini", include_str!("etc/settings.ini")),
    ("gtk-2.0/gtkrc", include_str!("etc/gtkrc")),
    ("bash.bashrc", include_str!("etc/bash.bashrc")),
];

/// The terminal's settings, but for its size.
const TERMINAL: &str = include_str!("etc/Xresources");
/// Columns and rows of a terminal where there is room for them.
const TERMINAL_SIZE: [f64; 2] = [96.0, 28.0];
/// What a character of it takes, in pixels at scale 1, as much as the renderer rounds up.
const CHARACTER: [f64; 2] = [10.0, 19.0];
/// What a window leaves free: the panel and its own frame.
const AROUND: [f64; 2] = [12.0, 72.0];

/// What the file manager reads from the home only.
pub(super) const DESKTOP_ITEMS: &str = include_str!("etc/desktop-items-0.conf");

/// A program of the menus, the panel and the desktop.
pub(super) struct Program {
    /// The name of its `.desktop` file; it takes the place of the package's own.
    pub(super) file: &'static str,
    name: &'static str,
    command: &'static str,
    icon: &'static str,
    class: &'static str,
    opens: &'static str,
}

/// In the order of the panel.
pub(super) const PROGRAMS: [Program; 4] = [
    Program {
        file: "chromium.desktop",
        name: "Web browser",
        command: "sh /etc/agent-env/browser %U",
        icon: "chromium",
        class: "Chromium",
        opens: "text/html;application/pdf;image/png;image/jpeg;image/gif;image/svg+xml;x-scheme-handler/http;x-scheme-handler/https;",
    },
    Program {
        file: "pcmanfm.desktop",
        name: "Files",
        command: "pcmanfm %U",
        icon: "system-file-manager",
        class: "Pcmanfm",
        opens: "inode/directory;",
    },
    Program {
        file: "mousepad.desktop",
        name: "Text editor",
        command: "mousepad %U",
        icon: "accessories-text-editor",
        class: "Mousepad",
        opens: "text/plain;text/csv;application/json;application/xml;",
    },
    Program {
        file: "xterm.desktop",
        name: "Terminal",
        command: "xterm",
        icon: "utilities-terminal",
        class: "XTerm",
        opens: "",
    },
];

impl Program {
    /// The text of its `.desktop` file.
    pub(super) fn entry(&self) -> String {
        let Self { name, command, icon, class, opens, .. } = self;
        format!(
            "[Desktop Entry]\nType=Application\nName={name}\nExec={command}\nIcon={icon}\nTerminal=false\n\
             StartupNotify=false\nStartupWMClass={class}\nCategories=Utility;\nMimeType={opens}\n"
        )
    }
}

/// All of them for a screen, around a browser that is started by this command, whose last word is the page of its first window.
pub(super) fn all(browser: &[String], authority: &str, spec: &DesktopSpec) -> Vec<(String, Vec<u8>)> {
    let plain = PLAIN.iter().map(|(path, text)| ((*path).to_owned(), at_scale(text, spec.scale)));
    let programs =
        PROGRAMS.iter().map(|program| (format!("agent-env/share/applications/{}", program.file), program.entry()));
    let firefox = serde_json::json!({
        "policies": {
            "Certificates": { "Install": [AUTHORITY_FILE] },
            "DisableAppUpdate": true,
            "DisableTelemetry": true,
        }
    });
    let made = [
        (below_etc(BROWSER_SCRIPT), browser_script(browser)),
        ("agent-env/Xresources".to_owned(), format!("{TERMINAL}xterm*geometry: {}\n", terminal_size(spec))),
        (below_etc(AUTHORITY_FILE), authority.to_owned()),
        ("firefox/policies/policies.json".to_owned(), firefox.to_string()),
    ];
    plain.chain(programs).chain(made).map(|(path, text)| (path, text.into_bytes())).collect()
}

/// The size of a terminal's window that fits on a screen, in characters.
fn terminal_size(spec: &DesktopSpec) -> String {
    let fits = |which: usize, pixels: u32| {
        let room = f64::from(pixels) / spec.scale - AROUND[which];
        (room / CHARACTER[which]).floor().clamp(1.0, TERMINAL_SIZE[which])
    };
    format!("{}x{}", fits(0, spec.width), fits(1, spec.height))
}

/// A text whose numbers of pixels are those of a scale: `@36` becomes `54` at 1.5. What measures by the screen's dots per inch (most
/// texts do) has plain numbers.
fn at_scale(text: &str, scale: f64) -> String {
    let mut parts = text.split('@');
    let mut scaled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        match part[..digits].parse::<f64>() {
            Ok(pixels) => scaled.push_str(&format!("{:.0}", (pixels * scale).round())),
            Err(_) => scaled.push('@'),
        }
        scaled.push_str(&part[digits..]);
    }
    scaled
}

fn browser_script(command: &[String]) -> String {
    let flags = command.split_last().map_or(&[][..], |(_page, flags)| flags);
    let words: Vec<String> = flags.iter().map(|word| quoted(word)).collect();
    format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" "))
}

/// A word as a shell takes it for itself.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_gets_every_flag_whole() {
        let script = browser_script(&["/usr/bin/x", "--a=it's; rm", "about:blank"].map(str::to_owned));
        assert_eq!(script, "#!/bin/sh\nexec '/usr/bin/x' '--a=it'\\''s; rm' \"$@\"\n");
    }

    fn spec(width: u32, height: u32, scale: f64) -> DesktopSpec {
        DesktopSpec { width, height, scale }
    }

    #[test]
    fn a_terminal_fits_on_its_screen() {
        assert_eq!(terminal_size(&spec(1280, 800, 1.0)), "96x28");
        assert_eq!(terminal_size(&spec(1600, 1000, 2.0)), "78x22");
        assert_eq!(terminal_size(&spec(640, 480, 3.0)), "20x4");
    }

    #[test]
    fn pixels_grow_with_the_scale_and_nothing_else_does() {
        let text = "size = 100% @36\nfont = Sans @9\nPS1='\\u@\\h'\nkeep=5 a@b @";
        assert_eq!(at_scale(text, 1.0), "size = 100% 36\nfont = Sans 9\nPS1='\\u@\\h'\nkeep=5 a@b @");
        assert_eq!(at_scale(text, 1.5), "size = 100% 54\nfont = Sans 14\nPS1='\\u@\\h'\nkeep=5 a@b @");
        for (path, text) in PLAIN {
            let scaled = at_scale(text, 2.0);
            assert!(!scaled.split('@').skip(1).any(|part| part.starts_with(|c: char| c.is_ascii_digit())), "{path}");
        }
    }

    #[test]
    fn everything_that_the_panel_and_the_menu_start_is_there() {
        let files = all(&["/usr/bin/x".to_owned(), "about:blank".to_owned()], "PEM", &spec(1280, 800, 1.0));
        let text = |path: &str| {
            let found = files.iter().find(|(file, _)| file == path).unwrap_or_else(|| panic!("{path}"));
            String::from_utf8(found.1.clone()).unwrap()
        };
        let (panel, menu) = (text("xdg/tint2/tint2rc"), text("xdg/openbox/menu.xml"));
        for program in &PROGRAMS {
            let path = format!("/etc/agent-env/share/applications/{}", program.file);
            assert!(panel.contains(&path), "{path}");
            assert_eq!(text(&below_etc(&path)), program.entry());
            assert!(menu.contains(program.command.trim_end_matches(" %U")), "{}", program.name);
        }
        for line in text("xdg/mimeapps.list").lines().filter(|line| line.contains('=')) {
            let (kind, file) = line.split_once('=').unwrap();
            let program = PROGRAMS.iter().find(|program| program.file == file).unwrap();
            assert!(program.opens.contains(kind), "{line}");
        }
    }
}
