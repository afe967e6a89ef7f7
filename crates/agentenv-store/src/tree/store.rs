//! Trees in the store.

use std::{
    fs::{self, File, Permissions},
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentenv_protocol::Digest;

use super::{
    pack::{HardLinks, Listing},
    unpack::unpack,
};
use crate::{
    Store, StoreError,
    blobs::{BlobKind, Measuring},
    store::make_folder,
};

impl Store {
    /// Stores a folder; a file that has a second name outside it is refused.
    pub async fn put_tree(&self, folder: &Path) -> Result<Digest, StoreError> {
        self.store_tree(folder, HardLinks::Refuse).await
    }

    /// Stores what a build made; what it linked from a package cache is copied.
    pub async fn put_built_tree(&self, folder: &Path) -> Result<Digest, StoreError> {
        self.store_tree(folder, HardLinks::Copy).await
    }

    async fn store_tree(&self, folder: &Path, hard_links: HardLinks) -> Result<Digest, StoreError> {
        let _hold = self.hold().await?;
        let at = folder.to_owned();
        // Read twice: the name is the digest, and what is stored already is not written again.
        let (listing, measure) = self
            .blocking(folder.to_owned(), move || {
                let listing = Listing::read(&at, hard_links)?;
                let mut measuring = Measuring::default();
                listing.write(&mut measuring)?;
                let _ = measuring.flush();
                Ok((Arc::new(listing), measuring.finish()))
            })
            .await?;
        self.blobs.put(BlobKind::Tree, &measure, move |out| listing.write(out)).await?;
        Ok(measure.digest)
    }

    /// Where the unpacked tree is, unpacking it first where that was not done. World-readable; not to be written to.
    /// Many processes may ask for the same tree at once.
    pub async fn checkout_tree(&self, digest: &Digest) -> Result<PathBuf, StoreError> {
        let trees = self.paths.trees.clone();
        let place = trees.join(digest.as_str());
        if place.is_dir() {
            return Ok(place);
        }
        let _hold = self.hold().await?;
        let target = place.clone();
        let unpacked = self.blobs.get(BlobKind::Tree, digest, move |tar| {
            make_folder(&trees, 0o755)?;
            let part = tempfile::Builder::new()
                .prefix(".part-")
                .tempdir_in(&trees)
                .map_err(|error| StoreError::io(&trees, error))?;
            unpack(tar, part.path())?;
            Ok((part, target))
        });
        let Some((part, target)) = unpacked.await? else { return Err(StoreError::NoTree(digest.clone())) };
        // Only now is it known that the bytes were the right ones.
        self.blocking(place.clone(), move || publish(part, &target)).await?;
        Ok(place)
    }
}

/// Gives the folder its name: it is there whole or not at all, also after a power cut.
fn publish(part: tempfile::TempDir, target: &Path) -> Result<(), StoreError> {
    let fail = |error| StoreError::io(target, error);
    fs::set_permissions(part.path(), Permissions::from_mode(0o755)).map_err(fail)?;
    let folder = File::open(part.path()).map_err(fail)?;
    rustix::fs::syncfs(&folder).map_err(|error| fail(error.into()))?;
    match fs::rename(part.path(), target) {
        Ok(()) => {
            // It has its name now; nothing is left to remove.
            let _ = part.keep();
            Ok(())
        }
        // Somebody else was faster; ours is removed.
        Err(_) if target.is_dir() => Ok(()),
        Err(error) => Err(fail(error)),
    }
}
