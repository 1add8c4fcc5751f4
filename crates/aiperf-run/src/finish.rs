//! After the last request: statistics, files, and what the screen shows.

use std::path::{Path, PathBuf};
use std::{fs, io};

use aiperf_core::plan::{BadRows, DatasetPlan, NetworkPlan, PhaseKind, Plan};
use aiperf_core::rows::RowFacts;
use aiperf_core::time::ClockAnchor;
use aiperf_data::{Workload, WorkloadFacts};
use aiperf_metrics::{DiskProblem, HandOver, Health, Names, PhaseHealth, verdict};
use aiperf_report::{
    Counting, FileLine, InputLengths, NetworkLatency, Report, ServerCount, TargetResult, console, csv,
    json as summary_json,
};
use aiperf_tokens::Tokenizer;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::artifacts::{Folder, InputsFile, write_whole};
use crate::columns_file;
use crate::control::PhaseEnd;
use crate::error::RunError;
use crate::job::{RunEnd, Screen, is_synthetic};
use crate::network::ProbedAll;
use crate::phase_files::{self, PhasePart};
use crate::phase_load;
use crate::pooled::{Numbers, Pooled};
use crate::reader::{Collected, Malformed, PhaseResults, model_names, target_names};
use crate::run_file::is_length_forced;
use crate::timeslices;

/// Everything a run leaves behind.
pub(crate) struct Finished<'a> {
    pub plan: &'a Plan,
    pub run_id: &'a str,
    pub folder: &'a Folder,
    pub anchor: ClockAnchor,
    pub screen: Screen,
    pub interrupted: bool,
    pub workload: &'a dyn Workload,
    pub tokenizer: Option<&'a dyn Tokenizer>,
    pub ends: Vec<PhaseEnd>,
    pub inputs: Option<InputsFile>,
    pub collected: Collected,
    pub server_count: Option<ServerCount>,
    /// What came of the probes of the network.
    pub probed: Option<ProbedAll>,
    /// What a reader of the numbers should know of how sessions started.
    pub notes: Vec<String>,
    pub problems: Vec<RunError>,
}

