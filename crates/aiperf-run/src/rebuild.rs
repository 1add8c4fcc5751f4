//! Summarises a folder again from its records: for a run that was killed before it could.
//!
//! The records go through the recorder and the report of a run. What no record holds (requests that were still in flight, the
//! schedule, the health of the client, what was counted again) is absent from the result, which says of itself that it is
//! incomplete.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use aiperf_core::time::ClockAnchor;
use aiperf_metrics::{Disk, DiskProblem, ErrorSummary, LengthLedger, Names, Recorder, Summary, Window};
use aiperf_report::{InputLengths, NetworkLatency, Report, console, csv, json};
use jiff::tz::TimeZone;
use rustc_hash::FxHashSet;

use crate::artifacts::{Folder, RUN_FILE, RUN_FILE_SUFFIX, write_whole};
use crate::columns_file;
use crate::error::RunError;
use crate::finish::Shown;
use crate::job::Screen;
use crate::network;
use crate::record::{self, Record};
use crate::run_file::RunFile;
use crate::timeslices;

/// Unreadable lines that are named.
const NAMED: usize = 5;
/// Why the result is incomplete.
const REASON: &str = "made from the records of a run that did not write its own summary";

/// What came of it.
#[derive(Debug)]
pub struct Rebuilt {
    /// The report for the screen.
    pub console: String,
    /// What to know of the records, one sentence each; the report has them, too.
    pub notes: Vec<String>,
    /// Whole answers in profiling phases.
    pub completed: u64,
    /// Lines that were read.
    pub records: u64,
    /// Why a file beside the summary could not be made.
    pub problem: Option<RunError>,
}

