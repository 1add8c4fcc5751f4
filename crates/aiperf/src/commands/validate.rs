//! `aiperf validate mooncake-trace FILE`: whether every line is a row that a replay takes.

use std::path::PathBuf;

use aiperf_core::text::grouped;
use aiperf_trace::validate;
use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};

use super::block_size;
use crate::exit::{Exit, FAILED, USAGE};
use crate::output;

/// Bad lines told before it is given up.
const MOST: usize = 10;

/// The command.
pub(crate) fn command() -> Command {
    Command::new("validate")
        .about("Check a file that a benchmark reads: every line of a Mooncake trace")
        .after_help(
            "'aiperf analyze-trace' tells more: what would be taken, but not for what is meant.\n\
             Exit codes: 0 every line is good, 1 some are not, 2 the file could not be read, or holds no rows.",
        )
        .arg(
            Arg::new("target")
                .value_name("TARGET")
                .value_parser(["mooncake-trace"])
                .required(true)
                .help("Form of the file"),
        )
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .value_hint(ValueHint::FilePath)
                .value_parser(value_parser!(PathBuf))
                .required_unless_present("input")
                .conflicts_with("input")
                .help("The file"),
        )
        .arg(
            Arg::new("input")
                .long("input")
                .value_name("FILE")
                .value_hint(ValueHint::FilePath)
                .value_parser(value_parser!(PathBuf))
                .help("The same by name"),
        )
        .arg(block_size("Tokens of a block, as --isl-block-size gives it to a replay"))
}

/// Checks the file.
pub(crate) fn run(matches: &ArgMatches) -> Exit {
    let of = |name| matches.get_one::<PathBuf>(name);
    let (Some(file), Some(&block_size)) = (of("file").or_else(|| of("input")), matches.get_one("block-size"))
    else {
        return Exit(USAGE);
    };
    let found = match validate(file, block_size, MOST) {
        Ok(found) => found,
        Err(error) => {
            output::fail(&error);
            return Exit(USAGE);
        }
    };
    if found.bad.is_empty() {
        let rows = if found.rows == 1 { "row is" } else { "rows are" };
        return output::data(&format!(
            "Validation passed: {} {rows} Mooncake-compatible.\n",
            grouped(found.rows)
        ));
    }
    let more = if found.is_cut { ", and was given up there" } else { "" };
    let lines = if found.bad.len() == 1 { "line" } else { "lines" };
    output::say(&format!("error: '{}' has {} bad {lines}{more}:", file.display(), found.bad.len()));
    for bad in &found.bad {
        output::say(&format!("  line {}: {}", bad.line, bad.why.join("; ")));
    }
    Exit(FAILED)
}
