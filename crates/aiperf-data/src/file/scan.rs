//! The pass over a file of prompts when it is opened: every row is checked, and where it is and what it begins is kept.

mod fits;
mod notes;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use aiperf_core::plan::{self, EndpointKind, FilePlan, Pacing, Plan, TurnTimes};
use aiperf_files::Input;
use aiperf_trace::Learning;
use sha2::{Digest, Sha256};

use super::bailian::{Kinds, Links};
use super::doubled::doubled_key;
use super::index::{Grouper, Groups, MOST_TURNS, Rows};
use super::lines;
use super::mooncake::{Histories, History};
use super::ranked::{Fitness, Seen};
use super::record::{Form, Mode, Record};
use super::row::{Placed, Row};
use super::sample::Sample;
use super::shaping::{LeftOut, Outside, Shaping, Thinking, Window};
use super::starts::Starts;
use super::timeline::Timeline;
use super::told::{BadRows, LongPause};
use crate::error::{DataError, RowProblem};
use crate::workload::RowFacts;

/// Most unknown keys, and conversations of a kind, named.
const MOST_NAMED: usize = 8;

/// What the pass keeps of a row that may hold several turns.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeenRow {
    pub(super) turns: u16,
    pub(super) is_instruction: bool,
    /// Of its first two turns.
    pub(super) is_system: [bool; 2],
}

/// What texts of a length are to be made with.
#[derive(Debug, Clone)]
pub(super) struct LengthsSeen {
    /// Tokens of a block.
    pub(super) block: usize,
    /// A digest of all rows: equal ids of two files are two blocks.
    pub(super) scope: String,
}

/// The pass over the file when it is opened.
pub(super) struct Scan {
    path: PathBuf,
    form: Form,
    /// Conversations have markers.
    is_marked: bool,
    ignore_timestamps: bool,
    session_header: String,
    api: EndpointKind,
    fitness: Fitness,
    pub(super) rows: Rows,
    pub(super) grouper: Grouper,
    /// Unknown keys and the line of their first appearance.
    unknown: Vec<(String, u64)>,
    /// Unknown keys that were not kept.
    more_unknown: bool,
    pub(super) replaces_messages: bool,
    pub(super) begins: Starts,
    /// The first row has a timestamp.
    pub(super) is_timed: bool,
    /// Line of the first timestamp.
    first_timed: Option<u64>,
    /// Of each row, where rows may hold several turns.
    pub(super) seen: Vec<SeenRow>,
    /// How the rows of each conversation of a trace go together.
    histories: Histories,
    /// Some conversations whose rows hold their history: place, session, line of the second row.
    growing: Vec<(usize, String, u64)>,
    /// Some row of a trace gives a length in the place of a text.
    pub(super) lengths: Option<LengthsSeen>,
    digest: Sha256,
    pub(super) shaping: Shaping,
    outside: Outside,
    /// Rows, in order, that follow one of their session which is left out.
    pub(super) followers: Vec<usize>,
    /// Which sessions are kept, where it is not all.
    pub(super) sample: Option<Sample>,
    /// The first time of all, of rows that are left out too.
    pub(super) earliest_ns: Option<u64>,
    bad: BadRows,
    long: LongPause,
    /// Of each row, where pauses that are made of times may be cut.
    thinking: Vec<Thinking>,
    /// Rows with a pause before the first turn of a conversation.
    unwaited: Seen,
    pub(super) facts: RowFacts,
    /// What turns of each conversation are sent with, as far as some row says it.
    pub(super) modes: Vec<Mode>,
    /// Some row says when it was sent, or how long before it nothing was.
    pub(super) has_times: bool,
    /// Of each row its number in its session, where each is a session of its own.
    pub(super) ordinals: Vec<u32>,
    sessions: HashMap<String, u32>,
    /// Some later turn has a pause before it.
    has_pauses: bool,
    /// Some phase sends rows at their times.
    is_schedule: bool,
    /// Rows of a length without blocks, where blocks are to be multiplied.
    unblocked: u64,
    /// Texts that a conversation of a pool has, each drawn by itself unless it is 1.
    batch: usize,
    /// Recorded times that are no starts of conversations, where silences are looked for.
    later: Vec<u64>,
    /// Where rows of a trace belong that say which chat they go on with.
    pub(super) links: Links,
    kinds: Kinds,
    /// Rows with a length of 0 that was made 1.
    raised: Seen,
    /// Rows with a key twice, and that of the first.
    doubled: Seen,
    doubled_key: String,
    /// Some row says no output limit; and the plan has one for such rows.
    says_no_limit: bool,
    has_limit: bool,
    /// Of each row, where they are put in the order of their times.
    pub(super) times: Vec<u64>,
    /// Of each row that is drawn from, how many texts it has; and whether some have names.
    pub(super) texts: Vec<u32>,
    /// Of each such row its texts and images, for an API that takes them in pairs.
    pub(super) inputs: Vec<(u32, u32)>,
    pub(super) has_names: Option<u64>,
    /// Line of the first row without a query.
    pub(super) queryless: Option<u64>,
}

