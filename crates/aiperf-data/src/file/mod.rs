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

use std::sync::Arc;

use aiperf_core::plan::{FileFormat, FilePlan, Plan};
use aiperf_tokens::Tokenizer;

use crate::OpenContext;
use crate::error::DataError;
use crate::workload::Workload;

/// Opens the file of `set`, in whatever form it is.
pub(crate) fn open(
    plan: &Plan,
    set: &FilePlan,
    tokenizer: Option<Arc<dyn Tokenizer>>,
    context: &OpenContext<'_>,
) -> Result<Arc<dyn Workload>, DataError> {
    if set.format == FileFormat::RawPayload {
        return Ok(Arc::new(raw_payload::RawPayloads::open(plan, set)?));
    }
    let input = aiperf_files::open(&set.path)?;
    let (form, note) = detect::form_of(set, &input)?;
    Ok(Arc::new(records::RecordFile::open(plan, set, input, form, tokenizer, context)?.told(note)))
}
