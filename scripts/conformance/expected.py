"""The differences that are meant, each with its reason: (cases, places, words, reason).

`cases` is a shell pattern, `places` a regular expression for the whole place, `words` one that is found in the words. What stands here stands in docs/migrating.md too,
where it is more than a name.
"""

import re

import cases

# Metrics that AIPerf does not have, or only in its developer mode, with their headers.
OURS = {
    "connection_free_time_to_first_token": "Time to First Token without Connecting",
    "stream_setup_latency": "Stream Setup Latency",
    "stream_prefill_latency": "Stream Prefill Latency",
    "thinking_efficiency": "Thinking Efficiency",
    "overall_thinking_efficiency": "Overall Thinking Efficiency",
    "read_lag": "Read Lag",
    "send_lag": "Send Lag",
    "queue_wait": "Queue Wait",
    "scheduled_latency": "Request Latency from Schedule",
    "scheduled_time_to_first_token": "Time to First Token from Schedule",
    "time_to_first_event": "Time to First Event",
    "time_to_response_headers": "Time to Response Headers",
    "inter_token_gap": "Inter Token Gap",
    "longest_gap": "Longest Gap",
    "stall_count": "Stalls",
    "tokens_per_chunk": "Tokens per Chunk",
    "chunk_coalescing_ratio": "Chunk Coalescing Ratio",
    "http_req_tcp": "HTTP TCP Handshake",
    "http_req_tls": "HTTP TLS Handshake",
    "http_wire_bytes_sent": "HTTP Wire Bytes Sent",
    "http_wire_bytes_received": "HTTP Wire Bytes Received",
    "asked_input_length": "Asked Input Length",
    "scheduled_request_count": "Scheduled Requests",
    "sent_request_count": "Sent Requests",
    "unsent_request_count": "Unsent Requests",
    "failed_request_count": "Failed Requests",
    "cancelled_request_count": "Cancelled Requests",
    "lost_request_count": "Lost Requests",
    "request_latency_at_least": "Request Latency (at least)",
    "time_to_first_token_at_least": "Time to First Token (at least)",
    "sliced_request_count": "Sliced Request Count",
    "sliced_request_throughput": "Sliced Request Throughput",
    "sliced_output_token_throughput": "Sliced Output Token Throughput",
    "sliced_input_token_throughput": "Sliced Input Token Throughput",
    "sliced_concurrency": "Sliced Concurrency",
    "sliced_request_latency": "Sliced Request Latency",
}
SECTIONS = (
    "over_time|finish_reasons|input_lengths|load_health|uncertainty|steady_state|slo_attainment|unsupported|breakdown|per_url|network_latency|cache"
)
# Metrics of the load over time, which take apart prefill, decode and tokens.
OVER_TIME = (
    r"effective_(decode|prefill|total)_\w+|active_\w+|tokens_in_flight|effective_concurrency"
    r"|(Effective (Decode|Prefill|Total)|Active|Tokens In Flight|Effective Concurrency)[\w ]*( \([\w/]+\))?"
)
PARTS = (
    r"effective_(decode|prefill|total)_\w+|active_\w+|tokens_in_flight"
    r"|(Effective (Decode|Prefill|Total)|Active|Tokens In Flight)[\w ]*( \([\w/]+\))?"
)
USAGE = r".*/(total_|overall_)?usage_\w+|.*/(Total |Overall )?Usage [\w %]+( \([\w%]+\))?|.*: Usage"
INPUT = (
    r".*/(input_sequence_length|total_isl|(input|total)_token_throughput|prefill_throughput_per_user"
    r"|(Total )?Input Sequence Length \(tokens\)|((Input|Total) Token Throughput|Prefill Throughput Per User) \([\w/]+\))"
)
# Cases without streaming.
NOT_STREAMED = [name for name, case in cases.CASES.items() if name != "yaml" and "--streaming" not in case["options"]]
TAGS = "|".join(OURS)
HEADERS = "|".join(map(re.escape, OURS.values()))
ONLY_OURS, ONLY_THEIRS = "^only ours$", "^only AIPerf's$"

