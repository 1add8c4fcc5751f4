//! What the passes over the files of a folder came to, taken together.

use std::path::{Path, PathBuf};

use aiperf_core::plan::{FilePlan, Plan};

use super::super::folder::empty_note;
use super::super::lines;
use super::super::scan::Scan;
use crate::error::{DataError, RowProblem};
use crate::workload::RowFacts;

/// What is kept of the passes over all files.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) notes: Vec<String>,
    /// Files with notes that were left out.
    silent: usize,
    pub(super) replaces_messages: bool,
    pub(super) facts: RowFacts,
    pub(super) times: Vec<u64>,
    /// The first time of all rows.
    pub(super) earliest_ns: Option<u64>,
    pub(super) texts: Vec<u32>,
    /// Texts and images of each row, for an API that takes them in pairs.
    pub(super) inputs: Vec<(u32, u32)>,
    files: usize,
    /// Files without rows.
    pub(super) empty: Vec<PathBuf>,
    /// Where the first text with a name is.
    named: Option<(PathBuf, u64)>,
    /// Some file has a query in each row; and where the first row without one is.
    has_queries: bool,
    queryless: Option<(PathBuf, u64)>,
}

impl Gathered {
    /// Most notes of single files of a folder.
    const MOST_NOTES: usize = 12;

    /// Takes in what a pass over the file at `path` came to.
    pub(super) fn add(&mut self, scan: &mut Scan, path: &Path) -> Result<(), DataError> {
        self.files += usize::from(scan.rows.len() > 0);
        self.replaces_messages |= scan.replaces_messages;
        let notes = scan.notes();
        if self.notes.is_empty() || self.notes.len() + notes.len() <= Self::MOST_NOTES {
            self.notes.extend(notes);
        } else {
            self.silent += usize::from(!notes.is_empty());
        }
        let of = &scan.facts;
        self.facts.read += of.read;
        self.facts.broken += of.broken;
        self.facts.endless_delays += of.endless_delays;
        self.facts.too_long += of.too_long;
        self.facts.not_drawn += of.not_drawn;
        self.facts.capped_outputs += of.capped_outputs;
        self.facts.capped_delays += of.capped_delays;
        let first = self.earliest_ns.into_iter().chain(scan.earliest_ns).min();
        self.earliest_ns = first;
        self.facts.first_broken = self.facts.first_broken.take().or_else(|| of.first_broken.clone());
        self.times.append(&mut scan.times);
        self.texts.append(&mut scan.texts);
        self.inputs.append(&mut scan.inputs);
        let place = |line| (path.to_owned(), line);
        self.named = self.named.take().or_else(|| scan.has_names.map(place));
        self.has_queries |= scan.queryless.is_none() && scan.rows.len() > 0;
        self.queryless = self.queryless.take().or_else(|| scan.queryless.map(place));
        if self.times.len().max(self.texts.len()) > u32::MAX as usize {
            let problem = RowProblem::TooManyRows { max: u32::MAX as usize };
            return Err(lines::placed_error(path, 1, (None, problem)));
        }
        Ok(())
    }

    /// Whether all of it can be drawn from together.
    pub(super) fn checked(mut self, plan: &Plan, set: &FilePlan) -> Result<Self, DataError> {
        if self.silent > 0 {
            self.notes.push(format!(
                "{}: there is more to say of {} other files",
                set.path.display(),
                self.silent
            ));
        }
        self.notes.extend(empty_note(&set.path, &self.empty));
        if self.texts.is_empty() {
            return Ok(self);
        }
        let at_fault =
            |(path, line): (PathBuf, u64), problem| lines::placed_error(&path, line, (None, problem));
        if set.batch != 1 {
            if self.files > 1 {
                return Err(DataError::ManyPools { path: set.path.clone(), files: self.files });
            }
            if let Some(place) = self.named.take() {
                return Err(at_fault(place, RowProblem::NamedInBatch));
            }
        }
        let api = plan.endpoint.kind;
        let no_query = api.is_ranking() && (!self.has_queries || set.batch != 1);
        match self.queryless.take().filter(|_| no_query) {
            Some(place) => Err(at_fault(place, RowProblem::NoQuery { api: api.name() })),
            None => Ok(self),
        }
    }
}
