//! What is odd about a run, in sentences below its tables.

use aiperf_core::plan::EndpointKind;
use aiperf_core::text::for_terminal;
use aiperf_metrics::{LengthDifference, Stats};
use serde_json::Value;

use super::body::{MESSAGE, count};
use crate::report::Report;

/// Hints, most important first.
pub(super) fn notes(report: &Report<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let summary = report.summary;
    if let Some(reason) = report.incomplete_reason {
        notes.push(format!("Incomplete results: {}.", for_terminal(reason, MESSAGE)));
    }
    if report.was_cancelled {
        notes.push("The run was cancelled; these are the requests until then.".to_owned());
    }
    let early = summary.early;
    if early.early > 0 && !report.length_forced {
        let share = 100.0 * early.early as f64 / early.compared as f64;
        let short = summary
            .avg("osl_mismatch_diff_pct")
            .map_or(String::new(), |pct| format!(" (average over all answers: {pct:+.1}%)"));
        notes.push(format!(
            "{} of {} answers ({share:.1}%) ended before the output length asked for{short}. To measure full-length answers add \
             --extra-inputs ignore_eos:true (vLLM, SGLang, TensorRT-LLM) or --extra-inputs min_tokens:N.",
            count(early.early),
            count(early.compared),
        ));
    }
    let ignores_eos = report.input_config.pointer("/endpoint/extra/ignore_eos") == Some(&Value::Bool(true));
    if early.stopped > 0 && ignores_eos {
        notes.push(format!(
            "{} of {} answers ended before the output length asked for, by the model's own end, although ignore_eos was asked for: this \
             API of the server does not heed it.",
            count(early.stopped),
            count(early.compared),
        ));
    }
    notes.extend(aborted(report));
    notes.extend(beyond_the_limit(report));
    notes.extend(coarse_stream(report));
    notes.extend(side_by_side(report));
    let disagree = summary.avg("usage_discrepancy_count").unwrap_or(0.0);
    // What lies between the counts of prompts, the lengths have told.
    let told =
        report.lengths().and_then(|l| l.summary.difference).is_some_and(|d| d != LengthDifference::None);
    let answers_differ = summary
        .get("usage_completion_tokens_diff_pct")
        .and_then(|pct| pct.get("max"))
        .is_some_and(|max| max > 10.0);
    if disagree > 0.0 && (answers_differ || !told) {
        // Prompts that are counted alike, but for a template around each, have shown that the tokenizer is the right one.
        let is_its_own = report
            .lengths()
            .and_then(|l| l.summary.difference)
            .is_some_and(|d| matches!(d, LengthDifference::None | LengthDifference::Constant { .. }));
        let cause = if is_its_own {
            "The tokenizer is the model's own, for prompts are counted alike. The server counts what an answer cost, which its text need \
             not show: marks of tool calls and of reasoning, an end token, text that an encoder cuts otherwise. \
             --use-server-token-count takes the server's counts."
        } else {
            "Check that --tokenizer is the model's own, or take the server's counts with --use-server-token-count."
        };
        notes.push(format!(
            "In {} of {} requests our token counts and the server's differ by more than 10%: see the usage_*_diff_pct values in \
             the records. {cause}",
            count(disagree as u64),
            count(summary.tally.completed),
        ));
    }
    let reports = |tag| summary.get(tag).is_some_and(|s| matches!(s, Stats::Scalar { .. }));
    let kind = report.input_config.pointer("/endpoint/type").and_then(Value::as_str);
    // Vectors and scores come of prefills that no cache is kept of.
    let may_cache = kind.and_then(EndpointKind::named).is_none_or(|kind| kind.traits().produces_tokens);
    if may_cache && reports("total_usage_prompt_tokens") && !reports("total_usage_prompt_cache_read_tokens") {
        notes.push(
            "The server reports usage without cached prompt tokens. If it has a prefix cache, let it report hits: \
             vLLM --enable-prompt-tokens-details, SGLang --enable-cache-report."
                .to_owned(),
        );
    }
    notes.extend(report.notes.iter().map(|note| for_terminal(note, MESSAGE)));
    notes
}

/// Sessions that ended with a failed turn.
fn aborted(report: &Report<'_>) -> Option<String> {
    let number = |tag: &str| report.summary.avg(tag).map(|n| n as u64);
    let (sessions, turns) = (number("aborted_session_count")?, number("abandoned_turn_count")?);
    let plural = |n: u64, word: &str| format!("{} {word}{}", count(n), if n == 1 { "" } else { "s" });
    let their = if sessions == 1 { "its" } else { "their" };
    Some(format!(
        "{} ended with a failed turn, {} before {their} end (--on-turn-error abort-session).",
        plural(sessions, "session"),
        plural(turns, "turn"),
    ))
}

