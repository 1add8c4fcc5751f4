//! What is known of the load itself. Plain data: whoever measures something fills it in, and what nobody measured is absent.

use aiperf_core::time::ns_to_seconds;

use crate::load::{InFlight, LagHistogram, Span};
use crate::statistics::Distribution;

/// The load of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Health {
    /// The clock all stamps are of.
    pub clock: ClockHealth,
    /// Phases that began, in order.
    pub phases: Vec<PhaseHealth>,
    /// The way of ended requests from the shards to the reader.
    pub handover: HandOver,
}

/// The clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClockHealth {
    /// What it is made of, as the system names it (`tsc`).
    pub source: Option<String>,
    /// The smallest step it was seen to take, nanoseconds.
    pub resolution_ns: Option<u64>,
    /// How far the wall clock went beside the monotonic one from the start of the run to its end.
    pub wall_step_ns: Option<i64>,
}

/// Ended requests on their way to the reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HandOver {
    /// Most requests that waited at once, in memory and in files.
    pub most_requests: u64,
    /// Most bytes of them, as they are in memory.
    pub most_bytes: u64,
    /// Requests that went through a file, because the reader was behind.
    pub spilled_requests: u64,
    /// Bytes of them.
    pub spilled_bytes: u64,
}

/// The load of one phase.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PhaseHealth {
    /// Its name.
    pub name: String,
    /// It is in no results.
    pub is_warmup: bool,
    /// What the plan asked for.
    pub asked: Asked,
    /// What became of arrivals.
    pub arrivals: Arrivals,
    /// Scheduled instants of all arrivals, sent or not; empty without a schedule.
    pub scheduled: Span,
    /// When requests were handed to the transport.
    pub dispatched: Span,
    /// Scheduled → first byte out.
    pub send_lag: Option<Spread>,
    /// Scheduled → handed to the transport: waiting for a place, a prompt, or the loop.
    pub queue_wait: Option<Spread>,
    /// Received by the kernel → read, of every read of an answer.
    pub read_lag: Option<Spread>,
    /// CPU time of all threads of the process, from the start of the phase to its end.
    pub process: CpuShare,
    /// Its shards.
    pub shards: Vec<ShardHealth>,
}

/// What the plan asked of a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Asked {
    /// Sessions start when a place is free, not on a schedule.
    pub is_closed_loop: bool,
    /// Arrivals per second, where the plan names one steady rate; the arrivals themselves are [`PhaseHealth::scheduled`].
    pub rate: Option<f64>,
    /// The highest rate of arrivals that the plan comes to.
    pub peak_rate: Option<f64>,
    /// Sessions at once: asked for in a closed loop, else a limit.
    pub concurrency: Option<u32>,
    /// Limit of requests on the wire.
    pub max_in_flight: Option<u32>,
    /// Limit of requests that wait for their first content.
    pub prefill_concurrency: Option<u32>,
    /// The sessions at once come to their number over time.
    pub is_ramped: bool,
}

impl Asked {
    /// Whether an arrival may have to wait because the plan says so.
    pub const fn has_limit(&self) -> bool {
        self.concurrency.is_some() || self.max_in_flight.is_some() || self.prefill_concurrency.is_some()
    }
}

/// What became of arrivals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Came due: sent + skipped + cut.
    pub scheduled: u64,
    /// Handed to the transport.
    pub sent: u64,
    /// Found no place, and the plan says to skip those.
    pub skipped: u64,
    /// Came due and were not sent when the phase stopped.
    pub cut: u64,
    /// Sent late: see [`late_after_ns`](crate::late_after_ns).
    pub late: u64,
}

/// Median, 99th percentile and maximum, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spread {
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Largest.
    pub max_ns: u64,
}

impl Spread {
    /// Of a metric in nanoseconds.
    pub fn of(values: &Distribution) -> Self {
        let whole = |value: f64| value.round() as u64;
        Self { p50_ns: whole(values.p50()), p99_ns: whole(values.p99()), max_ns: whole(values.max) }
    }

