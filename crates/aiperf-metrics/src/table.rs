//! The one table of metrics. Columns, headers, units, files, console tables, help and the reference page come from it.
//!
//! Tags, headers, units, flags and rules are AIPerf 0.13's; what is ours has a tag of its own and [`Flags::OURS`].
//! Order: as files without an order of their own list them.

use crate::formulas as rule;
use crate::http;
use crate::over_time::Curve;
use crate::spec::{Compute, ConsoleGroup, Flags, Fold, MetricSpec, Value};
use crate::stream;
use crate::timing;
use crate::unit::Unit;

/// From this lag at p99 on, a replay is no longer the load of its file; AIPerf's limit.
const REPLAY_DEGRADED_MS: f64 = 500.0;

/// `tag, header, short; stored -> display; [flags]; console table and place; rule in words; kind and rule as code`.
macro_rules! metrics {
    ($($tag:literal, $header:literal, $short:literal; $unit:ident -> $display:ident; [$($flag:ident)*];
       $group:ident $order:literal; $formula:literal; $kind:ident $rule:expr;)*) => {
        /// All metrics, in the order files list them.
        pub static METRICS: &[MetricSpec] = &[$(MetricSpec {
            tag: $tag,
            header: $header,
            short: $short,
            unit: Unit::$unit,
            display: Unit::$display,
            flags: Flags::NONE$(.and(Flags::$flag))*,
            group: ConsoleGroup::$group,
            order: $order,
            formula: $formula,
            compute: compute!($kind $rule),
        }),*];
    };
}

macro_rules! compute {
    (int $rule:expr) => {
        Compute::Record(|f| $rule(f).map(Value::Int))
    };
    (real $rule:expr) => {
        Compute::Record(|f| $rule(f).map(Value::Real))
    };
    (list $rule:expr) => {
        Compute::Record(|f| $rule(f).map(Value::List))
    };
    (good $rule:expr) => {
        $rule
    };
    (over_time $curve:expr) => {
        Compute::OverTime($curve)
    };
    (adjusted $tag:expr) => {
        Compute::Adjusted($tag)
    };
    (at_least $rule:expr) => {
        Compute::AtLeast($rule)
    };
    (usage $part:expr) => {
        Compute::Record(|f| rule::usage(f, $part).map(Value::Int))
    };
    (sum $rule:expr) => {
        Compute::Aggregate(Fold::Sum, |f, _| $rule(f))
    };
    (min $rule:expr) => {
        Compute::Aggregate(Fold::Min, $rule)
    };
    (max $rule:expr) => {
        Compute::Aggregate(Fold::Max, $rule)
    };
    (total $tag:expr) => {
        Compute::Derived(|c| c.sum($tag))
    };
    (rtt $rule:expr) => {
        Compute::NetworkRtt
    };
    (less_rtt $tag:expr) => {
        Compute::NetworkAdjusted($tag)
    };
    (derived $rule:expr) => {
        Compute::Derived($rule)
    };
}

