//! Endpoint types without a form of their own through the real binary: bodies of a template, and bodies of the data set.

use aiperf_sim::scripted::{Reply, ScriptedServer, SeenRequest};
use serde_json::{Value, json};

use crate::support::{Done, Run, Tally, scripted, sim, url};

fn posts(server: &ScriptedServer) -> Vec<SeenRequest> {
    server.requests().into_iter().filter(|r| r.method == "POST").collect()
}

fn bodies(server: &ScriptedServer) -> Vec<String> {
    posts(server).into_iter().map(|r| String::from_utf8(r.body).expect("JSON is UTF-8")).collect()
}

const ROWS: &str =
    "{\"text\":\"a <b> & \\\"c\\\"\",\"output_length\":5}\n{\"texts\":[\"d\",\"e\"],\"extra\":{\"own\":1}}\n";

fn templated(url: &str) -> Run {
    Run::unseeded(url)
        .file("rows.jsonl", ROWS)
        .args("--concurrency 1 --request-count 2 --input-file rows.jsonl --endpoint-type template")
}

/// A run that must be refused before anything is sent or made.
#[track_caller]
fn refused(run: Run, texts: &[&str]) {
    let done = run.run().expect_exit(2).says(texts);
    assert!(done.made().is_empty(), "made {:?}", done.made());
}

const NOWHERE: &str = "http://127.0.0.1:1";

