//! env.toml, version 1 (ENV-1, ENV-2).

mod declared;
mod others;
mod reader;
mod settings;
mod website;

use agentenv_protocol::Name;
use toml_edit::Document;

use self::reader::{Reader, Section};
pub(crate) use self::website::is_inner_path;
use crate::{
    BrowserSpec, ComputerSpec, Declaration, EnvKind, MultiFile, Place, Problems, WebsiteSpec,
    env::FORMAT,
    problem::{did_you_mean, listed},
};

/// The longest env.toml: people write a page, and a parser should not be handed a disk.
pub const MAX_ENV_FILE_BYTES: usize = 256 * 1024;

/// One env.toml, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvFile {
    /// The env's name.
    pub name: Name,
    /// What it defines.
    pub spec: FileSpec,
    /// What people should know of it.
    pub warnings: Vec<String>,
}

impl EnvFile {
    /// Its kind.
    pub fn kind(&self) -> EnvKind {
        match &self.spec {
            FileSpec::Website(_) => EnvKind::Website,
            FileSpec::Browser(_) => EnvKind::Browser,
            FileSpec::Computer(_) => EnvKind::Computer,
            FileSpec::Multi(_) => EnvKind::Multi,
        }
    }
}

/// What an env.toml defines.
#[derive(Clone, Debug, PartialEq)]
pub enum FileSpec {
    /// One site.
    Website(WebsiteSpec),
    /// A browser.
    Browser(BrowserSpec),
    /// A desktop.
    Computer(ComputerSpec),
    /// Several envs, whose members are still to be looked up: see [`crate::resolve_multi`].
    Multi(MultiFile),
}

/// What the flags of `website put` say (ENV-6); each takes the place of what env.toml says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--name`.
    pub name: Option<String>,
    /// `--live`, `--no-live`.
    pub live: Option<bool>,
    /// `--domain`, any number of times.
    pub domains: Vec<String>,
    /// `--allow-host`, any number of times.
    pub allow_hosts: Vec<String>,
    /// `--setting KEY=VALUE`, any number of times.
    pub settings: Vec<String>,
    /// `--secret-setting NAME`, any number of times.
    pub secret_settings: Vec<String>,
    /// `--image`.
    pub image: Option<String>,
}

impl Flags {
    /// Whether no flag was given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Parses the text of an env.toml; `file` is what problems call it.
pub fn parse_env(file: &str, text: &str) -> Result<EnvFile, Problems> {
    parse_env_with_flags(file, text, &Flags::default())
}

/// Parses the text of a website's env.toml with the flags of `website put`: the same rules hold for both. An image env
/// may do without a file: then the text is empty.
pub fn parse_env_with_flags(file: &str, text: &str, flags: &Flags) -> Result<EnvFile, Problems> {
    parse_env_of_source(file, text, flags, None)
}

/// Parses the text of a website's env.toml beside what the server's own source declares (ENV-5): what neither the file nor a
/// flag gives is taken from there, and what they give must not contradict it.
pub fn parse_env_of_source(
    file: &str,
    text: &str,
    flags: &Flags,
    declaration: Option<&Declaration>,
) -> Result<EnvFile, Problems> {
    let mut reader = Reader::new(file, text);
    let file = read(&mut reader, flags, declaration);
    match file {
        Some(file) => Problems::check(file, reader.into_problems()),
        None => Err(Problems::of(reader.into_problems())),
    }
}

/// `None` only where a problem is noted.
fn read(reader: &mut Reader<'_>, flags: &Flags, declaration: Option<&Declaration>) -> Option<EnvFile> {
    if reader.text().len() > MAX_ENV_FILE_BYTES {
        let message = format!("the file has {} bytes", reader.text().len());
        reader.problem(reader.start(), message, format!("accepted: up to {MAX_ENV_FILE_BYTES}"));
        return None;
    }
    let document = match Document::parse(reader.text()) {
        Ok(document) => document,
        Err(error) => {
            let mut message = error.message().lines().collect::<Vec<_>>().join(", ");
            let written = reader.written(error.span());
            if !written.is_empty() {
                message = format!("`{written}`: {message}");
            }
            reader.problem(reader.place(error.span()), message, "accepted: TOML 1.0");
            return None;
        }
    };
    let mut root = Section::root(document.as_table());
    let flags_alone = reader.text().trim().is_empty() && flags.image.is_some();
    if !flags_alone {
        check_format(reader, &mut root)?;
    }
    let kind = if flags_alone { Some(EnvKind::Website) } else { read_kind(reader, &mut root, flags) };
    let name = read_name(reader, &mut root, flags, declaration);
    let spec = match kind? {
        EnvKind::Website => website::read(reader, &mut root, flags, declaration).map(FileSpec::Website),
        EnvKind::Browser => Some(FileSpec::Browser(others::browser(reader, &mut root))),
        EnvKind::Computer => Some(FileSpec::Computer(others::computer(reader, &mut root))),
        EnvKind::Multi => Some(FileSpec::Multi(others::multi(reader, &mut root))),
    };
    root.finish(reader);
    Some(EnvFile { name: name?, spec: spec?, warnings: reader.take_warnings() })
}

/// A newer format is the only problem that is worth telling: its keys may mean anything.
fn check_format(reader: &mut Reader<'_>, root: &mut Section<'_>) -> Option<()> {
    let Some(found) = root.take("format") else {
        reader.problem(reader.start(), "`format` is missing", format!("accepted: `format = {FORMAT}`"));
        return Some(());
    };
    match found.item.as_integer() {
        Some(format) if format == i64::from(FORMAT) => Some(()),
        Some(format) if format > i64::from(FORMAT) => {
            let message = format!("`format` is {format}, which is newer than this agent-env");
            reader.problem(reader.place(found.span()), message, format!("accepted: {FORMAT}; use a newer agent-env"));
            None
        }
        _ => {
            reader.wrong(&found, &FORMAT.to_string());
            Some(())
        }
    }
}

fn read_kind(reader: &mut Reader<'_>, root: &mut Section<'_>, flags: &Flags) -> Option<EnvKind> {
    let accepted = listed(EnvKind::ALL.map(EnvKind::as_str));
    let Some(found) = root.take("kind") else {
        reader.problem(reader.start(), "`kind` is missing", format!("accepted: {accepted}"));
        return None;
    };
    let text = reader.string(&found, &accepted)?;
    let Some(kind) = EnvKind::ALL.into_iter().find(|kind| kind.as_str() == text) else {
        let near = did_you_mean(&text, EnvKind::ALL.map(EnvKind::as_str));
        reader.problem(
            reader.place(found.span()),
            format!("`kind` is \"{text}\""),
            format!("{near}accepted: {accepted}"),
        );
        return None;
    };
    if kind != EnvKind::Website && !flags.is_empty() {
        let message = format!("`kind` is \"{}\", and the flags of `website put` were given", kind.as_str());
        reader.problem(reader.place(found.span()), message, "accepted: \"website\"");
    }
    Some(kind)
}

fn read_name(
    reader: &mut Reader<'_>,
    root: &mut Section<'_>,
    flags: &Flags,
    declaration: Option<&Declaration>,
) -> Option<Name> {
    let found = root.take("name");
    let (text, place) = match (&flags.name, &found) {
        (Some(name), _) => (name.clone(), Place::Flag("--name")),
        (None, Some(found)) => (reader.string(found, "a string")?, reader.place(found.span())),
        (None, None) => return declared::name(reader, declaration),
    };
    let name = reader.name(&text, "`name`", place.clone())?;
    declared::check_name(reader, &name, &place, declaration);
    Some(name)
}
