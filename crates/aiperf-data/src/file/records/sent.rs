//! What is sent of checked rows: each is read again from its place, and becomes a turn.

use aiperf_core::conversation::{ContextMode, Conversation, Marker, Turn, TurnLength};
use serde_json::{Value, json};

use super::super::baseten;
use super::super::grown::{Grown, Part};
use super::super::media::Shown;
use super::super::mooncake::{Histories, History};
use super::super::random_pool::{Pick, Pools};
use super::super::record::{Form, Mode, Record};
use super::super::recorded::Recorded;
use super::super::row::Row;
use super::super::shaping::Pauses;
use super::RecordFile;
use crate::blocks::Blocks;
use crate::error::{DataError, RowProblem};
use crate::spread::draw_length;
use crate::workload::{Visit, Workload, WorkloadFacts};

impl RecordFile {
    fn record(&self, row: usize) -> Result<Record, DataError> {
        let line = self.source.bytes(row)?;
        let placed = |placed| self.source.error(row, placed);
        let mut record = self.form.parse(&line, self.api).map_err(placed)?;
        let follows = self.followers.binary_search(&row).is_ok();
        // What was taken in when it was opened may have been changed since.
        self.shaping
            .shape(self.source.line(row), &mut record, follows)
            .map_err(|_| placed((None, RowProblem::Changed)))?;
        Ok(record)
    }

    /// The row that is drawn for conversation `index`.
    fn drawn(&self, pools: &Pools, index: usize) -> Result<Record, DataError> {
        let row = |pick: Pick| {
            let mut row = self.record(pick.row)?.turns.swap_remove(0);
            self.load(&mut row, pick.row)?;
            Ok((pick, row))
        };
        let rows = pools.picks(index).into_iter().map(row).collect::<Result<_, DataError>>()?;
        Ok(Record { turns: vec![pools.merged(rows)], ..Record::default() })
    }

    /// The turn of a row; whether it `opens` a request, with the system message before it. `told` are the tokens of a length that was
    /// made messages.
    fn turn(&self, mut row: Row, number: u64, opens: bool, told: Option<usize>) -> Result<Turn, DataError> {
        let max_tokens = row
            .output_length
            .or_else(|| self.osl.as_ref().map(|osl| draw_length(osl, &mut self.outputs.at(number))));
        if let Form::Baseten(_) = self.form {
            baseten::force(&mut row.extra, max_tokens);
        }
        let (mut texts, mut length) = (row.texts, None);
        if let (Some(tokens), Some(lengths)) =
            (row.made.as_ref().map(|made| made.tokens).or(told), &self.texts)
        {
            if let Some(made) = &row.made {
                texts = vec![lengths.texts.text(&lengths.scope, number, made.blocks(lengths.block))?];
            }
            let tokens = tokens as u64 + if opens { lengths.before } else { 0 };
            // A marker, or a field of the row's in the place of messages, makes it longer.
            let is_ours = told.is_some() || !self.api.is_replaced_by(&row.extra);
            let is_known = lengths.is_bare && self.marking.is_none() && is_ours;
            length = is_known.then_some(TurnLength { asked: tokens, made: tokens });
        }
        Ok(Turn {
            model: self.models.of_turn(number).to_owned(),
            role: row.role,
            texts,
            groups: row.groups,
            media: row.media,
            payload: row.payload,
            max_tokens,
            delay_ns: row.delay_ns,
            at_ns: row.at_ns.filter(|_| !self.ignore_timestamps),
            resets: row.resets,
            extra: row.extra,
            headers: row.headers,
            length,
        })
    }

    /// Reads the local files that a turn of row number `number` names, for an API that sends them.
    fn load(&self, row: &mut Row, number: usize) -> Result<(), DataError> {
        if !self.api.has_media() {
            row.media.clear();
        }
        for media in &mut row.media {
            for content in &mut media.contents {
                let read = self.files.content(media.kind, std::mem::take(content));
                *content = read.map_err(|problem| self.source.error(number, (None, problem)))?;
            }
        }
        Ok(())
    }