/// Writes all files and words the end. What cannot be written is a problem of the result, never the loss of the others.
pub(crate) fn finish(run: Finished<'_>) -> RunEnd {
    let Finished {
        plan,
        run_id,
        folder,
        anchor,
        screen,
        interrupted,
        workload,
        tokenizer,
        ends,
        inputs,
        collected,
        server_count,
        probed,
        notes: of_starts,
        mut problems,
    } = run;
    let Collected { phases, files, outputs, verified, is_cache_full, handover, disk, problems: behind } =
        collected;
    problems.extend(behind);
    let verified = verified.filter(|v| v.requests + v.skipped > 0);

    let mut written: Vec<(String, PathBuf)> = Vec::new();
    let mut keep = |label: &str, result: Result<PathBuf, RunError>, problems: &mut Vec<RunError>| match result
    {
        Ok(path) => written.push((label.to_owned(), path)),
        Err(error) => problems.push(error),
    };
    for (label, spool) in files {
        keep(label, spool.finish(), &mut problems);
    }
    if let Some(inputs) = inputs {
        keep("Inputs", inputs.finish(), &mut problems);
    }

    let mut load = Health {
        clock: phase_load::clock(&anchor),
        phases: Vec::new(),
        handover: HandOver {
            most_requests: handover.most_requests,
            most_bytes: handover.most_bytes,
            spilled_requests: handover.spilled_requests,
            spilled_bytes: handover.spilled_bytes,
        },
    };
    let (network, of_probes) = match (probed, plan.network) {
        (Some(ProbedAll { latency, spool, notes }), _) => {
            keep("Network Latency", spool.finish(), &mut problems);
            (Some(latency), notes)
        }
        (None, Some(NetworkPlan::Fixed { mean_ns })) => {
            (Some(NetworkLatency { mean_ns: Some(mean_ns), targets: Vec::new() }), Vec::new())
        }
        (None, _) => (None, Vec::new()),
    };
    let rtt_ns = network.as_ref().and_then(|network| network.mean_ns);
    let Pools { warmup, profiling, parts } = pool(plan, phases, ends, &mut load.phases, rtt_ns);
    let Some((pooled, profiling)) = profiling.map(|p| {
        let numbers = p.numbers();
        (p, numbers)
    }) else {
        problems.push(RunError::Panicked("plan without a profiling phase"));
        return RunEnd { console: String::new(), completed: 0, interrupted, problems };
    };
    let warmup = warmup.map(|w| w.numbers());
    let (urls, models) = (target_names(plan), model_names(plan));
    let analysis = pooled.analyse(Names { models: &models, urls: &urls }, plan.seed);
    if let Some(slice_ns) = plan.artifacts.slice_ns {
        match timeslices::write(folder, pooled.recorder(), slice_ns, anchor, &plan.input_config) {
            Ok(paths) => paths.into_iter().for_each(|(label, path)| keep(label, Ok(path), &mut problems)),
            Err(error) => problems.push(error),
        }
    }
    if let Some(outputs) = outputs {
        keep("Outputs JSON", outputs.finish(), &mut problems);
    }
    // Columns were read for these numbers, not before.
    let disk = disk.and_then(|disk| disk.problem());
    if let Some(DiskProblem::Read(error)) = &disk {
        problems.push(RunError::Artifact {
            action: "read back measured values in",
            path: folder.dir().to_owned(),
            source: io::Error::other(error.clone()),
        });
    }
    let (summary, errors) = (&profiling.summary, profiling.errors.as_slice());
    let targets: Vec<TargetResult> = urls
        .iter()
        .cloned()
        .zip(&profiling.targets)
        .map(|(url, summary)| TargetResult { url, summary: *summary })
        .collect();
    for warning in verdict(&load).warnings {
        tracing::warn!("{}: {}", warning.code.name(), warning.text);
    }

    let warmed = warmup.as_ref().map_or(0, |w| w.summary.tally.sent);
    let mut notes = notes(plan, workload, &profiling, warmed);
    notes.extend(of_starts);
    notes.extend(of_probes);
    if is_cache_full {
        notes.push(
            "--cache-ledger: there were more different blocks of prompts than are kept, so that of later requests is not told what was to be \
             found."
                .to_owned(),
        );
    }
    notes.extend(handover.spill_error.map(|error| {
        format!(
            "Answers that waited to be read could not be written to a file and stayed in memory: {error}."
        )
    }));
    if let Some(DiskProblem::Write(error)) = disk {
        notes.push(format!("Measured values could not be written to a file and stayed in memory: {error}."));
    }
    // Of records that are not whole, or of none, there are no columns.
    let has_columns = plan.artifacts.parquet
        && written.iter().any(|(_, path)| {
            *path == folder.records_jsonl() && fs::metadata(path).is_ok_and(|m| m.len() > 0)
        });
    let incomplete = problems.first().map(ToString::to_string);
    let rows = told_rows(plan, workload);
    let source = plan.source();
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        benchmark_id: run_id,
        summary,
        is_warmup: false,
        warmup: warmup.as_ref().map(|w| &w.summary),
        errors,
        input_config: &plan.input_config,
        source: source.as_ref(),
        seed: plan.seed,
        cli_command: &plan.cli_command,
        was_cancelled: interrupted,
        incomplete_reason: incomplete.as_deref(),
        anchor,
        zone: TimeZone::system(),
        title: plan.endpoint.kind.traits().title,
        show_trace_timing: plan.artifacts.trace.show,
        length_forced: is_length_forced(plan),
        lengths: Some(InputLengths {
            summary: profiling.lengths,
            tokenizer: tokenizer.map(Tokenizer::name),
            counting: counting(plan, tokenizer),
            verified: verified.as_ref(),
            server_count,
        }),
        load: Some(&load),
        targets: &targets,
        network: network.as_ref(),
        rows: rows.as_ref(),
        analysis: analysis.as_ref(),
        notes: &notes,
        files: &[],
    };
    let schema = plan.artifacts.schema;
    let mut shown = Shown::default();
    for (label, path, bytes) in [
        ("CSV Export", folder.summary_csv(), csv::written(&report, schema)),
        ("JSON Export", folder.summary_json(), summary_json::written(&report, schema)),
    ] {
        match write_whole(&path, &bytes) {
            Ok(()) => shown.add(label, &path),
            Err(error) => problems.push(error),
        }
    }
    if plan.phases.len() > 1 {
        let last = parts.len().saturating_sub(1);
        let of_kind = |kind| match kind {
            PhaseKind::Warmup => warmup.as_ref(),
            PhaseKind::Profiling => Some(&profiling),
        };
        let parts: Vec<PhasePart<'_>> = parts
            .iter()
            .enumerate()
            .filter_map(|(i, (index, own))| {
                let plan = plan.phases.get(*index)?;
                let numbers = own.as_ref().or_else(|| of_kind(plan.kind))?;
                Some(PhasePart { index: *index, plan, was_cancelled: interrupted && i == last, numbers })
            })
            .collect();
        phase_files::write(folder, &report, schema, &parts, &mut problems);
    }
    // Last of the results, for it may take the place that is left and can be made again from the records.
    let columns = if has_columns { columns_file::write(folder) } else { Ok(None) };
    let console_txt = folder.console_txt();
    let summaries = shown.0.len();
    shown.add("Console Export", &console_txt);
    for (label, path) in &written {
        shown.add(label, path);
    }
    match columns {
        Ok(Some(columns)) => shown.add("Records Parquet", &columns.path),
        Ok(None) => {}
        Err(error) => problems.push(error),
    }
    shown.add("Log File", &folder.log());
    // The file cannot know that it will not be there, the screen does.
    let rest = shown.without(summaries);
    let (lines, others) = (shown.lines(), rest.lines());
    report.files = &lines;
    let mut page = console::render(&report, console::EXPORT_WIDTH, false);
    if let Err(error) = write_whole(&console_txt, page.as_bytes()) {
        problems.push(error);
        report.files = &others;
        page = console::render(&report, console::EXPORT_WIDTH, false);
    }
    let console = match screen.width {
        Some(width) => console::render(&report, width, screen.colour),
        None => page,
    };
    let ready = json!({"ready": true, "was_cancelled": interrupted, "partial": !problems.is_empty()});
    problems.extend(write_whole(&folder.ready(), ready.to_string().as_bytes()).err());
    RunEnd { console, completed: summary.tally.completed, interrupted, problems }
}

