//! The top of the command line: which command, and the commands' own help.

use std::ffi::OsString;

use aiperf_core::text::nearest;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};

use crate::commands::{
    analyze_trace, compare, completions, config, doctor, explain, profile, report, schema, sim, synthesize,
    tokenizer, validate,
};
use crate::exit::{Exit, USAGE};
use crate::output;

/// Commands in the order of the help.
const COMMANDS: [&str; 13] = [
    "profile",
    "sim",
    "report",
    "compare",
    "explain",
    "doctor",
    "analyze-trace",
    "validate",
    "synthesize",
    "tokenizer",
    "config",
    "schema",
    "completions",
];

/// The whole command line, for help and shell completions.
pub(crate) fn command() -> Command {
    Command::new("aiperf")
        .version(env!("AIPERF_LONG_VERSION"))
        .about("Load generator and measuring instrument for LLM inference servers")
        .after_help(
            "Try it without a server:\n  aiperf profile --model demo --url 'sim://?ttft=20&itl=5' --streaming --isl 128 --osl 32\n\n\
             Exit codes: 0 results, 1 nothing succeeded or results not written, 2 usage or configuration, 3 not alike or not right (--strict), 130 interrupted.",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(aiperf_config::profile_command())
        .subcommand(sim::command())
        .subcommand(report::command())
        .subcommand(compare::command())
        .subcommand(explain::command())
        .subcommand(doctor::command())
        .subcommand(analyze_trace::command())
        .subcommand(validate::command())
        .subcommand(synthesize::command())
        .subcommand(tokenizer::command())
        .subcommand(
            Command::new("config")
                .about("Check a configuration file, or show what it means")
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommand(Command::new("validate").about("Check a configuration file").arg(file()))
                .subcommand(
                    Command::new("expand")
                        .about("Show a configuration file after substitution and templates")
                        .arg(file())
                        .arg(
                            Arg::new("format")
                                .long("format")
                                .short('f')
                                .value_parser(["text", "yaml", "json"])
                                .default_value("yaml")
                                .help("Form of the output"),
                        ),
                ),
        )
        .subcommand(schema::command())
        .subcommand(
            Command::new("completions").about("Print a completion script for a shell").arg(
                Arg::new("shell")
                    .required(true)
                    .value_parser(clap::value_parser!(clap_complete::Shell))
                    .help("Shell to complete for"),
            ),
        )
}

fn file() -> Arg {
    Arg::new("file")
        .required(true)
        .action(ArgAction::Set)
        .value_hint(ValueHint::FilePath)
        .value_parser(clap::value_parser!(std::path::PathBuf))
        .help("Configuration file (YAML)")
}

/// Runs the command that `args` (without the program's name) ask for.
pub(crate) fn dispatch(args: &[OsString]) -> Exit {
    // `profile` parses its own flags: it refuses AIPerf's options that are not there yet by name.
    if args.first().is_some_and(|a| a == "profile") {
        return profile::run(&args[1..]);
    }
    if let Some(word) = args.first().and_then(|a| a.to_str())
        && !word.starts_with('-')
        && !COMMANDS.contains(&word)
    {
        output::say(&unknown_command(word));
        return Exit(USAGE);
    }
    let argv = std::iter::once(OsString::from("aiperf")).chain(args.iter().cloned());
    match command().try_get_matches_from(argv) {
        Ok(matches) => dispatch_matches(&matches),
        Err(error) if error.use_stderr() => {
            output::say(error.render().to_string().trim_end());
            Exit(USAGE)
        }
        Err(help) => output::data(&help.render().to_string()),
    }
}

fn dispatch_matches(matches: &ArgMatches) -> Exit {
    match matches.subcommand() {
        Some(("sim", m)) => sim::run(m),
        Some(("report", m)) => report::run(m),
        Some(("compare", m)) => compare::run(m),
        Some(("explain", m)) => explain::run(m),
        Some(("doctor", m)) => doctor::run(m),
        Some(("analyze-trace", m)) => analyze_trace::run(m),
        Some(("validate", m)) => validate::run(m),
        Some(("synthesize", m)) => synthesize::run(m),
        Some(("tokenizer", m)) => tokenizer::run(m),
        Some(("config", m)) => config::run(m),
        Some(("schema", m)) => schema::run(m),
        Some(("completions", m)) => completions::run(m),
        _ => Exit(USAGE),
    }
}

fn unknown_command(word: &str) -> String {
    let hint = nearest(word, COMMANDS).map(|n| format!(" Did you mean '{n}'?")).unwrap_or_default();
    format!("error: there is no command '{word}'.{hint} Commands are {}.", COMMANDS.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn the_list_of_commands_is_the_command_line_s() {
        let command = command();
        let names: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        assert_eq!(names, COMMANDS);
    }

    #[test]
    fn a_slip_gets_the_nearest_command() {
        assert!(unknown_command("profle").contains("Did you mean 'profile'?"));
    }
}
