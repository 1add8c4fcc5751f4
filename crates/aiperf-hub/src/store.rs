//! Files into the hub's cache, in the layout of its own tools:
//!
//! ```text
//! models--OWNER--NAME/blobs/ETAG                    a file's bytes
//! models--OWNER--NAME/snapshots/COMMIT/FILE         a relative link to them
//! models--OWNER--NAME/refs/REVISION                 the commit of a branch or tag, without a line end
//! ```
//!
//! Data sets are in `datasets--OWNER--NAME`. Each of the three is made under a name of its own beside its place and then moved
//! there, so that other processes, which may be doing the same, see it whole or not at all.

use std::fs::{self, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::error::HubError;

/// The folder of a model, or of a data set, in the cache.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
}

impl Store {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of the files at `commit`.
    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// Whether the bytes that `etag` names are there.
    pub(crate) fn has_blob(&self, etag: &str) -> bool {
        self.blob(etag).is_file()
    }

    /// Where the bytes are that `etag` names.
    pub(crate) fn blob(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(etag)
    }

    /// Writes the bytes that `etag` names.
    pub(crate) fn put_blob(&self, etag: &str, bytes: &[u8]) -> Result<(), HubError> {
        place(&self.blob(etag), |path| write(path, bytes))
    }

    /// Makes `file` of `commit` the bytes that `etag` names.
    pub(crate) fn link(&self, commit: &str, file: &str, etag: &str) -> Result<(), HubError> {
        // As many steps up as the link is deep: the folder of snapshots, the commit's, and those in the file's own path.
        let up = "../".repeat(2 + file.matches('/').count());
        let target = format!("{up}blobs/{etag}");
        let blob = self.blob(etag);
        place(&self.snapshot(commit).join(file), |path| symlink(&target, path).or_else(|_| copy(&blob, path)))
    }

    /// Notes that `revision` is `commit`.
    pub(crate) fn set_ref(&self, revision: &str, commit: &str) -> Result<(), HubError> {
        note(&self.folder.join("refs").join(revision), commit.as_bytes())
    }
}

/// Writes a small file.
pub(crate) fn note(path: &Path, bytes: &[u8]) -> Result<(), HubError> {
    place(path, |path| write(path, bytes))
}

/// Makes a file by `make` under another name and moves it to `path`. Nothing of it stays when that fails.
fn place(path: &Path, make: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<(), HubError> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| HubError::Write { action, path, source }
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(failed("make the folder", folder))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // The ending is the one by which the hub's tools know what may be swept away.
    let draft = folder.join(format!("{name}.{:08x}.incomplete", random()));
    let made = make(&draft)
        .map_err(failed("write", &draft))
        .and_then(|()| fs::rename(&draft, path).map_err(failed("write", path)));
    if made.is_err() {
        // The error that is told says what matters; a draft that cannot be removed either does no harm.
        let _ = fs::remove_file(&draft);
    }
    made
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    // The name must not be there before the bytes are, also when the machine stops in between.
    file.sync_all()
}

#[cfg(unix)]
fn symlink(target: &str, path: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
fn symlink(_target: &str, _path: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// For file systems without links.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to).map(|_| ())
}

/// The standard library's hash keys come from the operating system.
fn random() -> u32 {
    std::collections::hash_map::RandomState::new().build_hasher().finish() as u32
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Every path below `folder` that is no folder, with its link's target, sorted.
    fn files(folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![folder.to_owned()];
        while let Some(next) = open.pop() {
            for entry in fs::read_dir(next).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    open.push(path);
                    continue;
                }
                let target = fs::read_link(&path).map(|t| format!(" -> {}", t.display())).unwrap_or_default();
                found.push(format!("{}{target}", path.strip_prefix(folder).expect("below it").display()));
            }
        }
        found.sort();
        found
    }

    #[test]
    fn links_lead_to_blobs_from_every_depth() {
        let cache = tempfile::tempdir().expect("a folder");
        let store = Store::new(cache.path().join("models--o--m"));
        for (file, etag) in [("a.json", "e1"), ("sub/deep/b.json", "e2")] {
            assert!(!store.has_blob(etag));
            store.put_blob(etag, file.as_bytes()).expect("written");
            assert!(store.has_blob(etag));
            store.link("c", file, etag).expect("linked");
            assert_eq!(fs::read_to_string(store.snapshot("c").join(file)).expect("a file"), file);
        }
        store.set_ref("refs/pr/3", "c").expect("written");
        assert_eq!(
            files(store.folder()),
            [
                "blobs/e1",
                "blobs/e2",
                "refs/refs/pr/3",
                "snapshots/c/a.json -> ../../blobs/e1",
                "snapshots/c/sub/deep/b.json -> ../../../../blobs/e2",
            ]
        );
        assert_eq!(fs::read_to_string(store.folder().join("refs/refs/pr/3")).expect("a file"), "c");
    }

    #[test]
    fn several_writers_of_one_file_leave_one_whole_file() {
        let cache = tempfile::tempdir().expect("a folder");
        let store = Store::new(cache.path().to_owned());
        let bytes = vec![b'x'; 300_000];
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    store.put_blob("e", &bytes).expect("written");
                    store.link("c", "f", "e").expect("linked");
                    store.set_ref("main", "c").expect("written");
                    // From here on it is whole for everybody.
                    assert!(fs::read(store.snapshot("c").join("f")).expect("a file") == bytes);
                });
            }
        });
        assert_eq!(files(store.folder()), ["blobs/e", "refs/main", "snapshots/c/f -> ../../blobs/e"]);
    }

    #[test]
    fn what_cannot_be_written_is_named_and_leaves_nothing() {
        let cache = tempfile::tempdir().expect("a folder");
        let store = Store::new(cache.path().to_owned());
        fs::create_dir_all(cache.path().join("blobs/e/x")).expect("a folder where the file would be");
        let said = store.put_blob("e", b"1").expect_err("there is a folder").to_string();
        assert!(said.starts_with("cannot write ") && said.contains("blobs/e"), "{said}");
        assert!(files(store.folder()).is_empty());
        fs::write(cache.path().join("refs"), "").expect("a file where the folder would be");
        let said = store.set_ref("main", "c").expect_err("there is a file").to_string();
        assert!(said.starts_with("cannot make the folder ") && said.contains("refs"), "{said}");
    }
}
