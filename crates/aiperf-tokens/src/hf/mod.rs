//! Vocabularies in Hugging Face form: a `tokenizer.json`, with `tokenizer_config.json` and chat template beside it.
//!
//! The `tokenizers` crate cuts and merges. Its release candidate reads the newest form of the file alone, so a file of
//! today is first brought into that form ([`canonical`]); what a model's other files say about special tokens and templates
//! is read by [`config`], by the rules of `transformers`.

mod canonical;
mod config;

use std::cell::RefCell;
use std::fmt;
use std::path::Path;

use rustc_hash::FxHashSet;
use tokenizers::pipeline::{EncodeOptions, Override, PipelineToken, PipelineTokenizer};

use self::canonical::Canonical;
pub use self::config::COMPANION_FILES;
use self::config::Config;
use crate::error::TokenizerError;
use crate::file::read_text;
use crate::template::{ChatTemplate, SpecialTokens};
use crate::tokenizer::{Origin, Tokenizer};

/// The file that holds a vocabulary.
pub(crate) const TOKENIZER_FILE: &str = "tokenizer.json";

/// Text that makes every kind of vocabulary take its rarest ways: unknown characters, bytes, marks, blanks, digits. A file
/// whose parts do not fit together fails on it when it is opened, not in the middle of a run.
const PROBE: &str =
    "a B\u{e9}\u{301}\n\t 12 \u{3000}中👨\u{200d}👩\u{0}\u{7f}\u{fffd}\u{e000}\u{10ffff} ---\r\n";

/// A vocabulary in Hugging Face form.
pub(crate) struct HuggingFace {
    name: String,
    origin: Origin,
    pipeline: PipelineTokenizer,
    options: EncodeOptions,
    vocab_size: usize,
    special_ids: FxHashSet<u32>,
    control_ids: FxHashSet<u32>,
    /// Ids from here on are dropped.
    first_filler: u32,
    specials: SpecialTokens,
    template: Option<ChatTemplate>,
}

impl fmt::Debug for HuggingFace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HuggingFace")
            .field("name", &self.name)
            .field("vocab_size", &self.vocab_size)
            .finish_non_exhaustive()
    }
}

thread_local! {
    /// Ids in the library's own type, on their way into the caller's list.
    static TOKENS: RefCell<Vec<PipelineToken>> = const { RefCell::new(Vec::new()) };
}

impl HuggingFace {
    /// Opens `folder`, which must hold a `tokenizer.json`.
    pub(crate) fn open_folder(name: &str, folder: &Path) -> Result<Self, TokenizerError> {
        let file = folder.join(TOKENIZER_FILE);
        let config = Config::read(folder)?;
        Self::load(name, &file, &config)
    }

    /// Opens a vocabulary file. The files beside it count when it is called `tokenizer.json`, for then they are the same model's.
    pub(crate) fn open_file(name: &str, file: &Path) -> Result<Self, TokenizerError> {
        let folder = file.parent().filter(|_| file.file_name().is_some_and(|n| n == TOKENIZER_FILE));
        let config = match folder {
            // A bare file name has an empty parent, which names the working folder.
            Some(folder) if folder.as_os_str().is_empty() => Config::read(Path::new("."))?,
            Some(folder) => Config::read(folder)?,
            None => Config::default(),
        };
        Self::load(name, file, &config)
    }

    fn load(name: &str, file: &Path, config: &Config) -> Result<Self, TokenizerError> {
        let broken = |detail: String| TokenizerError::Broken { path: file.to_owned(), detail };
        let text = read_text(file)?;
        let special_texts = config.special_texts();
        let Canonical { text, kind, vocab_size, control_ids, first_filler } =
            canonical::canonical(&text, &special_texts).map_err(&broken)?;
        let pipeline = tokenizers::from_json(&text).map_err(|e| broken(e.to_string()))?;
        drop(text);
        let options = EncodeOptions {
            add_special_tokens: false,
            encode_special_tokens: false,
            padding: Override::Off,
            truncation: Override::Off,
        };
        let mut probe = Vec::new();
        pipeline
            .encode_into(PROBE, &options, &mut probe)
            .map_err(|e| broken(format!("it cannot encode every text: {e}")))?;

        let template = config.template()?;
        let mut tokenizer = Self {
            name: name.to_owned(),
            origin: Origin { kind, path: Some(file.to_owned()), template: config.template_path() },
            pipeline,
            options,
            vocab_size,
            special_ids: FxHashSet::default(),
            control_ids: control_ids.into_iter().collect(),
            first_filler: first_filler.unwrap_or(u32::MAX),
            specials: config.specials.clone(),
            template,
        };
        tokenizer.special_ids = special_texts.iter().filter_map(|text| tokenizer.token_id(text)).collect();
        tokenizer.control_ids.extend(&tokenizer.special_ids);
        Ok(tokenizer)
    }

    /// The ids of `text`, in the library's type, given to `then`.
    fn with_tokens<T>(&self, text: &str, then: impl FnOnce(&[PipelineToken]) -> T) -> T {
        self.with_tokens_of(text, &self.options, then)
    }

    fn with_tokens_of<T>(
        &self,
        text: &str,
        options: &EncodeOptions,
        then: impl FnOnce(&[PipelineToken]) -> T,
    ) -> T {
        TOKENS.with_borrow_mut(|tokens| {
            tokens.clear();
            // Errors are those of a vocabulary whose parts do not fit, which opening has excluded, and of texts beyond 4 GiB,
            // which no part of this program makes; what was cut up to there counts.
            let _ = self.pipeline.encode_into(text, options, tokens);
            if self.first_filler != u32::MAX {
                tokens.retain(|token| token.id() < self.first_filler);
            }
            then(tokens)
        })
    }
}

impl Tokenizer for HuggingFace {
    fn name(&self) -> &str {
        &self.name
    }

    fn origin(&self) -> Origin {
        self.origin.clone()
    }

    fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        self.with_tokens(text, |tokens| ids.extend_from_slice(PipelineToken::cast_slice(tokens)));
    }

    fn count(&self, text: &str) -> usize {
        self.with_tokens(text, <[PipelineToken]>::len)
    }

    fn decode(&self, ids: &[u32]) -> String {
        self.pipeline.decode(ids, false).unwrap_or_else(|_| self.pipeline.decode_tokens(ids, false).concat())
    }

    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn token_ids(&self) -> Vec<u32> {
        (0..self.vocab_size as u32).collect()
    }

    fn is_special(&self, id: u32) -> bool {
        self.special_ids.contains(&id)
    }

    fn is_control(&self, id: u32) -> bool {
        self.control_ids.contains(&id)
    }

    fn prompt_specials(&self) -> usize {
        self.pipeline.get_post_processor().single.n_special()
    }

    fn encode_prompt(&self, text: &str, ids: &mut Vec<u32>) {
        let options = EncodeOptions { add_special_tokens: true, ..self.options.clone() };
        self.with_tokens_of(text, &options, |tokens| {
            ids.extend_from_slice(PipelineToken::cast_slice(tokens));
        });
    }

    fn chat_template(&self) -> Option<&ChatTemplate> {
        self.template.as_ref()
    }

    fn bos_token(&self) -> Option<&str> {
        self.specials.get("bos_token")
    }

    fn eos_token(&self) -> Option<&str> {
        self.specials.get("eos_token")
    }

    fn token_id(&self, token: &str) -> Option<u32> {
        self.pipeline.get_added_vocabulary().token_to_id(token)
    }
}
