//! The site that `agent-env website new` writes is the one of the documentation's first page.

use std::{fs, path::PathBuf};

fn file(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The code of the first page.
fn first_page() -> Vec<String> {
    let text = file("src/lib.rs");
    let lines = text.lines().skip_while(|line| *line != "//! ```no_run").skip(1);
    let code = lines.take_while(|line| *line != "//! ```");
    code.map(|line| line.strip_prefix("//! ").or(line.strip_prefix("//!")).unwrap_or(line).to_owned()).collect()
}

#[test]
fn the_template_is_the_first_page_with_a_name_of_its_own() {
    let template = file("../agent-env/templates/website/src/main.rs");
    let named = template.replace(r#"name = "{{name}}", domains = ["{{name}}.test"]"#, r#"domains = ["notes.test"]"#);
    assert_eq!(named.lines().collect::<Vec<_>>(), first_page());
}

#[test]
fn the_first_page_is_a_site_in_thirty_lines() {
    let lines = first_page().iter().filter(|line| !line.is_empty() && !line.starts_with("use ")).count();
    assert!(lines <= 30, "{lines} lines");
}
