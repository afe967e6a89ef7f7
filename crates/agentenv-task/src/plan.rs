//! Planning: the last refusals before anything exists. A planned task names only envs, websites and browsers that are there.

use std::collections::BTreeMap;

use agentenv_protocol::{Name, control::ControlError};

use crate::{
    action::{Action, Check, DeployEnv, DeployStep, Step, Task},
    deploys::{Deploys, PlannedDeploy},
    file::{Problem, Problems, did_you_mean, list},
};

/// A task that may be run.
#[derive(Clone, Debug)]
pub struct PlannedTask {
    pub(crate) task: Task,
    pub(crate) deploys: BTreeMap<DeployStep, PlannedDeploy>,
}

impl PlannedTask {
    /// The task.
    pub fn task(&self) -> &Task {
        &self.task
    }
}

/// Why a task is not run. Nothing exists yet.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The task asks for what is not there, or not yet.
    #[error(transparent)]
    Refused(#[from] Problems),
    /// The store could not be read.
    #[error(transparent)]
    Deploys(ControlError),
}

/// Plans a task: every problem at once.
pub async fn plan(task: Task, deploys: &dyn Deploys) -> Result<PlannedTask, PlanError> {
    let mut problems = Vec::new();
    let mut planned = BTreeMap::new();
    for (index, step) in task.steps.iter().enumerate() {
        if let Some(refusal) = later(&step.action) {
            problems.push(problem(&task, step, refusal, "take it out"));
        }
        if let Action::DeployEnv(deploy) = &step.action {
            match plan_one(deploys, deploy).await? {
                Ok(plan) => drop(planned.insert(DeployStep(index), plan)),
                Err(refused) => problems.push(problem(&task, step, refused.message, &refused.hint)),
            }
        }
    }
    for step in &task.steps {
        if let Action::CollectTrafficCapture { deploy, .. } = &step.action
            && let Action::DeployEnv(DeployEnv { capture_traffic: false, env, .. }) = &task.steps[deploy.0].action
        {
            let message = format!("{}: the deploy of `{env}` records no traffic", step.label());
            problems.push(problem(&task, step, message, "give its deploy_env step `capture_traffic = true`"));
        }
        let Some(plan) = step.action.deploy().and_then(|deploy| planned.get(&deploy)) else { continue };
        for (what, name, known) in named(&step.action, plan) {
            if !known.contains(&name) {
                problems.push(unknown(&task, step, what, &name, known));
            }
        }
    }
    match Problems::of(problems) {
        Some(problems) => Err(problems.into()),
        None => Ok(PlannedTask { task, deploys: planned }),
    }
}

async fn plan_one(deploys: &dyn Deploys, deploy: &DeployEnv) -> Result<Result<PlannedDeploy, ControlError>, PlanError> {
    match deploys.plan(deploy).await {
        Ok(plan) => Ok(Ok(plan)),
        Err(error) if error.exit == agentenv_protocol::ExitCode::Infrastructure => Err(PlanError::Deploys(error)),
        Err(error) => Ok(Err(error)),
    }
}

/// What this program does not do yet; parsed so that the refusal can name it.
fn later(action: &Action) -> Option<String> {
    match action {
        Action::DeployEnv(DeployEnv { provider: Some(provider), .. }) if provider != "sandbox" => {
            Some(format!("the provider `{provider}` is not there yet: this program has `sandbox`"))
        }
        _ => None,
    }
}

/// The websites and browsers that a step names, each with what the deploy has.
fn named<'a>(action: &Action, plan: &'a PlannedDeploy) -> Vec<(&'static str, Name, &'a [Name])> {
    let website = |name: &Name| ("website", name.clone(), plan.websites.as_slice());
    match action {
        Action::LoadData { data, .. } => data.keys().map(website).collect(),
        Action::BrowserSignIn { users, target, .. } => {
            let browser = target.iter().map(|name| ("browser", name.clone(), plan.browsers.as_slice()));
            users.keys().map(website).chain(browser).collect()
        }
        Action::Check { check: Check::Data(expectations), .. } => expectations
            .iter()
            .flat_map(|expectation| [Some(&expectation.at), expectation.test.other()])
            .flatten()
            .map(|at| website(&at.website))
            .collect(),
        _ => Vec::new(),
    }
}

fn unknown(task: &Task, step: &Step, what: &str, name: &Name, known: &[Name]) -> Problem {
    let known: Vec<&str> = known.iter().map(Name::as_str).collect();
    let accepted = match (did_you_mean(name.as_str(), known.iter().copied()), known.as_slice()) {
        (Some(meant), _) => format!("did you mean `{meant}`?"),
        (None, []) => "it has none".to_owned(),
        (None, known) => format!("it has {}", list(known)),
    };
    problem(task, step, format!("{}: the env has no {what} `{name}`", step.label()), &accepted)
}

fn problem(task: &Task, step: &Step, message: String, accepted: &str) -> Problem {
    Problem {
        file: task.file.display().to_string(),
        line: step.place.line,
        column: step.place.column,
        message,
        accepted: accepted.to_owned(),
    }
}
