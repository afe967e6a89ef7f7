//! Why a tool did not do what it was called for, as its caller is told.

use agentenv_deploy::{PageError, cdp::CdpError};
use agentenv_protocol::ComputerError;
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;

use crate::output::word;

/// A site's or a browser's own words are cut here.
const MESSAGE_CHARACTERS: usize = 2000;

/// A tool's error: a kind for programs, a sentence for the agent. Never a URL of the gateway.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Failure {
    pub(super) kind: String,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(kind: &str, message: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), message: cut(&message.into(), MESSAGE_CHARACTERS) }
    }

    /// An argument that is not what the tool takes.
    pub(super) fn argument(message: impl Into<String>) -> Self {
        Self::new("bad_request", message)
    }

    /// The tool's result that says so.
    pub(super) fn result(&self) -> CallToolResult {
        let mut result = CallToolResult::error(vec![ContentBlock::text(&self.message)]);
        result.structured_content = serde_json::to_value(self).ok();
        result
    }
}

/// A text of somebody else's, to a number of characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl From<ComputerError> for Failure {
    fn from(error: ComputerError) -> Self {
        Self::new(&word(&error.kind), error.message)
    }
}

impl From<CdpError> for Failure {
    fn from(error: CdpError) -> Self {
        let kind = match &error {
            CdpError::Timeout { .. } => "slow",
            CdpError::Refused { .. } => "refused",
            _ => "away",
        };
        Self::new(kind, error.to_string())
    }
}

impl From<PageError> for Failure {
    fn from(error: PageError) -> Self {
        match error {
            PageError::Cdp(error) => error.into(),
            PageError::StillLoading(_) => Self::new("slow", error.to_string()),
            other => Self::new("page", other.to_string()),
        }
    }
}
