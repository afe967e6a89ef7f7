//! The MCP server (BR-6), as an agent's host uses it: through the public MCP SDK for Python, over standard input and output.

use std::{fs, process::Command, time::Duration};

use agentenv_protocol::ExitCode;
use agentenv_tests::{Bundle, Deploy, Home, PATIENCE, PySite, run_within, target};
use serde_json::{Value, json};

use crate::desk::{browser_env, pods};

/// A desktop and a browser, each with some pages, and a reset.
const LIMIT: Duration = Duration::from_secs(100);

/// A page that is one field, one that greets with a dialog when it is clicked, and the note that a page was there.
const PAGES: &str = r#"
class Site(Site):
    def do_GET(self):
        if self.path == "/field":
            field = "<textarea autofocus style='position:fixed;inset:0;width:100%;height:100%'></textarea>"
            return self.answer(200, "<!doctype html><title>field</title>" + field, "text/html")
        if self.path == "/greet":
            body = "<body style='height:5000px' onclick='alert(\"hello there\")'>greetings</body>"
            return self.answer(200, "<!doctype html><title>greet</title>" + body, "text/html")
        return super().do_GET()
    def do_POST(self):
        if self.path == "/began":
            rows.append("began")
        return super().do_POST()
"#;

/// The host: `call(tool, ...)` gives what a tool answered, `fails(tool, ...)` its error; both keep what was seen.
const HOST: &str = r#"
import asyncio, base64, json, os, subprocess, sys
from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client
program, deploy, patience = os.environ["PROGRAM"], os.environ["DEPLOY"], float(os.environ["PATIENCE"])
def agent_env(*arguments):
    return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout
def server(*arguments, **variables):
    # What it writes is kept for the search for secrets.
    script = '"$@" 2>>"$SEEN.err" | tee -a "$SEEN.out"'
    command = ["-c", script, "sh", program, "mcp", *arguments]
    return StdioServerParameters(command="/bin/sh", args=command, env={"SEEN": os.environ["SEEN"], **variables})
def png(result):
    [image] = [block for block in result.content if block.type == "image"]
    assert image.mime_type == "image/png", image
    data = base64.b64decode(image.data)
    assert data[:8] == b"\x89PNG\r\n\x1a\n", data[:8]
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
class Host:
    def __init__(self, session):
        self.session = session
    async def ask(self, tool, **arguments):
        return await self.session.call_tool(tool, arguments)
    async def call(self, tool, **arguments):
        result = await self.ask(tool, **arguments)
        assert not result.is_error, (tool, arguments, result)
        return result
    async def value(self, tool, **arguments):
        result = await self.call(tool, **arguments)
        assert json.loads(result.content[0].text) == result.structured_content, result
        return result.structured_content
    async def fails(self, tool, **arguments):
        result = await self.ask(tool, **arguments)
        assert result.is_error, (tool, arguments, result)
        assert result.content[0].text == result.structured_content["message"], result
        return result.structured_content["kind"], result.content[0].text
    async def until(self, wanted, tool, key, **arguments):
        async with asyncio.timeout(patience):
            while (found := (await self.value(tool, **arguments))[key]) != wanted:
                pass
        return found
async def hosted(parameters, work):
    async with stdio_client(parameters, errlog=sys.stderr) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            return await work(Host(session))
"#;

fn mcp(deploy: &Deploy<'_>, script: &str) -> Value {
    let python = target().join("venv/bin/python");
    assert!(python.is_file(), "{}: run `cargo xtask setup` first", python.display());
    let mut command = Command::new(python);
    command.args(["-c", &format!("{HOST}{script}")]).env_remove("PYTHONPATH");
    command
        .env("PROGRAM", agentenv_tests::program())
        .env("DEPLOY", deploy.id())
        .env("AGENTENV_HOME", deploy.home_path());
    command.env("PATIENCE", PATIENCE.as_secs_f64().to_string()).env("SEEN", deploy.home_path().join("seen"));
    run_within(LIMIT, &mut command, None).json()
}

