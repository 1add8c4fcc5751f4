//! Exit codes, all of them.

use std::process::ExitCode;

/// The run has results.
pub(crate) const SUCCESS: u8 = 0;
/// Nothing succeeded, or results could not be written whole.
pub(crate) const FAILED: u8 = 1;
/// The command line, the configuration, or something it names (tokenizer, dataset, folder) is not right; nothing was run.
pub(crate) const USAGE: u8 = 2;
/// `compare --strict`: the runs are not alike. `analyze-trace --strict`: a replay would not send what the trace says.
pub(crate) const NOT_ALIKE: u8 = 3;
/// The user stopped the run; what was measured is written.
pub(crate) const INTERRUPTED: u8 = 130;

/// A command's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit(pub u8);

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}
