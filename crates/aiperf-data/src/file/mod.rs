//! The user's own prompts. A format is a file of this folder.

mod index;
mod lines;
mod ranked;
mod raw_payload;
mod row;
mod single_turn;
mod starts;

pub(crate) use raw_payload::RawPayloads;
pub(crate) use single_turn::SingleTurnFile;
