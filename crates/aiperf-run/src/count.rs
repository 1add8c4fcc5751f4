//! Tokens of request bodies, as a server counts them.
//!
//! With the tokenizer's chat template, a body has as many tokens as what the template makes of its messages and tools. Without
//! one, it has those of its texts, each counted alone, for what joins them is the server's affair; a completions server puts
//! the tokenizer's own specials (BOS) in front of each prompt, so they are counted.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;

use aiperf_core::plan::EndpointKind;
use aiperf_net::Endpoint;
use aiperf_tokens::{TemplateClock, TemplateFields, Tokenizer};
use serde_json::{Map, Value, json};

/// Fields of a body that change its count. Where extra inputs bring one of them, nobody knows a length but who counts.
const COUNTED: [&str; 13] = [
    "chat_template",
    "chat_template_kwargs",
    "documents",
    "input",
    "inputs",
    "instructions",
    "messages",
    "passages",
    "prompt",
    "query",
    "system",
    "texts",
    "tools",
];

/// Whether fields laid over a body change its count.
pub(crate) fn changes_count(fields: &Map<String, Value>) -> bool {
    COUNTED.iter().any(|name| fields.contains_key(*name))
}

/// Counts bodies, and texts that become part of later bodies.
#[derive(Debug)]
pub(crate) struct BodyCounter {
    tokenizer: Arc<dyn Tokenizer>,
    endpoint: Arc<Endpoint>,
    /// Tokens that the server puts around each text.
    specials: u64,
    /// The moment the chat template sees; `None` counts texts.
    template: Option<TemplateClock>,
    known: Memo,
    /// The template's refusal was told.
    told: bool,
}

impl BodyCounter {
    /// Counts as `tokenizer` does, a text with `specials` tokens around it; through its chat template, if it has one, when
    /// `template` gives that a moment.
    pub(crate) fn new(
        tokenizer: Arc<dyn Tokenizer>,
        endpoint: Arc<Endpoint>,
        specials: u64,
        template: Option<TemplateClock>,
    ) -> Self {
        let template = template.filter(|_| tokenizer.chat_template().is_some());
        Self { tokenizer, endpoint, specials, template, known: Memo::default(), told: false }
    }

    /// Another one that counts the same, and leaves it to this one to tell what the template refuses.
    pub(crate) fn twin(&self) -> Self {
        let (tokenizer, endpoint) = (self.tokenizer.clone(), self.endpoint.clone());
        Self { told: true, ..Self::new(tokenizer, endpoint, self.specials, self.template) }
    }

    /// Tokens of a body; `None` when the template refuses it, as a server with this template will.
    pub(crate) fn body(&mut self, body: &[u8]) -> Option<u64> {
        if let Some(now) = self.template
            && let Ok(fields) = serde_json::from_slice::<Map<String, Value>>(body)
            && let Some(messages) = messages(self.endpoint.kind(), &fields)
        {
            return self.rendered(&fields, &messages, now);
        }
        Some(self.texts(body))
    }

    /// Tokens of the messages alone that stand at `list` of a body, each text counted for itself.
    pub(crate) fn part(&mut self, body: &[u8], list: Range<usize>) -> u64 {
        let Some(field) = self.endpoint.kind().messages_field() else { return 0 };
        let elements = &body[list];
        self.texts(&[b"{\"", field.as_bytes(), b"\":[", elements, b"]}"].concat())
    }

    /// Tokens of texts as bodies hold them.
    pub(crate) fn given(&mut self, texts: &[String]) -> u64 {
        texts.iter().map(|text| self.remembered(text) + self.specials).sum()
    }

    fn texts(&mut self, body: &[u8]) -> u64 {
        self.endpoint.texts(body).iter().map(|text| self.remembered(text) + self.specials).sum()
    }

    /// Tokens of an answer's text.
    pub(crate) fn answer(&self, text: &str) -> u64 {
        self.tokenizer.count(text) as u64
    }

    /// Tokens of a text, which are found again when a later body holds it.
    pub(crate) fn remembered(&mut self, text: &str) -> u64 {
        let tokenizer = &self.tokenizer;
        self.known.count(text, || tokenizer.count(text) as u64)
    }

    fn rendered(&mut self, fields: &Map<String, Value>, messages: &Value, now: TemplateClock) -> Option<u64> {
        let around = TemplateFields::of(self.endpoint.kind(), fields);
        match self.tokenizer.chat_template()?.render_with(&around.conversation(messages, now)) {
            Ok(text) => Some(self.tokenizer.count(&text) as u64),
            Err(error) => {
                if !std::mem::replace(&mut self.told, true) {
                    tracing::warn!(
                        "the chat template refuses a request, which has no input length then: {error}"
                    );
                }
                None
            }
        }
    }
}

