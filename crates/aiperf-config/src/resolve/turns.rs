//! Turns of synthetic conversations and the think time between them.

use aiperf_core::plan::{DelayPlan, LengthPlan, LengthShape, TurnsPlan};

use super::Resolver;
use crate::options::{Id, MOST_TURNS};

impl Resolver<'_> {
    pub(super) fn turns(&mut self) -> TurnsPlan {
        self.exclude(Id::TurnsShape, Id::Turns, "both say the number of turns; keep one");
        self.exclude(Id::TurnsShape, Id::TurnsStddev, "the distribution has its own spread; keep one");
        let count = self.turn_count();
        let delay = self.turn_delay();
        if is_one(&count) {
            self.delay_has_no_effect("conversations have one turn; --conversation-turn-mean gives them more");
            return TurnsPlan::one();
        }
        if let Some(id) =
            [Id::TurnsShape, Id::Turns, Id::TurnsStddev].into_iter().find(|id| self.settings.has(*id))
        {
            self.wants_messages(id);
        }
        TurnsPlan { count, delay }
    }

    fn turn_count(&mut self) -> LengthPlan {
        if let Some(shape) = self.settings.lengths(Id::TurnsShape).cloned() {
            if !(1.0..=MOST_TURNS).contains(&shape.scale()) {
                let found = format!("a distribution around {} turns", shape.scale());
                self.bad(Id::TurnsShape, found, &format!("1 to {MOST_TURNS} turns"));
            }
            return shape;
        }
        let mean = self.settings.float_or_default(Id::Turns);
        let stddev = self.settings.float_or_default(Id::TurnsStddev);
        if stddev <= 0.0
            && mean.fract() > 0.0
            && let Some(place) = self.place(Id::Turns)
        {
            let whole = mean.round_ties_even();
            self.notes.push(format!(
                "{place}: without --conversation-turn-stddev {mean} turns are {whole} turns each"
            ));
        }
        LengthPlan::normal(mean, stddev)
    }

    fn turn_delay(&mut self) -> Option<DelayPlan> {
        let mean_ms = self.settings.float_or_default(Id::TurnDelay);
        let stddev_ms = self.settings.float_or_default(Id::TurnDelayStddev);
        let ratio = self.settings.float_or_default(Id::TurnDelayRatio);
        if mean_ms > 0.0 {
            return (ratio > 0.0).then_some(DelayPlan { mean_ms, stddev_ms, ratio });
        }
        // AIPerf has no think time without a mean either, but does not say so.
        if stddev_ms > 0.0 {
            self.needs(
                Id::TurnDelayStddev,
                "--conversation-turn-delay-mean above 0",
                "a standard deviation needs its mean; without one there is no think time",
            );
        }
        if ratio > 0.0 {
            self.needs(
                Id::TurnDelayRatio,
                "--conversation-turn-delay-mean above 0",
                "it is a factor on think times; without a mean there are none",
            );
        }
        None
    }

    fn delay_has_no_effect(&mut self, why: &str) {
        for id in [Id::TurnDelay, Id::TurnDelayStddev, Id::TurnDelayRatio] {
            if let Some(place) = self.place(id) {
                self.notes.push(format!("{place} has no effect: {why}"));
            }
        }
    }
}

/// Whether no conversation has a second turn.
fn is_one(count: &LengthPlan) -> bool {
    let never_more = match &count.shape {
        LengthShape::Normal { mean, stddev } => *stddev <= 0.0 && mean.round_ties_even() <= 1.0,
        LengthShape::LogNormal { .. } => false,
        LengthShape::Peaks(peaks) => peaks.iter().all(|peak| is_one(&peak.item)),
        LengthShape::Points(points) => points.iter().all(|point| point.item <= 1.0),
    };
    never_more || count.most.is_some_and(|most| most <= 1.0)
}
