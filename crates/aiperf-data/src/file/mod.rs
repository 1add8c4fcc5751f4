//! The user's own prompts. A format is a file of this folder.

mod detect;
mod grown;
mod index;
mod lines;
mod mooncake;
mod ranked;
mod raw_payload;
mod record;
mod records;
mod row;
mod scan;
mod shaping;
mod starts;
mod timeline;
mod told;

pub(crate) use detect::form_of;
pub(crate) use raw_payload::RawPayloads;
pub(crate) use records::RecordFile;
