//! The rule of every per-request value, as functions of [`Facts`] alone.
//!
//! Names and meanings follow AIPerf 0.13. A result that would need a missing fact, a division by zero or a stamp before its
//! predecessor is `None`.

use aiperf_core::usage::Usage;

use crate::facts::{ChunkFact, Facts};

/// Nanoseconds to seconds as AIPerf converts: multiplied, not divided.
const NS: f64 = 1e-9;
/// Relative tolerance of a mismatch between asked and given output length.
const OSL_TOLERANCE: f64 = 0.05;
/// Most tokens that tolerance may reach.
const OSL_TOLERANCE_TOKENS: f64 = 50.0;
/// Difference in percent from which the server's count and ours are said to disagree.
const USAGE_TOLERANCE_PCT: f64 = 10.0;

pub(crate) fn time_to_first_token(f: &Facts) -> Option<u64> {
    f.chunks.first()?.at_ns.checked_sub(f.start_ns)
}

pub(crate) fn time_to_second_token(f: &Facts) -> Option<u64> {
    f.chunks.get(1)?.at_ns.checked_sub(f.chunks[0].at_ns)
}

pub(crate) fn time_to_first_output_token(f: &Facts) -> Option<u64> {
    f.chunks.iter().find(|c| c.answer)?.at_ns.checked_sub(f.start_ns)
}

pub(crate) fn request_latency(f: &Facts) -> Option<u64> {
    f.chunks.last()?.at_ns.checked_sub(f.start_ns)
}

/// Up to the last content chunk like [`request_latency`], so the difference of the two is the wait before the send.
pub(crate) fn scheduled_latency(f: &Facts) -> Option<u64> {
    f.chunks.last()?.at_ns.checked_sub(f.scheduled_ns?)
}

pub(crate) fn decode_duration(f: &Facts) -> Option<u64> {
    request_latency(f)?.checked_sub(time_to_first_token(f)?)
}

/// Nanoseconds per token.
pub(crate) fn inter_token_latency(f: &Facts) -> Option<f64> {
    let osl = output_sequence_length(f)?;
    if osl < 2 {
        return None;
    }
    Some(decode_duration(f)? as f64 / (osl - 1) as f64)
}

pub(crate) fn inter_chunk_latency(f: &Facts) -> Option<Vec<u64>> {
    if f.chunks.len() < 2 {
        return None;
    }
    f.chunks.windows(2).map(|pair: &[ChunkFact]| pair[1].at_ns.checked_sub(pair[0].at_ns)).collect()
}

pub(crate) fn output_token_throughput_per_user(f: &Facts) -> Option<f64> {
    per(1.0, inter_token_latency(f)? * NS)
}

pub(crate) fn e2e_output_token_throughput(f: &Facts) -> Option<f64> {
    per(output_sequence_length(f)? as f64, request_latency(f)? as f64 * NS)
}

pub(crate) fn prefill_throughput_per_user(f: &Facts) -> Option<f64> {
    per(f.isl? as f64, time_to_first_token(f)? as f64 * NS)
}

pub(crate) fn output_sequence_length(f: &Facts) -> Option<u64> {
    let sum = f.output_tokens.unwrap_or(0) + f.reasoning_tokens.unwrap_or(0);
    (sum > 0).then_some(sum)
}

pub(crate) fn output_token_count(f: &Facts) -> Option<u64> {
    f.output_tokens.filter(|n| *n > 0)
}

/// Signed percent by which the answer is longer than asked.
pub(crate) fn osl_mismatch_diff_pct(f: &Facts) -> Option<f64> {
    let asked = f.requested_osl? as f64;
    Some(per(output_sequence_length(f)? as f64 - asked, asked)? * 100.0)
}

/// Tokens by which an answer may miss the length asked for: 5 %, at most 50.
pub fn osl_tolerance(requested: u64) -> f64 {
    (requested as f64 * OSL_TOLERANCE).min(OSL_TOLERANCE_TOKENS)
}

pub(crate) fn osl_mismatch(f: &Facts) -> Option<u64> {
    let asked = f.requested_osl.filter(|n| *n > 0)?;
    let off = output_sequence_length(f)?.abs_diff(asked);
    Some(u64::from(off as f64 > osl_tolerance(asked)))
}

/// Whether the answer ended before the length asked for, beyond the tolerance; `None` when one of the two is unknown.
pub(crate) fn ended_early(f: &Facts) -> Option<bool> {
    Some(osl_mismatch(f)? == 1 && output_sequence_length(f)? < f.requested_osl?)
}

pub(crate) fn usage(f: &Facts, part: fn(&Usage) -> Option<u64>) -> Option<u64> {
    part(f.usage.as_ref()?)
}

pub(crate) fn usage_prompt_diff_pct(f: &Facts) -> Option<f64> {
    distance_pct(usage(f, |u| u.prompt_tokens)?, f.isl?)
}

pub(crate) fn usage_completion_diff_pct(f: &Facts) -> Option<f64> {
    distance_pct(usage(f, |u| u.completion_tokens)?, output_sequence_length(f)?)
}

pub(crate) fn usage_reasoning_diff_pct(f: &Facts) -> Option<f64> {
    distance_pct(usage(f, |u| u.reasoning_tokens)?, f.reasoning_tokens?)
}

/// Needs the prompt's difference, and the completion's unless the prompt's already tells; the reasoning's is looked at when there is one.
pub(crate) fn usage_discrepancy(f: &Facts) -> Option<u64> {
    let over = |pct: f64| pct > USAGE_TOLERANCE_PCT;
    if over(usage_prompt_diff_pct(f)?) || over(usage_completion_diff_pct(f)?) {
        return Some(1);
    }
    Some(u64::from(usage_reasoning_diff_pct(f).is_some_and(over)))
}

fn distance_pct(theirs: u64, ours: u64) -> Option<f64> {
    Some(per(theirs.abs_diff(ours) as f64, ours as f64)? * 100.0)
}

fn per(what: f64, by: f64) -> Option<f64> {
    (by > 0.0).then(|| what / by).filter(|v| v.is_finite())
}
