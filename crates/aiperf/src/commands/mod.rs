//! One file per command: plain settings in, an exit code out.

pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
mod download;
pub(crate) mod explain;
pub(crate) mod profile;
pub(crate) mod report;
pub(crate) mod schema;
pub(crate) mod sim;
pub(crate) mod tokenizer;
