//! The validated, complete description of a run. Made by `aiperf-config`, read by every other room, changed by none.

pub mod agents;
mod endpoint;
mod file;
mod hooks;
mod phase;
mod public;

use std::path::PathBuf;

use serde_json::Value;

pub use endpoint::{
    ClientCertificate, ConnectionReuse, EndpointKind, EndpointPlan, HttpVersion, IpVersion, ResponseField,
    Target, TemplatePlan, UrlStrategy,
};
pub use file::{
    BadRows, ColumnsPlan, CompletionsPlan, FileFormat, FilePlan, ReplayPlan, TimesPlan, TurnTimes,
};
pub use hooks::{HooksPlan, ProfilerPlan, ResetPlan, WaitMode, WaitPlan};
pub use phase::{
    Arrival, Cancellation, Pacing, PhaseKind, PhasePlan, Ramp, RampShape, RatePlan, RatePoint, RateShape,
    Saturation,
};
pub use public::{
    PUBLIC, PublicName, PublicParts, PublicPlan, PublicSet, PublicShape, PublicSource, public_named,
};

/// A text that must not reach a file or a screen.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the wire alone.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<redacted>")
    }
}

/// One run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Model names, at least one.
    pub models: Vec<String>,
    /// How a turn without its own model gets one.
    pub model_selection: ModelSelection,
    /// Where requests go and in which form.
    pub endpoint: EndpointPlan,
    /// What is asked.
    pub dataset: DatasetPlan,
    /// Which conversation of it each session takes.
    pub sampling: Sampling,
    /// What becomes of a session whose turn failed.
    pub on_turn_error: OnTurnError,
    /// How tokens are counted; `None` when neither prompts nor answers need counting here.
    pub tokenizer: Option<TokenizerPlan>,
    /// Input lengths are those of the request as the tokenizer's chat template renders it.
    pub chat_template: bool,
    /// The user's own system message, before every conversation.
    pub system_prompt: Option<String>,
    /// Markers that keep prompts apart from each other and from those of other runs.
    pub cache_bust: Option<CacheBustPlan>,
    /// Which prompts are counted again as a whole, beside the run.
    pub verify_lengths: VerifyLengths,
    /// What a request must keep to count as good, in the order given; empty when nothing was asked.
    pub slos: Vec<SloPlan>,
    /// Phases in order; at least one is [`PhaseKind::Profiling`].
    pub phases: Vec<PhasePlan>,
    /// What round trips to servers are taken to last; `None` leaves latencies as they are.
    pub network: Option<NetworkPlan>,
    /// What is written and where.
    pub artifacts: ArtifactsPlan,
    /// Threads, screen, log.
    pub runtime: RuntimePlan,
    /// Seed of every draw of the run.
    pub seed: u64,
    /// Whether the user gave the seed; otherwise it was drawn and is told and recorded.
    pub seed_given: bool,
    /// The command line, quoted again, secrets redacted.
    pub cli_command: String,
    /// The configuration as AIPerf writes it into `input_config`: only what the user set, secrets redacted.
    pub input_config: Value,
}

impl Plan {
    /// Where the data set comes from, if others publish it, as AIPerf's summary has it under `metadata`.
    pub fn source(&self) -> Option<Value> {
        match &self.dataset {
            DatasetPlan::File(set) => set.public.as_ref().map(PublicPlan::source),
            DatasetPlan::Synthetic(_) => None,
        }
    }
}

/// A service level objective: what one metric of a request must not exceed, or must reach where more is better.
#[derive(Debug, Clone, PartialEq)]
pub struct SloPlan {
    /// Tag of the metric, one with a value per request.
    pub tag: String,
    /// The bound, which itself is good, in the metric's display unit.
    pub threshold: f64,
}

/// How models are given to turns.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelSelection {
    /// One after the other.
    RoundRobin,
    /// By a keyed draw.
    Random,
    /// By shares: a weight above 0 for each model. Any run of turns from the first on has each model as often as its share
    /// says, to within a turn or two, and the models are spread over it.
    Weighted(Vec<f64>),
}

/// A length in tokens, drawn once per text.
///
/// What is drawn is kept inside the bounds by clamping and then rounded up to a whole number ≥ 1; a length that needs no draw
/// is rounded half to even. Both are AIPerf's rules.
#[derive(Debug, Clone, PartialEq)]
pub struct LengthPlan {
    /// How it spreads.
    pub shape: LengthShape,
    /// Less becomes this.
    pub least: Option<f64>,
    /// More becomes this.
    pub most: Option<f64>,
}

