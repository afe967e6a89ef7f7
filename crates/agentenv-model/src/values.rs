//! What references stand for, between the command that deploys and the environment of a server (ENV-7).

use std::{collections::BTreeMap, fmt};

use agentenv_protocol::SecretPath;
use secrecy::SecretString;

use crate::{EnvVariable, Reference};

/// What the references of a plan stand for, as the deploying command found it. Shows names, never a value.
#[derive(Clone, Default)]
pub struct Values {
    variables: BTreeMap<EnvVariable, SecretString>,
    secrets: BTreeMap<SecretPath, SecretString>,
}

impl Values {
    /// Takes the value of a reference.
    pub fn insert(&mut self, reference: &Reference, value: SecretString) {
        match reference {
            Reference::Env { name, .. } => drop(self.variables.insert(name.clone(), value)),
            Reference::Secret { path, .. } => drop(self.secrets.insert(path.clone(), value)),
        }
    }

    /// Takes the value of a variable.
    pub fn insert_variable(&mut self, name: EnvVariable, value: SecretString) {
        self.variables.insert(name, value);
    }

    /// Takes the value of a stored secret.
    pub fn insert_secret(&mut self, path: SecretPath, value: SecretString) {
        self.secrets.insert(path, value);
    }

    /// What a reference stands for, its default left aside.
    pub fn get(&self, reference: &Reference) -> Option<&SecretString> {
        match reference {
            Reference::Env { name, .. } => self.variables.get(name),
            Reference::Secret { path, .. } => self.secrets.get(path),
        }
    }

    /// The variables.
    pub fn variables(&self) -> impl Iterator<Item = (&EnvVariable, &SecretString)> {
        self.variables.iter()
    }

    /// The stored secrets.
    pub fn secrets(&self) -> impl Iterator<Item = (&SecretPath, &SecretString)> {
        self.secrets.iter()
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables: Vec<&str> = self.variables.keys().map(EnvVariable::as_str).collect();
        f.debug_struct("Values")
            .field("variables", &variables)
            .field("secrets", &self.secrets.keys().collect::<Vec<_>>())
            .finish()
    }
}
