//! A tokenizer with a chat template and a token that begins each prompt.

use std::sync::Arc;

use aiperf_tokens::{ChatTemplate, SpecialTokens, Tokenizer};

use crate::builtin;

/// The built-in encoding with a template and a token that begins each sequence.
#[derive(Debug)]
pub(crate) struct Templated {
    inner: Arc<dyn Tokenizer>,
    template: ChatTemplate,
}

impl Templated {
    pub(crate) fn new() -> Self {
        let source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}{% if tools %}{{ tools | length }}\
                      {% endif %}{% if messages[0].content == 'no' %}{{ raise_exception('not you') }}{% endif %}\
                      {% if add_generation_prompt %}<|assistant|>{% endif %}";
        let template = ChatTemplate::parse(source, &SpecialTokens::default()).expect("a good template");
        Self { inner: builtin(), template }
    }
}

impl Tokenizer for Templated {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        self.inner.encode(text, ids);
    }
    fn decode(&self, ids: &[u32]) -> String {
        self.inner.decode(ids)
    }
    fn vocab_size(&self) -> usize {
        self.inner.vocab_size()
    }
    fn token_ids(&self) -> Vec<u32> {
        self.inner.token_ids()
    }
    fn is_special(&self, id: u32) -> bool {
        self.inner.is_special(id)
    }
    fn is_control(&self, id: u32) -> bool {
        self.inner.is_control(id)
    }
    fn prompt_specials(&self) -> usize {
        1
    }
    fn chat_template(&self) -> Option<&ChatTemplate> {
        Some(&self.template)
    }
    fn bos_token(&self) -> Option<&str> {
        Some("<|endoftext|>")
    }
    fn eos_token(&self) -> Option<&str> {
        None
    }
    fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_id(token)
    }
}
