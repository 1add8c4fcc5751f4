//! Measuring the load while it runs: [`ShardMeter`] on a shard's own thread, [`PhaseLoad`] where records are read.

use aiperf_core::exchange::Exchange;
use aiperf_core::plan::{Pacing, PhaseKind, PhasePlan};
use aiperf_core::ticket::Ticket;
use aiperf_core::time::NS_PER_S;
use aiperf_metrics::{
    Arrivals, Asked, Connections, CpuShare, InFlight, LagHistogram, PhaseHealth, ShardHealth, Span,
    late_after_ns,
};
use aiperf_net::Counters;
use aiperf_os::usage::{ThreadUsage, thread_usage};

/// A shard's own share of the CPU is looked at while it sends, if that takes at least this long. In less, opening all connections
/// at once would look like a thread that is busy all the time.
const SENDING_NS: u64 = NS_PER_S;

/// What a shard measures of itself in one phase. Everything here is a few additions; nothing allocates after the start. To be made and
/// finished on the shard's thread.
#[derive(Debug)]
pub(crate) struct ShardMeter {
    health: ShardHealth,
    began: Sample,
    sent: Option<Sample>,
    connections: Connections,
}

/// What the thread had used at some moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at_ns: u64,
    usage: ThreadUsage,
}

impl Sample {
    fn take(at_ns: u64) -> Self {
        Self { at_ns, usage: thread_usage() }
    }

    fn since(&self, before: &Self) -> CpuShare {
        let part = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        CpuShare {
            wall_ns: self.at_ns.saturating_sub(before.at_ns),
            cpu_ns: part(self.usage.cpu_ns, before.usage.cpu_ns),
            waited_ns: part(self.usage.waited_ns, before.usage.waited_ns),
        }
    }
}

impl ShardMeter {
    /// At arrival 0 of the phase. `counters` are those of the shard's client, which go on from phase to phase.
    pub(crate) fn start(shard: u16, now_ns: u64, counters: &Counters) -> Self {
        let health = ShardHealth {
            shard,
            in_flight: InFlight::start(now_ns),
            sessions: InFlight::start(now_ns),
            ..ShardHealth::default()
        };
        Self { health, began: Sample::take(now_ns), sent: None, connections: connections(counters) }
    }

    /// A session began to live (holds its place) or ended.
    pub(crate) fn sessions(&mut self) -> &mut InFlight {
        &mut self.health.sessions
    }

    /// A request was handed to the transport, or came back from it.
    pub(crate) fn in_flight(&mut self) -> &mut InFlight {
        &mut self.health.in_flight
    }

    /// The timer brought the loop back at `now_ns` for something that was due at `deadline_ns`.
    pub(crate) fn woken(&mut self, deadline_ns: u64, now_ns: u64) {
        self.health.loop_lag.add(now_ns.saturating_sub(deadline_ns));
    }

    /// An arrival found no place, and the plan says to skip those.
    pub(crate) fn skipped(&mut self, scheduled_ns: u64) {
        self.health.skipped += 1;
        self.health.unsent.add(scheduled_ns);
    }

    /// An arrival had come due and was not sent when the phase stopped.
    pub(crate) fn cut(&mut self, scheduled_ns: u64) {
        self.health.unsent.add(scheduled_ns);
    }

    /// A session that could have started waited this long for its prompt.
    pub(crate) fn waited_for_prompt(&mut self, ns: u64) {
        self.health.composer.add(ns);
    }

    /// The shard has sent its last request of the phase. Only the first call counts.
    pub(crate) fn sending_over(&mut self, now_ns: u64) {
        if self.sent.is_none() {
            self.health.in_flight.close(now_ns);
            self.health.sessions.close(now_ns);
            self.sent = Some(Sample::take(now_ns));
        }
    }

    /// All requests are back.
    pub(crate) fn finish(mut self, now_ns: u64, counters: &Counters) -> ShardHealth {
        self.sending_over(now_ns);
        let sending = self.sent.filter(|sent| sent.at_ns.saturating_sub(self.began.at_ns) >= SENDING_NS);
        let end = sending.unwrap_or_else(|| Sample::take(now_ns));
        self.health.thread = end.since(&self.began);
        self.health.connections = connections(counters).since(&self.connections);
        self.health
    }
}

/// The client's counters as the report has them.
fn connections(counters: &Counters) -> Connections {
    let Counters { opened, refused, reused, stale, resent, expired } = *counters;
    Connections { opened, reused, stale, expired, resent, refused }
}
