//! Settings of a site, typed (PR-6).

use std::fmt;

use agentenv_protocol::WEBSITE_SETTINGS_ENV;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A type made of a deploy's settings; derive it.
///
/// ```
/// use agentenv_sdk::{SecretString, Settings};
///
/// #[derive(Settings)]
/// struct ShopSettings {
///     #[setting(default = "Kiln & Kettle")]
///     title: String,
///     #[setting(default = 20)]
///     page_size: u16,
///     motto: Option<String>,
///     payment_key: SecretString,
/// }
///
/// let settings = ShopSettings::from_json(r#"{"payment_key": "k", "page_size": "12"}"#).unwrap();
/// assert_eq!((settings.title.as_str(), settings.page_size), ("Kiln & Kettle", 12));
/// let error = ShopSettings::from_json(r#"{"page_size": "many"}"#).err().unwrap();
/// assert_eq!(error.to_string(), "the setting `page_size` is not a `u16`; the setting `payment_key` is missing");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` holds no settings",
    note = "put `#[derive(Settings)]` on it; a site without settings takes `()`"
)]
pub trait Settings: Sized + Send + Sync + 'static {
    #[doc(hidden)]
    fn read(reader: &mut SettingsReader) -> Option<Self>;

    /// Reads the settings that the deploy handed to this process.
    ///
    /// # Errors
    /// They don't fit; the error names the fields and never a value.
    fn load() -> Result<Self, SettingsError> {
        match std::env::var(WEBSITE_SETTINGS_ENV) {
            Ok(text) => Self::from_json(&text),
            Err(std::env::VarError::NotPresent) => Self::from_json("{}"),
            Err(std::env::VarError::NotUnicode(_)) => Err(SettingsError::NotAnObject),
        }
    }

    /// Reads settings from a JSON object.
    ///
    /// # Errors
    /// They don't fit; the error names the fields and never a value.
    fn from_json(text: &str) -> Result<Self, SettingsError> {
        let values = serde_json::from_str(text).map_err(|_| SettingsError::NotAnObject)?;
        let mut reader = SettingsReader { values, problems: Vec::new() };
        let settings = Self::read(&mut reader);
        let unknown = reader.values.keys().map(|name| SettingProblem::Unknown(name.clone()));
        reader.problems.extend(unknown);
        match settings {
            Some(settings) if reader.problems.is_empty() => Ok(settings),
            _ => Err(SettingsError::Fields(reader.problems)),
        }
    }
}

impl Settings for () {
    fn read(_reader: &mut SettingsReader) -> Option<Self> {
        Some(())
    }
}

/// Hands the values of settings to what `derive(Settings)` writes.
#[doc(hidden)]
pub struct SettingsReader {
    values: Map<String, Value>,
    problems: Vec<SettingProblem>,
}

impl SettingsReader {
    /// Takes one setting out; `None` where it noted a problem.
    pub fn read<T: DeserializeOwned>(&mut self, name: &str, ty: &str, fallback: Option<fn() -> T>) -> Option<T> {
        let Some(value) = self.values.shift_remove(name) else {
            // An `Option` reads nothing as null, under whatever name it was imported.
            let value = fallback.map(|make| make()).or_else(|| serde_json::from_value(Value::Null).ok());
            if value.is_none() {
                self.problems.push(SettingProblem::Missing(name.to_owned()));
            }
            return value;
        };
        // On a command line every value is a text: `--setting page_size=20`.
        let reread = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let read = serde_json::from_value(value).ok().or_else(|| serde_json::from_value(reread?).ok());
        if read.is_none() {
            self.problems.push(SettingProblem::Misfit(name.to_owned(), ty.to_owned()));
        }
        read
    }
}

/// Why settings don't fit. It never holds a value: settings may be secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// The variable holds something else than a JSON object.
    NotAnObject,
    /// These don't fit.
    Fields(Vec<SettingProblem>),
}

/// What is wrong with one setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingProblem {
    /// It has no default and was not given.
    #[error("the setting `{0}` is missing")]
    Missing(String),
    /// Its value is not of the type.
    #[error("the setting `{0}` is not a `{1}`")]
    Misfit(String, String),
    /// The site declares no such setting.
    #[error("the site has no setting `{0}`")]
    Unknown(String),
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnObject => write!(f, "{WEBSITE_SETTINGS_ENV} is not a JSON object"),
            Self::Fields(problems) => {
                for (index, problem) in problems.iter().enumerate() {
                    write!(f, "{}{problem}", if index > 0 { "; " } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for SettingsError {}
