//! Public data sets fetched from a hub: a scripted one, by the variables of the hub's own tools.

use std::sync::atomic::{AtomicUsize, Ordering};

use aiperf_sim::SimHandle;
use aiperf_sim::scripted::{Reply, Script, ScriptedServer, SeenRequest};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::scripted_hub::{answer, cached, missing, paths};
use crate::support::{Done, Run, Tally, sim, tree, url};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const OTHER: &str = "89abcdef0123456789abcdef0123456789abcdef";
const TOKEN: &str = "hf_donotshow";

/// A run of `set` with leave to fetch it from `hub`, the cache being `cache`.
fn fetching(server: &SimHandle, hub: &ScriptedServer, set: &str) -> Run {
    here(server, hub, set).args("--dataset-download")
}

/// The same without leave.
fn here(server: &SimHandle, hub: &ScriptedServer, set: &str) -> Run {
    Run::unseeded(&url(server))
        .args(&format!("--random-seed 3 --concurrency 1 --public-dataset {set}"))
        .env("HF_ENDPOINT", &hub.url())
        .env("HF_HUB_CACHE", "cache")
}

fn rows(name: &str, texts: &[&str]) -> Vec<u8> {
    let rows = texts.iter().map(|text| json!({name: text, "level": 1}).to_string() + "\n");
    rows.collect::<String>().into_bytes()
}

fn prompts(done: &Done) -> Vec<String> {
    let text = |body: &Value| body["messages"][0]["content"].as_str().expect("a text").to_owned();
    done.inputs().iter().map(text).collect()
}

