//! `aiperf synthesize trace`: rows in Mooncake's form from a few figures.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use aiperf_core::text::grouped;
use aiperf_trace::{Arrival, Form, Lengths, MOST_TOKENS, Made, Shape};
use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};

use super::tell_block_size;
use crate::commands::{beside, whole};
use crate::exit::{Exit, FAILED, SUCCESS, USAGE};
use crate::{output, signals};

/// Most block ids that a trace is made of, and how many are told beforehand.
const MOST_IDS: f64 = 4_294_967_296.0;
const MANY_IDS: f64 = 100_000_000.0;
/// A hit rate that is missed by more is told.
const NEAR: f64 = 0.005;

/// The command.
pub(crate) fn command() -> Command {
    let number = |name: &'static str, default: &'static str, least: f64, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("N")
            .default_value(default)
            .value_parser(ValueParser::from(move |text: &str| from(text, least)))
            .help(help)
    };
    let mean = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").default_value(default).value_parser(mean_length).help(help)
    };
    let whole = |name: &'static str, default: &'static str, least: u64, most: u64, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("N")
            .default_value(default)
            .value_parser(value_parser!(u64).range(least..=most))
            .help(help)
    };
    let longest = |name: &'static str, help: &'static str| {
        whole(name, "", 1, MOST_TOKENS, help).default_value(MOST_TOKENS.to_string())
    };
    Command::new("trace")
        .about("Make a Mooncake trace: times, lengths, and blocks that rows share")
        .after_help(
            "A row begins a chain on the trunk of its group or goes on from a row of a chain: it takes over the front of that and adds blocks of \
             its own. The same figures and seed make the same file.\n\
             Example: aiperf synthesize trace --rows 1000 --rate 20 --hit-rate 0.4 --output trace.jsonl",
        )
        .arg(whole("rows", "1000", 1, 1_000_000_000, "Rows"))
        .arg(number("rate", "10", 1e-6, "Rows a second"))
        .arg(
            Arg::new("arrival")
                .long("arrival")
                .value_parser(["poisson", "constant"])
                .default_value("poisson")
                .help("Gaps between rows"),
        )
        .arg(mean("isl-mean", "4096", "Mean tokens of a prompt"))
        .arg(number("isl-stddev", "2048", 0.0, "Standard deviation of them"))
        .arg(longest("max-isl", "Most tokens of a prompt"))
        .arg(mean("osl-mean", "256", "Mean tokens of an answer"))
        .arg(number("osl-stddev", "128", 0.0, "Standard deviation of them"))
        .arg(longest("max-osl", "Most tokens of an answer"))
        .arg(
            Arg::new("lengths")
                .long("lengths")
                .value_parser(["normal", "lognormal"])
                .default_value("normal")
                .help("Distribution of both"),
        )
        .arg(whole("block-size", "512", 1, MOST_TOKENS, "Tokens of a block"))
        .arg(whole("groups", "16", 1, 1_000_000, "Groups of rows that share no block with others"))
        .arg(number("skew", "1", 0.0, "Group k has a share as k to the power of minus this; 0: equal shares"))
        .arg(whole("depth", "8", 1, 1_000_000, "Most rows in a chain of rows that go on from each other; 1: all share the trunk of their group alone"))
        .arg(
            Arg::new("hit-rate")
                .long("hit-rate")
                .value_name("SHARE")
                .default_value("0.5")
                .value_parser(share)
                .help("Share of all blocks that a prefix cache which forgets nothing can serve"),
        )
        .arg(whole("seed", "42", 0, u64::MAX, "Seed of all draws"))
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("FILE")
                .default_value("trace.jsonl")
                .value_hint(ValueHint::FilePath)
                .value_parser(value_parser!(PathBuf))
                .help("The file; - for stdout"),
        )
}

fn from(text: &str, least: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|n: &f64| n.is_finite() && *n >= least);
    number.ok_or_else(|| format!("a number from {least} up is allowed"))
}

/// What is longer than any text can be would be cut down in silence.
fn mean_length(text: &str) -> Result<f64, String> {
    let mean = text.parse().ok().filter(|mean| (1.0..=MOST_TOKENS as f64).contains(mean));
    mean.ok_or_else(|| format!("a number from 1 to {MOST_TOKENS} is allowed"))
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|s| (0.0..=1.0).contains(s));
    share.ok_or_else(|| "a number from 0 to 1 is allowed".to_owned())
}

