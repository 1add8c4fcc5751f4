//! Which files of a folder are read, and which are passed over.

use std::path::{Path, PathBuf};

use aiperf_core::text::for_terminal;

use crate::error::DataError;

/// Most names told.
const MOST_NAMED: usize = 3;

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Files called `.jsonl`, packed or not.
    Jsonl,
    /// The same, those of folders in it too.
    JsonlBelow,
    /// All files.
    All,
}

/// Files of a folder.
#[derive(Debug)]
pub(super) struct Folder {
    /// By name; at least one.
    pub(super) paths: Vec<PathBuf>,
    /// What was passed over, for the user.
    pub(super) note: Option<String>,
}

impl Folder {
    /// Looks for those that are read.
    pub(super) fn open(root: &Path, which: Which) -> Result<Self, DataError> {
        let (mut paths, mut passed) = (Vec::new(), Vec::new());
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            let read = |source| DataError::Read { path: folder.clone(), source };
            for entry in std::fs::read_dir(&folder).map_err(read)? {
                let path = entry.map_err(read)?.path();
                let is_read = if which == Which::All { path.is_file() } else { is_jsonl(&path) };
                if which == Which::JsonlBelow && path.is_dir() && !path.is_symlink() {
                    folders.push(path);
                } else if is_read {
                    paths.push(path);
                } else if !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
                    passed.push(path);
                }
            }
        }
        passed.sort();
        if paths.is_empty() {
            let of = || root.to_owned();
            return Err(match names(root, &passed) {
                Some(passed_over) if which != Which::All => {
                    DataError::NoJsonl { path: of(), passed: passed_over, several: passed.len() > 1 }
                }
                _ => DataError::EmptyFile { path: of() },
            });
        }
        paths.sort();
        none_twice(&paths)?;
        let wanted = if which == Which::All { "files" } else { "files called .jsonl, packed or not," };
        let note = names(root, &passed)
            .map(|names| format!("{}: only {wanted} are read, and passed over: {names}", root.display()));
        Ok(Self { paths, note })
    }
}

/// What to tell of files in a folder that hold no rows.
pub(super) fn empty_note(root: &Path, empty: &[PathBuf]) -> Option<String> {
    names(root, empty)
        .map(|names| format!("{}: passed over, for there are no rows in it: {names}", root.display()))
}

/// What a folder holds besides, the first of it by name.
fn names(root: &Path, passed: &[PathBuf]) -> Option<String> {
    let name = |path: &PathBuf| {
        let name = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
        format!("'{}{}'", for_terminal(&name, 60), if path.is_dir() { "/" } else { "" })
    };
    let more = match passed.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<String> = passed.iter().take(MOST_NAMED).map(name).collect();
    (!named.is_empty()).then(|| format!("{}{more}", named.join(", ")))
}

/// Whether a file is called like JSONL, packed or not.
pub(super) fn is_jsonl(path: &Path) -> bool {
    let ends = |path: &Path| path.extension().is_some_and(|end| end == "jsonl");
    ends(path) || is_packed(path) && path.file_stem().is_some_and(|stem| ends(Path::new(stem)))
}

fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|end| ["gz", "gzip", "zst", "zstd"].iter().any(|packed| end == *packed))
}

/// Refuses a file that is there packed too: sent twice it would be, and nobody can tell which of the two is meant. `files` are in
/// order.
fn none_twice(files: &[PathBuf]) -> Result<(), DataError> {
    for packed in files.iter().filter(|path| is_packed(path)) {
        if let Ok(at) = files.binary_search(&packed.with_extension("")) {
            return Err(DataError::PackedBeside { path: files[at].clone(), packed: packed.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_passed_over_is_told() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let of = |which: Which| {
            Folder::open(dir.path(), which)
                .map(|found| (found.paths.len(), found.note.unwrap_or_default()))
                .map_err(|error| error.to_string())
        };
        for which in [Which::Jsonl, Which::JsonlBelow, Which::All] {
            assert!(of(which).is_err_and(|said| said.contains("holds no")), "{which:?}");
        }
        std::fs::create_dir(dir.path().join("sub")).expect("made");
        for name in ["a.json", "b.JSONL", "d.txt", "e.txt", ".hidden"] {
            std::fs::write(dir.path().join(name), "{}").expect("written");
        }
        assert!(of(Which::Jsonl).is_err_and(|said| said.contains("'a.json', 'b.JSONL', 'd.txt' and 2 more")));
        for name in ["c.jsonl", "sub/x.jsonl.gz"] {
            std::fs::write(dir.path().join(name), "{}").expect("written");
        }
        let (files, note) = of(Which::Jsonl).expect("one");
        assert_eq!(files, 1);
        assert!(note.ends_with("passed over: 'a.json', 'b.JSONL', 'd.txt' and 2 more"), "{note}");
        let (files, note) = of(Which::JsonlBelow).expect("two");
        assert_eq!(files, 2);
        assert!(note.ends_with("'d.txt' and 1 more"), "{note}");
        let (files, note) = of(Which::All).expect("six");
        assert_eq!(files, 6);
        assert!(note.ends_with("only files are read, and passed over: 'sub/'"), "{note}");
    }

    #[test]
    fn packed_files_have_two_endings() {
        for (name, is) in [
            ("a.jsonl", true),
            ("a.jsonl.gz", true),
            ("a.b.jsonl.zst", true),
            ("a.json.gz", false),
            ("jsonl.gz", false),
            ("a.gz", false),
            ("a.jsonl.txt", false),
        ] {
            assert_eq!(is_jsonl(Path::new(name)), is, "{name}");
        }
    }
}