impl Scan {
    pub(super) fn new(path: &Path, form: Form, set: &FilePlan, plan: &Plan) -> Self {
        let api = plan.endpoint.kind;
        // Times of a recording that stands in no order count from its first one, which is not known yet.
        let counts_later = form.is_verbatim_trace() || set.ignore_timestamps;
        let window = if counts_later { Window::default() } else { Window::of(plan) };
        Self {
            path: path.to_owned(),
            form,
            is_marked: plan.cache_bust.is_some(),
            ignore_timestamps: set.ignore_timestamps,
            session_header: plan.endpoint.session_header.clone(),
            api,
            fitness: Fitness::new(api, &set.path, form == Form::RandomPool && set.path.is_dir()),
            rows: Rows::default(),
            grouper: Grouper::default(),
            unknown: Vec::new(),
            more_unknown: false,
            replaces_messages: false,
            begins: Starts::default(),
            is_timed: false,
            first_timed: None,
            seen: Vec::new(),
            histories: Histories::default(),
            growing: Vec::new(),
            lengths: None,
            digest: Sha256::new(),
            shaping: Shaping::new(set, window),
            outside: Outside::default(),
            followers: Vec::new(),
            sample: None,
            earliest_ns: None,
            bad: BadRows::new(if form.leaves_out() { plan::BadRows::Skip } else { set.bad_rows }),
            long: LongPause::default(),
            thinking: Vec::new(),
            unwaited: Seen::default(),
            facts: RowFacts::default(),
            modes: Vec::new(),
            has_times: false,
            has_pauses: false,
            is_schedule: !set.ignore_timestamps
                && plan.phases.iter().any(|phase| matches!(phase.pacing, Pacing::FixedSchedule { .. })),
            ordinals: Vec::new(),
            sessions: HashMap::new(),
            unblocked: 0,
            batch: set.batch,
            later: Vec::new(),
            links: Links::default(),
            kinds: Kinds::default(),
            raised: Seen::default(),
            doubled: Seen::default(),
            doubled_key: String::new(),
            says_no_limit: false,
            has_limit: set.osl.is_some(),
            times: Vec::new(),
            texts: Vec::new(),
            inputs: Vec::new(),
            has_names: None,
            queryless: None,
        }
    }

