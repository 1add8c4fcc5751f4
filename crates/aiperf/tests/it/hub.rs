//! Tokenizers fetched from a hub: a scripted one, by the variables of the hub's own tools.

use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};

use aiperf_sim::scripted::{Reply, Script, ScriptedServer, SeenRequest};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::bad_servers::tls::{Identity, identity, tls_server_with};
use crate::scripted_hub::{answer, cached, missing, paths};
use crate::support::{Done, Run, sim, tree, url};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const TOKEN: &str = "hf_donotshow";
/// A refusal's page; its words try to colour the terminal.
const REFUSAL: &[u8] = br#"{"error": "no\u001b[31m"}"#;
const TEMPLATE: &str = "{% for m in messages %}{{ m.content }}{% endfor %}";

/// A small vocabulary, which the tests of the tokenizers trained.
fn trained(file: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../aiperf-tokens/tests/data");
    std::fs::read(folder.join(file)).expect("the test's vocabulary")
}

/// A file of a model: its path, its ETag on the hub, its bytes.
type File = (&'static str, &'static str, Vec<u8>);

/// The files of `tiny/model`. The vocabulary lies elsewhere, as large files do; the ETags of the others are what a hub makes
/// of plain files. There is more than is wanted.
fn files() -> Vec<File> {
    vec![
        ("README.md", "1111111111111111111111111111111111111111", b"# Tiny".to_vec()),
        (
            "additional_chat_templates/tool_use.jinja",
            "2222222222222222222222222222222222222222",
            TEMPLATE.into(),
        ),
        ("chat_template.jinja", "3333333333333333333333333333333333333333", TEMPLATE.into()),
        ("config.json", "4444444444444444444444444444444444444444", b"{}".to_vec()),
        ("model.safetensors", "5555555555555555555555555555555555555555", vec![0; 64]),
        ("tokenizer.json", "", trained("byte_level/tokenizer.json")),
        (
            "tokenizer_config.json",
            "6666666666666666666666666666666666666666",
            trained("byte_level/tokenizer_config.json"),
        ),
    ]
}

fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Where large files lie.
fn store() -> ScriptedServer {
    Script::by_request(|request| {
        assert_eq!(request.path, "/blob?signed=1");
        answer("200 OK", &[("ETag", "\"of-the-store\"")], &trained("byte_level/tokenizer.json"))
    })
    .start()
    .expect("it listens")
}

/// What a hub with `tiny/model` alone answers; `store` is the address of large files.
fn tiny(request: &SeenRequest, store: &str) -> Reply {
    let path = request.path.as_str();
    if let Some(revision) = path.strip_prefix("/api/models/tiny/model/revision/") {
        if !["main", "v1", "refs%2Fpr%2F3", COMMIT].contains(&revision) {
            return missing("RevisionNotFound");
        }
        let siblings: Vec<Value> = files().iter().map(|file| json!({"rfilename": file.0})).collect();
        return Reply::json(
            200,
            &json!({"id": "tiny/model", "sha": COMMIT, "siblings": siblings}).to_string(),
        );
    }
    let Some(name) = path.strip_prefix(&format!("/tiny/model/resolve/{COMMIT}/")) else {
        return missing("RepoNotFound");
    };
    match files().into_iter().find(|file| file.0 == name) {
        None => missing("EntryNotFound"),
        Some(("tokenizer.json", _, bytes)) => {
            let (hash, size) = (format!("\"{}\"", sha256(&bytes)), bytes.len().to_string());
            let headers = [
                ("Location", store),
                ("X-Linked-Etag", &hash),
                ("X-Linked-Size", &size),
                ("ETag", "\"of-the-pointer\""),
            ];
            answer("302 Found", &headers, b"elsewhere")
        }
        Some((_, etag, bytes)) => answer("200 OK", &[("ETag", &format!("\"{etag}\""))], &bytes),
    }
}

/// A hub with `tiny/model`, and its store.
fn hub() -> (ScriptedServer, ScriptedServer) {
    let store = store();
    let location = format!("{}/blob?signed=1", store.url());
    let hub = Script::by_request(move |request| tiny(request, &location)).start().expect("it listens");
    (hub, store)
}

