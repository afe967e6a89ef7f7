//! Names and ids.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a text is not a name or an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}: {accepted}")]
pub struct IdError {
    text: String,
    what: &'static str,
    accepted: &'static str,
}

impl IdError {
    /// Says that `text` is not `what`, and what is.
    pub(crate) fn new(text: &str, what: &'static str, accepted: &'static str) -> Self {
        Self { text: text.to_owned(), what, accepted }
    }
}

/// What a type with `parse` and `Display` is as a text elsewhere: in JSON, and for `str::parse`.
macro_rules! text_forms {
    ($type:ty, $error:ty) => {
        impl std::str::FromStr for $type {
            type Err = $error;
            fn from_str(text: &str) -> Result<Self, $error> {
                Self::parse(text)
            }
        }
        impl TryFrom<String> for $type {
            type Error = $error;
            fn try_from(text: String) -> Result<Self, $error> {
                Self::parse(&text)
            }
        }
        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    };
}
pub(crate) use text_forms;

macro_rules! id {
    ($(#[$doc:meta])* $type:ident, $what:literal, $accepted:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// Parses the text.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                let check: fn(&str) -> bool = $check;
                if check(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(IdError::new(text, $what, $accepted))
                }
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "`{}`", self.0)
            }
        }
        text_forms!($type, IdError);
    };
}

id!(
    /// The name of an env, a website, a browser, a service, or a deploy that was given one.
    Name,
    "a name",
    "lower-case letters, digits and `-`, a letter first, 63 characters at most",
    is_name
);
id!(
    /// The id of a deploy: `d-` and 12 hexadecimal digits.
    DeployId,
    "a deploy id",
    "`d-` and 12 hexadecimal digits",
    |text| is_random(text, "d-")
);
id!(
    /// The id of a run: `r-` and 12 hexadecimal digits.
    RunId,
    "a run id",
    "`r-` and 12 hexadecimal digits",
    |text| is_random(text, "r-")
);
id!(
    /// The id of an artifact: `a-` and 12 hexadecimal digits.
    ArtifactId,
    "an artifact id",
    "`a-` and 12 hexadecimal digits",
    |text| is_random(text, "a-")
);
id!(
    /// The id of an artifact universe: `u-` and 12 hexadecimal digits.
    UniverseId,
    "an artifact universe's id",
    "`u-` and 12 hexadecimal digits",
    |text| is_random(text, "u-")
);
id!(
    /// The SHA-256 of stored bytes, in hexadecimal.
    Digest,
    "a digest",
    "64 lower-case hexadecimal digits",
    |text| text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
);
id!(
    /// A sandbox's service as people write it: `browser`, or `tracker/frontend`.
    SandboxName,
    "a sandbox",
    "a browser's name, or a website's and a service's name joined by `/`",
    |text| match text.split_once('/') {
        Some((site, service)) => is_name(site) && is_name(service),
        None => is_name(text),
    }
);

id!(
    /// The path of a stored secret, such as `github/token`.
    SecretPath,
    "a secret's path",
    "letters, digits, `.`, `_`, `-` between `/`, 200 characters at most",
    |text| text.len() <= 200 && text.split('/').all(is_path_word)
);

fn is_path_word(word: &str) -> bool {
    !matches!(word, "" | "." | "..")
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

fn is_name(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn is_random(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix)
        .is_some_and(|rest| rest.len() == 12 && rest.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)))
}

/// What the variables begin with that hold secrets for `secret:` references, in place of stored ones.
pub const SECRET_VARIABLE_PREFIX: &str = "AGENTENV_SECRET_";

impl SecretPath {
    /// The variable that holds the secret where one does: `AGENTENV_SECRET_GITHUB_TOKEN` for `github/token`.
    pub fn variable(&self) -> String {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        SECRET_VARIABLE_PREFIX.chars().chain(self.0.chars().map(letter)).collect()
    }
}

impl DeployId {
    /// Makes a new random id.
    pub fn random() -> Self {
        Self(format!("d-{}", hex::encode(rand::random::<[u8; 6]>())))
    }
}

impl RunId {
    /// Makes a new random id.
    pub fn random() -> Self {
        Self(format!("r-{}", hex::encode(rand::random::<[u8; 6]>())))
    }
}

impl ArtifactId {
    /// Makes a new random id.
    pub fn random() -> Self {
        Self(format!("a-{}", hex::encode(rand::random::<[u8; 6]>())))
    }
}

impl UniverseId {
    /// Makes a new random id.
    pub fn random() -> Self {
        Self(format!("u-{}", hex::encode(rand::random::<[u8; 6]>())))
    }
}

impl Digest {
    /// Takes the 32 bytes of a finished SHA-256.
    pub fn from_sha256(bytes: [u8; 32]) -> Self {
        Self(hex::encode(bytes))
    }
}

impl SandboxName {
    /// The sandbox of one service of a website.
    pub fn of_service(website: &Name, service: &Name) -> Self {
        Self(format!("{website}/{service}"))
    }

    /// The sandbox of a browser.
    pub fn of_browser(browser: &Name) -> Self {
        Self(browser.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_secrets() {
        for (text, good) in [
            ("token", true),
            ("github/token-1.key", true),
            (".hidden/a", true),
            ("", false),
            ("/a", false),
            ("a/", false),
            ("a//b", false),
            ("../a", false),
            ("a/./b", false),
            ("a b", false),
            ("a+b", false),
            ("ü", false),
            (&"a".repeat(200), true),
            (&"a".repeat(201), false),
        ] {
            assert_eq!(SecretPath::parse(text).is_ok(), good, "{text}");
        }
        assert_eq!(SecretPath::parse("github/token-1.key").unwrap().variable(), "AGENTENV_SECRET_GITHUB_TOKEN_1_KEY");
    }

    #[test]
    fn names() {
        for (text, good) in [
            ("shop", true),
            ("a-1", true),
            ("", false),
            ("1a", false),
            ("A", false),
            ("a-", false),
            ("a/b", false),
            ("../x", false),
        ] {
            assert_eq!(Name::parse(text).is_ok(), good, "{text}");
        }
        assert!(SandboxName::parse("tracker/frontend").is_ok() && SandboxName::parse("a/b/c").is_err());
        assert!(DeployId::parse(DeployId::random().as_str()).is_ok() && DeployId::parse("d-xyz").is_err());
    }
}
