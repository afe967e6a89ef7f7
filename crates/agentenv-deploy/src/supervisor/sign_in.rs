//! Signs users in: asks each site for the state, puts it into the browsers, asserts it (BR-2).

use std::sync::Arc;

use agentenv_protocol::{
    ExitCode, HostName, HostPattern, Name, SessionState,
    control::{ControlError, SignInReport, SignInRequest, SignedIn},
};
use futures_util::future::try_join_all;

use super::{browser::browser_error, deploy::Deploy, machine::Machine};
use crate::browser::BrowserError;

impl Deploy {
    /// Signs a user in to each named site, in one browser or in all.
    pub(crate) async fn sign_in(&self, request: SignInRequest) -> Result<SignInReport, ControlError> {
        let _turn = self.turn.lock().await;
        let targets = self.targets(request.target.as_ref())?;
        let states = request.users.into_iter().map(|(website, user)| async {
            let pod = self.pod(&website)?;
            let state = pod.client.session(Some(user.clone())).await.map_err(|error| pod.failed(&error))?;
            // A site that could sign users in elsewhere would choose whom the agent is at another site.
            let names: Vec<HostPattern> = pod.domains.iter().chain(&pod.website.allow_hosts).cloned().collect();
            foreign(&names, &state).map_or(Ok(()), |what| Err(refused(&website, &what)))?;
            Ok::<_, ControlError>((website, user, state))
        });
        let states: Vec<(Name, String, SessionState)> = try_join_all(states).await?;
        let mut signed_in = Vec::new();
        // One after the other within a browser: a proof loads a page, and pages of one site share its cookies.
        for target in targets {
            let failed = |error: BrowserError| browser_error(&error, &[]);
            let browser = target.browser().await.map_err(failed)?;
            for (website, user, state) in &states {
                let verified = browser.sign_in(website, user, state).await.map_err(failed)?;
                let (website, user, browser) = (website.clone(), user.clone(), target.name().clone());
                signed_in.push(SignedIn { website, user, browser, verified });
            }
        }
        Ok(SignInReport { signed_in })
    }

    fn targets(&self, target: Option<&Name>) -> Result<&[Arc<Machine>], ControlError> {
        let all = &self.machines[..];
        let known = || all.iter().map(|target| target.name().as_str()).collect::<Vec<_>>().join(", ");
        match target {
            Some(name) => {
                all.iter().find(|machine| machine.name() == name).map(std::slice::from_ref).ok_or_else(|| {
                    ControlError::new(ExitCode::Refused, format!("the deploy has no browser `{name}`"))
                        .hint(format!("it has: {}", known()))
                })
            }
            None if all.is_empty() => Err(ControlError::new(ExitCode::Refused, "the deploy has no browser to sign in")
                .hint("deploy one with the sites, as a multi env")),
            None => Ok(all),
        }
    }
}

fn refused(website: &Name, what: &str) -> ControlError {
    ControlError::infrastructure(format!(
        "website `{website}` answered a session that is not its own: {what}, which is no name of it"
    ))
    .hint("`agent-env website check` tells which rule its server breaks")
}

/// What of a session is not for these names of its site: a cookie that the site could not set itself, or an entry of
/// storage or a page that are at another's.
fn foreign(names: &[HostPattern], state: &SessionState) -> Option<String> {
    let covered = |host: &HostName| names.iter().any(|pattern| pattern.covers(host));
    let at_own = |url: &str| host_of(url).is_some_and(|host| covered(&host));
    let cookies = state.cookies.iter().filter(|cookie| !may_set(names, &cookie.domain));
    let cookie = cookies.map(|cookie| format!("the cookie `{}` is for `{}`", cookie.name, cookie.domain));
    let origins = state.origins.iter().filter(|origin| !at_own(&origin.origin));
    let origin = origins.map(|origin| format!("local storage is for `{}`", origin.origin));
    let pages = state.verify.iter().filter(|verify| !at_own(&verify.url));
    let page = pages.map(|verify| format!("the page that shows it is `{}`", verify.url));
    cookie.chain(origin).chain(page).next()
}

/// Whether a site of these names could set a cookie for this domain: for a name of its own, or, with a leading dot, for
/// one above it (RFC 6265 §5.3), but no top-level one.
fn may_set(names: &[HostPattern], domain: &str) -> bool {
    let Ok(host) = HostName::parse(domain.strip_prefix('.').unwrap_or(domain)) else { return false };
    let above = |pattern: &HostPattern| {
        let (HostPattern::Exact(name) | HostPattern::Below(name)) = pattern;
        let wide = domain.starts_with('.') && host.as_str().contains('.');
        wide && (*name == host || name.as_str().strip_suffix(host.as_str()).is_some_and(|rest| rest.ends_with('.')))
    };
    names.iter().any(|pattern| pattern.covers(&host) || above(pattern))
}

/// The host of a web address.
fn host_of(url: &str) -> Option<HostName> {
    let uri: http::Uri = url.parse().ok()?;
    let web = matches!(uri.scheme_str(), Some("http" | "https"));
    // A name before an `@` is not where it leads; no page of a site needs one.
    let plain = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    if web && plain { HostName::parse(uri.host()?).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names() -> Vec<HostPattern> {
        ["shop.test", "www.app.corp.test", "*.wild.test"].map(|name| HostPattern::parse(name).unwrap()).into()
    }

    #[test]
    fn cookies_are_for_what_the_site_could_set_itself() {
        for (domain, allowed) in [
            ("shop.test", true),
            (".shop.test", true),
            ("SHOP.test", true),
            ("a.wild.test", true),
            (".wild.test", true),
            ("www.app.corp.test", true),
            (".corp.test", true),
            ("corp.test", false),
            ("wild.test", false),
            ("tracker.test", false),
            (".tracker.test", false),
            ("a.shop.test", false),
            ("xshop.test", false),
            (".op.test", false),
            (".test", false),
            ("test", false),
            ("127.0.0.1", false),
            ("localhost", false),
            ("", false),
            (".", false),
        ] {
            assert_eq!(may_set(&names(), domain), allowed, "{domain}");
        }
    }

    #[test]
    fn storage_and_proof_are_at_names_of_the_site() {
        for (url, own) in [
            ("https://shop.test", true),
            ("http://shop.test:80/account?x#y", true),
            ("https://a.b.wild.test/", true),
            ("https://tracker.test", false),
            ("https://corp.test", false),
            ("https://shop.test@tracker.test/", false),
            ("http://127.0.0.1:9222/json", false),
            ("file:///etc/passwd", false),
            ("shop.test", false),
        ] {
            let origins = json!({ "origins": [{ "origin": url, "localStorage": [] }] });
            let verify = json!({ "verify": { "url": url, "contains": "x" } });
            for state in [origins, verify] {
                let state: SessionState = serde_json::from_value(state).unwrap();
                assert_eq!(foreign(&names(), &state).is_none(), own, "{url}");
            }
        }
        assert_eq!(foreign(&names(), &SessionState::default()), None);
    }
}
