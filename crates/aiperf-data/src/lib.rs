//! Corpora, prompt synthesis and loaders: what a run asks.
//!
//! A [`Workload`] is opened once from the plan and then read by position, from any thread, in any order:
//! `conversation(i)` depends on (plan, seed, i) alone. Nothing is made before it is asked for and nothing is kept after, so
//! memory does not grow with the number of prompts.
//!
//! * Synthetic prompts are cut from a corpus to exactly the number of tokens asked for, as the run's tokenizer counts, or made
//!   of its vocabulary as vLLM and SGLang make them.
//! * Files are checked whole when they are opened and indexed by row; a row is read again when it is sent.

mod blocks;
mod corpus;
mod cut;
mod error;
#[cfg(test)]
mod exactness;
mod file;
mod framing;
mod layout;
mod lengths;
mod markers;
mod models;
mod opening;
mod random;
mod rankings;
mod rendered;
#[cfg(test)]
mod rendered_tests;
mod search;
mod slot;
mod sound;
mod spread;
mod synthetic;
#[cfg(test)]
mod toys;
mod workload;

use std::sync::Arc;

use aiperf_core::plan::{DatasetPlan, Plan, PublicParts};
use aiperf_tokens::{TemplateClock, Tokenizer};

pub use blocks::{BlockTexts, Blocks, BlocksError};
pub use error::{DataError, RowProblem};
pub use lengths::{GuessErrors, LengthCheck, LengthMiss, check_lengths};
pub use markers::{MarkerCost, marker, marker_cost};
pub use rendered::{RenderedCheck, RequestShape, ShapeCheck, check_rendered};
pub use sound::audio_ns;
pub use workload::{RowFacts, Sampler, Visit, Workload, WorkloadFacts, WorkloadKind, repeat_notes};

/// What a workload takes from the run beside its plan.
#[derive(Debug, Clone, Copy)]
pub struct OpenContext<'a> {
    /// The run's own id, which cache-bust markers are made from.
    pub run_id: &'a str,
    /// The moment that chat templates see.
    pub now: TemplateClock,
    /// Files of the plan's public data set; the first one is the file of the plan.
    pub parts: Option<&'a dyn PublicParts>,
}

/// Opens the workload of a plan. Synthetic prompts need the run's `tokenizer`, and so do files whose rows give lengths
/// in the place of texts (traces, ShareGPT); the others do not.
pub fn open(
    plan: &Plan,
    tokenizer: Option<Arc<dyn Tokenizer>>,
    context: OpenContext<'_>,
) -> Result<Arc<dyn Workload>, DataError> {
    match &plan.dataset {
        DatasetPlan::Synthetic(set) => {
            let tokenizer = tokenizer.ok_or(DataError::NoTokenizer)?;
            if let Some(rankings) = &set.rankings {
                return Ok(Arc::new(rankings::Rankings::new(plan, set, rankings, tokenizer)?));
            }
            Ok(Arc::new(synthetic::Synthetic::new(plan, set, tokenizer, &context)?))
        }
        DatasetPlan::File(set) => file::open(plan, set, tokenizer, &context),
    }
}
