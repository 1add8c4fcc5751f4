//! The load of a phase as its plan, its records and its shards tell it.

use aiperf_core::exchange::Exchange;
use aiperf_core::plan::{Pacing, PhaseKind, PhasePlan, RatePlan, RateShape};
use aiperf_core::ticket::Ticket;
use aiperf_core::time::ClockAnchor;
use aiperf_metrics::{
    Arrivals, Asked, ClockHealth, LagHistogram, PhaseHealth, Recorder, Span, Spread, late_after_ns,
};

use crate::control::PhaseEnd;

/// What the records of one phase tell of its load, in constant memory.
#[derive(Debug, Clone)]
pub(crate) struct PhaseLoad {
    late_after_ns: u64,
    late: u64,
    scheduled: Span,
    dispatched: Span,
    read_lag: LagHistogram,
}

impl PhaseLoad {
    /// Of a phase of which nothing is known yet.
    pub(crate) fn new(phase: &PhasePlan) -> Self {
        Self {
            late_after_ns: late_after_ns(peak_rate(&phase.pacing)),
            late: 0,
            scheduled: Span::default(),
            dispatched: Span::default(),
            read_lag: LagHistogram::default(),
        }
    }

    /// Takes in a request that was sent.
    pub(crate) fn add(&mut self, ticket: &Ticket, exchange: &Exchange) {
        self.dispatched.add(ticket.dispatched_ns);
        if let Some(scheduled_ns) = ticket.scheduled_ns {
            self.scheduled.add(scheduled_ns);
            // One that never got as far as its first byte was late if it was already late when it got its place.
            let out_ns = exchange.stamps.send_start_ns.unwrap_or(ticket.dispatched_ns);
            self.late += u64::from(out_ns.saturating_sub(scheduled_ns) > self.late_after_ns);
        }
        for read in &exchange.reads {
            if let Some(lag_ns) = read.read_lag_ns() {
                self.read_lag.add(lag_ns.into());
            }
        }
    }

    /// Puts together what the plan, the shards and the records say of the phase. `recorder` has been told of unsent requests.
    pub(crate) fn health(self, plan: &PhasePlan, end: PhaseEnd, recorder: &Recorder) -> PhaseHealth {
        let tally = recorder.tally();
        let mut scheduled = self.scheduled;
        if !plan.pacing.is_closed_loop() {
            for shard in &end.shards {
                scheduled.merge(&shard.unsent);
            }
        }
        // Both are kept in nanoseconds.
        let spread = |tag: &str| recorder.distribution(tag).map(|values| Spread::of(&values));
        PhaseHealth {
            name: plan.name.clone(),
            is_warmup: plan.kind == PhaseKind::Warmup,
            asked: asked(plan),
            arrivals: Arrivals {
                scheduled: tally.scheduled,
                sent: tally.sent,
                skipped: end.skipped.min(tally.unsent),
                cut: tally.unsent.saturating_sub(end.skipped),
                late: self.late,
            },
            scheduled,
            dispatched: self.dispatched,
            send_lag: spread("send_lag"),
            queue_wait: spread("queue_wait"),
            read_lag: Spread::of_lags(&self.read_lag),
            process: end.process,
            shards: end.shards,
        }
    }
}

fn asked(plan: &PhasePlan) -> Asked {
    let rate = match &plan.pacing {
        Pacing::Rate { rate: RatePlan { shape: RateShape::Steady(rate), ramp: None }, .. } => Some(*rate),
        Pacing::UserCentric { per_second, .. } => Some(*per_second),
        Pacing::Rate { .. } | Pacing::FixedSchedule { .. } | Pacing::Concurrency => None,
    };
    Asked {
        is_closed_loop: plan.pacing.is_closed_loop(),
        rate,
        peak_rate: peak_rate(&plan.pacing),
        concurrency: plan.concurrency,
        max_in_flight: plan.max_in_flight,
        prefill_concurrency: plan.prefill_concurrency,
        is_ramped: plan.concurrency_ramp.is_some(),
    }
}

fn peak_rate(pacing: &Pacing) -> Option<f64> {
    match pacing {
        Pacing::Rate { rate, .. } => Some(rate.peak()),
        Pacing::UserCentric { per_second, .. } => Some(*per_second),
        Pacing::FixedSchedule { .. } | Pacing::Concurrency => None,
    }
}

/// The clock of a run that began at `start`, now that it is over.
pub(crate) fn clock(start: &ClockAnchor) -> ClockHealth {
    ClockHealth {
        source: aiperf_os::clock::source(),
        resolution_ns: aiperf_os::clock::smallest_step_ns(),
        wall_step_ns: Some(aiperf_os::clock::wall_step_ns(start, &aiperf_os::anchor())),
    }
}

#[cfg(test)]
mod tests {
    use aiperf_core::plan::Arrival;

    use super::*;
    use crate::ended_toys::ended;
    use aiperf_core::exchange::ReadMark;
    use aiperf_metrics::{Capabilities, CpuShare, Facts, ShardHealth, WireFacts};

    const MS: u64 = 1_000_000;

    /// 20 arrivals a second: late from 2.5 ms on.
    fn open_loop() -> PhasePlan {
        let pacing = Pacing::steady(20.0, Arrival::Constant);
        PhasePlan { max_in_flight: Some(9), ..PhasePlan::new("steady", PhaseKind::Profiling, pacing) }
    }

    /// Wanted at `scheduled_ns`, in its place 1 ms later, its first byte out after `lag_ns`.
    fn request(scheduled_ns: u64, lag_ns: u64) -> (Ticket, Exchange) {
        let ended = ended(0);
        let (mut ticket, mut exchange) = (ended.ticket, ended.exchange);
        (ticket.scheduled_ns, ticket.dispatched_ns) = (Some(scheduled_ns), scheduled_ns + MS);
        exchange.stamps.send_start_ns = Some(scheduled_ns + lag_ns);
        (ticket, exchange)
    }

