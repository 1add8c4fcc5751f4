//! Generation from a plain text: Hugging Face's TGI, SGLang's native API, and Solido's answers from documents.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value, json};

use super::{Answer, FAILURE, Finish, Usage};
use crate::option::UsageForm;
use crate::request::Api;
use crate::words::Words;

/// What ends a TGI text that ends by itself.
const END_TOKEN: &str = "</s>";

/// TGI's error, which is an event or a body.
fn tgi_failure(message: &str) -> Value {
    json!({"error": message, "error_type": "generation"})
}

/// The event of a failure of TGI.
pub(super) fn failure(out: &mut BytesMut) {
    push(out, &tgi_failure(FAILURE));
}

/// The body of a failure of TGI.
pub(super) fn failed_body() -> Bytes {
    Bytes::from(tgi_failure("simulated failure inside the answer").to_string())
}

fn push(out: &mut BytesMut, data: &Value) {
    out.put_slice(format!("data: {data}\n\n").as_bytes());
}

impl Answer {
    /// Whether the last token of a text comes in the event that ends it.
    pub(crate) fn ends_with_token(&self, text: usize) -> bool {
        matches!(self.api, Api::Tgi { .. }) && self.texts[text].finish == Finish::Length
    }

    /// The content of the only text up to `to`.
    fn said(&self, words: &Words, from: u64, to: u64) -> String {
        self.texts[0].parts(words, from, to).1.unwrap_or_default()
    }

    /// `details` of TGI, which are its counts too.
    fn tgi_details(&self) -> Value {
        if self.usage == UsageForm::None {
            return Value::Null;
        }
        let text = &self.texts[0];
        let (reason, end) = match text.finish {
            Finish::Length => ("length", 0),
            Finish::Stop => ("eos_token", 1),
        };
        json!({"finish_reason": reason, "generated_tokens": text.tokens + end, "seed": null,
            "input_length": text.prompt_tokens})
    }

    fn sglang_object(&self, text: &str, usage: Usage, finished: bool) -> Value {
        let reason = match self.texts[0].finish {
            _ if !finished => Value::Null,
            Finish::Length => json!({"type": "length", "length": usage.completion}),
            Finish::Stop => json!({"type": "stop", "matched": 2}),
        };
        let mut meta = Map::new();
        meta.insert("id".to_owned(), format!("{:032x}", self.id).into());
        meta.insert("finish_reason".to_owned(), reason);
        if self.usage != UsageForm::None {
            let counts = [
                ("prompt_tokens", usage.prompt),
                ("completion_tokens", usage.completion),
                ("cached_tokens", usage.cached),
            ];
            meta.extend(counts.map(|(name, count)| (name.to_owned(), count.into())));
        }
        json!({"text": text, "meta_info": meta})
    }

    /// Tokens `from..to`.
    pub(super) fn generate_chunk(
        &self,
        out: &mut BytesMut,
        words: &Words,
        (from, to): (u64, u64),
        usage: Option<Usage>,
    ) {
        let news = self.said(words, from, to);
        match self.api {
            Api::Sglang => {
                let text = if self.sglang_pieces { news } else { self.said(words, 0, to) };
                let usage = usage.unwrap_or_else(|| self.usage_of(0, to, 0));
                push(out, &self.sglang_object(&text, usage, false));
            }
            Api::Solido => push(out, &json!({"content": news})),
            _ => {
                let last = self.ends_with_token(0) && to == self.texts[0].tokens;
                let (whole, details) = if last {
                    (self.said(words, 0, to).into(), self.tgi_details())
                } else {
                    Default::default()
                };
                push(out, &tgi_token(to, &news, false, &whole, &details));
            }
        }
    }

    /// The end of the text.
    pub(super) fn generate_finish(&self, out: &mut BytesMut, words: &Words, usage: Option<Usage>) {
        let tokens = self.texts[0].tokens;
        match self.api {
            Api::Sglang => {
                let text = if self.sglang_pieces { String::new() } else { self.said(words, 0, tokens) };
                let usage = usage.unwrap_or_else(|| self.usage_whole(0));
                push(out, &self.sglang_object(&text, usage, true));
            }
            Api::Solido => push(out, &json!({"content": "", "sources": sources()})),
            _ => {
                let whole = self.said(words, 0, tokens).into();
                push(out, &tgi_token(tokens + 1, END_TOKEN, true, &whole, &self.tgi_details()));
            }
        }
    }

    /// The end of the stream, `whole` or without any content.
    pub(super) fn generate_closing(&self, out: &mut BytesMut, whole: bool) {
        if matches!(self.api, Api::Tgi { .. }) {
            if !whole {
                push(
                    out,
                    &json!({"index": 0, "token": null, "generated_text": "", "details": self.tgi_details()}),
                );
            }
        } else if self.done {
            out.put_slice(b"data: [DONE]\n\n");
        } else if !whole {
            push(out, &json!({}));
        }
    }

    pub(super) fn generate_body(&self, out: &mut BytesMut, words: &Words, usage: Usage, with_text: bool) {
        let text = if with_text { self.said(words, 0, self.texts[0].tokens) } else { String::new() };
        let body = match self.api {
            Api::Sglang => self.sglang_object(&text, usage, true),
            Api::Solido => json!({"content": text, "sources": sources()}),
            _ => json!({"generated_text": text, "details": self.tgi_details()}),
        };
        out.put_slice(body.to_string().as_bytes());
    }
}

fn tgi_token(index: u64, text: &str, special: bool, whole: &Value, details: &Value) -> Value {
    json!({"index": index, "token": {"id": index, "text": text, "logprob": -0.25, "special": special},
        "generated_text": whole, "details": details})
}

fn sources() -> Value {
    json!([{"title": "Simulated manual", "page": 1}])
}
