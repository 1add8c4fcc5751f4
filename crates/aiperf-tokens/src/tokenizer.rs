//! The one trait behind which all vocabularies stand.

use std::fmt::Debug;

use crate::template::ChatTemplate;

/// A vocabulary and its way of cutting text, opened and ready.
pub trait Tokenizer: Send + Sync + Debug {
    /// As the user named it: `builtin`, a folder, a file.
    fn name(&self) -> &str;

    /// Appends the ids of `text` to `ids`. Adds no special tokens; the text of a special token inside `text` becomes its
    /// single id.
    fn encode(&self, text: &str, ids: &mut Vec<u32>);

    /// The number of ids that [`Self::encode`] would append.
    fn count(&self, text: &str) -> usize {
        let mut ids = Vec::new();
        self.encode(text, &mut ids);
        ids.len()
    }

    /// The text of `ids`, special tokens included. Bytes that are not UTF-8 become U+FFFD, ids that are no token become
    /// nothing.
    fn decode(&self, ids: &[u32]) -> String;

    /// Size of the vocabulary as AIPerf counts it: without added tokens for Hugging Face files, one more than the highest
    /// id for tiktoken encodings (o200k_base 200019).
    fn vocab_size(&self) -> usize;

    /// All ids a random prompt may draw from, ascending: every id below [`Self::vocab_size`] that is a token. Special ids
    /// are still among them.
    fn token_ids(&self) -> Vec<u32>;

    /// Whether `id` is one of the special tokens that the model's configuration names: the `all_special_ids` of
    /// `transformers`, which AIPerf and vLLM leave out of random prompts.
    fn is_special(&self, id: u32) -> bool;

    /// Whether `id` is a token that text should not hold by chance: a special one, or any that the vocabulary's file calls
    /// special without the configuration naming it (DeepSeek-V3's id 2, `<|pad|>`).
    fn is_control(&self, id: u32) -> bool;

    /// How many special tokens a server adds around one plain text prompt (Llama-3.1 adds one, its BOS; Qwen3 and the
    /// built-in encodings none).
    fn prompt_specials(&self) -> usize;

    /// The chat template that came with the tokenizer.
    fn chat_template(&self) -> Option<&ChatTemplate>;

    /// Text of the token that begins a sequence.
    fn bos_token(&self) -> Option<&str>;

    /// Text of the token that ends a sequence.
    fn eos_token(&self) -> Option<&str>;

    /// The id of a special or other added token by its exact text (`<|im_end|>`).
    fn token_id(&self, token: &str) -> Option<u32>;
}