/// The conversation in a body of an API with messages, in the form of the chat API, as servers hand it to their template.
pub(crate) fn messages(kind: EndpointKind, fields: &Map<String, Value>) -> Option<Value> {
    // The blocks of a system text follow each other; parts of a message stand on lines of their own. Both as in vLLM.
    let system = kind.system_field().and_then(|name| text_of(fields.get(name)?, ""));
    let mut out: Vec<Value> =
        system.map(|text| json!({"role": "system", "content": text})).into_iter().collect();
    match fields.get(kind.messages_field()?)? {
        Value::String(text) => out.push(json!({"role": "user", "content": text})),
        Value::Array(items) => out.extend(items.iter().filter_map(message)),
        _ => return None,
    }
    (!out.is_empty()).then_some(Value::Array(out))
}

/// One message, its content one text; `None` for an item of another kind.
fn message(item: &Value) -> Option<Value> {
    let role = item.get("role")?;
    let mut message = item.clone();
    if role == "developer" {
        message["role"] = "system".into();
    }
    if let Some(text) = item.get("content").filter(|c| c.is_array()).and_then(|c| text_of(c, "\n")) {
        message["content"] = text.into();
    }
    Some(message)
}

/// The text of a content: itself, or its parts of text with `between` them.
fn text_of(content: &Value, between: &str) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|p| p.get("text")?.as_str()).collect();
            Some(texts.join(between))
        }
        _ => None,
    }
}

/// Counts by text, the latest ones. A conversation grows by two texts a turn and holds all of them each time.
#[derive(Debug, Default)]
struct Memo {
    keys: RandomState,
    young: HashMap<(u64, usize), u64>,
    old: HashMap<(u64, usize), u64>,
}

/// When there are so many young counts, they become the old ones, and the old ones are forgotten.
const GENERATION: usize = 1 << 17;

impl Memo {
    /// The count of `text`; `count` finds it when it is not known.
    fn count(&mut self, text: &str, count: impl FnOnce() -> u64) -> u64 {
        // Two texts of one length and one hash of 64 bits, whose key nobody knows, do not meet in a run.
        let key = (self.keys.hash_one(text), text.len());
        if let Some(known) = self.young.get(&key) {
            return *known;
        }
        let tokens = self.old.remove(&key).unwrap_or_else(count);
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, tokens);
        tokens
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::toys::{self, Toy};

    fn counter(specials: u64, template: Option<&str>) -> BodyCounter {
        of_api(EndpointKind::Chat, specials, template)
    }

    fn of_api(kind: EndpointKind, specials: u64, template: Option<&str>) -> BodyCounter {
        let now = TemplateClock::civil(2025, 1, 2, 3, 4, 5).expect("a real moment");
        let toy = Arc::new(Toy::new(template));
        let endpoint = Arc::new(Endpoint::new(&toys::endpoint(kind)));
        BodyCounter::new(toy, endpoint, specials, Some(now))
    }

