//! `aiperf synthesize`: traces that are made, not recorded.

mod agentic_code;
mod trace;

use clap::{ArgMatches, Command};

use crate::exit::{Exit, USAGE};

/// The command.
pub(crate) fn command() -> Command {
    Command::new("synthesize")
        .about(
            "Make a trace to replay, from a few figures or of conversations as coding assistants have them",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(agentic_code::command())
        .subcommand(trace::command())
}

/// Makes it.
pub(crate) fn run(matches: &ArgMatches) -> Exit {
    match matches.subcommand() {
        Some(("agentic-code", m)) => agentic_code::run(m),
        Some(("trace", m)) => trace::run(m),
        _ => Exit(USAGE),
    }
}
