//! After the last request: statistics, files, and what the screen shows.

use std::path::PathBuf;

use aiperf_core::plan::{Pacing, PhaseKind, Plan};
use aiperf_core::time::{ClockAnchor, ns_to_seconds};
use aiperf_data::{Workload, WorkloadFacts};
use aiperf_metrics::{ErrorGroup, LengthSummary, Summary, Window};
use aiperf_report::{Counting, FileLine, InputLengths, Report, ServerCount, console, csv, json};
use aiperf_tokens::Tokenizer;
use jiff::tz::TimeZone;

use crate::artifacts::{Folder, InputsFile, write_whole};
use crate::control::PhaseEnd;
use crate::error::RunError;
use crate::job::{RunEnd, Screen, is_synthetic};
use crate::reader::{Collected, Malformed, PhaseResults, Starts};

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
    pub ends: &'a [PhaseEnd],
    pub inputs: Option<InputsFile>,
    pub collected: Collected,
    pub server_count: Option<ServerCount>,
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
        mut problems,
    } = run;
    let Collected { phases, files, verified, handover, problems: behind } = collected;
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

    // A phase that never began, because the run was stopped before it, is an empty one.
    let unstarted = PhaseEnd::unstarted();
    let summaries: Vec<Done> = plan
        .phases
        .iter()
        .zip(phases)
        .enumerate()
        .map(|(i, (phase, results))| Done::new(phase.kind, results, ends.get(i).unwrap_or(&unstarted)))
        .collect();
    let of = |kind: PhaseKind| summaries.iter().find(|done| done.kind == kind);
    let Some(profiling) = of(PhaseKind::Profiling) else {
        problems.push(RunError::Panicked("plan without a profiling phase"));
        return RunEnd { console: String::new(), completed: 0, interrupted, problems };
    };
    let (summary, errors) = (&profiling.summary, profiling.errors.as_slice());

    let warmups = summaries.iter().filter(|done| done.kind == PhaseKind::Warmup);
    let mut notes = notes(plan, workload, profiling, warmups.map(|done| done.summary.tally.sent).sum());
    notes.extend(handover.spill_error.map(|error| {
        format!(
            "Answers that waited to be read could not be written to a file and stayed in memory: {error}."
        )
    }));
    let incomplete = problems.first().map(ToString::to_string);
    let paths = [
        ("CSV Export", folder.summary_csv()),
        ("JSON Export", folder.summary_json()),
        ("Console Export", folder.console_txt()),
        ("Log File", folder.log()),
    ];
    // The footer names files that are about to be written; one that fails is told as an error right behind it.
    let shown: Vec<(String, String)> = paths[..3]
        .iter()
        .map(|(label, path)| ((*label).to_owned(), path))
        .chain(written.iter().map(|(label, path)| (label.clone(), path)))
        .chain(std::iter::once(("Log File".to_owned(), &paths[3].1)))
        // Scripts take these lines for the files' places, wherever they go from here.
        .map(|(label, path)| {
            (label, std::path::absolute(path).as_ref().unwrap_or(path).display().to_string())
        })
        .collect();
    let lines: Vec<FileLine<'_>> = shown.iter().map(|(label, path)| FileLine { label, path }).collect();
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        benchmark_id: run_id,
        summary,
        warmup: of(PhaseKind::Warmup).map(|done| &done.summary),
        errors,
        input_config: &plan.input_config,
        seed: plan.seed,
        cli_command: &plan.cli_command,
        was_cancelled: interrupted,
        incomplete_reason: incomplete.as_deref(),
        anchor,
        zone: TimeZone::system(),
        title: "LLM Metrics",
        length_forced: ["ignore_eos", "min_tokens"].iter().any(|k| plan.endpoint.extra.contains_key(*k)),
        lengths: Some(InputLengths {
            summary: profiling.lengths,
            tokenizer: tokenizer.map(Tokenizer::name),
            counting: counting(plan, tokenizer),
            verified: verified.as_ref(),
            server_count,
        }),
        load: None,
        targets: &[],
        notes: &notes,
        files: &lines,
    };
    let json = if plan.artifacts.schema == 2 { json::summary_2(&report) } else { json::summary(&report) };
    let console_file = console::render(&report, console::EXPORT_WIDTH, false);
    for (path, bytes) in [
        (&paths[0].1, csv::summary(&report)),
        (&paths[1].1, json),
        (&paths[2].1, console_file.clone().into_bytes()),
    ] {
        problems.extend(write_whole(path, &bytes).err());
    }
    let console = match screen.width {
        Some(width) => console::render(&report, width, screen.colour),
        None => console_file,
    };
    RunEnd { console, completed: summary.tally.completed, interrupted, problems }
}

/// A phase in numbers.
struct Done {
    kind: PhaseKind,
    summary: Summary,
    errors: Vec<ErrorGroup>,
    lengths: LengthSummary,
    starts: Option<Starts>,
    malformed: Malformed,
}

impl Done {
    fn new(kind: PhaseKind, results: PhaseResults, end: &PhaseEnd) -> Self {
        let PhaseResults { mut recorder, errors, lengths, last_end_ns, starts, malformed } = results;
        recorder.set_unsent(end.unsent);
        recorder.set_scheduled(end.scheduled);
        let end_ns = if last_end_ns == 0 { end.end_ns } else { last_end_ns };
        Self {
            kind,
            summary: recorder.summarise(Window::new(end.start_ns, end_ns)),
            errors: errors.groups().to_vec(),
            lengths: lengths.summary(),
            starts,
            malformed,
        }
    }
}

/// What our counts of inputs are counts of.
pub(crate) fn counting(plan: &Plan, tokenizer: Option<&dyn Tokenizer>) -> Counting {
    let has_template = tokenizer.is_some_and(|t| t.chat_template().is_some());
    if !plan.endpoint.kind.has_messages() {
        Counting::Prompts { specials: tokenizer.map_or(0, |t| t.prompt_specials() as u64) }
    } else if plan.chat_template && has_template {
        Counting::Rendered
    } else {
        Counting::Messages { has_template }
    }
}

/// What a reader of the numbers should know beside them, one sentence each.
fn notes(plan: &Plan, workload: &dyn Workload, profiling: &Done, warmed: u64) -> Vec<String> {
    let facts = workload.describe();
    let repeats = repeats(plan, &facts, profiling.summary.tally.sent, warmed);
    let rate = rate_note(plan, profiling, facts.most_turns > 1);
    let mut notes = facts.notes;
    notes.extend(repeats);
    notes.extend(rate);
    notes.extend(malformed_note(profiling.malformed));
    notes
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
    aiperf_data::repeat_notes(sent, warmed, facts.turns as usize)
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

/// Asked against sent rate of an open loop. With sessions of several turns it is the sessions that a rate paces.
fn rate_note(plan: &Plan, profiling: &Done, several_turns: bool) -> Option<String> {
    let phase = plan.phases.iter().find(|p| p.kind == PhaseKind::Profiling)?;
    let Pacing::Rate { rate, .. } = &phase.pacing else { return None };
    let asked = rate.target();
    // The window also holds the last answers, so the span of the starts is what counts.
    let starts = profiling.starts?;
    let (sent, span_s) = (starts.per_second()?, ns_to_seconds(starts.last_ns - starts.first_ns));
    Some(if several_turns {
        format!(
            "Session rate: asked for {asked:.2} new sessions/s, started {sent:.2} sessions/s over {span_s:.2} s; each sends its \
             later turns beside."
        )
    } else {
        format!(
            "Request rate: asked for {asked:.2} requests/s, sent {sent:.2} requests/s over {span_s:.2} s."
        )
    })
}
