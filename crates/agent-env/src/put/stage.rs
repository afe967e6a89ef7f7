//! The place where a bundle is copied and built: `cache/build/NAME/site`, one command at a time.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use agentenv_model::{FrontendSpec, WebsiteSource};
use agentenv_protocol::{Digest, ExitCode, Name, control::ControlError};
use agentenv_store::BuildKey;

use super::{
    Putter,
    build::{self, Workplace},
    copy,
    error::{io_error, refused, store_error},
    sdk::Sdk,
};

/// How long a put waits for another put of the same env, which may be building.
const STAGE_WAIT: Duration = Duration::from_secs(60 * 60);
/// How often it looks; short against a build.
const STAGE_POLL: Duration = Duration::from_millis(100);

/// A copied bundle that nobody else touches while this lives.
pub(super) struct Stage {
    name: Name,
    /// The copy, and what will be `/site`.
    site: PathBuf,
    workplace: Workplace,
    source: Digest,
    _lock: File,
}

/// What a bundle became.
pub(super) struct Staged {
    pub(super) source: Digest,
    pub(super) tree: Digest,
    pub(super) built: bool,
}

impl Stage {
    /// Copies the bundle and stores it as it is.
    pub(super) async fn prepare(putter: &Putter<'_>, name: &Name, bundle: &Path) -> Result<Self, ControlError> {
        let folder = putter.home.cache().join("build").join(name.as_str());
        let site = folder.join("site");
        fs::DirBuilder::new().recursive(true).mode(0o755).create(&folder).map_err(|error| io_error(&folder, error))?;
        let lock = lock(putter, name, &folder.join("lock")).await?;
        let cache = putter.home.cache().to_owned();
        let (from, to) = (bundle.to_owned(), site.clone());
        let workplace = blocking(&folder, move || {
            let workplace = Workplace::prepare(&cache, &folder_of(&to))?;
            copy::mirror(&from, &to)?;
            Ok(workplace)
        })
        .await?;
        let source = putter.store.put_tree(&site).await.map_err(store_error)?;
        Ok(Self { name: name.clone(), site, workplace, source, _lock: lock })
    }

    /// Runs the builds, unless the same were run before, and stores what they made.
    pub(super) async fn build(self, putter: &Putter<'_>, website: &WebsiteSource) -> Result<Staged, ControlError> {
        let commands: Vec<Vec<String>> = website.builds().into_iter().cloned().collect();
        let mut built = false;
        let tree = if commands.is_empty() {
            self.source.clone()
        } else {
            let key = BuildKey {
                source: self.source.clone(),
                commands,
                toolchain: build::toolchain().await,
                sdk: Sdk::get().digest().clone(),
            };
            match putter.store.find_build(&key).await.map_err(store_error)? {
                Some(tree) => tree,
                None => {
                    built = true;
                    self.run(putter, &key).await?
                }
            }
        };
        // Deploys need it unpacked: this is the time to do it, and to look whether what they run is there.
        let unpacked = putter.store.checkout_tree(&tree).await.map_err(store_error)?;
        check_programs(&self.name, &unpacked, website)?;
        Ok(Staged { source: self.source, tree, built })
    }

    async fn run(&self, putter: &Putter<'_>, key: &BuildKey) -> Result<Digest, ControlError> {
        for command in &key.commands {
            (putter.progress)(&format!("building `{}`: {}", self.name, command.join(" ")));
            build::run(&self.name, command, &self.site, &self.workplace, putter.progress).await?;
        }
        let tree = putter.store.put_built_tree(&self.site).await.map_err(store_error)?;
        putter.store.record_build(key, &tree).await.map_err(store_error)?;
        Ok(tree)
    }
}

fn folder_of(site: &Path) -> PathBuf {
    site.parent().map(Path::to_owned).unwrap_or_default()
}

async fn lock(putter: &Putter<'_>, name: &Name, path: &Path) -> Result<File, ControlError> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(|error| io_error(path, error))?;
    let deadline = Instant::now() + STAGE_WAIT;
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(io_error(path, error)),
            Err(TryLockError::WouldBlock) if Instant::now() > deadline => {
                let message = format!("another command has been putting `{name}` for too long");
                return Err(ControlError::new(ExitCode::TimedOut, message).hint("end it, and put again"));
            }
            Err(TryLockError::WouldBlock) => {
                if !told {
                    (putter.progress)(&format!("waiting for another put of `{name}`"));
                    told = true;
                }
                tokio::time::sleep(STAGE_POLL).await;
            }
        }
    }
}

async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> Result<T, ControlError> + Send + 'static,
) -> Result<T, ControlError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| ControlError::infrastructure(format!("the work on {} was cut short", path.display())))?
}

/// Programs and folders that the env names by their place in the bundle have to be there now, not only at deploy.
fn check_programs(name: &Name, tree: &Path, website: &WebsiteSource) -> Result<(), ControlError> {
    let WebsiteSource::Bundle { server, frontend, services } = website else { return Ok(()) };
    let mut commands: Vec<(&str, &str)> = vec![("server", &server.command[0])];
    commands.extend(services.iter().map(|(service, spec)| (service.as_str(), spec.command[0].as_str())));
    match frontend {
        Some(FrontendSpec::Command(spec)) => commands.push(("frontend", &spec.command[0])),
        Some(FrontendSpec::Static { folder, .. }) if !tree.join(folder).is_dir() => {
            let message =
                format!("the frontend of `{name}` is the folder `{folder}`, which is not in the built bundle");
            return Err(refused(message, "name a folder of the bundle, or let `build` make it"));
        }
        Some(FrontendSpec::Static { .. }) | None => {}
    }
    for (service, program) in commands {
        // A bare name is found by PATH inside the sandbox, an absolute path is the machine's.
        if !program.contains('/') || program.starts_with('/') {
            continue;
        }
        let at = tree.join(program);
        let executable = at.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
        if !executable {
            let what = if at.exists() { "is not executable" } else { "is not in the built bundle" };
            let message = format!("the {service} of `{name}` runs `{program}`, which {what}");
            return Err(refused(message, "name a program of the bundle, or let `build` make it"));
        }
    }
    Ok(())
}
