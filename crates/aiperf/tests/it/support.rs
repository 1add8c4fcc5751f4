//! A fluent way to run the binary and to read what it left.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use aiperf_core::plan::TokenizerPlan;
use aiperf_sim::{SimConfig, SimHandle};
use serde_json::Value;
use tempfile::TempDir;

/// A run of `aiperf` in a folder of its own.
pub(crate) struct Run {
    args: Vec<String>,
    env: Vec<(String, String)>,
    home: TempDir,
}

/// What a run left behind.
pub(crate) struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub home: TempDir,
}

impl Run {
    /// `aiperf ARGS`.
    pub(crate) fn new(args: &str) -> Self {
        let home = tempfile::tempdir().expect("a folder for the test");
        Self { args: args.split_whitespace().map(str::to_owned).collect(), env: Vec::new(), home }
    }

    /// `aiperf profile` for `url` with what nearly every test wants: a model, a seed, no progress, files in `out`.
    pub(crate) fn profile(url: &str) -> Self {
        Self::new("profile --model demo --random-seed 7 --ui none --tokenizer builtin --artifact-dir out")
            .arg("--url")
            .arg(url)
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

    /// The folder of the test.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aiperf"));
        command
            .args(&self.args)
            .current_dir(self.home.path())
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.env.iter().map(|(n, v)| (n, v)))
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Done {
        let output = self.command().output().expect("the binary starts");
        self.done(&output)
    }

    /// Starts it; [`Running::finish`] waits.
    pub(crate) fn start(self) -> Running {
        let child =
            self.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        Running { run: self, child }
    }

    fn done(self, output: &Output) -> Done {
        Done {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            home: self.home,
        }
    }
}

/// A run that goes on.
pub(crate) struct Running {
    run: Run,
    child: Child,
}

impl Running {
    /// Sends a signal by its number.
    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status().expect("kill is there");
        assert!(status.success());
    }

    /// Waits for the end.
    pub(crate) fn finish(self) -> Done {
        let Self { run, child } = self;
        let output = child.wait_with_output().expect("the binary ends");
        run.done(&output)
    }
}

impl Done {
    /// Demands an exit code; on another the whole output is shown.
    #[track_caller]
    pub(crate) fn expect_exit(self, code: i32) -> Self {
        assert_eq!(self.code, code, "exit code\n--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        self
    }

    /// Demands a text in stderr.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "stderr lacks {text:?}\n--- stderr\n{}", self.stderr);
        self
    }

    /// Demands a text in stdout.
    #[track_caller]
    pub(crate) fn shows(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "stdout lacks {text:?}\n--- stdout\n{}", self.stdout);
        self
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

    /// A statistic of the summary.
    #[track_caller]
    pub(crate) fn stat(&self, tag: &str, stat: &str) -> f64 {
        self.summary()[tag][stat].as_f64().unwrap_or_else(|| panic!("no {tag}.{stat} in the summary"))
    }
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

/// Keeps a writer out of the unused-import lint where a test writes by hand.
pub(crate) fn append(path: &Path, text: &str) {
    let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("the file is there");
    file.write_all(text.as_bytes()).expect("it can be written");
}

/// The tokenizer the tests count with.
pub(crate) fn builtin() -> Arc<dyn aiperf_tokens::Tokenizer> {
    aiperf_tokens::open(&TokenizerPlan { name: "builtin".into() }).expect("the builtin tokenizer opens")
}