/// What the host does at the desktop `pc`.
const AT_A_DESKTOP: &str = r#"
async def at_a_desktop(host):
    names = [tool.name for tool in (await host.session.list_tools()).tools]
    assert len(names) == len(set(names)) == 27, names
    whole = png(await host.call("screenshot"))
    half = png(await host.call("screenshot", scale=0.5))
    part = png(await host.call("screenshot", region={"x": 10, "y": 20, "width": 64, "height": 32}))
    assert (whole, half, part) == ((1024, 768), (512, 384), (64, 32)), (whole, half, part)
    # The computer's own Chromium shows a page that is one field; hand and keyboard write into it.
    opened = await host.value("browser_navigate", browser="pc", url="https://alpha.test/field")
    assert (opened["status"], opened["title"]) == (200, "field"), opened
    moved = await host.call("mouse_move", coordinate=[5, 7])
    assert moved.structured_content == {"cursor": [5, 7]} and len(moved.content) == 1, moved
    assert (await host.value("cursor_position"))["cursor"] == [5, 7]
    clicked = await host.call("left_click", coordinate=[512, 500], screenshot=True)
    assert png(clicked) == (1024, 768) and clicked.structured_content == {"cursor": [512, 500]}
    field = dict(browser="pc", expression="document.querySelector('textarea').value")
    await host.value("type", text="Grüße, 東京 ✓")
    await host.until("Grüße, 東京 ✓", "browser_evaluate", "value", **field)
    await host.value("key", text="ctrl+a")
    await host.value("type", text="x")
    await host.until("x", "browser_evaluate", "value", **field)
    await host.value("double_click", coordinate=[512, 500])
    await host.value("left_click_drag", start_coordinate=[300, 500], coordinate=[400, 520])
    await host.value("scroll", scroll_direction="down", scroll_amount=1)
    await host.value("wait", duration=0)
    return [await host.fails(tool, **arguments) for tool, arguments in [
        ("left_click", {"coordinate": [1024, 0]}),
        ("left_click", {"coordinates": [1, 1]}),
        ("mouse_move", {"coordinate": ["a", 1]}),
        ("mouse_move", {}),
        ("key", {"text": "hyperdrive"}),
        ("wait", {"duration": 61}),
        ("screenshot", {"region": {"x": 1000, "y": 0, "width": 100, "height": 10}}),
    ]]
"#;

/// What the host does in the browser `lookout`.
const IN_A_BROWSER: &str = r#"
async def in_a_browser(host):
    opened = await host.value("browser_open", url="https://alpha.test/")
    assert opened["status"] == 200 and opened["title"] == "alpha", opened
    assert (await host.value("browser_text"))["text"] == "alpha at alpha.test"
    cut = await host.value("browser_text", max_characters=5)
    assert (cut["text"], cut["cut"]) == ("alpha", True), cut
    field = await host.call("browser_open", url="https://alpha.test/field", screenshot=True)
    shown = png(field)
    assert shown == png(await host.call("browser_screenshot")) and shown[0] > 300, shown
    value = "document.querySelector('textarea').value"
    await host.value("browser_click", x=100, y=100)
    await host.value("browser_type", text="hello\nworld ✓")
    await host.until("hello\nworld ✓", "browser_evaluate", "value", expression=value)
    await host.value("browser_key", text="ctrl+a")
    await host.value("browser_key", text="Q")
    await host.until("Q", "browser_evaluate", "value", expression=value)
    assert (await host.value("browser_evaluate", expression="Promise.resolve([1, {a: null}])"))["value"] == [1, {"a": None}]
    # A dialog would hold the page up; it is dismissed, and told.
    await host.value("browser_navigate", url="https://alpha.test/greet")
    await host.value("browser_scroll", x=50, y=50, delta_y=300)
    await host.until(True, "browser_evaluate", "value", expression="scrollY > 100")
    greeted = await host.value("browser_click", x=100, y=100)
    assert greeted["dialogs"] == ["alert was dismissed: hello there"], greeted
    tabs = (await host.value("browser_tabs"))["tabs"]
    mine = [tab for tab in tabs if tab["current"]]
    assert [tab["title"] for tab in mine] == ["greet"], tabs
    [first] = [tab["id"] for tab in tabs if tab["title"] == "alpha"]
    assert (await host.value("browser_evaluate", tab=first, expression="location.pathname"))["value"] == "/"
    await host.value("browser_close_tab", tab=mine[0]["id"])
    failed = [await host.fails(tool, **arguments) for tool, arguments in [
        ("browser_navigate", {"url": "https://example.com/"}),
        ("browser_navigate", {"url": "nonsense"}),
        ("browser_navigate", {"url": "https://alpha.test/", "tab": mine[0]["id"]}),
        ("browser_navigate", {}),
        ("browser_evaluate", {"expression": "nothing.at.all"}),
        ("browser_evaluate", {"expression": "'x'.repeat(1 << 20)"}),
        ("browser_evaluate", {"expression": "for (;;);"}),
        ("browser_key", {"text": "hyperdrive"}),
        ("browser_click", {"x": "left", "y": 1}),
        ("browser_click", {"x": 1, "y": 1, "browser": "safari"}),
    ]]
    try:
        await host.ask("browser_fly")
        raise AssertionError("there is a tool browser_fly")
    except MCPError as error:
        assert "browser_fly" in str(error), error
    return failed
