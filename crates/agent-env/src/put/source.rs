//! The Rust source of a bundle's server, for its declaration to be read (ENV-5).

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use agentenv_model::{
    Declaration, MAX_SOURCE_BYTES, MAX_SOURCE_FILE_BYTES, MAX_SOURCE_FILES, READ_STACK_BYTES, RustManifest,
    RustPackage, SourceFile, is_source, read_rust, server_folder,
};
use agentenv_protocol::control::ControlError;

use super::{copy, error::io_error, problems_error, refused, shown};

/// The file that makes a folder a Rust package.
const MANIFEST: &str = "Cargo.toml";
/// A folder of other people's packages.
const VENDOR: &str = "vendor";

/// What the source of the server declares; `None` where the server is not in our Rust SDK, or has no source.
pub(super) fn declaration(bundle: &Path, env_toml: &str) -> Result<Option<Declaration>, ControlError> {
    let Some(folder) = server_folder(env_toml) else { return Ok(None) };
    let folder = if folder == "." { PathBuf::new() } else { PathBuf::from(folder) };
    if !bundle.join(&folder).join(MANIFEST).is_file() {
        return Ok(None);
    }
    let packages = packages(bundle, &folder)?;
    if packages.is_empty() {
        return Ok(None);
    }
    // A thread of its own, for its stack, and because the parser keeps the text for as long as its thread lives.
    let read = std::thread::Builder::new().stack_size(READ_STACK_BYTES).spawn(move || read_rust(&packages));
    let read = read.map_err(|error| ControlError::infrastructure(format!("a thread cannot be started: {error}")))?;
    let cut = |_| refused("the server's Rust source cannot be read", "say `name`, `domains` and `live` in env.toml");
    read.join().map_err(cut)?.map(Some).map_err(|problems| problems_error(&problems))
}

/// The packages in and below the folder that use the SDK: the folder's own alone where it does.
fn packages(bundle: &Path, folder: &Path) -> Result<Vec<RustPackage>, ControlError> {
    let mut manifests: BTreeMap<PathBuf, RustManifest> = BTreeMap::new();
    let mut sources: Vec<PathBuf> = Vec::new();
    for found in copy::walk(bundle) {
        let found = found.map_err(|error| refused(format!("the bundle cannot be read: {error}"), ""))?;
        let Ok(path) = found.path().strip_prefix(bundle) else { continue };
        let Ok(inner) = path.strip_prefix(folder) else { continue };
        let is_file = found.file_type().is_some_and(|kind| kind.is_file());
        if !is_file || inner.starts_with(VENDOR) {
            continue;
        }
        if path.file_name().is_some_and(|name| name == MANIFEST) {
            let text = read(found.path(), MAX_SOURCE_FILE_BYTES)?.unwrap_or_default();
            manifests.insert(path.parent().unwrap_or(Path::new("")).to_owned(), RustManifest::read(&text));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path.to_owned());
        }
    }
    let uses_sdk = |manifest: &RustManifest| !manifest.sdk.is_empty();
    let own_alone = manifests.get(folder).is_some_and(uses_sdk);
    let chosen = |place: &Path, manifest: &RustManifest| uses_sdk(manifest) && (!own_alone || place == folder);
    let mut packages: BTreeMap<PathBuf, RustPackage> = BTreeMap::new();
    for (place, manifest) in manifests.iter().filter(|(place, manifest)| chosen(place, manifest)) {
        let path = shown(&bundle.join(place).join(MANIFEST));
        packages.insert(place.clone(), RustPackage { path, manifest: manifest.clone(), files: Vec::new() });
    }
    let mut budget = Budget { bundle, files: 0, bytes: 0 };
    sources.sort();
    for source in sources {
        // The nearest package above a file is the one that it is of.
        let Some(place) = source.ancestors().skip(1).find(|above| manifests.contains_key(*above)) else { continue };
        let Some(package) = packages.get_mut(place) else { continue };
        let inner = source.strip_prefix(place).unwrap_or(&source).to_string_lossy().into_owned();
        if is_source(&inner) {
            package.files.extend(budget.read(&source, inner)?);
        }
    }
    Ok(packages.into_values().collect())
}

/// How much was read, so that a bundle of whatever size is refused and not read for ever.
struct Budget<'a> {
    bundle: &'a Path,
    files: usize,
    bytes: usize,
}

impl Budget<'_> {
    fn read(&mut self, source: &Path, inner: String) -> Result<Option<SourceFile>, ControlError> {
        let path = self.bundle.join(source);
        // What is longer, or no text, was made by a program and declares no site.
        let Some(text) = read(&path, MAX_SOURCE_FILE_BYTES)? else { return Ok(None) };
        self.files += 1;
        self.bytes += text.len();
        if self.files > MAX_SOURCE_FILES || self.bytes > MAX_SOURCE_BYTES {
            let message = format!(
                "the server's Rust source is too much to read at {}: accepted are {MAX_SOURCE_FILES} files and \
                 {MAX_SOURCE_BYTES} bytes",
                path.display()
            );
            return Err(refused(message, "name what the site does not need in .gitignore"));
        }
        Ok(Some(SourceFile { path: shown(&path), inner, text }))
    }
}

/// A file's text; `None` where it is longer than the limit, or no text.
fn read(path: &Path, limit: usize) -> Result<Option<String>, ControlError> {
    let mut text = String::new();
    let file = File::open(path).map_err(|error| io_error(path, error))?;
    match file.take(limit as u64 + 1).read_to_string(&mut text) {
        Ok(_) if text.len() > limit => Ok(None),
        Ok(_) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        Err(error) => Err(io_error(path, error)),
    }
}
