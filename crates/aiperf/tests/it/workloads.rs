//! What is asked, as the server got it: corpora, lengths and other tools' prompts, from the command line to the usage.

use sha2::{Digest, Sha256};

use crate::support::{Done, Run, Tally, sim, url};

/// Twelve requests of the given workload; their prompts are counted by the server with the same tokenizer.
fn asked(more: &[&str]) -> Done {
    let server = sim("ttft=0&itl=0");
    let mut run = Run::unseeded(&url(&server)).args("--endpoint-type completions --request-count 12");
    for word in more {
        run = run.arg(*word);
    }
    run.run().expect_exit(0).ends(Tally::of(12, 0))
}

/// The least and the most of a statistic of whole numbers.
fn lengths(done: &Done, tag: &str) -> [u64; 2] {
    ["min", "max"].map(|stat| done.stat(tag, stat) as u64)
}

#[test]
fn every_corpus_is_sent_at_its_length() {
    for (corpus, mark) in [("sonnet", " "), ("coding", "\n"), ("random", "")] {
        let done = asked(&["--prompt-corpus", corpus, "--isl", "300", "--osl", "3"]);
        assert_eq!(lengths(&done, "input_sequence_length"), [300, 300], "{corpus}");
        assert_eq!(lengths(&done, "usage_prompt_tokens"), [300, 300], "{corpus}");
        let texts = done.inputs();
        assert!(
            texts.iter().all(|body| body["prompt"].as_str().is_some_and(|p| p.contains(mark))),
            "{corpus}"
        );
    }
}

#[test]
fn batches_pairs_and_distributions_are_sent() {
    let server = sim("ttft=0&itl=0");
    let done = Run::profile(&url(&server)).args("--batch-size 3 --request-count 4").run().expect_exit(0);
    assert_eq!(lengths(&done, "input_sequence_length"), [24, 24], "three texts of 8 tokens");
    for body in done.inputs() {
        let parts = body["messages"][0]["content"].as_array().expect("a list of parts").clone();
        assert!(parts.len() == 3 && parts[0] != parts[1] && parts[1] != parts[2], "{parts:?}");
    }

    let done = asked(&["--seq-dist", "30,4:50;60,8:50", "--random-seed", "3"]);
    assert_eq!(lengths(&done, "usage_prompt_tokens"), [30, 60], "both pairs come");
    let limits: Vec<u64> = done.inputs().iter().filter_map(|body| body["max_tokens"].as_u64()).collect();
    assert!(
        limits.contains(&4) && limits.contains(&8) && limits.iter().all(|n| [4, 8].contains(n)),
        "{limits:?}"
    );

    let points = "{\"points\": [{\"value\": 40}, {\"value\": 50}]}";
    let done = asked(&["--isl-distribution", points, "--osl", "2", "--random-seed", "3"]);
    assert_eq!(lengths(&done, "usage_prompt_tokens"), [40, 50]);
}

/// The texts are vLLM's for this seed, the first case of the vectors that `aiperf-data` is held to.
#[test]
fn a_range_ratio_sends_what_vllm_sends() {
    let done = asked(&[
        "--prompt-corpus",
        "random",
        "--isl",
        "32",
        "--osl",
        "16",
        "--random-range-ratio",
        "0",
        "--random-seed",
        "0",
        "--num-dataset-entries",
        "4",
    ]);
    assert_eq!(lengths(&done, "usage_prompt_tokens"), [32, 32]);
    let bodies = done.inputs();
    assert_eq!(bodies.len(), 4);
    let digest = |body: &serde_json::Value| {
        let hash = Sha256::digest(body["prompt"].as_str().unwrap_or_default());
        hash.iter().take(6).fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let digests: Vec<u64> = bodies.iter().map(digest).collect();
    assert_eq!(digests, [0x49c7_984c_6066, 0xe2e2_33e8_379e, 0x3db4_1b66_9200, 0xbd37_d78f_6a92]);
}

#[test]
fn a_window_that_reaches_zero_is_refused_before_anything_is_sent() {
    let done = Run::unseeded("sim://")
        .args("--prompt-corpus random --isl 1 --osl 1 --random-range-ratio 0.5 --request-count 1")
        .run()
        .expect_exit(2);
    assert!(
        done.stderr.contains("--random-range-ratio 0.5 with an ISL of 1 allows prompts of 0 tokens"),
        "{}",
        done.stderr
    );
}
