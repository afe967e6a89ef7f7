//! Computers: what an agent does at a desktop by picture, mouse and keyboard, and what it can't.

use std::fs;

use agentenv_protocol::{ExitCode, control::DeployState};
use agentenv_tests::{Bundle, Deploy, Hand, Home, PATIENCE, Part, PySite, eventually};
use serde_json::{Value, json};

use crate::python::program;

mod clipboard;
mod java;
mod scale;
mod view;

/// The colour of the shop's buttons.
const BRAND: [u8; 3] = [0x2f, 0x5d, 0x73];
/// Where a page of the shop has its own part, below what all have.
const PAGE: Part = [0, 250, 1265, 514];
/// Where it has its heading.
const HEADING: Part = [60, 260, 560, 56];
/// The browser's address bar.
const ADDRESS_BAR: Part = [120, 44, 1000, 36];
/// All but the panel.
const ABOVE_PANEL: Part = [0, 0, 1280, 740];
/// The panel's text editor.
const EDITOR: [usize; 2] = [85, 782];
/// Somebody to sign in.
const ADA: &str = r#"{"users": [{"username": "ada", "password": "lovelace", "name": "Ada Lovelace", "address": "12 St James Square"}]}"#;

fn hand(deploy: &Deploy<'_>) -> Hand {
    Hand::new(&deploy.info.computers.first().expect("the deploy has a computer").cdp_url)
}

/// Waits for the button of the shop's page that is at least this wide, and clicks it; `down` is from its edge to its text.
#[track_caller]
fn press(hand: &Hand, part: Part, wide: usize, down: usize) {
    let [left, top, ..] = part;
    let [x, y] = eventually("the button is there", PATIENCE, || hand.look(Some(part)).find(BRAND, wide));
    hand.changing(HEADING, 300, |hand| hand.click([x + left as usize, y + top as usize + down]));
}