/// A hub that answers `special` where that gives something, else as [`tiny`].
fn hub_with(special: impl Fn(&SeenRequest) -> Option<Reply> + Send + Sync + 'static) -> ScriptedServer {
    // The vocabulary is among the plain files here.
    Script::by_request(move |request| {
        special(request).unwrap_or_else(|| {
            if request.path.ends_with("/tokenizer.json") {
                answer("200 OK", &[("ETag", "\"vocabulary\"")], &trained("byte_level/tokenizer.json"))
            } else {
                tiny(request, "")
            }
        })
    })
    .start()
    .expect("it listens")
}

/// `aiperf tokenizer NAME` with leave to fetch it from `hub`, the cache being `cache`.
fn fetching(name: &str, hub: &ScriptedServer) -> Run {
    Run::new("tokenizer --samples 1 --format json --tokenizer-download")
        .arg(name)
        .env("HF_ENDPOINT", &hub.url())
        .env("HF_HUB_CACHE", "cache")
}

/// Demands that nothing of what a run said or wrote holds the token.
#[track_caller]
fn hides_the_token(done: &Done) {
    assert!(!done.stdout.contains(TOKEN) && !done.stderr.contains(TOKEN), "{}{}", done.stdout, done.stderr);
    for path in done.made() {
        let text = std::fs::read(done.home.path().join(&path)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&text).contains(TOKEN), "{}", path.display());
    }
}

#[test]
fn a_missing_tokenizer_is_fetched_once_and_lies_where_every_tool_looks_for_it() {
    let (hub, store) = hub();
    let done = fetching("tiny/model", &hub).env("HF_TOKEN", TOKEN).run().expect_exit(0).says(&[
        &format!(
            "Fetching the tokenizer of 'tiny/model' (revision main, commit {COMMIT}) from {}",
            hub.url()
        ),
        "into cache/models--tiny--model",
        "  tokenizer.json: ",
        "Fetched 5 files, ",
    ]);
    hides_the_token(&done);
    let snapshot = format!("models--tiny--model/snapshots/{COMMIT}");
    let found: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!(found["name"], "tiny/model");
    assert_eq!(found["file"], format!("cache/{snapshot}/tokenizer.json"));
    assert_eq!(found["chat_template"]["file"], format!("cache/{snapshot}/chat_template.jinja"));

    let at = |file: &str| format!("/tiny/model/resolve/{COMMIT}/{file}");
    assert_eq!(
        paths(&hub),
        [
            "/api/models/tiny/model/revision/main".to_owned(),
            at("tokenizer.json"),
            at("tokenizer_config.json"),
            at("chat_template.jinja"),
            at("additional_chat_templates/tool_use.jinja"),
            at("config.json"),
        ]
    );
    // The token is for the hub alone; the store proves itself by the address that the hub gave.
    for request in hub.requests() {
        assert_eq!(request.header("authorization"), Some(&*format!("Bearer {TOKEN}")));
        assert_eq!(request.header("accept-encoding"), Some("identity"));
        assert!(request.header("user-agent").is_some_and(|agent| agent.starts_with("aiperf/")));
    }
    assert_eq!(store.requests().len(), 1);
    assert_eq!(store.requests()[0].header("authorization"), None);

    // As huggingface_hub 1.33 wrote it for the same answers, its lock files and CACHEDIR.TAG aside.
    let vocabulary = sha256(&trained("byte_level/tokenizer.json"));
    let blob = |digit: &str| digit.repeat(40);
    assert_eq!(
        cached(&done),
        [
            format!("models--tiny--model/blobs/{}", blob("2")),
            format!("models--tiny--model/blobs/{}", blob("3")),
            format!("models--tiny--model/blobs/{}", blob("4")),
            format!("models--tiny--model/blobs/{}", blob("6")),
            format!("models--tiny--model/blobs/{vocabulary}"),
            "models--tiny--model/refs/main".to_owned(),
            format!("{snapshot}/additional_chat_templates/tool_use.jinja -> ../../../blobs/{}", blob("2")),
            format!("{snapshot}/chat_template.jinja -> ../../blobs/{}", blob("3")),
            format!("{snapshot}/config.json -> ../../blobs/{}", blob("4")),
            format!("{snapshot}/tokenizer.json -> ../../blobs/{vocabulary}"),
            format!("{snapshot}/tokenizer_config.json -> ../../blobs/{}", blob("6")),
        ]
    );
    let cache = done.home.path().join("cache/models--tiny--model");
    assert_eq!(std::fs::read(cache.join("refs/main")).expect("a file"), COMMIT.as_bytes());
    assert_eq!(
        std::fs::read(cache.join("blobs").join(vocabulary)).expect("a file"),
        trained("byte_level/tokenizer.json")
    );

    let (asked, stored) = (hub.requests().len(), store.requests().len());
    for name in ["tiny/model", "model", "TINY/model", "tiny/model@main"] {
        let again = fetching(name, &hub);
        let cache = done.home.path().join("cache");
        let again = again.env("HF_HUB_CACHE", cache.to_str().expect("UTF-8")).run().expect_exit(0);
        assert_eq!(again.stderr, "", "{name}");
    }
    assert_eq!((hub.requests().len(), store.requests().len()), (asked, stored), "the cache is asked first");
}

