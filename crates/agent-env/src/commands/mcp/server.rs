//! The server: lists the tools, checks a call's arguments, has the machine do it.

use agentenv_protocol::{ComputerAction, Name};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use super::{
    arguments,
    browser::Browser,
    computer::Desktop,
    failure::Failure,
    tools::{self, Kind, Spec},
};

/// Calls at once; an agent has one or a few, and each may hold a picture.
const CALLS: usize = 16;
const INSTRUCTIONS: &str = "\
Tools for the machines of one deploy. `browser_…` tools work in a Chromium by its tabs and pages; the others work at a \
computer's desktop by picture, mouse and keyboard, in pixels of its screen, whatever the scale of a picture. An answer means \
that the action was taken, not that a program or a page has done with it: look again. Only the deploy's sites can be reached.";

/// The tools of some machines.
pub(super) struct Server {
    computers: Vec<Desktop>,
    browsers: Vec<Browser>,
    specs: Vec<Spec>,
    places: Semaphore,
}

impl Server {
    pub(super) fn new(computers: Vec<Desktop>, browsers: Vec<Browser>) -> Self {
        let names: Vec<&Name> = computers.iter().map(|computer| &computer.name).collect();
        let with_browser: Vec<&Name> = browsers.iter().map(|browser| &browser.name).collect();
        let specs = tools::specs(&names, &with_browser);
        Self { computers, browsers, specs, places: Semaphore::new(CALLS) }
    }

    async fn call(&self, spec: &Spec, mut arguments: Map<String, Value>) -> Result<CallToolResult, Failure> {
        let _place = self.places.try_acquire().map_err(|_| {
            Failure::new("busy", format!("{CALLS} calls are being done; wait for one of them to be answered"))
        })?;
        // Some models write what they leave out as null.
        arguments.retain(|_, value| !value.is_null());
        arguments::check(&spec.tool.input_schema, &arguments).map_err(Failure::argument)?;
        let picture = arguments.remove("screenshot").is_some_and(|wanted| wanted == true);
        match spec.kind {
            Kind::Computer => {
                let machine = take(&mut arguments, "computer");
                let computer = chosen(&self.computers, |computer| &computer.name, machine.as_ref())?;
                let query = query(&mut arguments, picture);
                let action: ComputerAction = action(spec.action(), arguments)?;
                let reply = computer.act(&action, &query).await?;
                Ok(answer(&json!({ "cursor": reply.cursor }), reply.screenshot))
            }
            Kind::Browser => {
                let machine = take(&mut arguments, "browser");
                let browser = chosen(&self.browsers, |browser| &browser.name, machine.as_ref())?;
                let done = browser.act(&action(spec.action(), arguments)?, picture).await?;
                Ok(answer(&done.value, done.picture))
            }
        }
    }
}

fn take(arguments: &mut Map<String, Value>, name: &str) -> Option<String> {
    arguments.remove(name).and_then(|value| value.as_str().map(str::to_owned))
}

/// The machine of a name, the first one where none is named.
fn chosen<'a, T>(machines: &'a [T], name_of: impl Fn(&T) -> &Name, name: Option<&String>) -> Result<&'a T, Failure> {
    let found = machines.iter().find(|machine| name.is_none_or(|name| name_of(machine).as_str() == name));
    found.ok_or_else(|| Failure::argument(format!("there is no `{}`", name.map_or("machine", String::as_str))))
}

/// The query of `act` at the gateway, out of arguments that were checked.
fn query(arguments: &mut Map<String, Value>, picture: bool) -> String {
    let mut query = format!("screenshot={picture}");
    if let Some(scale) = arguments.remove("scale") {
        query.push_str(&format!("&scale={scale}"));
    }
    if let Some(region) = arguments.remove("region") {
        let [x, y, width, height] = ["x", "y", "width", "height"].map(|side| &region[side]);
        query.push_str(&format!("&region={x},{y},{width},{height}"));
    }
    query
}

