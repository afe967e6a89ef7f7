//! What nothing may show, and text without it (ENV-7, LIVE-3): every log, error and answer of a deploy goes through here.
//!
//! Programs quote what they print: as JSON, as JSON in JSON, as Rust, Python or a shell do, as parts of a URL or of HTML. So a
//! secret is not looked for as it is, but letter by letter, each as it is or escaped, with any number of backslashes before.

use std::{borrow::Cow, fmt, sync::Arc};

use agentenv_protocol::control::ControlError;
use secrecy::{ExposeSecret, SecretString};

/// What stands in a secret's place.
const MASKED: &str = "…";
/// The shortest line of a secret of several lines, such as a key file, that is a secret by itself.
const MIN_LINE_CHARS: usize = 8;
/// How much longer than a secret its longest likely form is: `\\\\u00fc` for two bytes, `%C3%BC` for the same.
const LONGEST_FORM: usize = 6;

/// Secrets, and their long lines.
#[derive(Clone, Default)]
pub(crate) struct Mask {
    /// The longest first: one may be part of another.
    secrets: Arc<[SecretString]>,
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mask({} secrets)", self.secrets.len())
    }
}

impl Mask {
    /// Hides these.
    pub(crate) fn of(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        Self::default().and(secrets)
    }

    /// Hides these too.
    pub(crate) fn and(&self, secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let mut all: Vec<SecretString> = self.secrets.to_vec();
        for secret in secrets {
            let text = secret.expose_secret();
            let lines = text.lines().filter(|line| *line != text && line.chars().count() >= MIN_LINE_CHARS);
            all.extend(lines.map(SecretString::from));
            all.push(secret);
        }
        all.retain(|secret| !secret.expose_secret().is_empty());
        all.sort_by(|a, b| {
            let (a, b) = (a.expose_secret(), b.expose_secret());
            b.len().cmp(&a.len()).then_with(|| a.cmp(b))
        });
        all.dedup_by(|a, b| a.expose_secret() == b.expose_secret());
        Self { secrets: all.into() }
    }

    /// The text without any secret.
    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut masked = String::new();
        let (mut at, mut kept) = (0, 0);
        while at < text.len() {
            match self.length_at(&text.as_bytes()[at..]) {
                Some(length) => {
                    masked.push_str(&text[kept..at]);
                    masked.push_str(MASKED);
                    at += length;
                    kept = at;
                }
                None => at += text[at..].chars().next().map_or(1, char::len_utf8),
            }
        }
        match masked.is_empty() {
            true => Cow::Borrowed(text),
            false => Cow::Owned(masked + &text[kept..]),
        }
    }

    /// The error without any secret.
    pub(crate) fn error(&self, error: ControlError) -> ControlError {
        let hide = |text: String| match self.text(&text) {
            Cow::Owned(masked) => masked,
            Cow::Borrowed(_) => text,
        };
        ControlError {
            message: hide(error.message),
            hint: hide(error.hint),
            log: error.log.into_iter().map(hide).collect(),
            exit: error.exit,
            kind: error.kind,
        }
    }

    /// Where a text that goes on later can be cut so that no secret is: not in the middle of one, nor where one may begin.
    pub(crate) fn cut(&self, text: &[u8]) -> usize {
        let Some(longest) = self.secrets.first() else { return text.len() };
        // What is longer than the text is nowhere whole in it, and lines have to end somewhere.
        let reach = (longest.expose_secret().len() * LONGEST_FORM).min(text.len() / 2);
        let at = text.len() - reach;
        let crossing =
            |start: usize| self.length_at(&text[start..]).map(|length| start + length).filter(|end| *end > at);
        (at.saturating_sub(reach)..at).find_map(crossing).unwrap_or(at)
    }

    /// The length of the secret at the beginning of a text, in whatever form.
    fn length_at(&self, text: &[u8]) -> Option<usize> {
        self.secrets.iter().find_map(|secret| form_at(secret.expose_secret(), text))
    }
}

/// The length of a form of the secret at the beginning of a text.
fn form_at(secret: &str, text: &[u8]) -> Option<usize> {
    let mut at = 0;
    for c in secret.chars() {
        at += backslashes(&text[at..]);
        at += match c {
            // How many they are depends on how often the text was quoted.
            '\\' => escaped(c, &text[at..]).unwrap_or(0),
            c => literal(c, &text[at..]).or_else(|| escaped(c, &text[at..]))?,
        };
    }
    // Nothing but backslashes, and none there.
    (at > 0).then_some(at)
}

fn backslashes(text: &[u8]) -> usize {
    text.iter().take_while(|byte| **byte == b'\\').count()
}

fn literal(c: char, text: &[u8]) -> Option<usize> {
    text.starts_with(c.encode_utf8(&mut [0; 4]).as_bytes()).then(|| c.len_utf8())
}

