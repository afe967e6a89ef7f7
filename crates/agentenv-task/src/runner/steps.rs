//! What each kind of step does.

use std::{collections::BTreeMap, ffi::OsString};

use agentenv_protocol::{
    CACHE_ENV, DeployId, HOME_ENV, Name,
    control::{ControlError, DeployState, GetRequest, LoadRequest, SignInRequest},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    live::{Live, stopped, timed_out},
    say,
};
use crate::{
    action::{Action, Check, DeployEnv, DeployStep, Program, Step},
    check::{Expectation, ValueAt},
    deploys::DeployRequest,
    event::{Event, StepProgress, Stream},
    harness::{self, Ended, Finished, Job},
    outcome::{Failure, Outcome},
    plan::PlannedTask,
    record::{RunDeployState, agent_tokens, masked},
    stop::Stop,
};

/// The most failed expectations that one message names; all of them are in the step's result.
const NAMED_FAILURES: usize = 5;

impl Live<'_> {
    /// Does one step and says what was done; its deploy was checked when the task was parsed.
    pub(super) async fn perform(
        &mut self,
        index: usize,
        task: &PlannedTask,
        deadline: Instant,
        stop: &Stop,
    ) -> Result<String, Failure> {
        let step = &task.task.steps[index];
        match &step.action {
            Action::DeployEnv(request) => self.deploy_env(index, task, request, deadline).await,
            Action::LoadData { deploy, data } => {
                let id = self.id(*deploy)?;
                self.runner.deploys.load(&id, LoadRequest { data: data.clone() }).await?;
                Ok(data.keys().map(Name::as_str).collect::<Vec<_>>().join(", "))
            }
            Action::BrowserSignIn { deploy, users, target } => {
                let id = self.id(*deploy)?;
                let request = SignInRequest { users: users.clone(), target: target.clone() };
                let report = self.runner.deploys.sign_in(&id, request).await?;
                self.record.steps[index].result = json!(report);
                Ok(say::signed_in(&report))
            }
            Action::Agent { deploy, program, goal } => {
                let goal = goal.as_deref().unwrap_or(&task.task.goal);
                self.agent(index, task, (*deploy, program, goal), deadline, stop).await
            }
            Action::ResetEnv { deploy } => {
                let id = self.id(*deploy)?;
                let report = self.runner.deploys.reset(&id).await?;
                self.record.steps[index].result = json!(report);
                Ok(say::reset(&report))
            }
            Action::CollectTrafficCapture { deploy, fail_task_on_error } => {
                self.collect_step(index, (*deploy, *fail_task_on_error), (step.timeout, deadline), stop).await
            }
            Action::Check { deploy, check: Check::Data(expectations) } => {
                self.check_data(index, *deploy, expectations).await
            }
            Action::Check { deploy, check: Check::Command(program) } => {
                self.check_command(index, task, (*deploy, program), deadline, stop).await
            }
            Action::CloseEnv { deploy } => {
                let id = self.id(*deploy)?;
                self.runner.deploys.close(&id).await?;
                self.infos.remove(deploy);
                if let Some(entry) = self.deploy_record(*deploy) {
                    entry.state = RunDeployState::Closed;
                }
                Ok(format!("{id} is closed"))
            }
        }
    }

    pub(super) fn id(&mut self, deploy: DeployStep) -> Result<DeployId, Failure> {
        let entry = self.deploy_record(deploy).map(|entry| entry.deploy.clone());
        entry.ok_or_else(|| Failure::new(Outcome::InfrastructureError, "its deploy was never made"))
    }

    async fn deploy_env(
        &mut self,
        index: usize,
        task: &PlannedTask,
        step: &DeployEnv,
        deadline: Instant,
    ) -> Result<String, Failure> {
        let at = DeployStep(index);
        let mut step = step.clone();
        // What was planned is what is deployed, also where a newer version was put meanwhile.
        let planned = self.deploy_record(at).and_then(|entry| entry.versions.iter().find(|(env, _)| *env == step.env));
        step.version = planned.map(|(_, version)| *version).or(step.version);
        let request = DeployRequest {
            deploy: self.id(at)?,
            run: self.record.run.clone(),
            step,
            expects_reset: task.task.resets(at),
            deadline,
            progress: StepProgress::new(self.runner.events.clone(), index),
        };
        let info = self.runner.deploys.deploy(request).await?;
        for warning in &info.warnings {
            self.warn(Some(index), warning.clone());
        }
        self.record.steps[index].result = json!({ "deploy": info.deploy, "ready_ms": info.ready_ms });
        if let Some(entry) = self.deploy_record(at) {
            entry.state = RunDeployState::Ready;
            entry.provider.clone_from(&info.provider);
            entry.info = Some(masked(&info));
        }
        let summary = format!("{} is ready after {} ms", info.deploy, info.ready_ms);
        self.infos.insert(at, info);
        Ok(summary)
    }

    async fn agent(
        &mut self,
        index: usize,
        task: &PlannedTask,
        (deploy, program, goal): (DeployStep, &Program, &str),
        deadline: Instant,
        stop: &Stop,
    ) -> Result<String, Failure> {
        let id = self.id(deploy)?;
        let step = &task.task.steps[index];
        let finished = self.program(index, task, (deploy, program, goal), deadline, stop).await;
        self.keep_files(index).await;
        let finished = finished.map_err(|error| {
            Failure::new(Outcome::AgentError, format!("the harness `{}` cannot be run: {error}", program.command[0]))
                .hint(format!("it is run in {}", task.task.folder.display()))
        })?;
        let Err(failure) = ended(&finished, step, "the harness", Outcome::AgentError) else {
            return Ok(self.files_of(index));
        };
        self.record.steps[index].result = say::exit(&finished.ended);
        // A harness whose deploy died under it is not to blame.
        match (failure.outcome, self.runner.deploys.state(&id).await) {
            (Outcome::AgentError, Err(error)) => Err(not_the_agent(&failure, &error.message)),
            (Outcome::AgentError, Ok(state @ (DeployState::Failed | DeployState::Degraded | DeployState::Closed))) => {
                Err(not_the_agent(&failure, &format!("the deploy is {}", json!(state).as_str().unwrap_or_default())))
            }
            _ => Err(failure),
        }
    }

    async fn check_command(
        &mut self,
        index: usize,
        task: &PlannedTask,
        (deploy, program): (DeployStep, &Program),
        deadline: Instant,
        stop: &Stop,
    ) -> Result<String, Failure> {
        let step = &task.task.steps[index];
        let finished = self.program(index, task, (deploy, program, &task.task.goal), deadline, stop).await;
        self.keep_files(index).await;
        let finished = finished.map_err(|error| {
            let message = format!("the check command `{}` cannot be run: {error}", program.command[0]);
            Failure::new(Outcome::InfrastructureError, message)
                .hint(format!("it is run in {}", task.task.folder.display()))
        })?;
        self.record.steps[index].result = say::exit(&finished.ended);
        ended(&finished, step, "the check command", Outcome::Failed).map(|()| "the command holds".to_owned())
    }

    fn files_of(&self, index: usize) -> String {
        match self.record.artifacts.iter().filter(|artifact| artifact.step == index).count() {
            1 => "1 file is stored".to_owned(),
            count => format!("{count} files are stored"),
        }
    }

    /// Runs a host program with what it may know: the deploy's JSON, never the control token.
    async fn program(
        &mut self,
        index: usize,
        task: &PlannedTask,
        (deploy, program, goal): (DeployStep, &Program, &str),
        deadline: Instant,
        stop: &Stop,
    ) -> std::io::Result<Finished> {
        let output = self.dir.output(index);
        std::fs::create_dir_all(&output)?;
        let info = self.infos.get(&deploy).map(serde_json::to_string).transpose()?.unwrap_or_default();
        let left = deadline.saturating_duration_since(Instant::now());
        let ends_at = Timestamp::now().checked_add(left).unwrap_or(Timestamp::MAX);
        let home = &self.runner.home;
        let variables: Vec<(&'static str, OsString)> = vec![
            ("AGENTENV_DEPLOY", info.into()),
            ("AGENTENV_GOAL", goal.into()),
            ("AGENTENV_DEADLINE", ends_at.to_string().into()),
            ("AGENTENV_OUTPUT_DIR", output.into()),
            (HOME_ENV, home.root().into()),
            (CACHE_ENV, home.cache().into()),
        ];
        let run = self.record.run.clone();
        let job = Job {
            run: &run,
            program,
            folder: &task.task.folder,
            variables,
            logs: self.dir.logs(index),
            deadline,
            masked: self.infos.values().flat_map(agent_tokens).collect(),
        };
        let events = self.runner.events.clone();
        let line = move |stream: Stream, line: String| {
            events.send(&Event::Output { time: Timestamp::now(), step: index, stream, line });
        };
        harness::run(job, stop, &line).await
    }

    async fn check_data(
        &mut self,
        index: usize,
        deploy: DeployStep,
        expectations: &[Expectation],
    ) -> Result<String, Failure> {
        let id = self.id(deploy)?;
        let mut answers = Answers::default();
        let mut judged = Vec::new();
        let mut failed = Vec::new();
        for expectation in expectations {
            let data = self.ask(&id, &expectation.at, &mut answers).await?;
            let other = match expectation.test.other() {
                Some(other) => Some(self.ask(&id, other, &mut answers).await?),
                None => None,
            };
            let verdict = match (data, other) {
                (Ok(data), None) => expectation.judge(&data, None),
                (Ok(data), Some(Ok(other))) => expectation.judge(&data, Some(&other)),
                // What a selector asks for is not there: so is the value.
                (Err(_), _) if matches!(expectation.test, crate::check::Test::Exists(false)) => Ok(()),
                (Err(nothing), _) | (_, Some(Err(nothing))) => Err(format!("{}: {nothing}", expectation.at)),
            };
            let message = verdict.as_ref().err();
            judged.push(json!({ "value": expectation.at.to_string(), "passed": verdict.is_ok(), "message": message }));
            failed.extend(verdict.err());
        }
        self.record.steps[index].result = json!({ "expectations": judged });
        if failed.is_empty() {
            return Ok(match expectations.len() {
                1 => "the expectation holds".to_owned(),
                several => format!("all {several} expectations hold"),
            });
        }
        let more = failed.len().saturating_sub(NAMED_FAILURES);
        failed.truncate(NAMED_FAILURES);
        let mut message = failed.join("; ");
        if more > 0 {
            message.push_str(&format!("; and {more} more"));
        }
        Err(Failure::new(Outcome::Failed, message))
    }

    /// Asks a site once for each selector, so that all expectations of a step see one state. The inner error is the
    /// site's word that what was selected is not there.
    async fn ask(
        &self,
        deploy: &DeployId,
        at: &ValueAt,
        answers: &mut Answers,
    ) -> Result<Result<Value, String>, Failure> {
        let key = (at.website.clone(), at.selector.as_ref().map(Value::to_string));
        if let Some(answer) = answers.get(&key) {
            return Ok(answer.clone());
        }
        let request = GetRequest { website: at.website.clone(), selector: at.selector.clone() };
        let answer = match self.runner.deploys.get(deploy, request).await {
            Ok(reply) => Ok(reply.data),
            Err(ControlError { kind: Some(agentenv_protocol::ErrorKind::NotFound), message, .. }) => Err(message),
            Err(error) => return Err(error.into()),
        };
        answers.insert(key, answer.clone());
        Ok(answer)
    }
}

/// What sites answered, by website and selector.
type Answers = BTreeMap<(Name, Option<String>), Result<Value, String>>;

fn ended(finished: &Finished, step: &Step, what: &str, outcome: Outcome) -> Result<(), Failure> {
    let failure = match finished.ended {
        Ended::Exited(status) if status.success() => return Ok(()),
        Ended::Exited(status) => Failure::new(outcome, format!("{what} {}", say::how(status))),
        Ended::TimedOut => timed_out(step.timeout),
        Ended::Stopped(why) => stopped(why),
    };
    Err(Failure { log: finished.tail.clone(), ..failure })
}

fn not_the_agent(failure: &Failure, why: &str) -> Failure {
    let message = format!("{}, and the deploy is not well: {why}", failure.message);
    Failure { outcome: Outcome::InfrastructureError, message, ..failure.clone() }
}
