//! A data set that is a file, and what becomes of what its rows recorded.

use std::path::PathBuf;

use super::{CorpusPlan, LengthPlan, PublicPlan};

/// A file of prompts.
#[derive(Debug, Clone)]
pub struct FilePlan {
    /// The file.
    pub path: PathBuf,
    /// Its form.
    pub format: FileFormat,
    /// Output length for rows that give none.
    pub osl: Option<LengthPlan>,
    /// What texts are cut from for rows that give a length in the place of a text; `None` is sonnet.
    pub corpus: Option<CorpusPlan>,
    /// Tokens of a block of such rows; `None` is what the form has.
    pub block: Option<usize>,
    /// Most conversations taken from it; `None` takes all.
    pub entries: Option<usize>,
    /// How many conversations are drawn, of a form that is drawn from; at least 1.
    pub draws: usize,
    /// Texts of such a conversation that are drawn each by itself; 1 draws rows.
    pub batch: usize,
    /// Rows with timestamps are sent by the phase's own pacing instead.
    pub ignore_timestamps: bool,
    /// What becomes of a row that cannot be sent.
    pub bad_rows: BadRows,
    /// What becomes of the times and lengths of rows.
    pub replay: ReplayPlan,
    /// Which columns of a data set of others hold what.
    pub columns: ColumnsPlan,
    /// What goes with the prompts of recorded completions.
    pub completions: CompletionsPlan,
    /// An image that a session has shown before keeps its id alone.
    pub strips_images: bool,
    /// It is a data set that others publish.
    pub public: Option<PublicPlan>,
}

/// What goes with the prompts of recorded completions (`baseten_trace`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompletionsPlan {
    /// Answers are not to be shorter than recorded: `min_tokens`. `None` is yes.
    pub min_tokens: Option<bool>,
    /// The ids of the prompt's blocks and their size go without saying: `hash_ids` and `block_size`. `None` is no.
    pub omits_blocks: Option<bool>,
    /// Where both are there, sessions are told by the derived column, not by the one of the source.
    pub derived_sessions: bool,
}

/// What becomes of a row of a file that cannot be sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BadRows {
    /// The file is refused.
    #[default]
    Stop,
    /// It is left out and counted.
    Skip,
}

/// What becomes of the times and lengths that rows recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplayPlan {
    /// How many times faster than recorded: timestamps and delays are divided by it.
    pub speedup: f64,
    /// Longest silence between one recorded start and the next, over all sessions, nanoseconds of replay.
    pub idle_cap_ns: Option<u64>,
    /// Longest think time, nanoseconds of replay.
    pub delay_cap_ns: Option<u64>,
    /// When later turns are sent.
    pub turn_times: TurnTimes,
    /// Rows that give a longer input are left out, tokens.
    pub max_isl: Option<u64>,
    /// Output limits of rows are no more than this, tokens.
    pub max_osl: Option<u64>,
    /// What becomes of the lengths and blocks of a trace.
    pub times: TimesPlan,
    /// The share of sessions that is kept, above 0 and up to 1: whole sessions, drawn by their names.
    pub session_share: f64,
}

/// How many times as long a trace's prefixes, prompts and answers are made, and into how many trees its conversations are spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimesPlan {
    /// Blocks of a prefix: the ids at the front of a row that come more than once in the file.
    pub prefix: f64,
    /// Tokens behind the prefix.
    pub prompt: f64,
    /// Tokens of an answer.
    pub output: f64,
    /// Trees that share no block; at least 1.
    pub roots: u64,
}

impl TimesPlan {
    /// Whether inputs become others.
    pub fn is_input(&self) -> bool {
        self.roots > 1 || [self.prefix, self.prompt].iter().any(|times| (times - 1.0).abs() > 0.0)
    }
}

impl Default for TimesPlan {
    fn default() -> Self {
        Self { prefix: 1.0, prompt: 1.0, output: 1.0, roots: 1 }
    }
}

impl Default for ReplayPlan {
    fn default() -> Self {
        Self {
            speedup: 1.0,
            idle_cap_ns: None,
            delay_cap_ns: None,
            turn_times: TurnTimes::Recorded,
            max_isl: None,
            max_osl: None,
            times: TimesPlan::default(),
            session_share: 1.0,
        }
    }
}

/// When the later turns of a file's conversations are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TurnTimes {
    /// At their own times, but behind the turn before; or their pause behind that.
    #[default]
    Recorded,
    /// When the user had thought: the recorded time from start to start without that of the answer, behind the answer there is now.
    BehindAnswers,
    /// As soon as the turn before has ended.
    Ignored,
    /// Each row is a session of its own, at its own time.
    Alone,
}

/// Names of columns that the user says; `None` is whichever has a usual name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnsPlan {
    /// What is sent.
    pub prompt: Option<String>,
    /// What was answered, whose length the answer may have.
    pub reply: Option<String>,
    /// Conversations, as lists of messages.
    pub messages: Option<String>,
    /// System messages.
    pub system: Option<String>,
    /// Output lengths, tokens.
    pub output: Option<String>,
}

impl ColumnsPlan {
    /// Whether the user says none.
    pub const fn is_empty(&self) -> bool {
        matches!(self, Self { prompt: None, reply: None, messages: None, system: None, output: None })
    }
}

/// The form of a file of prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Whichever form the first row shows, or the files of a folder.
    Detect,
    /// Request bodies, sent as they are: one per JSONL row, or a folder of such files, each a conversation.
    RawPayload,
    /// One self-contained request per JSONL row.
    SingleTurn,
    /// Turns of one conversation per JSONL row.
    MultiTurn,
    /// Lengths and blocks of one request per JSONL row.
    Mooncake,
    /// The same in Alibaba's form: rows of chats that go on with each other.
    Bailian,
    /// Times and lengths, a request per row of a CSV file.
    BurstGpt,
    /// Rows with texts that conversations are drawn from; in a folder each file is a pool.
    RandomPool,
    /// Requests as SageMaker recorded them, one per JSONL row, or a folder of such files.
    SageMaker,
    /// Prompts of completions with their times and lengths, a request per row of a Parquet file.
    Baseten,
    /// Request bodies in sessions, one JSON document: what a run writes as `inputs.json`.
    InputsJson,
    /// Conversations of ShareGPT, of which those of usual lengths are sent.
    ShareGpt,
    /// Prompts or conversations in the columns of a table, or under the names of JSON objects.
    Chat,
}

impl FileFormat {
    /// Whether its rows give lengths that texts are made to.
    pub const fn gives_lengths(self) -> bool {
        matches!(self, Self::Mooncake | Self::Bailian | Self::BurstGpt)
    }

    /// Whether it is a recording whose rows say how long prompts and answers were.
    pub const fn is_trace(self) -> bool {
        self.gives_lengths() || self.is_verbatim_trace()
    }

    /// Whether it is a recording whose prompts are sent as they were.
    pub const fn is_verbatim_trace(self) -> bool {
        matches!(self, Self::SageMaker | Self::Baseten)
    }

    /// Whether it holds whole bodies, which are sent as they are.
    pub const fn is_bodies(self) -> bool {
        matches!(self, Self::RawPayload | Self::InputsJson)
    }

    /// Whether it may be a folder of files.
    pub const fn may_be_folder(self) -> bool {
        matches!(self, Self::RawPayload | Self::RandomPool | Self::SageMaker | Self::Detect)
    }
}
