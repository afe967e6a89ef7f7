//! What is done in a tab, and how each action is done over CDP.

use std::time::{Duration, Instant};

use agentenv_deploy::{
    cdp::{CdpError, Session},
    load_page,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{failure::Failure, keys};

/// A page that takes longer is told to be still loading; it goes on, and can be looked at.
const LOAD_LIMIT: Duration = Duration::from_secs(30);
/// A picture of a page that is drawn anew.
const PICTURE_LIMIT: Duration = Duration::from_secs(20);
/// A picture, in base64: a large window full of noise.
const PICTURE_BYTES: usize = 32 << 20;
/// How long a script may run before the browser ends it.
const SCRIPT_LIMIT: Duration = Duration::from_secs(5);
/// What a script may answer, as JSON: more than a model reads.
const VALUE_BYTES: usize = 256 << 10;
/// Characters of a page's text that are given unasked.
const TEXT_CHARACTERS: usize = 20_000;

/// What can be done with a browser. Each is a tool, `browser_` and its name; the schema is made from this type.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum BrowserAction {
    /// Lists the open tabs: id, URL and title. The current one is that which the other tools use unless they are told another.
    Tabs {},
    /// Opens a URL in a new tab, which becomes the current one, and waits until it is loaded.
    Open {
        /// Such as `https://shop.test/`.
        #[schemars(length(max = 32_768))]
        url: String,
    },
    /// Closes a tab, but for the last one, with which the browser would end.
    CloseTab {
        /// Its id; the current one without it.
        tab: Option<String>,
    },
    /// Goes to a URL and waits until it is loaded. Answers the HTTP status.
    Navigate {
        /// Such as `https://shop.test/`.
        #[schemars(length(max = 32_768))]
        url: String,
        /// A tab's id; the current one without it. It becomes the current one.
        tab: Option<String>,
    },
    /// Takes a picture of what a tab shows. One pixel of it is one unit of the coordinates of `browser_click`.
    Screenshot {
        /// A tab's id; the current one without it. It becomes the current one.
        tab: Option<String>,
    },
    /// Clicks in a page.
    Click {
        /// From the left edge of the page's visible part, in pixels.
        #[schemars(range(min = 0, max = 16384))]
        x: f64,
        /// From its upper edge.
        #[schemars(range(min = 0, max = 16384))]
        y: f64,
        /// Which button; the left one without it.
        button: Option<MouseButton>,
        /// 2 is a double click. 1 without it.
        #[schemars(range(min = 1, max = 3))]
        click_count: Option<u32>,
        /// A tab's id; the current one without it. It becomes the current one.
        tab: Option<String>,
    },
    /// Puts text where the page's focus is, as a paste does; a line's end presses Enter. Click into the field before.
    Type {
        /// At most 10,000 characters.
        #[schemars(length(max = 10000))]
        text: String,
        /// A tab's id; the current one without it. It becomes the current one.
        tab: Option<String>,
    },
    /// Presses keys and lets them go.
    Key {
        /// Such as `Return`, `ctrl+a`, `Page_Down`.
        #[schemars(length(max = 100))]
        text: String,
        /// A tab's id; the current one without it. It becomes the current one.
        tab: Option<String>,
    },
    /// Turns the wheel.
    Scroll {
        /// Where the mouse is; 0 without it.
        #[schemars(range(min = 0, max = 16384))]
        x: Option<f64>,
        /// Where the mouse is; 0 without it.
        #[schemars(range(min = 0, max = 16384))]
        y: Option<f64>,
        /// How far to the right, in pixels; negative is to the left. 0 without it.
        #[schemars(range(min = -100_000, max = 100_000))]
        delta_x: Option<f64>,
        /// How far down, in pixels; negative is up. 0 without it.
        #[schemars(range(min = -100_000, max = 100_000))]
        delta_y: Option<f64>,
        /// A tab's id; the current one without it. It becomes the current one.
        tab: Option<String>,
    },
    /// Evaluates a JavaScript expression in the page and answers its value as JSON; a promise is awaited.
    Evaluate {
        /// Such as `document.title`. At most 100,000 characters.
        #[schemars(length(max = 100_000))]
        expression: String,
        /// A tab's id; the current one without it. It becomes the current one.
        tab: Option<String>,
    },
    /// Reads the visible text of the page.
    Text {
        /// At most this many characters; 20,000 without it.
        #[schemars(range(min = 1, max = 200_000))]
        max_characters: Option<u32>,
        /// A tab's id; the current one without it. It becomes the current one.
        tab: Option<String>,
    },
}

/// A button of the mouse.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum MouseButton {
    Left,
    Middle,
    Right,
}

impl MouseButton {
    fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Middle => "middle",
            Self::Right => "right",
        }
    }
}

/// Goes to a URL in a session that is for this alone.
pub(super) async fn navigate(page: &Session, url: &str) -> Result<Value, Failure> {
    let load = page.browser().attach(page.target()).await?;
    let loaded = load_page(&load, url, LOAD_LIMIT).await;
    // The tab may be gone.
    let _ = load.detach().await;
    let status = loaded.map_err(|error| {
        let failure = Failure::from(error);
        if failure.kind == "away" {
            failure
        } else {
            Failure::new(&failure.kind, format!("`{url}`: {}", failure.message))
        }
    })?;
    Ok(json!({ "status": status }))
}

