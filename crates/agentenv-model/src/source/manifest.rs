//! Cargo.toml, as far as the reading of a declaration needs it.

use toml_edit::{Document, Item, TableLike};

use crate::parse::is_inner_path;

/// The package of the SDK.
const SDK: &str = "agentenv-sdk";

/// What a Cargo.toml says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RustManifest {
    /// The name by which the package's programs import its own library.
    pub library: Option<String>,
    /// The names by which the SDK is imported; without one the package is no site of ours.
    pub sdk: Vec<String>,
}

impl RustManifest {
    /// Reads a Cargo.toml; what is none says nothing, and cargo will say why.
    pub fn read(text: &str) -> Self {
        let Ok(document) = Document::parse(text) else { return Self::default() };
        let root = document.as_table();
        let name = |table: &str| root.get(table).and_then(|item| item.get("name")).and_then(Item::as_str);
        let library = name("lib").or_else(|| name("package")).map(imported);
        let mut sdk = Vec::new();
        let targets = root.get("target").and_then(Item::as_table_like);
        let of_targets = targets.into_iter().flat_map(|targets| targets.iter()).map(|(_, target)| target);
        for table in std::iter::once(root as &dyn TableLike).chain(of_targets.filter_map(Item::as_table_like)) {
            let Some(dependencies) = table.get("dependencies").and_then(Item::as_table_like) else { continue };
            for (key, dependency) in dependencies.iter() {
                let package = dependency.get("package").and_then(Item::as_str).unwrap_or(key);
                if package == SDK {
                    sdk.push(imported(key));
                }
            }
        }
        Self { library, sdk }
    }
}

/// A package's name as code has it.
fn imported(name: &str) -> String {
    name.replace('-', "_")
}

/// The folder of the bundle in which an env.toml has its server built: where cargo is sent, or the bundle itself. `None` where
/// the env has no server of its own. Wrong files are [`crate::parse_env`]'s to refuse.
pub fn server_folder(env_toml: &str) -> Option<String> {
    let document = Document::parse(env_toml).ok()?;
    let server = document.get("server")?;
    let words: Vec<&str> = match server.get("build").and_then(Item::as_array) {
        Some(build) => build.iter().filter_map(|word| word.as_str()).collect(),
        None => Vec::new(),
    };
    let of_cargo = words.first().is_some_and(|program| program.rsplit('/').next() == Some("cargo"));
    let folder = if of_cargo { cargo_folder(&words) } else { None };
    Some(folder.filter(|folder| is_inner_path(folder)).unwrap_or_else(|| ".".to_owned()))
}

fn cargo_folder(words: &[&str]) -> Option<String> {
    let value = |flag: &str| {
        words.iter().enumerate().find_map(|(index, word)| match word.strip_prefix(flag)? {
            "" => words.get(index + 1).copied(),
            rest => rest.strip_prefix('='),
        })
    };
    let manifest = || Some(value("--manifest-path")?.strip_suffix("Cargo.toml")?.trim_end_matches('/'));
    let folder = value("--path").or_else(manifest)?;
    let folder = folder.strip_prefix("./").unwrap_or(folder).trim_end_matches('/');
    Some(if folder.is_empty() { "." } else { folder }.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_of_ours_depends_on_the_sdk() {
        for (text, library, sdk) in [
            (
                "[package]\nname = 'my-shop'\n[dependencies]\nagentenv-sdk = '0.1'",
                Some("my_shop"),
                vec!["agentenv_sdk"],
            ),
            ("[dependencies]\nsdk = { package = 'agentenv-sdk', version = '0.1' }", None, vec!["sdk"]),
            (
                "[dependencies.agentenv-sdk]\nworkspace = true\n[lib]\nname = 'other'",
                Some("other"),
                vec!["agentenv_sdk"],
            ),
            ("[target.'cfg(unix)'.dependencies]\nagentenv-sdk = '0.1'", None, vec!["agentenv_sdk"]),
            ("[package]\nname = 'shop'\n[dev-dependencies]\nagentenv-sdk = '0.1'", Some("shop"), vec![]),
            ("[dependencies]\naxum = '0.8'", None, vec![]),
            ("[dependencies]\nagentenv-sdk = { package = 'other', version = '1' }", None, vec![]),
            ("not toml", None, vec![]),
            ("dependencies = 5\ntarget = 'x'", None, vec![]),
        ] {
            let manifest = RustManifest::read(text);
            assert_eq!(manifest.library.as_deref(), library, "{text}");
            assert_eq!(manifest.sdk, sdk, "{text}");
        }
    }

    #[test]
    fn a_server_is_built_where_cargo_is_sent() {
        for (server, folder) in [
            ("command = ['x']", "."),
            ("build = ['make']", "."),
            ("build = ['make', '--path', 'server']", "."),
            ("build = ['cargo', 'install', '--path', '.', '--root', '.']", "."),
            ("build = ['cargo', 'install', '--path', 'server']", "server"),
            ("build = ['/usr/bin/cargo', 'install', '--path=./apps/server/']", "apps/server"),
            ("build = ['cargo', 'build', '--manifest-path', 'server/Cargo.toml']", "server"),
            ("build = ['cargo', 'build', '--manifest-path=Cargo.toml']", "."),
            ("build = ['cargo', 'install', '--path', '../outside']", "."),
            ("build = ['cargo', 'install', '--path', '/etc']", "."),
            ("build = ['cargo', 'install', '--path']", "."),
            ("build = 5", "."),
        ] {
            assert_eq!(server_folder(&format!("[server]\n{server}")).as_deref(), Some(folder), "{server}");
        }
        for text in ["", "image = 'shop:1'", "kind = 'browser'", "[server", "not toml"] {
            assert_eq!(server_folder(text), None, "{text}");
        }
    }
}
