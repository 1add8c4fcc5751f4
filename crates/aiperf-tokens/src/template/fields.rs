//! What a request's fields give its chat template beside the messages.

use aiperf_core::plan::EndpointKind;
use serde_json::{Map, Value, json};

use super::Conversation;
use crate::clock::TemplateClock;

/// The tools, documents, variables and end of a rendered request, as servers take them out of a body. Whoever makes a prompt to a
/// length, counts it or asks how a server counts it takes them from here.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateFields {
    tools: Option<Value>,
    documents: Option<Value>,
    kwargs: Option<Map<String, Value>>,
    generation: bool,
}

impl TemplateFields {
    /// Those among the `fields` of a request of the API `kind`. `documents` are a field of chat alone, `add_generation_prompt` one of
    /// chat and of embeddings of chats, which vLLM renders without a generation prompt otherwise; the other APIs pass them over.
    pub fn of(kind: EndpointKind, fields: &Map<String, Value>) -> Self {
        let of_chat = |name: &str| fields.get(name).filter(|_| kind == EndpointKind::Chat);
        Self {
            tools: fields.get("tools").and_then(Value::as_array).and_then(|list| tools(kind, list)),
            documents: of_chat("documents").filter(|value| value.is_array()).cloned(),
            kwargs: fields.get("chat_template_kwargs").and_then(Value::as_object).cloned(),
            generation: match kind {
                EndpointKind::Chat | EndpointKind::ChatEmbeddings => {
                    let asked = fields.get("add_generation_prompt").and_then(Value::as_bool);
                    asked.unwrap_or(kind == EndpointKind::Chat)
                }
                _ => true,
            },
        }
    }

    /// Tools in the form of chat.
    pub const fn tools(&self) -> Option<&Value> {
        self.tools.as_ref()
    }

    /// Whether there are documents.
    pub const fn has_documents(&self) -> bool {
        self.documents.is_some()
    }

    /// Whether the request ends where the answer begins.
    pub const fn generation(&self) -> bool {
        self.generation
    }

    /// The request with these messages.
    pub fn conversation<'a>(&'a self, messages: &'a Value, now: TemplateClock) -> Conversation<'a> {
        Conversation {
            messages,
            tools: self.tools.as_ref(),
            documents: self.documents.as_ref(),
            add_generation_prompt: self.generation,
            kwargs: self.kwargs.as_ref(),
            now,
        }
    }
}

/// Tools in the form of chat, whose own stay as they are. Of the other APIs an empty list is as good as none.
fn tools(kind: EndpointKind, list: &[Value]) -> Option<Value> {
    let schema = match kind {
        EndpointKind::Responses => "parameters",
        EndpointKind::Messages => "input_schema",
        _ => return Some(list.to_vec().into()),
    };
    let in_form = |tool: &Value| {
        // Tools of the server's own have no schema to convert.
        if tool.get("name").is_none() {
            return tool.clone();
        }
        let names = [("name", "name"), ("description", "description"), (schema, "parameters")];
        let parts = names.iter().filter_map(|(name, as_name)| {
            let value = tool.get(*name).filter(|value| !value.is_null())?;
            Some(((*as_name).to_owned(), value.clone()))
        });
        json!({"type": "function", "function": parts.collect::<Map<_, _>>()})
    };
    (!list.is_empty()).then(|| list.iter().map(in_form).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: EndpointKind, fields: &Value) -> TemplateFields {
        TemplateFields::of(kind, fields.as_object().expect("an object"))
    }

    #[test]
    fn tools_of_every_api_take_the_form_of_chat() {
        let form = json!([{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"a": 1}}}]);
        let responses = json!([{"type": "function", "name": "f", "description": "d", "parameters": {"a": 1}, "strict": true}]);
        let anthropic = json!([{"name": "f", "description": "d", "input_schema": {"a": 1}}]);
        for (kind, given) in [
            (EndpointKind::Chat, &form),
            (EndpointKind::Responses, &responses),
            (EndpointKind::Messages, &anthropic),
        ] {
            assert_eq!(of(kind, &json!({ "tools": given })).tools(), Some(&form), "{kind:?}");
            let empty = of(kind, &json!({"tools": []}));
            assert_eq!(empty.tools().is_some(), kind == EndpointKind::Chat, "{kind:?}");
        }
        let own = json!([{"type": "web_search"}]);
        assert_eq!(of(EndpointKind::Responses, &json!({ "tools": own })).tools(), Some(&own));
    }

    #[test]
    fn what_only_chat_knows_is_passed_over_elsewhere() {
        let fields = json!({"documents": [{"text": "d"}], "add_generation_prompt": false, "tools": null,
            "chat_template_kwargs": {"quiet": true}});
        let messages = json!([]);
        let now = TemplateClock::civil(2025, 1, 2, 3, 4, 5).expect("a real moment");
        for (kind, is_chat) in
            [(EndpointKind::Chat, true), (EndpointKind::Responses, false), (EndpointKind::Messages, false)]
        {
            let fields = of(kind, &fields);
            let seen = fields.conversation(&messages, now);
            assert_eq!(
                (seen.documents.is_some(), seen.add_generation_prompt),
                (is_chat, !is_chat),
                "{kind:?}"
            );
            assert_eq!(seen.kwargs.map(|k| k["quiet"].clone()), Some(json!(true)), "{kind:?}");
            assert_eq!(seen.tools, None, "{kind:?}");
        }
        // vLLM renders what it makes vectors of without the beginning of an answer, unless asked.
        let asks = |fields: Value| of(EndpointKind::ChatEmbeddings, &fields).generation();
        assert!(!asks(json!({})) && asks(json!({"add_generation_prompt": true})));
    }
}
