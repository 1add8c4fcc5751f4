//! What the rest of the program sees of a workload.

use std::fmt;

use aiperf_core::conversation::Conversation;
use aiperf_core::plan::Sampling;
pub use aiperf_core::rows::RowFacts;
use aiperf_rng::{Key, Permutation, Stream};

use crate::error::DataError;

/// A set of conversations, by position.
///
/// `conversation(i)` is a function of the plan, its seed and `i`: callable in any order, from any thread, ahead of the
/// send or just in time, and always the same.
pub trait Workload: Send + Sync + fmt::Debug {
    /// Number of conversations; at least one.
    fn len(&self) -> usize;

    /// Never: a workload without conversations is refused when it is opened.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The conversation at position `index` (below [`Self::len`]), as the session `visit` sends it.
    fn conversation(&self, index: usize, visit: Visit) -> Result<Conversation, DataError>;

    /// How many turns the conversation at position `index` has, without making it.
    fn turn_count(&self, index: usize) -> usize;

    /// When the conversation at position `index` begins, in nanoseconds of the workload's own time, without making it: what its
    /// first turn says. `None` if that says nothing, or is not to be listened to.
    fn start_ns(&self, _index: usize) -> Option<u64> {
        None
    }

    /// Where the conversation at position `index` begins, as file and line, if it comes from a file of rows.
    fn place(&self, _index: usize) -> Option<String> {
        None
    }

    /// When it was recorded to begin; without a replay that is faster or slower, the same as [`Self::start_ns`].
    fn recorded_ns(&self, index: usize) -> Option<u64> {
        self.start_ns(index)
    }

    /// When what was recorded at that time of the workload is replayed. Never goes backwards.
    fn replayed_ns(&self, recorded_ns: u64) -> u64 {
        recorded_ns
    }

    /// Whether the workload brings a schedule: its first record says when it is sent, and is to be listened to.
    fn is_timed(&self) -> bool {
        false
    }

    /// Whether two visits of one conversation can differ: then what was made for one session is of no use to another.
    fn is_marked(&self) -> bool {
        false
    }

    /// Whether turns bring fields that stand in the place of messages or system text, so that their requests are not made of their
    /// texts.
    fn replaces_messages(&self) -> bool {
        false
    }

    /// What a user should know of it when the run is over.
    fn changed(&self) -> Option<String> {
        None
    }

    /// What it is and what a user should know about it.
    fn describe(&self) -> WorkloadFacts;
}

/// Which session takes a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Visit {
    /// Number of the session in the run, warm-up included.
    pub session: u64,
    /// It belongs to a warm-up.
    pub warmup: bool,
}

/// Where conversations come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkloadKind {
    /// Made from a corpus.
    Synthetic,
    /// A file of self-contained requests.
    SingleTurn,
    /// A file of conversations.
    MultiTurn,
    /// A trace of lengths and blocks.
    Mooncake,
    /// Alibaba's trace of lengths and blocks, in chats.
    Bailian,
    /// A table of times and lengths.
    BurstGpt,
    /// Texts that conversations are drawn from.
    RandomPool,
    /// Requests as SageMaker recorded them.
    SageMaker,
    /// Completions as they were recorded.
    Baseten,
    /// Bodies of requests.
    RawPayload,
    /// Bodies of sessions, in one document.
    InputsJson,
}

impl WorkloadKind {
    /// The name users type and files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Synthetic => "synthetic",
            Self::SingleTurn => "single_turn",
            Self::MultiTurn => "multi_turn",
            Self::Mooncake => "mooncake_trace",
            Self::Bailian => "bailian_trace",
            Self::BurstGpt => "burst_gpt_trace",
            Self::RandomPool => "random_pool",
            Self::SageMaker => "sagemaker_data_capture",
            Self::Baseten => "baseten_trace",
            Self::RawPayload => "raw_payload",
            Self::InputsJson => "inputs_json",
        }
    }
}

/// What a workload is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadFacts {
    /// Where conversations come from.
    pub kind: WorkloadKind,
    /// Number of conversations.
    pub entries: usize,
    /// Number of turns of all conversations together.
    pub turns: u64,
    /// Turns of the longest conversation.
    pub most_turns: usize,
    /// Some later turn may say when it is sent, or how long after the answer before it.
    pub waits: bool,
    /// What a user should know, one line each, in no need of a prefix.
    pub notes: Vec<String>,
    /// What became of the rows of a file.
    pub rows: Option<RowFacts>,
}

/// Which conversation a session takes: a function of the plan, its seed and the session's number in the run, so that it is the same
/// whoever asks, in whatever order. It holds no table.
#[derive(Debug, Clone, Copy)]
pub struct Sampler {
    len: u64,
    order: Sampling,
    draws: Stream,
}

impl Sampler {
    /// Over a workload of `len` conversations.
    pub const fn new(order: Sampling, seed: u64, len: usize) -> Self {
        Self { len: len as u64, order, draws: Key::new(seed).purpose("dataset.sampler") }
    }

    /// The position of the conversation that session number `session` of the run takes; 0 in an empty workload.
    pub fn entry_for(self, session: u64) -> usize {
        let Some(place) = session.checked_rem(self.len) else { return 0 };
        let entry = match self.order {
            Sampling::Sequential => place,
            Sampling::Random => self.draws.at(session).below(self.len),
            Sampling::Shuffle => {
                let pass = Key::new(self.draws.draw(session / self.len)).purpose("dataset.sampler.pass");
                Permutation::new(pass, self.len).at(place)
            }
        };
        entry as usize
    }
}