/// Reads the records in `dir` and writes the summary files beside them; where some are there already, only if `force` allows it.
pub fn rebuild(dir: &Path, force: bool, screen: Screen) -> Result<Rebuilt, RunError> {
    let folder = Folder::open(dir, prefix(dir)?)?;
    let run_path = folder.run_json();
    let bytes = fs::read(&run_path).map_err(|e| artifact("read", &run_path, e))?;
    let run = RunFile::parse(&bytes).map_err(|e| artifact("read", &run_path, e.into()))?;
    let records_path = folder.records_jsonl();
    let records = File::open(&records_path).map_err(|e| artifact("read", &records_path, e))?;
    let targets = [folder.summary_csv(), folder.summary_json(), folder.console_txt()];
    if let Some(path) = targets.iter().find(|path| !force && path.exists()) {
        return Err(RunError::SummaryExists { path: path.clone() });
    }

    let scratch = folder.scratch();
    let disk = Disk::new(move || scratch.file());
    let mut parts = [false, true].map(|warmup| Part::new(&run, warmup, &disk));
    let mut reading = Reading::default();
    let counted_here = !run.server_token_count;
    let mut lines = BufReader::with_capacity(1 << 20, records);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = lines.read_until(b'\n', &mut line).map_err(|e| artifact("read", &records_path, e))?;
        if read == 0 {
            break;
        }
        reading.line += 1;
        if line.last() != Some(&b'\n') {
            reading.is_torn = true;
            break;
        }
        let record = record::parse(&line, counted_here).ok();
        match record.and_then(|record| Some((run.phases.get(record.phase)?, record))) {
            Some((phase, mut record)) => {
                if !reading.is_new(record.request) {
                    continue;
                }
                reading.whole += 1;
                record.facts.place.model = position(&run.models, record.model.as_deref());
                record.facts.place.target = position(&run.urls, record.url.as_deref());
                // As in the run: a count of something else.
                record.lengths.counted = record.lengths.counted.filter(|_| !run.kind().is_ranking());
                parts[usize::from(phase.warmup)].add(&record);
            }
            None => reading.skip(),
        }
    }

    let [mut profiling, warmup] = parts;
    let network = network(&run, &folder, &profiling)?;
    if let Some(ns) = network.as_ref().and_then(|network| network.mean_ns) {
        profiling.recorder.set_network_rtt(ns);
    }
    let [profiling, warmup] = [profiling, warmup].map(Part::finish);
    let names = Names { models: &run.models, urls: &run.urls };
    let analysis = profiling.recorder.analyse(profiling.summary.window, names, run.random_seed);
    let slices = match run.slice_ns {
        Some(slice_ns) => timeslices::write(&folder, &profiling.recorder, slice_ns, WALL, &run.input_config),
        None => Ok(Vec::new()),
    };
    // The summary is whole without them.
    let (slices, problem) = match slices {
        Ok(slices) => (slices, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    if let Some(DiskProblem::Read(error)) = disk.problem() {
        return Err(artifact("read back measured values in", dir, io::Error::other(error)));
    }
    let wants_columns = run.input_config["artifacts"]["export_parquet"] == true;
    let columns = if wants_columns { columns_file::write(&folder) } else { Ok(None) };
    let notes = reading.notes();
    let reason = format!("{REASON}; {}", reading.words());
    let mut report = Report {
        version: &run.aiperf_version,
        benchmark_id: &run.benchmark_id,
        summary: &profiling.summary,
        is_warmup: false,
        warmup: (warmup.summary.tally.sent > 0).then_some(&warmup.summary),
        errors: profiling.errors.groups(),
        input_config: &run.input_config,
        source: run.dataset_source.as_ref(),
        seed: run.random_seed,
        cli_command: &run.cli_command,
        was_cancelled: false,
        incomplete_reason: Some(&reason),
        anchor: WALL,
        zone: TimeZone::system(),
        title: run.kind().traits().title,
        show_trace_timing: run.show_trace_timing,
        length_forced: run.length_forced,
        lengths: Some(InputLengths {
            summary: profiling.lengths.summary(),
            tokenizer: run.tokenizer.as_deref(),
            counting: run.counting(),
            verified: None,
            server_count: None,
        }),
        load: None,
        targets: &[],
        network: network.as_ref(),
        rows: run.dataset_rows.as_ref(),
        analysis: analysis.as_ref(),
        notes: &notes,
        files: &[],
    };
    let mut shown = Shown::default();
    for (label, path, bytes) in [
        ("CSV Export", &targets[0], csv::written(&report, run.schema)),
        ("JSON Export", &targets[1], json::written(&report, run.schema)),
    ] {
        write_whole(path, &bytes)?;
        shown.add(label, path);
    }
    shown.add("Console Export", &targets[2]);
    shown.add("Records", &records_path);
    if let Ok(Some(columns)) = &columns {
        shown.add("Records Parquet", &columns.path);
    }
    for (label, path) in &slices {
        shown.add(label, path);
    }
    let lines = shown.lines();
    report.files = &lines;
    let page = console::render(&report, console::EXPORT_WIDTH, false);
    write_whole(&targets[2], page.as_bytes())?;
    // Columns that could not be written take no other file with them.
    let problem = problem.or(columns.err());
    let console = match screen.width {
        Some(width) => console::render(&report, width, screen.colour),
        None => page,
    };
    let completed = profiling.summary.tally.completed;
    Ok(Rebuilt { console, notes, completed, records: reading.whole, problem })
}

/// The time to the servers and back: as the user said it, or from the probes since the first profiling request. Those that a run adds at
/// its end are there only if it came to it.
fn network(run: &RunFile, folder: &Folder, profiling: &Part) -> Result<Option<NetworkLatency>, RunError> {
    if let Some(mean_ns) = run.network_mean_ns {
        return Ok(Some(NetworkLatency { mean_ns: Some(mean_ns), targets: Vec::new() }));
    }
    let path = folder.network_jsonl();
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(artifact("read", &path, error)),
    };
    let since_ns = profiling.windows.iter().flatten().map(|(from, _)| *from).min().unwrap_or(0);
    Ok(Some(network::read_back(&bytes, since_ns)))
}

/// Stamps of records are wall-clock times already.
const WALL: ClockAnchor = ClockAnchor { mono_ns: 0, wall_ns: 0 };

/// The prefix of the files in a folder, by the file that tells what was run.
pub(crate) fn prefix(dir: &Path) -> Result<Option<String>, RunError> {
    let mut prefixes = Vec::new();
    for entry in fs::read_dir(dir).map_err(|e| artifact("read the folder", dir, e))? {
        let name = entry.map_err(|e| artifact("read the folder", dir, e))?.file_name();
        let Some(name) = name.to_str() else { continue };
        if name == RUN_FILE {
            return Ok(None);
        }
        prefixes.extend(name.strip_suffix(RUN_FILE_SUFFIX).map(str::to_owned));
    }
    match (prefixes.pop(), prefixes.is_empty()) {
        (Some(prefix), true) => Ok(Some(prefix)),
        (found, _) => Err(RunError::NoRun { path: dir.to_owned(), several: found.is_some() }),
    }
}