"#;

/// A call that waits while the deploy is reset, and the calls after it, by the same session.
const ACROSS_A_RESET: &str = r#"
async def across_a_reset(host):
    wait = "fetch('/began', {method: 'POST', body: '{}'}).then(() => new Promise(() => {}))"
    await host.value("browser_navigate", url="https://alpha.test/field")
    waiting = asyncio.create_task(host.fails("browser_evaluate", expression=wait))
    async with asyncio.timeout(patience):
        while "began" not in json.loads(await asyncio.to_thread(agent_env, "env", "data", deploy, "alpha"))["rows"]:
            assert not waiting.done(), waiting
    await asyncio.to_thread(agent_env, "env", "reset", deploy)
    told = await waiting
    tabs = (await host.value("browser_tabs"))["tabs"]
    assert [tab["url"] for tab in tabs] == ["about:blank"], tabs
    assert "the last one" in (await host.fails("browser_close_tab"))[1]
    again = await host.value("browser_open", url="https://alpha.test/")
    assert again["title"] == "alpha" and png(await host.call("screenshot")) == (1024, 768), again
    # The computer's Chromium, whose connection nobody has used since.
    again = await host.value("browser_open", browser="pc", url="https://alpha.test/")
    assert again["title"] == "alpha", again
    return told
"#;

