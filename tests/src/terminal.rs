//! Where a program of a test runs inside: beside what is in a sandbox, or at a computer's terminal, opened and typed into as an
//! agent does.

use std::{cell::Cell, fs, path::PathBuf};

use serde_json::Value;

use crate::{Deploy, Hand, Outcome, PATIENCE, eventually};

/// The background of a terminal.
const BACKGROUND: [u8; 3] = [0x1d, 0x23, 0x30];
/// A line of it that nothing is written on.
const WIDE: usize = 400;
/// From its upper edge, or the first free line below that, to what is within it for sure.
const BELOW_EDGE: usize = 120;
/// Waits for a file and ends; a command inside may take a minute.
const AWAIT: &str = r#"n=0; until [ -e "$1" ]; do n=$((n+1)); [ $n -lt 550 ] || exit 1; sleep 0.1; done"#;

/// A place inside a deploy where Python programs run.
pub trait Inside {
    /// The deploy.
    fn deploy(&self) -> &Deploy<'_>;

    /// Which sandbox.
    fn sandbox(&self) -> &str;

    /// Runs a program; what it prints must be JSON.
    fn python(&self, program: &str) -> Value;
}

/// A command beside what runs in a sandbox.
pub struct Beside<'d, 'h> {
    deploy: &'d Deploy<'h>,
    sandbox: String,
}

impl<'d, 'h> Beside<'d, 'h> {
    /// In this sandbox.
    pub fn new(deploy: &'d Deploy<'h>, sandbox: &str) -> Self {
        Self { deploy, sandbox: sandbox.to_owned() }
    }
}

impl Inside for Beside<'_, '_> {
    fn deploy(&self) -> &Deploy<'_> {
        self.deploy
    }

    fn sandbox(&self) -> &str {
        &self.sandbox
    }

    #[track_caller]
    fn python(&self, program: &str) -> Value {
        self.deploy.python(&self.sandbox, program)
    }
}

/// An open terminal: what is started in it has its ancestry, its environment and a terminal of its own.
pub struct Terminal<'d, 'h> {
    deploy: &'d Deploy<'h>,
    computer: String,
    hand: Hand,
    programs: Cell<u32>,
}

impl<'d, 'h> Terminal<'d, 'h> {
    /// Opens one by the keyboard.
    #[track_caller]
    pub fn open(deploy: &'d Deploy<'h>, computer: &str) -> Self {
        let found = deploy.info.computers.iter().find(|found| found.name.as_str() == computer);
        let hand = Hand::new(&found.unwrap_or_else(|| panic!("no computer {computer} in {:?}", deploy.info)).cdp_url);
        hand.key("super+t");
        let terminal = Self { deploy, computer: computer.to_owned(), hand, programs: Cell::new(0) };
        terminal.focus();
        terminal
    }

    /// The agent at it.
    pub fn hand(&self) -> &Hand {
        &self.hand
    }

    /// Clicks into it, once it is there.
    #[track_caller]
    fn focus(&self) {
        self.hand.click(self.middle());
    }

    /// Where its middle is, or near it.
    #[track_caller]
    pub fn middle(&self) -> [usize; 2] {
        let [x, y] = eventually("the terminal is there", PATIENCE, || self.hand.look(None).find(BACKGROUND, WIDE));
        [x, y + BELOW_EDGE]
    }

    /// Types a line.
    #[track_caller]
    pub fn line(&self, line: &str) {
        self.hand.write(&format!("{line}\n"));
    }

    /// Puts a program into the home, and gives its name there.
    #[track_caller]
    pub fn put(&self, program: &str) -> String {
        self.programs.set(self.programs.get() + 1);
        let name = format!("program-{}.py", self.programs.get());
        let file = self.here(&name);
        fs::write(&file, program).expect("the program can be written");
        self.deploy.copy(file.to_str().expect("a plain path"), &format!("{}:{name}", self.computer)).ok();
        name
    }

    /// Fetches a file from the home, once it is there.
    #[track_caller]
    pub fn fetch(&self, name: &str) -> String {
        let waited = self.deploy.exec(&self.computer, &["sh", "-c", AWAIT, "await", name]);
        if waited.code != 0 {
            self.hand.look(None).keep("terminal-waits");
            panic!("{name} does not come: see terminal-waits.png\n{waited:?}");
        }
        let file = self.here(name);
        self.deploy.copy(&format!("{}:{name}", self.computer), file.to_str().expect("a plain path")).ok();
        fs::read_to_string(&file).expect("what was fetched is text")
    }

    /// Runs a program by a line that is typed; gives what it said, its errors too, and its exit code.
    #[track_caller]
    pub fn run(&self, program: &str) -> Outcome {
        let name = self.put(program);
        let (begin, report) = (format!("{name}.out"), format!("{name}.report"));
        let start = std::time::Instant::now();
        self.line(&format!("python3 {name} > {begin} 2>&1; echo $? >> {begin}; mv {begin} {report}"));
        let said = self.fetch(&report);
        let said = said.trim_end();
        let (stdout, code) = said.rsplit_once('\n').unwrap_or(("", said));
        Outcome {
            command: format!("{name} at the terminal of {}", self.computer),
            code: code.parse().unwrap_or_else(|_| panic!("no exit code: {said}")),
            stdout: stdout.to_owned(),
            stderr: String::new(),
            took: start.elapsed(),
        }
    }

    fn here(&self, name: &str) -> PathBuf {
        self.deploy.home_path().join(format!("{}-{name}", self.computer))
    }
}

impl Inside for Terminal<'_, '_> {
    fn deploy(&self) -> &Deploy<'_> {
        self.deploy
    }

    fn sandbox(&self) -> &str {
        &self.computer
    }

    #[track_caller]
    fn python(&self, program: &str) -> Value {
        self.run(program).json()
    }
}