/// How a length spreads. All numbers are tokens.
#[derive(Debug, Clone, PartialEq)]
pub enum LengthShape {
    /// Around a mean; `stddev` 0 is the mean itself. Negative draws are drawn again.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        stddev: f64,
    },
    /// With a long tail: its logarithm is normal. `median` is above 0 and at most `mean`.
    LogNormal {
        /// Mean.
        mean: f64,
        /// Median.
        median: f64,
    },
    /// One of several lengths, by weight.
    Peaks(Vec<Weighted<LengthPlan>>),
    /// One of several numbers, by weight.
    Points(Vec<Weighted<f64>>),
}

/// One of several, as likely as its weight is of all weights together.
#[derive(Debug, Clone, PartialEq)]
pub struct Weighted<T> {
    /// What is chosen.
    pub item: T,
    /// Its weight; not negative, and one of all is above 0.
    pub weight: f64,
}

impl LengthPlan {
    /// Normal with `mean` and `stddev`, without bounds.
    pub const fn normal(mean: f64, stddev: f64) -> Self {
        Self { shape: LengthShape::Normal { mean, stddev }, least: None, most: None }
    }

    /// The largest length that is sure to be drawn or that the others lie around: what a check for sense looks at.
    pub fn scale(&self) -> f64 {
        let largest = |lengths: &mut dyn Iterator<Item = f64>| lengths.fold(0.0, f64::max);
        let scale = match &self.shape {
            LengthShape::Normal { mean, .. } | LengthShape::LogNormal { mean, .. } => *mean,
            LengthShape::Peaks(peaks) => largest(&mut peaks.iter().map(|p| p.item.scale())),
            LengthShape::Points(points) => largest(&mut points.iter().map(|p| p.item)),
        };
        scale.min(self.most.unwrap_or(f64::INFINITY)).max(self.least.unwrap_or(0.0))
    }
}

/// A pair of input and output length that is drawn together.
#[derive(Debug, Clone, PartialEq)]
pub struct LengthPair {
    /// Input length.
    pub isl: LengthPlan,
    /// Output length.
    pub osl: LengthPlan,
}

/// How the lengths of a prompt are found.
#[derive(Debug, Clone, PartialEq)]
pub enum LengthsPlan {
    /// Each by itself.
    Apart {
        /// Input length.
        isl: LengthPlan,
        /// Output length asked for; `None` sends no limit.
        osl: Option<LengthPlan>,
    },
    /// One pair of several, by weight.
    Pairs(Vec<Weighted<LengthPair>>),
    /// Each evenly from a window around or below its length, as `vllm bench serve` and SGLang do: the style says which.
    Window(WindowPlan),
}

/// Two lengths and how far draws go from them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowPlan {
    /// Input length, tokens.
    pub isl: u64,
    /// Output length, tokens.
    pub osl: u64,
    /// Share of the input length that makes the window.
    pub isl_ratio: f64,
    /// Share of the output length that makes the window.
    pub osl_ratio: f64,
}

/// Which tool's random prompts and windows are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RandomStyle {
    /// `vllm bench serve --dataset-name random`.
    Vllm,
    /// SGLang's `random-ids` with AIPerf's correction of lengths.
    Sglang,
    /// SGLang's `random-ids` as SGLang sends it: what does not encode back to its length stays so.
    SglangStrict,
}

impl RandomStyle {
    /// The name users type and files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::SglangStrict => "sglang_strict",
        }
    }
}

/// Text that prompts are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CorpusPlan {
    /// Shakespeare's words without punctuation.
    Sonnet,
    /// What a coding assistant reads and writes.
    Coding,
    /// Tokens of the vocabulary one after the other.
    Random,
}

impl CorpusPlan {
    /// The name users type and files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sonnet => "sonnet",
            Self::Coding => "coding",
            Self::Random => "random",
        }
    }
}

/// What is asked.
#[derive(Debug, Clone)]
pub enum DatasetPlan {
    /// Prompts made here.
    Synthetic(SyntheticPlan),
    /// The user's own prompts.
    File(FilePlan),
}

/// What becomes of a session whose turn failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnTurnError {
    /// Its next turn is sent, behind a message without a reply.
    #[default]
    Continue,
    /// It ends.
    AbortSession,
}

