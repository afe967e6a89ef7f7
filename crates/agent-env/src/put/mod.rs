//! Storing envs: a bundle is read, copied, built and stored, in that order, and nothing is on record before all of it is
//! done (ENV-4, ENV-12).

mod build;
mod copy;
mod error;
mod records;
mod sdk;
mod source;
mod stage;

#[cfg(test)]
mod tests;

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use agentenv_model::{
    EnvFile, EnvRecord, EnvSpec, FileSpec, Flags, MAX_ENV_FILE_BYTES, MemberTarget, MultiFile, WebsiteSource,
    parse_env_of_source, resolve_multi,
};
use agentenv_protocol::{Digest, Home, Name, control::ControlError};
use agentenv_store::{NewEnv, Store};
use serde::Serialize;

pub(crate) use error::{problems_error, refused, store_error};
pub(crate) use records::{env_version, latest_versions, plan_input};

use stage::Stage;

/// The file of a bundle that says what it is.
const ENV_FILE: &str = "env.toml";

/// What a put did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Put {
    pub(crate) name: Name,
    pub(crate) version: u64,
    pub(crate) kind: &'static str,
    /// Whether the version is new; the same content twice stores nothing new.
    pub(crate) stored: bool,
    /// Whether build commands ran.
    pub(crate) built: bool,
    pub(crate) tree: Option<Digest>,
    /// What people should know of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    /// Envs that were stored on the way, since this one names them by their path.
    pub(crate) members: Vec<Put>,
}

/// A website's bundle, ready to be stored or run.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) name: Name,
    pub(crate) spec: EnvSpec,
    pub(crate) source: Option<Digest>,
    pub(crate) tree: Option<Digest>,
    pub(crate) built: bool,
    pub(crate) warnings: Vec<String>,
}

/// Where puts go, and who hears about them.
pub(crate) struct Putter<'a> {
    pub(crate) home: &'a Home,
    pub(crate) store: &'a Store,
    /// Takes a line of progress: what the builds print, and what is being done.
    pub(crate) progress: &'a (dyn Fn(&str) + Send + Sync),
}

impl Putter<'_> {
    /// Stores a website. An image has no source, and may do without a folder.
    pub(crate) async fn website(&self, folder: Option<&Path>, flags: &Flags) -> Result<Put, ControlError> {
        let _hold = self.store.hold().await.map_err(store_error)?;
        let prepared = self.prepare(folder, flags).await?;
        self.record(prepared, Vec::new(), Vec::new()).await
    }

    /// Reads, copies and builds a website's bundle and stores its trees, but no record. The trees stay while the caller
    /// keeps a [`Store::hold`], or until the next gc.
    pub(crate) async fn prepare(&self, folder: Option<&Path>, flags: &Flags) -> Result<Prepared, ControlError> {
        let (file, folder) = match folder {
            Some(folder) => {
                let path = env_file(folder)?;
                let file = match read_env_file(&path)? {
                    None if flags.image.is_some() => parse("", ENV_FILE, flags, None)?,
                    None => return Err(no_env_file(&path)),
                    Some(text) => parse(&text, &shown(&path), flags, Some(&parent(&path)))?,
                };
                (file, parent(&path))
            }
            None if flags.image.is_some() => (parse("", ENV_FILE, flags, None)?, PathBuf::new()),
            None => return Err(refused("there is no bundle to put", "name its folder, or an image with `--image`")),
        };
        self.prepare_file(file, &folder).await
    }

    async fn prepare_file(&self, file: EnvFile, folder: &Path) -> Result<Prepared, ControlError> {
        let kind = file.kind().as_str();
        let FileSpec::Website(site) = file.spec else {
            let message = format!("`{}` is a {kind} env", file.name);
            return Err(refused(message, "store it with `agent-env env put`"));
        };
        let (source, tree, built) = match &site.source {
            WebsiteSource::Image(_) => (None, None, false),
            WebsiteSource::Bundle { .. } => {
                let stage = Stage::prepare(self, &file.name, folder).await?;
                let staged = stage.build(self, &site.source).await?;
                (Some(staged.source), Some(staged.tree), staged.built)
            }
        };
        Ok(Prepared { name: file.name, spec: EnvSpec::Website(site), source, tree, built, warnings: file.warnings })
    }

    /// Stores any env: a bundle's folder, or an env file. Members that a multi env names by their path come first.
    pub(crate) async fn env(&self, path: &Path, latest: bool) -> Result<Put, ControlError> {
        let _hold = self.store.hold().await.map_err(store_error)?;
        let (file, folder) = self.read(path)?;
        match file.spec {
            FileSpec::Multi(multi) => self.multi(file.name, multi, &folder, latest).await,
            _ => self.single(file, &folder).await,
        }
    }

    fn read(&self, path: &Path) -> Result<(EnvFile, PathBuf), ControlError> {
        let path = env_file(path)?;
        let text = read_env_file(&path)?.ok_or_else(|| no_env_file(&path))?;
        let folder = parent(&path);
        Ok((parse(&text, &shown(&path), &Flags::default(), Some(&folder))?, folder))
    }

    async fn single(&self, file: EnvFile, folder: &Path) -> Result<Put, ControlError> {
        let name = file.name.clone();
        let spec = match file.spec {
            FileSpec::Website(_) => {
                let prepared = self.prepare_file(file, folder).await?;
                return self.record(prepared, Vec::new(), Vec::new()).await;
            }
            FileSpec::Browser(browser) => EnvSpec::Browser(browser),
            FileSpec::Computer(computer) => EnvSpec::Computer(computer),
            FileSpec::Multi(_) => {
                let message = format!("`{name}` is a multi env inside another");
                return Err(refused(message, "multi envs are never nested: name its members"));
            }
        };
        let prepared = Prepared { name, spec, source: None, tree: None, built: false, warnings: file.warnings };
        self.record(prepared, Vec::new(), Vec::new()).await
    }

    async fn multi(&self, name: Name, mut multi: MultiFile, folder: &Path, latest: bool) -> Result<Put, ControlError> {
        let mut members = Vec::new();
        for member in multi.members_mut() {
            let MemberTarget::Path(path) = &member.target else { continue };
            let (file, member_folder) = self.read(&beneath(folder, path)?)?;
            let put = self.single(file, &member_folder).await?;
            member.target = MemberTarget::Stored(put.name.clone());
            members.push(put);
        }
        let stored = latest_versions(self.store).await?;
        let spec = resolve_multi(&multi, &stored, latest).map_err(|problems| problems_error(&problems))?;
        let pins = spec.members().filter_map(|member| Some((member.env.clone(), member.version?))).collect();
        let prepared =
            Prepared { name, spec: EnvSpec::Multi(spec), source: None, tree: None, built: false, warnings: Vec::new() };
        self.record(prepared, pins, members).await
    }

    async fn record(
        &self,
        prepared: Prepared,
        mut pins: Vec<(Name, u64)>,
        members: Vec<Put>,
    ) -> Result<Put, ControlError> {
        pins.sort();
        pins.dedup();
        let kind = prepared.spec.kind().as_str();
        let record = serde_json::to_value(EnvRecord::new(prepared.spec)).map_err(|error| {
            ControlError::infrastructure(format!("the record of `{}` cannot be written: {error}", prepared.name))
        })?;
        let env = NewEnv {
            name: prepared.name.clone(),
            kind: kind.to_owned(),
            record,
            source: prepared.source,
            tree: prepared.tree.clone(),
            pins,
        };
        let outcome = self.store.put_env(&env).await.map_err(store_error)?;
        Ok(Put {
            name: prepared.name,
            version: outcome.version,
            kind,
            stored: outcome.stored,
            built: prepared.built,
            tree: prepared.tree,
            warnings: prepared.warnings,
            members,
        })
    }
}

