//! From load options to phases: those of a file in their order, else one to be measured and, where options ask for it, a warm-up
//! before it. A duration brings its grace; a single phase without any stop is 10 requests.

mod knobs;
mod limits;
mod pacing;

use aiperf_core::plan::{Pacing, PhaseKind, PhasePlan};
use aiperf_core::time::seconds_to_ns;
use serde_json::Value as Json;

use self::knobs::{Source, WARMUP, WARMUP_SHAPE};
use super::Resolver;
use crate::error::ConfigError;
use crate::input_config;
use crate::options::Id;
use crate::row::row_of;
use crate::settings::Settings;
use crate::yaml::PhaseSource;

/// Requests of a run without any stop condition. AIPerf's help says more, its code says 10.
const DEFAULT_REQUESTS: u64 = 10;
/// What an endless duration is: longer than any run, and far from the end of the clock.
const ENDLESS_SECONDS: f64 = 1e9;
/// What every phase of several must have.
const STOPS: &str = "requests, sessions or duration";

/// Whether an option shapes one phase.
pub(super) fn is_of_a_phase(id: Id) -> bool {
    kind_of(id).is_some()
}

/// The kind of phase that an option shapes.
fn kind_of(id: Id) -> Option<PhaseKind> {
    let yaml = row_of(id).yaml;
    if yaml.starts_with("phases.profiling.") || matches!(id, Id::UserRate | Id::FixedSchedule) {
        return Some(PhaseKind::Profiling);
    }
    yaml.starts_with("phases.warmup.").then_some(PhaseKind::Warmup)
}

impl<'a> Resolver<'a> {
    /// The phases in their order, each with what `input_config` says of it.
    pub(super) fn phases(&mut self) -> Vec<(PhasePlan, Json)> {
        self.refuse_what_fits_several();
        let structure = self.structure;
        let of_kind = |kind| structure.phases.iter().filter(move |phase: &&PhaseSource| phase.kind == kind);
        let mut measured: Vec<Option<(PhasePlan, Json)>> =
            of_kind(PhaseKind::Profiling).map(|phase| Some(self.profiling(Some(phase)))).collect();
        if measured.is_empty() {
            measured.push(Some(self.profiling(None)));
        }
        // A warm-up takes after the first phase that is measured.
        let base = self.view(of_kind(PhaseKind::Profiling).next());
        let main = measured[0].as_ref().map(|(plan, _)| plan.pacing.clone());
        let mut out = Vec::new();
        if structure.count(PhaseKind::Warmup) == 0 {
            out.extend(self.warmup(None, base, main.as_ref()));
        }
        let mut next = measured.iter_mut();
        for phase in &structure.phases {
            match phase.kind {
                PhaseKind::Warmup => out.extend(self.warmup(Some(phase), base, main.as_ref())),
                PhaseKind::Profiling => out.extend(next.next().and_then(Option::take)),
            }
        }
        out.extend(next.filter_map(Option::take));
        self.check_order(&out);
        out
    }