#[test]
fn a_run_fetches_the_tokenizer_of_its_model_when_flag_file_or_variable_says_so() {
    let server = sim("");
    let line = "profile --ui none --artifact-dir out --isl 12 --osl 2 --request-count 2 --random-seed 3 --endpoint-type completions";
    let run = |hub: &ScriptedServer| {
        Run::new(line)
            .arg("--url")
            .arg(url(&server))
            .env("HF_ENDPOINT", &hub.url())
            .env("HF_HUB_CACHE", "cache")
            .env("HF_TOKEN", TOKEN)
    };
    let (hub, _store) = hub();
    let by_flag = run(&hub).args("--model tiny/model --tokenizer-download");
    let by_variable =
        run(&hub).args("--model m --tokenizer tiny/model").env("AIPERF_TOKENIZER_DOWNLOAD", "on");
    let by_file = run(&hub)
        .args("--model m -f run.yaml")
        .file("run.yaml", "benchmark: {tokenizer: {name: tiny/model, download: true}}");
    for run in [by_flag, by_variable, by_file] {
        let done = run.run().expect_exit(0).says(&["Fetched 5 files, "]);
        // The vocabulary's BOS is inside.
        assert_eq!(done.summary()["input_sequence_length"]["avg"], 12.0);
        assert_eq!(done.summary()["input_config"]["tokenizer"]["download"], true);
        hides_the_token(&done);
    }
}

#[test]
fn nothing_is_asked_for_without_leave() {
    let (hub, store) = hub();
    let plain = |line: &str| Run::new(line).env("HF_ENDPOINT", &hub.url()).env("HF_HUB_CACHE", "cache");
    for run in [
        plain("tokenizer tiny/model"),
        plain("tokenizer model"),
        plain("sim --port 0 --tokenizer tiny/model"),
        plain("profile --artifact-dir out --url http://127.0.0.1:1 --model tiny/model"),
        plain("profile --artifact-dir out --url http://127.0.0.1:1 --model tiny/model")
            .env("AIPERF_TOKENIZER_DOWNLOAD", "false"),
        // Leave is for what is missing.
        plain("tokenizer tok --tokenizer-download").file("tok/README", ""),
    ] {
        let done = run.run().expect_exit(2);
        let names_flag = done.stderr.contains("--tokenizer-download");
        assert_eq!(names_flag, !done.stderr.contains("tokenizer folder"), "{}", done.stderr);
        assert!(cached(&done).is_empty());
    }
    for name in ["builtin", "tok", "tok/tokenizer.json"] {
        let run = plain("tokenizer --samples 1 --tokenizer-download")
            .arg(name)
            .file("tok/tokenizer.json", trained("byte_level/tokenizer.json"));
        assert_eq!(run.run().expect_exit(0).stderr, "");
    }
    plain("tokenizer tiny/model").env("AIPERF_TOKENIZER_DOWNLOAD", "maybe").run().expect_exit(2).says(&[
        "AIPERF_TOKENIZER_DOWNLOAD",
        "'maybe'",
        "true or false",
    ]);
    assert_eq!((hub.connections(), store.connections()), (0, 0));
}

