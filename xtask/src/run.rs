//! Running commands, and telling how it goes.

use std::{
    fmt, io,
    process::{Command, ExitCode, ExitStatus},
    time::Instant,
};

/// Writes one line to standard output; a reader that is gone is no failure.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, $($text)*).and_then(|()| out.flush());
    }};
}
pub(crate) use say;

/// Why a command of xtask failed.
#[derive(Debug)]
pub enum Failure {
    /// Debian packages are missing, and only root may install them.
    Missing(Vec<String>),
    /// A program can't be started.
    Start(String, io::Error),
    /// A program ended with an error.
    Ended(String, ExitStatus),
    /// A file can't be read or written.
    File(String, io::Error),
    /// Something that should be there isn't.
    Absent(String),
}

impl Failure {
    /// 3 where something must be installed first, 1 otherwise.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Missing(_) => ExitCode::from(3),
            _ => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(packages) => {
                write!(f, "something is missing; as root, run:\n{}", install_line(packages))
            }
            Self::Start(program, error) => write!(f, "can't start {program}: {error}"),
            Self::Ended(program, status) => write!(f, "{program} failed: {status}"),
            Self::File(path, error) => write!(f, "{path}: {error}"),
            Self::Absent(what) => f.write_str(what),
        }
    }
}

/// The one line that installs these packages, also on a machine that has no list of packages yet.
pub fn install_line(packages: &[String]) -> String {
    format!("apt-get update && apt-get install --yes --no-install-recommends {}", packages.join(" "))
}

/// Runs a command with our own standard output and error, and no input.
pub fn run(command: &mut Command) -> Result<(), Failure> {
    let shown = shown(command);
    let status =
        command.stdin(std::process::Stdio::null()).status().map_err(|error| Failure::Start(shown.clone(), error))?;
    if status.success() { Ok(()) } else { Err(Failure::Ended(shown, status)) }
}

/// Runs one step between two lines: what it is, and how long it took.
pub fn step<T>(title: &str, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    say!("\n==> {title}");
    let start = Instant::now();
    let result = work();
    let seconds = start.elapsed().as_secs_f64();
    match &result {
        Ok(_) => say!("    {title}: {seconds:.1} s"),
        Err(_) => say!("    {title}: failed after {seconds:.1} s"),
    }
    result
}

fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    format!("`{}`", words.join(" "))
}
