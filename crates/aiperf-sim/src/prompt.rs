//! Counting prompts the way a server does: chat through the tokenizer's own template, completions with the specials that the
//! tokenizer adds. Equal prompts are counted once.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use aiperf_tokens::{Conversation, TemplateClock, Tokenizer};
use rustc_hash::{FxHashMap, FxHasher};
use serde_json::{Map, Value};

use crate::engine::block_hashes;
use crate::request::{Api, Ask, Refusal};

/// Prompts remembered; a benchmark's data set has some hundred distinct ones.
const REMEMBERED: usize = 8_192;

/// What the engine needs to know of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) tokens: u64,
    /// Hashes of its full blocks, if they were asked for.
    pub(crate) blocks: Option<Arc<[u64]>>,
}

/// The texts of a request that decide its count, owned, so that counting may move to another thread.
#[derive(Debug)]
pub(crate) struct Input {
    chat: bool,
    text: String,
    tools: Option<String>,
    kwargs: Option<String>,
}

impl Input {
    pub(crate) fn of(api: Api, ask: &Ask<'_>) -> Self {
        Self {
            chat: api == Api::Chat,
            text: ask.input.to_owned(),
            tools: ask.tools.map(str::to_owned),
            kwargs: ask.template_kwargs.map(str::to_owned),
        }
    }
}

/// Counts and remembers. Shared by the server's thread and the one that counts long prompts.
#[derive(Debug)]
pub(crate) struct Counter {
    tokenizer: Arc<dyn Tokenizer>,
    clock: TemplateClock,
    want_blocks: bool,
    known: Mutex<FxHashMap<[u64; 2], Prompt>>,
}

impl Counter {
    pub(crate) fn new(tokenizer: Arc<dyn Tokenizer>, wall_ns: u64, want_blocks: bool) -> Self {
        let clock = TemplateClock::from_wall_ns(wall_ns);
        Self { tokenizer, clock, want_blocks, known: Mutex::default() }
    }

    /// The key under which the prompt of `ask` is remembered: two hashes of different making over all that decides the
    /// count, so that no two prompts of a run share it.
    pub(crate) fn key(api: Api, ask: &Ask<'_>) -> [u64; 2] {
        let parts = (api == Api::Chat, ask.input, ask.tools, ask.template_kwargs);
        let mut fast = FxHasher::default();
        parts.hash(&mut fast);
        let mut sip = DefaultHasher::new();
        parts.hash(&mut sip);
        [fast.finish(), sip.finish()]
    }

    /// The count, if it is known already.
    pub(crate) fn recall(&self, key: &[u64; 2]) -> Option<Prompt> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Counts `input` and remembers it under `key`.
    pub(crate) fn count(&self, key: [u64; 2], input: &Input) -> Result<Prompt, Refusal> {
        let prompt = if input.chat { self.chat(input)? } else { self.completion(&input.text)? };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(key, prompt.clone());
        Ok(prompt)
    }

    fn chat(&self, input: &Input) -> Result<Prompt, Refusal> {
        let texts = self.render(&input.text, input.tools.as_deref(), input.kwargs.as_deref(), true)?;
        Ok(self.texts(&texts, 0))
    }

    /// The text that the template makes of `messages`. Without a template, the text of each message, for then a chat counts
    /// as the sum of its contents.
    pub(crate) fn render(
        &self,
        messages: &str,
        tools: Option<&str>,
        kwargs: Option<&str>,
        add_generation_prompt: bool,
    ) -> Result<Vec<String>, Refusal> {
        let mut messages: Value = parse(messages)?;
        let list = messages.as_array_mut().ok_or_else(|| refusal("messages must be a list"))?;
        if list.is_empty() {
            return Err(refusal("messages must not be empty"));
        }
        for message in list.iter_mut() {
            let message = message.as_object_mut().ok_or_else(|| refusal("each message must be an object"))?;
            flatten(message)?;
        }
        let Some(template) = self.tokenizer.chat_template() else {
            return Ok(list
                .iter()
                .filter_map(|m| m.get("content").and_then(Value::as_str))
                .map(str::to_owned)
                .collect());
        };
        let tools: Option<Value> = tools.map(parse).transpose()?;
        let kwargs: Option<Map<String, Value>> = kwargs.map(parse).transpose()?;
        let conversation = Conversation {
            tools: tools.as_ref(),
            kwargs: kwargs.as_ref(),
            ..Conversation::new(&messages, add_generation_prompt, self.clock)
        };
        let text = template
            .render_with(&conversation)
            .map_err(|e| refusal(format!("the chat template refused the messages: {e}")))?;
        Ok(vec![text])
    }