metrics! {
    // Latency and pace.
    "time_to_first_token", "Time to First Token", "TTFT"; Nanoseconds -> Milliseconds; [STREAMING TOKENS]; Main 100;
        "Arrival of the first content chunk (text, reasoning or tool call) − request start."; int rule::time_to_first_token;
    "scheduled_time_to_first_token", "Time to First Token from Schedule", "Sched TTFT"; Nanoseconds -> Milliseconds; [STREAMING TOKENS OURS]; Main 102;
        "Arrival of the first content chunk − scheduled send time, so waiting for a place counts; only when there is a schedule."; int timing::scheduled_time_to_first_token;
    "connection_free_time_to_first_token", "Time to First Token without Connecting", "Conn-free TTFT"; Nanoseconds -> Milliseconds; [STREAMING TOKENS OURS]; None 0;
        "time_to_first_token − time that name, TCP and TLS of a fresh connection took; the same as time_to_first_token on a kept one."; int timing::connection_free_time_to_first_token;
    "time_to_second_token", "Time to Second Token", "TTST"; Nanoseconds -> Milliseconds; [STREAMING TOKENS]; Main 200;
        "Arrival of the second content chunk − arrival of the first; chunks, not tokens."; int rule::time_to_second_token;
    "time_to_first_output_token", "Time to First Output Token", "TTFO"; Nanoseconds -> Milliseconds; [STREAMING TOKENS REASONING]; Main 210;
        "Arrival of the first chunk with answer text or a tool call − request start; reasoning alone does not count."; int rule::time_to_first_output_token;
    "request_latency", "Request Latency", "Req Latency"; Nanoseconds -> Milliseconds; []; Main 300;
        "Arrival of the last content chunk − request start; trailing usage and end markers do not count."; int rule::request_latency;
    "scheduled_latency", "Request Latency from Schedule", "Sched Latency"; Nanoseconds -> Milliseconds; [OURS]; Main 302;
        "Arrival of the last content chunk − scheduled send time, so waiting for a place counts; only when there is a schedule."; int rule::scheduled_latency;
    "decode_duration", "Decode Duration", "Decode Duration"; Nanoseconds -> Milliseconds; [STREAMING TOKENS]; Main 350;
        "request_latency − time_to_first_token."; int rule::decode_duration;
    "inter_token_latency", "Inter Token Latency", "ITL"; Nanoseconds -> Milliseconds; [STREAMING TOKENS]; Main 400;
        "decode_duration ÷ (output_sequence_length − 1); needs two tokens. With --per-chunk-usage, − the tokens of the first chunk, as the server counts them."; real rule::inter_token_latency;
    "inter_chunk_latency", "Inter Chunk Latency", "ICL"; Nanoseconds -> Milliseconds; [STREAMING TOKENS]; None 0;
        "Gaps between consecutive content chunks, pooled over all requests."; list rule::inter_chunk_latency;
    "output_token_throughput_per_user", "Output Token Throughput Per User", "Output TPS/User"; TokensPerSecondPerUser -> TokensPerSecondPerUser; [STREAMING TOKENS LARGER_IS_BETTER]; Main 500;
        "1 ÷ inter_token_latency in seconds; absent when that is 0."; real rule::output_token_throughput_per_user;
    "e2e_output_token_throughput", "E2E Output Token Throughput", "E2E Output TPS/User"; TokensPerSecondPerUser -> TokensPerSecondPerUser; [TOKENS LARGER_IS_BETTER]; Main 510;
        "output_sequence_length ÷ request_latency in seconds."; real rule::e2e_output_token_throughput;
    "prefill_throughput_per_user", "Prefill Throughput Per User", "Prefill TPS/User"; TokensPerSecondPerUser -> TokensPerSecondPerUser; [STREAMING TOKENS INPUT LARGER_IS_BETTER]; None 0;
        "input_sequence_length ÷ time_to_first_token in seconds."; real rule::prefill_throughput_per_user;

    // On time, and what is not the server's.
    "stream_setup_latency", "Stream Setup Latency", "Stream Setup"; Nanoseconds -> Milliseconds; [STREAMING]; None 0;
        "Response headers whole − request start."; int timing::stream_setup_latency;
    "stream_prefill_latency", "Stream Prefill Latency", "Stream Prefill"; Nanoseconds -> Milliseconds; [STREAMING TOKENS]; None 0;
        "time_to_first_token − stream_setup_latency."; int rule::stream_prefill_latency;
    "queue_wait", "Queue Wait", "Queue Wait"; Nanoseconds -> Milliseconds; [NO_RECORDS EVERY_OUTCOME OURS]; None 0;
        "Handed to the transport − scheduled send time: waiting for a place, for the prompt or for the client; only when there is a schedule."; int timing::queue_wait;
    "send_lag", "Send Lag", "Send Lag"; Nanoseconds -> Milliseconds; [NO_RECORDS EVERY_OUTCOME OURS]; None 0;
        "First byte of the request out − scheduled send time: queue_wait, and connecting; only when there is a schedule."; int timing::send_lag;
    "read_lag", "Read Lag", "Read Lag"; Nanoseconds -> Milliseconds; [OURS]; None 0;
        "The longest that a part of the answer lay in the kernel before the client read it; chunks are stamped with their arrival, so no latency holds it. Absent where the kernel does not stamp."; int timing::read_lag;
    "credit_to_start_latency", "Credit-to-Start Latency", "Credit-to-Start"; Nanoseconds -> Milliseconds; [NO_RECORDS EVERY_OUTCOME]; None 0;
        "Request start − handed to the transport, which AIPerf calls the credit."; int timing::credit_to_start_latency;
    "effective_latency", "Effective Latency (CO-aware)", "Effective Latency"; Nanoseconds -> Milliseconds; [NO_RECORDS EVERY_OUTCOME]; Effective 100;
        "Request end (trailing usage and end markers included) − handed to the transport. The wait for a place is before that: scheduled_latency has it."; int timing::effective_latency;

    // How even the stream was.
    "time_to_first_event", "Time to First Event", "TT First Event"; Nanoseconds -> Milliseconds; [STREAMING OURS]; None 0;
        "Arrival of the first event with data − request start, be there content in it or only a role."; int stream::time_to_first_event;
    "inter_token_gap", "Inter Token Gap", "Token Gap"; Nanoseconds -> Milliseconds; [STREAMING TOKENS OURS]; Main 402;
        "Time of each token behind the one before it: the tokens of a chunk share the wait for it, and chunks of one read are one. Of a sample: the first 256 requests and one in 16 of the others, pooled; absent with server token counts."; list stream::inter_token_gap;
    "longest_gap", "Longest Gap", "Longest Gap"; Nanoseconds -> Milliseconds; [STREAMING TOKENS OURS]; Main 404;
        "The longest gap between two content chunks of a request."; int stream::longest_gap;
    "stall_count", "Stalls", "Stalls"; Count -> Count; [STREAMING TOKENS OURS]; Main 406;
        "Gaps of a request that are over 5 times its median gap and over 50 ms; chunks that came together have no gap between them."; int stream::stall_count;
    "tokens_per_chunk", "Tokens per Chunk", "Tokens/Chunk"; Ratio -> Ratio; [STREAMING TOKENS OURS]; None 0;
        "output_sequence_length ÷ content chunks."; real stream::tokens_per_chunk;
    "chunk_coalescing_ratio", "Chunk Coalescing Ratio", "Coalescing"; Ratio -> Ratio; [STREAMING TOKENS OURS]; None 0;
        "Share of the content chunks behind the first that came with the one before them, in one read."; real stream::chunk_coalescing_ratio;

    // What HTTP took: k6's names. Of completed requests.
    "http_req_blocked", "HTTP Blocked", "Blocked"; Nanoseconds -> Milliseconds; []; HttpTrace 2000;
        "Waiting for a connection that another request was opening; only HTTP/2 has such a wait, else 0."; int http::blocked;
    "http_req_dns_lookup", "HTTP DNS Lookup", "DNS"; Nanoseconds -> Milliseconds; []; HttpTrace 2010;
        "Looking the server's name up; 0 when it was known, on a kept connection, and for an address."; int http::dns_lookup;
    "http_req_connecting", "HTTP Connecting", "Connecting"; Nanoseconds -> Milliseconds; []; HttpTrace 2020;
        "TCP and TLS handshakes; 0 on a kept connection."; int http::connecting;
    "http_req_tcp", "HTTP TCP Handshake", "TCP"; Nanoseconds -> Milliseconds; [OURS]; HttpTrace 2022;
        "TCP handshake, and a proxy's tunnel; 0 on a kept connection."; int http::tcp;
    "http_req_tls", "HTTP TLS Handshake", "TLS"; Nanoseconds -> Milliseconds; [OURS]; HttpTrace 2024;
        "TLS handshake; 0 on a kept connection and without TLS."; int http::tls;
    "http_req_sending", "HTTP Sending", "Sending"; Nanoseconds -> Milliseconds; []; HttpTrace 2030;
        "Last byte of the request out − first byte out; connecting is before that."; int http::sending;
    "http_req_waiting", "HTTP Waiting (TTFB)", "TTFB"; Nanoseconds -> Milliseconds; []; HttpTrace 2040;
        "First byte of the answer's body − last byte of the request out; 0 when it came earlier."; int http::waiting;
    "http_req_receiving", "HTTP Receiving", "Receiving"; Nanoseconds -> Milliseconds; []; HttpTrace 2050;
        "Last byte of the answer's body − its first; 0 when one read brought all."; int http::receiving;
    "http_req_connection_reused", "HTTP Connection Reused", "Conn Reused"; Ratio -> Ratio; []; HttpTrace 2060;
        "1 on a kept connection or on one that another request opened, 0 on one of its own making."; int http::connection_reused;
    "http_req_data_sent", "HTTP Data Sent", "Sent"; Bytes -> Kilobytes; []; HttpTrace 2070;
        "Bytes of the request's body."; int http::data_sent;
    "http_req_chunks_sent", "HTTP Chunks Sent", "Chunks Sent"; Count -> Count; []; HttpTrace 2080;
        "Writes in which the request went out; with HTTP/2 those with something of its body."; int http::chunks_sent;
    "http_req_data_received", "HTTP Data Received", "Received"; Bytes -> Kilobytes; []; HttpTrace 2090;
        "Bytes of the answer's body, transfer coding removed."; int http::data_received;
    "http_req_chunks_received", "HTTP Chunks Received", "Chunks Recv"; Count -> Count; []; HttpTrace 2100;
        "Reads that brought something of the answer's body."; int http::chunks_received;
    "http_wire_bytes_sent", "HTTP Wire Bytes Sent", "Wire Sent"; Bytes -> Kilobytes; [OURS]; HttpTrace 2102;
        "Bytes of the request with its head; with HTTP/2 those of its frames."; int http::wire_sent;
    "http_wire_bytes_received", "HTTP Wire Bytes Received", "Wire Recv"; Bytes -> Kilobytes; [OURS]; HttpTrace 2104;
        "Bytes of the answer with its head and transfer coding; with HTTP/2 those of its frames."; int http::wire_received;
    "http_req_connection_overhead", "HTTP Connection Overhead", "Conn Overhead"; Nanoseconds -> Milliseconds; []; HttpTrace 2110;
        "http_req_blocked + http_req_dns_lookup + http_req_connecting."; int http::connection_overhead;
    "http_req_duration", "HTTP Duration (excl. conn)", "Dur (excl)"; Nanoseconds -> Milliseconds; []; HttpTrace 2120;
        "Last byte of the answer's body − first byte of the request out."; int http::duration;
    "http_req_total", "HTTP Total Time", "Total"; Nanoseconds -> Milliseconds; []; HttpTrace 2130;
        "Last byte of the answer's body − request start."; int http::total;
    "time_to_response_headers", "Time to Response Headers", "TT Headers"; Nanoseconds -> Milliseconds; [OURS]; None 0;
        "Response headers whole − request start, streamed or not."; int timing::stream_setup_latency;

    // Without the way to the server and back.
    "network_adjusted_time_to_first_token", "Network-Adjusted Time to First Token", "Net-Adj TTFT"; Nanoseconds -> Milliseconds; [STREAMING TOKENS]; Main 101;
        "time_to_first_token − network_rtt of each request, not below 0."; less_rtt "time_to_first_token";
    "network_adjusted_time_to_first_output_token", "Network-Adjusted Time to First Output Token", "Net-Adj TTFO"; Nanoseconds -> Milliseconds; [STREAMING TOKENS REASONING]; Main 211;
        "time_to_first_output_token − network_rtt of each request, not below 0."; less_rtt "time_to_first_output_token";
    "network_adjusted_request_latency", "Network-Adjusted Request Latency", "Net-Adj Req Latency"; Nanoseconds -> Milliseconds; []; Main 301;
        "request_latency − network_rtt of each request, not below 0."; less_rtt "request_latency";
    "network_rtt", "Network RTT", "Net RTT"; Nanoseconds -> Milliseconds; []; Main 305;
        "Mean time that opening a TCP connection to the servers took beside the run, or what --network-latency-mean says."; rtt ();

    // Lengths.
    "output_sequence_length", "Output Sequence Length", "OSL"; Tokens -> Tokens; [TOKENS LARGER_IS_BETTER]; Main 600;
        "Answer tokens + reasoning tokens of a completed request; absent when there are none."; int rule::output_sequence_length;
    "input_sequence_length", "Input Sequence Length", "ISL"; Tokens -> Tokens; [INPUT LARGER_IS_BETTER]; Main 700;
        "Prompt tokens of a completed request as sent: rendered with --apply-chat-template, else the sum over its texts, BOS counted where completions send it."; int |f: &crate::Facts| f.isl;
    "asked_input_length", "Asked Input Length", "Asked ISL"; Tokens -> Tokens; [INPUT LARGER_IS_BETTER OURS]; None 0;
        "Input length asked for: of the whole request, or of a later turn's own part; only for prompts made to a length."; int |f: &crate::Facts| f.asked_isl;
    "output_token_count", "Output Token Count", "Output Tokens"; Tokens -> Tokens; [TOKENS LARGER_IS_BETTER]; None 0;
        "Answer tokens without reasoning; absent when there are none."; int rule::output_token_count;
    "reasoning_token_count", "Reasoning Token Count", "Reasoning Tokens"; Tokens -> Tokens; [TOKENS LARGER_IS_BETTER REASONING]; None 0;
        "Tokens of the reasoning channel."; int |f: &crate::Facts| f.reasoning_tokens;
    "thinking_efficiency", "Thinking Efficiency", "Thinking Efficiency"; Ratio -> Ratio; [TOKENS REASONING]; None 0;
        "reasoning_token_count ÷ output_token_count."; real rule::thinking_efficiency;
    "overall_thinking_efficiency", "Overall Thinking Efficiency", "Overall Eff."; Ratio -> Ratio; [TOKENS REASONING]; None 0;
        "total_reasoning_tokens ÷ total_output_tokens."; derived |c| Some(c.sum("reasoning_token_count")? / c.sum("output_token_count")?);
    "requested_osl", "Requested OSL", "Req OSL"; Tokens -> Tokens; [TOKENS INTERNAL]; None 0;
        "Output limit sent with the request."; int |f: &crate::Facts| f.requested_osl;
    "osl_mismatch_diff_pct", "OSL Mismatch Diff %", "OSL Diff"; Percent -> Percent; [TOKENS]; None 0;
        "100 · (output_sequence_length − requested_osl) ÷ requested_osl; negative when the answer is short."; real rule::osl_mismatch_diff_pct;
    "osl_mismatch_count", "OSL Mismatch Count", "OSL Mismatches"; Requests -> Requests; [TOKENS NO_RECORDS]; None 0;
        "Requests whose output_sequence_length misses requested_osl by more than min(5 %, 50 tokens)."; sum rule::osl_mismatch;
    "total_isl", "Total Input Sequence Length", "Total ISL"; Tokens -> Tokens; [INPUT LARGER_IS_BETTER]; None 0;
        "Σ input_sequence_length."; total "input_sequence_length";
    "total_osl", "Total Output Sequence Length", "Total OSL"; Tokens -> Tokens; [TOKENS LARGER_IS_BETTER]; None 0;
        "Σ output_sequence_length."; total "output_sequence_length";
    "total_output_tokens", "Total Output Tokens", "Total Output"; Tokens -> Tokens; [TOKENS LARGER_IS_BETTER]; None 0;
        "Σ output_token_count."; total "output_token_count";
    "total_reasoning_tokens", "Total Reasoning Tokens", "Total Reasoning"; Tokens -> Tokens; [TOKENS LARGER_IS_BETTER]; None 0;
        "Σ reasoning_token_count."; total "reasoning_token_count";
    "error_isl", "Error Input Sequence Length", "Error ISL"; Tokens -> Tokens; [INPUT LARGER_IS_BETTER ERROR_ONLY]; None 700;
        "Prompt tokens of a failed or cancelled request."; int |f: &crate::Facts| f.isl;
    "total_error_isl", "Total Error Input Sequence Length", "Total Error ISL"; Tokens -> Tokens; [INPUT LARGER_IS_BETTER ERROR_ONLY]; None 0;
        "Σ error_isl."; total "error_isl";

    // Counts, rates and the window.
    "request_count", "Request Count", "Requests"; Requests -> Requests; [LARGER_IS_BETTER NO_RECORDS]; Main 1100;
        "Completed requests: a whole answer with content."; derived |c| Some(c.tally()).filter(|t| t.ended() > 0).map(|t| t.completed as f64);
    "error_request_count", "Error Request Count", "Error Count"; Requests -> Requests; [ERROR_ONLY NO_RECORDS]; Main 0;
        "Failed + cancelled requests, as AIPerf counts errors; absent when there are none."; derived |c| Some(c.tally().errors()).filter(|n| *n > 0).map(|n| n as f64);
    "context_overflow_count", "Context Overflow Count", "Ctx Overflow"; Requests -> Requests; [ERROR_ONLY NO_RECORDS]; None 0;
        "Failed requests whose error says that the context is too long: it names a context length, a maximum context or a prompt that is too long."; sum |f: &crate::Facts| Some(u64::from(f.context_overflow));
    "aborted_session_count", "Aborted Sessions", "Aborted"; Count -> Count; [ERROR_ONLY NO_RECORDS OURS]; None 0;
        "Sessions that ended with a failed turn before their last one (--on-turn-error abort-session)."; sum |f: &crate::Facts| (f.abandoned_turns > 0).then_some(1);
    "abandoned_turn_count", "Abandoned Turns", "Abandoned"; Requests -> Requests; [ERROR_ONLY NO_RECORDS OURS]; None 0;
        "Turns of such sessions that were not sent; they are no scheduled requests."; sum |f: &crate::Facts| (f.abandoned_turns > 0).then_some(u64::from(f.abandoned_turns));
    "completed_request_count", "Completed Requests (Success + Error)", "Completed"; Requests -> Requests; [NO_RECORDS]; Main 1075;
        "request_count + error_request_count: requests that came to an end."; derived |c| Some(c.tally().ended()).filter(|n| *n > 0).map(|n| n as f64);
    "request_error_rate", "Request Error Rate", "Err %"; Percent -> Percent; [NO_RECORDS]; Main 1080;
        "100 · error_request_count ÷ completed_request_count."; derived |c| Some(100.0 * c.tally().errors() as f64 / c.tally().ended() as f64);
    "scheduled_request_count", "Scheduled Requests", "Scheduled"; Requests -> Requests; [NO_RECORDS OURS]; None 0;
        "Requests the schedule asked for: sent + unsent."; derived |c| Some(c.tally().scheduled as f64);
    "sent_request_count", "Sent Requests", "Sent"; Requests -> Requests; [NO_RECORDS OURS]; None 0;
        "Requests handed to the wire: completed + failed + cancelled + lost."; derived |c| Some(c.tally().sent as f64);
    "unsent_request_count", "Unsent Requests", "Unsent"; Requests -> Requests; [NO_RECORDS OURS]; None 0;
        "Scheduled and never sent."; derived |c| Some(c.tally().unsent as f64);
    "failed_request_count", "Failed Requests", "Failed"; Requests -> Requests; [NO_RECORDS OURS]; None 0;
        "Sent and not answered as they should be; error_request_count counts the cancelled ones too."; derived |c| Some(c.tally().failed as f64);
    "cancelled_request_count", "Cancelled Requests", "Cancelled"; Requests -> Requests; [NO_RECORDS OURS]; None 0;
        "Dropped by us on purpose; error_request_count counts them too."; derived |c| Some(c.tally().cancelled as f64);
    "lost_request_count", "Lost Requests", "Lost"; Requests -> Requests; [NO_RECORDS OURS]; None 0;
        "Sent, and nothing is known of their end."; derived |c| Some(c.tally().lost as f64);
    "min_request_timestamp", "Minimum Request Timestamp", "Min Req"; Nanoseconds -> Nanoseconds; [NO_RECORDS INTERNAL]; None 0;
        "Earliest start of a completed request, wall clock."; min |f, anchor| Some(anchor.wall(f.start_ns));
    "max_response_timestamp", "Maximum Response Timestamp", "Max Resp"; Nanoseconds -> Nanoseconds; [NO_RECORDS INTERNAL]; None 0;
        "Latest last content chunk of a completed request, wall clock."; max |f, anchor| Some(anchor.wall(f.start_ns + rule::request_latency(f)?));
    "benchmark_duration", "Benchmark Duration", "Duration"; Nanoseconds -> Seconds; []; None 0;
        "max_response_timestamp − min_request_timestamp; of several profiling phases the sum of their windows."; derived |c| c.benchmark_duration_ns().map(|ns| ns as f64);
    "request_throughput", "Request Throughput", "Req/sec"; RequestsPerSecond -> RequestsPerSecond; [LARGER_IS_BETTER]; Main 900;
        "request_count ÷ phase window (start of the phase until its last request in flight is back; of several profiling phases their sum)."; derived |c| c.rate(Some(c.tally().completed as f64).filter(|_| c.tally().ended() > 0));
    "output_token_throughput", "Output Token Throughput", "Output TPS"; TokensPerSecond -> TokensPerSecond; [TOKENS LARGER_IS_BETTER]; Main 800;
        "total_osl ÷ phase window."; derived |c| c.rate(c.sum("output_sequence_length"));
    "num_images", "Number of Images", "Num Images"; Images -> Images; []; None 0;
        "Images of the request, those of the turns before it that are sent again too; only where there are any."; int rule::num_images;
    "image_throughput", "Image Throughput", "Image Throughput"; ImagesPerSecond -> ImagesPerSecond; []; Main 860;
        "num_images ÷ request_latency in seconds."; real rule::image_throughput;
    "image_latency", "Image Latency", "Image Latency"; MillisecondsPerImage -> MillisecondsPerImage; []; Main 861;
        "request_latency ÷ num_images."; real rule::image_latency;
    "audio_duration", "Audio Duration", "Audio Dur"; Seconds -> Seconds; []; None 0;
        "Length of the request's audio, that of the turns before it that is sent again too; only where there is any, and all of it says how long it plays."; real rule::audio_duration;
    "rtfx", "Inverse Real-Time Factor (RTFx)", "RTFx"; Ratio -> Ratio; [LARGER_IS_BETTER]; Main 850;
        "audio_duration ÷ request_latency: how many times faster than it plays audio is written down."; real rule::rtfx;
    "input_token_throughput", "Input Token Throughput", "Input TPS"; TokensPerSecond -> TokensPerSecond; [LARGER_IS_BETTER]; Main 805;
        "total_isl ÷ phase window."; derived |c| c.rate(c.sum("input_sequence_length"));
    "total_token_throughput", "Total Token Throughput", "Total TPS"; TokensPerSecond -> TokensPerSecond; [TOKENS LARGER_IS_BETTER]; None 0;
        "(total_isl + total_osl) ÷ phase window."; derived |c| c.rate(Some(c.sum("input_sequence_length")? + c.sum("output_sequence_length")?));

    // What the server counted: the last usage object of the answer that has any count.
    "usage_prompt_tokens", "Usage Prompt Tokens", "Usage Prompt"; Tokens -> Tokens; [INPUT LARGER_IS_BETTER]; Usage 1000;
        "Prompt tokens as the server counts them, cache hits included."; usage |u| u.prompt_tokens;
    "usage_prompt_cache_read_tokens", "Usage Prompt Cache Read Tokens", "Usage Prompt Cache Read"; Tokens -> Tokens; [LARGER_IS_BETTER]; Usage 1010;
        "Prompt tokens the server took from its cache."; usage |u| u.cached_tokens;
    "usage_prompt_cache_write_tokens", "Usage Prompt Cache Write Tokens", "Usage Prompt Cache Write"; Tokens -> Tokens; []; Usage 1015;
        "Prompt tokens the server put into its cache."; usage |u| u.cache_write_tokens;
    "usage_prompt_cache_miss_tokens", "Usage Prompt Cache Miss Tokens", "Usage Prompt Cache Miss"; Tokens -> Tokens; []; Usage 1017;
        "Prompt tokens that were not in the server's cache, as it says; of servers whose prompt count leaves the cache out, that count."; usage |u| u.cache_miss_tokens;
    "usage_prompt_audio_tokens", "Usage Prompt Audio Tokens", "Usage Prompt Audio"; Tokens -> Tokens; [LARGER_IS_BETTER]; Usage 1020;
        "Prompt tokens that are audio, as the server counts them."; usage |u| u.prompt_audio_tokens;
    "usage_tool_use_prompt_tokens", "Usage Tool Use Prompt Tokens", "Usage Tool Prompt"; Tokens -> Tokens; []; Usage 1030;
        "Prompt tokens of tools, as the server counts them."; usage |u| u.tool_use_prompt_tokens;
    "usage_prompt_audio_seconds", "Usage Prompt Audio Seconds", "Usage Prompt Audio Sec"; Seconds -> Seconds; [LARGER_IS_BETTER]; Usage 1040;
        "Length of the prompt's audio as the server measures it."; real |f: &crate::Facts| f.usage?.prompt_audio_seconds;
    "usage_completion_tokens", "Usage Completion Tokens", "Usage Completion"; Tokens -> Tokens; [TOKENS LARGER_IS_BETTER]; Usage 1100;
        "Completion tokens as the server counts them, reasoning included."; usage |u| u.completion_tokens;
    "usage_reasoning_tokens", "Usage Reasoning Tokens", "Usage Reasoning"; Tokens -> Tokens; [TOKENS LARGER_IS_BETTER]; Usage 1110;
        "Reasoning tokens as the server counts them."; usage |u| u.reasoning_tokens;
    "usage_completion_audio_tokens", "Usage Completion Audio Tokens", "Usage Completion Audio"; Tokens -> Tokens; [TOKENS LARGER_IS_BETTER]; Usage 1120;
        "Completion tokens that are audio, as the server counts them."; usage |u| u.completion_audio_tokens;
    "usage_accepted_prediction_tokens", "Usage Accepted Prediction Tokens", "Usage Accepted Pred"; Tokens -> Tokens; [TOKENS LARGER_IS_BETTER]; Usage 1130;
        "Tokens of the predicted output that the answer has, as the server counts them."; usage |u| u.accepted_prediction_tokens;
    "usage_rejected_prediction_tokens", "Usage Rejected Prediction Tokens", "Usage Rejected Pred"; Tokens -> Tokens; [TOKENS]; Usage 1140;
        "Tokens of the predicted output that the answer does not have, as the server counts them."; usage |u| u.rejected_prediction_tokens;
    "usage_total_tokens", "Usage Total Tokens", "Usage Total"; Tokens -> Tokens; [TOKENS LARGER_IS_BETTER]; Usage 1200;
        "The server's own total."; usage |u| u.total_tokens;
    "usage_prompt_tokens_diff_pct", "Usage Prompt Diff %", "Prompt Diff"; Percent -> Percent; [INPUT USAGE_DIFF]; None 0;
        "100 · abs(usage_prompt_tokens − input_sequence_length) ÷ input_sequence_length."; real rule::usage_prompt_diff_pct;
    "usage_completion_tokens_diff_pct", "Usage Completion Diff %", "Completion Diff"; Percent -> Percent; [TOKENS USAGE_DIFF]; None 0;
        "100 · abs(usage_completion_tokens − output_sequence_length) ÷ output_sequence_length."; real rule::usage_completion_diff_pct;
    "usage_reasoning_tokens_diff_pct", "Usage Reasoning Diff %", "Reasoning Diff"; Percent -> Percent; [TOKENS REASONING USAGE_DIFF]; None 0;
        "100 · abs(usage_reasoning_tokens − reasoning_token_count) ÷ reasoning_token_count."; real rule::usage_reasoning_diff_pct;
    "usage_discrepancy_count", "Usage Discrepancy Count", "Discrepancies"; Requests -> Requests; [NO_RECORDS USAGE_DIFF]; None 0;
        "Requests in which one of the three differences is over 10 %."; sum rule::usage_discrepancy;
    "total_usage_prompt_tokens", "Total Usage Prompt Tokens", "Total Usage Prompt"; Tokens -> Tokens; [INPUT LARGER_IS_BETTER]; Usage 2000;
        "Σ usage_prompt_tokens."; total "usage_prompt_tokens";
    "total_usage_prompt_cache_read_tokens", "Total Usage Prompt Cache Read Tokens", "Total Usage Prompt Cache Read"; Tokens -> Tokens; [LARGER_IS_BETTER]; Usage 2010;
        "Σ usage_prompt_cache_read_tokens."; total "usage_prompt_cache_read_tokens";
    "overall_usage_prompt_cache_read_pct", "Overall Usage Prompt Cache Read %", "Overall Cache Read %"; Percent -> Percent; [LARGER_IS_BETTER]; Usage 2012;
        "100 · Σ usage_prompt_cache_read_tokens ÷ Σ usage_prompt_tokens."; derived |c| Some(100.0 * c.sum("usage_prompt_cache_read_tokens")? / c.sum("usage_prompt_tokens")?);
    "total_usage_prompt_cache_write_tokens", "Total Usage Prompt Cache Write Tokens", "Total Usage Prompt Cache Write"; Tokens -> Tokens; []; Usage 2015;
        "Σ usage_prompt_cache_write_tokens."; total "usage_prompt_cache_write_tokens";
    "total_usage_prompt_cache_miss_tokens", "Total Usage Prompt Cache Miss Tokens", "Total Usage Prompt Cache Miss"; Tokens -> Tokens; []; Usage 2017;
        "Σ usage_prompt_cache_miss_tokens."; total "usage_prompt_cache_miss_tokens";
    "total_usage_prompt_audio_tokens", "Total Usage Prompt Audio Tokens", "Total Usage Prompt Audio"; Tokens -> Tokens; [LARGER_IS_BETTER]; Usage 2020;
        "Σ usage_prompt_audio_tokens."; total "usage_prompt_audio_tokens";
    "total_usage_tool_use_prompt_tokens", "Total Usage Tool Use Prompt Tokens", "Total Usage Tool Prompt"; Tokens -> Tokens; []; Usage 2030;
        "Σ usage_tool_use_prompt_tokens."; total "usage_tool_use_prompt_tokens";
    "total_usage_prompt_audio_seconds", "Total Usage Prompt Audio Seconds", "Total Usage Prompt Audio Sec"; Seconds -> Seconds; [LARGER_IS_BETTER]; Usage 2040;
        "Σ usage_prompt_audio_seconds."; total "usage_prompt_audio_seconds";
    "total_usage_completion_tokens", "Total Usage Completion Tokens", "Total Usage Completion"; Tokens -> Tokens; [TOKENS LARGER_IS_BETTER]; Usage 2100;
        "Σ usage_completion_tokens."; total "usage_completion_tokens";
    "total_usage_reasoning_tokens", "Total Usage Reasoning Tokens", "Total Usage Reasoning"; Tokens -> Tokens; [TOKENS LARGER_IS_BETTER]; Usage 2110;
        "Σ usage_reasoning_tokens."; total "usage_reasoning_tokens";
    "total_usage_completion_audio_tokens", "Total Usage Completion Audio Tokens", "Total Usage Comp Audio"; Tokens -> Tokens; [TOKENS LARGER_IS_BETTER]; Usage 2120;
        "Σ usage_completion_audio_tokens."; total "usage_completion_audio_tokens";
    "total_usage_accepted_prediction_tokens", "Total Usage Accepted Prediction Tokens", "Total Usage Accepted Pred"; Tokens -> Tokens; [TOKENS LARGER_IS_BETTER]; Usage 2130;
        "Σ usage_accepted_prediction_tokens."; total "usage_accepted_prediction_tokens";
    "total_usage_rejected_prediction_tokens", "Total Usage Rejected Prediction Tokens", "Total Usage Rejected Pred"; Tokens -> Tokens; [TOKENS]; Usage 2140;
        "Σ usage_rejected_prediction_tokens."; total "usage_rejected_prediction_tokens";
    "total_usage_total_tokens", "Total Usage Total Tokens", "Total Usage Total"; Tokens -> Tokens; [TOKENS LARGER_IS_BETTER]; Usage 2200;
        "Σ usage_total_tokens."; total "usage_total_tokens";

    // What the server tells of speculative decoding, where it does.
    "spec_decode_acceptance_length", "Acceptance Length", "Acceptance Length"; Ratio -> Ratio; [LARGER_IS_BETTER]; SpecDecode 5000;
        "Mean tokens of a verify step, as the server says: 1 + accepted ÷ steps."; real |f: &crate::Facts| rule::spec(f, |s| Some(s.mean_acceptance_length));
    "spec_decode_draft_acceptance_rate", "Draft Acceptance Rate", "Draft Accept Rate"; Percent -> Percent; [LARGER_IS_BETTER]; SpecDecode 5020;
        "100 · accepted ÷ proposed draft tokens, as the server says."; real |f: &crate::Facts| rule::spec(f, |s| Some(100.0 * s.draft_acceptance_rate));
    "spec_decode_accepted_per_verified", "Accepted per Verified", "Accepted / Verified"; Ratio -> Ratio; [LARGER_IS_BETTER]; SpecDecode 5030;
        "(spec_decode_accepted_draft_tokens + spec_decode_steps) ÷ (spec_decode_draft_tokens + spec_decode_steps)."; real |f: &crate::Facts| rule::spec(f, rule::accepted_per_verified);
    "spec_decode_steps", "Spec Decode Steps", "Spec Decode Steps"; Count -> Count; []; SpecDecode 5040;
        "Verify steps, as the server counts them."; int |f: &crate::Facts| rule::spec(f, |s| Some(s.steps));
    "spec_decode_accepted_draft_tokens", "Accepted Draft Tokens", "Accepted Draft"; Tokens -> Tokens; []; None 5050;
        "Draft tokens that were accepted, as the server counts them."; int |f: &crate::Facts| rule::spec(f, |s| Some(s.accepted));
    "spec_decode_draft_tokens", "Draft Tokens", "Draft Tokens"; Tokens -> Tokens; []; None 5060;
        "Draft tokens that were proposed, as the server counts them."; int |f: &crate::Facts| rule::spec(f, |s| Some(s.drafted));
    "total_spec_decode_steps", "Total Spec Decode Steps", "Total Spec Decode Steps"; Count -> Count; []; None 5140;
        "Σ spec_decode_steps."; total "spec_decode_steps";
    "total_accepted_draft_tokens", "Total Accepted Draft Tokens", "Total Accepted Draft"; Tokens -> Tokens; []; None 5150;
        "Σ spec_decode_accepted_draft_tokens."; total "spec_decode_accepted_draft_tokens";
    "total_draft_tokens", "Total Draft Tokens", "Total Draft"; Tokens -> Tokens; []; None 5160;
        "Σ spec_decode_draft_tokens."; total "spec_decode_draft_tokens";
    "spec_decode_token_weighted_acceptance_length", "Token-Weighted Acceptance Length", "Token-Wtd Accept Len"; Ratio -> Ratio; [LARGER_IS_BETTER]; SpecDecode 5010;
        "1 + total_accepted_draft_tokens ÷ total_spec_decode_steps."; derived |c| Some(1.0 + c.sum("spec_decode_accepted_draft_tokens")? / c.sum("spec_decode_steps")?);
    "spec_decode_overall_draft_acceptance_rate", "Overall Draft Acceptance Rate", "Overall Draft Accept Rate"; Percent -> Percent; [LARGER_IS_BETTER]; SpecDecode 5025;
        "100 · total_accepted_draft_tokens ÷ total_draft_tokens."; derived |c| Some(100.0 * c.sum("spec_decode_accepted_draft_tokens")? / c.sum("spec_decode_draft_tokens")?);

    // Over time. The place in the console is AIPerf's.
    "effective_concurrency", "Effective Concurrency", "Effective Concurrency"; Requests -> Requests; [NO_RECORDS]; Effective 10;
        "Requests in flight, over the phase window; each from its start to its end, failed ones too."; over_time Curve::Concurrency;
    "effective_decode_throughput", "Effective Decode Throughput", "Effective Decode Throughput"; TokensPerSecond -> TokensPerSecond; [STREAMING TOKENS NO_RECORDS]; Effective 20;
        "Answer tokens but the first of each completed request, spread over the gaps between its chunks, or evenly from first content to end (decode_curve tells which), over the phase window."; over_time Curve::Decode;
    "effective_prefill_throughput", "Effective Prefill Throughput", "Effective Prefill Throughput"; TokensPerSecond -> TokensPerSecond; [STREAMING TOKENS INPUT NO_RECORDS]; Effective 30;
        "Prompt tokens of completed requests, each spread evenly from start to first content, over the phase window."; over_time Curve::Prefill;
    "effective_decode_concurrency", "Effective Decode Concurrency", "Effective Decode Concurrency"; Requests -> Requests; [STREAMING TOKENS NO_RECORDS]; Effective 40;
        "Completed requests between first content and end, over the phase window."; over_time Curve::DecodeConcurrency;
    "effective_prefill_concurrency", "Effective Prefill Concurrency", "Effective Prefill Concurrency"; Requests -> Requests; [STREAMING TOKENS NO_RECORDS]; Effective 50;
        "Completed requests between start and first content, over the phase window."; over_time Curve::PrefillConcurrency;
    "effective_total_throughput", "Effective Total Throughput", "Effective Total Throughput"; TokensPerSecond -> TokensPerSecond; [STREAMING TOKENS INPUT NO_RECORDS]; Effective 60;
        "Prompt and answer tokens but the first, each spread evenly, over the phase window."; over_time Curve::Total;
    "effective_decode_throughput_per_user", "Effective Decode Throughput Per User", "Effective Decode Throughput Per User"; TokensPerSecondPerUser -> TokensPerSecondPerUser; [STREAMING TOKENS NO_RECORDS]; Effective 70;
        "Decode throughput ÷ requests in decode, 0 without any, over the phase window."; over_time Curve::DecodePerUser;
    "effective_prefill_throughput_per_user", "Effective Prefill Throughput Per User", "Effective Prefill Throughput Per User"; TokensPerSecondPerUser -> TokensPerSecondPerUser; [STREAMING TOKENS INPUT NO_RECORDS]; Effective 80;
        "Prefill throughput ÷ requests in prefill, 0 without any, over the phase window."; over_time Curve::PrefillPerUser;
    "tokens_in_flight", "Tokens In Flight", "Tokens In Flight"; Tokens -> Tokens; [STREAMING TOKENS INPUT NO_RECORDS]; Effective 90;
        "Prompt tokens from the start on and answer tokens from their arrival on, until the end, over the phase window."; over_time Curve::TokensInFlight;
    "active_decode_throughput", "Active Decode Throughput", "Active Decode Throughput"; TokensPerSecond -> TokensPerSecond; [STREAMING TOKENS NO_RECORDS]; Active 10;
        "Decode throughput while there are requests in decode."; over_time Curve::ActiveDecode;
    "active_prefill_throughput", "Active Prefill Throughput", "Active Prefill Throughput"; TokensPerSecond -> TokensPerSecond; [STREAMING TOKENS INPUT NO_RECORDS]; Active 20;
        "Prefill throughput while there are requests in prefill."; over_time Curve::ActivePrefill;
    "active_decode_throughput_per_user", "Active Decode Throughput Per User", "Active Decode Throughput Per User"; TokensPerSecondPerUser -> TokensPerSecondPerUser; [STREAMING TOKENS NO_RECORDS]; Active 30;
        "Decode throughput per user while there are requests in decode."; over_time Curve::ActiveDecodePerUser;
    "active_prefill_throughput_per_user", "Active Prefill Throughput Per User", "Active Prefill Throughput Per User"; TokensPerSecondPerUser -> TokensPerSecondPerUser; [STREAMING TOKENS INPUT NO_RECORDS]; Active 40;
        "Prefill throughput per user while there are requests in prefill."; over_time Curve::ActivePrefillPerUser;
    "active_total_throughput", "Active Total Throughput", "Active Total Throughput"; TokensPerSecond -> TokensPerSecond; [STREAMING TOKENS INPUT NO_RECORDS]; Active 50;
        "Total throughput while there are requests in flight."; over_time Curve::ActiveTotal;

    // A replay: how well it kept the times of its file.
    "replay_sched_lag_p50", "Replay Schedule Lag p50", "Sched Lag p50"; Milliseconds -> Milliseconds; [NO_RECORDS]; None 0;
        "p50 of request start − time of the file over the completed requests, less the smallest of these; what all requests were late by is in send_lag alone. Only when all follow a file's times."; derived |c| c.replay_lag(0);
    "replay_sched_lag_p90", "Replay Schedule Lag p90", "Sched Lag p90"; Milliseconds -> Milliseconds; [NO_RECORDS]; None 0;
        "p90 of request start − time of the file over the completed requests, less the smallest of these; what all requests were late by is in send_lag alone. Only when all follow a file's times."; derived |c| c.replay_lag(1);
    "replay_sched_lag_p99", "Replay Schedule Lag p99", "Sched Lag p99"; Milliseconds -> Milliseconds; [NO_RECORDS]; None 0;
        "p99 of request start − time of the file over the completed requests, less the smallest of these; what all requests were late by is in send_lag alone. Only when all follow a file's times."; derived |c| c.replay_lag(2);
    "replay_sched_degraded", "Replay Schedule Degraded", "Sched Degraded"; Count -> Count; [NO_RECORDS]; None 0;
        "1 when replay_sched_lag_p99 is over 500 ms, otherwise 0."; derived |c| c.replay_lag(2).map(|ms| f64::from(u8::from(ms > REPLAY_DEGRADED_MS)));

    // With the requests that failed.
    "adj_request_latency", "Request Latency (error-adjusted)", "Adj Req Latency"; Nanoseconds -> Milliseconds; [NO_RECORDS]; Main 9000;
        "request_latency, and infinity for each failed or cancelled request; what is infinite is absent. Only when there are such."; adjusted "request_latency";
    "adj_time_to_first_token", "Time to First Token (error-adjusted)", "Adj TTFT"; Nanoseconds -> Milliseconds; [STREAMING TOKENS NO_RECORDS]; Main 9000;
        "time_to_first_token, and infinity for each failed or cancelled request; what is infinite is absent. Only when there are such."; adjusted "time_to_first_token";
    "adj_decode_duration", "Decode Duration (error-adjusted)", "Adj Decode"; Nanoseconds -> Milliseconds; [STREAMING TOKENS NO_RECORDS]; Main 9000;
        "decode_duration, and infinity for each failed or cancelled request; what is infinite is absent. Only when there are such."; adjusted "decode_duration";
    "adj_inter_token_latency", "Inter Token Latency (error-adjusted)", "Adj ITL"; Nanoseconds -> Milliseconds; [STREAMING TOKENS NO_RECORDS]; Main 9000;
        "inter_token_latency, and infinity for each failed or cancelled request; what is infinite is absent. Only when there are such."; adjusted "inter_token_latency";
    "request_latency_at_least", "Request Latency (at least)", "Least Latency"; Nanoseconds -> Milliseconds; [NO_RECORDS OURS]; None 0;
        "request_latency, and for each failed or cancelled request the time until it ended, which is the least that its answer would have taken. Only when there are such."; at_least rule::latency_at_least;
    "time_to_first_token_at_least", "Time to First Token (at least)", "Least TTFT"; Nanoseconds -> Milliseconds; [STREAMING TOKENS NO_RECORDS OURS]; None 0;
        "time_to_first_token, and for each failed or cancelled request the time until it ended. Only when there are such."; at_least rule::first_token_at_least;

    // Objectives. The first looks at the values of those above it.
    "good_request_count", "Good Request Count", "Good Request Count"; Requests -> Requests; [OBJECTIVES]; None 0;
        "Completed requests that keep every objective of --goodput; 1 or 0 for each."; good Compute::Good;
    "goodput", "Goodput", "Goodput"; RequestsPerSecond -> RequestsPerSecond; [OBJECTIVES NO_RECORDS]; Main 1000;
        "good_request_count ÷ phase window."; derived |c| c.rate(c.running("good_request_count").map(|n| n as f64));
    "good_request_fraction", "GoodRequestFraction", "GoodReqFrac"; Ratio -> Ratio; [OBJECTIVES LARGER_IS_BETTER NO_RECORDS]; None 0;
        "good_request_count ÷ completed_request_count."; derived |c| Some(c.running("good_request_count")? as f64 / c.tally().ended() as f64);
}

