//! Whether a plan asks of rows only what their form has.

use std::path::Path;

use aiperf_core::plan::{FilePlan, Plan, TimesPlan, TurnTimes};

use super::super::record::Form;
use crate::error::DataError;

/// Whether the user's own fields of requests are none of those that the rows say.
pub(super) fn check_extra(plan: &Plan, form: Form, path: &Path) -> Result<(), DataError> {
    let Form::Baseten(fields) = form else { return Ok(()) };
    match fields.said().find(|(key, _)| plan.endpoint.extra.contains_key(*key)) {
        Some((key, option)) => Err(DataError::SaidTwice { path: path.to_owned(), key, option }),
        None => Ok(()),
    }
}

/// What makes other prompts of those of a trace.
const RESHAPES: [&str; 3] = [
    "--synthesis-prefix-len-multiplier",
    "--synthesis-prefix-root-multiplier",
    "--synthesis-prompt-len-multiplier",
];

/// Whether the plan asks of rows only what a form has.
pub(super) fn check_shape(set: &FilePlan, form: Form) -> Result<(), DataError> {
    let (path, form_name) = (|| set.path.clone(), form.kind().name());
    let TimesPlan { prefix, prompt, output, roots } = set.replay.times;
    let is_other = |times: f64| (times - 1.0).abs() > 0.0;
    let asked = [
        ("--synthesis-max-isl", set.replay.max_isl.is_some()),
        ("--synthesis-max-osl", set.replay.max_osl.is_some()),
        ("--synthesis-prefix-len-multiplier", is_other(prefix)),
        ("--synthesis-prefix-root-multiplier", roots > 1),
        ("--synthesis-prompt-len-multiplier", is_other(prompt)),
        ("--synthesis-output-len-multiplier", is_other(output)),
    ];
    let mut is_asked = asked.into_iter().filter_map(|(option, is_asked)| is_asked.then_some(option));
    if form.is_verbatim_trace() {
        if let Some(option) = is_asked.find(|option| RESHAPES.contains(option)) {
            return Err(DataError::Verbatim { path: path(), form: form_name, option });
        }
    } else if let Some(option) = is_asked.next().filter(|_| !form.is_trace()) {
        return Err(DataError::NotATrace { path: path(), form: form_name, option });
    }
    let hints = &set.completions;
    let said = [("--force-min-tokens", hints.min_tokens), ("--omit-kv-hints", hints.omits_blocks)];
    if let Some((option, _)) = said.into_iter().find(|(_, said)| said.is_some())
        && !matches!(form, Form::Baseten(_))
    {
        return Err(DataError::NotCompletions { path: path(), form: form_name, option });
    }
    if set.replay.session_share < 1.0 && matches!(form, Form::Bailian { .. } | Form::RandomPool) {
        return Err(DataError::NoSessions { path: path(), form: form_name });
    }
    if set.block.is_some() && !matches!(form, Form::Mooncake { .. } | Form::Bailian { .. }) {
        return Err(DataError::NoBlockSize { path: path(), form: form_name });
    }
    if set.corpus.is_some() && form.block().is_none() {
        return Err(DataError::NoCorpus { path: path(), form: form_name });
    }
    if roots > 1 && matches!(form, Form::Bailian { .. }) {
        return Err(DataError::TornChats { path: path() });
    }
    if set.strips_images && form != Form::SingleTurn {
        return Err(DataError::NotStripped { path: path(), form: form_name });
    }
    if form == Form::MultiTurn && set.replay.turn_times == TurnTimes::Alone {
        return Err(DataError::NotAlone { path: path() });
    }
    Ok(())
}
