//! Where a value was written, so that an error and the record of a run can say it.

use std::fmt;
use std::sync::Arc;

/// A position in a configuration file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column, in characters.
    pub column: u32,
}

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// On the command line; holds the flag as it was spelled.
    Flag(String),
    /// In the environment; holds the variable.
    Env(String),
    /// In a configuration file.
    File {
        /// The file as the user named it.
        file: Arc<str>,
        /// Where in it.
        position: Position,
        /// The key from the top, in snake_case; empty for the file itself.
        key: Arc<str>,
    },
}

impl Place {
    /// Rank in the merge: higher wins.
    pub(crate) const fn rank(&self) -> u8 {
        match self {
            Self::Flag(_) => 2,
            Self::Env(_) => 1,
            Self::File { .. } => 0,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Env(name) => write!(f, "{name} (environment)"),
            Self::File { file, position, key } if key.is_empty() => {
                write!(f, "{file}:{}:{}", position.line, position.column)
            }
            Self::File { file, position, key } => {
                write!(f, "{file}:{}:{}: {key}", position.line, position.column)
            }
        }
    }
}
