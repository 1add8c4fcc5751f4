//! `aiperf completions SHELL`.

use clap::ArgMatches;

use crate::cli;
use crate::exit::{Exit, USAGE};
use crate::output;

/// Prints the script for the asked shell.
pub(crate) fn run(matches: &ArgMatches) -> Exit {
    let Some(shell) = matches.get_one::<clap_complete::Shell>("shell") else {
        return Exit(USAGE);
    };
    let mut script = Vec::new();
    clap_complete::generate(*shell, &mut cli::command(), "aiperf", &mut script);
    output::data(&String::from_utf8_lossy(&script))
}
