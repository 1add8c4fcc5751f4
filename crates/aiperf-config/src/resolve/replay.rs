//! What becomes of what the rows of a file recorded: their times, their lengths, and what went with their prompts.

use aiperf_core::plan::{CompletionsPlan, FileFormat, Pacing, PhasePlan, ReplayPlan, TimesPlan, TurnTimes};

use super::Resolver;
use crate::environment::derived_sessions;
use crate::options::Id;

/// What is done with the times that rows recorded.
pub(super) const REPLAY: &[Id] = &[
    Id::DelayCap,
    Id::IgnoreTraceDelays,
    Id::ReplaySpeedup,
    Id::IdleGapCap,
    Id::OpenLoopReplay,
    Id::OpenLoopStrict,
    Id::SessionShare,
];

/// What goes with the prompts of recorded completions.
pub(super) const COMPLETIONS: &[Id] = &[Id::OmitKvHints, Id::ForceMinTokens];

/// What is done with the lengths of prompts that are made, not of those that are sent as they are.
const RESHAPED: &[Id] = &[Id::SynthesisPrefix, Id::SynthesisRoots, Id::SynthesisPrompt];

/// What is done with traces alone.
pub(super) const TRACE: &[Id] = &[
    Id::SynthesisSpeedup,
    Id::SynthesisPrefix,
    Id::SynthesisRoots,
    Id::SynthesisPrompt,
    Id::SynthesisOutput,
    Id::SynthesisMaxIsl,
    Id::SynthesisMaxOsl,
];

impl Resolver<'_> {
    /// What becomes of the times and lengths of rows.
    pub(super) fn replay(&mut self, format: FileFormat) -> ReplayPlan {
        if format.is_bodies() {
            for id in REPLAY.iter().chain(TRACE) {
                self.exclude(
                    *id,
                    Id::DatasetFormat,
                    "bodies have neither times nor lengths; drop one of the two",
                );
            }
        } else if format.is_verbatim_trace() {
            for id in RESHAPED {
                self.exclude(*id, Id::DatasetFormat, "prompts of that form are sent as they were; drop it");
            }
        } else if !format.is_trace() && format != FileFormat::Detect {
            for id in TRACE {
                self.needs(
                    *id,
                    "--custom-dataset-type mooncake_trace",
                    "it is for traces, whose rows give lengths",
                );
            }
        }
        self.exclude(
            Id::SynthesisSpeedup,
            Id::ReplaySpeedup,
            "both say how much faster the file is replayed; keep one",
        );
        let is_closed = self.settings.switch(Id::OpenLoopReplay) == Some(false);
        let is_strict = self.settings.is_on(Id::OpenLoopStrict);
        let is_ignored = self.settings.is_on(Id::IgnoreTraceDelays);
        self.exclude(
            Id::OpenLoopStrict,
            Id::OpenLoopReplay,
            "rows are sent at their own times or behind answers; keep one",
        );
        if is_ignored && (is_closed || is_strict) {
            let other = if is_closed { Id::OpenLoopReplay } else { Id::OpenLoopStrict };
            self.exclude(
                Id::IgnoreTraceDelays,
                other,
                "the one leaves out the times of later turns and the other keeps to them; keep one",
            );
        }
        self.exclude(
            Id::DelayCap,
            Id::IgnoreTraceDelays,
            "without think times there is nothing to limit; keep one",
        );
        for id in [Id::IdleGapCap, Id::OpenLoopStrict] {
            self.exclude(
                id,
                Id::NoFixedSchedule,
                "the one is about timestamps and the other leaves them out; keep one",
            );
        }
        if format == FileFormat::RandomPool {
            self.exclude(Id::SessionShare, Id::DatasetFormat, "rows of a pool are of no session; drop it");
        }
        if format == FileFormat::Bailian {
            let why = "its rows are joined to chats by the file, and a chat would be torn apart; drop it";
            self.exclude(Id::SessionShare, Id::DatasetFormat, why);
        }
        let seconds = |id: Id| self.settings.float(id).map(aiperf_core::time::seconds_to_ns);
        ReplayPlan {
            speedup: self
                .settings
                .float(Id::ReplaySpeedup)
                .unwrap_or_else(|| self.settings.float_or_default(Id::SynthesisSpeedup)),
            idle_cap_ns: seconds(Id::IdleGapCap),
            delay_cap_ns: seconds(Id::DelayCap),
            turn_times: if is_strict {
                TurnTimes::Alone
            } else if is_closed {
                TurnTimes::BehindAnswers
            } else if is_ignored {
                TurnTimes::Ignored
            } else {
                TurnTimes::Recorded
            },
            max_isl: self.settings.int(Id::SynthesisMaxIsl),
            max_osl: self.settings.int(Id::SynthesisMaxOsl),
            times: TimesPlan {
                prefix: self.settings.float_or_default(Id::SynthesisPrefix),
                prompt: self.settings.float_or_default(Id::SynthesisPrompt),
                output: self.settings.float_or_default(Id::SynthesisOutput),
                roots: self.settings.int_or_default(Id::SynthesisRoots),
            },
            session_share: self.settings.float(Id::SessionShare).unwrap_or(1.0),
        }
    }

    /// What goes with the prompts of recorded completions.
    pub(super) fn completions(&mut self, format: FileFormat) -> CompletionsPlan {
        if !matches!(format, FileFormat::Baseten | FileFormat::Detect) {
            for id in COMPLETIONS {
                self.exclude(*id, Id::DatasetFormat, "it is for baseten_trace; drop it");
            }
        }
        CompletionsPlan {
            min_tokens: self.settings.switch(Id::ForceMinTokens),
            omits_blocks: self.settings.switch(Id::OmitKvHints).filter(|on| *on),
            derived_sessions: derived_sessions(self.env, &mut self.notes, &mut self.errors),
        }
    }

    /// Silences and rows that go alone are those of a schedule.
    pub(super) fn replay_needs_schedule(&mut self, phases: &[PhasePlan]) {
        if !phases.iter().any(|phase| matches!(phase.pacing, Pacing::FixedSchedule { .. }))
            && self.settings.has(Id::InputFile)
        {
            self.needs(
                Id::IdleGapCap,
                "--fixed-schedule",
                "silences are those between the timestamps of the rows",
            );
            self.needs(Id::OpenLoopStrict, "--fixed-schedule", "rows are sent at their own timestamps");
        }
    }
}
