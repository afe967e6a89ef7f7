//! Copy and paste between a person and a desktop, by the gateway's page.

use agentenv_tests::playwright;
use serde_json::json;

use super::pc;

/// A text area on the desktop, and a person's own browser with a clipboard of its own.
const SCRIPT: &str = r##"
page.goto("https://alpha.test/")
page.set_content("<textarea id=area style='width: 600px; height: 300px'></textarea>")
page.bring_to_front()
person = playwright.chromium.launch(executable_path="/usr/lib/chromium/chromium", args=["--no-sandbox"])
theirs = person.new_context(viewport={"width": 1100, "height": 900}, permissions=["clipboard-read", "clipboard-write"])
view = theirs.new_page()
view.goto(os.environ["VIEW_URL"])
view.wait_for_selector("html[data-state=connected]")
def until(what, look, wanted):
    for _ in range(300):
        seen = look()
        if wanted(seen): return seen
        view.wait_for_timeout(50)
    view.screenshot(path=os.environ["PICTURE"])
    raise Exception(f"{what}: {seen!r}")
area = lambda: page.input_value("#area")
copied = lambda: view.evaluate("navigator.clipboard.readText()")
mine = lambda text: view.evaluate("text => navigator.clipboard.writeText(text)", text)
# Inside the text area, below what Chromium has at its top.
view.click("#screen", position={"x": 200, "y": 250})

mine("für Ada ✓\n東京")
view.keyboard.press("Control+v")
pasted = until("what a person pastes comes to the desktop", area, lambda seen: "東" in seen)

page.fill("#area", "from the desktop ✓\n東京")
view.keyboard.press("Control+a")
view.keyboard.press("Control+c")
copy = until("what a person copies there comes back", copied, lambda seen: "desktop" in seen)

# The desktop copies by itself, and then draws something that the page sees later.
mine("mine")
page.fill("#area", "not asked for")
page.keyboard.press("Control+a")
page.keyboard.press("Control+c")
page.evaluate("document.body.style.background = 'rgb(1, 2, 3)'")
PIXEL = "() => [...document.getElementById('screen').getContext('2d').getImageData(900, 600, 1, 1).data]"
until("the desktop is drawn", lambda: view.evaluate(PIXEL), lambda seen: seen[:3] == [1, 2, 3])
result({"pasted": pasted, "copied": copy, "kept": copied()})
person.close()
"##;

#[test]
fn a_person_copies_and_pastes_and_the_desktop_copies_nothing_to_them_by_itself() {
    let home = pc();
    let deploy = home.deploy("work");
    let url = home.run(&["env", "view", deploy.id(), "--json"]).json()["url"].as_str().expect("a URL").to_owned();
    let picture = agentenv_tests::target().join("screenshots/computer-clipboard.png").display().to_string();
    let told = format!("os.environ.update(VIEW_URL={url:?}, PICTURE={picture:?})\n{SCRIPT}");
    let seen = playwright(&deploy, &told);
    let expected = json!({"pasted": "für Ada ✓\n東京", "copied": "from the desktop ✓\n東京", "kept": "mine"});
    assert_eq!(seen, expected);
}
