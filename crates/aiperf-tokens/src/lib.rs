//! Tokenizer back ends behind one trait, chat templates and counting.
//!
//! A tokenizer is opened once at the start of a run from its [`TokenizerPlan`](aiperf_core::plan::TokenizerPlan) and shared by every thread behind an
//! [`Arc`](std::sync::Arc). It is used before requests leave (to make prompts of an asked length) and after answers came back (to count
//! them), never on the hot path between.
//!
//! Three rules hold for every back end:
//! * [`Tokenizer::encode`] adds no special tokens, but a special token's text inside the input becomes its single id, as the
//!   text of a rendered chat template needs. (Mistral's tekken alone has no such texts.)
//! * [`Tokenizer::count`] is the length of what `encode` appends, by a cheaper way where there is one.
//! * The network is never used: a tokenizer is built in, a folder, a file, or a model in the hub's cache on disk. What is
//!   [`missing`] there, others may fetch.

mod blocks;
mod clock;
mod count;
mod encoding;
mod error;
mod file;
mod hf;
mod hub;
mod open;
mod probe;
mod template;
mod tokenizer;

pub use blocks::{BLOCK_TOKENS, block_hashes, marked_block_hashes};
pub use clock::TemplateClock;
pub use count::count_chat;
pub use error::{CountError, HubProblem, TemplateError, TokenizerError};
pub use hf::COMPANION_FILES;
pub use hub::{HubCache, HubName, MAIN};
pub use open::{VOCABULARY_FILES, known_encodings, missing, open, open_folder, open_with};
pub use probe::{Probe, ProbeSample, probe};
pub use template::{ChatTemplate, Conversation, SpecialTokens, TemplateFields};
pub use tokenizer::{Kind, Origin, Tokenizer};
