//! The one table of settings, from which the query of `sim://?key=value&…`, the flags of `aiperf sim --key value` and the
//! reference page are made.

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimOption {
    /// Name in a query and, after two dashes, on a command line.
    pub key: &'static str,
    /// Value when it is not given.
    pub default: &'static str,
    /// What is allowed, in words.
    pub range: &'static str,
    /// What it does.
    pub doc: &'static str,
}

const MS: &str = "milliseconds, decimals allowed, 0 to 3600000";
const SWITCH: &str = "on or off";

/// All settings.
pub static OPTIONS: &[SimOption] = &[
    SimOption {
        key: "ttft",
        default: "20",
        range: MS,
        doc: "Fixed part of a prefill: the time to first token of an empty server.",
    },
    SimOption {
        key: "prefill-tps",
        default: "0",
        range: "tokens per second, 0 (free) or more",
        doc: "Prefill speed: prompt tokens that are not cached add their share to the time to first token.",
    },
    SimOption { key: "itl", default: "5", range: MS, doc: "One decode step of a stream that is alone." },
    SimOption {
        key: "itl-per-seq",
        default: "0",
        range: MS,
        doc: "What each further decoding stream adds to a decode step.",
    },
    SimOption {
        key: "jitter",
        default: "0",
        range: "a fraction, 0 to 1",
        doc: "Spread of prefills and decode steps: each is multiplied by a draw from 1 ± this.",
    },
    SimOption {
        key: "max-batch",
        default: "256",
        range: "a whole number, 0 (no limit) or more",
        doc: "Most requests in prefill or decode at once; more wait in a first-in-first-out queue.",
    },
    SimOption {
        key: "max-prefill",
        default: "0",
        range: "a whole number, 0 (no limit) or more",
        doc: "Most prefills at once.",
    },
    SimOption {
        key: "osl",
        default: "128",
        range: "a whole number, 1 or more",
        doc: "Output tokens when the request gives no limit.",
    },
    SimOption {
        key: "max-osl",
        default: "0",
        range: "a whole number, 0 (no limit) or more",
        doc: "Most output tokens, whatever the request asks for.",
    },
    SimOption {
        key: "eos",
        default: "0",
        range: "a probability, 0 to 1",
        doc: "Chance of each token to be the end of the answer, unless the request says ignore_eos or min_tokens forbids it.",
    },
    SimOption {
        key: "count-eos",
        default: "off",
        range: SWITCH,
        doc: "Whether an answer that ends by itself counts its end token in completion_tokens, as vLLM does.",
    },
    SimOption {
        key: "tokens-per-chunk",
        default: "1",
        range: "a whole number, 1 or more",
        doc: "Tokens of a streamed chunk; the next chunk comes that many steps later.",
    },
    SimOption {
        key: "head",
        default: "early",
        range: "early or first-token",
        doc: "When status and headers of a stream leave: as soon as the request is accepted, or with the first event.",
    },
    SimOption {
        key: "role-chunk",
        default: "early",
        range: "early, first-token, joined or off",
        doc: "The event that says whose turn it is (chat: the role; responses: created and in_progress; messages: message_start): before the \
              prefill, as its own event before the first token, in one write with the first token, or never (chat alone).",
    },
    SimOption {
        key: "usage",
        default: "asked",
        range: "asked, none, always, continuous or finish",
        doc: "Usage in streams: as stream_options ask, never, in a last event without choices, in every event (of several choices: that \
              choice's own), or in the event with the finish reason. Responses and messages have it in their own places, or never.",
    },
    SimOption {
        key: "usage-details",
        default: "on",
        range: "on, null or off",
        doc: "Details of usage (cached and reasoning tokens; of messages what was read from the cache, which is then no part of \
              input_tokens): given, null or left out.",
    },
    SimOption { key: "done", default: "on", range: SWITCH, doc: "Whether a stream ends with data: [DONE]." },
    SimOption {
        key: "sglang-pieces",
        default: "off",
        range: SWITCH,
        doc: "Whether events of SGLang's /generate hold what is new (as with its --incremental-streaming-output) or the whole text \
              so far.",
    },
    SimOption {
        key: "incomplete-event",
        default: "off",
        range: SWITCH,
        doc: "Whether a stream of /v1/responses that ends at its limit ends with response.incomplete, as OpenAI's, or with \
              response.completed and the status incomplete inside.",
    },
    SimOption {
        key: "reasoning",
        default: "0",
        range: "a whole number, 0 or more",
        doc: "So many tokens at the start of an answer are reasoning; completions have none.",
    },
    SimOption {
        key: "reasoning-field",
        default: "reasoning_content",
        range: "reasoning_content or reasoning",
        doc: "The field that holds reasoning in chat.",
    },
    SimOption {
        key: "prefix-cache",
        default: "off",
        range: SWITCH,
        doc: "Prefix cache of 16-token blocks without eviction; hits cost no prefill time and are told in usage. vLLM has its own on.",
    },
    SimOption {
        key: "models",
        default: "",
        range: "names separated by commas",
        doc: "Models served; others get a 404. Empty serves any name.",
    },
    SimOption {
        key: "max-model-len",
        default: "131072",
        range: "a whole number, 1 or more",
        doc: "Most tokens of prompt and output together; a request for more gets a 400.",
    },
    SimOption {
        key: "strict",
        default: "off",
        range: SWITCH,
        doc: "Whether request fields that the API's reference does not know get a 422, and messages without an anthropic-version a 400.",
    },
    SimOption {
        key: "api-key",
        default: "",
        range: "a text",
        doc: "The key that requests must show as bearer token or in x-api-key, else a 401. Empty asks for none.",
    },
    SimOption {
        key: "tokenize-endpoint",
        default: "on",
        range: SWITCH,
        doc: "Whether POST /tokenize and /detokenize are answered, in vLLM's form; else they get a 404.",
    },
    SimOption {
        key: "embedding-dimensions",
        default: "8",
        range: "a whole number, 1 to 65536",
        doc: "Numbers of a vector of /v1/embeddings where the request does not say dimensions. The same text has the same vector.",
    },
    SimOption {
        key: "faults",
        default: "",
        range: "a comma-separated list of KIND[:rate=P|:every=N|:at=I+J][:after=CHUNKS][:size=N][:gap=MS][:retry=S], KIND one of \
                400-599, reset, close, stall, cut, end, error-event, error-data, malformed, half-event, empty-choices, role-only, \
                html, garbage, join, split, bytes, slow-loris",
        doc: "What goes wrong, and for which requests (counted from 0).",
    },
    SimOption {
        key: "seed",
        default: "0",
        range: "a whole number, 0 to 18446744073709551615",
        doc: "Seed of every draw: jitter, answer ends, faults by rate, ids.",
    },
    SimOption {
        key: "truth-log",
        default: "",
        range: "a file path",
        doc: "Writes one JSON line per request: when it arrived, when each chunk was written, its true token counts. Empty writes none.",
    },
    SimOption {
        key: "truth",
        default: "off",
        range: SWITCH,
        doc: "Whether the same records are kept in memory for the caller of the library.",
    },
    SimOption {
        key: "capture",
        default: "",
        range: "a file path",
        doc: "Writes one JSON line per request, in order of arrival: wall time, method, path, headers (no credentials), the body as it arrived \
              (JSON keeps its numbers, order and escapes) and the prompt tokens counted. Empty writes none.",
    },
];
