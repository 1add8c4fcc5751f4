//! The user's own prompts. A format is a file of this folder.

mod bailian;
mod baseten;
mod burst_gpt;
mod by_start;
mod detect;
mod doubled;
mod folder;
mod grown;
mod index;
mod inputs_json;
mod lines;
mod media;
mod mooncake;
mod outside;
mod random_pool;
mod ranked;
mod raw_payload;
mod record;
mod recorded;
mod records;
mod row;
mod sagemaker;
mod sample;
mod scan;
mod shaping;
mod source;
mod starts;
mod timeline;
mod told;
mod walk;

use std::sync::Arc;

use aiperf_core::plan::{BadRows, FileFormat, FilePlan, Plan, ReplayPlan};
use aiperf_tokens::Tokenizer;

use self::detect::Shape;
use self::outside::{Converted, Trace};
use self::record::Form;
use self::records::RecordFile;
use crate::OpenContext;
use crate::error::DataError;
use crate::workload::Workload;

/// Opens a file or a folder in the form that the user says or that it shows.
pub(crate) fn open(
    plan: &Plan,
    set: &FilePlan,
    tokenizer: Option<Arc<dyn Tokenizer>>,
    context: &OpenContext<'_>,
) -> Result<Arc<dyn Workload>, DataError> {
    if set.format == FileFormat::RawPayload {
        return bodies(plan, set, Vec::new());
    }
    let columns_of_none = || {
        if set.columns.is_empty() { Ok(()) } else { Err(DataError::NoColumns { path: set.path.clone() }) }
    };
    if set.path.is_dir() && set.format.may_be_folder() {
        columns_of_none()?;
        let (form, notes) = match set.format {
            FileFormat::RandomPool => (Some(Form::RandomPool), Vec::new()),
            FileFormat::SageMaker => (Some(Form::SageMaker), Vec::new()),
            _ => detect::folder(&set.path).map(|(form, note)| (form, vec![note]))?,
        };
        let Some(form) = form else { return bodies(plan, set, notes) };
        return Ok(Arc::new(RecordFile::open(plan, set, None, form, tokenizer, context)?.told(notes)));
    }
    let input = aiperf_files::open(&set.path)?;
    let input = match outside::trace(set, input)? {
        Ok(Trace { input, fields, notes }) => {
            columns_of_none()?;
            let form = Form::Baseten(fields);
            return Ok(Arc::new(
                RecordFile::open(plan, set, Some(input), form, tokenizer, context)?.told(notes),
            ));
        }
        Err(input) => input,
    };
    let input = match outside::convert(plan, set, input, tokenizer.as_ref(), context.parts)? {
        Ok(Converted { input, notes, seen, broken }) => {
            // So many were taken, and each may be several conversations.
            let set = &FilePlan { entries: set.entries.filter(|_| outside::draws_share(set)), ..set.clone() };
            let file = RecordFile::open(plan, set, Some(input), Form::MultiTurn, tokenizer, context)?;
            return Ok(Arc::new(file.told(notes).of_entries(seen, broken)));
        }
        Err(input) => input,
    };
    if !set.columns.is_empty() && lines::first(&input)?.is_none() {
        return Err(DataError::EmptyFile { path: input.name.clone() });
    }
    columns_of_none()?;
    let (shape, notes) = detect::shape_of(set, &input)?;
    Ok(match shape {
        Shape::Rows(form) => {
            Arc::new(RecordFile::open(plan, set, Some(input), form, tokenizer, context)?.told(notes))
        }
        Shape::InputsJson => {
            check_around(plan, set, "inputs_json")?;
            Arc::new(inputs_json::InputsJson::open(plan, set, input)?.told(notes))
        }
    })
}

/// A file or a folder of bodies, with what showed that it is one.
fn bodies(plan: &Plan, set: &FilePlan, notes: Vec<String>) -> Result<Arc<dyn Workload>, DataError> {
    check_around(plan, set, "raw_payload")?;
    Ok(Arc::new(raw_payload::RawPayloads::open(plan, set)?.told(notes)))
}

/// Refuses what would go into bodies that are sent as they are. Where the form was named, this was found before.
fn check_around(plan: &Plan, set: &FilePlan, form: &'static str) -> Result<(), DataError> {
    let options = [
        (set.replay != ReplayPlan::default(), "what changes the times and lengths of a replay"),
        (set.completions.min_tokens.is_some(), "--force-min-tokens"),
        (set.completions.omits_blocks.is_some(), "--omit-kv-hints"),
        (set.bad_rows == BadRows::Skip && form == "inputs_json", "--on-bad-row skip"),
        (set.osl.is_some(), "the output length (--osl)"),
        (set.corpus.is_some(), "the corpus of its prompts (--prompt-corpus)"),
        (plan.system_prompt.is_some(), "the system prompt"),
        (plan.cache_bust.is_some(), "the marker of --cache-bust"),
        (!plan.endpoint.extra.is_empty(), "--extra-inputs"),
    ];
    match options.into_iter().find(|(is_there, _)| *is_there) {
        Some((_, option)) => Err(DataError::AroundBodies { path: set.path.clone(), form, option }),
        None => Ok(()),
    }
}