    /// Finds which blocks rows share, where prefixes and prompts are to be multiplied. What is wrong with a row is told when it is taken
    /// in.
    pub(super) fn learn(&mut self, input: &Input, seed: u64) -> Result<(), DataError> {
        let Some(block) = self.form.block().filter(|_| self.shaping.plan().times.is_input()) else {
            return Ok(());
        };
        let (form, api, shaping) = (self.form, self.api, &self.shaping);
        let (mut learning, mut blocked, mut outside) = (Learning::default(), 0u64, Outside::default());
        let mut is_header = form.has_header();
        lines::each(input, |line| {
            if std::mem::take(&mut is_header) {
                return Ok(());
            }
            let Ok(record) = form.parse(line.row(), api) else { return Ok(()) };
            let follows = shaping.follows(&mut outside, record.session_id.as_deref(), &record.turns);
            if !shaping.leaves_out(&record, follows) {
                for made in record.turns.iter().filter_map(|row| row.made.as_ref()) {
                    learning.row(&made.ids);
                    blocked += u64::from(!made.ids.is_empty());
                    self.unblocked += u64::from(made.ids.is_empty());
                }
            }
            Ok(())
        })?;
        if blocked == 0 && self.unblocked > 0 {
            return Err(DataError::NoBlocks { path: self.path.clone() });
        }
        self.shaping.learnt(learning, block as u64, seed);
        Ok(())
    }

    /// Reads the file.
    pub(super) fn whole(&mut self, input: &Input) -> Result<(), DataError> {
        let path = &self.path.clone();
        let mut is_header = self.form.has_header();
        lines::each(input, |line| {
            if std::mem::take(&mut is_header) {
                return Ok(());
            }
            if self.form.block().is_some() {
                self.digest.update(line.row());
            }
            self.facts.read += 1;
            match self.line(line.number, line.row()) {
                Ok(true) => self.rows.push(line.number, line.start, line.end),
                Ok(false) => {}
                Err(placed) => self.bad.push(line.error(path, placed))?,
            }
            Ok(())
        })?;
        self.sessions = HashMap::new();
        self.bad.enter(&mut self.facts);
        if self.rows.len() > 0 && !self.has_times && self.shaping.wants_times() {
            return Err(DataError::NoTimes { path: path.to_owned() });
        }
        if let Some(lengths) = &mut self.lengths {
            lengths.scope = format!("{:x}", std::mem::take(&mut self.digest).finalize());
        }
        Ok(())
    }

    /// Why no row is left.
    pub(super) fn nothing_left(&mut self) -> DataError {
        if self.facts.outside > 0 {
            return DataError::AllOutside { path: self.path.clone(), rows: self.facts.read as usize };
        }
        if self.facts.too_long > 0 {
            return DataError::AllTooLong { path: self.path.clone(), rows: self.facts.too_long };
        }
        let bad = std::mem::replace(&mut self.bad, BadRows::new(plan::BadRows::Stop));
        bad.nothing_left(&self.path, self.facts.read)
    }

