//! `aiperf analyze-trace FILE`: what a trace holds, and what a replay of it would do wrong.

use std::path::PathBuf;

use aiperf_trace::{Severity, analyze};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};

use super::{block_size, written};
use crate::exit::{Exit, NOT_ALIKE, SUCCESS, USAGE};
use crate::output;

/// The command.
pub(crate) fn command() -> Command {
    Command::new("analyze-trace")
        .about("Show lengths, prefixes and hit rates of a Mooncake trace, and what a replay of it would do wrong")
        .after_help(
            "Nothing is sent. Memory is for the distinct blocks and prefixes of the trace, 32 to 64 bytes each, and its sessions, about 160 bytes each, not for its \
             rows.\n\
             Exit codes: 0 shown, 1 the report could not be written, 2 the trace could not be read, 3 with --strict when a replay would be refused or wrong.",
        )
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required_unless_present("input-file")
                .conflicts_with("input-file")
                .value_hint(ValueHint::FilePath)
                .value_parser(value_parser!(PathBuf))
                .help("The trace, JSONL, plain or packed with gzip or zstd; - for standard input"),
        )
        .arg(
            Arg::new("input-file")
                .long("input-file")
                .alias("input_file")
                .value_name("FILE")
                .value_hint(ValueHint::FilePath)
                .value_parser(value_parser!(PathBuf))
                .help("The same by name"),
        )
        .arg(block_size("Tokens of a block"))
        .arg(
            Arg::new("output-file")
                .long("output-file")
                .alias("output_file")
                .value_name("FILE")
                .value_hint(ValueHint::FilePath)
                .value_parser(value_parser!(PathBuf))
                .help("Write the report to this file too, as JSON; - shows it in place of the text"),
        )
        .arg(
            Arg::new("format")
                .long("format")
                .short('f')
                .value_parser(["text", "json"])
                .default_value("text")
                .help("Form of what is shown"),
        )
        .arg(
            Arg::new("strict")
                .long("strict")
                .action(ArgAction::SetTrue)
                .help("End with exit code 3 when a replay would be refused, or send something else than the trace says"),
        )
}

/// Shows the analysis.
pub(crate) fn run(matches: &ArgMatches) -> Exit {
    let of = |name| matches.get_one::<PathBuf>(name);
    let (Some(file), Some(&block_size)) =
        (of("file").or_else(|| of("input-file")), matches.get_one("block-size"))
    else {
        return Exit(USAGE);
    };
    let to_stdout = |path: &&PathBuf| path.as_os_str() == "-";
    let report = of("output-file").filter(|path| !to_stdout(path));
    if let Some(path) = report.filter(|path| super::is_same_file(path, file)) {
        output::say(&format!(
            "error: --output-file '{}' is the trace itself, which the report would replace; give it another name",
            path.display()
        ));
        return Exit(USAGE);
    }
    let analysis = match analyze(file, block_size) {
        Ok(analysis) if analysis.total_requests == 0 => {
            output::say(&format!("error: '{}' holds no rows", file.display()));
            return Exit(USAGE);
        }
        Ok(analysis) => analysis,
        Err(error) => {
            output::fail(&error);
            return Exit(USAGE);
        }
    };
    let json = format!("{:#}\n", analysis.json());
    let text = match matches.get_one::<String>("format").map(String::as_str) {
        Some("json") => json.clone(),
        _ if of("output-file").is_some_and(|path| to_stdout(&path)) => json.clone(),
        _ => output::plain(&analysis.text()),
    };
    let mut exit = output::data(&text);
    if let Some(path) = report {
        let code = written(path, &json);
        if code == SUCCESS {
            output::say(&format!("Analysis report saved to {}", path.display()));
        } else {
            exit = Exit(code);
        }
    }
    if exit.0 == SUCCESS
        && matches.get_flag("strict")
        && analysis.findings.worst().is_some_and(|worst| worst < Severity::Note)
    {
        output::say("A replay would not send what the trace says (--strict).");
        return Exit(NOT_ALIKE);
    }
    exit
}
