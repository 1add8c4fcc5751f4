//! What one row of the table of options says, and what its kind of value allows.

use std::fmt;

use crate::lengths::{allowed_distribution, allowed_pairs, allowed_ratio};
use crate::options::{Id, OPTIONS};

/// The kind of value an option takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// `--streaming`, `--streaming=false`, `--no-streaming`.
    Bool,
    /// A size: a whole number of bytes or one with `KiB`, `MiB`, `GiB`, `kB`, `MB`, `GB`.
    Bytes {
        /// Smallest, bytes.
        min: u64,
        /// Largest, bytes.
        max: u64,
    },
    /// One of some words, case and `-`/`_` ignored. A word may be `name|alias`.
    Choice {
        /// The words.
        words: &'static [&'static str],
        /// AIPerf's other words, which this version does not have yet.
        later: &'static [&'static str],
    },
    /// Seconds as a number, or with `s`, `m`, `h`.
    Duration {
        /// Whether 0 is allowed.
        zero: bool,
        /// Whether `inf` is allowed.
        endless: bool,
    },
    /// Fields of a request body: a JSON object or `key:value` pairs, values typed.
    Extra,
    /// `key=value` pairs: repeated, or separated by commas.
    Filters,
    /// A number.
    Float {
        /// Smallest.
        min: f64,
        /// Whether `min` itself is too small.
        above: bool,
        /// Largest.
        max: f64,
    },
    /// `name:value` pairs, values always text.
    Headers,
    /// A whole number.
    Int {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A distribution of lengths: a number or a mapping.
    Lengths,
    /// Texts: repeated, or separated by commas.
    List,
    /// `tag:value` pairs separated by white space: metrics with a bound each.
    Objectives,
    /// Says that something is off which this version does not have; takes no value and changes nothing.
    Off,
    /// Pairs of lengths with a percentage each.
    Pairs,
    /// A path.
    Path,
    /// A share of the input and the output length: a number or two.
    Ratio,
    /// A rate over time: a file of points, or the points themselves.
    Series,
    /// Any text.
    Text,
    /// Shares, one for each of several things.
    Weights,
}

impl Kind {
    /// What is allowed, as an error or the reference page says it.
    pub fn allowed(&self) -> String {
        match self {
            Self::Bool | Self::Off => "true or false".to_owned(),
            Self::Bytes { min, max } => {
                format!("a size from {min} to {max} bytes, such as 10485760, 10MiB or 10MB")
            }
            Self::Choice { words, .. } => {
                words.iter().map(|w| w.split('|').next().unwrap_or(w)).collect::<Vec<_>>().join(", ")
            }
            Self::Duration { zero, endless } => {
                let least = if *zero { "seconds from 0" } else { "seconds above 0" };
                let endless = if *endless { " or inf" } else { "" };
                format!("{least}, such as 30, 30s, 5m or 2h{endless}")
            }
            Self::Extra => "key:value or key:=json, several separated by commas, or a JSON object".to_owned(),
            Self::Float { min, above, max } => {
                let from = if *above { "above" } else { "from" };
                if max.is_finite() {
                    format!("a number {from} {min} to {max}")
                } else {
                    format!("a number {from} {min}")
                }
            }
            Self::Filters => "key=value pairs".to_owned(),
            Self::Headers => "name:value pairs".to_owned(),
            Self::Int { min, max } if *max == u64::MAX => format!("a whole number from {min}"),
            Self::Int { min, max } => format!("a whole number from {min} to {max}"),
            Self::Lengths => allowed_distribution().to_owned(),
            Self::List => "one or more texts".to_owned(),
            Self::Objectives => {
                "pairs of a metric and a number, such as 'request_latency:250 time_to_first_token:40'"
                    .to_owned()
            }
            Self::Pairs => allowed_pairs().to_owned(),
            Self::Path => "a path".to_owned(),
            Self::Ratio => format!("{}, from 0 to 1", allowed_ratio()),
            Self::Series => {
                "a JSON file of points {\"time_s\": 0, \"qps\": 5}, or such a list in a file".to_owned()
            }
            Self::Text => "a text".to_owned(),
            Self::Weights => "numbers above 0, such as 3,1".to_owned(),
        }
    }

    /// The placeholder shown in help.
    pub fn placeholder(&self) -> &'static str {
        match self {
            Self::Bool | Self::Off => "",
            Self::Bytes { .. } => "SIZE",
            Self::Choice { .. } => "WORD",
            Self::Duration { .. } => "TIME",
            Self::Extra => "KEY:VALUE",
            Self::Filters => "KEY=VALUE",
            Self::Headers => "NAME:VALUE",
            Self::Int { .. } | Self::Float { .. } => "N",
            Self::Lengths => "JSON",
            Self::List | Self::Text => "TEXT",
            Self::Objectives => "TAG:VALUE",
            Self::Pairs => "PAIRS",
            Self::Ratio => "RATIO",
            Self::Path | Self::Series => "PATH",
            Self::Weights => "N,N",
        }
    }

    /// Whether the option may be given several times and takes several values at once.
    pub const fn is_repeatable(&self) -> bool {
        matches!(self, Self::List | Self::Filters | Self::Headers | Self::Extra | Self::Objectives)
    }

    /// Whether the option needs no value on the command line.
    pub const fn is_switch(&self) -> bool {
        matches!(self, Self::Bool | Self::Off)
    }
}

