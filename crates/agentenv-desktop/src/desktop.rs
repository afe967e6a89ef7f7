//! One connection to a desktop, and what an agent does by it.

use std::{
    net::TcpStream,
    thread::sleep,
    time::{Duration, Instant},
};

use agentenv_protocol::{ComputerAction, Coordinate, Region, ScrollDirection};
use x11rb::{
    CURRENT_TIME,
    connection::Connection as _,
    protocol::{
        xfixes::ConnectionExt as _,
        xproto::{
            AtomEnum, BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT, ConnectionExt as _, ImageFormat, KEY_PRESS_EVENT,
            KEY_RELEASE_EVENT, Keycode, MOTION_NOTIFY_EVENT, Window,
        },
        xtest::ConnectionExt as _,
    },
    rust_connection::{DefaultStream, RustConnection},
};
use xkeysym::Keysym;

use crate::{
    DesktopError, Scale,
    keyboard::{Keyboard, settle},
    keys,
    picture::Picture,
};

/// The name by which X servers know the cookies of their authority files.
const COOKIE: &[u8] = b"MIT-MAGIC-COOKIE-1";
/// The longest text that is typed at once.
const TEXT_LIMIT: usize = 10_000;
/// The longest chord: all modifiers and a key.
const CHORD_LIMIT: usize = 10;
/// The most clicks of a wheel.
const SCROLL_LIMIT: u32 = 100;
/// The longest wait or hold.
const WAIT_LIMIT_S: f64 = 60.0;
/// Places that a drag passes: programs take a single jump for no drag.
const DRAG_STEPS: i32 = 8;
/// Between two looks whether a desktop is drawn.
const DRAWN_LOOK: Duration = Duration::from_millis(20);

/// The buttons of a mouse, as X11 counts them.
mod button {
    pub(super) const LEFT: u8 = 1;
    pub(super) const MIDDLE: u8 = 2;
    pub(super) const RIGHT: u8 = 3;
    pub(super) const WHEEL_UP: u8 = 4;
    pub(super) const WHEEL_DOWN: u8 = 5;
    pub(super) const WHEEL_LEFT: u8 = 6;
    pub(super) const WHEEL_RIGHT: u8 = 7;
}

/// Whether a desktop was drawn before its time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// Something is on it, and it has come to rest.
    Yes,
    /// The time was over.
    NotYet,
}

/// A connection to an X server.
pub struct Desktop {
    connection: RustConnection,
    root: Window,
    width: u16,
    height: u16,
    keyboard: Keyboard,
}

impl Desktop {
    /// Connects over a stream, with the cookie of the server's authority file.
    pub fn connect(stream: TcpStream, cookie: &[u8]) -> Result<Self, DesktopError> {
        stream.set_nodelay(true)?;
        let (stream, _) = DefaultStream::from_tcp_stream(stream)?;
        let connection = RustConnection::connect_to_stream_with_auth_info(stream, 0, COOKIE.to_vec(), cookie.to_vec())?;
        let setup = connection.setup();
        let screen = &setup.roots[0];
        let (root, width, height) = (screen.root, screen.width_in_pixels, screen.height_in_pixels);
        let (depth, format) =
            (screen.root_depth, setup.pixmap_formats.iter().find(|format| format.depth == screen.root_depth));
        let bits = format.map_or(0, |format| format.bits_per_pixel);
        if depth != 24 || bits != 32 {
            return Err(DesktopError::PixelFormat { depth, bits });
        }
        connection.xfixes_query_version(5, 0)?.reply()?;
        connection.xtest_get_version(2, 2)?.reply()?;
        let keyboard = Keyboard::read(&connection)?;
        Ok(Self { connection, root, width, height, keyboard })
    }

    /// Width and height of the screen, in pixels.
    pub fn size(&self) -> (u16, u16) {
        (self.width, self.height)
    }

    /// A picture of the screen with its cursor, or of a part of it, as PNG.
    pub fn screenshot(&self, region: Option<Region>, scale: Option<Scale>) -> Result<Vec<u8>, DesktopError> {
        let mut picture = self.picture(region)?;
        self.draw_cursor(&mut picture, region)?;
        match scale {
            Some(scale) => picture.scaled(scale).png(),
            None => picture.png(),
        }
    }

    /// Where the cursor is.
    pub fn cursor_position(&self) -> Result<Coordinate, DesktopError> {
        let pointer = self.connection.query_pointer(self.root)?.reply()?;
        Ok([pointer.root_x.into(), pointer.root_y.into()])
    }

    /// The part of the screen that windows may fill, as the window manager says; `None` while there is none. A panel takes its own
    /// part of it.
    pub fn work_area(&self) -> Result<Option<Region>, DesktopError> {
        let atom = self.connection.intern_atom(false, b"_NET_WORKAREA")?.reply()?.atom;
        let area = self.connection.get_property(false, self.root, atom, AtomEnum::CARDINAL, 0, 4)?.reply()?;
        let area: Vec<u32> = area.value32().into_iter().flatten().collect();
        let side = |value: u32| i32::try_from(value).ok();
        Ok(match *area {
            [x, y, width, height] => side(x).zip(side(y)).map(|(x, y)| Region { x, y, width, height }),
            _ => None,
        })
    }

