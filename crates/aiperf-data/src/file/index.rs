//! Where the rows of a line-based file are, and which of them belong together. The rows themselves stay in the file.

use std::collections::HashMap;
use std::ops::Range;

use crate::error::RowProblem;

/// Most rows of one session.
pub(crate) const MOST_TURNS: usize = aiperf_core::conversation::MOST_TURNS as usize;

/// Rows in the order of the file, 8 bytes each.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    starts: Vec<u64>,
    end: u64,
    /// Where lines without a row lie before a row: (row, how many so far).
    gaps: Vec<(usize, u64)>,
    /// Where something else lies behind a row: (row, its end).
    ends: Vec<(usize, u64)>,
}

impl Rows {
    /// Adds the row of line `line` (from 1) at bytes `start..end`; rows come in order.
    pub(crate) fn push(&mut self, line: u64, start: u64, end: u64) {
        let gap = line - 1 - self.starts.len() as u64;
        if gap > self.gaps.last().map_or(0, |(_, gap)| *gap) {
            self.gaps.push((self.starts.len(), gap));
        }
        if start != self.end && !self.starts.is_empty() {
            self.ends.push((self.starts.len() - 1, self.end));
        }
        self.starts.push(start);
        self.end = end;
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The line (from 1) of a row.
    pub(crate) fn line(&self, row: usize) -> u64 {
        let before = self.gaps.partition_point(|(at, _)| *at <= row);
        let gap = before.checked_sub(1).map_or(0, |i| self.gaps[i].1);
        row as u64 + 1 + gap
    }

    /// The bytes of a row.
    pub(crate) fn bytes(&self, row: usize) -> Range<u64> {
        let end = match self.ends.binary_search_by_key(&row, |(at, _)| *at) {
            Ok(i) => self.ends[i].1,
            Err(_) => self.starts.get(row + 1).copied().unwrap_or(self.end),
        };
        self.starts[row]..end
    }
}

/// Which rows make up which conversation.
#[derive(Debug)]
pub(crate) enum Groups {
    /// Each row is one.
    Single {
        /// Number of conversations.
        len: usize,
    },
    /// Each row is one, in another order.
    Sorted {
        /// The rows in that order.
        rows: Vec<u32>,
    },
    /// Some rows share a session.
    Sessions {
        /// Rows, conversation after conversation.
        rows: Vec<usize>,
        /// Where each conversation begins in `rows`; one more at the end.
        starts: Vec<usize>,
        /// For each conversation, how many before it have no name of their own.
        unnamed: Vec<usize>,
    },
}

impl Groups {
    /// Number of conversations.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Single { len } => *len,
            Self::Sorted { rows } => rows.len(),
            Self::Sessions { unnamed, .. } => unnamed.len(),
        }
    }

    /// Number of rows in all conversations.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Single { len } => *len,
            Self::Sorted { rows } => rows.len(),
            Self::Sessions { starts, .. } => starts.last().copied().unwrap_or(0),
        }
    }

    /// The most rows of a conversation.
    pub(crate) fn most_rows(&self) -> usize {
        match self {
            Self::Single { .. } | Self::Sorted { .. } => 1,
            Self::Sessions { starts, .. } => starts.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0),
        }
    }

    /// The number of rows of a conversation.
    pub(crate) fn rows_of(&self, index: usize) -> usize {
        match self {
            Self::Single { .. } | Self::Sorted { .. } => 1,
            Self::Sessions { starts, .. } => starts[index + 1] - starts[index],
        }
    }

    /// The number of the conversation's first turn among all turns, the rows, and how many conversations before it have no
    /// name of their own.
    pub(crate) fn conversation(&self, index: usize) -> (usize, Vec<usize>, usize) {
        match self {
            Self::Single { .. } => (index, vec![index], index),
            Self::Sorted { rows } => (index, vec![rows[index] as usize], index),
            Self::Sessions { rows, starts, unnamed } => {
                let range = starts[index]..starts[index + 1];
                (range.start, rows[range].to_vec(), unnamed[index])
            }
        }
    }
}

/// Collects rows into conversations, in the order in which sessions first appear.
#[derive(Debug, Default)]
pub(crate) struct Grouper {
    sessions: HashMap<String, usize>,
    /// The conversation of each row; empty as long as each row is its own.
    of_row: Vec<usize>,
    turns: Vec<u32>,
    named: Vec<bool>,
    rows: usize,
}

impl Grouper {
    /// Number of conversations so far.
    pub(crate) fn len(&self) -> usize {
        if self.sessions.is_empty() { self.rows } else { self.turns.len() }
    }

    /// The conversation that the next row goes on with, if it is of `session`; an error if that can take no more.
    pub(crate) fn goes_on(&self, session: Option<&str>) -> Result<Option<usize>, RowProblem> {
        let Some((session, at)) = session.and_then(|session| Some((session, *self.sessions.get(session)?)))
        else {
            return Ok(None);
        };
        if self.turns[at] as usize >= MOST_TURNS {
            return Err(RowProblem::TooManyTurns { session: session.to_owned(), max: MOST_TURNS });
        }
        Ok(Some(at))
    }

