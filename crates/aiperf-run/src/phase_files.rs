//! Files of single phases, for runs of several: `phases/<name>/` with a summary of its own, and `phase_manifest.json`, which tells where
//! each is and how its requests ended. Names of phases are names of folders: the plan has no others.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use aiperf_core::plan::{PhaseKind, PhasePlan};
use aiperf_metrics::Health;
use aiperf_report::{InputLengths, Report, TargetResult, csv, json};
use serde_json::{Value, json};

use crate::artifacts::{Folder, artifact, write_whole};
use crate::error::RunError;
use crate::pooled::Numbers;

/// A phase that began.
pub(crate) struct PhasePart<'a> {
    /// Position in the plan.
    pub index: usize,
    pub plan: &'a PhasePlan,
    /// The user ended the run in it.
    pub was_cancelled: bool,
    pub numbers: &'a Numbers,
}

/// Writes all of it. `whole` is the report of the run, of which everything is taken that is no phase's own.
pub(crate) fn write(
    folder: &Folder,
    whole: &Report<'_>,
    schema: u8,
    parts: &[PhasePart<'_>],
    problems: &mut Vec<RunError>,
) {
    let mut entries = Vec::new();
    let mut profiling = 0_u64;
    for part in parts {
        let is_profiling = part.plan.kind == PhaseKind::Profiling;
        let at = is_profiling.then_some(profiling);
        profiling += u64::from(is_profiling);
        let mut entry = entry(whole, part, at);
        match summaries(folder, whole, schema, part) {
            Ok(files) => entry.extend(files),
            Err(problem) => problems.push(problem),
        }
        entries.push(entry);
    }
    let manifest = json!({"phases": entries, "schema_version": 1});
    let mut bytes = serde_json::to_vec_pretty(&manifest).unwrap_or_default();
    bytes.push(b'\n');
    problems.extend(write_whole(&folder.phase_manifest(), &bytes).err());
}

/// What the manifest says of a phase, keys sorted as in AIPerf's.
fn entry(
    whole: &Report<'_>,
    part: &PhasePart<'_>,
    profiling_index: Option<u64>,
) -> BTreeMap<&'static str, Value> {
    let Numbers { summary, errors, .. } = part.numbers;
    let tally = summary.tally;
    // AIPerf counts what was cancelled as errors.
    let failed = tally.failed + tally.cancelled + tally.lost;
    let errors: Vec<Value> = errors
        .iter()
        .map(|group| {
            let failure = &group.failure;
            let mut details = json!({"type": failure.type_name, "message": failure.message});
            if let Some(code) = failure.code {
                details["code"] = code.into();
            }
            json!({"count": group.count, "error_details": details})
        })
        .collect();
    let window = summary.window;
    BTreeMap::from([
        ("phase_index", part.index.into()),
        ("profiling_index", profiling_index.into()),
        ("phase_name", part.plan.name.as_str().into()),
        ("phase_kind", part.plan.kind.name().into()),
        ("start_ns", whole.anchor.wall(window.start_ns).into()),
        ("end_ns", whole.anchor.wall(window.end_ns.max(window.start_ns)).into()),
        ("was_cancelled", part.was_cancelled.into()),
        ("successful_request_count", tally.completed.into()),
        ("error_request_count", failed.into()),
        ("total_request_count", (tally.completed + failed).into()),
        ("error_summary", errors.into()),
    ])
}

/// The phase's own summaries; their keys in the manifest and where they are, seen from the run's folder.
fn summaries(
    folder: &Folder,
    whole: &Report<'_>,
    schema: u8,
    part: &PhasePart<'_>,
) -> Result<[(&'static str, Value); 2], RunError> {
    let Numbers { summary, errors, lengths, targets, .. } = part.numbers;
    let below = Path::new("phases").join(&part.plan.name);
    let dir = folder.dir().join(&below);
    fs::create_dir_all(&dir).map_err(|e| artifact("make the folder", &dir, e))?;
    let load = whole.load.map(|load| Health {
        phases: load.phases.iter().filter(|phase| phase.name == part.plan.name).cloned().collect(),
        ..load.clone()
    });
    let targets: Vec<TargetResult> = whole
        .targets
        .iter()
        .zip(targets)
        .map(|(whole, own)| TargetResult { url: whole.url.clone(), summary: *own })
        .collect();
    let report = Report {
        summary,
        warmup: None,
        is_warmup: part.plan.kind == PhaseKind::Warmup,
        errors,
        was_cancelled: part.was_cancelled,
        // What was counted again is not told apart by phases.
        lengths: whole.lengths.as_ref().map(|whole| InputLengths {
            summary: *lengths,
            verified: None,
            ..whole.clone()
        }),
        load: load.as_ref(),
        targets: &targets,
        // It is of all phases of its kind.
        analysis: None,
        notes: &[],
        files: &[],
        ..whole.clone()
    };
    let name = |path: PathBuf| path.file_name().map(PathBuf::from).unwrap_or_default();
    let (json_name, csv_name) = (name(folder.summary_json()), name(folder.summary_csv()));
    write_whole(&dir.join(&json_name), &json::written(&report, schema))?;
    write_whole(&dir.join(&csv_name), &csv::written(&report, schema))?;
    // Slashes on every system, so that the manifest can be read on another one.
    let place = |name: &Path| Value::from(format!("phases/{}/{}", part.plan.name, name.display()));
    Ok([("metrics_json", place(&json_name)), ("metrics_csv", place(&csv_name))])
}
