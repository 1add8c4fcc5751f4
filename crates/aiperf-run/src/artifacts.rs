//! The folder of a run and the files in it.
//!
//! Files that are one document appear whole or not at all: written beside, as `*.part`, and renamed. Files that grow by lines
//! are written in whole lines; when the disk is full they end at the last whole line and the run goes on. Nothing of an
//! earlier run is overwritten: its files are moved to `previous-N/`. Two runs at once cannot share a folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use aiperf_core::plan::{ArtifactsPlan, DatasetPlan, Plan};
use aiperf_report::inputs;

use crate::error::RunError;

/// The file that tells what was run.
pub(crate) const RUN_FILE: &str = "profile_export_run.json";
/// Its end behind a prefix.
pub(crate) const RUN_FILE_SUFFIX: &str = "_run.json";

/// Bytes gathered before they are written.
const BUFFER: usize = 256 << 10;

/// The folder of one run, ready to be written to.
#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    prefix: Option<String>,
    /// Locked for as long as the run writes here.
    _lock: Option<File>,
}

impl Folder {
    /// Makes the folder, proves that it can be written to, and moves a finished run's files out of the way. The text, if any,
    /// tells where they went.
    pub fn prepare(plan: &ArtifactsPlan) -> Result<(Self, Option<String>), RunError> {
        let dir = plan.dir.clone();
        fs::create_dir_all(&dir).map_err(|e| artifact("make the folder", &dir, e))?;
        let lock = lock(&dir)?;
        let folder = Self { dir, prefix: plan.prefix.clone(), _lock: lock };
        let probe = folder.dir.join(format!(".aiperf-write-test-{}", std::process::id()));
        File::create(&probe)
            .and_then(|_| fs::remove_file(&probe))
            .map_err(|e| artifact("write into the folder", &folder.dir, e))?;
        let note = folder.move_earlier_run()?;
        let logs = folder.dir.join("logs");
        fs::create_dir_all(&logs).map_err(|e| artifact("make the folder", &logs, e))?;
        Ok((folder, note))
    }

    /// Refuses a plan whose results would take the place of its prompts. An `inputs.json` of an earlier run is moved with it, which is
    /// told.
    pub fn spares_input(plan: &Plan) -> Result<(), RunError> {
        let DatasetPlan::File(set) = &plan.dataset else { return Ok(()) };
        let folder = Self::names(&plan.artifacts);
        let same = |path: &Path| match (fs::canonicalize(path), fs::canonicalize(&set.path)) {
            (Ok(path), Ok(input)) => path == input,
            _ => false,
        };
        let inputs = folder.inputs_json();
        let in_the_way = |path: &PathBuf| *path != inputs && same(path);
        match folder.own_files().into_iter().chain([folder.dir.clone()]).find(in_the_way) {
            Some(path) => Err(RunError::InputInTheWay { input: set.path.clone(), path }),
            None => Ok(()),
        }
    }

    /// Names alone.
    fn names(plan: &ArtifactsPlan) -> Self {
        Self { dir: plan.dir.clone(), prefix: plan.prefix.clone(), _lock: None }
    }

    /// Makes the folder, if it is not there, for what a dry run says: results that are there stay.
    pub fn prepare_beside(plan: &ArtifactsPlan) -> Result<Self, RunError> {
        let dir = plan.dir.clone();
        fs::create_dir_all(&dir).map_err(|e| artifact("make the folder", &dir, e))?;
        let lock = lock(&dir)?;
        Ok(Self { dir, prefix: plan.prefix.clone(), _lock: lock })
    }

    /// The folder of a run that is over.
    pub(crate) fn open(dir: &Path, prefix: Option<String>) -> Result<Self, RunError> {
        let lock = lock(dir)?;
        Ok(Self { dir: dir.to_owned(), prefix, _lock: lock })
    }

    /// A folder for scratch files alone, which have no names: a run that keeps nothing leaves nothing in it.
    pub(crate) fn unkept(dir: PathBuf) -> Self {
        Self { dir, prefix: None, _lock: None }
    }

    /// The folder itself.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// `profile_export_aiperf.json`, or the prefix's form.
    pub fn summary_json(&self) -> PathBuf {
        self.named("profile_export_aiperf.json", ".json")
    }

