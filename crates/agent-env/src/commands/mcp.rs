//! `mcp`: a deploy's computers and browsers as tools of a Model Context Protocol server, over standard input and output (BR-6).
//!
//! The server knows the deploy's agent URLs and nothing of its control token: whoever has the tools has what an agent has.
//! The browser tools are calls of the Chrome DevTools Protocol, the others are the agent API of a computer.

mod arguments;
mod browser;
mod computer;
mod failure;
mod keys;
mod page;
mod place;
mod schema;
mod server;
mod tools;

use agentenv_protocol::{
    ExitCode, Home, Name,
    control::{BrowserInfo, ControlError, DeployInfo},
};
use clap::Args;
use rmcp::{
    service::{ServerInitializeError, serve_server},
    transport::async_rw::AsyncRwTransport,
};

use self::{browser::Browser, computer::Desktop, place::Place, server::Server};
use super::deploys;

/// What a harness has in place of the name of a deploy: the deploy's JSON.
const DEPLOY_VARIABLE: &str = "AGENTENV_DEPLOY";
/// One message of the host. What is longer gets no answer, so this is far above what the arguments may be.
const MESSAGE_BYTES: usize = 16 << 20;

/// Arguments of `mcp`.
#[derive(Args, Debug)]
pub(crate) struct McpArgs {
    /// A deploy's id or name; without it the deploy whose JSON is in AGENTENV_DEPLOY
    deploy: Option<String>,
    /// This computer alone
    #[arg(long, value_name = "NAME", conflicts_with = "browser")]
    computer: Option<Name>,
    /// This browser alone
    #[arg(long, value_name = "NAME")]
    browser: Option<Name>,
}

impl McpArgs {
    /// Whether the deploy is looked up by its name; otherwise no file of agent-env is needed.
    pub(crate) fn names_deploy(&self) -> bool {
        self.deploy.is_some()
    }
}

/// `mcp DEPLOY`
pub(crate) async fn of_deploy(home: &Home, args: &McpArgs) -> Result<(), ControlError> {
    let deploy = args.deploy.as_deref().unwrap_or_default();
    let info = deploys::client_of(home, deploy)?.status().await?.info;
    serve(&info, args).await
}

/// `mcp`, of the deploy that a harness was given.
pub(crate) async fn of_variable(args: &McpArgs) -> Result<(), ControlError> {
    let json = std::env::var(DEPLOY_VARIABLE).map_err(|_| {
        ControlError::new(ExitCode::Usage, "no deploy is named")
            .hint(format!("give its id or name, or its JSON in {DEPLOY_VARIABLE}"))
    })?;
    // What is wrong with it is not shown: it holds the agent token.
    let info = serde_json::from_str(&json).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        ControlError::new(ExitCode::Refused, format!("{DEPLOY_VARIABLE} is not a deploy's JSON: {place}"))
            .hint("it is what `agent-env env deploy --json` prints")
    })?;
    serve(&info, args).await
}

/// Serves until the host closes standard input.
async fn serve(info: &DeployInfo, args: &McpArgs) -> Result<(), ControlError> {
    let (computers, browsers) = chosen(info, args)?;
    let computers = computers.iter().map(|one| Ok(Desktop::new(one.name.clone(), place(one)?)));
    let browsers = browsers.iter().map(|one| Ok(Browser::new(one.name.clone(), place(one)?)));
    let server =
        Server::new(computers.collect::<Result<_, ControlError>>()?, browsers.collect::<Result<_, ControlError>>()?);
    let transport = AsyncRwTransport::new_server(tokio::io::stdin(), tokio::io::stdout());
    let transport = transport.with_max_line_length(MESSAGE_BYTES);
    match serve_server(server, transport).await {
        Ok(running) => running.waiting().await.map(drop).map_err(|error| failed(&error)),
        // The host left before it began.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => {
            // Its text holds the whole message.
            tracing::debug!(%error, "no MCP session");
            Err(ControlError::new(ExitCode::Refused, "standard input does not speak MCP")
                .hint("this command is started by an MCP host: see docs/mcp.md"))
        }
    }
}

fn failed(error: &dyn std::error::Error) -> ControlError {
    ControlError::infrastructure(format!("the MCP session broke: {error}"))
}

/// The computers, and what has a browser: browsers, and computers by their Chromium.
type Machines<'a> = (Vec<&'a BrowserInfo>, Vec<&'a BrowserInfo>);

fn chosen<'a>(info: &'a DeployInfo, args: &McpArgs) -> Result<Machines<'a>, ControlError> {
    if let Some(name) = &args.computer {
        let computer = named(&info.computers, name, "computer")?;
        return Ok((vec![computer], vec![computer]));
    }
    if let Some(name) = &args.browser {
        return Ok((Vec::new(), vec![named(&info.browsers, name, "browser")?]));
    }
    if info.computers.is_empty() && info.browsers.is_empty() {
        return Err(ControlError::new(ExitCode::Refused, "the deploy has no browser and no computer")
            .hint("an MCP server has nothing to offer of it: name one in the env"));
    }
    Ok((info.computers.iter().collect(), info.browsers.iter().chain(&info.computers).collect()))
}

fn named<'a>(machines: &'a [BrowserInfo], name: &Name, kind: &str) -> Result<&'a BrowserInfo, ControlError> {
    machines.iter().find(|machine| machine.name == *name).ok_or_else(|| {
        let known: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
        let hint = if known.is_empty() { String::new() } else { format!("it has: {}", known.join(", ")) };
        ControlError::new(ExitCode::Refused, format!("the deploy has no {kind} `{name}`")).hint(hint)
    })
}

fn place(machine: &BrowserInfo) -> Result<Place, ControlError> {
    Place::parse(&machine.cdp_url).ok_or_else(|| {
        ControlError::new(ExitCode::Refused, format!("the `cdp_url` of {} is no gateway's", machine.name))
            .hint("it is `http://HOST:PORT/agent/TOKEN/NAME`")
    })
}
