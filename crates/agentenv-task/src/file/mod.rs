//! Task files: `task.toml` to [`Task`], every problem at once.

mod expect;
mod json;
mod problem;
mod reader;
mod steps;
#[cfg(test)]
mod tests;

use std::{
    fs, io,
    io::Read as _,
    path::{Path, PathBuf},
};

use agentenv_protocol::Name;
use toml_edit::Document;

pub use problem::{Place, Problem, Problems};
pub(crate) use {problem::did_you_mean, reader::list};

use crate::action::Task;
use reader::{Section, Source};

/// The newest format of task files.
const FORMAT: i64 = 1;
/// The longest task file.
const TASK_FILE_LIMIT: u64 = 4 << 20;
/// The longest file of data that a `load_data` step names: it is held in memory and sent in one request.
const DATA_FILE_LIMIT: u64 = 256 << 20;

/// Why a task file gives no task.
#[derive(Debug, thiserror::Error)]
pub enum TaskFileError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// What is in it is wrong.
    #[error(transparent)]
    Problems(#[from] Problems),
}

/// Reads a task file and the data files that it names.
pub fn load_task(path: &Path) -> Result<Task, TaskFileError> {
    let error = |source| TaskFileError::Io { path: path.to_owned(), source };
    let text = String::from_utf8(read_limited(path, TASK_FILE_LIMIT).map_err(error)?)
        .map_err(|_| error(io::Error::new(io::ErrorKind::InvalidData, "the file is not UTF-8")))?;
    let absolute = std::path::absolute(path).map_err(error)?;
    let folder = absolute.parent().unwrap_or(Path::new("/")).to_owned();
    Ok(parse_task(path, &folder, &text, &|file| read_limited(&folder.join(file), DATA_FILE_LIMIT))?)
}

fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {limit} bytes")));
    }
    Ok(bytes)
}

/// Reads data files for [`parse_task`].
pub(crate) type ReadFile<'a> = dyn Fn(&str) -> io::Result<Vec<u8>> + 'a;

/// Parses the text of a task file; `read` gives the files that it names.
pub fn parse_task(path: &Path, folder: &Path, text: &str, read: &ReadFile<'_>) -> Result<Task, Problems> {
    let file_name = path.display().to_string();
    let source = Source::new(&file_name, text);
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(error) => {
            source.problem(error.span().map_or(0, |span| span.start), error.message().trim().replace('\n', ", "), "");
            return Err(Problems::of(source.into_problems()).expect("a problem was just added"));
        }
    };
    let root = Section::new(&source, document.as_table(), "the file", 0);
    format(&root);
    let name = root.required_parsed("name", Name::parse);
    let goal = root.required_parsed("goal", steps::goal);
    let steps = root.tables("step", "a step");
    if !root.has("step") || steps.as_ref().is_some_and(Vec::is_empty) {
        root.missing("step", "at least one `[[step]]`");
    }
    let steps = steps::steps(&source, &steps.unwrap_or_default(), read);
    root.finish();
    if let Some(problems) = Problems::of(source.into_problems()) {
        return Err(problems);
    }
    let (Some(name), Some(goal)) = (name, goal) else { unreachable!("a missing key is a problem") };
    Ok(Task { name: name.value, goal: goal.value, file: path.to_owned(), folder: folder.to_owned(), steps })
}

fn format(root: &Section<'_>) {
    let accepted = format!("accepted is `format = {FORMAT}`");
    match root.integer("format") {
        Some(format) if format.value > FORMAT => root.source().problem(
            format.at,
            format!("the file has format {}, which is newer than this program", format.value),
            accepted,
        ),
        Some(format) if format.value < 1 => {
            root.source().problem(format.at, format!("there is no format {}", format.value), accepted);
        }
        None if !root.has("format") => root.missing("format", &format!("`format = {FORMAT}`")),
        _ => {}
    }
}