    /// `profile_export_aiperf.csv`.
    pub fn summary_csv(&self) -> PathBuf {
        self.named("profile_export_aiperf.csv", ".csv")
    }

    /// `profile_export_aiperf_timeslices.json`.
    pub(crate) fn timeslices_json(&self) -> PathBuf {
        self.named("profile_export_aiperf_timeslices.json", "_timeslices.json")
    }

    /// `profile_export_aiperf_timeslices.csv`.
    pub(crate) fn timeslices_csv(&self) -> PathBuf {
        self.named("profile_export_aiperf_timeslices.csv", "_timeslices.csv")
    }

    /// `profile_export_console.txt`.
    pub fn console_txt(&self) -> PathBuf {
        self.named("profile_export_console.txt", "_console.txt")
    }

    /// `profile_export.jsonl`.
    pub fn records_jsonl(&self) -> PathBuf {
        self.named("profile_export.jsonl", ".jsonl")
    }

    /// `profile_export.parquet`.
    pub fn records_parquet(&self) -> PathBuf {
        self.named("profile_export.parquet", ".parquet")
    }

    /// `profile_export_raw.jsonl`.
    pub fn raw_jsonl(&self) -> PathBuf {
        self.named("profile_export_raw.jsonl", "_raw.jsonl")
    }

    /// `profile_export_network_latency.jsonl`.
    pub(crate) fn network_jsonl(&self) -> PathBuf {
        self.named("profile_export_network_latency.jsonl", "_network_latency.jsonl")
    }

    /// `profile_export_run.json`.
    pub(crate) fn run_json(&self) -> PathBuf {
        self.named(RUN_FILE, RUN_FILE_SUFFIX)
    }

    /// `dry_run.json`.
    pub(crate) fn dry_run_json(&self) -> PathBuf {
        self.named("dry_run.json", "_dry_run.json")
    }

    /// `dry_run_inputs.json`.
    pub(crate) fn dry_run_inputs_json(&self) -> PathBuf {
        self.named("dry_run_inputs.json", "_dry_run_inputs.json")
    }

    /// What a dry run writes before it is whole.
    pub fn dry_run_part(&self) -> PathBuf {
        beside(&self.dry_run_inputs_json())
    }

    /// `inputs.json`.
    pub fn inputs_json(&self) -> PathBuf {
        self.dir.join("inputs.json")
    }

    /// `outputs.json`.
    pub fn outputs_json(&self) -> PathBuf {
        self.dir.join("outputs.json")
    }

    /// `phase_manifest.json`.
    pub(crate) fn phase_manifest(&self) -> PathBuf {
        self.dir.join("phase_manifest.json")
    }

    /// `.aiperf_results_ready.json`, which is there when all other files are.
    pub(crate) fn ready(&self) -> PathBuf {
        self.dir.join(".aiperf_results_ready.json")
    }

    /// Makes scratch files in this folder, which is on a disk that takes results.
    pub(crate) fn scratch(&self) -> Scratch {
        Scratch::new(&self.dir)
    }

    /// `logs/aiperf.log`.
    pub fn log(&self) -> PathBuf {
        self.dir.join("logs").join("aiperf.log")
    }

    fn named(&self, usual: &str, suffix: &str) -> PathBuf {
        match &self.prefix {
            Some(prefix) => self.dir.join(format!("{prefix}{suffix}")),
            None => self.dir.join(usual),
        }
    }

    /// All files a run of this folder writes, `logs` and what one that was killed leaves included.
    fn own_files(&self) -> Vec<PathBuf> {
        vec![
            self.summary_json(),
            self.summary_csv(),
            self.console_txt(),
            self.timeslices_json(),
            beside(&self.timeslices_json()),
            self.timeslices_csv(),
            beside(&self.timeslices_csv()),
            self.records_jsonl(),
            self.records_parquet(),
            beside(&self.records_parquet()),
            self.raw_jsonl(),
            self.run_json(),
            self.network_jsonl(),
            self.inputs_json(),
            beside(&self.inputs_json()),
            self.outputs_json(),
            beside(&self.outputs_json()),
            self.phase_manifest(),
            self.dir.join("phases"),
            self.ready(),
            self.dir.join("logs"),
        ]
    }

