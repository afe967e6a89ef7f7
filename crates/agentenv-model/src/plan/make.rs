//! Records to plan.

use agentenv_protocol::Name;

use super::{
    Abilities, Plan, PlanInput, PlannedBrowser, PlannedComputer, PlannedService, PlannedWebsite, Program, Role,
    captures, computer,
};
use crate::{
    BrowserSpec, Claim, ComputerSpec, EnvSpec, EnvVersion, FrontendSpec, Member, NetworkSpec, Place, Problem, Problems,
    Reference, ServiceSpec, SettingValue, WebsiteSource, WebsiteSpec, check_claims, live_hosts,
    multi::{conflict, unclaimed},
    reach, site_reach, site_table, unclaimed_tabs, website_names,
};

/// The first port that is tried for a static folder; any would do, this one reads as what it is.
const FIRST_STATIC_PORT: u16 = 8080;

/// Plans a deploy, or says everything that is in its way.
pub fn plan(input: &PlanInput) -> Result<Plan, Problems> {
    let mut planning = Planning { abilities: &input.abilities, problems: Vec::new(), claims: claims(input) };
    let mut plan = Plan {
        env: input.env.name.clone(),
        version: input.env.version,
        provider: input.abilities.provider.clone(),
        versions: vec![(input.env.name.clone(), input.env.version)],
        websites: Vec::new(),
        browsers: Vec::new(),
        computers: Vec::new(),
        site_table: Vec::new(),
        live_hosts: Vec::new(),
        captures: input.capture_traffic,
        warnings: Vec::new(),
    };
    match &input.env.spec {
        EnvSpec::Multi(multi) => {
            for member in multi.members() {
                match find(&input.members, member) {
                    Some(env) => planning.add(&mut plan, &member.name, env),
                    None => {
                        let version = member.version.map(|version| format!(" version {version}")).unwrap_or_default();
                        let message = format!("it names env `{}`{version}, which is not stored", member.env);
                        planning.refuse(&input.env.name, message, "put it again");
                    }
                }
            }
        }
        _ => {
            let name = &input.env.name;
            planning.add(&mut plan, name, &input.env);
            plan.versions.dedup();
        }
    }
    for (message, hint) in captures::refusals(input) {
        planning.refuse(&input.env.name, message, hint);
    }
    planning.check_names(&input.env.name, &plan);
    planning.route(&mut plan);
    Problems::check(plan, planning.problems)
}

fn find<'a>(members: &'a [EnvVersion], member: &Member) -> Option<&'a EnvVersion> {
    members.iter().find(|env| env.name == member.env && member.version.is_none_or(|version| version == env.version))
}

/// Every claim of the deploy, in the order of its members.
fn claims(input: &PlanInput) -> Vec<Claim> {
    match &input.env.spec {
        EnvSpec::Multi(multi) => {
            let found = multi.members().filter_map(|member| Some((member, find(&input.members, member)?)));
            found.flat_map(|(member, env)| env.spec.claims(&member.name)).collect()
        }
        alone => alone.claims(&input.env.name),
    }
}

struct Planning<'a> {
    abilities: &'a Abilities,
    problems: Vec<Problem>,
    /// Every one, before the first member is planned: who reaches what depends on all of them.
    claims: Vec<Claim>,
}