/// The files that the footer names. Scripts take these lines for the files' places, wherever they go from here.
#[derive(Default)]
pub(crate) struct Shown(Vec<(String, String)>);

impl Shown {
    pub(crate) fn add(&mut self, label: &str, path: &Path) {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.0.push((label.to_owned(), path.display().to_string()));
    }

    fn without(&self, at: usize) -> Self {
        let kept = self.0.iter().enumerate().filter(|(i, _)| *i != at);
        Self(kept.map(|(_, line)| line.clone()).collect())
    }

    pub(crate) fn lines(&self) -> Vec<FileLine<'_>> {
        self.0.iter().map(|(label, path)| FileLine { label, path }).collect()
    }
}

/// The phases of either kind together, and each that began.
struct Pools {
    warmup: Option<Pooled>,
    profiling: Option<Pooled>,
    /// Position in the plan, and its own numbers where others of its kind began as well.
    parts: Vec<(usize, Option<Numbers>)>,
}

/// Puts phases of one kind together, and tells how the load of each was that began. A kind of which none began, because the run was
/// stopped before, is an empty one.
fn pool(
    plan: &Plan,
    phases: Vec<PhaseResults>,
    ends: Vec<PhaseEnd>,
    load: &mut Vec<PhaseHealth>,
    rtt_ns: Option<f64>,
) -> Pools {
    let mut pools = Pools { warmup: None, profiling: None, parts: Vec::new() };
    let begun: Vec<PhaseKind> = plan.phases.iter().zip(&ends).map(|(phase, _)| phase.kind).collect();
    let mut ends = ends.into_iter();
    for (index, (phase, results)) in plan.phases.iter().zip(phases).enumerate() {
        let into = match phase.kind {
            PhaseKind::Warmup => &mut pools.warmup,
            PhaseKind::Profiling => &mut pools.profiling,
        };
        let end = ends.next();
        let began = end.is_some();
        let (pooled, health) = Pooled::of(phase, results, end.unwrap_or_else(PhaseEnd::unstarted));
        let pooled = match phase.kind {
            PhaseKind::Profiling => pooled.with_network_rtt(rtt_ns),
            PhaseKind::Warmup => pooled,
        };
        if began {
            load.push(health);
            let is_one_of_several = begun.iter().filter(|kind| **kind == phase.kind).count() > 1;
            pools.parts.push((index, is_one_of_several.then(|| pooled.numbers())));
        }
        match into {
            None => *into = Some(pooled),
            // Phases come in order, so one that did not begin has nothing to add to those that did.
            Some(earlier) if began => earlier.add(pooled),
            Some(_) => {}
        }
    }
    pools
}

