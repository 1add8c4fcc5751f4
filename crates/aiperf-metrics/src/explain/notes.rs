//! What rows of the table cannot tell, by tag or family. Facts about other tools are read off their sources, in the versions that
//! [`TOOLS`](super::TOOLS) names.

use super::Elsewhere;

/// Whom a note is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum About {
    /// One metric.
    Tag(&'static str),
    /// All whose tag begins so.
    Prefix(&'static str),
}

/// Empty texts and lists of fields say nothing: what is more general holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Note {
    pub about: About,
    pub chunks: &'static str,
    pub requests: &'static str,
    pub aiperf: &'static str,
    /// In the order of [`TOOLS`](super::TOOLS).
    pub elsewhere: [Elsewhere; 3],
}

/// Notes that hold for a tag, the most special first.
pub(super) fn of(tag: &str) -> impl Iterator<Item = &'static Note> {
    let exact = NOTES.iter().filter(move |n| matches!(n.about, About::Tag(t) if t == tag));
    let family = NOTES.iter().filter(move |n| matches!(n.about, About::Prefix(p) if tag.starts_with(p)));
    exact.chain(family)
}

const NO: Elsewhere = Elsewhere { fields: &[], differs: "" };

const fn has(fields: &'static [&'static str], differs: &'static str) -> Elsewhere {
    Elsewhere { fields, differs }
}

const SAME: &str = "The same rule.";
const SUM: &str = "The same rule: a sum over completed requests.";
const BENCH_WINDOW: &str = "Divided by the time from the first task made to the last answer back, failed requests and those in flight at the end included.";
const GUIDE_WINDOW: &str = "A distribution over the time of measurement, without what --warmup and --cooldown cut off, and for completed, incomplete and \
                            errored requests apart.";
const GUIDE_ZERO: &str = "A request without one counts as 0.";

macro_rules! notes {
    ($($about:ident $name:literal; chunks $chunks:expr; requests $requests:expr; aiperf $aiperf:expr; vllm $vllm:expr; sglang $sglang:expr; guidellm $guidellm:expr;)*) => {
        const NOTES: &[Note] = &[$(Note {
            about: About::$about($name),
            chunks: $chunks,
            requests: $requests,
            aiperf: $aiperf,
            elsewhere: [$vllm, $sglang, $guidellm],
        }),*];
    };
}