    fn recorded(requests: &[(Ticket, Exchange)]) -> Recorder {
        let capabilities = Capabilities {
            streaming: true,
            produces_tokens: true,
            tokenizes_input: true,
            reasoning: true,
            compares_usage: true,
        };
        let mut recorder = Recorder::new(capabilities, ClockAnchor { mono_ns: 0, wall_ns: 0 });
        for (ticket, exchange) in requests {
            recorder.record(&Facts {
                outcome: aiperf_core::outcome::Outcome::Failed,
                start_ns: exchange.stamps.start_ns,
                end_ns: exchange.stamps.end_ns,
                scheduled_ns: ticket.scheduled_ns,
                chunks: Vec::new(),
                isl: None,
                asked_isl: None,
                output_tokens: None,
                reasoning_tokens: None,
                requested_osl: None,
                usage: None,
                wire: WireFacts::of(ticket, exchange),
                ..Facts::default()
            });
        }
        recorder
    }

    fn end(scheduled: u64, unsent: u64, skipped: u64, shards: Vec<ShardHealth>) -> PhaseEnd {
        PhaseEnd { scheduled, unsent, skipped, shards, process: CpuShare::default(), ..PhaseEnd::unstarted() }
    }

    #[test]
    fn plan_records_and_shards_make_the_load_of_a_phase() {
        let mut requests: Vec<(Ticket, Exchange)> =
            [(0, 2 * MS), (50 * MS, 5 * MS / 2), (100 * MS, 5 * MS / 2 + 1)]
                .into_iter()
                .map(|(scheduled_ns, lag_ns)| request(scheduled_ns, lag_ns))
                .collect();
        requests[0].1.reads =
            vec![ReadMark::received(10, 30, 1), ReadMark::received(40, 41, 2), ReadMark::read(50, 3)];
        let plan = open_loop();
        let mut load = PhaseLoad::new(&plan);
        for (ticket, exchange) in &requests {
            load.add(ticket, exchange);
        }
        let mut recorder = recorded(&requests);
        recorder.set_unsent(2);
        recorder.set_scheduled(5);
        let mut unsent = Span::default();
        unsent.add(150 * MS);
        unsent.add(200 * MS);
        let shard = ShardHealth { unsent, skipped: 1, ..ShardHealth::default() };
        let health = load.health(&plan, end(5, 2, 1, vec![shard]), &recorder);
        assert_eq!(health.name, "steady");
        assert_eq!(health.arrivals, Arrivals { scheduled: 5, sent: 3, skipped: 1, cut: 1, late: 1 });
        assert_eq!(health.asked_rate(), Some(20.0), "five arrivals in 200 ms, sent or not");
        assert_eq!(health.achieved_rate(), Some(10.0), "three requests in these 200 ms");
        assert_eq!(health.send_lag.map(|lag| (lag.p50_ns, lag.max_ns)), Some((5 * MS / 2, 5 * MS / 2 + 1)));
        assert_eq!(health.queue_wait.map(|wait| wait.max_ns), Some(MS));
        assert_eq!(health.read_lag.map(|lag| lag.max_ns), Some(20));
        assert_eq!((health.asked.rate, health.asked.max_in_flight), (Some(20.0), Some(9)));
    }

    #[test]
    fn a_closed_loop_has_no_schedule() {
        let plan = crate::toys::closed_loop();
        let (mut ticket, exchange) = request(0, 9 * MS);
        ticket.scheduled_ns = None;
        let mut load = PhaseLoad::new(&plan);
        load.add(&ticket, &exchange);
        let mut unsent = Span::default();
        unsent.add(5);
        let shards = vec![ShardHealth { unsent, ..ShardHealth::default() }];
        let process = CpuShare { wall_ns: 500 * MS, ..CpuShare::default() };
        let end = PhaseEnd { process, ..end(2, 1, 0, shards) };
        let health = load.health(&plan, end, &recorded(&[(ticket, exchange)]));
        assert_eq!((health.scheduled.count, health.arrivals.late, health.send_lag), (0, 0, None));
        assert!(health.asked.is_closed_loop);
        assert_eq!(health.asked.concurrency, Some(1));
        assert_eq!(health.achieved_rate(), Some(2.0), "one request in half a second");
    }

    #[test]
    fn what_never_left_is_late_by_the_wait_for_its_place() {
        let mut load = PhaseLoad::new(&open_loop());
        let (mut ticket, mut exchange) = request(0, 0);
        exchange.stamps.send_start_ns = None;
        load.add(&ticket, &exchange);
        assert_eq!(load.late, 0);
        ticket.dispatched_ns = 3 * MS;
        load.add(&ticket, &exchange);
        assert_eq!(load.late, 1);
    }

    #[test]
    fn only_a_steady_rate_is_one_number() {
        let ramp = aiperf_core::plan::Ramp {
            duration_ns: 5,
            shape: aiperf_core::plan::RampShape::Linear,
            from: Some(90.0),
        };
        let rate = RatePlan { ramp: Some(ramp), ..RatePlan::steady(20.0) };
        let plan = PhasePlan { pacing: Pacing::Rate { rate, arrival: Arrival::Poisson }, ..open_loop() };
        assert_eq!((asked(&plan).rate, asked(&plan).peak_rate), (None, Some(90.0)));
        let users = Pacing::UserCentric { per_second: 4.0, users: 2 };
        assert_eq!(asked(&PhasePlan { pacing: users, ..open_loop() }).rate, Some(4.0));
    }
}