    fn move_earlier_run(&self) -> Result<Option<String>, RunError> {
        // A link is moved as it is, wherever it points to: what is written here must not go there.
        let is_there = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
        let earlier: Vec<PathBuf> = self.own_files().into_iter().filter(is_there).collect();
        // The log folder alone is no run: a run that was refused at its start may leave one.
        if earlier.iter().all(|p| p.ends_with("logs")) {
            return Ok(None);
        }
        let (number, target) = (1..=u32::MAX)
            .map(|n| (n, self.dir.join(format!("previous-{n}"))))
            .find(|(_, p)| !p.exists())
            .unwrap_or((0, self.dir.join("previous")));
        fs::create_dir(&target).map_err(|e| artifact("make the folder", &target, e))?;
        for path in &earlier {
            let name = path.file_name().unwrap_or_default();
            fs::rename(path, target.join(name)).map_err(|e| artifact("move", path, e))?;
        }
        let what = match earlier.len() {
            1 => "file was".to_owned(),
            n => format!("{n} files were"),
        };
        Ok(Some(format!(
            "{} held an earlier run; its {what} moved to previous-{number}/",
            self.dir.display()
        )))
    }
}

/// Keeps other runs out of the folder until the file is dropped.
fn lock(dir: &Path) -> Result<Option<File>, RunError> {
    // Not every platform opens folders and not every file system locks; then nothing is locked.
    let Ok(file) = File::open(dir) else { return Ok(None) };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Err(RunError::FolderInUse { path: dir.to_owned() }),
        Err(fs::TryLockError::Error(_)) => Ok(None),
    }
}

/// Where a document is written until it is whole.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    beside.into()
}

/// Writes a file whole: beside its place first, then renamed.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), RunError> {
    let beside = beside(path);
    File::create(&beside)
        .and_then(|mut f| f.write_all(bytes).and_then(|()| f.flush()))
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|e| {
            // Best effort: what could not be written must not look like a result.
            let _ = fs::remove_file(&beside);
            artifact("write", path, e)
        })
}

/// Makes files without a name: whoever holds one has it, and the disk has its space back with the last holder, however that ends.
#[derive(Debug, Clone)]
pub(crate) struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    /// In `dir`.
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Where they are.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// An empty one, to be written and read.
    pub(crate) fn file(&self) -> io::Result<File> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(format!(".aiperf-scratch-{}-{number}", std::process::id()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600);
        }
        #[cfg(windows)]
        {
            use std::os::windows::fs::OpenOptionsExt;
            const FILE_FLAG_DELETE_ON_CLOSE: u32 = 0x0400_0000;
            options.custom_flags(FILE_FLAG_DELETE_ON_CLOSE);
        }
        let file = options.open(&path)?;
        #[cfg(not(windows))]
        fs::remove_file(&path)?;
        Ok(file)
    }
}

/// A file that grows by whole lines.
#[derive(Debug)]
pub(crate) struct Spool {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    written: u64,
    failed: Option<io::Error>,
}

impl Spool {
    /// Creates the file; `private` keeps others from reading it.
    pub(crate) fn create(path: PathBuf, private: bool) -> Result<Self, RunError> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        if private {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600);
        }
        #[cfg(not(unix))]
        let _ = private;
        let file = options.open(&path).map_err(|e| artifact("create", &path, e))?;
        Ok(Self { path, file, buffer: Vec::with_capacity(BUFFER + 4096), written: 0, failed: None })
    }

    /// Appends what `line` writes: one or more whole lines.
    pub(crate) fn append(&mut self, line: impl FnOnce(&mut Vec<u8>)) {
        if self.failed.is_some() {
            return;
        }
        line(&mut self.buffer);
        if self.buffer.len() >= BUFFER {
            self.flush();
        }
    }

    /// Writes what was gathered. After a failure the file ends at the last write that was whole.
    pub(crate) fn flush(&mut self) {
        if self.failed.is_some() || self.buffer.is_empty() {
            return;
        }
        match self.file.write_all(&self.buffer) {
            Ok(()) => self.written += self.buffer.len() as u64,
            Err(error) => {
                // What part of the buffer got out is cut off again; if even that fails, the error says enough.
                let _ = self.file.set_len(self.written);
                tracing::error!("cannot write {}: {error}", self.path.display());
                self.failed = Some(error);
            }
        }
        self.buffer.clear();
    }

    /// Writes the rest; the error is the first one met.
    pub(crate) fn finish(mut self) -> Result<PathBuf, RunError> {
        self.end().map_err(|e| artifact("write", &self.path, e))?;
        Ok(self.path)
    }

    /// Writes the rest and gives the file the name `path`; one that is not whole is gone.
    pub(crate) fn finish_as(mut self, path: &Path) -> Result<(), RunError> {
        self.end().and_then(|()| fs::rename(&self.path, path)).map_err(|e| {
            let _ = fs::remove_file(&self.path);
            artifact("write", path, e)
        })
    }

    fn end(&mut self) -> io::Result<()> {
        self.flush();
        self.failed.take().map_or(Ok(()), Err)
    }
}

