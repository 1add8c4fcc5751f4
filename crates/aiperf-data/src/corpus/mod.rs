//! Texts that prompts are cut from.
//!
//! A corpus is a sequence of pieces in blocks. A piece begins with the space before a word, or at the start of a line, and
//! holds the white space behind it but for that last space: places where vocabularies split a text whatever stands around
//! them. Blocks are made when a prompt first needs them: unpacked (`sonnet`) or written by generators (`coding`).

mod blocks;
mod coding;
mod packed;
mod sums;

pub(crate) use blocks::{Corpus, Place, is_tight};
pub(crate) use sums::PieceSums;

use std::sync::{Arc, LazyLock};

use aiperf_rng::Key;

/// The `sonnet` corpus; provenance in `corpus/NOTICE`. It is the same for every seed, so all runs of a process share it.
pub(crate) static SONNET: LazyLock<Arc<Corpus>> =
    LazyLock::new(|| Arc::new(Corpus::packed(include_bytes!("../../corpus/sonnet.zst"))));

/// The `coding` corpus of a seed.
pub(crate) fn coding(seed: u64) -> Arc<Corpus> {
    Arc::new(Corpus::made(coding::BLOCKS, Key::new(seed).purpose("dataset.coding.block"), coding::block))
}
