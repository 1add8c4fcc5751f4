//! The engine model as seen through HTTP.

use serde_json::json;

use crate::client::Client;
use crate::{COMPLETIONS, sim};

fn ask(client: &mut Client, prompt: &[u32]) -> u64 {
    let answer = client.post(COMPLETIONS, &json!({"model": "m", "prompt": prompt, "max_tokens": 2})).json();
    answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().expect("a number")
}

#[test]
fn prefix_hits_are_exact() {
    let server = sim("prefix-cache=on");
    let mut client = Client::connect(server.addr());
    let prompt: Vec<u32> = (0..70).collect();
    assert_eq!(ask(&mut client, &prompt), 0);
    assert_eq!(ask(&mut client, &prompt), 64, "four whole blocks");
    assert_eq!(ask(&mut client, &prompt[..40]), 32);
    assert_eq!(ask(&mut client, &prompt[..15]), 0);
    let mut other = prompt.clone();
    other[20] = 9;
    assert_eq!(ask(&mut client, &other), 16, "the first block alone");
    let totals = server.stop();
    assert_eq!(totals.cached_tokens, 64 + 32 + 16);
    assert_eq!(ask(&mut Client::connect(sim("").addr()), &prompt), 0);
}

#[test]
fn a_full_batch_makes_requests_wait() {
    let server = sim("max-batch=1&ttft=3&itl=1");
    let addr = server.addr();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || ask(&mut Client::connect(addr), &[1, 2, 3]));
        }
    });
    let (totals, mut truth, _) = server.stop_with_truth();
    assert_eq!((totals.completed, totals.peak_running), (4, 1));
    truth.sort_by_key(|r| r.prefill_start_ns);
    for pair in truth.windows(2) {
        // Two tokens: the second one step after the prefill's end.
        let free = pair[0].prefill_end_ns.expect("it ran") + 1_000_000;
        assert!(pair[1].prefill_start_ns.expect("it ran") >= free, "{pair:?}");
    }
}

#[test]
fn no_token_leaves_before_its_time() {
    let server = sim("ttft=2&itl=0.5&prefill-tps=1000");
    let mut client = Client::connect(server.addr());
    client.post(COMPLETIONS, &json!({"model": "m", "prompt": [1, 2, 3], "max_tokens": 6, "stream": true}));
    let (_, truth, _) = server.stop_with_truth();
    let record = &truth[0];
    assert_eq!(
        record.prefill_end_ns,
        record.prefill_start_ns.map(|s| s + 5_000_000),
        "2 ms and 1 ms a token"
    );
    for (k, at) in record.chunks_ns.iter().enumerate() {
        assert!(*at >= record.prefill_end_ns.expect("it ran") + k as u64 * 500_000);
    }
}
