//! The bytes of answers: events of a stream and whole bodies, in the form of vLLM's OpenAI server.

use std::fmt::Write;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::json;

use crate::option::{SimConfig, UsageDetails};
use crate::request::Api;
use crate::words::Words;

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    Stop,
    Length,
}

impl Finish {
    const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
        }
    }
}

/// Everything about an answer that is known once its prompt is counted.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) api: Api,
    /// Tokens of text, reasoning included.
    pub(crate) tokens: u64,
    /// Of them, the first so many are reasoning.
    pub(crate) reasoning: u64,
    /// Tokens counted in usage beside those of text: the end token.
    pub(crate) extra: u64,
    pub(crate) finish: Finish,
    pub(crate) prompt_tokens: u64,
    /// Where in the cycle of words the text starts.
    pub(crate) start: u64,
    details: UsageDetails,
    reasoning_field: &'static str,
    /// `{"id":…,"object":…,"created":…,"model":…` of each event.
    head: String,
    /// Capacity that fits an event.
    room: usize,
}

/// Text is made of plain words, yet a vocabulary of our own choosing could hold anything: quoted as JSON when needed.
fn push_text(out: &mut BytesMut, text: &str) {
    if text.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\' && b < 0x80) {
        out.put_u8(b'"');
        out.put_slice(text.as_bytes());
        out.put_u8(b'"');
    } else {
        out.put_slice(json!(text).to_string().as_bytes());
    }
}

/// Appends `"name":"text"`, after a comma where one is due.
fn push_field(out: &mut BytesMut, comma: &mut bool, name: &str, text: &str) {
    if *comma {
        out.put_u8(b',');
    }
    *comma = true;
    out.put_u8(b'"');
    out.put_slice(name.as_bytes());
    out.put_slice(b"\":");
    push_text(out, text);
}

impl Answer {
    #[expect(clippy::too_many_arguments, reason = "one call, all of them facts of the request")]
    pub(crate) fn new(
        config: &SimConfig,
        api: Api,
        id: u128,
        created_s: u64,
        model: &str,
        stream: bool,
        prompt_tokens: u64,
        (tokens, extra, finish): (u64, u64, Finish),
    ) -> Self {
        let (prefix, object) = match (api, stream) {
            (Api::Chat, true) => ("chatcmpl-", "chat.completion.chunk"),
            (Api::Chat, false) => ("chatcmpl-", "chat.completion"),
            (Api::Completions, _) => ("cmpl-", "text_completion"),
        };
        let head = format!(
            r#"{{"id":"{prefix}{id:032x}","object":"{object}","created":{created_s},"model":{}"#,
            json!(model)
        );
        let room = head.len() + 192;
        Self {
            api,
            tokens,
            reasoning: if api == Api::Chat { config.reasoning.min(tokens) } else { 0 },
            extra,
            finish,
            prompt_tokens,
            start: (id >> 64) as u64,
            details: config.usage_details,
            reasoning_field: config.reasoning_field,
            head,
            room,
        }
    }