    /// How the rows of a conversation of a trace go together.
    fn history(&self, index: usize, records: &[Record]) -> Option<History> {
        if self.roots.is_empty() {
            return self.histories.get(index).copied();
        }
        let (mut histories, block) = (Histories::default(), self.form.block()?);
        for record in records {
            histories.push(0, &record.turns[0], block);
        }
        Some(histories.of(0))
    }

    /// Puts the messages of a row that holds its history into the row, for an API that has messages; gives their tokens.
    fn tell_apart(&self, row: &mut Row, number: u64, grown: &mut Grown) -> Result<Option<usize>, DataError> {
        let (Some(made), Some(lengths), Some(field)) = (&row.made, &self.texts, self.api.messages_field())
        else {
            return Ok(None);
        };
        let tokens = made.tokens;
        let parts = grown.next(made, row.output_length, lengths.block);
        if parts.len() < 2 {
            return Ok(None);
        }
        let message = |part: Part| -> Result<Value, DataError> {
            let blocks = Blocks { tokens: part.tokens, size: lengths.block, ids: &made.ids[part.ids] };
            let text = lengths.texts.text(&lengths.scope, number, blocks)?;
            Ok(json!({"role": if part.is_reply { "assistant" } else { "user" }, "content": text}))
        };
        let messages = parts.into_iter().map(message).collect::<Result<Vec<_>, _>>()?;
        row.made = None;
        row.extra.insert(field.to_owned(), Value::Array(messages));
        Ok(Some(tokens))
    }

    /// The system message, where messages of the user's own stand in the place of ours and it is one of them.
    fn with_system(&self, row: &mut Row, system: Option<&str>) {
        let field = self.api.messages_field().filter(|_| self.api.system_field().is_none());
        let (Some(system), Some(field)) = (system, field) else { return };
        let Some(Value::Array(messages)) = row.extra.get_mut(field) else { return };
        let first = messages.first().filter(|m| m["role"] == "system").and_then(|m| m["content"].as_str());
        // One message, for many servers take no second.
        match first.map(|own| [system, "\n\n", own].concat()) {
            Some(both) => messages[0]["content"] = Value::String(both),
            None => messages.insert(0, json!({"role": "system", "content": system})),
        }
    }

    /// Marks the first text of a turn, unless the marker belongs on a system text that fields bring.
    fn mark(&self, turn: &mut Turn, marker: &Marker) {
        let has_system = self.api.has_system_in(&[&self.laid_over, &turn.extra]);
        if marker.target.wants_system() && has_system {
            return;
        }
        match turn.texts.first_mut() {
            Some(text) => *text = marker.put(text),
            // Images alone have it beside them.
            None if !turn.media.is_empty() => turn.texts.push(marker.bare().to_owned()),
            None => {}
        }
    }
}

impl Workload for RecordFile {
    fn len(&self) -> usize {
        self.groups.len()
    }

