//! What the reader leaves behind.

use aiperf_core::plan::{Pacing, PhasePlan, Plan};
use aiperf_core::time::ClockAnchor;
use aiperf_metrics::{Capabilities, Disk, ErrorSummary, LengthLedger, Recorder, TargetRecorder};
use aiperf_report::Verified;

use crate::artifacts::Spool;
use crate::error::RunError;
use crate::handover::HandoverStats;
use crate::outputs::Outputs;
use crate::phase_load::PhaseLoad;

/// One phase's results.
pub(crate) struct PhaseResults {
    pub recorder: Recorder,
    pub errors: ErrorSummary,
    pub lengths: LengthLedger,
    /// End of the request that came back last, monotonic; 0 before the first.
    pub last_end_ns: u64,
    /// Events of whole answers that were no JSON and were passed over.
    pub malformed: Malformed,
    /// How the load was.
    pub load: PhaseLoad,
    /// Results by server, when there are several.
    pub targets: Option<TargetRecorder>,
}

/// Events passed over in answers that count as whole all the same, as in AIPerf.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Events.
    pub events: u64,
    /// Answers they were in.
    pub answers: u64,
}

/// Of all phases.
pub(crate) struct Collected {
    /// One for each phase of the plan.
    pub phases: Vec<PhaseResults>,
    /// Files that grew during the run, with their label for the footer.
    pub files: Vec<(&'static str, Spool)>,
    /// The answers' texts, where they are kept.
    pub outputs: Option<Outputs>,
    /// What counting again came to.
    pub verified: Option<Verified>,
    /// There were more blocks of prompts than are kept, so that not all requests have an expectation of the cache.
    pub is_cache_full: bool,
    /// How far the reader was behind.
    pub handover: HandoverStats,
    /// Where long columns are.
    pub disk: Option<Disk>,
    /// What went wrong behind the run.
    pub problems: Vec<RunError>,
}

impl Collected {
    /// Nothing was read.
    pub(crate) fn empty(plan: &Plan, anchor: ClockAnchor, capabilities: Capabilities) -> Self {
        let targets = plan.endpoint.targets.len();
        let phases = plan
            .phases
            .iter()
            .map(|phase| PhaseResults {
                recorder: recorder(plan, phase, anchor, capabilities),
                errors: ErrorSummary::default(),
                lengths: LengthLedger::default(),
                last_end_ns: 0,
                malformed: Malformed::default(),
                load: PhaseLoad::new(phase),
                targets: (targets > 1).then(|| TargetRecorder::new(targets)),
            })
            .collect();
        Self {
            phases,
            files: Vec::new(),
            outputs: None,
            verified: None,
            is_cache_full: false,
            handover: HandoverStats::default(),
            disk: None,
            problems: Vec::new(),
        }
    }
}

/// An empty recorder for a phase.
pub(super) fn recorder(
    plan: &Plan,
    phase: &PhasePlan,
    anchor: ClockAnchor,
    capabilities: Capabilities,
) -> Recorder {
    let is_replay = matches!(phase.pacing, Pacing::FixedSchedule { .. });
    Recorder::new(capabilities, anchor).with_slos(&plan.slos).of_replay(is_replay)
}
