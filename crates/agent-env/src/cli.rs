//! The command line.

use std::{process::ExitCode, sync::Arc};

use agentenv_protocol::{ExitCode as Exit, Home, control::ControlError};
use clap::{CommandFactory, Parser, Subcommand};

use crate::{
    commands::{capture, cp, deploys, doctor, env_records, launch, mcp, run, secret, task, traffic, view, website},
    output::Output,
};

/// Web environments for AI agents: sites, browsers and the gateway between them.
#[derive(Parser, Debug)]
#[command(name = "agent-env", version, about, disable_help_subcommand = true)]
struct Cli {
    /// Print results as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Websites: store, check, write a new one
    #[command(subcommand)]
    Website(WebsiteCommand),
    /// Envs and their deploys
    #[command(subcommand)]
    Env(EnvCommand),
    /// Tasks
    #[command(subcommand)]
    Task(TaskCommand),
    /// Runs of tasks
    #[command(subcommand)]
    Run(run::RunCommand),
    /// Secrets, which settings name as `secret:PATH`
    #[command(subcommand)]
    Secret(secret::SecretCommand),
    /// Captured traffic of deploys
    #[command(subcommand)]
    Traffic(traffic::TrafficCommand),
    /// The store
    #[command(subcommand)]
    Store(StoreCommand),
    /// Offer a deploy's computers and browsers as MCP tools, over standard input and output
    Mcp(mcp::McpArgs),
    /// Record the packets of this network namespace
    Capture(capture::CaptureArgs),
    /// Find out what this machine can do, and what to change
    Doctor,
    /// Print shell completion
    Completion {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write man pages into a folder
    Man {
        /// The folder
        folder: std::path::PathBuf,
    },
}

#[derive(Subcommand, Debug)]
enum WebsiteCommand {
    /// Store a website's bundle
    Put(env_records::WebsitePutArgs),
    /// Run a site alone and test every rule of website/v1 against it
    Check(website::CheckArgs),
    /// Write a small site to start from
    New(website::NewArgs),
}

#[derive(Subcommand, Debug)]
enum EnvCommand {
    /// Store an env
    Put(env_records::EnvPutArgs),
    /// List stored envs
    List(env_records::EnvListArgs),
    /// Show a stored env
    Show(env_records::EnvShowArgs),
    /// Remove a stored env
    Rm(env_records::EnvRmArgs),
    /// Deploy an env
    Deploy(launch::DeployArgs),
    /// Show deploys
    Status(deploys::StatusArgs),
    /// Print a deploy's control token
    Token(deploys::DeployArg),
    /// Print a deploy's logs
    Logs(deploys::LogsArgs),
    /// List what was denied in a deploy
    Denied(deploys::DeployArg),
    /// Run a command inside a sandbox
    Exec(deploys::ExecArgs),
    /// Show where people see a computer's screen
    View(view::ViewArgs),
    /// Copy a file out of a sandbox, or into one
    Cp(cp::CpArgs),
    /// Load data into a website
    Load(deploys::LoadArgs),
    /// Print a website's data
    Data(deploys::DataArgs),
    /// Sign users in, in the browsers
    SignIn(deploys::SignInArgs),
    /// Reset sites and browsers
    Reset(deploys::DeployArg),
    /// Close a deploy
    Close(deploys::CloseArgs),
    /// Remove what dead deploys left
    Gc,
}

#[derive(Subcommand, Debug)]
enum TaskCommand {
    /// Run a task
    Run(task::TaskRunArgs),
}

#[derive(Subcommand, Debug)]
enum StoreCommand {
    /// Remove files that no record names
    Gc(env_records::StoreGcArgs),
}

/// Parses the command line and runs the command.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output { json: cli.json };
    start_tracing();
    match run(cli.command, output) {
        Ok(code) => code,
        Err(error) => {
            output.error(&error);
            error.exit.into()
        }
    }
}