#[test]
fn offline_wins_and_what_is_cached_still_opens() {
    let (hub, _store) = hub();
    let model = "cache/models--tiny--model";
    for variable in ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"] {
        let done = fetching("tiny/model", &hub).env(variable, "1").run().expect_exit(2).says(&[
            "'tiny/model' is not in the hub's cache (cache)",
            &format!("nothing is fetched while {variable} is set"),
        ]);
        assert!(done.made().is_empty());
        fetching("tiny/model", &hub)
            .env(variable, "1")
            .file(&format!("{model}/refs/main"), "abc")
            .file(&format!("{model}/snapshots/abc/tokenizer.json"), trained("byte_level/tokenizer.json"))
            .run()
            .expect_exit(0);
    }
    Run::new("sim --port 0 --tokenizer tiny/model --tokenizer-download")
        .env("HF_HUB_OFFLINE", "1")
        .run()
        .expect_exit(2)
        .says(&["nothing is fetched while HF_HUB_OFFLINE is set"]);
    assert_eq!(hub.connections(), 0);
    fetching("tiny/model", &hub).env("HF_HUB_OFFLINE", "0").run().expect_exit(0);
}

#[test]
fn a_revision_is_pinned_by_its_name_or_its_commit() {
    let (hub, _store) = hub();
    for (revision, asked, refs) in [
        ("v1", "v1", Some("refs/v1")),
        ("refs/pr/3", "refs%2Fpr%2F3", Some("refs/refs/pr/3")),
        (COMMIT, COMMIT, None),
    ] {
        let before = hub.requests().len();
        let done = fetching(&format!("tiny/model@{revision}"), &hub).run().expect_exit(0);
        assert_eq!(paths(&hub)[before], format!("/api/models/tiny/model/revision/{asked}"));
        let found: Vec<String> = cached(&done).into_iter().filter(|path| path.contains("/refs/")).collect();
        let expected: Vec<String> =
            refs.map(|path| format!("models--tiny--model/{path}")).into_iter().collect();
        assert_eq!(found, expected);
    }
    let server = sim("");
    let line = "profile --ui none --artifact-dir out --isl 12 --osl 2 --request-count 1 --model tiny/model --tokenizer-download";
    Run::new(line)
        .args("--tokenizer-revision v1 --url")
        .arg(url(&server))
        .env("HF_ENDPOINT", &hub.url())
        .run()
        .expect_exit(0)
        .says(&["(revision v1, commit ", "/.cache/huggingface/hub/models--tiny--model"]);
    let done = fetching("tiny/model@v9", &hub).run().expect_exit(2).says(&[
        "'tiny/model' on http://127.0.0.1:",
        "has no revision 'v9'",
        "--tokenizer-revision",
    ]);
    assert!(done.made().is_empty());
}

/// A hub with `tiny/model` whose search finds `hits`.
fn searching(hits: Value) -> ScriptedServer {
    hub_with(move |request| {
        let is_search = request.path.starts_with("/api/models?search=");
        is_search.then(|| Reply::json(200, &hits.to_string()))
    })
}

#[test]
fn a_name_that_is_not_whole_is_looked_for() {
    let hub = searching(json!([
        {"id": "other/model", "downloads": 5},
        {"id": "tiny/model-2", "downloads": 900},
        {"id": "tiny/model", "downloads": 70},
        {"id": "third/model"},
    ]));
    for name in ["model", "Model", "TINY/MODEL"] {
        let before = hub.requests().len();
        let done =
            fetching(name, &hub).run().expect_exit(0).says(&[&format!("'{name}' is taken for 'tiny/model'")]);
        let asked = [
            format!("/api/models/{name}/revision/main"),
            format!("/api/models?search={}&limit=50", name.replace('/', "%2F")),
            "/api/models/tiny/model/revision/main".to_owned(),
        ];
        assert_eq!(paths(&hub)[before..before + 3], asked);
        let count = hub.requests().len();
        let found: Value = serde_json::from_str(&done.stdout).expect("JSON");
        assert_eq!(found["name"], name);
        // From now on the cache knows what it means.
        assert_eq!(fetching(name, &hub).run_in(done).expect_exit(0).stderr, "");
        assert_eq!(hub.requests().len(), count);
    }
}

