//! `[[step]]` tables to [`Step`]s, and which deploy each one means.

use std::{collections::BTreeMap, ops::RangeInclusive};

use agentenv_protocol::{CAPTURE_FILE_MB, CAPTURE_FILES, Name};
use serde_json::Value;

use super::{
    ReadFile,
    expect::check,
    json::to_json,
    problem::did_you_mean,
    reader::{At, Section, Source, list},
};
use crate::action::{Action, DeployEnv, DeployStep, Program, Step, StepKind};

/// The longest name of a step: it stands in a table's column.
const STEP_NAME_LIMIT: usize = 80;
/// The longest goal: the kernel hands a program variables of up to 128 KiB.
const GOAL_LIMIT: usize = 100 * 1024;
/// The providers that a task may name.
const PROVIDERS: [&str; 3] = ["sandbox", "compose", "process"];

/// The deploys that are open while the steps go by.
#[derive(Default)]
struct Open {
    /// Each with its step's name.
    deploys: Vec<(DeployStep, Option<String>)>,
    /// Whether a broken step may have opened or closed one, so that complaints about deploys would mislead.
    unsure: bool,
}

/// Parses every step; what is wrong goes to the source's problems.
pub(super) fn steps(source: &Source<'_>, sections: &[Section<'_>], read: &ReadFile<'_>) -> Vec<Step> {
    let mut open = Open::default();
    let mut names: Vec<String> = Vec::new();
    let mut steps = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        let name = step_name(section, &names);
        names.extend(name.clone());
        let timeout = section.seconds("timeout_s");
        let Some(kind) = kind(section) else {
            open.unsure = true;
            continue;
        };
        let action = action(section, kind, read, &mut open);
        section.finish();
        if let (StepKind::DeployEnv, at) = (kind, DeployStep(index)) {
            open.deploys.push((at, name.clone()));
        }
        if let Some(action) = action {
            let timeout = timeout.unwrap_or_else(|| kind.default_timeout());
            steps.push(Step { name, place: source.place(section.at()), timeout, action });
        }
    }
    steps
}

/// What an agent is told: it travels in a variable of its harness.
pub(super) fn goal(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("it is empty; say what the agent is to do".to_owned());
    }
    if text.contains('\0') {
        return Err("it has a NUL, which no variable can hold".to_owned());
    }
    if text.len() > GOAL_LIMIT {
        return Err(format!("it has {} bytes; accepted are {GOAL_LIMIT} at most", text.len()));
    }
    Ok(text.to_owned())
}

fn step_name(section: &Section<'_>, names: &[String]) -> Option<String> {
    let name = section.string("name")?;
    let length = name.value.chars().count();
    if length == 0 || length > STEP_NAME_LIMIT || name.value.chars().any(char::is_control) {
        let accepted = format!("accepted is one line of 1 to {STEP_NAME_LIMIT} characters");
        section.source().problem(name.at, "`name` does not fit", accepted);
    }
    if names.contains(&name.value) {
        section.source().problem(name.at, format!("two steps are named `{}`", name.value), "give each its own name");
    }
    Some(name.value)
}

fn kind(section: &Section<'_>) -> Option<StepKind> {
    let words = StepKind::ALL.map(StepKind::as_str);
    let Some(text) = section.string("kind") else {
        if !section.has("kind") {
            section.missing("kind", &format!("one of {}", list(&words)));
        }
        return None;
    };
    let kind = StepKind::ALL.into_iter().find(|kind| kind.as_str() == text.value);
    if kind.is_none() {
        let accepted = match did_you_mean(&text.value, words) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("accepted are {}", list(&words)),
        };
        section.source().problem(text.at, format!("there is no step of kind `{}`", text.value), accepted);
    }
    kind
}