/// A document that is written piece by piece and has its name once it is whole.
#[derive(Debug)]
pub(crate) struct Document {
    path: PathBuf,
    spool: Spool,
}

impl Document {
    pub(crate) fn create(path: PathBuf) -> Result<Self, RunError> {
        let spool = Spool::create(beside(&path), false)?;
        Ok(Self { path, spool })
    }

    pub(crate) fn append(&mut self, piece: impl FnOnce(&mut Vec<u8>)) {
        self.spool.append(piece);
    }

    /// Gives it its name.
    pub(crate) fn finish(mut self) -> Result<PathBuf, RunError> {
        let written = self.spool.end().and_then(|()| fs::rename(&self.spool.path, &self.path));
        match written {
            Ok(()) => Ok(self.path),
            Err(error) => {
                let error = artifact("write", &self.path, error);
                self.discard();
                Err(error)
            }
        }
    }

    /// What could not be made whole must not look like a result.
    pub(crate) fn discard(self) {
        let _ = fs::remove_file(&self.spool.path);
    }
}

/// `inputs.json`, streamed; it has its name once it is whole.
#[derive(Debug)]
pub(crate) struct InputsFile {
    path: PathBuf,
    spool: Spool,
    writer: inputs::Writer,
}

impl InputsFile {
    pub(crate) fn create(path: PathBuf) -> Result<Self, RunError> {
        let mut spool = Spool::create(beside(&path), true)?;
        let mut writer = inputs::Writer::new();
        spool.append(|out| writer.begin(out));
        Ok(Self { path, spool, writer })
    }

    pub(crate) fn entry<'a>(&mut self, id: &str, bodies: impl Iterator<Item = &'a [u8]>) {
        let bodies: Vec<&[u8]> = bodies.collect();
        self.spool.append(|out| self.writer.entry(out, id, &bodies));
    }

    /// Ends the document and gives it its name.
    pub(crate) fn finish(mut self) -> Result<PathBuf, RunError> {
        self.spool.append(|out| self.writer.end(out));
        let written = self.spool.end().and_then(|()| fs::rename(&self.spool.path, &self.path));
        written.map_err(|e| artifact("write", &self.path, e))?;
        Ok(self.path.clone())
    }
}

impl Drop for InputsFile {
    fn drop(&mut self) {
        // Half a JSON document helps nobody; a whole one has its own name by now.
        let _ = fs::remove_file(&self.spool.path);
    }
}