    /// Of counted lags; `None` when there are none.
    pub fn of_lags(lags: &LagHistogram) -> Option<Self> {
        Some(Self { p50_ns: lags.quantile_ns(0.5)?, p99_ns: lags.quantile_ns(0.99)?, max_ns: lags.max_ns()? })
    }
}

/// CPU time over a stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuShare {
    /// How long the stretch is.
    pub wall_ns: u64,
    /// CPU time in it; `None` where the system does not tell.
    pub cpu_ns: Option<u64>,
    /// Time in it that it could have run and had to wait for a core; `None` where the system does not tell.
    pub waited_ns: Option<u64>,
}

impl CpuShare {
    /// Cores it kept busy: 1 is one core all the time.
    pub fn busy(&self) -> Option<f64> {
        self.share(self.cpu_ns)
    }

    /// Share of the time that it waited for a core.
    pub fn waited(&self) -> Option<f64> {
        self.share(self.waited_ns)
    }

    fn share(&self, part_ns: Option<u64>) -> Option<f64> {
        part_ns.filter(|_| self.wall_ns > 0).map(|ns| ns as f64 / self.wall_ns as f64)
    }
}

/// What one shard measured of itself in one phase.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShardHealth {
    /// Its number.
    pub shard: u16,
    /// Its thread: while it was sending, or the whole phase when that took less than a second.
    pub thread: CpuShare,
    /// Deadline → woken, of a deadline that it sets itself 100 times a second.
    pub loop_lag: LagHistogram,
    /// Requests on the wire, until it had sent its last one.
    pub in_flight: InFlight,
    /// Sessions alive, think time included, until it had sent its last request.
    pub sessions: InFlight,
    /// Scheduled instants of arrivals that it did not send; the others are in the records.
    pub unsent: Span,
    /// Of these, skipped because there was no place.
    pub skipped: u64,
    /// What happened to its connections in this phase.
    pub connections: Connections,
    /// Sessions that waited for their prompt.
    pub composer: ComposerWaits,
    /// Connections that could not be made because no local port was left (`EADDRNOTAVAIL`).
    pub ports_missing: u64,
    /// Connections that could not be made because no descriptor was left (`EMFILE`, `ENFILE`).
    pub descriptors_missing: u64,
    /// How often the wall clock was found to have been set, as receive stamps were read against it.
    pub clock_steps: u64,
}

/// What happened to connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connections {
    /// Made.
    pub opened: u64,
    /// Requests that went out on one that was kept.
    pub reused: u64,
    /// Kept ones found closed by the server when they were wanted.
    pub stale: u64,
    /// Kept ones dropped because nobody wanted them for too long.
    pub expired: u64,
    /// Requests that went out again, because the server closed a kept connection as they were sent.
    pub resent: u64,
    /// Could not be made (name, TCP or TLS).
    pub refused: u64,
}

impl Connections {
    /// Adds others.
    pub const fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.reused += other.reused;
        self.stale += other.stale;
        self.expired += other.expired;
        self.resent += other.resent;
        self.refused += other.refused;
    }

    /// What came since `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            opened: self.opened - before.opened,
            reused: self.reused - before.reused,
            stale: self.stale - before.stale,
            expired: self.expired - before.expired,
            resent: self.resent - before.resent,
            refused: self.refused - before.refused,
        }
    }
}

/// Sessions that could have started, or gone on, and had no prompt yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ComposerWaits {
    /// How many that could have started.
    pub sessions: u64,
    /// Later turns that were due before their conversation, which had been given back, was made again.
    pub turns: u64,
    /// How long they waited together, nanoseconds.
    pub waited_ns: u64,
    /// The longest wait, nanoseconds.
    pub longest_ns: u64,
}

