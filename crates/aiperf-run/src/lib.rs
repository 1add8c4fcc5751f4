//! The run: a plan goes in, requests leave on time, what came back becomes records and files.
//!
//! ```text
//!              composer ──bodies──▶ ring ──▶ shard 0 ┐
//!  control ──phases, stop──────────────────▶ shard 1 ├─ended requests──▶ reader ──▶ records, columns
//!     ▲                                      …       ┘                     │
//!     └───────────────────────── live counts ◀──────────────────────────────┘
//! ```
//!
//! [`Job::load`] opens everything a plan names, so that whatever is wrong with it is told before anything is made;
//! [`Job::run`] drives it. From the first request on nothing is an error any more: the run writes what it has and says in
//! [`RunEnd::problems`] what went wrong.

mod again;
mod artifacts;
mod ask;
mod cache_ledger;
mod columns_file;
mod control;
mod count;
pub mod doctor;
mod dry_run;
#[cfg(test)]
mod ended_toys;
mod error;
mod filler;
mod finish;
mod handover;
mod health;
mod history;
mod hooks;
mod interrupt;
mod item;
mod job;
mod limit;
mod live;
mod network;
mod outputs;
mod phase;
mod phase_files;
mod phase_load;
mod pooled;
mod prefix_cache;
mod prepare;
mod progress;
mod prompt_ids;
mod reader;
#[cfg(test)]
mod reader_tests;
mod rebuild;
mod record;
mod ring;
mod run_file;
mod shard;
mod size;
mod spill;
mod starts;
mod timeslices;
#[cfg(test)]
mod toys;
mod verify;

pub use aiperf_hub::{Download, Said, Teller};
pub use artifacts::Folder;
pub use columns_file::{AsColumns, records_as_columns};
pub use dry_run::Foretold;
pub use error::RunError;
pub use interrupt::Interrupt;
pub use job::{Job, Leave, RunEnd, Screen};
pub use rebuild::{Rebuilt, rebuild};
pub use run_file::run_file_schema;

/// 64 bits nobody can foresee: the standard library's hash keys come from the operating system.
pub fn random_u64() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