/// Which conversation a session takes. Sessions are numbered over the whole run, warm-up included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sampling {
    /// The next one, from the first again after the last.
    #[default]
    Sequential,
    /// Any, by a keyed draw of its own.
    Random,
    /// Each once in a drawn order, then each once in another.
    Shuffle,
}

/// Markers that keep prompts apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheBustPlan {
    /// Where they land.
    pub target: MarkerTarget,
    /// What they are made from beside the session; `None` is the run's own id, so that no two runs share a marker.
    pub run_id: Option<String>,
}

/// Where a cache-bust marker lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MarkerTarget {
    /// At the start of the system message.
    SystemPrefix,
    /// At the end of the system message.
    SystemSuffix,
    /// At the start of the first user message.
    FirstTurnPrefix,
    /// At the end of the first user message.
    FirstTurnSuffix,
    /// At the start of the system message, of warm-up requests alone.
    WarmupIsolationSystem,
    /// At the start of the first user message, of warm-up requests alone.
    WarmupIsolationFirstTurn,
}

impl MarkerTarget {
    /// All of them, in the order of help and reports.
    pub const ALL: [Self; 6] = [
        Self::SystemPrefix,
        Self::SystemSuffix,
        Self::FirstTurnPrefix,
        Self::FirstTurnSuffix,
        Self::WarmupIsolationSystem,
        Self::WarmupIsolationFirstTurn,
    ];

    /// The name users type and files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SystemPrefix => "system_prefix",
            Self::SystemSuffix => "system_suffix",
            Self::FirstTurnPrefix => "first_turn_prefix",
            Self::FirstTurnSuffix => "first_turn_suffix",
            Self::WarmupIsolationSystem => "warmup_isolation_system",
            Self::WarmupIsolationFirstTurn => "warmup_isolation_first_turn",
        }
    }

    /// It marks warm-up requests alone, all with one text.
    pub const fn is_warmup_isolation(self) -> bool {
        matches!(self, Self::WarmupIsolationSystem | Self::WarmupIsolationFirstTurn)
    }

    /// It stands behind the text, not before.
    pub const fn is_suffix(self) -> bool {
        matches!(self, Self::SystemSuffix | Self::FirstTurnSuffix)
    }

    /// It belongs on the system message, where there is one; else it lands on the first user message.
    pub const fn wants_system(self) -> bool {
        matches!(self, Self::SystemPrefix | Self::SystemSuffix | Self::WarmupIsolationSystem)
    }
}

/// Which prompts are counted again as a whole, beside the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyLengths {
    /// Every one.
    All,
    /// Some of them.
    Sample,
    /// None.
    Off,
}

/// Turns of synthetic conversations.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnsPlan {
    /// Number of turns.
    pub count: LengthPlan,
    /// Think time before each turn but the first.
    pub delay: Option<DelayPlan>,
}

impl TurnsPlan {
    /// One turn each.
    pub const fn one() -> Self {
        Self { count: LengthPlan::normal(1.0, 0.0), delay: None }
    }
}

/// Think time: drawn around a mean, negative draws again, and multiplied by `ratio`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DelayPlan {
    /// Mean, milliseconds.
    pub mean_ms: f64,
    /// Standard deviation, milliseconds.
    pub stddev_ms: f64,
    /// Factor.
    pub ratio: f64,
}

/// Beginnings that conversations share: each takes one of `pool`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixPlan {
    /// How many there are; at least one.
    pub pool: usize,
    /// Tokens of each.
    pub tokens: u64,
}

/// Prompts made from a corpus.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticPlan {
    /// Number of different conversations.
    pub entries: usize,
    /// Input and output lengths.
    pub lengths: LengthsPlan,
    /// What texts are made of.
    pub corpus: CorpusPlan,
    /// Whose windows and random prompts are meant.
    pub style: RandomStyle,
    /// Texts of each turn, every one of the input length.
    pub batch: usize,
    /// Turns of each conversation.
    pub turns: TurnsPlan,
    /// Beginnings of first turns, on top of the input length.
    pub prefixes: Option<PrefixPlan>,
    /// Tokens of a system message that all conversations share.
    pub system_tokens: Option<u64>,
    /// Tokens of a user message of its own before each conversation.
    pub user_context_tokens: Option<u64>,
    /// An input length that is less than what cannot be left out gives the shortest text instead of an error.
    pub floor: bool,
    /// Requests are queries with passages, of these lengths in place of the input length.
    pub rankings: Option<Box<RankingsPlan>>,
}