/// Phases of one kind, together.
struct Part {
    recorder: Recorder,
    errors: ErrorSummary,
    lengths: LengthLedger,
    /// Of each phase of the plan that has records.
    windows: Vec<Option<(u64, u64)>>,
}

struct Finished {
    recorder: Recorder,
    summary: Summary,
    errors: ErrorSummary,
    lengths: LengthLedger,
}

impl Part {
    fn new(run: &RunFile, warmup: bool, disk: &Disk) -> Self {
        let is_replay = run.phases.iter().filter(|phase| phase.warmup == warmup).all(|phase| phase.replay);
        let recorder =
            Recorder::new(run.capabilities(), WALL).with_slos(&run.slos()).of_replay(is_replay).on(disk);
        let is_sliced = run.slice_ns.is_some() && !warmup;
        Self {
            recorder: if is_sliced { recorder.traced() } else { recorder },
            errors: ErrorSummary::default(),
            lengths: LengthLedger::default(),
            windows: vec![None; run.phases.len()],
        }
    }

    fn add(&mut self, record: &Record) {
        self.recorder.record(&record.facts);
        self.lengths.add(&record.lengths);
        if let Some(failure) = &record.failure {
            self.errors.add(failure);
        }
        let (begun, ended) = (record.begun_ns, record.facts.end_ns);
        let window = self.windows[record.phase].get_or_insert((begun, ended));
        *window = (window.0.min(begun), window.1.max(ended));
    }

    fn finish(self) -> Finished {
        let windows: Vec<Window> =
            self.windows.into_iter().flatten().map(|(start, end)| Window::new(start, end)).collect();
        let summary = self.recorder.summarise(Window::pooled(&windows)).of_records();
        Finished { recorder: self.recorder, summary, errors: self.errors, lengths: self.lengths }
    }
}

/// Where a name stands; names are told where there are several.
fn position(names: &[String], name: Option<&str>) -> u16 {
    name.and_then(|name| names.iter().position(|known| known == name)).unwrap_or(0) as u16
}

/// How the file of records was found.
#[derive(Debug, Default)]
struct Reading {
    line: u64,
    whole: u64,
    skipped: u64,
    named: Vec<String>,
    /// Hashes of the requests' ids.
    seen: FxHashSet<u64>,
    /// Records of requests that had one before.
    repeated: u64,
    is_torn: bool,
}

impl Reading {
    /// Whether no record of this request came before: a file that was joined of copies has some twice.
    fn is_new(&mut self, request: u64) -> bool {
        let is_new = self.seen.insert(request);
        self.repeated += u64::from(!is_new);
        is_new
    }

    fn skip(&mut self) {
        self.skipped += 1;
        if self.named.len() < NAMED {
            self.named.push(self.line.to_string());
        }
    }

    fn words(&self) -> String {
        match self.whole {
            1 => "1 record was read".to_owned(),
            n => format!("{n} records were read"),
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!(
            "These results are made from the records alone: {}. Requests that were in flight at the end are not known, and rates are over \
             the time from the first request to the last answer in the records.",
            self.words()
        )];
        if self.skipped > 0 {
            let more = if self.skipped > self.named.len() as u64 { " …" } else { "" };
            let (lines, were) = if self.skipped == 1 { ("line", "was") } else { ("lines", "were") };
            notes.push(format!(
                "{} {lines} of the records could not be read and {were} left out: {lines} {}{more}.",
                self.skipped,
                self.named.join(", "),
            ));
        }
        if self.repeated > 0 {
            let (records, were) = if self.repeated == 1 { ("record", "was") } else { ("records", "were") };
            notes.push(format!(
                "{} {records} of requests that an earlier line has already (by x_request_id) {were} left out.",
                self.repeated
            ));
        }
        if self.is_torn {
            notes.push(format!(
                "The last line of the records, line {}, is not whole and was left out.",
                self.line
            ));
        }
        notes
    }
}

fn artifact(action: &'static str, path: &Path, source: io::Error) -> RunError {
    RunError::Artifact { action, path: path.to_owned(), source }
}