/// A picture of what the tab shows, as PNG in base64.
pub(super) async fn picture(page: &Session) -> Result<String, Failure> {
    const METHOD: &str = "Page.captureScreenshot";
    let mut answer = page.call_within(METHOD, json!({ "format": "png" }), PICTURE_LIMIT).await?;
    match answer.get_mut("data").map(Value::take) {
        Some(Value::String(data)) if data.len() <= PICTURE_BYTES => Ok(data),
        Some(Value::String(data)) => {
            Err(Failure::new("too_much", format!("the picture has {} bytes; at most {PICTURE_BYTES}", data.len())))
        }
        _ => Err(CdpError::MissingField { method: METHOD, field: "data" }.into()),
    }
}

/// Does what needs the page alone; what it answers.
pub(super) async fn act(page: &Session, action: &BrowserAction) -> Result<Value, Failure> {
    match action {
        BrowserAction::Click { x, y, button, click_count, .. } => {
            click(page, (*x, *y), button.unwrap_or(MouseButton::Left), click_count.unwrap_or(1)).await?;
        }
        BrowserAction::Type { text, .. } => write(page, text).await?,
        BrowserAction::Key { text, .. } => press(page, text).await?,
        BrowserAction::Scroll { x, y, delta_x, delta_y, .. } => {
            let event = json!({
                "type": "mouseWheel", "x": x.unwrap_or(0.0), "y": y.unwrap_or(0.0),
                "deltaX": delta_x.unwrap_or(0.0), "deltaY": delta_y.unwrap_or(0.0),
            });
            page.call("Input.dispatchMouseEvent", event).await?;
        }
        BrowserAction::Evaluate { expression, .. } => return evaluate(page, expression).await,
        BrowserAction::Text { max_characters, .. } => {
            return text(page, max_characters.map_or(TEXT_CHARACTERS, |most| most as usize)).await;
        }
        BrowserAction::Navigate { url, .. } => return navigate(page, url).await,
        BrowserAction::Tabs {}
        | BrowserAction::Open { .. }
        | BrowserAction::CloseTab { .. }
        | BrowserAction::Screenshot { .. } => {}
    }
    Ok(json!({}))
}

async fn click(page: &Session, (x, y): (f64, f64), button: MouseButton, count: u32) -> Result<(), Failure> {
    let event = |kind: &str, button: &str, count: u32| json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": count });
    page.call("Input.dispatchMouseEvent", event("mouseMoved", "none", 0)).await?;
    for nth in 1..=count {
        page.call("Input.dispatchMouseEvent", event("mousePressed", button.name(), nth)).await?;
        page.call("Input.dispatchMouseEvent", event("mouseReleased", button.name(), nth)).await?;
    }
    Ok(())
}

async fn write(page: &Session, text: &str) -> Result<(), Failure> {
    let text = text.replace("\r\n", "\n");
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            press(page, "Return").await?;
        }
        if !line.is_empty() {
            page.call("Input.insertText", json!({ "text": line })).await?;
        }
    }
    Ok(())
}

async fn press(page: &Session, chord: &str) -> Result<(), Failure> {
    for event in keys::events(chord).map_err(|message| Failure::new("unknown_key", message))? {
        page.call("Input.dispatchKeyEvent", event).await?;
    }
    Ok(())
}

async fn evaluate(page: &Session, expression: &str) -> Result<Value, Failure> {
    let answer = script(page, expression).await?;
    let result = &answer["result"];
    let value = match result.get("unserializableValue") {
        // NaN, Infinity, -0, a BigInt: no JSON.
        Some(text) => text.clone(),
        None => result.get("value").cloned().unwrap_or(Value::Null),
    };
    let bytes = value.to_string().len();
    if bytes > VALUE_BYTES {
        return Err(Failure::new(
            "too_much",
            format!("the value of `expression` has {bytes} bytes as JSON; at most {VALUE_BYTES}: take a part of it"),
        ));
    }
    Ok(json!({ "value": value }))
}

async fn text(page: &Session, most: usize) -> Result<Value, Failure> {
    // What is longer is cut in the page: it need not come here.
    let expression = format!(
        "(() => {{ const text = document.body ? document.body.innerText : ''; return [text.slice(0, {most}), text.length > {most}] }})()"
    );
    let answer = script(page, &expression).await?;
    let value = &answer["result"]["value"];
    let text: String = value[0].as_str().unwrap_or_default().chars().take(most).collect();
    Ok(json!({ "text": text, "cut": value[1].as_bool().unwrap_or_default() }))
}

async fn script(page: &Session, expression: &str) -> Result<Value, Failure> {
    let parameters = json!({
        "expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true,
        "timeout": u64::try_from(SCRIPT_LIMIT.as_millis()).unwrap_or(u64::MAX),
    });
    let began = Instant::now();
    let answer = page.call("Runtime.evaluate", parameters).await.map_err(|error| match error {
        // The browser calls a script that it ended an internal error.
        CdpError::Refused { .. } if began.elapsed() >= SCRIPT_LIMIT => {
            Failure::new("slow", format!("`expression` was still running after {SCRIPT_LIMIT:?}, and was ended"))
        }
        other => other.into(),
    })?;
    match answer.get("exceptionDetails") {
        Some(details) => {
            let thrown = details["exception"]["description"].as_str().or_else(|| details["text"].as_str());
            Err(Failure::new("script", format!("`expression` threw: {}", thrown.unwrap_or("something"))))
        }
        None => Ok(answer),
    }
}
