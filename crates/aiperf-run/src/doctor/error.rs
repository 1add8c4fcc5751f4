//! Why nothing could be measured.

use std::io;

use crate::error::RunError;

/// See the module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoctorError {
    /// The server's process gave no sense.
    #[error("the simulated server answered {0:?}")]
    Answer(String),
    /// The process of the server could not be started or spoken to.
    #[error("cannot {action} the simulated server's process: {source}")]
    Process {
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The server did not start.
    #[error("the simulated server did not start: {0}")]
    Refused(String),
    /// A measurement could not run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Nothing came back.
    #[error("no request was answered in the measurement of {0}")]
    Unanswered(&'static str),
}
