//! What is wrong with a command line, a file or a folder is told before anything is sent or made: the message names the
//! thing, its value and what is allowed, and the exit code is 2.

use aiperf_sim::scripted::Reply;

use crate::support::{Done, Run, Tally, scripted, sim};

/// A run that must be refused, where only `made` may have come into being.
#[track_caller]
fn refused(run: Run, texts: &[&str]) -> Done {
    let done = run.run().expect_exit(2).says(texts);
    assert_eq!(done.stdout, "");
    assert!(done.made().is_empty(), "made {:?}", done.made());
    done
}

/// A run whose address nobody listens at: it must not come to that.
fn run() -> Run {
    Run::profile("http://127.0.0.1:1")
}

#[test]
fn a_missing_model_is_asked_for() {
    refused(
        Run::new("profile --artifact-dir out"),
        &["the model is missing: give --model, or benchmark.models"],
    );
}

#[test]
fn an_unknown_tokenizer_is_named_with_those_that_are_known() {
    let start = "profile --model demo --url http://127.0.0.1:1 --artifact-dir out";
    refused(
        Run::new(start).args("--tokenizer biultin"),
        &["unknown tokenizer 'biultin'", "did you mean 'builtin'?", "allowed are builtin", "tokenizer.json"],
    );
    // Without --tokenizer the model's name is taken for one; nothing is downloaded.
    refused(
        Run::new("profile --model Qwen/Qwen3-0.6B --url http://127.0.0.1:1 --artifact-dir out"),
        &[
            "tokenizer 'Qwen/Qwen3-0.6B' is not in the cache of the Hugging Face hub",
            "nothing is downloaded",
            "pass a folder",
        ],
    );
}

#[test]
fn a_tokenizer_folder_must_hold_a_tokenizer() {
    let start = "profile --model demo --url http://127.0.0.1:1 --artifact-dir out --tokenizer tok";
    let folder = Run::new(start).file("tok/config.json", "{}");
    refused(folder, &["tok", "tokenizer.json", "config.json"]);
    let broken = Run::new(start).file("tok/tokenizer.json", "{\"model\":");
    refused(broken, &["tok/tokenizer.json"]);
}

#[test]
fn bad_urls_are_shown_with_what_is_wrong() {
    for (url, wrong) in [
        ("ftp://host", "'ftp://host', which has the scheme 'ftp'; http, https and sim are spoken"),
        ("http://", "'http://', which names no host"),
        ("http://host:99999", "'http://host:99999', which has the port '99999'; ports are 1 to 65535"),
        ("http://ho st", "'http://ho st', which has white space in it"),
    ] {
        refused(Run::profile(url), &["--url: found ", wrong, "allowed: a URL such as http://localhost:8000"]);
    }
    refused(Run::profile("sim://?tftt=1"), &["'tftt'", "did you mean 'ttft'", "max-batch"]);
    refused(Run::profile("sim://?osl=0"), &["'osl'", "'0'", "a whole number, 1 or more"]);
}

#[test]
fn values_out_of_range_are_shown_with_the_range() {
    let start = "profile --model demo --url http://127.0.0.1:1 --tokenizer builtin --artifact-dir out";
    for (flag, value, allowed) in [
        ("--isl", "0", "a whole number from 1 to 10000000"),
        ("--isl", "-4", "a whole number from 1 to 10000000"),
        ("--isl", "many", "a whole number from 1 to 10000000"),
        ("--isl", "1.5", "a whole number from 1 to 10000000"),
        ("--isl-stddev", "-1", "a number"),
        ("--osl", "-1", "a whole number from 0 to 10000000"),
        ("--concurrency", "0", "a whole number from 1 to 1000000"),
        ("--request-count", "0", "a whole number from 1"),
        ("--request-rate", "0", "a number from 0.000001 to 1000000000"),
        ("--request-rate", "nan", "a number from 0.000001 to 1000000000"),
        ("--request-timeout-seconds", "0", "seconds above 0"),
        ("--benchmark-duration", "-3", "seconds above 0"),
        ("--random-seed", "-1", "a whole number from 0"),
        ("--random-seed", "18446744073709551616", "a whole number from 0"),
        ("--random-seed", "x", "a whole number from 0"),
        ("--num-dataset-entries", "0", "a whole number from 1"),
        ("--max-response-bytes", "10", "1024"),
        ("--streaming", "=perhaps", "true or false"),
        ("--export-schema", "3", "a whole number from 1 to 2"),
        ("--arrival-pattern", "possion", "poisson, constant, gamma"),
        (
            "--endpoint-type",
            "chatt",
            "cohere_rankings, hf_tei_rankings, nim_rankings, huggingface_generate, sglang_generate, solido_rag, template, raw",
        ),
        ("--export-level", "all", "summary, records, raw"),
        ("--custom-endpoint", "v1/chat", "a path that starts with /"),
        ("--profile-export-prefix", "a/b", "a file name without folder"),
    ] {
        let run = match value.strip_prefix('=') {
            Some(_) => Run::new(start).arg(format!("{flag}{value}")),
            None => Run::new(start).arg(flag).arg(value),
        };
        let shown = format!("'{}'", value.trim_start_matches('='));
        refused(run, &[&format!("error: {flag}: found {shown}"), allowed]);
    }
}

