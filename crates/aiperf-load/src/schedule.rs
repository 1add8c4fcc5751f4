//! Sessions at the times that a workload itself gives.

use std::fmt;

use aiperf_core::time::NS_PER_S;

/// What part of a workload's times is used, and which time is the start of the phase. Nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScheduleWindow {
    /// The first time that is used is the start of the phase; otherwise `start_ns` is, or time 0.
    pub auto_offset: bool,
    /// Earlier times are left out.
    pub start_ns: Option<u64>,
    /// Later times are left out.
    pub end_ns: Option<u64>,
}

/// A session of a fixed schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleEntry {
    /// When its first turn is due, from the start of the phase.
    pub offset_ns: u64,
    /// Position of its conversation in the workload.
    pub conversation: usize,
}

/// The sessions of a phase in the order in which they start. Session number `i` of the phase is entry `i`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedSchedule {
    entries: Vec<ScheduleEntry>,
    zero_ns: u64,
    left_out: usize,
}

impl FixedSchedule {
    /// The schedule of conversations `0..len`, whose first turns are at `start_ns` in the workload's time. Conversations of the
    /// same time keep their order. `place` says for a message where one is to be found.
    pub fn new(
        len: usize,
        start_ns: impl Fn(usize) -> Option<u64>,
        place: impl Fn(usize) -> String,
        window: &ScheduleWindow,
    ) -> Result<Self, ScheduleError> {
        let mut entries = Vec::with_capacity(len);
        let (mut first_ns, mut last_ns) = (u64::MAX, 0);
        for conversation in 0..len {
            let Some(offset_ns) = start_ns(conversation) else {
                return Err(ScheduleError::NoTimestamp { place: place(conversation) });
            };
            (first_ns, last_ns) = (first_ns.min(offset_ns), last_ns.max(offset_ns));
            let is_early = window.start_ns.is_some_and(|start| offset_ns < start);
            let is_late = window.end_ns.is_some_and(|end| offset_ns > end);
            if !is_early && !is_late {
                entries.push(ScheduleEntry { offset_ns, conversation });
            }
        }
        // In place: a stable sort would take half as much memory again.
        entries.sort_unstable_by_key(|entry| (entry.offset_ns, entry.conversation));
        let Some(first) = entries.first() else {
            let (start_ns, end_ns) = (window.start_ns, window.end_ns);
            return Err(ScheduleError::Empty { len, first_ns, last_ns, start_ns, end_ns });
        };
        let zero_ns = if window.auto_offset { first.offset_ns } else { window.start_ns.unwrap_or(0) };
        for entry in &mut entries {
            entry.offset_ns -= zero_ns;
        }
        let left_out = len - entries.len();
        Ok(Self { entries, zero_ns, left_out })
    }

    /// The same sessions at the times of a replay: what was recorded at `t` is due at `replayed(t)`, which never goes backwards. Which
    /// sessions are in the window stays as it was recorded.
    #[must_use]
    pub fn replayed(mut self, replayed: impl Fn(u64) -> u64) -> Self {
        let zero_ns = replayed(self.zero_ns);
        for entry in &mut self.entries {
            entry.offset_ns = replayed(self.zero_ns.saturating_add(entry.offset_ns)).saturating_sub(zero_ns);
        }
        self.zero_ns = zero_ns;
        self
    }

    /// All sessions in the order in which they start; at least one.
    pub fn entries(&self) -> &[ScheduleEntry] {
        &self.entries
    }

    /// Most sessions that start within one second.
    pub fn most_in_a_second(&self) -> usize {
        let mut first = 0;
        let within = self.entries.iter().enumerate().map(|(last, entry)| {
            while entry.offset_ns - self.entries[first].offset_ns >= NS_PER_S {
                first += 1;
            }
            last + 1 - first
        });
        within.max().unwrap_or(0)
    }

    /// The longest time, nanoseconds, in which no session starts, and the one that ends it.
    pub fn longest_silence(&self) -> Option<(u64, ScheduleEntry)> {
        let before = std::iter::once(0).chain(self.entries.iter().map(|entry| entry.offset_ns));
        let silences = before.zip(&self.entries).map(|(before, entry)| (entry.offset_ns - before, *entry));
        silences.max_by_key(|(silence, _)| *silence)
    }