    /// Adds the next row, which goes on with its session as [`Self::goes_on`] allows.
    pub(crate) fn push(&mut self, session: Option<String>) {
        let row = self.rows;
        self.rows += 1;
        let Some(session) = session else {
            if !self.sessions.is_empty() {
                self.begin(false);
            }
            return;
        };
        if self.sessions.is_empty() {
            self.of_row = (0..row).collect();
            self.turns = vec![1; row];
            self.named = vec![false; row];
        }
        if let Some(at) = self.sessions.get(&session) {
            self.of_row.push(*at);
            self.turns[*at] += 1;
        } else {
            let at = self.begin(true);
            self.sessions.insert(session, at);
        }
    }

    fn begin(&mut self, named: bool) -> usize {
        let at = self.turns.len();
        self.of_row.push(at);
        self.turns.push(1);
        self.named.push(named);
        at
    }

    /// The first `most` conversations.
    pub(crate) fn finish(self, most: Option<usize>) -> Groups {
        let most = most.unwrap_or(usize::MAX);
        if self.sessions.is_empty() {
            return Groups::Single { len: self.rows.min(most) };
        }
        let len = self.turns.len().min(most);
        let mut starts = Vec::with_capacity(len + 1);
        let mut unnamed = Vec::with_capacity(len);
        let (mut at, mut without_name) = (0, 0);
        for i in 0..len {
            starts.push(at);
            unnamed.push(without_name);
            at += self.turns[i] as usize;
            without_name += usize::from(!self.named[i]);
        }
        starts.push(at);
        let mut rows = vec![0; at];
        let mut next = starts.clone();
        for (row, conversation) in self.of_row.into_iter().enumerate().filter(|(_, c)| *c < len) {
            rows[next[conversation]] = row;
            next[conversation] += 1;
        }
        Groups::Sessions { rows, starts, unnamed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_count_the_blank_ones() {
        let mut rows = Rows::default();
        for (line, start) in [(1, 0), (4, 30), (5, 40), (9, 90)] {
            rows.push(line, start, start + 10);
        }
        assert_eq!([0, 1, 2, 3].map(|r| rows.line(r)), [1, 4, 5, 9]);
        assert_eq!([0, 1, 2, 3].map(|r| rows.bytes(r)), [0..10, 30..40, 40..50, 90..100]);
    }

    #[test]
    fn sessions_keep_the_order_of_their_first_row() {
        let mut grouper = Grouper::default();
        for session in [None, Some("a"), None, Some("b"), Some("a"), None, Some("b"), Some("a")] {
            grouper.push(session.map(str::to_owned));
        }
        let groups = grouper.finish(None);
        let got: Vec<_> = (0..groups.len()).map(|i| groups.conversation(i)).collect();
        let want =
            [(0, vec![0], 0), (1, vec![1, 4, 7], 1), (4, vec![2], 1), (5, vec![3, 6], 2), (7, vec![5], 2)];
        assert_eq!(got, want);
        assert_eq!((groups.rows(), groups.most_rows()), (8, 3));
    }

    #[test]
    fn a_session_has_an_end() {
        let mut grouper = Grouper::default();
        for _ in 0..MOST_TURNS {
            assert!(grouper.goes_on(Some("a")).is_ok());
            grouper.push(Some("a".into()));
        }
        let problem = RowProblem::TooManyTurns { session: "a".into(), max: 65_535 };
        assert_eq!(grouper.goes_on(Some("a")), Err(problem));
        assert_eq!((grouper.goes_on(Some("b")), grouper.goes_on(None)), (Ok(None), Ok(None)));
    }

    proptest! {
        /// Every row of the conversations kept is in exactly one of them, in order.
        #[test]
        fn grouping_is_a_partition(
            sessions in prop::collection::vec(prop::option::of("[a-d]"), 0..60),
            most in prop::option::of(0usize..20),
        ) {
            let mut grouper = Grouper::default();
            for session in &sessions {
                grouper.push(session.clone());
            }
            let groups = grouper.finish(most);
            let mut seen = std::collections::BTreeSet::new();
            let mut turns = 0;
            for i in 0..groups.len() {
                let (first, rows, _) = groups.conversation(i);
                prop_assert_eq!(first, turns);
                prop_assert_eq!(groups.rows_of(i), rows.len());
                turns += rows.len();
                prop_assert!(rows.is_sorted());
                prop_assert!(rows.iter().all(|r| sessions[*r] == sessions[rows[0]]));
                prop_assert!(sessions[rows[0]].is_some() || rows.len() == 1);
                for row in rows {
                    prop_assert!(seen.insert(row));
                }
            }
            prop_assert_eq!(turns, groups.rows());
            let named: std::collections::BTreeSet<_> = sessions.iter().flatten().collect();
            let all = named.len() + sessions.iter().filter(|s| s.is_none()).count();
            prop_assert_eq!(groups.len(), all.min(most.unwrap_or(usize::MAX)));
            prop_assert!(most.is_some() || seen.len() == sessions.len());
        }
    }
}
