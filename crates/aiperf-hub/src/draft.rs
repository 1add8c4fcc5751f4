//! A file on its way: what has come of it lies beside its place under another name, is taken up again after a break, also by the
//! next run, and gets its name when it is whole.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::error::HubError;
use crate::http::{Facts, Trouble};

const BUFFER: usize = 1 << 20;

/// A draft, which no other process writes at the same time where the file system knows locks.
#[derive(Debug)]
pub(crate) struct Draft {
    path: PathBuf,
    target: PathBuf,
    file: File,
    etag: Option<String>,
    /// Of what has come, where it is announced.
    hash: Option<Sha256>,
    listed: Announced,
    len: u64,
}

/// What a list of files says of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Announced {
    /// Bytes.
    pub(crate) size: Option<u64>,
    /// The hash of what it holds, 64 hexadecimal digits.
    pub(crate) sha256: Option<String>,
}

impl Draft {
    /// The draft of what `facts` tell and was `listed`, at `path`, to become `target`; `None` when that is there, which it may be when another
    /// process has fetched it meanwhile. What came without an ETag is begun anew: nobody knows whether the rest would fit.
    pub(crate) fn open(
        path: &Path,
        target: &Path,
        facts: &Facts,
        listed: Announced,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Option<Self>, HubError> {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| HubError::Write { action, path, source }
        };
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(failed("make the folder", folder))?;
        let file = loop {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create(true).truncate(false);
            let file = options.open(path).map_err(failed("write", path))?;
            if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
                tell(&format!(
                    "  {} is on its way by another process, which is waited for",
                    target.display()
                ));
                // Where there are no locks, there was none to wait for.
                let _ = file.lock();
            }
            if target.is_file() {
                if is_same(&file, path) {
                    // It was made for nothing.
                    let _ = fs::remove_file(path);
                }
                return Ok(None);
            }
            // Whoever had it may have moved it or thrown it away.
            if is_same(&file, path) {
                break file;
            }
        };
        let hash = facts.sha256().or(listed.sha256.as_deref()).map(|_| Sha256::new());
        let mut draft = Self {
            path: path.to_owned(),
            target: target.to_owned(),
            file,
            etag: facts.etag.clone(),
            hash,
            listed,
            len: 0,
        };
        match draft.etag {
            Some(_) => draft.read_on(),
            None => draft.file.set_len(0),
        }
        .map_err(failed("read", path))?;
        Ok(Some(draft))
    }

    /// Goes through what is there.
    fn read_on(&mut self) -> std::io::Result<()> {
        let Some(hash) = &mut self.hash else {
            self.len = self.file.seek(SeekFrom::End(0))?;
            return Ok(());
        };
        let mut buffer = vec![0; BUFFER];
        loop {
            match self.file.read(&mut buffer)? {
                0 => return Ok(()),
                read => {
                    hash.update(&buffer[..read]);
                    self.len += read as u64;
                }
            }
        }
    }

    /// Bytes that have come.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// Whether what is behind it may be asked for.
    pub(crate) const fn goes_on(&self) -> bool {
        self.etag.is_some()
    }

    /// Whether it is the draft of what `facts` tell.
    pub(crate) fn is_of(&self, facts: &Facts) -> bool {
        self.goes_on() && self.etag == facts.etag
    }

    /// Adds what comes next.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<(), HubError> {
        self.file.write_all(bytes).map_err(|source| self.failed(source))?;
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Throws away what has come.
    pub(crate) fn begin_anew(&mut self) -> Result<(), HubError> {
        let emptied = self.file.set_len(0).and_then(|()| self.file.rewind());
        emptied.map_err(|source| self.failed(source))?;
        self.len = 0;
        if let Some(hash) = &mut self.hash {
            hash.reset();
        }
        Ok(())
    }

    /// Checks that all has come, `total` bytes, and gives the file its name. What is not what was announced is thrown away.
    pub(crate) fn finish(mut self, facts: &Facts, total: Option<u64>) -> Result<(), Trouble> {
        let found = self.hash.as_ref().map(|hash| format!("{:x}", hash.clone().finalize()));
        let sizes = [total, self.listed.size].into_iter().flatten();
        let hashes = [facts.sha256(), self.listed.sha256.as_deref()].into_iter().flatten();
        let other_size = sizes.into_iter().find(|size| *size != self.len);
        let other_hash = found.and_then(|found| {
            let announced = hashes.into_iter().find(|announced| !found.eq_ignore_ascii_case(announced))?;
            Some(format!("its SHA-256 is {found} in place of {announced}"))
        });
        let problem = other_size.map(|size| format!("{} bytes in place of {size}", self.len)).or(other_hash);
        if let Some(problem) = problem {
            self.begin_anew()?;
            return Err(Trouble::Damaged(problem));
        }
        // The name must not be there before the bytes are, also when the machine stops in between.
        let named = self.file.sync_all().and_then(|()| fs::rename(&self.path, &self.target));
        Ok(named.map_err(|source| self.failed(source))?)
    }

    fn failed(&self, source: std::io::Error) -> HubError {
        HubError::Write { action: "write", path: self.path.clone(), source }
    }
}