    /// Waits until something is drawn and two pictures in a row are the same.
    pub fn wait_drawn(&self, limit: Duration) -> Result<Drawn, DesktopError> {
        let deadline = Instant::now() + limit;
        let mut last = Vec::new();
        while Instant::now() < deadline {
            let picture = self.picture(None)?;
            if picture.is_drawn() && picture.pixels == last {
                return Ok(Drawn::Yes);
            }
            last = picture.pixels;
            sleep(DRAWN_LOOK);
        }
        Ok(Drawn::NotYet)
    }

    /// Does what an agent asks for. The server has taken all of it when this returns.
    pub fn act(&mut self, action: &ComputerAction) -> Result<(), DesktopError> {
        match action {
            ComputerAction::Screenshot {} | ComputerAction::CursorPosition {} => Ok(()),
            ComputerAction::MouseMove { coordinate } => self.move_to(*coordinate),
            ComputerAction::LeftClick { coordinate, text } => self.click(button::LEFT, 1, *coordinate, text.as_deref()),
            ComputerAction::RightClick { coordinate, text } => {
                self.click(button::RIGHT, 1, *coordinate, text.as_deref())
            }
            ComputerAction::MiddleClick { coordinate, text } => {
                self.click(button::MIDDLE, 1, *coordinate, text.as_deref())
            }
            ComputerAction::DoubleClick { coordinate, text } => {
                self.click(button::LEFT, 2, *coordinate, text.as_deref())
            }
            ComputerAction::TripleClick { coordinate, text } => {
                self.click(button::LEFT, 3, *coordinate, text.as_deref())
            }
            ComputerAction::LeftClickDrag { start_coordinate, coordinate } => self.drag(*start_coordinate, *coordinate),
            ComputerAction::LeftMouseDown {} => self.button(button::LEFT, true),
            ComputerAction::LeftMouseUp {} => self.button(button::LEFT, false),
            ComputerAction::Scroll { coordinate, scroll_direction, scroll_amount, text } => {
                if *scroll_amount > SCROLL_LIMIT {
                    return Err(too_much("scroll_amount", scroll_amount, SCROLL_LIMIT));
                }
                let wheel = match scroll_direction {
                    ScrollDirection::Up => button::WHEEL_UP,
                    ScrollDirection::Down => button::WHEEL_DOWN,
                    ScrollDirection::Left => button::WHEEL_LEFT,
                    ScrollDirection::Right => button::WHEEL_RIGHT,
                };
                self.click(wheel, *scroll_amount, *coordinate, text.as_deref())
            }
            ComputerAction::Key { text } => {
                let keys = chord(text)?;
                self.holding(&keys, |_| Ok(()))
            }
            ComputerAction::HoldKey { text, duration } => {
                let (keys, time) = (chord(text)?, wait_time(*duration)?);
                self.holding(&keys, |_| {
                    sleep(time);
                    Ok(())
                })
            }
            ComputerAction::Type { text } => self.type_text(text),
            ComputerAction::Wait { duration } => {
                sleep(wait_time(*duration)?);
                Ok(())
            }
        }?;
        settle(&self.connection)
    }

    fn picture(&self, region: Option<Region>) -> Result<Picture, DesktopError> {
        let region = region.unwrap_or(Region { x: 0, y: 0, width: self.width.into(), height: self.height.into() });
        let fits = |start: i32, length: u32, limit: u16| {
            let start = u16::try_from(start).ok()?;
            let length = u16::try_from(length).ok().filter(|length| *length > 0)?;
            (start.checked_add(length)? <= limit).then_some((start, length))
        };
        let (Some((x, width)), Some((y, height))) =
            (fits(region.x, region.width, self.width), fits(region.y, region.height, self.height))
        else {
            let Region { x, y, width, height } = region;
            return Err(self.out_of_bounds(format!("the region {width}x{height} at [{x}, {y}]")));
        };
        let (left, top) = (x as i16, y as i16);
        let image = self.connection.get_image(ImageFormat::Z_PIXMAP, self.root, left, top, width, height, u32::MAX)?;
        Picture::from_x(width.into(), height.into(), &image.reply()?.data)
    }

    fn draw_cursor(&self, picture: &mut Picture, region: Option<Region>) -> Result<(), DesktopError> {
        let cursor = self.connection.xfixes_get_cursor_image()?.reply()?;
        let (x, y) = region.map_or((0, 0), |region| (region.x, region.y));
        let corner = |at: i16, hot: u16, origin: i32| i32::from(at) - i32::from(hot) - origin;
        let (left, top) = (corner(cursor.x, cursor.xhot, x), corner(cursor.y, cursor.yhot, y));
        picture.draw(left, top, cursor.width.into(), &cursor.cursor_image);
        Ok(())
    }

    fn out_of_bounds(&self, what: String) -> DesktopError {
        DesktopError::OutOfBounds { what, width: self.width, height: self.height }
    }

