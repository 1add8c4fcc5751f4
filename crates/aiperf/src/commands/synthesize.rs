//! `aiperf synthesize`: traces that are made, not recorded.

mod agentic_code;
mod trace;

use clap::{ArgMatches, Command};

use crate::exit::{Exit, USAGE};
use crate::output;

/// Tokens of a block in a replay that is told no others.
const BLOCK: u64 = 512;

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

/// Says how a trace with blocks of another size than usual is replayed.
fn tell_block_size(size: u64) {
    if size != BLOCK {
        output::say(&format!("note: replay it with --isl-block-size {size}."));
    }
}
