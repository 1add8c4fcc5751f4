//! A fluent way to run the binary and to read what it left.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use aiperf_core::plan::TokenizerPlan;
use aiperf_sim::scripted::{Reply, Script, ScriptedServer};
use aiperf_sim::{SimConfig, SimHandle};
use serde_json::Value;
use tempfile::TempDir;

/// A run that takes longer hangs: it is killed, and its test fails. Nothing waits for this to pass.
const HANGS: Duration = Duration::from_mins(2);

/// A run of `aiperf` in a folder of its own.
pub(crate) struct Run {
    args: Vec<String>,
    env: Vec<(String, String)>,
    /// A shell script that runs the binary as `"$0" "$@"`.
    script: Option<String>,
    home: TempDir,
}

/// What a run left behind.
pub(crate) struct Done {
    /// The exit code; -1 when a signal ended it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub home: TempDir,
    /// Files and folders that were there before.
    before: BTreeSet<PathBuf>,
}

impl Run {
    /// `aiperf ARGS`.
    pub(crate) fn new(args: &str) -> Self {
        let home = tempfile::tempdir().expect("a folder for the test");
        Self { args: Vec::new(), env: Vec::new(), script: None, home }.args(args)
    }

    /// `aiperf profile` for `url` with what nearly every test wants: a model, a seed, short prompts, no progress, files in `out`.
    pub(crate) fn profile(url: &str) -> Self {
        Self::unseeded(url).args("--random-seed 7 --isl 8 --osl 4")
    }

    /// The same without seed and lengths.
    pub(crate) fn unseeded(url: &str) -> Self {
        Self::new("profile --model demo --ui none --tokenizer builtin --artifact-dir out --url").arg(url)
    }

    /// One more argument, taken as it is.
    pub(crate) fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// More arguments, split at blanks.
    pub(crate) fn args(mut self, args: &str) -> Self {
        self.args.extend(args.split_whitespace().map(str::to_owned));
        self
    }

    /// An environment variable.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A file in the folder of the test.
    pub(crate) fn file(self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        let path = self.home.path().join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).expect("a folder for the file");
        }
        std::fs::write(path, bytes).expect("the test's file");
        self
    }

    /// No file may grow beyond so many blocks of 512 bytes: to the program, the disk is full then.
    pub(crate) fn disk_full_after(self, blocks: u32) -> Self {
        // Without the trap the kernel would end the process by a signal, as no full disk does.
        self.script(&format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\""))
    }

    /// Runs it by a shell, as `"$0" "$@"` of `script`.
    pub(crate) fn script(mut self, script: &str) -> Self {
        self.script = Some(script.to_owned());
        self
    }

    /// The folder of the test.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    fn command(&self) -> Command {
        let binary = env!("CARGO_BIN_EXE_aiperf");
        let mut command = match &self.script {
            None => Command::new(binary),
            Some(script) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", script, binary]);
                shell
            }
        };
        command
            .args(&self.args)
            .current_dir(self.home.path())
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.env.iter().map(|(n, v)| (n, v)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Done {
        self.start().finish()
    }

    /// Runs it again in the folder of an earlier run.
    pub(crate) fn run_in(mut self, earlier: Done) -> Done {
        self.home = earlier.home;
        self.run()
    }

    /// Starts it; [`Running::finish`] waits.
    pub(crate) fn start(self) -> Running {
        let before = tree(self.home.path());
        let mut child = self.command().spawn().expect("the binary starts");
        let stdout = Heard::of(child.stdout.take().expect("it is piped"));
        let stderr = Heard::of(child.stderr.take().expect("it is piped"));
        let pid = child.id();
        let (ended, end) = mpsc::channel::<()>();
        let guard = std::thread::spawn(move || match end.recv_timeout(HANGS) {
            Ok(()) => false,
            Err(RecvTimeoutError::Timeout) => kill(pid, "KILL"),
            // The test gave up.
            Err(RecvTimeoutError::Disconnected) => {
                kill(pid, "KILL");
                false
            }
        });
        Running { home: self.home, before, child, stdout, stderr, ended, guard }
    }
}

