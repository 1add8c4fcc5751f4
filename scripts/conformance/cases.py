"""The cases: what both tools are asked to do, and what the server does.

A case: `options` beside the common ones, `mode` of the server, `type` of the endpoint, `texts` ("exact" where both have to send the same words), `counts` ("near"
where time decides how many requests there are), `lengths` (whether `--isl 50 --osl 20` are given), `files` that are
written before the run (`@URL@` is the URL of the server), `whole` for a command line without the common options.
"""

import json

COMMON = "--model mock-model --tokenizer builtin --random-seed 1 --ui none --no-server-metrics --no-gpu-telemetry".split()
LENGTHS = "--isl 50 --osl 20".split()
TEN = "--request-count 10 --concurrency 2"

ROWS = "".join('{"text": "%s", "output_length": %d}\n' % (text, tokens) for text, tokens in [
    ("Where does the river turn?", 5), ("Tell me of the stone bridge.", 8), ("Who carries the light?", 12), ("Why is the water below?", 6),
])
TIMES = "".join('{"timestamp": %d, "text": "Question %d of the river at its time.", "output_length": 6}\n' % (i * 60, i) for i in range(8))
SESSIONS = "".join('{"session_id": "s%d", "text": "Row %d of a session by the river.", "output_length": 5}\n' % (i // 2, i) for i in range(6))
TURNS = "".join(
    '{"session_id": "s%d", "turns": [{"role": "system", "text": "Be brief, number %d."}, {"text": "Where does the river turn?", "output_length": 5}, '
    '{"text": "And who carries the light?", "delay": 20}]}\n' % (i, i)
    for i in range(3)
)
# Without white space, as AIPerf sends them again.
BODY = '{"model":"mock-model","messages":[{"role":"user","content":"Body %d of the river."}],"max_completion_tokens":7'
BODIES = "".join(BODY % i + "}\n" for i in range(4))
STREAMED_BODIES = "".join(BODY % i + ',"stream":true}\n' for i in range(4))
CHATS = "".join(
    '{"chat_id": %d, "parent_chat_id": -1, "timestamp": %s, "input_length": 40, "output_length": 6, "type": "text", "turn": 1, "hash_ids": [%d, 7, 8]}\n'
    % (i + 5, i * 0.06, i) for i in range(6)
)
BURSTS = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n" + "".join("%s,GPT-4,%d,6,9,API log\n" % (i * 0.06, 20 + i) for i in range(6))
SENT = json.dumps({"data": [{"session_id": "s%d" % i, "payloads": [json.loads(BODY % i + "}"), json.loads(BODY % (i + 10) + "}")]} for i in range(3)]}, separators=(",", ":"))
CAPTURES = "".join(
    json.dumps({
        "captureData": {"endpointInput": {
            "data": json.dumps({"messages": [{"role": "user", "content": "Captured question %d of the river."}], "max_tokens": 6}) % i, "encoding": "JSON",
        }},
        "eventMetadata": {"eventId": "e%d" % i, "inferenceTime": "2026-04-29T00:03:18.%03dZ" % (60 * i)},
        "eventVersion": "0",
    }) + "\n"
    for i in range(6)
)
# A table of Parquet: six prompts of two sessions and of none, 60 ms from one to the next, in no order; with ids of blocks, how long answers took, and an answer of no token.
PACKED = "base64:"
COMPLETIONS = PACKED + (
    "UEFSMRUAFWwVXiwVDBUAFQYVBhwAAAAfiwgAAAAAAAIDY2JgYOBhrMh4er6bEciE0jZQeguU1smE0B+gfABNDnT6NgAAABUAFfwDFZgCLBUMFQAVBhUGHAAAAB+LCAAAAAAAAgN9z00KwkAMBeDRtXu32YgKkrt4"
    "hAmTdgYkgWTa0tv3BxdapZtAyMcj7xhCOB2u83x27LWoQB0UtAFn92WNQCPUzGClZ8PzJ1XhhYqSphFvf04/KWQltYyXHUtQZLXOER9fr2XjTWwniW3Vr9LmivedKgTav/EQ61xmApeLpHb+AAAAFQAVPBVCLBUM"
    "FQAVBhUGHAAAAB+LCAAAAAAAAgNjYmBg4GHkAJIsQMyBhgHF3l1dHgAAABUAFTwVTiwVDBUAFQYVBhwAAAAfiwgAAAAAAAIDY2JgYOBhZAOSrEDMzgABHEDMCcQAzP1Qah4AAAAVABWQARVkLBUSFQAVBhUGHAAA"
    "AB+LCAAAAAAAAgNjZmBgYD3EwAqizv9lZuBmgAAeKM2NRsPEocAhGcoAAA5wvCZIAAAAFQAVPhVELBUMFQAVBhUGHAAAAB+LCAAAAAAAAgNjYmBgYLZlBJKJcCIJwQIAEJC20h8AAAAVABVsFUwsFQwVABUGFQYc"
    "AAAAH4sIAAAAAAACA2NiYGDgYZRjgAARKK2BxpdE4wMA9CrvwDYAAAAVABU0FTwsFQwVABUGFQYcAAAAH4sIAAAAAAACA2NiYGBgtnUAkugYALaaT24aAAAAFQQZvDUAGAZzY2hlbWEVEAAVBCUCGBd0aW1lc3Rh"
    "bXBfc3RhcnRfdW5peF9tcwAVDCUCGAZwcm9tcHQlAEwcAAAAFQIlAhgMaW5wdXRfdG9rZW5zABUCJQIYDW91dHB1dF90b2tlbnMANQIYDHRvdGFsX2hhc2hlcxUCFQZMPAAAADUEGARsaXN0FQIAFQQlAhgHZWxl"
    "bWVudAAVDCUCGBNwcm92aWRlZF9zZXNzaW9uX2lkJQBMHAAAABUEJQIYD2R1cmF0aW9uX2UyZV9tcwAVAiUCGApibG9ja19zaXplABYMGRwZjCYAHBUEGSUGABkYF3RpbWVzdGFtcF9zdGFydF91bml4X21zFQQW"
    "DBaSARaEASYISRwVABUAFQIAPCkGGSYADAAAACYAHBUMGSUGABkYBnByb21wdBUEFgwWpgQWwgImjAFJHBUAFQAVAgA8FsADGQYZJgAMAAAAJgAcFQIZJQYAGRgMaW5wdXRfdG9rZW5zFQQWDBZiFmgmzgNJHBUA"
    "FQAVAgA8KQYZJgAMAAAAJgAcFQIZJQYAGRgNb3V0cHV0X3Rva2VucxUEFgwWYhZ0JrYESRwVABUAFQIAPCkGGSYADAAAACYAHBUEGSUGABk4DHRvdGFsX2hhc2hlcwRsaXN0B2VsZW1lbnQVBBYSFrgBFowBJqoF"
    "SRwVABUAFQIAPCkmDAYZRgICAA4AAAAmABwVDBklBgAZGBNwcm92aWRlZF9zZXNzaW9uX2lkFQQWDBZkFmomtgZJHBUAFQAVAgA8FgoZBhkmAgoAAAAmABwVBBklBgAZGA9kdXJhdGlvbl9lMmVfbXMVBBYMFpIB"
    "FnImoAdJHBUAFQAVAgA8KQYZJgAMAAAAJgAcFQIZJQYAGRgKYmxvY2tfc2l6ZRUEFgwWWhZiJpIISRwVABUAFQIAPCkGGSYCCgAAABaECxYMJggW7AgAKCBwYXJxdWV0LWNwcC1hcnJvdyB2ZXJzaW9uIDI2LjAu"
    "MRmMHAAAHAAAHAAAHAAAHAAAHAAAHAAAHAAAAAoDAABQQVIx"
)
# Public data sets: what the hub would give. This program finds the files in the hub's cache; AIPerf asks the package `datasets`, in whose place a module reads the same.
COMMIT = "0123456789abcdef0123456789abcdef01234567"
HUB = "hub/datasets--%s/snapshots/%s/%s.jsonl"
ASKS_HUB = """import json, os
def load_dataset(repo, name=None, split=None, revision=%r, **_):
    path = os.path.join(%r %% (repo.replace("/", "--"), revision, "/".join(filter(None, [name, split]))))
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]
""" % (COMMIT, HUB)
WORDS = ["Where does the river turn?", "  Who carries the light, and why?\nSay it in one line.  ", "How many stones has the bridge: 3, 5 or 7? Naïve counting — 東京.", "What is below?"]


def lines(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def column(name, **more):
    """Prompts in one column, one of them blank."""
    return [dict({name: words, "solution": "none"}, **more) for words in [*WORDS[:2], "   ", *WORDS[2:]]]


def public(name, repo, file, rows, options="--request-count 4 --concurrency 1", commit=COMMIT, **more):
    files = {HUB % (repo.replace("/", "--"), commit, file): lines(rows), "site/datasets.py": ASKS_HUB}
    return case("--streaming --export-level raw --public-dataset %s %s" % (name, options), lengths=False, texts="exact", files=files, **more)


def span(number, seconds, messages, used=(40, 12), kind="llm_call", code=1, **asked):
    """A recorded request of an agent that took half a second."""
    at = lambda ms: "2026-04-29T00:03:%02d.%03d000+00:00" % divmod(ms, 1000)
    said = {"gen_ai.usage.input_tokens": used[0], "gen_ai.usage.output_tokens": used[1], "gen_ai.input.messages": json.dumps(messages)}
    said.update({"gen_ai." + name.replace("__", "."): value for name, value in asked.items()})
    begin = int(seconds * 1000)
    return {"type": kind, "name": "span %d" % number, "status": {"code": code}, "start_time": at(begin), "end_time": at(begin + 500), "attributes": said}


def said(role, *parts):
    return {"role": role, "parts": [part if isinstance(part, dict) else {"type": "text", "content": part} for part in parts]}


CALL = {"type": "tool_call", "id": "call_1", "name": "look", "arguments": {"where": "below the bridge", "deep": 2.5}}
RESULT = {"type": "tool_call_response", "id": "call_1", "result": {"found": ["stones", "東京"]}}
TOOL = {"type": "function", "name": "look", "description": "Look somewhere.", "parameters": {"type": "object", "properties": {"where": {"type": "string"}}}}


def agent(name, harness, model, *spans, benchmark="swebench"):
    return {"harness": harness, "session_id": name, "models": [model], "benchmark": benchmark, "spans": list(spans)}


AGENTS = [
    agent(
        "first", "tool_calling", "openai/azure/gpt-4.1",
        span(0, 1, [said("developer", "Be brief."), said("user", "What is below ", "the bridge?")], tool__definitions=json.dumps([TOOL]), request__max_tokens=32),
        span(1, 1.6, [], used=(0, 5)),
        span(2, 1.7, [said("user", "What is below the bridge?"), said("assistant", {"type": "thinking", "thinking": "I look."}, "I look.", CALL), said("user", RESULT, "And now?")],
             system_instructions="Be kind.", request__temperature=0.25, request__stop_sequences=["END", "."]),
        span(3, 1.4, [], kind="tool_call"),
        span(4, 1.9, [said("user", "This one failed.")], code=2),
        span(5, 2.0, [said("user", RESULT)], kind=None, operation__name="chat", system_instructions=json.dumps([{"type": "text", "content": "Be kind."}]), request__stop_sequences=[]),
    ),
    agent("empty", "tool_calling", "gpt-4.1", span(0, 1, [said("user", "nobody")], code=2)),
    agent("second", "claude_code", "aws/claude-opus-4-5", span(0, 9, [said("user", "Who carries the light?")]), span(1, 9.1, [said("user", "Who carries it now?")]), benchmark="appworld"),
    agent("third", "Tool_Calling", "Kimi-K2.5", span(0, 4, [said("user", "How many stones?")], request__max_tokens=7), benchmark="tau2_retail"),
]


def agents(name, options):
    repo, commit = {
        "exgentic": ("Exgentic/agent-llm-traces", "70036b93a04e61b0ea2706a68b962f4f26774587"),
        "exgentic_v2": ("Exgentic/agent-llm-traces-v2", "4b8ad4ab198438e5a170f9171c19c6a2cf7c1814"),
    }[name]
    return public(name, repo, "train", AGENTS, options, commit=commit)


TALKS = [
    {"conversations": [{"from": who, "value": words} for who, words in talk]}
    for talk in [
        [("human", "Where does the river turn, and why does it turn there?"), ("gpt", "It turns at the stone bridge, since the rock is hard there.")],
        [("human", "hi"), ("gpt", "hello")],
        [("gpt", "I speak first, and that is not how it goes."), ("human", "Who carries the light over the bridge at night?"),
         ("gpt", "The keeper of the bridge does, each night."), ("human", "And what is his name, if he has one?"), ("gpt", "Nobody has asked him for it yet.")],
        [("human", "What is below the water, deep down in the dark?"), ("gpt", "Stones, and more water below the stones.")],
    ]
]
POOL = '{"text": "The one question of the pool by the river."}\n'
QUERY = '{"texts": [{"name": "query", "contents": ["Where is river %d?"]}, {"name": "passages", "contents": ["By the bridge.", "In the sea."]}]}\n'
QUERIES = "".join(QUERY % i for i in range(4))
TEMPLATE = '{"model": {{ model|tojson }}, "messages": [{"role": "user", "content": {{ text|tojson }}}], "max_completion_tokens": {{ max_tokens }}}'
YAML = """benchmark:
  model: mock-model
  endpoint: {url: '@URL@', type: chat, streaming: true}
  dataset: {type: synthetic, prompts: {isl: {mean: 50}, osl: {mean: 20}}}
  phases:
    - {name: warmup, type: concurrency, kind: warmup, concurrency: 1, requests: 2}
    - {name: first, kind: profiling, type: concurrency, concurrency: 2, requests: 6}
    - {name: second, kind: profiling, type: constant, rate: 30, requests: 6}
  tokenizer: {name: builtin}
  gpuTelemetry: {enabled: false}
  serverMetrics: {enabled: false}
  slos: {request_latency: 1000}
randomSeed: 1
"""
STREAMED = TEMPLATE[:-1] + ', "stream": {{ stream|tojson }}, "stream_options": {"include_usage": true}}'
FULL = (
    "--streaming --request-count 40 --concurrency 4 --warmup-request-count 3 --export-level raw --export-http-trace --show-trace-timing "
    "--export-outputs-json --slice-duration 0.5"
)


def case(options="", **more):
    return dict({"options": options.split(), "mode": "basic", "type": "chat"}, **more)


def with_values(options, *values, **more):
    """Values with blanks in them."""
    made = case(options, **more)
    made["options"] += values
    return made


CASES = {
    # The single runs of text whose files are at hand as samples.
    "full": with_values(FULL, "--goodput", "request_latency:120 time_to_first_token:40"),
    "nonstreaming": case("--request-count 12 --concurrency 3"),
    "errors_streaming": case("--streaming --request-count 30 --concurrency 2 --export-level raw --goodput request_latency:200", mode="errors"),
    "errors_nonstreaming": case("--request-count 20 --concurrency 2 --export-level raw", mode="errors"),
    "all_failed": case("--streaming --custom-endpoint /nope --request-count 6 --concurrency 2"),
    "reasoning_client_tokens": case("--streaming " + TEN, mode="reasoning"),
    "reasoning_server_tokens": case("--streaming --use-server-token-count --per-chunk-usage " + TEN, mode="reasoning"),
    "reasoning_nonstreaming": case(TEN, mode="reasoning"),
    "spec_decode": case("--streaming " + TEN, mode="spec"),
    "spec_decode_nonstreaming": case(TEN, mode="spec"),
    "multi_token_chunks": case("--streaming --isl 50 --osl 40 " + TEN, mode="multi", lengths=False),
    "multi_token_chunks_per_chunk_usage": case(
        "--streaming --isl 50 --osl 40 --use-server-token-count --per-chunk-usage " + TEN, mode="multi", lengths=False
    ),
    "network_latency": case(
        "--streaming --request-count 20 --concurrency 2 --export-level summary --network-latency-automatic --network-latency-ping-interval 0.2"
    ),
    "network_latency_fixed": case("--streaming --request-count 20 --concurrency 2 --export-level summary --network-latency-mean 5"),
    "cancellation": case(
        "--streaming --request-count 20 --concurrency 4 --request-cancellation-rate 40 --request-cancellation-delay 0.2 --export-level raw", mode="slow", counts="near"
    ),
    "rate_timeslices": case("--streaming --benchmark-duration 3 --request-rate 20 --concurrency 8 --slice-duration 1", counts="near"),
    # Endpoint types.
    "completions": case("--export-level raw " + TEN, type="completions"),
    "completions_streaming": case("--streaming --export-level raw " + TEN, type="completions"),
    "responses": case("--export-level raw " + TEN, type="responses"),
    "responses_streaming": case("--streaming --export-level raw " + TEN, type="responses"),
    "messages": case("--export-level raw " + TEN, type="messages"),
    "messages_streaming": case("--streaming --export-level raw " + TEN, type="messages"),
    "embeddings": case("--isl 50 --export-level raw " + TEN, type="embeddings", lengths=False),
    "embeddings_batch": case("--isl 50 --batch-size 3 --export-level raw " + TEN, type="embeddings", lengths=False),
    "chat_embeddings": case("--isl 50 --export-level raw " + TEN, type="chat_embeddings", lengths=False),
    "nim_embeddings": case("--isl 50 --export-level raw " + TEN, type="nim_embeddings", lengths=False),
    "cohere_rankings": case("--export-level raw " + TEN, type="cohere_rankings", lengths=False),
    "hf_tei_rankings": case("--export-level raw " + TEN, type="hf_tei_rankings", lengths=False),
    "nim_rankings": case("--export-level raw " + TEN, type="nim_rankings", lengths=False),
    "rankings_lengths": case(
        "--rankings-passages-mean 3 --rankings-passages-prompt-token-mean 16 --rankings-query-prompt-token-mean 8 " + TEN,
        type="nim_rankings",
        lengths=False,
    ),
    "rankings_file": case(
        "--input-file rows.jsonl --custom-dataset-type single_turn --request-count 4 --concurrency 1",
        type="nim_rankings",
        lengths=False,
        texts="exact",
        files={"rows.jsonl": QUERIES},
    ),
    "huggingface_generate": case("--export-level raw " + TEN, type="huggingface_generate"),
    "huggingface_generate_streaming": case("--streaming --export-level raw " + TEN, type="huggingface_generate"),
    "solido_rag": case("--export-level raw " + TEN, type="solido_rag"),
    "solido_rag_streaming": case("--streaming --export-level raw " + TEN, type="solido_rag"),
    "template": with_values(
        "--custom-endpoint /v1/chat/completions --export-level raw --extra-inputs " + TEN.replace("--request", "PLACE --request"), type="template"
    ),
    "template_streaming": with_values(
        "--custom-endpoint /v1/chat/completions --streaming --export-level raw --extra-inputs " + TEN.replace("--request", "PLACE --request"), type="template"
    ),
    "raw": case(
        "--custom-endpoint /v1/chat/completions --input-file rows.jsonl --custom-dataset-type raw_payload "
        "--export-level raw --request-count 4 --concurrency 1",
        type="raw",
        lengths=False,
        texts="exact",
        files={"rows.jsonl": BODIES},
    ),
    "raw_streaming": case(
        "--custom-endpoint /v1/chat/completions --streaming --input-file rows.jsonl --custom-dataset-type raw_payload "
        "--export-level raw --request-count 4 --concurrency 1",
        type="raw",
        lengths=False,
        texts="exact",
        files={"rows.jsonl": STREAMED_BODIES},
    ),
    "chat_raw_payload": case(
        "--input-file rows.jsonl --custom-dataset-type raw_payload --export-level raw --request-count 4 --concurrency 1",
        lengths=False,
        texts="exact",
        files={"rows.jsonl": BODIES},
    ),
    "bailian": case(
        "--streaming --input-file rows.jsonl --custom-dataset-type bailian_trace --export-level raw", lengths=False, files={"rows.jsonl": CHATS}
    ),
    "burst_gpt": case(
        "--streaming --input-file rows.csv --custom-dataset-type burst_gpt_trace --fixed-schedule --export-level raw", lengths=False, files={"rows.csv": BURSTS}
    ),
    "inputs_json": case(
        "--input-file sent.json --custom-dataset-type inputs_json --export-level raw --request-count 6 --concurrency 1",
        lengths=False,
        texts="exact",
        files={"sent.json": SENT},
    ),
    "sagemaker": case(
        "--streaming --input-file rows.jsonl --custom-dataset-type sagemaker_data_capture --fixed-schedule --export-level raw",
        lengths=False,
        texts="exact",
        files={"rows.jsonl": CAPTURES},
    ),
    "baseten": case(
        "--streaming --input-file rows.parquet --custom-dataset-type baseten_trace --export-level raw",
        type="completions",
        lengths=False,
        texts="exact",
        files={"rows.parquet": COMPLETIONS},
    ),
    "baseten_closed": case(
        "--streaming --input-file rows.parquet --custom-dataset-type baseten_trace --no-open-loop-replay --replay-speedup 2 --max-idle-gap-cap-seconds 0.02 "
        "--omit-kv-hints --synthesis-max-osl 6 --export-level raw",
        type="completions",
        lengths=False,
        texts="exact",
        files={"rows.parquet": COMPLETIONS},
    ),
    "baseten_strict": case(
        "--streaming --input-file rows.parquet --custom-dataset-type baseten_trace --open-loop-strict --no-force-min-tokens --fixed-schedule "
        "--fixed-schedule-start-offset 60 --fixed-schedule-end-offset 240 --export-level raw",
        lengths=False,
        texts="exact",
        files={"rows.parquet": COMPLETIONS},
    ),
    # Pools of one row: what is drawn is the same in both.
    "random_pool": case(
        "--streaming --input-file rows.jsonl --custom-dataset-type random_pool --export-level raw " + TEN, lengths=False, texts="exact", files={"rows.jsonl": POOL}
    ),
    "random_pool_batch": case(
        "--input-file rows.jsonl --custom-dataset-type random_pool --batch-size-text 2 --export-level raw " + TEN, lengths=False, texts="exact", files={"rows.jsonl": POOL}
    ),
    "random_pool_folder": case(
        "--input-file pools --custom-dataset-type random_pool --request-count 4 --concurrency 1",
        type="nim_rankings",
        lengths=False,
        texts="exact",
        files={
            "pools/query.jsonl": '{"text": "Where is the river?"}\n',
            "pools/passages.jsonl": '{"texts": ["By the bridge.", "In the sea."]}\n',
        },
    ),
    # Public data sets.
    "public_sharegpt": case(
        "--streaming --export-level raw --public-dataset sharegpt --request-count 3 --concurrency 1",
        lengths=False,
        texts="exact",
        files={".cache/aiperf/datasets/ShareGPT_V3_unfiltered_cleaned_split.json": json.dumps(TALKS)},
    ),
    "public_spec_bench": case(
        "--streaming --export-level raw --public-dataset spec_bench --osl 6 --request-count 4 --concurrency 1",
        lengths=False,
        texts="exact",
        files={".cache/aiperf/datasets/spec_bench.jsonl": lines(
            {"question_id": i, "category": "writing", "turns": [words, "And then?"]} for i, words in enumerate(WORDS)
        )},
    ),
    "public_aimo": public("aimo", "AI-MO/NuminaMath-TIR", "train", column("problem")),
    "public_exgentic": agents("exgentic", "--num-conversations 3 --concurrency 1"),
    "public_exgentic_requests": agents("exgentic", "--request-count 4 --concurrency 1 --dataset-filter harness=tool_calling"),
    "public_exgentic_model": agents("exgentic", "--num-conversations 1 --concurrency 1 --dataset-filter source_model=azure/GPT-4.1 harness=TOOL_CALLING"),
    "public_exgentic_v2": agents("exgentic_v2", "--num-dataset-entries 2 --concurrency 1 --num-conversations 3 --dataset-filter benchmark=tau2_retail"),
    "public_exgentic_schedule": agents("exgentic", "--fixed-schedule --num-dataset-entries 3"),
    "public_gsm8k": public("spec_al_gsm8k", "openai/gsm8k", "main/test", column("question"), "--osl 7 --request-count 4 --concurrency 1"),
    "public_math500": public("spec_al_math500", "HuggingFaceH4/MATH-500", "test", column("problem")),
    "public_humaneval": public("spec_al_humaneval", "openai/openai_humaneval", "test", column("prompt")),
    "public_mbpp": public("spec_al_mbpp", "google-research-datasets/mbpp", "full/test", column("text")),
    "public_instruct_coder": public("instruct_coder", "likaixin/InstructCoder", "train", column("instruction", input="def f(): pass")),
    "public_blazedit": public("blazedit_5k", "vdaita/edit_5k_char", "train", column("change_request", code="def f():\n    return 1\n"), "--request-count 5 --concurrency 1"),
    "public_mtbench": public(
        "spec_al_mtbench", "HuggingFaceH4/mt_bench_prompts", "train",
        [{"prompt": [WORDS[0], "And further down?"], "category": "writing"}, {"prompt": [WORDS[3], "And above?"], "category": "roleplay"}],
    ),
    "public_mmvu": public(
        "mmvu", "yale-nlp/MMVU", "validation",
        [{"question": words, "choices": {"A": "the first", "B": "", "C": "the third"}, "video": "https://example.com/%d.mp4" % i} for i, words in enumerate(WORDS)],
    ),
    # Options.
    "extra_inputs": case("--streaming --extra-inputs temperature:0.7 --extra-inputs top_p:1 --extra-inputs ignore_eos:true --extra-inputs stop:null " + TEN),
    "extra_inputs_json": with_values(TEN, "--extra-inputs", '{"min_tokens": 5, "response_format": {"type": "text"}, "seed": 7}'),
    "extra_inputs_types": with_values(
        TEN, *[part for text in ("a:1e3", "b:True", "c:007", "d:None", "e:1.50", "f:-3", "g:x:y") for part in ("--extra-inputs", text)]
    ),
    "headers": with_values("--streaming --export-level raw " + TEN, "-H", "X-Team: bridge one", "-H", "X-Trace:abc"),
    "api_key": case("--streaming --api-key sk-river-1234 --export-level raw " + TEN),
    "api_key_messages": case("--api-key sk-river-1234 --export-level raw " + TEN, type="messages"),
    "models": case("--model-names mock-model,second-model --export-level raw --request-count 10 --concurrency 1"),
    "models_random": case("--model-names mock-model,second-model --model-selection-strategy random --request-count 10 --concurrency 1", counts="near"),
    "urls": case("--url SECOND --request-count 10 --concurrency 1 --export-level raw"),
    "goodput": with_values("--streaming " + TEN, "--goodput", "request_latency:1000 time_to_first_token:5"),
    "warmup": case("--streaming --warmup-request-count 5 --warmup-concurrency 1 " + TEN),
    "rate_constant": case("--streaming --request-rate 20 --arrival-pattern constant --request-count 12"),
    "rate_poisson": case("--streaming --request-rate 20 --request-count 12"),
    "rate_gamma": case("--streaming --request-rate 20 --arrival-pattern gamma --arrival-smoothness 2 --request-count 12 --concurrency 4"),
    "duration": case("--streaming --benchmark-duration 1 --concurrency 2 --benchmark-grace-period 5", counts="near"),
    "file": case(
        "--streaming --input-file rows.jsonl --request-count 8 --concurrency 1 --export-level raw",
        lengths=False,
        texts="exact",
        files={"rows.jsonl": ROWS},
    ),
    "file_sessions": case(
        "--streaming --input-file rows.jsonl --custom-dataset-type single_turn --concurrency 1 --num-sessions 3 --export-level raw",
        lengths=False,
        texts="exact",
        files={"rows.jsonl": SESSIONS},
    ),
    "file_turns": case(
        "--streaming --input-file rows.jsonl --custom-dataset-type multi_turn --concurrency 1 --num-sessions 3 --export-level raw",
        lengths=False,
        texts="exact",
        files={"rows.jsonl": TURNS},
    ),
    "fixed_schedule": case(
        "--streaming --input-file rows.jsonl --custom-dataset-type single_turn --fixed-schedule --fixed-schedule-auto-offset",
        lengths=False,
        texts="exact",
        files={"rows.jsonl": TIMES},
    ),
    "user_centric": case("--streaming --user-centric-rate 10 --num-users 3 --conversation-turn-mean 2 --num-sessions 4", counts="near"),
    "turns": case("--streaming --conversation-turn-mean 3 --num-sessions 4 --concurrency 2 --export-level raw"),
    "turns_messages": case("--streaming --conversation-turn-mean 2 --conversation-turn-delay-mean 50 --num-sessions 3 --concurrency 1", type="messages"),
    "turns_responses": case("--streaming --conversation-turn-mean 2 --num-sessions 3 --concurrency 1", type="responses"),
    "legacy_max_tokens": case("--streaming --use-legacy-max-tokens " + TEN),
    "no_osl": case("--isl 50 " + TEN, lengths=False),
    "server_token_count": case("--streaming --use-server-token-count " + TEN),
    "entries": case("--num-dataset-entries 4 " + TEN),
    "prefix": case("--num-prefix-prompts 3 --prompt-prefix-length 20 " + TEN),
    "shared_system": case("--shared-system-prompt-length 30 --user-context-prompt-length 20 --num-dataset-entries 5 " + TEN),
    "system_prompt": with_values(TEN, "--system-prompt", "Answer in short words of the river."),
    "batch": case("--batch-size 2 " + TEN),
    "seq_dist": with_values(TEN, "--seq-dist", "32,8:50;64,16:50", lengths=False, counts="near"),
    "never_reused": case("--streaming --session-header X-My-Session --connection-reuse-strategy never --export-http-trace " + TEN),
    "sticky_sessions": case("--connection-reuse-strategy sticky-user-sessions --conversation-turn-mean 2 --num-sessions 4 --concurrency 2 --export-http-trace"),
    "names_of_files": case("--profile-export-prefix foo.json --export-level raw --artifact-dir results --slice-duration 1 " + TEN),
    "prefill": case("--streaming --concurrency 4 --concurrency-ramp-duration 0.5 --prefill-concurrency 1 --request-count 12"),
    "wait_for_model": case("--wait-for-model-timeout 5 --wait-for-model-mode models " + TEN),
    "failed_threshold": case("--streaming --failed-request-threshold 0.3 --request-count 40 --concurrency 1", mode="errors", counts="near"),
    "timeout": case("--streaming --request-timeout-seconds 0.3 --request-count 4 --concurrency 2 --export-level raw", mode="slow"),
    "template_prompts": case("--apply-chat-template " + TEN),
    # Draws of other tools, which are the same in both.
    "random_vllm": case("--prompt-corpus random --random-range-ratio 0.3 --request-count 10 --concurrency 1", texts="exact"),
    "random_sglang": case("--prompt-corpus random --random-corpus-style sglang --random-range-ratio 0.3 --request-count 10 --concurrency 1", texts="exact"),
    "cache_bust": case("--cache-bust system_prefix --shared-system-prompt-length 30 --num-dataset-entries 3 " + TEN),
    "bad_option": case("--isl -5 --concurrency 0", lengths=False),
}

# In place of the common options.
CASES["yaml"] = case(whole="--config bench.yaml --ui none", files={"bench.yaml": YAML})
CASES["url_with_path"] = case(whole=" ".join(COMMON) + " --url @URL@/v1/chat/completions --isl 20 --osl 5 --request-count 4 --concurrency 1")

for name, text in (("template", TEMPLATE), ("template_streaming", STREAMED)):
    place = CASES[name]["options"].index("PLACE")
    CASES[name]["options"][place] = json.dumps({"payload_template": text})


def command(name, urls):
    """The options of a case, after the name of the program."""
    asked = CASES[name]
    if "whole" in asked:
        return ["profile", *asked["whole"].replace("@URL@", urls[0]).split()]
    options = ["profile", *COMMON, "--url", urls[0], "--endpoint-type", asked["type"]]
    if asked.get("lengths", True):
        options += LENGTHS
    # Several models stand in place of the one.
    if "--model-names" in asked["options"]:
        at = options.index("--model")
        del options[at : at + 2]
    return options + [urls[1] if option == "SECOND" else option for option in asked["options"]]
