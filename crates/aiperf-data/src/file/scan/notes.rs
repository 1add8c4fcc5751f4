//! What a user should know of a file that was passed over: one sentence each.

use std::path::Path;

use aiperf_core::plan::TurnTimes;
use aiperf_core::text::for_terminal;

use super::super::mooncake::History;
use super::super::record::Form;
use super::super::told;
use super::Scan;

impl Scan {
    /// What a user should know of the file.
    pub(in super::super) fn notes(&self) -> Vec<String> {
        let unknown = unknown_note(self.form, &self.unknown, self.more_unknown, &self.path);
        let own = [
            unknown,
            self.doubled_note(),
            self.untimed_note(),
            self.limit_note(),
            self.delay_cap_note(),
            self.unwaited_note(),
            self.timeless_note(),
            self.history_note(),
            self.times_note(),
        ];
        let own = own.into_iter().chain(self.trace_notes());
        let of_rows = told::notes(&self.facts, self.long, &self.path);
        of_rows.into_iter().chain(own.flatten()).chain(self.fitness.notes(&self.path)).collect()
    }

    /// Rows of which a part does not count.
    fn doubled_note(&self) -> Option<String> {
        let rows = self.doubled.words()?;
        let (file, key) = (self.path.display(), for_terminal(&self.doubled_key, 40));
        Some(format!("{file}: {rows} with a key twice, such as '{key}': the last one counts"))
    }

    /// An output length that no request has.
    fn limit_note(&self) -> Option<String> {
        let is_unused = self.has_limit && !self.says_no_limit;
        is_unused.then(|| {
            format!("{}: every row says its output length, so that --osl has no effect", self.path.display())
        })
    }

    /// A limit of think times in a replay that has none.
    fn delay_cap_note(&self) -> Option<String> {
        let plan = self.shaping.plan();
        let is_unused = plan.delay_cap_ns.is_some()
            && self.facts.capped_delays == 0
            && plan.turn_times == TurnTimes::Recorded
            && self.is_timed;
        is_unused.then(|| {
            format!(
                "{}: no think time is longer than --inter-turn-delay-cap-seconds; rows with timestamps are sent at those, and \
                 --no-open-loop-replay makes think times of them",
                self.path.display()
            )
        })
    }

    /// Pauses that nobody waits for.
    fn unwaited_note(&self) -> Option<String> {
        let rows = self.unwaited.words()?;
        let file = self.path.display();
        Some(format!(
            "{file}: {rows} with a delay before the first turn of a conversation, which is not waited for"
        ))
    }

    /// What changes times, where no time of the file is kept.
    fn timeless_note(&self) -> Option<String> {
        let plan = self.shaping.plan();
        if self.is_schedule || self.has_pauses || plan.turn_times != TurnTimes::Recorded {
            return None;
        }
        let asked = [
            ("--replay-speedup", (plan.speedup - 1.0).abs() > 0.0),
            ("--inter-turn-delay-cap-seconds", plan.delay_cap_ns.is_some()),
        ];
        let asked: Vec<&str> =
            asked.into_iter().filter_map(|(flag, is_asked)| is_asked.then_some(flag)).collect();
        let have = if asked.len() == 1 { "has" } else { "have" };
        (!asked.is_empty()).then(|| {
            format!(
                "{}: no later turn has a delay, and nothing is sent at its timestamp, so that {} {have} no effect",
                self.path.display(),
                asked.join(" and ")
            )
        })
    }

    /// Conversations whose rows already hold what was said before them.
    fn history_note(&self) -> Option<String> {
        let grows = |at: usize| self.histories.of(at) == History::Grows;
        let (_, name, line) = self.growing.iter().find(|(at, ..)| grows(*at))?;
        let all = self.histories.growing();
        let those = if all == 1 { "a conversation" } else { &format!("{all} conversations") };
        Some(format!(
            "{}: the rows of {those} (such as '{}', line {line}) hold their history: their hash_ids begin with those of the row before. Each \
             is sent as a whole request, without the rows and answers before it",
            self.path.display(),
            for_terminal(name, 40)
        ))
    }

    /// Rows of a trace that are not sent as they stand there.
    fn trace_notes(&self) -> [Option<String>; 2] {
        let file = self.path.display();
        let raised = self.raised.words().map(|rows| {
            format!("{file}: {rows} with a length of 0 tokens, as of a request that failed: it is sent as 1")
        });
        [self.kinds.note().map(|note| format!("{file}: {note}")), raised]
    }

    /// Rows that multipliers leave as they are.
    fn times_note(&self) -> Option<String> {
        let file = self.path.display();
        let times = self.shaping.plan().times;
        if (times.prefix - 1.0).abs() > 0.0 && !self.shaping.has_prefixes() {
            return Some(format!(
                "{file}: no hash_id comes more than once, so there are no prefixes that --synthesis-prefix-len-multiplier could change"
            ));
        }
        let n = self.unblocked;
        let (rows, have) = if n == 1 {
            ("row", "has no hash_ids and keeps its")
        } else {
            ("rows", "have no hash_ids and keep their")
        };
        (n > 0).then(|| format!("{file}: {n} {rows} {have} input length, whatever the multipliers"))
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
        "{file}: keys that {} are ignored: {}{more}",
        if form == Form::SageMaker {
            "are not sent again".to_owned()
        } else {
            format!("{} rows do not have", form.kind().name())
        },
        names.join(", ")
    ))
}
