//! What servers of others sent, byte for byte but for ids, and what becomes of it: vLLM 0.32.0 and `transformers serve` 5.19.0.

use std::time::Duration;

use aiperf_sim::scripted::Reply;

use crate::support::{Run, Tally, cycling, flat, scripted};

/// A run with a seed, and lengths of its own.
fn seeded(url: &str) -> Run {
    Run::unseeded(url).args("--random-seed 7")
}

/// vLLM: a chunk of a choice with `delta` and `finish_reason` as they stand.
fn vllm(index: u32, delta: &str, finish: &str) -> String {
    format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"smol","choices":[{{"index":{index},"delta":{delta},"logprobs":null,"finish_reason":{finish},"token_ids":null}}]}}"#
    )
}

/// vLLM: the chunk of counts behind the last choice.
fn vllm_usage(prompt: u64, completion: u64) -> String {
    format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"smol","choices":[],"usage":{{"prompt_tokens":{prompt},"total_tokens":{},"completion_tokens":{completion},"prompt_tokens_details":{{"cached_tokens":0,"created_cache_tokens":0}}}},"system_fingerprint":"vllm-0.32.0-0651c297"}}"#,
        prompt + completion
    )
}

fn stream(events: &[String]) -> Reply {
    events.iter().fold(Reply::sse_head(), |reply, event| reply.event(event))
}

