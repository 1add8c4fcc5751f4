//! `aiperf compare A B …`: results of several runs side by side.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use aiperf_compare::{Comparison, Run, Samples};
use aiperf_core::text::nearest;
use aiperf_metrics::STATISTICS;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use serde_json::Value;

use super::written;
use crate::exit::{Exit, NOT_ALIKE, SUCCESS, USAGE};
use crate::output;

/// The summary's name, unless a prefix was given.
const SUMMARY: &str = "profile_export_aiperf.json";
/// The records' name.
const RECORDS: &str = "profile_export.jsonl";
/// Statistics shown unless told otherwise.
const SHOWN: &str = "avg,p50,p99";
/// Names of files that are listed in an error.
const NAMED: usize = 5;

/// The command.
pub(crate) fn command() -> Command {
    Command::new("compare")
        .about("Show results of two runs or more side by side: whether they may be compared, and what differs beyond noise")
        .after_help(
            "Reads summaries of this program (both schemas) and of AIPerf (1.4), and profile_export.jsonl beside them for intervals.\n\
             Exit codes: 0 shown, 2 something could not be read, 3 with --strict when something forbids the comparison.",
        )
        .arg(
            Arg::new("run")
                .value_name("RUN")
                .required(true)
                .num_args(1..)
                .value_hint(ValueHint::AnyPath)
                .value_parser(value_parser!(PathBuf))
                .help("Folder of a run, or its summary JSON; two or more"),
        )
        .arg(
            Arg::new("baseline")
                .long("baseline")
                .value_name("RUN")
                .help("What the others are compared with: a RUN as given, its position from 1, or its letter; the first unless given"),
        )
        .arg(
            Arg::new("format")
                .long("format")
                .short('f')
                .value_parser(["table", "json", "markdown", "csv"])
                .help("Form of the output; unless given it is that of the name of --output, else a table"),
        )
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("FILE")
                .value_hint(ValueHint::FilePath)
                .value_parser(value_parser!(PathBuf))
                .help("Write to this file"),
        )
        .arg(
            Arg::new("stats")
                .long("stats")
                .value_name("LIST")
                .default_value(SHOWN)
                .value_delimiter(',')
                .value_parser(STATISTICS)
                .help("Statistics in tables; JSON and CSV hold all"),
        )
        .arg(
            Arg::new("all")
                .long("all")
                .action(ArgAction::SetTrue)
                .help("Show metrics that are on no screen of a run, too"),
        )
        .arg(
            Arg::new("confidence-level")
                .long("confidence-level")
                .value_name("SHARE")
                .default_value("0.95")
                .value_parser(level)
                .help("Of each interval"),
        )
        .arg(
            Arg::new("strict")
                .long("strict")
                .action(ArgAction::SetTrue)
                .help("End with exit code 3 when something forbids the comparison"),
        )
}

fn level(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|l| (0.5..=0.9999).contains(l))
        .ok_or_else(|| "a number from 0.5 to 0.9999 is allowed".to_owned())
}

/// Shows the comparison.
pub(crate) fn run(matches: &ArgMatches) -> Exit {
    let paths: Vec<&PathBuf> = matches.get_many("run").into_iter().flatten().collect();
    let mut runs = Vec::new();
    let mut wrong = Vec::new();
    for path in &paths {
        match read(path) {
            Ok(run) => runs.push(run),
            Err(problem) => wrong.push(problem),
        }
    }
    if let [only] = &paths[..] {
        wrong.push(format!("there is only one run, '{}'; two or more can be compared", only.display()));
    }
    let baseline = match matches.get_one::<String>("baseline").map(|b| baseline(b, &paths)) {
        None => 0,
        Some(Ok(at)) => at,
        Some(Err(problem)) => {
            wrong.push(problem);
            0
        }
    };
    if !wrong.is_empty() {
        for problem in &wrong {
            output::say(&format!("error: {problem}."));
        }
        return Exit(USAGE);
    }
    let level = matches.get_one::<f64>("confidence-level").copied().unwrap_or(0.95);
    let comparison = Comparison::of(runs, baseline, level);
    let stats: Vec<&str> =
        matches.get_many::<String>("stats").into_iter().flatten().map(String::as_str).collect();
    let file = matches.get_one::<PathBuf>("output");
    let by_name = file.and_then(|f| f.extension()).and_then(|e| e.to_str()).and_then(|e| match e {
        "json" => Some("json"),
        "csv" => Some("csv"),
        "md" | "markdown" => Some("markdown"),
        _ => None,
    });
    let format = matches.get_one::<String>("format").map(String::as_str).or(by_name);
    let text = match format {
        Some("json") => format!("{:#}\n", comparison.json()),
        Some("csv") => comparison.csv(),
        Some("markdown") => output::plain(&comparison.markdown(&stats, matches.get_flag("all"))),
        _ => output::plain(&comparison.text(&stats, matches.get_flag("all"))),
    };
    let exit = file.map_or_else(|| output::data(&text), |path| Exit(written(path, &text)));
    if exit.0 == SUCCESS && matches.get_flag("strict") && comparison.is_blocked() {
        output::say("The runs are not alike (--strict).");
        return Exit(NOT_ALIKE);
    }
    exit
}