    fn conversation(&self, index: usize, visit: Visit) -> Result<Conversation, DataError> {
        if index >= self.len() {
            return Err(DataError::OutOfRange { index, len: self.len() });
        }
        let (first, rows, unnamed) = self.groups.conversation(index);
        let mut number = self.turns.as_ref().map_or(first as u64, |turns| turns.before[index]);
        let mut instructs = self.turns.as_ref().is_some_and(|turns| turns.has_instruction[index]);
        let mut turns = Vec::with_capacity(self.turn_count(index));
        let (mut id, mut system) = (None, self.system.clone());
        let records = match &self.pools {
            Some(pools) => vec![self.drawn(pools, index)?],
            None => rows.iter().map(|row| self.record(*row)).collect::<Result<Vec<_>, _>>()?,
        };
        let history = self.history(index, &records);
        let mode = self.modes.get(index).copied().unwrap_or_default();
        let context = match (history, mode) {
            (Some(History::Adds) | None, Mode::LiveReplies) => self.form.context(),
            _ => ContextMode::SelfContained,
        };
        let mut grown = (history == Some(History::Grows)).then(Grown::default);
        let mut pauses = Pauses::default();
        let mut said = Recorded::default();
        let mut shown = Shown::default();
        for (row, record) in rows.into_iter().zip(records) {
            let ordinal = self.ordinals.get(row);
            let of_row =
                record.session_id.map(|id| ordinal.map_or_else(|| id.clone(), |k| format!("{id}#{k}")));
            id = id.or(of_row);
            let at = row;
            for mut row in record.turns {
                if std::mem::take(&mut instructs) {
                    let own = row.texts.join("\n");
                    // One message, for many servers take no second.
                    system =
                        Some(system.map_or_else(|| own.clone(), |given| [&given, "\n\n", &own].concat()));
                } else {
                    let told = match &mut grown {
                        Some(grown) => self.tell_apart(&mut row, number, grown)?,
                        None => None,
                    };
                    if mode == Mode::RecordedReplies && !said.add(&mut row, self.api) {
                        continue;
                    }
                    self.with_system(&mut row, system.as_deref());
                    row.at_ns = row.at_ns.map(|ns| ns.saturating_sub(self.zero_ns));
                    pauses.apply(&mut row, &self.shaping, &self.timeline);
                    if self.strips_images {
                        shown.strip(&mut row.media);
                    }
                    // What was drawn is loaded from the rows that it was drawn of.
                    if self.pools.is_none() {
                        self.load(&mut row, at)?;
                    }
                    let opens = turns.is_empty() || row.resets || context == ContextMode::SelfContained;
                    turns.push(self.turn(row, number, opens, told)?);
                    number += 1;
                }
            }
        }
        let id = self.roots.get(index).map(i64::to_string).or(id);
        // A row of no session is the first of its own, and called so where rows are sessions.
        let is_first = matches!(self.form, Form::Baseten(_)) && !self.ordinals.is_empty();
        let id = id.unwrap_or_else(|| format!("session_{unnamed:06}{}", if is_first { "#0" } else { "" }));
        let marker = self.marking.as_ref().and_then(|marking| marking.marker(visit, &id));
        if let Some(marker) = &marker {
            match &mut system {
                Some(system) if marker.target.wants_system() => *system = marker.put(system),
                _ => {
                    // A turn that goes on has the first one's marker before it.
                    let requests = if context == ContextMode::History { 1 } else { turns.len() };
                    turns.iter_mut().take(requests).for_each(|turn| self.mark(turn, marker));
                }
            }
        }
        Ok(Conversation { id, context, system, user_context: None, turns, marker })
    }

    fn is_marked(&self) -> bool {
        self.marking.is_some()
    }

    fn turn_count(&self, index: usize) -> usize {
        self.turns.as_ref().map_or_else(|| self.groups.rows_of(index), |turns| turns.count(index))
    }

    fn start_ns(&self, index: usize) -> Option<u64> {
        self.recorded_ns(index).map(|ns| self.timeline.replayed(ns))
    }

    fn place(&self, index: usize) -> Option<String> {
        if self.is_converted || self.pools.is_some() || index >= self.len() {
            return None;
        }
        let (_, rows, _) = self.groups.conversation(index);
        rows.first().map(|row| self.source.place(*row))
    }

    fn recorded_ns(&self, index: usize) -> Option<u64> {
        self.begins.get(index).filter(|_| index < self.len())
    }

    fn replayed_ns(&self, recorded_ns: u64) -> u64 {
        self.timeline.replayed(recorded_ns)
    }

    fn is_timed(&self) -> bool {
        self.is_timed
    }

    fn replaces_messages(&self) -> bool {
        self.replaces_messages
    }

    fn changed(&self) -> Option<String> {
        self.source.changed()
    }

    fn describe(&self) -> WorkloadFacts {
        WorkloadFacts {
            kind: self.form.kind(),
            entries: self.len(),
            turns: self.turns.as_ref().map_or(self.groups.rows() as u64, |turns| turns.before[self.len()]),
            most_turns: self.turns.as_ref().map_or_else(|| self.groups.most_rows(), |turns| turns.most),
            waits: self.waits,
            notes: self.notes.clone(),
            rows: Some(self.facts.clone()),
        }
    }
}
