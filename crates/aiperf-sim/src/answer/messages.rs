//! Anthropic's messages: blocks that begin and end, counts at both ends of the stream.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

use super::{Answer, FAILURE, Failed, Finish, Usage, push_text};
use crate::option::{UsageDetails, UsageForm};
use crate::words::Words;

/// What a message says of itself before its content.
pub(super) fn head(id: u128, model: &Value) -> String {
    format!(r#"{{"id":"msg_{id:032x}","type":"message","role":"assistant","model":{model}"#)
}

/// What a block of thinking is signed with; nobody looks at it but the server that wrote it.
const SIGNATURE: &str = "c2ltdWxhdGVk";

/// An error object as an event.
pub(super) fn failure(out: &mut BytesMut, how: Failed) {
    if how == Failed::Event {
        out.put_slice(b"event: error\n");
    }
    out.put_slice(format!("data: {}\n\n", error(FAILURE)).as_bytes());
}

/// An error object as a body.
pub(super) fn failed_body() -> Bytes {
    Bytes::from(error("simulated failure inside the answer").to_string())
}

fn error(message: &str) -> Value {
    json!({"type": "error", "error": {"type": "api_error", "message": message}})
}

fn event(out: &mut BytesMut, kind: &str, fields: &str) {
    let comma = if fields.is_empty() { "" } else { "," };
    out.put_slice(format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{comma}{fields}}}\n\n").as_bytes());
}

fn delta(out: &mut BytesMut, block: u64, kind: &str, field: &str, text: &str) {
    out.put_slice(
        format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":{block},\"delta\":{{\"type\":\"{kind}\",\"{field}\":"
        )
        .as_bytes(),
    );
    push_text(out, text);
    out.put_slice(b"}}\n\n");
}

/// A block begins; a ping follows the first.
fn begin_block(out: &mut BytesMut, block: u64, thinking: bool) {
    let empty = if thinking {
        r#"{"type":"thinking","thinking":"","signature":""}"#
    } else {
        r#"{"type":"text","text":""}"#
    };
    event(out, "content_block_start", &format!(r#""index":{block},"content_block":{empty}"#));
    if block == 0 {
        event(out, "ping", "");
    }
}

impl Answer {
    const fn stop_reason(&self) -> &'static str {
        // A message has one text.
        match self.texts.as_slice() {
            [text] if matches!(text.finish, Finish::Length) => "max_tokens",
            _ => "end_turn",
        }
    }

    /// `,"usage":{…}`. What was read from the cache stands beside the other input, not within it.
    fn anthropic_usage(&self, usage: Usage) -> String {
        if self.usage == UsageForm::None {
            return String::new();
        }
        let (input, details) = match self.details {
            UsageDetails::On => (
                usage.prompt - usage.cached,
                format!(r#","cache_creation_input_tokens":0,"cache_read_input_tokens":{}"#, usage.cached),
            ),
            UsageDetails::Null => (
                usage.prompt,
                r#","cache_creation_input_tokens":null,"cache_read_input_tokens":null"#.to_owned(),
            ),
            UsageDetails::Off => (usage.prompt, String::new()),
        };
        format!(r#","usage":{{"input_tokens":{input}{details},"output_tokens":{}}}"#, usage.completion)
    }

    pub(super) fn messages_opening(&self, out: &mut BytesMut, usage: Usage) {
        let (head, usage) = (&self.head, self.anthropic_usage(usage));
        let message =
            format!(r#""message":{head},"content":[],"stop_reason":null,"stop_sequence":null{usage}}}"#);
        event(out, "message_start", &message);
    }

    /// Number of the block of text.
    fn text_block(&self) -> u64 {
        u64::from(self.texts[0].reasoning > 0)
    }

    /// Tokens `from..to`, and the begin of the block they open or the end of the thinking they complete.
    pub(super) fn messages_chunk(&self, out: &mut BytesMut, words: &Words, (from, to): (u64, u64)) {
        let text = &self.texts[0];
        let (thinking, content) = text.parts(words, from, to);
        if let Some(thinking) = thinking {
            if from == 0 {
                begin_block(out, 0, true);
            }
            delta(out, 0, "thinking_delta", "thinking", &thinking);
            if to >= text.reasoning {
                delta(out, 0, "signature_delta", "signature", SIGNATURE);
                event(out, "content_block_stop", r#""index":0"#);
            }
        }
        if let Some(content) = content {
            let block = self.text_block();
            if from <= text.reasoning {
                begin_block(out, block, false);
            }
            delta(out, block, "text_delta", "text", &content);
        }
    }

    /// The end of the block of text, if there is one: an answer cut off in its thinking has none.
    pub(super) fn messages_finish(&self, out: &mut BytesMut) {
        let (text, block) = (&self.texts[0], self.text_block());
        if text.tokens == text.reasoning {
            if text.reasoning > 0 {
                return;
            }
            begin_block(out, block, false);
        }
        event(out, "content_block_stop", &format!(r#""index":{block}"#));
    }

    pub(super) fn messages_closing(&self, out: &mut BytesMut, usage: Usage) {
        let (reason, usage) = (self.stop_reason(), self.anthropic_usage(usage));
        let delta = format!(r#""delta":{{"stop_reason":"{reason}","stop_sequence":null}}{usage}"#);
        event(out, "message_delta", &delta);
        event(out, "message_stop", "");
    }

    pub(super) fn messages_body(
        &self,
        out: &mut BytesMut,
        words: &Words,
        usage: Usage,
        content: bool,
        with_text: bool,
    ) {
        let text = &self.texts[0];
        let to = if with_text { text.tokens } else { 0 };
        let (thinking, said) = text.parts(words, 0, to);
        let mut blocks = Vec::new();
        if let Some(thinking) = &thinking {
            blocks.push(json!({"type": "thinking", "thinking": thinking, "signature": SIGNATURE}));
        }
        if said.is_some() || thinking.is_none() {
            blocks.push(json!({"type": "text", "text": said.unwrap_or_default()}));
        }
        if !content {
            blocks.clear();
        }
        let (head, blocks) = (&self.head, Value::from(blocks));
        let (reason, usage) = (self.stop_reason(), self.anthropic_usage(usage));
        out.put_slice(
            format!(r#"{head},"content":{blocks},"stop_reason":"{reason}","stop_sequence":null{usage}}}"#)
                .as_bytes(),
        );
    }
}
