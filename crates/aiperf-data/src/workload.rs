//! What the rest of the program sees of a workload.

use std::fmt;

use aiperf_core::conversation::Conversation;

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
    /// Bodies of requests.
    RawPayload,
}

impl WorkloadKind {
    /// The name users type and files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Synthetic => "synthetic",
            Self::SingleTurn => "single_turn",
            Self::MultiTurn => "multi_turn",
            Self::Mooncake => "mooncake_trace",
            Self::RawPayload => "raw_payload",
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
    /// What a user should know, one line each, in no need of a prefix.
    pub notes: Vec<String>,
}

/// Which conversation a session takes: the next one, from the first again after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequential {
    len: usize,
}

impl Sequential {
    /// Over a workload of `len` conversations.
    pub const fn new(len: usize) -> Self {
        Self { len }
    }

    /// The position of the conversation that session number `session` of a phase takes; 0 in an empty workload.
    pub const fn entry_for(self, session: u64) -> usize {
        match (session as u128).checked_rem(self.len as u128) {
            Some(entry) => entry as usize,
            None => 0,
        }
    }
}

/// What repeats in a run whose warm-up starts `warmup_sessions` sessions of one request and whose measured phase starts
/// `sessions` behind them, over `entries` different prompts taken in order. One line for each thing that is so; both let a
/// prefix cache answer better than new prompts would.
pub fn repeat_notes(sessions: u64, warmup_sessions: u64, entries: usize) -> Vec<String> {
    let entries = entries as u64;
    let mut notes = Vec::new();
    if entries == 0 {
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

    #[test]
    fn sessions_take_entries_in_order_and_begin_again() {
        let sampler = Sequential::new(5);
        assert_eq!([0, 1, 4, 5, 14].map(|s| sampler.entry_for(s)), [0, 1, 4, 0, 4]);
        assert_eq!(sampler.entry_for(u64::MAX), (u64::MAX % 5) as usize);
        assert_eq!(Sequential::new(0).entry_for(3), 0);
    }

    #[test]
    fn repeats_are_told_with_their_numbers() {
        assert_eq!(
            repeat_notes(15, 0, 5),
            [
                "15 requests use 5 distinct prompts, so each is sent up to 3 times; a prefix cache will help from the second on"
            ]
        );
        assert_eq!(
            repeat_notes(5, 7, 5),
            ["the warm-up sends 5 prompts that are measured later, so a prefix cache already knows them"]
        );
        assert_eq!(
            repeat_notes(100, 1, 100),
            ["the warm-up sends 1 prompt that is measured later, so a prefix cache already knows it"]
        );
        assert_eq!(
            repeat_notes(3, 0, 1),
            [
                "3 requests use 1 distinct prompt, so it is sent up to 3 times; a prefix cache will help from the second on"
            ]
        );
        assert!(
            repeat_notes(5, 0, 5).is_empty()
                && repeat_notes(5, 5, 10).is_empty()
                && repeat_notes(0, 9, 5).is_empty()
                && repeat_notes(9, 9, 0).is_empty()
        );
    }
}
