//! A JSONL file whose lines hold prompts: self-contained requests (`single_turn`), or turns of conversations (`multi_turn`).
//!
//! One streaming pass when it is opened checks every row and keeps its place; a row is read and parsed again when it is sent.
//! So a file of 10 GB costs 8 bytes a row, and nothing is found to be broken in the middle of a run unless the file is changed
//! under it, which is an error that names the row.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use aiperf_core::conversation::{ContextMode, Conversation, Marker, Turn};
use aiperf_core::plan::{EndpointKind, FilePlan, LengthPlan, Plan};
use aiperf_core::text::for_terminal;
use aiperf_rng::{Key, Stream};
use serde_json::{Map, Value};

use super::index::{Grouper, Groups, MOST_TURNS, Rows};
use super::lines;
use super::ranked::Fitness;
use super::record::{Form, Record};
use super::row::{Placed, Row};
use super::starts::Starts;
use crate::OpenContext;
use crate::error::{DataError, RowProblem};
use crate::markers::Marking;
use crate::models::Models;
use crate::spread::draw_length;
use crate::workload::{Visit, Workload, WorkloadFacts};

/// Most unknown keys named.
const MOST_NAMED: usize = 8;

/// Conversations of a checked file.
#[derive(Debug)]
pub(crate) struct RecordFile {
    form: Form,
    path: PathBuf,
    file: Mutex<File>,
    rows: Rows,
    groups: Groups,
    /// Turns of conversations, where rows may hold several.
    turns: Option<Turns>,
    models: Models,
    osl: Option<LengthPlan>,
    outputs: Stream,
    notes: Vec<String>,
    system: Option<String>,
    marking: Option<Marking>,
    api: EndpointKind,
    /// Fields laid over every request.
    laid_over: Map<String, Value>,
    /// Some row's fields stand in the place of its messages.
    replaces_messages: bool,
    /// When conversations begin; none if the rows' timestamps are not to be listened to.
    begins: Starts,
    is_timed: bool,
    ignore_timestamps: bool,
}

/// How many turns conversations have, where that is not how many rows they have.
#[derive(Debug)]
struct Turns {
    /// Turns of all conversations before each; one more at the end.
    before: Vec<u64>,
    /// Whether the first turn of the conversation is its system message.
    has_instruction: Vec<bool>,
    most: usize,
}

impl Turns {
    /// Of the conversations of `groups`, from what was seen of each row. `Err` with the conversation that has too many.
    fn of(groups: &Groups, seen: &[SeenRow], takes_system: bool) -> Result<Self, usize> {
        let mut turns = Self { before: vec![0], has_instruction: Vec::new(), most: 0 };
        for index in 0..groups.len() {
            let (_, rows, _) = groups.conversation(index);
            let all: usize = rows.iter().map(|row| usize::from(seen[*row].turns)).sum();
            let first = &seen[rows[0]];
            // Two system turns side by side are told in their order, as AIPerf tells them.
            let next_is_system = match (first.turns, rows.get(1)) {
                (1, Some(next)) => seen[*next].is_system[0],
                _ => first.is_system[1],
            };
            let has_instruction = takes_system && first.is_instruction && all > 1 && !next_is_system;
            let own = all - usize::from(has_instruction);
            if own > MOST_TURNS {
                return Err(index);
            }
            turns.before.push(turns.before[index] + own as u64);
            turns.has_instruction.push(has_instruction);
            turns.most = turns.most.max(own);
        }
        Ok(turns)
    }

    fn count(&self, index: usize) -> usize {
        (self.before[index + 1] - self.before[index]) as usize
    }
}

/// What the pass keeps of a row that may hold several turns.
#[derive(Debug, Clone, Copy)]
struct SeenRow {
    turns: u16,
    is_instruction: bool,
    /// Of its first two turns.
    is_system: [bool; 2],
}

