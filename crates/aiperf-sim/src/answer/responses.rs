//! OpenAI's responses: items within items, and a numbered event for every step.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

use super::{Answer, FAILURE, Failed, Finish, Usage, push_text};
use crate::option::{UsageDetails, UsageForm};
use crate::request::Ask;
use crate::words::Words;

/// What a response says of itself before its status, and of its request after its output.
pub(super) fn head(ask: &Ask<'_>, id: u128, created_s: u64, model: &Value) -> (String, String) {
    let head =
        format!(r#"{{"id":"resp_{id:032x}","object":"response","created_at":{created_s},"background":false"#);
    let instructions = ask.system.unwrap_or("null");
    let limit = ask.limit.map_or_else(|| "null".to_owned(), |l| l.to_string());
    let tools = ask.tools.unwrap_or("[]");
    let (previous, store) = (json!(ask.previous), ask.store);
    let tail = format!(
        r#","instructions":{instructions},"max_output_tokens":{limit},"max_tool_calls":null,"model":{model},"parallel_tool_calls":true,"previous_response_id":{previous},"prompt_cache_key":null,"reasoning":{{"effort":null,"summary":null}},"service_tier":"default","store":{store},"temperature":1.0,"text":{{"format":{{"type":"text"}}}},"tool_choice":"auto","tools":{tools},"top_logprobs":0,"top_p":1.0,"truncation":"disabled","metadata":{{}}"#
    );
    // An event is a line; a request may have been written over several.
    (head, tail.replace(['\n', '\r'], " "))
}

/// The status of a response that ended so.
const fn end_status(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "completed",
        Finish::Length => "incomplete",
    }
}

/// The two kinds of items that are made here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Reasoning,
    Message,
}

