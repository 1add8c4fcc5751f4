//! Chat and completions, in the form of vLLM's OpenAI server.

use std::fmt::Write;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

use super::{Answer, FAILURE, Failed, Usage, push_text};
use crate::option::UsageDetails;
use crate::refusal::Refusal;
use crate::request::Api;
use crate::words::Words;

/// `{"id":…,"object":…,"created":…,"model":…` of each event and body.
pub(super) fn head(api: Api, stream: bool, id: u128, created_s: u64, model: &Value) -> String {
    let (prefix, object) = match (api, stream) {
        (Api::Completions, _) => ("cmpl-", "text_completion"),
        (_, true) => ("chatcmpl-", "chat.completion.chunk"),
        (_, false) => ("chatcmpl-", "chat.completion"),
    };
    format!(r#"{{"id":"{prefix}{id:032x}","object":"{object}","created":{created_s},"model":{model}"#)
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

/// An error object as an event.
pub(super) fn failure(out: &mut BytesMut, how: Failed) {
    if how == Failed::Event {
        out.put_slice(b"event: error\n");
    }
    let error =
        json!({"error": {"message": FAILURE, "type": "InternalServerError", "param": null, "code": 500}});
    out.put_slice(format!("data: {error}\n\n").as_bytes());
}

/// An error object as a body.
pub(super) fn failed_body() -> Bytes {
    Bytes::from(Refusal::new(500, "InternalServerError", "simulated failure inside the answer").body())
}

impl Answer {
    /// Appends `,"usage":{…}`.
    fn push_usage(&self, out: &mut BytesMut, usage: Usage) {
        let Usage { prompt, cached, completion, reasoning } = usage;
        let mut text = format!(
            r#","usage":{{"prompt_tokens":{prompt},"total_tokens":{},"completion_tokens":{completion}"#,
            prompt + completion
        );
        match self.details {
            // Writing to a String cannot fail.
            UsageDetails::On => {
                let _ = write!(text, r#","prompt_tokens_details":{{"cached_tokens":{cached}}}"#);
                if self.reasoning() > 0 {
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

    fn open(&self, out: &mut BytesMut) {
        out.put_slice(b"data: ");
        out.put_slice(self.head.as_bytes());
    }

    fn close(&self, out: &mut BytesMut, usage: Option<Usage>) {
        if let Some(usage) = usage {
            self.push_usage(out, usage);
        }
        out.put_slice(b"}\n\n");
    }

    /// Appends `,"choices":[{"index":…`.
    fn open_choice(out: &mut BytesMut, index: usize) {
        if index == 0 {
            out.put_slice(br#","choices":[{"index":0"#);
        } else {
            out.put_slice(format!(r#","choices":[{{"index":{index}"#).as_bytes());
        }
    }

    /// The event that names the role, for each choice.
    pub(super) fn openai_role(&self, out: &mut BytesMut, usage: Option<Usage>) {
        for index in 0..self.texts.len() {
            self.open(out);
            Self::open_choice(out, index);
            out.put_slice(
                br#","delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]"#,
            );
            self.close(out, usage);
        }
    }

    /// The event that brings tokens `from..to` of a text.
    pub(super) fn openai_chunk(
        &self,
        out: &mut BytesMut,
        words: &Words,
        index: usize,
        (from, to): (u64, u64),
        with_role: bool,
        usage: Option<Usage>,
    ) {
        let (reasoning, content) = self.texts[index].parts(words, from, to);
        self.open(out);
        Self::open_choice(out, index);
        if self.api == Api::Completions {
            out.put_slice(br#","text":"#);
            push_text(out, &content.unwrap_or_default());
        } else {
            out.put_slice(br#","delta":{"#);
            let mut comma = with_role;
            if with_role {
                out.put_slice(br#""role":"assistant""#);
            }
            if let Some(text) = reasoning {
                push_field(out, &mut comma, self.reasoning_field, &text);
            }
            if let Some(text) = content {
                push_field(out, &mut comma, "content", &text);
            }
            out.put_u8(b'}');
        }
        out.put_slice(br#","logprobs":null,"finish_reason":null}]"#);
        self.close(out, usage);
    }

    /// The event with the finish reason.
    pub(super) fn openai_finish(&self, out: &mut BytesMut, index: usize, usage: Option<Usage>) {
        self.open(out);
        Self::open_choice(out, index);
        let empty: &[u8] = if self.api == Api::Completions { br#","text":"""# } else { br#","delta":{}"# };
        out.put_slice(empty);
        out.put_slice(br#","logprobs":null,"finish_reason":""#);
        out.put_slice(self.texts[index].finish.name().as_bytes());
        out.put_slice(b"\"}]");
        self.close(out, usage);
    }

    /// An event without choices.
    pub(super) fn openai_choiceless(&self, out: &mut BytesMut, usage: Option<Usage>) {
        self.open(out);
        out.put_slice(br#","choices":[]"#);
        self.close(out, usage);
    }

    pub(super) fn openai_body(
        &self,
        out: &mut BytesMut,
        words: &Words,
        usage: Usage,
        choices: bool,
        with_text: bool,
    ) {
        out.put_slice(self.head.as_bytes());
        out.put_slice(br#","choices":["#);
        for (index, text) in self.texts.iter().enumerate().filter(|_| choices) {
            let to = if with_text { text.tokens } else { 0 };
            let (reasoning, content) = text.parts(words, 0, to);
            if index > 0 {
                out.put_u8(b',');
            }
            out.put_slice(format!(r#"{{"index":{index},"#).as_bytes());
            let content = content.unwrap_or_default();
            if self.api == Api::Completions {
                out.put_slice(br#""text":"#);
                push_text(out, &content);
            } else {
                out.put_slice(br#""message":{"role":"assistant","content":"#);
                push_text(out, &content);
                if let Some(reasoning) = reasoning {
                    push_field(out, &mut true, self.reasoning_field, &reasoning);
                }
                out.put_u8(b'}');
            }
            out.put_slice(br#","logprobs":null,"finish_reason":""#);
            out.put_slice(text.finish.name().as_bytes());
            out.put_slice(b"\"}");
        }
        out.put_u8(b']');
        self.push_usage(out, usage);
        out.put_u8(b'}');
    }
}
