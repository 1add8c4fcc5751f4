//! What a request body asks for.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::option::SimConfig;
use crate::refusal::{Refusal, known_model};
use crate::strict::refuse_unknown;

/// The APIs served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Api {
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's completions.
    Completions,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Messages,
    /// Hugging Face's TGI, which streams at a path of its own.
    Tgi {
        /// It is that path.
        streams: bool,
    },
    /// SGLang's native API.
    Sglang,
    /// Solido's.
    Solido,
}

impl Api {
    /// The API that is served at `path`. At one of them are two, which a body tells apart.
    pub(crate) fn at(path: &str, body: &[u8]) -> Option<Self> {
        match path {
            "/v1/chat/completions" => Some(Self::Chat),
            "/v1/completions" => Some(Self::Completions),
            "/v1/responses" => Some(Self::Responses),
            "/v1/messages" => Some(Self::Messages),
            "/generate" if has_text(body) => Some(Self::Sglang),
            "/generate" => Some(Self::Tgi { streams: false }),
            "/generate_stream" => Some(Self::Tgi { streams: true }),
            "/rag/api/prompt" => Some(Self::Solido),
            _ => None,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completions => "completions",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Tgi { .. } => "huggingface_generate",
            Self::Sglang => "sglang_generate",
            Self::Solido => "solido_rag",
        }
    }

    /// The field that holds what is to be answered.
    const fn input_field(self) -> &'static str {
        match self {
            Self::Chat | Self::Messages => "messages",
            Self::Completions => "prompt",
            Self::Responses => "input",
            Self::Tgi { .. } => "inputs",
            Self::Sglang => "text",
            Self::Solido => "query",
        }
    }

    /// Whether answers may begin with reasoning.
    pub(crate) const fn reasons(self) -> bool {
        matches!(self, Self::Chat | Self::Responses | Self::Messages)
    }

    /// Whether a request names its model.
    const fn names_model(self) -> bool {
        !matches!(self, Self::Tgi { .. } | Self::Sglang)
    }
}

/// Most choices of a prompt; OpenAI's limit.
const MOST_CHOICES: u64 = 128;

/// Whether a body has SGLang's prompt.
fn has_text(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Prompt<'a> {
        #[serde(borrow)]
        text: Option<&'a RawValue>,
    }
    serde_json::from_slice(body).is_ok_and(|prompt: Prompt<'_>| prompt.text.is_some())
}

/// Limits of TGI and SGLang, which are in an object of their own.
#[derive(Default, Deserialize)]
struct Sampling {
    max_new_tokens: Option<u64>,
    min_new_tokens: Option<u64>,
    ignore_eos: Option<bool>,
}

/// The fields looked at. Texts that need counting stay raw: equal texts are counted once.
#[derive(Deserialize)]
struct Body<'a> {
    model: Option<String>,
    inference_model: Option<String>,
    #[serde(borrow)]
    inputs: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    query: Option<&'a RawValue>,
    parameters: Option<Sampling>,
    sampling_params: Option<Sampling>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow)]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    chat_template_kwargs: Option<&'a RawValue>,
    #[serde(borrow)]
    documents: Option<&'a RawValue>,
    add_generation_prompt: Option<bool>,
    previous_response_id: Option<String>,
    store: Option<bool>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
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
    /// Texts made for each prompt; above 1 for chat and completions alone.
    pub(crate) choices: usize,
    pub(crate) include_usage: bool,
    pub(crate) continuous_usage: bool,
    pub(crate) limit: Option<u64>,
    pub(crate) min_tokens: u64,
    pub(crate) ignore_eos: bool,
    /// `messages`, `prompt` or `input`.
    pub(crate) input: &'a str,
    /// `instructions` of responses, `system` of messages.
    pub(crate) system: Option<&'a str>,
    pub(crate) tools: Option<&'a str>,
    pub(crate) template_kwargs: Option<&'a str>,
    /// Of chat alone.
    pub(crate) documents: Option<&'a str>,
    /// The prompt ends where the answer begins; chat alone can do without.
    pub(crate) generation: bool,
    /// The response that it goes on from, and whether its own is to be kept. Of responses alone.
    pub(crate) previous: Option<String>,
    pub(crate) store: bool,
}

/// A field's text; null is as good as absent.
fn given(raw: Option<&RawValue>) -> Option<&str> {
    raw.map(RawValue::get).filter(|t| *t != "null")
}

