//! What an agent does to a computer (BR-3), in the terms of computer-use agents.

use serde::{Deserialize, Serialize};

/// The JSON Schema of [`ComputerAction`], as published.
pub const COMPUTER_ACTION_SCHEMA: &str = include_str!("../schemas/computer-action.schema.json");

/// A place on the screen, in its own pixels: `[x, y]`, the top left one is `[0, 0]`. The scale of a screenshot changes nothing.
pub type Coordinate = [i32; 2];

/// One action: `{"action": "left_click", "coordinate": [10, 20]}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum ComputerAction {
    /// Does nothing; the picture comes with the answer.
    Screenshot {},
    /// Says where the cursor is.
    CursorPosition {},
    /// Moves the cursor.
    MouseMove {
        /// Where to.
        coordinate: Coordinate,
    },
    /// Clicks with the left button.
    LeftClick {
        /// Where; where the cursor is without it.
        #[serde(default)]
        coordinate: Option<Coordinate>,
        /// Keys held meanwhile: `ctrl`, `ctrl+shift`.
        #[serde(default)]
        text: Option<String>,
    },
    /// Clicks with the right button.
    RightClick {
        /// Where; where the cursor is without it.
        #[serde(default)]
        coordinate: Option<Coordinate>,
        /// Keys held meanwhile: `ctrl`, `ctrl+shift`.
        #[serde(default)]
        text: Option<String>,
    },
    /// Clicks with the middle button.
    MiddleClick {
        /// Where; where the cursor is without it.
        #[serde(default)]
        coordinate: Option<Coordinate>,
        /// Keys held meanwhile: `ctrl`, `ctrl+shift`.
        #[serde(default)]
        text: Option<String>,
    },
    /// Clicks twice.
    DoubleClick {
        /// Where; where the cursor is without it.
        #[serde(default)]
        coordinate: Option<Coordinate>,
        /// Keys held meanwhile: `ctrl`, `ctrl+shift`.
        #[serde(default)]
        text: Option<String>,
    },
    /// Clicks three times.
    TripleClick {
        /// Where; where the cursor is without it.
        #[serde(default)]
        coordinate: Option<Coordinate>,
        /// Keys held meanwhile: `ctrl`, `ctrl+shift`.
        #[serde(default)]
        text: Option<String>,
    },
    /// Presses the left button, moves, lets go.
    LeftClickDrag {
        /// Where from; where the cursor is without it.
        #[serde(default)]
        start_coordinate: Option<Coordinate>,
        /// Where to.
        coordinate: Coordinate,
    },
    /// Presses the left button.
    LeftMouseDown {},
    /// Lets the left button go.
    LeftMouseUp {},
    /// Turns the wheel.
    Scroll {
        /// Where; where the cursor is without it.
        #[serde(default)]
        coordinate: Option<Coordinate>,
        /// Which way the page moves.
        scroll_direction: ScrollDirection,
        /// Clicks of the wheel: 1 to 100.
        #[cfg_attr(test, schemars(range(min = 1, max = 100)))]
        scroll_amount: u32,
        /// Keys held meanwhile: `ctrl`, `ctrl+shift`.
        #[serde(default)]
        text: Option<String>,
    },
    /// Presses keys and lets them go: names of X11 keys as xdotool takes them, joined by `+`.
    Key {
        /// Such as `Return`, `ctrl+shift+t`, `alt+Tab`.
        text: String,
    },
    /// Holds keys.
    HoldKey {
        /// Such as `shift`, `ctrl+Tab`.
        text: String,
        /// In seconds, up to 60.
        #[cfg_attr(test, schemars(range(min = 0, max = 60)))]
        duration: f64,
    },
    /// Types a text, of any characters.
    Type {
        /// At most 10,000 characters.
        #[cfg_attr(test, schemars(length(max = 10000)))]
        text: String,
    },
    /// Waits.
    Wait {
        /// In seconds, up to 60.
        #[cfg_attr(test, schemars(range(min = 0, max = 60)))]
        duration: f64,
    },
}

/// Which way a wheel is turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ScrollDirection {
    /// Towards the beginning.
    Up,
    /// Towards the end.
    Down,
    /// To the left.
    Left,
    /// To the right.
    Right,
}

/// A rectangle of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Left edge, in pixels.
    pub x: i32,
    /// Upper edge.
    pub y: i32,
    /// Width, at least 1.
    pub width: u32,
    /// Height, at least 1.
    pub height: u32,
}

/// Why an action was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ComputerErrorKind {
    /// A coordinate or a region is not on the screen.
    OutOfBounds,
    /// It is no action that there is.
    BadRequest,
    /// There is no key of that name.
    UnknownKey,
    /// A text, an amount or a time is longer than what is taken.
    TooMuch,
    /// The desktop is not there; it may be restarting.
    Away,
    /// The desktop did not answer in time.
    Slow,
}

/// Why an action was not done, and what of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[error("{message}")]
pub struct ComputerError {
    /// For programs.
    pub kind: ComputerErrorKind,
    /// For people: names the thing.
    pub message: String,
}

/// What an action is answered with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ComputerReply {
    /// Where the cursor is now.
    pub cursor: Coordinate,
    /// The screen as PNG, in base64, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<String>,
}
