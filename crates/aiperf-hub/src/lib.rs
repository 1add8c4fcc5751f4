//! Tokenizers and public data sets of the Hugging Face hub, fetched when asked to and never otherwise.
//!
//! [`open`] is [`aiperf_tokens::open`] with one more place to look: where a model's tokenizer is neither built in nor on disk
//! nor in the hub's cache, and [`Download`] allows it, its files are fetched into that cache first, in the layout that
//! `huggingface_hub` writes, so that the next run, and every other tool, finds them there without the network.
//!
//! [`DatasetFiles`] does the same for data sets, whose files are written down while they come.
//!
//! - [`Settings`]: what the environment says of the hub, as its own tools read it.
//! - `http`: one answer for one address, redirects followed; the token is shown to the hub's own host alone.
//! - `retry`: how long to wait before asking again.
//! - `hub`: what the hub is asked, and what its answers mean.
//! - `progress`: how far a file has come.
//! - `store`: files into the cache, each whole or not at all.
//! - `draft`: a file on its way, taken up again after a break.
//! - `fetch`: all of it in order, for a tokenizer.
//! - `dataset`: the same for a data set, file after file.

mod dataset;
mod draft;
mod error;
mod fetch;
mod http;
mod hub;
mod progress;
mod retry;
mod settings;
mod store;

use std::fmt;
use std::sync::Arc;

use aiperf_core::plan::TokenizerPlan;
use aiperf_tokens::{HubCache, Tokenizer};

pub use dataset::DatasetFiles;
pub use error::{HubError, PartName};
pub use settings::Settings;

/// Whether what is not here may be fetched.
#[derive(Debug, Clone, Copy, Default)]
pub enum Download<'a> {
    /// The network is not touched.
    #[default]
    Never,
    /// It may; each step is told.
    WhenMissing(Teller<'a>),
}

/// Who is told what is fetched.
#[derive(Clone, Copy)]
pub struct Teller<'a> {
    /// Tells.
    pub say: &'a dyn Fn(Said<'_>),
    /// How far a file has come is drawn in one line over itself, so that it may be told often.
    pub is_drawn: bool,
}

impl fmt::Debug for Teller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Teller").field("is_drawn", &self.is_drawn).finish_non_exhaustive()
    }
}

/// What is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said<'a> {
    /// A line that stays.
    Line(&'a str),
    /// How far a file has come; the next thing told may take its place.
    Progress(&'a str),
}

/// Opens the tokenizer that `plan` names, with the process's environment.
pub fn open(plan: &TokenizerPlan, download: Download<'_>) -> Result<Arc<dyn Tokenizer>, HubError> {
    open_with(plan, download, &|name| std::env::var(name).ok())
}

/// Opens the tokenizer that `plan` names; `env` looks a variable up.
pub fn open_with(
    plan: &TokenizerPlan,
    download: Download<'_>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn Tokenizer>, HubError> {
    let cache = HubCache::from_env(env);
    if let Download::WhenMissing(teller) = download
        && let Some(name) = aiperf_tokens::missing(plan, &cache)
    {
        let folder = fetch::fetch(name, &cache, Settings::from_env(env)?, teller)?;
        return Ok(aiperf_tokens::open_folder(&plan.name, &folder)?);
    }
    Ok(aiperf_tokens::open_with(plan, &cache)?)
}
