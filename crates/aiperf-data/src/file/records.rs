//! Files and folders of rows that become turns: requests, turns of conversations, lengths of traces, recorded requests.
//!
//! One streaming pass when it is opened checks every row and keeps its place; a row is read and parsed again when it is sent.
//! So a row costs 8 bytes, some more where rows have sessions, times or turns; and nothing is found to be broken in the middle of a run unless the file is changed
//! under it, which is an error that names the row.

mod checks;
mod gathered;
mod sent;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aiperf_core::plan::{CorpusPlan, EndpointKind, FilePlan, LengthPlan, Pacing, PhasePlan, Plan, TurnTimes};
use aiperf_files::Input;
use aiperf_rng::{Key, Stream};
use aiperf_tokens::Tokenizer;
use serde_json::{Map, Value};

use self::checks::{check_extra, check_shape};
use self::gathered::Gathered;
use super::by_start::ByStart;
use super::folder::{Folder, Which};
use super::index::{Groups, MOST_TURNS};
use super::media::Files;
use super::mooncake::History;
use super::random_pool::Pools;
use super::record::{Form, Mode};
use super::sample::Sample;
use super::scan::{LengthsSeen, Scan, SeenRow};
use super::shaping::{Shaping, Window};
use super::source::{Source, Stamp};
use super::starts::Starts;
use super::timeline::Timeline;
use super::told::{self, LongPause};
use crate::OpenContext;
use crate::blocks::BlockTexts;
use crate::error::{DataError, RowProblem};
use crate::markers::Marking;
use crate::models::Models;
use crate::workload::RowFacts;

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
    /// Tokens of the system message before them.
    before: u64,
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
pub(super) fn files_below(folder: &Path, form: Form) -> Result<Folder, DataError> {
    Folder::open(folder, if form == Form::RandomPool { Which::All } else { Which::JsonlBelow })
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
        let (paths, passed) = if is_folder {
            let folder = files_below(&path, form)?;
            (folder.paths, folder.note)
        } else {
            (Vec::new(), None)
        };
        let begin = |path: &Path| Scan::new(path, form, set, plan);
        let (mut source, mut gathered) = (Source::default(), Gathered::default());
        let (mut scan, mut sample) = (begin(&path), Sample::new(set, plan.seed));
        let (mut nothing, mut waits) = (None, false);
        let mut input = input;
        while source.len() == 0 {
            let opened = paths.iter().map(|path| aiperf_files::open(path));
            for given in input.take().into_iter().map(Ok).chain(opened) {
                let given = given?;
                let stamp = Stamp::of(&given);
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
                    source.push(given.name, stays_open.then_some(given.file), stamp, rows);
                    scan = of_file;
                } else {
                    // An empty file of a folder is none.
                    let why = of_file.nothing_left();
                    let is_empty = matches!(why, DataError::EmptyFile { .. });
                    if is_empty && is_folder {
                        gathered.empty.push(given.name.clone());
                    }
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
        let groups = chats.unwrap_or_else(|| std::mem::take(&mut scan.grouper).finish(set.entries));
        scan.grouped(&groups);
        let timeline = scan.timeline(conversations);
        let mut notes = scan.notes();
        if is_folder {
            let (cut_silences, cut_silence_ns) = timeline.cut();
            let cut = RowFacts { cut_silences, cut_silence_ns, ..RowFacts::default() };
            notes = passed.into_iter().chain(gathered.notes).collect();
            notes.extend(told::notes(&cut, LongPause::default(), &path));
            scan.facts = RowFacts { cut_silences, cut_silence_ns, ..gathered.facts };
            scan.replaces_messages |= gathered.replaces_messages;
        }
        notes.extend(chat_notes.into_iter().map(|note| format!("{}: {note}", path.display())));
        let Scan { replaces_messages, begins, is_timed, seen, lengths, .. } = scan;
        let (modes, shaping, ordinals, facts) = (scan.modes, scan.shaping, scan.ordinals, scan.facts);
        let followers = scan.followers;
        let texts = lengths
            .map(|LengthsSeen { block, scope }| -> Result<Lengths, DataError> {
                let tokenizer = tokenizer.ok_or(DataError::NoTokenizerForTrace)?;
                let before = plan.system_prompt.as_ref().map_or(0, |text| tokenizer.count(text) as u64);
                let texts = BlockTexts::new(set.corpus.unwrap_or(CorpusPlan::Sonnet), plan.seed, tokenizer);
                Ok(Lengths { texts, scope, block, is_bare: !plan.chat_template, before })
            })
            .transpose()?;
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
}

#[cfg(test)]
mod completions;
#[cfg(test)]
mod tests;
