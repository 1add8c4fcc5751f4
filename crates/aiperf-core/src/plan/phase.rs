//! How a phase sends: its pacing, its limits, and when it ends.

/// In results or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PhaseKind {
    /// Never in results.
    Warmup,
    /// Always in results.
    Profiling,
}

impl PhaseKind {
    /// The name files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warmup => "warmup",
            Self::Profiling => "profiling",
        }
    }
}

/// One phase.
#[derive(Debug, Clone, PartialEq)]
pub struct PhasePlan {
    /// Name, unique.
    pub name: String,
    /// In results or not.
    pub kind: PhaseKind,
    /// What starts sessions and turns.
    pub pacing: Pacing,
    /// Most sessions alive at once, think time included; `None` is no limit. [`Pacing::Concurrency`] always has one.
    pub concurrency: Option<u32>,
    /// How the limit on sessions comes to its value.
    pub concurrency_ramp: Option<Ramp>,
    /// Most requests that wait for their first content at once.
    pub prefill_concurrency: Option<u32>,
    /// How the limit on prefills comes to its value.
    pub prefill_ramp: Option<Ramp>,
    /// Most requests on the wire at once.
    pub max_in_flight: Option<u32>,
    /// What becomes of an arrival that finds no place under a limit.
    pub saturation: Saturation,
    /// Some requests are dropped on purpose.
    pub cancellation: Option<Cancellation>,
    /// The run is stopped when more than this share of its requests failed (0 to 1).
    pub failed_threshold: Option<f64>,
    /// Starts as soon as the phase before it has sent its last request.
    pub seamless: bool,
    /// Stop once this many requests were sent.
    pub requests: Option<u64>,
    /// Start no more sessions than this; those that started go on to their last turn.
    pub sessions: Option<u64>,
    /// Stop sending after this long.
    pub duration_ns: Option<u64>,
    /// How long requests in flight may still run after `duration_ns`; `None` is without end.
    pub grace_ns: Option<u64>,
}

impl PhasePlan {
    /// A phase without limits and without an end.
    pub fn new(name: impl Into<String>, kind: PhaseKind, pacing: Pacing) -> Self {
        Self {
            name: name.into(),
            kind,
            pacing,
            concurrency: None,
            concurrency_ramp: None,
            prefill_concurrency: None,
            prefill_ramp: None,
            max_in_flight: None,
            saturation: Saturation::Queue,
            cancellation: None,
            failed_threshold: None,
            seamless: false,
            requests: None,
            sessions: None,
            duration_ns: None,
            grace_ns: None,
        }
    }

    /// Most sessions that can start: each sends at least one request, so a cap on requests is one on sessions too.
    pub fn most_sessions(&self) -> Option<u64> {
        self.requests.into_iter().chain(self.sessions).min()
    }
}

/// What starts sessions and turns.
#[derive(Debug, Clone, PartialEq)]
pub enum Pacing {
    /// Whenever a place is free: closed loop.
    Concurrency,
    /// On a schedule of arrivals: open loop. An arrival sends the next turn of a session that is ready, else it starts a
    /// session.
    Rate {
        /// Arrivals per second over time.
        rate: RatePlan,
        /// Form of the gaps.
        arrival: Arrival,
    },
    /// At the times that the workload itself gives.
    FixedSchedule {
        /// The first time of the workload is the start of the phase; otherwise `start_offset_ns` is, or time 0.
        auto_offset: bool,
        /// Earlier times are left out, nanoseconds.
        start_offset_ns: Option<u64>,
        /// Later times are left out, nanoseconds.
        end_offset_ns: Option<u64>,
    },
    /// A number of users, each with its own clock, that together send at a rate.
    UserCentric {
        /// Requests per second of all users together.
        per_second: f64,
        /// Users at a time.
        users: u32,
    },
}