/// Makes the trace.
pub(crate) fn run(matches: &ArgMatches) -> Exit {
    let Some(shape) = shape(matches) else { return Exit(USAGE) };
    let Some(path) = matches.get_one::<PathBuf>("output") else { return Exit(USAGE) };
    // A name that nobody gave takes nobody's file.
    if matches.value_source("output") == Some(ValueSource::DefaultValue) && path.exists() {
        output::say(&format!(
            "error: '{}' is there already; --output says another name, or the same to write over it",
            path.display()
        ));
        return Exit(USAGE);
    }
    let (ids, bytes) = shape.expected();
    let size = format!(
        "about {} block ids, {} GB: {} rows, prompts of {} tokens on average in blocks of {}",
        grouped(ids as u64),
        grouped((bytes / 1e9).ceil() as u64),
        grouped(shape.rows),
        grouped(shape.isl.expected() as u64),
        grouped(shape.block_size),
    );
    if ids > MOST_IDS {
        output::say(&format!(
            "error: the trace would be {size}; up to {} ids are made. Take a larger --block-size, fewer --rows or a shorter --isl-mean.",
            grouped(MOST_IDS as u64)
        ));
        return Exit(USAGE);
    }
    if ids > MANY_IDS {
        output::say(&format!("note: the trace will be {size}."));
    }
    let made = if path.as_os_str() == "-" {
        shape.write(&mut BufWriter::with_capacity(1 << 20, io::stdout().lock()))
    } else {
        file(&shape, path)
    };
    match made {
        Ok(made) => {
            told(&shape, &made, path);
            Exit(SUCCESS)
        }
        // Who listened to stdout has gone.
        Err(e) if path.as_os_str() == "-" && e.kind() == io::ErrorKind::BrokenPipe => Exit(SUCCESS),
        Err(e) => {
            output::say(&format!("error: cannot write '{}': {e}", path.display()));
            Exit(FAILED)
        }
    }
}

fn file(shape: &Shape, path: &Path) -> io::Result<Made> {
    signals::remove_when_stopped(beside(path))?;
    whole(path, |file| shape.write(file))
}

fn shape(matches: &ArgMatches) -> Option<Shape> {
    let whole = |name| matches.get_one::<u64>(name).copied();
    let number = |name| matches.get_one::<f64>(name).copied();
    let is = |name, value: &str| matches.get_one::<String>(name).is_some_and(|given| given == value);
    let form = if is("lengths", "lognormal") { Form::LogNormal } else { Form::Normal };
    Some(Shape {
        rows: whole("rows")?,
        rate: number("rate")?,
        arrival: if is("arrival", "constant") { Arrival::Constant } else { Arrival::Poisson },
        isl: Lengths {
            mean: number("isl-mean")?,
            stddev: number("isl-stddev")?,
            max: whole("max-isl")?,
            form,
        },
        osl: Lengths {
            mean: number("osl-mean")?,
            stddev: number("osl-stddev")?,
            max: whole("max-osl")?,
            form,
        },
        block_size: whole("block-size")?,
        groups: u32::try_from(whole("groups")?).ok()?,
        skew: number("skew")?,
        depth: u32::try_from(whole("depth")?).ok()?,
        hit_rate: number("hit-rate")?,
        seed: whole("seed")?,
    })
}

fn told(shape: &Shape, made: &Made, path: &Path) {
    let rows = made.rows as f64;
    output::say(&format!(
        "{}: {} rows over {:.1} s; mean ISL {:.1}, OSL {:.1}; hit rate {:.4}",
        path.display(),
        grouped(made.rows),
        made.last_ms / 1e3,
        made.input as f64 / rows,
        made.output as f64 / rows,
        made.hit_rate()
    ));
    if (made.hit_rate() - shape.hit_rate).abs() > NEAR {
        output::say(&format!(
            "note: a hit rate of {} cannot be had of these figures: the first row of each group shares nothing, and a row goes on from whole \
             blocks only. More --rows, fewer --groups or a smaller --block-size bring it nearer.",
            shape.hit_rate
        ));
    }
    tell_block_size(shape.block_size);
}