/// The action of this name.
fn action<T: DeserializeOwned>(name: &str, mut arguments: Map<String, Value>) -> Result<T, Failure> {
    arguments.insert("action".to_owned(), json!(name));
    serde_json::from_value(Value::Object(arguments)).map_err(|error| Failure::argument(error.to_string()))
}

fn answer(value: &Value, picture: Option<String>) -> CallToolResult {
    let mut content = vec![ContentBlock::text(value.to_string())];
    content.extend(picture.map(|png| ContentBlock::image(png, "image/png")));
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(value.clone());
    result
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("agent-env", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.specs.iter().map(|spec| spec.tool.clone()).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(spec) = self.specs.iter().find(|spec| spec.tool.name == request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool `{}`", request.name), None));
        };
        let done = self.call(spec, request.arguments.unwrap_or_default()).await;
        Ok(done.unwrap_or_else(|failure| failure.result()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::mcp::place::Place;

    /// A server whose machines are where nothing listens: what is refused before it goes out.
    fn server() -> Server {
        let name = |text: &str| Name::parse(text).unwrap();
        let place = |name: &str| Place::parse(&format!("http://127.0.0.1:1/agent/t/{name}")).unwrap();
        let computers = ["pc", "pc2"].map(|one| Desktop::new(name(one), place(one)));
        let browsers = ["web", "pc", "pc2"].map(|one| Browser::new(name(one), place(one)));
        Server::new(computers.into(), browsers.into())
    }

    async fn refused(server: &Server, tool: &str, arguments: Value) -> Failure {
        let spec = server.specs.iter().find(|spec| spec.tool.name == tool).unwrap();
        server.call(spec, arguments.as_object().unwrap().clone()).await.unwrap_err()
    }

    #[tokio::test]
    async fn a_bad_argument_is_named() {
        let server = server();
        for (tool, arguments, says) in [
            ("left_click", json!({ "coordinates": [1, 1] }), "there is no argument `coordinates`"),
            ("left_click", json!({ "coordinate": [1, "a"] }), "`coordinate[1]` must be an integer"),
            ("left_click", json!({ "computer": "mac" }), "`computer` must be one of `pc`, `pc2`"),
            ("left_click", json!({ "action": "type" }), "there is no argument `action`"),
            ("mouse_move", json!({ "coordinate": null }), "`coordinate` is missing"),
            (
                "scroll",
                json!({ "scroll_direction": "in", "scroll_amount": 1 }),
                "`scroll_direction` must be one of `up`",
            ),
            ("screenshot", json!({ "region": { "x": 1 } }), "`region.y` is missing"),
            ("browser_navigate", json!({}), "`url` is missing"),
            ("browser_click", json!({ "x": 1, "y": -1 }), "`y` must be 0 to 16384"),
            ("browser_click", json!({ "x": 1, "y": 1, "button": "back" }), "`button` must be one of `left`"),
        ] {
            let failure = refused(&server, tool, arguments).await;
            assert!(failure.kind == "bad_request" && failure.message.starts_with(says), "{tool}: {failure:?}");
        }
    }

    #[tokio::test]
    async fn a_gateway_that_is_gone_is_told_without_its_address() {
        let server = server();
        let failure = refused(&server, "left_click", json!({ "computer": "pc2" })).await;
        let message = "pc2: the gateway of the deploy does not answer; the deploy may be closed";
        assert_eq!(failure, Failure::new("away", message));
    }

    #[test]
    fn every_tool_stands_for_an_action() {
        let server = server();
        let names: Vec<&str> = server.specs.iter().map(|spec| &*spec.tool.name).collect();
        assert_eq!(names.len(), 16 + 11, "{names:?}");
        let wish = json!({ "region": { "x": 1, "y": 2, "width": 3, "height": 4 }, "scale": 0.5 });
        let mut wish = wish.as_object().unwrap().clone();
        assert_eq!(query(&mut wish, false), "screenshot=false&scale=0.5&region=1,2,3,4");
        assert_eq!(wish, Map::new());
        assert!(matches!(action("screenshot", wish), Ok(ComputerAction::Screenshot {})));
    }
}