/// What holds when an option is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Default {
    /// Nothing.
    Absent,
    /// This text, read as the option's own kind.
    Is(&'static str),
    /// Decided from other options; the text says how.
    Said(&'static str),
}

/// Headings of help and reference page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Server, API, headers, body.
    Endpoint,
    /// What is asked.
    Dataset,
    /// How tokens are counted.
    Tokenizer,
    /// When requests leave.
    Load,
    /// The phase before.
    Warmup,
    /// Files.
    Output,
    /// Threads, screen, log.
    Runtime,
}

impl Group {
    /// All, in the order of help.
    pub const ALL: [Self; 7] = [
        Self::Endpoint,
        Self::Dataset,
        Self::Tokenizer,
        Self::Load,
        Self::Warmup,
        Self::Output,
        Self::Runtime,
    ];
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Endpoint => "Endpoint",
            Self::Dataset => "Dataset",
            Self::Tokenizer => "Tokenizer",
            Self::Load => "Load",
            Self::Warmup => "Warmup",
            Self::Output => "Output",
            Self::Runtime => "Runtime",
        })
    }
}

/// One option: every spelling, its kind, its default and its documentation.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Which option.
    pub id: Id,
    /// Flags without dashes; the first is canonical, the others are AIPerf's aliases.
    pub flags: &'static [&'static str],
    /// Flags with a single dash, without it.
    pub shorts: &'static [&'static str],
    /// Key in a configuration file relative to `benchmark`, or from the top when it starts with `/`; empty for none.
    pub yaml: &'static str,
    /// Other keys for the same.
    pub yaml_also: &'static [&'static str],
    /// Kind of value.
    pub kind: Kind,
    /// What holds otherwise.
    pub default: Default,
    /// Heading.
    pub group: Group,
    /// One or two sentences.
    pub doc: &'static str,
    /// A comma list of values would be a sweep.
    pub sweepable: bool,
    /// Whether the environment may set it.
    pub has_env: bool,
}

/// A row with the usual settings; refined by the methods of [`Row`].
pub(crate) const fn row(
    id: Id,
    flags: &'static [&'static str],
    yaml: &'static str,
    kind: Kind,
    default: Default,
    group: Group,
    doc: &'static str,
) -> Row {
    Row {
        id,
        flags,
        shorts: &[],
        yaml,
        yaml_also: &[],
        kind,
        default,
        group,
        doc,
        sweepable: false,
        has_env: !matches!(kind, Kind::Off),
    }
}

impl Row {
    pub(crate) const fn short(mut self, shorts: &'static [&'static str]) -> Self {
        self.shorts = shorts;
        self
    }

    pub(crate) const fn also(mut self, yaml: &'static [&'static str]) -> Self {
        self.yaml_also = yaml;
        self
    }

    pub(crate) const fn sweepable(mut self) -> Self {
        self.sweepable = true;
        self
    }

    pub(crate) const fn no_env(mut self) -> Self {
        self.has_env = false;
        self
    }

    /// The canonical flag without dashes.
    pub const fn name(&self) -> &'static str {
        self.flags[0]
    }

    /// The canonical flag with dashes.
    pub fn flag(&self) -> String {
        format!("--{}", self.name())
    }

    /// The environment variable, if the environment may set the option.
    pub fn env(&self) -> Option<String> {
        self.has_env.then(|| format!("AIPERF_{}", self.name().to_ascii_uppercase().replace('-', "_")))
    }

    /// The key from the top of a configuration file, if it has one: `benchmark.endpoint.type`.
    pub fn key(&self) -> Option<String> {
        absolute(self.yaml)
    }

    /// All keys from the top of a configuration file.
    pub fn keys(&self) -> impl Iterator<Item = String> + use<> {
        let (first, also) = (self.yaml, self.yaml_also);
        std::iter::once(first).chain(also.iter().copied()).filter_map(absolute)
    }
}

fn absolute(yaml: &str) -> Option<String> {
    match (yaml, yaml.strip_prefix('/')) {
        ("", _) => None,
        (_, Some(top)) => Some(top.to_owned()),
        (yaml, None) => Some(format!("benchmark.{yaml}")),
    }
}

/// The row of an option.
pub fn row_of(id: Id) -> &'static Row {
    // The table is in the order of the enumeration by construction of the macro that makes both.
    &OPTIONS[id as usize]
}

/// The row with this flag, written without dashes; `_` counts as `-`.
pub fn row_by_flag(name: &str) -> Option<&'static Row> {
    let name = name.replace('_', "-");
    OPTIONS.iter().find(|r| r.flags.contains(&name.as_str()))
}
