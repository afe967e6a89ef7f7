//! Names of keys, as xdotool takes them.

use std::{collections::HashMap, sync::LazyLock};

use xkeysym::{Keysym, key};

use crate::DesktopError;

/// Names that people and agents use for keys whose own names are longer or different; compared in lower case.
const ALIASES: &[(&str, u32)] = &[
    ("alt", key::Alt_L),
    ("altgr", key::ISO_Level3_Shift),
    ("backspace", key::BackSpace),
    ("capslock", key::Caps_Lock),
    ("cmd", key::Super_L),
    ("command", key::Super_L),
    ("control", key::Control_L),
    ("ctrl", key::Control_L),
    ("del", key::Delete),
    ("enter", key::Return),
    ("esc", key::Escape),
    ("ins", key::Insert),
    ("meta", key::Super_L),
    ("option", key::Alt_L),
    ("page_down", key::Next),
    ("page_up", key::Prior),
    ("pagedown", key::Next),
    ("pageup", key::Prior),
    ("pgdn", key::Next),
    ("pgup", key::Prior),
    ("plus", key::plus),
    ("printscreen", key::Print),
    ("return", key::Return),
    ("shift", key::Shift_L),
    ("spacebar", key::space),
    ("super", key::Super_L),
    ("win", key::Super_L),
    ("windows", key::Super_L),
];

/// The numbers that X11 gives to keys: Latin and other alphabets, function keys, multimedia keys.
const RANGES: [std::ops::RangeInclusive<u32>; 3] = [0x20..=0x20ff, 0xfd00..=0xffff, 0x1008_fe00..=0x1008_ffff];

/// Every key by its X11 name, and by it in lower case where that is no other key's.
static NAMES: LazyLock<HashMap<String, Keysym>> = LazyLock::new(|| {
    let mut names = HashMap::new();
    let all =
        || RANGES.into_iter().flatten().map(Keysym::new).filter_map(|keysym| Some((plain(keysym.name()?), keysym)));
    for (name, keysym) in all() {
        names.entry(name.to_owned()).or_insert(keysym);
    }
    for (name, keysym) in all() {
        names.entry(name.to_lowercase()).or_insert(keysym);
    }
    names
});

/// `XK_Return` is `Return`, `XF86XK_Back` is `XF86Back`; the rest is left as it is.
fn plain(name: &str) -> &str {
    name.strip_prefix("XK_").unwrap_or(name)
}

/// The key of a name, or of a character.
pub(crate) fn parse(name: &str) -> Result<Keysym, DesktopError> {
    let mut characters = name.chars();
    if let (Some(character), None) = (characters.next(), characters.next()) {
        return Ok(of(character));
    }
    let lower = name.to_lowercase();
    let alias =
        ALIASES.binary_search_by_key(&lower.as_str(), |(alias, _)| alias).ok().map(|at| Keysym::new(ALIASES[at].1));
    NAMES
        .get(name)
        .copied()
        .or(alias)
        .or_else(|| NAMES.get(&lower).copied())
        .ok_or_else(|| DesktopError::UnknownKey(name.chars().take(64).collect()))
}

/// The keys of a chord, in the order in which they are pressed: `ctrl+shift+t`. A `+` of its own is the key.
pub(crate) fn chord(text: &str) -> Result<Vec<Keysym>, DesktopError> {
    if text == "+" {
        return Ok(vec![of('+')]);
    }
    let (text, last) = match text.strip_suffix("++") {
        Some(before) => (before, Some(of('+'))),
        None => (text, None),
    };
    let mut keys = text.split('+').map(|name| parse(name.trim())).collect::<Result<Vec<_>, _>>()?;
    keys.extend(last);
    Ok(keys)
}

/// The key of a character; line ends and tabs are their keys.
pub(crate) fn of(character: char) -> Keysym {
    match character {
        '\n' | '\r' => Keysym::new(key::Return),
        '\t' => Keysym::new(key::Tab),
        other => Keysym::from_char(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_xdotool() {
        assert!(ALIASES.is_sorted_by_key(|(name, _)| *name));
        for (name, keysym) in [
            ("Return", key::Return),
            ("return", key::Return),
            ("ENTER", key::Return),
            ("Page_Down", key::Next),
            ("Prior", key::Prior),
            ("ctrl", key::Control_L),
            ("Control_R", key::Control_R),
            ("super", key::Super_L),
            ("a", key::a),
            ("A", key::A),
            ("+", key::plus),
            ("minus", key::minus),
            ("F5", key::F5),
            ("f12", key::F12),
            ("KP_Enter", key::KP_Enter),
            ("udiaeresis", key::udiaeresis),
            ("ü", key::udiaeresis),
            ("€", 0x0100_20ac),
            ("漢", 0x0100_6f22),
        ] {
            let found = parse(name).unwrap().raw();
            assert!(found == keysym || found == key::EuroSign && name == "€", "{name} is {found:#x}");
        }
        for bad in ["", "ctl", "Retrun", "ctrl shift"] {
            assert!(matches!(parse(bad), Err(DesktopError::UnknownKey(name)) if name == bad), "{bad}");
        }
    }

    #[test]
    fn a_chord_is_its_keys_in_order() {
        let keys = |text: &str| chord(text).map(|keys| keys.into_iter().map(Keysym::raw).collect::<Vec<_>>()).ok();
        assert_eq!(keys("ctrl+shift+t"), Some(vec![key::Control_L, key::Shift_L, key::t]));
        assert_eq!(keys("ctrl++"), Some(vec![key::Control_L, key::plus]));
        assert_eq!(keys("+"), Some(vec![key::plus]));
        assert_eq!(keys("alt + Tab"), Some(vec![key::Alt_L, key::Tab]));
        assert_eq!(keys("ctrl+"), None);
        assert_eq!(keys(""), None);
    }
}
