//! Why a tokenizer or a data set could not be fetched or opened.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use aiperf_tokens::TokenizerError;
use http::StatusCode;

/// See the module. Addresses in it are shown without secrets, and the token is in none of them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// Several models may be meant.
    #[error(
        "no model on {endpoint} is called '{name}'; most downloaded among those with it in their names: {}; give one of \
             them as --tokenizer",
        listed(likely)
    )]
    Ambiguous {
        /// As the user gave it.
        name: String,
        /// The hub.
        endpoint: String,
        /// Ids and downloads, the most downloaded first, five at most.
        likely: Vec<(String, u64)>,
    },
    /// An answer that no hub gives.
    #[error("{url} does not answer as a Hugging Face hub does: {detail}; is HF_ENDPOINT right?")]
    Foreign {
        /// What was asked for.
        url: String,
        /// What is missing or wrong.
        detail: String,
    },
    /// The files are for those who accepted the conditions.
    #[error("access to '{id}' is restricted: accept its conditions at {page}, and {}", match has_token {
        true => "see that the token in HF_TOKEN is of that account and may read gated repositories",
        false => "log in there and set HF_TOKEN to a token of that account",
    })]
    Gated {
        /// The model or data set.
        id: String,
        /// Its page.
        page: String,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// The environment leaves no place for a cache.
    #[error(
        "'{name}' cannot be fetched: there is no folder for the hub's cache, which HF_HUB_CACHE or HF_HOME name"
    )]
    NoCache {
        /// The model.
        name: String,
    },
    /// A public data set that is not here.
    #[error(
        "public data set '{set}' is not on this machine: {looked}; --dataset-download fetches it (nothing is fetched without being \
             asked for); {how}"
    )]
    Absent {
        /// Its name.
        set: &'static str,
        /// Where it was looked for.
        looked: String,
        /// What puts it there.
        how: String,
    },
    /// A public data set that is not here, and must not be fetched.
    #[error(
        "public data set '{set}' is not on this machine: {looked}; nothing is fetched while {variable} is set: unset it, or {how}"
    )]
    AbsentOffline {
        /// Its name.
        set: &'static str,
        /// Where it was looked for.
        looked: String,
        /// The variable.
        variable: &'static str,
        /// What puts it there.
        how: String,
    },
    /// A public data set that is not here and cannot be had.
    #[error("public data set '{set}' cannot be fetched: {cause}; it is not on this machine: {looked}; {how}")]
    Unfetched {
        /// Its name.
        set: &'static str,
        /// Why not.
        cause: Box<HubError>,
        /// Where it was looked for.
        looked: String,
        /// What puts it there.
        how: String,
    },
    /// A data set of which files are here, and none of what is wanted.
    #[error("{}: {problem}", path.display())]
    Lacks {
        /// Its folder.
        path: PathBuf,
        /// What is missing.
        problem: String,
    },
    /// A file of several that is not here.
    #[error("{part} is not in {}; {why}", folder.display())]
    PartAbsent {
        /// Which file.
        part: Box<PartName>,
        /// Where it would be.
        folder: PathBuf,
        /// Why it is not fetched.
        why: String,
    },
    /// A file of several that cannot be had.
    #[error("{part} cannot be fetched: {cause}")]
    PartUnfetched {
        /// Which file.
        part: Box<PartName>,
        /// Why not.
        cause: Box<HubError>,
    },
    /// A place that cannot be looked into.
    #[error("cannot look for public data set '{set}' at {}: {source}", path.display())]
    Look {
        /// The data set.
        set: &'static str,
        /// The place.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The data set is there, and not what is wanted of it.
    #[error("{problem}")]
    NoRows {
        /// What is missing.
        problem: String,
    },
    /// The hub knows no such data set.
    #[error("{endpoint} has no data set '{id}'{}", match has_token {
        true => ", or the token in HF_TOKEN may not see it",
        false => ", or it is private and HF_TOKEN is not set",
    })]
    NoDataset {
        /// The data set.
        id: String,
        /// The hub.
        endpoint: String,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// The hub knows no such model.
    #[error("{endpoint} has no model '{name}'{}{}", match has_token {
        true => ", or the token in HF_TOKEN may not see it",
        false => ", or it is private and HF_TOKEN is not set",
    }, nearest.map(|n| format!("; did you mean '{n}', which is built in?")).unwrap_or_default())]
    NoModel {
        /// As the user gave it.
        name: String,
        /// The hub.
        endpoint: String,
        /// Whether a token was sent.
        has_token: bool,
        /// The built-in vocabulary it may be a slip of.
        nearest: Option<&'static str>,
    },
    /// The model has no such revision.
    #[error(
        "'{id}' on {endpoint} has no revision '{revision}'; --tokenizer-revision is a branch, a tag or a commit"
    )]
    NoRevision {
        /// The model.
        id: String,
        /// The revision.
        revision: String,
        /// The hub.
        endpoint: String,
    },
    /// The model's files are there, and none of them is a vocabulary this program reads.
    #[error(
        "'{id}' has no tokenizer.json or tekken.json at revision '{revision}'{}; pass another model or a folder as \
             --tokenizer",
        holding(holds)
    )]
    NoVocabulary {
        /// The model.
        id: String,
        /// The revision.
        revision: String,
        /// Names of its files, the first few alone; empty when the hub does not tell.
        holds: Vec<String>,
    },
    /// The user keeps the hub's tools from the network.
    #[error("'{name}' is not in the hub's cache{}, and nothing is fetched while {variable} is set; unset it, or pass a folder \
             with the model's tokenizer.json and tokenizer_config.json", at(cache.as_ref()))]
    Offline {
        /// The model.
        name: String,
        /// The cache.
        cache: Option<PathBuf>,
        /// The variable.
        variable: &'static str,
    },
    /// The hub says no, for a reason of its own.
    #[error("{url} answers {status}{}", said.as_ref().map(|s| format!(": {s}")).unwrap_or_default())]
    Refused {
        /// What was asked for.
        url: String,
        /// Its status.
        status: StatusCode,
        /// Its words.
        said: Option<String>,
    },
    /// The runtime for the requests could not be made.
    #[error("cannot fetch anything: {0}")]
    Runtime(#[source] io::Error),
    /// The hub does not know the token.
    #[error("{endpoint} does not accept the token in HF_TOKEN{}", said.as_ref().map(|s| format!(": {s}")).unwrap_or_default())]
    TokenRefused {
        /// The hub.
        endpoint: String,
        /// Its words.
        said: Option<String>,
    },
    /// The tokenizer could not be opened.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// No whole answer came.
    #[error("cannot fetch {url}: {detail}{}{}", if *attempts > 1 { format!(" ({attempts} attempts)") } else { String::new() },
            asked.map(|a| format!("; it asks to be left alone for {} s", a.as_secs())).unwrap_or_default())]
    Unreachable {
        /// What was asked for.
        url: String,
        /// How often.
        attempts: u32,
        /// What happened the last time.
        detail: String,
        /// How long the hub wants not to be asked.
        asked: Option<Duration>,
    },
    /// A variable that cannot be meant so.
    #[error("{variable} {problem}")]
    Variable {
        /// The variable.
        variable: &'static str,
        /// What is wrong with its value, which may be a secret and is not told.
        problem: String,
    },
    /// The cache could not be written.
    #[error("cannot {action} {}: {source}", path.display())]
    Write {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// A file of a public data set, as it is told.
#[derive(Debug, Clone)]
pub struct PartName {
    /// The data set.
    pub set: &'static str,
    /// Which file, from 1.
    pub number: usize,
    /// Of how many.
    pub count: usize,
    /// Its path.
    pub file: String,
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { set, number, count, file } = self;
        write!(f, "file {number} of {count} of public data set '{set}', '{file}',")
    }
}

fn listed(likely: &[(String, u64)]) -> String {
    let told: Vec<String> = likely.iter().map(|(id, downloads)| format!("{id} ({downloads})")).collect();
    told.join(", ")
}

fn holding(holds: &[String]) -> String {
    if holds.is_empty() { String::new() } else { format!(" (it holds {})", holds.join(", ")) }
}

fn at(cache: Option<&PathBuf>) -> String {
    cache.map(|cache| format!(" ({})", cache.display())).unwrap_or_default()
}