#[test]
fn a_public_client_works_at_a_desktop_and_in_a_browser_across_a_reset() {
    let home = Home::empty();
    home.put(&PySite::new("alpha").before(PAGES).bundle());
    home.put(&browser_env());
    home.put(&Bundle::new(
        "format = 1\nkind = \"computer\"\nname = \"pc\"\nresolution = { width = 1024, height = 768 }\n\
         start_tabs = [\"https://alpha.test/\"]\n",
    ));
    home.put(&Bundle::new(
        "format = 1\nkind = \"multi\"\nname = \"work\"\nwebsites = [\"alpha\"]\ncomputers = [\"pc\"]\nbrowsers = [\"lookout\"]\n",
    ));
    let deploy = home.deploy("work");
    let script = format!(
        "{AT_A_DESKTOP}{IN_A_BROWSER}{ACROSS_A_RESET}
async def everything(host):
    return [await at_a_desktop(host), await in_a_browser(host), await across_a_reset(host)]
async def alone(host):
    names = [tool.name for tool in (await host.session.list_tools()).tools]
    assert names and all(name.startswith('browser_') for name in names), names
    return (await host.value('browser_open', url='https://alpha.test/'))['title']
async def main():
    told = await hosted(server(deploy, AGENTENV_HOME=os.environ['AGENTENV_HOME']), everything)
    # In a run: by the deploy's JSON, without a home.
    info = {info:?}
    told.append(await hosted(server('--browser', 'lookout', AGENTENV_DEPLOY=info, AGENTENV_HOME='/nowhere'), alone))
    print(json.dumps(told))
asyncio.run(main())
",
        info = json!(deploy.info).to_string()
    );
    let told = mcp(&deploy, &script);
    assert_failures(
        &told[0],
        &[
            ("out_of_bounds", "1024"),
            ("bad_request", "`coordinates`"),
            ("bad_request", "`coordinate[0]` must be an integer"),
            ("bad_request", "`coordinate` is missing"),
            ("unknown_key", "hyperdrive"),
            ("bad_request", "`duration` must be 0 to 60"),
            ("out_of_bounds", "region"),
        ],
    );
    assert_failures(
        &told[1],
        &[
            ("page", "https://example.com/"),
            ("refused", "nonsense"),
            ("bad_request", "`tab`: there is no tab"),
            ("bad_request", "`url` is missing"),
            ("script", "nothing is not defined"),
            ("too_much", "`expression`"),
            ("slow", "`expression` was still running"),
            ("unknown_key", "hyperdrive"),
            ("bad_request", "`x` must be a number"),
            ("bad_request", "`browser` must be one of `lookout`, `pc`"),
        ],
    );
    assert_failures(&json!([told[2]]), &[("closed", "the deploy is being reset")]);
    assert_eq!(told[3], "alpha");

    let [out, err] = ["out", "err"].map(|end| {
        let seen = fs::read_to_string(home.path().join(format!("seen.{end}"))).expect("what the servers wrote");
        for secret in [&deploy.token(), &agent_token(&deploy), &home.path().display().to_string()] {
            assert!(!seen.contains(secret), "{secret} is in what was written to std{end}");
        }
        seen
    });
    assert!(out.contains("東京"), "what was written was kept: {}", out.len());
    assert!(!err.contains("panicked"), "{err}");
    // It ends with its input.
    let ended = run_within(PATIENCE, &mut home.command(["mcp", deploy.id()]), Some(b"no message\n"));
    assert_eq!((ended.code, ended.stdout.as_str()), (0, ""), "{}", ended.stderr);
    home.run(&["mcp", deploy.id(), "--computer", "lookout"]).fails(ExitCode::Refused, &["`lookout`", "pc"]);
    home.run(&["mcp", deploy.id(), "--browser", "nope"]).fails(ExitCode::Refused, &["`nope`", "lookout"]);
    deploy.close();
}

/// The agent token of a deploy, which stands in its URLs.
fn agent_token(deploy: &Deploy<'_>) -> String {
    let url = &deploy.info.browsers.first().expect("the deploy has a browser").cdp_url;
    url.split('/').nth(4).expect("a token").to_owned()
}

#[track_caller]
fn assert_failures(told: &Value, expected: &[(&str, &str)]) {
    let told = told.as_array().expect("a list of failures");
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (failure, (kind, says)) in told.iter().zip(expected) {
        assert_eq!(failure[0], *kind, "{failure}");
        assert!(failure[1].as_str().is_some_and(|message| message.contains(says)), "no {says:?} in {failure}");
    }
}

#[test]
fn what_can_not_be_served_is_refused_before_mcp_begins() {
    let home = pods(&[PySite::new("alpha")]);
    home.run(&["mcp"]).fails(ExitCode::Usage, &["no deploy", "AGENTENV_DEPLOY"]);
    home.run(&["mcp", "d-000000000000"]).fails(ExitCode::Refused, &["d-000000000000"]);
    home.run(&["mcp", "x", "--computer", "a", "--browser", "b"]).fails(ExitCode::Usage, &["--browser"]);
    let broken = home.command(["mcp"]).env("AGENTENV_DEPLOY", "{\"deploy\": 7}").output().expect("the program starts");
    assert_eq!(broken.status.code(), Some(ExitCode::Refused as i32), "{broken:?}");
    let deploy = home.deploy("pods");
    home.run(&["mcp", deploy.id()]).fails(ExitCode::Refused, &["no browser and no computer"]);
    let id = deploy.id().to_owned();
    deploy.close();
    home.run(&["mcp", &id]).fails(ExitCode::Refused, &["closed"]);
}