EXPECTED = [
    # What is new here.
    ("*", r"(phase )?summary(/warmup_metrics)?/(%s)" % TAGS, ONLY_OURS, "a metric of ours"),
    ("*", r"(phase )?summary/(%s)" % SECTIONS, ONLY_OURS, "a section of ours"),
    ("*", r"records/.*/metrics/(%s)" % TAGS, ONLY_OURS, "a metric of ours"),
    ("*", r".*timeslices\.json/timeslices/(%s)" % TAGS, ONLY_OURS, "a metric of ours"),
    ("*", r".*\.csv/(%s)( \([\w/%%]+\))?" % HEADERS, ONLY_OURS, "a metric of ours"),
    ("*", r"(console|screen)/.*/(%s)( \([\w/%%]+\))?" % HEADERS, ONLY_OURS, "a metric of ours"),
    ("*", r".*\.csv/block/Load Phase", ONLY_OURS, "how honest the load was"),
    ("*", r"(console|screen)/NVIDIA AIPerf \| (95 % Intervals|Load|Steady State.*|Results by .*)", ONLY_OURS, "tables of ours"),
    ("*", r"(records|raw)/.*/metadata/(request_send_start_ns|request_send_end_ns|response_receive_start_ns)", ONLY_OURS, "stamps in every record"),
    ("*", r"(records|raw)/.*/metadata/(outcome|finish_reason|server_finish_reason|scheduled_ns|first_chunk_tokens|model|url)", ONLY_OURS, "how a request ended"),
    ("*", r"records/.*/trace_data/(http_version|tls_start_ns|tls_end_ns|scheduled_ns)", ONLY_OURS, "stamps of each part of a connection"),
    ("*", r"files/.*_run\.json|files/profile_export_run\.json", ONLY_OURS, "what the run was, for reports and comparisons"),
    ("*", r"screen/foot/.*", ONLY_OURS, "more is told below the tables"),
    ("*", r"other request/GET /tokenize", ONLY_OURS, "asks whether the server can count tokens; not with --verify-lengths off"),
    # What AIPerf has and we do not.
    ("*", r"files/.*logs/aiperf\.log", ONLY_THEIRS, "AIPerf has a second log beside the folder of the run"),
    ("*", r"(records|raw)/.*/metadata/(worker_id|record_processor_id)/form", r"ours .*_N", "numbers in place of random suffixes"),
    ("*", r".*timeslices\.(json/timeslices|csv)/(%s)" % OVER_TIME, ONLY_THEIRS, "slices have work where it happened"),
    ("*", r".*timeslices\.json/timeslices/(credit_to_start|effective)_latency", ONLY_OURS, "in slices too"),
    ("*", r".*timeslices\.csv/(Credit-to-Start Latency|Effective Latency \(CO-aware\))", ONLY_OURS, "in slices too"),
    ("*", r"(console|screen)/panel/.*", ONLY_THEIRS, "a line below the tables says it"),
    # Without streaming.
    *[
        (names, places, ONLY_THEIRS, "zeros of what was not measured")
        for names in NOT_STREAMED
        for places in (
            r"(phase )?summary(/warmup_metrics)?/(%s)" % PARTS,
            r".*\.csv/(%s)" % PARTS,
            r"(console|screen)/NVIDIA AIPerf \| [\w ]+: (Active|Effective/(%s))" % PARTS,
        )
    ],
    # Failures.
    ("*", r"records/.*/error/(server_code|kind|stage|retryable)", ONLY_OURS, "what a failure was, for reports and for who tries again"),
    ("*", r".*error_summary/[^/]*/(server_code|kind|stages|retryable|varies)", ONLY_OURS, "what a failure was"),
    ("*", r"records/.*/error/(cause|cause_chain)|.*error_summary/[^/]*/error_details/(cause|cause_chain|details)", ONLY_THEIRS, "names of Python's exceptions"),
    ("*", r".*error_summary/.*/message", "", "words of our own where the server has none"),
    ("*", r".*error_summary/503 SSEResponseError.*", ONLY_OURS, "the server's code of an error event"),
    ("*", r".*error_summary/502 SSEResponseError.*", ONLY_THEIRS, "the server's code of an error event"),
    ("errors_streaming", r"raw/profiling error/responses", "the engine stopped", "the error event stands among the others"),
    ("*", r"(console|screen)/NVIDIA AIPerf \| Error Summary/columns", "Kind.*Stage.*Retryable", "what a failure was"),
    ("errors_nonstreaming", r"raw/profiling error/responses", "AIPerf's \\[\\]", "what came of an answer before it broke off"),
    *[(names, r"files/.*|screen/.*", ONLY_OURS, "a run that failed is a result too") for names in ("all_failed", "timeout")],
    ("timeout", r"files/.*/raw_records/.*", ONLY_THEIRS, "pieces of raw records of a run that failed"),
    # Cancellations.
    ("cancellation", r"raw/profiling cancelled/(status|responses)", "", "what came of an answer before it was cancelled"),
    # APIs.
    ("*messages*", r"raw/.*/request_headers", "content-type", "headers as they went out, one of a name"),
    ("*responses*", r"summary/inter_chunk_latency/count", "", "response.output_text.done is no chunk"),
    ("*embeddings*", r".*/(output_sequence_length|Output Sequence Length \(tokens\))", ONLY_THEIRS, "there is no output to have a length"),
    *[
        (names, USAGE, ONLY_OURS, "usage is read")
        for names in ("*embeddings*", "template*", "raw*")
    ],
    ("solido*", INPUT, ONLY_OURS, "texts of the body are counted"),
    ("solido*", r".*(osl_mismatch\w*|OSL Mismatch .*)", ONLY_THEIRS, "its requests ask for no length"),
    ("*raw*", r"files/.*/inputs\.json", ONLY_OURS, "it says what was sent"),
    (
        "[rt]*_streaming",
        r".*/(output_sequence_length|output_token_count|osl_mismatch\w*|total_osl|total_output_tokens)/.*|summary/inter_chunk_latency/count",
        "",
        "[DONE] is no text of the answer",
    ),
    *[
        entry
        for names in ("*rankings*", "random_pool_folder")
        for entry in (
            (names, r".*/(output_sequence_length|Output Sequence Length \(tokens\))", ONLY_THEIRS, "there is no output to have a length"),
            (names, INPUT, ONLY_OURS, "texts of the body are counted"),
        )
    ],
    ("baseten_*", "summary/dataset_rows", ONLY_OURS, "what became of the rows of a file"),
    *[
        (
            names,
            r".*/(input_sequence_length|total_isl|usage_prompt_tokens_diff_pct|usage_discrepancy_count)/.*",
            "",
            "texts are counted one by one, not joined by blanks",
        )
        for names in ("*batch", "turns*", "sticky_sessions", "user_centric", "shared_system", "system_prompt", "cache_bust", "file_sessions")
    ],
    *[
        (names, "records/session_num", "", "the number of the session, not of the request")
        for names in ("turns*", "sticky_sessions", "user_centric", "file_sessions", "file_turns", "inputs_json", "baseten*", "public_sharegpt", "public_mtbench", "public_exgentic", "public_exgentic_requests", "public_exgentic_model")
    ],
    ("*", r"(records|raw)/.*/metadata/self_contained", ONLY_OURS, "a later turn that holds its history itself"),
    ("file_turns", r"inputs\.json", "role.*user.*role.*system", "a later turn's own part alone"),
    ("public_exgentic_schedule", r"inputs\.json", "session_id", "in the order of their times"),
    ("bad_option", "exit code", "ours 2, AIPerf's 1", "what was typed wrongly has a code of its own"),
    ("seq_dist", r"inputs\.json", "max_completion_tokens", "drawn by position"),
    ("turns_responses", r"request/body", r"\"id\":\"msg", "replies are repeated as text, not as the server's items"),
    ("sticky_sessions", r"records/.*/trace_data/(local|remote)_(ip|port)", "", "known of every connection"),
    ("*", r"records/.*/trace_data/(local|remote)_(ip|port)", ONLY_OURS, "known of every connection"),
    ("models_random", r"inputs\.json", "model", "drawn by position"),
    ("urls", r".*\.csv/block/URL Requests", ONLY_OURS, "results by URL"),
    *[
        (names, r"summary/input_config/phases/\*/requests", ONLY_THEIRS, "the number of rows is not known when it is written")
        for names in ("fixed_schedule", "bailian", "burst_gpt", "sagemaker", "baseten*")
    ],
    *[
        (names, r"files/.*/inputs\.json", ONLY_OURS, "what was sent, also where it came from a file")
        for names in ("bailian", "burst_gpt", "inputs_json", "sagemaker", "baseten*")
    ],
    ("*", r"(records|raw)/.* (error|cancelled)/metadata/request_ack_ns", "ours always|only ours", "when an answer began, for failures too"),
    *[
        (names, r"inputs\.json", "", "prompts are made beside the run: those that were made")
        for names in ("duration", "rate_timeslices", "failed_threshold")
    ],
    # Configuration files.
    ("yaml", r"(phase )?summary/input_config/(artifacts|otel|mlflow|wandb|datasets/\*/(entries|random_seed))", ONLY_OURS, "as of a command line"),
    ("yaml", r"(phase )?summary/input_config/datasets/\*/name", "main.*default", "as of a command line"),
    ("yaml", r"inputs\.json|records/conversation_id", "", "as many prompts as requests, not 100"),
    ("yaml", r"(console|screen)/NVIDIA AIPerf \| Load: \w+", ONLY_OURS, "tables of ours"),
    # A run that was stopped by its failures.
    (
        "failed_threshold",
        r"exit code|\.aiperf_results_ready\.json|summary/(was_cancelled|incomplete_reason|error_summary/499 .*)|records/profiling cancelled",
        "",
        "stopped, not cancelled, and not good",
    ),
]
