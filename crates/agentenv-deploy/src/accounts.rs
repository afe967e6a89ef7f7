//! Accounts of live sites: two deploys that use one at once would see each other's changes (RUN-4).

use std::{fs::File, io};

use agentenv_model::{Plan, PlannedWebsite, Reference};
use agentenv_protocol::{DeployId, ExitCode, Home, Name, control::ControlError};
use serde::{Deserialize, Serialize};

use crate::{DeployDir, DeployRecord, deploy_ids, names};

/// A secret that a live site of a deploy is signed in with, by its reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveAccount {
    /// The live site.
    pub website: Name,
    /// `secret:github/token`.
    pub reference: String,
}

/// The accounts of a plan's live sites. Told by reference, never by value: what a variable holds is not looked at, so the same
/// `env:` reference counts as the same account.
pub(crate) fn of(plan: &Plan) -> Vec<LiveAccount> {
    let of_website = |website: &PlannedWebsite| {
        let account =
            |reference: &Reference| LiveAccount { website: website.name.clone(), reference: reference.to_string() };
        website.secret_references().map(account).collect::<Vec<_>>()
    };
    plan.websites.iter().filter(|website| website.live).flat_map(of_website).collect()
}

/// Held from the look at other deploys until this one is seen by them: of two at once one is told of the other.
pub(crate) struct Turn {
    _lock: Option<File>,
}

/// Refuses accounts that a deploy of the home uses which is not over.
pub(crate) fn claim(home: &Home, accounts: &[LiveAccount]) -> io::Result<Result<Turn, ControlError>> {
    if accounts.is_empty() {
        return Ok(Ok(Turn { _lock: None }));
    }
    let lock = names::lock(home, "accounts.lock")?;
    for record in open_deploys(home) {
        if let Some(shared) = accounts.iter().find(|account| record.uses(account)) {
            return Ok(Err(refused(&record.deploy, shared)));
        }
    }
    Ok(Ok(Turn { _lock: Some(lock) }))
}

fn open_deploys(home: &Home) -> impl Iterator<Item = DeployRecord> {
    // The dead ones were reaped before this command began.
    deploy_ids(home).filter_map(|id| DeployDir::new(home.deploy(&id)).load().ok()).filter(|record| !record.is_over())
}

impl DeployRecord {
    fn uses(&self, account: &LiveAccount) -> bool {
        self.accounts.iter().any(|own| own.reference == account.reference)
    }
}

fn refused(holder: &DeployId, account: &LiveAccount) -> ControlError {
    let LiveAccount { website, reference } = account;
    let message =
        format!("live site `{website}` is signed in with `{reference}`, as it is in deploy {holder}, which still runs");
    ControlError::new(ExitCode::Refused, message).hint(format!(
        "close it with `agent-env env close {holder}`, use another account, or add --share-account: each then sees what the other \
         changes"
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use agentenv_protocol::control::DeployState;

    use super::*;

    fn account(reference: &str) -> LiveAccount {
        LiveAccount { website: Name::parse("github").unwrap(), reference: reference.to_owned() }
    }

    #[test]
    fn an_account_in_use_is_refused_until_its_deploy_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        let env = Name::parse("office").unwrap();
        let mut record = DeployRecord::new(DeployId::random(), None, env, Vec::new(), true);
        record.accounts = vec![account("secret:github/token")];
        let dir = DeployDir::new(home.deploy(&record.deploy));
        fs::create_dir_all(dir.path()).unwrap();
        dir.save(&record).unwrap();
        let claim = |reference: &str| claim(&home, &[account("secret:other"), account(reference)]).unwrap();
        let Err(error) = claim("secret:github/token") else { panic!("it is in use") };
        assert_eq!(error.exit, ExitCode::Refused);
        assert!(
            error.message.contains("secret:github/token") && error.message.contains(record.deploy.as_str()),
            "{error}"
        );
        assert!(error.hint.contains("--share-account"), "{}", error.hint);
        assert!(claim("secret:github/second").is_ok());
        record.state = DeployState::Failed;
        dir.save(&record).unwrap();
        assert!(claim("secret:github/token").is_ok());
    }
}
