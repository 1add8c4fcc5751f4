//! The rule of every per-request value, as functions of [`Facts`] alone.
//!
//! Names and meanings follow AIPerf 0.13. A result that would need a missing fact, a division by zero or a stamp before its
//! predecessor is `None`.

use aiperf_core::outcome::{Finish, Outcome};
use aiperf_core::spec_decode::SpecDecode;
use aiperf_core::usage::Usage;

use crate::facts::{ChunkFact, Facts};
use crate::rows::RequestRow;

/// Nanoseconds to seconds as AIPerf converts: multiplied, not divided.
const NS: f64 = 1e-9;
/// Nanoseconds to milliseconds.
const NS_TO_MS: f64 = 1e-6;
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

/// Nanoseconds per token behind those of the first chunk.
pub(crate) fn inter_token_latency(f: &Facts) -> Option<f64> {
    let steps = decode_steps(output_sequence_length(f)?, f.first_chunk_tokens)?;
    Some(decode_duration(f)? as f64 / steps as f64)
}

/// Tokens of an answer behind those of the first chunk, which are one unless a count that fits says otherwise; `None` below two tokens.
pub(crate) fn decode_steps(osl: u64, first_chunk_tokens: Option<u64>) -> Option<u64> {
    let first = first_chunk_tokens.filter(|first| fits_first_chunk(*first, osl)).unwrap_or(1);
    osl.checked_sub(first).filter(|steps| *steps > 0)
}