fn action(section: &Section<'_>, kind: StepKind, read: &ReadFile<'_>, open: &mut Open) -> Option<Action> {
    if kind == StepKind::DeployEnv {
        return deploy_env(section).map(Action::DeployEnv);
    }
    let deploy = which_deploy(section, kind, open);
    let action = |deploy: DeployStep| -> Option<Action> {
        Some(match kind {
            StepKind::DeployEnv => return None,
            StepKind::LoadData => Action::LoadData { deploy, data: data(section, read)? },
            StepKind::BrowserSignIn => {
                let users = users(section);
                let target = section.parsed("target", Name::parse).map(|target| target.value);
                Action::BrowserSignIn { deploy, users: users?, target }
            }
            StepKind::Agent => {
                let program = program(section);
                let goal = section.parsed("goal", goal).map(|goal| goal.value);
                Action::Agent { deploy, goal, program: program? }
            }
            StepKind::ResetEnv => Action::ResetEnv { deploy },
            StepKind::CollectTrafficCapture => {
                let fail_task_on_error = section.boolean("fail_task_on_error").is_some_and(|fail| fail.value);
                Action::CollectTrafficCapture { deploy, fail_task_on_error }
            }
            StepKind::Check => Action::Check { deploy, check: check(section)? },
            StepKind::CloseEnv => Action::CloseEnv { deploy },
        })
    };
    // Parsed also where the deploy is wrong: every problem at once.
    let action = action(deploy.unwrap_or(DeployStep(0)));
    deploy.and(action)
}

/// The deploy that the step means: the one it names, or the only one that is open.
fn which_deploy(section: &Section<'_>, kind: StepKind, open: &mut Open) -> Option<DeployStep> {
    let named = section.string("deploy");
    let source = section.source();
    let names: Vec<&str> = open.deploys.iter().filter_map(|(_, name)| name.as_deref()).collect();
    let found = match &named {
        Some(named) => {
            let found = open.deploys.iter().position(|(_, name)| name.as_deref() == Some(named.value.as_str()));
            if found.is_none() && !open.unsure {
                let accepted = match names.as_slice() {
                    [] => "give the deploy_env step a `name` to refer to".to_owned(),
                    names => format!("open here are {}", list(names)),
                };
                source.problem(named.at, format!("no deploy `{}` is open at this step", named.value), accepted);
            }
            found
        }
        None if section.has("deploy") => None,
        None => match open.deploys.len() {
            1 => Some(0),
            _ if open.unsure => None,
            0 => {
                source.problem(
                    section.at(),
                    format!("{kind} has no deploy to work on"),
                    "put a deploy_env step before it",
                );
                None
            }
            _ => {
                let accepted = format!(
                    "say which one: `deploy = \"NAME\"`, the `name` of its deploy_env step; open here are {}",
                    list(&names)
                );
                source.problem(section.at(), format!("{kind} could mean several deploys"), accepted);
                None
            }
        },
    };
    let Some(found) = found else {
        open.unsure |= kind == StepKind::CloseEnv;
        return None;
    };
    let deploy = open.deploys[found].0;
    if kind == StepKind::CloseEnv {
        open.deploys.remove(found);
    }
    Some(deploy)
}

fn deploy_env(section: &Section<'_>) -> Option<DeployEnv> {
    let env = section.required_parsed("env", env_and_version);
    let provider = section.string("provider");
    if let Some(provider) = provider.as_ref().filter(|provider| !PROVIDERS.contains(&provider.value.as_str())) {
        let accepted = format!("accepted are {}", list(&PROVIDERS));
        section.source().problem(provider.at, format!("there is no provider `{}`", provider.value), accepted);
    }
    let capture_traffic = section.boolean("capture_traffic").is_some_and(|capture| capture.value);
    let ring = |key: &'static str, accepted: &RangeInclusive<u32>| {
        let value = section.integer(key)?;
        if !capture_traffic {
            section.source().problem(
                value.at,
                format!("`{key}` without traffic capture"),
                "set `capture_traffic = true`",
            );
        }
        let number = u32::try_from(value.value).ok().filter(|number| accepted.contains(number));
        if number.is_none() {
            let accepted = format!("accepted are {} to {}", accepted.start(), accepted.end());
            section.source().problem(value.at, format!("`{key}` is {}", value.value), accepted);
        }
        number
    };
    Some(DeployEnv {
        capture_files: ring("capture_files", &CAPTURE_FILES),
        capture_file_mb: ring("capture_file_mb", &CAPTURE_FILE_MB),
        deploy_name: section.parsed("deploy_name", Name::parse).map(|name| name.value),
        provider: provider.map(|provider| provider.value),
        capture_traffic,
        ready_timeout: section.seconds("ready_timeout_s"),
        version: env.as_ref().and_then(|env| env.value.1),
        env: env?.value.0,
    })
}

