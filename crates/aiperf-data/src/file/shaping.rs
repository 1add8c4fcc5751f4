//! What the plan makes of the rows of a file, between what a row says and the conversation that it becomes.
//!
//! Every row passes here in two steps, for every form alike. [`Shaping::shape`] is asked for each row when the file is checked and
//! again whenever it is read to be sent: it leaves the row out, or changes it, by the plan and the row alone, so that both come to
//! the same. [`Pauses`] then goes through the turns of a conversation and gives them the times of the replay. What changes lengths or
//! blocks of a trace belongs into the first, before limits are looked at; what it has to know of all rows it can learn in a pass of
//! its own over the file ([`Shaping::new`] is where that starts).

use std::collections::HashSet;
use std::sync::Arc;

use aiperf_core::plan::{FilePlan, Pacing, Plan, ReplayPlan, TurnTimes};
use aiperf_trace::{Learning, Multiplier, Multipliers, multiplied_output};

use super::index::MOST_TURNS;
use super::record::Record;
use super::row::Row;
use super::timeline::{Speed, Timeline};

/// What was changed in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Output limits that were above the most.
    pub(super) capped_outputs: u64,
    /// Pauses that were longer than the longest.
    pub(super) capped_delays: u64,
    /// The longest pause that nothing limits, nanoseconds.
    pub(super) longest_ns: u64,
    /// Some turn has a pause.
    pub(super) waits: bool,
    /// The same of its first turn alone, which waits only where it is a later one of its conversation.
    pub(super) opening: Opening,
}

/// The pause before the first turn of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Opening {
    /// It is longer than nothing.
    pub(super) waits: bool,
    is_capped: bool,
    longest_ns: u64,
}

impl Changes {
    /// With the pause before the first turn, which goes on with a conversation.
    pub(super) fn going_on(mut self) -> Self {
        let Opening { waits, is_capped, longest_ns } = std::mem::take(&mut self.opening);
        self.waits |= waits;
        self.capped_delays += u64::from(is_capped);
        self.longest_ns = self.longest_ns.max(longest_ns);
        self
    }
}

/// Why a row is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftOut {
    /// Its input is longer than is wanted.
    TooLong,
    /// No time of it is one that the plan has a schedule for.
    Outside,
}

/// The recorded times that are wanted, nanoseconds; both ends are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Window {
    from_ns: Option<u64>,
    to_ns: Option<u64>,
}

impl Window {
    /// Those that the plan has a schedule for: all of them, unless all of its schedules have the same offsets.
    pub(super) fn of(plan: &Plan) -> Self {
        let windows = plan.phases.iter().filter_map(|phase| match phase.pacing {
            Pacing::FixedSchedule { start_offset_ns: from_ns, end_offset_ns: to_ns, .. } => {
                Some(Self { from_ns, to_ns })
            }
            _ => None,
        });
        let mut windows: Vec<_> = windows.collect();
        windows.dedup();
        if let [window] = windows[..] { window } else { Self::default() }
    }

    fn is_early(self, row: &Row) -> bool {
        self.from_ns.zip(row.at_ns).is_some_and(|(from_ns, at_ns)| at_ns < from_ns)
    }

    fn is_late(self, row: &Row) -> bool {
        self.to_ns.zip(row.at_ns).is_some_and(|(to_ns, at_ns)| at_ns > to_ns)
    }

    /// Whether a time is wanted.
    pub(super) fn holds(self, ns: u64) -> bool {
        self.from_ns.is_none_or(|from_ns| from_ns <= ns) && self.to_ns.is_none_or(|to_ns| ns <= to_ns)
    }

    /// Leaves the turns that are wanted: from the first one in it on, up to the first one behind it. An instruction at their front goes with
    /// them. What was said between turns goes with the one before it, which `follows` says is not wanted where it is in an earlier row.
    fn cut(self, turns: &mut Vec<Row>, follows: bool) {
        if let Some(late) = turns.iter().position(|row| self.is_late(row)) {
            turns.truncate(late);
        }
        let early = turns.iter().rposition(|row| self.is_early(row)).map(|early| early + 1);
        if let Some(behind) = early.or(follows.then_some(0)) {
            let later = turns[behind..].iter().position(|row| row.at_ns.is_some());
            let first = later.map_or(turns.len(), |later| behind + later);
            let instruction = usize::from(turns.first().is_some_and(Row::is_instruction));
            turns.drain(instruction.min(first)..first);
        }
    }
}

