//! Why a run could not start or go on. Failures of requests are not here: they are data.

use std::io;
use std::path::PathBuf;

/// See the module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Results would take the place of the prompts.
    #[error(
        "--input-file: '{}' is where this run writes results ({}); take another --artifact-dir or --profile-export-prefix",
        input.display(), path.display()
    )]
    InputInTheWay {
        /// The prompts.
        input: PathBuf,
        /// What would be written.
        path: PathBuf,
    },
    /// A file or folder of results could not be made or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Artifact {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The dataset is not what it should be.
    #[error(transparent)]
    Data(#[from] aiperf_data::DataError),
    /// A request body could not be made.
    #[error(transparent)]
    Encode(#[from] aiperf_net::EncodeError),
    /// A request of the dataset could not be made.
    #[error("turn {turn} of conversation '{conversation}': {source}")]
    EncodeTurn {
        /// The conversation's id.
        conversation: String,
        /// Number of the turn, from 1.
        turn: usize,
        /// Why not.
        source: aiperf_net::EncodeError,
    },
    /// Fewer descriptors than a closed loop needs.
    #[error(
        "this run needs {needed} open files and {allowed} are allowed; raise the limit (ulimit -n) or lower --concurrency"
    )]
    Descriptors {
        /// For connections and the rest.
        needed: u64,
        /// What the system allows.
        allowed: u64,
    },
    /// A run that goes on writes into the folder.
    #[error("another run is writing into {}; give this one its own --artifact-dir", path.display())]
    FolderInUse {
        /// The folder.
        path: PathBuf,
    },
    /// The client could not be set up (TLS, headers).
    #[error(transparent)]
    Net(#[from] aiperf_net::NetError),
    /// An arrival found no place, and the plan says to stop there.
    #[error(
        "the run was stopped: an arrival of phase '{phase}' found no place under its limits (--saturation-policy abort); raise the \
         limits, lower the rate, or let arrivals queue"
    )]
    NoPlace {
        /// Its name.
        phase: String,
    },
    /// Slices of time are too short for the run.
    #[error(
        "--slice-duration: slices of {} s would be {slices} in this run, and {} are the most; results by slice were not written, a longer \
         --slice-duration gives them",
        *slice_ns as f64 / 1e9,
        aiperf_core::plan::ArtifactsPlan::MOST_SLICES
    )]
    TooManySlices {
        /// Their length, nanoseconds.
        slice_ns: u64,
        /// How many there would be.
        slices: u64,
    },
    /// More requests failed than the plan allows.
    #[error(
        "the run was stopped: {failed} of {ended} requests had failed, which is above --failed-request-threshold"
    )]
    TooManyFailures {
        /// Failed.
        failed: u64,
        /// Of so many that had ended.
        ended: u64,
    },
    /// The workload's own times make no schedule.
    #[error("{}{problem}", file.as_ref().map(|file| format!("{}: ", file.display())).unwrap_or_default())]
    Schedule {
        /// The file, where the problem does not name it.
        file: Option<PathBuf>,
        /// Why.
        problem: aiperf_load::ScheduleError,
    },
    /// Users have nothing to wait for.
    #[error(
        "--user-centric-rate paces the turns of users, and {} one turn each on average; {}, or use --request-rate",
        match file {
            Some(file) => format!("the conversations of {} have", file.display()),
            None => "these conversations have".to_owned(),
        },
        match file {
            Some(_) => "give a file whose conversations have two or more (rows with a list of 'turns', or with one 'session_id')",
            None => "give conversations of two turns or more (--session-turns-mean)",
        }
    )]
    UsersOfOneTurn {
        /// The file that they are of.
        file: Option<PathBuf>,
    },
    /// A folder does not tell what was run.
    #[error(
        "{} holds {}; a summary can be made again only beside the records of a run and the file that tells what was run",
        path.display(),
        if *several { "the files of several runs, each with a prefix of its own" } else { "no file *_run.json" }
    )]
    NoRun {
        /// The folder.
        path: PathBuf,
        /// It tells of more than one run.
        several: bool,
    },
    /// A summary is there already.
    #[error("{} is there already; --force writes it again from the records", path.display())]
    SummaryExists {
        /// The file.
        path: PathBuf,
    },
    /// A server was not ready in time.
    #[error("{url} did not serve '{model}' within {seconds} s (--wait-for-model-timeout): {why}")]
    NotReady {
        /// The server.
        url: String,
        /// The model.
        model: String,
        /// How long it was waited for.
        seconds: f64,
        /// What came of the last try.
        why: String,
    },
    /// A server did not forget its prefix cache.
    #[error("the prefix cache of {url} could not be reset by POST {path} (--reset-kv-cache): {why}")]
    Reset {
        /// The server.
        url: String,
        /// Where it was told to.
        path: String,
        /// What it said.
        why: String,
    },
    /// A server did not start its profiler.
    #[error("the profiler of {url} could not be started (--server-profiler): {why}")]
    Profiler {
        /// The server.
        url: String,
        /// What it said.
        why: String,
    },
    /// The public data set is not here, or could not be fetched.
    #[error("--public-dataset: {0}")]
    PublicSet(#[source] Box<aiperf_hub::HubError>),
    /// A thread of ours panicked; a bug.
    #[error("internal error: the {0} panicked; results up to then were written where possible")]
    Panicked(&'static str),
    /// The simulated server did not start.
    #[error(transparent)]
    Sim(#[from] aiperf_sim::SimError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// The tokenizer could not be opened, or not be fetched.
    #[error(transparent)]
    Tokenizer(#[from] aiperf_hub::HubError),
}
