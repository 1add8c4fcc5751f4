//! Texts that prompts are cut from.
//!
//! A corpus is a sequence of words. It is stored as independently packed blocks of whole lines, and a block is unpacked
//! when a prompt first needs it: a short run touches a few hundred kilobytes, not five megabytes.

mod blocks;
mod sums;

pub(crate) use blocks::Corpus;
pub(crate) use sums::WordSums;

use std::sync::LazyLock;

/// The `sonnet` corpus; provenance in `corpus/NOTICE`.
pub(crate) static SONNET: LazyLock<Corpus> =
    LazyLock::new(|| Corpus::new(include_bytes!("../../corpus/sonnet.zst")));
