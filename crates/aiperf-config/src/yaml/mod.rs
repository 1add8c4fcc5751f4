//! Configuration files: a tree in which every node knows its line and column, the substitutions on it, the way from
//! its keys to settings, and a writer.

mod emit;
mod forms;
mod lift;
mod substitute;
mod template;
mod tree;

pub(crate) use emit::emit;
pub(crate) use lift::{Structure, lift};
pub(crate) use tree::{Data, Entry, Node, Scalar};

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

fn read(path: &Path) -> Result<String, ConfigError> {
    let problem = |problem: String| ConfigError::File {
        place: Place::Flag("configuration".to_owned()),
        path: path.to_owned(),
        problem,
    };
    let size = std::fs::metadata(path).map_err(|e| problem(format!("cannot be read: {e}")))?;
    if size.is_dir() {
        return Err(problem("is a folder; a YAML file is expected".to_owned()));
    }
    if size.len() > MAX_BYTES {
        return Err(problem(format!("has {} bytes; at most {MAX_BYTES} are read", size.len())));
    }
    let bytes = std::fs::read(path).map_err(|e| problem(format!("cannot be read: {e}")))?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let line = e.as_bytes()[..at].split(|b| *b == b'\n').count();
        problem(format!("is not UTF-8 (line {line})"))
    })
}