/// Sessions whose last turn with a time is not wanted: those without one that come next go with it.
#[derive(Debug, Default)]
pub(super) struct Outside(HashSet<String>);

/// Changes rows. See the module.
#[derive(Debug, Clone)]
pub(super) struct Shaping {
    plan: ReplayPlan,
    speed: Speed,
    window: Window,
    /// Of prefixes and prompts, once it is known which blocks rows share.
    multiplier: Option<Arc<Multiplier>>,
}

impl Shaping {
    /// Rows with times outside of `window` are left out.
    pub(super) fn new(set: &FilePlan, window: Window) -> Self {
        Self { speed: Speed::new(set.replay.speedup), plan: set.replay, window, multiplier: None }
    }

    pub(super) const fn plan(&self) -> &ReplayPlan {
        &self.plan
    }

    /// Whether something of the plan needs rows that have times.
    pub(super) fn wants_times(&self) -> bool {
        let ReplayPlan { speedup, idle_cap_ns, delay_cap_ns, turn_times, .. } = &self.plan;
        (*speedup - 1.0).abs() > 0.0
            || idle_cap_ns.or(*delay_cap_ns).is_some()
            || *turn_times != TurnTimes::Recorded
    }

    /// Whether long silences are cut.
    pub(super) const fn looks_for_silences(&self) -> bool {
        self.plan.idle_cap_ns.is_some()
    }

    /// Takes in which blocks, of `block_size` tokens, the rows of the file share.
    pub(super) fn learnt(&mut self, learning: Learning, block_size: u64, seed: u64) {
        let ReplayPlan { times, max_isl, .. } = self.plan;
        let multipliers = Multipliers {
            prefix: times.prefix,
            prompt: times.prompt,
            roots: times.roots,
            max_isl,
            block_size,
            seed,
        };
        self.multiplier = Some(Arc::new(learning.finish(multipliers)));
    }

    /// Whether rows are known to share blocks.
    pub(super) fn has_prefixes(&self) -> bool {
        self.multiplier.as_ref().is_some_and(|multiplier| multiplier.has_prefixes())
    }

    /// Takes in the next row of `session`: whether its turns up to the first one with a time follow one that is not wanted.
    pub(super) fn follows(&self, outside: &mut Outside, session: Option<&str>, turns: &[Row]) -> bool {
        let Some(session) = session.filter(|_| self.window != Window::default()) else { return false };
        let follows = outside.0.contains(session);
        let is_last_early =
            turns.iter().rev().find(|row| row.at_ns.is_some()).map(|row| self.window.is_early(row));
        let is_out =
            is_last_early.map(|is_early| is_early || turns.iter().any(|row| self.window.is_late(row)));
        match is_out {
            Some(true) if !follows => drop(outside.0.insert(session.to_owned())),
            Some(false) if follows => drop(outside.0.remove(session)),
            _ => {}
        }
        follows
    }

    /// Whether a row of one turn is left out, which `follows` one that is not wanted.
    pub(super) fn leaves_out(&self, record: &Record, follows: bool) -> bool {
        let is_outside = |row: &Row| {
            self.window.is_early(row) || self.window.is_late(row) || (follows && row.at_ns.is_none())
        };
        self.is_too_long(record) || record.turns.iter().all(is_outside)
    }

    /// Whether a row gives a longer input than is wanted.
    fn is_too_long(&self, record: &Record) -> bool {
        let Some(most) = self.plan.max_isl else { return false };
        let is_long = |row: &Row| row.made.as_ref().is_some_and(|made| made.tokens as u64 > most);
        record.turns.iter().any(is_long) || record.input_length.is_some_and(|tokens| tokens > most)
    }