impl Pacing {
    /// A steady rate.
    pub const fn steady(per_second: f64, arrival: Arrival) -> Self {
        Self::Rate { rate: RatePlan::steady(per_second), arrival }
    }

    /// Whether sessions start whenever a place is free.
    pub const fn is_closed_loop(&self) -> bool {
        matches!(self, Self::Concurrency)
    }

    /// What starts sessions, as the type of a phase in a configuration file.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::Rate { arrival: Arrival::Constant, .. } => "constant",
            Self::Rate { arrival: Arrival::Poisson, .. } => "poisson",
            Self::Rate { arrival: Arrival::Gamma { .. }, .. } => "gamma",
            Self::FixedSchedule { .. } => "fixed_schedule",
            Self::UserCentric { .. } => "user_centric",
        }
    }
}

/// Arrivals per second over the time of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct RatePlan {
    /// The rate itself.
    pub shape: RateShape,
    /// How it comes to its (first) value. A series begins when the ramp is over.
    pub ramp: Option<Ramp>,
}

impl RatePlan {
    /// `per_second` all the time.
    pub const fn steady(per_second: f64) -> Self {
        Self { shape: RateShape::Steady(per_second), ramp: None }
    }

    /// The highest rate it comes to.
    pub fn peak(&self) -> f64 {
        let own = match &self.shape {
            RateShape::Steady(rate) => *rate,
            RateShape::Series(points) => points.iter().map(|p| p.per_second).fold(0.0, f64::max),
        };
        own.max(self.ramp.and_then(|r| r.from).unwrap_or(0.0))
    }

    /// The rate behind the ramp: the steady one, or the first of a series.
    pub fn target(&self) -> f64 {
        match &self.shape {
            RateShape::Steady(rate) => *rate,
            RateShape::Series(points) => points.first().map_or(0.0, |p| p.per_second),
        }
    }
}

/// A rate over time.
#[derive(Debug, Clone, PartialEq)]
pub enum RateShape {
    /// Arrivals per second, above 0.
    Steady(f64),
    /// Straight lines between points, the last one's value from there on; before the first point, the first one's. At least two
    /// points, times strictly growing.
    Series(Vec<RatePoint>),
}

/// A point of a rate series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatePoint {
    /// Since the series began.
    pub at_ns: u64,
    /// Arrivals per second, above 0.
    pub per_second: f64,
}

/// The way of a value from one to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    /// How long it takes; above 0.
    pub duration_ns: u64,
    /// Form of the way.
    pub shape: RampShape,
    /// Where it begins, which may be above the value it comes to; `None` is 1 for limits and 0 for rates.
    pub from: Option<f64>,
}

/// Form of a ramp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RampShape {
    /// A straight line.
    Linear,
    /// With the square of the time: slow first.
    Exponential,
    /// In equal steps at times drawn evenly from the ramp, as the arrivals of a Poisson process.
    Poisson,
}

impl RampShape {
    /// The name users type and files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Exponential => "exponential",
            Self::Poisson => "poisson",
        }
    }
}

/// What becomes of an arrival that finds no place under a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saturation {
    /// It waits, in order, and is sent late.
    Queue,
    /// It is not sent, and counted as skipped.
    Skip,
    /// The run stops there.
    Abort,
}

impl Saturation {
    /// The name users type and files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Skip => "skip",
            Self::Abort => "abort",
        }
    }
}

/// Requests that are dropped on purpose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cancellation {
    /// Share of the requests, chosen by a keyed draw each (0 exclusive to 1).
    pub share: f64,
    /// How long after the last byte of the request went out the connection is dropped.
    pub delay_ns: u64,
}

/// Form of the gaps between arrivals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrival {
    /// Every gap the same.
    Constant,
    /// Exponential gaps.
    Poisson,
    /// Gamma gaps of shape `smoothness`: 1 is Poisson, more is smoother, less is burstier.
    Gamma {
        /// Shape.
        smoothness: f64,
    },
}
