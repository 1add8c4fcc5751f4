//! What is found in a trace beside its figures: each kind with what it means for a replay and what to do.

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

/// Lines told of each kind.
const LINES: usize = 5;
/// Names of unknown keys kept.
const KEYS: usize = 64;

/// What a finding does to a replay (`aiperf profile --input-file`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It does not start.
    Refused,
    /// It sends something else than the trace says.
    Wrong,
    /// It is right; the numbers want reading with care.
    Note,
}

impl Severity {
    /// Its name in files and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Wrong => "wrong",
            Self::Note => "note",
        }
    }
}

macro_rules! kinds {
    ($($kind:ident $name:literal $severity:ident $what:literal $meaning:literal $advice:literal;)*) => {
        /// Kinds of findings.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Kind {
            $(#[doc = $what] $kind,)*
        }

        impl Kind {
            /// All, in the order of the page.
            #[cfg(test)]
            const ALL: &[Self] = &[$(Self::$kind),*];

            /// Its name in files.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// What it does to a replay.
            pub const fn severity(self) -> Severity {
                match self { $(Self::$kind => Severity::$severity,)* }
            }

            /// What it is.
            pub const fn what(self) -> &'static str {
                match self { $(Self::$kind => $what,)* }
            }

            /// What it means for a replay.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$kind => $meaning,)* }
            }

            /// What to do about it.
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$kind => $advice,)* }
            }
        }
    };
}

kinds! {
    Broken "broken_lines" Refused "lines that are no JSON object"
        "a replay refuses the file; the figures here are those of the other lines"
        "mend or remove them; a last line cut short comes from a copy that was not finished";
    WrongField "wrong_fields" Refused "values of the wrong type"
        "a replay refuses the file; here they count as absent, and an absent length as 0, as AIPerf counts it"
        "write them as what is wanted";
    NoSource "no_source" Refused "rows that do not say what is sent"
        "a replay refuses the file; here their length counts as 0"
        "give each 'input_length', 'text_input', 'messages' or 'payload'";
    SeveralSources "several_sources" Refused "rows that say twice what is sent"
        "a replay refuses the file"
        "keep one of 'input_length', 'text_input', 'messages' and 'payload'";
    Apart "fields_apart" Refused "fields without the one they belong to"
        "a replay refuses the file"
        "remove them, or give the other one";
    ImpossibleLength "impossible_lengths" Refused "lengths that no request has"
        "a replay refuses the file"
        "remove the rows, or mend their lengths (an answer that failed has no length: leave 'output_length' out)";
    TooManyIds "too_many_ids" Refused "rows with more blocks than their length holds"
        "a replay with this block size refuses the file; shared lengths here are cut to the row's length"
        "give the block size that the trace was made with";
    MixedSession "mixed_sessions" Refused "sessions with whole requests and lengths"
        "a replay refuses the file: rows with 'messages' or 'payload' hold their history, the others do not"
        "give the rows of each kind a session of their own";
    TooManyTurns "too_many_turns" Refused "sessions with more rows than a run numbers"
        "a replay refuses the file: the turns of a conversation are numbered up to 65535"
        "give the rows behind a session id of their own";
    UntimedStart "untimed_starts" Refused "sessions that begin without a timestamp in a file that has them"
        "a replay on the file's times refuses it"
        "give the first row of each session its 'timestamp', or replay with --no-fixed-schedule";
    BlockSize "block_size" Wrong "the block size does not fit the trace"
        "texts and shared lengths are not those of the trace"
        "analyze with --block-size and replay with --isl-block-size of the size told here";
    HugeLength "huge_lengths" Wrong "lengths beyond 2,097,152 tokens"
        "no server takes such a request; a unit or an id may stand in the place of a length"
        "mend them, or leave them out with --synthesis-max-isl";
    Misspelt "misspelt_keys" Wrong "keys that are nearly the name of a missing one"
        "they are read over, and what they say is not replayed"
        "spell them as told";
    DoubleKey "double_keys" Wrong "rows with a key twice"
        "the last value counts, in silence"
        "keep one";
    HistoryBreaks "history_breaks" Wrong "sessions whose rows hold their history, but not all of them"
        "a session counts as one whose rows add up as soon as one row does not begin with the blocks of the row before (a reset or a summary of the \
         context does that), so what was said before is sent again and again"
        "begin a new session at each such row";
    SessionAgain "sessions_again" Wrong "session ids that begin again"
        "rows of two conversations with one id are turns of one conversation, the second behind the first"
        "give each conversation an id of its own";
    SessionBackwards "session_time_backwards" Wrong "turns that are earlier than the turn before them"
        "turns of a session are sent in the order of the file, behind each other's answers, not at these times"
        "sort the rows of each session by time";
    RepeatedIds "repeated_ids" Wrong "rows with an id twice"
        "one block stands twice in a prompt; ids that name a prefix, as Mooncake's do, cannot"
        "look at how the ids were made: hashes cut to few bits collide";
    LaterTimed "later_timed" Wrong "timestamps in a file whose first row has none"
        "the file is no schedule of its own, and the times are not used"
        "give the first row its 'timestamp', or ask with --fixed-schedule";
    HoldsHistory "holds_history" Note "sessions whose rows hold their history (cumulative)"
        "each row is sent as one whole request here; a client that adds rows up, as AIPerf 0.13 does, sends the history twice and more"
        "nothing here; do not compare with such a client's numbers";
    AddsUp "rows_add_up" Note "sessions whose rows add up: each holds what its turn adds"
        "a replay puts the rows and answers of the turns before in front: its requests are longer than the input lengths above, and a prefix cache \
         finds in them what was sent before"
        "for the lengths and hit rates that are sent look at a run, or at its --dry-run";
    IdBehindOthers "ids_behind_other_blocks" Note "ids that come behind other blocks than before"
        "ids name a block's own text: the hit rate above counts them as hits, the prefix cache of a server does not; prefix_cache_hit_rate is what it can do"
        "read prefix_cache_hit_rate";
    FewIds "few_ids" Note "rows with fewer blocks than their length"
        "what the ids do not reach is text of the row's own, shared with nothing"
        "nothing, if the rest is meant to be unique; else give the block size that the trace was made with";
    NegativeIds "negative_ids" Note "negative ids"
        "they are ids like others"
        "nothing";
    TimeBackwards "time_backwards" Note "rows that are earlier than the row before"
        "a replay sends by time, not in the order of the file; hit rates here follow the order of the file"
        "sort the file by 'timestamp' for hit rates in the order of arrival";
    SessionTypes "session_id_types" Note "session ids given as a number and as a string"
        "7 and \"7\" are one session"
        "write all in one way, if they are two";
    NoLength "no_length" Note "rows with a text, messages or a body in the place of a length"
        "their length counts as 0 above, as AIPerf counts it"
        "read the input lengths of a run in the place of these";
    NoOutput "no_output_length" Note "rows without an output length"
        "their answers end where the server or --osl ends them; they count as 0 above, as AIPerf counts it"
        "give 'output_length', or --osl";
    UnknownKeys "unknown_keys" Note "keys that rows of this form do not have"
        "they are read over"
        "nothing, if they are meant for other tools";
}

