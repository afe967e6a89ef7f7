//! Signs users in: asks each site for the state, puts it into the browsers, asserts it (BR-2).

use agentenv_protocol::{
    ExitCode, Name, SessionState,
    control::{ControlError, SignInReport, SignInRequest, SignedIn},
};
use futures_util::future::try_join_all;

use super::{
    browser::{BrowserBox, browser_error},
    deploy::Deploy,
};

impl Deploy {
    /// Signs a user in to each named site, in one browser or in all.
    pub(crate) async fn sign_in(&self, request: SignInRequest) -> Result<SignInReport, ControlError> {
        let _turn = self.turn.lock().await;
        let browsers = self.targets(request.target.as_ref())?;
        let states = request.users.into_iter().map(|(website, user)| async {
            let pod = self.pod(&website)?;
            let state = pod.client.session(Some(user.clone())).await.map_err(|error| pod.failed(&error))?;
            Ok::<_, ControlError>((website, user, state))
        });
        let states: Vec<(Name, String, SessionState)> = try_join_all(states).await?;
        let mut signed_in = Vec::new();
        // One after the other within a browser: a proof loads a page, and pages of one site share its cookies.
        for browser in browsers {
            for (website, user, state) in &states {
                let verified = browser
                    .browser()
                    .sign_in(website, user, state)
                    .await
                    .map_err(|error| browser_error(&error, &[]))?;
                let (website, user, browser) = (website.clone(), user.clone(), browser.plan.name.clone());
                signed_in.push(SignedIn { website, user, browser, verified });
            }
        }
        Ok(SignInReport { signed_in })
    }

    fn targets(&self, target: Option<&Name>) -> Result<Vec<&BrowserBox>, ControlError> {
        let known = || self.browsers.keys().map(Name::as_str).collect::<Vec<_>>().join(", ");
        match target {
            Some(name) => self.browsers.get(name).map(|browser| vec![browser]).ok_or_else(|| {
                ControlError::new(ExitCode::Refused, format!("the deploy has no browser `{name}`"))
                    .hint(format!("it has: {}", known()))
            }),
            None if self.browsers.is_empty() => {
                Err(ControlError::new(ExitCode::Refused, "the deploy has no browser to sign in")
                    .hint("deploy one with the sites, as a multi env"))
            }
            None => Ok(self.browsers.values().collect()),
        }
    }
}
