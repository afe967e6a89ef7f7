//! Bundles that tests write: small sites in Python, good and bad, and envs.

use std::{fs, path::Path};

use tempfile::TempDir;

/// A bundle's folder, gone with the test.
pub struct Bundle {
    folder: TempDir,
    website: bool,
}

impl Bundle {
    /// A bundle of this `env.toml`.
    pub fn new(env_toml: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("ae-bundle-").tempdir().expect("a temporary folder");
        fs::write(folder.path().join("env.toml"), env_toml).expect("env.toml can be written");
        Self { folder, website: env_toml.contains("kind = \"website\"") }
    }

    /// A multi env of these websites, with a browser from the project's envs where one is named.
    pub fn multi(name: &str, websites: &[&str], browser: Option<&str>) -> Self {
        let browsers = browser.map(|env| format!("browsers = [\"{env}\"]\n")).unwrap_or_default();
        Self::new(&format!("format = 1\nkind = \"multi\"\nname = \"{name}\"\nwebsites = {websites:?}\n{browsers}"))
    }

    /// Adds a file.
    #[must_use]
    pub fn with(self, path: &str, content: &str) -> Self {
        let file = self.folder.path().join(path);
        fs::create_dir_all(file.parent().expect("a file is in a folder")).expect("its folder can be made");
        fs::write(file, content).expect("the file can be written");
        self
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its folder, for a command line.
    pub fn path(&self) -> &str {
        self.folder.path().to_str().expect("temporary folders have plain names")
    }

    /// Whether `website put` takes it.
    pub fn is_website(&self) -> bool {
        self.website
    }
}

/// A site in Python that keeps all rules, for tests to break one of them.
pub struct PySite {
    name: String,
    domains: Vec<String>,
    live: bool,
    card: String,
    before: String,
    program: String,
    root: String,
    more: String,
    files: Vec<(String, String)>,
}

/// The site; `BEFORE` runs first, with `PORT`, `KEY` and `log` at hand.
const SITE: &str = include_str!("site.py");

impl PySite {
    /// A site of this name at `NAME.test`.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            domains: vec![format!("{name}.test")],
            live: false,
            card: String::new(),
            before: String::new(),
            program: "\"/usr/bin/python3\", \"-u\", \"site.py\"".to_owned(),
            root: String::new(),
            more: String::new(),
            files: Vec::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Other names than `NAME.test`.
    #[must_use]
    pub fn at(mut self, domains: &[&str]) -> Self {
        self.domains = domains.iter().map(|&domain| domain.to_owned()).collect();
        self
    }

    /// A live site with these further hosts; it serves its pages to nobody.
    #[must_use]
    pub fn live(self, allow_hosts: &[&str]) -> Self {
        let card = format!("params.update(live=True, allow_hosts={allow_hosts:?}, routes=[])");
        let site = self.card(&card).root(&format!("allow_hosts = {allow_hosts:?}"));
        Self { live: true, ..site }
    }

    /// Python that runs before the site listens.
    #[must_use]
    pub fn before(mut self, python: &str) -> Self {
        self.before.push_str(python);
        self.before.push('\n');
        self
    }

    /// Python that changes the card's parameters, in `params`.
    #[must_use]
    pub fn card(mut self, python: &str) -> Self {
        self.card.push_str(python);
        self
    }

    /// Another command, as the inside of a TOML array.
    #[must_use]
    pub fn command(mut self, command: &str) -> Self {
        command.clone_into(&mut self.program);
        self
    }

    /// More lines of `env.toml`, before its tables.
    #[must_use]
    pub fn root(mut self, lines: &str) -> Self {
        self.root.push_str(lines);
        self.root.push('\n');
        self
    }

    /// Another file of the bundle.
    #[must_use]
    pub fn file(mut self, path: &str, content: &str) -> Self {
        self.files.push((path.to_owned(), content.to_owned()));
        self
    }

    /// More lines of `env.toml`, after `[server]`.
    #[must_use]
    pub fn toml(mut self, lines: &str) -> Self {
        self.more.push_str(lines);
        self
    }

    /// Writes the bundle.
    pub fn bundle(&self) -> Bundle {
        let toml = format!(
            "format = 1\nkind = \"website\"\nname = \"{}\"\ndomains = {:?}\nlive = {}\n{}\n\
             [server]\ncommand = [{}]\nport = 8000\n{}",
            self.name, self.domains, self.live, self.root, self.program, self.more
        );
        let site = SITE
            .replace("# CARD", &self.card)
            .replace("# BEFORE", &self.before)
            .replace("NAME = \"\"", &format!("NAME = {:?}", self.name))
            .replace("DOMAINS = []", &format!("DOMAINS = {:?}", self.domains));
        let bundle = Bundle::new(&toml).with("site.py", &site);
        self.files.iter().fold(bundle, |bundle, (path, content)| bundle.with(path, content))
    }
}
