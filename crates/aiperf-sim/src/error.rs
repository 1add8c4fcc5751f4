//! What can go wrong before the simulated server serves. Once it serves, failures are answers.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a simulated or scripted server could not be set up or started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A value outside the option's range.
    #[error("simulator option '{key}' has the value '{value}'; allowed: {allowed}{}", hint(.nearest.as_deref()))]
    BadValue {
        /// The option.
        key: &'static str,
        /// What was given.
        value: String,
        /// The option's range, in words.
        allowed: &'static str,
        /// The nearest allowed word, where the value looks like a slip.
        nearest: Option<String>,
    },
    /// The capture could not be created.
    #[error("the capture '{}' cannot be written", path.display())]
    Capture {
        /// Its path.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The address could not be bound.
    #[error("the simulated server cannot listen on {addr}")]
    Listen {
        /// The address asked for.
        addr: SocketAddr,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// No text could be found whose parts are one token each.
    #[error(
        "no words of one token each were found in the tokenizer '{tokenizer}', so answers of an exact length cannot be made"
    )]
    NoWords {
        /// The tokenizer's name.
        tokenizer: String,
    },
    /// The system gave no thread, runtime or timer.
    #[error("the simulated server's thread could not start")]
    Thread {
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The truth log could not be created.
    #[error("the truth log '{}' cannot be written", path.display())]
    TruthLog {
        /// Its path.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// No such option.
    #[error("no simulator option is called '{key}'{}; known: {}", hint(.nearest.as_deref()), .known.join(", "))]
    UnknownOption {
        /// What was given.
        key: String,
        /// The nearest known one.
        nearest: Option<String>,
        /// All of them.
        known: Vec<&'static str>,
    },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |n| format!(" (did you mean '{n}'?)"))
}
