//! Traces in Mooncake's form, one JSON object a line: lengths and ids of blocks in the place of texts.
//!
//! [`analyze`] says what a trace holds and what a replay of it would do wrong, in one pass of counts and one of contexts, with memory
//! for its distinct blocks, prefixes and sessions but not for its rows. [`Shape`] makes a trace from a few figures, [`agentic`] one of conversations.

pub mod agentic;

mod analyze;
mod counts;
mod delays;
mod findings;
mod lines;
mod marks;
mod multiply;
mod page;
mod row;
mod sessions;
mod shaped;
mod validate;
mod zipf;

pub use analyze::{Analysis, Schedule, analyze};
pub use counts::Stats;
pub use delays::{is_endless_delay, with_named_delays};
pub use findings::{Finding, Findings, Kind, Severity};
pub use lines::ReadError;
pub use multiply::{Learning, Multiplier, Multipliers, multiplied_output};
pub use row::{MOST_TOKENS, Problem, Row};
pub use shaped::{Arrival, Form, Lengths, Made, Shape};
pub use validate::{BadRow, Validation, validate};