#[test]
fn a_header_that_is_none_is_not_repeated() {
    let done =
        refused(run().args("-H sk-nocolon"), &["-H: found a text that names no header", "name:value pairs"]);
    assert!(!done.stderr.contains("sk-nocolon"), "it may be a secret: {}", done.stderr);
}

#[test]
fn a_near_word_is_offered() {
    refused(run().args("--arrival-pattern possion"), &["did you mean 'poisson'?"]);
    refused(run().args("--endpoint-type chatt"), &["did you mean 'chat'?"]);
}

#[test]
fn a_deviation_needs_its_mean() {
    let start = "profile --model demo --url http://127.0.0.1:1 --tokenizer builtin --artifact-dir out";
    refused(
        Run::new(start).args("--osl-stddev 3"),
        &["--osl-stddev needs --osl: a standard deviation needs its mean"],
    );
    // The input length has a mean of its own, 550, so its deviation stands alone.
    let alone = Run::new(start).args("--isl-stddev 5 --request-count 1").run();
    alone.expect_exit(1).ends(Tally::of(0, 1));
}

#[test]
fn options_in_conflict_are_named_together() {
    for (args, texts) in [
        (
            "--request-rate 5 --arrival-pattern constant --arrival-smoothness 2",
            [
                "--arrival-smoothness and --arrival-pattern exclude each other",
                "choose the pattern gamma or drop the smoothness",
            ],
        ),
        (
            "--request-rate 5 --arrival-pattern concurrency-burst",
            ["--arrival-pattern and --request-rate exclude each other", "drop one of the two"],
        ),
        ("--arrival-smoothness 2", ["--arrival-smoothness needs a request rate", "shapes the gaps"]),
        (
            "--benchmark-grace-period 3",
            ["--benchmark-grace-period needs --benchmark-duration", "drop the grace"],
        ),
        ("--warmup-grace-period 3", ["--warmup-grace-period needs --warmup-duration", "there is no warmup"]),
        (
            "--warmup-request-count 2 --warmup-grace-period 3",
            ["--warmup-grace-period needs --warmup-duration", "drop the grace"],
        ),
        (
            "--custom-dataset-type single_turn",
            ["--custom-dataset-type needs --input-file", "what form the file has"],
        ),
        (
            "--api-key a --api-key-env B",
            ["--api-key and --api-key-env exclude each other", "the key comes from one place"],
        ),
        ("--concurrency 1,2", ["--concurrency: '1,2' is a list", "sweeps come later"]),
        ("--concurrency 1 --concurrency 2", ["--concurrency is given more than once", "it takes one value"]),
    ] {
        refused(run().args(args), &texts);
    }
    let file = run().file("p.jsonl", "{\"text\":\"a\"}\n").args("--input-file p.jsonl");
    refused(file, &["--isl and --input-file exclude each other", "drop one of the two"]);
}

#[test]
fn everything_wrong_is_told_at_once() {
    let done = refused(run().args("--concurrency 0 --request-rate x --nonsense"), &[]);
    for text in ["--concurrency: found '0'", "--request-rate: found 'x'", "--nonsense is not an option"] {
        assert!(done.stderr.contains(text), "{}", done.stderr);
    }
    assert_eq!(done.stderr.matches("error: ").count(), 3, "{}", done.stderr);
}

#[test]
fn options_of_the_reference_that_come_later_are_refused_by_name() {
    for (args, text) in [
        ("--scenario s", "--scenario is an AIPerf option this version does not have yet"),
        (
            "--endpoint-type image_generation",
            "--endpoint-type: 'image_generation' is an AIPerf value this version does not have yet",
        ),
    ] {
        let done = refused(run().args(args), &[]);
        assert!(flat_colon(&done.stderr).contains(&flat_colon(text)), "{}", done.stderr);
    }
    let help = Run::new("profile --help").run().expect_exit(0);
    assert!(!help.stdout.contains("--scenario"));
}