    /// Appends `,"usage":{…}` for an answer that has got to `done` tokens.
    fn push_usage(&self, out: &mut BytesMut, done: u64, cached: u64, finished: bool) {
        let completion = done + if finished { self.extra } else { 0 };
        let prompt = self.prompt_tokens;
        let mut text = format!(
            r#","usage":{{"prompt_tokens":{prompt},"total_tokens":{},"completion_tokens":{completion}"#,
            prompt + completion
        );
        match self.details {
            // Writing to a String cannot fail.
            UsageDetails::On => {
                let _ = write!(text, r#","prompt_tokens_details":{{"cached_tokens":{cached}}}"#);
                if self.reasoning > 0 {
                    let reasoning = done.min(self.reasoning);
                    let _ =
                        write!(text, r#","completion_tokens_details":{{"reasoning_tokens":{reasoning}}}"#);
                }
            }
            UsageDetails::Null => {
                text.push_str(r#","prompt_tokens_details":null,"completion_tokens_details":null"#);
            }
            UsageDetails::Off => {}
        }
        text.push('}');
        out.put_slice(text.as_bytes());
    }

    fn open(&self) -> BytesMut {
        let mut out = BytesMut::with_capacity(self.room);
        out.put_slice(b"data: ");
        out.put_slice(self.head.as_bytes());
        out
    }

    /// The event that names the role.
    pub(crate) fn role_event(&self, usage: Option<u64>) -> BytesMut {
        let mut out = self.open();
        out.put_slice(
            br#","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]"#,
        );
        if let Some(cached) = usage {
            self.push_usage(&mut out, 0, cached, false);
        }
        out.put_slice(b"}\n\n");
        out
    }

    /// The event that brings tokens `from..to`. `usage` is the number of cached tokens, when each event has usage.
    pub(crate) fn token_event(
        &self,
        words: &Words,
        from: u64,
        to: u64,
        with_role: bool,
        usage: Option<u64>,
    ) -> BytesMut {
        let mut out = self.open();
        match self.api {
            Api::Chat => {
                out.put_slice(br#","choices":[{"index":0,"delta":{"#);
                let mut comma = false;
                if with_role {
                    out.put_slice(br#""role":"assistant""#);
                    comma = true;
                }
                let mut text = String::with_capacity(16);
                if from < self.reasoning {
                    words.write(self.start, from, to.min(self.reasoning), &mut text);
                    push_field(&mut out, &mut comma, self.reasoning_field, &text);
                    text.clear();
                }
                if to > self.reasoning {
                    let first = from.max(self.reasoning) - self.reasoning;
                    words.write(self.start, first, to - self.reasoning, &mut text);
                    push_field(&mut out, &mut comma, "content", &text);
                }
                out.put_slice(br#"},"logprobs":null,"finish_reason":null}]"#);
            }
            Api::Completions => {
                let mut text = String::with_capacity(16);
                words.write(self.start, from, to, &mut text);
                out.put_slice(br#","choices":[{"index":0,"text":"#);
                push_text(&mut out, &text);
                out.put_slice(br#","logprobs":null,"finish_reason":null}]"#);
            }
        }
        if let Some(cached) = usage {
            self.push_usage(&mut out, to, cached, false);
        }
        out.put_slice(b"}\n\n");
        out
    }

    /// The event with the finish reason.
    pub(crate) fn finish_event(&self, usage: Option<u64>) -> BytesMut {
        let mut out = self.open();
        let empty: &[u8] = match self.api {
            Api::Chat => br#","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":""#,
            Api::Completions => br#","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":""#,
        };
        out.put_slice(empty);
        out.put_slice(self.finish.name().as_bytes());
        out.put_slice(b"\"}]");
        if let Some(cached) = usage {
            self.push_usage(&mut out, self.tokens, cached, true);
        }
        out.put_slice(b"}\n\n");
        out
    }

    /// An event without choices, with or without usage.
    pub(crate) fn choiceless_event(&self, usage: Option<u64>) -> BytesMut {
        let mut out = self.open();
        out.put_slice(br#","choices":[]"#);
        if let Some(cached) = usage {
            self.push_usage(&mut out, self.tokens, cached, true);
        }
        out.put_slice(b"}\n\n");
        out
    }

    /// The body of an answer that is not streamed. `choices` off leaves the list empty, `text` off leaves the text empty.
    pub(crate) fn body(&self, words: &Words, cached: u64, choices: bool, text: bool) -> Bytes {
        let mut out = BytesMut::with_capacity(self.room + self.tokens as usize * 6);
        out.put_slice(self.head.as_bytes());
        out.put_slice(br#","choices":["#);
        if choices {
            let mut content = String::new();
            let mut reasoning = String::new();
            if text {
                words.write(self.start, 0, self.reasoning, &mut reasoning);
                words.write(self.start, 0, self.tokens - self.reasoning, &mut content);
            }
            out.put_slice(br#"{"index":0,"#);
            match self.api {
                Api::Chat => {
                    out.put_slice(br#""message":{"role":"assistant","content":"#);
                    push_text(&mut out, &content);
                    if !reasoning.is_empty() {
                        let mut comma = true;
                        push_field(&mut out, &mut comma, self.reasoning_field, &reasoning);
                    }
                    out.put_slice(b"}");
                }
                Api::Completions => {
                    out.put_slice(br#""text":"#);
                    push_text(&mut out, &content);
                }
            }
            out.put_slice(br#","logprobs":null,"finish_reason":""#);
            out.put_slice(self.finish.name().as_bytes());
            out.put_slice(b"\"}");
        }
        out.put_slice(b"]");
        self.push_usage(&mut out, self.tokens, cached, true);
        out.put_slice(b"}");
        out.freeze()
    }
}
