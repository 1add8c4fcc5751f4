//! How much of this machine a plan needs: shards, and descriptors for its connections.

use aiperf_core::plan::{ConnectionReuse, EndpointPlan, HttpVersion, Pacing, PhasePlan, Plan};

use crate::error::RunError;
use crate::filler::most_at_once;
use crate::phase::Starts;

/// Live sessions that one shard carries before a second one is worth its thread.
const SESSIONS_PER_SHARD: u32 = 64;
/// Arrivals per second that one shard carries before a second one is worth its thread.
const RATE_PER_SHARD: f64 = 2000.0;
/// Descriptors for files, timers, wakers and listeners, rounded up.
const OTHER_DESCRIPTORS: u64 = 32;

/// As many shards as the load can use: one for each core but one, which the reader and the server of a loopback run need.
pub(crate) fn shard_count(plan: &Plan, starts: &[Starts]) -> usize {
    let cores = plan.runtime.max_shards.unwrap_or_else(|| aiperf_os::sched::cores().saturating_sub(1));
    let useful = plan.phases.iter().zip(starts).map(|(phase, starts)| useful_shards(phase, starts));
    useful.max().unwrap_or(1).min(cores).max(1)
}

fn useful_shards(phase: &PhasePlan, starts: &Starts) -> usize {
    let per_second = match (&phase.pacing, starts) {
        (Pacing::Concurrency, _) => return most_at_once(phase).div_ceil(SESSIONS_PER_SHARD) as usize,
        (Pacing::Rate { rate, .. }, _) => rate.peak(),
        (Pacing::UserCentric { per_second, .. }, _) => *per_second,
        (Pacing::FixedSchedule { .. }, Starts::Schedule(schedule)) => schedule.most_in_a_second() as f64,
        (Pacing::FixedSchedule { .. }, _) => 0.0,
    };
    (per_second / RATE_PER_SHARD).ceil() as usize
}

/// Whether a closed loop can hold its connections. With the server in the same process, which has both ends of each, running out
/// would be a standstill: the server has no descriptor to take the connections that the client waits on.
pub(crate) fn enough_descriptors(plan: &Plan, is_simulated: bool) -> Result<(), RunError> {
    let needed = descriptors(&plan.endpoint, &plan.phases, is_simulated);
    match aiperf_os::limits::raise_descriptor_limit() {
        Some((allowed, _)) if allowed < needed => Err(RunError::Descriptors { needed, allowed }),
        _ => Ok(()),
    }
}

/// Descriptors that closed loops use; how many an open loop does is the server's affair.
fn descriptors(endpoint: &EndpointPlan, phases: &[PhasePlan], is_simulated: bool) -> u64 {
    let ends = if is_simulated { 2 } else { 1 };
    let connections = phases.iter().map(|phase| connections(endpoint, phase));
    connections.max().unwrap_or(0) * ends + OTHER_DESCRIPTORS
}

fn connections(endpoint: &EndpointPlan, phase: &PhasePlan) -> u64 {
    // How many requests share a connection of HTTP/2 is for the server to say.
    if !phase.pacing.is_closed_loop() || endpoint.http == HttpVersion::Two {
        return 0;
    }
    // A session that keeps its connection has it between its turns, too.
    let at_once = phase.max_in_flight.filter(|_| endpoint.reuse != ConnectionReuse::Sticky);
    let sessions = u64::from(most_at_once(phase)).min(phase.most_sessions().unwrap_or(u64::MAX));
    sessions.min(at_once.map_or(u64::MAX, u64::from))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aiperf_core::plan::{EndpointKind, PhaseKind, Ramp, RampShape};
    use aiperf_load::{FixedSchedule, ScheduleWindow};

    use super::*;
    use crate::toys;

    fn needed(endpoint: &EndpointPlan, phase: &PhasePlan) -> u64 {
        descriptors(endpoint, std::slice::from_ref(phase), false) - OTHER_DESCRIPTORS
    }

    #[test]
    fn a_closed_loop_needs_a_connection_for_each_request_that_is_on_the_wire() {
        let endpoint = toys::endpoint(EndpointKind::Chat);
        let phase = PhasePlan { concurrency: Some(1000), ..toys::closed_loop() };
        assert_eq!(needed(&endpoint, &phase), 1000);
        assert_eq!(descriptors(&endpoint, std::slice::from_ref(&phase), true), 2000 + OTHER_DESCRIPTORS);
        assert_eq!(needed(&endpoint, &PhasePlan { requests: Some(7), ..phase.clone() }), 7);
        let down = Ramp { duration_ns: 1, shape: RampShape::Linear, from: Some(3000.0) };
        assert_eq!(needed(&endpoint, &PhasePlan { concurrency_ramp: Some(down), ..phase.clone() }), 3000);

        let few = PhasePlan { max_in_flight: Some(10), ..phase.clone() };
        assert_eq!(needed(&endpoint, &few), 10);
        let sticky = EndpointPlan { reuse: ConnectionReuse::Sticky, ..endpoint.clone() };
        assert_eq!(needed(&sticky, &few), 1000, "sessions that think keep theirs");

        let shared = EndpointPlan { http: HttpVersion::Two, ..endpoint.clone() };
        assert_eq!(needed(&shared, &phase), 0, "streams share connections");
        let open = PhasePlan {
            pacing: Pacing::FixedSchedule { auto_offset: true, start_offset_ns: None, end_offset_ns: None },
            ..phase
        };
        assert_eq!(needed(&endpoint, &open), 0);
    }

    #[test]
    fn a_dense_schedule_is_worth_more_shards() {
        let pacing = Pacing::FixedSchedule { auto_offset: true, start_offset_ns: None, end_offset_ns: None };
        let phase = PhasePlan::new("profiling", PhaseKind::Profiling, pacing);
        let shards = |gap_ns: u64| {
            let times = |i: usize| Some(i as u64 * gap_ns);
            let schedule = FixedSchedule::new(10_000, times, |i| i.to_string(), &ScheduleWindow::default());
            useful_shards(&phase, &Starts::Schedule(Arc::new(schedule.expect("all have times"))))
        };
        assert_eq!([1_000_000, 500_000, 200_000, 0].map(shards), [1, 1, 3, 5]);
    }
}
