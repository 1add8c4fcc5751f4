//! What a request body asks for, and the error objects for bodies that ask for what cannot be.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::option::SimConfig;

/// The two APIs served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Completions,
}

impl Api {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completions => "completions",
        }
    }
}

/// A refusal: an HTTP error with an error object in the form of the OpenAI API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) retry_after_s: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), retry_after_s: None }
    }

    /// A 400.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequestError", message)
    }

    /// The error object.
    pub(crate) fn body(&self) -> String {
        json!({"error": {"message": self.message, "type": self.kind, "param": null, "code": self.status}})
            .to_string()
    }
}

/// The fields looked at. Texts that need counting stay raw: equal texts are counted once.
#[derive(Deserialize)]
struct Body<'a> {
    model: Option<String>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    chat_template_kwargs: Option<&'a RawValue>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    min_tokens: Option<u64>,
    ignore_eos: Option<bool>,
    n: Option<u64>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
    continuous_usage_stats: Option<bool>,
}

/// A request, understood.
#[derive(Debug, PartialEq)]
pub(crate) struct Ask<'a> {
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) continuous_usage: bool,
    pub(crate) limit: Option<u64>,
    pub(crate) min_tokens: u64,
    pub(crate) ignore_eos: bool,
    /// `messages` or `prompt`.
    pub(crate) input: &'a str,
    pub(crate) tools: Option<&'a str>,
    pub(crate) template_kwargs: Option<&'a str>,
}

impl<'a> Ask<'a> {
    /// Understands `body` or says what is wrong with it.
    pub(crate) fn parse(api: Api, body: &'a [u8], config: &SimConfig) -> Result<Self, Refusal> {
        let parsed: Body<'a> = serde_json::from_slice(body)
            .map_err(|e| Refusal::bad(format!("the request body is wrong: {e}")))?;
        if config.strict {
            refuse_unknown(api, body)?;
        }
        let model = parsed.model.unwrap_or_default();
        if model.is_empty() {
            return Err(Refusal::bad("the field 'model' is missing"));
        }
        known_model(&config.models, Some(&model))?;
        if parsed.n.unwrap_or(1) != 1 {
            return Err(Refusal::bad("one choice per request is served here: n must be 1"));
        }
        let (input, field) = match api {
            Api::Chat => (parsed.messages, "messages"),
            Api::Completions => (parsed.prompt, "prompt"),
        };
        let input = input.ok_or_else(|| Refusal::bad(format!("the field '{field}' is missing")))?;
        let limit = match api {
            Api::Chat => parsed.max_completion_tokens.or(parsed.max_tokens),
            Api::Completions => parsed.max_tokens,
        };
        if limit == Some(0) {
            return Err(Refusal::bad("max_tokens must be at least 1, got 0"));
        }
        let min_tokens = parsed.min_tokens.unwrap_or(0);
        if let Some(limit) = limit.filter(|l| *l < min_tokens) {
            return Err(Refusal::bad(format!(
                "min_tokens must be at most max_tokens={limit}, got {min_tokens}"
            )));
        }
        let options = parsed.stream_options;
        Ok(Self {
            model,
            stream: parsed.stream.unwrap_or(false),
            include_usage: options.as_ref().and_then(|o| o.include_usage).unwrap_or(false),
            continuous_usage: options.as_ref().and_then(|o| o.continuous_usage_stats).unwrap_or(false),
            limit,
            min_tokens,
            ignore_eos: parsed.ignore_eos.unwrap_or(false),
            input: input.get(),
            tools: parsed.tools.map(RawValue::get).filter(|t| *t != "null"),
            template_kwargs: parsed.chat_template_kwargs.map(RawValue::get).filter(|t| *t != "null"),
        })
    }
}

/// Refuses a model that is not served. Whoever names none means the one that is.
pub(crate) fn known_model(models: &[String], model: Option<&str>) -> Result<(), Refusal> {
    match model {
        Some(model) if !models.is_empty() && !models.iter().any(|m| m == model) => {
            Err(Refusal::new(404, "NotFoundError", format!("The model `{model}` does not exist.")))
        }
        _ => Ok(()),
    }
}

/// Fields of both APIs in OpenAI's reference.
const COMMON: [&str; 16] = [
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_tokens",
    "metadata",
    "model",
    "n",
    "presence_penalty",
    "prompt_cache_key",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    "user",
];
/// Fields of chat alone.
const CHAT: [&str; 19] = [
    "audio",
    "function_call",
    "functions",
    "max_completion_tokens",
    "messages",
    "modalities",
    "parallel_tool_calls",
    "prediction",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "service_tier",
    "store",
    "tool_choice",
    "tools",
    "top_logprobs",
    "verbosity",
    "web_search_options",
    "prompt_cache_retention",
];
/// Fields of completions alone.
const COMPLETIONS: [&str; 4] = ["best_of", "echo", "prompt", "suffix"];

