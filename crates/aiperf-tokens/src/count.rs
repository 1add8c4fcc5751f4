//! Counting a conversation as a server sees it.

use serde_json::Value;

use crate::clock::TemplateClock;
use crate::error::CountError;
use crate::template::Conversation;
use crate::tokenizer::Tokenizer;

/// Tokens of `messages` after the tokenizer's chat template, special tokens as single ids, none added on top: what
/// `transformers`' `apply_chat_template(tokenize=True)` and vLLM's chat endpoint count.
pub fn count_chat(
    tokenizer: &dyn Tokenizer,
    messages: &Value,
    tools: Option<&Value>,
    add_generation_prompt: bool,
    now: TemplateClock,
) -> Result<usize, CountError> {
    let template = tokenizer
        .chat_template()
        .ok_or_else(|| CountError::NoTemplate { tokenizer: tokenizer.name().to_owned() })?;
    let text = template
        .render_with(&Conversation { tools, ..Conversation::new(messages, add_generation_prompt, now) })?;
    Ok(tokenizer.count(&text))
}