impl ComposerWaits {
    /// One session more, which waited this long.
    pub fn add(&mut self, waited_ns: u64) {
        self.merge(&Self { sessions: 1, turns: 0, waited_ns, longest_ns: waited_ns });
    }

    /// One later turn more, which waited this long.
    pub fn add_turn(&mut self, waited_ns: u64) {
        self.merge(&Self { sessions: 0, turns: 1, waited_ns, longest_ns: waited_ns });
    }

    /// Takes in others.
    pub fn merge(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.turns += other.turns;
        self.waited_ns += other.waited_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

impl PhaseHealth {
    /// Arrivals per second that were asked for: those of the schedule itself.
    pub fn asked_rate(&self) -> Option<f64> {
        self.scheduled.per_second()
    }

    /// Requests per second that were sent. In an open loop from the first to the last of them, or over the schedule where its
    /// last arrival comes later: a client that stands still sends nothing while its schedule goes on. In a closed loop over the
    /// whole phase, for its first requests leave all at once.
    pub fn achieved_rate(&self) -> Option<f64> {
        let sent = self.dispatched;
        if self.asked.is_closed_loop && self.process.wall_ns > 0 {
            return (sent.count > 0).then(|| sent.count as f64 / ns_to_seconds(self.process.wall_ns));
        }
        let due = self.scheduled;
        if due.count > 0 && due.last_ns > sent.last_ns {
            return Span { count: sent.count, ..due }.per_second();
        }
        sent.per_second()
    }

    /// Requests on the wire, of all shards.
    pub fn in_flight(&self) -> InFlight {
        self.summed(|shard| &shard.in_flight)
    }

    /// Sessions alive, of all shards.
    pub fn sessions(&self) -> InFlight {
        self.summed(|shard| &shard.sessions)
    }

    /// Deadline → woken, of all shards.
    pub fn loop_lag(&self) -> LagHistogram {
        let mut lags = LagHistogram::default();
        for shard in &self.shards {
            lags.merge(&shard.loop_lag);
        }
        lags
    }

    /// Connections of all shards.
    pub fn connections(&self) -> Connections {
        let mut all = Connections::default();
        for shard in &self.shards {
            all.add(&shard.connections);
        }
        all
    }

    /// Sessions of all shards that waited for their prompt.
    pub fn composer(&self) -> ComposerWaits {
        let mut all = ComposerWaits::default();
        for shard in &self.shards {
            all.merge(&shard.composer);
        }
        all
    }

    fn summed(&self, of: impl Fn(&ShardHealth) -> &InFlight) -> InFlight {
        let mut all = InFlight::default();
        for shard in &self.shards {
            all.merge(of(shard));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn two_requests_that_left_at_once_are_no_rate_of_thousands() {
        let burst = Span { count: 2, first_ns: SECOND, last_ns: SECOND + 1_000_000 };
        let asked = |is_closed_loop| Asked { is_closed_loop, ..Asked::default() };
        let process = CpuShare { wall_ns: 4 * SECOND, ..CpuShare::default() };
        let closed = PhaseHealth { asked: asked(true), dispatched: burst, process, ..PhaseHealth::default() };
        assert_eq!(closed.achieved_rate(), Some(0.5));
        assert_eq!(PhaseHealth { dispatched: Span::default(), ..closed }.achieved_rate(), None);
        // The schedule went on for a second more, and nothing of it was sent.
        let scheduled = Span { count: 500, first_ns: SECOND, last_ns: 2 * SECOND };
        let open =
            PhaseHealth { asked: asked(false), scheduled, dispatched: burst, ..PhaseHealth::default() };
        assert_eq!(open.achieved_rate(), Some(1.0));
        // All were sent, some of them after the last was due.
        let late = Span { count: 500, first_ns: SECOND, last_ns: 6 * SECOND };
        assert_eq!(PhaseHealth { dispatched: late, ..open }.achieved_rate(), Some(99.8));
    }
}
