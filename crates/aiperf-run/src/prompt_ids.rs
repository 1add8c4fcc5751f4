//! Prompts as a server has them: the token ids of what it prefills, by which it finds their prefixes in its cache.
//!
//! Servers render a conversation with the model's chat template, whatever a client counts; where there is none, its texts stand
//! one after the other. A completions prompt has the tokenizer's own specials.

use std::sync::Arc;

use aiperf_core::plan::EndpointKind;
use aiperf_net::Endpoint;
use aiperf_tokens::{TemplateClock, TemplateFields, Tokenizer};
use serde_json::{Map, Value};

use crate::count::messages;

/// See the module.
#[derive(Debug)]
pub(crate) struct PromptIds {
    tokenizer: Arc<dyn Tokenizer>,
    endpoint: Arc<Endpoint>,
    now: TemplateClock,
}

impl PromptIds {
    /// Of an API whose servers decode: others have no prefix cache worth the name. `None` of those, and of APIs whose form nobody
    /// knows but the user.
    pub(crate) fn new(
        tokenizer: Arc<dyn Tokenizer>,
        endpoint: Arc<Endpoint>,
        now: TemplateClock,
    ) -> Option<Self> {
        let kind = endpoint.kind();
        let is_text = is_talk(kind) || is_plain(kind);
        is_text.then_some(Self { tokenizer, endpoint, now })
    }

    /// The prompts in `body`: one of a conversation, any number of completions. None when the template refuses it, or when it
    /// has none that can be read.
    pub(crate) fn of(&self, body: &[u8]) -> Vec<Vec<u32>> {
        if is_plain(self.endpoint.kind()) {
            return self.endpoint.texts(body).iter().map(|text| self.prompt(text)).collect();
        }
        let mut ids = Vec::new();
        let kind = self.endpoint.kind();
        let Ok(fields) = serde_json::from_slice::<Map<String, Value>>(body) else { return Vec::new() };
        match (self.tokenizer.chat_template(), messages(kind, &fields)) {
            (Some(template), Some(messages)) => {
                let around = TemplateFields::of(kind, &fields);
                let Ok(text) = template.render_with(&around.conversation(&messages, self.now)) else {
                    return Vec::new();
                };
                self.tokenizer.encode(&text, &mut ids);
            }
            // Parts of a message are one text to the server here, too.
            (None, Some(Value::Array(messages))) => {
                let contents = messages.iter().filter_map(|message| message["content"].as_str());
                contents.for_each(|text| self.tokenizer.encode(text, &mut ids));
            }
            _ => self.endpoint.texts(body).iter().for_each(|text| self.tokenizer.encode(text, &mut ids)),
        }
        if ids.is_empty() { Vec::new() } else { vec![ids] }
    }

    /// Appends the ids of what the server decoded.
    pub(crate) fn reply(&self, text: &str, ids: &mut Vec<u32>) {
        self.tokenizer.encode(text, ids);
    }

    fn prompt(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.tokenizer.encode_prompt(text, &mut ids);
        ids
    }
}

const fn is_talk(kind: EndpointKind) -> bool {
    matches!(kind, EndpointKind::Chat | EndpointKind::Responses | EndpointKind::Messages)
}

const fn is_plain(kind: EndpointKind) -> bool {
    matches!(
        kind,
        EndpointKind::Completions | EndpointKind::HuggingfaceGenerate | EndpointKind::SglangGenerate
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toys::{self, Toy};

    fn ids(kind: EndpointKind, template: Option<&str>, body: &str) -> Vec<Vec<u32>> {
        let now = TemplateClock::civil(2025, 1, 2, 3, 4, 5).expect("a real moment");
        let endpoint = Arc::new(Endpoint::new(&toys::endpoint(kind)));
        PromptIds::new(Arc::new(Toy::new(template)), endpoint, now)
            .expect("it has prompts")
            .of(body.as_bytes())
    }

    #[test]
    fn a_conversation_is_one_prompt_and_completions_are_several() {
        let talk = r#"{"messages":[{"role":"system","content":"a bb"},{"role":"user","content":"ccc"}]}"#;
        assert_eq!(ids(EndpointKind::Chat, None, talk), [[1, 2, 3]]);
        let template = "{% for m in messages %}<{{ m.role }}> {{ m.content }} {% endfor %}";
        assert_eq!(ids(EndpointKind::Chat, Some(template), talk), [[8, 1, 2, 6, 3]]);
        let parts = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"bb"}]}]}"#;
        assert_eq!(ids(EndpointKind::Chat, None, parts), [[1, 2]]);
        let refuses = "{{ raise_exception('never') }}";
        assert!(ids(EndpointKind::Chat, Some(refuses), talk).is_empty());
        assert_eq!(ids(EndpointKind::Completions, Some(template), r#"{"prompt":["a bb","ccc"]}"#).len(), 2);
        assert!(ids(EndpointKind::Chat, None, "no JSON").is_empty());
    }

    #[test]
    fn apis_without_decoding_have_no_prompts_to_be_found() {
        let now = TemplateClock::civil(2025, 1, 2, 3, 4, 5).expect("a real moment");
        for kind in [EndpointKind::Embeddings, EndpointKind::NimRankings, EndpointKind::Raw] {
            let endpoint = Arc::new(Endpoint::new(&toys::endpoint(kind)));
            assert!(PromptIds::new(Arc::new(Toy::new(None)), endpoint, now).is_none(), "{kind:?}");
        }
    }
}
