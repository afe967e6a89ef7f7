//! The locale of a desktop's language: programs speak it only where the C library has it, and Debian has definitions, not locales.

use std::fs;

/// Where the definitions are, from the package `locales`.
const DEFINITIONS: &str = "/usr/share/i18n/locales";
/// Makes a locale of one; it is there with every C library.
pub(super) const COMPILER: &str = "/usr/bin/localedef";
/// What programs say without a locale.
const ENGLISH: [&str; 2] = ["en", "en_US"];

/// The locale that a language needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Locale {
    /// None: programs speak it anyway.
    BuiltIn,
    /// A definition of this name.
    Defined(String),
    /// One that this machine has no definition of.
    Unknown,
}

impl Locale {
    /// Looks for a language, as `LANGUAGE` has it, on this machine.
    pub(super) fn of(language: &str) -> Self {
        let entries = fs::read_dir(DEFINITIONS).into_iter().flatten().flatten();
        let mut known: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        known.sort();
        Self::among(language, &known)
    }

    /// Looks among definitions, in order: for the language in its region, in the one that has its name (`de_DE`), in any.
    fn among(language: &str, known: &[String]) -> Self {
        if ENGLISH.contains(&language) {
            return Self::BuiltIn;
        }
        let mut parts = language.split('_');
        let spoken = parts.next().unwrap_or_default().to_lowercase();
        // A script may stand between: `zh_Hant_TW`.
        let region = parts.find(|part| part.len() == 2).unwrap_or(&spoken).to_uppercase();
        let is = |region: &str| known.iter().find(|name| **name == format!("{spoken}_{region}"));
        let found = is(&region).or_else(|| is(&spoken.to_uppercase()));
        let found = found.or_else(|| known.iter().find(|name| is_region_of(name, &spoken)));
        found.cloned().map_or(Self::Unknown, Self::Defined)
    }
}

/// Whether a definition is of a language in a region, and of no variant such as `de_DE@euro`.
fn is_region_of(name: &str, spoken: &str) -> bool {
    let region = name.strip_prefix(spoken).and_then(|rest| rest.strip_prefix('_'));
    region.is_some_and(|region| region.len() == 2 && region.bytes().all(|byte| byte.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_has_a_definition_or_needs_none() {
        let known = ["C", "de_AT", "de_DE", "de_DE@euro", "en_GB", "ja_JP", "translit_de", "zh_CN", "zh_TW"];
        let known = known.map(str::to_owned);
        for (language, expected) in [
            ("de_AT", Some("de_AT")),
            ("de", Some("de_DE")),
            ("ja", Some("ja_JP")),
            ("zh_Hant_TW", Some("zh_TW")),
            ("zh", Some("zh_CN")),
            ("en_GB", Some("en_GB")),
            ("DE_at", Some("de_AT")),
            ("de_CH", Some("de_DE")),
            ("tlh", None),
        ] {
            let expected = expected.map_or(Locale::Unknown, |name| Locale::Defined(name.to_owned()));
            assert_eq!(Locale::among(language, &known), expected, "{language}");
        }
        for language in ["en", "en_US"] {
            assert_eq!(Locale::among(language, &[]), Locale::BuiltIn);
        }
    }
}
