//! Keys of a page by the names that the computers' `key` takes, as the DevTools want them.

use serde_json::{Value, json};

/// Keys at once.
const CHORD_KEYS: usize = 6;

/// One key of the keyboard.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    /// As a page sees it in `KeyboardEvent.key`.
    key: String,
    code: String,
    /// Windows' virtual key code, which Chromium goes by.
    number: u16,
    /// What it types.
    text: Option<String>,
    /// Its bit among the modifiers, where it is one.
    modifier: u8,
}

/// Names in lower case; then `key`, `code`, number, bit of the modifier.
const NAMED: &[(&[&str], &str, &str, u16, u8)] = &[
    (&["alt", "option"], "Alt", "AltLeft", 18, 1),
    (&["ctrl", "control"], "Control", "ControlLeft", 17, 2),
    (&["meta", "super", "cmd", "command", "win", "windows"], "Meta", "MetaLeft", 91, 4),
    (&["shift"], "Shift", "ShiftLeft", 16, 8),
    (&["return", "enter"], "Enter", "Enter", 13, 0),
    (&["tab"], "Tab", "Tab", 9, 0),
    (&["backspace"], "Backspace", "Backspace", 8, 0),
    (&["delete", "del"], "Delete", "Delete", 46, 0),
    (&["insert", "ins"], "Insert", "Insert", 45, 0),
    (&["escape", "esc"], "Escape", "Escape", 27, 0),
    (&["home"], "Home", "Home", 36, 0),
    (&["end"], "End", "End", 35, 0),
    (&["page_up", "pageup", "pgup", "prior"], "PageUp", "PageUp", 33, 0),
    (&["page_down", "pagedown", "pgdn", "next"], "PageDown", "PageDown", 34, 0),
    (&["left", "arrowleft"], "ArrowLeft", "ArrowLeft", 37, 0),
    (&["up", "arrowup"], "ArrowUp", "ArrowUp", 38, 0),
    (&["right", "arrowright"], "ArrowRight", "ArrowRight", 39, 0),
    (&["down", "arrowdown"], "ArrowDown", "ArrowDown", 40, 0),
    (&["space", "spacebar"], " ", "Space", 32, 0),
    (&["minus"], "-", "Minus", 189, 0),
    (&["plus"], "+", "Equal", 187, 0),
];

/// The events of pressing a chord such as `ctrl+shift+t` and letting it go, as parameters of `Input.dispatchKeyEvent`.
pub(super) fn events(chord: &str) -> Result<Vec<Value>, String> {
    let keys = parse(chord)?;
    let mut held = 0;
    let mut events = Vec::new();
    for key in &keys {
        held |= key.modifier;
        // With ctrl, alt or meta a key is a command and types nothing.
        let text = key.text.as_ref().filter(|_| held & !8 == 0);
        let text = text.map(|text| if held & 8 == 0 { text.clone() } else { text.to_uppercase() });
        let mut event = event(if text.is_some() { "keyDown" } else { "rawKeyDown" }, key, held);
        if let Some(text) = text {
            event["text"] = json!(text);
        }
        events.push(event);
    }
    for key in keys.iter().rev() {
        held &= !key.modifier;
        events.push(event("keyUp", key, held));
    }
    Ok(events)
}

fn event(kind: &str, key: &Key, held: u8) -> Value {
    let name = if held & 8 == 0 || key.key.chars().count() > 1 { key.key.clone() } else { key.key.to_uppercase() };
    json!({
        "type": kind, "key": name, "code": key.code, "windowsVirtualKeyCode": key.number, "modifiers": held,
    })
}

fn parse(chord: &str) -> Result<Vec<Key>, String> {
    // The last key may be `+` itself.
    let (rest, plus) = match chord.strip_suffix('+') {
        Some(rest) => (rest.strip_suffix('+').unwrap_or(rest), true),
        None => (chord, false),
    };
    let names = rest.split('+').filter(|name| !(plus && name.is_empty())).chain(plus.then_some("+"));
    let keys = names.map(key).collect::<Result<Vec<_>, _>>()?;
    if keys.len() > CHORD_KEYS {
        return Err(format!("`text` is a chord of {} keys; at most {CHORD_KEYS} are held at once", keys.len()));
    }
    Ok(keys)
}

fn key(name: &str) -> Result<Key, String> {
    let lower = name.to_lowercase();
    if let Some((_, key, code, number, modifier)) = NAMED.iter().find(|(names, ..)| names.contains(&lower.as_str())) {
        let text = match *key {
            "Enter" => Some("\r".to_owned()),
            key if key.chars().count() == 1 => Some(key.to_owned()),
            _ => None,
        };
        return Ok(Key {
            key: (*key).to_owned(),
            code: (*code).to_owned(),
            number: *number,
            text,
            modifier: *modifier,
        });
    }
    let function =
        lower.strip_prefix('f').and_then(|number| number.parse::<u16>().ok()).filter(|n| (1..=24).contains(n));
    if let Some(number) = function {
        let name = format!("F{number}");
        return Ok(Key { key: name.clone(), code: name, number: 111 + number, text: None, modifier: 0 });
    }
    let mut characters = name.chars();
    let (Some(character), None) = (characters.next(), characters.next()) else {
        return Err(format!("`text`: there is no key `{name}`; such as `Return`, `ctrl+a`, `Page_Down`, `x`"));
    };
    let upper = character.to_ascii_uppercase();
    let (code, number) = match character {
        'a'..='z' | 'A'..='Z' => (format!("Key{upper}"), upper as u16),
        '0'..='9' => (format!("Digit{character}"), character as u16),
        _ => (String::new(), 0),
    };
    Ok(Key { key: name.to_owned(), code, number, text: Some(name.to_owned()), modifier: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(chord: &str) -> Vec<String> {
        let events = events(chord).unwrap();
        let text = |event: &Value, key: &str| event[key].as_str().unwrap_or("-").to_owned();
        let each = events.iter().map(|event| {
            format!("{} {} {} {}", text(event, "type"), text(event, "key"), event["modifiers"], text(event, "text"))
        });
        each.collect()
    }

    #[test]
    fn chords_are_pressed_in_order_and_let_go_backwards() {
        assert_eq!(short("Return"), ["keyDown Enter 0 \r", "keyUp Enter 0 -"]);
        assert_eq!(short("a"), ["keyDown a 0 a", "keyUp a 0 -"]);
        assert_eq!(short("ctrl+a"), ["rawKeyDown Control 2 -", "rawKeyDown a 2 -", "keyUp a 2 -", "keyUp Control 0 -"]);
        assert_eq!(short("shift+a")[1..3], ["keyDown A 8 A", "keyUp A 8 -"]);
        assert_eq!(short("F5"), ["rawKeyDown F5 0 -", "keyUp F5 0 -"]);
        assert_eq!(short("+"), ["keyDown + 0 +", "keyUp + 0 -"]);
        assert_eq!(short("ctrl++").len(), 4);
        assert_eq!(short("é"), ["keyDown é 0 é", "keyUp é 0 -"]);
    }

    #[test]
    fn what_is_no_key_is_named() {
        for chord in ["hyperdrive", "ctrl+hyperdrive", "", "a+b+c+d+e+f+g", "F25"] {
            assert!(events(chord).is_err_and(|error| error.contains("`text`")), "{chord}");
        }
    }
}