    /// Changes the row of a line as the plan wants it, or says why that leaves it out. `follows` is what [`Self::follows`] said.
    pub(super) fn shape(&self, line: u64, record: &mut Record, follows: bool) -> Result<Changes, LeftOut> {
        if self.is_too_long(record) {
            return Err(LeftOut::TooLong);
        }
        let said = record.turns.len();
        self.window.cut(&mut record.turns, follows);
        if record.turns.len() < said && record.turns.iter().all(Row::is_instruction) {
            return Err(LeftOut::Outside);
        }
        self.multiply(line, record);
        let mut changes = Changes::default();
        // What a conversation opens with is no turn of it.
        let opening = record.turns.iter().position(|row| !row.is_instruction()).unwrap_or(0);
        for (turn, row) in record.turns.iter_mut().enumerate() {
            if let (Some(tokens), Some(most)) = (&mut row.output_length, self.plan.max_osl)
                && *tokens > most
            {
                *tokens = most;
                changes.capped_outputs += 1;
            }
            if self.plan.turn_times == TurnTimes::Ignored {
                row.delay_ns = None;
            }
            if let Some(delay_ns) = row.delay_ns {
                let (pause_ns, is_capped) = self.pause(delay_ns);
                row.delay_ns = Some(pause_ns);
                let longest_ns = if self.plan.delay_cap_ns.is_none() { pause_ns } else { 0 };
                if turn == opening {
                    changes.opening = Opening { waits: pause_ns > 0, is_capped, longest_ns };
                } else {
                    changes.waits |= pause_ns > 0;
                    changes.capped_delays += u64::from(is_capped);
                    changes.longest_ns = changes.longest_ns.max(longest_ns);
                }
            }
        }
        Ok(changes)
    }

    /// Makes prefixes, prompts and answers as much longer as the plan wants them. Rows of one session stay in one tree: they may hold
    /// what was said before them.
    fn multiply(&self, line: u64, record: &mut Record) {
        let session = record.session_id.as_deref().map_or(line, |session| aiperf_rng::draw(0, session, 0));
        for (turn, row) in (0u64..).zip(&mut record.turns) {
            if let (Some(multiplier), Some(made)) = (&self.multiplier, &mut row.made) {
                let number = line.wrapping_mul(MOST_TURNS as u64 + 1).wrapping_add(turn);
                made.tokens = multiplier.change(number, session, made.tokens as u64, &mut made.ids) as usize;
            }
            let times = self.plan.times.output;
            if (times - 1.0).abs() > 0.0 {
                row.output_length = row.output_length.map(|tokens| multiplied_output(tokens, times));
            }
        }
    }

    /// A recorded pause at the speed of the replay, and whether it was longer than it may be.
    fn pause(&self, ns: u64) -> (u64, bool) {
        let ns = self.speed.replayed(ns);
        match self.plan.delay_cap_ns {
            Some(most) if ns > most => (most, true),
            _ => (ns, false),
        }
    }

    /// The pause before a turn that was sent at `at_ns` behind one that was sent at a time and took a time, and whether it is cut.
    fn thought(&self, (before_ns, latency_ns): (u64, Option<u64>), at_ns: u64) -> (u64, bool) {
        let gap_ns = at_ns.saturating_sub(before_ns);
        self.pause(gap_ns.saturating_sub(latency_ns.unwrap_or(0)))
    }

    /// Whether pauses that are made of times may be cut.
    pub(super) fn cuts_thinking(&self) -> bool {
        self.plan.turn_times == TurnTimes::BehindAnswers && self.plan.delay_cap_ns.is_some()
    }

    /// How many pauses between the turns of a row, which was shaped, are cut, and what tells it of those between rows.
    pub(super) fn thinking<'a>(&self, turns: impl Iterator<Item = &'a Row>) -> (Thinking, u64) {
        let (mut thinking, mut cut) = (Thinking::default(), 0);
        for row in turns {
            let Some(at_ns) = row.at_ns else { continue };
            if row.delay_ns.is_none_or(|ns| ns == 0) {
                match thinking.last {
                    Some(before) => cut += u64::from(self.thought(before, at_ns).1),
                    None => thinking.first_ns = Some(at_ns),
                }
            }
            thinking.last = Some((at_ns, row.latency_ns));
        }
        (thinking, cut)
    }

    /// How many pauses between the rows of a conversation are cut.
    pub(super) fn cut_between(&self, rows: impl Iterator<Item = Thinking>) -> u64 {
        let (mut before, mut cut) = (None, 0);
        for row in rows {
            if let Some((before, at_ns)) = before.zip(row.first_ns) {
                cut += u64::from(self.thought(before, at_ns).1);
            }
            before = row.last.or(before);
        }
        cut
    }

    /// The times of the replay, from the times of all rows, or of all conversations where their later turns have none of their own.
    pub(super) fn timeline(&self, starts: Vec<u64>) -> Timeline {
        Timeline::new(self.speed, self.plan.idle_cap_ns, starts)
    }
}