/// Tokens per chunk from which on a stream is said to carry several.
const SEVERAL: f64 = 1.05;

/// That chunks carry several tokens, and what that does to the inter-token latency, which divides by all tokens but one unless the server
/// was asked how many came with the first chunk.
fn coarse_stream(report: &Report<'_>) -> Option<String> {
    let summary = report.summary;
    let per_chunk = summary.avg("tokens_per_chunk").filter(|tokens| *tokens >= SEVERAL)?;
    let itl = summary.avg("inter_token_latency")?;
    let too_short = if report.input_config.pointer("/endpoint/per_chunk_usage") == Some(&Value::Bool(true)) {
        String::new()
    } else {
        format!(", and inter_token_latency ({itl:.2} ms) is too short by the share of the first chunk")
    };
    let told = summary.avg("inter_token_gap").map_or_else(String::new, |gap| {
        format!(
            " The time of each token behind the one before it is {gap:.2} ms on average: inter_token_gap."
        )
    });
    Some(format!(
        "Chunks carry {per_chunk:.2} tokens on average, so time_to_first_token is that of several tokens{too_short}.{told}"
    ))
}

/// That answers are longer than asked for: the server does not heed the field of the limit.
fn beyond_the_limit(report: &Report<'_>) -> Option<String> {
    let set = |path: &str| report.input_config.pointer(path);
    let several = ["/endpoint/extra/n", "/datasets/0/prompts/batch_size"].into_iter().filter_map(set);
    // Each of several choices has the limit for itself.
    if several.filter_map(Value::as_u64).any(|n| n > 1) {
        return None;
    }
    let early = report.summary.early;
    // Chat is the API where none was set.
    let is_ours = set("/endpoint/type").is_none_or(|kind| kind == "chat")
        && set("/endpoint/use_legacy_max_tokens") != Some(&Value::Bool(true));
    let help = if is_ours {
        " --use-legacy-max-tokens sends max_tokens in the place of max_completion_tokens, which not every server knows."
    } else {
        ""
    };
    (early.beyond > 0).then(|| {
        format!(
            "{} of {} answers are longer than asked for: the server does not heed the limit.{help}",
            count(early.beyond),
            count(early.compared),
        )
    })
}

/// That answers have several choices, which a server writes side by side: what is between two tokens of the answer is not what is between two of
/// one choice.
fn side_by_side(report: &Report<'_>) -> Option<String> {
    let asked = report.input_config.pointer("/endpoint/extra/n")?.as_u64().filter(|n| *n > 1)?;
    let itl = report.summary.avg("inter_token_latency")?;
    let choices = asked as f64;
    Some(format!(
        "Answers have {asked} choices each (n), written side by side. The output length is that of all of them, and inter_token_latency \
         ({itl:.2} ms) the time between two tokens of any: between two of one choice it is about {asked} times as long ({:.2} ms).",
        itl * choices
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn notes_say_what_is_odd_and_only_then() {
        let sample = Sample::new();
        let mut report = sample.report();
        assert!(notes(&report).iter().any(|n| n.starts_with("1 of 3 answers (33.3%) ended before")));
        assert!(notes(&report).iter().any(|n| n.contains("without cached prompt tokens")));
        for (kind, is_told) in [("chat", true), ("nim_embeddings", false), ("cohere_rankings", false)] {
            let config = serde_json::json!({"endpoint": {"type": kind}});
            let told = notes(&Report { input_config: &config, ..report.clone() });
            assert_eq!(told.iter().any(|n| n.contains("without cached prompt tokens")), is_told, "{kind}");
        }
        report.length_forced = true;
        assert!(!notes(&report).iter().any(|n| n.contains("ended before")));
        report.was_cancelled = true;
        report.incomplete_reason = Some("shard 1 stopped\u{7}");
        let own = ["The client was busy.".to_owned()];
        report.notes = &own;
        let all = notes(&report);
        assert_eq!(all[0], "Incomplete results: shard 1 stopped.");
        assert!(all[1].contains("cancelled"));
        assert_eq!(all.last().map(String::as_str), Some("The client was busy."));
        assert!(super::super::body::render(&report, 100, false).contains("sec (cancelled early)"));
    }
}