#[test]
fn a_name_that_may_mean_several_models_or_none_is_refused() {
    let many: Vec<Value> =
        (1..=7).map(|n| json!({"id": format!("o/big-model-{n}"), "downloads": n})).collect();
    let done = fetching("big", &searching(json!(many))).run().expect_exit(2).says(&[
        "no model on http://127.0.0.1:",
        "is called 'big'",
        "o/big-model-7 (7), o/big-model-6 (6), o/big-model-5 (5), o/big-model-4 (4), o/big-model-3 (3);",
    ]);
    assert!(done.made().is_empty());
    let nothing = searching(json!([]));
    fetching("no/such", &nothing)
        .run()
        .expect_exit(2)
        .says(&["has no model 'no/such'", "HF_TOKEN is not set"]);
    fetching("no/such", &nothing)
        .env("HF_TOKEN", TOKEN)
        .run()
        .expect_exit(2)
        .says(&["has no model 'no/such'", "the token in HF_TOKEN may not see it"]);
    fetching("biultin", &nothing).run().expect_exit(2).says(&["did you mean 'builtin', which is built in?"]);
    // A search that finds what is not there is not believed twice.
    fetching("gone", &searching(json!([{"id": "o/gone"}])))
        .run()
        .expect_exit(2)
        .says(&["has no model 'o/gone'"]);
    fetching("x", &searching(json!([{"id": "../../x"}])))
        .run()
        .expect_exit(2)
        .says(&["does not answer as a Hugging Face hub does", "'../../x'"]);
}

#[test]
fn each_refusal_is_told_apart() {
    let file = |status: &'static str, code: &'static str| {
        hub_with(move |request| {
            let is_file = request.path.ends_with("/tokenizer_config.json");
            is_file.then(|| answer(status, &[("X-Error-Code", code)], REFUSAL))
        })
    };
    let model = |status: &'static str, code: &'static str| {
        hub_with(move |request| {
            let is_model = request.path.contains("/revision/");
            is_model.then(|| answer(status, &[("X-Error-Code", code)], REFUSAL))
        })
    };
    for (hub, token, words) in [
        (file("401 Unauthorized", "GatedRepo"), "", "set HF_TOKEN to a token of that account"),
        (
            file("401 Unauthorized", ""),
            "",
            "access to 'tiny/model' is restricted: accept its conditions at http://",
        ),
        (file("403 Forbidden", "GatedRepo"), TOKEN, "see that the token in HF_TOKEN is of that account"),
        (file("403 Forbidden", ""), TOKEN, "/tokenizer_config.json answers 403 Forbidden: no[31m"),
        (file("404 Not Found", "EntryNotFound"), TOKEN, "/tokenizer_config.json answers 404 Not Found"),
        (model("403 Forbidden", "GatedRepo"), TOKEN, "access to 'tiny/model' is restricted"),
        (model("401 Unauthorized", ""), TOKEN, "does not accept the token in HF_TOKEN: no[31m"),
        (
            model("418 I'm a teapot", ""),
            "",
            "/api/models/tiny/model/revision/main answers 418 I'm a teapot: no[31m",
        ),
    ] {
        let done = fetching("tiny/model", &hub).env("HF_TOKEN", token).run().expect_exit(2).says(&[words]);
        hides_the_token(&done);
        assert!(
            !cached(&done).iter().any(|path| path.contains("snapshots") || path.contains("refs")),
            "{words}"
        );
    }
}

