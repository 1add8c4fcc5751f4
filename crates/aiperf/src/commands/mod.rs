//! One file per command: plain settings in, an exit code out.

use std::io;
use std::path::Path;

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

/// Makes the folders above a file.
fn folder_above(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or(Ok(()), std::fs::create_dir_all)
}

/// Writes a file, and the folders above it; the exit code.
fn written(path: &Path, text: &str) -> u8 {
    match folder_above(path).and_then(|()| std::fs::write(path, text)) {
        Ok(()) => SUCCESS,
        Err(e) => {
            output::say(&format!("error: cannot write '{}': {e}", path.display()));
            FAILED
        }
    }
}
