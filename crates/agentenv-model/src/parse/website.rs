//! `kind = "website"`.

use std::collections::BTreeMap;

use agentenv_protocol::Name;

use super::{
    Flags,
    declared::{self, Patterns},
    reader::{At, Found, Reader, Section},
    settings,
};
use crate::{DEFAULT_READY_TIMEOUT_S, Declaration, FrontendSpec, Place, ServiceSpec, WebsiteSource, WebsiteSpec};

/// The longest time that a site may take to be ready: an hour.
const MAX_READY_TIMEOUT_S: u32 = 3600;
/// The longest name of an image that registries take.
const MAX_IMAGE_LEN: usize = 512;

/// Ports of a pod's services, with who has them.
type Ports = Vec<(String, At<u16>)>;

pub(super) fn read(
    reader: &mut Reader<'_>,
    root: &mut Section<'_>,
    flags: &Flags,
    declaration: Option<&Declaration>,
) -> Option<WebsiteSpec> {
    let (domains_at, live_at, allow_hosts_at) = (root.take("domains"), root.take("live"), root.take("allow_hosts"));
    let given = match (flags.live, &live_at) {
        (Some(value), _) => Some(At { value, place: Place::Flag(if value { "--live" } else { "--no-live" }) }),
        (None, Some(found)) => reader.boolean(found).map(|value| At { value, place: reader.place(found.span()) }),
        (None, None) => None,
    };
    let live = declared::live(reader, given, declaration);
    let given = given_patterns(reader, "domains", domains_at.as_ref(), &flags.domains, "--domain");
    let domains = declared::domains(reader, given, declaration, live.value);
    let given = given_patterns(reader, "allow_hosts", allow_hosts_at.as_ref(), &flags.allow_hosts, "--allow-host");
    let allow_hosts = declared::allow_hosts(reader, given, declaration, live.value);
    if live.value == Some(true) && domains.written == 0 && domains.unknown.is_none() {
        let message = "the site is live and has no domains";
        reader.problem(live.place, message, "accepted: the real site's names, such as `domains = [\"github.com\"]`");
    }
    if let Some(place) = allow_hosts.first
        && live.value == Some(false)
    {
        let hint = "accepted: with `live = true` only; what else a synthetic site's pages need is part of the site";
        reader.problem(place, "`allow_hosts` is given for a site that is not live", hint);
    }
    let (domains, allow_hosts, live) = (domains.patterns, allow_hosts.patterns, live.value.unwrap_or(false));
    let (settings, secret_settings) =
        settings::read(reader, root, flags, declaration.map(|declaration| &declaration.settings));
    let ready_timeout_s = root
        .take("ready_timeout_s")
        .and_then(|found| reader.integer(&found, 1..=MAX_READY_TIMEOUT_S))
        .unwrap_or(DEFAULT_READY_TIMEOUT_S);
    let source = source(reader, root, flags, live)?;
    Some(WebsiteSpec { domains, live, allow_hosts, source, settings, secret_settings, ready_timeout_s })
}

/// What a flag or the file gives, with the place of the whole; `None` where neither does.
fn given_patterns(
    reader: &mut Reader<'_>,
    key: &'static str,
    found: Option<&Found<'_>>,
    flags: &[String],
    flag: &'static str,
) -> Option<At<Patterns>> {
    let (texts, place) = match (flags, found) {
        ([], None) => return None,
        ([], Some(found)) => (reader.strings(found, "an array of host patterns"), reader.place(found.span())),
        (flags, _) => {
            let place = Place::Flag(flag);
            (flags.iter().map(|text| At { value: text.clone(), place: place.clone() }).collect(), place)
        }
    };
    let (written, first) = (texts.len(), texts.first().map(|text| text.place.clone()));
    Some(At { value: Patterns { patterns: reader.patterns(key, texts), written, first, unknown: None }, place })
}

fn source(reader: &mut Reader<'_>, root: &mut Section<'_>, flags: &Flags, live: bool) -> Option<WebsiteSource> {
    let image_at = root.take("image");
    let parts = [root.take("server"), root.take("frontend"), root.take("services")];
    if live && let Some(frontend) = &parts[1] {
        let hint = "leave it out: a live site's pages are the real site's";
        let place = Section::key_place(reader, frontend);
        reader.problem(place, "`frontend` is given for a live site", hint);
    }
    let image = match (&flags.image, &image_at) {
        (Some(image), _) => Some((image.clone(), Place::Flag("--image"))),
        (None, Some(found)) => {
            let text = reader.string(found, "the name of an image, such as \"ghcr.io/acme/shop:1.2\"")?;
            Some((text, reader.place(found.span())))
        }
        (None, None) => None,
    };
    if let Some((image, place)) = image {
        for part in parts.iter().flatten() {
            let message = format!("`{}` is given beside an image", part.path);
            let place = Section::key_place(reader, part);
            reader.problem(place, message, "accepted: one of the two");
        }
        return check_image(reader, image, place).map(WebsiteSource::Image);
    }
    let [server_at, frontend_at, services_at] = parts;
    let mut ports = Ports::new();
    let services = services_at.map(|found| services(reader, &found, &mut ports)).unwrap_or_default();
    let server = match server_at {
        Some(found) => reader
            .section(&found, "a table with `command` and `port`")
            .and_then(|section| service(reader, section, &mut ports)),
        None => {
            let hint = "accepted: a `[server]` with `command` and `port`, or an `image`";
            reader.problem(reader.start(), "the website has no `[server]`", hint);
            None
        }
    };
    let frontend = match frontend_at {
        Some(found) => {
            let section = reader.section(&found, "a table with `command` and `port`, or with `static`")?;
            Some(frontend(reader, section, &mut ports)?)
        }
        None => None,
    };
    check_ports(reader, &ports);
    Some(WebsiteSource::Bundle { server: server?, frontend, services })
}

