//! `aiperf report`: the summary of a run that was killed, made from its records.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use aiperf_run::{AsColumns, Rebuilt, Screen};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};

use super::profile;
use crate::exit::{Exit, FAILED, USAGE};
use crate::output;

/// The command.
pub(crate) fn command() -> Command {
    Command::new("report")
        .about("Summarise a folder of results again, from its records: for a run that was killed")
        .after_help(
            "Reads profile_export.jsonl and profile_export_run.json, and writes the summary JSON, the CSV and the console's text beside \
             them, marked as incomplete. A last line that is not whole is left out, and so are lines that cannot be read; both are told.",
        )
        .arg(
            Arg::new("folder")
                .required(true)
                .value_hint(ValueHint::DirPath)
                .value_parser(value_parser!(PathBuf))
                .help("Folder of the run, as given with --artifact-dir"),
        )
        .arg(
            Arg::new("export-parquet")
                .long("export-parquet")
                .action(ArgAction::SetTrue)
                .help("Write profile_export.parquet from the records, and nothing else; they may be AIPerf's"),
        )
        .arg(
            Arg::new("force")
                .long("force")
                .action(ArgAction::SetTrue)
                .help("Write over what is there already"),
        )
}

/// Makes the summary and shows it.
pub(crate) fn run(matches: &ArgMatches) -> Exit {
    let Some(folder) = matches.get_one::<PathBuf>("folder") else { return Exit(USAGE) };
    if matches.get_flag("export-parquet") {
        return columns(folder, matches.get_flag("force"));
    }
    let screen = Screen {
        progress_on_terminal: false,
        colour: std::io::stdout().is_terminal() && profile::takes_colour(&|name| std::env::var_os(name)),
        width: std::io::stdout().is_terminal().then(profile::terminal_width).flatten(),
    };
    match aiperf_run::rebuild(folder, matches.get_flag("force"), screen) {
        Ok(Rebuilt { console, notes, completed, problem, .. }) => {
            let shown = output::data(&console);
            for note in &notes {
                output::say(note);
            }
            if let Some(problem) = &problem {
                output::fail(problem);
            }
            if completed == 0 || problem.is_some() { Exit(FAILED) } else { shown }
        }
        Err(error) => {
            output::fail(&error);
            Exit(USAGE)
        }
    }
}

/// Writes the records as columns and says where.
fn columns(folder: &Path, force: bool) -> Exit {
    match aiperf_run::records_as_columns(folder, force) {
        Ok(AsColumns { path, rows, skipped }) => {
            if skipped > 0 {
                let (lines, were) = if skipped == 1 { ("line", "was") } else { ("lines", "were") };
                output::say(&format!(
                    "{skipped} {lines} of the records could not be read and {were} left out."
                ));
            }
            let rows = if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") };
            output::data(&format!("{}: {rows}\n", path.display()))
        }
        Err(error) => {
            output::fail(&error);
            Exit(USAGE)
        }
    }
}
