//! What nothing may show, and text without it (ENV-7, LIVE-3): every log, error and answer of a deploy goes through here.

use std::{borrow::Cow, collections::BTreeSet, fmt, sync::Arc};

use agentenv_protocol::control::ControlError;
use secrecy::{ExposeSecret, SecretString};

/// What stands in a secret's place.
const MASKED: &str = "…";
/// The shortest line of a secret of several lines, such as a key file, that is a secret by itself.
const MIN_LINE_CHARS: usize = 8;

/// Secrets, in every form in which a program is likely to print them.
#[derive(Clone, Default)]
pub(crate) struct Mask {
    /// The longest first: one may be part of another.
    forms: Arc<[SecretString]>,
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mask({} forms)", self.forms.len())
    }
}

impl Mask {
    /// Hides these.
    pub(crate) fn of(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let forms: BTreeSet<String> = secrets.into_iter().flat_map(|secret| forms_of(&secret)).collect();
        Self::sorted(forms)
    }

    /// Hides these too.
    pub(crate) fn and(&self, secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let mut forms: BTreeSet<String> = self.forms.iter().map(|form| form.expose_secret().to_owned()).collect();
        forms.extend(secrets.into_iter().flat_map(|secret| forms_of(&secret)));
        Self::sorted(forms)
    }

    fn sorted(forms: BTreeSet<String>) -> Self {
        let mut forms: Vec<String> = forms.into_iter().filter(|form| !form.is_empty()).collect();
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        Self { forms: forms.into_iter().map(SecretString::from).collect() }
    }

    /// The text without any secret.
    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for form in self.forms.iter().map(ExposeSecret::expose_secret) {
            if text.contains(form) {
                text = Cow::Owned(text.replace(form, MASKED));
            }
        }
        text
    }

    /// The error without any secret.
    pub(crate) fn error(&self, error: ControlError) -> ControlError {
        ControlError {
            message: self.text(&error.message).into_owned(),
            hint: self.text(&error.hint).into_owned(),
            log: error.log.iter().map(|line| self.text(line).into_owned()).collect(),
            ..error
        }
    }

    /// Where a text that goes on later can be cut so that no secret is: not in the middle of one, nor where one may begin.
    pub(crate) fn cut(&self, text: &[u8]) -> usize {
        let Some(longest) = self.forms.first().map(|form| form.expose_secret().len()) else { return text.len() };
        // What is longer than the text is nowhere whole in it, and lines have to end somewhere.
        let mut at = text.len() - (longest - 1).min(text.len() / 2);
        loop {
            let before = at;
            for form in self.forms.iter().map(|form| form.expose_secret().as_bytes()) {
                let first = (at + 1).saturating_sub(form.len());
                let last = at.min(text.len().saturating_sub(form.len()));
                let found = (first..=last).find(|start| text[*start..].starts_with(form));
                at = found.filter(|start| *start < at).map_or(at, |start| at.max(start + form.len()));
            }
            if at == before {
                return at;
            }
        }
    }
}

fn forms_of(secret: &SecretString) -> Vec<String> {
    forms(secret.expose_secret())
}

/// A secret as it is, as JSON and as programs quote it, and its lines.
fn forms(secret: &str) -> Vec<String> {
    let json = |text: &str| {
        let quoted = serde_json::Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let once = json(secret);
    // JSON within JSON, as in a log whose lines are JSON.
    let twice = json(&once);
    // JSON of those who keep to ASCII, and to the last `/`.
    let ascii: String = once
        .chars()
        .map(|c| {
            if c.is_ascii() {
                c.to_string()
            } else {
                c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
            }
        })
        .collect();
    let slashes = once.replace('/', "\\/");
    // Rust and Python quote the quotes that they put around it, or none.
    let debug = format!("{secret:?}");
    let plain = once.replace("\\\"", "\"");
    let single = plain.replace('\'', "\\'");
    let mut forms =
        vec![secret.to_owned(), once, twice, ascii, slashes, debug[1..debug.len() - 1].to_owned(), plain, single];
    if secret.contains('\n') {
        let lines = secret.lines().map(|line| line.trim_end_matches('\r'));
        forms.extend(lines.filter(|line| line.chars().count() >= MIN_LINE_CHARS).map(str::to_owned));
    }
    forms
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
        ] {
            let shown = mask.text(&text);
            for part in ["ss", "wo", "rd", "${Y}"] {
                assert!(!shown.contains(part), "{shown}");
            }
        }
        assert_eq!(mask.text("nothing of it"), "nothing of it");
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
        assert_eq!(format!("{:?}", mask(&["hunter2"])).contains("hunter2"), false);
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
        for before in 0..60 {
            let text = format!("{}{secret}{}", "-".repeat(before), "+".repeat(60 - before));
            let at = mask.cut(text.as_bytes());
            let shown = format!("{}|{}", mask.text(&text[..at]), mask.text(&text[at..]));
            assert!(!shown.contains("hun") && !shown.contains("er2"), "{before}: {shown}");
            assert!(at > 20, "{at}");
        }
        // One that has only begun is not torn.
        let begun = format!("{}hunter2hunter", "-".repeat(60));
        assert!(mask.cut(begun.as_bytes()) <= 60);
        assert_eq!(Mask::default().cut(b"abc"), 3);
    }
}