/// Findings of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Which.
    pub kind: Kind,
    /// How many rows, sessions or keys have it.
    pub count: u64,
    /// The first lines with it.
    pub lines: Vec<u64>,
    /// The first one in words; empty where the kind says it all.
    pub example: String,
}

impl Finding {
    /// As an object.
    pub fn json(&self) -> Value {
        let Self { kind, count, lines, example } = self;
        json!({
            "name": kind.name(), "severity": kind.severity().name(), "what": kind.what(), "count": count, "first_lines": lines,
            "example": (!example.is_empty()).then_some(example), "meaning": kind.meaning(), "advice": kind.advice(),
        })
    }
}

/// All findings of a trace.
#[derive(Debug, Default, Clone)]
pub struct Findings {
    by_kind: FxHashMap<Kind, Finding>,
    /// Unknown keys, how many rows have each, and the first.
    keys: Vec<(String, u64, u64)>,
    more_keys: bool,
}

impl Findings {
    pub(crate) fn add(&mut self, kind: Kind, line: u64, told: impl FnOnce() -> String) {
        let finding = self.by_kind.entry(kind).or_insert_with(|| Finding {
            kind,
            count: 0,
            lines: Vec::new(),
            example: told(),
        });
        finding.count += 1;
        if finding.lines.len() < LINES && finding.lines.last() != Some(&line) {
            finding.lines.push(line);
        }
    }

    pub(crate) fn get(&self, kind: Kind) -> Option<&Finding> {
        self.by_kind.get(&kind)
    }

    pub(crate) fn key(&mut self, name: String, line: u64) {
        if let Some((_, count, _)) = self.keys.iter_mut().find(|(known, ..)| *known == name) {
            *count += 1;
        } else if self.keys.len() < KEYS {
            self.keys.push((name, 1, line));
        } else {
            self.more_keys = true;
        }
    }

    /// In the order of the page: what is worst first.
    pub fn list(&self) -> Vec<Finding> {
        let mut list: Vec<Finding> = self.by_kind.values().cloned().collect();
        if !self.keys.is_empty() {
            let mut names: Vec<String> = self
                .keys
                .iter()
                .map(|(name, count, line)| {
                    let name = aiperf_core::text::for_terminal(name, 40);
                    format!("'{name}' ({count} row{}, from line {line})", if *count == 1 { "" } else { "s" })
                })
                .collect();
            names.extend(self.more_keys.then(|| "and more".to_owned()));
            list.push(Finding {
                kind: Kind::UnknownKeys,
                count: self.keys.len() as u64,
                lines: self.keys.iter().map(|(.., line)| *line).take(LINES).collect(),
                example: names.join(", "),
            });
        }
        list.sort_by_key(|finding| (finding.kind.severity(), finding.kind));
        list
    }

    /// What the worst of them does to a replay.
    pub fn worst(&self) -> Option<Severity> {
        self.list().first().map(|finding| finding.kind.severity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_each() {
        let mut names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Kind::ALL.len());
    }

    #[test]
    fn worst_first_with_their_first_lines() {
        let mut findings = Findings::default();
        assert_eq!(findings.worst(), None);
        findings.key("mood".into(), 3);
        findings.key("mood".into(), 4);
        assert_eq!(findings.worst(), Some(Severity::Note));
        for line in [2, 2, 5, 6, 7, 8, 9] {
            findings.add(Kind::DoubleKey, line, || format!("first of line {line}"));
        }
        findings.add(Kind::Broken, 9, String::new);
        let list = findings.list();
        assert_eq!(
            list.iter().map(|f| f.kind).collect::<Vec<_>>(),
            [Kind::Broken, Kind::DoubleKey, Kind::UnknownKeys]
        );
        assert_eq!((list[1].count, &list[1].lines[..]), (7, &[2, 5, 6, 7, 8][..]));
        assert_eq!(list[1].example, "first of line 2");
        assert_eq!(list[2].example, "'mood' (2 rows, from line 3)");
        assert_eq!(findings.worst(), Some(Severity::Refused));
    }
}
