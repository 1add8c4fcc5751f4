//! What can go wrong between the name a user gave and a count of tokens.

use std::path::PathBuf;

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
         tokenizer_config.json beside it for special tokens and chat template",
        path.display(),
        listing(holds)
    )]
    FolderWithoutTokenizer {
        /// The folder.
        path: PathBuf,
        /// Names of what it holds, sorted, the first few alone.
        holds: Vec<String>,
    },
    /// An encoding that exists but is not built in.
    #[error("tokenizer '{name}' is a tiktoken encoding that is not built in yet; built in are {}", known.join(", "))]
    NotYet {
        /// As the user gave it.
        name: String,
        /// The encodings that are built in.
        known: &'static [&'static str],
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
        "unknown tokenizer '{name}'{}; allowed are {}, a folder that holds a tokenizer.json, or a path to a tokenizer.json file{}",
        nearest.map(|n| format!(" (did you mean '{n}'?)")).unwrap_or_default(),
        known.join(", "),
        if *hub_like { "; names on the Hugging Face hub are not fetched yet: pass a folder with the model's tokenizer files" } else { "" }
    )]
    Unknown {
        /// As the user gave it.
        name: String,
        /// The built-in name it may have meant.
        nearest: Option<&'static str>,
        /// The names that are built in.
        known: &'static [&'static str],
        /// It has the form `owner/name` of a model on the hub.
        hub_like: bool,
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
