//! The user's own prompts. A format is a file of this folder.

mod index;
mod ranked;
mod row;
mod single_turn;
mod starts;

pub(crate) use single_turn::SingleTurnFile;
