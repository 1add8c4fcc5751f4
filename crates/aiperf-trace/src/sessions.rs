//! Rows of one session: whether each holds the history before it, and whether they are one session at all.

use std::hash::{DefaultHasher, Hash, Hasher};

use aiperf_core::conversation::MOST_TURNS;
use rustc_hash::FxHashMap;

use crate::findings::{Findings, Kind};
use crate::marks::joined;
use crate::row::Row;

/// Follows all sessions, by a digest of their names.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    seen: FxHashMap<u64, Seen>,
}

/// How the rows of a session have gone together so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum History {
    /// One row.
    First,
    /// Each row's blocks begin with those of the row before. From this line on.
    Holds(u64),
    /// They did, up to this line.
    Broke(u64),
    /// Rows add up. From this line on.
    Adds(u64),
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    history: History,
    is_whole: bool,
    is_numbered: bool,
    has_delays: bool,
    /// Rows so far.
    rows: u16,
    /// Of the last row.
    ms: Option<f64>,
    tokens: u64,
    blocks: u32,
    /// Of its whole blocks.
    digest: u64,
}

impl Sessions {
    /// Takes in a row that belongs to a session; whether it begins it.
    pub(crate) fn push(&mut self, line: u64, row: &Row, size: u64, findings: &mut Findings) -> bool {
        let Some(name) = &row.session else { return true };
        let tokens = row.input.unwrap_or(0);
        let whole = usize::try_from(tokens / size).unwrap_or(usize::MAX).min(row.ids.len());
        let mut now = Seen {
            history: History::First,
            is_whole: row.is_whole,
            is_numbered: row.is_numbered,
            has_delays: false,
            rows: 1,
            ms: row.timestamp,
            tokens,
            blocks: u32::try_from(whole).unwrap_or(u32::MAX),
            digest: digest(&row.ids[..whole]),
        };
        let Some(last) = self.seen.get_mut(&key(name)) else {
            self.seen.insert(key(name), now);
            return true;
        };
        let called = || format!("session '{}'", aiperf_core::text::for_terminal(name, 40));
        if last.rows == MOST_TURNS {
            findings
                .add(Kind::TooManyTurns, line, || format!("{} has more than {MOST_TURNS} turns", called()));
        }
        now.rows = last.rows.saturating_add(1);
        if last.is_whole != row.is_whole {
            findings.add(Kind::MixedSession, line, called);
        }
        if last.is_numbered != row.is_numbered {
            findings.add(Kind::SessionTypes, line, called);
        }
        if last.has_delays && row.timestamp.is_some() && row.delay.is_none() {
            findings.add(Kind::SessionAgain, line, || {
                format!("{} has a timestamp behind rows with delays", called())
            });
        } else if let (Some(before), Some(ms)) = (last.ms, row.timestamp)
            && ms < before
        {
            findings
                .add(Kind::SessionBackwards, line, || format!("{}: {ms} ms behind {before} ms", called()));
        }
        let before = last.blocks as usize;
        let goes_on = before > 0
            && before <= row.ids.len()
            && last.tokens <= tokens
            && digest(&row.ids[..before]) == last.digest;
        now.history = match last.history {
            History::First if goes_on => History::Holds(line),
            History::First => History::Adds(line),
            History::Holds(_) if !goes_on => History::Broke(line),
            before => before,
        };
        now.has_delays = last.has_delays || row.delay.is_some();
        now.ms = row.timestamp.or(last.ms);
        *last = now;
        false
    }

    pub(crate) fn len(&self) -> u64 {
        self.seen.len() as u64
    }

    /// Tells of histories, which are known at the end only.
    pub(crate) fn finish(self, findings: &mut Findings) {
        let (mut holds, mut broke, mut adds) = (Vec::new(), Vec::new(), Vec::new());
        for seen in self.seen.into_values() {
            match seen.history {
                History::Holds(line) => holds.push(line),
                History::Broke(line) => broke.push(line),
                // Messages and bodies are whole requests.
                History::Adds(line) if !seen.is_whole => adds.push(line),
                History::First | History::Adds(_) => {}
            }
        }
        for (kind, mut lines) in
            [(Kind::HoldsHistory, holds), (Kind::HistoryBreaks, broke), (Kind::AddsUp, adds)]
        {
            lines.sort_unstable();
            for line in lines {
                findings.add(kind, line, String::new);
            }
        }
    }
}

fn digest(ids: &[u64]) -> u64 {
    ids.iter().fold(0, |before, id| joined(before, *id))
}

fn key(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}
