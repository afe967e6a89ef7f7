//! A person's view of a computer: the gateway's page in a browser of their own.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    process::Command,
    time::Duration,
};

use agentenv_tests::{Deploy, Home, PATIENCE, Process, eventually, run_within, target};
use serde_json::{Value, json};

/// A page, a reset, and the page again.
const LIMIT: Duration = Duration::from_secs(120);

/// Looks, resets, and looks again at the same page.
const SCRIPT: &str = r#"
import json, os, subprocess, sys
from playwright.sync_api import sync_playwright
told = json.load(sys.stdin)
# How many pixels of the page's screen are others than those of the desktop; how many are others than those kept before.
COMPARE = """async () => {
    const canvas = document.getElementById("screen");
    const picture = await createImageBitmap(await (await fetch("../screenshot")).blob());
    if (canvas.width !== picture.width || canvas.height !== picture.height) return null;
    const drawn = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
    drawn.drawImage(picture, 0, 0);
    const pixels = (context) => new Uint32Array(context.getImageData(0, 0, picture.width, picture.height).data.buffer);
    const differ = (one, other) => one.reduce((sum, pixel, at) => sum + (pixel !== other[at]), 0);
    const [now, true_] = [pixels(canvas.getContext("2d")), pixels(drawn)];
    const before = window.before ?? now;
    window.before ??= now;
    return { wrong: differ(now, true_), changed: differ(now, before), colours: new Set(now).size };
}"""
SAYINGS = """() => {
    const status = document.getElementById("status");
    window.said = [[document.documentElement.dataset.state, status.textContent]];
    new MutationObserver(() => window.said.push([document.documentElement.dataset.state, status.textContent]))
        .observe(status, { childList: true });
}"""
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path="/usr/lib/chromium/chromium", args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 1400, "height": 900}, bypass_csp=True)
    page.goto(told["url"])
    # Not by wait_for_function: the page's policy forbids the eval that it polls with.
    def seen(name, enough):
        try:
            for _ in range(300):
                if page.evaluate("document.documentElement.dataset.state") == "connected":
                    found = page.evaluate(COMPARE)
                    # The cursor, which a picture of the desktop has not.
                    if found and found["wrong"] < 2000 and enough(found): return found
                page.wait_for_timeout(100)
            raise Exception(f"it is not seen: {page.inner_text('#status')}, {page.evaluate(COMPARE)}")
        finally:
            page.screenshot(path=f"{told['pictures']}/{name}.png")
    before = seen("computer-view", lambda found: found["colours"] > 50)
    page.evaluate(SAYINGS)
    reset = subprocess.Popen(told["reset"], env={**os.environ, **told["environment"]}, stdout=subprocess.DEVNULL)
    for _ in range(300):
        if page.evaluate("document.documentElement.dataset.state") == "away": break
        page.wait_for_timeout(20)
    page.screenshot(path=f"{told['pictures']}/computer-view-away.png")
    code = reset.wait(60)
    after = seen("computer-view-again", lambda found: found["changed"] > 100_000)
    print(json.dumps({"before": before, "after": after, "code": code, "said": page.evaluate("window.said")}))
    browser.close()
"#;

/// A person looks at the screen in a browser of their own, and stays while the deploy is reset.
#[track_caller]
pub(super) fn watched(home: &Home, deploy: &Deploy<'_>) {
    let url = home.run(&["env", "view", deploy.id(), "--json"]).json()["url"].as_str().expect("a URL").to_owned();
    let reset = home.command(["env", "reset", deploy.id()]);
    let text = |part: &std::ffi::OsStr| part.to_str().expect("plain words").to_owned();
    let words: Vec<String> = [reset.get_program()].into_iter().chain(reset.get_args()).map(text).collect();
    let environment: BTreeMap<String, String> =
        reset.get_envs().filter_map(|(name, value)| Some((text(name), text(value?)))).collect();
    let told = json!({
        "url": url, "reset": words, "environment": environment, "pictures": target().join("screenshots"),
    });
    let mut python = Command::new(target().join("venv/bin/python"));
    python.args(["-c", SCRIPT]).env_remove("PYTHONPATH").env("TMPDIR", home.path());
    let found = run_within(LIMIT, &mut python, Some(told.to_string().as_bytes())).json();
    assert_eq!(found["code"], 0, "{found}");
    let said = found["said"].as_array().expect("what the page said");
    let is = |entry: &Value, state: &str, text: &str| {
        entry[0] == state && entry[1].as_str().is_some_and(|said| said.starts_with(text))
    };
    assert!(is(&said[0], "connected", ""), "{said:?}");
    assert!(said.iter().any(|entry| is(entry, "away", "the deploy is being reset; ")), "{said:?}");
    assert!(said.last().is_some_and(|entry| is(entry, "connected", "")), "{said:?}");
}

/// A VNC client at a socket: a reset ends its connection, and the next one is to the new desktop.
#[track_caller]
pub(super) fn plain_vnc(home: &Home, deploy: &Deploy<'_>) {
    let path = home.path().join("vnc");
    let mut served = home.start(&["env", "view", deploy.id(), "--vnc-socket", path.to_str().expect("a plain path")]);
    let mut first = eventually("the socket is there", PATIENCE, || UnixStream::connect(&path).ok());
    assert_eq!(screen_of(&mut first), (1280, 800));
    home.run(&["env", "reset", deploy.id()]).ok();
    let mut rest = Vec::new();
    first.read_to_end(&mut rest).expect("the end");
    assert_eq!(screen_of(&mut UnixStream::connect(&path).expect("the socket")), (1280, 800));
    Process::of(served.id()).expect("it runs").signal(rustix::process::Signal::INT);
    let mut said = String::new();
    served.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert!(served.wait().expect("its end").success() && !path.exists(), "{said}");
    assert!(said.contains("the deploy is being reset"), "{said}");
}

/// Shakes hands as RFC 6143 has it, without a password; the size of the screen.
#[track_caller]
fn screen_of(stream: &mut UnixStream) -> (u16, u16) {
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let mut answered = |said: &[u8], length: usize| {
        stream.write_all(said).expect("the server hears");
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes).expect("the server's part");
        bytes
    };
    assert_eq!(answered(b"", 12), b"RFB 003.008\n");
    // One way to sign in, and it is none; then that this is right; then the screen, which others may see.
    assert_eq!(answered(b"RFB 003.008\n", 2), [1, 1]);
    assert_eq!(answered(&[1], 4), [0; 4]);
    let screen = answered(&[1], 4);
    (u16::from_be_bytes([screen[0], screen[1]]), u16::from_be_bytes([screen[2], screen[3]]))
}