/// What is kept of a row until all of its conversation are known: it may be cut how long the user thought before it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Thinking {
    /// When its first turn with a time was sent, unless that says its own pause.
    first_ns: Option<u64>,
    /// When the last one was sent, and how long its answer took.
    last: Option<(u64, Option<u64>)>,
}

/// Goes through the turns of one conversation and gives each its times.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    turn: usize,
    /// When the turn before was sent, as recorded, and how long its answer took.
    before: Option<(u64, Option<u64>)>,
}

impl Pauses {
    /// The next turn, which was shaped. A first turn keeps its time, which is the conversation's.
    pub(super) fn apply(&mut self, row: &mut Row, shaping: &Shaping, timeline: &Timeline) {
        let recorded = row.at_ns;
        row.at_ns = recorded.map(|at_ns| timeline.replayed(at_ns));
        if self.turn > 0 {
            match shaping.plan.turn_times {
                TurnTimes::Recorded | TurnTimes::Alone => {}
                TurnTimes::Ignored => row.at_ns = None,
                TurnTimes::BehindAnswers => {
                    row.at_ns = None;
                    let said = row.delay_ns.filter(|ns| *ns > 0);
                    row.delay_ns = said.or_else(|| self.thought_ns(recorded?, shaping)).or(row.delay_ns);
                }
            }
        }
        self.turn += 1;
        self.before = recorded.map(|at_ns| (at_ns, row.latency_ns)).or(self.before);
    }