/// vLLM: role and no text, the deltas, why it ended, counts, end mark.
fn vllm_stream(deltas: &[&str], finish: &str, prompt: u64, completion: u64) -> Reply {
    let mut events = vec![vllm(0, r#"{"role":"assistant","content":""}"#, "null")];
    events.extend(deltas.iter().map(|delta| vllm(0, delta, "null")));
    events.push(vllm(0, "{}", finish));
    events.push(vllm_usage(prompt, completion));
    stream(&events).event("[DONE]").end_chunks()
}

#[test]
fn a_tool_call_that_the_limit_cut_off_is_told_as_such() {
    // tool_choice: required, max_completion_tokens: 16. The parser held everything back.
    let server = cycling(vec![vllm_stream(&[], r#""length""#, 40, 16)]);
    let done = seeded(&server.url())
        .args("--request-count 2 --streaming --isl 40 --osl 16")
        .run()
        .expect_exit(1)
        .ends(Tally::of(0, 2))
        .shows(&["the server counts 16 output tokens", "cut it off: raise --osl"]);
    let record = &done.records()[0];
    let message = r#"no content: no chunk has text, reasoning or a tool call; the finish reason is "length", and the server counts 16 output tokens"#;
    assert_eq!(record["error"]["message"], message);
}

#[test]
fn an_answer_that_ends_at_once_is_told_as_such() {
    let server = cycling(vec![vllm_stream(&[], r#""stop""#, 40, 1)]);
    let done = seeded(&server.url())
        .args("--request-count 2 --streaming --isl 40 --osl 16")
        .run()
        .expect_exit(1)
        .shows(&["The model ended answers before it wrote anything.", "min_tokens:N"]);
    let message = done.records()[0]["error"]["message"].to_string();
    assert!(
        message.ends_with(r#"the finish reason is \"stop\"""#),
        "an end token is nothing held back: {message}"
    );
}

#[test]
fn what_a_tool_call_costs_beside_its_text_is_no_other_tokenizer_and_no_early_end() {
    let deltas = [
        r#"{"content":null,"tool_calls":[{"id":"chatcmpl-tool-8e32","type":"function","index":0,"function":{"name":"get_weather"}}]}"#,
        r#"{"content":null,"tool_calls":[{"index":0,"function":{"arguments":"\""}}]}"#,
        r#"{"content":null,"tool_calls":[{"index":0,"function":{"arguments":"Soy"}}]}"#,
        r#"{"content":null,"tool_calls":[{"index":0,"function":{"arguments":" Shosh"}}]}"#,
        r#"{"content":null,"tool_calls":[{"index":0,"function":{"arguments":"\""}}]}"#,
    ];
    let server = cycling(vec![vllm_stream(&deltas, r#""tool_calls""#, 40, 53)]);
    let run = |args: &str| {
        seeded(&server.url()).args("--request-count 4 --streaming").args(args).run().expect_exit(0)
    };
    let done = run("--isl 40 --osl 53").shows(&[
        "In 4 of 4 requests",
        "prompts are counted alike",
        "marks of tool calls",
    ]);
    assert!(!done.stdout.contains("ended before the output length"), "{}", done.stdout);
    assert!(!done.stdout.contains("Check that --tokenizer"), "{}", done.stdout);
    done.has("usage_completion_tokens", "avg", 53.0);
    assert!(done.stat("output_sequence_length", "max") < 20.0);
    run("--isl 40 --osl 80").shows(&["4 of 4 answers (100.0%) ended before the output length asked for"]);
    run("--isl 50 --osl 53").shows(&["Check that --tokenizer is the model's own"]);
}

#[test]
fn choices_side_by_side_are_told() {
    let mut events = vec![
        vllm(0, r#"{"role":"assistant","content":""}"#, "null"),
        vllm(1, r#"{"role":"assistant","content":""}"#, "null"),
    ];
    for word in ["one", " two", " three"] {
        events.extend([0, 1].map(|index| vllm(index, &format!(r#"{{"content":"{word}"}}"#), "null")));
    }
    events.extend([vllm(0, "{}", r#""length""#), vllm(1, "{}", r#""length""#), vllm_usage(40, 6)]);
    let server = cycling(vec![stream(&events).event("[DONE]").end_chunks()]);
    let run = |extra: &str| {
        let args = format!("--request-count 2 --streaming --isl 40 --osl 3 --extra-inputs {extra}");
        seeded(&server.url()).args(&args).run().expect_exit(0)
    };
    let done = run("n:2")
        .shows(&["Answers have 2 choices each (n)", "between two of one choice it is about 2 times as long"]);
    done.has("output_sequence_length", "avg", 6.0);
    assert!(!run("n:1").stdout.contains("choices each"));
}

#[test]
fn an_api_that_does_not_heed_ignore_eos_is_told() {
    // vLLM's /v1/messages passes the field over.
    let answer = |stop: &str, tokens: u64| {
        let body = format!(
            r#"{{"id":"chatcmpl-1","type":"message","role":"assistant","content":[{{"type":"text","text":"Mercy. God has"}}],"model":"smol","stop_reason":"{stop}","usage":{{"input_tokens":40,"output_tokens":{tokens},"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}}}"#
        );
        Reply::json(200, &body)
    };
    let server = cycling(vec![answer("end_turn", 5), answer("max_tokens", 16)]);
    let run = |extra: &str| {
        let args =
            format!("--endpoint-type messages --request-count 4 --isl 40 --osl 16 --extra-inputs {extra}");
        seeded(&server.url()).args(&args).run().expect_exit(0)
    };
    run("ignore_eos:true").shows(&["2 of 4 answers ended before", "this API of the server does not heed it"]);
    assert!(!run("ignore_eos:false").stdout.contains("does not heed"));
}

#[test]
fn a_limit_that_a_server_does_not_heed_is_told() {
    // transformers serve takes max_completion_tokens and passes it over.
    let body = r#"{"id":"1","choices":[{"finish_reason":"stop","index":0,"message":{"content":"one two three four five six","role":"assistant"}}],"created":1,"model":"smol@main","object":"chat.completion","usage":{"completion_tokens":6,"prompt_tokens":40,"total_tokens":46}}"#;
    let server = cycling(vec![Reply::json(200, body)]);
    let run =
        |args: &str| seeded(&server.url()).args("--request-count 2 --isl 40").args(args).run().expect_exit(0);
    let told = "2 of 2 answers are longer than asked for: the server does not heed the limit.";
    run("--osl 3").shows(&[&format!("{told} --use-legacy-max-tokens sends max_tokens")]);
    let legacy = run("--osl 3 --use-legacy-max-tokens").shows(&[told]);
    assert!(!legacy.stdout.contains("--use-legacy-max-tokens sends"), "{}", legacy.stdout);
    for alike in ["--osl 6", "--osl 3 --extra-inputs n:2"] {
        assert!(!run(alike).stdout.contains("longer than asked"), "{alike}");
    }
}

/// The pause between the role and the first text, which took transformers about a second.
const PREFILL: Duration = Duration::from_millis(30);

#[test]
fn a_role_before_prefill_is_no_first_token_and_a_stream_may_end_without_a_mark() {
    let chunk = |delta: &str, rest: &str| {
        format!(
            r#"{{"id":"1","choices":[{{"delta":{delta},{rest}"index":0}}],"created":1,"model":"smol@main","object":"chat.completion.chunk"}}"#
        )
    };
    let end = r#"{"id":"1","choices":[{"delta":{},"finish_reason":"length","index":0}],"created":1,"model":"smol@main","object":"chat.completion.chunk","usage":{"completion_tokens":2,"prompt_tokens":40,"total_tokens":42}}"#;
    let reply = Reply::sse_head()
        .event(&chunk(r#"{"role":"assistant"}"#, ""))
        .pause(PREFILL)
        .event(&chunk(r#"{"content":"one"}"#, ""))
        .event(&chunk(r#"{"content":" two"}"#, ""))
        .event(end)
        .end_chunks();
    let server = cycling(vec![reply]);
    let done = seeded(&server.url())
        .args("--request-count 3 --streaming --isl 40 --osl 2")
        .run()
        .expect_exit(0)
        .ends(Tally::of(3, 0));
    done.has("usage_completion_tokens", "avg", 2.0);
    done.has("output_sequence_length", "avg", 2.0);
    let pause_ms = PREFILL.as_secs_f64() * 1e3;
    for record in done.records() {
        let ms = |tag: &str| record["metrics"][tag]["value"].as_f64().expect("measured");
        assert!(ms("time_to_first_token") >= pause_ms, "{record}");
        assert!(ms("time_to_first_event") <= ms("time_to_first_token"), "{record}");
    }
}

#[test]
fn a_refused_field_is_told_with_the_option_that_sent_it() {
    let body = r#"{"detail":"Unexpected fields in the request: {'ignore_eos', 'min_tokens'}"}"#;
    let server = scripted(vec![Reply::json(422, body)]);
    let done = Run::profile(&server.url())
        .args("--request-count 2 --extra-inputs ignore_eos:true,temperature:0 --extra-inputs min_tokens:4")
        .run()
        .expect_exit(1)
        .ends(Tally::of(0, 2));
    let shown = flat(&done.stdout);
    let advice = "What to try: The server does not know the fields ignore_eos, min_tokens, which --extra-inputs put into the body.";
    assert!(shown.contains(advice), "{shown}");
}
