//! The validated, complete description of a run. Made by `aiperf-config`, read by every other room, changed by none.

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::url::BaseUrl;

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
    /// How tokens are counted; `None` when neither prompts nor answers need counting here.
    pub tokenizer: Option<TokenizerPlan>,
    /// Phases in order; at least one is [`PhaseKind::Profiling`].
    pub phases: Vec<PhasePlan>,
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

/// How models are given to turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelSelection {
    /// One after the other.
    RoundRobin,
    /// By a keyed draw.
    Random,
}

/// Which API is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndpointKind {
    /// OpenAI `/v1/chat/completions`.
    Chat,
    /// OpenAI `/v1/completions`.
    Completions,
}

impl EndpointKind {
    /// The name users type and files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completions => "completions",
        }
    }
}

/// Connection use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionReuse {
    /// Kept connections are used again.
    Pooled,
    /// A fresh one for every request.
    Never,
}

/// Where requests go and in which form.
#[derive(Debug, Clone)]
pub struct EndpointPlan {
    /// Which API.
    pub kind: EndpointKind,
    /// Server.
    pub url: BaseUrl,
    /// Replaces the API's own path; empty appends nothing.
    pub path: Option<String>,
    /// Server-sent events asked for.
    pub streaming: bool,
    /// Limit of one request from start to end.
    pub timeout_ns: u64,
    /// Sent as `Authorization: Bearer …`.
    pub api_key: Option<Secret>,
    /// The user's own headers, in order.
    pub headers: Vec<(String, Secret)>,
    /// Merged into every body after the API's own fields.
    pub extra: Map<String, Value>,
    /// `max_tokens` in place of `max_completion_tokens` for chat.
    pub legacy_max_tokens: bool,
    /// ISL and OSL come from the server's usage.
    pub server_token_count: bool,
    /// Connection use.
    pub reuse: ConnectionReuse,
    /// Name of the header that carries the correlation id.
    pub session_header: String,
    /// Certificate checks for https.
    pub verify_tls: bool,
    /// Most bytes of one response body kept; more is a failure.
    pub max_response_bytes: usize,
}

/// A length, drawn once per prompt: normal with `mean` and `stddev` (tokens), rounded up to a whole number ≥ 1;
/// `stddev` 0 is the mean itself, rounded half to even.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LengthPlan {
    /// Mean, tokens.
    pub mean: f64,
    /// Standard deviation, tokens.
    pub stddev: f64,
}

/// What is asked.
#[derive(Debug, Clone)]
pub enum DatasetPlan {
    /// Prompts made here.
    Synthetic(SyntheticPlan),
    /// The user's own prompts.
    File(FilePlan),
}

/// Prompts made from a corpus.
#[derive(Debug, Clone)]
pub struct SyntheticPlan {
    /// Number of different conversations.
    pub entries: usize,
    /// Input length.
    pub isl: LengthPlan,
    /// Output length asked for; `None` sends no limit.
    pub osl: Option<LengthPlan>,
}

/// A file of prompts.
#[derive(Debug, Clone)]
pub struct FilePlan {
    /// The file.
    pub path: PathBuf,
    /// Its form.
    pub format: FileFormat,
    /// Output length for rows that give none.
    pub osl: Option<LengthPlan>,
    /// Most conversations taken from it; `None` takes all.
    pub entries: Option<usize>,
    /// Rows with timestamps are sent by the phase's own pacing instead.
    pub ignore_timestamps: bool,
}

/// The form of a file of prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// One self-contained request per JSONL row.
    SingleTurn,
}

/// How tokens are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizerPlan {
    /// As the user wrote it: a built-in vocabulary, a folder, a file, or a model of the hub, with `@REVISION` behind it where
    /// one was asked for.
    pub name: String,
}

/// In results or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PhaseKind {
    /// Never in results.
    Warmup,
    /// Always in results.
    Profiling,
}

impl PhaseKind {
    /// The name files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warmup => "warmup",
            Self::Profiling => "profiling",
        }
    }
}

/// One phase.
#[derive(Debug, Clone)]
pub struct PhasePlan {
    /// Name, unique.
    pub name: String,
    /// In results or not.
    pub kind: PhaseKind,
    /// How sessions start.
    pub pacing: Pacing,
    /// Most sessions alive at once; `None` is no limit (rate pacing only).
    pub concurrency: Option<u32>,
    /// Stop once this many requests were sent.
    pub requests: Option<u64>,
    /// Stop sending after this long.
    pub duration_ns: Option<u64>,
    /// How long requests in flight may still run after `duration_ns`; `None` is without end.
    pub grace_ns: Option<u64>,
}

/// How sessions start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pacing {
    /// Whenever a place is free: closed loop.
    Concurrency,
    /// On a schedule of arrivals: open loop.
    Rate {
        /// Arrivals per second.
        per_second: f64,
        /// Form of the gaps.
        arrival: Arrival,
    },
}

/// Form of the gaps between arrivals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrival {
    /// Every gap the same.
    Constant,
    /// Exponential gaps.
    Poisson,
    /// Gamma gaps of shape `smoothness`: 1 is Poisson, more is smoother, less is burstier.
    Gamma {
        /// Shape.
        smoothness: f64,
    },
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
