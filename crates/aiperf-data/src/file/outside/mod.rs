//! Data sets that were not made for this program: lists of conversations as JSON (ShareGPT and its like), JSONL with messages or
//! prompts, CSV and Parquet tables.
//!
//! Such a file is gone through once, row after row, and what is to be sent is written as rows of `multi_turn` into a file without a
//! name; the reader of that form does the rest. So a file that can only be read from front to back (a packed one, a column of
//! Parquet) costs no memory either, and replies are counted once, not at each visit.

mod agents;
mod cells;
mod columns;
mod parts;
mod public;
mod rows;
mod tables;
mod talk;
#[cfg(test)]
mod tests;
mod traces;
mod zstd;

use std::io::{BufWriter, Write};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;

use aiperf_core::plan::{BadRows, FileFormat, FilePlan, PhasePlan, Plan, PublicParts, PublicShape, Sampling};
use aiperf_files::Input;
use aiperf_tokens::Tokenizer;
use serde_json::{Map, Value, json};

use self::agents::Agents;
use self::columns::Chosen;
use self::rows::{Kind, Rows};
use self::talk::{LeftOut, Talk};
pub(super) use self::traces::{Trace, trace};
use super::detect::{CONTENT, named};
use super::inputs_json::Shown;
use super::{baseten, burst_gpt, lines};
use crate::error::DataError;

/// Bytes of text that are counted at a time.
const BATCH: usize = 4 << 20;

/// An entry of such a file: what stands under which name.
type Entry = Map<String, Value>;

/// A file whose rows are those of `multi_turn` now, and what to tell of it.
pub(super) struct Converted {
    pub(super) input: Input,
    pub(super) notes: Vec<String>,
    /// Entries that were looked at.
    pub(super) seen: u64,
    /// Those that could not be read, and why not the first.
    pub(super) broken: (u64, Option<String>),
}

/// The two forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    ShareGpt,
    Chat,
}

impl Form {
    const fn name(self) -> &'static str {
        match self {
            Self::ShareGpt => "sharegpt",
            Self::Chat => "chat",
        }
    }
}

