use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
};

use tar::Header;

use super::{Fixture, files};
use crate::{
    MAX_TREE_BYTES, StoreError, TreeError,
    blobs::{BlobKind, Measuring},
};

#[tokio::test]
async fn a_blob_that_is_not_what_was_measured_is_not_stored() {
    let fixture = Fixture::new().await;
    let mut measuring = Measuring::default();
    measuring.write_all(b"as it was read first").unwrap();
    let measure = measuring.finish();
    let produce = |out: &mut dyn std::io::Write| {
        out.write_all(b"as it was read later").map_err(|error| StoreError::io(Path::new("changed"), error))
    };
    let error = fixture.store.blobs.put(BlobKind::Artifact, &measure, produce).await.unwrap_err();
    assert!(matches!(error, StoreError::Changed { .. }), "{error}");
    assert!(files(&fixture.path("home/store/blobs")).is_empty());
}

#[tokio::test]
async fn a_folder_of_more_bytes_than_a_tree_may_have_is_refused_before_it_is_read() {
    let fixture = Fixture::new().await;
    let site = fixture.site("site");
    // All hole: it takes no disk.
    File::create(site.join("image")).unwrap().set_len(MAX_TREE_BYTES + 1).unwrap();
    let error = fixture.store.put_tree(&site).await.unwrap_err();
    assert!(matches!(&error, StoreError::Tree(TreeError::TooLarge { path }) if path.ends_with("image")), "{error}");
    assert!(files(&fixture.path("home/store/blobs")).is_empty());
}

#[tokio::test]
async fn row_57_a_tar_that_announces_more_bytes_than_a_tree_may_have_is_refused_before_they_come() {
    let fixture = Fixture::new().await;
    let mut header = Header::new_gnu();
    header.set_path("image").unwrap();
    header.set_mode(0o644);
    header.set_size(MAX_TREE_BYTES + 1);
    header.set_cksum();
    let mut measuring = Measuring::default();
    measuring.write_all(header.as_bytes()).unwrap();
    let measure = measuring.finish();
    let bytes = header.as_bytes().to_vec();
    let produce = move |out: &mut dyn std::io::Write| {
        out.write_all(&bytes).map_err(|error| StoreError::io(Path::new("planted"), error))
    };
    fixture.store.blobs.put(BlobKind::Tree, &measure, produce).await.unwrap();
    let error = fixture.store.checkout_tree(&measure.digest).await.unwrap_err();
    assert!(matches!(&error, StoreError::Tree(TreeError::TooLarge { path }) if path.ends_with("image")), "{error}");
    assert!(fs::read_dir(fixture.path("home/cache/trees")).map_or(true, |mut entries| entries.next().is_none()));
}
