//! Three lengths of every input: asked for, sent (our count of what is on the wire), counted (the server's usage).
//!
//! They are equal, or the ledger says in how many requests, by how much, and of which kind the difference is. It keeps counts, bounds and sums
//! alone, so its memory does not grow, and they are whole numbers, so that the order of requests does not matter.

mod difference;
mod ledger;

pub use difference::LengthDifference;
pub use ledger::{Agreement, LengthFacts, LengthLedger, LengthSummary};