/// What our counts of inputs are counts of.
pub(crate) fn counting(plan: &Plan, tokenizer: Option<&dyn Tokenizer>) -> Counting {
    let has_template = tokenizer.is_some_and(|t| t.chat_template().is_some());
    if plan.endpoint.kind.is_ranking() {
        Counting::Ranked
    } else if !plan.endpoint.kind.has_messages() {
        let adds = plan.endpoint.kind.adds_specials();
        let specials = tokenizer.filter(|_| adds).map_or(0, |t| t.prompt_specials() as u64);
        Counting::Prompts { specials }
    } else if plan.chat_template && has_template {
        Counting::Rendered
    } else {
        let joints = match &plan.dataset {
            DatasetPlan::Synthetic(set) => set.batch.saturating_sub(1) as u64,
            DatasetPlan::File(_) => 0,
        };
        let joint = tokenizer.filter(|_| joints > 0).map_or(0, |t| t.count("\n") as u64);
        Counting::Messages { has_template, between: joints * joint }
    }
}

/// What a reader of the numbers should know beside them, one sentence each.
fn notes(plan: &Plan, workload: &dyn Workload, profiling: &Numbers, warmed: u64) -> Vec<String> {
    let facts = workload.describe();
    let repeats = repeats(plan, &facts, profiling.summary.tally.sent, warmed);
    let mut notes = facts.notes;
    notes.extend(repeats);
    notes.extend(malformed_note(profiling.malformed));
    notes
}

/// What became of the rows of a file, where that is not simply all of them, or somebody asked.
pub(crate) fn told_rows(plan: &Plan, workload: &dyn Workload) -> Option<RowFacts> {
    let skips = matches!(&plan.dataset, DatasetPlan::File(set) if set.bad_rows == BadRows::Skip);
    workload.describe().rows.filter(|rows| skips || rows.is_changed())
}

/// Which prompts of ours were sent more than once, when `sent` requests were measured behind `warmed` others: none where each
/// session's own marker keeps it apart.
fn repeats(plan: &Plan, facts: &WorkloadFacts, sent: u64, warmed: u64) -> Vec<String> {
    let warmed = match &plan.cache_bust {
        Some(markers) if !markers.target.is_warmup_isolation() => return Vec::new(),
        // The warm-up is what is marked, so that nothing of it is measured.
        Some(_) => 0,
        None => warmed,
    };
    // What the user's file repeats is the user's doing.
    if !is_synthetic(plan) {
        return Vec::new();
    }
    aiperf_data::repeat_notes(plan.sampling, sent, warmed, facts.turns as usize)
}

/// Events that were passed over in answers counted as whole.
fn malformed_note(malformed: Malformed) -> Option<String> {
    let Malformed { events, answers } = malformed;
    let plural = |n: u64, word: &str| if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") };
    (events > 0).then(|| {
        format!(
            "{} in {} could not be read as JSON and {} passed over; such an answer counts as completed, and its lengths may be short.",
            plural(events, "event"),
            plural(answers, "answer"),
            if events == 1 { "was" } else { "were" },
        )
    })
}
