//! What the client measures of itself while it runs: [`ShardMeter`] on a shard's own thread, [`ProcessMeter`] beside all of them.

use aiperf_core::time::NS_PER_S;
use aiperf_metrics::{Connections, CpuShare, InFlight, ShardHealth};
use aiperf_net::Counters;
use aiperf_os::mono_ns;
use aiperf_os::usage::{ThreadUsage, process_usage, thread_usage};

/// A shard's own share of the CPU is looked at while it sends, if that takes at least this long. In less, opening all connections
/// at once would look like a thread that is busy all the time.
const SENDING_NS: u64 = NS_PER_S;
/// A session that has its prompt within this time did not wait for it.
const WAIT_NS: u64 = 100_000;

/// What a shard measures of itself in one phase. Everything here is a few additions; nothing allocates after the start. To be made and
/// finished on the shard's thread.
#[derive(Debug)]
pub(crate) struct ShardMeter {
    health: ShardHealth,
    began: Sample,
    sent: Option<Sample>,
    before: Counters,
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
        Self { health, began: Sample::take(now_ns), sent: None, before: *counters }
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

    /// A session that could have started has its prompt now, this long after it asked for it.
    pub(crate) fn waited_for_prompt(&mut self, ns: u64) {
        if ns >= WAIT_NS {
            self.health.composer.add(ns);
        }
    }

    /// A later turn could have been sent and has its conversation again now, so long after it was due.
    pub(crate) fn waited_for_remade(&mut self, ns: u64) {
        if ns >= WAIT_NS {
            self.health.composer.add_turn(ns);
        }
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
        self.health.connections = connections(counters).since(&connections(&self.before));
        self.health.ports_missing = counters.port_shortages - self.before.port_shortages;
        self.health.descriptors_missing = counters.descriptor_shortages - self.before.descriptor_shortages;
        self.health.clock_steps = counters.clock_steps - self.before.clock_steps;
        self.health
    }
}

/// The client's counters as the report has them.
fn connections(counters: &Counters) -> Connections {
    Connections {
        opened: counters.opened,
        reused: counters.reused,
        stale: counters.stale,
        expired: counters.expired,
        resent: counters.resent,
        refused: counters.refused,
    }
}

/// Measures the CPU time of all threads of the process from now on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessMeter {
    start_ns: u64,
    cpu_ns: u64,
}

impl ProcessMeter {
    /// From now on.
    pub(crate) fn start() -> Self {
        Self { start_ns: mono_ns(), cpu_ns: process_usage().cpu_ns }
    }

    /// Until now. No CPU time at all is that of a platform that does not tell.
    pub(crate) fn share(&self) -> CpuShare {
        let now = process_usage().cpu_ns;
        CpuShare {
            wall_ns: mono_ns().saturating_sub(self.start_ns),
            cpu_ns: (now > 0).then(|| now.saturating_sub(self.cpu_ns)),
            waited_ns: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_is_seen_to_be_busy() {
        let start_ns = mono_ns();
        let mut meter = ShardMeter::start(3, start_ns, &Counters { opened: 5, ..Counters::default() });
        meter.in_flight().add(start_ns + 10);
        meter.woken(start_ns, start_ns + 500);
        meter.waited_for_prompt(WAIT_NS - 1);
        meter.waited_for_prompt(WAIT_NS);
        meter.waited_for_remade(WAIT_NS - 1);
        meter.waited_for_remade(2 * WAIT_NS);
        meter.skipped(1000);
        meter.cut(3000);
        meter.sending_over(start_ns + 100);
        // Until the thread's clock has moved on.
        while thread_usage().cpu_ns.is_some_and(|ns| Some(ns) == meter.began.usage.cpu_ns) {}
        let counters = Counters { opened: 7, port_shortages: 2, clock_steps: 3, ..Counters::default() };
        let health = meter.finish(start_ns + 200, &counters);
        assert_eq!((health.shard, health.connections.opened, health.ports_missing), (3, 2, 2));
        assert_eq!(health.clock_steps, 3);
        assert_eq!((health.skipped, health.unsent.count, health.unsent.last_ns), (1, 2, 3000));
        let waits = health.composer;
        assert_eq!((waits.sessions, waits.turns, waits.longest_ns), (1, 1, 2 * WAIT_NS));
        assert_eq!(health.loop_lag.max_ns(), Some(500));
        assert_eq!(health.in_flight.mean(), Some(0.9), "90 of 100 ns");
        // In less than a second of sending it is the whole phase that counts.
        assert_eq!(health.thread.wall_ns, 200);
        assert!(health.thread.cpu_ns.is_none_or(|ns| ns > 0));
    }

    #[test]
    fn a_long_drain_does_not_thin_out_the_sending() {
        let start_ns = mono_ns();
        let mut meter = ShardMeter::start(0, start_ns, &Counters::default());
        meter.sending_over(start_ns + SENDING_NS);
        let health = meter.finish(start_ns + 100 * SENDING_NS, &Counters::default());
        assert_eq!(health.thread.wall_ns, SENDING_NS);
    }

    #[test]
    fn the_process_uses_what_its_threads_use() {
        let meter = ProcessMeter::start();
        let before = process_usage().cpu_ns;
        while before > 0 && process_usage().cpu_ns == before {}
        let share = meter.share();
        assert!(share.cpu_ns.is_none_or(|ns| ns > 0) && share.wall_ns > 0);
    }
}
