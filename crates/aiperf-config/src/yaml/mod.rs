//! Configuration files: a tree in which every node knows its line and column, the substitutions on it, the way from
//! its keys to settings, and a writer.

mod emit;
mod forms;
mod lift;
mod phases;
mod substitute;
mod template;
mod tree;

pub(crate) use emit::emit;
pub(crate) use lift::{Structure, lift};
pub(crate) use phases::PhaseSource;
pub(crate) use tree::{Data, Entry, Node, Scalar, parse};

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use crate::error::ConfigError;
use crate::place::{Place, Position};

/// Largest configuration file read.
const MAX_BYTES: u64 = 16 << 20;

/// The environment: a variable's value by its name.
pub(crate) type Env<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Reads a file and applies its substitutions: `${VAR}` first, templates then.
pub(crate) fn load(path: &Path, env: &Env<'_>) -> Result<Source, Vec<ConfigError>> {
    let text = read(path).map_err(|e| vec![e])?;
    let file: Arc<str> = path.display().to_string().into();
    load_text(&file, &text, env)
}

/// A file's tree after its substitutions.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The file as the user named it.
    pub file: Arc<str>,
    /// Its tree.
    pub root: Node,
}

impl Source {
    pub(crate) fn place(&self, position: Position, key: &str) -> Place {
        Place::File { file: Arc::clone(&self.file), position, key: key.into() }
    }
}

pub(crate) fn load_text(file: &Arc<str>, text: &str, env: &Env<'_>) -> Result<Source, Vec<ConfigError>> {
    let root = tree::parse(file, text).map_err(|e| vec![e])?;
    let mut source = Source { file: Arc::clone(file), root };
    substitute::substitute(&mut source, env)?;
    template::render(&mut source)?;
    Ok(source)
}

/// The bytes of the file `path`, or what is wrong with it, `most` of them at most: what is no regular file (a pipe, a device)
/// tells no size and may have no end.
pub(crate) fn read_bounded(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(most + 1).read_to_end(&mut bytes))
        .map_err(|e| format!("cannot be read: {e}"))?;
    if bytes.len() as u64 > most {
        return Err(format!("has more than the {most} bytes that are read at most"));
    }
    Ok(bytes)
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let problem = |problem: String| ConfigError::File {
        place: Place::Flag("configuration".to_owned()),
        path: path.to_owned(),
        problem,
    };
    if path.is_dir() {
        return Err(problem("is a folder; a YAML file is expected".to_owned()));
    }
    let bytes = read_bounded(path, MAX_BYTES).map_err(problem)?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let line = e.as_bytes()[..at].split(|b| *b == b'\n').count();
        problem(format!("is not UTF-8 (line {line})"))
    })
}
