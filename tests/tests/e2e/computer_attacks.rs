//! Rows of the list of attacks from a computer's terminal: opened by its keys, and every program started by a line that is typed
//! there, so that it has the terminal's ancestry, environment, descriptors and a terminal of its own.
//!
//! What is about real names (rows 24 to 28, 42 to 44) is in `live::computers`.

use agentenv_tests::{Bundle, Home, Inside, PySite};
use serde_json::{Value, json};

use crate::python::HELPERS;

mod escape;
mod exhaustion;
mod hostile;
mod memory;
mod network;
mod reset;

/// The computer's name.
const PC: &str = "pc";

/// A home where `work` is stored: these sites and these computers.
fn work(sites: &[PySite], computers: &[&str]) -> Home {
    let home = Home::empty();
    for site in sites {
        home.put(&site.bundle());
    }
    for computer in computers {
        home.put(&Bundle::new(&format!("format = 1\nkind = \"computer\"\nname = \"{computer}\"\n")));
    }
    let names: Vec<&str> = sites.iter().map(PySite::name).collect();
    home.put(&Bundle::new(&format!(
        "format = 1\nkind = \"multi\"\nname = \"work\"\nwebsites = {names:?}\ncomputers = {computers:?}\n"
    )));
    home
}

/// A home where `work` is stored: the sites `alpha.test` and `beta.test`, and a computer.
fn pc() -> Home {
    work(&[PySite::new("alpha"), PySite::new("beta")], &[PC])
}

/// Runs programs of several rows, by name, in one go; gives what each of them showed.
#[track_caller]
fn ask(place: &dyn Inside, rows: &[(&str, &str)]) -> Value {
    let programs = json!(rows).to_string();
    let answers = place.python(&format!(
        r#"{HELPERS}
import traceback
answers = {{}}
for row, body in json.loads({programs:?}):
    try: exec(body, globals() | {{"show": lambda value: answers.update({{row: value}})}})
    except BaseException: answers[row] = {{"raised": traceback.format_exc()}}
show(answers)"#
    ));
    for (row, _) in rows {
        assert!(answers.get(row).is_some_and(|answer| answer.get("raised").is_none()), "row {row}: {}", answers[row]);
    }
    answers
}
