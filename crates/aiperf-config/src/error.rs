//! Everything that can be wrong with a configuration, as data and as one line each.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use crate::place::Place;

/// One thing wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A value outside of what its option allows.
    #[error("{place}: found {found}; allowed: {allowed}{}", Hint(nearest.as_deref()))]
    BadValue {
        /// Where.
        place: Place,
        /// What was found, described.
        found: String,
        /// What is allowed.
        allowed: String,
        /// A near word that is allowed.
        nearest: Option<String>,
    },
    /// Two settings that exclude each other.
    #[error("{first} and {second} exclude each other: {why}")]
    Conflict {
        /// One.
        first: Place,
        /// The other.
        second: Place,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A key given twice in one mapping.
    #[error("{place}: this key was already given at line {line}, column {column}")]
    DuplicateKey {
        /// The second one.
        place: Place,
        /// Line of the first one.
        line: u32,
        /// Column of the first one.
        column: u32,
    },
    /// A file that cannot be used.
    #[error("{place}: the file {} {problem}", path.display())]
    File {
        /// What named the file.
        place: Place,
        /// The file.
        path: PathBuf,
        /// What is wrong with it, with a verb.
        problem: String,
    },
    /// A load option for one phase, where a file has several that it could be for.
    #[error(
        "{place} is for one {kind} phase, and the file has several: {names}; say it in the phase that is meant"
    )]
    ManyPhases {
        /// The option.
        place: Place,
        /// `warmup` or `profiling`.
        kind: &'static str,
        /// Names of the phases.
        names: String,
    },
    /// Something that must be given and is not.
    #[error("{what} is missing: give {how}")]
    Missing {
        /// What.
        what: &'static str,
        /// How to give it.
        how: String,
    },
    /// A flag without its value.
    #[error("{flag} needs a value: {allowed}")]
    MissingValue {
        /// The flag.
        flag: String,
        /// What is allowed.
        allowed: String,
    },
    /// A setting that needs another one.
    #[error("{place} needs {needs}: {why}")]
    Needs {
        /// The setting.
        place: Place,
        /// What it needs.
        needs: Cow<'static, str>,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A flag, key or value that AIPerf has and this version does not.
    #[error("{place} {what} this version does not have yet")]
    NotYet {
        /// Where.
        place: Place,
        /// `is an AIPerf option`, `'random' is an AIPerf value` …
        what: String,
    },
    /// A flag given twice that takes one value.
    #[error("{flag} is given more than once; it takes one value")]
    Repeated {
        /// The flag.
        flag: String,
    },
    /// A list where one value is meant.
    #[error("{place}: '{found}' is a list; a list of values asks for a sweep; sweeps come later")]
    Sweep {
        /// Where.
        place: Place,
        /// The list.
        found: String,
    },
    /// A template that cannot be rendered.
    #[error("{place}: the template '{template}' cannot be rendered: {problem}")]
    Template {
        /// Where.
        place: Place,
        /// The template.
        template: String,
        /// Why.
        problem: String,
    },
    /// A word on the command line that belongs to no flag.
    #[error("'{text}' belongs to no flag{}", Hint(nearest.as_deref()))]
    Unexpected {
        /// The word.
        text: String,
        /// A near flag.
        nearest: Option<String>,
    },
    /// A word on the command line that is no text.
    #[error(
        "'{}' on the command line is not UTF-8, and flags, values and paths must be; rename the file, or go by another path",
        text
    )]
    NotUtf8 {
        /// The word, as far as it can be shown.
        text: String,
    },
    /// A flag that does not exist.
    #[error("{flag} is not an option{}", Hint(nearest.as_deref()))]
    UnknownFlag {
        /// The flag.
        flag: String,
        /// A near flag.
        nearest: Option<String>,
    },
    /// A key that does not exist.
    #[error("{place}: there is no key '{key}' here; allowed: {allowed}{}", Hint(nearest.as_deref()))]
    UnknownKey {
        /// Where.
        place: Place,
        /// The key as it was written.
        key: String,
        /// Keys that are allowed there.
        allowed: String,
        /// A near key.
        nearest: Option<String>,
    },
    /// An environment reference that does not resolve.
    #[error("{place}: {problem}")]
    Variable {
        /// Where.
        place: Place,
        /// What is wrong.
        problem: String,
    },
    /// A value of another shape than its key wants.
    #[error("{place}: found {found}; expected {expected}")]
    WrongType {
        /// Where.
        place: Place,
        /// What was found, described.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A file that is not YAML, or uses what is refused of YAML.
    #[error("{place}: {problem}")]
    Yaml {
        /// Where.
        place: Place,
        /// What is wrong.
        problem: String,
    },
}

/// `; did you mean 'x'?`, or nothing.
struct Hint<'a>(Option<&'a str>);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |n| write!(f, "; did you mean '{n}'?"))
    }
}

/// Why there is no plan.
#[derive(Debug)]
pub enum Rejected {
    /// Help was asked for; holds its text. Not an error (exit 0).
    Help(String),
    /// The version was asked for; the binary knows it. Not an error (exit 0).
    Version,
    /// Something is wrong; holds everything that is (exit 2).
    Invalid(Vec<ConfigError>),
}

impl Rejected {
    /// Whether the user made a mistake, as opposed to asking for help.
    pub const fn is_error(&self) -> bool {
        matches!(self, Self::Invalid(_))
    }
}

impl fmt::Display for Rejected {
    /// The help text, or all errors, one a paragraph.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Help(text) => f.write_str(text),
            Self::Version => Ok(()),
            Self::Invalid(errors) => {
                for (i, error) in errors.iter().enumerate() {
                    if i > 0 {
                        f.write_str("\n\n")?;
                    }
                    write!(f, "error: {error}")?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for Rejected {}

impl From<ConfigError> for Rejected {
    fn from(error: ConfigError) -> Self {
        Self::Invalid(vec![error])
    }
}