impl RecordFile {
    /// Checks and indexes the file.
    pub(crate) fn open(
        plan: &Plan,
        set: &FilePlan,
        form: Form,
        context: &OpenContext<'_>,
    ) -> Result<Self, DataError> {
        let models = Models::new(plan)?;
        if set.entries == Some(0) {
            return Err(DataError::NoEntries);
        }
        let path = set.path.clone();
        let file = lines::open(&path)?;
        let mut scan = Scan::new(&path, form, set.ignore_timestamps, plan.endpoint.kind);
        scan.whole(&file)?;
        let told = scan.untimed_note().into_iter().chain(scan.fitness.notes(&path));
        let told: Vec<String> = told.collect();
        let Scan { rows, grouper, unknown, more_unknown, replaces_messages, begins, is_timed, seen, .. } =
            scan;
        let groups = grouper.finish(set.entries);
        let turns = match form {
            Form::SingleTurn => None,
            Form::MultiTurn => {
                let takes_system = plan.endpoint.kind.traits().has_system;
                Some(Turns::of(&groups, &seen, takes_system).map_err(|index| {
                    let (_, of, _) = groups.conversation(index);
                    let line = rows.line(of[0]);
                    let session = format!("of line {line}");
                    let problem = RowProblem::TooManyTurns { session, max: MOST_TURNS };
                    lines::placed_error(&path, line, (None, problem))
                })?)
            }
        };
        Ok(Self {
            form,
            turns,
            file: Mutex::new(file),
            system: plan.system_prompt.clone(),
            marking: plan.cache_bust.as_ref().map(|plan| Marking::new(plan, context.run_id)),
            rows,
            groups,
            models,
            osl: set.osl.clone(),
            outputs: Key::new(plan.seed).purpose("dataset.turn.max_tokens"),
            notes: unknown_note(form, &unknown, more_unknown, &path).into_iter().chain(told).collect(),
            path,
            api: plan.endpoint.kind,
            laid_over: plan.endpoint.extra.clone(),
            replaces_messages,
            begins,
            is_timed,
            ignore_timestamps: set.ignore_timestamps,
        })
    }

    /// The same, with something to be told before the rest.
    #[must_use]
    pub(crate) fn told(mut self, note: Option<String>) -> Self {
        self.notes.splice(..0, note);
        self
    }

    fn record(&self, row: usize) -> Result<Record, DataError> {
        let read = |source| DataError::Read { path: self.path.clone(), source };
        let bytes = self.rows.bytes(row);
        let mut line = vec![0; (bytes.end - bytes.start) as usize];
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(bytes.start)).map_err(read)?;
            file.read_exact(&mut line).map_err(read)?;
        }
        self.form
            .parse(line.trim_ascii())
            .map_err(|placed| lines::placed_error(&self.path, self.rows.line(row), placed))
    }

    fn turn(&self, row: Row, number: u64) -> Turn {
        let max_tokens = row
            .output_length
            .or_else(|| self.osl.as_ref().map(|osl| draw_length(osl, &mut self.outputs.at(number))));
        Turn {
            model: self.models.of_turn(number).to_owned(),
            role: row.role,
            texts: row.texts,
            groups: row.groups,
            max_tokens,
            delay_ns: row.delay_ns,
            at_ns: row.at_ns.filter(|_| !self.ignore_timestamps),
            extra: row.extra,
            length: None,
            ..Turn::default()
        }
    }

    /// Marks the first text of a turn, unless the marker belongs on a system text that fields bring.
    fn mark(&self, turn: &mut Turn, marker: &Marker) {
        let has_system = self.api.has_system_in(&[&self.laid_over, &turn.extra]);
        if !(marker.target.wants_system() && has_system)
            && let Some(text) = turn.texts.first_mut()
        {
            *text = marker.put(text);
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
        for row in rows {
            let record = self.record(row)?;
            id = id.or(record.session_id);
            for row in record.turns {
                if std::mem::take(&mut instructs) {
                    let own = row.texts.join("\n");
                    // One message, for many servers take no second.
                    system =
                        Some(system.map_or_else(|| own.clone(), |given| [&given, "\n\n", &own].concat()));
                } else {
                    turns.push(self.turn(row, number));
                    number += 1;
                }
            }
        }
        let id = id.unwrap_or_else(|| format!("session_{unnamed:06}"));
        let marker = self.marking.as_ref().and_then(|marking| marking.marker(visit, &id));
        if let Some(marker) = &marker {
            match &mut system {
                Some(system) if marker.target.wants_system() => *system = marker.put(system),
                _ => {
                    // A turn that goes on has the first one's marker before it.
                    let requests = if self.form.context() == ContextMode::History { 1 } else { turns.len() };
                    turns.iter_mut().take(requests).for_each(|turn| self.mark(turn, marker));
                }
            }
        }
        Ok(Conversation { id, context: self.form.context(), system, user_context: None, turns, marker })
    }

    fn is_marked(&self) -> bool {
        self.marking.is_some()
    }

    fn turn_count(&self, index: usize) -> usize {
        self.turns.as_ref().map_or_else(|| self.groups.rows_of(index), |turns| turns.count(index))
    }

    fn start_ns(&self, index: usize) -> Option<u64> {
        self.begins.get(index).filter(|_| index < self.len())
    }

    fn is_timed(&self) -> bool {
        self.is_timed
    }

    fn replaces_messages(&self) -> bool {
        self.replaces_messages
    }

    fn describe(&self) -> WorkloadFacts {
        WorkloadFacts {
            kind: self.form.kind(),
            entries: self.len(),
            turns: self.turns.as_ref().map_or(self.groups.rows() as u64, |turns| turns.before[self.len()]),
            most_turns: self.turns.as_ref().map_or_else(|| self.groups.most_rows(), |turns| turns.most),
            notes: self.notes.clone(),
        }
    }
}

