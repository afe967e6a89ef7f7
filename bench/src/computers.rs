//! `bench computer`: a desktop from start to ready, its picture, a click, a reset, and memory, against a plain Xvfb with a Chromium, started
//! by hand and worked by `scrot` and `xdotool`, as agents' harnesses do it.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use agentenv_tests::{Bundle, Hand, Home, Processes, PySite};
use tempfile::TempDir;

use crate::{
    devtools::{self, TAB},
    numbers::{Numbers, tell},
    office::timed,
    resets::{SPARE_LIMIT, ms, reset_as},
    say::say,
};

/// Starts and resets: enough for a median; half a minute in all.
const ROUNDS: usize = 7;
/// Pictures and clicks.
const LOOKS: usize = 100;
/// Between two looks at a browser that is being started.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// The screen of both.
const SCREEN: &str = "1280x800x24";

/// Measures in turns, so that what disturbs one disturbs the other.
pub fn bench() {
    let home = home();
    say!("a computer of 1280x800 with one start tab; the floor: Xvfb, Chromium without its sandbox, no window manager");
    say!("{ROUNDS} rounds of start and reset, {LOOKS} of picture and click, in turns: median (range)");
    starts(&home);
    resets(&home);
    work(&home);
}

fn home() -> Home {
    let home = Home::empty();
    home.put(&PySite::new("alpha").bundle());
    home.put(&Bundle::new("format = 1\nkind = \"computer\"\nname = \"pc\"\nstart_tabs = [\"https://alpha.test/\"]\n"));
    home.put(&Bundle::new(
        "format = 1\nkind = \"multi\"\nname = \"work\"\nwebsites = [\"alpha\"]\ncomputers = [\"pc\"]\n",
    ));
    home
}

fn starts(home: &Home) {
    let [mut ours, mut floor] = [const { Numbers::new() }; 2];
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let plain = Plain::start();
        floor.add(began.elapsed());
        drop(plain);
        let (info, start) = timed(home, &["env", "deploy", "work", "--json"]);
        ours.add(start);
        timed(home, &["env", "close", info["deploy"].as_str().expect("an id")]);
    }
    tell("from the command until ready", &ours, &floor);
}

fn resets(home: &Home) {
    let deploy = home.deploy_with("work", &["--expect-reset"]);
    let cold = self::home().with("AGENTENV_SPARES", "0");
    let without = cold.deploy("work");
    let mut plain = Plain::start();
    let [mut warm, mut warm_all, mut cold_all, mut floor] = [const { Numbers::new() }; 4];
    for _ in 0..ROUNDS {
        let began = Instant::now();
        drop(plain);
        plain = Plain::start();
        floor.add(began.elapsed());
        cold_all.add_ms(ms(&reset_as(&cold, &without, "pc", "cold"), "browser_ms"));
        // Not a wait for a result: what is measured is a reset that finds its spare up.
        thread::sleep(SPARE_LIMIT);
        let report = reset_as(home, &deploy, "pc", "spare");
        warm_all.add_ms(ms(&report, "browser_ms"));
        warm.add_ms(ms(&report, "browser_ms") - ms(&report, "tabs_ms"));
    }
    drop(plain);
    tell("reset by a spare, start tab loaded", &warm_all, &floor);
    tell("reset by a spare, without the start tab", &warm, &floor);
    tell("reset, cold, start tab loaded", &cold_all, &floor);
    without.close();
    deploy.close();
}

fn work(home: &Home) {
    let deploy = home.deploy("work");
    let plain = Plain::start();
    let hand = Hand::new(&deploy.info.computers.first().expect("a computer").cdp_url);
    let [mut look, mut look_floor, mut click, mut click_floor] = [const { Numbers::new() }; 4];
    for turn in 0..LOOKS {
        look_floor.add(took(|| plain.run("scrot", &["--overwrite", "--silent", &plain.picture()])));
        look.add(took(|| drop(hand.ask("GET", "/screenshot", ""))));
        let [x, y] = [300 + turn, 500];
        click_floor.add(took(|| plain.run("xdotool", &["mousemove", &x.to_string(), &y.to_string(), "click", "1"])));
        click.add(took(|| hand.click([x, y])));
    }
    tell("a picture of the whole screen, as PNG", &look, &look_floor);
    tell("a click", &click, &click_floor);
    let megabytes = |root: u32| -> f64 {
        Processes::all().tree(root).iter().map(|process| proportional_kb(process.pid)).sum::<f64>() / 1024.0
    };
    let ours = megabytes(deploy.service("pc").pid);
    let floor = plain.pids().map(megabytes).into_iter().sum::<f64>();
    let ratio = ours / floor;
    say!(
        "{:<44} {ours:>8.0} MiB            floor {floor:>8.0} MiB            ratio {ratio:.2}",
        "memory, proportional"
    );
    let spared = home.deploy_with("work", &["--expect-reset"]);
    thread::sleep(SPARE_LIMIT);
    let besides = megabytes(spared.supervisor().pid) - megabytes(deploy.supervisor().pid);
    say!("{:<44} {besides:>8.0} MiB", "memory that a spare takes besides");
    spared.close();
    drop(plain);
    deploy.close();
}

fn took(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// What a process has of the machine's memory: shared pages count for each of their users in part.
fn proportional_kb(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let pss = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    pss.and_then(|line| line.trim_end_matches("kB").trim().parse().ok()).unwrap_or(0.0)
}

/// An X server and a browser, without a sandbox, a window manager or a network.
struct Plain {
    folder: TempDir,
    display: String,
    server: Child,
    browser: Child,
}

impl Plain {
    /// Starts both, and returns when a tab is loaded.
    fn start() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").expect("memory to write to");
        let mut server = Command::new("Xvfb");
        server.args(["-displayfd", "1", "-screen", "0", SCREEN, "-nolisten", "tcp"]);
        let mut server = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("Xvfb starts");
        let mut display = String::new();
        let told = BufReader::new(server.stdout.take().expect("its output")).read_line(&mut display);
        assert!(told.is_ok_and(|length| length > 1), "Xvfb has a display");
        let display = format!(":{}", display.trim());
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let port = port.expect("a free port").port();
        let mut browser = Command::new("/usr/bin/chromium");
        browser.args([
            "--no-sandbox",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
        ]);
        browser.arg(format!("--remote-debugging-port={port}"));
        browser.arg(format!("--user-data-dir={}", folder.path().join("profile").display())).arg(TAB);
        browser.env("DISPLAY", &display).env("HOME", folder.path());
        let browser = browser.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("Chromium starts");
        let plain = Self { folder, display, server, browser };
        let began = Instant::now();
        loop {
            let tabs = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok().and_then(devtools::tabs);
            if tabs.is_some_and(|(_, loaded)| loaded > 0) {
                return plain;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "Chromium is not up");
            thread::sleep(LOOK_AGAIN);
        }
    }

    fn picture(&self) -> String {
        self.folder.path().join("picture.png").display().to_string()
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let done = Command::new(program).args(arguments).env("DISPLAY", &self.display).status();
        assert!(done.is_ok_and(|done| done.success()), "{program} does its work");
    }

    fn pids(&self) -> [u32; 2] {
        [self.server.id(), self.browser.id()]
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        for child in [&mut self.browser, &mut self.server] {
            let tree = Processes::all().tree(child.id());
            tree.iter().for_each(agentenv_tests::Process::kill);
            // Killed, or ended before.
            let _ = child.wait();
        }
    }
}
