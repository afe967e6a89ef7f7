//! What `#[website_methods]` refuses.
use std::path::Path;

use agentenv_sdk::{Result, SessionState, Value, Website, session_state, website, website_methods};

#[website(domains = ["a.test"])]
struct Site;

#[website_methods]
impl Website for Site {
    fn open(_data_dir: &Path) -> Result<Self> {
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
    fn session(&self, _user: Option<String>) -> Result<SessionState> {
        Ok(SessionState::default())
    }
    #[session_state]
    fn one() -> Result<SessionState> {
        Ok(SessionState::default())
    }
    #[session_state]
    fn two(&self, _user: Option<String>) -> Result<SessionState> {
        Ok(SessionState::default())
    }
}

struct Other;

#[website_methods(live = true)]
impl Other {
    #[session_state]
    fn outside(&self) {}
}

fn main() {}
