//! Where a setting comes from: flags over environment over file over defaults; and the commands beside the run.

use crate::support::{Run, Tally, sim, url};

const FILE: &str = "\
schema_version: \"2.0\"
random_seed: 7
benchmark:
  model: demo
  endpoint:
    url: ${SIM_URL}
    streaming: true
  dataset:
    type: synthetic
    prompts: {isl: {mean: 8}, osl: {mean: 4}}
  profiling: {type: concurrency, concurrency: 2, requests: 3}
  artifacts: {dir: out}
  tokenizer: {name: builtin}
  runtime: {ui: none}
";

/// A run of the file, with the address in a variable of the file's own.
fn run(url: &str) -> Run {
    Run::new("profile -f c.yaml").file("c.yaml", FILE).env("SIM_URL", url)
}

#[test]
fn flags_win_over_variables_over_the_file_over_defaults() {
    let server = sim("ttft=0&itl=0");
    let url = url(&server);
    Run::profile(&url).run().expect_exit(0).ends(Tally::of(10, 0));
    let file = run(&url).run().expect_exit(0).ends(Tally::of(3, 0));
    assert!(!file.stderr.contains("AIPERF_"), "{}", file.stderr);
    let told = "AIPERF_REQUEST_COUNT=4 in the environment sets --request-count";
    let with = || run(&url).env("AIPERF_REQUEST_COUNT", "4");
    with().run().expect_exit(0).says(&[told]).ends(Tally::of(4, 0));
    with().args("--request-count 5").run().expect_exit(0).says(&[told]).ends(Tally::of(5, 0));
    // A variable of another program's is none of ours.
    let other = run(&url).env("REQUEST_COUNT", "4").env("AIPERF_UNKNOWN", "1").run().expect_exit(0);
    other.ends(Tally::of(3, 0));
}

#[test]
fn each_variable_that_is_used_is_told() {
    let server = sim("ttft=0&itl=0");
    Run::new("profile")
        .env("AIPERF_MODEL", "demo")
        .env("AIPERF_URL", &url(&server))
        .env("AIPERF_TOKENIZER", "builtin")
        .env("AIPERF_ARTIFACT_DIR", "out")
        .env("AIPERF_UI", "none")
        .env("AIPERF_REQUEST_COUNT", "2")
        .env("AIPERF_STREAMING", "true")
        .run()
        .expect_exit(0)
        .says(&[
            "AIPERF_MODEL=demo in the environment sets --model",
            "AIPERF_TOKENIZER=builtin in the environment sets --tokenizer",
            "AIPERF_ARTIFACT_DIR=out in the environment sets --artifact-dir",
            "AIPERF_UI=none in the environment sets --ui",
            "AIPERF_STREAMING=true in the environment sets --streaming",
        ])
        .ends(Tally::of(2, 0));
}

#[test]
fn a_file_and_the_same_flags_are_the_same_run() {
    let server = sim("ttft=0&itl=0");
    let url = url(&server);
    let by_file = run(&url).run().expect_exit(0).ends(Tally::of(3, 0));
    let flags = Run::profile(&url).args("--streaming --concurrency 2 --request-count 3");
    let by_flags = flags.run().expect_exit(0).ends(Tally::of(3, 0));
    assert_eq!(by_file.text("inputs.json"), by_flags.text("inputs.json"));
}

#[test]
fn a_file_is_validated_without_running() {
    let check = Run::new("config validate c.yaml").file("c.yaml", FILE).env("SIM_URL", "http://127.0.0.1:1");
    let done = check.run().expect_exit(0);
    assert_eq!(done.stdout, "c.yaml is valid.\n");
    assert!(done.made().is_empty(), "{:?}", done.made());
}

#[test]
fn a_file_is_expanded_in_three_forms() {
    let text =
        "variables: {n: 3}\nbenchmark:\n  model: ${WHO:demo}\n  profiling: {requests: \"{{ n * 2 }}\"}\n";
    let expand = |form: &str| {
        Run::new("config expand c.yaml")
            .args(form)
            .file("c.yaml", text)
            .env("WHO", "me")
            .run()
            .expect_exit(0)
            .stdout
    };
    let json: serde_json::Value = serde_json::from_str(&expand("--format json")).expect("JSON");
    assert_eq!((&json["sweep_type"], &json["variations"][0]["dir_name"]), (&"none".into(), &"base".into()));
    let body = serde_json::json!({"model": "me", "profiling": {"requests": 6}});
    assert_eq!(json["variations"][0]["benchmark"], body);
    for (form, start) in [("", "sweep_type: none\n"), ("--format text", "Sweep type: none (1 variation)\n")] {
        let text = expand(form);
        assert!(
            text.starts_with(start) && text.contains("model: me") && text.contains("requests: 6"),
            "{text}"
        );
    }
}

#[test]
fn an_expanded_file_keeps_its_secrets() {
    let text = "benchmark:\n  model: demo\n  endpoint:\n    api_key: sk-1f2e3d\n    url: http://me:sk-1f2e3d@host\n    \
                headers: {Authorization: Bearer sk-1f2e3d, X-Team: blue}\n";
    for form in ["text", "yaml", "json"] {
        let done =
            Run::new("config expand c.yaml --format").arg(form).file("c.yaml", text).run().expect_exit(0);
        assert!(done.stdout.contains("blue") && done.stdout.contains("<redacted>"), "{}", done.stdout);
        done.keeps("sk-1f2e3d");
    }
}

#[test]
fn help_names_every_option_and_the_exit_codes() {
    let top = Run::new("--help").run().expect_exit(0);
    for text in ["profile", "sim", "config", "completions", "Exit codes: 0 "] {
        assert!(top.stdout.contains(text), "{}", top.stdout);
    }
    assert_eq!(top.stderr, "");
    let help = Run::new("profile --help").run().expect_exit(0);
    for row in aiperf_config::OPTIONS {
        assert!(help.stdout.contains(&format!("--{}", row.name())), "{}", row.name());
    }
    let sim = Run::new("sim --help").run().expect_exit(0);
    for option in aiperf_sim::OPTIONS {
        assert!(sim.stdout.contains(&format!("--{}", option.key)), "{}", option.key);
    }
    let none = Run::new("").run().expect_exit(2);
    assert!(none.stderr.contains("Usage"), "{}", none.stderr);
}

#[test]
fn the_version_names_a_commit() {
    for args in ["--version", "profile --version"] {
        let done = Run::new(args).run().expect_exit(0);
        let version = concat!("aiperf ", env!("CARGO_PKG_VERSION"), " (");
        let rest = done.stdout.strip_prefix(version).unwrap_or_else(|| panic!("{}", done.stdout));
        let commit = rest.split(|c: char| !c.is_ascii_alphanumeric()).next().expect("a word");
        assert!(commit.len() >= 7 && commit.chars().all(|c| c.is_ascii_hexdigit()), "{}", done.stdout);
    }
}

#[test]
fn shells_get_completions() {
    for (shell, text) in [("bash", "complete -F"), ("zsh", "#compdef aiperf"), ("fish", "complete -c aiperf")]
    {
        let done = Run::new("completions").arg(shell).run().expect_exit(0);
        assert!(done.stdout.contains(text) && done.stdout.contains("request-rate"), "{shell}");
    }
    Run::new("completions tcsh").run().expect_exit(2).says(&["'tcsh'", "bash"]);
}