/// An env as commands name it: `office`, or `office@3`.
fn env_and_version(text: &str) -> Result<(Name, Option<u64>), String> {
    let (name, version) = match text.split_once('@') {
        None => (text, None),
        Some((name, version)) => match version.parse() {
            Ok(version) if version > 0 => (name, Some(version)),
            _ => return Err(format!("`{version}` is not a version; accepted is a number from 1, as `{name}@3`")),
        },
    };
    Ok((Name::parse(name).map_err(|error| error.to_string())?, version))
}

fn data(section: &Section<'_>, read: &ReadFile<'_>) -> Option<BTreeMap<Name, Value>> {
    let accepted = "a table of websites, each with its data or with `{ file = \"data.json\" }`";
    let Some(entries) = section.entries("data", accepted) else {
        if !section.has("data") {
            section.missing("data", accepted);
        }
        return None;
    };
    let mut out = BTreeMap::new();
    for (website, item) in entries {
        let name = website_name(section, &website);
        let value = match data_file(item.value) {
            Some(file) => read_json(section, &item, file, read),
            None => to_json(section.source(), item.value, item.at, 0),
        };
        out.extend(name.zip(value));
    }
    Some(out)
}

/// A table with the one key `file` and a string names a file; anything else is the data itself.
fn data_file(item: &toml_edit::Item) -> Option<&str> {
    let table = item.as_table_like()?;
    if table.len() == 1 { table.get("file")?.as_str() } else { None }
}

fn read_json(section: &Section<'_>, item: &At<&toml_edit::Item>, file: &str, read: &ReadFile<'_>) -> Option<Value> {
    let problem = |message: String, accepted: &str| {
        section.source().problem(item.at, message, accepted);
        None
    };
    match read(file) {
        Err(error) => problem(format!("`{file}` cannot be read: {error}"), "the path is relative to the task file"),
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(value) => Some(value),
            Err(error) => problem(format!("`{file}` is not JSON: {error}"), ""),
        },
    }
}

fn website_name(section: &Section<'_>, website: &At<String>) -> Option<Name> {
    Name::parse(&website.value)
        .map_err(|error| section.source().problem(website.at, format!("a website: {error}"), ""))
        .ok()
}

fn users(section: &Section<'_>) -> Option<BTreeMap<Name, String>> {
    let Some(users) = section.strings("users") else {
        if !section.has("users") {
            section.missing("users", "a table of a user for each website, as `users = { shop = \"ada\" }`");
        }
        return None;
    };
    if section.entries("users", "").is_some_and(|entries| entries.is_empty()) {
        section.source().problem(section.at(), "`users` names nobody", "name a user for each website to sign in at");
    }
    Some(users.into_iter().filter_map(|(website, user)| Some((website_name(section, &website)?, user))).collect())
}

pub(super) fn program(section: &Section<'_>) -> Option<Program> {
    let command = section.command("command");
    if !section.has("command") {
        section.missing("command", "an array of strings, the program first");
    }
    let mut env = BTreeMap::new();
    for (name, value) in section.strings("env").unwrap_or_default() {
        if name.value.is_empty() || name.value.contains(['=', '\0']) || value.contains('\0') {
            section.source().problem(name.at, format!("`{}` cannot be a variable", name.value), "");
        } else if name.value.starts_with("AGENTENV_") {
            let message = format!("`{}` is one of the program's own variables", name.value);
            section.source().problem(name.at, message, "accepted are names that do not begin with AGENTENV_");
        } else {
            env.insert(name.value, value);
        }
    }
    Some(Program { command: command?.value, env })
}