/// A file of a data set: its path, its bytes. Its ETag is its path with `-` for `/`.
type File = (&'static str, Vec<u8>);

/// What a hub says of a data set with these files and this page.
fn about(commit: &str, files: &[File], page: &Value) -> Reply {
    let siblings: Vec<Value> =
        files.iter().map(|(path, bytes)| json!({"rfilename": path, "size": bytes.len()})).collect();
    Reply::json(200, &json!({"sha": commit, "siblings": siblings, "cardData": page}).to_string())
}

/// What a hub that has the data set `repo` alone answers.
fn serve(request: &SeenRequest, repo: &str, files: &[File], page: &Value) -> Reply {
    let path = request.path.as_str();
    if path == format!("/api/datasets/{repo}/revision/main?blobs=true") {
        return about(COMMIT, files, page);
    }
    if path.starts_with(&format!("/api/datasets/{repo}/revision/")) {
        return missing("RevisionNotFound");
    }
    let Some(name) = path.strip_prefix(&format!("/datasets/{repo}/resolve/{COMMIT}/")) else {
        return missing("RepoNotFound");
    };
    match files.iter().find(|file| file.0 == name) {
        Some((path, bytes)) => {
            answer("200 OK", &[("ETag", &format!("\"{}\"", path.replace('/', "-")))], bytes)
        }
        None => missing("EntryNotFound"),
    }
}

fn hub_of(repo: &'static str, files: Vec<File>, page: Value) -> ScriptedServer {
    Script::by_request(move |request| serve(request, repo, &files, &page)).start().expect("it listens")
}

fn math() -> ScriptedServer {
    let files = vec![("README.md", b"#".to_vec()), ("test.jsonl", rows("problem", &["1 + 1?", "2 + 2?"]))];
    hub_of("HuggingFaceH4/MATH-500", files, Value::Null)
}

#[test]
fn a_missing_data_set_is_fetched_once_and_lies_where_every_tool_looks_for_it() {
    let (server, hub) = (sim("ttft=0&itl=0"), math());
    let done = fetching(&server, &hub, "spec_al_math500")
        .args("--request-count 2")
        .env("HF_TOKEN", TOKEN)
        .run()
        .expect_exit(0)
        .ends(Tally::of(2, 0))
        .says(&[
            &format!(
                "Fetching the public data set 'spec_al_math500' ('HuggingFaceH4/MATH-500', revision main, commit {COMMIT}) from {} into \
                 cache/datasets--HuggingFaceH4--MATH-500: 1 file, 62 bytes",
                hub.url()
            ),
            "  test.jsonl: 62 bytes",
        ]);
    assert_eq!(prompts(&done), ["1 + 1?", "2 + 2?"]);
    assert!(!done.stderr.contains(TOKEN), "{}", done.stderr);
    assert_eq!(
        done.summary()["input_config"]["datasets"][0]["download"],
        true,
        "{}",
        done.summary()["input_config"]["datasets"]
    );
    assert_eq!(
        paths(&hub),
        [
            "/api/datasets/HuggingFaceH4/MATH-500/revision/main?blobs=true".to_owned(),
            format!("/datasets/HuggingFaceH4/MATH-500/resolve/{COMMIT}/test.jsonl"),
        ]
    );
    for request in hub.requests() {
        assert_eq!(request.header("authorization"), Some(&*format!("Bearer {TOKEN}")));
    }
    let folder = "datasets--HuggingFaceH4--MATH-500";
    assert_eq!(
        cached(&done),
        [
            format!("{folder}/.aiperf/test.json"),
            format!("{folder}/blobs/test.jsonl"),
            format!("{folder}/refs/main"),
            format!("{folder}/snapshots/{COMMIT}/test.jsonl -> ../../blobs/test.jsonl"),
        ]
    );

    // From here on nobody is asked, with leave or without.
    let asked = hub.requests().len();
    let again = fetching(&server, &hub, "spec_al_math500").args("--request-count 1");
    let again = again.run_in(done).expect_exit(0);
    assert!(!again.stderr.contains("etch"), "{}", again.stderr);
    let offline = here(&server, &hub, "spec-al-math-500").env("HF_HUB_OFFLINE", "1");
    offline.args("--request-count 1").run_in(again).expect_exit(0);
    assert_eq!(hub.requests().len(), asked);
}

#[test]
fn leave_is_a_flag_a_variable_or_a_line_of_the_file() {
    let (server, hub) = (sim("ttft=0&itl=0"), math());
    let by_variable = here(&server, &hub, "spec_al_math500").env("AIPERF_DATASET_DOWNLOAD", "on");
    let by_file = Run::unseeded(&url(&server))
        .args("--config c.yaml --concurrency 1")
        .env("HF_ENDPOINT", &hub.url())
        .env("HF_HUB_CACHE", "cache")
        .file("c.yaml", "benchmark:\n  dataset: {type: public, dataset: spec_al_math500, download: true}\n");
    for run in [by_variable, by_file] {
        run.args("--request-count 1").run().expect_exit(0).says(&["  test.jsonl: 62 bytes"]);
    }
    let dry = fetching(&server, &hub, "spec_al_math500").args("--request-count 1 --dry-run");
    dry.run().expect_exit(0).says(&["  test.jsonl: 62 bytes"]);
    let asked = hub.requests().len();
    for (run, words) in [
        (here(&server, &hub, "spec_al_math500"), "--dataset-download fetches it"),
        (
            fetching(&server, &hub, "spec_al_math500").env("HF_HUB_OFFLINE", "1"),
            "nothing is fetched while HF_HUB_OFFLINE is set",
        ),
        (
            fetching(&server, &hub, "spec_al_math500").env("HF_DATASETS_OFFLINE", "1"),
            "nothing is fetched while HF_DATASETS_OFFLINE is set",
        ),
    ] {
        let done = run.args("--request-count 1").run().expect_exit(2).says(&[
            words,
            "there is no .cache/aiperf/datasets/spec_al_math500.parquet",
            "the hub's cache cache has no data set 'HuggingFaceH4/MATH-500'",
            "hf download HuggingFaceH4/MATH-500 --repo-type dataset",
            "--input-file",
        ]);
        assert!(done.made().is_empty(), "{:?}", done.made());
    }
    let alone = Run::profile(&url(&server)).args("--dataset-download");
    alone.run().expect_exit(2).says(&["--dataset-download needs --public-dataset"]);
    // A variable is for all runs.
    let all = Run::profile(&url(&server)).args("--request-count 1").env("AIPERF_DATASET_DOWNLOAD", "1");
    all.run().expect_exit(0);
    assert_eq!(hub.requests().len(), asked);
}

const PARTS: [&str; 3] =
    ["data/train-00000-of-00003.jsonl", "data/train-00001-of-00003.jsonl", "data/train-00002-of-00003.jsonl"];

fn numina() -> ScriptedServer {
    let files = vec![
        ("data/test-00000-of-00001.jsonl", rows("problem", &["not this"])),
        (PARTS[0], rows("problem", &["a", "b"])),
        (PARTS[1], rows("problem", &["c", " ", "d"])),
        (PARTS[2], rows("problem", &["e", " "])),
    ];
    hub_of("AI-MO/NuminaMath-CoT", files, Value::Null)
}

#[test]
fn of_several_files_no_more_are_fetched_than_the_run_sends() {
    let (server, hub) = (sim("ttft=0&itl=0"), numina());
    let asked_for = |hub: &ScriptedServer| -> Vec<String> {
        let files = paths(hub).into_iter();
        files.filter_map(|path| Some(path.split_once(&format!("{COMMIT}/"))?.1.to_owned())).collect()
    };
    let run = |args: &str| fetching(&server, &hub, "aimo_numina_cot").args(args);
    let done = run("--request-count 3")
        .run()
        .expect_exit(0)
        .says(&["3 files, 182 bytes, as far as the run needs them"]);
    assert_eq!(prompts(&done), ["a", "b", "c"]);
    assert_eq!(asked_for(&hub), PARTS[..2]);
    assert!(done.stdout.contains("2 of the 3 files"), "{}", done.stdout);

    // What is here is enough without the hub, and what is not is named.
    let few = here(&server, &hub, "aimo_numina_cot").args("--request-count 4");
    let done = few.run_in(done).expect_exit(0);
    let many = here(&server, &hub, "aimo_numina_cot").args("--request-count 5");
    let done = many.run_in(done).expect_exit(2).says(&[
        "file 3 of 3 of public data set 'aimo_numina_cot', 'data/train-00002-of-00003.jsonl', is not in",
        "--dataset-download fetches it",
    ]);
    // Only the missing one is asked for.
    let done = run("--request-count 5").run_in(done).expect_exit(0);
    assert_eq!(asked_for(&hub), PARTS);
    assert_eq!(paths(&hub).len(), 4, "{:?}", paths(&hub));
    // Numbers of rows run on over the files.
    let shown = crate::support::flat(&done.stdout);
    assert!(shown.contains("2 of 7 lines are left out: 2 without a prompt (the first is line 4)"), "{shown}");

    let capped = run("--num-dataset-entries 2 --request-count 6").run().expect_exit(0);
    assert_eq!(prompts(&capped), ["a", "b"]);
    assert_eq!(asked_for(&hub)[3..], PARTS[..1]);
    // Who draws from all of them needs all of them.
    run("--dataset-sampling-strategy shuffle --request-count 1").run().expect_exit(0);
    assert_eq!(asked_for(&hub)[4..], PARTS);
}

#[test]
fn a_part_is_chosen_by_the_page_or_by_names() {
    let server = sim("ttft=0&itl=0");
    let files = vec![
        ("a/test-00000.jsonl", rows("question", &["a"])),
        ("b/test-00000.jsonl", rows("question", &["b"])),
        ("main/test-00000.jsonl", rows("question", &["main"])),
    ];
    let page = json!({"configs": [
        {"config_name": "main", "data_files": [{"split": "test", "path": "a/*"}]},
        {"config_name": "socratic", "data_files": [{"split": "test", "path": "b/test-*.jsonl"}]},
    ]});
    for (page, args, text) in [
        (Value::Null, "", "main"),
        (Value::Null, "--hf-subset b", "b"),
        (page.clone(), "", "a"),
        (page.clone(), "--hf-subset socratic", "b"),
    ] {
        let hub = hub_of("openai/gsm8k", files.clone(), page);
        let run = fetching(&server, &hub, "spec_al_gsm8k").args("--request-count 1").args(args);
        assert_eq!(prompts(&run.run().expect_exit(0)), [text], "{args}");
    }
    let hub = hub_of("openai/gsm8k", files, page);
    let none = fetching(&server, &hub, "spec_al_gsm8k").args("--hf-subset nothing").run().expect_exit(2);
    let none = none
        .says(&["holds no rows 'test' of the part 'nothing' of 'openai/gsm8k', but 'a/test-00000.jsonl'"]);
    assert!(cached(&none).is_empty());
}

/// Data sets of other forms are there as Parquet, or what it may be, on a branch that the hub keeps.
#[test]
fn what_is_in_no_form_that_is_read_is_taken_as_the_hub_converted_it() {
    let server = sim("ttft=0&itl=0");
    let hub = Script::by_request(|request| {
        let converted: Vec<File> = vec![("default/test/0000.jsonl", rows("problem", &["converted"]))];
        match request.path.strip_prefix("/api/datasets/HuggingFaceH4/MATH-500/revision/") {
            Some("main?blobs=true") => {
                about(COMMIT, &[("data.arrow", Vec::new()), ("../test.jsonl", Vec::new())], &Value::Null)
            }
            Some("refs%2Fconvert%2Fparquet?blobs=true") => about(OTHER, &converted, &Value::Null),
            _ if request.path.ends_with(&format!("/resolve/{OTHER}/default/test/0000.jsonl")) => {
                answer("200 OK", &[("ETag", "\"e\"")], &converted[0].1)
            }
            _ => missing("EntryNotFound"),
        }
    });
    let hub = hub.start().expect("it listens");
    let run = || fetching(&server, &hub, "spec_al_math500").args("--request-count 1");
    let done = run().run().expect_exit(0).says(&["revision refs/convert/parquet"]);
    assert_eq!(prompts(&done), ["converted"]);
    let found = cached(&done);
    assert!(found.iter().any(|path| path.ends_with("/refs/refs/convert/parquet")), "{found:?}");
    let asked = hub.requests().len();
    run().run_in(done).expect_exit(0);
    assert_eq!(hub.requests().len(), asked);
}

/// A large file that lies elsewhere, and what its store does for the `n`th request: how many bytes it sends before it hangs up.
fn large(
    cut: impl Fn(usize, &SeenRequest, &[u8]) -> Option<Reply> + Send + Sync + 'static,
) -> (ScriptedServer, ScriptedServer, Vec<u8>) {
    let long = "x".repeat(300_000);
    let bytes = rows("problem", &["first", &long]);
    let (body, count) = (bytes.clone(), AtomicUsize::new(0));
    let store = Script::by_request(move |request| {
        let n = count.fetch_add(1, Ordering::Relaxed);
        cut(n, request, &body).unwrap_or_else(|| part(request, &body))
    });
    let store = store.start().expect("it listens");
    let location = format!("{}/blob?signed=1", store.url());
    let (hash, size) = (format!("\"{:x}\"", Sha256::digest(&bytes)), bytes.len().to_string());
    let listed = vec![("test.jsonl", bytes.clone())];
    let hub = Script::by_request(move |request| {
        if request.path.contains("/resolve/") {
            let headers = [("Location", &*location), ("X-Linked-Etag", &hash), ("X-Linked-Size", &size)];
            return answer("302 Found", &headers, b"");
        }
        serve(request, "HuggingFaceH4/MATH-500", &listed, &Value::Null)
    });
    (hub.start().expect("it listens"), store, bytes)
}

fn range(request: &SeenRequest) -> Option<usize> {
    request.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
}

/// What is asked for of `body`, as a store that gives parts answers it.
fn part(request: &SeenRequest, body: &[u8]) -> Reply {
    match range(request) {
        None => answer("200 OK", &[], body),
        Some(from) => {
            let range = format!("bytes {from}-{}/{}", body.len() - 1, body.len());
            answer("206 Partial Content", &[("Content-Range", &range)], &body[from..])
        }
    }
}

/// The head of `body`, whose announced length never comes.
fn broken_off(body: &[u8], after: usize) -> Reply {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    Reply::new().send([head.as_bytes(), &body[..after]].concat()).close()
}

fn fails() -> Reply {
    answer("503 Service Unavailable", &[("Retry-After", "0")], b"")
}

#[test]
fn after_a_break_the_rest_is_asked_for() {
    let server = sim("ttft=0&itl=0");
    let (hub, store, bytes) = large(|n, _, body| (n == 0).then(|| broken_off(body, 100_000)));
    let run = fetching(&server, &hub, "spec_al_math500").args("--request-count 1").env("HF_TOKEN", TOKEN);
    let done = run.run().expect_exit(0).says(&["broke off after 100000 bytes of 3000", "attempt 2 of 4"]);
    assert_eq!(prompts(&done), ["first"]);
    let asked: Vec<Option<usize>> = store.requests().iter().map(range).collect();
    assert_eq!(asked, [None, Some(100_000)]);
    assert!(store.requests().iter().all(|request| request.header("authorization").is_none()));
    let blob = done.home.path().join("cache/datasets--HuggingFaceH4--MATH-500/blobs");
    let blob = blob.join(format!("{:x}", Sha256::digest(&bytes)));
    assert!(std::fs::read(blob).expect("a file") == bytes);
}

/// A mirror may have its large files on its own host.
#[test]
fn a_redirect_that_says_what_it_leads_to_is_believed_within_a_host_too() {
    let server = sim("ttft=0&itl=0");
    let bytes = rows("problem", &["here"]);
    let (hash, size) = (format!("\"{:x}\"", Sha256::digest(&bytes)), bytes.len().to_string());
    let listed = [("test.jsonl", bytes.clone())];
    let hub = Script::by_request(move |request| match request.path.as_str() {
        "/blob" => answer("200 OK", &[], &bytes),
        path if path.contains("/resolve/") => {
            let headers = [("Location", "/blob"), ("X-Linked-Etag", &*hash), ("X-Linked-Size", &size)];
            answer("302 Found", &headers, b"")
        }
        _ => serve(request, "HuggingFaceH4/MATH-500", &listed, &Value::Null),
    });
    let hub = hub.start().expect("it listens");
    let done = fetching(&server, &hub, "spec_al_math500").args("--request-count 1").run().expect_exit(0);
    assert_eq!(prompts(&done), ["here"]);
}

/// An answer that is whole by its own word may still be a page of somebody in between.
#[test]
fn what_is_not_what_the_hub_listed_is_thrown_away() {
    let (server, right) = (sim("ttft=0&itl=0"), rows("problem", &["1 + 1?"]));
    let served = AtomicUsize::new(0);
    let hub = Script::by_request(move |request| {
        let hash = format!("{:x}", Sha256::digest(&right));
        let file = json!({"rfilename": "test.jsonl", "size": right.len(), "lfs": {"sha256": hash, "size": right.len()}});
        if request.path.starts_with("/api/") {
            return Reply::json(200, &json!({"sha": COMMIT, "siblings": [file]}).to_string());
        }
        let wrong = rows("problem", &["9 + 9?"]);
        let body = if served.fetch_add(1, Ordering::Relaxed) == 0 { &wrong } else { &right };
        answer("200 OK", &[("ETag", "\"abc\"")], body)
    });
    let hub = hub.start().expect("it listens");
    let done = fetching(&server, &hub, "spec_al_math500").args("--request-count 1").run().expect_exit(0);
    assert_eq!(prompts(&done), ["1 + 1?"]);
    done.says(&["its SHA-256 is ", "attempt 2 of 4"]);
}

#[test]
fn the_next_run_goes_on_where_the_last_one_ended() {
    let server = sim("ttft=0&itl=0");
    let (hub, store, _) = large(|n, _, body| match n {
        0 => Some(broken_off(body, 100_000)),
        1..=3 => Some(fails()),
        _ => None,
    });
    let run = || fetching(&server, &hub, "spec_al_math500").args("--request-count 1");
    let done = run().run().expect_exit(2).says(&[
        "public data set 'spec_al_math500' cannot be fetched",
        "it answers 503 Service Unavailable",
        "0.1 MB of it are kept, and the next run goes on from there",
        "hf download",
    ]);
    // Nothing has the name of a whole file.
    let found = cached(&done);
    assert!(found.len() == 1 && found[0].ends_with(".aiperf.incomplete"), "{found:?}");
    let before = store.requests().len();
    let done = run().run_in(done).expect_exit(0).says(&["test.jsonl: 0.1 MB are here from an earlier run"]);
    assert_eq!(prompts(&done), ["first"]);
    // It is known only with the answer what it is the rest of.
    let asked: Vec<Option<usize>> = store.requests()[before..].iter().map(range).collect();
    assert_eq!(asked, [None, Some(100_000)]);
    assert!(cached(&done).iter().all(|path| !path.contains("incomplete")));
}

#[test]
fn parts_that_do_not_fit_are_begun_anew() {
    let server = sim("ttft=0&itl=0");
    let at_odds: [fn(&SeenRequest, &[u8]) -> Reply; 3] = [
        // Gives no parts.
        |_, body| answer("200 OK", &[], body),
        // Gives another part than was asked for.
        |_, body| answer("206 Partial Content", &[("Content-Range", "bytes 7-9/10")], &body[7..10]),
        |_, _| answer("416 Range Not Satisfiable", &[], b""),
    ];
    for odd in at_odds {
        let (hub, store, _) = large(move |n, request, body| match n {
            0 => Some(broken_off(body, 100_000)),
            1 => Some(odd(request, body)),
            _ => None,
        });
        let done = fetching(&server, &hub, "spec_al_math500").args("--request-count 1").run().expect_exit(0);
        assert_eq!(prompts(&done), ["first"]);
        assert_eq!(range(&store.requests()[1]), Some(100_000));
        assert!(store.requests().get(2).is_none_or(|third| range(third).is_none()));
    }
    // Other bytes of the same number.
    let (hub, _store, _) = large(|_, _, body| Some(answer("200 OK", &[], &vec![b'y'; body.len()])));
    let done = fetching(&server, &hub, "spec_al_math500").run().expect_exit(2);
    let done = done.says(&["what came is not what was announced: its SHA-256 is", "(4 attempts)"]);
    assert!(cached(&done).is_empty(), "{:?}", cached(&done));
}

#[test]
fn who_may_not_have_it_is_told_what_to_do() {
    let server = sim("ttft=0&itl=0");
    let gated = |status: &'static str| {
        Script::by_request(move |request| {
            if request.path.contains("/resolve/") {
                return answer(status, &[("X-Error-Code", "GatedRepo")], b"");
            }
            serve(request, "HuggingFaceH4/MATH-500", &[("test.jsonl", Vec::new())], &Value::Null)
        })
        .start()
        .expect("it listens")
    };
    let run = |hub: &ScriptedServer| fetching(&server, hub, "spec_al_math500");
    let hub = gated("401 Unauthorized");
    let page = format!("accept its conditions at {}/datasets/HuggingFaceH4/MATH-500", hub.url());
    let done = run(&hub).run().expect_exit(2).says(&[&page, "log in there and set HF_TOKEN"]);
    assert!(cached(&done).is_empty());
    let hub = gated("403 Forbidden");
    run(&hub).env("HF_TOKEN", TOKEN).run().expect_exit(2).says(&["the token in HF_TOKEN is of that account"]);

    let none = hub_of("other/set", Vec::new(), Value::Null);
    run(&none).run().expect_exit(2).says(&[
        "has no data set 'HuggingFaceH4/MATH-500', or it is private and HF_TOKEN is not set",
        "hf download HuggingFaceH4/MATH-500 --repo-type dataset",
    ]);
    let refusing = Script::by_request(|_| answer("401 Unauthorized", &[], b"{\"error\": \"bad\"}"));
    let refusing = refusing.start().expect("it listens");
    run(&refusing)
        .env("HF_TOKEN", TOKEN)
        .run()
        .expect_exit(2)
        .says(&["does not accept the token in HF_TOKEN: bad"]);
    let strange = Script::by_request(|_| Reply::json(200, &json!({"sha": COMMIT}).to_string()));
    let strange = strange.start().expect("it listens");
    run(&strange)
        .run()
        .expect_exit(2)
        .says(&["it does not list the files of the data set; is HF_ENDPOINT right?"]);
}