fn check_image(reader: &mut Reader<'_>, image: String, place: Place) -> Option<String> {
    let good = !image.is_empty()
        && image.len() <= MAX_IMAGE_LEN
        && image.starts_with(|c: char| c.is_ascii_alphanumeric())
        && image.bytes().all(|b| b.is_ascii_alphanumeric() || b"./:@_-".contains(&b));
    if !good {
        let message = format!("`image` is \"{}\"", image.escape_default());
        reader.problem(place, message, "accepted: the name of an image, such as \"ghcr.io/acme/shop:1.2\"");
    }
    good.then_some(image)
}

fn services(reader: &mut Reader<'_>, found: &Found<'_>, ports: &mut Ports) -> BTreeMap<Name, ServiceSpec> {
    let Some(section) = reader.section(found, "tables such as `[services.database]`") else { return BTreeMap::new() };
    let mut services = BTreeMap::new();
    for (key, found) in section.entries() {
        let place = Section::key_place(reader, &found);
        if matches!(key.as_str(), "server" | "frontend") {
            let message = format!("two services are named `{key}`");
            reader.problem(place, message, format!("`[{key}]` has that name; accepted: another one"));
            continue;
        }
        let name = reader.name(&key, "a service's name", place);
        let service = reader
            .section(&found, "a table with `command` and `port`")
            .and_then(|section| service(reader, section, ports));
        if let (Some(name), Some(service)) = (name, service) {
            services.insert(name, service);
        }
    }
    services
}

fn service(reader: &mut Reader<'_>, mut section: Section<'_>, ports: &mut Ports) -> Option<ServiceSpec> {
    let command = section
        .require(reader, "command", "an array of a program and its arguments, such as [\"./bin/shop\"]")
        .and_then(|found| reader.command(&found));
    let port = section
        .require(reader, "port", "an integer from 1 to 65535, where the program listens")
        .and_then(|found| reader.port(&found));
    let build = section.take("build").map(|found| reader.command(&found));
    if let Some(port) = &port {
        ports.push((section.path().to_owned(), port.clone()));
    }
    section.finish(reader);
    Some(ServiceSpec { command: command?, port: port?.value, build: build.flatten() })
}

fn frontend(reader: &mut Reader<'_>, mut section: Section<'_>, ports: &mut Ports) -> Option<FrontendSpec> {
    let Some(folder_at) = section.take("static") else {
        return service(reader, section, ports).map(FrontendSpec::Command);
    };
    for key in ["command", "port"] {
        if let Some(found) = section.take(key) {
            let place = Section::key_place(reader, &found);
            let message = format!("`{}` is given beside `frontend.static`", found.path);
            reader.problem(place, message, "accepted: a folder, or a program and its port");
        }
    }
    let build = section.take("build").and_then(|found| reader.command(&found));
    section.finish(reader);
    const ACCEPTED: &str = "a folder of the bundle, such as \"dist\"";
    let folder = reader.string(&folder_at, ACCEPTED)?;
    if !is_inner_path(&folder) {
        reader.wrong(&folder_at, ACCEPTED);
        return None;
    }
    Some(FrontendSpec::Static { folder, build })
}

/// Whether the path plainly lies within the bundle; `.` is the bundle itself.
pub(crate) fn is_inner_path(text: &str) -> bool {
    let path = text.strip_prefix("./").unwrap_or(text).trim_end_matches('/');
    let plain = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['\0', '\\']);
    text == "." || (!path.is_empty() && path.split('/').all(plain))
}

/// A pod has one network: two services cannot listen at one port.
fn check_ports(reader: &mut Reader<'_>, ports: &Ports) {
    for (index, (path, port)) in ports.iter().enumerate() {
        if let Some((other, _)) = ports[..index].iter().find(|(_, other)| other.value == port.value) {
            let message = format!("`{path}.port` is {}, the port of `{other}` too", port.value);
            let hint = "accepted: a port for each; services of a website share one network";
            reader.problem(port.place.clone(), message, hint);
        }
    }
}