    /// How long the user thought before a turn that was recorded at `at_ns`: the time from start to start without the answer's.
    fn thought_ns(&self, at_ns: u64, shaping: &Shaping) -> Option<u64> {
        self.before.map(|before| shaping.thought(before, at_ns).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::mooncake::Made;
    use aiperf_core::plan::TimesPlan;

    fn shaping(replay: ReplayPlan) -> Shaping {
        Shaping {
            speed: Speed::new(replay.speedup),
            plan: replay,
            window: Window::default(),
            multiplier: None,
        }
    }

    fn record(rows: Vec<Row>) -> Record {
        Record { turns: rows, ..Record::default() }
    }

    #[test]
    fn turns_outside_of_the_schedule_are_left_out() {
        let kept = |from_ns: Option<u64>, to_ns: Option<u64>, turns: &[(&str, Option<u64>)]| {
            let row = |(role, at_ns): &(&str, Option<u64>)| Row {
                role: Some((*role).to_owned()),
                texts: vec!["a".to_owned()],
                at_ns: *at_ns,
                ..Row::default()
            };
            let mut shaping = shaping(ReplayPlan::default());
            shaping.window = Window { from_ns, to_ns };
            let mut record = record(turns.iter().map(row).collect());
            let times = |record: Record| record.turns.into_iter().map(|row| (row.role, row.at_ns)).collect();
            shaping.shape(1, &mut record, false).map(|_| times(record))
        };
        let of = |turns: &[(&str, Option<u64>)]| {
            let turns: Vec<_> = turns.iter().map(|(role, at)| (Some((*role).to_owned()), *at)).collect();
            Ok(turns)
        };
        let one = |at| [("user", Some(at))];
        assert_eq!(kept(Some(10), Some(20), &one(10)), of(&one(10)));
        assert_eq!(kept(Some(10), Some(20), &one(20)), of(&one(20)));
        assert_eq!(kept(Some(10), Some(20), &one(9)), Err(LeftOut::Outside));
        assert_eq!(kept(Some(10), Some(20), &one(21)), Err(LeftOut::Outside));
        assert_eq!(kept(Some(10), None, &[("user", None)]), of(&[("user", None)]), "what has no time stays");
        let talk = [
            ("system", None),
            ("user", Some(5)),
            ("assistant", None),
            ("user", Some(15)),
            ("assistant", None),
            ("user", Some(25)),
            ("assistant", None),
        ];
        assert_eq!(kept(None, None, &talk), of(&talk));
        assert_eq!(kept(None, Some(15), &talk), of(&talk[..5]));
        assert_eq!(kept(Some(6), None, &talk), of(&[&talk[..1], &talk[3..]].concat()));
        assert_eq!(kept(Some(6), Some(24), &talk), of(&[&talk[..1], &talk[3..5]].concat()));
        assert_eq!(kept(Some(26), None, &talk), Err(LeftOut::Outside));
        assert_eq!(kept(None, Some(4), &talk), Err(LeftOut::Outside));
    }

    #[test]
    fn rows_without_a_time_go_with_the_row_of_their_session_before_them() {
        let mut shaping = shaping(ReplayPlan::default());
        shaping.window = Window { from_ns: Some(10), to_ns: Some(20) };
        let kept = |rows: &[(Option<&str>, &[Option<u64>])]| {
            let mut outside = Outside::default();
            let turns = |(session, times): &(Option<&str>, &[Option<u64>])| {
                let row = |at_ns: &Option<u64>| Row { at_ns: *at_ns, ..Row::default() };
                let mut record = record(times.iter().map(row).collect());
                let follows = shaping.follows(&mut outside, *session, &record.turns);
                let shaped = shaping.shape(1, &mut record, follows);
                shaped.map_or(0, |_| record.turns.len())
            };
            rows.iter().map(turns).collect::<Vec<_>>()
        };
        let a = Some("a");
        assert_eq!(
            kept(&[(a, &[Some(5)]), (a, &[None]), (Some("b"), &[None]), (None, &[None])]),
            [0, 0, 1, 1]
        );
        assert_eq!(kept(&[(a, &[Some(5)]), (a, &[Some(15)]), (a, &[None])]), [0, 1, 1]);
        assert_eq!(kept(&[(a, &[Some(15)]), (a, &[Some(25)]), (a, &[None]), (a, &[None])]), [1, 0, 0, 0]);
        assert_eq!(kept(&[(a, &[Some(25)]), (a, &[None, Some(12), None]), (a, &[None])]), [0, 2, 1]);
        assert_eq!(kept(&[(a, &[Some(12), Some(25)]), (a, &[None]), (a, &[None, Some(30)])]), [1, 0, 0]);
    }

    #[test]
    fn rows_that_are_too_long_are_left_out_and_limits_are_capped() {
        let plan = ReplayPlan { max_isl: Some(100), max_osl: Some(8), ..ReplayPlan::default() };
        let of = |tokens: usize, output: u64| {
            let made = Some(Made { tokens, ids: Vec::new() });
            let mut record = record(vec![Row { made, output_length: Some(output), ..Row::default() }]);
            let changes = shaping(plan).shape(1, &mut record, false);
            changes.map(|c| (record.turns[0].output_length, c.capped_outputs))
        };
        assert_eq!(of(100, 8), Ok((Some(8), 0)));
        assert_eq!(of(100, 9), Ok((Some(8), 1)));
        assert_eq!(of(101, 9), Err(LeftOut::TooLong));
        let mut text = record(vec![Row { texts: vec!["a".repeat(500)], ..Row::default() }]);
        assert_eq!(shaping(plan).shape(1, &mut text, false), Ok(Changes::default()), "a text says no length");
        text.input_length = Some(101);
        assert_eq!(
            shaping(plan).shape(1, &mut text, false),
            Err(LeftOut::TooLong),
            "what was recorded beside it does"
        );
    }

    #[test]
    fn pauses_are_sped_up_before_they_are_capped() {
        let plan = ReplayPlan { speedup: 2.0, delay_cap_ns: Some(10), ..ReplayPlan::default() };
        let delay = |plan: ReplayPlan, ns: u64| {
            let mut record = record(vec![Row { delay_ns: Some(ns), ..Row::default() }]);
            let changes = shaping(plan).shape(1, &mut record, false).expect("it is taken");
            assert_eq!((changes.capped_delays, changes.longest_ns), (0, 0), "a first turn waits for nothing");
            let changes = changes.going_on();
            (record.turns[0].delay_ns, changes.capped_delays, changes.longest_ns)
        };
        assert_eq!(delay(plan, 20), (Some(10), 0, 0));
        assert_eq!(delay(plan, 22), (Some(10), 1, 0));
        assert_eq!(delay(ReplayPlan { delay_cap_ns: None, ..plan }, 22), (Some(11), 0, 11));
        let ignored = ReplayPlan { turn_times: TurnTimes::Ignored, ..plan };
        assert_eq!(delay(ignored, 22), (None, 0, 0));
    }

    #[test]
    fn answers_are_multiplied_before_they_are_capped() {
        let times = TimesPlan { output: 2.5, ..TimesPlan::default() };
        let plan = ReplayPlan { times, max_osl: Some(30), ..ReplayPlan::default() };
        let output = |tokens: u64| {
            let mut record = record(vec![Row { output_length: Some(tokens), ..Row::default() }]);
            let changes = shaping(plan).shape(1, &mut record, false).expect("it is taken");
            (record.turns[0].output_length, changes.capped_outputs)
        };
        assert_eq!([1, 3, 12, 13].map(output), [(Some(2), 0), (Some(8), 0), (Some(30), 0), (Some(30), 1)]);
    }

    #[test]
    fn rows_of_a_session_stay_in_one_tree() {
        let times = TimesPlan { roots: 4, ..TimesPlan::default() };
        let mut shaping = shaping(ReplayPlan { times, ..ReplayPlan::default() });
        shaping.learnt(Learning::default(), 16, 7);
        let first = |session: Option<&str>, line: u64| {
            let made = Some(Made { tokens: 16, ids: vec![5] });
            let mut record = record(vec![Row { made, ..Row::default() }]);
            record.session_id = session.map(str::to_owned);
            shaping.shape(line, &mut record, false).expect("it is taken");
            record.turns[0].made.as_ref().expect("a length").ids[0]
        };
        let alone: std::collections::HashSet<u64> = (0..50).map(|line| first(None, line)).collect();
        assert_eq!(alone.len(), 4);
        assert!((0..50).all(|line| first(Some("a"), line) == first(Some("a"), 0)));
    }

    /// Times and pauses of the turns of a conversation.
    fn told(plan: ReplayPlan, rows: Vec<Row>) -> Vec<(Option<u64>, Option<u64>)> {
        let shaping = shaping(plan);
        let starts = rows.iter().filter_map(|row| row.at_ns).collect();
        let timeline = shaping.timeline(starts);
        let mut record = record(rows);
        shaping.shape(1, &mut record, false).expect("it is taken");
        let mut pauses = Pauses::default();
        let told = record.turns.iter_mut().map(|row| {
            pauses.apply(row, &shaping, &timeline);
            (row.at_ns, row.delay_ns)
        });
        told.collect()
    }

    #[test]
    fn turns_have_their_own_times_or_follow_answers() {
        let row = |at: Option<u64>, delay: Option<u64>, latency: Option<u64>| Row {
            at_ns: at,
            delay_ns: delay,
            latency_ns: latency,
            ..Row::default()
        };
        let rows = vec![
            row(Some(1_000), None, Some(100)),
            row(Some(1_400), None, None),
            row(Some(1_500), Some(60), None),
            row(None, None, None),
            row(Some(1_600), None, None),
        ];
        let plan = ReplayPlan { speedup: 2.0, ..ReplayPlan::default() };
        let own =
            [(Some(500), None), (Some(700), None), (Some(750), Some(30)), (None, None), (Some(800), None)];
        assert_eq!(told(plan, rows.clone()), own);
        // Behind answers: (400 − 100) / 2; the pause that the row says; nothing known; 100 / 2 from the last known start.
        let closed = ReplayPlan { turn_times: TurnTimes::BehindAnswers, ..plan };
        let behind = [(Some(500), None), (None, Some(150)), (None, Some(30)), (None, None), (None, Some(50))];
        assert_eq!(told(closed, rows.clone()), behind);
        let capped = ReplayPlan { delay_cap_ns: Some(40), ..closed };
        assert_eq!(told(capped, rows.clone())[1], (None, Some(40)));
        // Three pauses are made of times: 150 and 50 are cut, the one that is said is not among them. Rows may hold any number of turns.
        let shaping = shaping(capped);
        for size in 1..=rows.len() {
            let parts: Vec<_> = rows.chunks(size).map(|part| shaping.thinking(part.iter())).collect();
            let within: u64 = parts.iter().map(|(_, cut)| cut).sum();
            let between = shaping.cut_between(parts.into_iter().map(|(thinking, _)| thinking));
            assert_eq!(within + between, 2, "{size} turns a row");
        }
        let ignored = ReplayPlan { turn_times: TurnTimes::Ignored, ..plan };
        let first = (Some(500), None);
        assert_eq!(told(ignored, rows), [first, (None, None), (None, None), (None, None), (None, None)]);
    }
}