/// The length of an escape of the character at the beginning of a text, backslashes left aside. Nobody escapes a letter or digit.
fn escaped(c: char, text: &[u8]) -> Option<usize> {
    if c.is_ascii_alphanumeric() || text.is_empty() {
        return None;
    }
    let named = match c {
        '\n' => "n",
        '\r' => "r",
        '\t' => "t",
        '\u{8}' => "b",
        '\u{b}' => "v",
        '\u{c}' => "f",
        '\u{1b}' => "e",
        ' ' => "+",
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '"' => "&quot;",
        '\'' => "&#39;",
        _ => "",
    };
    if !named.is_empty() && text.starts_with(named.as_bytes()) {
        return Some(named.len());
    }
    // How each of the others begins: at most places of a text there is none.
    if !matches!(text[0], b'u' | b'U' | b'x' | b'X' | b'%' | b'&') {
        return None;
    }
    let mut units = [0; 2];
    let units: Vec<String> = c.encode_utf16(&mut units).iter().map(|unit| format!("u{unit:04x}")).collect();
    let bytes = |prefix: char| c.to_string().bytes().map(|byte| format!("{prefix}{byte:02x}")).collect::<Vec<_>>();
    let code = u32::from(c);
    let others = [
        units,
        bytes('x'),
        bytes('%'),
        vec![format!("x{code:02x}")],
        vec![format!("u{{{code:x}}}")],
        vec![format!("U{code:08x}")],
        vec![format!("&#x{code:x};")],
        vec![format!("&#{code};")],
    ];
    others.iter().find_map(|parts| parts_at(parts, text))
}

/// The length of these parts at the beginning of a text, in whatever case, with backslashes between them.
fn parts_at(parts: &[String], text: &[u8]) -> Option<usize> {
    let mut at = 0;
    for part in parts {
        at += backslashes(&text[at..]);
        text.get(at..at + part.len()).filter(|found| found.eq_ignore_ascii_case(part.as_bytes()))?;
        at += part.len();
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(secrets: &[&str]) -> Mask {
        Mask::of(secrets.iter().map(|secret| SecretString::from(*secret)))
    }

    #[test]
    fn row_58_a_secret_is_hidden_in_every_form_in_which_programs_print_it() {
        let secret = "p\"a'ss\\wo/rd\tü$x${Y}\u{1}";
        let mask = mask(&[secret]);
        let json = serde_json::json!({ "a": secret }).to_string();
        for text in [
            secret.to_owned(),
            format!("before {secret} after"),
            json.clone(),
            serde_json::Value::from(json).to_string(),
            format!("{secret:?}"),
            // What Python prints of it, as JSON and quoted.
            r#"{"a": "p\"a'ss\\wo/rd\t\u00fc$x${Y}\u0001"}"#.to_owned(),
            r#"{"a":"p\"a'ss\\wo\/rd\tü$x${Y}\u0001"}"#.to_owned(),
            r#"{"a": "\"p\\\"a'ss\\\\wo/rd\\t\\u00fc$x${Y}\\u0001\""}"#.to_owned(),
            r#"b'p"a\'ss\\wo/rd\t\xc3\xbc$x${Y}\x01'"#.to_owned(),
            r#"'p"a\'ss\\wo/rd\tü$x${Y}\x01'"#.to_owned(),
            "?t=p%22a%27ss%5Cwo%2Frd%09%C3%BC%24x%24%7BY%7D%01&x".to_owned(),
            "p&quot;a&#39;ss\\wo/rd\tü$x${Y}\u{1}".to_owned(),
            "p&#34;a&#x27;ss\\wo/rd\t&#252;$x${Y}\u{1}".to_owned(),
        ] {
            let shown = mask.text(&text);
            for part in ["ss", "wo", "rd", "${Y}"] {
                assert!(!shown.contains(part), "{shown}");
            }
        }
        assert_eq!(mask.text("nothing of it"), "nothing of it");
        assert_eq!(mask.text("ü…"), "ü…");
    }

    #[test]
    fn lines_of_a_key_are_secrets_and_its_short_ones_are_not() {
        let mask = mask(&["-----BEGIN KEY-----\nMIIEvQIBADANBg\r\nab==\n-----END KEY-----\n"]);
        assert_eq!(mask.text("1: MIIEvQIBADANBg"), "1: …");
        assert_eq!(mask.text("ab=="), "ab==");
    }

    #[test]
    fn of_two_secrets_one_in_the_other_nothing_is_left() {
        assert_eq!(mask(&["abc", "xabcx", ""]).text("xabcx abc x"), "… … x");
        assert_eq!(mask(&["abc"]).and(["def".into()]).text("abcdefg"), "……g");
        assert!(!format!("{:?}", mask(&["hunter2"])).contains("hunter2"));
        assert_eq!(mask(&["\\\\", "a\\b"]).text(r"x\\y a\b a\\b ab"), "x…y … … …");
        assert_eq!(Mask::of([]).text("x"), "x");
    }

    #[test]
    fn an_error_has_no_secret_in_any_of_its_parts() {
        let error = ControlError::infrastructure("a hunter2").hint("b hunter2").log(vec!["c hunter2".to_owned()]);
        let shown = format!("{:?}", mask(&["hunter2"]).error(error));
        assert!(!shown.contains("hunter2") && shown.contains("a …"), "{shown}");
    }

    #[test]
    fn a_long_text_is_cut_where_no_secret_is() {
        let secret = "hunter2hunter2";
        let mask = mask(&[secret, "2x"]);
        for before in 0..260 {
            let text = format!("{}{secret}{}", "-".repeat(before), "+".repeat(260 - before));
            let at = mask.cut(text.as_bytes());
            let shown = format!("{}|{}", mask.text(&text[..at]), mask.text(&text[at..]));
            assert!(!shown.contains("hun") && !shown.contains("er2"), "{before}: {shown}");
            assert!(at > 100, "{at}");
        }
        // One that has only begun is not torn.
        let begun = format!("{}hunter2hunter", "-".repeat(260));
        assert!(mask.cut(begun.as_bytes()) <= 260);
        assert_eq!(Mask::default().cut(b"abc"), 3);
    }
}
