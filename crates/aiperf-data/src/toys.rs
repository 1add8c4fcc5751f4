//! Small tokenizers for the tests, each with one trait that real ones have.

use std::path::Path;
use std::sync::Arc;

use aiperf_core::plan::{
    ArtifactsPlan, BadRows, ColumnsPlan, CompletionsPlan, DatasetPlan, EndpointKind, EndpointPlan,
    ExportLevel, FileFormat, FilePlan, LogLevel, ModelSelection, OnTurnError, Plan, ReplayPlan, RuntimePlan,
    Sampling, Ui, VerifyLengths,
};
use aiperf_core::url::BaseUrl;
use aiperf_tokens::{ChatTemplate, TemplateClock, Tokenizer};

use crate::OpenContext;

/// How a toy cuts text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Each letter is a token, spaces too.
    Letters,
    /// Before each space, then in pieces of four: byte-pair vocabularies.
    Words,
    /// The same behind a space put before each text: SentencePiece.
    Prefixed,
    /// In pieces of five whatever they hold: merges over spaces, so counts do not add up.
    Pieces,
    /// Two tokens a letter: no text has an odd count.
    Even,
    /// Each word is one token, and the first of a text none.
    FreeFirst,
    /// Each letter is a token, a space with the letter behind it too; large letters become small ones.
    Folded,
}

/// What the id of a letter behind a space is more than the letter's.
pub(crate) const BEHIND_SPACE: u32 = 0x11_0000;

pub(crate) const ALL_EXACT: [Cut; 5] = [Cut::Letters, Cut::Words, Cut::Prefixed, Cut::Pieces, Cut::FreeFirst];

/// A toy; its ids are the first letters of its tokens.
#[derive(Debug)]
pub(crate) struct Toy {
    pub(crate) cut: Cut,
    pub(crate) specials: usize,
}

impl Toy {
    pub(crate) fn shared(cut: Cut) -> Arc<dyn Tokenizer> {
        Arc::new(Self { cut, specials: 0 })
    }
}

fn by_words(text: &str, size: usize, ids: &mut Vec<u32>) {
    let letters: Vec<char> = text.chars().collect();
    let mut start = 0;
    for end in 1..=letters.len() {
        if end == letters.len() || letters[end] == ' ' {
            ids.extend(letters[start..end].chunks(size).map(|piece| piece[0] as u32));
            start = end;
        }
    }
}

impl Tokenizer for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        match self.cut {
            Cut::Letters => ids.extend(text.chars().map(u32::from)),
            Cut::Words => by_words(text, 4, ids),
            Cut::Prefixed => by_words(&format!(" {text}"), 6, ids),
            Cut::Pieces => {
                let letters: Vec<char> = text.chars().collect();
                ids.extend(letters.chunks(5).map(|piece| piece[0] as u32));
            }
            Cut::Even => ids.extend(text.chars().flat_map(|c| [c as u32; 2])),
            Cut::Folded => {
                let text = text.to_lowercase();
                let mut letters = text.chars().peekable();
                while let Some(letter) = letters.next() {
                    let joined = letters.next_if(|next| letter == ' ' && next.is_alphabetic());
                    ids.push(joined.map_or(u32::from(letter), |next| u32::from(next) + BEHIND_SPACE));
                }
            }
            Cut::FreeFirst => {
                ids.extend(text.split(' ').skip(1).map(|w| w.chars().next().map_or(0, u32::from)));
            }
        }
    }

    fn decode(&self, ids: &[u32]) -> String {
        let letter = |id: u32| match id.checked_sub(BEHIND_SPACE) {
            Some(letter) => [Some(' '), char::from_u32(letter)],
            None => [char::from_u32(id), None],
        };
        ids.iter().flat_map(|id| letter(*id)).flatten().collect()
    }

    fn vocab_size(&self) -> usize {
        128
    }

    fn token_ids(&self) -> Vec<u32> {
        (0..128).collect()
    }

    fn is_special(&self, _: u32) -> bool {
        false
    }

    fn is_control(&self, _: u32) -> bool {
        false
    }

    fn prompt_specials(&self) -> usize {
        self.specials
    }

    fn chat_template(&self) -> Option<&ChatTemplate> {
        None
    }

    fn bos_token(&self) -> Option<&str> {
        None
    }

    fn eos_token(&self) -> Option<&str> {
        None
    }

    fn token_id(&self, _: &str) -> Option<u32> {
        None
    }
}

/// A run that opens a workload.
pub(crate) fn context() -> OpenContext<'static> {
    let now = TemplateClock::civil(2025, 1, 2, 3, 4, 5).expect("a real moment");
    OpenContext { run_id: "run", now, parts: None }
}

/// A file that is read as it is.
pub(crate) fn file(path: &Path, format: FileFormat) -> FilePlan {
    FilePlan {
        path: path.to_owned(),
        format,
        osl: None,
        corpus: None,
        block: None,
        entries: None,
        draws: 100,
        batch: 1,
        ignore_timestamps: false,
        bad_rows: BadRows::Stop,
        replay: ReplayPlan::default(),
        columns: ColumnsPlan::default(),
        completions: CompletionsPlan::default(),
        strips_images: false,
        public: None,
    }
}

/// A plan around a data set.
pub(crate) fn plan(dataset: DatasetPlan, kind: EndpointKind) -> Plan {
    Plan {
        sampling: Sampling::Sequential,
        on_turn_error: OnTurnError::Continue,
        models: vec!["a".into(), "b".into()],
        model_selection: ModelSelection::RoundRobin,
        endpoint: EndpointPlan::new(kind, BaseUrl::parse("http://localhost:1").expect("a good URL")),
        dataset,
        tokenizer: None,
        chat_template: false,
        system_prompt: None,
        cache_bust: None,
        verify_lengths: VerifyLengths::Off,
        slos: Vec::new(),
        phases: Vec::new(),
        network: None,
        artifacts: ArtifactsPlan::new("out".into(), ExportLevel::Summary),
        runtime: RuntimePlan {
            max_shards: None,
            ui: Ui::None,
            stats_interval_s: 0.0,
            log_level: LogLevel::Error,
        },
        seed: 42,
        seed_given: true,
        cli_command: String::new(),
        input_config: serde_json::Value::Null,
    }
}
