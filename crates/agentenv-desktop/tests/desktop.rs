//! Against a real X server (Xvfb) and real clients of it (xterm, xev).

#![expect(clippy::print_stdout, reason = "times are told, not asserted: machines differ")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use agentenv_desktop::{Desktop, DesktopError, Drawn, Scale};
use agentenv_protocol::{ComputerAction as Action, Region, ScrollDirection};

/// Longer than anything here takes.
const WAIT: Duration = Duration::from_secs(30);
const COOKIE: [u8; 16] = *b"0123456789abcdef";

struct Server {
    server: Child,
    clients: Vec<Child>,
    display: u16,
    folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = folder.path().join("Xauthority");
        // An entry for any host: family 0xffff, no address, no display, the name, the cookie; all lengths big-endian.
        let entry = [&[0xff, 0xff, 0, 0, 0, 0, 0, 18][..], b"MIT-MAGIC-COOKIE-1", &[0, 16], &COOKIE].concat();
        fs::write(&authority, entry).unwrap();
        let mut server = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", "1280x800x24", "-listen", "tcp", "-nolisten", "unix", "-auth"])
            .arg(&authority)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Xvfb is needed: `cargo xtask setup` installs it");
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { server, clients: Vec::new(), display: line.trim().parse().unwrap(), folder }
    }

    fn stream(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", 6000 + self.display)).unwrap()
    }

    fn desktop(&self) -> Desktop {
        Desktop::connect(self.stream(), &COOKIE).unwrap()
    }

    fn client(&mut self, program: &str, arguments: &[&str]) -> &mut Child {
        let client = Command::new(program)
            .args(arguments)
            .env("DISPLAY", format!("127.0.0.1:{}", self.display))
            .env("XAUTHORITY", self.folder.path().join("Xauthority"))
            .env("LC_ALL", "C.UTF-8")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.clients.push(client);
        self.clients.last_mut().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in self.clients.iter_mut().chain([&mut self.server]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < WAIT, "{what} takes too long");
        std::thread::yield_now();
    }
}