/// A colon between place and matter is a question of style.
fn flat_colon(text: &str) -> String {
    text.replace(": '", " '")
}

#[test]
fn an_unknown_flag_gets_the_nearest_one() {
    refused(run().args("--concurency 3"), &["--concurency is not an option; did you mean '--concurrency'?"]);
    refused(
        run().args("concurrency 3"),
        &["'concurrency' belongs to no flag; did you mean '--concurrency'?"],
    );
    refused(Run::new("profle"), &["there is no command 'profle'", "Did you mean 'profile'?"]);
    refused(run().arg("--request-rate"), &["--request-rate needs a value"]);
}

/// A run of a configuration file.
fn yaml(text: &str) -> Run {
    Run::new("profile -f c.yaml --artifact-dir out").file("c.yaml", text)
}

#[test]
fn a_file_is_refused_by_line_and_column() {
    refused(
        yaml("benchmark:\n  model: demo\n  endpoint:\n    streeming: true\n"),
        &[
            "c.yaml:4:5: benchmark.endpoint: there is no key 'streeming' here; allowed: ",
            "did you mean 'streaming'?",
        ],
    );
    refused(
        yaml("benchmark:\n  model: demo\n  model: other\n"),
        &["c.yaml:3:3: model: this key was already given at line 2, column 3"],
    );
    refused(
        yaml("benchmark:\n  model: demo\n  profiling:\n    requests: soon\n"),
        &[
            "c.yaml:4:15: benchmark.phases.profiling.requests: found the text 'soon'; expected a whole number from 1",
        ],
    );
    refused(
        yaml("benchmark:\n  model: demo\n  profiling:\n    requests: 0\n"),
        &["c.yaml:4:15: benchmark.phases.profiling.requests: found '0'; allowed: a whole number from 1"],
    );
    refused(yaml("benchmark:\n  model: [demo\n"), &["c.yaml:"]);
    refused(yaml("benchmark:\n  model: ${NO_SUCH_VARIABLE}\n"), &["c.yaml:2:", "NO_SUCH_VARIABLE"]);
    refused(
        yaml("benchmark:\n  model: demo\n  wandb: {project: p}\n"),
        &["c.yaml:3:3: benchmark.wandb is an AIPerf key this version does not have yet"],
    );
    refused(Run::new("profile -f none.yaml --artifact-dir out"), &["none.yaml"]);
    refused(
        Run::new("config validate c.yaml").file("c.yaml", "benchmark:\n  modle: demo\n"),
        &["c.yaml:2:3", "'modle'", "did you mean 'model'?"],
    );
}

/// A run over a file of prompts.
fn prompts(bytes: &[u8]) -> Run {
    Run::unseeded("http://127.0.0.1:1").args("--input-file p.jsonl").file("p.jsonl", bytes)
}

#[test]
fn a_file_of_prompts_is_refused_by_its_line() {
    refused(prompts(b""), &["p.jsonl: holds no rows"]);
    refused(prompts(b"\n  \n\n"), &["p.jsonl: holds no rows"]);
    refused(
        prompts(b"{\"text\":\"a\"}\n\n{\"text\":\"b"),
        &["p.jsonl:3", "the row ends in the middle of its JSON; is the file cut off?"],
    );
    refused(prompts(b"{\"text\":\"a\"}\n{\"text\":\"\xff\"}\n"), &["p.jsonl:2:10: is not UTF-8"]);
    refused(prompts(b"{\"text\":\"a\"}\n[1]\n"), &["p.jsonl:2", "a row must be a JSON object, not [1]"]);
    refused(prompts(b"{\"text\":\"a\"} x\n"), &["p.jsonl:1:14: not valid JSON"]);
    refused(prompts(b"{\"text\":\"a\",\"output_length\":0}\n"), &["p.jsonl:1", "'output_length' must be "]);
    refused(
        prompts(b"{\"text\":\"a\",\"texts\":[\"b\"]}\n"),
        &["p.jsonl:1", "'text' and 'texts' cannot be set together"],
    );
    refused(prompts(b"{\"role\":\"user\"}\n"), &["p.jsonl:1", "holds nothing to send"]);
    refused(prompts(b"{\"image\":\"a.png\"}\n"), &["p.jsonl:1", "image"]);
    refused(
        prompts(b"\x1f\x8b\x08\x00"),
        &["p.jsonl: ends in the middle of its gzip data; is the file cut off?"],
    );
    refused(
        Run::unseeded("http://127.0.0.1:1").args("--input-file no.jsonl"),
        &["--input-file: the file no.jsonl does not exist"],
    );
    refused(
        Run::unseeded("http://127.0.0.1:1")
            .args("--input-file . --custom-dataset-type single_turn")
            .file("p.jsonl", ""),
        &["--input-file: the file . is a folder"],
    );
    refused(
        Run::unseeded("http://127.0.0.1:1").args("--input-file .").file("p.jsonl", ""),
        &[".: no JSONL file of the folder shows what it holds"],
    );
}

