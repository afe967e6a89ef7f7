//! PR-5: a live site without a session method; a live site that serves pages.
use std::{path::Path, sync::Arc};

use agentenv_sdk::{Result, SessionState, Value, Website, axum::Router, website, website_methods};

const LIVE: bool = true;

#[website(domains = ["hub.test"], live = true)]
struct WithoutSession;

#[website_methods]
impl Website for WithoutSession {
    fn open(_settings: (), _data_dir: &Path) -> Result<Self> {
        Ok(Self)
    }
    fn load(&self, _data: Value) -> Result<()> {
        Ok(())
    }
    fn get(&self, _selector: Option<Value>) -> Result<Value> {
        Ok(Value::Null)
    }
    fn reset(&self) -> Result<()> {
        Ok(())
    }
}

#[website(domains = ["hub.test"], live = LIVE)]
struct WithPages;

#[website_methods]
impl Website for WithPages {
    fn open(_settings: (), _data_dir: &Path) -> Result<Self> {
        Ok(Self)
    }
    fn load(&self, _data: Value) -> Result<()> {
        Ok(())
    }
    fn get(&self, _selector: Option<Value>) -> Result<Value> {
        Ok(Value::Null)
    }
    fn reset(&self) -> Result<()> {
        Ok(())
    }
    fn pages(self: Arc<Self>) -> Router {
        Router::new()
    }
    #[session_state]
    fn session(&self, _user: Option<String>) -> Result<SessionState> {
        Ok(SessionState::default())
    }
}

fn main() {}