    /// Takes a row in; `false` when the plan leaves it out. What is wrong with one is found before anything is taken in.
    fn line(&mut self, number: u64, row: &[u8]) -> Result<bool, Placed> {
        let mut record = self.form.parse(row, self.api)?;
        if record.turns.len() > MOST_TURNS {
            let session = record.session_id.unwrap_or_else(|| format!("of line {number}"));
            return Err((None, RowProblem::TooManyTurns { session, max: MOST_TURNS }));
        }
        if let Some(at_ns) = record.turns[0].at_ns.filter(|_| self.form.is_verbatim_trace()) {
            self.earliest_ns = Some(self.earliest_ns.map_or(at_ns, |first| first.min(at_ns)));
        }
        // Rows of a session that stand in no order are told apart when all are known.
        let is_baseten = matches!(self.form, Form::Baseten(_));
        let is_alone = self.shaping.plan().turn_times == TurnTimes::Alone && !is_baseten;
        let session = if is_alone { None } else { record.session_id.as_deref() };
        let before = self.grouper.goes_on(session).map_err(|problem| (None, problem))?;
        self.check(&record, before).map_err(|problem| (None, problem))?;
        let has_times = record.turns.iter().any(|row| row.at_ns.is_some() || row.delay_ns.is_some());
        let follows = self.shaping.follows(&mut self.outside, session, &record.turns);
        let changes = match self.shaping.shape(number, &mut record, follows) {
            Ok(changes) => changes,
            Err(why) => {
                self.facts.too_long += u64::from(why == LeftOut::TooLong);
                self.facts.outside += u64::from(why == LeftOut::Outside);
                return Ok(false);
            }
        };
        // What is left may be answers alone.
        let mode = self.mode(&record, before);
        if !record.turns.iter().any(|row| mode.sends(row)) {
            self.facts.outside += 1;
            return Ok(false);
        }
        if let Some(sample) = &mut self.sample
            && !sample.keeps(record.session_id.as_deref(), number)
        {
            self.facts.not_drawn += 1;
            return Ok(false);
        }
        // What is drawn beside it may have what it has not.
        for row in record.turns.iter().filter(|_| self.form != Form::RandomPool) {
            self.fitness.check(row, number).map_err(|problem| (None, problem))?;
        }
        if self.form == Form::RandomPool {
            if !record.turns[0].media.is_empty() {
                let is_drawn = self.batch != 1;
                self.fitness.media(&record.turns[0], number).map_err(|problem| (None, problem))?;
                if is_drawn {
                    return Err((None, RowProblem::DrawnMedia));
                }
            }
            self.drawable(&record.turns[0], number);
        }
        if follows {
            self.followers.push(self.rows.len());
        }
        let changes = if before.is_some() {
            changes.going_on()
        } else {
            if changes.opening.waits {
                self.unwaited.add(number);
            }
            changes
        };
        self.has_pauses |= changes.waits;
        self.facts.capped_outputs += changes.capped_outputs;
        self.facts.capped_delays += changes.capped_delays;
        self.long.push(changes.longest_ns, number);
        if self.shaping.cuts_thinking() {
            let (thinking, cut) = self.shaping.thinking(record.turns.iter().filter(|row| mode.sends(row)));
            self.facts.capped_delays += cut;
            // One that turns out to be broken was no row.
            self.thinking.truncate(self.rows.len());
            self.thinking.push(thinking);
        }
        for row in &record.turns {
            self.replaces_messages |= self.api.is_replaced_by(&row.extra);
            self.facts.endless_delays += u64::from(row.endless_delay);
        }
        self.has_times |= has_times;
        if is_alone {
            let ordinal = record.session_id.take().map_or(0, |session| {
                let next = self.sessions.entry(session).or_default();
                std::mem::replace(next, *next + 1)
            });
            self.ordinals.push(ordinal);
        }
        let mode = self.mode(&record, before);
        if self.form == Form::MultiTurn {
            let sent = record.turns.iter().filter(|row| mode.sends(row)).count();
            self.seen.push(SeenRow {
                turns: u16::try_from(sent).unwrap_or(u16::MAX),
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
        for key in std::mem::take(&mut record.unknown) {
            if self.unknown.iter().all(|(known, _)| *known != key) {
                if self.unknown.len() < MOST_NAMED {
                    self.unknown.push((key, number));
                } else {
                    self.more_unknown = true;
                }
            }
        }
        if let Some(was) = record.was {
            self.kinds.add(was, number);
        }
        if record.is_raised {
            self.raised.add(number);
        }
        self.says_no_limit |= record.turns.iter().any(|row| row.output_length.is_none());
        if !self.form.has_header()
            && let Some(key) = doubled_key(row)
        {
            self.doubled.add(number);
            if self.doubled_key.is_empty() {
                self.doubled_key = key;
            }
        }
        if record.turns[0].made.is_some()
            && let Some(block) = self.form.block()
        {
            self.lengths.get_or_insert_with(|| LengthsSeen { block, scope: String::new() });
        }
        // Which row of a chat is its first shows at the end: the times of all are noted, and twice does no harm.
        let is_first = before.is_none() && (record.link.is_none() || is_alone);
        let turns_have_times =
            matches!(self.shaping.plan().turn_times, TurnTimes::Recorded | TurnTimes::Alone);
        if self.shaping.looks_for_silences() && turns_have_times {
            let times = record.turns.iter().filter_map(|row| row.at_ns);
            let is_start = |at: &u64| is_first && Some(*at) == at_ns;
            self.later.extend(times.filter(|at| !is_start(at)));
        }
        if self.form.is_verbatim_trace() {
            self.times.push(record.turns[0].at_ns.unwrap_or(0));
        }
        if let Some(link) = record.link.filter(|_| !is_alone) {
            self.links.push(link, at_ns.unwrap_or(0)).map_err(|problem| (None, problem))?;
            return Ok(true);
        }
        let at = before.unwrap_or(self.grouper.len());
        if let (Form::Mooncake { block }, Some(session)) = (self.form, record.session_id.as_deref()) {
            self.trace_row(number, at, &record.turns[0], session, block);
        }
        if mode != Mode::default() {
            self.replaces_messages |= mode == Mode::RecordedReplies;
            self.modes.resize(self.grouper.len().max(at + 1), Mode::default());
            self.modes[at] = mode;
        }
        self.grouper.push(record.session_id);
        if before.is_none() {
            self.begins.push(at_ns);
        }
        Ok(true)
    }

    /// What turns of a conversation that began are sent with.
    fn mode_of(&self, at: Option<usize>) -> Mode {
        at.and_then(|at| self.modes.get(at)).copied().unwrap_or_default()
    }

    /// What the turns of a row are sent with.
    fn mode(&self, record: &Record, before: Option<usize>) -> Mode {
        record.mode.unwrap_or_else(|| self.mode_of(before))
    }

    /// What a row of a trace adds to conversation `at`, which has a name.
    fn trace_row(&mut self, line: u64, at: usize, row: &Row, session: &str, block: usize) {
        self.histories.push(at, row, block);
        if self.growing.len() < MOST_NAMED
            && self.histories.of(at) == History::Grows
            && self.growing.iter().all(|(other, ..)| *other != at)
        {
            self.growing.push((at, session.to_owned(), line));
            self.replaces_messages |= self.api.messages_field().is_some();
        }
    }

    /// Takes in which rows are conversations, for the pauses between them that are cut.
    pub(super) fn grouped(&mut self, groups: &Groups) {
        let thinking = std::mem::take(&mut self.thinking);
        if thinking.is_empty() {
            return;
        }
        let of =
            |index| groups.conversation(index).1.into_iter().filter_map(|row| thinking.get(row).copied());
        let cut = (0..groups.len()).map(|index| self.shaping.cut_between(of(index)));
        self.facts.capped_delays += cut.sum::<u64>();
    }

    /// Takes in the times of rows that were put in order, counted from the first, and how many were left out of it.
    pub(super) fn sorted(&mut self, times: impl Iterator<Item = u64>, outside: u64) {
        self.facts.outside = outside;
        let have_times = matches!(self.shaping.plan().turn_times, TurnTimes::Recorded | TurnTimes::Alone);
        let is_looked_for = self.shaping.looks_for_silences() && have_times;
        self.later = if is_looked_for { times.collect() } else { Vec::new() };
    }

    /// The times of the replay of so many conversations.
    pub(super) fn timeline(&mut self, conversations: usize) -> Timeline {
        let mut starts = std::mem::take(&mut self.later);
        if self.shaping.looks_for_silences() {
            starts.extend((0..conversations).filter_map(|at| self.begins.get(at)));
        }
        let timeline = self.shaping.timeline(starts);
        (self.facts.cut_silences, self.facts.cut_silence_ns) = timeline.cut();
        timeline
    }

    /// How the rows of each conversation of a trace go together.
    pub(super) fn histories(&self) -> Vec<History> {
        match self.form {
            Form::Mooncake { .. } => (0..self.grouper.len()).map(|at| self.histories.of(at)).collect(),
            _ => Vec::new(),
        }
    }
}
