//! `aiperf config validate FILE` and `aiperf config expand FILE`.

use std::path::{Path, PathBuf};

use aiperf_config::{ExpandFormat, Rejected};
use clap::ArgMatches;

use crate::commands::profile::reject;
use crate::exit::{Exit, USAGE};
use crate::output;

/// Runs the sub-command.
pub(crate) fn run(matches: &ArgMatches) -> Exit {
    let env = |name: &str| std::env::var(name).ok();
    match matches.subcommand() {
        Some(("validate", m)) => with_file(m, |file| {
            let resolved = aiperf_config::validate_file(file, &env)?;
            for note in &resolved.notes {
                output::say(note);
            }
            Ok(output::data(&format!("{} is valid.\n", file.display())))
        }),
        Some(("expand", m)) => with_file(m, |file| {
            let format = match m.get_one::<String>("format").map(String::as_str) {
                Some("text") => ExpandFormat::Text,
                Some("json") => ExpandFormat::Json,
                _ => ExpandFormat::Yaml,
            };
            Ok(output::data(&aiperf_config::expand_file(file, &env, format)?))
        }),
        _ => Exit(USAGE),
    }
}

fn with_file(matches: &ArgMatches, act: impl FnOnce(&Path) -> Result<Exit, Rejected>) -> Exit {
    let Some(file) = matches.get_one::<PathBuf>("file") else {
        return Exit(USAGE);
    };
    act(file).unwrap_or_else(|rejected| reject(&rejected))
}
