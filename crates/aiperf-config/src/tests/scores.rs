//! Endpoints that answer with vectors or scores.

use aiperf_core::plan::{DatasetPlan, EndpointKind, LengthPlan, LengthShape, RankingsPlan};
use serde_json::json;

use super::{File, good, wrong};
use crate::Resolved;

const TYPES: [&str; 6] =
    ["embeddings", "chat_embeddings", "nim_embeddings", "cohere_rankings", "hf_tei_rankings", "nim_rankings"];

fn rankings(resolved: &Resolved) -> Option<RankingsPlan> {
    match &resolved.plan.dataset {
        DatasetPlan::Synthetic(set) => set.rankings.as_deref().cloned(),
        DatasetPlan::File(file) => panic!("{file:?}"),
    }
}

#[test]
fn what_cannot_stream_or_end_early_does_neither_and_says_so() {
    for name in TYPES {
        let resolved = good(&format!("-m m --endpoint-type {name} --streaming --osl 9 --osl-stddev 1"));
        assert_eq!(resolved.plan.endpoint.kind.name(), name);
        assert!(!resolved.plan.endpoint.streaming);
        assert_eq!(resolved.plan.input_config["endpoint"]["streaming"], false, "as AIPerf writes it");
        for note in [
            format!("--streaming has no effect: an answer of endpoint type '{name}' comes whole"),
            format!("--osl has no effect and is not sent: endpoint type '{name}' has no output"),
            format!("--osl-stddev has no effect and is not sent: endpoint type '{name}' has no output"),
        ] {
            assert!(resolved.notes.contains(&note), "{note}: {:?}", resolved.notes);
        }
        let dashes = good(&format!("-m m --endpoint-type {}", name.replace('_', "-")));
        assert_eq!(dashes.plan.endpoint.kind.name(), name);
        assert!(!dashes.notes.iter().any(|note| note.contains("has no effect")), "{:?}", dashes.notes);
        let errors = wrong(&format!("-m m --endpoint-type {name} --streaming --prefill-concurrency 1"));
        assert!(errors[0].contains("--prefill-concurrency needs --streaming"), "{errors:?}");
    }
    assert!(good("-m m --streaming").plan.endpoint.streaming);
}

#[test]
fn lengths_of_query_and_passages_come_from_flags_and_files() {
    let fixed = |n: f64| LengthPlan::normal(n, 0.0);
    for name in &TYPES[3..] {
        let default = good(&format!("-m m --endpoint-type {name}"));
        let expected =
            RankingsPlan { passages: fixed(10.0), passage_tokens: fixed(128.0), query_tokens: fixed(32.0) };
        assert_eq!(rankings(&default), Some(expected), "AIPerf's own, whatever its help says");
        assert_eq!(default.plan.input_config["datasets"][0].get("rankings"), None);
    }
    let by_flag = good(
        "-m m --endpoint-type cohere-rankings --rankings-passages-mean 3 --rankings-passages-stddev 1 \
         --rankings-passages-prompt-token-mean 12 --rankings-query-prompt-token-stddev 2",
    );
    let written = &by_flag.plan.input_config["datasets"][0]["rankings"];
    let shown = json!({"passages": {"mean": 3.0, "stddev": 1.0}, "passage_tokens": {"mean": 12.0},
        "query_tokens": {"mean": 32.0, "stddev": 2.0}});
    assert_eq!(*written, shown);
    let in_file = |rankings: &str| {
        let text = format!(
            "benchmark:\n  model: m\n  endpoint: {{type: cohere_rankings}}\n  dataset:\n    rankings: {rankings}\n"
        );
        File::new(&text).run("").expect("sound")
    };
    let by_file =
        in_file("{passages: {mean: 3, stddev: 1}, passageTokens: 12, query_tokens: {mean: 32, stddev: 2}}");
    assert_eq!(rankings(&by_file), rankings(&by_flag));
    let shapes = in_file(
        "{passages: {points: [{value: 1}, {value: 8}]}, passage_tokens: {mean: 60, median: 40}, query_tokens: {value: 5}}",
    );
    let shapes = rankings(&shapes).expect("rankings");
    assert!(matches!(shapes.passages.shape, LengthShape::Points(_)), "{shapes:?}");
    assert!(matches!(shapes.passage_tokens.shape, LengthShape::LogNormal { .. }), "{shapes:?}");
    assert_eq!(shapes.query_tokens, fixed(5.0));
}

#[test]
fn what_other_prompts_have_is_told_to_have_no_effect_on_rankings() {
    let resolved = good("-m m --endpoint-type nim_rankings --isl 9 --batch-size 2 --prompt-prefix-length 4");
    let told = resolved.notes.iter().filter(|note| note.contains("are a query and passages")).count();
    assert_eq!(told, 3, "{:?}", resolved.notes);
    assert!(resolved.notes[0].starts_with("--isl has no effect"), "{:?}", resolved.notes);
    // Embeddings have both.
    let resolved = good("-m m --endpoint-type embeddings --isl 9 --batch-size 2");
    let DatasetPlan::Synthetic(set) = &resolved.plan.dataset else { panic!("made here") };
    assert_eq!((set.batch, set.rankings.clone()), (2, None));
    assert_eq!(resolved.plan.endpoint.kind, EndpointKind::Embeddings);
}

#[test]
fn what_is_wrong_with_rankings_names_the_option() {
    for (line, error) in [
        (
            "-m m --rankings-passages-mean 2",
            "--rankings-passages-mean needs --endpoint-type cohere_rankings, hf_tei_rankings or nim_rankings: no other request has \
             passages to be ranked",
        ),
        (
            "-m m --endpoint-type cohere_rankings --rankings-passages-mean 0",
            "--rankings-passages-mean: found '0'; allowed: a whole number from 1 to 100000",
        ),
        (
            "-m m --endpoint-type cohere_rankings --rankings-passages-distribution 200000",
            "--rankings-passages-distribution: found a distribution around 200000 passages; allowed: 1 to 100000 passages",
        ),
        (
            "-m m --endpoint-type cohere_rankings --rankings-query-prompt-token-mean 5 --rankings-query-prompt-token-distribution 5",
            "--rankings-query-prompt-token-distribution and --rankings-query-prompt-token-mean exclude each other: both say the same \
             number; keep one",
        ),
        (
            "-m m --endpoint-type embeddings --system-prompt x",
            "--system-prompt: found the endpoint type 'embeddings', whose requests are bare text without messages; allowed: endpoint \
             types that send messages: chat, responses, messages, chat_embeddings",
        ),
    ] {
        assert_eq!(wrong(line), [error], "{line}");
    }
}
