//! What bounds the requests of a phase while it runs: limits, their ramps, and what happens where one is met.

use aiperf_core::plan::{Cancellation, Pacing, Ramp, RampShape, Saturation};
use aiperf_core::time::seconds_to_ns;

use super::knobs::{Knobs, RampKnobs, Source};
use crate::options::Id;
use crate::resolve::Resolver;
use crate::row::row_of;

/// The limits of one phase.
#[derive(Debug)]
pub(super) struct Limits {
    pub concurrency: Option<u32>,
    pub concurrency_ramp: Option<Ramp>,
    pub prefill: Option<u32>,
    pub prefill_ramp: Option<Ramp>,
    pub in_flight: Option<u32>,
    pub saturation: Saturation,
}

impl<'a> Resolver<'a> {
    pub(super) fn limits(&mut self, source: Source<'a>, pacing: &Pacing) -> Limits {
        // A closed loop has a limit, 1 when none is given; an open loop only has the one that is given.
        let concurrency = source.limit(|k| k.concurrency).or_else(|| pacing.is_closed_loop().then_some(1));
        let concurrency_ramp =
            self.ramp(source, |k| &k.concurrency_ramp, concurrency.is_some(), 0, "--concurrency");
        let prefill = self.prefill(source, concurrency);
        let prefill_ramp =
            self.ramp(source, |k| &k.prefill_ramp, prefill.is_some(), 0, "--prefill-concurrency");
        let in_flight = source.limit(|k| k.in_flight);
        let limited = concurrency.or(prefill).or(in_flight).is_some();
        let saturation = self.saturation(source, pacing, limited);
        Limits { concurrency, concurrency_ramp, prefill, prefill_ramp, in_flight, saturation }
    }

    fn prefill(&mut self, source: Source<'a>, concurrency: Option<u32>) -> Option<u32> {
        let own = source.knobs.prefill;
        let limit = source.limit(|k| k.prefill)?;
        if !self.streams() {
            self.needs(own, "--streaming", "without a stream there is no first token to wait for");
        }
        match concurrency {
            Some(most) if limit > most && source.settings.has(own) => {
                let allowed = format!("a whole number up to the concurrency, {most}");
                self.bad(own, format!("'{limit}'"), &allowed);
                Some(limit)
            }
            // One that is taken over fits where it can.
            Some(most) => Some(limit.min(most)),
            None => Some(limit),
        }
    }

    /// The way of a value to its target, which `target` would give; without it, a ramp of at least `rank` is a mistake.
    pub(super) fn ramp(
        &mut self,
        source: Source<'a>,
        of: fn(&'static Knobs) -> &'static RampKnobs,
        has_target: bool,
        rank: u8,
        target: &'static str,
    ) -> Option<Ramp> {
        let own = of(source.knobs);
        if !has_target {
            let parts = [own.duration, own.strategy, own.from];
            self.stray(&parts, rank, target, "it is the way to a value, and there is none to come to");
            return None;
        }
        let Some(seconds) = source.float(|k| of(k).duration) else {
            self.stray(&[own.strategy, own.from], 0, row_of(own.duration).flag(), "a ramp takes its time");
            return None;
        };
        let (settings, from) = source.at(|k| of(k).from);
        Some(Ramp {
            duration_ns: seconds_to_ns(seconds),
            shape: match source.text(|k| of(k).strategy) {
                Some("exponential") => RampShape::Exponential,
                Some("poisson") => RampShape::Poisson,
                _ => RampShape::Linear,
            },
            from: settings.int(from).map(|n| n as f64).or_else(|| settings.float(from)),
        })
    }

    fn saturation(&mut self, source: Source<'a>, pacing: &Pacing, limited: bool) -> Saturation {
        let own = source.knobs.saturation;
        let policy = match source.text(|k| k.saturation) {
            Some("skip") => Saturation::Skip,
            Some("abort") => Saturation::Abort,
            _ => return Saturation::Queue,
        };
        if pacing.is_closed_loop() {
            self.needs(
                own,
                "--request-rate, --request-rate-series, --user-centric-rate or --fixed-schedule",
                "without a schedule no arrival can come too early for a place",
            );
            return Saturation::Queue;
        }
        if !limited && let Some(place) = self.place(own) {
            self.notes.push(format!(
                "{place} has no effect: --concurrency, --prefill-concurrency or --max-in-flight makes a limit, and none is given"
            ));
        }
        policy
    }

    /// Requests that are dropped on purpose.
    pub(super) fn cancellation(&mut self) -> Option<Cancellation> {
        let Some(percent) = self.settings.float(Id::CancellationRate) else {
            self.needs(
                Id::CancellationDelay,
                "--request-cancellation-rate",
                "it says how many of the requests are dropped",
            );
            return None;
        };
        let delay = self.settings.float_or_default(Id::CancellationDelay);
        (percent > 0.0).then(|| Cancellation { share: percent / 100.0, delay_ns: seconds_to_ns(delay) })
    }
}
