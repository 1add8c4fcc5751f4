//! The `profile` command for clap: its help and shell completions, made from the table.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

use crate::options::OPTIONS;
use crate::row::{Default, Group, Kind, Row};

/// The command `profile` with every option of the table. Its help and completions are clap's; its words are read by
/// [`crate::resolve_profile`].
pub fn profile_command() -> Command {
    let command = Command::new("profile")
        .about("Benchmark a server: send requests on schedule, time every answer, report")
        .after_help(
            "Flags win over AIPERF_* variables, these over the configuration file, that over defaults.\n\
             Words of a flag may be joined with - or _. Times take s, m and h.",
        )
        .disable_help_flag(true);
    let help = Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::Help)
        .help("Print help (-h for the short form)")
        .help_heading(Group::Runtime.to_string());
    Group::ALL
        .iter()
        .flat_map(|group| OPTIONS.iter().filter(move |row| row.group == *group))
        .fold(command, |command, row| command.arg(argument(row)))
        .arg(help)
}

fn argument(row: &'static Row) -> Arg {
    let mut arg = Arg::new(row.name())
        .long(row.name())
        .help(row.doc)
        .long_help(long_help(row))
        .help_heading(row.group.to_string())
        .visible_aliases(row.flags[1..].iter().copied());
    for short in row.shorts {
        // `-vv` is two letters; clap would take it for `-v -v`, so it only stands in the text.
        if let (Some(c), 1) = (short.chars().next(), short.len()) {
            arg = arg.short(c);
        }
    }
    match row.kind {
        Kind::Bool if row.shorts.contains(&"v") => arg.action(ArgAction::Count),
        Kind::Bool => arg.action(ArgAction::SetTrue),
        // They change nothing, so the short help leaves them out.
        Kind::Off => arg.action(ArgAction::SetTrue).hide_short_help(true),
        Kind::List | Kind::Filters | Kind::Headers | Kind::Extra | Kind::Objectives => {
            arg.value_name(row.kind.placeholder()).action(ArgAction::Append).num_args(1..)
        }
        Kind::Path | Kind::Series => {
            arg.value_name(row.kind.placeholder()).action(ArgAction::Set).value_hint(clap::ValueHint::AnyPath)
        }
        _ => arg.value_name(row.kind.placeholder()).action(ArgAction::Set).allow_negative_numbers(true),
    }
}

fn long_help(row: &Row) -> String {
    let mut text = row.doc.to_owned();
    if let Some(short) = row.shorts.iter().find(|s| s.len() > 1) {
        let _ = write!(text, " Short: -{short}.");
    }
    let mut facts = Vec::new();
    match row.kind {
        Kind::Off | Kind::Bool | Kind::Text | Kind::Path | Kind::List => {}
        kind => facts.push(format!("allowed: {}", kind.allowed())),
    }
    match row.default {
        Default::Is(text) if row.kind != Kind::Bool => facts.push(format!("default: {text}")),
        Default::Said(text) => facts.push(format!("default: {text}")),
        Default::Is(_) | Default::Absent => {}
    }
    if let Some(key) = row.key() {
        facts.push(format!("file: {key}"));
    }
    if let Some(env) = row.env() {
        facts.push(format!("environment: {env}"));
    }
    if !facts.is_empty() {
        let _ = write!(text, "\n[{}]", facts.join("; "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aiperf;

    #[test]
    fn help_lists_every_option_and_no_other() {
        let help = profile_command().render_long_help().to_string();
        let words: Vec<&str> = help.split([' ', '\n', ',', ';', ']', '[', '.']).collect();
        for row in OPTIONS {
            for flag in row.flags {
                assert!(words.contains(&format!("--{flag}").as_str()), "--{flag}");
            }
            if let Some(env) = row.env() {
                assert!(help.contains(&env), "{env}");
            }
        }
        for set in aiperf_core::plan::PUBLIC {
            assert!(words.contains(&set.name), "{}", set.name);
        }
        for flag in aiperf::flags().flatten().filter(|f| f.starts_with("--") && !aiperf::is_accepted(f)) {
            assert!(!words.contains(&flag), "{flag} is refused and stands in the help");
        }
    }

    #[test]
    fn clap_finds_the_command_sound_and_reads_what_the_parser_reads() {
        profile_command().debug_assert();
        let words =
            ["profile", "-m", "a", "--url", "x", "y", "--isl", "-4", "--streaming", "-H", "a:b", "c:d", "-v"];
        let matches = profile_command().try_get_matches_from(words).expect("clap reads it");
        let urls: Vec<&String> = matches.get_many("url").expect("given").collect();
        assert_eq!(urls, ["x", "y"]);
        let parsed =
            crate::flags::parse(&words[1..].iter().map(std::ffi::OsString::from).collect::<Vec<_>>());
        for id in matches
            .ids()
            .filter(|id| matches.value_source(id.as_str()) == Some(clap::parser::ValueSource::CommandLine))
        {
            let row = crate::row::row_by_flag(id.as_str()).expect("a row");
            // `--isl -4` is a value for both, and a wrong one.
            assert!(parsed.settings.has(row.id) || row.name() == "isl", "{id}");
        }
    }
}