    #[test]
    fn without_a_template_texts_count_each_alone() {
        let body = br#"{"messages":[{"role":"system","content":"a b"},{"role":"user","content":[
            {"type":"text","text":"c"},{"type":"text","text":"d e f"}]}],"tools":[{"name":"g"}]}"#;
        assert_eq!(counter(0, None).body(body), Some(7));
        assert_eq!(counter(1, None).body(br#"{"prompt":["a b","c"]}"#), Some(5));
        let count = |kind, specials, body: &[u8]| of_api(kind, specials, None).body(body);
        assert_eq!(count(EndpointKind::Embeddings, 1, br#"{"input":["a b","c"]}"#), Some(5));
        let ranked = br#"{"query":{"text":"a b"},"passages":[{"text":"c"},{"text":"d e f"}]}"#;
        assert_eq!(count(EndpointKind::NimRankings, 0, ranked), Some(6));
        assert_eq!(count(EndpointKind::CohereRankings, 0, br#"{"query":"a b","documents":["c"]}"#), Some(3));
    }

    const TEMPLATE: &str = "{% for m in messages %}<{{ m.role }}> {{ m.content }} {% endfor %}\
        {% if tools %}tools {{ tools | length }} {% endif %}{% if quiet %}quiet {% endif %}\
        {{ strftime_now('%Y') }}{% if add_generation_prompt %} <assistant>{% endif %}";

    #[test]
    fn with_a_template_a_body_counts_as_it_is_rendered() {
        let count = |body: &str| counter(7, Some(TEMPLATE)).body(body.as_bytes());
        // "<user> a b 2025 <assistant>"
        assert_eq!(count(r#"{"messages":[{"role":"user","content":"a b"}]}"#), Some(5));
        let parts = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"text":"b"}]}]}"#;
        assert_eq!(count(parts), Some(5));
        let more = r#"{"messages":[{"role":"user","content":"a"}],"tools":[{},{}],
            "chat_template_kwargs":{"quiet":true}}"#;
        assert_eq!(count(more), Some(4 + 2 + 1));
        let open = r#"{"messages":[{"role":"user","content":"a b"}],"add_generation_prompt":false}"#;
        assert_eq!(count(open), Some(4));
        // What has no messages is counted by its texts.
        assert_eq!(count(r#"{"prompt":"a b"}"#), Some(9));
    }

    #[test]
    fn each_api_has_its_own_fields() {
        let count = |kind, body: &str| of_api(kind, 7, Some(TEMPLATE)).body(body.as_bytes());
        let (chat, responses, anthropic) =
            (EndpointKind::Chat, EndpointKind::Responses, EndpointKind::Messages);
        assert_eq!(count(responses, r#"{"input":"a b","instructions":"c"}"#), Some(7));
        let items =
            r#"{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a b"}]}]}"#;
        assert_eq!(count(responses, items), Some(5));
        let blocks =
            r#"{"system":[{"type":"text","text":"c"}],"messages":[{"role":"user","content":"a b"}]}"#;
        assert_eq!(count(anthropic, blocks), Some(7));
        // A field of another API is none of this one's.
        assert_eq!(count(chat, blocks), Some(5));
        let strange = r#"{"input":"a b","system":"c","messages":[{"role":"user","content":"d e f"}]}"#;
        assert_eq!([chat, responses, anthropic].map(|kind| count(kind, strange)), [6, 5, 8].map(Some));
    }

    #[test]
    fn a_turn_s_own_part_is_what_stands_in_the_list() {
        for (kind, body) in [
            (EndpointKind::Chat, r#"{"model":"m","messages":[{"role":"user","content":"a b"}]}"#),
            (
                EndpointKind::Responses,
                r#"{"instructions":"s t u","input":[{"type":"message","role":"user","content":"a b"}]}"#,
            ),
            (EndpointKind::Messages, r#"{"messages":[{"role":"user","content":"a b"}],"system":"s t u"}"#),
        ] {
            let list = body.find('[').expect("a list") + 1..body.rfind(']').expect("its end");
            let mut counter = of_api(kind, 0, None);
            assert_eq!(counter.part(body.as_bytes(), list), 2, "{kind:?}");
            let whole = if kind == EndpointKind::Chat { 2 } else { 5 };
            assert_eq!(counter.body(body.as_bytes()), Some(whole), "{kind:?}");
        }
    }

    #[test]
    fn items_of_other_apis_take_the_form_of_chat() {
        let developer = json!({"role": "developer", "content": "be brief"});
        assert_eq!(message(&developer), Some(json!({"role": "system", "content": "be brief"})));
        assert_eq!(message(&json!({"type": "reasoning", "summary": []})), None);
    }

    #[test]
    fn of_a_conversation_that_grows_only_what_is_new_is_counted() {
        let toy = Arc::new(Toy::new(None));
        let endpoint = Arc::new(Endpoint::new(&toys::endpoint(EndpointKind::Chat)));
        let mut counter = BodyCounter::new(toy.clone(), endpoint, 0, None);
        let counted = || toy.counted.load(Ordering::Relaxed);
        let mut messages = vec![json!({"role": "user", "content": "0 turn"})];
        for turn in 1..20 {
            let reply = format!("reply to {turn}");
            // As the reader does when the answer comes.
            assert_eq!(counter.remembered(&reply), 3);
            messages.push(json!({"role": "assistant", "content": reply}));
            messages.push(json!({"role": "user", "content": format!("{turn} turn")}));
            let body = json!({ "messages": messages }).to_string();
            assert_eq!(counter.body(body.as_bytes()), Some(2 + 5 * turn));
            assert_eq!(counted(), 1 + 2 * turn, "one for each text so far");
        }
    }

    #[test]
    fn a_body_that_the_template_refuses_has_no_count() {
        let template = "{% if messages | length > 1 %}{{ raise_exception('one at a time') }}{% endif %}x";
        let mut counter = counter(0, Some(template));
        let message = r#"{"role":"user","content":"a"}"#;
        assert_eq!(counter.body(format!(r#"{{"messages":[{message},{message}]}}"#).as_bytes()), None);
        assert_eq!(counter.body(format!(r#"{{"messages":[{message}]}}"#).as_bytes()), Some(1));
    }

    #[test]
    fn a_text_is_counted_once() {
        let mut memo = Memo::default();
        assert_eq!(memo.count("a", || 1), 1);
        assert_eq!(memo.count("a", || panic!("it is known")), 1);
        assert_eq!(memo.count("b", || 2), 2);
    }

    #[test]
    fn what_was_asked_for_lately_stays_known() {
        let mut memo = Memo::default();
        let _ = (memo.count("kept", || 1), memo.count("lost", || 1));
        for i in 0..3 * GENERATION {
            memo.count(&i.to_string(), || 1);
            if i % (GENERATION / 2) == 0 {
                assert_eq!(memo.count("kept", || panic!("it is known")), 1);
            }
        }
        assert_eq!(memo.count("lost", || 2), 2, "memory is bounded");
        assert!(memo.young.len() + memo.old.len() <= 2 * GENERATION);
    }

    #[test]
    fn fields_that_bring_text_or_change_the_template_are_known() {
        let fields = |value: Value| value.as_object().cloned().expect("an object");
        assert!(changes_count(&fields(json!({"temperature": 0, "tools": []}))));
        assert!(!changes_count(&fields(json!({"temperature": 0, "ignore_eos": true}))));
    }
}
