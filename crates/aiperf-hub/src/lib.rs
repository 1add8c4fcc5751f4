//! Tokenizers of the Hugging Face hub, fetched when asked to and never otherwise.
//!
//! [`open`] is [`aiperf_tokens::open`] with one more place to look: where a model's tokenizer is neither built in nor on disk
//! nor in the hub's cache, and [`Download`] allows it, its files are fetched into that cache first, in the layout that
//! `huggingface_hub` writes, so that the next run, and every other tool, finds them there without the network.
//!
//! - [`Settings`]: what the environment says of the hub, as its own tools read it.
//! - `http`: one answer for one address, redirects followed; the token is shown to the hub's own host alone.
//! - `retry`: how long to wait before asking again.
//! - `hub`: what the hub is asked, and what its answers mean.
//! - `store`: files into the cache, each whole or not at all.
//! - `fetch`: all of it in order.

mod error;
mod fetch;
mod http;
mod hub;
mod retry;
mod settings;
mod store;

use std::sync::Arc;

use aiperf_core::plan::TokenizerPlan;
use aiperf_tokens::{HubCache, Tokenizer};

pub use error::HubError;
pub use settings::Settings;

/// Whether a tokenizer that is not here may be fetched.
#[derive(Default)]
pub enum Download<'a> {
    /// The network is not touched.
    #[default]
    Never,
    /// It may; each step is told in a line.
    WhenMissing(&'a mut dyn FnMut(&str)),
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
    if let Download::WhenMissing(tell) = download
        && let Some(name) = aiperf_tokens::missing(plan, &cache)
    {
        let folder = fetch::fetch(name, &cache, Settings::from_env(env)?, tell)?;
        return Ok(aiperf_tokens::open_folder(&plan.name, &folder)?);
    }
    Ok(aiperf_tokens::open_with(plan, &cache)?)
}
