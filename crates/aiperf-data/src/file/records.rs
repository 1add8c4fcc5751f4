//! A JSONL file whose lines hold prompts: self-contained requests (`single_turn`), or turns of conversations (`multi_turn`).
//!
//! One streaming pass when it is opened checks every row and keeps its place; a row is read and parsed again when it is sent.
//! So a file of 10 GB costs 8 bytes a row, and nothing is found to be broken in the middle of a run unless the file is changed
//! under it, which is an error that names the row.

mod gathered;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aiperf_core::conversation::{ContextMode, Conversation, Marker, Turn, TurnLength};
use aiperf_core::plan::{EndpointKind, FilePlan, LengthPlan, Pacing, PhasePlan, Plan, TimesPlan, TurnTimes};
use aiperf_files::Input;
use aiperf_rng::{Key, Stream};
use aiperf_tokens::Tokenizer;
use serde_json::{Map, Value, json};

use self::gathered::Gathered;
use super::baseten;
use super::by_start::ByStart;
use super::grown::{Grown, Part};
use super::index::{Groups, MOST_TURNS};
use super::media::{Files, Shown};
use super::mooncake::{Histories, History};
use super::random_pool::{Pick, Pools};
use super::raw_payload::{is_jsonl, none_twice, nothing_in};
use super::record::{Form, Mode, Record};
use super::recorded::Recorded;
use super::row::Row;
use super::sample::Sample;
use super::scan::{LengthsSeen, Scan, SeenRow};
use super::shaping::{Pauses, Shaping, Window};
use super::source::Source;
use super::starts::Starts;
use super::timeline::Timeline;
use super::told::{self, LongPause};
use crate::OpenContext;
use crate::blocks::{BlockTexts, Blocks};
use crate::error::{DataError, RowProblem};
use crate::markers::Marking;
use crate::models::Models;
use crate::spread::draw_length;
use crate::workload::{RowFacts, Visit, Workload, WorkloadFacts};

/// Conversations of a checked file.
#[derive(Debug)]
pub(crate) struct RecordFile {
    form: Form,
    /// Its rows were made of another file's entries.
    is_converted: bool,
    path: PathBuf,
    source: Source,
    groups: Groups,
    /// What conversations are drawn from.
    pools: Option<Pools>,
    /// The first time of rows that are put in the order of their times.
    zero_ns: u64,
    /// Turns of conversations, where rows may hold several.
    turns: Option<Turns>,
    /// Makes the texts of rows that give a length.
    texts: Option<Lengths>,
    /// How the rows of each conversation of a trace go together.
    histories: Vec<History>,
    /// The chat that each conversation begins with, in a trace of chats: their rows are looked at when they are sent.
    roots: Vec<i64>,
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
    /// What turns of each conversation are sent with, as far as some row says it.
    modes: Vec<Mode>,
    shaping: Shaping,
    /// Rows, in order, that follow one of their session which is left out.
    followers: Vec<usize>,
    timeline: Timeline,
    /// Of each row its number in its session, where each is a session of its own.
    ordinals: Vec<u32>,
    facts: RowFacts,
    files: Files,
    /// Some row says when it was sent, or how long before it nothing was.
    waits: bool,
    /// Images that a session has shown keep their ids alone.
    strips_images: bool,
}

/// What texts of a length are made with.
#[derive(Debug)]
struct Lengths {
    texts: BlockTexts,
    /// Keeps the ids of this file apart from those of others.
    scope: String,
    /// Tokens of a block.
    block: usize,
    /// Lengths are those of texts, not of what a chat template makes of them.
    is_bare: bool,
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

/// The files of a folder that a form has: of `random_pool` all of them, of others those below it called `.jsonl`, packed or not; by name.
pub(super) fn files_below(folder: &Path, form: Form) -> Result<Vec<PathBuf>, DataError> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let read = |source| DataError::Read { path: folder.clone(), source };
        for entry in std::fs::read_dir(&folder).map_err(read)? {
            let path = entry.map_err(read)?.path();
            if form == Form::RandomPool {
                found.extend(path.is_file().then_some(path));
            } else if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if is_jsonl(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    none_twice(&found)?;
    match (found.is_empty(), form) {
        (true, Form::RandomPool) => Err(DataError::EmptyFile { path: folder.to_owned() }),
        (true, _) => Err(nothing_in(folder)),
        (false, _) => Ok(found),
    }
}

/// The first `most` rows in the order of their times; rows of one time keep theirs.
fn by_time(times: &[u64], most: Option<usize>) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..times.len() as u32).collect();
    rows.sort_by_key(|row| times[*row as usize]);
    rows.truncate(most.unwrap_or(usize::MAX));
    rows
}