/// What repeats in a run whose warm-up starts `warmup_sessions` sessions of one request and whose measured phase starts
/// `sessions` behind them, over `entries` different prompts taken as `order` says. One line for each thing that is so; all let a
/// prefix cache answer better than new prompts would.
pub fn repeat_notes(order: Sampling, sessions: u64, warmup_sessions: u64, entries: usize) -> Vec<String> {
    let entries = entries as u64;
    let mut notes = Vec::new();
    if entries == 0 {
        return notes;
    }
    if order == Sampling::Random {
        if sessions.saturating_add(warmup_sessions) > 1 {
            notes.push(format!(
                "{sessions} requests draw from {entries} distinct {}, so some are sent several times, and a prefix cache will help; \
                 --dataset-sampling-strategy shuffle sends each once before any again",
                plural(entries, "prompt"),
            ));
        }
        return notes;
    }
    if sessions > entries {
        let most = sessions.div_ceil(entries);
        notes.push(format!(
            "{sessions} requests use {entries} distinct {}, so {} up to {most} times; a prefix cache will help from the second on",
            plural(entries, "prompt"),
            if entries == 1 { "it is sent" } else { "each is sent" },
        ));
    }
    if order == Sampling::Shuffle {
        // Behind the first pass they may come at any time.
        if warmup_sessions > 0 && sessions.saturating_add(warmup_sessions) > entries {
            notes.push(
                "the warm-up sends prompts that are measured later, so a prefix cache already knows them"
                    .to_owned(),
            );
        }
        return notes;
    }
    // The measured phase goes on where the warm-up stopped and meets its prompts only after the last one.
    let shared = if warmup_sessions >= entries {
        sessions.min(entries)
    } else {
        sessions.saturating_sub(entries - warmup_sessions).min(warmup_sessions)
    };
    if shared > 0 {
        notes.push(format!(
            "the warm-up sends {shared} {} that {} measured later, so a prefix cache already knows {}",
            plural(shared, "prompt"),
            if shared == 1 { "is" } else { "are" },
            if shared == 1 { "it" } else { "them" },
        ));
    }
    notes
}

/// `word`, with an s unless there is one of it.
pub(crate) fn plural(count: u64, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sessions_take_entries_in_order_and_begin_again() {
        let sampler = Sampler::new(Sampling::Sequential, 1, 5);
        assert_eq!([0, 1, 4, 5, 14].map(|s| sampler.entry_for(s)), [0, 1, 4, 0, 4]);
        assert_eq!(sampler.entry_for(u64::MAX), (u64::MAX % 5) as usize);
        for order in [Sampling::Sequential, Sampling::Random, Sampling::Shuffle] {
            assert_eq!(Sampler::new(order, 1, 0).entry_for(3), 0);
            assert_eq!(Sampler::new(order, 1, 1).entry_for(3), 0);
        }
    }

    #[test]
    fn draws_fall_evenly_and_depend_on_seed_and_session_alone() {
        let order =
            |seed| (0..10_000).map(|s| Sampler::new(Sampling::Random, seed, 10).entry_for(s)).collect();
        let (one, other): (Vec<usize>, Vec<usize>) = (order(7), order(8));
        assert_ne!(one, other);
        assert_eq!(one, order(7));
        for entry in 0..10 {
            let count = one.iter().filter(|e| **e == entry).count();
            // Six deviations of a count with the mean 1000.
            assert!((820..1180).contains(&count), "{count} times {entry}");
        }
    }

    proptest! {
        /// Every pass of a shuffle has each entry once, and no pass is the order of the one before.
        #[test]
        fn a_shuffle_takes_each_once_in_every_pass(seed in 0u64..1000, len in 1usize..300, pass in 0u64..1_000_000) {
            let sampler = Sampler::new(Sampling::Shuffle, seed, len);
            let of = |pass: u64| -> Vec<usize> {
                (0..len as u64).map(|i| sampler.entry_for(pass * len as u64 + i)).collect()
            };
            let mut sorted = of(pass);
            if len > 20 {
                prop_assert_ne!(&sorted, &of(pass + 1));
                prop_assert!(!sorted.is_sorted());
            }
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_orders_repeat_is_told() {
        assert!(
            repeat_notes(Sampling::Random, 5, 0, 9)[0].starts_with("5 requests draw from 9 distinct prompts")
        );
        assert!(repeat_notes(Sampling::Random, 1, 0, 9).is_empty());
        assert!(repeat_notes(Sampling::Shuffle, 5, 4, 9).is_empty());
        assert_eq!(repeat_notes(Sampling::Shuffle, 6, 4, 9).len(), 1);
        assert_eq!(repeat_notes(Sampling::Shuffle, 10, 0, 9).len(), 1);
    }

    #[test]
    fn repeats_are_told_with_their_numbers() {
        assert_eq!(
            repeat_notes(Sampling::Sequential, 15, 0, 5),
            [
                "15 requests use 5 distinct prompts, so each is sent up to 3 times; a prefix cache will help from the second on"
            ]
        );
        assert_eq!(
            repeat_notes(Sampling::Sequential, 5, 7, 5),
            ["the warm-up sends 5 prompts that are measured later, so a prefix cache already knows them"]
        );
        assert_eq!(
            repeat_notes(Sampling::Sequential, 100, 1, 100),
            ["the warm-up sends 1 prompt that is measured later, so a prefix cache already knows it"]
        );
        assert_eq!(
            repeat_notes(Sampling::Sequential, 3, 0, 1),
            [
                "3 requests use 1 distinct prompt, so it is sent up to 3 times; a prefix cache will help from the second on"
            ]
        );
        assert!(
            repeat_notes(Sampling::Sequential, 5, 0, 5).is_empty()
                && repeat_notes(Sampling::Sequential, 5, 5, 10).is_empty()
                && repeat_notes(Sampling::Sequential, 0, 9, 5).is_empty()
                && repeat_notes(Sampling::Sequential, 9, 9, 0).is_empty()
        );
    }
}
