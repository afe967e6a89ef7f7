//! `kind = "browser"`, `"computer"` and `"multi"`.

use agentenv_protocol::Name;
use toml_edit::Value;

use super::{
    Flags,
    reader::{At, Found, Reader, Section},
    settings,
    website::is_inner_path,
};
use crate::{BrowserSpec, ComputerSpec, MemberFile, MemberTarget, MultiFile, NetworkSpec, Size, StartTab};

/// What people have in front of them.
const DEFAULT_VIEWPORT: Size = Size { width: 1280, height: 720 };
/// What computer-use models are trained on.
const DEFAULT_RESOLUTION: Size = Size { width: 1280, height: 800 };
/// Smaller than any page is made for, and larger than any screen.
const SIDE_PIXELS: std::ops::RangeInclusive<u32> = 100..=8192;
/// More tabs than a person opens; each costs memory and time of every reset.
const MAX_START_TABS: usize = 50;

pub(super) fn browser(reader: &mut Reader<'_>, root: &mut Section<'_>) -> BrowserSpec {
    BrowserSpec {
        start_tabs: start_tabs(reader, root),
        network: network(reader, root),
        viewport: size(reader, root, "viewport", DEFAULT_VIEWPORT),
    }
}

pub(super) fn computer(reader: &mut Reader<'_>, root: &mut Section<'_>) -> ComputerSpec {
    let route_sites = root.take("route_sites").and_then(|found| reader.boolean(&found)).unwrap_or(true);
    let (settings, secret_settings) = settings::read(reader, root, &Flags::default(), None);
    ComputerSpec {
        start_tabs: start_tabs(reader, root),
        network: network(reader, root),
        resolution: size(reader, root, "resolution", DEFAULT_RESOLUTION),
        route_sites,
        settings,
        secret_settings,
    }
}

fn start_tabs(reader: &mut Reader<'_>, root: &mut Section<'_>) -> Vec<StartTab> {
    let Some(found) = root.take("start_tabs") else { return Vec::new() };
    let texts = reader.strings(&found, "an array of URLs, such as [\"https://shop.test/\"]");
    if texts.len() > MAX_START_TABS {
        let place = reader.place(found.span());
        reader.problem(
            place,
            format!("`start_tabs` has {} tabs", texts.len()),
            format!("accepted: up to {MAX_START_TABS}"),
        );
    }
    let mut tabs = Vec::new();
    for At { value: text, place } in texts {
        match StartTab::parse(&text) {
            Ok(tab) => tabs.push(tab),
            Err(error) => {
                let hint = "accepted: a URL at a site's own name, such as \"https://shop.test/\"";
                reader.problem(place, format!("`start_tabs` has \"{}\": {error}", text.escape_default()), hint);
            }
        }
    }
    tabs
}

fn network(reader: &mut Reader<'_>, root: &mut Section<'_>) -> NetworkSpec {
    const ACCEPTED: &str = "\"sites\", \"open\", or an array of host patterns";
    let Some(found) = root.take("network") else { return NetworkSpec::Sites };
    if found.item.is_array() {
        let texts = reader.strings(&found, ACCEPTED);
        return NetworkSpec::Allowlist(reader.patterns("network", texts));
    }
    match found.item.as_str() {
        Some("sites") => NetworkSpec::Sites,
        Some("open") => NetworkSpec::Open,
        _ => {
            reader.wrong(&found, ACCEPTED);
            NetworkSpec::Sites
        }
    }
}

fn size(reader: &mut Reader<'_>, root: &mut Section<'_>, key: &'static str, default: Size) -> Size {
    const ACCEPTED: &str = "`{ width = 1280, height = 720 }`";
    let Some(found) = root.take(key) else { return default };
    let Some(mut section) = reader.section(&found, ACCEPTED) else { return default };
    let mut side = |reader: &mut Reader<'_>, key| {
        let found = section.require(reader, key, "a number of pixels")?;
        reader.integer(&found, SIDE_PIXELS)
    };
    let (width, height) = (side(reader, "width"), side(reader, "height"));
    section.finish(reader);
    Size { width: width.unwrap_or(default.width), height: height.unwrap_or(default.height) }
}