    /// Conversations whose time is outside the window.
    pub const fn left_out(&self) -> usize {
        self.left_out
    }

    /// When a later turn is due in a phase that started at `phase_start_ns`: at its own time, but not before the turn in front
    /// of it ended at `end_ns`; if it has none, `delay_ns` after that end; else at that end. A time of 0 beside a delay counts
    /// as none.
    pub fn later_ns(
        &self,
        phase_start_ns: u64,
        at_ns: Option<u64>,
        delay_ns: Option<u64>,
        end_ns: u64,
    ) -> u64 {
        match (at_ns, delay_ns) {
            (None | Some(0), Some(delay)) => end_ns.saturating_add(delay),
            (Some(at), _) => phase_start_ns.saturating_add(at.saturating_sub(self.zero_ns)).max(end_ns),
            (None, None) => end_ns,
        }
    }
}

/// Why a workload makes no schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleError {
    /// No time lies in the window.
    Empty {
        /// Conversations of the workload.
        len: usize,
        /// Their first time.
        first_ns: u64,
        /// Their last time.
        last_ns: u64,
        /// Earlier times are left out.
        start_ns: Option<u64>,
        /// Later times are left out.
        end_ns: Option<u64>,
    },
    /// A conversation does not say when it begins.
    NoTimestamp {
        /// Where it is.
        place: String,
    },
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| ns as f64 / 1e6;
        match self {
            Self::NoTimestamp { place } => write!(
                f,
                "{place}: a conversation begins here without a 'timestamp', and a fixed schedule needs one; give it one, or send without \
                 the file's times (--no-fixed-schedule)"
            ),
            Self::Empty { len, first_ns, last_ns, start_ns, end_ns } => {
                let conversations = if *len == 1 { "conversation" } else { "conversations" };
                write!(f, "none of its {len} {conversations} begins ")?;
                match (start_ns, end_ns) {
                    (Some(start), Some(end)) => write!(
                        f,
                        "from {} ms (--fixed-schedule-start-offset) to {} ms (--fixed-schedule-end-offset)",
                        ms(*start),
                        ms(*end)
                    )?,
                    (Some(start), None) => {
                        write!(f, "at {} ms or later (--fixed-schedule-start-offset)", ms(*start))?;
                    }
                    (None, Some(end)) => {
                        write!(f, "at {} ms or earlier (--fixed-schedule-end-offset)", ms(*end))?;
                    }
                    (None, None) => write!(f, "at any time")?,
                }
                if first_ns <= last_ns {
                    write!(f, "; they begin from {} ms to {} ms", ms(*first_ns), ms(*last_ns))?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for ScheduleError {}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn schedule(times_ms: &[u64], window: ScheduleWindow) -> Result<FixedSchedule, ScheduleError> {
        FixedSchedule::new(times_ms.len(), |i| Some(times_ms[i] * MS), |i| format!("c{i}"), &window)
    }

    /// (offset in ms, conversation).
    fn entries(times_ms: &[u64], window: ScheduleWindow) -> Vec<(u64, usize)> {
        let schedule = schedule(times_ms, window).expect("a schedule");
        assert_eq!(schedule.left_out(), times_ms.len() - schedule.entries().len());
        schedule.entries().iter().map(|e| (e.offset_ns / MS, e.conversation)).collect()
    }

    fn window(auto_offset: bool, start_ms: Option<u64>, end_ms: Option<u64>) -> ScheduleWindow {
        ScheduleWindow { auto_offset, start_ns: start_ms.map(|t| t * MS), end_ns: end_ms.map(|t| t * MS) }
    }

    #[test]
    fn times_are_sorted_and_equals_keep_their_order() {
        let times = [1000, 0, 250, 1000, 250];
        let want = [(0, 1), (250, 2), (250, 4), (1000, 0), (1000, 3)];
        assert_eq!(entries(&times, window(false, None, None)), want);
        assert_eq!(entries(&times, window(true, None, None)), want);
    }

    #[test]
    fn windows_hold_their_ends() {
        let times = [100, 200, 300, 400];
        assert_eq!(entries(&times, window(false, None, None)), [(100, 0), (200, 1), (300, 2), (400, 3)]);
        assert_eq!(entries(&times, window(true, None, Some(300))), [(0, 0), (100, 1), (200, 2)]);
        assert_eq!(entries(&times, window(false, Some(200), None)), [(0, 1), (100, 2), (200, 3)]);
        assert_eq!(entries(&times, window(false, Some(150), Some(300))), [(50, 1), (150, 2)]);
    }

    #[test]
    fn a_replay_has_the_sessions_of_the_record() {
        let times = [100, 200, 300, 400];
        let replayed = |window| {
            let schedule = schedule(&times, window).expect("a schedule").replayed(|ns| ns / 10);
            let turn = schedule.later_ns(7, Some(50 * MS), None, 0);
            (schedule.entries().iter().map(|e| (e.offset_ns / MS, e.conversation)).collect::<Vec<_>>(), turn)
        };
        // A window from 150 to 300 of the record; a later turn at 50 of the replay.
        assert_eq!(replayed(window(false, Some(150), Some(300))), (vec![(5, 1), (15, 2)], 7 + 35 * MS));
        assert_eq!(replayed(window(true, None, Some(200))), (vec![(0, 0), (10, 1)], 7 + 40 * MS));
    }

    #[test]
    fn the_densest_second_may_lie_anywhere() {
        let most = |times: &[u64]| {
            schedule(times, window(false, None, None)).expect("a schedule").most_in_a_second()
        };
        assert_eq!(most(&[5000]), 1);
        assert_eq!(most(&[0, 1000, 2000]), 1);
        assert_eq!(most(&[0, 999, 1000, 1998, 1999, 5000, 5000]), 3);
    }

    #[test]
    fn what_makes_no_schedule_is_an_error() {
        let missing = FixedSchedule::new(
            2,
            |i| (i == 0).then_some(0),
            |i| format!("a.jsonl:{}", i + 1),
            &ScheduleWindow::default(),
        );
        assert_eq!(
            missing.expect_err("no time").to_string(),
            "a.jsonl:2: a conversation begins here without a 'timestamp', and a fixed schedule needs one; give it one, or send without the \
             file's times (--no-fixed-schedule)"
        );
        for (start, end, said) in [
            (
                Some(500),
                Some(501),
                "from 500 ms (--fixed-schedule-start-offset) to 501 ms (--fixed-schedule-end-offset)",
            ),
            (Some(500), None, "at 500 ms or later (--fixed-schedule-start-offset)"),
            (None, Some(50), "at 50 ms or earlier (--fixed-schedule-end-offset)"),
        ] {
            let error = schedule(&[100, 200], window(false, start, end)).expect_err("nothing is left");
            let said = format!("none of its 2 conversations begins {said}; they begin from 100 ms to 200 ms");
            assert_eq!(error.to_string(), said);
        }
    }

    #[test]
    fn later_turns_have_their_time_or_their_delay() {
        let schedule = schedule(&[100], window(true, None, None)).expect("a schedule");
        let start = 5000 * MS;
        let later = |at: Option<u64>, delay: Option<u64>, end| {
            schedule.later_ns(start, at.map(|t| t * MS), delay.map(|t| t * MS), end * MS) / MS
        };
        // The time of the file, 100 ms of which are before the start.
        assert_eq!(later(Some(400), None, 5100), 5300);
        assert_eq!(later(Some(400), None, 5900), 5900);
        assert_eq!(later(Some(50), None, 5001), 5001);
        assert_eq!(later(None, Some(70), 5900), 5970);
        assert_eq!(later(Some(0), Some(70), 5900), 5970);
        assert_eq!(later(Some(400), Some(0), 5100), 5300);
        assert_eq!(later(Some(0), None, 5900), 5900);
        assert_eq!(later(None, None, 5900), 5900);
    }
}
