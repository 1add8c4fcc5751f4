//! Counting prompts the way a server does: conversations through the tokenizer's own template, completions with the specials
//! that the tokenizer adds. Equal prompts are counted once.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use aiperf_tokens::{Conversation, TemplateClock, Tokenizer};
use rustc_hash::{FxHashMap, FxHasher};
use serde_json::{Map, Value};

use crate::dialogue;
use crate::engine::block_hashes;
use crate::refusal::Refusal;
use crate::request::{Api, Ask};

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
    api: Api,
    text: String,
    system: Option<String>,
    tools: Option<String>,
    kwargs: Option<String>,
    documents: Option<String>,
    generation: bool,
}

impl Input {
    pub(crate) fn of(api: Api, ask: &Ask<'_>) -> Self {
        Self {
            api,
            text: ask.input.to_owned(),
            system: ask.system.map(str::to_owned),
            tools: ask.tools.map(str::to_owned),
            kwargs: ask.template_kwargs.map(str::to_owned),
            documents: ask.documents.map(str::to_owned),
            generation: ask.generation,
        }
    }
}

/// What a template is given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given<'a> {
    pub(crate) messages: &'a Value,
    pub(crate) tools: Option<&'a Value>,
    pub(crate) documents: Option<&'a Value>,
    pub(crate) kwargs: Option<&'a Map<String, Value>>,
    /// The text ends where the answer begins.
    pub(crate) generation: bool,
}

/// Counts and remembers. Shared by the server's thread and the one that counts long prompts.
#[derive(Debug)]
pub(crate) struct Counter {
    tokenizer: Arc<dyn Tokenizer>,
    clock: TemplateClock,
    want_blocks: bool,
    known: Mutex<FxHashMap<[u64; 2], Arc<[Prompt]>>>,
}

impl Counter {
    pub(crate) fn new(tokenizer: Arc<dyn Tokenizer>, wall_ns: u64, want_blocks: bool) -> Self {
        let clock = TemplateClock::from_wall_ns(wall_ns);
        Self { tokenizer, clock, want_blocks, known: Mutex::default() }
    }

    /// The key under which the prompt of `ask` is remembered: two hashes of different making over all that decides the
    /// count, so that no two prompts of a run share it.
    pub(crate) fn key(api: Api, ask: &Ask<'_>) -> [u64; 2] {
        let parts =
            (api, ask.input, ask.system, ask.tools, ask.template_kwargs, ask.documents, ask.generation);
        let mut fast = FxHasher::default();
        parts.hash(&mut fast);
        let mut sip = DefaultHasher::new();
        parts.hash(&mut sip);
        [fast.finish(), sip.finish()]
    }