pub(crate) fn artifact(action: &'static str, path: &Path, source: io::Error) -> RunError {
    RunError::Artifact { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aiperf_core::plan::ExportLevel;

    fn plan(dir: &Path, prefix: Option<&str>) -> ArtifactsPlan {
        ArtifactsPlan {
            prefix: prefix.map(str::to_owned),
            ..ArtifactsPlan::new(dir.to_owned(), ExportLevel::Raw)
        }
    }

    #[test]
    fn an_earlier_run_is_moved_and_nothing_else() {
        let tmp = tempfile::tempdir().expect("a folder");
        let (folder, note) = Folder::prepare(&plan(tmp.path(), None)).expect("writable");
        assert_eq!(note, None);
        fs::write(folder.summary_json(), "{}").expect("write");
        fs::write(tmp.path().join("mine.txt"), "keep").expect("write");
        drop(folder);
        for n in 1..=2 {
            let (folder, note) = Folder::prepare(&plan(tmp.path(), None)).expect("writable");
            let note = note.expect("something was moved");
            assert!(note.ends_with(&format!("its 2 files were moved to previous-{n}/")), "{note}");
            assert!(tmp.path().join(format!("previous-{n}/profile_export_aiperf.json")).exists());
            fs::write(folder.summary_json(), "{}").expect("write");
        }
        assert!(tmp.path().join("mine.txt").exists());
    }

    #[test]
    fn what_a_killed_run_left_is_moved_too() {
        let tmp = tempfile::tempdir().expect("a folder");
        fs::write(tmp.path().join("inputs.json.part"), "{\"data\": [").expect("write");
        let (folder, note) = Folder::prepare(&plan(tmp.path(), None)).expect("writable");
        assert!(note.is_some_and(|n| n.ends_with("its file was moved to previous-1/")));
        let mut inputs = InputsFile::create(folder.inputs_json()).expect("created");
        inputs.entry("a", std::iter::once(&b"{}"[..]));
        assert!(!folder.inputs_json().exists(), "it has its name before it is whole");
        assert_eq!(inputs.finish().expect("written"), folder.inputs_json());
        assert!(!tmp.path().join("inputs.json.part").exists());
        serde_json::from_slice::<serde_json::Value>(&fs::read(folder.inputs_json()).expect("there"))
            .expect("a whole document");
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_written_through_a_link() {
        let tmp = tempfile::tempdir().expect("a folder");
        let (dir, elsewhere) = (tmp.path().join("out"), tmp.path().join("elsewhere"));
        fs::create_dir(&dir).expect("made");
        std::os::unix::fs::symlink(&elsewhere, dir.join("profile_export.jsonl")).expect("linked");
        let (folder, note) = Folder::prepare(&plan(&dir, None)).expect("writable");
        assert!(note.is_some());
        Spool::create(folder.records_jsonl(), false).expect("created");
        assert!(!elsewhere.exists());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn two_runs_at_once_do_not_share_a_folder() {
        let tmp = tempfile::tempdir().expect("a folder");
        let first = Folder::prepare(&plan(tmp.path(), None)).expect("writable");
        let error = Folder::prepare(&plan(tmp.path(), None)).expect_err("it is in use");
        assert!(error.to_string().starts_with("another run is writing into "), "{error}");
        drop(first);
        Folder::prepare(&plan(tmp.path(), None)).expect("free again");
    }

    #[test]
    fn a_prefix_names_the_files() {
        let folder = Folder { dir: "d".into(), prefix: Some("foo".into()), _lock: None };
        assert_eq!(folder.summary_json(), Path::new("d/foo.json"));
        assert_eq!(folder.console_txt(), Path::new("d/foo_console.txt"));
        assert_eq!(folder.raw_jsonl(), Path::new("d/foo_raw.jsonl"));
        assert_eq!(folder.inputs_json(), Path::new("d/inputs.json"));
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let tmp = tempfile::tempdir().expect("a folder");
        let file = tmp.path().join("file");
        fs::write(&file, "").expect("write");
        let error = Folder::prepare(&plan(&file.join("sub"), None)).expect_err("not a folder");
        assert!(error.to_string().contains("file/sub"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn prompts_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let tmp = tempfile::tempdir().expect("a folder");
        let path = tmp.path().join("x.jsonl");
        let mut spool = Spool::create(path.clone(), true).expect("create");
        spool.append(|out| out.extend_from_slice(b"{}\n"));
        spool.finish().expect("written");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read(&path).expect("readable"), b"{}\n");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_told_once_and_ends_the_file() {
        let mut spool = Spool::create("/dev/full".into(), false).expect("opens");
        spool.append(|out| out.extend_from_slice(b"{}\n"));
        spool.flush();
        spool.append(|out| out.extend_from_slice(b"{}\n"));
        let error = spool.finish().expect_err("no space");
        assert!(error.to_string().starts_with("cannot write /dev/full: "), "{error}");
    }
}