/// What a process has said so far, and whether that is all.
#[derive(Default)]
struct Said {
    so_far: Mutex<(Vec<u8>, bool)>,
    more: Condvar,
}

/// One of a process's pipes, listened to.
struct Heard {
    said: Arc<Said>,
    listener: JoinHandle<()>,
}

impl Heard {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let said = Arc::new(Said::default());
        let shared = Arc::clone(&said);
        let listener = std::thread::spawn(move || {
            let mut scratch = [0; 4096];
            loop {
                let n = pipe.read(&mut scratch).unwrap_or(0);
                let mut said = shared.so_far.lock().unwrap_or_else(PoisonError::into_inner);
                said.0.extend_from_slice(&scratch[..n]);
                said.1 = n == 0;
                shared.more.notify_all();
                if n == 0 {
                    return;
                }
            }
        });
        Self { said, listener }
    }

    /// Waits until a line with `text` was said, and returns it.
    #[track_caller]
    fn wait_line(&self, text: &str) -> String {
        let mut said = self.said.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let so_far = String::from_utf8_lossy(&said.0).into_owned();
            let line = so_far.split_inclusive('\n').find(|l| l.ends_with('\n') && l.contains(text));
            if let Some(line) = line {
                return line.trim_end().to_owned();
            }
            assert!(!said.1, "it ended without saying {text:?}; it said:\n{so_far}");
            said = self.said.more.wait(said).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn all(self) -> String {
        self.listener.join().expect("the listener does not panic");
        let said = self.said.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&said.0).into_owned()
    }
}

/// A run that goes on.
pub(crate) struct Running {
    home: TempDir,
    before: BTreeSet<PathBuf>,
    child: Child,
    stdout: Heard,
    stderr: Heard,
    ended: mpsc::Sender<()>,
    guard: JoinHandle<bool>,
}

impl Running {
    /// The folder of the test.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        assert!(kill(self.child.id(), name), "the process is there");
    }

    /// Waits for a line in stdout that holds `text`.
    #[track_caller]
    pub(crate) fn wait_stdout(&self, text: &str) -> String {
        self.stdout.wait_line(text)
    }

    /// Waits for a line in stderr that holds `text`.
    #[track_caller]
    pub(crate) fn wait_stderr(&self, text: &str) -> String {
        self.stderr.wait_line(text)
    }

    /// Waits for the end.
    #[track_caller]
    pub(crate) fn finish(self) -> Done {
        let Self { home, before, mut child, stdout, stderr, ended, guard } = self;
        let status: ExitStatus = child.wait().expect("the binary ends");
        // Nobody listens when the guard had to end it.
        let _ = ended.send(());
        let (stdout, stderr) = (stdout.all(), stderr.all());
        let killed = guard.join().expect("the guard does not panic");
        assert!(!killed, "it hung and was killed\n--- stdout\n{stdout}\n--- stderr\n{stderr}");
        Done { code: status.code().unwrap_or(-1), stdout, stderr, home, before }
    }
}

/// Every shell can send signals; a program for it may be missing.
fn kill(pid: u32, signal: &str) -> bool {
    let status = Command::new("sh").args(["-c", &format!("kill -s {signal} {pid}")]).status();
    status.expect("a shell is there").success()
}

/// Every path below `root`, relative to it.
pub(crate) fn tree(root: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            found.insert(path.strip_prefix(root).expect("below the root").to_owned());
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            }
        }
    }
    found
}

/// How requests ended, as a run tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub scheduled: u64,
    pub sent: u64,
    pub unsent: u64,
    pub completed: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub lost: u64,
}

impl Tally {
    /// `completed` whole answers, `failed` failures and nothing else.
    pub(crate) fn of(completed: u64, failed: u64) -> Self {
        Self { scheduled: completed + failed, sent: completed + failed, completed, failed, ..Self::default() }
    }

    /// With so many cancelled beside.
    pub(crate) fn cancelled(mut self, n: u64) -> Self {
        self.scheduled += n;
        self.sent += n;
        self.cancelled = n;
        self
    }
}