    fn event(&self, kind: u8, detail: u8, x: i16, y: i16) -> Result<(), DesktopError> {
        self.connection.xtest_fake_input(kind, detail, CURRENT_TIME, self.root, x, y, 0)?;
        Ok(())
    }

    fn checked(&self, [x, y]: Coordinate) -> Result<(i16, i16), DesktopError> {
        let on =
            |at: i32, limit: u16| i16::try_from(at).ok().filter(|at| (0..i32::from(limit)).contains(&i32::from(*at)));
        on(x, self.width).zip(on(y, self.height)).ok_or_else(|| self.out_of_bounds(format!("[{x}, {y}]")))
    }

    fn move_to(&self, coordinate: Coordinate) -> Result<(), DesktopError> {
        let (x, y) = self.checked(coordinate)?;
        self.event(MOTION_NOTIFY_EVENT, 0, x, y)
    }

    fn button(&self, button: u8, down: bool) -> Result<(), DesktopError> {
        self.event(if down { BUTTON_PRESS_EVENT } else { BUTTON_RELEASE_EVENT }, button, 0, 0)
    }

    /// Presses keys, in their order.
    fn press(&self, keys: &[Keycode]) -> Result<(), DesktopError> {
        keys.iter().try_for_each(|key| self.event(KEY_PRESS_EVENT, *key, 0, 0))
    }

    /// Lets keys go, the last one first.
    fn release(&self, keys: &[Keycode]) -> Result<(), DesktopError> {
        keys.iter().rev().try_for_each(|key| self.event(KEY_RELEASE_EVENT, *key, 0, 0))
    }

    fn click(
        &mut self,
        button: u8,
        times: u32,
        coordinate: Option<Coordinate>,
        held: Option<&str>,
    ) -> Result<(), DesktopError> {
        let held = held.map(chord).transpose()?.unwrap_or_default();
        if let Some(coordinate) = coordinate {
            self.move_to(coordinate)?;
        }
        self.holding(&held, |desktop| {
            for _ in 0..times {
                desktop.button(button, true)?;
                desktop.button(button, false)?;
            }
            Ok(())
        })
    }

    fn drag(&self, from: Option<Coordinate>, to: Coordinate) -> Result<(), DesktopError> {
        self.checked(to)?;
        let from = match from {
            Some(from) => from,
            None => self.cursor_position()?,
        };
        self.move_to(from)?;
        self.button(button::LEFT, true)?;
        for step in 1..=DRAG_STEPS {
            let between = |from: i32, to: i32| from + (to - from) * step / DRAG_STEPS;
            self.move_to([between(from[0], to[0]), between(from[1], to[1])])?;
        }
        self.button(button::LEFT, false)
    }

    /// Does something while keys are held; they are let go in the end, whatever comes.
    fn holding(
        &mut self,
        keys: &[Keysym],
        what: impl FnOnce(&Self) -> Result<(), DesktopError>,
    ) -> Result<(), DesktopError> {
        self.keyboard.borrow(&self.connection, keys)?;
        let mut codes: Vec<Keycode> = Vec::new();
        for keysym in keys {
            let stroke = self.keyboard.stroke(*keysym).ok_or(DesktopError::NoFreeKey)?;
            codes.extend(self.keyboard.shift().filter(|shift| stroke.shift && !codes.contains(shift)));
            codes.push(stroke.keycode);
        }
        let done = self.press(&codes).and_then(|()| {
            self.connection.flush()?;
            what(self)
        });
        let released = self.release(&codes);
        done.and(released)
    }

    fn type_text(&mut self, text: &str) -> Result<(), DesktopError> {
        let symbols: Vec<Keysym> = text.chars().map(keys::of).collect();
        if symbols.len() > TEXT_LIMIT {
            return Err(too_much("characters of `text`", symbols.len(), TEXT_LIMIT));
        }
        let mut rest = &symbols[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(self.keyboard.reach(rest));
            if now.is_empty() {
                return Err(DesktopError::NoFreeKey);
            }
            self.keyboard.borrow(&self.connection, now)?;
            for keysym in now {
                let stroke = self.keyboard.stroke(*keysym).ok_or(DesktopError::NoFreeKey)?;
                let shift = self.keyboard.shift().filter(|_| stroke.shift);
                let codes: Vec<Keycode> = shift.into_iter().chain([stroke.keycode]).collect();
                self.press(&codes)?;
                self.release(&codes)?;
            }
            rest = later;
        }
        Ok(())
    }
}

fn chord(text: &str) -> Result<Vec<Keysym>, DesktopError> {
    let keys = keys::chord(text)?;
    if keys.len() > CHORD_LIMIT {
        return Err(too_much("keys of a chord", keys.len(), CHORD_LIMIT));
    }
    Ok(keys)
}

fn wait_time(seconds: f64) -> Result<Duration, DesktopError> {
    if (0.0..=WAIT_LIMIT_S).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(too_much("seconds of `duration`", seconds, WAIT_LIMIT_S))
    }
}

fn too_much(what: &'static str, given: impl std::fmt::Display, limit: impl std::fmt::Display) -> DesktopError {
    DesktopError::TooMuch { what, given: given.to_string(), limit: limit.to_string() }
}