/// The metric with this tag.
pub fn find(tag: &str) -> Option<&'static MetricSpec> {
    METRICS.iter().find(|spec| spec.tag == tag)
}

/// Place of the metric with this tag in [`METRICS`].
pub fn index_of(tag: &str) -> Option<usize> {
    METRICS.iter().position(|spec| spec.tag == tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn tags_are_unique_and_fit_for_json_and_prose() {
        let mut seen = HashSet::new();
        for spec in METRICS {
            assert!(seen.insert(spec.tag), "{} is there twice", spec.tag);
            assert!(
                spec.tag.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{}",
                spec.tag
            );
            assert!(spec.formula.ends_with('.'), "{}: {}", spec.tag, spec.formula);
            assert_eq!(find(spec.tag).map(|s| s.header), Some(spec.header));
            assert_eq!(spec.unit != spec.display, spec.factor().is_some(), "{}: units convert", spec.tag);
        }
    }

    /// Facts to keep compatible: tag, header, display unit, console place of AIPerf 0.13.
    #[test]
    fn what_scripts_know_is_unchanged() {
        for (tag, header, unit, order) in [
            ("time_to_first_token", "Time to First Token", "ms", 100),
            ("time_to_second_token", "Time to Second Token", "ms", 200),
            ("time_to_first_output_token", "Time to First Output Token", "ms", 210),
            ("request_latency", "Request Latency", "ms", 300),
            ("decode_duration", "Decode Duration", "ms", 350),
            ("inter_token_latency", "Inter Token Latency", "ms", 400),
            ("output_token_throughput_per_user", "Output Token Throughput Per User", "tokens/sec/user", 500),
            ("e2e_output_token_throughput", "E2E Output Token Throughput", "tokens/sec/user", 510),
            ("output_sequence_length", "Output Sequence Length", "tokens", 600),
            ("input_sequence_length", "Input Sequence Length", "tokens", 700),
            ("output_token_throughput", "Output Token Throughput", "tokens/sec", 800),
            ("input_token_throughput", "Input Token Throughput", "tokens/sec", 805),
            ("image_throughput", "Image Throughput", "images/sec", 860),
            ("image_latency", "Image Latency", "ms/image", 861),
            ("rtfx", "Inverse Real-Time Factor (RTFx)", "ratio", 850),
            ("request_throughput", "Request Throughput", "requests/sec", 900),
            ("completed_request_count", "Completed Requests (Success + Error)", "requests", 1075),
            ("request_error_rate", "Request Error Rate", "%", 1080),
            ("request_count", "Request Count", "requests", 1100),
            ("usage_prompt_tokens", "Usage Prompt Tokens", "tokens", 1000),
            ("http_req_sending", "HTTP Sending", "ms", 2030),
            ("http_req_data_received", "HTTP Data Received", "KB", 2090),
            ("http_req_connection_reused", "HTTP Connection Reused", "ratio", 2060),
            ("http_req_chunks_received", "HTTP Chunks Received", "count", 2100),
            ("http_req_duration", "HTTP Duration (excl. conn)", "ms", 2120),
            ("usage_prompt_cache_write_tokens", "Usage Prompt Cache Write Tokens", "tokens", 1015),
            ("usage_prompt_cache_miss_tokens", "Usage Prompt Cache Miss Tokens", "tokens", 1017),
            ("usage_prompt_audio_tokens", "Usage Prompt Audio Tokens", "tokens", 1020),
            ("usage_tool_use_prompt_tokens", "Usage Tool Use Prompt Tokens", "tokens", 1030),
            ("usage_prompt_audio_seconds", "Usage Prompt Audio Seconds", "sec", 1040),
            ("usage_completion_audio_tokens", "Usage Completion Audio Tokens", "tokens", 1120),
            ("usage_accepted_prediction_tokens", "Usage Accepted Prediction Tokens", "tokens", 1130),
            ("usage_rejected_prediction_tokens", "Usage Rejected Prediction Tokens", "tokens", 1140),
            ("total_usage_prompt_audio_seconds", "Total Usage Prompt Audio Seconds", "sec", 2040),
            ("total_usage_total_tokens", "Total Usage Total Tokens", "tokens", 2200),
        ] {
            let spec = find(tag).expect(tag);
            assert_eq!((spec.header, spec.display.name(), spec.order), (header, unit, order), "{tag}");
            assert_ne!(spec.group, ConsoleGroup::None, "{tag} is on the console");
        }
    }

    #[test]
    fn tags_that_rules_build_on_exist() {
        for tag in [
            "input_sequence_length",
            "output_sequence_length",
            "usage_prompt_tokens",
            "min_request_timestamp",
        ] {
            assert!(index_of(tag).is_some_and(|at| METRICS[at].tag == tag), "{tag}");
        }
    }
}
