//! The members of a multi env: looked up, pinned, and checked together (ENV-1, ENV-8, ENV-9).

use agentenv_protocol::Name;

use crate::{
    Claim, EnvKind, EnvSpec, EnvVersion, Member, MultiSpec, Place, Problem, Problems, StartTab, check_claims,
    problem::did_you_mean, unclaimed_tabs, website_names,
};

/// A multi env as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MultiFile {
    /// Sites.
    pub websites: Vec<MemberFile>,
    /// Desktops.
    pub computers: Vec<MemberFile>,
    /// Browsers.
    pub browsers: Vec<MemberFile>,
}

impl MultiFile {
    /// Every member.
    pub fn members(&self) -> impl Iterator<Item = &MemberFile> {
        self.websites.iter().chain(&self.computers).chain(&self.browsers)
    }

    /// Every member, to be changed: `put` stores what is named by its path, and names it.
    pub fn members_mut(&mut self) -> impl Iterator<Item = &mut MemberFile> {
        self.websites.iter_mut().chain(&mut self.computers).chain(&mut self.browsers)
    }
}

/// One member as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFile {
    /// Which env.
    pub target: MemberTarget,
    /// Its name within the deploy; the env's own without one.
    pub alias: Option<Name>,
    /// Where it is written.
    pub place: Place,
}

impl MemberFile {
    /// Its name within the deploy, as far as it is known.
    pub fn name(&self) -> Option<&Name> {
        match &self.target {
            MemberTarget::Stored(env) => Some(self.alias.as_ref().unwrap_or(env)),
            MemberTarget::Path(_) => self.alias.as_ref(),
        }
    }
}

/// Which env a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberTarget {
    /// A stored one.
    Stored(Name),
    /// A bundle or env file beside this one, which `put` stores first.
    Path(String),
}

/// Checks a multi env against what is stored, and pins versions unless `latest`. `stored` are the latest versions of every
/// env that there is.
pub fn resolve_multi(file: &MultiFile, stored: &[EnvVersion], latest: bool) -> Result<MultiSpec, Problems> {
    let mut resolving = Resolving { stored, latest, problems: Vec::new(), claims: Vec::new(), names: Vec::new() };
    let spec = MultiSpec {
        websites: resolving.members(&file.websites, EnvKind::Website),
        computers: resolving.members(&file.computers, EnvKind::Computer),
        browsers: resolving.members(&file.browsers, EnvKind::Browser),
    };
    if resolving.problems.is_empty() {
        resolving.check(file);
    }
    Problems::check(spec, resolving.problems)
}

struct Resolving<'a> {
    stored: &'a [EnvVersion],
    latest: bool,
    problems: Vec<Problem>,
    claims: Vec<Claim>,
    names: Vec<Name>,
}

impl<'a> Resolving<'a> {
    fn problem(&mut self, place: &Place, message: String, hint: impl Into<String>) {
        self.problems.push(Problem::new(place.clone(), message, hint));
    }

    fn find(&self, env: &Name) -> Option<&'a EnvVersion> {
        self.stored.iter().find(|stored| stored.name == *env)
    }

    fn members(&mut self, members: &[MemberFile], kind: EnvKind) -> Vec<Member> {
        members.iter().filter_map(|member| self.member(member, kind)).collect()
    }

    fn member(&mut self, member: &MemberFile, kind: EnvKind) -> Option<Member> {
        let env = match &member.target {
            MemberTarget::Stored(env) => env,
            MemberTarget::Path(path) => {
                self.problem(&member.place, format!("`{path}` is not stored"), "put it first");
                return None;
            }
        };
        let Some(found) = self.find(env) else {
            let near = did_you_mean(env.as_str(), self.stored.iter().map(|stored| stored.name.as_str()));
            let hint = format!("{near}put it first; `agent-env env list` shows what is stored");
            self.problem(&member.place, format!("there is no env `{env}`"), hint);
            return None;
        };
        let found_kind = found.spec.kind();
        if found_kind != kind {
            let message = format!("env `{env}` is a {} env", found_kind.as_str());
            let hint = match found_kind {
                EnvKind::Multi => "accepted: its members by name; multi envs are never nested".to_owned(),
                other => format!("accepted: a {} env here; name it under `{}s`", kind.as_str(), other.as_str()),
            };
            self.problem(&member.place, message, hint);
            return None;
        }
        let name = member.name().unwrap_or(env).clone();
        if self.names.contains(&name) {
            let hint = "accepted: a name for each: give one an `alias`";
            self.problem(&member.place, format!("two members are named `{name}`"), hint);
            return None;
        }
        self.names.push(name.clone());
        self.claims.extend(found.spec.claims(&name));
        Some(Member { name, env: env.clone(), version: (!self.latest).then_some(found.version) })
    }

    /// What needs every member: claims, and start tabs.
    fn check(&mut self, file: &MultiFile) {
        let claims = std::mem::take(&mut self.claims);
        for (earlier, later) in check_claims(&claims) {
            let place = file.websites.iter().find(|site| site.name() == Some(&later.owner)).map(|site| &site.place);
            let Some(place) = place else { continue };
            let (message, hint) = conflict(earlier, later);
            self.problem(place, message, hint);
        }
        let nameless = file.websites.iter().any(|member| match &member.target {
            MemberTarget::Stored(env) => matches!(
                self.find(env).map(|found| &found.spec),
                Some(EnvSpec::Website(site)) if site.domains.is_empty()
            ),
            MemberTarget::Path(_) => true,
        });
        if nameless {
            return;
        }
        let patterns = website_names(&claims);
        for member in file.browsers.iter().chain(&file.computers) {
            let MemberTarget::Stored(env) = &member.target else { continue };
            let Some(found) = self.find(env) else { continue };
            let Some(tabs) = routed_tabs(&found.spec) else { continue };
            for tab in unclaimed_tabs(tabs, &patterns) {
                let (message, hint) = unclaimed(member.name().unwrap_or(env), tab);
                self.problem(&member.place, message, hint);
            }
        }
    }
}

/// The start tabs that have to be claimed; a computer that routes no sites is exempt.
pub(crate) fn routed_tabs(spec: &EnvSpec) -> Option<&[StartTab]> {
    match spec {
        EnvSpec::Browser(browser) => Some(&browser.start_tabs),
        EnvSpec::Computer(computer) if computer.route_sites => Some(&computer.start_tabs),
        _ => None,
    }
}

pub(crate) fn conflict(earlier: &Claim, later: &Claim) -> (String, String) {
    let message = format!("`{}` and `{}` both claim `{}`", earlier.owner, later.owner, later.pattern);
    (message, "accepted: each name by one website".to_owned())
}

pub(crate) fn unclaimed(owner: &Name, tab: &StartTab) -> (String, String) {
    let message = format!("the start tab `{tab}` of `{owner}` is at `{}`, which no website claims", tab.host());
    (message, "accepted: names of the env's websites".to_owned())
}