/// One that cannot be gone on with leaves nothing.
impl Drop for Draft {
    fn drop(&mut self) {
        if (self.len == 0 || !self.goes_on()) && is_same(&self.file, &self.path) {
            // It does no harm where it cannot be removed.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether `path` is still the name of `file`.
#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let place = |about: fs::Metadata| (about.dev(), about.ino());
    let both = (file.metadata().map(place), fs::metadata(path).map(place));
    matches!(both, (Ok(file), Ok(path)) if file == path)
}

#[cfg(not(unix))]
fn is_same(_file: &File, path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

    fn open(folder: &Path, facts: &Facts) -> Option<Draft> {
        let (path, target) = (folder.join("f.incomplete"), folder.join("f"));
        Draft::open(&path, &target, facts, Announced::default(), &mut |line| panic!("{line}"))
            .expect("a folder")
    }

    #[test]
    fn what_has_come_is_taken_up_and_checked() {
        let folder = tempfile::tempdir().expect("a folder");
        let facts = Facts::linked(HELLO, 5);
        let mut draft = open(folder.path(), &facts).expect("nothing is there");
        draft.add(b"hel").expect("written");
        drop(draft);
        let mut draft = open(folder.path(), &facts).expect("it is not whole");
        assert_eq!(draft.len(), 3);
        draft.add(b"lo").expect("written");
        assert!(!folder.path().join("f").exists());
        draft.finish(&facts, Some(5)).expect("it is right");
        assert_eq!(fs::read(folder.path().join("f")).expect("a file"), b"hello");
        assert!(open(folder.path(), &facts).is_none());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn what_is_not_what_was_announced_is_thrown_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let facts = Facts::linked(HELLO, 5);
        for (bytes, words) in [(&b"hell"[..], "4 bytes in place of 5"), (b"jello", "its SHA-256 is ")] {
            let mut draft = open(folder.path(), &facts).expect("nothing is there");
            assert_eq!(draft.len(), 0);
            draft.add(bytes).expect("written");
            let said = draft.finish(&facts, Some(5)).expect_err("it is wrong").to_string();
            assert!(said.contains(words), "{said}");
            assert!(!folder.path().join("f").exists());
        }
        let nameless = Facts::default();
        open(folder.path(), &nameless).expect("nothing is there").add(b"x").expect("written");
        assert_eq!(open(folder.path(), &nameless).expect("nothing is there").len(), 0);
    }

    /// Whatever the answer itself says.
    #[test]
    fn what_is_not_what_was_listed_is_thrown_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, target) = (folder.path().join("f.incomplete"), folder.path().join("f"));
        let listed = Announced { size: Some(5), sha256: Some(HELLO.to_owned()) };
        let come = |bytes: &[u8]| {
            let facts = Facts::default();
            let mut draft = Draft::open(&path, &target, &facts, listed.clone(), &mut |line| panic!("{line}"))
                .expect("a folder")
                .expect("nothing is there");
            draft.add(bytes).expect("written");
            draft.finish(&facts, Some(bytes.len() as u64)).map_err(|trouble| trouble.to_string())
        };
        assert!(come(b"hell").expect_err("it is short").contains("4 bytes in place of 5"));
        assert!(come(b"jello").expect_err("it is another").contains("its SHA-256 is "));
        assert!(!target.exists());
        come(b"hello").expect("it is right");
    }

    #[test]
    fn a_second_process_waits_and_finds_it_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let facts = Facts::linked(HELLO, 5);
        let (path, target) = (folder.path().join("f.incomplete"), folder.path().join("f"));
        let mut first = open(folder.path(), &facts).expect("nothing is there");
        let (waits, is_waiting) = std::sync::mpsc::channel();
        let second = std::thread::spawn(move || {
            let mut tell = |line: &str| waits.send(line.to_owned()).expect("the test listens");
            Draft::open(&path, &target, &Facts::linked(HELLO, 5), Announced::default(), &mut tell)
                .expect("a folder")
                .is_none()
        });
        assert!(is_waiting.recv().expect("it waits").contains("by another process"));
        first.add(b"hello").expect("written");
        first.finish(&facts, None).expect("it is right");
        assert!(second.join().expect("no panic"), "it is whole");
    }
}