    /// The count, if it is known already.
    pub(crate) fn recall(&self, key: &[u64; 2]) -> Option<Arc<[Prompt]>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Counts `input` and remembers it under `key`. Completions alone may have more than one prompt.
    pub(crate) fn count(&self, key: [u64; 2], input: &Input) -> Result<Arc<[Prompt]>, Refusal> {
        let prompts: Arc<[Prompt]> = if matches!(input.api, Api::Completions | Api::Tgi { .. } | Api::Sglang)
        {
            self.completions(&input.text)?.into()
        } else if input.api == Api::Solido {
            // However many, they are one question.
            let texts: Vec<String> = dialogue::parse(&input.text)?;
            Arc::new([self.texts(&texts, texts.len() as u64 * self.tokenizer.prompt_specials() as u64)])
        } else {
            let messages = dialogue::messages(input.api, &input.text, input.system.as_deref())?;
            let tools = dialogue::tools(input.api, input.tools.as_deref())?;
            let kwargs = input.kwargs.as_deref().map(dialogue::parse).transpose()?;
            let documents = input.documents.as_deref().map(dialogue::parse).transpose()?;
            let texts = self.render(&Given {
                messages: &messages,
                tools: tools.as_ref(),
                documents: documents.as_ref(),
                kwargs: kwargs.as_ref(),
                generation: input.generation,
            })?;
            Arc::new([self.texts(&texts, 0)])
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(key, Arc::clone(&prompts));
        Ok(prompts)
    }

    /// The text that the template makes of `messages`. Without a template, all texts one by one, for then a chat counts as the sum of
    /// what it says: contents, calls, and tools behind them.
    pub(crate) fn render(&self, given: &Given<'_>) -> Result<Vec<String>, Refusal> {
        let Given { messages, tools, documents, kwargs, generation } = *given;
        let Some(template) = self.tokenizer.chat_template() else {
            let mut texts = Vec::new();
            for message in list(Some(messages)) {
                push(message, &["content"], &mut texts);
                for call in list(message.get("tool_calls")) {
                    push(&call["function"], &["name", "arguments"], &mut texts);
                }
            }
            for tool in list(tools) {
                push(&tool["function"], &["name", "description", "parameters"], &mut texts);
            }
            return Ok(texts);
        };
        let conversation =
            Conversation { tools, documents, kwargs, ..Conversation::new(messages, generation, self.clock) };
        let text = template
            .render_with(&conversation)
            .map_err(|e| Refusal::bad(format!("the chat template refused the messages: {e}")))?;
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

    /// Inputs of embeddings, in the form of completions' prompts.
    pub(crate) fn inputs(&self, input: &Value) -> Result<Vec<Prompt>, Refusal> {
        self.prompts(input).map_err(|mut refusal| {
            refusal.message = refusal.message.replacen("prompt", "input", 1);
            refusal
        })
    }

    /// Messages of the chat API, rendered.
    pub(crate) fn messages(
        &self,
        messages: &Value,
        kwargs: Option<&Map<String, Value>>,
        generation: bool,
    ) -> Result<Prompt, Refusal> {
        let messages = dialogue::messages(Api::Chat, &messages.to_string(), None)?;
        let given = Given { messages: &messages, tools: None, documents: None, kwargs, generation };
        Ok(self.texts(&self.render(&given)?, 0))
    }

    /// A query with each passage, as a cross-encoder reads them: one after the other, with the specials of a prompt.
    pub(crate) fn pairs(&self, query: &str, passages: &[String]) -> Vec<Prompt> {
        let specials = self.tokenizer.prompt_specials() as u64;
        passages.iter().map(|passage| self.texts(&[query, passage], specials)).collect()
    }

    /// See [`prompts`](Self::prompts).
    fn completions(&self, raw: &str) -> Result<Vec<Prompt>, Refusal> {
        self.prompts(&dialogue::parse::<Value>(raw)?)
    }

    /// A prompt is a text or a list of ids; a list of such is as many prompts.
    fn prompts(&self, given: &Value) -> Result<Vec<Prompt>, Refusal> {
        let specials = self.tokenizer.prompt_specials() as u64;
        match given {
            Value::String(text) => Ok(vec![self.texts(&[text], specials)]),
            Value::Array(list) if !list.is_empty() && list.iter().all(Value::is_number) => {
                Ok(vec![self.ids(list)?])
            }
            Value::Array(list) if !list.is_empty() => list
                .iter()
                .map(|prompt| match prompt {
                    Value::String(text) => Ok(self.texts(&[text], specials)),
                    Value::Array(ids) => self.ids(ids),
                    _ => Err(Refusal::bad("each prompt of a list must be a text or a list of token ids")),
                })
                .collect(),
            _ => Err(Refusal::bad("prompt must be a text, a list of token ids, or a list of such")),
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
            _ => Err(Refusal::bad("a prompt of token ids must be a list of whole numbers, not empty")),
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

fn list(of: Option<&Value>) -> &[Value] {
    of.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Adds what `of` has under `names`: texts as they are, objects as JSON.
fn push(of: &Value, names: &[&str], texts: &mut Vec<String>) {
    texts.extend(names.iter().filter_map(|name| match &of[*name] {
        Value::String(text) => Some(text.clone()),
        object @ Value::Object(_) => Some(object.to_string()),
        _ => None,
    }));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn without_a_template_calls_and_tools_are_counted_too() {
        let plan = aiperf_core::plan::TokenizerPlan { name: "builtin".into() };
        let tokenizer = aiperf_tokens::open(&plan).expect("it is built in");
        let counter = Counter::new(tokenizer, 0, false);
        let call = json!({"type": "function", "function": {"name": "look", "arguments": "{\"a\":1}"}});
        let messages = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": null, "tool_calls": [call]}]);
        let tools = json!([{"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {"b": 2}}}]);
        let given = Given {
            messages: &messages,
            tools: Some(&tools),
            documents: None,
            kwargs: None,
            generation: true,
        };
        let texts = counter.render(&given).expect("texts");
        assert_eq!(texts, ["hi", "look", "{\"a\":1}", "look", "Look.", "{\"b\":2}"]);
    }
}