impl<'a> Ask<'a> {
    /// Understands `body` or says what is wrong with it.
    pub(crate) fn parse(api: Api, body: &'a [u8], config: &SimConfig) -> Result<Self, Refusal> {
        let parsed: Body<'a> = serde_json::from_slice(body).map_err(|e| Refusal::wrong(&e))?;
        if config.strict {
            refuse_unknown(api, body)?;
        }
        let (field, model) = match api {
            Api::Solido => ("inference_model", parsed.inference_model),
            _ => ("model", parsed.model),
        };
        let model = model.unwrap_or_default();
        if api.names_model() {
            if model.is_empty() {
                return Err(Refusal::bad(format!("the field '{field}' is missing")));
            }
            known_model(&config.models, Some(&model))?;
        }
        let sampling = match api {
            Api::Tgi { .. } => parsed.parameters,
            Api::Sglang => parsed.sampling_params,
            _ => None,
        };
        let sampling = sampling.unwrap_or_default();
        let choices = parsed.n.unwrap_or(1);
        let most = if matches!(api, Api::Chat | Api::Completions) { MOST_CHOICES } else { 1 };
        if !(1..=most).contains(&choices) {
            let allowed = if most == 1 { "1" } else { "from 1 to 128" };
            return Err(Refusal::bad(format!("n must be {allowed} here, got {choices}")));
        }
        let (input, system, limit, limit_name) = match api {
            Api::Chat => {
                let limit = parsed.max_completion_tokens.or(parsed.max_tokens);
                (parsed.messages, None, limit, "max_tokens")
            }
            Api::Completions => (parsed.prompt, None, parsed.max_tokens, "max_tokens"),
            Api::Responses => {
                (parsed.input, parsed.instructions, parsed.max_output_tokens, "max_output_tokens")
            }
            Api::Messages => (parsed.messages, parsed.system, parsed.max_tokens, "max_tokens"),
            Api::Tgi { .. } => (parsed.inputs, None, sampling.max_new_tokens, "max_new_tokens"),
            Api::Sglang => (parsed.text, None, sampling.max_new_tokens, "max_new_tokens"),
            Api::Solido => (parsed.query, None, parsed.max_tokens, "max_tokens"),
        };
        let missing = |field: &str| Refusal::bad(format!("the field '{field}' is missing"));
        let input = input.ok_or_else(|| missing(api.input_field()))?;
        if matches!(api, Api::Tgi { .. } | Api::Sglang) && !input.get().starts_with('"') {
            return Err(Refusal::bad(format!(
                "one text is served here: '{}' must be a string",
                api.input_field()
            )));
        }
        if api == Api::Messages && limit.is_none() {
            return Err(missing("max_tokens"));
        }
        if limit == Some(0) {
            return Err(Refusal::bad(format!("{limit_name} must be at least 1, got 0")));
        }
        let min_tokens = sampling.min_new_tokens.or(parsed.min_tokens).unwrap_or(0);
        if let Some(limit) = limit.filter(|l| *l < min_tokens) {
            return Err(Refusal::bad(format!(
                "min_tokens must be at most {limit_name}={limit}, got {min_tokens}"
            )));
        }
        let options = parsed.stream_options;
        Ok(Self {
            model,
            stream: match api {
                Api::Tgi { streams } => streams,
                _ => parsed.stream.unwrap_or(false),
            },
            choices: choices as usize,
            include_usage: options.as_ref().and_then(|o| o.include_usage).unwrap_or(false),
            continuous_usage: options.as_ref().and_then(|o| o.continuous_usage_stats).unwrap_or(false),
            limit,
            min_tokens,
            ignore_eos: sampling.ignore_eos.or(parsed.ignore_eos).unwrap_or(false),
            input: input.get(),
            system: given(system),
            tools: given(parsed.tools),
            template_kwargs: given(parsed.chat_template_kwargs),
            documents: given(parsed.documents).filter(|_| api == Api::Chat),
            generation: parsed.add_generation_prompt.filter(|_| api == Api::Chat).unwrap_or(true),
            previous: parsed.previous_response_id.filter(|_| api == Api::Responses),
            // OpenAI keeps what does not say otherwise; here room is kept for who asks for it.
            store: api == Api::Responses && parsed.store.unwrap_or(false),
        })
    }
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
            (r#"{"model":"m","messages":[],"n":0}"#, 400, "n must be from 1 to 128 here, got 0"),
            (r#"{"model":"m","messages":[],"n":129}"#, 400, "got 129"),
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
        let body =
            r#"{"model":"m","input":"x","instructions":"y","max_output_tokens":3,"max_tokens":3,"stop":[]}"#;
        let (_, message) = parse(Api::Responses, body, "strict=on").expect_err("two fields of chat");
        assert!(message.ends_with(": max_tokens, stop"), "{message}");
        let body = r#"{"model":"m","messages":[],"system":"y","max_tokens":3,"top_p":1,"top_k":1}"#;
        assert_eq!(parse(Api::Messages, body, "strict=on"), Ok(200));
    }

    #[test]
    fn responses_and_messages_have_names_of_their_own() {
        let config = SimConfig::default();
        let body =
            r#"{"model":"m","input":"hi","instructions":"Be brief.","max_output_tokens":7,"max_tokens":9}"#;
        let ask = Ask::parse(Api::Responses, body.as_bytes(), &config).expect("a good body");
        assert_eq!((ask.input, ask.system, ask.limit), ("\"hi\"", Some("\"Be brief.\""), Some(7)));
        let body = r#"{"model":"m","messages":[],"system":null,"max_tokens":9,"max_completion_tokens":7}"#;
        let ask = Ask::parse(Api::Messages, body.as_bytes(), &config).expect("a good body");
        assert_eq!((ask.input, ask.system, ask.limit), ("[]", None, Some(9)));
        for (api, body, status, word) in [
            (Api::Messages, r#"{"model":"m","messages":[]}"#, 400, "'max_tokens'"),
            (Api::Messages, r#"{"model":"m","max_tokens":1}"#, 400, "'messages'"),
            (Api::Messages, r#"{"model":"m","max_tokens":1,"messages":[],"n":2}"#, 400, "n must be 1 here"),
            (Api::Responses, r#"{"model":"m","messages":[]}"#, 400, "'input'"),
            (Api::Responses, r#"{"model":"m","input":"x","max_output_tokens":0}"#, 400, "max_output_tokens"),
        ] {
            let (got, message) = parse(api, body, "").expect_err(body);
            assert_eq!(got, status, "{body}");
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn plain_texts_are_generated_from_under_three_names() {
        let config = SimConfig::default();
        let body = br#"{"inputs":"hi","parameters":{"max_new_tokens":7,"ignore_eos":true},"stream":true}"#;
        let api = Api::at("/generate", body).expect("served");
        let ask = Ask::parse(api, body, &config).expect("a good body");
        assert_eq!((api, ask.input, ask.limit), (Api::Tgi { streams: false }, "\"hi\"", Some(7)));
        assert_eq!((ask.stream, ask.ignore_eos), (false, true), "its path says whether it streams");
        let api = Api::at("/generate_stream", body).expect("served");
        assert!(Ask::parse(api, body, &config).expect("a good body").stream);
        let body =
            br#"{"text":"hi","sampling_params":{"max_new_tokens":7,"min_new_tokens":2},"stream":true}"#;
        let api = Api::at("/generate", body).expect("served");
        let ask = Ask::parse(api, body, &config).expect("a good body");
        assert_eq!(
            (api, ask.input, ask.limit, ask.min_tokens, ask.stream),
            (Api::Sglang, "\"hi\"", Some(7), 2, true)
        );
        let body = br#"{"query":["a","b"],"filters":{},"inference_model":"m"}"#;
        let api = Api::at("/rag/api/prompt", body).expect("served");
        let ask = Ask::parse(api, body, &config).expect("a good body");
        assert_eq!((api, ask.input, ask.model.as_str()), (Api::Solido, r#"["a","b"]"#, "m"));
        for (api, body, word) in [
            (Api::Tgi { streams: true }, r#"{"inputs":["a","b"]}"#, "must be a string"),
            (Api::Sglang, r#"{"text":["a"]}"#, "must be a string"),
            (Api::Tgi { streams: true }, "{}", "'inputs'"),
            (
                Api::Sglang,
                r#"{"text":"a","sampling_params":{"max_new_tokens":0}}"#,
                "max_new_tokens must be at least 1",
            ),
            (Api::Solido, r#"{"query":[]}"#, "'inference_model'"),
            (Api::Solido, r#"{"inference_model":"m"}"#, "'query'"),
        ] {
            let (status, message) = parse(api, body, "").expect_err(body);
            assert!(status == 400 && message.contains(word), "{message}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_body_is_too_strange(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200), cut in 0usize..120) {
            let good = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":3,"stream":true,"n":1}"#;
            for body in [&bytes[..], &good.as_bytes()[..cut.min(good.len())]] {
                for api in [Api::Chat, Api::Completions, Api::Responses, Api::Messages, Api::Tgi { streams: true }, Api::Sglang, Api::Solido] {
                    if let Err(refusal) = Ask::parse(api, body, &SimConfig::default()) {
                        proptest::prop_assert!((400..500).contains(&refusal.status));
                    }
                }
            }
        }
    }
}
