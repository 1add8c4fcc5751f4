//! Phases of one kind together, as the summary has them: every request of all of them, over the time of all of them.

use aiperf_core::plan::PhasePlan;
use aiperf_metrics::{
    Analysis, ErrorGroup, ErrorSummary, LengthLedger, LengthSummary, Names, PhaseHealth, Recorder, Summary,
    TargetRecorder, TargetSummary, Window,
};

use crate::control::PhaseEnd;
use crate::reader::{Malformed, PhaseResults};

/// See the module.
pub(crate) struct Pooled {
    recorder: Recorder,
    errors: ErrorSummary,
    lengths: LengthLedger,
    malformed: Malformed,
    targets: Option<TargetRecorder>,
    windows: Vec<Window>,
}

/// Phases together, in numbers.
pub(crate) struct Numbers {
    pub summary: Summary,
    pub errors: Vec<ErrorGroup>,
    pub lengths: LengthSummary,
    pub malformed: Malformed,
    /// One for each server, when there are several.
    pub targets: Vec<TargetSummary>,
}

impl Pooled {
    /// One phase, with the health of its load.
    pub(crate) fn of(plan: &PhasePlan, results: PhaseResults, end: PhaseEnd) -> (Self, PhaseHealth) {
        let PhaseResults { mut recorder, errors, lengths, last_end_ns, malformed, load, targets } = results;
        recorder.set_unsent(end.unsent);
        recorder.set_scheduled(end.scheduled);
        let end_ns = if last_end_ns == 0 { end.end_ns } else { last_end_ns };
        let windows = vec![Window::new(end.start_ns, end_ns)];
        let health = load.health(plan, end, &recorder);
        (Self { recorder, errors, lengths, malformed, targets, windows }, health)
    }

    /// Takes in a later phase.
    pub(crate) fn add(&mut self, other: Self) {
        self.recorder.merge(other.recorder);
        self.errors.merge(&other.errors);
        self.lengths.merge(&other.lengths);
        self.malformed.events += other.malformed.events;
        self.malformed.answers += other.malformed.answers;
        if let (Some(ours), Some(theirs)) = (&mut self.targets, other.targets) {
            ours.merge(theirs);
        }
        self.windows.extend(other.windows);
    }

    /// The same, with latencies that are told without a round trip, too, if it is known how long one takes.
    pub(crate) fn with_network_rtt(mut self, ns: Option<f64>) -> Self {
        if let Some(ns) = ns {
            self.recorder.set_network_rtt(ns);
        }
        self
    }

    /// Intervals, steady state and groups. Random draws are keyed by `seed`.
    pub(crate) fn analyse(&self, names: Names<'_>, seed: u64) -> Option<Analysis> {
        self.recorder.analyse(Window::pooled(&self.windows), names, seed)
    }

    /// Every request of all of it.
    pub(crate) const fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Statistics of all of it.
    pub(crate) fn numbers(&self) -> Numbers {
        let window = Window::pooled(&self.windows);
        Numbers {
            summary: self.recorder.summarise(window),
            errors: self.errors.groups().to_vec(),
            lengths: self.lengths.summary(),
            malformed: self.malformed,
            targets: self.targets.as_ref().map(|t| t.summarise(window)).unwrap_or_default(),
        }
    }
}