fn refuse_unknown(api: Api, body: &[u8]) -> Result<(), Refusal> {
    let fields: Map<String, Value> =
        serde_json::from_slice(body).map_err(|e| Refusal::bad(format!("the request body is wrong: {e}")))?;
    let own: &[&str] = match api {
        Api::Chat => &CHAT,
        Api::Completions => &COMPLETIONS,
    };
    let unknown: Vec<&str> =
        fields.keys().map(String::as_str).filter(|k| !COMMON.contains(k) && !own.contains(k)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    Err(Refusal::new(
        422,
        "UnprocessableEntityError",
        format!("unexpected fields in the request: {}", unknown.join(", ")),
    ))
}

/// The refusal of a request that does not fit into the model, in vLLM's words.
pub(crate) fn too_long(max_model_len: u64, prompt: u64, output: u64, api: Api) -> Refusal {
    let place = match api {
        Api::Chat => "messages",
        Api::Completions => "prompt",
    };
    let total = prompt.saturating_add(output);
    Refusal::bad(format!(
        "This model's maximum context length is {max_model_len} tokens. However, you requested {total} tokens ({prompt} in \
         the {place}, {output} in the completion). Please reduce the length of the {place} or completion."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(api: Api, body: &str, query: &str) -> Result<u16, (u16, String)> {
        let config = SimConfig::from_query(query).expect("good settings");
        Ask::parse(api, body.as_bytes(), &config).map(|_| 200).map_err(|r| (r.status, r.message))
    }

    #[test]
    fn a_chat_request_is_understood() {
        let config = SimConfig::default();
        let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":9,"max_completion_tokens":7,
            "stream":true,"stream_options":{"include_usage":true},"min_tokens":3,"ignore_eos":true,"tools":null}"#;
        let ask = Ask::parse(Api::Chat, body.as_bytes(), &config).expect("a good body");
        assert_eq!(ask.limit, Some(7), "the newer name wins");
        assert_eq!((ask.stream, ask.include_usage, ask.continuous_usage), (true, true, false));
        assert_eq!((ask.min_tokens, ask.ignore_eos, ask.tools), (3, true, None));
        assert_eq!(ask.input, r#"[{"role":"user","content":"hi"}]"#);
    }

    #[test]
    fn wrong_bodies_are_told_what_is_wrong() {
        for (body, status, word) in [
            ("", 400, "wrong"),
            ("[1]", 400, "wrong"),
            ("{\"model\":\"m\"", 400, "wrong"),
            ("\u{0}", 400, "wrong"),
            (r#"{"messages":[]}"#, 400, "model"),
            (r#"{"model":"m"}"#, 400, "messages"),
            (r#"{"model":"m","messages":[],"n":2}"#, 400, "n must be 1"),
            (r#"{"model":"m","messages":[],"max_tokens":0}"#, 400, "at least 1"),
            (r#"{"model":"m","messages":[],"max_tokens":-1}"#, 400, "wrong"),
            (r#"{"model":"m","messages":[],"max_tokens":1,"min_tokens":2}"#, 400, "min_tokens"),
        ] {
            let (got, message) = parse(Api::Chat, body, "").expect_err(body);
            assert_eq!(got, status, "{body}");
            assert!(message.contains(word), "{message}");
        }
        let (status, message) =
            parse(Api::Chat, r#"{"model":"x","messages":[]}"#, "models=m").expect_err("unknown model");
        assert_eq!((status, message.contains("`x`")), (404, true));
    }

    #[test]
    fn strict_servers_refuse_fields_they_do_not_know() {
        let body = r#"{"model":"m","prompt":"x","ignore_eos":true,"seed":1}"#;
        let (status, message) = parse(Api::Completions, body, "strict=on").expect_err("ignore_eos is vLLM's");
        assert_eq!(status, 422);
        assert!(message.ends_with(": ignore_eos"), "{message}");
        assert_eq!(parse(Api::Completions, body, ""), Ok(200));
    }

    proptest::proptest! {
        #[test]
        fn no_body_is_too_strange(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200), cut in 0usize..120) {
            let good = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":3,"stream":true,"n":1}"#;
            for body in [&bytes[..], &good.as_bytes()[..cut.min(good.len())]] {
                for api in [Api::Chat, Api::Completions] {
                    if let Err(refusal) = Ask::parse(api, body, &SimConfig::default()) {
                        proptest::prop_assert!((400..500).contains(&refusal.status));
                    }
                }
            }
        }
    }
}
