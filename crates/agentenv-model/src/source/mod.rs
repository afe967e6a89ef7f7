//! What a site's own source declares, read without running it (ENV-5).
//!
//! Rust: the `#[website(...)]` of one struct in the server's package, each field by itself. Literals are read, and constants of
//! the same package that are literals; whatever else stands there is *unknown*, with its text and place. The settings are
//! the fields of the type that the site's `open` takes, or of its `settings` field. What macros make is not seen, nor what
//! only tests compile.

mod collect;
mod declaration;
mod manifest;
mod resolve;
mod settings;
mod tokens;

use agentenv_protocol::{HostPattern, Name};

use crate::{Place, Problem, Problems, SettingName};

pub use manifest::{RustManifest, server_folder};

/// The longest Rust file that is read: people write no longer ones, and tables made by programs declare no site.
pub const MAX_SOURCE_FILE_BYTES: usize = 1024 * 1024;
/// The most Rust files of a server.
pub const MAX_SOURCE_FILES: usize = 5000;
/// The most Rust of a server, all together.
pub const MAX_SOURCE_BYTES: usize = 64 * 1024 * 1024;
/// The stack that [`read_rust`] needs for the deepest source that it takes.
pub const READ_STACK_BYTES: usize = 64 * 1024 * 1024;

/// One Rust file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// As people name it.
    pub path: String,
    /// Within its package: `src/main.rs`.
    pub inner: String,
    /// What is in it.
    pub text: String,
}

/// A package whose source may declare the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RustPackage {
    /// Its Cargo.toml, as people name it.
    pub path: String,
    /// What that says.
    pub manifest: RustManifest,
    /// Its Rust files, of which [`is_source`] is true.
    pub files: Vec<SourceFile>,
}

/// Whether a file of a package is compiled into its programs; tests, examples and build scripts are not.
pub fn is_source(inner: &str) -> bool {
    let first = inner.split('/').next().unwrap_or_default();
    inner.ends_with(".rs") && inner != "build.rs" && !matches!(first, "tests" | "benches" | "examples" | "target")
}

/// One field of a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declared<T> {
    /// It is left out, which means this.
    LeftOut(T),
    /// It is written so that it can be read.
    Written {
        /// What it is.
        value: T,
        /// Where.
        place: Place,
    },
    /// It is written as something that has to be run to be known.
    Unknown {
        /// What is written there.
        expression: String,
        /// Where.
        place: Place,
    },
}

impl<T> Declared<T> {
    /// What it is where that is known, and what says so: where it is left out, the whole declaration.
    pub(crate) fn known<'a>(&'a self, whole: &'a Place) -> Option<(&'a T, &'a Place)> {
        match self {
            Self::LeftOut(value) => Some((value, whole)),
            Self::Written { value, place } => Some((value, place)),
            Self::Unknown { .. } => None,
        }
    }
}

/// What a site's source declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Where.
    pub place: Place,
    /// Its name; the struct's where it is left out.
    pub name: Declared<Name>,
    /// Its names.
    pub domains: Declared<Vec<HostPattern>>,
    /// Whether it is a real site.
    pub live: Declared<bool>,
    /// Further hosts of a live site.
    pub allow_hosts: Declared<Vec<HostPattern>>,
    /// Its settings.
    pub settings: DeclaredSettings,
}

/// The settings that a site's source declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclaredSettings {
    /// These, by a type that can be read.
    Fields {
        /// The type; `()` where the site takes none.
        type_name: String,
        /// Where it is written.
        place: Place,
        /// Its fields.
        fields: Vec<DeclaredSetting>,
    },
    /// A type whose fields are not in the package's source.
    Unknown {
        /// The type.
        type_name: String,
        /// Where it is named.
        place: Place,
    },
    /// No type is named.
    Unnamed,
}

/// One setting that a site's source declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredSetting {
    /// Its name.
    pub name: SettingName,
    /// Whether its type is a secret's.
    pub secret: bool,
    /// Where.
    pub place: Place,
}

impl DeclaredSettings {
    /// Those that are known.
    pub fn fields(&self) -> &[DeclaredSetting] {
        match self {
            Self::Fields { fields, .. } => fields,
            Self::Unknown { .. } | Self::Unnamed => &[],
        }
    }
}

/// Reads the one declaration of a server's packages. None and several are refused, naming the files. Needs
/// [`READ_STACK_BYTES`] of stack.
pub fn read_rust(packages: &[RustPackage]) -> Result<Declaration, Problems> {
    let source = collect::Source::of(packages);
    let mut problems = Vec::new();
    let sites = source.sites();
    match sites.as_slice() {
        [] => Err(Problems::of(none(packages, &source))),
        [site] => {
            let declaration = declaration::read(&source, site, &mut problems);
            Problems::check(declaration, problems)
        }
        several => {
            problems.extend(several.iter().skip(1).map(|site| {
                let message = format!("a second site is declared; the first is at {}", source.place_of(&several[0]));
                let hint =
                    "one server is one site: put the other into a package of its own, or name its file in .gitignore";
                Problem::new(source.place_of(site), message, hint)
            }));
            Err(Problems::of(problems))
        }
    }
}

/// Files that a message names one by one; of more it tells the number.
const MAX_NAMED_FILES: usize = 8;

fn none(packages: &[RustPackage], source: &collect::Source<'_>) -> Vec<Problem> {
    if !source.unreadable.is_empty() {
        return source.unreadable.clone();
    }
    let files: Vec<&str> = packages.iter().flat_map(|package| &package.files).map(|file| file.path.as_str()).collect();
    let named = files.iter().take(MAX_NAMED_FILES).copied().collect::<Vec<_>>().join(", ");
    let more = match files.len().saturating_sub(MAX_NAMED_FILES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let place = Place::File {
        file: packages.first().map(|package| package.path.clone()).unwrap_or_default(),
        line: 1,
        column: 1,
    };
    let message = match files.is_empty() {
        true => "the package has no Rust source".to_owned(),
        false => format!("the package uses the SDK, and no `#[website(...)]` is in {named}{more}"),
    };
    vec![Problem::new(place, message, "put it on the struct that holds the site's state")]
}