/// Position of the run that `said` names.
fn baseline(said: &str, paths: &[&PathBuf]) -> Result<usize, String> {
    let plain = |p: &Path| p.to_string_lossy().trim_end_matches('/').to_owned();
    let by_path = paths.iter().position(|p| plain(p) == said.trim_end_matches('/'));
    let by_number = said.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    let by_letter = match said.as_bytes() {
        [letter] if letter.is_ascii_alphabetic() => Some(usize::from(letter.to_ascii_uppercase() - b'A')),
        _ => None,
    };
    by_path.or(by_number).or(by_letter).filter(|at| *at < paths.len()).ok_or_else(|| {
        let names: Vec<String> = paths.iter().map(|p| plain(p)).collect();
        let hint = nearest(said, names.iter().map(String::as_str)).map(|n| format!("; did you mean '{n}'?"));
        format!(
            "--baseline: '{said}' is none of the runs; {} are there{}",
            names.iter().map(|n| format!("'{n}'")).collect::<Vec<_>>().join(", "),
            hint.unwrap_or_default()
        )
    })
}

/// Reads a run from its folder or its summary.
fn read(path: &Path) -> Result<Run, String> {
    let name = path.display();
    let of_it = |e: std::io::Error| format!("cannot read '{name}': {e}");
    let file = if fs::metadata(path).map_err(of_it)?.is_dir() { summary_in(path)? } else { path.to_owned() };
    let shown = file.display();
    let bytes = fs::read(&file).map_err(|e| format!("cannot read '{shown}': {e}"))?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|e| {
        format!(
            "'{shown}' is not JSON: {}",
            e.to_string().replace(" at line ", ", line ").replace(" column ", ", column ")
        )
    })?;
    let mut run = Run::of(&name.to_string(), value).map_err(|e| format!("'{shown}': {e}"))?;
    if let Some(records) = records_of(&file) {
        let opened = File::open(&records).map_err(|e| format!("cannot read '{}': {e}", records.display()))?;
        let samples = Samples::read(BufReader::with_capacity(1 << 20, opened))
            .map_err(|e| format!("'{}': {e}: {}", records.display(), e.source))?;
        run.samples = Some(samples);
    }
    Ok(run)
}

/// The records beside a summary.
fn records_of(summary: &Path) -> Option<PathBuf> {
    let name = summary.file_name()?.to_str()?;
    let stem = name.strip_suffix("_aiperf.json").or_else(|| name.strip_suffix(".json"))?;
    let records = summary.with_file_name(format!("{stem}.jsonl"));
    records.is_file().then_some(records)
}

/// The one summary in a folder.
fn summary_in(folder: &Path) -> Result<PathBuf, String> {
    let name = folder.display();
    let usual = folder.join(SUMMARY);
    if usual.is_file() {
        return Ok(usual);
    }
    let mut files: Vec<PathBuf> = Vec::new();
    let mut below: Vec<String> = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| format!("cannot read the folder '{name}': {e}"))? {
        let path = entry.map_err(|e| format!("cannot read the folder '{name}': {e}"))?.path();
        if path.is_dir() && path.join(SUMMARY).is_file() {
            below.push(path.display().to_string());
        } else if path.extension().is_some_and(|e| e == "json") && records_of(&path).is_some() {
            // With a prefix for its files.
            files.push(path);
        }
    }
    files.sort();
    below.sort();
    let list = |all: &[String]| {
        let more = if all.len() > NAMED { " …" } else { "" };
        format!("'{}'{more}", all[..all.len().min(NAMED)].join("', '"))
    };
    match &files[..] {
        [one] => Ok(one.clone()),
        [] if folder.join(RECORDS).is_file() => Err(format!(
            "'{name}' has records but no summary ({SUMMARY}); 'aiperf report {name}' makes one from them"
        )),
        [] if !below.is_empty() => Err(format!(
            "'{name}' has no summary ({SUMMARY}); these folders in it have one: {}",
            list(&below)
        )),
        [] => Err(format!("'{name}' has no summary of a run ({SUMMARY})")),
        several => {
            let names: Vec<String> = several.iter().map(|p| p.display().to_string()).collect();
            Err(format!("'{name}' has more than one summary; name one of {}", list(&names)))
        }
    }
}