notes! {
    Tag "time_to_first_token";
        chunks "The first content chunk: text, reasoning or a tool call. An event that only has a role or an empty text is none.";
        requests "";
        aiperf "The same rule. AIPerf stamps where its event loop hands the bytes over; we take the kernel's receive stamp where there is one.";
        vllm has(&["mean_ttft_ms", "median_ttft_ms", "std_ttft_ms", "p99_ttft_ms"],
            "The first event with a choice counts, even one that only has a role or an empty text, so it may be earlier than ours.");
        sglang has(&["mean_ttft_ms", "median_ttft_ms", "std_ttft_ms", "p90_ttft_ms", "p95_ttft_ms", "p99_ttft_ms"],
            "Text and reasoning count, tool calls do not. Without streaming it is the whole latency; ours is absent then.");
        guidellm has(&["time_to_first_token_ms"],
            "From the write of the request's headers, so without connecting: our connection_free_time_to_first_token is nearer. A request without one counts as 0.");
    Tag "scheduled_time_to_first_token";
        chunks "The first content chunk, as for time_to_first_token."; requests ""; aiperf "";
        vllm NO; sglang NO; guidellm NO;
    Tag "connection_free_time_to_first_token";
        chunks "The first content chunk, as for time_to_first_token."; requests ""; aiperf "";
        vllm NO; sglang NO;
        guidellm has(&["time_to_first_token_ms"], "From the write of the request's headers on. A request without one counts as 0.");
    Tag "time_to_second_token";
        chunks "The first and the second content chunk. A chunk may hold several tokens.";
        requests "Completed ones with two content chunks or more.";
        aiperf "The same rule, but AIPerf has two events of one read as 0 apart or nearly so.";
        vllm NO; sglang NO; guidellm NO;
    Tag "time_to_first_output_token";
        chunks "The first content chunk with answer text or a tool call; one with reasoning alone is none."; requests ""; aiperf SAME;
        vllm NO; sglang NO;
        guidellm has(&["time_to_first_output_token_ms"], GUIDE_ZERO);
    Tag "request_latency";
        chunks "The last content chunk, or the body of an answer that is not streamed. Trailing usage events and end markers are none.";
        requests ""; aiperf SAME;
        vllm has(&["mean_e2el_ms", "median_e2el_ms", "std_e2el_ms", "p99_e2el_ms"],
            "Ends at the last event with a choice, which may be an empty one that carries the finish reason.");
        sglang has(&["mean_e2e_latency_ms", "median_e2e_latency_ms", "std_e2e_latency_ms", "p90_e2e_latency_ms", "p95_e2e_latency_ms", "p99_e2e_latency_ms"],
            "Ends at the last line of the stream, usage event and end marker included.");
        guidellm has(&["request_latency"], "In seconds, from the write of the headers to the end of the stream.");
    Tag "scheduled_latency";
        chunks "The last content chunk, as for request_latency.";
        requests "Completed ones that a schedule wanted at an instant.";
        aiperf "AIPerf has no such metric: its effective_latency starts when a place was won, so the wait for it is not in it.";
        vllm has(&["mean_e2el_including_client_queue_ms", "median_e2el_including_client_queue_ms"],
            "Only with a rate and --max-concurrency; from when the request's task was made.");
        sglang NO;
        guidellm has(&["request_scheduled_latency"], "In seconds.");
    Tag "decode_duration";
        chunks "The first and the last content chunk."; requests ""; aiperf SAME;
        vllm NO; sglang NO; guidellm NO;
    Tag "inter_token_latency";
        chunks "The first and the last content chunk; how many lie between does not matter.";
        requests "Completed ones of two tokens or more: one value each, so a long answer weighs as much as a short one.";
        aiperf "AIPerf too divides by tokens − 1, as if the first chunk held one token; with --per-chunk-usage it takes the tokens of the first chunk instead of 1.";
        vllm has(&["mean_tpot_ms", "median_tpot_ms", "std_tpot_ms", "p99_tpot_ms"],
            "Called TPOT there; mean_itl_ms is something else, see inter_chunk_latency. Tokens are the server's count where it sends usage.");
        sglang has(&["mean_tpot_ms", "median_tpot_ms", "std_tpot_ms", "p90_tpot_ms", "p95_tpot_ms", "p99_tpot_ms"],
            "Called TPOT there. Its latency ends with the end marker, and its tokens are the server's count or, without one, the length asked for.");
        guidellm has(&["inter_token_latency_ms"],
            "The same quotient, but weighted by tokens − 1, so long answers weigh more. Its time_per_output_token_ms is latency ÷ tokens, the first one included.");
    Tag "inter_chunk_latency";
        chunks "All content chunks: every gap between two that follow each other.";
        requests "Completed ones with two content chunks or more; gaps of all of them are one sample.";
        aiperf "The same rule, but events of one read are 0 apart in AIPerf, or nearly so.";
        vllm has(&["mean_itl_ms", "median_itl_ms", "std_itl_ms", "p99_itl_ms"],
            "Called ITL there although it is the gap between events, of any number of tokens; events with an empty text count.");
        sglang has(&["mean_itl_ms", "median_itl_ms", "std_itl_ms", "p90_itl_ms", "p95_itl_ms", "p99_itl_ms", "max_itl_ms"],
            "Called ITL there. With speculative decoding and an OpenAI backend each gap is divided by the tokens of its chunk.");
        guidellm NO;
    Tag "output_token_throughput_per_user";
        chunks "As for inter_token_latency."; requests "Completed ones of two tokens or more."; aiperf SAME;
        vllm NO; sglang NO; guidellm NO;
    Tag "e2e_output_token_throughput";
        chunks "The last content chunk."; requests ""; aiperf SAME;
        vllm NO; sglang NO; guidellm NO;
    Tag "prefill_throughput_per_user";
        chunks "The first content chunk."; requests "";
        aiperf "The same rule. The wait in the server's queue is part of it in both.";
        vllm NO; sglang NO; guidellm NO;
    Tag "stream_setup_latency";
        chunks "None: the head of the answer counts."; requests "";
        aiperf "The same rule; AIPerf only shows it with its experimental metrics.";
        vllm NO; sglang NO; guidellm NO;
    Tag "queue_wait";
        chunks "None."; requests ""; aiperf "";
        vllm has(&["mean_client_queue_time_ms", "median_client_queue_time_ms"], "Only with --max-concurrency; completed requests; from when the request's task was made.");
        sglang NO;
        guidellm has(&["request_dispatch_delay"], "In seconds, to the write of the headers: send_lag is nearer.");
    Tag "send_lag";
        chunks "None."; requests ""; aiperf "";
        vllm NO; sglang NO;
        guidellm has(&["request_dispatch_delay"], "In seconds, to the write of the headers; only for strategies with a schedule.");
    Tag "read_lag";
        chunks "Every read of the answer."; requests ""; aiperf "";
        vllm NO; sglang NO; guidellm NO;
    Tag "effective_latency";
        chunks "None: the end of the answer counts, whatever came last."; requests "";
        aiperf "The same rule, but a request that failed by its HTTP status has no end stamp in AIPerf and enters with a length of 0.";
        vllm NO; sglang NO; guidellm NO;
    Tag "credit_to_start_latency";
        chunks "None."; requests ""; aiperf SAME;
        vllm NO; sglang NO; guidellm NO;
    Tag "output_sequence_length";
        chunks "All content chunks: their texts are joined and counted at once, reasoning apart."; requests ""; aiperf SAME;
        vllm has(&["output_lens"], "A list. The server's count where it sends usage, else the text counted again.");
        sglang has(&["output_lens"], "A list. The server's count, or the length asked for where it tells none; failed requests are 0.");
        guidellm has(&["output_token_count"], "The server's count where it sends usage, else the number of events with content.");
    Tag "input_sequence_length";
        chunks "None."; requests "";
        aiperf "AIPerf joins the texts of a request with blanks and counts them without special tokens; ours is what is on the wire, as docs/migrating.md says.";
        vllm has(&["input_lens"], "A list. The length the prompt was made to, replaced by the server's count where it sends usage.");
        sglang has(&["input_lens"], "A list. The length the prompt was made to.");
        guidellm has(&["prompt_token_count"], "The server's count where it sends usage, else the text counted.");
    Tag "output_token_count";
        chunks "All content chunks but for their reasoning."; requests ""; aiperf SAME;
        vllm NO; sglang NO; guidellm NO;
    Tag "reasoning_token_count";
        chunks "The reasoning of all content chunks."; requests ""; aiperf SAME;
        vllm NO; sglang NO; guidellm NO;
    Tag "osl_mismatch_diff_pct"; chunks ""; requests "Completed ones with a length asked for."; aiperf SAME; vllm NO; sglang NO; guidellm NO;
    Tag "osl_mismatch_count"; chunks ""; requests "Completed ones with a length asked for."; aiperf "The same rule, with AIPerf's default limits."; vllm NO; sglang NO; guidellm NO;
    Tag "total_isl"; chunks "None."; requests "Completed ones."; aiperf SUM;
        vllm has(&["total_input_tokens"], "See input_sequence_length.");
        sglang has(&["total_input_tokens", "total_input_text_tokens"], "See input_sequence_length.");
        guidellm NO;
    Tag "total_osl"; chunks "As for output_sequence_length."; requests "Completed ones."; aiperf SUM;
        vllm has(&["total_output_tokens"], "See output_sequence_length.");
        sglang has(&["total_output_tokens", "total_output_tokens_retokenized"], "The second is the text counted again, which is what ours does.");
        guidellm NO;
    Tag "total_output_tokens"; chunks "As for output_token_count."; requests "Completed ones.";
        aiperf SUM; vllm NO; sglang NO; guidellm NO;
    Tag "total_reasoning_tokens"; chunks "As for reasoning_token_count."; requests "Completed ones.";
        aiperf SUM; vllm NO; sglang NO; guidellm NO;
    Tag "request_count"; chunks "None."; requests "Completed ones."; aiperf "AIPerf counts a stream that broke off cleanly, or lost an event, as completed.";
        vllm has(&["completed"], "An answer with any event that has a choice is completed, even without text.");
        sglang has(&["completed"], "An answer with status 200 is completed, even without text.");
        guidellm has(&["request_totals.successful"], "Only those within the time of measurement.");
    Tag "error_request_count"; chunks "None."; requests "Failed and cancelled ones."; aiperf SAME;
        vllm has(&["failed"], "");
        sglang NO;
        guidellm has(&["request_totals.errored", "request_totals.incomplete"], "Those cut off at the end of the run are incomplete.");
    Tag "completed_request_count"; chunks "None."; requests "Completed, failed and cancelled ones."; aiperf SAME;
        vllm NO; sglang NO; guidellm has(&["request_totals.total"], "Only those within the time of measurement.");
    Tag "request_error_rate"; chunks "None."; requests "Completed, failed and cancelled ones."; aiperf SAME;
        vllm NO; sglang NO; guidellm NO;
    Tag "scheduled_request_count"; chunks "None."; requests "All, sent or not."; aiperf ""; vllm NO; sglang NO; guidellm NO;
    Tag "sent_request_count"; chunks "None."; requests "All that were sent."; aiperf ""; vllm NO; sglang NO; guidellm NO;
    Tag "unsent_request_count"; chunks "None."; requests "All that were never sent."; aiperf ""; vllm NO; sglang NO; guidellm NO;
    Tag "cancelled_request_count"; chunks "None."; requests "Cancelled ones."; aiperf ""; vllm NO; sglang NO; guidellm NO;
    Tag "lost_request_count"; chunks "None."; requests "Those of whose end nothing is known."; aiperf ""; vllm NO; sglang NO; guidellm NO;
    Tag "benchmark_duration"; chunks "The last content chunk of all."; requests "Completed ones.";
        aiperf "The same rule. Rates are not divided by it but by the phase's window, in AIPerf as here.";
        vllm has(&["duration"], "From the first task made to the last answer back, failed ones included.");
        sglang has(&["duration"], "From the first task made to the last answer back, failed ones included.");
        guidellm NO;
    Tag "request_throughput"; chunks "None."; requests "Completed ones, over a window that all requests of the phase make."; aiperf SAME;
        vllm has(&["request_throughput"], BENCH_WINDOW);
        sglang has(&["request_throughput"], BENCH_WINDOW);
        guidellm has(&["requests_per_second"], GUIDE_WINDOW);
    Tag "output_token_throughput"; chunks "As for output_sequence_length."; requests "Completed ones; tokens of failed ones do not count."; aiperf SAME;
        vllm has(&["output_throughput"], BENCH_WINDOW);
        sglang has(&["output_throughput", "output_throughput_retokenized"], BENCH_WINDOW);
        guidellm has(&["output_tokens_per_second"], GUIDE_WINDOW);
    Tag "input_token_throughput"; chunks "None."; requests "Completed ones."; aiperf SAME;
        vllm NO;
        sglang has(&["input_throughput"], BENCH_WINDOW);
        guidellm has(&["prompt_tokens_per_second"], GUIDE_WINDOW);
    Tag "total_token_throughput"; chunks "As for output_sequence_length."; requests "Completed ones."; aiperf SAME;
        vllm has(&["total_token_throughput"], BENCH_WINDOW);
        sglang has(&["total_throughput", "total_throughput_retokenized"], BENCH_WINDOW);
        guidellm has(&["tokens_per_second"], GUIDE_WINDOW);

    // What HTTP took.
    Tag "http_req_sending"; chunks "None."; requests ""; aiperf "Begins before connecting, so that it has connecting in it."; vllm NO; sglang NO; guidellm NO;
    Tag "http_req_duration"; chunks "The last read of the answer's body, end marks included."; requests "";
        aiperf "Begins before connecting, so that it has connecting in it."; vllm NO; sglang NO; guidellm NO;
    Tag "http_req_total"; chunks "The last read of the answer's body, end marks included."; requests "";
        aiperf "Adds connecting to a duration that has it already."; vllm NO; sglang NO; guidellm NO;
    Tag "http_req_blocked"; chunks "None."; requests ""; aiperf "Waiting for a place in a pool of connections, of which there is none here."; vllm NO; sglang NO; guidellm NO;
    Prefix "http_req_"; chunks "Reads of the answer's body, whatever is in them."; requests ""; aiperf ""; vllm NO; sglang NO; guidellm NO;
    Prefix "http_wire_"; chunks "All bytes of request and answer, heads included."; requests ""; aiperf ""; vllm NO; sglang NO; guidellm NO;
    Tag "time_to_first_event"; chunks "The first event with data, be it a role and nothing else; end marks and errors are none."; requests ""; aiperf "";
        vllm NO; sglang NO; guidellm NO;

    // Families, and members of them that others have too.
    Tag "usage_prompt_tokens"; chunks ""; requests ""; aiperf "";
        vllm has(&["input_lens"], "A list; the server's count where it sends usage."); sglang NO;
        guidellm has(&["prompt_token_count"], "The server's count where it sends usage.");
    Tag "usage_completion_tokens"; chunks ""; requests ""; aiperf "";
        vllm has(&["output_lens"], "A list; the server's count where it sends usage.");
        sglang has(&["output_lens"], "A list; the server's count where it tells one.");
        guidellm has(&["output_token_count"], "The server's count where it sends usage.");
    Tag "usage_prompt_cache_read_tokens"; chunks ""; requests ""; aiperf "";
        vllm NO; sglang NO; guidellm has(&["cached_tokens"], "Of each request.");
    Tag "total_usage_prompt_cache_read_tokens"; chunks ""; requests ""; aiperf "";
        vllm NO; sglang has(&["total_cached_tokens"], "Only with --cache-report."); guidellm NO;
    Tag "overall_usage_prompt_cache_read_pct"; chunks "The last usage object of each answer."; requests ""; aiperf "";
        vllm NO; sglang has(&["cache_hit_rate_pct"], "Only with --cache-report; rounded to two decimals."); guidellm NO;
    Prefix "usage_"; chunks "The event or body with the last usage object that has any count."; requests ""; aiperf "";
        vllm NO; sglang NO; guidellm NO;
    Prefix "total_usage_"; chunks "The last usage object of each answer."; requests "Completed ones."; aiperf "";
        vllm NO; sglang NO; guidellm NO;
    Tag "goodput"; chunks ""; requests ""; aiperf "";
        vllm has(&["request_goodput"], "Limits on ttft, tpot and e2el alone; an answer of one token has a tpot of 0.");
        sglang has(&["request_goodput"], "Limits on ttft, tpot and e2el alone; an answer of one token has a tpot of 0.");
        guidellm has(&["request_goodput"], GUIDE_WINDOW);
    Tag "good_request_fraction"; chunks ""; requests ""; aiperf "";
        vllm NO; sglang has(&["slo_attainment"], "Good ones ÷ all requests sent.");
        guidellm has(&["slo_attainment"], "Of requests whose limits could all be judged, and errored ones, which are not good.");
    Tag "effective_concurrency"; chunks ""; requests ""; aiperf "";
        vllm has(&["max_concurrent_requests"], "Only the maximum, in whole seconds, of completed requests.");
        sglang has(&["concurrency", "max_concurrent_requests"], "Σ latency ÷ duration of completed requests; the maximum in whole seconds.");
        guidellm has(&["request_concurrency"], GUIDE_WINDOW);
    Tag "effective_decode_throughput"; chunks ""; requests ""; aiperf "";
        vllm has(&["max_output_tokens_per_s"], "Only the maximum, of events in whole seconds.");
        sglang has(&["max_output_tokens_per_s"], "Only the maximum, of events in whole seconds.");
        guidellm NO;
    Tag "spec_decode_token_weighted_acceptance_length"; chunks ""; requests ""; aiperf "";
        vllm has(&["spec_decode_acceptance_length"], "From the server's Prometheus counters, before and after the run.");
        sglang has(&["accept_length"], "From the server's own information after the run.");
        guidellm NO;
    Tag "spec_decode_overall_draft_acceptance_rate"; chunks ""; requests ""; aiperf "";
        vllm has(&["spec_decode_acceptance_rate"], "From the server's Prometheus counters, before and after the run."); sglang NO; guidellm NO;
    Tag "rtfx"; chunks ""; requests ""; aiperf "";
        vllm has(&["rtfx"], "Σ audio ÷ duration of the run, not of each request."); sglang NO; guidellm NO;
}
