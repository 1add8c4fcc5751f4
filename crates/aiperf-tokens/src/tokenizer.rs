//! The one trait behind which all vocabularies stand.

use std::fmt::Debug;
use std::path::PathBuf;

use crate::template::ChatTemplate;

/// How a vocabulary cuts text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Kind {
    /// Byte pairs, built in.
    Tiktoken,
    /// Byte pairs, from Mistral's file.
    Tekken,
    /// Byte pairs over bytes, from a `tokenizer.json`.
    ByteLevelBpe,
    /// Byte pairs over characters, from a `tokenizer.json`.
    CharacterBpe,
    /// SentencePiece's unigram model.
    Unigram,
    /// BERT's word pieces.
    WordPiece,
    /// One token a word.
    WordLevel,
    /// Something else.
    #[default]
    Other,
}

impl Kind {
    /// In a few words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tiktoken => "byte-level BPE (tiktoken, built in)",
            Self::Tekken => "byte-level BPE (Mistral tekken)",
            Self::ByteLevelBpe => "byte-level BPE (tokenizer.json)",
            Self::CharacterBpe => "character BPE, SentencePiece style (tokenizer.json)",
            Self::Unigram => "Unigram, SentencePiece style (tokenizer.json)",
            Self::WordPiece => "WordPiece (tokenizer.json)",
            Self::WordLevel => "whole words (tokenizer.json)",
            Self::Other => "other",
        }
    }
}

/// Where a tokenizer came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// How it cuts text.
    pub kind: Kind,
    /// The vocabulary's file; none for what is built in.
    pub path: Option<PathBuf>,
    /// The file that holds the chat template.
    pub template: Option<PathBuf>,
}

/// A vocabulary and its way of cutting text, opened and ready.
pub trait Tokenizer: Send + Sync + Debug {
    /// As the user named it: `builtin`, a folder, a file, a model of the hub.
    fn name(&self) -> &str;

    /// Where it came from, for reports.
    fn origin(&self) -> Origin {
        Origin::default()
    }

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

    /// Appends the ids of a plain text prompt as a server counts it: those of [`Self::encode`] within the special tokens of
    /// [`Self::prompt_specials`].
    fn encode_prompt(&self, text: &str, ids: &mut Vec<u32>) {
        // The vocabularies that add a token without saying how begin with their BOS.
        if self.prompt_specials() > 0 {
            ids.extend(self.bos_token().and_then(|bos| self.token_id(bos)));
        }
        self.encode(text, ids);
    }

    /// The chat template that came with the tokenizer.
    fn chat_template(&self) -> Option<&ChatTemplate>;

    /// Text of the token that begins a sequence.
    fn bos_token(&self) -> Option<&str>;

    /// Text of the token that ends a sequence.
    fn eos_token(&self) -> Option<&str>;

    /// The id of a special or other added token by its exact text (`<|im_end|>`).
    fn token_id(&self, token: &str) -> Option<u32>;
}
