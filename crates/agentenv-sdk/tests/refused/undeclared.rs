//! A site without its declaration, and with a method missing.
use std::path::Path;

use agentenv_sdk::{Result, Value, Website, website_methods};

struct Site;

#[website_methods]
impl Website for Site {
    fn open(_settings: u32, _data_dir: &Path) -> Result<Self> {
        Ok(Self)
    }
    fn load(&self, _data: Value) -> Result<()> {
        Ok(())
    }
    fn get(&self, _selector: Option<Value>) -> Result<Value> {
        Ok(Value::Null)
    }
}

fn main() {}
