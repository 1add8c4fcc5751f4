//! From the plan's pacing and the workload's own times to what starts the sessions of each phase.

use std::sync::Arc;

use aiperf_core::plan::{Pacing, Plan};
use aiperf_data::{Sampler, Visit, Workload};
use aiperf_load::{FixedSchedule, ScheduleWindow, user_centric};

use crate::error::RunError;
use crate::phase::{Starts, Users};

/// What starts the sessions of each phase.
///
/// # Errors
/// A schedule of a workload without times; users whose conversations have one turn.
pub(crate) fn of(plan: &Plan, workload: &Arc<dyn Workload>) -> Result<Vec<Starts>, RunError> {
    let sampler = Sampler::new(plan.sampling, plan.seed, workload.len());
    plan.phases.iter().map(|phase| starts(&phase.pacing, workload, sampler)).collect()
}

fn starts(pacing: &Pacing, workload: &Arc<dyn Workload>, sampler: Sampler) -> Result<Starts, RunError> {
    Ok(match pacing {
        Pacing::Concurrency => Starts::Places,
        Pacing::Rate { .. } if workload.describe().most_turns > 1 => Starts::Ticks,
        Pacing::Rate { .. } => Starts::Arrivals,
        Pacing::FixedSchedule { auto_offset, start_offset_ns, end_offset_ns } => {
            let window = ScheduleWindow {
                auto_offset: *auto_offset,
                start_ns: *start_offset_ns,
                end_ns: *end_offset_ns,
            };
            let id = |index| workload.conversation(index, Visit::default()).map(|c| c.id).unwrap_or_default();
            let times = |index| workload.recorded_ns(index);
            let recorded = FixedSchedule::new(workload.len(), times, id, &window)?;
            Starts::Schedule(Arc::new(recorded.replayed(|ns| workload.replayed_ns(ns))))
        }
        Pacing::UserCentric { per_second, users } => {
            let facts = workload.describe();
            let mean_turns = user_centric::mean_turns(facts.turns, workload.len() as u64);
            if mean_turns < 2 {
                return Err(RunError::UsersOfOneTurn);
            }
            let workload = workload.clone();
            let users = Users { per_second: *per_second, at_once: *users, mean_turns, workload, sampler };
            Starts::Users(Arc::new(users))
        }
    })
}

/// What a user should know of them, one sentence each.
pub(crate) fn notes(starts: &[Starts]) -> Vec<String> {
    let left_out = starts.iter().map(|starts| match starts {
        Starts::Schedule(schedule) => schedule.left_out(),
        Starts::Places | Starts::Arrivals | Starts::Ticks | Starts::Users(_) => 0,
    });
    let told = left_out.filter(|rows| *rows > 0);
    told.map(|rows| format!("Fixed schedule: {rows} conversations lie outside its offsets and are left out."))
        .collect()
}
