//! The table of options: each option is one row here and nothing else. Command line, help, environment, configuration
//! file, reference page and JSON schema are all made from it; [`crate::resolve`](mod@crate) gives the values their meaning.

use crate::row::{Default, Group, Kind, Row, row};

/// A whole number from `min` that fits what it counts.
const fn count(min: u64, max: u64) -> Kind {
    Kind::Int { min, max }
}

/// A token count's spread.
const SPREAD: Kind = Kind::Float { min: 0.0, above: false, max: 10_000_000.0 };
/// Tokens of one prompt or answer.
const TOKENS: u64 = 10_000_000;
/// Requests or entries of one run.
const MANY: u64 = 1_000_000_000_000;
/// Sessions alive at once.
const SESSIONS: u64 = 1_000_000;
/// Arrivals per second; a gap is at least a nanosecond, and at most some days, so that no schedule leaves the clock's range.
const RATE: Kind = Kind::Float { min: 0.000_001, above: false, max: 1_000_000_000.0 };
/// Shape of the gamma distribution.
const SMOOTHNESS: Kind = Kind::Float { min: 0.0, above: true, max: 1_000_000_000.0 };
const ABOVE_ZERO: Kind = Kind::Duration { zero: false, endless: false };
/// A phase may have no end but the user's.
const PHASE_TIME: Kind = Kind::Duration { zero: false, endless: true };
const FROM_ZERO: Kind = Kind::Duration { zero: true, endless: false };
const GRACE: Kind = Kind::Duration { zero: true, endless: true };
/// Where a ramp of a rate begins.
const RATE_FROM: Kind = Kind::Float { min: 0.0, above: false, max: 1_000_000_000.0 };
const RAMP: Kind = Kind::Choice { words: &["linear", "exponential", "poisson"], later: &[] };
const SATURATION: Kind = Kind::Choice { words: &["queue", "skip", "abort"], later: &[] };
/// How many times as long.
const TIMES: Kind = Kind::Float { min: 0.0, above: false, max: 1_000.0 };
/// A part of all.
const SHARE: Kind = Kind::Float { min: 0.0, above: true, max: 1.0 };
/// How many times faster than recorded; twelve digits behind the point count.
const SPEEDUP: Kind = Kind::Float { min: 0.000_001, above: false, max: 1_000_000.0 };
/// A place in a file's own time, milliseconds: as far as the clock reaches.
const OFFSET: Kind = count(0, 9_000_000_000_000);
/// Turns of one conversation.
pub(crate) const MOST_TURNS: f64 = aiperf_core::conversation::MOST_TURNS as f64;
/// Passages of one ranking request.
pub(crate) const MOST_PASSAGES: f64 = 100_000.0;
/// Think time, milliseconds: with the largest ratio still far from the end of the clock.
const DELAY: Kind = Kind::Float { min: 0.0, above: false, max: 100_000_000.0 };
const PATTERN: Kind = Kind::Choice {
    words: &[
        "poisson",
        "constant",
        "gamma",
        "concurrency_burst|concurrency",
        "user_centric",
        "fixed_schedule",
    ],
    later: &[],
};
/// A warmup has no users and follows no schedule.
const WARMUP_PATTERN: Kind =
    Kind::Choice { words: &["poisson", "constant", "gamma", "concurrency_burst|concurrency"], later: &[] };

macro_rules! options {
    ($($id:ident $args:tt $($more:ident($($arg:expr)?))*;)*) => {
        /// Every option, in the order of the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Id {
            $(#[doc = concat!("The option `", stringify!($id), "` of the table.")] $id,)*
        }

        /// The table.
        pub static OPTIONS: &[Row] = &[$(options!(@row $id $args)$(.$more($($arg)?))*,)*];
    };
    (@row $id:ident ($($arg:expr),* $(,)?)) => { row(Id::$id, $($arg),*) };
}