/// Converts `input` if it is of one of these forms, as the user says it or the file shows it.
pub(super) fn convert(
    plan: &Plan,
    set: &FilePlan,
    input: Input,
    tokenizer: Option<&Arc<dyn Tokenizer>>,
    parts: Option<&dyn PublicParts>,
) -> Result<Result<Converted, Input>, DataError> {
    let named = match set.format {
        FileFormat::ShareGpt => Some(Form::ShareGpt),
        FileFormat::Chat => Some(Form::Chat),
        FileFormat::Detect => None,
        _ => return Ok(Err(input)),
    };
    let Some(kind) = rows::kind_of(&input, named.is_some())? else { return Ok(Err(input)) };
    let rows = Rows::new(&input, kind);
    let skip = set.bad_rows == BadRows::Skip;
    let (form, chosen, mut notes) = match (named, &set.public) {
        (Some(form), Some(public)) => {
            (form, Chosen::public(public.set, &rows.look(skip)?, &input)?, Vec::new())
        }
        (Some(Form::ShareGpt), None) => {
            let first = rows.look(skip)?;
            let chosen = Chosen::talks(&set.columns, &first, &input)?;
            let notes: Vec<String> = chosen.unread(&first, &input).into_iter().collect();
            (Form::ShareGpt, chosen, notes)
        }
        (Some(Form::Chat), None) => {
            let first = rows.look(skip)?;
            let (chosen, note) = Chosen::of(&set.columns, &first, &input)?;
            let notes = note.into_iter().chain(chosen.unread(&first, &input)).collect();
            (Form::Chat, chosen, notes)
        }
        // One document on one line is not to be read into memory for a look.
        (None, _) if kind == Kind::Lines && Shown::by(&input)?.is_inputs => return Ok(Err(input)),
        (None, _) => {
            // What is no row at all is left to the reader of rows, which says what is wrong.
            let first = rows.look(false);
            let Some(first) = (if kind == Kind::Lines { first.ok() } else { Some(first?) }) else {
                return Ok(Err(input));
            };
            match detect(set, &first, kind, &input)? {
                Some((form, chosen, note)) => {
                    let notes = std::iter::once(note).chain(chosen.unread(&first, &input)).collect();
                    (form, chosen, notes)
                }
                None => return Ok(Err(input)),
            }
        }
    };
    let traits = plan.endpoint.kind.traits();
    let tokenizer = tokenizer.filter(|_| traits.produces_tokens || form == Form::ShareGpt);
    if form == Form::ShareGpt && tokenizer.is_none() {
        return Err(DataError::NoTokenizerForLengths { path: input.name.clone() });
    }
    let mut writer = Writer {
        form,
        input: &input,
        unit: kind.unit(),
        // A length of the user's own stands in the place of those of replies that are shorter than any model's.
        takes_short: set.osl.is_some(),
        has_system: traits.has_system,
        many_turns: traits.many_turns,
        limits: traits.produces_tokens,
        tokenizer: tokenizer.map(|tokenizer| &**tokenizer),
        most: set.entries.filter(|_| !draws_share(set)).unwrap_or(usize::MAX),
        out: BufWriter::with_capacity(1 << 18, aiperf_files::spool(&input.name)?),
        batch: Vec::new(),
        bytes: 0,
        line: 0,
        kept: 0,
        seen: 0,
        left_out: Vec::new(),
        cut: 0,
        without_system: 0,
    };
    let agents = set.public.as_ref().filter(|public| matches!(public.set.shape, PublicShape::Agents(_)));
    let agents = agents.map(|public| Agents::new(plan, public.filter));
    if agents.as_ref().is_some_and(Agents::tears_sessions) && draws_share(set) {
        return Err(DataError::NoSessions {
            path: input.name.clone(),
            form: "a schedule of agents' requests",
        });
    }
    let mut reading = Reading { chosen: &chosen, form, skip, last: 0, broken: (0, None), agents };
    reading.each(&rows, &mut writer)?;
    if let (Some(public), Some(parts)) = (&set.public, parts) {
        let most = sessions(plan).filter(|_| !draws_share(set));
        for index in 1..parts.count() {
            writer.flush()?;
            if writer.is_full() || most.is_some_and(|most| writer.kept as u64 >= most) {
                notes.push(format!(
                    "{}: {index} of the {} files of {} are read, for the run sends no more",
                    input.name.display(),
                    parts.count(),
                    public.set.name
                ));
                break;
            }
            let part = aiperf_files::open(&parts.part(index).map_err(DataError::Part)?)?;
            let Some(kind) = rows::kind_of(&part, true)? else { continue };
            let rows = Rows::new(&part, kind);
            if set.entries != Some(0) {
                Chosen::public(public.set, &rows.look(skip)?, &part)?;
            }
            reading.each(&rows, &mut writer)?;
        }
    }
    let Reading { broken, agents, .. } = reading;
    let (file, told, seen) = writer.finish()?;
    notes.extend(told);
    let said = agents.and_then(|agents| agents.note());
    notes.extend(said.map(|said| format!("{}: {said}", input.name.display())));
    Ok(Ok(Converted { input: Input { file, name: input.name, is_spooled: true }, notes, seen, broken }))
}

/// Whether a part of the sessions is drawn later, so that all are needed before they are counted.
pub(super) fn draws_share(set: &FilePlan) -> bool {
    set.replay.session_share < 1.0
}

/// Most conversations that the run sends, where it goes through them in order and says how many.
fn sessions(plan: &Plan) -> Option<u64> {
    let all = plan.phases.iter().map(PhasePlan::most_sessions).sum::<Option<u64>>();
    all.filter(|_| plan.sampling == Sampling::Sequential && !plan.phases.is_empty())
}

/// Goes through the entries of one file after the other; their numbers run on.
struct Reading<'a> {
    chosen: &'a Chosen,
    form: Form,
    skip: bool,
    /// The last number so far.
    last: u64,
    broken: (u64, Option<String>),
    /// What reads sessions of agents.
    agents: Option<Agents>,
}