impl Planning<'_> {
    fn refuse(&mut self, env: &Name, message: impl Into<String>, hint: impl Into<String>) {
        self.problems.push(Problem::new(Place::Env(env.clone()), message, hint));
    }

    /// Refuses something that the provider lacks, by its name.
    fn lacks(&mut self, env: &Name, what: &str, hint: &str) {
        let message = format!("{what}, which the `{}` provider does not have", self.abilities.provider);
        self.refuse(env, message, hint);
    }

    fn add(&mut self, plan: &mut Plan, name: &Name, env: &EnvVersion) {
        let version = (env.name.clone(), env.version);
        if !plan.versions.contains(&version) {
            plan.versions.push(version);
        }
        match &env.spec {
            EnvSpec::Website(site) => plan.websites.extend(self.website(name, env, site)),
            EnvSpec::Browser(browser) => plan.browsers.push(self.browser(name, env, browser)),
            EnvSpec::Computer(computer) => plan.computers.push(self.computer(name, env, computer)),
            EnvSpec::Multi(_) => {
                self.refuse(&env.name, "it is a multi env inside another", "multi envs are never nested");
            }
        }
    }

    fn website(&mut self, name: &Name, env: &EnvVersion, site: &WebsiteSpec) -> Option<PlannedWebsite> {
        if site.live && !self.abilities.live_sites {
            self.lacks(&env.name, "it is a live site", "deploy it with `--provider sandbox`");
        }
        self.check_references(env, site.settings.values());
        let services = match &site.source {
            WebsiteSource::Image(image) => {
                if !self.abilities.images {
                    self.lacks(&env.name, &format!("it is the image `{image}`"), "deploy it with `--provider compose`");
                }
                return None;
            }
            WebsiteSource::Bundle { server, frontend, services } => {
                services_in_order(server, frontend.as_ref(), services.iter())
            }
        };
        let Some(tree) = env.tree.clone() else {
            self.refuse(&env.name, "its bundle is not stored", "put it again");
            return None;
        };
        Some(PlannedWebsite {
            name: name.clone(),
            env: env.name.clone(),
            version: env.version,
            tree,
            domains: site.domains.clone(),
            live: site.live,
            allow_hosts: site.allow_hosts.clone(),
            reach: site_reach(site.live, &site.domains, &site.allow_hosts),
            services,
            settings: site.settings.clone(),
            secret_settings: site.secret_settings.clone(),
            ready_timeout_s: site.ready_timeout_s,
        })
    }

    fn browser(&mut self, name: &Name, env: &EnvVersion, browser: &BrowserSpec) -> PlannedBrowser {
        self.check_network(env, &browser.network);
        PlannedBrowser {
            name: name.clone(),
            env: env.name.clone(),
            version: env.version,
            start_tabs: browser.start_tabs.clone(),
            network: reach(&browser.network, &self.claims),
            viewport: browser.viewport,
        }
    }

    fn computer(&mut self, name: &Name, env: &EnvVersion, computer: &ComputerSpec) -> PlannedComputer {
        if !self.abilities.computers {
            self.lacks(&env.name, "it is a computer", "deploy it with `--provider sandbox`");
        }
        self.check_network(env, &computer.network);
        self.check_references(env, computer.settings.values());
        self.problems.extend(computer::refusals(env, &computer.settings));
        PlannedComputer {
            name: name.clone(),
            env: env.name.clone(),
            version: env.version,
            start_tabs: computer.start_tabs.clone(),
            network: reach(&computer.network, &self.claims),
            route_sites: computer.route_sites,
            resolution: computer.resolution,
            settings: computer.settings.clone(),
            secret_settings: computer.secret_settings.clone(),
        }
    }

    fn check_network(&mut self, env: &EnvVersion, network: &NetworkSpec) {
        let what = match network {
            NetworkSpec::Sites => return,
            NetworkSpec::Open => "its network is \"open\"",
            NetworkSpec::Allowlist(_) => "its network is an allowlist",
        };
        if !self.abilities.networks {
            self.lacks(&env.name, what, "accepted there: `network = \"sites\"`");
        }
    }

    fn check_references<'v>(&mut self, env: &EnvVersion, values: impl Iterator<Item = &'v SettingValue>) {
        for value in values {
            if let SettingValue::Reference(reference @ Reference::Secret { .. }) = value
                && !self.abilities.secrets
            {
                let what = format!("a setting is `{reference}`, a stored secret");
                self.lacks(&env.name, &what, "accepted for now: a variable of the deploying command, `env:NAME`");
            }
        }
    }

    /// Who answers a name, and which names are the real sites'.
    fn route(&self, plan: &mut Plan) {
        plan.site_table = site_table(&self.claims);
        let live = live_hosts(&self.claims);
        plan.warnings.extend(live.warnings());
        plan.live_hosts = live.hosts;
    }

    /// Claims, and start tabs where every site has names already; both again at deploy, with the cards' names.
    fn check_names(&mut self, env: &Name, plan: &Plan) {
        let conflicts: Vec<_> = check_claims(&self.claims).into_iter().map(|(a, b)| conflict(a, b)).collect();
        for (message, hint) in conflicts {
            self.refuse(env, message, hint);
        }
        if !self.problems.is_empty() || plan.websites.iter().any(|site| site.domains.is_empty()) {
            return;
        }
        let patterns = website_names(&self.claims);
        let browsers = plan.browsers.iter().map(|browser| (&browser.name, &browser.start_tabs));
        let routed = plan.computers.iter().filter(|computer| computer.route_sites);
        let computers = routed.map(|computer| (&computer.name, &computer.start_tabs));
        for (name, tabs) in browsers.chain(computers) {
            for tab in unclaimed_tabs(tabs, &patterns) {
                let (message, hint) = unclaimed(name, tab);
                self.refuse(env, message, hint);
            }
        }
    }
}

/// Further services, then the server, which prepares `/data` before it listens, then the frontend (RUN-6).
fn services_in_order<'a>(
    server: &ServiceSpec,
    frontend: Option<&FrontendSpec>,
    further: impl Iterator<Item = (&'a Name, &'a ServiceSpec)>,
) -> Vec<PlannedService> {
    let command = |name: Name, role, service: &ServiceSpec| PlannedService {
        name,
        role,
        program: Program::Command(service.command.clone()),
        port: service.port,
    };
    let mut services: Vec<_> = further.map(|(name, service)| command(name.clone(), Role::Further, service)).collect();
    services.push(command(Role::Server.service_name(), Role::Server, server));
    let name = Role::Frontend.service_name();
    match frontend {
        None => {}
        Some(FrontendSpec::Command(service)) => services.push(command(name, Role::Frontend, service)),
        Some(FrontendSpec::Static { folder, .. }) => {
            let free = |port: &u16| services.iter().all(|service| service.port != *port);
            // A pod has fewer services than there are ports.
            let port = (FIRST_STATIC_PORT..=u16::MAX).find(free).unwrap_or(FIRST_STATIC_PORT);
            let program = Program::StaticFolder(folder.clone());
            services.push(PlannedService { name, role: Role::Frontend, program, port });
        }
    }
    services
}

impl Role {
    /// The name of the one service that has the role.
    fn service_name(self) -> Name {
        let name = match self {
            Self::Server => "server",
            Self::Frontend => "frontend",
            Self::Further => "service",
        };
        Name::parse(name).expect("these words are names")
    }
}
