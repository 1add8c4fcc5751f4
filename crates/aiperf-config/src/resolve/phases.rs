//! From load options to phases, in AIPerf's order of decision: a rate makes an open loop (with a concurrency as cap),
//! otherwise the loop is closed; a duration brings its grace; without any stop a run is 10 requests.

use aiperf_core::plan::{Arrival, Pacing, PhaseKind, PhasePlan};
use aiperf_core::time::seconds_to_ns;

use super::Resolver;
use crate::error::ConfigError;
use crate::options::Id;
use crate::place::Place;

/// Requests of a run without any stop condition. AIPerf's help says more, its code says 10.
const DEFAULT_REQUESTS: u64 = 10;

/// The options of one phase's pacing.
#[derive(Clone, Copy)]
struct Knobs {
    rate: Id,
    pattern: Id,
    smoothness: Id,
}

const PROFILING: Knobs =
    Knobs { rate: Id::RequestRate, pattern: Id::ArrivalPattern, smoothness: Id::Smoothness };
const WARMUP: Knobs =
    Knobs { rate: Id::WarmupRate, pattern: Id::WarmupPattern, smoothness: Id::WarmupSmoothness };

const BURST: &str = "concurrency_burst";

impl Resolver<'_> {
    pub(super) fn phases(&mut self) -> Vec<PhasePlan> {
        let profiling = self.profiling();
        let mut phases: Vec<PhasePlan> = self.warmup(&profiling.pacing).into_iter().collect();
        if phases.iter().any(|p| p.name.eq_ignore_ascii_case(&profiling.name))
            && let Some(place) = self.structure.warmup.clone()
        {
            self.errors.push(ConfigError::BadValue {
                place,
                found: format!("the name '{}' twice", profiling.name),
                allowed: "a different name for each phase".to_owned(),
                nearest: None,
            });
        }
        phases.push(profiling);
        phases
    }

    fn profiling(&mut self) -> PhasePlan {
        let pacing = self.pacing(PROFILING).unwrap_or(Pacing::Concurrency);
        let settings = self.settings;
        let duration_ns = settings.float(Id::Duration).map(seconds_to_ns);
        let requests = settings.int(Id::RequestCount);
        let sessions = settings.int(Id::Conversations);
        if duration_ns.is_none() {
            self.needs(
                Id::Grace,
                "--benchmark-duration",
                "the grace begins when the duration ends; give a duration or drop the grace",
            );
        }
        PhasePlan {
            name: self.structure.profiling_name.clone().unwrap_or_else(|| "profiling".to_owned()),
            kind: PhaseKind::Profiling,
            concurrency: limit(&pacing, self.concurrency(Id::Concurrency)),
            requests: requests.or((duration_ns.is_none() && sessions.is_none()).then_some(DEFAULT_REQUESTS)),
            sessions,
            duration_ns,
            grace_ns: duration_ns.and_then(|_| endless(settings.float_or_default(Id::Grace))),
            ..PhasePlan::new("", PhaseKind::Profiling, pacing)
        }
    }

    fn warmup(&mut self, main: &Pacing) -> Option<PhasePlan> {
        let settings = self.settings;
        let duration_ns = settings.float(Id::WarmupDuration).map(seconds_to_ns);
        let requests = settings.int(Id::WarmupRequests);
        let sessions = settings.int(Id::WarmupSessions);
        if duration_ns.is_none() && requests.is_none() && sessions.is_none() {
            self.no_warmup();
            return None;
        }
        if duration_ns.is_none() {
            self.needs(
                Id::WarmupGrace,
                "--warmup-duration",
                "the grace begins when the duration ends; give a duration or drop the grace",
            );
        }
        // A phase whose type the file gives stands for itself; anything else takes after the profiling phase.
        let inherits = !self.structure.warmup_is_typed;
        let pacing = self.warmup_pacing(main, inherits).unwrap_or(Pacing::Concurrency);
        let concurrency = self
            .concurrency(Id::WarmupConcurrency)
            .or_else(|| self.concurrency(Id::Concurrency).filter(|_| inherits));
        Some(PhasePlan {
            name: self.structure.warmup_name.clone().unwrap_or_else(|| "warmup".to_owned()),
            kind: PhaseKind::Warmup,
            concurrency: limit(&pacing, concurrency),
            requests,
            sessions,
            duration_ns,
            grace_ns: duration_ns.and_then(|_| endless(settings.float_or_default(Id::WarmupGrace))),
            ..PhasePlan::new("", PhaseKind::Warmup, pacing)
        })
    }

    /// Nothing makes a warmup: says so where options or the file expect one.
    fn no_warmup(&mut self) {
        if let Some(place) = self.structure.warmup.clone() {
            self.errors.push(ConfigError::Needs {
                place,
                needs: "requests, sessions or duration",
                why: "a warmup without an end would never let the measurement begin",
            });
            return;
        }
        self.needs(
            Id::WarmupGrace,
            "--warmup-duration",
            "there is no warmup; --warmup-duration makes one that the grace belongs to",
        );
        for id in [Id::WarmupConcurrency, Id::WarmupRate, Id::WarmupPattern, Id::WarmupSmoothness] {
            if let Some(place) = self.place(id) {
                self.notes.push(format!(
                    "{place} has no effect: --warmup-request-count, --num-warmup-sessions or --warmup-duration makes a warmup, and none \
                     of them is given"
                ));
            }
        }
    }

    fn warmup_pacing(&mut self, main: &Pacing, inherits: bool) -> Option<Pacing> {
        let own_rate = self.settings.float(Id::WarmupRate);
        let own_pattern = self.settings.text(Id::WarmupPattern);
        let main_rate = match main {
            Pacing::Rate { rate, .. } => Some(rate.target()),
            Pacing::Concurrency | Pacing::FixedSchedule { .. } | Pacing::UserCentric { .. } => None,
        };
        let is_whole = own_pattern == Some(BURST) || (own_rate.is_some() && own_pattern.is_some());
        let Some(per_second) = own_rate.or(main_rate).filter(|_| inherits && !is_whole) else {
            return self.pacing(WARMUP);
        };
        // Only a pattern that was written is taken over, not a gamma that the main smoothness implied.
        let pattern = own_pattern.or_else(|| self.settings.text(Id::ArrivalPattern));
        let smoothness = self.settings.float(Id::WarmupSmoothness);
        let arrival = match (pattern, smoothness) {
            (Some("constant"), _) => Arrival::Constant,
            (Some("gamma"), own) => Arrival::Gamma {
                smoothness: own.or_else(|| self.settings.float(Id::Smoothness)).unwrap_or(1.0),
            },
            (None, Some(smoothness)) => Arrival::Gamma { smoothness },
            _ => Arrival::Poisson,
        };
        if matches!(arrival, Arrival::Constant | Arrival::Poisson) && smoothness.is_some() {
            self.needs(Id::WarmupSmoothness, "--warmup-arrival-pattern gamma", "other gaps have no shape");
        }
        Some(Pacing::steady(per_second, arrival))
    }

    /// The pacing that a phase's own options ask for; `None` when they are in conflict.
    fn pacing(&mut self, knobs: Knobs) -> Option<Pacing> {
        let rate = self.settings.float(knobs.rate);
        let pattern = self.settings.text(knobs.pattern);
        let rank = |id: Id| self.settings.place(id).map_or(0, Place::rank);
        let (rate_rank, pattern_rank) = (rank(knobs.rate), rank(knobs.pattern));
        let Some(per_second) = rate else {
            self.needs(knobs.smoothness, "a request rate", "it shapes the gaps between arrivals");
            if pattern.is_some_and(|p| p != BURST) {
                self.pattern_without_rate(knobs.pattern);
            }
            return Some(Pacing::Concurrency);
        };
        if pattern == Some(BURST) {
            if pattern_rank == rate_rank {
                self.exclude(
                    knobs.pattern,
                    knobs.rate,
                    "concurrency_burst sends whenever a place is free and so has no rate; drop one of the two",
                );
                return None;
            }
            if pattern_rank > rate_rank {
                return Some(Pacing::Concurrency);
            }
        }
        let smoothness = self.settings.float(knobs.smoothness);
        let arrival = match (pattern, smoothness) {
            (Some("gamma"), smoothness) => Arrival::Gamma { smoothness: smoothness.unwrap_or(1.0) },
            (Some("constant"), None) => Arrival::Constant,
            (Some("poisson" | BURST) | None, None) => Arrival::Poisson,
            (Some(BURST) | None, Some(smoothness)) => Arrival::Gamma { smoothness },
            (Some(_), _) => {
                self.exclude(
                    knobs.smoothness,
                    knobs.pattern,
                    "only gamma gaps have a shape; choose the pattern gamma or drop the smoothness",
                );
                return None;
            }
        };
        Some(Pacing::steady(per_second, arrival))
    }

    /// A file's phase must be whole; on a command line AIPerf lets the pattern stand without effect.
    fn pattern_without_rate(&mut self, pattern: Id) {
        match self.place(pattern) {
            Some(Place::File { .. }) => {
                self.needs(pattern, "rate", "its arrivals come at a rate");
            }
            Some(place) => self.notes.push(format!("{place} has no effect without a request rate")),
            None => {}
        }
    }

    fn concurrency(&self, id: Id) -> Option<u32> {
        self.settings.int(id).and_then(|n| u32::try_from(n).ok())
    }
}

/// A closed loop has a limit, 1 when none is given; an open loop only has the one that is given.
fn limit(pacing: &Pacing, given: Option<u32>) -> Option<u32> {
    match pacing {
        Pacing::Concurrency => Some(given.unwrap_or(1)),
        Pacing::Rate { .. } | Pacing::FixedSchedule { .. } | Pacing::UserCentric { .. } => given,
    }
}

/// Nanoseconds, or `None` for an endless time.
fn endless(seconds: f64) -> Option<u64> {
    seconds.is_finite().then(|| seconds_to_ns(seconds))
}