/// Queries with passages to be ranked by them.
#[derive(Debug, Clone, PartialEq)]
pub struct RankingsPlan {
    /// Passages of a request.
    pub passages: LengthPlan,
    /// Tokens of each passage.
    pub passage_tokens: LengthPlan,
    /// Tokens of the query.
    pub query_tokens: LengthPlan,
}

impl SyntheticPlan {
    /// `entries` prompts of one sonnet text each.
    pub const fn sonnet(entries: usize, isl: LengthPlan, osl: Option<LengthPlan>) -> Self {
        Self {
            entries,
            lengths: LengthsPlan::Apart { isl, osl },
            corpus: CorpusPlan::Sonnet,
            style: RandomStyle::Vllm,
            batch: 1,
            turns: TurnsPlan::one(),
            prefixes: None,
            system_tokens: None,
            user_context_tokens: None,
            floor: false,
            rankings: None,
        }
    }
}

/// How tokens are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizerPlan {
    /// As the user wrote it: a built-in vocabulary, a folder, a file, or a model of the hub, with `@REVISION` behind it where
    /// one was asked for.
    pub name: String,
}

/// How much is written per request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExportLevel {
    /// Summaries alone.
    Summary,
    /// And a line per request.
    Records,
    /// And every request and response whole.
    Raw,
}

/// What is written and where.
#[derive(Debug, Clone)]
pub struct ArtifactsPlan {
    /// The folder of this run, complete (AIPerf's automatic sub-folder already added).
    pub dir: PathBuf,
    /// Replaces `profile_export…` in file names.
    pub prefix: Option<String>,
    /// How much.
    pub level: ExportLevel,
    /// 1: AIPerf's 1.4 shape. 2: explicit nulls and zoned times.
    pub schema: u8,
    /// What the wire showed of each request.
    pub trace: TracePlan,
    /// Length of the slices of time that results are cut into, nanoseconds; `None` for none.
    pub slice_ns: Option<u64>,
    /// Whether the answers' texts are written (`outputs.json`).
    pub outputs: bool,
    /// Whether the records are written as columns too (`profile_export.parquet`).
    pub parquet: bool,
    /// It is told how much of each prompt a prefix cache was to find.
    pub cache_ledger: bool,
    /// Tokens of a block of the server's prefix cache; at least 1.
    pub cache_block: usize,
}

impl ArtifactsPlan {
    /// Most slices of time of one run.
    pub const MOST_SLICES: u64 = 100_000;

    /// The usual names and forms in `dir`, up to `level`.
    pub fn new(dir: PathBuf, level: ExportLevel) -> Self {
        Self {
            dir,
            prefix: None,
            level,
            schema: 1,
            trace: TracePlan::default(),
            slice_ns: None,
            outputs: false,
            parquet: false,
            cache_ledger: false,
            cache_block: 16,
        }
    }
}

/// Where the length of a round trip to the servers comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NetworkPlan {
    /// Connections that are opened for it alone, one to each server every so many nanoseconds.
    Probes {
        /// From one to the next.
        interval_ns: u64,
    },
    /// The user says it, nanoseconds.
    Fixed {
        /// The mean.
        mean_ns: f64,
    },
}

/// What is told of the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TracePlan {
    /// Each record has the stamps, headers and addresses of its request.
    pub export: bool,
    /// The console has the table of what HTTP took.
    pub show: bool,
}

/// What is on the screen while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ui {
    /// A progress bar on a terminal, plain lines elsewhere.
    Simple,
    /// Nothing but results.
    None,
}

/// Threads, screen, log.
#[derive(Debug, Clone)]
pub struct RuntimePlan {
    /// Most shards; `None` lets the run choose.
    pub max_shards: Option<usize>,
    /// The screen.
    pub ui: Ui,
    /// Seconds between plain progress lines; 0 turns them off.
    pub stats_interval_s: f64,
    /// Log level on stderr and in the log file.
    pub log_level: LogLevel,
}

/// Log levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Errors alone.
    Error,
    /// And warnings.
    Warning,
    /// And what happens.
    Info,
    /// And how.
    Debug,
    /// And each step.
    Trace,
}
