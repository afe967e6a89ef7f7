//! Stored envs as people read them.

use agentenv_model::{
    EnvSpec, FrontendSpec, Member, NetworkSpec, SettingValue, WebsiteSource, WebsiteSpec, site_reach,
};

/// What an env answers to, or is made of.
pub(super) fn names(spec: &EnvSpec) -> String {
    let joined = |texts: Vec<String>| texts.join(", ");
    match spec {
        EnvSpec::Website(site) => joined(site.domains.iter().map(ToString::to_string).collect()),
        EnvSpec::Multi(multi) => joined(multi.members().map(member).collect()),
        EnvSpec::Browser(browser) => joined(browser.start_tabs.iter().map(ToString::to_string).collect()),
        EnvSpec::Computer(computer) => joined(computer.start_tabs.iter().map(ToString::to_string).collect()),
    }
}

fn member(member: &Member) -> String {
    let alias = if member.name == member.env { String::new() } else { format!("{}=", member.name) };
    let version = member.version.map(|version| format!("@{version}")).unwrap_or_default();
    format!("{alias}{}{version}", member.env)
}

/// The lines of `env show` below the first.
pub(super) fn described(spec: &EnvSpec) -> Vec<String> {
    match spec {
        EnvSpec::Website(site) => website_lines(site),
        EnvSpec::Multi(multi) => {
            let lines = |kind: &'static str, list: &[Member]| {
                list.iter().map(|each| format!("  {kind:<9} {}", member(each))).collect::<Vec<_>>()
            };
            [lines("website", &multi.websites), lines("computer", &multi.computers), lines("browser", &multi.browsers)]
                .concat()
        }
        EnvSpec::Browser(browser) => {
            let mut lines = vec![
                format!("  viewport  {}x{}", browser.viewport.width, browser.viewport.height),
                format!("  network   {}", network(&browser.network)),
            ];
            lines.extend(browser.start_tabs.iter().map(|tab| format!("  tab       {tab}")));
            lines
        }
        EnvSpec::Computer(computer) => {
            let mut lines = vec![
                format!("  screen    {}x{}", computer.resolution.width, computer.resolution.height),
                format!("  network   {}", network(&computer.network)),
            ];
            lines.extend(computer.start_tabs.iter().map(|tab| format!("  tab       {tab}")));
            lines
        }
    }
}

fn network(network: &NetworkSpec) -> String {
    match network {
        NetworkSpec::Sites => "sites".to_owned(),
        NetworkSpec::Open => "open".to_owned(),
        NetworkSpec::Allowlist(hosts) => hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn website_lines(site: &WebsiteSpec) -> Vec<String> {
    let mut lines = Vec::new();
    if site.live {
        lines.push("  live      a real site".to_owned());
    }
    let service =
        |name: &str, command: &[String], port: u16| format!("  {name:<9} {} (port {port})", command.join(" "));
    match &site.source {
        WebsiteSource::Image(image) => lines.push(format!("  image     {image}")),
        WebsiteSource::Bundle { server, frontend, services } => {
            lines.extend(services.iter().map(|(name, spec)| service(name.as_str(), &spec.command, spec.port)));
            lines.push(service("server", &server.command, server.port));
            match frontend {
                Some(FrontendSpec::Command(spec)) => lines.push(service("frontend", &spec.command, spec.port)),
                Some(FrontendSpec::Static { folder, .. }) => lines.push(format!("  frontend  the folder {folder}")),
                None => {}
            }
        }
    }
    if site.domains.is_empty() {
        lines.push("  name      (its card's)".to_owned());
    }
    let reached = site_reach(site.live, &site.domains, &site.allow_hosts);
    lines.extend(reached.iter().map(|host| format!("  reaches   {host}")));
    for (name, value) in &site.settings {
        let shown = match value {
            SettingValue::Literal(value) => value.to_string(),
            SettingValue::Reference(reference) => reference.to_string(),
        };
        let secret = if site.secret_settings.contains(name) { " (secret)" } else { "" };
        lines.push(format!("  setting   {name} = {shown}{secret}"));
    }
    let unset = site.secret_settings.iter().filter(|name| !site.settings.contains_key(*name));
    lines.extend(unset.map(|name| format!("  setting   {name} has no value (secret)")));
    lines
}

#[cfg(test)]
mod tests {
    use agentenv_model::{FileSpec, parse_env};

    use super::*;

    fn website(text: &str) -> String {
        let file = parse_env("env.toml", &format!("format = 1\nkind = 'website'\nname = 'shop'\n{text}")).unwrap();
        let FileSpec::Website(site) = file.spec else { panic!("it is a website") };
        described(&EnvSpec::Website(site)).join("\n")
    }

    #[test]
    fn a_website_shows_what_it_runs_and_never_a_secret() {
        let shown = website(
            "secret_settings = ['key', 'unset']\n[server]\ncommand = ['bin/shop', '-q']\nport = 8000\n\
             [frontend]\nstatic = 'dist'\n[services.db]\ncommand = ['postgres']\nport = 5432\n\
             [settings]\nkey = 'env:KEY'\nsize = 5\nregion = 'env:REGION?default=eu'",
        );
        assert_eq!(
            shown,
            "  db        postgres (port 5432)\n  server    bin/shop -q (port 8000)\n  frontend  the folder dist\n  \
             name      (its card's)\n  setting   key = env:KEY (secret)\n  setting   region = env:REGION\n  \
             setting   size = 5\n  setting   unset has no value (secret)"
        );
    }

    #[test]
    fn a_live_site_shows_what_it_reaches() {
        let shown = website(
            "live = true\ndomains = ['github.com']\nallow_hosts = ['*.githubassets.com']\n\
             server = { command = ['x'], port = 1 }",
        );
        assert_eq!(
            shown,
            "  live      a real site\n  server    x (port 1)\n  reaches   github.com\n  reaches   *.githubassets.com"
        );
    }
}
