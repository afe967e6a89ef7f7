//! `secret set|list|rm`: what `secret:` references stand for.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read as _},
};

use agentenv_model::{EnvSpec, Reference, SettingValue};
use agentenv_protocol::{ExitCode, Home, SecretPath, control::ControlError};
use agentenv_store::{MAX_SECRET_BYTES, Store, secret_value};
use clap::{Args, Subcommand};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::{
    output::{Output, columns},
    prompt,
    put::{latest_versions, store_error},
    secrets::{SecretSources, Source, secret_error},
};

#[derive(Subcommand, Debug)]
pub(crate) enum SecretCommand {
    /// Store a secret; its value is read from standard input, or asked for
    Set(SecretArg),
    /// List secrets, where each comes from and which envs use it; never a value
    List,
    /// Remove a stored secret
    Rm(SecretArg),
}

/// A secret.
#[derive(Args, Debug)]
pub(crate) struct SecretArg {
    /// Its path, as in `secret:PATH`: `github/token`
    path: SecretPath,
}

pub(crate) async fn run(home: &Home, output: Output, command: SecretCommand) -> Result<(), ControlError> {
    let sources = SecretSources::of(home);
    match command {
        SecretCommand::Set(SecretArg { path }) => set(output, &sources, &path),
        SecretCommand::List => list(home, output, &sources).await,
        SecretCommand::Rm(SecretArg { path }) => remove(output, &sources, &path),
    }
}

fn set(output: Output, sources: &SecretSources, path: &SecretPath) -> Result<(), ControlError> {
    let value = read_value(path)?;
    let replaced = sources.files().set(path, &value).map_err(|error| secret_error(&error))?;
    let before = match sources.source(path, std::slice::from_ref(path)) {
        Some(Source::Stored) | None => None,
        Some(other) => Some(shown(&other)),
    };
    output.result(&json!({ "path": path, "replaced": replaced, "hidden_by": before }), || {
        let what = if replaced { "is stored in the place of an earlier one" } else { "is stored" };
        let before = before.as_ref().map(|before| format!("; {before} comes first")).unwrap_or_default();
        format!("secret {path} {what}{before}")
    })
}

fn read_value(path: &SecretPath) -> Result<SecretString, ControlError> {
    let read = if prompt::can_ask() {
        prompt::hidden(&format!("value of {path}"), MAX_SECRET_BYTES)
    } else {
        let mut bytes = Vec::with_capacity(MAX_SECRET_BYTES + 3);
        io::stdin().lock().take(MAX_SECRET_BYTES as u64 + 3).read_to_end(&mut bytes).map(|_| bytes)
    };
    let refused = |message: String| {
        ControlError::new(ExitCode::Refused, message).hint(format!("such as: agent-env secret set {path} < FILE"))
    };
    let bytes = read.map_err(|error| match error.kind() {
        io::ErrorKind::Interrupted => refused("nothing was stored".to_owned()),
        _ => refused(format!("the value of {path} cannot be read: {error}")),
    })?;
    secret_value(bytes).map_err(|error| refused(format!("nothing was stored for {path}: {error}")))
}

fn remove(output: Output, sources: &SecretSources, path: &SecretPath) -> Result<(), ControlError> {
    if !sources.files().remove(path).map_err(|error| secret_error(&error))? {
        return Err(ControlError::new(ExitCode::Refused, format!("no secret `{path}` is stored"))
            .hint("`agent-env secret list` shows what there is"));
    }
    output.result(&json!({ "path": path, "removed": true }), || format!("secret {path} is removed"))
}

async fn list(home: &Home, output: Output, sources: &SecretSources) -> Result<(), ControlError> {
    let stored = sources.files().list().map_err(|error| secret_error(&error))?;
    let mut users = used(home).await?;
    for path in &stored {
        users.entry(path.clone()).or_default();
    }
    let source = |path: &SecretPath| sources.source(path, &stored).map(|source| shown(&source));
    let list: Vec<Value> = users
        .iter()
        .map(|(path, users)| json!({ "path": path, "source": source(path), "stored": stored.contains(path), "used_by": users }))
        .collect();
    output.result(&list, || {
        if users.is_empty() {
            return "no secret is stored, and no env needs one".to_owned();
        }
        let mut rows = vec![["PATH", "SOURCE", "USED BY"].map(str::to_owned).to_vec()];
        for (path, users) in &users {
            let source = source(path).unwrap_or_else(|| "missing".to_owned());
            rows.push(vec![path.to_string(), source, users.iter().cloned().collect::<Vec<_>>().join(", ")]);
        }
        columns(&rows)
    })
}

/// The secrets that the latest versions of stored envs name, with their names.
async fn used(home: &Home) -> Result<BTreeMap<SecretPath, BTreeSet<String>>, ControlError> {
    let store = Store::open(home).await.map_err(store_error)?;
    let mut users: BTreeMap<SecretPath, BTreeSet<String>> = BTreeMap::new();
    for env in latest_versions(&store).await? {
        let settings = match &env.spec {
            EnvSpec::Website(site) => &site.settings,
            EnvSpec::Computer(computer) => &computer.settings,
            EnvSpec::Browser(_) | EnvSpec::Multi(_) => continue,
        };
        for value in settings.values() {
            if let SettingValue::Reference(Reference::Secret { path, .. }) = value {
                users.entry(path.clone()).or_default().insert(env.name.to_string());
            }
        }
    }
    Ok(users)
}

fn shown(source: &Source) -> String {
    match source {
        Source::Variable(name) => format!("variable {name}"),
        Source::Command(program) => format!("command {}", program.display()),
        Source::Stored => "stored".to_owned(),
    }
}
