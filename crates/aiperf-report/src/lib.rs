//! Console, JSON, CSV and JSONL: pure functions from metrics to bytes. Nothing here opens a file, reads a clock or prints.
//!
//! Three kinds of output:
//! - once per run, from a [`Report`]: [`json`] (`profile_export_aiperf.json`), [`csv`] (`.csv`), [`console`] (screen and
//!   `profile_export_console.txt`);
//! - once per slice of time: [`timeslices`] (`profile_export_aiperf_timeslices.json` and `.csv`);
//! - once per request, appended to a buffer the caller writes out: [`jsonl`] (`profile_export.jsonl`), [`raw`]
//!   (`profile_export_raw.jsonl`), [`inputs`] (`inputs.json`), [`outputs`] (`outputs.json`).
//!
//! Keys, units and layouts are AIPerf 0.13's, so that its scripts read our files. Text that came from a server is escaped in files
//! and stripped of control characters on the screen.

mod advice;
mod analysis;
mod cache;
pub mod columns;
pub mod console;
pub mod csv;
pub mod dry_run;
pub mod file_schemas;
pub mod inputs;
pub mod json;
pub mod jsonl;
mod lengths;
mod load;
pub mod network;
pub mod outputs;
mod over_time;
pub mod pretty;
pub mod raw;
mod report;
pub mod schema;
#[cfg(test)]
mod schema_check;
mod slos;
pub mod timeslices;
pub mod trace;
mod write;

#[cfg(test)]
mod sample;

pub use file_schemas::{FILE_SCHEMAS, FileSchema};
pub use lengths::{Counting, InputLengths, ServerCount, Verified, WrongLength};
pub use load::TargetResult;
pub use network::{NetworkLatency, TargetRtt};
pub use report::{FileLine, Report};
pub use schema::{rows as rows_schema, source as source_schema, summary_schema, summary_schema_2};
