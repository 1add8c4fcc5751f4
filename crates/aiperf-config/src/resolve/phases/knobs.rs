//! Which options say what of a phase, for each kind of phase, and where a warm-up looks for what it is not told.

use crate::options::Id;
use crate::settings::Settings;

/// The options of one ramp.
#[derive(Debug)]
pub(super) struct RampKnobs {
    pub duration: Id,
    pub strategy: Id,
    pub from: Id,
}

/// The options that phases of every kind have.
#[derive(Debug)]
pub(super) struct Knobs {
    pub rate: Id,
    pub series: Id,
    pub rate_ramp: RampKnobs,
    pub pattern: Id,
    pub smoothness: Id,
    pub concurrency: Id,
    pub concurrency_ramp: RampKnobs,
    pub prefill: Id,
    pub prefill_ramp: RampKnobs,
    pub in_flight: Id,
    pub saturation: Id,
}

pub(super) static PROFILING: Knobs = Knobs {
    rate: Id::RequestRate,
    series: Id::RateSeries,
    rate_ramp: RampKnobs { duration: Id::RateRamp, strategy: Id::RateRampStrategy, from: Id::RateRampFrom },
    pattern: Id::ArrivalPattern,
    smoothness: Id::Smoothness,
    concurrency: Id::Concurrency,
    concurrency_ramp: RampKnobs {
        duration: Id::ConcurrencyRamp,
        strategy: Id::ConcurrencyRampStrategy,
        from: Id::ConcurrencyRampFrom,
    },
    prefill: Id::PrefillConcurrency,
    prefill_ramp: RampKnobs {
        duration: Id::PrefillRamp,
        strategy: Id::PrefillRampStrategy,
        from: Id::PrefillRampFrom,
    },
    in_flight: Id::MaxInFlight,
    saturation: Id::SaturationPolicy,
};

pub(super) static WARMUP: Knobs = Knobs {
    rate: Id::WarmupRate,
    series: Id::WarmupRateSeries,
    rate_ramp: RampKnobs {
        duration: Id::WarmupRateRamp,
        strategy: Id::WarmupRateRampStrategy,
        from: Id::WarmupRateRampFrom,
    },
    pattern: Id::WarmupPattern,
    smoothness: Id::WarmupSmoothness,
    concurrency: Id::WarmupConcurrency,
    concurrency_ramp: RampKnobs {
        duration: Id::WarmupConcurrencyRamp,
        strategy: Id::WarmupConcurrencyRampStrategy,
        from: Id::WarmupConcurrencyRampFrom,
    },
    prefill: Id::WarmupPrefill,
    prefill_ramp: RampKnobs {
        duration: Id::WarmupPrefillRamp,
        strategy: Id::WarmupPrefillRampStrategy,
        from: Id::WarmupPrefillRampFrom,
    },
    in_flight: Id::WarmupMaxInFlight,
    saturation: Id::WarmupSaturation,
};

/// Options that make no warm-up but only shape one.
pub(super) static WARMUP_SHAPE: [Id; 17] = [
    Id::WarmupConcurrency,
    Id::WarmupConcurrencyRamp,
    Id::WarmupConcurrencyRampStrategy,
    Id::WarmupConcurrencyRampFrom,
    Id::WarmupPrefill,
    Id::WarmupPrefillRamp,
    Id::WarmupPrefillRampStrategy,
    Id::WarmupPrefillRampFrom,
    Id::WarmupMaxInFlight,
    Id::WarmupSaturation,
    Id::WarmupRate,
    Id::WarmupRateSeries,
    Id::WarmupRateRamp,
    Id::WarmupRateRampStrategy,
    Id::WarmupRateRampFrom,
    Id::WarmupPattern,
    Id::WarmupSmoothness,
];

/// Where the options of one phase are found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    /// The phase's own.
    pub settings: &'a Settings,
    /// What they are called.
    pub knobs: &'static Knobs,
    /// The profiling phase's, for what a warm-up is not told.
    pub base: Option<&'a Settings>,
}

impl<'a> Source<'a> {
    /// Of a profiling phase.
    pub(super) fn profiling(settings: &'a Settings) -> Self {
        Self { settings, knobs: &PROFILING, base: None }
    }

    /// Where the option is: its own, or else the one it takes after.
    pub(super) fn at(&self, of: impl Fn(&'static Knobs) -> Id) -> (&'a Settings, Id) {
        let own = of(self.knobs);
        match self.base {
            Some(base) if !self.settings.has(own) => (base, of(&PROFILING)),
            _ => (self.settings, own),
        }
    }

    pub(super) fn limit(&self, of: impl Fn(&'static Knobs) -> Id) -> Option<u32> {
        let (settings, id) = self.at(of);
        // The table bounds what is counted so.
        settings.int(id).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
    }

    pub(super) fn float(&self, of: impl Fn(&'static Knobs) -> Id) -> Option<f64> {
        let (settings, id) = self.at(of);
        settings.float(id)
    }

    pub(super) fn text(&self, of: impl Fn(&'static Knobs) -> Id) -> Option<&'a str> {
        let (settings, id) = self.at(of);
        settings.text(id)
    }
}
