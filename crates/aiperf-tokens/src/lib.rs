//! Tokenizer back ends behind one trait, chat templates and counting.
//!
//! A tokenizer is opened once at the start of a run from its [`TokenizerPlan`](aiperf_core::plan::TokenizerPlan) and shared by every thread behind an
//! [`Arc`](std::sync::Arc). It is used before requests leave (to make prompts of an asked length) and after answers came back (to count
//! them), never on the hot path between.
//!
//! Three rules hold for every back end:
//! * [`Tokenizer::encode`] adds no special tokens, but a special token's text inside the input becomes its single id, as the
//!   text of a rendered chat template needs.
//! * [`Tokenizer::count`] is the length of what `encode` appends, by a cheaper way where there is one.
//! * The network is never used: a tokenizer is built in, a folder or a file.

mod clock;
mod count;
mod encoding;
mod error;
mod hf;
mod open;
mod template;
mod tokenizer;

pub use clock::TemplateClock;
pub use count::count_chat;
pub use error::{CountError, TemplateError, TokenizerError};
pub use open::{known_encodings, open};
pub use template::{ChatTemplate, Conversation, SpecialTokens};
pub use tokenizer::Tokenizer;