impl RecordFile {
    /// Checks and indexes the file, or the files of a folder.
    pub(crate) fn open(
        plan: &Plan,
        set: &FilePlan,
        input: Option<Input>,
        form: Form,
        tokenizer: Option<Arc<dyn Tokenizer>>,
        context: &OpenContext<'_>,
    ) -> Result<Self, DataError> {
        let models = Models::new(plan)?;
        if set.entries == Some(0) {
            return Err(DataError::NoEntries);
        }
        check_shape(set, form)?;
        check_extra(plan, form, &set.path)?;
        let marking = plan.cache_bust.as_ref().map(|plan| Marking::new(plan, context.run_id));
        let is_folder = input.is_none();
        let path = input.as_ref().map_or_else(|| set.path.clone(), |input| input.name.clone());
        let paths = if is_folder { files_below(&path, form)? } else { Vec::new() };
        let begin = |path: &Path| Scan::new(path, form, set, plan);
        let (mut source, mut gathered) = (Source::default(), Gathered::default());
        let (mut scan, mut sample) = (begin(&path), Sample::new(set, plan.seed));
        let (mut nothing, mut waits) = (None, false);
        let mut input = input;
        while source.len() == 0 {
            let opened = paths.iter().map(|path| aiperf_files::open(path));
            for given in input.take().into_iter().map(Ok).chain(opened) {
                let given = given?;
                let mut of_file = begin(&given.name);
                of_file.sample = sample.take();
                of_file.sample.iter_mut().for_each(Sample::next_file);
                of_file.learn(&given, plan.seed)?;
                of_file.whole(&given)?;
                sample = of_file.sample.take();
                gathered.add(&mut of_file, &given.name)?;
                waits |= of_file.has_times;
                let rows = std::mem::take(&mut of_file.rows);
                if rows.len() > 0 {
                    let stays_open = !is_folder || given.is_spooled;
                    source.push(given.name, stays_open.then_some(given.file), rows);
                    scan = of_file;
                } else {
                    // An empty file of a folder is none.
                    let why = of_file.nothing_left();
                    let is_empty = matches!(why, DataError::EmptyFile { .. });
                    nothing = nothing.or(Some(why).filter(|_| !is_empty));
                    input = (!is_folder).then_some(given);
                }
            }
            if source.len() == 0 {
                if !sample.as_mut().is_some_and(Sample::widen) {
                    return Err(nothing.unwrap_or(DataError::EmptyFile { path }));
                }
                gathered = Gathered::default();
            }
        }
        let gathered = gathered.checked(plan, set)?;
        let histories = scan.histories();
        let (mut roots, mut chat_notes, mut conversations) = (Vec::new(), Vec::new(), scan.grouper.len());
        let mut chats = None;
        if matches!(form, Form::Bailian { .. }) && set.replay.turn_times != TurnTimes::Alone {
            let of_root = std::mem::take(&mut scan.links)
                .finish(set.entries)
                .map_err(|(row, problem)| source.error(row, (None, problem)))?;
            chat_notes = of_root.notes(|row| source.line(row));
            conversations = of_root.groups.len();
            scan.begins = if set.ignore_timestamps { Starts::default() } else { of_root.begins };
            scan.replaces_messages =
                of_root.groups.most_rows() > 1 && plan.endpoint.kind.messages_field().is_some();
            roots = of_root.roots;
            chats = Some(of_root.groups);
        }
        let (mut pools, mut zero_ns) = (None, 0);
        if form == Form::RandomPool {
            let draws = Key::new(plan.seed).purpose("dataset.pool.pick");
            let drawn = Pools::new(&source, &gathered.texts, set.batch, draws);
            if let Some((row, problem)) = drawn.unpaired(set.draws, &gathered.inputs, &source) {
                return Err(source.error(row, (None, problem)));
            }
            chat_notes.push(drawn.note(set.draws));
            (pools, conversations) = (Some(drawn), set.draws);
            chats = Some(Groups::Single { len: conversations });
        } else if form == Form::SageMaker {
            let rows = by_time(&gathered.times, set.entries);
            zero_ns = gathered.earliest_ns.unwrap_or(0);
            scan.begins = Starts::default();
            for row in rows.iter().filter(|_| !set.ignore_timestamps) {
                scan.begins.push(Some(gathered.times[*row as usize] - zero_ns));
            }
            conversations = rows.len();
            chats = Some(Groups::Sorted { rows });
        } else if let Form::Baseten(_) = form {
            zero_ns = gathered.earliest_ns.unwrap_or(0);
            let time = |row: usize| gathered.times[row] - zero_ns;
            let sessions = std::mem::take(&mut scan.grouper).finish(None);
            let is_alone = set.replay.turn_times == TurnTimes::Alone;
            let window = Window::of(plan);
            let sorted = ByStart::of(&sessions, time, |ns| window.holds(ns), is_alone, set.entries);
            if sorted.groups.len() == 0 {
                return Err(DataError::AllOutside { path, rows: source.len() });
            }
            let rows = (0..sorted.groups.len()).flat_map(|at| sorted.groups.conversation(at).1);
            scan.sorted(rows.map(time), sorted.outside);
            scan.begins = if set.ignore_timestamps { Starts::default() } else { sorted.begins };
            scan.ordinals = sorted.ordinals;
            conversations = sorted.groups.len();
            chats = Some(sorted.groups);
        }
        let timeline = scan.timeline(conversations);
        let mut notes = scan.notes();
        if is_folder {
            let (cut_silences, cut_silence_ns) = timeline.cut();
            let cut = RowFacts { cut_silences, cut_silence_ns, ..RowFacts::default() };
            notes = gathered.notes;
            notes.extend(told::notes(&cut, LongPause::default(), &path));
            scan.facts = RowFacts { cut_silences, cut_silence_ns, ..gathered.facts };
            scan.replaces_messages |= gathered.replaces_messages;
        }
        notes.extend(chat_notes.into_iter().map(|note| format!("{}: {note}", path.display())));
        let Scan { grouper, replaces_messages, begins, is_timed, seen, lengths, .. } = scan;
        let (modes, shaping, ordinals, facts) = (scan.modes, scan.shaping, scan.ordinals, scan.facts);
        let followers = scan.followers;
        let texts = lengths
            .map(|LengthsSeen { block, scope }| -> Result<Lengths, DataError> {
                let tokenizer = tokenizer.ok_or(DataError::NoTokenizerForTrace)?;
                let texts = BlockTexts::new(set.corpus, plan.seed, tokenizer);
                Ok(Lengths { texts, scope, block, is_bare: !plan.chat_template })
            })
            .transpose()?;
        let groups = chats.unwrap_or_else(|| grouper.finish(set.entries));
        let turns = if form == Form::MultiTurn {
            let takes_system = plan.endpoint.kind.traits().has_system;
            let turns = Turns::of(&groups, &seen, takes_system).map_err(|index| {
                let (_, of, _) = groups.conversation(index);
                let session = format!("of line {}", source.line(of[0]));
                source.error(of[0], (None, RowProblem::TooManyTurns { session, max: MOST_TURNS }))
            })?;
            Some(turns)
        } else {
            None
        };
        let mut made = Self {
            form,
            is_converted: false,
            turns,
            texts,
            histories,
            roots,
            source,
            pools,
            zero_ns,
            system: plan.system_prompt.clone(),
            marking,
            groups,
            models,
            osl: set.osl.clone(),
            outputs: Key::new(plan.seed).purpose("dataset.turn.max_tokens"),
            notes,
            path,
            api: plan.endpoint.kind,
            laid_over: plan.endpoint.extra.clone(),
            replaces_messages,
            begins,
            is_timed,
            ignore_timestamps: set.ignore_timestamps,
            modes,
            shaping,
            followers,
            timeline,
            ordinals,
            facts,
            files: Files::of(&set.path),
            waits,
            strips_images: set.strips_images,
        };
        made.notes.extend(made.unused_times(plan));
        Ok(made)
    }

