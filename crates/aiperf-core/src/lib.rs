//! The words every other room speaks: time, ids, outcome classes, what the wire showed of a request, and
//! the [`plan::Plan`]. No I/O, no async, no policy.
//!
//! A request passes through these types in this order: the [`plan`] says what is wanted, a [`ticket::Ticket`]
//! names one request of it, an [`exchange::Exchange`] holds what the wire showed, a
//! [`outcome::Disposition`] says how it ended.

pub mod conversation;
pub mod exchange;
pub mod headers;
pub mod outcome;
pub mod plan;
pub mod rows;
pub mod secret;
pub mod spec_decode;
pub mod text;
pub mod ticket;
pub mod time;
pub mod url;
pub mod usage;

/// The version of AIPerf whose command line, files and metric names are kept.
pub const REFERENCE_VERSION: &str = "0.13.0";
