//! Whether a row can be sent as the plan wants it, and what it is worth to draw from.

use aiperf_core::conversation::is_query;
use aiperf_core::plan::EndpointKind;

use super::Scan;
use crate::error::RowProblem;
use crate::file::ranked::inputs;
use crate::file::record::{Form, Mode, Record};
use crate::file::row::Row;

impl Scan {
    /// Whether a row can be sent at all, and with those of conversation `before`, which it goes on with.
    pub(super) fn check(&self, record: &Record, before: Option<usize>) -> Result<(), RowProblem> {
        let traits = self.api.traits();
        if self.form == Form::MultiTurn && !traits.many_turns && (before.is_some() || record.turns.len() > 1)
        {
            return Err(RowProblem::ManyTurns { api: traits.name });
        }
        let mode = self.mode(record, before);
        // The fields of a whole request may bring its messages.
        let brings = |row: &Row| self.api.messages_field().is_some_and(|field| row.extra.contains_key(field));
        let says = |row: &Row| {
            !row.texts.is_empty() || !row.media.is_empty() || (mode == Mode::Whole && brings(row))
        };
        if matches!(self.form, Form::SingleTurn | Form::MultiTurn) && !record.turns.iter().all(says) {
            return Err(RowProblem::NoText);
        }
        if let (Some(found), Some(_)) = (record.mode, before)
            && found != self.mode_of(before)
        {
            return Err(RowProblem::Modes { found: found.name(), before: self.mode_of(before).name() });
        }
        if mode == Mode::RecordedReplies && self.api.messages_field().is_none() {
            return Err(RowProblem::NoMessages { api: traits.name });
        }
        if mode == Mode::RecordedReplies && record.turns.iter().any(|row| !row.media.is_empty()) {
            return Err(RowProblem::RecordedMedia);
        }
        if !record.turns.iter().any(|row| mode.sends(row)) {
            return Err(RowProblem::NoQuestions);
        }
        if let Some((name, _)) = record
            .turns
            .iter()
            .flat_map(|row| &row.headers)
            .find(|(name, _)| name.eq_ignore_ascii_case(&self.session_header))
        {
            let wanted = "names of headers that a request may choose: not the one of the session";
            return Err(RowProblem::Field { field: "headers", wanted, found: format!("'{name}'") });
        }
        if mode == Mode::Whole && record.turns.iter().any(|row| row.resets) {
            let wanted = "absent where each turn is a whole request";
            return Err(RowProblem::Field { field: "reset_context", wanted, found: "true".to_owned() });
        }
        if matches!(self.form, Form::Mooncake { .. }) {
            if self.is_marked && record.turns[0].payload.is_some() {
                return Err(RowProblem::MarkedBody);
            }
            self.histories.check(before, &record.turns[0])?;
        }
        Ok(())
    }

    /// What a row is worth to draw from.
    pub(super) fn drawable(&mut self, row: &Row, line: u64) {
        let many = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.texts.push(many(row.texts.len()));
        if self.api == EndpointKind::NimEmbeddings {
            let (texts, images) = inputs(row);
            self.inputs.push((many(texts), many(images)));
        }
        if !row.groups.is_empty() {
            self.has_names.get_or_insert(line);
        }
        let mut names = row.groups.iter().filter(|group| group.count > 0);
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let has_query =
            if row.groups.is_empty() { is_query(&stem) } else { names.any(|group| is_query(&group.name)) };
        if !has_query {
            self.queryless.get_or_insert(line);
        }
    }
}