/// Parses an env file; beside a website's own source where it lies in a bundle.
fn parse(text: &str, file: &str, flags: &Flags, bundle: Option<&Path>) -> Result<EnvFile, ControlError> {
    let declaration = match bundle {
        Some(bundle) if flags.image.is_none() => source::declaration(bundle, text)?,
        _ => None,
    };
    parse_env_of_source(file, text, flags, declaration.as_ref()).map_err(|problems| problems_error(&problems))
}

/// The env file that a path means: itself, or the one in the folder.
fn env_file(path: &Path) -> Result<PathBuf, ControlError> {
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(path.join(ENV_FILE)),
        Ok(_) => Ok(path.to_owned()),
        Err(error) => Err(refused(format!("{}: {error}", path.display()), "name a bundle's folder, or an env file")),
    }
}

/// The text of an env file, of which no more is read than may be there.
fn read_env_file(path: &Path) -> Result<Option<String>, ControlError> {
    let fail =
        |error: std::io::Error| refused(format!("{}: {error}", path.display()), "it has to be a readable text file");
    match path.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
        Ok(metadata) if !metadata.is_file() => return Err(fail(std::io::ErrorKind::InvalidInput.into())),
        Ok(_) => {}
    }
    let mut text = String::new();
    let limit = MAX_ENV_FILE_BYTES as u64 + 1;
    File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text)).map_err(fail)?;
    Ok(Some(text))
}

fn no_env_file(path: &Path) -> ControlError {
    refused(format!("{} does not exist", path.display()), "`agent-env website new NAME` writes a bundle to start from")
}

/// The path as problems call it; `./` says nothing.
fn shown(path: &Path) -> String {
    path.strip_prefix(".").unwrap_or(path).display().to_string()
}

/// The folder that a path is in; here, where it names none.
pub(crate) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// A member's path, which lies in the multi env's own folder also when links are followed.
fn beneath(folder: &Path, path: &str) -> Result<PathBuf, ControlError> {
    let joined = folder.join(path);
    let fail =
        |error: std::io::Error| refused(format!("{}: {error}", joined.display()), "name a bundle beside the env file");
    let real = joined.canonicalize().map_err(fail)?;
    if real.starts_with(folder.canonicalize().map_err(fail)?) {
        Ok(joined)
    } else {
        Err(refused(format!("{} leads out of its folder", joined.display()), "copy it into the folder"))
    }
}