    /// The settings of a phase: its own where others share its kind, otherwise all, which hold those of the only one.
    fn view(&self, phase: Option<&'a PhaseSource>) -> &'a Settings {
        match phase {
            Some(phase) if self.structure.count(phase.kind) > 1 => &phase.settings,
            _ => self.whole,
        }
    }

    /// A flag or variable that shapes a phase has no place where a file has several of the kind.
    fn refuse_what_fits_several(&mut self) {
        for kind in [PhaseKind::Warmup, PhaseKind::Profiling] {
            if self.structure.count(kind) < 2 {
                continue;
            }
            let phases = self.structure.phases.iter().filter(|phase| phase.kind == kind);
            let names = phases.map(|phase| phase.name.as_str()).collect::<Vec<_>>().join(", ");
            for id in self.whole.ids().filter(|id| kind_of(*id) == Some(kind)) {
                if let Some(place) = self.whole.place(id).cloned() {
                    let (kind, names) = (kind.name(), names.clone());
                    self.errors.push(ConfigError::ManyPhases { place, kind, names });
                }
            }
        }
    }

    /// What can only be told when all phases are known.
    fn check_order(&mut self, phases: &[(PhasePlan, Json)]) {
        let mut names: Vec<String> = Vec::new();
        for (i, (plan, _)) in phases.iter().enumerate() {
            let source = self.structure.phases.iter().find(|phase| phase.name == plan.name);
            let lower = plan.name.to_ascii_lowercase();
            if names.contains(&lower)
                && let Some(source) = source
            {
                self.errors.push(ConfigError::BadValue {
                    place: source.place.clone(),
                    found: format!("the name '{}' twice", plan.name),
                    allowed: "a different name for each phase".to_owned(),
                    nearest: None,
                });
            }
            names.push(lower);
            let Some(place) = source.and_then(|phase| phase.seamless.clone()) else { continue };
            if plan.kind == PhaseKind::Warmup {
                self.errors.push(ConfigError::BadValue {
                    place,
                    found: "true for a warmup".to_owned(),
                    allowed: "true for a profiling phase: a warmup waits for the phase before it".to_owned(),
                    nearest: None,
                });
            } else if i == 0 {
                self.errors.push(ConfigError::BadValue {
                    place,
                    found: "true for the first phase".to_owned(),
                    allowed: "true for a phase that has one before it".to_owned(),
                    nearest: None,
                });
            }
        }
    }

    fn profiling(&mut self, phase: Option<&'a PhaseSource>) -> (PhasePlan, Json) {
        let settings = self.view(phase);
        self.with(settings, |this| this.measured(phase))
    }

    /// A phase that is measured, from the settings that are read now.
    fn measured(&mut self, phase: Option<&'a PhaseSource>) -> (PhasePlan, Json) {
        let source = Source::profiling(self.settings);
        let pacing = self.pacing(source).unwrap_or(Pacing::Concurrency);
        let limits = self.limits(source, &pacing);
        let settings = self.settings;
        let duration_ns = settings.float(Id::Duration).map(duration);
        let (mut requests, sessions) = (settings.int(Id::RequestCount), settings.int(Id::Conversations));
        if duration_ns.is_none() {
            self.needs(
                Id::Grace,
                "--benchmark-duration",
                "the grace begins when the duration ends; give a duration or drop the grace",
            );
        }
        // A schedule ends by itself.
        let is_endless = duration_ns.or(requests).or(sessions).is_none()
            && !matches!(pacing, Pacing::FixedSchedule { .. });
        if is_endless {
            requests = Some(DEFAULT_REQUESTS);
            if let Some(phase) = phase.filter(|_| self.structure.count(PhaseKind::Profiling) > 1) {
                self.errors.push(ConfigError::Needs {
                    place: phase.place.clone(),
                    needs: STOPS.into(),
                    why: "a phase without an end would never let the next one begin",
                });
            }
        }
        if let Pacing::UserCentric { users, .. } = pacing
            && is_endless
        {
            requests = requests.map(|n| n.max(u64::from(users)));
        }
        self.check_timing_mode(phase, &pacing);
        let plan = PhasePlan {
            name: phase.map_or("profiling", |phase| phase.name.as_str()).to_owned(),
            kind: PhaseKind::Profiling,
            concurrency: limits.concurrency,
            concurrency_ramp: limits.concurrency_ramp,
            prefill_concurrency: limits.prefill,
            prefill_ramp: limits.prefill_ramp,
            max_in_flight: limits.in_flight,
            saturation: limits.saturation,
            cancellation: self.cancellation(),
            failed_threshold: settings.float(Id::FailedThreshold),
            seamless: phase.is_some_and(|phase| phase.seamless.is_some()),
            requests,
            sessions,
            duration_ns,
            grace_ns: duration_ns.and_then(|_| endless(settings.float_or_default(Id::Grace))),
            pacing,
        };
        let told = input_config::phase(settings, &plan);
        (plan, told)
    }

    fn warmup(
        &mut self,
        phase: Option<&'a PhaseSource>,
        base: &'a Settings,
        main: Option<&Pacing>,
    ) -> Option<(PhasePlan, Json)> {
        let settings = self.view(phase);
        self.with(settings, |this| this.unmeasured(phase, base, main))
    }

    /// A warm-up from the settings that are read now, if they make one.
    fn unmeasured(
        &mut self,
        phase: Option<&'a PhaseSource>,
        base: &'a Settings,
        main: Option<&Pacing>,
    ) -> Option<(PhasePlan, Json)> {
        let settings = self.settings;
        let duration_ns = settings.float(Id::WarmupDuration).map(duration);
        let (requests, sessions) = (settings.int(Id::WarmupRequests), settings.int(Id::WarmupSessions));
        if duration_ns.or(requests).or(sessions).is_none() {
            self.no_warmup(phase);
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
        let inherits = phase.is_none_or(|phase| !phase.is_typed);
        let source = Source { settings, knobs: &WARMUP, base: inherits.then_some(base) };
        let pacing = self.warmup_pacing(source, main).unwrap_or(Pacing::Concurrency);
        let limits = self.limits(source, &pacing);
        self.check_timing_mode(phase, &pacing);
        let plan = PhasePlan {
            concurrency: limits.concurrency,
            concurrency_ramp: limits.concurrency_ramp,
            prefill_concurrency: limits.prefill,
            prefill_ramp: limits.prefill_ramp,
            max_in_flight: limits.in_flight,
            saturation: limits.saturation,
            requests,
            sessions,
            duration_ns,
            grace_ns: duration_ns.and_then(|_| endless(settings.float_or_default(Id::WarmupGrace))),
            ..PhasePlan::new(phase.map_or("warmup", |phase| phase.name.as_str()), PhaseKind::Warmup, pacing)
        };
        let told = input_config::phase(settings, &plan);
        Some((plan, told))
    }

    /// Nothing makes a warmup: says so where options or the file expect one.
    fn no_warmup(&mut self, phase: Option<&PhaseSource>) {
        if let Some(phase) = phase {
            self.errors.push(ConfigError::Needs {
                place: phase.place.clone(),
                needs: STOPS.into(),
                why: "a warmup without an end would never let the measurement begin",
            });
            return;
        }
        self.needs(
            Id::WarmupGrace,
            "--warmup-duration",
            "there is no warmup; --warmup-duration makes one that the grace belongs to",
        );
        for id in WARMUP_SHAPE {
            if let Some(place) = self.place(id) {
                self.notes.push(format!(
                    "{place} has no effect: --warmup-request-count, --num-warmup-sessions or --warmup-duration makes a warmup, and none \
                     of them is given"
                ));
            }
        }
    }

    /// AIPerf's second word for the type may only say the same.
    fn check_timing_mode(&mut self, phase: Option<&PhaseSource>, pacing: &Pacing) {
        let Some((found, place)) = phase.and_then(|phase| phase.timing_mode.clone()) else { return };
        let same = match pacing {
            Pacing::Concurrency | Pacing::Rate { .. } => "request_rate",
            Pacing::FixedSchedule { .. } => "fixed_schedule",
            Pacing::UserCentric { .. } => "user_centric_rate",
        };
        if found != same {
            self.errors.push(ConfigError::BadValue {
                place,
                found: format!("'{found}'"),
                allowed: format!("'{same}', which is what the type says; or leave it out"),
                nearest: None,
            });
        }
    }
}

/// Nanoseconds of a phase's duration.
fn duration(seconds: f64) -> u64 {
    seconds_to_ns(seconds.min(ENDLESS_SECONDS))
}

/// Nanoseconds, or `None` for an endless time.
fn endless(seconds: f64) -> Option<u64> {
    seconds.is_finite().then(|| seconds_to_ns(seconds))
}