/// Whether the first chunk of an answer of `osl` tokens can have had `first` of them, with some left to come.
pub const fn fits_first_chunk(first: u64, osl: u64) -> bool {
    1 <= first && first < osl
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

/// A request without images has no number of them.
pub(crate) fn num_images(f: &Facts) -> Option<u64> {
    Some(f.images).filter(|images| *images > 0)
}

pub(crate) fn image_throughput(f: &Facts) -> Option<f64> {
    per(num_images(f)? as f64, request_latency(f)? as f64 * NS)
}

pub(crate) fn image_latency(f: &Facts) -> Option<f64> {
    Some(request_latency(f)? as f64 * NS_TO_MS / num_images(f)? as f64)
}

/// A request without audio has no length of it.
pub(crate) fn audio_duration(f: &Facts) -> Option<f64> {
    Some(f.audio_ns).filter(|ns| *ns > 0).map(|ns| ns as f64 / 1e9)
}

pub(crate) fn rtfx(f: &Facts) -> Option<f64> {
    per(audio_duration(f)?, request_latency(f)? as f64 * NS)
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

/// Whether the answer ended before the length asked for, beyond the tolerance; `None` when one of the two is unknown. The text alone does not
/// tell: encoded again it can be shorter than what the model wrote, and marks of tool calls are not in it. So an answer that the server
/// counts, or else says, to have reached its limit has not ended early.
pub(crate) fn ended_early(f: &Facts) -> Option<bool> {
    let asked = f.requested_osl?;
    let is_short = osl_mismatch(f)? == 1 && output_sequence_length(f)? < asked;
    let reached = match usage(f, |u| u.completion_tokens) {
        Some(counted) => counted as f64 >= asked as f64 - osl_tolerance(asked),
        None => f.finish == Finish::Length,
    };
    Some(is_short && !reached)
}

/// Whether the answer is longer than asked for, beyond the tolerance: by the server's count, which its limit is about, or ours where it gives none.
pub(crate) fn went_beyond(f: &Facts) -> Option<bool> {
    let asked = f.requested_osl.filter(|n| *n > 0)?;
    let given = usage(f, |u| u.completion_tokens).or_else(|| output_sequence_length(f))?;
    Some(given as f64 > asked as f64 + osl_tolerance(asked))
}

pub(crate) fn spec<T>(f: &Facts, part: impl FnOnce(&SpecDecode) -> Option<T>) -> Option<T> {
    part(f.spec_decode.as_ref()?)
}

/// Tokens that came of it over tokens that were looked at: each step gives one token beside the accepted ones.
pub(crate) fn accepted_per_verified(s: &SpecDecode) -> Option<f64> {
    per((s.accepted + s.steps) as f64, (s.drafted + s.steps) as f64)
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

pub(crate) fn stream_prefill_latency(f: &Facts) -> Option<u64> {
    time_to_first_token(f)?.checked_sub(crate::timing::stream_setup_latency(f)?)
}

pub(crate) fn thinking_efficiency(f: &Facts) -> Option<f64> {
    per(f.reasoning_tokens? as f64, output_token_count(f)? as f64)
}

/// How long a caller waited at least for the answer: the latency, or of a request without a whole answer the time until its end.
pub(crate) fn latency_at_least(row: &RequestRow) -> Option<u64> {
    let until = if row.outcome == Outcome::Completed { row.last_ns? } else { row.end_ns };
    until.checked_sub(row.start_ns)
}

/// The same for the first content.
pub(crate) fn first_token_at_least(row: &RequestRow) -> Option<u64> {
    let until = if row.outcome == Outcome::Completed { row.first_ns? } else { row.end_ns };
    until.checked_sub(row.start_ns)
}

fn distance_pct(theirs: u64, ours: u64) -> Option<f64> {
    Some(per(theirs.abs_diff(ours) as f64, ours as f64)? * 100.0)
}

fn per(what: f64, by: f64) -> Option<f64> {
    (by > 0.0).then(|| what / by).filter(|v| v.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::ChunkFact;
    use aiperf_core::outcome::{Finish, Outcome};
    use proptest::prelude::*;

    /// Sent at 1 s; reasoning at +50 ms, text at +70, +70 and +130 ms; 2 reasoning and 3 answer tokens of 10 asked.
    fn example() -> Facts {
        let at = |ms: u64, answer| ChunkFact { at_ns: 1_000_000_000 + ms * 1_000_000, answer };
        Facts {
            outcome: Outcome::Completed,
            start_ns: 1_000_000_000,
            end_ns: 1_140_000_000,
            scheduled_ns: Some(990_000_000),
            chunks: vec![at(50, false), at(70, true), at(70, true), at(130, true)],
            isl: Some(100),
            asked_isl: Some(100),
            output_tokens: Some(3),
            reasoning_tokens: Some(2),
            requested_osl: Some(10),
            usage: Some(Usage {
                prompt_tokens: Some(112),
                completion_tokens: Some(5),
                total_tokens: Some(117),
                reasoning_tokens: Some(3),
                ..Usage::default()
            }),
            wire: crate::facts::WireFacts::default(),
            ..Facts::default()
        }
    }

    fn near(value: Option<f64>, expected: f64) {
        let value = value.expect("a value");
        assert!((value - expected).abs() <= 1e-12 * expected.abs(), "{value} is not {expected}");
    }

    #[test]
    fn a_worked_example_of_each_rule() {
        let f = example();
        assert_eq!(time_to_first_token(&f), Some(50_000_000));
        assert_eq!(time_to_second_token(&f), Some(20_000_000));
        assert_eq!(time_to_first_output_token(&f), Some(70_000_000));
        assert_eq!(request_latency(&f), Some(130_000_000));
        assert_eq!((num_images(&f), image_throughput(&f), image_latency(&f)), (None, None, None));
        let seen = Facts { images: 4, ..example() };
        assert_eq!(num_images(&seen), Some(4));
        near(image_throughput(&seen), 4.0 / 0.13);
        near(image_latency(&seen), 32.5);
        assert_eq!((audio_duration(&f), rtfx(&f)), (None, None));
        let heard = Facts { audio_ns: 6_500_000_000, ..example() };
        assert_eq!(audio_duration(&heard), Some(6.5));
        near(rtfx(&heard), 50.0); // 6.5 s ÷ 0.13 s
        assert_eq!(scheduled_latency(&f), Some(140_000_000));
        assert_eq!(decode_duration(&f), Some(80_000_000));
        assert_eq!(inter_chunk_latency(&f), Some(vec![20_000_000, 0, 60_000_000]));
        assert_eq!(output_sequence_length(&f), Some(5));
        assert_eq!(output_token_count(&f), Some(3));
        near(inter_token_latency(&f), 20_000_000.0); // 80 ms ÷ 4
        near(output_token_throughput_per_user(&f), 50.0); // 1 ÷ 0.020 s
        near(e2e_output_token_throughput(&f), 5.0 / 0.13);
        near(prefill_throughput_per_user(&f), 2000.0); // 100 ÷ 0.050 s
        near(thinking_efficiency(&f), 2.0 / 3.0);
        near(osl_mismatch_diff_pct(&f), -50.0);
        assert_eq!(osl_mismatch(&f), Some(1)); // 5 tokens off, 0.5 allowed
        assert_eq!(ended_early(&f), Some(true));
        near(usage_prompt_diff_pct(&f), 12.0);
        near(usage_completion_diff_pct(&f).map(|v| v + 1.0), 1.0);
        near(usage_reasoning_diff_pct(&f), 50.0);
        assert_eq!(usage_discrepancy(&f), Some(1));
    }

    #[test]
    fn the_first_chunk_s_own_tokens_are_no_pace() {
        let of = |first, osl| {
            let facts = Facts {
                first_chunk_tokens: first,
                output_tokens: Some(osl),
                reasoning_tokens: None,
                ..example()
            };
            inter_token_latency(&facts)
        };
        // 80 ms ÷ (40 − 4), and ÷ 39 without a count that fits.
        near(of(Some(4), 40), 80e6 / 36.0);
        for first in [None, Some(0), Some(40), Some(41)] {
            near(of(first, 40), 80e6 / 39.0);
        }
        near(of(Some(1), 2), 80e6);
        assert_eq!(of(Some(1), 1), None);
    }

    #[test]
    fn rules_of_speculative_decoding() {
        use crate::spec::Value::{Int, Real};

        let stats = SpecDecode {
            mean_acceptance_length: 2.5,
            draft_acceptance_rate: 0.5,
            histogram: vec![2, 3, 3, 2],
            accepted: 15,
            drafted: 30,
            steps: 10,
            width: Some(3),
            per_step_accepted: None,
            per_step_drafted: None,
        };
        let f = Facts { spec_decode: Some(stats), ..example() };
        let value = |tag: &str| match crate::table::find(tag).expect(tag).compute {
            crate::spec::Compute::Record(rule) => rule(&f),
            _ => panic!("{tag} is per request"),
        };
        assert_eq!(value("spec_decode_acceptance_length"), Some(Real(2.5)));
        assert_eq!(value("spec_decode_draft_acceptance_rate"), Some(Real(50.0)));
        assert_eq!(value("spec_decode_accepted_per_verified"), Some(Real(0.625))); // 25 ÷ 40
        assert_eq!(value("spec_decode_steps"), Some(Int(10)));
        assert_eq!(value("spec_decode_accepted_draft_tokens"), Some(Int(15)));
        assert_eq!(value("spec_decode_draft_tokens"), Some(Int(30)));
    }

    #[test]
    fn what_is_missing_makes_no_value() {
        let bare = Facts {
            chunks: vec![],
            isl: None,
            asked_isl: None,
            output_tokens: None,
            reasoning_tokens: None,
            requested_osl: None,
            usage: None,
            scheduled_ns: None,
            ..example()
        };
        assert_eq!(time_to_first_token(&bare), None);
        assert_eq!(request_latency(&bare), None);
        assert_eq!(output_sequence_length(&bare), None);
        assert_eq!(osl_mismatch(&bare), None);
        assert_eq!(usage_discrepancy(&bare), None);
        let one = Facts { chunks: example().chunks[1..2].to_vec(), ..example() };
        assert_eq!(time_to_second_token(&one), None);
        assert_eq!(inter_chunk_latency(&one), None);
        assert_eq!(output_token_throughput_per_user(&one), None, "a pace of zero nanoseconds per token");
        let silent = Facts { chunks: example().chunks[..1].to_vec(), ..example() };
        assert_eq!(time_to_first_output_token(&silent), None, "reasoning alone");
        let zero =
            Facts { output_tokens: Some(0), reasoning_tokens: Some(0), requested_osl: Some(0), ..example() };
        assert_eq!(output_sequence_length(&zero), None);
        assert_eq!(output_token_count(&zero), None);
        assert_eq!(osl_mismatch_diff_pct(&zero), None);
        let single = Facts { output_tokens: Some(1), reasoning_tokens: None, ..example() };
        assert_eq!(inter_token_latency(&single), None);
        let nothing_to_compare = Facts { isl: Some(0), ..example() };
        assert_eq!(usage_prompt_diff_pct(&nothing_to_compare), None);
    }

    #[test]
    fn stamps_out_of_order_make_no_value() {
        let early = Facts { start_ns: 2_000_000_000, ..example() };
        assert_eq!(time_to_first_token(&early), None);
        assert_eq!(request_latency(&early), None);
        let mut turned = example();
        turned.chunks.swap(0, 3);
        assert_eq!(inter_chunk_latency(&turned), None);
        assert_eq!(decode_duration(&turned), None);
    }

    #[test]
    fn the_tolerance_is_five_percent_and_at_most_fifty() {
        let with = |asked, given| {
            let facts = Facts {
                requested_osl: Some(asked),
                output_tokens: Some(given),
                reasoning_tokens: None,
                ..example()
            };
            (osl_mismatch(&facts), ended_early(&facts))
        };
        assert_eq!(with(100, 95), (Some(0), Some(false)));
        assert_eq!(with(100, 94), (Some(1), Some(true)));
        assert_eq!(with(100, 106), (Some(1), Some(false)));
        assert_eq!(with(2000, 1950), (Some(0), Some(false)));
        assert_eq!(with(2000, 1949), (Some(1), Some(true)));
    }

    #[test]
    fn an_answer_that_reached_its_limit_did_not_end_early() {
        let with = |counted: Option<u64>, finish| {
            let usage = counted.map(|n| Usage { completion_tokens: Some(n), ..Usage::default() });
            let short = Facts {
                requested_osl: Some(40),
                output_tokens: Some(30),
                reasoning_tokens: None,
                usage,
                finish,
                ..example()
            };
            assert_eq!(osl_mismatch(&short), Some(1), "AIPerf's metric goes by our count alone");
            ended_early(&short)
        };
        assert_eq!(with(Some(40), Finish::Length), Some(false));
        assert_eq!(with(Some(38), Finish::ToolCalls), Some(false), "within the tolerance");
        assert_eq!(with(Some(37), Finish::Stop), Some(true));
        assert_eq!(with(Some(31), Finish::Length), Some(true), "the model's own limit came first");
        assert_eq!(with(None, Finish::Length), Some(false));
        assert_eq!(with(None, Finish::Stop), Some(true));
        assert_eq!(with(None, Finish::Unsaid), Some(true));
    }

    #[test]
    fn an_answer_beyond_its_limit_is_one_by_the_server_s_count() {
        let with = |ours, counted: Option<u64>| {
            let usage = counted.map(|n| Usage { completion_tokens: Some(n), ..Usage::default() });
            let facts = Facts {
                requested_osl: Some(40),
                output_tokens: Some(ours),
                reasoning_tokens: None,
                usage,
                ..example()
            };
            went_beyond(&facts)
        };
        assert_eq!(with(50, Some(40)), Some(false), "the same text, cut otherwise");
        assert_eq!(with(30, Some(42)), Some(false), "2 tokens of 40 are within the tolerance");
        assert_eq!(with(30, Some(43)), Some(true));
        assert_eq!((with(42, None), with(43, None)), (Some(false), Some(true)));
        assert_eq!(went_beyond(&Facts { requested_osl: None, ..example() }), None);
        assert_eq!(went_beyond(&Facts { requested_osl: Some(0), ..example() }), None);
    }

    fn facts() -> impl Strategy<Value = Facts> {
        let tokens = || proptest::option::of(0u64..400);
        let seconds = proptest::option::of(0.0..100.0_f64);
        let usage = (proptest::array::uniform12(tokens()), seconds).prop_map(|(n, seconds)| Usage {
            prompt_tokens: n[0],
            completion_tokens: n[1],
            total_tokens: n[2],
            reasoning_tokens: n[3],
            cached_tokens: n[4],
            cache_write_tokens: n[5],
            cache_miss_tokens: n[6],
            prompt_audio_tokens: n[7],
            prompt_audio_seconds: seconds,
            tool_use_prompt_tokens: n[8],
            completion_audio_tokens: n[9],
            accepted_prediction_tokens: n[10],
            rejected_prediction_tokens: n[11],
        });
        (
            0u64..5_000_000_000,
            proptest::collection::vec((0u64..400_000_000, any::<bool>()), 0..12),
            tokens(),
            tokens(),
            tokens(),
            tokens(),
            proptest::option::of(0u64..8),
            proptest::option::of(usage),
        )
            .prop_map(
                |(
                    start_ns,
                    gaps,
                    isl,
                    output_tokens,
                    reasoning_tokens,
                    requested_osl,
                    first_chunk_tokens,
                    usage,
                )| {
                    let mut at_ns = start_ns;
                    let chunks = gaps
                        .into_iter()
                        .map(|(gap, answer)| {
                            at_ns += gap;
                            ChunkFact { at_ns, answer }
                        })
                        .collect();
                    Facts {
                        outcome: Outcome::Completed,
                        start_ns,
                        end_ns: at_ns,
                        scheduled_ns: Some(start_ns / 2),
                        chunks,
                        isl,
                        asked_isl: None,
                        output_tokens,
                        reasoning_tokens,
                        requested_osl,
                        first_chunk_tokens,
                        usage,
                        wire: crate::facts::WireFacts::default(),
                        ..Facts::default()
                    }
                },
            )
    }

    /// Seconds everywhere, every rule spelled out from the words of the table, nothing shared with the code above.
    fn slow(f: &Facts) -> Vec<(&'static str, Option<f64>)> {
        let s = |ns: u64| ns as f64 / 1e9;
        let arrivals: Vec<f64> = f.chunks.iter().map(|c| s(c.at_ns) - s(f.start_ns)).collect();
        let (first, last) = (arrivals.first().copied(), arrivals.last().copied());
        let answer = f.chunks.iter().zip(&arrivals).filter(|(c, _)| c.answer).map(|(_, a)| *a).next();
        let osl = match f.output_tokens.unwrap_or(0) + f.reasoning_tokens.unwrap_or(0) {
            0 => None,
            n => Some(n as f64),
        };
        let decode = first.zip(last).map(|(first, last)| last - first);
        let first_tokens = |n: f64| match f.first_chunk_tokens {
            Some(first) if first >= 1 && (first as f64) < n => first as f64,
            _ => 1.0,
        };
        let itl = decode.zip(osl.filter(|n| *n >= 2.0)).map(|(d, n)| d / (n - first_tokens(n)));
        let pct = |theirs: Option<u64>, ours: Option<f64>| {
            theirs.zip(ours.filter(|n| *n > 0.0)).map(|(t, o)| (t as f64 - o).abs() / o * 100.0)
        };
        let div = |a: Option<f64>, b: Option<f64>| a.zip(b.filter(|b| *b > 0.0)).map(|(a, b)| a / b);
        let asked = f.requested_osl.map(|n| n as f64).filter(|n| *n > 0.0);
        let usage = f.usage.unwrap_or_default();
        vec![
            ("time_to_first_token", first.map(|v| v * 1e9)),
            ("time_to_second_token", (arrivals.len() > 1).then(|| (arrivals[1] - arrivals[0]) * 1e9)),
            ("time_to_first_output_token", answer.map(|v| v * 1e9)),
            ("request_latency", last.map(|v| v * 1e9)),
            ("scheduled_latency", last.map(|v| (v + s(f.start_ns) - s(f.start_ns / 2)) * 1e9)),
            ("decode_duration", decode.map(|v| v * 1e9)),
            ("inter_token_latency", itl.map(|v| v * 1e9)),
            ("output_token_throughput_per_user", itl.filter(|v| *v > 1e-12).map(|v| 1.0 / v)),
            ("e2e_output_token_throughput", div(osl, last)),
            ("prefill_throughput_per_user", div(f.isl.map(|n| n as f64), first)),
            ("output_sequence_length", osl),
            ("input_sequence_length", f.isl.map(|n| n as f64)),
            ("osl_mismatch_diff_pct", osl.zip(asked).map(|(o, a)| (o / a - 1.0) * 100.0)),
            ("usage_prompt_tokens_diff_pct", pct(usage.prompt_tokens, f.isl.map(|n| n as f64))),
            ("usage_completion_tokens_diff_pct", pct(usage.completion_tokens, osl)),
            (
                "usage_reasoning_tokens_diff_pct",
                pct(usage.reasoning_tokens, f.reasoning_tokens.map(|n| n as f64)),
            ),
            ("usage_prompt_cache_read_tokens", usage.cached_tokens.map(|n| n as f64)),
            ("usage_prompt_cache_write_tokens", usage.cache_write_tokens.map(|n| n as f64)),
            ("usage_prompt_cache_miss_tokens", usage.cache_miss_tokens.map(|n| n as f64)),
            ("usage_prompt_audio_tokens", usage.prompt_audio_tokens.map(|n| n as f64)),
            ("usage_prompt_audio_seconds", usage.prompt_audio_seconds),
            ("usage_tool_use_prompt_tokens", usage.tool_use_prompt_tokens.map(|n| n as f64)),
            ("usage_completion_audio_tokens", usage.completion_audio_tokens.map(|n| n as f64)),
            ("usage_accepted_prediction_tokens", usage.accepted_prediction_tokens.map(|n| n as f64)),
            ("usage_rejected_prediction_tokens", usage.rejected_prediction_tokens.map(|n| n as f64)),
        ]
    }

    proptest! {
        #[test]
        fn rules_agree_with_a_slow_reading_of_the_table(facts in facts()) {
            for (tag, expected) in slow(&facts) {
                let spec = crate::table::find(tag).expect("a tag of the table");
                let crate::spec::Compute::Record(rule) = spec.compute else { panic!("{tag} is per request") };
                let value = rule(&facts).map(|v| match v {
                    crate::spec::Value::Int(v) => v as f64,
                    crate::spec::Value::Real(v) => v,
                    crate::spec::Value::List(_) => f64::NAN,
                });
                match (value, expected) {
                    (None, None) => {}
                    // The slow reading subtracts seconds as floating point.
                    (Some(v), Some(e)) => {
                        prop_assert!((v - e).abs() <= 1e-3 + 1e-5 * e.abs(), "{tag}: {v} is not {e}");
                    }
                    _ => prop_assert!(false, "{tag}: {value:?} is not {expected:?}"),
                }
            }
            let gaps = inter_chunk_latency(&facts);
            prop_assert_eq!(gaps.is_some(), facts.chunks.len() > 1);
            prop_assert_eq!(gaps.map(|g| g.iter().sum::<u64>()), decode_duration(&facts).filter(|_| facts.chunks.len() > 1));
        }
    }
}
