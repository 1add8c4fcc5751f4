//! What rows have to hold for requests of each kind: a query where passages are ranked. What is taken otherwise than it stands
//! there is told once.

use std::path::Path;

use aiperf_core::conversation::{PASSAGES, Turn, is_query};
use aiperf_core::plan::EndpointKind;
use aiperf_core::text::for_terminal;

use super::row::Row;
use crate::error::RowProblem;

/// Rows of one kind: how many, and the line of the first.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Seen {
    pub(super) rows: u64,
    first: u64,
}

impl Seen {
    pub(super) fn add(&mut self, line: u64) {
        self.rows += 1;
        if self.rows == 1 {
            self.first = line;
        }
    }

    /// `3 rows (line 7 is the first)`, if there are any.
    pub(super) fn words(self) -> Option<String> {
        match self.rows {
            0 => None,
            1 => Some(format!("the row in line {}", self.first)),
            rows => Some(format!("{rows} rows (line {} is the first)", self.first)),
        }
    }
}

/// Looks at every row of a file.
#[derive(Debug)]
pub(super) struct Fitness {
    api: EndpointKind,
    no_passages: Seen,
    more_queries: Seen,
    /// Rows with texts that are neither, and the name of the first of them.
    strangers: Seen,
    stranger: String,
    limits: Seen,
}

impl Fitness {
    pub(super) fn new(api: EndpointKind) -> Self {
        let none = Seen::default();
        Self {
            api,
            no_passages: none,
            more_queries: none,
            strangers: none,
            stranger: String::new(),
            limits: none,
        }
    }

    /// Whether a request can be made of the row in `line`.
    pub(super) fn check(&mut self, row: &Row, line: u64) -> Result<(), RowProblem> {
        if row.output_length.is_some() && !self.api.traits().produces_tokens {
            self.limits.add(line);
        }
        if !self.api.is_ranking() {
            return Ok(());
        }
        let turn = Turn { texts: row.texts.clone(), groups: row.groups.clone(), ..Turn::default() };
        let (mut queries, mut passages, mut stranger) = (0, 0, None);
        for (name, texts) in turn.named() {
            match name {
                _ if is_query(name) => queries += texts.len(),
                PASSAGES => passages += texts.len(),
                _ => stranger = stranger.or(Some(name)),
            }
        }
        if queries == 0 {
            return Err(RowProblem::NoQuery { api: self.api.name() });
        }
        if queries > 1 {
            self.more_queries.add(line);
        }
        if passages == 0 {
            self.no_passages.add(line);
        }
        if let Some(name) = stranger {
            if self.strangers.rows == 0 {
                self.stranger = for_terminal(name, 40);
            }
            self.strangers.add(line);
        }
        Ok(())
    }

    /// What is taken otherwise than it stands in `path`.
    pub(super) fn notes(&self, path: &Path) -> Vec<String> {
        let (file, api, name) = (path.display(), self.api.name(), &self.stranger);
        let note = |seen: Seen, what: &str| seen.words().map(|rows| format!("{file}: {rows} {what}"));
        [
            note(
                self.no_passages,
                "with a query and no text named 'passages': nothing is there to be ranked",
            ),
            note(self.more_queries, "with several queries: the first is sent, the others are not"),
            note(
                self.strangers,
                &format!(
                    "with texts that are neither 'query' nor 'passages', such as '{name}', which are not sent"
                ),
            ),
            note(
                self.limits,
                &format!("with an output_length, which is not sent: {api} has no output limit"),
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
