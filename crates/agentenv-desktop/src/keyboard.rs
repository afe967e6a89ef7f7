//! The keyboard as the X server has it: which key gives which symbol, and keys that are free to be given one.

use std::{
    collections::{HashMap, VecDeque},
    ops::RangeInclusive,
    thread::sleep,
    time::{Duration, Instant},
};

use x11rb::{
    connection::Connection as _,
    protocol::xproto::{ConnectionExt as _, Keycode},
    rust_connection::RustConnection,
};
use xkeysym::{Keysym, key};

use crate::DesktopError;

/// Programs read the keyboard's map anew when they hear that it changed, and may hear late: a key that was pressed gets no other symbol
/// before they had this time to see what it was.
const KEY_REST: Duration = Duration::from_millis(500);
/// The symbols of multimedia keys: nobody types them, so their keys are free. One that is asked for is put back on a key.
const MULTIMEDIA: RangeInclusive<u32> = 0x1008_0000..=0x1008_ffff;

/// A key, and whether it wants Shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stroke {
    pub(crate) keycode: Keycode,
    pub(crate) shift: bool,
}

/// A key that gives nothing that is typed.
#[derive(Clone, Copy, Debug)]
struct Free {
    keycode: Keycode,
    /// What was put on it, and when it was last pressed.
    given: Option<(Keysym, Instant)>,
}

/// What the keys give.
pub(crate) struct Keyboard {
    strokes: HashMap<Keysym, Stroke>,
    /// Keys that give nothing that is typed, the longest unused first.
    free: VecDeque<Free>,
    per_keycode: u8,
}

impl Keyboard {
    /// Asks the server.
    pub(crate) fn read(connection: &RustConnection) -> Result<Self, DesktopError> {
        let setup = connection.setup();
        let (first, last) = (setup.min_keycode, setup.max_keycode);
        let mapping = connection.get_keyboard_mapping(first, last - first + 1)?.reply()?;
        let per_keycode = mapping.keysyms_per_keycode;
        let (mut strokes, mut free) = (HashMap::new(), VecDeque::new());
        for (keycode, symbols) in (first..=last).zip(mapping.keysyms.chunks(usize::from(per_keycode.max(1)))) {
            if symbols.iter().all(|symbol| *symbol == 0 || MULTIMEDIA.contains(symbol)) {
                // From the end: programs know the low ones by number.
                free.push_front(Free { keycode, given: None });
                continue;
            }
            // The first group, without and with Shift; what needs another modifier is typed by a borrowed key.
            for (shift, symbol) in [false, true].into_iter().zip(symbols) {
                if *symbol != 0 {
                    let stroke = Stroke { keycode, shift };
                    // A key of its own before one that wants Shift, the lower before the higher.
                    strokes
                        .entry(Keysym::new(*symbol))
                        .and_modify(|known: &mut Stroke| {
                            if known.shift && !shift {
                                *known = stroke;
                            }
                        })
                        .or_insert(stroke);
                }
            }
        }
        Ok(Self { strokes, free, per_keycode })
    }

    /// How to give a symbol, where a key has it.
    pub(crate) fn stroke(&self, keysym: Keysym) -> Option<Stroke> {
        let borrowed = || {
            let free = self.free.iter().find(|free| free.given.is_some_and(|(given, _)| given == keysym))?;
            Some(Stroke { keycode: free.keycode, shift: false })
        };
        self.strokes.get(&keysym).copied().or_else(borrowed)
    }

    /// The symbols that no key has of its own, each once, and where it first is.
    fn foreign(&self, text: &[Keysym]) -> impl Iterator<Item = (usize, Keysym)> {
        let mut known = Vec::new();
        text.iter().copied().enumerate().filter(move |(_, keysym)| {
            let new = !self.strokes.contains_key(keysym) && !known.contains(keysym);
            if new {
                known.push(*keysym);
            }
            new
        })
    }

    /// How many symbols of the text, from its start, can be given at once.
    pub(crate) fn reach(&self, text: &[Keysym]) -> usize {
        self.foreign(text).nth(self.free.len()).map_or(text.len(), |(at, _)| at)
    }

    /// Puts the symbols that no key has on free ones, all before any of them is pressed.
    pub(crate) fn borrow(&mut self, connection: &RustConnection, text: &[Keysym]) -> Result<(), DesktopError> {
        let mut foreign: Vec<Keysym> = self.foreign(text).map(|(_, keysym)| keysym).collect();
        if foreign.len() > self.free.len() {
            return Err(DesktopError::NoFreeKey);
        }
        // Those that are there already first, so that their keys are not taken for others.
        foreign.sort_by_key(|keysym| self.stroke(*keysym).is_none());
        let mut changed = false;
        for keysym in foreign {
            let known = self.free.iter().position(|free| free.given.is_some_and(|(given, _)| given == keysym));
            let Some(free) = self.free.remove(known.unwrap_or(0)) else { return Err(DesktopError::NoFreeKey) };
            if known.is_none() {
                if let Some((_, pressed)) = free.given {
                    sleep(KEY_REST.saturating_sub(pressed.elapsed()));
                }
                // Both levels: Caps Lock and a held Shift make no difference.
                let mut symbols = vec![0; usize::from(self.per_keycode)];
                symbols.iter_mut().take(2).for_each(|symbol| *symbol = keysym.raw());
                connection.change_keyboard_mapping(1, free.keycode, self.per_keycode, &symbols)?;
                changed = true;
            }
            self.free.push_back(Free { given: Some((keysym, Instant::now())), ..free });
        }
        if changed {
            // The server has it before the first stroke.
            settle(connection)?;
        }
        Ok(())
    }

    /// The Shift key.
    pub(crate) fn shift(&self) -> Option<Keycode> {
        self.stroke(Keysym::new(key::Shift_L)).map(|stroke| stroke.keycode)
    }
}

/// Has the server take everything that was sent.
pub(crate) fn settle(connection: &RustConnection) -> Result<(), DesktopError> {
    connection.get_input_focus()?.reply()?;
    Ok(())
}