#[test]
fn a_hub_that_is_busy_is_asked_again_as_it_wishes() {
    let busy = hub_with(|request| match (request.index, request.path.as_str()) {
        (0, _) => Some(answer("503 Service Unavailable", &[("Retry-After", "0")], b"")),
        (1, _) => {
            Some(answer("429 Too Many Requests", &[("Retry-After", "0")], b"{\"error\": \"slow down\"}"))
        }
        (4, _) => Some(answer("500 Internal Server Error", &[("Retry-After", "0")], b"")),
        _ => None,
    });
    let done = fetching("tiny/model", &busy).run().expect_exit(0).says(&[
        "revision/main: it answers 503 Service Unavailable; attempt 2 of 4 in 0 s",
        "it answers 429 Too Many Requests: slow down; attempt 3 of 4 in 0 s",
        "it answers 500 Internal Server Error; attempt 2 of 4 in 0 s",
    ]);
    assert_eq!(cached(&done).len(), 11);
    let never = hub_with(|_| Some(answer("503 Service Unavailable", &[("Retry-After", "0")], b"")));
    fetching("tiny/model", &never)
        .run()
        .expect_exit(2)
        .says(&["cannot fetch http://127.0.0.1:", "it answers 503 Service Unavailable (4 attempts)"]);
    assert_eq!(never.requests().len(), 4);
    let later = hub_with(|_| Some(answer("429 Too Many Requests", &[("Retry-After", "3600")], b"")));
    fetching("tiny/model", &later)
        .run()
        .expect_exit(2)
        .says(&["it answers 429 Too Many Requests; it asks to be left alone for 3600 s"]);
    assert_eq!(later.requests().len(), 1);
}

#[test]
fn a_file_that_breaks_off_leaves_nothing_and_is_told() {
    let vocabulary = trained("byte_level/tokenizer.json");
    let cut = move |request: &SeenRequest| {
        let half = &vocabulary[..vocabulary.len() / 2];
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nETag: \"v\"\r\n\r\n", vocabulary.len());
        let is_file = request.path.ends_with("/tokenizer.json");
        is_file.then(|| Reply::new().send([head.as_bytes(), half].concat()).close())
    };
    let broken = hub_with(cut.clone());
    let done = fetching("tiny/model", &broken).run().expect_exit(2).says(&[
        "/tokenizer.json: the answer of 127.0.0.1:",
        "broke off after ",
        "attempt 4 of 4 in 2 s",
        "(4 attempts)",
    ]);
    assert!(cached(&done).is_empty(), "{:?}", cached(&done));
    // The next run starts afresh, and one more such accident does no harm.
    let once = hub_with(move |request| (request.index == 1).then(|| cut(request)).flatten());
    let done = fetching("tiny/model", &once)
        .run_in(done)
        .expect_exit(0)
        .says(&["broke off after ", "Fetched 5 files"]);
    assert!(!cached(&done).iter().any(|path| path.contains("incomplete")));
    let blob = done.home.path().join("cache/models--tiny--model/blobs/vocabulary");
    assert_eq!(std::fs::read(blob).expect("a file"), trained("byte_level/tokenizer.json"));
}

#[test]
fn what_is_not_what_the_hub_announced_is_not_kept() {
    let other = sha256(b"something else");
    let damaged = hub_with(move |request| {
        let headers = [("X-Linked-Etag", &*format!("\"{other}\""))];
        let is_file = request.path.ends_with("/tokenizer.json");
        is_file.then(|| answer("200 OK", &headers, &trained("byte_level/tokenizer.json")))
    });
    let done = fetching("tiny/model", &damaged).run().expect_exit(2).says(&[
        "what came is not what was announced: its SHA-256 is ",
        "in place of",
        "(4 attempts)",
    ]);
    assert!(cached(&done).is_empty());
}

