//! One file per command: plain settings in, an exit code out.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::exit::{FAILED, SUCCESS};
use crate::output;

pub(crate) mod analyze_trace;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
mod download;
pub(crate) mod explain;
pub(crate) mod profile;
pub(crate) mod report;
pub(crate) mod schema;
pub(crate) mod sim;
pub(crate) mod synthesize;
pub(crate) mod tokenizer;
pub(crate) mod validate;

/// How long the blocks of a trace are, for commands that look at one.
fn block_size(help: &'static str) -> clap::Arg {
    clap::Arg::new("block-size")
        .long("block-size")
        .alias("block_size")
        .value_name("TOKENS")
        .default_value("512")
        .value_parser(clap::value_parser!(u64).range(1..=aiperf_trace::MOST_TOKENS))
        .help(help)
}

/// Makes the folders above a file.
fn folder_above(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or(Ok(()), std::fs::create_dir_all)
}

/// The file itself, where `path` is a link to one: it stays a link.
fn place_of(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Where a file is written until it is whole: a place of this process alone.
fn beside(path: &Path) -> PathBuf {
    let mut beside = place_of(path).into_os_string();
    beside.push(format!(".{}.part", std::process::id()));
    beside.into()
}

/// Makes a file and the folders above it: `write` fills it beside its place, which it takes when it is whole. Until then what was
/// there stays; what could not be written is removed. Pipes and devices are written into.
fn whole<T>(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>) -> io::Result<T> {
    let fill = |file| {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let made = write(&mut file)?;
        file.flush().map(|()| made)
    };
    folder_above(path)?;
    let before = fs::metadata(path).ok();
    if before.as_ref().is_some_and(|before| !before.is_file()) {
        return fill(File::create(path)?);
    }
    let beside = beside(path);
    let done = File::create(&beside).and_then(fill).and_then(|made| {
        if let Some(before) = before {
            fs::set_permissions(&beside, before.permissions())?;
        }
        fs::rename(&beside, place_of(path)).map(|()| made)
    });
    if done.is_err() {
        // Best effort: what is told is why it could not be written.
        let _ = fs::remove_file(&beside);
    }
    done
}

/// Whether two names lead to one file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let place = |path| std::fs::metadata(path).map(|about| (about.dev(), about.ino()));
        matches!((place(one), place(other)), (Ok(one), Ok(other)) if one == other)
    }
    #[cfg(not(unix))]
    {
        matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
    }
}

/// Writes a file, and the folders above it; the exit code.
fn written(path: &Path, text: &str) -> u8 {
    match whole(path, |file| file.write_all(text.as_bytes())) {
        Ok(()) => SUCCESS,
        Err(e) => {
            output::say(&format!("error: cannot write '{}': {e}", path.display()));
            FAILED
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries =
            fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
        entries.map(|name| name.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_stays_as_it_was_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        fs::write(&path, "old").expect("written");
        let failed: io::Result<()> = whole(&path, |file| {
            file.write_all(b"ne").and_then(|()| file.flush())?;
            assert_eq!(fs::read_to_string(&path).expect("it is there"), "old");
            Err(io::Error::other("stopped"))
        });
        assert_eq!(failed.expect_err("it failed").to_string(), "stopped");
        assert_eq!(
            (fs::read_to_string(&path).expect("it is there"), names(folder.path()).len()),
            ("old".into(), 1)
        );
        assert_eq!(whole(&path, |file| file.write_all(b"new").map(|()| 7)).expect("written"), 7);
        assert_eq!(
            (fs::read_to_string(&path).expect("it is there"), names(folder.path())),
            ("new".into(), vec!["a".into()])
        );
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().expect("a folder");
        let (path, link) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        symlink("a", &link).expect("a link");
        whole(&link, |file| file.write_all(b"new")).expect("written");
        assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "new");
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
    }
}
