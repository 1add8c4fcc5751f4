//! What can go wrong between the name a user gave and a count of tokens.

use std::fmt;
use std::path::PathBuf;

use aiperf_core::text::nearest;

/// A tokenizer could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A file is there but does not say what a file of its kind must say.
    #[error("cannot use {}: {detail}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// A folder that holds no tokenizer this program reads.
    #[error(
        "tokenizer folder {} has no tokenizer.json (it holds {}); a Hugging Face tokenizer.json is needed, with \
         tokenizer_config.json beside it for special tokens and chat template, or Mistral's tekken.json",
        path.display(),
        listing(holds)
    )]
    FolderWithoutTokenizer {
        /// The folder.
        path: PathBuf,
        /// Names of what it holds, sorted, the first few alone.
        holds: Vec<String>,
    },
    /// A model of the hub is not in the hub's cache.
    #[error(
        "tokenizer '{name}'{} {problem}{}; nothing is downloaded without being asked for: add --tokenizer-download, or pass a \
         folder with the model's tokenizer.json and tokenizer_config.json{}",
        revision.as_ref().map(|r| format!(" at revision '{r}'")).unwrap_or_default(),
        cache.as_ref().map(|c| format!(" (the cache is {})", c.display())).unwrap_or_default(),
        hint(name, problem),
    )]
    Hub {
        /// `OWNER/NAME` or `NAME`.
        name: String,
        /// The revision, if one was asked for.
        revision: Option<String>,
        /// Where was looked.
        cache: Option<PathBuf>,
        /// What is missing.
        problem: HubProblem,
    },
    /// The chat template beside a tokenizer cannot be compiled.
    #[error("cannot use the chat template in {}: {source}", path.display())]
    Template {
        /// The file that holds the template.
        path: PathBuf,
        /// Why.
        #[source]
        source: TemplateError,
    },
    /// Neither a built-in name nor anything on disk.
    #[error(
        "unknown tokenizer '{name}'{}; allowed are {}, a folder that holds a tokenizer.json or a tekken.json, a path to such a \
         file, or the name of a model in the hub's cache; --tokenizer-download fetches a model that is not there",
        nearest.map(|n| format!(" (did you mean '{n}'?)")).unwrap_or_default(),
        known.join(", "),
    )]
    Unknown {
        /// As the user gave it.
        name: String,
        /// The built-in name it may have meant.
        nearest: Option<&'static str>,
        /// The names that are built in.
        known: &'static [&'static str],
    },
    /// The operating system refused to give a file.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// What the hub's cache lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HubProblem {
    /// More than one model has that name.
    Ambiguous {
        /// Their ids.
        ids: Vec<String>,
    },
    /// The environment leaves no place for a cache.
    NoCache,
    /// The model is there, the revision is not.
    NoRevision {
        /// The revisions that are there.
        has: Vec<String>,
    },
    /// The model is there without a vocabulary.
    NoVocabulary {
        /// Its folder in the cache.
        folder: PathBuf,
        /// Names of what the folder holds, sorted, the first few alone.
        holds: Vec<String>,
    },
    /// No model of that name is there.
    NotCached {
        /// The models that are there.
        has: Vec<String>,
    },
}

/// A chat template could not be compiled or refused a conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The template called `raise_exception`: its own words.
    #[error("{message}")]
    Raised {
        /// The template's message.
        message: String,
    },
    /// The template failed while it ran.
    #[error("template failed{}: {detail}", at(*line))]
    Render {
        /// Line in the template, from 1, if known.
        line: Option<usize>,
        /// What failed.
        detail: String,
    },
    /// The template is not valid Jinja.
    #[error("template has a syntax error{}: {detail}", at(*line))]
    Syntax {
        /// Line in the template, from 1, if known.
        line: Option<usize>,
        /// What the parser says.
        detail: String,
    },
    /// The template ran longer or wrote more than any template needs to.
    #[error("template stopped: it {what}")]
    TooMuch {
        /// Which limit it hit.
        what: &'static str,
    },
}

/// A conversation could not be counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CountError {
    /// The tokenizer comes without a chat template.
    #[error("tokenizer '{tokenizer}' has no chat template")]
    NoTemplate {
        /// Its name.
        tokenizer: String,
    },
    /// The template refused.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

fn listing(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

fn at(line: Option<usize>) -> String {
    line.map(|l| format!(" in line {l}")).unwrap_or_default()
}

/// The built-in encoding that has the vocabulary of a model of the hub.
pub(crate) fn built_in_twin(id: &str) -> Option<&'static str> {
    matches!(id, "gpt2" | "openai-community/gpt2").then_some("r50k_base")
}

/// What else may be meant by a name of the hub.
fn hint(name: &str, problem: &HubProblem) -> String {
    if let Some(twin) = built_in_twin(name) {
        return format!("; its vocabulary is built in as {twin}");
    }
    match problem {
        HubProblem::NotCached { has } => nearest(name, has.iter().map(String::as_str))
            .map(|near| format!("; did you mean '{near}'?"))
            .unwrap_or_default(),
        _ => String::new(),
    }
}

impl fmt::Display for HubProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ambiguous { ids } => write!(f, "is the name of several models: {}", ids.join(", ")),
            Self::NoCache => f.write_str(
                "cannot be looked up: there is no folder for the hub's cache, which HF_HUB_CACHE or HF_HOME name",
            ),
            Self::NoRevision { has } => write!(f, "is not in the cache, which has its {}", listing(has)),
            Self::NoVocabulary { folder, holds } => write!(
                f,
                "has no tokenizer.json or tekken.json in the cache, where {} holds {}",
                folder.display(),
                listing(holds)
            ),
            Self::NotCached { .. } => f.write_str("is not in the cache of the Hugging Face hub"),
        }
    }
}