#[test]
fn without_a_network_the_places_are_named() {
    let server = sim("ttft=0&itl=0");
    let hub = math();
    let run = |set: &str| fetching(&server, &hub, set).env("HF_ENDPOINT", "http://127.0.0.1:1");
    run("spec_al_math500").run().expect_exit(2).says(&[
        "cannot connect to 127.0.0.1:1",
        "there is no .cache/aiperf/datasets/spec_al_math500.parquet (.jsonl, .json, .csv)",
        "the hub's cache cache has no data set 'HuggingFaceH4/MATH-500'",
        "hf download HuggingFaceH4/MATH-500 --repo-type dataset",
        "--input-file",
    ]);
    run("spec_al_math500")
        .env("HF_HUB_CACHE", "")
        .env("HOME", "")
        .run()
        .expect_exit(2)
        .says(&["HF_HUB_CACHE or HF_HOME"]);
}

#[test]
fn two_runs_that_fetch_at_once_both_have_it_whole() {
    let server = sim("ttft=0&itl=0");
    let (hub, store, _) = large(|_, _, _| None);
    let shared = tempfile::tempdir().expect("a folder");
    let cache = shared.path().join("cache");
    let start = || {
        let run = fetching(&server, &hub, "spec_al_math500").args("--request-count 1");
        run.env("HF_HUB_CACHE", cache.to_str().expect("UTF-8")).start()
    };
    let (one, other) = (start(), start());
    for running in [one, other] {
        assert_eq!(prompts(&running.finish().expect_exit(0)), ["first"]);
    }
    assert!(!store.requests().is_empty());
    assert!(tree(&cache).iter().all(|path| !path.to_string_lossy().contains("incomplete")));
}
