//! What became of the rows of a file of prompts.

use serde::{Deserialize, Serialize};

/// What became of the rows of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RowFacts {
    /// All of them.
    pub read: u64,
    /// Those that cannot be sent and were left out.
    pub broken: u64,
    /// What is wrong with the first of these, with its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_broken: Option<String>,
    /// Those whose input is longer than wanted, which were left out.
    pub too_long: u64,
    /// Those of sessions that were not drawn, where a share of them is kept.
    pub not_drawn: u64,
    /// Those outside of the schedule's offsets, where sessions are cut to them.
    pub outside: u64,
    /// Output limits that were cut down to the most that is wanted.
    pub capped_outputs: u64,
    /// Think times that were cut down to the longest that is wanted.
    pub capped_delays: u64,
    /// Think times that are no numbers or never end, which count as none.
    pub endless_delays: u64,
    /// Silences between starts that were cut down to the longest that is wanted.
    pub cut_silences: u64,
    /// All that was taken out of these, nanoseconds.
    pub cut_silence_ns: u64,
}

impl RowFacts {
    /// Whether something is not as it stands in the file.
    pub fn is_changed(&self) -> bool {
        let Self { read, ref first_broken, .. } = *self;
        *self != Self { read, first_broken: first_broken.clone(), ..Self::default() }
    }
}