/// The pass over the file when it is opened.
struct Scan<'a> {
    path: &'a Path,
    form: Form,
    ignore_timestamps: bool,
    api: EndpointKind,
    fitness: Fitness,
    rows: Rows,
    grouper: Grouper,
    /// Unknown keys and the line of their first appearance.
    unknown: Vec<(String, u64)>,
    /// Unknown keys that were not kept.
    more_unknown: bool,
    replaces_messages: bool,
    begins: Starts,
    /// The first row has a timestamp.
    is_timed: bool,
    /// Line of the first timestamp.
    first_timed: Option<u64>,
    /// Of each row, where rows may hold several turns.
    seen: Vec<SeenRow>,
}

impl<'a> Scan<'a> {
    fn new(path: &'a Path, form: Form, ignore_timestamps: bool, api: EndpointKind) -> Self {
        Self {
            path,
            form,
            ignore_timestamps,
            api,
            fitness: Fitness::new(api),
            rows: Rows::default(),
            grouper: Grouper::default(),
            unknown: Vec::new(),
            more_unknown: false,
            replaces_messages: false,
            begins: Starts::default(),
            is_timed: false,
            first_timed: None,
            seen: Vec::new(),
        }
    }

    fn whole(&mut self, file: &File) -> Result<(), DataError> {
        let path = self.path;
        lines::each(path, file, |line| {
            self.line(line.number, line.row()).map_err(|placed| line.error(path, placed))?;
            self.rows.push(line.number, line.start, line.end);
            Ok(())
        })?;
        if self.rows.len() == 0 {
            return Err(DataError::EmptyFile { path: self.path.to_owned() });
        }
        Ok(())
    }

    fn line(&mut self, number: u64, row: &[u8]) -> Result<(), Placed> {
        let record = self.form.parse(row)?;
        if record.turns.len() > MOST_TURNS {
            let session = record.session_id.unwrap_or_else(|| format!("of line {number}"));
            return Err((None, RowProblem::TooManyTurns { session, max: MOST_TURNS }));
        }
        for row in &record.turns {
            self.fitness.check(row, number).map_err(|problem| (None, problem))?;
            self.replaces_messages |= self.api.is_replaced_by(&row.extra);
        }
        if self.form == Form::MultiTurn {
            self.seen.push(SeenRow {
                turns: u16::try_from(record.turns.len()).unwrap_or(u16::MAX),
                is_instruction: record.turns[0].is_instruction(),
                is_system: [0, 1].map(|i| record.turns.get(i).is_some_and(Row::is_system)),
            });
        }
        // What a conversation opens with is no turn of it.
        let opens = record.turns.iter().find(|row| !row.is_instruction()).unwrap_or(&record.turns[0]);
        let at_ns = opens.at_ns.filter(|_| !self.ignore_timestamps);
        if at_ns.is_some() {
            // AIPerf takes a file whose first row has a timestamp for a schedule, and 0 is one.
            self.is_timed |= self.rows.len() == 0;
            self.first_timed.get_or_insert(number);
        }
        for key in record.unknown {
            if self.unknown.iter().all(|(known, _)| *known != key) {
                if self.unknown.len() < MOST_NAMED {
                    self.unknown.push((key, number));
                } else {
                    self.more_unknown = true;
                }
            }
        }
        let before = self.grouper.len();
        self.grouper.push(record.session_id).map_err(|problem| (None, problem))?;
        let goes_on = self.grouper.len() == before;
        if !goes_on {
            self.begins.push(at_ns);
        }
        let traits = self.api.traits();
        if self.form == Form::MultiTurn && !traits.many_turns && (goes_on || record.turns.len() > 1) {
            return Err((None, RowProblem::ManyTurns { api: traits.name }));
        }
        Ok(())
    }

    /// Timestamps in a file that is no schedule are most likely a mistake.
    fn untimed_note(&self) -> Option<String> {
        let line = self.first_timed.filter(|_| !self.is_timed)?;
        let file = self.path.display();
        Some(format!(
            "{file}: line {line} has a timestamp and the first row has none, so the file is no schedule of its own"
        ))
    }
}

/// One line for all keys that no field has.
fn unknown_note(form: Form, unknown: &[(String, u64)], more: bool, path: &Path) -> Option<String> {
    if unknown.is_empty() {
        return None;
    }
    let names: Vec<String> =
        unknown.iter().map(|(key, line)| format!("'{}' (line {line})", for_terminal(key, 40))).collect();
    let more = if more { " and more" } else { "" };
    let file = path.display();
    Some(format!(
        "{file}: keys that {} rows do not have are ignored: {}{more}",
        form.kind().name(),
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests;