impl Item {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Reasoning => "rs",
            Self::Message => "msg",
        }
    }

    /// The name in the events that bring its text.
    const fn text_event(self) -> &'static str {
        match self {
            Self::Reasoning => "response.reasoning_text",
            Self::Message => "response.output_text",
        }
    }

    /// Its one part of content.
    fn part(self, text: &str) -> String {
        let text = json!(text);
        match self {
            Self::Reasoning => format!(r#"{{"type":"reasoning_text","text":{text}}}"#),
            Self::Message => {
                format!(r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":{text}}}"#)
            }
        }
    }
}

impl Answer {
    /// Appends an event of this type with these further fields.
    fn event(&mut self, out: &mut BytesMut, kind: &str, fields: &str) {
        let number = self.event;
        self.event += 1;
        out.put_slice(
            format!("event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{number},{fields}}}\n\n")
                .as_bytes(),
        );
    }

    /// The place of an item in the output.
    fn place(&self, item: Item) -> u64 {
        u64::from(item == Item::Message && self.texts[0].reasoning > 0)
    }

    /// `"item_id":…,"output_index":…,"content_index":0`.
    fn address(&self, item: Item) -> String {
        format!(
            r#""item_id":"{}_{:032x}","output_index":{},"content_index":0"#,
            item.prefix(),
            self.id,
            self.place(item)
        )
    }

    /// An item; without a text it has only begun.
    fn item(&self, item: Item, text: Option<&str>) -> String {
        let id = format!("{}_{:032x}", item.prefix(), self.id);
        let content = text.map(|t| item.part(t)).unwrap_or_default();
        // A limit that cuts the reasoning off leaves no message; else it is the message that is not complete.
        let cut = item == Item::Message || self.texts[0].tokens == self.texts[0].reasoning;
        let status = match text {
            None => "in_progress",
            Some(_) if cut && self.texts[0].finish == Finish::Length => "incomplete",
            Some(_) => "completed",
        };
        match item {
            Item::Reasoning => format!(
                r#"{{"id":"{id}","type":"reasoning","summary":[],"content":[{content}],"encrypted_content":null,"status":"{status}"}}"#
            ),
            Item::Message => format!(
                r#"{{"id":"{id}","type":"message","status":"{status}","role":"assistant","content":[{content}]}}"#
            ),
        }
    }

    /// The items of the whole answer.
    fn output(&self, words: &Words, with_text: bool) -> String {
        let text = &self.texts[0];
        let to = if with_text { text.tokens } else { 0 };
        let (reasoning, content) = text.parts(words, 0, to);
        let mut items = Vec::new();
        if let Some(reasoning) = reasoning {
            items.push(self.item(Item::Reasoning, Some(&reasoning)));
        }
        if content.is_some() || items.is_empty() {
            items.push(self.item(Item::Message, Some(&content.unwrap_or_default())));
        }
        items.join(",")
    }

    /// The response itself.
    fn response(&self, status: &str, failure: Option<&str>, output: &str, usage: Option<Usage>) -> String {
        let error = failure.map_or(Value::Null, |f| json!({"code": "server_error", "message": f}));
        let incomplete = match status {
            "incomplete" => r#"{"reason":"max_output_tokens"}"#,
            _ => "null",
        };
        let usage = usage.filter(|_| self.usage != UsageForm::None).map_or_else(
            || "null".to_owned(),
            |u| {
                let (input, output) = match self.details {
                    UsageDetails::On => (
                        format!(r#","input_tokens_details":{{"cached_tokens":{}}}"#, u.cached),
                        format!(r#","output_tokens_details":{{"reasoning_tokens":{}}}"#, u.reasoning),
                    ),
                    UsageDetails::Null => (
                        r#","input_tokens_details":null"#.to_owned(),
                        r#","output_tokens_details":null"#.to_owned(),
                    ),
                    UsageDetails::Off => Default::default(),
                };
                format!(
                    r#"{{"input_tokens":{}{input},"output_tokens":{}{output},"total_tokens":{}}}"#,
                    u.prompt,
                    u.completion,
                    u.prompt + u.completion
                )
            },
        );
        let (head, tail) = (&self.head, &self.tail);
        format!(
            r#"{head},"status":"{status}","error":{error},"incomplete_details":{incomplete},"output":[{output}],"usage":{usage}{tail}}}"#
        )
    }

    pub(super) fn responses_opening(&mut self, out: &mut BytesMut) {
        let response = format!(r#""response":{}"#, self.response("in_progress", None, "", None));
        self.event(out, "response.created", &response);
        self.event(out, "response.in_progress", &response);
    }

    fn begin_item(&mut self, out: &mut BytesMut, item: Item) {
        let (place, begun, address) = (self.place(item), self.item(item, None), self.address(item));
        let added = format!(r#""output_index":{place},"item":{begun}"#);
        self.event(out, "response.output_item.added", &added);
        let part = format!(r#"{address},"part":{}"#, item.part(""));
        self.event(out, "response.content_part.added", &part);
    }

    fn end_item(&mut self, out: &mut BytesMut, item: Item, text: &str) {
        let (place, address) = (self.place(item), self.address(item));
        let logprobs = if item == Item::Message { r#","logprobs":[]"# } else { "" };
        let done = format!(r#"{address},"text":{}{logprobs}"#, json!(text));
        self.event(out, &format!("{}.done", item.text_event()), &done);
        self.event(out, "response.content_part.done", &format!(r#"{address},"part":{}"#, item.part(text)));
        let whole = self.item(item, Some(text));
        self.event(out, "response.output_item.done", &format!(r#""output_index":{place},"item":{whole}"#));
    }

    fn delta(&mut self, out: &mut BytesMut, item: Item, text: &str) {
        let kind = item.text_event();
        let number = self.event;
        self.event += 1;
        let address = self.address(item);
        out.put_slice(
            format!(
                "event: {kind}.delta\ndata: {{\"type\":\"{kind}.delta\",\"sequence_number\":{number},{address},\"delta\":"
            )
            .as_bytes(),
        );
        push_text(out, text);
        let end: &[u8] = if item == Item::Message { b",\"logprobs\":[]}\n\n" } else { b"}\n\n" };
        out.put_slice(end);
    }

    /// Tokens `from..to`, and the begin of the item they open or the end of the reasoning they complete.
    pub(super) fn responses_chunk(&mut self, out: &mut BytesMut, words: &Words, (from, to): (u64, u64)) {
        let text = self.texts[0];
        let (reasoning, content) = text.parts(words, from, to);
        if let Some(reasoning) = reasoning {
            if from == 0 {
                self.begin_item(out, Item::Reasoning);
            }
            self.delta(out, Item::Reasoning, &reasoning);
            if to >= text.reasoning {
                let (all, _) = text.parts(words, 0, text.reasoning);
                self.end_item(out, Item::Reasoning, &all.unwrap_or_default());
            }
        }
        if let Some(content) = content {
            if from <= text.reasoning {
                self.begin_item(out, Item::Message);
            }
            self.delta(out, Item::Message, &content);
        }
    }

    /// The end of the message, if there is one: an answer cut off in its reasoning has none.
    pub(super) fn responses_finish(&mut self, out: &mut BytesMut, words: &Words) {
        let text = self.texts[0];
        let (_, content) = text.parts(words, 0, text.tokens);
        if content.is_none() {
            if text.reasoning > 0 {
                return;
            }
            self.begin_item(out, Item::Message);
        }
        self.end_item(out, Item::Message, &content.unwrap_or_default());
    }

    pub(super) fn responses_closing(
        &mut self,
        out: &mut BytesMut,
        words: &Words,
        usage: Usage,
        content: bool,
    ) {
        let finish = self.texts[0].finish;
        let output = if content { self.output(words, true) } else { String::new() };
        let response = self.response(end_status(finish), None, &output, Some(usage));
        let kind = match finish {
            Finish::Length if self.incomplete_event => "response.incomplete",
            _ => "response.completed",
        };
        self.event(out, kind, &format!(r#""response":{response}"#));
    }

    /// `error` as an event of its own, or the response as failed.
    pub(super) fn responses_failure(&mut self, out: &mut BytesMut, how: Failed) {
        match how {
            Failed::Event => {
                let number = self.event;
                self.event += 1;
                let error = json!({"type": "error", "sequence_number": number, "code": "server_error", "message": FAILURE, "param": null});
                out.put_slice(format!("event: error\ndata: {error}\n\n").as_bytes());
            }
            Failed::Data => {
                let response = self.response("failed", Some(FAILURE), "", None);
                self.event(out, "response.failed", &format!(r#""response":{response}"#));
            }
        }
    }

    pub(super) fn responses_body(
        &self,
        out: &mut BytesMut,
        words: &Words,
        usage: Usage,
        content: bool,
        with_text: bool,
    ) {
        let output = if content { self.output(words, with_text) } else { String::new() };
        let status = end_status(self.texts[0].finish);
        out.put_slice(self.response(status, None, &output, Some(usage)).as_bytes());
    }

    pub(super) fn responses_failed_body(&self) -> Bytes {
        Bytes::from(self.response("failed", Some("simulated failure inside the answer"), "", None))
    }
}
