//! The life of a phase in time, and what each moment allows.

use aiperf_core::plan::PhasePlan;

/// What a moment allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Requests may be sent.
    Sending,
    /// Nothing is sent any more; what is in flight may end.
    Draining,
    /// What is still in flight is dropped.
    Over,
}

/// A phase that started: its start and its two ends, monotonic nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseWindow {
    /// When the phase started; arrival 0 is here.
    pub start_ns: u64,
    /// Sending ends here; `u64::MAX` without a duration.
    pub sending_end_ns: u64,
    /// What is in flight is dropped here; `u64::MAX` without a duration or with endless grace.
    pub over_ns: u64,
    /// Most requests sent; `u64::MAX` without a cap.
    pub max_requests: u64,
    /// Most sessions started; `u64::MAX` without a cap.
    pub max_sessions: u64,
}

impl PhaseWindow {
    /// The window of `plan`, started at `start_ns`. Grace has a meaning only with a duration.
    pub fn start(plan: &PhasePlan, start_ns: u64) -> Self {
        let sending_end_ns = plan.duration_ns.map_or(u64::MAX, |d| start_ns.saturating_add(d));
        let over_ns = match (plan.duration_ns, plan.grace_ns) {
            (Some(_), Some(grace)) => sending_end_ns.saturating_add(grace),
            _ => u64::MAX,
        };
        Self {
            start_ns,
            sending_end_ns,
            over_ns,
            max_requests: plan.requests.unwrap_or(u64::MAX),
            max_sessions: plan.most_sessions().unwrap_or(u64::MAX),
        }
    }

    /// What `now_ns` allows.
    pub fn stage(&self, now_ns: u64) -> Stage {
        if now_ns < self.sending_end_ns {
            Stage::Sending
        } else if now_ns < self.over_ns {
            Stage::Draining
        } else {
            Stage::Over
        }
    }

    /// Whether a request may be sent at `now_ns` when `sent` were sent before it. Asked before and again after a place
    /// was won, so that an end reached while waiting is honoured.
    pub fn may_send(&self, sent: u64, now_ns: u64) -> bool {
        sent < self.max_requests && self.stage(now_ns) == Stage::Sending
    }

    /// Whether session number `index` may ever start: caps on requests and on sessions cap sessions by their index alone, and
    /// every shard comes to the same answer without asking the others.
    pub fn admits(&self, index: u64) -> bool {
        index < self.max_sessions
    }

    /// Whether the schedule has an arrival `offset_ns` after the start.
    pub fn has_arrival(&self, index: u64, offset_ns: u64) -> bool {
        // Without a duration an arrival may be further away than the clock reaches; it is waited for, not left out.
        let is_timed = self.sending_end_ns != u64::MAX;
        self.admits(index) && (!is_timed || self.start_ns.saturating_add(offset_ns) < self.sending_end_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aiperf_core::plan::{Pacing, PhaseKind};

    fn plan(requests: Option<u64>, duration_ns: Option<u64>, grace_ns: Option<u64>) -> PhasePlan {
        PhasePlan {
            concurrency: Some(1),
            requests,
            duration_ns,
            grace_ns,
            ..PhasePlan::new("profiling", PhaseKind::Profiling, Pacing::Concurrency)
        }
    }

    #[test]
    fn the_first_cap_reached_wins() {
        let w = PhaseWindow::start(&plan(Some(3), Some(100), Some(50)), 1_000);
        assert!(w.may_send(2, 1_099));
        assert!(!w.may_send(3, 1_000), "requests");
        assert!(!w.may_send(0, 1_100), "duration");
        assert_eq!(w.stage(1_149), Stage::Draining);
        assert_eq!(w.stage(1_150), Stage::Over);
    }

    #[test]
    fn a_cap_on_sessions_lets_those_that_started_go_on() {
        let window = |requests, sessions| {
            PhaseWindow::start(&PhasePlan { sessions: Some(sessions), ..plan(requests, None, None) }, 0)
        };
        let w = window(None, 3);
        assert!(w.admits(2) && w.has_arrival(2, 5));
        assert!(!w.admits(3) && !w.has_arrival(3, 5));
        assert!(w.may_send(1_000, 5), "later turns are no new sessions");
        let w = window(Some(2), 3);
        assert!(w.admits(1) && !w.admits(2) && !w.may_send(2, 5), "the smaller cap wins");
        assert!(!window(Some(9), 3).admits(3));
    }

    #[test]
    fn grace_means_nothing_without_a_duration() {
        let w = PhaseWindow::start(&plan(Some(3), None, Some(0)), 1_000);
        assert_eq!(w.stage(u64::MAX - 1), Stage::Sending);
    }

    #[test]
    fn endless_grace_never_drops() {
        let w = PhaseWindow::start(&plan(None, Some(10), None), 0);
        assert_eq!(w.stage(u64::MAX - 1), Stage::Draining);
    }

    #[test]
    fn an_arrival_at_the_end_of_sending_is_not_part_of_the_schedule() {
        let w = PhaseWindow::start(&plan(Some(5), Some(100), None), 1_000);
        assert!(w.has_arrival(4, 99));
        assert!(!w.has_arrival(4, 100));
        assert!(!w.has_arrival(5, 0));
    }

    #[test]
    fn no_arrival_is_left_out_for_being_far_away() {
        let w = PhaseWindow::start(&plan(Some(5), None, None), 1_000);
        assert!(w.has_arrival(4, u64::MAX));
        assert!(!w.has_arrival(5, u64::MAX));
    }
}
