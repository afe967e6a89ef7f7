//! Settings and the references that stand for their values (ENV-7).

use std::{fmt, str::FromStr};

use agentenv_protocol::SecretPath;
use serde::{Deserialize, Serialize};

/// The longest name of a setting or a variable: for messages that people can read.
const MAX_NAME_LEN: usize = 64;
/// What separates a reference from its default.
const DEFAULT_MARK: &str = "?default=";

/// Why a text is not a reference, or not a setting's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// Not a name.
    #[error("`{0}` is not a setting's name")]
    Name(String),
    /// What follows `env:` is not a variable's name.
    #[error("`env:{0}` does not name an environment variable")]
    Variable(String),
    /// What follows `secret:` is not a path.
    #[error("`secret:{0}` does not name a secret")]
    Path(String),
    /// Something other than `?default=` follows.
    #[error("`?{0}` is not part of a reference")]
    Query(String),
}

impl ReferenceError {
    /// What is accepted instead.
    pub fn accepted(&self) -> &'static str {
        match self {
            Self::Name(_) => "letters, digits and `_`, no digit first, 64 characters at most",
            Self::Variable(_) => "`env:NAME`, a name of letters, digits and `_`, no digit first",
            Self::Path(_) => {
                "`secret:PATH`, a path of letters, digits, `.`, `_`, `-` between `/`, 200 characters at most"
            }
            Self::Query(_) => "`?default=` and a value",
        }
    }
}

macro_rules! variable {
    ($(#[$doc:meta])* $type:ident, $error:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// Parses the text.
            pub fn parse(text: &str) -> Result<Self, ReferenceError> {
                if is_variable(text) { Ok(Self(text.to_owned())) } else { Err(ReferenceError::$error(text.to_owned())) }
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
        impl TryFrom<String> for $type {
            type Error = ReferenceError;
            fn try_from(text: String) -> Result<Self, ReferenceError> {
                Self::parse(&text)
            }
        }
        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.0
            }
        }
    };
}

variable!(
    /// The name of a setting.
    SettingName,
    Name
);
variable!(
    /// The name of a variable of the command that deploys.
    EnvVariable,
    Variable
);

fn is_variable(text: &str) -> bool {
    text.len() <= MAX_NAME_LEN
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// What stands for a value that is known only when the deploy starts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reference {
    /// `env:NAME`: a variable of the command that deploys.
    Env {
        /// The variable.
        name: EnvVariable,
        /// What it is where the variable is not set.
        default: Option<String>,
    },
    /// `secret:PATH`: a stored secret.
    Secret {
        /// The secret.
        path: SecretPath,
        /// What it is where there is none.
        default: Option<String>,
    },
}

impl Reference {
    /// Parses a reference; `None` where the text is an ordinary value.
    pub fn parse(text: &str) -> Option<Result<Self, ReferenceError>> {
        let (kind, rest) = text.split_once(':').filter(|(kind, _)| matches!(*kind, "env" | "secret"))?;
        Some(Self::parse_after(kind, rest))
    }

    fn parse_after(kind: &str, rest: &str) -> Result<Self, ReferenceError> {
        let (target, default) = match rest.split_once('?') {
            None => (rest, None),
            Some((target, query)) => match rest[target.len()..].strip_prefix(DEFAULT_MARK) {
                Some(default) => (target, Some(default.to_owned())),
                None => return Err(ReferenceError::Query(query.to_owned())),
            },
        };
        if kind == "env" {
            return Ok(Self::Env { name: EnvVariable::parse(target)?, default });
        }
        let path = SecretPath::parse(target).map_err(|_| ReferenceError::Path(target.to_owned()))?;
        Ok(Self::Secret { path, default })
    }

    /// Whether it has no default: a secret setting's must not.
    pub fn is_bare(&self) -> bool {
        match self {
            Self::Env { default, .. } | Self::Secret { default, .. } => default.is_none(),
        }
    }
}

impl fmt::Display for Reference {
    /// Without the default, which may be a value that somebody minds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env { name, .. } => write!(f, "env:{name}"),
            Self::Secret { path, .. } => write!(f, "secret:{path}"),
        }
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;
    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        Self::parse(text).unwrap_or_else(|| Err(ReferenceError::Variable(text.to_owned())))
    }
}

/// The value of a setting as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingValue {
    /// A string, a number or a boolean.
    Literal(serde_json::Value),
    /// What stands for one.
    Reference(Reference),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str, default: Option<&str>) -> Reference {
        Reference::Env { name: EnvVariable::parse(name).unwrap(), default: default.map(str::to_owned) }
    }

    #[test]
    fn references() {
        let secret = |path: &str, default: Option<&str>| Reference::Secret {
            path: SecretPath::parse(path).unwrap(),
            default: default.map(str::to_owned),
        };
        for (text, expected) in [
            ("env:API_KEY", env("API_KEY", None)),
            ("env:API_KEY?default=", env("API_KEY", Some(""))),
            ("env:API_KEY?default=a?b=c:d", env("API_KEY", Some("a?b=c:d"))),
            ("secret:shop/admin-1.key", secret("shop/admin-1.key", None)),
            ("secret:a?default=x", secret("a", Some("x"))),
        ] {
            assert_eq!(Reference::parse(text), Some(Ok(expected)), "{text}");
        }
        for text in
            ["env:", "env:1A", "env:A-B", "env:A?", "env:A?x=1", "secret:", "secret:/a", "secret:a//b", "secret:../a"]
        {
            assert!(matches!(Reference::parse(text), Some(Err(_))), "{text}");
        }
        for text in ["", "environment", "https://shop.test", "ENV:A", "a env:A"] {
            assert_eq!(Reference::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_reference_is_shown_without_its_default() {
        assert_eq!(env("A", Some("hunter2")).to_string(), "env:A");
        assert!(env("A", None).is_bare() && !env("A", Some("")).is_bare());
    }
}