pub(super) fn multi(reader: &mut Reader<'_>, root: &mut Section<'_>) -> MultiFile {
    let mut names: Vec<Name> = Vec::new();
    let problems_before = reader.problem_count();
    let mut read = |reader: &mut Reader<'_>, key| {
        let found = root.take(key);
        found.map(|found| members(reader, &found, &mut names)).unwrap_or_default()
    };
    let websites = read(reader, "websites");
    let computers = read(reader, "computers");
    let browsers = read(reader, "browsers");
    if websites.len() + computers.len() + browsers.len() == 0 && reader.problem_count() == problems_before {
        let hint =
            "accepted: at least one of `websites`, `computers`, `browsers`, each an array of names of stored envs";
        reader.problem(reader.start(), "the multi env has no members", hint);
    }
    MultiFile { websites, computers, browsers }
}

const MEMBER: &str = "the name of a stored env, or a table such as { env = \"shop\", alias = \"store\" }";

fn members(reader: &mut Reader<'_>, found: &Found<'_>, names: &mut Vec<Name>) -> Vec<MemberFile> {
    // `[[browsers]]` and `browsers = [{ … }]` are the same in TOML.
    let mut tables = Vec::new();
    if let Some(array) = found.item.as_array_of_tables() {
        for (index, table) in array.iter().enumerate() {
            let path = format!("{}[{index}]", found.path);
            tables.push(member_table(reader, Section::inline(table, path, table.span())));
        }
    } else if let Some(array) = reader.array(found, &format!("an array; each of it {MEMBER}")) {
        for (index, value) in array.iter().enumerate() {
            let path = format!("{}[{index}]", found.path);
            tables.push(match value {
                Value::InlineTable(table) => member_table(reader, Section::inline(table, path, value.span())),
                Value::String(text) => {
                    let place = reader.place(value.span());
                    let env = reader.name(text.value(), &format!("`{path}`"), place.clone());
                    env.map(|env| MemberFile { target: MemberTarget::Stored(env), alias: None, place })
                }
                _ => {
                    reader.wrong_value(&path, value, MEMBER);
                    None
                }
            });
        }
    }
    let members: Vec<_> = tables.into_iter().flatten().collect();
    for member in &members {
        let Some(name) = member.name() else { continue };
        if names.contains(name) {
            let hint = "accepted: a name for each: give one an `alias`";
            reader.problem(member.place.clone(), format!("two members are named `{name}`"), hint);
        }
        names.push(name.clone());
    }
    members
}

fn member_table(reader: &mut Reader<'_>, mut section: Section<'_>) -> Option<MemberFile> {
    let place = section.place(reader);
    let env_at = section.take("env");
    let path_at = section.take("path");
    let alias_at = section.take("alias");
    let alias = alias_at.and_then(|found| {
        let text = reader.string(&found, "a name")?;
        let (path, at) = (format!("`{}`", found.path), reader.place(found.span()));
        reader.name(&text, &path, at)
    });
    let path = section.path().to_owned();
    section.finish(reader);
    let target = match (env_at, path_at) {
        (Some(found), None) => {
            let text = reader.string(&found, "the name of a stored env")?;
            let (path, at) = (format!("`{}`", found.path), reader.place(found.span()));
            MemberTarget::Stored(reader.name(&text, &path, at)?)
        }
        (None, Some(found)) => {
            const ACCEPTED: &str = "a bundle or an env file beside this one, such as \"browser.toml\"";
            let text = reader.string(&found, ACCEPTED)?;
            if !is_inner_path(&text) || text == "." {
                reader.wrong(&found, ACCEPTED);
                return None;
            }
            MemberTarget::Path(text)
        }
        _ => {
            let hint = "accepted: one of `env`, the name of a stored env, and `path`, a bundle beside this file";
            reader.problem(place, format!("`{path}` needs either `env` or `path`"), hint);
            return None;
        }
    };
    Some(MemberFile { target, alias, place })
}