    /// Appends the ids of `text`, with or without the specials that belong to a prompt.
    pub(crate) fn encode(&self, text: &str, specials: bool, ids: &mut Vec<u32>) {
        if specials {
            self.tokenizer.encode_prompt(text, ids);
        } else {
            self.tokenizer.encode(text, ids);
        }
    }

    /// The text of `ids`.
    pub(crate) fn decode(&self, ids: &[u32]) -> String {
        self.tokenizer.decode(ids)
    }

    fn completion(&self, raw: &str) -> Result<Prompt, Refusal> {
        let specials = self.tokenizer.prompt_specials() as u64;
        match parse::<Value>(raw)? {
            Value::String(text) => Ok(self.texts(&[text], specials)),
            Value::Array(list) if list.len() == 1 && list[0].is_string() => {
                Ok(self.texts(&[list[0].as_str().unwrap_or_default()], specials))
            }
            Value::Array(list) if !list.is_empty() && list.iter().all(Value::is_u64) => self.ids(&list),
            Value::Array(list) if list.len() == 1 && list[0].is_array() => {
                self.ids(list[0].as_array().map_or(&[], Vec::as_slice))
            }
            Value::Array(list) if list.len() > 1 => {
                Err(refusal(format!("one prompt per request is served here, got {}", list.len())))
            }
            _ => Err(refusal("prompt must be a text or a list of token ids")),
        }
    }

    /// A prompt given as ids is what it is: no specials are added.
    fn ids(&self, list: &[Value]) -> Result<Prompt, Refusal> {
        let ids: Option<Vec<u32>> =
            list.iter().map(|v| v.as_u64().and_then(|id| u32::try_from(id).ok())).collect();
        match ids {
            Some(ids) if !ids.is_empty() => {
                Ok(Prompt { tokens: ids.len() as u64, blocks: self.want_blocks.then(|| block_hashes(&ids)) })
            }
            _ => Err(refusal("a prompt of token ids must be a list of whole numbers, not empty")),
        }
    }

    /// Texts that are counted each alone and stand one after the other.
    fn texts(&self, texts: &[impl AsRef<str>], specials: u64) -> Prompt {
        if !self.want_blocks {
            let tokens =
                texts.iter().map(|t| self.tokenizer.count(t.as_ref()) as u64).sum::<u64>() + specials;
            return Prompt { tokens, blocks: None };
        }
        // Which ids the specials have does not matter to the cache, as they are the same in every prompt.
        let mut ids = vec![u32::MAX; specials as usize];
        for text in texts {
            self.tokenizer.encode(text.as_ref(), &mut ids);
        }
        Prompt { tokens: ids.len() as u64, blocks: Some(block_hashes(&ids)) }
    }
}

/// Text parts become one text joined by newlines and `developer` becomes `system`, as vLLM renders them; other parts need a
/// model that sees or hears.
fn flatten(message: &mut Map<String, Value>) -> Result<(), Refusal> {
    if message.get("role").and_then(Value::as_str).is_none() {
        return Err(refusal("each message needs a role"));
    }
    if message["role"] == "developer" {
        message.insert("role".to_owned(), Value::from("system"));
    }
    let Some(Value::Array(parts)) = message.get("content") else { return Ok(()) };
    let mut texts = Vec::with_capacity(parts.len());
    for part in parts {
        match (part.get("type").and_then(Value::as_str), part.get("text").and_then(Value::as_str)) {
            (Some("text") | None, Some(text)) => texts.push(text),
            (kind, _) => {
                let kind = kind.unwrap_or("without a type");
                return Err(refusal(format!("this model reads text alone, got a content part '{kind}'")));
            }
        }
    }
    let text = texts.join("\n");
    message.insert("content".to_owned(), Value::from(text));
    Ok(())
}

fn parse<T: serde::de::DeserializeOwned>(raw: &str) -> Result<T, Refusal> {
    serde_json::from_str(raw).map_err(|e| refusal(format!("the request body is wrong: {e}")))
}

fn refusal(message: impl Into<String>) -> Refusal {
    Refusal::new(400, "BadRequestError", message)
}