fn whole(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The colours of a PNG, and its size.
fn decode(png: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    (info.width, info.height, pixels)
}

#[test]
fn only_who_has_the_cookie_is_let_in() {
    let server = Server::start();
    assert_eq!(server.desktop().size(), (1280, 800));
    for cookie in [&b"0123456789abcdeX"[..], b""] {
        assert!(matches!(Desktop::connect(server.stream(), cookie), Err(DesktopError::Connect(_))));
    }
}

#[test]
fn a_screenshot_is_what_is_drawn_whole_in_part_and_smaller() {
    let mut server = Server::start();
    let mut desktop = server.desktop();
    assert_eq!(desktop.wait_drawn(Duration::from_millis(100)).unwrap(), Drawn::NotYet);
    server.client("xterm", &["-geometry", "80x24+100+100", "-bg", "#102030", "-e", "sleep", "1000"]);
    assert_eq!(desktop.wait_drawn(WAIT).unwrap(), Drawn::Yes);
    desktop.act(&Action::MouseMove { coordinate: [1000, 700] }).unwrap();
    assert_eq!(desktop.cursor_position().unwrap(), [1000, 700]);
    let (width, height, pixels) = decode(&desktop.screenshot(None, None).unwrap());
    assert_eq!((width, height, pixels.len()), (1280, 800, 1280 * 800 * 3));
    let at = |x: usize, y: usize| &pixels[(y * 1280 + x) * 3..][..3];
    assert_eq!(at(300, 300), [0x10, 0x20, 0x30]);
    let part = Region { x: 300, y: 300, width: 20, height: 10 };
    let (width, height, pixels) = decode(&desktop.screenshot(Some(part), Scale::new(0.5)).unwrap());
    assert_eq!((width, height), (10, 5));
    assert!(pixels.chunks(3).all(|pixel| pixel == [0x10, 0x20, 0x30]));
    // The cursor is on it, unless it is elsewhere.
    let around = |x: i32| Region { x: x - 8, y: 692, width: 16, height: 16 };
    let drawn = |region| decode(&desktop.screenshot(Some(region), None).unwrap()).2.iter().any(|value| *value != 0);
    assert!(drawn(around(1000)) && !drawn(around(1200)));
    for (x, y, width, height) in [(-1, 0, 5, 5), (0, 0, 0, 5), (1279, 0, 2, 1), (0, 0, 1280, 801), (i32::MAX, 0, 1, 1)]
    {
        let refused = desktop.screenshot(Some(Region { x, y, width, height }), None);
        assert!(matches!(refused, Err(DesktopError::OutOfBounds { .. })));
    }
    let began = Instant::now();
    for _ in 0..5 {
        desktop.screenshot(None, None).unwrap();
    }
    println!("screenshot of 1280x800: {:?}", began.elapsed() / 5);
}

#[test]
fn what_is_typed_arrives_as_it_is_in_any_script() {
    let mut server = Server::start();
    let (typed, ready) = (server.path("typed"), server.path("ready"));
    let script = format!("touch {}; cat > {}", ready.display(), typed.display());
    server.client("xterm", &["-u8", "-geometry", "80x24+0+0", "-e", "sh", "-c", &script]);
    until("the terminal", || ready.exists().then_some(()));
    let mut desktop = server.desktop();
    assert_eq!(desktop.wait_drawn(WAIT).unwrap(), Drawn::Yes);
    desktop.act(&Action::MouseMove { coordinate: [100, 100] }).unwrap();
    let lines = [
        "Hello, World! ~`@#$%^&*()_+-={}[]|\\:;\"'<>?,./",
        "Größe äöü ÄÖÜ ß € ñ ç ø Ł",
        "漢字仮名交じり文を打つことができるかどうか、長い文で試してみる。借りる鍵は全部で二十四個しかない",
        "Привет, мир! Γειά σου Κόσμε שלום مرحبا",
        "🙂🚀",
    ];
    let began = Instant::now();
    for line in lines {
        desktop.act(&Action::Type { text: format!("{line}\n") }).unwrap();
    }
    println!("typed in {:?}", began.elapsed());
    desktop.act(&Action::Key { text: "ctrl+d".to_owned() }).unwrap();
    let expected = lines.map(|line| format!("{line}\n")).concat();
    let found = until("the text", || whole(&typed).filter(|text| text.len() >= expected.len()));
    assert_eq!(found, expected);
    let long = Action::Type { text: "x".repeat(10_001) };
    assert!(matches!(desktop.act(&long), Err(DesktopError::TooMuch { .. })));
}

#[test]
fn clicks_keys_and_the_wheel_arrive_as_events() {
    let mut server = Server::start();
    let mut desktop = server.desktop();
    let xev = server.client("xev", &["-geometry", "600x400+0+0", "-event", "button", "-event", "keyboard"]);
    let mut events = BufReader::new(xev.stdout.take().unwrap());
    assert_eq!(desktop.wait_drawn(WAIT).unwrap(), Drawn::Yes);
    let at = Some([300, 200]);
    let began = Instant::now();
    let actions = [
        Action::LeftClick { coordinate: at, text: Some("ctrl".to_owned()) },
        Action::DoubleClick { coordinate: None, text: None },
        Action::RightClick { coordinate: at, text: None },
        Action::Scroll { coordinate: at, scroll_direction: ScrollDirection::Down, scroll_amount: 3, text: None },
        Action::LeftClickDrag { start_coordinate: Some([10, 10]), coordinate: [50, 60] },
        Action::Key { text: "ctrl+shift+t".to_owned() },
        Action::Key { text: "A".to_owned() },
        Action::HoldKey { text: "Page_Down".to_owned(), duration: 0.05 },
    ];
    for action in &actions {
        desktop.act(action).unwrap();
    }
    println!("{} actions, 50 ms of them a held key, in {:?}", actions.len(), began.elapsed());
    desktop.act(&Action::Key { text: "Escape".to_owned() }).unwrap();
    let mut seen = Vec::new();
    let (mut kind, mut line) = (String::new(), String::new());
    while !seen.iter().any(|event| event == "KeyRelease Escape") {
        line.clear();
        assert!(events.read_line(&mut line).unwrap() > 0, "xev ended: {seen:#?}");
        if let Some((event, _)) = line.split_once(" event, serial") {
            kind = event.to_owned();
        } else if let Some((_, keysym)) = line.split_once("(keysym ") {
            let name = keysym.split_once(", ").and_then(|(_, rest)| rest.split_once(')'));
            seen.push(format!("{kind} {}", name.map_or("?", |(name, _)| name)));
        } else if let Some((_, button)) = line.split_once("button ") {
            seen.push(format!("{kind} {}", button.split(',').next().unwrap_or_default()));
        }
    }
    let text = seen.join("\n");
    let count = |what: &str| seen.iter().filter(|event| event.starts_with(what)).count();
    assert_eq!((count("ButtonPress 1"), count("ButtonRelease 1")), (4, 4), "{text}");
    assert_eq!((count("ButtonPress 3"), count("ButtonPress 5")), (1, 3), "{text}");
    for key in ["Control_L", "Shift_L", "T", "A", "Next"] {
        assert!(count(&format!("KeyPress {key}")) >= 1 && count(&format!("KeyRelease {key}")) >= 1, "{key} in {text}");
    }
}

#[test]
fn what_is_not_possible_is_said() {
    let server = Server::start();
    let mut desktop = server.desktop();
    for coordinate in [[1280, 0], [0, 800], [-1, 5], [i32::MIN, i32::MAX]] {
        assert!(matches!(desktop.act(&Action::MouseMove { coordinate }), Err(DesktopError::OutOfBounds { .. })));
        let drag = Action::LeftClickDrag { start_coordinate: None, coordinate };
        assert!(matches!(desktop.act(&drag), Err(DesktopError::OutOfBounds { .. })));
    }
    let error = desktop.act(&Action::MouseMove { coordinate: [1280, 0] }).unwrap_err();
    assert_eq!(error.to_string(), "[1280, 0] is outside the screen of 1280x800");
    assert!(matches!(desktop.act(&Action::Key { text: "Retrun".to_owned() }), Err(DesktopError::UnknownKey(_))));
    for duration in [-1.0, 61.0, f64::NAN] {
        assert!(matches!(desktop.act(&Action::Wait { duration }), Err(DesktopError::TooMuch { .. })));
    }
    let wheel =
        Action::Scroll { coordinate: None, scroll_direction: ScrollDirection::Up, scroll_amount: 101, text: None };
    assert!(matches!(desktop.act(&wheel), Err(DesktopError::TooMuch { .. })));
}

#[test]
fn a_server_that_is_gone_is_an_error_and_no_hang() {
    let server = Server::start();
    let stream = server.stream();
    let handle = stream.try_clone().unwrap();
    let mut desktop = Desktop::connect(stream, &COOKIE).unwrap();
    handle.shutdown(std::net::Shutdown::Both).unwrap();
    assert!(desktop.screenshot(None, None).is_err());
    assert!(desktop.act(&Action::LeftMouseDown {}).is_err());
    // And one that answers something else.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let liar = std::thread::spawn({
        let at = listener.local_addr().unwrap();
        move || Desktop::connect(TcpStream::connect(at).unwrap(), &COOKIE).map(|_| ())
    });
    let (mut stream, _) = listener.accept().unwrap();
    let mut hello = [0; 12];
    stream.read_exact(&mut hello).unwrap();
    std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    drop(stream);
    assert!(liar.join().unwrap().is_err());
}
