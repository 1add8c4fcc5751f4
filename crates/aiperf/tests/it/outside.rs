//! Data sets that were not made for this program.

use aiperf_sim::scripted::Reply;
use serde_json::{Value, json};

use crate::support::{Run, Tally, flat, scripted, sim, url};

/// Two talks that are taken, and one that is too short.
fn sharegpt() -> String {
    let talk = |texts: &[&str]| {
        let message = |(i, text): (usize, &&str)| json!({"from": if i % 2 == 0 { "human" } else { "gpt" }, "value": text});
        json!({"id": "a", "conversations": texts.iter().enumerate().map(message).collect::<Vec<_>>()})
    };
    let good = ["What is the tallest mountain of all?", "It is Mount Everest, in the Himalayas."];
    let more = ["And the second one after that?", "That would be K2, on the border of Pakistan."];
    Value::from(vec![talk(&good), talk(&["Hi", "Hello"]), talk(&[good, more].concat())]).to_string()
}

#[test]
fn sharegpt_is_sent_with_the_lengths_of_its_replies() {
    let server = sim("ttft=0&itl=0&truth=on");
    let run = Run::unseeded(&url(&server)).args("--random-seed 3 --concurrency 1 --num-conversations 2");
    let done =
        run.args("--input-file s.json").file("s.json", sharegpt()).run().expect_exit(0).ends(Tally::of(3, 0));
    let shown = flat(&done.stdout);
    assert!(shown.contains("s.json: read as sharegpt, for there is a list of 'conversations'"), "{shown}");
    assert!(
        shown.contains("s.json: 1 of 3 elements is left out: 1 with a prompt that is not 4 to 1024"),
        "{shown}"
    );
    let (_, truth, _) = server.stop_with_truth();
    let tokens: Vec<u64> = truth.iter().map(|t| t.completion_tokens).collect();
    assert_eq!(tokens, [10, 10, 12], "the replies' own lengths");
    let inputs = done.inputs();
    assert_eq!(inputs[0]["messages"][0]["content"], "What is the tallest mountain of all?");
}

#[test]
fn tables_are_sent_row_by_row() {
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let run = |args: &str| {
        let run = Run::unseeded(&server.url()).args("--random-seed 3 --concurrency 1 --request-count 2");
        run.args(args).file("q.csv", "id,ask,tell\n1,\"Why, oh why?\",Because.\n2,\"Who\nis it?\",Me.\n")
    };
    let done = run("--input-file q.csv --dataset-prompt-column ask --dataset-response-column tell").run();
    let done = done.expect_exit(0).ends(Tally::of(2, 0));
    let sent: Vec<Value> = done.inputs().iter().map(|body| body["messages"][0]["content"].clone()).collect();
    assert_eq!(sent, ["Why, oh why?", "Who\nis it?"]);
    assert!(done.inputs().iter().all(|body| body["max_completion_tokens"] == 2), "{:?}", done.inputs());
    let dataset = &done.summary()["input_config"];
    assert!(dataset.to_string().contains("\"prompt_column\":\"ask\""), "{dataset}");

    let refused = |args: &str, words: &[&str]| {
        let done = run(args).run().expect_exit(2).says(words);
        assert!(done.made().is_empty(), "nothing is made");
    };
    refused("--input-file q.csv", &["q.csv: which column says what is sent? It has 'id', 'ask', 'tell'"]);
    refused(
        "--input-file q.csv --dataset-prompt-column asks",
        &["q.csv: has no 'asks', which --dataset-prompt-column names; it has 'id', 'ask', 'tell'"],
    );
    refused("--dataset-prompt-column ask", &["--dataset-prompt-column needs --input-file"]);
    refused(
        "--input-file q.csv --dataset-prompt-column ask --dataset-messages-column m",
        &["--dataset-prompt-column and --dataset-messages-column exclude each other"],
    );
    refused(
        "--input-file q.csv --custom-dataset-type single_turn --dataset-prompt-column ask",
        &["--dataset-prompt-column and --custom-dataset-type exclude each other", "or say chat"],
    );
    refused(
        "--input-file q.csv --custom-dataset-type sharegpt --dataset-messages-column ask --use-server-token-count",
        &["q.csv: none of its 2 rows can be sent: 2 without a prompt that was answered (the first is row 1)"],
    );
}