options! {
    Config(&["config"], "", Kind::Path, Default::Absent, Group::Runtime,
        "YAML file with the configuration. Flags and environment variables win over it.") short(&["f"]) no_env();

    Model(&["model", "model-names"], "models", Kind::List, Default::Absent, Group::Endpoint,
        "Model named in each request. Several are separated by commas and take turns. Required.") short(&["m"]);
    ModelSelection(&["model-selection-strategy"], "models.strategy",
        Kind::Choice { words: &["round_robin", "random", "weighted"], later: &[] },
        Default::Said("round_robin; weighted with --model-weights"), Group::Endpoint,
        "How several models are given to requests: each in turn, any, or by the shares of --model-weights.");
    ModelWeights(&["model-weights"], "models.weights", Kind::Weights, Default::Absent, Group::Endpoint,
        "Shares of several models, in the order of --model: with 3,1 the first is asked three times of four, evenly spread. In a \
         file also models: {items: [{name, weight}]}.");
    Url(&["url"], "endpoint.urls", Kind::List, Default::Is("http://localhost:8000"), Group::Endpoint,
        "Address of the server: http, https, or sim:// for the simulated server in this process. \
         http is meant when no scheme is written. Several servers are separated by commas; each session stays with one of \
         them.") short(&["u"]) also(&["endpoint.url"]);
    UrlStrategy(&["url-strategy"], "endpoint.url_strategy", Kind::Choice {
            words: &["round_robin", "random", "weighted", "least_in_flight"],
            later: &[],
        }, Default::Said("round_robin; weighted with --url-weights"), Group::Endpoint,
        "Which of several servers a new session gets: each in turn, any, by weight, or the one with the fewest requests in \
         flight.");
    UrlWeights(&["url-weights"], "endpoint.url_weights", Kind::Weights, Default::Absent, Group::Endpoint,
        "Shares of several servers, in the order of --url: with 3,1 the first gets about three sessions of four. In a file also \
         urls: [{url, weight}].");
    EndpointType(&["endpoint-type"], "endpoint.type", Kind::Choice {
            words: &["chat", "completions", "responses", "messages", "embeddings", "chat_embeddings", "nim_embeddings",
                "cohere_rankings", "hf_tei_rankings", "nim_rankings", "huggingface_generate", "sglang_generate", "solido_rag",
                "template", "raw"],
            later: &["audio_transcription", "image_generation", "image_edit", "video_generation", "image_retrieval"],
        }, Default::Said("chat; template with --payload-template"), Group::Endpoint,
        "Which API is spoken: OpenAI's /v1/chat/completions, /v1/completions or /v1/responses, Anthropic's /v1/messages; vectors \
         from /v1/embeddings, asked with texts (also NVIDIA NIM's) or with chat messages (vLLM's); scores from Cohere's /v2/rerank, \
         TEI's /rerank or NIM's /v1/ranking; the /generate of Hugging Face's TGI or of SGLang, Solido's /rag/api/prompt, bodies made by a template of yours, or bodies from \
         the data set (raw). The last two have no path of their own.");
    PayloadTemplate(&["payload-template"], "endpoint.template.body", Kind::Text, Default::Absent, Group::Endpoint,
        "Jinja template of request bodies for --endpoint-type template: a file, the template itself, or nv-embedqa. It sees text, \
         texts, query, passages, model, max_tokens, stream and more, and must make a JSON object.");
    ResponseField(&["response-field"], "endpoint.template.response_field", Kind::Text,
        Default::Said("looked for where servers usually have it"), Group::Endpoint,
        "JMESPath expression of the content in answers to the endpoint types template and raw.");
    CustomEndpoint(&["custom-endpoint", "endpoint"], "endpoint.path", Kind::Text, Default::Said("the path of the endpoint type"),
        Group::Endpoint, "Path used in place of the endpoint type's own; it starts with a slash. Empty appends nothing to the URL.");
    Streaming(&["streaming"], "endpoint.streaming", Kind::Bool, Default::Is("false"), Group::Endpoint,
        "Ask for server-sent events, so that time to first token and inter-token latency can be measured.");
    RequestTimeout(&["request-timeout-seconds"], "endpoint.timeout", ABOVE_ZERO, Default::Is("21600"), Group::Endpoint,
        "Longest a request may take from start to end.");
    ConnectTimeout(&["connect-timeout-seconds"], "endpoint.connect_timeout", ABOVE_ZERO, Default::Absent, Group::Endpoint,
        "Longest that name, TCP and TLS of one connection may take.");
    FirstTokenTimeout(&["first-token-timeout-seconds"], "endpoint.first_token_timeout", ABOVE_ZERO, Default::Absent,
        Group::Endpoint, "Longest wait from the last byte of a request to the first content of its answer. Needs --streaming.");
    IdleTimeout(&["idle-timeout-seconds"], "endpoint.idle_timeout", ABOVE_ZERO, Default::Absent, Group::Endpoint,
        "Longest silence within an answer.");
    ApiKey(&["api-key"], "endpoint.api_key", Kind::Text, Default::Absent, Group::Endpoint,
        "Key sent as `Authorization: Bearer`. Other users of the machine can read it in the process list; \
         prefer --api-key-file or --api-key-env.") no_env();
    ApiKeyFile(&["api-key-file"], "endpoint.api_key_file", Kind::Path, Default::Absent, Group::Endpoint,
        "File that holds the key; white space around it is dropped.");
    ApiKeyEnv(&["api-key-env"], "endpoint.api_key_env", Kind::Text, Default::Absent, Group::Endpoint,
        "Name of the environment variable that holds the key, such as OPENAI_API_KEY. Never read unless named here.") no_env();
    Header(&["header"], "endpoint.headers", Kind::Headers, Default::Absent, Group::Endpoint,
        "Header for each request, repeatable. Values are always text.") short(&["H"]) no_env();
    ExtraInputs(&["extra-inputs"], "endpoint.extra", Kind::Extra, Default::Absent, Group::Endpoint,
        "Fields for each request body, repeatable, such as temperature:0.5,ignore_eos:true; with := the value is JSON, as in \
         'stop:=[\"a\",\"b\"]'. They win over the body's own fields.");
    Transport(&["transport", "transport-type"], "endpoint.transport", Kind::Choice { words: &["http"], later: &[] },
        Default::Said("by the URL"), Group::Endpoint, "What carries requests.");
    ConnectionReuse(&["connection-reuse-strategy"], "endpoint.connection_reuse",
        Kind::Choice { words: &["pooled", "never", "sticky_user_sessions"], later: &[] }, Default::Is("pooled"), Group::Endpoint,
        "Use kept connections again, a fresh one for each request, or one for all turns of a session.");
    HttpVersion(&["http-version"], "endpoint.http_version", Kind::Choice { words: &["1.1|1", "2|2.0"], later: &[] },
        Default::Is("1.1"), Group::Endpoint,
        "HTTP/1.1, or HTTP/2, where many requests share a connection: over TLS by ALPN, in clear by prior knowledge (h2c).");
    Resend(&["resend"], "endpoint.resend", Kind::Bool, Default::Is("true"), Group::Endpoint,
        "Send a request once more, over a new connection, when the server had closed the kept one before any byte of an answer. \
         Each such request is counted.");
    UnixSocket(&["unix-socket"], "endpoint.unix_socket", Kind::Path, Default::Absent, Group::Endpoint,
        "Connect to this Unix socket; the URL still names host and path.");
    ProxyFromEnv(&["proxy-from-env"], "endpoint.proxy_from_env", Kind::Bool, Default::Is("false"), Group::Endpoint,
        "Go through the proxies that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY name.");
    CaFile(&["ca-file"], "endpoint.ca_file", Kind::Path, Default::Absent, Group::Endpoint,
        "PEM file of certificates that are trusted beside the system's own.");
    ClientCert(&["client-cert"], "endpoint.client_cert", Kind::Path, Default::Absent, Group::Endpoint,
        "PEM file of the certificate shown to a server that asks for one, and of those that signed it.");
    ClientKey(&["client-key"], "endpoint.client_key", Kind::Path, Default::Said("the file of --client-cert"), Group::Endpoint,
        "PEM file of the key of --client-cert.");
    LegacyMaxTokens(&["use-legacy-max-tokens"], "endpoint.use_legacy_max_tokens", Kind::Bool, Default::Is("false"),
        Group::Endpoint, "Send max_tokens in place of max_completion_tokens to the chat API.");
    ServerTokenCount(&["use-server-token-count"], "endpoint.use_server_token_count", Kind::Bool, Default::Is("false"),
        Group::Endpoint, "Take token counts from the server's usage in place of counting them here.");
    WaitForModelTimeout(&["wait-for-model-timeout"], "endpoint.wait_for_model_timeout", FROM_ZERO, Default::Is("0"), Group::Endpoint,
        "Before the run, wait until each server serves each model, for so long at most for each; 0 does not wait.");
    WaitForModelMode(&["wait-for-model-mode"], "endpoint.wait_for_model_mode",
        Kind::Choice { words: &["inference", "models", "both"], later: &[] }, Default::Is("inference"), Group::Endpoint,
        "What shows that a server is ready: a request of one token of the endpoint type is answered (any status below 500), the model \
         is in /v1/models, or both.");
    WaitForModelInterval(&["wait-for-model-interval"], "endpoint.wait_for_model_interval", ABOVE_ZERO, Default::Is("5"),
        Group::Endpoint, "Pause between two tries while waiting for a server.");
    ResetKvCache(&["reset-kv-cache"], "endpoint.reset_kv_cache", Kind::Bool, Default::Is("false"), Group::Endpoint,
        "Before the run, have each server forget its prefix cache (POST). In a file also a mapping of the options below.");
    ResetKvCachePath(&["reset-kv-cache-path"], "endpoint.reset_kv_cache.path", Kind::Text, Default::Is("/reset_prefix_cache"),
        Group::Endpoint, "Path on the server that resets its prefix cache. Asks for --reset-kv-cache.");
    ResetKvCacheTimeout(&["reset-kv-cache-timeout-seconds"], "endpoint.reset_kv_cache.timeout_seconds", ABOVE_ZERO,
        Default::Is("30"), Group::Endpoint, "Longest that one such request may take. Asks for --reset-kv-cache.");
    ResetKvCacheMaxRetry(&["reset-kv-cache-max-retry-seconds"], "endpoint.reset_kv_cache.max_retry_seconds", FROM_ZERO,
        Default::Is("60"), Group::Endpoint,
        "How long it is asked again when it fails on the way or the server is busy (409, 423, 429, 503). Asks for --reset-kv-cache.");
    ServerProfiler(&["server-profiler"], "endpoint.server_profiler", Kind::Bool, Default::Is("false"), Group::Endpoint,
        "Have each server profile itself (POST) while it is measured, not in a warmup. In a file also a mapping of the options below.");
    ServerProfilerStartPath(&["server-profiler-start-path"], "endpoint.server_profiler.start_path", Kind::Text,
        Default::Is("/start_profile"), Group::Endpoint, "Path on the server that starts its profiler. Asks for --server-profiler.");
    ServerProfilerStopPath(&["server-profiler-stop-path"], "endpoint.server_profiler.stop_path", Kind::Text,
        Default::Is("/stop_profile"), Group::Endpoint, "Path on the server that stops its profiler. Asks for --server-profiler.");
    ServerProfilerTimeout(&["server-profiler-timeout-seconds"], "endpoint.server_profiler.timeout_seconds", ABOVE_ZERO,
        Default::Is("30"), Group::Endpoint, "Longest that either request may take. Asks for --server-profiler.");
    PerChunkUsage(&["per-chunk-usage"], "endpoint.per_chunk_usage", Kind::Bool, Default::Is("false"), Group::Endpoint,
        "Ask the server for its counts with every chunk (stream_options.continuous_usage_stats), and take the inter-token latency \
         over the tokens behind those of the first chunk.");
    UuidAndStrip(&["uuid-and-strip"], "endpoint.uuid_and_strip", Kind::Bool, Default::Is("false"), Group::Endpoint,
        "Send an image that an earlier row of the session has shown as its id alone (image_uuids), which a server (vLLM) knows it by. \
         For rows of single_turn and the endpoint type chat.");
    SessionHeader(&["session-header"], "endpoint.session_header", Kind::Text, Default::Is("X-Correlation-ID"), Group::Endpoint,
        "Name of the header that carries a session's id.");
    MaxResponseBytes(&["max-response-bytes"], "endpoint.max_response_bytes", Kind::Bytes { min: 1024, max: (1 << 32) - 1 },
        Default::Is("64MiB"), Group::Endpoint, "Most bytes of one response body; a longer one is a failure.");
    ReceiveStamps(&["receive-stamps"], "endpoint.receive_stamps", Kind::Choice { words: &["kernel", "user"], later: &[] },
        Default::Is("kernel"), Group::Endpoint,
        "What says when bytes arrived: the kernel where it received them (Linux, TCP; elsewhere as with user), or the client where \
         its read returned.");

    Isl(&["isl", "prompt-input-tokens-mean", "synthetic-input-tokens-mean"], "dataset.prompts.isl.mean", count(1, TOKENS),
        Default::Is("550"), Group::Dataset, "Mean input length of synthetic prompts, tokens.") sweepable() also(&["dataset.isl.mean"]);
    IslStddev(&["isl-stddev", "prompt-input-tokens-stddev", "synthetic-input-tokens-stddev"], "dataset.prompts.isl.stddev", SPREAD,
        Default::Is("0"), Group::Dataset, "Standard deviation of the input length, tokens.") sweepable() also(&["dataset.isl.stddev"]);
    IslShape(&["isl-distribution"], "dataset.prompts.isl", Kind::Lengths, Default::Absent, Group::Dataset,
        "Input length as a distribution of any form: {\"mean\": 600, \"median\": 400} is log-normal, peaks mixes several, points \
         chooses from a list.") also(&["dataset.isl"]);
    Osl(&["osl", "output-tokens-mean", "prompt-output-tokens-mean"], "dataset.prompts.osl.mean", count(0, TOKENS),
        Default::Said("no limit is sent"), Group::Dataset,
        "Mean output length asked for, tokens; 0 sends no limit. With --input-file: for rows that give none.")
        sweepable() also(&["dataset.osl.mean"]);
    OslStddev(&["osl-stddev", "output-tokens-stddev", "prompt-output-tokens-stddev"], "dataset.prompts.osl.stddev", SPREAD,
        Default::Is("0"), Group::Dataset, "Standard deviation of the output length, tokens. Needs --osl.")
        sweepable() also(&["dataset.osl.stddev"]);
    OslShape(&["osl-distribution"], "dataset.prompts.osl", Kind::Lengths, Default::Absent, Group::Dataset,
        "Output length asked for as a distribution, in the forms of --isl-distribution.") also(&["dataset.osl"]);
    SeqDist(&["seq-dist", "sequence-distribution"], "dataset.prompts.sequence_distribution", Kind::Pairs, Default::Absent,
        Group::Dataset,
        "Pairs of input and output length, each for a percentage of the prompts, such as 256|10,128:60;512,256:40.");
    RangeRatio(&["random-range-ratio"], "dataset.prompts.random_range_ratio", Kind::Ratio, Default::Absent, Group::Dataset,
        "Draw lengths evenly from a window around --isl and --osl (style vllm: from x - x*ratio to x + x*ratio) or below them \
         (sglang: from x*ratio to x). With --prompt-corpus random the prompts are that tool's own, token for token.");
    Entries(&["num-dataset-entries", "num-prompts"], "dataset.entries", count(1, MANY),
        Default::Said("--num-conversations, else --request-count, else 100; every row of an input file"), Group::Dataset,
        "Number of different conversations.");
    Sampling(&["dataset-sampling-strategy"], "dataset.sampling",
        Kind::Choice { words: &["sequential", "random", "shuffle"], later: &[] }, Default::Is("sequential"), Group::Dataset,
        "Which conversation each session takes: the next one, from the first again after the last; any; or each once in a drawn \
         order, then each once in another. A fixed schedule takes them at their times.");
    OnTurnError(&["on-turn-error"], "dataset.on_turn_error",
        Kind::Choice { words: &["continue", "abort_session"], later: &[] }, Default::Is("continue"), Group::Dataset,
        "What becomes of a conversation whose turn failed: its next turn is sent, behind a message without a reply, or it ends there. \
         Those that ended early are counted.");
    Corpus(&["prompt-corpus"], "dataset.prompts.corpus", Kind::Choice { words: &["sonnet", "coding", "random"], later: &[] },
        Default::Is("sonnet"), Group::Dataset,
        "What synthetic prompts are made of: words of sonnets; code, logs and talk about them; or tokens of the vocabulary one \
         after the other. Of a trace whose rows give lengths: the first two.");
    CorpusStyle(&["random-corpus-style"], "dataset.prompts.random_corpus_style",
        Kind::Choice { words: &["vllm", "sglang", "sglang_strict"], later: &[] }, Default::Is("vllm"), Group::Dataset,
        "Whose random prompts and range ratio are meant: those of vllm bench serve, of SGLang with lengths corrected as AIPerf \
         does, or of SGLang exactly.");
    BatchSize(&["prompt-batch-size", "batch-size-text", "batch-size"], "dataset.prompts.batch_size", count(1, 100_000),
        Default::Is("1"), Group::Dataset, "Texts of one request, every one of the input length.") short(&["b"]);
    IslBelowMinimum(&["isl-below-minimum"], "dataset.prompts.isl_below_minimum",
        Kind::Choice { words: &["refuse", "floor"], later: &[] }, Default::Is("refuse"), Group::Dataset,
        "What an input length becomes that is less than chat template and marker need: an error before anything is sent, or the \
         shortest prompt there is, as AIPerf does.");

    Turns(&["conversation-turn-mean", "session-turns-mean"], "dataset.turns.mean",
        Kind::Float { min: 1.0, above: false, max: MOST_TURNS }, Default::Is("1"), Group::Dataset,
        "Mean number of turns of a synthetic conversation. Each turn is sent after the answer to the one before it, with all of \
         the conversation so far.") sweepable();
    TurnsStddev(&["conversation-turn-stddev", "session-turns-stddev"], "dataset.turns.stddev",
        Kind::Float { min: 0.0, above: false, max: MOST_TURNS }, Default::Is("0"), Group::Dataset,
        "Standard deviation of the number of turns.");
    TurnsShape(&["conversation-turn-distribution"], "dataset.turns", Kind::Lengths, Default::Absent, Group::Dataset,
        "Number of turns as a distribution, in the forms of --isl-distribution.");
    TurnDelay(&["conversation-turn-delay-mean", "session-turn-delay-mean"], "dataset.turn_delay.mean", DELAY, Default::Is("0"),
        Group::Dataset, "Mean think time before each turn but the first, milliseconds after the answer before it.");
    TurnDelayStddev(&["conversation-turn-delay-stddev", "session-turn-delay-stddev"], "dataset.turn_delay.stddev", DELAY,
        Default::Is("0"), Group::Dataset, "Standard deviation of the think time, milliseconds.");
    TurnDelayRatio(&["conversation-turn-delay-ratio", "session-delay-ratio"], "dataset.turn_delay_ratio",
        Kind::Float { min: 0.0, above: false, max: 10_000.0 }, Default::Is("1"), Group::Dataset,
        "Factor on every think time; 0 turns them off.");

    SystemPrompt(&["system-prompt"], "dataset.system_prompt", Kind::Text, Default::Absent, Group::Dataset,
        "System message of every conversation, word for word, before one that the data set has. Its tokens come on top of --isl.");
    SystemPromptFile(&["system-prompt-file"], "dataset.system_prompt_file", Kind::Path, Default::Absent, Group::Dataset,
        "UTF-8 file with the system message, sent as it is.");
    SharedSystem(&["shared-system-prompt-length"], "dataset.prefix_prompts.shared_system_length", count(1, TOKENS),
        Default::Absent, Group::Dataset,
        "Tokens of a synthetic system message that all conversations share; on top of --isl.");
    UserContext(&["user-context-prompt-length"], "dataset.prefix_prompts.user_context_length", count(1, TOKENS), Default::Absent,
        Group::Dataset, "Tokens of a user message before the first turn that each conversation has for itself; on top of --isl.");
    PrefixPool(&["num-prefix-prompts", "prompt-prefix-pool-size", "prefix-prompt-pool-size"], "dataset.prefix_prompts.pool_size",
        count(0, 10_000_000), Default::Said("1 with --prompt-prefix-length"), Group::Dataset,
        "Number of different beginnings; each conversation's first turn starts with one of them. 0 turns them off.");
    PrefixLength(&["prompt-prefix-length", "prefix-prompt-length"], "dataset.prefix_prompts.length", count(0, TOKENS),
        Default::Absent, Group::Dataset, "Tokens of each of these beginnings, on top of --isl. 0 turns them off.");

    Passages(&["rankings-passages-mean"], "dataset.rankings.passages.mean", count(1, MOST_PASSAGES as u64), Default::Is("10"),
        Group::Dataset, "Mean number of passages that a ranking request has, for the rankings endpoints.") sweepable();
    PassagesStddev(&["rankings-passages-stddev"], "dataset.rankings.passages.stddev",
        Kind::Float { min: 0.0, above: false, max: MOST_PASSAGES }, Default::Is("0"), Group::Dataset,
        "Standard deviation of that number.") sweepable();
    PassagesShape(&["rankings-passages-distribution"], "dataset.rankings.passages", Kind::Lengths, Default::Absent,
        Group::Dataset, "Number of passages as a distribution, in the forms of --isl-distribution.");
    PassageTokens(&["rankings-passages-prompt-token-mean"], "dataset.rankings.passage_tokens.mean", count(1, TOKENS),
        Default::Is("128"), Group::Dataset, "Mean length of a passage, tokens.") sweepable();
    PassageTokensStddev(&["rankings-passages-prompt-token-stddev"], "dataset.rankings.passage_tokens.stddev", SPREAD,
        Default::Is("0"), Group::Dataset, "Standard deviation of the length of a passage, tokens.") sweepable();
    PassageTokensShape(&["rankings-passages-prompt-token-distribution"], "dataset.rankings.passage_tokens", Kind::Lengths,
        Default::Absent, Group::Dataset, "Length of a passage as a distribution.");
    QueryTokens(&["rankings-query-prompt-token-mean"], "dataset.rankings.query_tokens.mean", count(1, TOKENS), Default::Is("32"),
        Group::Dataset, "Mean length of the query that passages are ranked by, tokens.") sweepable();
    QueryTokensStddev(&["rankings-query-prompt-token-stddev"], "dataset.rankings.query_tokens.stddev", SPREAD, Default::Is("0"),
        Group::Dataset, "Standard deviation of the length of the query, tokens.") sweepable();
    QueryTokensShape(&["rankings-query-prompt-token-distribution"], "dataset.rankings.query_tokens", Kind::Lengths,
        Default::Absent, Group::Dataset, "Length of the query as a distribution.");

    CacheBust(&["cache-bust"], "dataset.prompts.cache_bust.target", Kind::Choice {
            words: &["none", "system_prefix", "system_suffix", "first_turn_prefix", "first_turn_suffix",
                "warmup_isolation_system", "warmup_isolation_first_turn"],
            later: &[],
        }, Default::Is("none"), Group::Dataset,
        "Where a marker goes that keeps prefix caches from answering: one for each session, or one for all warmup requests \
         (warmup_isolation). The marker is inside the length of the message it is in.") also(&["dataset.cache_bust.target"]);
    CacheBustRunId(&["cache-bust-run-id"], "dataset.prompts.cache_bust.run_id", Kind::Text,
        Default::Said("the id of the run, so that no two runs share a marker"), Group::Dataset,
        "Text that markers are made from; with the same text and seed a run sends the same bytes again.")
        also(&["dataset.cache_bust.run_id"]);

    Seed(&["random-seed"], "/random_seed", count(0, u64::MAX), Default::Said("drawn, printed and recorded"), Group::Dataset,
        "Seed of every draw of the run.");
    InputFile(&["input-file"], "dataset.path", Kind::Path, Default::Absent, Group::Dataset,
        "File of your own prompts: JSONL, or a JSON list, CSV or Parquet; any of them packed with gzip or zstd. `-` is standard input.");
    PublicDataset(&["public-dataset"], "dataset.dataset", Kind::Text, Default::Absent, Group::Dataset,
        "A data set that others publish, by AIPerf's name: sharegpt, aimo, aimo_aime, aimo_numina_cot, aimo_numina_1_5, instruct_coder, \
         blazedit_5k, blazedit_10k, spec_bench, spec_al_gsm8k, spec_al_math500, spec_al_humaneval, spec_al_mbpp, spec_al_mtbench; with \
         images or videos mmstar, mmvu, vision_arena, llava_onevision; with speech librispeech, voxpopuli, gigaspeech, ami, spgispeech; recorded requests of agents exgentic, exgentic_v2. It is \
         taken from .cache/aiperf/datasets, from the hub's cache, or from --input-file; --dataset-download fetches one that is not there.");
    DatasetDownload(&["dataset-download"], "dataset.download", Kind::Bool, Default::Is("false"), Group::Dataset,
        "Fetch a public data set that is not here from the hub into the hub's cache, as far as the run needs its files. HF_ENDPOINT, \
         HF_TOKEN and HF_HUB_OFFLINE count.");
    HfSubset(&["hf-subset"], "dataset.hf_subset", Kind::Text, Default::Said("the data set's usual one"), Group::Dataset,
        "Which part of a public data set of the hub is sent.");
    DatasetFilter(&["dataset-filter"], "dataset.filters", Kind::Filters, Default::Absent, Group::Dataset,
        "Which sessions of a public data set of agents are sent: harness=NAME, source_model=NAME (the model that was recorded), and of \
         exgentic_v2 benchmark=NAME. Each key once; a session has to match them all.");
    DatasetFormat(&["custom-dataset-type"], "dataset.format", Kind::Choice {
            words: &["single_turn", "multi_turn", "mooncake_trace", "bailian_trace", "burst_gpt_trace", "random_pool",
                "sagemaker_data_capture", "baseten_trace", "raw_payload", "inputs_json", "sharegpt", "chat"],
            later: &["dag_jsonl", "weka_trace", "tracelab",
                "speed_bench_qualitative", "speed_bench_coding", "speed_bench_humanities", "speed_bench_math",
                "speed_bench_multilingual", "speed_bench_qa", "speed_bench_rag", "speed_bench_reasoning", "speed_bench_roleplay",
                "speed_bench_stem", "speed_bench_summarization", "speed_bench_writing", "speed_bench_throughput_1k",
                "speed_bench_throughput_2k", "speed_bench_throughput_8k", "speed_bench_throughput_16k",
                "speed_bench_throughput_32k"],
        }, Default::Said("told by the first row"), Group::Dataset, "Form of the input file: one request per row; the turns of a conversation per row, each sent behind those before it and the \
         server's answers (multi_turn); the length and blocks of one request per row (mooncake_trace, bailian_trace, and as a table burst_gpt_trace); texts that requests are drawn from (random_pool, where each file of a folder is a pool); requests as \
         SageMaker recorded them (sagemaker_data_capture), or as a table of prompts and times (baseten_trace); one whole request body per row, sent as it is \
         (raw_payload; of a folder each JSONL file is a conversation), or all bodies in one JSON file (inputs_json); conversations of ShareGPT of \
         usual lengths (sharegpt); or prompts or conversations in a JSON list, JSONL, CSV or Parquet of others (chat).");
    PromptColumn(&["dataset-prompt-column"], "dataset.prompt_column", Kind::Text,
        Default::Said("prompt, question, instruction, problem, query or text"), Group::Dataset,
        "What a data set of others (CSV, Parquet, JSON; --custom-dataset-type chat) calls its prompts.");
    ResponseColumn(&["dataset-response-column"], "dataset.response_column", Kind::Text, Default::Said("response or completion"),
        Group::Dataset, "What it calls its answers: each limits the answer to its own length in tokens.");
    MessagesColumn(&["dataset-messages-column"], "dataset.messages_column", Kind::Text,
        Default::Said("messages, conversations or conversation"), Group::Dataset,
        "What it calls its conversations, lists of messages with a role and contents.");
    SystemColumn(&["dataset-system-column"], "dataset.system_column", Kind::Text, Default::Said("system or system_prompt"),
        Group::Dataset, "What it calls its system messages.");
    OutputLengthColumn(&["dataset-output-length-column"], "dataset.output_length_column", Kind::Text,
        Default::Said("output_length or output_tokens"), Group::Dataset, "What it calls the lengths of answers, tokens.");
    BlockSize(&["isl-block-size", "prompt-input-tokens-block-size", "synthetic-input-tokens-block-size"], "dataset.block_size",
        count(1, TOKENS), Default::Said("the trace's own: 512 for mooncake_trace, 16 for bailian_trace"), Group::Dataset,
        "Tokens of a block of a trace, which its hash_ids name.") also(&["dataset.prompts.block_size"]);
    OnBadRow(&["on-bad-row"], "dataset.on_bad_row", Kind::Choice { words: &["stop", "skip"], later: &[] }, Default::Is("stop"),
        Group::Dataset,
        "What becomes of a row of the file that cannot be sent: it is told with its line and nothing is sent, or it is left out and \
         counted.");
    DelayCap(&["inter-turn-delay-cap-seconds"], "dataset.inter_turn_delay_cap_seconds", FROM_ZERO, Default::Absent, Group::Dataset,
        "Longest think time of the file; longer ones are cut down to it, behind --replay-speedup.");
    IgnoreTraceDelays(&["ignore-trace-delays"], "dataset.ignore_trace_delays", Kind::Bool, Default::Is("false"), Group::Dataset,
        "Send each later turn of a file's conversations as soon as the turn before it has ended, whatever its delay or timestamp.");
    ReplaySpeedup(&["replay-speedup"], "dataset.replay_speedup", SPEEDUP, Default::Absent, Group::Dataset,
        "How many times faster than recorded the file is replayed: timestamps and delays are divided by it. Less than 1 is slower.");
    IdleGapCap(&["max-idle-gap-cap-seconds"], "dataset.max_idle_gap_cap_seconds", ABOVE_ZERO, Default::Absent, Group::Dataset,
        "Longest silence between one timestamp and the next over all sessions of a fixed schedule, behind --replay-speedup; longer ones \
         are cut down to it.");
    OpenLoopReplay(&["open-loop-replay"], "dataset.open_loop_replay", Kind::Bool, Default::Is("true"), Group::Dataset,
        "Send later turns of a fixed schedule at their own timestamps, or behind the answer before if that is later. With \
         --no-open-loop-replay they follow that answer after the time the user took to think: the recorded time from start to start \
         without duration_e2e_ms, how long the recorded answer took.");
    OpenLoopStrict(&["open-loop-strict"], "dataset.open_loop_strict", Kind::Bool, Default::Is("false"), Group::Dataset,
        "Send each row of a fixed schedule at its own timestamp, as a session of one request, whatever became of the rows before it.");
    SessionShare(&["trace-session-sample-ratio"], "dataset.trace_session_sample_ratio", SHARE, Default::Absent, Group::Dataset,
        "Share of a file's sessions that is kept: whole sessions, drawn by seed and name; a row without a session is one. At least one is.");
    OmitKvHints(&["omit-kv-hints"], "dataset.omit_kv_hints", Kind::Bool, Default::Is("false"), Group::Dataset,
        "Leave hash_ids and block_size of a baseten_trace out of the requests, for servers that refuse fields they do not know.");
    ForceMinTokens(&["force-min-tokens"], "dataset.force_min_tokens", Kind::Bool, Default::Is("true"), Group::Dataset,
        "Send min_tokens, the recorded length of the answer, with each request of a baseten_trace, so that no answer is shorter.");
    SynthesisSpeedup(&["synthesis-speedup-ratio"], "dataset.synthesis.speedup_ratio", SPEEDUP, Default::Is("1"), Group::Dataset,
        "--replay-speedup by AIPerf's other name, for traces.");
    SynthesisPrefix(&["synthesis-prefix-len-multiplier"], "dataset.synthesis.prefix_len_multiplier", TIMES, Default::Is("1"),
        Group::Dataset,
        "How many times as many blocks the prefixes of a trace have: the hash_ids at the front of a row that come more than once in it. \
         Rows that share a prefix share what is added; below 1, 0 too, its first blocks stay, at least one.");
    SynthesisRoots(&["synthesis-prefix-root-multiplier"], "dataset.synthesis.prefix_root_multiplier", count(1, MANY), Default::Is("1"),
        Group::Dataset, "Spread the conversations of a trace over so many trees of blocks that share nothing with each other.");
    SynthesisPrompt(&["synthesis-prompt-len-multiplier"], "dataset.synthesis.prompt_len_multiplier", TIMES, Default::Is("1"),
        Group::Dataset, "How many times as many tokens the rows of a trace have behind their prefixes.");
    SynthesisOutput(&["synthesis-output-len-multiplier"], "dataset.synthesis.output_len_multiplier", TIMES, Default::Is("1"),
        Group::Dataset, "How many times as long the answers of a trace are, to the nearest token, at least 1.");
    SynthesisMaxIsl(&["synthesis-max-isl"], "dataset.synthesis.max_isl", count(1, TOKENS), Default::Absent, Group::Dataset,
        "Leave out rows of a trace that give a longer input, tokens; they are counted. What the multipliers make longer is cut down to it.");
    SynthesisMaxOsl(&["synthesis-max-osl"], "dataset.synthesis.max_osl", count(1, TOKENS), Default::Absent, Group::Dataset,
        "Cut output lengths of a trace down to this, tokens.");
    NoFixedSchedule(&["no-fixed-schedule"], "dataset.ignore_timestamps", Kind::Bool, Default::Is("false"), Group::Dataset,
        "Send rows that carry timestamps by the load options in place of their timestamps.");

    Tokenizer(&["tokenizer"], "tokenizer.name", Kind::Text, Default::Said("the name of the first model"), Group::Tokenizer,
        "A built-in vocabulary (`builtin`, the others of tiktoken by name), a folder with tokenizer.json or tekken.json, \
         such a file, or a model of the Hugging Face hub: one in its cache, or any with --tokenizer-download.");
    TokenizerRevision(&["tokenizer-revision"], "tokenizer.revision", Kind::Text, Default::Is("main"), Group::Tokenizer,
        "Branch, tag or commit of a tokenizer of the hub.");
    TokenizerDownload(&["tokenizer-download"], "tokenizer.download", Kind::Bool, Default::Is("false"), Group::Tokenizer,
        "Fetch a tokenizer that is not here from the hub into the hub's cache. HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE count.");
    ApplyChatTemplate(&["apply-chat-template"], "tokenizer.apply_chat_template", Kind::Bool, Default::Is("false"),
        Group::Tokenizer,
        "Input lengths are those of the whole request as the tokenizer's chat template renders it, and are counted so; otherwise \
         those of the bare texts.");
    VerifyLengths(&["verify-lengths"], "tokenizer.verify_lengths",
        Kind::Choice { words: &["all", "sample", "off"], later: &[] }, Default::Is("sample"), Group::Tokenizer,
        "Which of the requests that were made to a length are counted again as a whole, beside the run. Unless off, a server that \
         answers /tokenize is asked before the run how it counts a first one.");

    Concurrency(&["concurrency"], "phases.profiling.concurrency", count(1, SESSIONS),
        Default::Said("1; no limit with --request-rate"), Group::Load,
        "Most sessions alive at once. With --request-rate a cap on it.") sweepable();
    ConcurrencyRamp(&["concurrency-ramp-duration"], "phases.profiling.concurrency_ramp.duration", ABOVE_ZERO, Default::Absent,
        Group::Load, "Time in which the limit on sessions comes to --concurrency.");
    ConcurrencyRampStrategy(&["concurrency-ramp-strategy"], "phases.profiling.concurrency_ramp.strategy", RAMP,
        Default::Is("linear"), Group::Load,
        "Form of that way: even steps; with the square of the time, slow first; or steps at drawn times.");
    ConcurrencyRampFrom(&["concurrency-ramp-from"], "phases.profiling.concurrency_ramp.from", count(1, SESSIONS),
        Default::Is("1"), Group::Load, "Where it begins; above --concurrency it goes down.");
    PrefillConcurrency(&["prefill-concurrency"], "phases.profiling.prefill_concurrency", count(1, SESSIONS), Default::Absent,
        Group::Load, "Most requests that wait for their first token at once; no more than --concurrency. Needs --streaming.")
        sweepable();
    PrefillRamp(&["prefill-concurrency-ramp-duration"], "phases.profiling.prefill_ramp.duration", ABOVE_ZERO, Default::Absent,
        Group::Load, "Time in which that limit comes to --prefill-concurrency.");
    PrefillRampStrategy(&["prefill-concurrency-ramp-strategy"], "phases.profiling.prefill_ramp.strategy", RAMP,
        Default::Is("linear"), Group::Load, "Form of that way.");
    PrefillRampFrom(&["prefill-concurrency-ramp-from"], "phases.profiling.prefill_ramp.from", count(1, SESSIONS),
        Default::Is("1"), Group::Load, "Where it begins.");
    MaxInFlight(&["max-in-flight"], "phases.profiling.max_in_flight", count(1, SESSIONS), Default::Absent, Group::Load,
        "Most requests on the wire at once. Sessions that think do not count, as they do for --concurrency.");
    SaturationPolicy(&["saturation-policy"], "phases.profiling.saturation_policy", SATURATION, Default::Is("queue"), Group::Load,
        "What becomes of an arrival that finds no place under a limit: it waits and is sent late, it is left out and counted, or \
         the run stops.");
    RequestRate(&["request-rate"], "phases.profiling.rate", RATE, Default::Absent, Group::Load,
        "Arrivals per second: requests leave on a schedule, whether or not earlier ones are answered.") sweepable();
    RateSeries(&["request-rate-series"], "phases.profiling.rate_series", Kind::Series, Default::Absent, Group::Load,
        "Arrivals per second over time, from a JSON file of points: straight lines between them, the last one held. In place of \
         --request-rate.");
    RateRamp(&["request-rate-ramp-duration"], "phases.profiling.rate_ramp.duration", ABOVE_ZERO, Default::Absent, Group::Load,
        "Time in which the rate comes to --request-rate, or to the first point of a series, which begins then.");
    RateRampStrategy(&["request-rate-ramp-strategy"], "phases.profiling.rate_ramp.strategy", RAMP, Default::Is("linear"),
        Group::Load, "Form of that way.");
    RateRampFrom(&["request-rate-ramp-from"], "phases.profiling.rate_ramp.from", RATE_FROM, Default::Is("0"), Group::Load,
        "Where it begins; above the rate it goes down.");
    ArrivalPattern(&["arrival-pattern", "request-rate-mode"], "phases.profiling.type", PATTERN,
        Default::Said("poisson; gamma with --arrival-smoothness"), Group::Load,
        "Form of the gaps between arrivals. concurrency_burst sends whenever a place is free; user_centric and fixed_schedule are \
         what a file calls --user-centric-rate and --fixed-schedule.");
    Smoothness(&["arrival-smoothness", "vllm-burstiness"], "phases.profiling.smoothness", SMOOTHNESS, Default::Said("1 with gamma"),
        Group::Load, "Shape of gamma gaps: 1 is Poisson, more is smoother, less is burstier.");
    UserRate(&["user-centric-rate"], "", RATE, Default::Absent, Group::Load,
        "Requests per second of --num-users users together, each of whom sends its turns that far apart. In a file: type: \
         user_centric, rate and users. Needs conversations of at least two turns.");
    Users(&["num-users"], "phases.profiling.users", count(1, SESSIONS), Default::Absent, Group::Load,
        "Users at a time. Needs --user-centric-rate.") sweepable();
    FixedSchedule(&["fixed-schedule"], "", Kind::Bool, Default::Is("false"), Group::Load,
        "Send the rows of --input-file at their own timestamps. In a file: type: fixed_schedule.");
    AutoOffset(&["fixed-schedule-auto-offset"], "phases.profiling.auto_offset", Kind::Bool,
        Default::Said("true; false with --fixed-schedule-start-offset"), Group::Load,
        "The first timestamp is the start of the phase; otherwise the start offset is, or 0.");
    StartOffset(&["fixed-schedule-start-offset"], "phases.profiling.start_offset", OFFSET, Default::Absent, Group::Load,
        "Leave out what has an earlier timestamp, milliseconds, and begin there.");
    EndOffset(&["fixed-schedule-end-offset"], "phases.profiling.end_offset", OFFSET, Default::Absent, Group::Load,
        "Leave out what has a later timestamp, milliseconds.");
    RequestCount(&["request-count", "num-requests"], "phases.profiling.requests", count(1, MANY),
        Default::Said("10 when none of it, --num-conversations and --benchmark-duration is given"), Group::Load,
        "Stop once this many requests were sent.") sweepable();
    Conversations(&["num-conversations", "num-sessions", "conversation-num"], "phases.profiling.sessions", count(1, MANY),
        Default::Absent, Group::Load,
        "Start no more sessions than this; each goes on to its last turn. It is also the number of different conversations where \
         --num-dataset-entries does not say it.") sweepable();
    Duration(&["benchmark-duration"], "phases.profiling.duration", PHASE_TIME, Default::Absent, Group::Load,
        "Stop sending after this long; inf goes on until interrupted.") sweepable();
    Grace(&["benchmark-grace-period"], "phases.profiling.grace_period", GRACE, Default::Is("30"), Group::Load,
        "How long requests in flight may still run after --benchmark-duration; inf waits for all.");
    CancellationRate(&["request-cancellation-rate"], "phases.profiling.cancellation.rate",
        Kind::Float { min: 0.0, above: false, max: 100.0 }, Default::Absent, Group::Load,
        "Percentage of the requests whose connection is dropped on purpose; 0 drops none. Not in a warmup.");
    CancellationDelay(&["request-cancellation-delay"], "phases.profiling.cancellation.delay", FROM_ZERO, Default::Is("0"),
        Group::Load, "How long after the last byte of such a request went out. Needs --request-cancellation-rate.");
    FailedThreshold(&["failed-request-threshold"], "phases.profiling.failed_request_threshold",
        Kind::Float { min: 0.0, above: false, max: 1.0 }, Default::Absent, Group::Load,
        "Stop the run when more than this share of its requests (0 to 1) failed, once there are ten of them, or --concurrency if \
         that is more.");

    WarmupRequests(&["warmup-request-count", "num-warmup-requests"], "phases.warmup.requests", count(1, MANY), Default::Absent,
        Group::Warmup, "Requests sent before the measurement; it, --num-warmup-sessions or --warmup-duration makes a warmup phase.");
    WarmupSessions(&["num-warmup-sessions"], "phases.warmup.sessions", count(1, MANY), Default::Absent, Group::Warmup,
        "Most sessions started in the warmup; each goes on to its last turn.");
    WarmupDuration(&["warmup-duration"], "phases.warmup.duration", PHASE_TIME, Default::Absent, Group::Warmup,
        "Time spent sending before the measurement.");
    WarmupGrace(&["warmup-grace-period"], "phases.warmup.grace_period", GRACE, Default::Is("inf"), Group::Warmup,
        "How long warmup requests may still run after --warmup-duration.");
    WarmupConcurrency(&["warmup-concurrency"], "phases.warmup.concurrency", count(1, SESSIONS), Default::Said("--concurrency"),
        Group::Warmup, "Most sessions alive at once in the warmup.");
    WarmupConcurrencyRamp(&["warmup-concurrency-ramp-duration"], "phases.warmup.concurrency_ramp.duration", ABOVE_ZERO,
        Default::Said("--concurrency-ramp-duration"), Group::Warmup,
        "Time in which the warmup's limit on sessions comes to its value.");
    WarmupConcurrencyRampStrategy(&["warmup-concurrency-ramp-strategy"], "phases.warmup.concurrency_ramp.strategy", RAMP,
        Default::Said("--concurrency-ramp-strategy"), Group::Warmup, "Form of that way.");
    WarmupConcurrencyRampFrom(&["warmup-concurrency-ramp-from"], "phases.warmup.concurrency_ramp.from", count(1, SESSIONS),
        Default::Said("--concurrency-ramp-from"), Group::Warmup, "Where it begins.");
    WarmupPrefill(&["warmup-prefill-concurrency"], "phases.warmup.prefill_concurrency", count(1, SESSIONS),
        Default::Said("--prefill-concurrency"), Group::Warmup,
        "Most warmup requests that wait for their first token at once. Needs --streaming.");
    WarmupPrefillRamp(&["warmup-prefill-concurrency-ramp-duration"], "phases.warmup.prefill_ramp.duration", ABOVE_ZERO,
        Default::Said("--prefill-concurrency-ramp-duration"), Group::Warmup, "Time in which that limit comes to its value.");
    WarmupPrefillRampStrategy(&["warmup-prefill-concurrency-ramp-strategy"], "phases.warmup.prefill_ramp.strategy", RAMP,
        Default::Said("--prefill-concurrency-ramp-strategy"), Group::Warmup, "Form of that way.");
    WarmupPrefillRampFrom(&["warmup-prefill-concurrency-ramp-from"], "phases.warmup.prefill_ramp.from", count(1, SESSIONS),
        Default::Said("--prefill-concurrency-ramp-from"), Group::Warmup, "Where it begins.");
    WarmupMaxInFlight(&["warmup-max-in-flight"], "phases.warmup.max_in_flight", count(1, SESSIONS),
        Default::Said("--max-in-flight"), Group::Warmup, "Most warmup requests on the wire at once.");
    WarmupSaturation(&["warmup-saturation-policy"], "phases.warmup.saturation_policy", SATURATION,
        Default::Said("--saturation-policy"), Group::Warmup,
        "What becomes of an arrival of the warmup that finds no place under a limit.");
    WarmupRate(&["warmup-request-rate"], "phases.warmup.rate", RATE, Default::Said("--request-rate"), Group::Warmup,
        "Arrivals per second in the warmup.");
    WarmupRateSeries(&["warmup-request-rate-series"], "phases.warmup.rate_series", Kind::Series, Default::Absent, Group::Warmup,
        "Arrivals per second over the time of the warmup, from a file as for --request-rate-series.");
    WarmupRateRamp(&["warmup-request-rate-ramp-duration"], "phases.warmup.rate_ramp.duration", ABOVE_ZERO,
        Default::Said("--request-rate-ramp-duration"), Group::Warmup, "Time in which the warmup's rate comes to its value.");
    WarmupRateRampStrategy(&["warmup-request-rate-ramp-strategy"], "phases.warmup.rate_ramp.strategy", RAMP,
        Default::Said("--request-rate-ramp-strategy"), Group::Warmup, "Form of that way.");
    WarmupRateRampFrom(&["warmup-request-rate-ramp-from"], "phases.warmup.rate_ramp.from", RATE_FROM,
        Default::Said("--request-rate-ramp-from"), Group::Warmup, "Where it begins.");
    WarmupPattern(&["warmup-arrival-pattern"], "phases.warmup.type", WARMUP_PATTERN, Default::Said("--arrival-pattern"),
        Group::Warmup,
        "Form of the gaps in the warmup.");
    WarmupSmoothness(&["warmup-arrival-smoothness"], "phases.warmup.smoothness", SMOOTHNESS, Default::Said("--arrival-smoothness"),
        Group::Warmup, "Shape of gamma gaps in the warmup.");

    ArtifactDir(&["artifact-dir", "output-artifact-dir"], "artifacts.dir", Kind::Path,
        Default::Said("artifacts/<model>-openai-<endpoint type>-<load>"), Group::Output,
        "Folder for the files of the run, used as it is.");
    ExportPrefix(&["profile-export-prefix", "profile-export-file"], "artifacts.prefix", Kind::Text,
        Default::Said("profile_export"), Group::Output, "Start of the names of the exported files; a known ending is dropped.");
    ExportLevel(&["export-level", "profile-export-level"], "artifacts.level",
        Kind::Choice { words: &["summary", "records", "raw"], later: &[] }, Default::Is("records"), Group::Output,
        "Write summaries alone, a line per request too, or every request and response whole as well.");
    Goodput(&["goodput"], "slos", Kind::Objectives, Default::Absent, Group::Output,
        "Service level objectives of a good request: pairs of a metric's tag and a value in its display unit, separated by spaces, such as \
         'request_latency:250 inter_token_latency:10'. A value may not be exceeded, or must be reached where more is better.");
    ExportOutputs(&["export-outputs-json"], "artifacts.export_outputs_json", Kind::Bool, Default::Is("false"), Group::Output,
        "Write outputs.json: the text of each answer of the profiling phases, with its lengths and latencies, in the order of sessions and \
         turns.");
    ExportParquet(&["export-parquet"], "artifacts.export_parquet", Kind::Bool, Default::Is("false"), Group::Output,
        "Write the records as columns too, into profile_export.parquet: a row for each request. In a file also records: [jsonl, parquet].");
    ExportSchema(&["export-schema"], "artifacts.schema", count(1, 2), Default::Is("1"), Group::Output,
        "Shape of the summary JSON: 1 is AIPerf's 1.4, 2 has explicit nulls and zoned times.");
    SliceDuration(&["slice-duration"], "artifacts.slice_duration", ABOVE_ZERO, Default::Absent, Group::Output,
        "Write results by slices of this length, too: seconds, or as 30s, 5m, 2h. At most 100,000 slices.");

    ExportHttpTrace(&["export-http-trace"], "artifacts.trace", Kind::Bool, Default::Is("false"), Group::Output,
        "Write into each record what the wire showed: every stamp, the size and time of each read, headers (secrets redacted) and \
         addresses.");
    NetworkAutomatic(&["network-latency-automatic"], "network_latency.enabled", Kind::Bool, Default::Is("false"), Group::Output,
        "Open a TCP connection to each server beside the run every --network-latency-ping-interval, and tell latencies without the mean \
         time that takes, too.");
    NetworkMean(&["network-latency-mean"], "network_latency.mean_ms", Kind::Float { min: 0.0, above: false, max: 3_600_000.0 },
        Default::Absent, Group::Output, "Tell latencies without so many milliseconds, too; nothing is measured.");
    NetworkInterval(&["network-latency-ping-interval"], "network_latency.ping_interval",
        Kind::Float { min: 0.01, above: false, max: 86_400.0 }, Default::Is("1"), Group::Output,
        "Seconds from one such connection to the next. Needs --network-latency-automatic.");
    ShowTraceTiming(&["show-trace-timing"], "artifacts.show_trace_timing", Kind::Bool, Default::Is("false"), Group::Output,
        "Show the table of what HTTP took; files have its metrics in any case.");

    CacheLedger(&["cache-ledger"], "artifacts.cache_ledger", Kind::Bool, Default::Is("false"), Group::Output,
        "Tell beside what servers report of their prefix caches how much was there to be found. Each prompt is rendered and encoded once more, \
         behind the run. Needs a tokenizer, and an API of generated text.");
    CacheBlockSize(&["cache-block-size"], "artifacts.cache_block_size", count(1, 1_000_000), Default::Is("16"), Group::Output,
        "Tokens of a block of the server's prefix cache, for --dry-run and --cache-ledger: 16 is vLLM's own, 1 is SGLang's.");
    DryRun(&["dry-run"], "", Kind::Bool, Default::Is("false"), Group::Output,
        "Make all that would be sent and tell what it is (requests, lengths, arrivals, repeats, what a prefix cache would find) without \
         sending anything or making a connection; also in dry_run.json, and the bodies in dry_run_inputs.json.") no_env();
    DryRunFormat(&["dry-run-format"], "", Kind::Choice { words: &["text", "json"], later: &[] }, Default::Is("text"), Group::Output,
        "What a dry run prints. Needs --dry-run.") no_env();

    Ui(&["ui", "ui-type"], "runtime.ui", Kind::Choice { words: &["simple", "none", "dashboard"], later: &[] },
        Default::Is("simple"), Group::Runtime,
        "Progress while it runs: a bar on a terminal and lines elsewhere, or nothing. dashboard runs simple.");
    StatsInterval(&["stats-interval"], "runtime.stats_interval", Kind::Float { min: 0.0, above: false, max: 1000.0 },
        Default::Is("30"), Group::Runtime, "Seconds between plain progress lines; 0 turns them off.");
    WorkersMax(&["workers-max", "max-workers"], "runtime.workers", count(1, 4096), Default::Said("by the number of cores"),
        Group::Runtime, "Most threads that send requests.");
    LogLevel(&["log-level"], "logging.level", Kind::Choice {
            words: &["error|critical", "warning", "info|notice|success", "debug", "trace"],
            later: &[],
        }, Default::Is("info"), Group::Runtime, "Level of the log on stderr and in the log file.");
    Verbose(&["verbose"], "", Kind::Bool, Default::Is("false"), Group::Runtime, "Log level debug.") short(&["v"]) no_env();
    ExtraVerbose(&["extra-verbose"], "", Kind::Bool, Default::Is("false"), Group::Runtime, "Log level trace.")
        short(&["vv"]) no_env();

    NoGpuTelemetry(&["no-gpu-telemetry"], "", Kind::Off, Default::Absent, Group::Runtime,
        "Accepted: this version reads no GPU telemetry.");
    NoServerMetrics(&["no-server-metrics"], "", Kind::Off, Default::Absent, Group::Runtime,
        "Accepted: this version reads no server metrics.");
    NoAutoPlot(&["no-auto-plot"], "", Kind::Off, Default::Absent, Group::Runtime, "Accepted: this version draws no plots.");
    NoSweepTable(&["no-sweep-table"], "/no_sweep_table", Kind::Off, Default::Absent, Group::Runtime,
        "Accepted: this version prints no sweep table.");
    NoVarySeed(&["no-vary-seed-per-trial"], "", Kind::Off, Default::Absent, Group::Runtime,
        "Accepted: a run is one trial.");
    NoSameSeed(&["no-parameter-sweep-same-seed"], "", Kind::Off, Default::Absent, Group::Runtime,
        "Accepted: this version has no sweeps.");
    NoDatasetWrap(&["no-allow-dataset-wrap"], "", Kind::Off, Default::Absent, Group::Runtime,
        "Accepted: this version replays no trajectories.");
    NoCot(&["accuracy-no-enable-cot"], "", Kind::Off, Default::Absent, Group::Runtime,
        "Accepted: this version has no accuracy mode.");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_table_is_in_the_order_of_its_ids() {
        for (i, row) in OPTIONS.iter().enumerate() {
            assert_eq!(row.id as usize, i, "{:?}", row.id);
        }
    }

    #[test]
    fn no_spelling_means_two_options() {
        let (mut flags, mut shorts, mut keys, mut envs) =
            (HashSet::new(), HashSet::new(), HashSet::new(), HashSet::new());
        for row in OPTIONS {
            assert!(row.flags.iter().all(|f| flags.insert(*f)), "{:?}", row.flags);
            assert!(row.shorts.iter().all(|f| shorts.insert(*f)), "{:?}", row.shorts);
            assert!(row.keys().all(|k| keys.insert(k)), "{:?}", row.yaml);
            assert!(row.env().is_none_or(|e| envs.insert(e)), "{:?}", row.name());
        }
    }

    #[test]
    fn a_default_is_a_value_of_its_option() {
        for row in OPTIONS {
            if let Default::Is(text) = row.default {
                let value = crate::value::from_text(row, text);
                assert!(value.is_ok(), "{}: {value:?}", row.name());
            }
        }
    }
}