#[test]
fn a_folder_that_cannot_be_made_is_named_and_nothing_is_sent() {
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    // Permissions do not bind root, a file in the way does.
    refused(
        Run::profile(&server.url()).file("out", "mine"),
        &["--artifact-dir: the file out is a file; a folder is expected"],
    );
    let below = Run::new("profile --model demo --tokenizer builtin --url").arg(server.url());
    refused(below.args("--artifact-dir mine/out").file("mine", "x"), &["cannot make the folder mine/out"]);
    assert_eq!(server.connections(), 0);
}

#[test]
fn the_key_must_be_where_it_is_said_to_be() {
    refused(run().args("--api-key-env NOT_THERE"), &["--api-key-env: found 'NOT_THERE', which is not set"]);
    refused(run().args("--api-key-file none.txt"), &["--api-key-file: the file none.txt cannot be read"]);
    refused(run().args("--api-key-file key.txt").file("key.txt", " \n"), &["--api-key-file", "empty"]);
}

#[test]
fn headers_that_frame_a_message_are_not_the_user_s() {
    for url in ["http://127.0.0.1:1", "sim://"] {
        refused(
            Run::profile(url).arg("-H").arg("Content-Length: 3"),
            &["error: header 'Content-Length' is set by the transport and cannot be given"],
        );
    }
    let two_lines = "X-A: b\r\nX-B: c";
    refused(run().arg("-H").arg(two_lines), &["-H: found control characters in the value of X-A"]);
}

#[test]
fn a_trust_store_that_cannot_be_used_is_told_before_anything_is_made() {
    refused(
        Run::profile("https://127.0.0.1:1").env("SSL_CERT_FILE", "none.pem"),
        &["no usable certificate in the trust store named by SSL_CERT_FILE", "none.pem"],
    );
}

#[test]
fn a_bad_variable_is_named() {
    refused(
        run().env("AIPERF_CONCURRENCY", "lots"),
        &["AIPERF_CONCURRENCY (environment): found 'lots'; allowed: a whole number from 1 to 1000000"],
    );
}

#[test]
fn the_simulated_server_refuses_its_options_as_well() {
    refused(Run::new("sim --port 0 --ttft soon"), &["'ttft'", "'soon'", "milliseconds"]);
    refused(Run::new("sim --port 0 --tftt 3"), &["--tftt", "--ttft"]);
    refused(Run::new("sim --port 0 --tokenizer none"), &["unknown tokenizer 'none'"]);
    let taken = sim("");
    let addr = taken.addr();
    refused(
        Run::new("sim --port").arg(addr.port().to_string()),
        &[&format!("the simulated server cannot listen on {addr}: "), "in use"],
    );
    for file in ["--truth-log", "--capture"] {
        refused(
            Run::new("sim --port 0").arg(file).arg("no/such/folder"),
            &["no/such/folder", "No such file"],
        );
    }
}

#[test]
fn what_is_quoted_of_the_input_does_not_drive_the_terminal() {
    let file = "benchmark: {\"\\e[31mx\\a\": 1}";
    for run in [
        Run::new("config validate c.yaml").file("c.yaml", file),
        Run::new("profile").arg("\u{1b}]0;title\u{7}"),
    ] {
        let done = run.run().expect_exit(2);
        assert!(!done.stderr.chars().any(|c| c.is_control() && c != '\n'), "{:?}", done.stderr);
    }
}

#[test]
fn a_key_in_the_wrong_place_is_not_shown() {
    for args in [
        "--api-key-env sk-misplaced",
        "--extra-inputs {\"api_key\":\"sk-misplaced\"",
        "--extra-inputs api_key:sk-misplaced,x",
    ] {
        Run::profile("http://127.0.0.1:1")
            .args(args)
            .run()
            .expect_exit(2)
            .keeps("sk-misplaced")
            .says(&["--"]);
    }
}
