//! Conversations whose file has the answers too: each turn is sent with what the file says was said before it.

use aiperf_core::plan::EndpointKind;
use serde_json::{Value, json};

use super::row::Row;

/// Goes through the turns of a conversation.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// What was said so far.
    messages: Vec<Value>,
}

impl Recorded {
    /// Takes in the next turn. `false` for a recorded answer, which is not sent; else the turn has all messages of its request, unless
    /// it is the first or brings its own.
    pub(super) fn add(&mut self, row: &mut Row, api: EndpointKind) -> bool {
        if std::mem::take(&mut row.resets) {
            self.messages.clear();
        }
        let is_answer = row.role.as_deref() == Some("assistant");
        self.messages.push(message(row, is_answer, api));
        if is_answer {
            return false;
        }
        if let Some(field) = api.messages_field()
            && self.messages.len() > 1
            && !row.extra.contains_key(field)
        {
            row.extra.insert(field.to_owned(), Value::Array(self.messages.clone()));
        }
        true
    }
}

fn message(row: &Row, is_answer: bool, api: EndpointKind) -> Value {
    let tag = match (api, is_answer) {
        (EndpointKind::Responses, true) => "output_text",
        (EndpointKind::Responses, false) => "input_text",
        _ => "text",
    };
    let content = match row.texts.as_slice() {
        [one] => json!(one),
        several => several.iter().map(|text| json!({"type": tag, "text": text})).collect(),
    };
    json!({"role": row.role.as_deref().unwrap_or("user"), "content": content})
}