fn start_tracing() {
    use tracing_subscriber::{EnvFilter, fmt};
    let filter = EnvFilter::try_from_env("AGENTENV_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).init();
}

fn run(command: Command, output: Output) -> Result<ExitCode, ControlError> {
    match command {
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "agent-env", &mut script);
            crate::output::print(&String::from_utf8_lossy(&script))?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Man { folder } => {
            let written =
                std::fs::create_dir_all(&folder).and_then(|()| clap_mangen::generate_to(Cli::command(), &folder));
            written.map_err(|error| {
                ControlError::new(Exit::Refused, format!("{} cannot be written: {error}", folder.display()))
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Capture(args) => return capture::capture(output, &args),
        Command::Doctor => return doctor::doctor(output),
        // All it needs is in its environment.
        Command::Mcp(args) if !args.names_deploy() => {
            return run_async(mcp::of_variable(&args)).map(|()| ExitCode::SUCCESS);
        }
        _ => {}
    }
    let home = Home::from_env().ok_or_else(|| {
        ControlError::new(Exit::Usage, "there is no place for agent-env's files")
            .hint("set AGENTENV_HOME to an absolute path")
    })?;
    // Whatever a dead deploy left is gone before anything new is made (RUN-3).
    let reaped = agentenv_deploy::reap(&home);
    run_async(dispatch(command, Arc::new(home), output, reaped))
}

fn run_async<T>(work: impl Future<Output = Result<T, ControlError>>) -> Result<T, ControlError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| ControlError::infrastructure(format!("the async runtime cannot be started: {error}")))?;
    let result = runtime.block_on(work);
    // A read of standard input may still be blocked: nobody waits for it.
    runtime.shutdown_background();
    result
}

async fn dispatch(
    command: Command,
    home: Arc<Home>,
    output: Output,
    reaped: Vec<agentenv_deploy::Reaped>,
) -> Result<ExitCode, ControlError> {
    let home = &*home;
    run::reap(home, output).await;
    let done = match command {
        Command::Website(WebsiteCommand::Put(args)) => env_records::website_put(home, output, args).await,
        Command::Website(WebsiteCommand::Check(args)) => website::check(home, output, &args).await,
        Command::Website(WebsiteCommand::New(args)) => website::new(output, &args),
        Command::Env(EnvCommand::Put(args)) => env_records::env_put(home, output, args).await,
        Command::Env(EnvCommand::List(args)) => env_records::env_list(home, output, args).await,
        Command::Env(EnvCommand::Show(args)) => env_records::env_show(home, output, args).await,
        Command::Env(EnvCommand::Rm(args)) => {
            launch::forget_ended(home).await?;
            env_records::env_rm(home, output, args).await
        }
        Command::Env(EnvCommand::Deploy(args)) => launch::deploy(home, output, &args).await,
        Command::Env(EnvCommand::Status(args)) => deploys::status(home, output, &args).await,
        Command::Env(EnvCommand::Token(args)) => deploys::token(home, &args),
        Command::Env(EnvCommand::Logs(args)) => deploys::logs(home, &args),
        Command::Env(EnvCommand::Denied(args)) => deploys::denied(home, output, &args).await,
        Command::Env(EnvCommand::Exec(args)) => {
            let code = deploys::exec(home, &args).await?;
            return Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)));
        }
        Command::Env(EnvCommand::View(args)) => view::view(home, output, &args).await,
        Command::Env(EnvCommand::Cp(args)) => cp::cp(home, output, &args).await,
        Command::Env(EnvCommand::Load(args)) => deploys::load_data(home, output, &args).await,
        Command::Env(EnvCommand::Data(args)) => deploys::data(home, &args).await,
        Command::Env(EnvCommand::SignIn(args)) => deploys::sign_in(home, output, &args).await,
        Command::Env(EnvCommand::Reset(args)) => deploys::reset(home, output, &args).await,
        Command::Env(EnvCommand::Close(args)) => deploys::close(home, output, &args).await,
        Command::Env(EnvCommand::Gc) => deploys::gc(output, &reaped),
        Command::Mcp(args) => mcp::of_deploy(home, &args).await,
        Command::Task(TaskCommand::Run(args)) => return task::run(home, output, args).await,
        Command::Run(command) => return run::run(home, output, command).await,
        Command::Secret(command) => secret::run(home, output, command).await,
        Command::Traffic(command) => return traffic::run(home, output, command).await,
        Command::Store(StoreCommand::Gc(args)) => env_records::store_gc(home, output, args).await,
        Command::Capture(_) | Command::Doctor | Command::Completion { .. } | Command::Man { .. } => Ok(()),
    };
    done.map(|()| ExitCode::SUCCESS)
}
