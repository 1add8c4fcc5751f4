//! From the plan's pacing and the workload's own times to what starts the sessions of each phase.

use std::path::Path;
use std::sync::Arc;

use aiperf_core::plan::{DatasetPlan, Pacing, Plan};
use aiperf_data::{Sampler, Workload};
use aiperf_load::{FixedSchedule, ScheduleError, ScheduleWindow, user_centric};

use crate::error::RunError;
use crate::phase::{Starts, Users};

/// What starts the sessions of each phase.
///
/// # Errors
/// A schedule of a workload without times; users whose conversations have one turn.
pub(crate) fn of(plan: &Plan, workload: &Arc<dyn Workload>) -> Result<Vec<Starts>, RunError> {
    let sampler = Sampler::new(plan.sampling, plan.seed, workload.len());
    let file = match &plan.dataset {
        DatasetPlan::File(set) => Some(set.path.as_path()),
        DatasetPlan::Synthetic(_) => None,
    };
    plan.phases.iter().map(|phase| starts(&phase.pacing, workload, sampler, file)).collect()
}

fn starts(
    pacing: &Pacing,
    workload: &Arc<dyn Workload>,
    sampler: Sampler,
    file: Option<&Path>,
) -> Result<Starts, RunError> {
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
            let place =
                |index| workload.place(index).unwrap_or_else(|| format!("conversation {}", index + 1));
            let times = |index| workload.recorded_ns(index);
            let recorded = FixedSchedule::new(workload.len(), times, place, &window).map_err(|problem| {
                let is_placed = matches!(problem, ScheduleError::NoTimestamp { .. });
                RunError::Schedule { file: file.filter(|_| !is_placed).map(Path::to_owned), problem }
            })?;
            Starts::Schedule(Arc::new(recorded.replayed(|ns| workload.replayed_ns(ns))))
        }
        Pacing::UserCentric { per_second, users } => {
            let facts = workload.describe();
            let mean_turns = user_centric::mean_turns(facts.turns, workload.len() as u64);
            if mean_turns < 2 {
                return Err(RunError::UsersOfOneTurn { file: file.map(Path::to_owned) });
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
    told.map(|rows| {
        let lie = if rows == 1 { "conversation lies" } else { "conversations lie" };
        let are = if rows == 1 { "is" } else { "are" };
        format!("Fixed schedule: {rows} {lie} outside its offsets and {are} left out.")
    })
    .collect()
}