impl Done {
    /// Demands an exit code; on another the whole output is shown.
    #[track_caller]
    pub(crate) fn expect_exit(self, code: i32) -> Self {
        assert_eq!(self.code, code, "exit code\n--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        self
    }

    /// Demands texts in stderr.
    #[track_caller]
    pub(crate) fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stderr.contains(text), "stderr lacks {text:?}\n--- stderr\n{}", self.stderr);
        }
        self
    }

    /// Demands texts in stdout, line ends and runs of blanks taken as one blank.
    #[track_caller]
    pub(crate) fn shows(self, texts: &[&str]) -> Self {
        let shown = flat(&self.stdout);
        for text in texts {
            assert!(shown.contains(text), "stdout lacks {text:?}\n--- stdout\n{}", self.stdout);
        }
        self
    }

    /// What the run made: every path that was not there before.
    pub(crate) fn made(&self) -> BTreeSet<PathBuf> {
        tree(self.home.path()).difference(&self.before).cloned().collect()
    }

    /// A file of the artifact folder `out`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join("out").join(name)
    }

    /// The text of a file of the artifact folder.
    #[track_caller]
    pub(crate) fn text(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::read_to_string(&path)
            .unwrap_or_else(|e| panic!("{}: {e}\n--- stderr\n{}", path.display(), self.stderr))
    }

    /// A JSON file of the artifact folder.
    #[track_caller]
    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).expect("a JSON file")
    }

    /// The summary.
    #[track_caller]
    pub(crate) fn summary(&self) -> Value {
        self.json("profile_export_aiperf.json")
    }

    /// The lines of a JSONL file.
    #[track_caller]
    pub(crate) fn lines(&self, name: &str) -> Vec<Value> {
        self.text(name).lines().map(|l| serde_json::from_str(l).expect("a JSON line")).collect()
    }

    /// The records.
    #[track_caller]
    pub(crate) fn records(&self) -> Vec<Value> {
        self.lines("profile_export.jsonl")
    }

    /// The request bodies of `inputs.json`, in order.
    #[track_caller]
    pub(crate) fn inputs(&self) -> Vec<Value> {
        let inputs = self.json("inputs.json");
        let sessions = inputs["data"].as_array().expect("a list of sessions");
        sessions.iter().flat_map(|s| s["payloads"].as_array().expect("a list of bodies").clone()).collect()
    }

    /// A statistic of the summary.
    #[track_caller]
    pub(crate) fn stat(&self, tag: &str, stat: &str) -> f64 {
        self.summary()[tag][stat].as_f64().unwrap_or_else(|| panic!("no {tag}.{stat} in the summary"))
    }

    /// Demands a statistic of the summary, to the bit.
    #[track_caller]
    pub(crate) fn has(&self, tag: &str, stat: &str, value: f64) {
        assert_eq!(self.summary()[tag][stat], value, "{tag}.{stat}");
    }

    /// Demands that every scheduled request ended in its class, and in no other.
    #[track_caller]
    pub(crate) fn ends(self, expected: Tally) -> Self {
        assert_eq!(self.tally(), expected, "--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        self
    }

    /// How requests ended; demands that the classes add up and that screen, summary and records agree on them.
    #[track_caller]
    pub(crate) fn tally(&self) -> Tally {
        let expected = self.shown_tally();
        assert_eq!(expected.scheduled, expected.sent + expected.unsent, "{expected:?}");
        let ended = expected.completed + expected.failed + expected.cancelled + expected.lost;
        assert_eq!(expected.sent, ended, "{expected:?}");

        let summary = self.summary();
        let avg = |tag: &str| summary[tag]["avg"].as_f64().unwrap_or(0.0) as u64;
        let counts = Tally {
            scheduled: avg("scheduled_request_count"),
            sent: avg("sent_request_count"),
            unsent: avg("unsent_request_count"),
            completed: avg("request_count"),
            // AIPerf counts what was cancelled as errors.
            failed: avg("error_request_count") - avg("cancelled_request_count"),
            cancelled: avg("cancelled_request_count"),
            lost: avg("lost_request_count"),
        };
        assert_eq!(counts, expected, "in the summary");
        let told: u64 = summary["error_summary"]
            .as_array()
            .expect("a list of errors")
            .iter()
            .map(|group| group["count"].as_u64().expect("a count"))
            .sum();
        assert_eq!(told, expected.failed + expected.cancelled, "sum of error_summary");

        let mut classes: BTreeMap<String, u64> = BTreeMap::new();
        for record in self.records() {
            let meta = &record["metadata"];
            if meta["benchmark_phase"] == "profiling" {
                let class = meta["outcome"].as_str().expect("a class").to_owned();
                assert_eq!(record["error"].is_object(), class != "completed", "{record}");
                *classes.entry(class).or_default() += 1;
            }
        }
        let class = |name: &str| classes.get(name).copied().unwrap_or(0);
        assert_eq!(
            (class("completed"), class("failed"), class("cancelled"), class("lost")),
            (expected.completed, expected.failed, expected.cancelled, expected.lost),
            "in the records"
        );
        assert_eq!(classes.values().sum::<u64>(), expected.sent, "records");
        expected
    }

    /// The two equations on screen.
    #[track_caller]
    fn shown_tally(&self) -> Tally {
        let shown = flat(&self.stdout);
        let number = |word: &str, from: usize| -> u64 {
            let at = shown[from..].find(&format!(" {word}")).map(|at| from + at);
            let before = at.and_then(|at| shown[..at].rsplit(' ').next());
            let digits = before.unwrap_or_default().replace(',', "");
            digits.parse().unwrap_or_else(|_| panic!("no number before {word:?}\n{}", self.stdout))
        };
        let start = shown.find(" scheduled = ").unwrap_or_else(|| panic!("no tally\n{}", self.stdout));
        Tally {
            scheduled: number("scheduled =", 0),
            sent: number("sent =", start),
            unsent: number("unsent", start),
            completed: number("completed", start),
            failed: number("failed", start),
            cancelled: number("cancelled", start),
            lost: number("lost", start),
        }
    }

    /// Demands that `secret` is in no file and on no screen.
    #[track_caller]
    pub(crate) fn keeps(self, secret: &str) -> Self {
        assert!(!self.stdout.contains(secret), "on stdout: {}", self.stdout);
        assert!(!self.stderr.contains(secret), "on stderr: {}", self.stderr);
        for path in self.made() {
            let path = self.home.path().join(path);
            if path.is_file() {
                let bytes = std::fs::read(&path).expect("a readable file");
                assert!(!String::from_utf8_lossy(&bytes).contains(secret), "in {}", path.display());
            }
        }
        self
    }
}

/// White space as one blank each, frames of tables dropped, so that a text that was wrapped is found.
pub(crate) fn flat(text: &str) -> String {
    let plain: String =
        text.chars().map(|c| if ('\u{2500}'..='\u{257f}').contains(&c) { ' ' } else { c }).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A simulated server with the builtin tokenizer on a port of its own.
pub(crate) fn sim(query: &str) -> SimHandle {
    let tokenizer =
        aiperf_tokens::open(&TokenizerPlan { name: "builtin".into() }).expect("the builtin tokenizer opens");
    let config = SimConfig::from_query(query).expect("the test's options are right");
    aiperf_sim::start(config, tokenizer, std::net::SocketAddr::from(([127, 0, 0, 1], 0))).expect("it starts")
}

/// The address of a simulated server.
pub(crate) fn url(server: &SimHandle) -> String {
    format!("http://{}", server.addr())
}

/// A server that plays `replies` in order; the last stays.
pub(crate) fn scripted(replies: Vec<Reply>) -> ScriptedServer {
    ScriptedServer::start(replies).expect("it listens")
}

/// A server that plays `replies` over and over.
pub(crate) fn cycling(replies: Vec<Reply>) -> ScriptedServer {
    Script::new(replies).cycle().start().expect("it listens")
}