#[test]
fn something_is_bought_written_down_and_watched() {
    let home = Home::new();
    home.put(&Bundle::new(
        "format = 1\nkind = \"computer\"\nname = \"desk-pc\"\nstart_tabs = [\"https://shop.test/\"]\n",
    ));
    home.put(&Bundle::new(
        "format = 1\nkind = \"multi\"\nname = \"work\"\nwebsites = [\"shop\"]\ncomputers = [\"desk-pc\"]\n",
    ));
    let deploy = home.deploy("work");
    let (id, hand) = (deploy.id(), hand(&deploy));
    fs::write(home.path().join("ada.json"), ADA).expect("a file");
    home.run(&["env", "load", id, "shop", home.path().join("ada.json").to_str().expect("a plain path")]).ok();
    let signed = home.run(&["env", "sign-in", id, "shop=ada", "--json"]).json();
    assert_eq!(signed["signed_in"][0]["browser"], "desk-pc", "{signed}");

    // The start tab is loaded: its first button is there, and nobody waited for it.
    let first = hand.look(Some(PAGE));
    assert!(first.find(BRAND, 140).is_some() && first.colours() > 50);
    press(&hand, PAGE, 140, 12);
    hand.look(None).keep("computer-shop");
    // A button that is only an outline, below the pictures of the mugs.
    let [x, y] = hand.look(Some([60, 700, 300, 60])).find(BRAND, 90).expect("a button");
    hand.changing([1100, 130, 120, 50], 20, |hand| hand.click([x + 60, y + 700 + 12]));
    // A key that comes before the bar has the keyboard is the page's.
    hand.changing(ADDRESS_BAR, 300, |hand| hand.key("ctrl+l"));
    hand.changing(HEADING, 300, |hand| hand.write("shop.test/cart\n"));
    hand.look(None).keep("computer-cart");
    press(&hand, PAGE, 250, 20);
    press(&hand, PAGE, 250, 20);
    let orders = home.run(&["env", "data", id, "shop", "--selector", r#"{"orders": {"user": "ada"}}"#]).json();
    assert_eq!(orders["orders"][0]["items"][0]["product"], "harbour-mug", "{orders}");
    hand.look(None).keep("computer-order");

    // What was bought is written down, and read on this side.
    hand.changing(ABOVE_PANEL, 100_000, |hand| hand.click(EDITOR));
    hand.changing(ABOVE_PANEL, 300, |hand| hand.write("One Harbour Mug ✓ für Ada, 東京\n"));
    hand.look(None).keep("computer-written");
    hand.changing(ABOVE_PANEL, 100_000, |hand| hand.key("ctrl+s"));
    hand.changing([100, 36, 600, 22], 200, |hand| hand.write("/home/agent/Documents/bought.txt"));
    hand.look(None).keep("computer-saving");
    let copied = home.path().join("bought.txt");
    let text = eventually("the file is saved", PATIENCE, || {
        let copy = home.run(&["env", "cp", id, "desk-pc:Documents/bought.txt", copied.to_str().expect("a plain path")]);
        if copy.code != 0 {
            // The dialog takes it only once it has looked what is there.
            hand.key("Return");
        }
        (copy.code == 0).then(|| fs::read_to_string(&copied).expect("a file"))
    });
    assert_eq!(text, "One Harbour Mug ✓ für Ada, 東京\n");
    hand.look(None).keep("computer-editor");

    // And the other way, whole or not at all.
    fs::write(&copied, vec![7; 3 << 20]).expect("a file");
    home.run(&["env", "cp", id, copied.to_str().expect("a plain path"), "desk-pc:Downloads/"]).ok();
    let size = deploy.exec("desk-pc", &["stat", "-c", "%s", "/home/agent/Downloads/bought.txt"]);
    assert_eq!(size.ok().trim(), (3 << 20).to_string());
    for (from, to, code, says) in [
        ("desk-pc:Documents", "x", ExitCode::Refused, "is no file"),
        ("desk-pc:nothing", "x", ExitCode::Refused, "is no file"),
        (copied.to_str().expect("a plain path"), "desk-pc:/etc/x", ExitCode::Refused, "Read-only"),
        ("a", "b", ExitCode::Usage, "one end of a copy"),
    ] {
        home.run(&["env", "cp", id, from, to]).fails(code, &[says]);
    }
    view::watched(&home, &deploy);
    view::plain_vnc(&home, &deploy);
    deploy.close();
}

/// A computer and a browser beside two sites.
fn pc() -> Home {
    let home = Home::empty();
    for site in ["alpha", "beta"] {
        home.put(&PySite::new(site).bundle());
    }
    home.put(&Bundle::new(
        "format = 1\nkind = \"computer\"\nname = \"pc\"\nresolution = { width = 1024, height = 768 }\n[settings]\n\
         language = \"de-AT\"\ntime_zone = \"Europe/Vienna\"\nCOLOUR = \"green\"\n",
    ));
    home.put(&Bundle::new(
        "format = 1\nkind = \"multi\"\nname = \"work\"\nwebsites = [\"alpha\", \"beta\"]\ncomputers = [\"pc\"]\n",
    ));
    home
}

#[test]
fn every_program_reaches_the_sites_by_name_and_nothing_else_and_a_reset_empties_the_home() {
    let home = pc();
    let deploy = home.deploy("work");
    let hand = hand(&deploy);
    assert_eq!(
        {
            let screen = hand.look(None);
            (screen.width, screen.height)
        },
        (1024, 768)
    );
    let curl = |url: &str| {
        deploy.exec("pc", &["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} %{ssl_verify_result}", url])
    };
    for url in ["https://alpha.test/", "https://beta.test/", "http://alpha.test/"] {
        assert_eq!(curl(url).ok().trim(), "200 0", "{url}");
    }
    let answers = deploy.python("pc", &program(OUT));
    let answers = answers.as_object().expect("answers");
    assert_eq!(answers["site"], "200", "{answers:#?}");
    for (attempt, answer) in answers.iter().filter(|(attempt, _)| *attempt != "site") {
        assert!(!answer.as_str().unwrap_or("ok").starts_with("ok"), "{attempt}: {answers:#?}");
    }
    assert!(deploy.denied().iter().any(|entry| entry.host == "example.com" && entry.sandbox.as_str() == "pc"));
    // Another Chromium, by names and addresses, and no flag of ours.
    let second = deploy.exec(
        "pc",
        &[
            "/usr/lib/chromium/chromium",
            "--headless",
            "--user-data-dir=/tmp/second",
            "--dump-dom",
            "https://beta.test/",
        ],
    );
    assert!(second.ok().contains("beta"));

    let of = |process: &str| deploy.exec("pc", &["pgrep", "-x", process]).stdout.trim().to_owned();
    for kept in ["openbox", "tint2", "pcmanfm"] {
        let before = of(kept);
        deploy.exec("pc", &["kill", &before]).ok();
        eventually("it is started again", PATIENCE, || Some(of(kept)).filter(|now| !now.is_empty() && *now != before));
    }
    let inside = deploy.exec("pc", &["sh", "-c", "echo $LANGUAGE $TZ $COLOUR $AGENTENV_DESKTOP_COOKIE; touch here"]);
    assert_eq!(inside.ok().trim(), "de_AT Europe/Vienna", "a command has no setting and no cookie");
    // The home's programs speak the language: those that only write, and those that draw.
    let said = deploy.exec("pc", &["sh", "-c", "ls /nothing 2>&1; mousepad --help; date --date=2026-03-01 +%B"]).ok();
    for german in ["Datei oder Verzeichnis nicht gefunden", "Hilfeoptionen", "März"] {
        assert!(said.contains(german), "{said}");
    }
    hand.changing([0, 0, 1024, 720], 50_000, |hand| hand.click([53, 750]));
    hand.look(None).keep("computer-german");
    let panel = deploy.exec("pc", &["sh", "-c", "tr '\\0' '\\n' < /proc/$(pgrep -x tint2)/environ"]).ok();
    assert!(panel.contains("COLOUR=green") && !panel.contains("AGENTENV_"), "{panel}");
    let reset = home.run(&["env", "reset", deploy.id(), "--json"]).json();
    assert_eq!(reset["browsers"]["pc"], "cold: no reset was foreseen", "{reset}");
    assert_eq!(
        deploy.exec("pc", &["ls", "/home/agent"]).ok().split_whitespace().collect::<Vec<_>>(),
        ["Desktop", "Documents", "Downloads"]
    );
    assert!(hand.look(None).colours() > 20);
    what_is_refused(&hand);

    // A dead X server took the episode with it.
    let server = of("Xtigervnc");
    // The command may be killed with everything else.
    let _ = deploy.exec("pc", &["kill", "-KILL", &server]);
    eventually("the deploy is degraded", PATIENCE, || (deploy.status().state == DeployState::Degraded).then_some(()));
    let (status, kind, message) = hand.refused(r#"{"action": "left_click"}"#);
    assert_eq!((status, kind.as_str()), (503, "away"), "{message}");
    deploy.close();
}

/// What must not get out of a computer, by what it would be.
const OUT: &str = r#"
import subprocess, urllib.request
def udp(host, port, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        s.sendto(b"x", (host, port))
        s.recv(10)
answers = {"site": str(urllib.request.urlopen("https://alpha.test/").status)}
for name, work in {
    "name": lambda: socket.getaddrinfo("example.com", 443),
    "address": lambda: tcp("192.0.2.1", 443),
    "ipv6": lambda: tcp("2001:db8::1", 443, socket.AF_INET6),
    "udp": lambda: udp("192.0.2.1", 53),
    "vsock": lambda: socket.socket(40, socket.SOCK_STREAM),
    "packets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    "host socket": lambda: socket.socket(socket.AF_UNIX).connect("/run/docker.sock"),
    "host display": lambda: open("/root/.Xauthority"),
    "other port": lambda: tcp("198.18.0.1", 22),
}.items():
    answers[name] = attempt(work)
show(answers)
"#;

#[track_caller]
fn what_is_refused(hand: &Hand) {
    for (action, kind) in [
        (r#"{"action": "left_click", "coordinate": [1024, 0]}"#, "out_of_bounds"),
        (r#"{"action": "mouse_move", "coordinate": [-1, 5]}"#, "out_of_bounds"),
        (r#"{"action": "key", "text": "hyperdrive"}"#, "unknown_key"),
        (r#"{"action": "wait", "duration": 61}"#, "too_much"),
        (r#"{"action": "wait", "duration": -1}"#, "too_much"),
        (r#"{"action": "scroll", "scroll_direction": "up", "scroll_amount": 1000}"#, "too_much"),
        (r#"{"action": "explode"}"#, "bad_request"),
        (r#"{"action": "left_click", "coordinates": [1, 1]}"#, "bad_request"),
        ("{", "bad_request"),
    ] {
        let (status, found, message) = hand.refused(action);
        assert_eq!((status, found.as_str()), (400, kind), "{action}: {message}");
    }
    for region in ["0,0,1025,10", "1000,0,30,10", "0,0,0,0", "x"] {
        assert_eq!(hand.ask("GET", &format!("/screenshot?region={region}"), "").0, 400, "{region}");
    }
    let half = hand.act(&json!({ "action": "mouse_move", "coordinate": [5, 7] }));
    assert_eq!((&half["cursor"], &half["screenshot"]), (&json!([5, 7]), &Value::Null));
}
