//! `aiperf config validate FILE` and `aiperf config expand FILE`.

use std::path::{Path, PathBuf};

use aiperf_config::{ExpandFormat, Rejected};
use clap::ArgMatches;

use crate::commands::profile::reject;
use crate::exit::{Exit, SUCCESS, USAGE};
use crate::output;

/// Runs the sub-command.
pub(crate) fn run(matches: &ArgMatches) -> Exit {
    let env = |name: &str| std::env::var(name).ok();
    match matches.subcommand() {
        Some(("validate", m)) => with_file(m, |file| {
            let resolved = aiperf_config::validate_file(file, &env)?;
            resolved.notes.iter().for_each(|note| output::say(note));
            output::data(&format!("{} is valid.\n", file.display()));
            Ok(())
        }),
        Some(("expand", m)) => with_file(m, |file| {
            let format = match m.get_one::<String>("format").map(String::as_str) {
                Some("text") => ExpandFormat::Text,
                Some("json") => ExpandFormat::Json,
                _ => ExpandFormat::Yaml,
            };
            output::data(&aiperf_config::expand_file(file, &env, format)?);
            Ok(())
        }),
        _ => Exit(USAGE),
    }
}

fn with_file(matches: &ArgMatches, act: impl FnOnce(&Path) -> Result<(), Rejected>) -> Exit {
    let Some(file) = matches.get_one::<PathBuf>("file") else {
        return Exit(USAGE);
    };
    match act(file) {
        Ok(()) => Exit(SUCCESS),
        Err(rejected) => reject(&rejected),
    }
}