    /// The same, with something to be told before the rest.
    #[must_use]
    pub(crate) fn told(mut self, notes: Vec<String>) -> Self {
        self.notes.splice(..0, notes);
        self
    }

    /// The same, made of so many entries, of which some could not be read.
    #[must_use]
    pub(crate) fn of_entries(mut self, read: u64, (broken, first): (u64, Option<String>)) -> Self {
        self.is_converted = true;
        self.facts.read = read;
        self.facts.broken += broken;
        self.facts.first_broken = first.or(self.facts.first_broken);
        self
    }

    /// Times of a trace that no phase of `plan` is sent at.
    fn unused_times(&self, plan: &Plan) -> Option<String> {
        let is_schedule = |phase: &PhasePlan| matches!(phase.pacing, Pacing::FixedSchedule { .. });
        let are_times = self.form.block().is_some() || self.form.is_verbatim_trace();
        let are_unused = are_times && self.is_timed && !plan.phases.iter().any(is_schedule);
        are_unused.then(|| {
            format!(
                "{}: the rows have timestamps, and the load options say when they are sent; --fixed-schedule sends them at their times",
                self.path.display()
            )
        })
    }

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

    fn turn(&self, mut row: Row, number: u64) -> Result<Turn, DataError> {
        let max_tokens = row
            .output_length
            .or_else(|| self.osl.as_ref().map(|osl| draw_length(osl, &mut self.outputs.at(number))));
        if let Form::Baseten(_) = self.form {
            baseten::force(&mut row.extra, max_tokens);
        }
        let (mut texts, mut length) = (row.texts, None);
        if let (Some(made), Some(lengths)) = (&row.made, &self.texts) {
            texts = vec![lengths.texts.text(&lengths.scope, number, made.blocks(lengths.block))?];
            let tokens = made.tokens as u64;
            // A marker, or a field in the place of messages, makes it longer.
            let is_known = lengths.is_bare && self.marking.is_none() && !self.api.is_replaced_by(&row.extra);
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

    /// Puts the messages of a row that holds its history into the row, for an API that has messages.
    fn tell_apart(&self, row: &mut Row, number: u64, grown: &mut Grown) -> Result<(), DataError> {
        let (Some(made), Some(lengths), Some(field)) = (&row.made, &self.texts, self.api.messages_field())
        else {
            return Ok(());
        };
        let parts = grown.next(made, row.output_length, lengths.block);
        if parts.len() < 2 {
            return Ok(());
        }
        let message = |part: Part| -> Result<Value, DataError> {
            let blocks = Blocks { tokens: part.tokens, size: lengths.block, ids: &made.ids[part.ids] };
            let text = lengths.texts.text(&lengths.scope, number, blocks)?;
            Ok(json!({"role": if part.is_reply { "assistant" } else { "user" }, "content": text}))
        };
        let messages = parts.into_iter().map(message).collect::<Result<Vec<_>, _>>()?;
        row.made = None;
        row.extra.insert(field.to_owned(), Value::Array(messages));
        Ok(())
    }

    /// The system message, where messages of the user's own stand in the place of ours and it is one of them.
    fn with_system(&self, row: &mut Row, system: Option<&str>) {
        let (Some(system), EndpointKind::Chat) = (system, self.api) else { return };
        let Some(Value::Array(messages)) = row.extra.get_mut("messages") else { return };
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

/// Whether the user's own fields of requests are none of those that the rows say.
fn check_extra(plan: &Plan, form: Form, path: &Path) -> Result<(), DataError> {
    let Form::Baseten(fields) = form else { return Ok(()) };
    match fields.said().find(|(key, _)| plan.endpoint.extra.contains_key(*key)) {
        Some((key, option)) => Err(DataError::SaidTwice { path: path.to_owned(), key, option }),
        None => Ok(()),
    }
}

/// What makes other prompts of those of a trace.
const RESHAPES: [&str; 3] = [
    "--synthesis-prefix-len-multiplier",
    "--synthesis-prefix-root-multiplier",
    "--synthesis-prompt-len-multiplier",
];

/// Whether the plan asks of rows only what a form has.
fn check_shape(set: &FilePlan, form: Form) -> Result<(), DataError> {
    let (path, form_name) = (|| set.path.clone(), form.kind().name());
    let TimesPlan { prefix, prompt, output, roots } = set.replay.times;
    let is_other = |times: f64| (times - 1.0).abs() > 0.0;
    let asked = [
        ("--synthesis-max-isl", set.replay.max_isl.is_some()),
        ("--synthesis-max-osl", set.replay.max_osl.is_some()),
        ("--synthesis-prefix-len-multiplier", is_other(prefix)),
        ("--synthesis-prefix-root-multiplier", roots > 1),
        ("--synthesis-prompt-len-multiplier", is_other(prompt)),
        ("--synthesis-output-len-multiplier", is_other(output)),
    ];
    let mut is_asked = asked.into_iter().filter_map(|(option, is_asked)| is_asked.then_some(option));
    if form.is_verbatim_trace() {
        if let Some(option) = is_asked.find(|option| RESHAPES.contains(option)) {
            return Err(DataError::Verbatim { path: path(), form: form_name, option });
        }
    } else if let Some(option) = is_asked.next().filter(|_| !form.is_trace()) {
        return Err(DataError::NotATrace { path: path(), form: form_name, option });
    }
    let hints = &set.completions;
    let said = [("--force-min-tokens", hints.min_tokens), ("--omit-kv-hints", hints.omits_blocks)];
    if let Some((option, _)) = said.into_iter().find(|(_, said)| said.is_some())
        && !matches!(form, Form::Baseten(_))
    {
        return Err(DataError::NotCompletions { path: path(), form: form_name, option });
    }
    if set.replay.session_share < 1.0 && matches!(form, Form::Bailian { .. } | Form::RandomPool) {
        return Err(DataError::NoSessions { path: path(), form: form_name });
    }
    if set.block.is_some() && form.block().is_none() {
        return Err(DataError::NoBlockSize { path: path(), form: form_name });
    }
    if roots > 1 && matches!(form, Form::Bailian { .. }) {
        return Err(DataError::TornChats { path: path() });
    }
    if set.strips_images && form != Form::SingleTurn {
        return Err(DataError::NotStripped { path: path(), form: form_name });
    }
    if form == Form::MultiTurn && set.replay.turn_times == TurnTimes::Alone {
        return Err(DataError::NotAlone { path: path() });
    }
    Ok(())
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
                    if let Some(grown) = &mut grown {
                        self.tell_apart(&mut row, number, grown)?;
                    }
                    if history.is_some() || self.form == Form::SageMaker {
                        self.with_system(&mut row, self.system.as_deref());
                    }
                    if mode == Mode::RecordedReplies {
                        if !said.add(&mut row, self.api) {
                            continue;
                        }
                        self.with_system(&mut row, system.as_deref());
                    }
                    row.at_ns = row.at_ns.map(|ns| ns.saturating_sub(self.zero_ns));
                    pauses.apply(&mut row, &self.shaping, &self.timeline);
                    if self.strips_images {
                        shown.strip(&mut row.media);
                    }
                    // What was drawn is loaded from the rows that it was drawn of.
                    if self.pools.is_none() {
                        self.load(&mut row, at)?;
                    }
                    turns.push(self.turn(row, number)?);
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

#[cfg(test)]
mod completions;
#[cfg(test)]
mod tests;
