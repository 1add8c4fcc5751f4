//! The user's own prompts. A format is a file of this folder.

mod detect;
mod index;
mod lines;
mod ranked;
mod raw_payload;
mod record;
mod records;
mod row;
mod starts;

pub(crate) use detect::{Detected, detect};
pub(crate) use raw_payload::RawPayloads;
pub(crate) use record::Form;
pub(crate) use records::RecordFile;
