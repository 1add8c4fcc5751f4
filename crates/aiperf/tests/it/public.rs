//! Public data sets, found among the files that are here.

use serde_json::{Value, json};

use crate::support::{Done, Run, Tally, flat, sim, url};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn ask(url: &str, args: &str) -> Run {
    Run::unseeded(url).args("--random-seed 3 --concurrency 1").args(args)
}

fn lines(rows: &[Value]) -> String {
    rows.iter().map(|row| row.to_string() + "\n").collect()
}

fn cached(repo: &str, file: &str) -> String {
    format!("hub/datasets--{}/snapshots/{COMMIT}/{file}", repo.replace('/', "--"))
}

fn prompts(done: &Done) -> Vec<Value> {
    done.inputs().iter().map(|body| body["messages"][0]["content"].clone()).collect()
}

#[test]
fn sharegpt_lies_where_the_reference_keeps_it() {
    let server = sim("ttft=0&itl=0");
    let talk = |texts: [&str; 2]| json!({"conversations": [{"from": "human", "value": texts[0]}, {"from": "gpt", "value": texts[1]}]});
    let file = Value::from(vec![
        talk(["What is the tallest mountain of all?", "It is Mount Everest, in the Himalayas."]),
        talk(["Hi", "Hello"]),
    ]);
    let done = ask(&url(&server), "--public-dataset ShareGPT --request-count 1")
        .file(".cache/aiperf/datasets/ShareGPT_V3_unfiltered_cleaned_split.json", file.to_string())
        .run()
        .expect_exit(0)
        .ends(Tally::of(1, 0));
    assert_eq!(prompts(&done), ["What is the tallest mountain of all?"]);
    assert_eq!(done.inputs()[0]["max_completion_tokens"], 10, "the reply's own length");
    assert!(
        flat(&done.stdout).contains("1 of 2 elements is left out: 1 with a prompt that is not 4 to 1024"),
        "{}",
        done.stdout
    );
    let source = json!({"dataset": {"source_type": "public_dataset", "loader": "sharegpt"}});
    assert_eq!(done.summary()["metadata"], source);
    let told = &done.summary()["input_config"];
    assert!(told.to_string().contains(r#""type":"public","dataset":"sharegpt""#), "{told}");
}

/// The first part of several, the usual part, and another.
#[test]
fn files_are_found_in_the_hub_s_cache() {
    let server = sim("ttft=0&itl=0");
    let row = |name: &str, text: &str| {
        lines(&[json!({name: text, "answer": "no"}), json!({name: " ", "answer": "no"})])
    };
    let run = |args: &str| {
        ask(&url(&server), args)
            .env("HF_HUB_CACHE", "hub")
            .file("hub/datasets--AI-MO--NuminaMath-TIR/refs/main", COMMIT)
            .file(
                &cached("AI-MO/NuminaMath-TIR", "data/train-00000-of-00002.jsonl"),
                row("problem", "1 + 1?"),
            )
            .file(
                &cached("AI-MO/NuminaMath-TIR", "data/train-00001-of-00002.jsonl"),
                row("problem", "2 + 2?"),
            )
            .file(
                &cached("AI-MO/NuminaMath-TIR", "data/test-00000-of-00001.jsonl"),
                row("problem", "not this"),
            )
            .file(&cached("openai/gsm8k", "main/test-00000.jsonl"), row("question", "main"))
            .file(&cached("openai/gsm8k", "socratic/test-00000.jsonl"), row("question", "socratic"))
            .file(&cached("AI-MO/NuminaMath-CoT", "train.jsonl"), row("other", "x"))
            .file(".cache/aiperf/datasets/blazedit_5k.jsonl", row("prompt", "x"))
    };
    let sent = |args: &str, count: u64| {
        prompts(&run(&format!("--public-dataset {args} --request-count {count}")).run().expect_exit(0))
    };
    assert_eq!(sent("aimo", 2), ["1 + 1?", "2 + 2?"]);
    assert_eq!(sent("spec-al-gsm8-k", 1), ["main"]);
    let done =
        run("--public-dataset spec-al-gsm8-k --request-count 1 --num-dataset-entries 1").run().expect_exit(0);
    let source = json!({
        "source_type": "public_dataset", "loader": "spec_al_gsm8k", "hf_dataset_name": "openai/gsm8k", "hf_split": "test",
        "hf_subset": "main", "num_dataset_entries": 1,
    });
    assert_eq!(done.summary()["metadata"]["dataset"], source);
    let again = Run::new("report out --force").run_in(done).expect_exit(0);
    assert_eq!(again.summary()["metadata"]["dataset"], source, "made again of what was kept");
    assert_eq!(sent("SPEC_AL_GSM8K --hf-subset socratic", 1), ["socratic"]);
    let refused = |args: &str, words: &[&str]| {
        let done = run(args).run().expect_exit(2).says(words);
        assert!(done.made().iter().all(|path| !path.starts_with("out")), "nothing is made");
    };
    refused(
        "--public-dataset spec_al_gsm8k --hf-subset nothing",
        &["holds no rows 'test' of the part 'nothing'", "'main/test-00000.jsonl'"],
    );
    refused("--public-dataset aimo_numina_cot", &["sent from 'problem', and it has 'other', 'answer'"]);
    refused(
        "--public-dataset instruct_coder",
        &[
            "has no data set 'likaixin/InstructCoder'",
            "hf download likaixin/InstructCoder --repo-type dataset",
            "HF_TOKEN",
            "--input-file",
        ],
    );
    refused("--public-dataset spec_bench", &["curl", "spec_bench.jsonl"]);
    refused("--public-dataset spec_bench --hf-subset x", &["--hf-subset"]);
    refused("--public-dataset weka_hf", &["this version does not have yet"]);
    refused("--dataset-filter harness=x", &["--dataset-filter needs --public-dataset"]);
    refused("--public-dataset aimo --dataset-filter harness=x", &["'aimo'", "exgentic"]);
    refused(
        "--public-dataset exgentic --benchmark-duration 1",
        &["--public-dataset needs --request-count, --num-conversations"],
    );
    let agents = |args: &str, says: &[&str]| {
        refused(&format!("--public-dataset exgentic --request-count 1 --dataset-filter {args}"), says);
    };
    agents("harness=claude-code", &["'harness=claude-code'", "did you mean 'claude_code'"]);
    agents("benchmark=swebench", &["'benchmark'", "the filters of exgentic: harness, source_model"]);
    agents("harness=openai_solo harness=claude_code", &["'harness' twice"]);
    agents("harness", &["'harness'", "key=value pairs"]);
    agents(
        "harness=openai_solo source_model=gpt-5.2-2025-12-11",
        &["harness=openai_solo with source_model=gpt-5.2-2025-12-11", "DeepSeek-V3.2"],
    );
    agents(
        "harness=openai_solo",
        &["has no data set 'Exgentic/agent-llm-traces', commit 70036b93", "--revision 70036b93"],
    );
    refused("--public-dataset sharegtp", &["sharegpt"]);
    refused("--hf-subset main", &["--hf-subset needs --public-dataset"]);
    refused(
        "--public-dataset aimo --custom-dataset-type chat",
        &["--public-dataset and --custom-dataset-type exclude each other"],
    );
    let both = run("--public-dataset spec_al_gsm8k --custom-dataset-type chat").run().expect_exit(2);
    assert!(!both.stderr.contains("does not exist"), "one error is enough: {}", both.stderr);
    refused(
        "--public-dataset blazedit_5k --hf-subset x",
        &[
            ".cache/aiperf/datasets/blazedit_5k.jsonl is one part and does not say which (it is sent without --hf-subset)",
        ],
    );
    refused("--public-dataset aimo --isl 5", &["--isl and --public-dataset exclude each other"]);
}

#[test]
fn a_file_is_given_beside_the_name() {
    let server = sim("ttft=0&itl=0");
    let sent = |name: &str, row: Value, count: u64| {
        let run = ask(
            &url(&server),
            &format!("--public-dataset {name} --input-file f.jsonl --request-count {count}"),
        );
        prompts(&run.file("f.jsonl", lines(&[row])).run().expect_exit(0))
    };
    assert_eq!(sent("spec_bench", json!({"question_id": 81, "turns": [" first ", "second"]}), 1), ["first"]);
    assert_eq!(sent("spec_al_mtbench", json!({"prompt": ["one", "two"]}), 2), ["one", "two"]);
    let edit = "Given a code file, please apply the change requests and generate the new file.\n\nOriginal file:\n```python\nx = 1\n```\n\nChange request:\nAdd y.\n\nPlease generate the new code file in the \"New file\" section below.";
    assert_eq!(sent("blazedit-5-k", json!({"code": "x = 1", "change_request": "Add y."}), 1), [edit]);
    // What says which file is meant says nothing beside one, and nowhere that it did.
    let args = "--public-dataset spec_al_gsm8k --input-file f.jsonl --request-count 1 --hf-subset socratic --dataset-download";
    let done =
        ask(&url(&server), args).file("f.jsonl", lines(&[json!({"question": "q"})])).run().expect_exit(0);
    let done = done.says(&["--hf-subset has no effect", "--dataset-download has no effect"]);
    assert_eq!(done.summary()["metadata"]["dataset"]["hf_subset"], "main");
    // In a file, too.
    let done = Run::unseeded(&url(&server))
        .args("--config c.yaml --request-count 1 --concurrency 1")
        .file("c.yaml", "benchmark:\n  dataset: {type: public, dataset: spec_al_humaneval, path: f.jsonl}\n")
        .file("f.jsonl", lines(&[json!({"prompt": "def f():\n"})]))
        .run()
        .expect_exit(0);
    assert_eq!(prompts(&done), ["def f():\n"]);
}

/// A session of an agent, of requests that begin at these seconds and take half of one.
fn session(name: &str, harness: &str, starts: &[u32]) -> Value {
    let span = |start: &u32| {
        let parts = json!([{"type": "text", "content": format!("{name} at {start}")}]);
        let said = json!({
            "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 4,
            "gen_ai.input.messages": json!([{"role": "user", "parts": parts}]).to_string(),
        });
        json!({
            "type": "llm_call", "status": {"code": 1}, "attributes": said,
            "start_time": format!("2026-04-29T00:00:{start:02}Z"), "end_time": format!("2026-04-29T00:00:{start:02}.5Z"),
        })
    };
    let spans: Vec<Value> = starts.iter().map(span).collect();
    json!({"harness": harness, "session_id": name, "models": ["azure/gpt-4.1"], "spans": spans})
}

/// Of the commit that is meant, whatever else is there.
#[test]
fn sessions_of_agents_are_sent_again() {
    let server = sim("ttft=0&itl=0");
    let folder = "hub/datasets--Exgentic--agent-llm-traces";
    let rows = [
        session("a", "tool_calling", &[1, 3]),
        session("b", "claude_code", &[7]),
        session("c", "tool_calling", &[2, 3]),
    ];
    let run = |args: &str| {
        ask(&url(&server), &format!("--public-dataset exgentic {args}"))
            .env("HF_HUB_CACHE", "hub")
            .file(&format!("{folder}/refs/main"), COMMIT)
            .file(&cached("Exgentic/agent-llm-traces", "train.jsonl"), "newer, and not asked for")
            .file(
                &format!("{folder}/snapshots/70036b93a04e61b0ea2706a68b962f4f26774587/data/train-00000-of-00001.jsonl"),
                lines(&rows),
            )
    };
    let done = run("--num-conversations 2 --replay-speedup 1000").run().expect_exit(0).ends(Tally::of(3, 0));
    assert_eq!(prompts(&done), ["a at 1", "a at 3", "b at 7"]);
    assert!(done.inputs().iter().all(
        |body| body["max_completion_tokens"] == 4 && body["messages"].as_array().map(Vec::len) == Some(1)
    ));
    let done = run(
        "--num-conversations 3 --dataset-filter harness=tool_calling --inter-turn-delay-cap-seconds 0.001",
    );
    let done = done.run().expect_exit(0).ends(Tally::of(6, 0));
    assert_eq!(prompts(&done), ["a at 1", "a at 3", "c at 2", "c at 3"], "two are there");
    assert!(
        flat(&done.stdout).contains("1 that --dataset-filter does not take, such as of claude_code with"),
        "{}",
        done.stdout
    );
    assert_eq!(done.summary()["metadata"]["dataset"]["hf_dataset_name"], "Exgentic/agent-llm-traces");
    assert_eq!(done.summary()["input_config"]["datasets"][0]["filters"], json!({"harness": "tool_calling"}));
    // Each session begins with the schedule.
    let timed = "--fixed-schedule --num-dataset-entries 3 --replay-speedup 1000";
    let done = run(timed).run().expect_exit(0).ends(Tally::of(5, 0));
    let mut names: Vec<String> = done
        .records()
        .iter()
        .map(|r| r["metadata"]["conversation_id"].as_str().unwrap_or_default().to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["a:0", "a:1", "b:0", "c:0", "c:1"]);
    let done = run(&format!("{timed} --trace-session-sample-ratio 0.5")).run().expect_exit(2);
    done.says(&["--trace-session-sample-ratio"]);
    let done = run("--num-conversations 1 --endpoint-type completions").run().expect_exit(2);
    done.says(&["session 'a', spans[0]", "completions"]);
}
