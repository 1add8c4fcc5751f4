//! From the plan's pacing and the workload's own times to what starts the sessions of each phase.

use std::sync::Arc;

use aiperf_core::plan::{DatasetPlan, Pacing, PhaseKind, Plan};
use aiperf_data::{Visit, Workload};
use aiperf_load::{FixedSchedule, ScheduleWindow, user_centric};

use crate::error::RunError;
use crate::phase::{Starts, Users};

/// What starts the sessions of each phase. A measured phase that nothing paces follows the times of a workload that has some, as
/// in AIPerf; the plan is changed to say so.
///
/// # Errors
/// A schedule without times, or a pacing beside times that are there to be followed; users whose conversations have one turn.
pub(crate) fn of(plan: &mut Plan, workload: &Arc<dyn Workload>) -> Result<Vec<Starts>, RunError> {
    let follows = match &plan.dataset {
        DatasetPlan::File(file) => !file.ignore_timestamps && workload.is_timed(),
        DatasetPlan::Synthetic(_) => false,
    };
    if follows {
        follow_times(plan)?;
    }
    plan.phases.iter().map(|phase| starts(&phase.pacing, workload)).collect()
}

/// Measured phases of a plan whose file says when its requests are sent.
fn follow_times(plan: &mut Plan) -> Result<(), RunError> {
    for phase in plan.phases.iter_mut().filter(|phase| phase.kind == PhaseKind::Profiling) {
        match &phase.pacing {
            Pacing::FixedSchedule { .. } => {}
            Pacing::Concurrency => {
                phase.pacing =
                    Pacing::FixedSchedule { auto_offset: true, start_offset_ns: None, end_offset_ns: None };
                // What nobody asked for neither caps the file nor keeps its times.
                phase.requests = phase.requests.filter(|_| !phase.requests_are_default);
                phase.concurrency = phase.concurrency.filter(|_| phase.concurrency_is_given);
            }
            Pacing::Rate { .. } | Pacing::UserCentric { .. } => {
                return Err(RunError::TimesAndPacing { phase: phase.name.clone() });
            }
        }
    }
    Ok(())
}

fn starts(pacing: &Pacing, workload: &Arc<dyn Workload>) -> Result<Starts, RunError> {
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
            let times = |index| workload.start_ns(index);
            Starts::Schedule(Arc::new(FixedSchedule::new(workload.len(), times, id, &window)?))
        }
        Pacing::UserCentric { per_second, users } => {
            let facts = workload.describe();
            let mean_turns = user_centric::mean_turns(facts.turns, workload.len() as u64);
            if mean_turns < 2 {
                return Err(RunError::UsersOfOneTurn);
            }
            let workload = workload.clone();
            Starts::Users(Arc::new(Users { per_second: *per_second, users: *users, mean_turns, workload }))
        }
    })
}
