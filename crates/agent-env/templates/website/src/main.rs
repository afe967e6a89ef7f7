use agentenv_sdk::axum::{Form, Router, extract::State, response::Redirect, routing::get};
use agentenv_sdk::{Result, Snapshot, Value, Website, from_data, json, website, website_methods};
use std::{fs, path::Path, process::ExitCode, sync::Arc};

#[website(name = "{{name}}", domains = ["{{name}}.test"])]
struct Notes(Snapshot); // a folder that goes back to the state at deploy

#[website_methods]
impl Website for Notes {
    fn open(_settings: (), data_dir: &Path) -> Result<Self> {
        Snapshot::prepare(data_dir, "notes", |folder| Ok(fs::write(folder.join("all.txt"), "")?)).map(Self)
    }
    fn load(&self, data: Value) -> Result<()> {
        let added = from_data::<Vec<String>>(data)?.join("\n") + "\n";
        Ok(fs::write(self.0.path().join("all.txt"), fs::read_to_string(self.0.path().join("all.txt"))? + &added)?)
    }
    fn get(&self, _selector: Option<Value>) -> Result<Value> {
        Ok(json!(fs::read_to_string(self.0.path().join("all.txt"))?.lines().collect::<Vec<_>>()))
    }
    fn reset(&self) -> Result<()> {
        self.0.restore()
    }
    fn pages(self: Arc<Self>) -> Router {
        let list = async |State(site): State<Arc<Self>>| site.get(None).await.map(|notes| format!("{notes:#}"));
        let add = async |State(site): State<Arc<Self>>, Form(form): Form<Vec<(String, String)>>| {
            site.load(form.into_iter().map(|(_, note)| note).collect()).await.map(|()| Redirect::to("/"))
        };
        Router::new().route("/", get(list).post(add)).with_state(self)
    }
}

fn main() -> ExitCode {
    agentenv_sdk::serve::<Notes>()
}
