//! `aiperf synthesize agentic-code`: conversations as coding assistants have them, AIPerf's for the same configuration and seed.

use std::path::{Path, PathBuf};
use std::{fs, io};

use aiperf_core::text::grouped;
use aiperf_trace::agentic::{Config, Layout, Quality, Rows, conversations, write_rows};
use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};
use serde_json::json;

use super::tell_block_size;
use crate::commands::{self, written};
use crate::exit::{Exit, FAILED, SUCCESS, USAGE};
use crate::{output, signals};

/// The command.
pub(crate) fn command() -> Command {
    let whole = |name: &'static str, alias: &'static str, least: u64, most: u64, help: &'static str| {
        Arg::new(name)
            .long(name)
            .alias(alias)
            .value_name("N")
            .value_parser(value_parser!(u64).range(least..=most))
            .help(help)
    };
    Command::new("agentic-code")
        .about("Make conversations as coding assistants have them: a long common beginning and many turns")
        .after_help(
            "The same configuration and seed make the conversations that AIPerf makes. They are written to a new folder, \
             CONFIG_Ns_seedSEED_TIME: dataset.jsonl (Mooncake rows), manifest.json (can be given as --config again), quality.json, comparison.txt.",
        )
        .arg(whole("num-sessions", "num_sessions", 1, 10_000_000, "Conversations, of up to 10,000,000 turns in all").default_value("1000"))
        .arg(
            Arg::new("output")
                .long("output")
                .value_name("FOLDER")
                .default_value(".")
                .value_hint(ValueHint::DirPath)
                .value_parser(value_parser!(PathBuf))
                .help("Where the new folder is made"),
        )
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("NAME|FILE")
                .value_hint(ValueHint::FilePath)
                .help("'default', or a file: a configuration or an earlier manifest; AIPerf's built-in values unless given"),
        )
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .default_value("42")
                .value_parser(value_parser!(u64))
                .help("Seed of all draws"),
        )
        .arg(whole("max-isl", "max_isl", 2, 1 << 40, "Tokens of the context (max_prompt_tokens)"))
        .arg(whole("max-osl", "max_osl", 1, 1 << 40, "Most tokens of an answer (generation_length.max)"))
        .arg(
            Arg::new("rows")
                .long("rows")
                .value_parser(["added", "whole"])
                .default_value("added")
                .help(
                    "added: a row holds what its turn adds, and a replay puts rows and answers together, as in AIPerf; whole: each holds its whole \
                     context with the blocks it shares with the turns before, and lengths do not depend on answers",
                ),
        )
}

/// Makes the folder.
pub(crate) fn run(matches: &ArgMatches) -> Exit {
    let whole = |name| matches.get_one::<u64>(name).copied();
    let given = matches.get_one::<String>("config");
    let (config, name) =
        match given.map_or_else(|| Ok((Config::default(), "default".to_owned())), |given| read(given)) {
            Ok(read) => read,
            Err(problem) => {
                output::say(&format!("error: --config: {problem}"));
                return Exit(USAGE);
            }
        };
    let config = match config.bounded(whole("max-isl"), whole("max-osl")) {
        Ok(config) => config,
        Err(error) => {
            output::say(&format!("error: with --max-isl and --max-osl: {error}"));
            return Exit(USAGE);
        }
    };
    let (Some(n), Some(seed), Some(parent)) =
        (whole("num-sessions"), whole("seed"), matches.get_one::<PathBuf>("output"))
    else {
        return Exit(USAGE);
    };
    let sessions = match conversations(&config, n, seed) {
        Ok(sessions) => sessions,
        Err(error) => {
            output::fail(&error);
            return Exit(USAGE);
        }
    };
    let rows = match matches.get_one::<String>("rows").map(String::as_str) {
        Some("whole") => Rows::Whole,
        _ => Rows::Added,
    };
    let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let folder = parent.join(format!("{name}_{n}s_seed{seed}_{time}"));
    let quality = Quality::of(&sessions, &config);
    let made = fs::create_dir_all(parent).and_then(|()| fs::create_dir(&folder)).and_then(|()| {
        let path = folder.join("dataset.jsonl");
        signals::remove_when_stopped(commands::beside(&path))?;
        commands::whole(&path, |file| write_rows(&sessions, Layout::new(&config), rows, file))
    });
    let turns = match made {
        Ok(turns) => turns,
        Err(e) => {
            let why = match e.kind() {
                io::ErrorKind::AlreadyExists if parent.is_dir() => {
                    "it is there already, for the name holds the second; run it again, or give another --output"
                        .to_owned()
                }
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                    format!("'{}' is a file; --output takes a folder", parent.display())
                }
                _ => e.to_string(),
            };
            output::say(&format!("error: cannot write '{}': {why}", folder.display()));
            return Exit(FAILED);
        }
    };
    let manifest = json!({
        "seed": seed,
        "num_sessions": sessions.len(),
        "config_name": name,
        "generation_params": config.whole(),
    });
    let comparison = quality.text();
    for (file, text) in [
        ("manifest.json", format!("{manifest:#}\n")),
        ("quality.json", format!("{:#}\n", quality.json())),
        ("comparison.txt", comparison.clone()),
    ] {
        let code = written(&folder.join(file), &text);
        if code != SUCCESS {
            return Exit(code);
        }
    }
    output::say(&format!("{}: {} rows in dataset.jsonl", folder.display(), grouped(turns)));
    tell_block_size(config.block_size);
    output::data(&comparison)
}

/// The configuration and its name.
fn read(given: &str) -> Result<(Config, String), String> {
    if let Some(config) = Config::bundled(given) {
        return Ok((config, given.to_owned()));
    }
    let path = Path::new(given);
    if !path.is_file() {
        return Err(format!(
            "'{given}' is neither a file nor a configuration that is built in: '{}'",
            Config::BUNDLED.join("', '")
        ));
    }
    let text = fs::read_to_string(path).map_err(|e| format!("cannot read '{given}': {e}"))?;
    let (config, unknown) = Config::read(&text).map_err(|e| format!("'{given}': {e}"))?;
    if !unknown.is_empty() {
        output::say(&format!(
            "warning: '{given}': keys that mean nothing are read over: '{}'",
            unknown.join("', '")
        ));
    }
    let name = path.file_stem().map_or_else(|| given.to_owned(), |stem| stem.to_string_lossy().into_owned());
    Ok((config, name))
}
