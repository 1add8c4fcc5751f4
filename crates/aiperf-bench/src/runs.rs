//! Whole runs of the `aiperf` that lies beside this program, against the simulated server inside it: the CPU time a further
//! request costs, server included, and how the choices of a run change it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use aiperf_os::usage::ended_children_usage;

use crate::figures::{Figure, Figures, Kind};

/// A run: name, requests, and what it asks beside the common part.
type Run = (&'static str, u64, &'static [&'static str]);

/// The first one is what the others are set in relation to.
const RUNS: &[Run] = &[
    ("one-chunk", 5000, &["--concurrency", "16", "--osl", "1"]),
    ("not-streamed", 5000, &["--concurrency", "16", "--osl", "1", "--no-streaming"]),
    ("concurrency-1", 1000, &["--concurrency", "1", "--osl", "1"]),
    ("concurrency-64", 5000, &["--concurrency", "64", "--osl", "1"]),
    ("isl-1024", 5000, &["--concurrency", "16", "--osl", "1", "--isl", "1024"]),
    ("stream-128-summary", 500, &["--concurrency", "16", "--osl", "128", "--export-level", "summary"]),
    ("stream-128-records", 500, &["--concurrency", "16", "--osl", "128", "--export-level", "records"]),
    ("stream-128-raw", 500, &["--concurrency", "16", "--osl", "128", "--export-level", "raw"]),
];

const COMMON: &[&str] = &[
    "profile",
    "--model",
    "demo",
    "--url",
    "sim://",
    "--endpoint-type",
    "chat",
    "--tokenizer",
    "builtin",
    "--ui",
    "none",
    "--random-seed",
    "1",
    // Making prompts has cases of its own.
    "--num-dataset-entries",
    "100",
];

/// CPU time per request of each run.
pub(crate) fn all() -> Result<Figures, String> {
    let this = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
    let aiperf = this.with_file_name("aiperf");
    if !aiperf.exists() {
        return Err(format!("no {}: build it first with the same profile", aiperf.display()));
    }
    let folder = Folder(std::env::temp_dir().join(format!("aiperf-bench-{}", std::process::id())));
    RUNS.iter().map(|run| measure(&aiperf, &folder.0, run)).collect::<Result<_, _>>().map(Figures)
}

/// A folder that goes with its owner.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // Left behind in the temporary folder at worst.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// From a run of `requests` and one of twice as many: start and end are in both and so in neither.
fn measure(aiperf: &Path, folder: &Path, (name, requests, options): &Run) -> Result<Figure, String> {
    let one = cpu_ns(aiperf, folder, options, *requests)?;
    let two = cpu_ns(aiperf, folder, options, 2 * requests)?;
    let value = two.saturating_sub(one) as f64 / *requests as f64;
    Ok(Figure { kind: Kind::Run, name: (*name).to_owned(), unit: "request".to_owned(), value })
}

fn cpu_ns(aiperf: &Path, folder: &Path, options: &[&str], requests: u64) -> Result<u64, String> {
    let requests = requests.to_string();
    let has = |option| options.contains(&option);
    let mut args: Vec<&OsStr> = COMMON.iter().map(OsStr::new).collect();
    if !has("--no-streaming") {
        args.push("--streaming".as_ref());
    }
    if !has("--isl") {
        args.extend(["--isl", "128"].map(OsStr::new));
    }
    args.extend(options.iter().filter(|o| **o != "--no-streaming").map(OsStr::new));
    args.extend(["--request-count", &requests, "--artifact-dir"].map(OsStr::new));
    args.push(folder.as_os_str());
    let before = ended_children_usage().cpu_ns;
    let output = Command::new(aiperf)
        .args(&args)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{}: {e}", aiperf.display()))?;
    let used = ended_children_usage().cpu_ns - before;
    // Each run has the folder for itself.
    let _ = std::fs::remove_dir_all(folder);
    if output.status.success() {
        return Ok(used);
    }
    Err(format!("{args:?} ended with {}:\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}