impl Reading<'_> {
    fn each(&mut self, rows: &Rows<'_>, writer: &mut Writer<'_>) -> Result<(), DataError> {
        let Self { chosen, form, skip, last, broken, agents } = self;
        let before = *last;
        rows.each(&chosen.columns(), &mut |number, entry| {
            *last = before + number;
            let talk = entry.and_then(|entry| {
                let output = chosen.output(&entry);
                let talk = match agents {
                    Some(agents) => agents.talk(entry),
                    None => chosen.talk(*form, entry, output.as_ref().copied().unwrap_or(None)),
                };
                // What is left out anyway is right as it is.
                match (talk, output) {
                    (Ok(_), Err(problem)) | (Err(LeftOut::BadCell(problem)), _) => {
                        Err(rows.error(number, problem))
                    }
                    (talk, _) => Ok(talk),
                }
            });
            let talk = match talk {
                Ok(talk) => talk,
                Err(error) if *skip => {
                    broken.0 += 1;
                    broken.1.get_or_insert_with(|| error.to_string());
                    Err(LeftOut::Broken)
                }
                Err(error) => return Err(error),
            };
            writer.take(*last, talk)?;
            Ok(if writer.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
    }
}

/// Which of the forms the first entry shows, and how it shows.
fn detect(
    set: &FilePlan,
    first: &Entry,
    kind: Kind,
    input: &Input,
) -> Result<Option<(Form, Chosen, String)>, DataError> {
    let file = input.name.display();
    let says = |form: Form, why: &str| {
        format!("{file}: read as {}, for {why}; --custom-dataset-type says otherwise", form.name())
    };
    let talk = first.get("conversations").and_then(Value::as_array).and_then(|list| list.first());
    if set.columns.is_empty() && talk.is_some_and(|message| message.get("value").is_some()) {
        let chosen = Chosen::talks(&set.columns, first, input)?;
        let why = format!("there is a list of 'conversations' with 'value' in {} 1", kind.unit());
        return Ok(Some((Form::ShareGpt, chosen, says(Form::ShareGpt, &why))));
    }
    // Traces are none of these, and have readers of their own.
    if matches!(kind, Kind::Csv(_))
        && lines::first(input)?.is_some_and(|(_, header)| burst_gpt::Columns::are_in(&header))
    {
        return Ok(None);
    }
    if baseten::NEEDED.iter().all(|name| first.contains_key(*name)) {
        return Ok(None);
    }
    // Lines with a prompt or messages are bodies of requests as often as not.
    if kind == Kind::Lines && set.columns.is_empty() && !first.contains_key("prompt") {
        return Ok(None);
    }
    let own = ["turns", "input_length", "text_input", "payload"];
    let is_own = || {
        let says = first.get("type").and_then(Value::as_str).is_some_and(|of| named(of, None).is_some());
        says || CONTENT.iter().chain(&own).any(|key| first.contains_key(*key))
    };
    if kind == Kind::Lines && set.columns.is_empty() && is_own() {
        return Ok(None);
    }
    let (chosen, note) = Chosen::of(&set.columns, first, input)?;
    let note = note.unwrap_or_else(|| match kind {
        Kind::Lines if !set.columns.is_empty() => says(Form::Chat, "its columns are named"),
        _ => says(Form::Chat, &format!("it is {}", kind.words())),
    });
    Ok(Some((Form::Chat, chosen, note)))
}

/// Writes what is to be sent, in the order of the file.
struct Writer<'a> {
    form: Form,
    input: &'a Input,
    unit: &'static str,
    takes_short: bool,
    has_system: bool,
    many_turns: bool,
    /// Requests have an output length.
    limits: bool,
    tokenizer: Option<&'a dyn Tokenizer>,
    /// Conversations wanted.
    most: usize,
    out: BufWriter<std::fs::File>,
    batch: Vec<(u64, Talk)>,
    bytes: usize,
    /// Lines written.
    line: u64,
    kept: usize,
    seen: u64,
    /// Why entries were left out, how often, and the first of them.
    left_out: Vec<(LeftOut, u64, u64)>,
    /// Conversations of which one turn is sent.
    cut: u64,
    without_system: u64,
}

impl Writer<'_> {
    fn is_full(&self) -> bool {
        self.kept >= self.most
    }

    fn take(&mut self, number: u64, talk: Result<Talk, LeftOut>) -> Result<(), DataError> {
        self.seen += 1;
        match talk {
            Ok(mut talk) => {
                if !self.many_turns && talk.turns.len() > 1 && self.form == Form::Chat {
                    talk.turns.truncate(1);
                    self.cut += 1;
                }
                if !self.has_system && talk.system.take().is_some() {
                    self.without_system += 1;
                }
                self.bytes += talk.bytes();
                self.batch.push((number, talk));
                // The last ones wanted are in this batch.
                if self.bytes >= BATCH || self.kept + self.batch.len() >= self.most {
                    self.flush()?;
                }
            }
            Err(why) => self.leave_out(number, why),
        }
        Ok(())
    }

    fn leave_out(&mut self, number: u64, why: LeftOut) {
        match self.left_out.iter_mut().find(|(known, ..)| known.is_like(&why)) {
            Some((_, count, _)) => *count += 1,
            None => self.left_out.push((why, 1, number)),
        }
    }

    /// Counts and writes the batch.
    fn flush(&mut self) -> Result<(), DataError> {
        let mut batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        if let Some(tokenizer) = self.tokenizer {
            count(&mut batch, tokenizer, self.form == Form::ShareGpt);
        }
        for (number, mut talk) in batch {
            if self.is_full() {
                break;
            }
            if self.form == Form::ShareGpt {
                if let Err(why) = talk.check_lengths(self.takes_short) {
                    self.leave_out(number, why);
                    continue;
                }
                if !self.many_turns && talk.turns.len() > 1 {
                    talk.turns.truncate(1);
                    self.cut += 1;
                }
            }
            self.write(number, talk)?;
        }
        Ok(())
    }

    fn write(&mut self, number: u64, talk: Talk) -> Result<(), DataError> {
        if !talk.rows.is_empty() {
            return self.write_rows(number, &talk.rows);
        }
        let mut turns = Vec::with_capacity(talk.turns.len() + 1);
        if let Some(system) = talk.system {
            turns.push(json!({"role": "system", "text": system}));
        }
        for turn in talk.turns {
            let mut row = json!({"text": turn.text});
            for (kind, content) in turn.media {
                let of_kind = &mut row[kind.names()];
                match of_kind.as_array_mut() {
                    Some(list) => list.push(content.into()),
                    None => *of_kind = json!([content]),
                }
            }
            if let Some(tokens) = turn.output.filter(|tokens| *tokens > 0 && self.limits) {
                row["output_length"] = tokens.into();
            }
            turns.push(row);
        }
        self.write_rows(number, &[json!({"turns": turns}).to_string()])
    }

    /// Writes the rows of an entry. Errors name the line, which is the number of the entry where each has one row.
    fn write_rows(&mut self, number: u64, rows: &[String]) -> Result<(), DataError> {
        let failed = |error| aiperf_files::InputError::spool(&self.input.name, error);
        for _ in self.line + 1..number {
            self.out.write_all(b"\n").map_err(failed)?;
        }
        for row in rows {
            self.out.write_all(row.as_bytes()).map_err(failed)?;
            self.out.write_all(b"\n").map_err(failed)?;
        }
        self.line = (self.line.max(number - 1)) + rows.len() as u64;
        self.kept += 1;
        Ok(())
    }

    /// The file, what to tell of it, and how many entries were looked at.
    fn finish(mut self) -> Result<(std::fs::File, Vec<String>, u64), DataError> {
        self.flush()?;
        let (file, unit) = (self.input.name.display().to_string(), self.unit);
        if self.seen == 0 {
            return Err(DataError::EmptyFile { path: self.input.name.clone() });
        }
        self.left_out.sort_by_key(|(_, count, _)| std::cmp::Reverse(*count));
        let reasons: Vec<String> = self
            .left_out
            .iter()
            .map(|(why, count, first)| match count {
                1 => format!("1 {why} ({unit} {first})"),
                _ => format!("{count} {why} (the first is {unit} {first})"),
            })
            .collect();
        if self.kept == 0 {
            let reasons = reasons.join("; ");
            return Err(DataError::NothingToSend {
                path: self.input.name.clone(),
                seen: self.seen,
                unit,
                reasons,
            });
        }
        let mut notes = Vec::new();
        if !reasons.is_empty() {
            let all: u64 = self.left_out.iter().map(|(_, count, _)| count).sum();
            let were = if all == 1 { "is" } else { "are" };
            notes.push(format!(
                "{file}: {all} of {} {unit}s {were} left out: {}",
                self.seen,
                reasons.join("; ")
            ));
        }
        if self.cut > 0 {
            notes.push(format!(
                "{file}: of {} conversations the first turn alone is sent, for requests of this endpoint type have one",
                self.cut
            ));
        }
        if self.without_system > 0 {
            notes.push(format!(
                "{file}: the system messages of {} conversations are left out, for this endpoint type has none",
                self.without_system
            ));
        }
        let out = self.out.into_inner();
        let file = out.map_err(|e| aiperf_files::InputError::spool(&self.input.name, e.into_error()))?;
        Ok((file, notes, self.seen))
    }
}

/// Counts replies, and prompts where they are wanted, on all processors: vocabularies of the hub take a second for some megabytes.
fn count(batch: &mut [(u64, Talk)], tokenizer: &dyn Tokenizer, prompts: bool) {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let part = batch.len().div_ceil(threads).max(8);
    thread::scope(|scope| {
        for part in batch.chunks_mut(part) {
            scope.spawn(move || part.iter_mut().for_each(|(_, talk)| talk.count(tokenizer, prompts)));
        }
    });
}