#[test]
fn a_template_of_any_origin_makes_the_bodies() {
    let template = r#"{"q": {{ texts|tojson }}, "n": {{ max_tokens|tojson }}, "m": "{{ model }}"}"#;
    let expected =
        [r#"{"q":["a <b> & \"c\""],"n":5,"m":"demo"}"#, r#"{"q":["d","e"],"n":null,"m":"demo","own":1}"#];
    let reply = || scripted(vec![Reply::json(200, r#"{"text":"It is."}"#)]);
    let own = |run: Run| {
        let inline = run.args("--payload-template").arg(template);
        inline.run().expect_exit(0).ends(Tally::of(2, 0))
    };
    let server = reply();
    let done = own(templated(&format!("{}/my/path?x=1", server.url())));
    assert_eq!(
        (bodies(&server), posts(&server)[0].path.as_str()),
        (expected.map(str::to_owned).to_vec(), "/my/path?x=1")
    );
    // The texts of the body are counted, as there are no others to be known.
    let isl: Vec<Value> =
        done.records().iter().map(|r| r["metrics"]["input_sequence_length"]["value"].clone()).collect();
    assert!(isl.iter().all(Value::is_u64), "{isl:?}");
    let server = reply();
    templated(&server.url())
        .file("body.j2", template)
        .args("--payload-template body.j2")
        .run()
        .expect_exit(0)
        .ends(Tally::of(2, 0));
    assert_eq!(bodies(&server), expected);
    let server = reply();
    let extra = json!({"payload_template": template, "response_field": "text", "seed": 3}).to_string();
    let done =
        templated(&server.url()).arg("--extra-inputs").arg(extra).run().expect_exit(0).ends(Tally::of(2, 0));
    let endpoint = &done.summary()["input_config"]["endpoint"];
    assert_eq!(
        endpoint["template"],
        json!({"body": template, "response_field": "text"}),
        "as AIPerf tells it"
    );
    assert_eq!(endpoint["extra"], json!({"seed": 3}));
    assert_eq!(
        bodies(&server),
        expected.map(|body| match body.strip_suffix(",\"own\":1}") {
            Some(rest) => format!("{rest},\"seed\":3,\"own\":1}}"),
            None => body.replace('}', ",\"seed\":3}"),
        })
    );
    let server = reply();
    templated(&server.url()).args("--payload-template nv-embedqa").run().expect_exit(0);
    assert_eq!(bodies(&server), [r#"{"text":["a <b> & \"c\""]}"#, r#"{"text":["d","e"],"own":1}"#]);
}

#[test]
fn a_file_holds_the_template_and_needs_no_type() {
    let server = scripted(vec![Reply::json(200, r#"{"deep":[{"said":"It is."}]}"#)]);
    let yaml = format!(
        "benchmark:\n  model: demo\n  endpoint:\n    url: '{}'\n    template:\n      responseField: deep[0].said\n      body: |\n        \
         {{\n          \"t\": {{{{ text|tojson }}}},\n          \"s\": {{{{ stream|tojson }}}}\n        }}\n  \
         dataset: {{type: file, path: rows.jsonl}}\n  \
         phases: [{{name: profiling, type: concurrency, concurrency: 1, requests: 2}}]\n  tokenizer: {{name: builtin}}\n",
        server.url()
    );
    let run = Run::new("profile --ui none --artifact-dir out --config bench.yaml").file("bench.yaml", yaml);
    let done = run.file("rows.jsonl", ROWS).run().expect_exit(0).ends(Tally::of(2, 0));
    assert_eq!(bodies(&server), [r#"{"t":"a <b> & \"c\"","s":false}"#, r#"{"t":"d","s":false,"own":1}"#]);
    let template = &done.summary()["input_config"]["endpoint"]["template"];
    assert_eq!(template["response_field"], "deep[0].said");
    assert!(template["body"].as_str().is_some_and(|b| b.contains("{{ text|tojson }}")), "{template}");
}

#[test]
fn a_bad_template_is_refused_before_anything_is_sent() {
    let with = |template: &str| templated(NOWHERE).arg("--payload-template").arg(template);
    refused(
        templated(NOWHERE),
        &["the template of request bodies (--endpoint-type template) is missing: give --payload-template"],
    );
    refused(
        with("{\n{{ text"),
        &["--payload-template: the template (line 2) cannot be rendered: syntax error"],
    );
    refused(
        with("{\"a\": {{ txt }}}"),
        &["the template (line 1) cannot be rendered: undefined value", "texts_by_name"],
    );
    refused(
        with("{\"a\": {{ text }}}"),
        &["--payload-template: the template renders no JSON: expected value at column 7 of line 1"],
    );
    refused(with("{{ texts|tojson }}"), &["renders a list and not an object"]);
    refused(
        with("nv-embedqq"),
        &[
            "--payload-template: found 'nv-embedqq'; allowed: a file that is there",
            "did you mean 'nv-embedqa'",
        ],
    );
    refused(
        templated(NOWHERE).file("t.j2", "{\n\n{% if %}}").args("--payload-template t.j2"),
        &["t.j2: the template (line 3) cannot be rendered"],
    );
    let good = || with("{\"a\": {{ text|tojson }}}");
    refused(
        good().args("--response-field a.b["),
        &["--response-field: 'a.b[' is no JMESPath expression", "(column"],
    );
    refused(
        good().args("--extra-inputs payload_template:x"),
        &["--payload-template", "--extra-inputs", "they say the same thing"],
    );
    refused(
        Run::profile(NOWHERE).args("--endpoint-type chat --payload-template nv-embedqa"),
        &["--payload-template needs --endpoint-type template"],
    );
    refused(
        Run::profile(NOWHERE).args("--response-field a"),
        &["--response-field needs --endpoint-type template or raw"],
    );
    // One conversation is tried: a template may still fail for a later one, and the run then says where.
}

#[test]
fn a_response_field_that_finds_nothing_is_a_failure_with_words() {
    let server = scripted(vec![Reply::json(200, r#"{"text":"It is.","other":{"said":"so"}}"#)]);
    let run = |field: &str| {
        templated(&server.url()).args("--payload-template nv-embedqa --response-field").arg(field).run()
    };
    let done = run("missing").expect_exit(1);
    let message = done.records()[0]["error"]["message"].to_string();
    assert!(
        message.contains("the response field 'missing' (--response-field) finds no text, vector or ranking"),
        "{message}"
    );
    run("other.said").expect_exit(0).ends(Tally::of(2, 0));
}

#[test]
fn vectors_and_ranks_are_answers_without_tokens() {
    for answer in [r#"{"data":[{"object":"embedding","embedding":[0.5]}]}"#, r#"[{"index":0,"score":0.9}]"#] {
        let server = scripted(vec![Reply::json(200, answer)]);
        let done = templated(&server.url()).args("--payload-template nv-embedqa").run().expect_exit(0);
        for record in done.records() {
            assert!(record["metrics"]["request_latency"].is_object(), "{record}");
            assert!(record["metrics"]["output_sequence_length"].is_null(), "{record}");
        }
    }
}

#[test]
fn a_template_can_stream() {
    let server = sim("ttft=1&itl=1&usage=always");
    let done = Run::profile(&format!("{}/v1/completions", url(&server)))
        .args("--endpoint-type template --streaming --request-count 2 --payload-template")
        .arg(r#"{"prompt": {{ text|tojson }}, "model": "{{ model }}", "max_tokens": {{ max_tokens }}, "stream": {{ stream|tojson }}}"#)
        .run()
        .expect_exit(0)
        .ends(Tally::of(2, 0));
    for record in done.records() {
        assert_eq!(record["metrics"]["output_sequence_length"]["value"], 4, "{record}");
        assert_eq!(
            record["metrics"]["input_sequence_length"], record["metrics"]["usage_prompt_tokens"],
            "{record}"
        );
        assert!(record["metrics"]["time_to_first_token"].is_object(), "{record}");
    }
}

const BODIES: &str = "{ \"messages\" : [{\"role\":\"user\",\"content\":\"hi you\"}],\"model\":\"x\",\"max_tokens\":3 }\n\n{\"messages\":[],\"n\":1e400}\n";

fn raw(url: &str) -> Run {
    Run::unseeded(url).file("bodies.jsonl", BODIES).args(
        "--concurrency 1 --request-count 2 --endpoint-type raw --custom-dataset-type raw_payload --input-file bodies.jsonl",
    )
}

#[test]
fn bodies_of_the_data_set_go_out_as_they_are() {
    let server = scripted(vec![Reply::chat("It is.", 3, 2)]);
    let done = raw(&format!("{}/any/where?v=2", server.url())).run().expect_exit(0).ends(Tally::of(2, 0));
    let lines: Vec<&str> = BODIES.lines().filter(|l| !l.is_empty()).collect();
    assert_eq!(bodies(&server), lines);
    assert!(posts(&server).iter().all(|r| r.path == "/any/where?v=2"), "{:?}", posts(&server));
    let records = done.records();
    assert_eq!(records[0]["metrics"]["input_sequence_length"]["value"], 2);
    assert!(done.path("profile_export_aiperf.json").exists());
}

#[test]
fn a_folder_of_bodies_is_a_conversation_for_each_file() {
    let server = scripted(vec![Reply::json(200, "{\"response\":\"It is.\"}")]);
    let done = Run::unseeded(&server.url())
        .file("all/b.jsonl", "{\"n\":3}\n")
        .file("all/a.jsonl", "{\"n\":1}\n{\"n\":2}\n")
        .args("--concurrency 1 --request-count 3 --endpoint-type raw --custom-dataset-type raw_payload --input-file all")
        .run()
        .expect_exit(0)
        .ends(Tally::of(3, 0));
    assert_eq!(bodies(&server), ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}"]);
    let turns: Vec<(String, u64)> = done
        .records()
        .iter()
        .map(|r| {
            let meta = &r["metadata"];
            (
                meta["conversation_id"].as_str().unwrap_or("").to_owned(),
                meta["turn_index"].as_u64().unwrap_or(9),
            )
        })
        .collect();
    let expected = [("session_000000", 0), ("session_000000", 1), ("session_000001", 0)];
    assert_eq!(turns, expected.map(|(id, turn)| (id.to_owned(), turn)));
}

#[test]
fn bodies_of_the_data_set_go_to_other_apis_too() {
    let server = sim("ttft=0&itl=0");
    let done = Run::unseeded(&url(&server))
        .file("bodies.jsonl", "{\"model\":\"x\",\"stream\":true,\"max_tokens\":3,\"messages\":[{\"role\":\"user\",\"content\":\"hi you\"}]}\n")
        .args("--streaming --request-count 1 --custom-dataset-type raw_payload --input-file bodies.jsonl")
        .run()
        .expect_exit(0)
        .ends(Tally::of(1, 0));
    let record = &done.records()[0];
    assert_eq!(record["metrics"]["output_sequence_length"]["value"], 3, "{record}");
    let quiet = raw(&format!("{}/v1/chat/completions", url(&server))).arg("--streaming").run();
    assert!(quiet.stdout.contains("does not ask for a stream"), "{}", quiet.stdout);
}

#[test]
fn raw_without_bodies_and_bodies_that_are_none_are_refused() {
    refused(
        Run::profile(NOWHERE).args("--endpoint-type raw"),
        &[
            "a data set of whole request bodies (--endpoint-type raw sends them as they are) is missing",
            "--custom-dataset-type raw_payload",
        ],
    );
    refused(
        Run::unseeded(NOWHERE).file("r.jsonl", ROWS).args("--endpoint-type raw --input-file r.jsonl"),
        &["a data set of whole request bodies"],
    );
    refused(
        raw(NOWHERE).file("bodies.jsonl", "{}\n[1]\n"),
        &["bodies.jsonl:2: a row must be a JSON object, not [1]"],
    );
    refused(
        Run::unseeded(NOWHERE)
            .file("b.jsonl", "{\"prompt\":\"x\"}")
            .args("--custom-dataset-type raw_payload --input-file b.jsonl"),
        &["b.jsonl:1: 'messages' must be a list, not absent"],
    );
    for more in [
        "--osl 4",
        "--extra-inputs a:1",
        "--system-prompt x --endpoint-type chat",
        "--cache-bust first_turn_prefix --endpoint-type chat",
    ] {
        let run = Run::unseeded(NOWHERE).file("b.jsonl", "{\"messages\":[]}");
        let run = run.args("--custom-dataset-type raw_payload --input-file b.jsonl").args(more);
        refused(run, &["--custom-dataset-type", "bodies of a data set are sent as they are"]);
    }
}

#[test]
fn a_raw_answer_is_looked_for_where_the_field_says_and_elsewhere() {
    let run = |server: &ScriptedServer, field: &str| -> Done {
        raw(&server.url()).args("--extra-inputs").arg(format!("response_field:{field}")).run()
    };
    let server = scripted(vec![Reply::json(200, r#"{"a":{"b":"one two three"},"text":"x"}"#)]);
    let long =
        run(&server, "a.b").expect_exit(0).records()[0]["metrics"]["output_sequence_length"]["value"].clone();
    let short =
        run(&server, "c").expect_exit(0).records()[0]["metrics"]["output_sequence_length"]["value"].clone();
    assert_eq!((long, short), (json!(3), json!(1)));
    refused(raw(NOWHERE).args("--response-field a["), &["--response-field: 'a[' is no JMESPath expression"]);
}