#[test]
fn an_answer_that_no_hub_gives_is_told_and_leads_nowhere() {
    let model = |body: &str| {
        let body = body.to_owned();
        hub_with(move |request| request.path.contains("/revision/").then(|| Reply::json(200, &body)))
    };
    let file = |headers: &'static [(&'static str, &'static str)], status: &'static str| {
        hub_with(move |request| {
            request.path.ends_with("/tokenizer.json").then(|| answer(status, headers, b"{}"))
        })
    };
    for (hub, words) in [
        (model("<html>"), "does not answer as a Hugging Face hub does: expected value"),
        (model("{}"), "it gives no commit of the model; is HF_ENDPOINT right?"),
        (model(r#"{"sha": "../../../x", "siblings": []}"#), "it gives no commit of the model"),
        (
            model(r#"{"sha": "abc", "siblings": [{"rfilename": "model.gguf"}]}"#),
            "has no tokenizer.json or tekken.json",
        ),
        (model(r#"{"sha": "abc", "siblings": [{"rfilename": "model.gguf"}]}"#), "(it holds model.gguf)"),
        (file(&[], "200 OK"), "it gives no ETag"),
        (file(&[("ETag", "\"../../x\"")], "200 OK"), "its ETag '../../x' is no name of a file"),
        (
            file(&[("Location", "ftp://h/x")], "302 Found"),
            "it redirects to 'ftp://h/x', which is not followed",
        ),
        (
            file(&[("Location", "/tiny/tokenizer.json")], "307 Temporary Redirect"),
            "it redirects more than 8 times",
        ),
    ] {
        let done = fetching("tiny/model", &hub).run().expect_exit(2).says(&[words]);
        assert!(done.made().is_empty(), "{words}: {:?}", done.made());
    }
    let nobody =
        Run::new("tokenizer tiny/model --tokenizer-download").env("HF_ENDPOINT", "http://127.0.0.1:1");
    nobody.run().expect_exit(2).says(&["cannot connect to 127.0.0.1:1", "(4 attempts)"]);
    let endpoint = Run::new("tokenizer tiny/model --tokenizer-download").env("HF_ENDPOINT", "ftp://hub");
    endpoint.run().expect_exit(2).says(&["error: HF_ENDPOINT has the scheme 'ftp'"]);
}

#[test]
fn a_hub_behind_a_path_and_a_renamed_model_are_followed() {
    let hub = Script::by_request(|request| {
        let Some(path) = request.path.strip_prefix("/mirror") else { return missing("RepoNotFound") };
        match path.replace("/old-name/", "/tiny/model/").replace("/old-name", "/tiny/model") {
            moved if moved != path => {
                answer("307 Temporary Redirect", &[("Location", &format!("/mirror{moved}"))], b"")
            }
            path if path.ends_with("/tokenizer.json") => {
                answer("200 OK", &[("ETag", "W/\"weak\"")], &trained("byte_level/tokenizer.json"))
            }
            path => tiny(&SeenRequest { path, ..request.clone() }, ""),
        }
    })
    .start()
    .expect("it listens");
    let done = fetching("old-name", &hub)
        .env("HF_ENDPOINT", &format!("{}/mirror/", hub.url()))
        .env("HF_TOKEN", TOKEN)
        .run()
        .expect_exit(0);
    // Within the hub's own host the token goes along.
    assert!(hub.requests().iter().all(|request| request.header("authorization").is_some()));
    let blobs = cached(&done);
    assert!(blobs.contains(&"models--old-name/blobs/weak".to_owned()), "{blobs:?}");
}

/// A hub that speaks TLS, by which name it is asked for, and the heads of what it was asked. It has its large files under
/// `location`, where `PORT` is its own port.
fn secure(ca: Identity, location: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let addr = tls_server_with(ca, move |head| {
        seen.lock().expect("no test panics with it").push(head.to_owned());
        let path = head.split(' ').nth(1).unwrap_or_default();
        if path.starts_with("/blob") {
            return answer("200 OK", &[], &trained("byte_level/tokenizer.json"));
        }
        let host =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("host: ").map(str::to_owned));
        let port = host.as_deref().and_then(|host| host.rsplit(':').next()).unwrap_or_default().to_owned();
        let request = SeenRequest {
            index: 0,
            connection: 0,
            method: "GET".to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            first_byte_ns: 0,
            whole_ns: 0,
        };
        tiny(&request, &location.replace("PORT", &port))
    });
    (format!("https://localhost:{}", addr.port()), heads)
}

#[test]
fn certificates_are_checked_and_tls_is_not_left() {
    let run = |hub: &str, ca: &str| {
        Run::new("tokenizer tiny/model --samples 1 --tokenizer-download")
            .file("ca.pem", ca)
            .env("HF_ENDPOINT", hub)
            .env("HF_TOKEN", TOKEN)
            // It is about the server under test.
            .env("AIPERF_HTTP_SSL_VERIFY", "false")
    };
    let ca = identity();
    let pem = ca.ca_pem.clone();
    let (hub, heads) = secure(ca, "https://127.0.0.1:PORT/blob?signed=1");
    let stranger =
        run(&hub, &pem).run().expect_exit(2).says(&["no TLS session with localhost:", "UnknownIssuer"]);
    assert!(!stranger.stderr.contains("attempt"), "{}", stranger.stderr);
    run(&hub, &pem).env("SSL_CERT_FILE", "ca.pem").run().expect_exit(0).says(&["Fetched 5 files"]);
    let heads = heads.lock().expect("no test panics with it");
    assert_eq!(heads.len(), 7);
    for head in heads.iter() {
        // The same port of the same machine by another name is another place.
        let is_hub = head.contains("localhost:");
        assert_eq!(head.contains(TOKEN), is_hub, "{head}");
        assert_eq!(head.starts_with("GET /blob"), !is_hub, "{head}");
    }

    let ca = identity();
    let pem = ca.ca_pem.clone();
    let (hub, heads) = secure(ca, "http://localhost:PORT/blob?signed=1");
    let done = run(&hub, &pem).env("SSL_CERT_FILE", "ca.pem").run().expect_exit(2);
    done.says(&["it redirects to 'http://localhost:", "which is not followed"]);
    assert_eq!(heads.lock().expect("no test panics with it").len(), 2);
}

#[test]
fn a_mirror_that_does_not_list_files_is_asked_for_each() {
    let hub = hub_with(|request| {
        let about = json!({"sha": COMMIT}).to_string();
        request.path.contains("/revision/").then(|| Reply::json(200, &about))
    });
    fetching("tiny/model", &hub).run().expect_exit(0).says(&["Fetched 5 files"]);
    let asked = paths(&hub);
    assert!(asked.iter().any(|path| path.ends_with("/special_tokens_map.json")), "{asked:?}");
    assert!(!asked.iter().any(|path| path.ends_with("/tekken.json")), "{asked:?}");
}

#[test]
fn mistral_s_vocabulary_stands_alone() {
    let hub = hub_with(|request| {
        let about =
            json!({"sha": "abc", "siblings": [{"rfilename": "tekken.json"}, {"rfilename": "config.json"}]});
        if request.path.contains("/revision/") {
            return Some(Reply::json(200, &about.to_string()));
        }
        let is_file = request.path == "/tiny/model/resolve/abc/tekken.json";
        is_file.then(|| answer("200 OK", &[("ETag", "\"e\"")], &trained("tekken/tekken.json")))
    });
    let done = fetching("tiny/model", &hub).run().expect_exit(0).says(&["Fetched 1 files"]);
    assert_eq!(hub.requests().len(), 2);
    let link = "models--tiny--model/snapshots/abc/tekken.json -> ../../blobs/e".to_owned();
    assert!(cached(&done).contains(&link));
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let hub = hub_with(|_| None);
    let done = fetching("tiny/model", &hub).file("cache", "").run().expect_exit(2);
    done.says(&["cannot make the folder cache/models--tiny--model/blobs"]);
    let asked = hub.requests().len();
    fetching("tiny/model", &hub)
        .env("HF_HUB_CACHE", "")
        .env("HOME", "")
        .run()
        .expect_exit(2)
        .says(&["'tiny/model' cannot be fetched", "HF_HUB_CACHE or HF_HOME"]);
    assert_eq!(hub.requests().len(), asked);
}

#[test]
fn two_runs_that_fetch_at_once_both_have_it_whole() {
    let both = Arc::new(Barrier::new(2));
    let gate = Arc::clone(&both);
    let hub = hub_with(move |request| {
        if request.path.contains("/revision/") {
            gate.wait();
        }
        None
    });
    let shared = tempfile::tempdir().expect("a folder");
    let cache = shared.path().join("cache");
    let start = || fetching("tiny/model", &hub).env("HF_HUB_CACHE", cache.to_str().expect("UTF-8")).start();
    let (one, other) = (start(), start());
    for running in [one, other] {
        let done = running.finish().expect_exit(0);
        let found: Value = serde_json::from_str(&done.stdout).expect("JSON");
        assert_eq!(found["lengths"]["exact"], 1);
    }
    assert!(tree(&cache).iter().all(|path| !path.to_string_lossy().contains("incomplete")));
}
