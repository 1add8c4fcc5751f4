//! Conversations as coding assistants have them: a long common beginning, many turns, answers between them.
//!
//! The model and its draws are AIPerf's: the same configuration and seed give the same conversations. Its draws are numpy's
//! ([`aiperf_rng::numpy`]), one generator for all of them.

mod config;
mod layout;
mod quality;
mod rows;
mod session;

pub use config::{Cache, Config, ConfigError, Delay, Groups, LogNormal, NewTokens, Reset, Turns};
pub use layout::Layout;
pub use quality::{Quality, Spread};
pub use rows::{Rows, write_rows};
pub use session::{Conversation, End, Impossible, Turn, conversations};

#[cfg(test)]
mod tests;
