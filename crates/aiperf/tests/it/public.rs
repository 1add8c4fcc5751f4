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
    assert!(told.to_string().contains(r#""type":"public","dataset":"ShareGPT""#), "{told}");
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
    refused("--public-dataset exgentic-v2", &["this version does not have yet"]);
    refused("--public-dataset sharegtp", &["sharegpt"]);
    refused("--hf-subset main", &["--hf-subset needs --public-dataset"]);
    refused(
        "--public-dataset aimo --custom-dataset-type chat",
        &["--public-dataset and --custom-dataset-type exclude each other"],
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
    // In a file, too.
    let done = Run::unseeded(&url(&server))
        .args("--config c.yaml --request-count 1 --concurrency 1")
        .file("c.yaml", "benchmark:\n  dataset: {type: public, dataset: spec_al_humaneval, path: f.jsonl}\n")
        .file("f.jsonl", lines(&[json!({"prompt": "def f():\n"})]))
        .run()
        .expect_exit(0);
    assert_eq!(prompts(&done), ["def f():\n"]);
}
