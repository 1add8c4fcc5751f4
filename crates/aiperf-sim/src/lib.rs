//! A simulated inference server, for OpenAI's and Anthropic's APIs, with a truth log and faults, and scripted bad servers.
//!
//! [`start`] runs an engine model behind real HTTP on its own thread: it makes `sim://` and `aiperf sim` work, and is what
//! clients are measured against, for it knows when each chunk was written and how many tokens there really were. A request
//! goes through `server` (connections), `service` (its life), `request`, `dialogue` and `prompt` (what is asked, counted), [`engine`] (when each token is
//! done; pure), `desk` (the engine's clock), `answer`, `stream`, `body` and `wire` (bytes at that moment), `ticket` and [`truth`] (the books); `capture` keeps what arrived.
//!
//! [`scripted`] plays byte-exact scripts instead, for the tests of a client's error paths.

mod answer;
mod body;
mod capture;
mod desk;
mod dialogue;
pub mod engine;
mod error;
pub mod fault;
mod lines;
mod metrics;
mod option;
mod page;
mod prompt;
mod reference;
mod refusal;
mod request;
mod scores;
pub mod scripted;
mod server;
mod service;
mod shelf;
mod stream;
mod strict;
mod table;
mod ticket;
mod tokenize;
pub mod truth;
mod wire;
pub mod words;

pub use error::SimError;
pub use option::SimConfig;
pub use reference::reference_markdown;
pub use server::{Listen, SimHandle, start};
pub use table::{OPTIONS, SimOption};
pub use truth::{SimTotals, TruthHeader, TruthOutcome, TruthRecord};
