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

/// Nanoseconds of a day.
const NS_PER_DAY: u64 = 86_400 * 1_000_000_000;

/// What a user should know of them, one sentence each.
pub(crate) fn notes(starts: &[Starts], workload: &dyn Workload) -> Vec<String> {
    let mut notes = Vec::new();
    for starts in starts {
        let Starts::Schedule(schedule) = starts else { continue };
        let rows = schedule.left_out();
        if rows > 0 {
            let lie = if rows == 1 { "conversation lies" } else { "conversations lie" };
            let are = if rows == 1 { "is" } else { "are" };
            notes.push(format!("Fixed schedule: {rows} {lie} outside its offsets and {are} left out."));
        }
        notes.extend(silence(schedule, workload));
    }
    notes
}

/// Of schedules that wait for days, where.
pub(crate) fn silences(starts: &[Starts], workload: &dyn Workload) -> Vec<String> {
    let of = |starts: &Starts| match starts {
        Starts::Schedule(schedule) => silence(schedule, workload),
        Starts::Places | Starts::Arrivals | Starts::Ticks | Starts::Users(_) => None,
    };
    starts.iter().filter_map(of).collect()
}

/// A wait of days is seldom meant: times of some rows may be in another unit.
fn silence(schedule: &FixedSchedule, workload: &dyn Workload) -> Option<String> {
    let (silence_ns, entry) = schedule.longest_silence().filter(|(ns, _)| *ns >= NS_PER_DAY)?;
    let place = workload.place(entry.conversation);
    let place = place.unwrap_or_else(|| format!("conversation {}", entry.conversation + 1));
    Some(format!(
        "Fixed schedule: for {:.1} days nothing starts until {place}; if the times of rows have different units, give them one, or cut \
         silences (--max-idle-gap-cap-seconds).",
        silence_ns as f64 / NS_PER_DAY as f64
    ))
}
