//! Load over time: how many requests were in flight, in prefill and in decode, and how fast tokens went, at each instant of a window.
//!
//! The curves are AIPerf's, with one difference: the end of a failed request is when it failed. A request is in flight from its start
//! to its end. A completed one that streamed is in prefill up to its first content and in decode from there to its end; its prompt
//! tokens are spread evenly over the prefill. Its answer tokens but the first are spread over the gaps between its chunks, the same
//! number over each gap that is not 0; where there are more than [`MAX_GAPS`] gaps, or one chunk, evenly over the decode.
//!
//! Memory: at most 16 bytes for each start, first content, end and gap, three times, so no more than [`MAX_ROWS`] requests are looked at.

#[cfg(test)]
mod aiperf_vectors;
mod at_start;
mod steps;

pub use at_start::ConcurrencyBucket;
use steps::{Held, Steps, walk};

use aiperf_core::outcome::Outcome;

use crate::column::IntColumn;
use crate::rows::{RequestRow, RequestRows};
use crate::statistics::PartStats;
use crate::summary::Window;

/// Gaps between chunks up to which decode is told by chunks.
const MAX_GAPS: u64 = 4_000_000;
/// Requests up to which there are curves.
const MAX_ROWS: usize = 4_000_000;
/// Tokens a nanosecond to tokens a second.
const PER_SECOND: f64 = 1e9;

/// One curve, over the whole window or where its requests are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    /// Requests in flight.
    Concurrency,
    /// Answer tokens a second.
    Decode,
    /// Prompt tokens a second.
    Prefill,
    /// Requests in decode.
    DecodeConcurrency,
    /// Requests in prefill.
    PrefillConcurrency,
    /// Prompt tokens and evenly spread answer tokens a second.
    Total,
    /// Answer tokens a second for each request in decode.
    DecodePerUser,
    /// Prompt tokens a second for each request in prefill.
    PrefillPerUser,
    /// Tokens that the server holds.
    TokensInFlight,
    /// [`Decode`](Self::Decode) while there are requests in decode.
    ActiveDecode,
    /// [`Prefill`](Self::Prefill) while there are requests in prefill.
    ActivePrefill,
    /// [`DecodePerUser`](Self::DecodePerUser) while there are requests in decode.
    ActiveDecodePerUser,
    /// [`PrefillPerUser`](Self::PrefillPerUser) while there are requests in prefill.
    ActivePrefillPerUser,
    /// [`Total`](Self::Total) while there are requests in flight.
    ActiveTotal,
}

/// How the pace of answer tokens was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeShape {
    /// By the gaps between chunks.
    Chunks,
    /// Evenly from the first content to the end.
    Uniform,
}

impl DecodeShape {
    /// The word files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chunks => "chunks",
            Self::Uniform => "uniform",
        }
    }
}

/// Whether N = X · R holds: what the curve of requests in flight says against what is counted of each request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LittlesLaw {
    /// Mean number of requests in flight over the window, by the curve.
    pub concurrency: f64,
    /// Requests that were sent ÷ window, requests a second.
    pub throughput: f64,
    /// Mean time from start to end of a request that was sent, seconds.
    pub time_in_flight: f64,
    /// (concurrency − throughput · time in flight) ÷ (throughput · time in flight).
    pub difference: f64,
}

/// Load over time of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct OverTime {
    curves: Vec<(Curve, PartStats)>,
    /// How the pace of answer tokens was told; absent without streams.
    pub decode: Option<DecodeShape>,
    /// Gaps between chunks of completed requests.
    pub gaps: u64,
    /// The check of the books; absent when nothing was in flight.
    pub littles_law: Option<LittlesLaw>,
    /// Latency by the number of requests in flight at the start.
    pub by_concurrency: Vec<ConcurrencyBucket>,
}

impl OverTime {
    /// Of the requests of a window. `gaps` are those between the chunks of its completed requests, one request after the other; without
    /// them there was no stream, and only what holds for any request is told. `None` for no request, no time, or too many requests.
    pub(crate) fn of(rows: &RequestRows, gaps: Option<&IntColumn>, window: Window) -> Option<Self> {
        Self::limited(rows, gaps, window, MAX_GAPS)
    }

    fn limited(rows: &RequestRows, gaps: Option<&IntColumn>, window: Window, max_gaps: u64) -> Option<Self> {
        let (start, end) = (window.start_ns, window.end_ns);
        if rows.is_empty() || rows.len() > MAX_ROWS || end <= start {
            return None;
        }
        let gaps_of = |row: &RequestRow| u64::from(row.chunks.saturating_sub(1));
        let count: u64 = rows.iter().filter(is_completed).map(|row| gaps_of(&row)).sum();
        // A column that does not belong to the rows tells nothing of them.
        let by_chunk = gaps.filter(|gaps| count > 0 && count <= max_gaps && gaps.len() as u64 == count);
        let mut curves = Vec::new();
        let mut keep = |curve: Curve, stats: Option<PartStats>| curves.extend(stats.map(|s| (curve, s)));

        let in_flight = counted(rows, |row| Some((row.start_ns, row.end_ns)));
        let mut held = Held::default();
        walk([&in_flight], start, end, |ns, [value]| held.push(value, ns, value > 0.0));
        let [concurrency, _] = held.statistics();
        keep(Curve::Concurrency, concurrency);
        if gaps.is_some() {
            let prefilling = counted(rows, |row| Some((row.start_ns, first(row)?)));
            let prefill = spread(rows, prefill_of);
            let names = [
                Curve::Prefill,
                Curve::ActivePrefill,
                Curve::PrefillConcurrency,
                Curve::PrefillPerUser,
                Curve::ActivePrefillPerUser,
            ];
            pace(&prefill, &prefilling, (start, end), names, &mut keep);
            drop((prefilling, prefill));

            let decoding = counted(rows, |row| Some((first(row)?, row.end_ns)));
            let decode = match by_chunk {
                Some(gaps) => by_gap(rows, gaps, decode_by_gap),
                None => spread(rows, decode_of),
            };
            let names = [
                Curve::Decode,
                Curve::ActiveDecode,
                Curve::DecodeConcurrency,
                Curve::DecodePerUser,
                Curve::ActiveDecodePerUser,
            ];
            pace(&decode, &decoding, (start, end), names, &mut keep);
            drop(decode);

            if !decoding.is_empty() {
                drop(decoding);
                let total = spread(rows, |row, changes| {
                    prefill_of(row, changes);
                    decode_of(row, changes);
                });
                let mut held = Held::default();
                walk([&total, &in_flight], start, end, |ns, [rate, count]| held.push(rate, ns, count > 0.0));
                let [all, active] = held.statistics().map(|s| s.map(|s| s.scaled(PER_SECOND)));
                keep(Curve::Total, all);
                keep(Curve::ActiveTotal, active);
                drop(total);

                let tokens = match by_chunk {
                    Some(gaps) => by_gap(rows, gaps, tokens_by_gap),
                    None => spread(rows, |row, changes| tokens_by_gap(row, &[], changes)),
                };
                let mut held = Held::default();
                walk([&tokens], start, end, |ns, [value]| held.push(value, ns, false));
                let [tokens, _] = held.statistics();
                keep(Curve::TokensInFlight, tokens);
            }
        }
        Some(Self {
            curves,
            decode: gaps.map(|_| if by_chunk.is_some() { DecodeShape::Chunks } else { DecodeShape::Uniform }),
            gaps: count,
            littles_law: concurrency.and_then(|c| littles_law(rows, c.avg?, end - start)),
            by_concurrency: at_start::by_concurrency(rows, gaps.is_some()),
        })
        .filter(|_| rows.is_readable())
    }

    /// Statistics of a curve in its display unit.
    pub fn get(&self, curve: Curve) -> Option<PartStats> {
        self.curves.iter().find(|(c, _)| *c == curve).map(|(_, stats)| *stats)
    }
}

fn is_completed(row: &RequestRow) -> bool {
    row.outcome == Outcome::Completed
}

/// When the first content of an answer came that came whole. What is known of others does not outlive them in AIPerf's records, nor in ours.
fn first(row: &RequestRow) -> Option<u64> {
    row.first_ns.filter(|_| is_completed(row))
}

/// How many of the requests are inside the time that `span` tells.
fn counted(rows: &RequestRows, span: impl Fn(&RequestRow) -> Option<(u64, u64)>) -> Steps {
    spread(rows, |row, changes| {
        if let Some((from, to)) = span(row) {
            changes.extend([(from, 1.0), (to, -1.0)]);
        }
    })
}

/// The sum of what each request adds at instants.
fn spread(rows: &RequestRows, add: impl Fn(&RequestRow, &mut Vec<(u64, f64)>)) -> Steps {
    let mut changes = Vec::with_capacity(rows.len() * 2);
    rows.iter().for_each(|row| add(&row, &mut changes));
    Steps::of(changes)
}

/// The same with the gaps between its chunks.
fn by_gap(
    rows: &RequestRows,
    gaps: &IntColumn,
    add: impl Fn(&RequestRow, &[u64], &mut Vec<(u64, f64)>),
) -> Steps {
    let mut changes = Vec::with_capacity(gaps.len() + rows.len() * 3);
    let mut gaps = gaps.iter();
    let mut own = Vec::new();
    for row in rows.iter().filter(is_completed) {
        own.clear();
        own.extend(gaps.by_ref().take(row.chunks.saturating_sub(1) as usize));
        add(&row, &own, &mut changes);
    }
    Steps::of(changes)
}

/// A rate over a time, which is above 0.
fn evenly(tokens: f64, from: u64, to: u64, changes: &mut Vec<(u64, f64)>) {
    if to > from {
        let rate = tokens / (to - from) as f64;
        changes.extend([(from, rate), (to, -rate)]);
    }
}

fn prefill_of(row: &RequestRow, changes: &mut Vec<(u64, f64)>) {
    if let (Some(isl), Some(first)) = (row.isl, first(row)) {
        evenly(f64::from(isl), row.start_ns, first, changes);
    }
}

/// All tokens but the first, which came at once.
fn decode_of(row: &RequestRow, changes: &mut Vec<(u64, f64)>) {
    if let (Some(osl @ 1..), Some(first)) = (row.osl, first(row)) {
        evenly(f64::from(osl - 1), first, row.end_ns, changes);
    }
}

fn decode_by_gap(row: &RequestRow, gaps: &[u64], changes: &mut Vec<(u64, f64)>) {
    let (Some(osl @ 1..), Some(mut at)) = (row.osl, first(row)) else { return };
    let with_time = gaps.iter().filter(|gap| **gap > 0).count();
    let each = f64::from(osl - 1) / with_time as f64;
    let mut rate = 0.0;
    for gap in gaps.iter().filter(|gap| **gap > 0) {
        let next = each / *gap as f64;
        changes.push((at, next - rate));
        (rate, at) = (next, at + gap);
    }
    if with_time > 0 {
        changes.push((at, -rate));
    }
}

/// What a request takes of the server's memory: its prompt from the start on, its answer as it comes, nothing after its end. One without
/// gaps has its whole answer from the first content on.
fn tokens_by_gap(row: &RequestRow, gaps: &[u64], changes: &mut Vec<(u64, f64)>) {
    let Some(first) = first(row) else { return };
    let isl = row.isl.filter(|_| first > row.start_ns).map_or(0.0, f64::from);
    let osl =
        row.osl.filter(|osl| *osl > 0 && (!gaps.is_empty() || row.end_ns > first)).map_or(0.0, f64::from);
    changes.push((row.start_ns, isl));
    if osl > 0.0 && gaps.is_empty() {
        changes.push((first, osl));
    } else if osl > 0.0 {
        changes.push((first, 1.0));
        let each = (osl - 1.0) / gaps.len() as f64;
        let mut at = first;
        for gap in gaps {
            at += gap;
            changes.push((at.min(row.end_ns), each));
        }
    }
    changes.push((row.end_ns, -(isl + osl)));
}

/// Statistics of a rate: over all time, while there are requests, of their number, and for each of them.
fn pace(
    rate: &Steps,
    requests: &Steps,
    (start, end): (u64, u64),
    [all, active, number, per_user, active_per_user]: [Curve; 5],
    keep: &mut impl FnMut(Curve, Option<PartStats>),
) {
    if requests.is_empty() {
        return;
    }
    let (mut rates, mut shares, mut numbers) = (Held::default(), Held::default(), Held::default());
    walk([rate, requests], start, end, |ns, [rate, count]| {
        let is_active = count > 0.0;
        rates.push(rate, ns, is_active);
        shares.push(if is_active { rate / count } else { 0.0 }, ns, is_active);
        numbers.push(count, ns, is_active);
    });
    for (held, names) in [(rates, [all, active]), (shares, [per_user, active_per_user])] {
        for (name, stats) in names.into_iter().zip(held.statistics()) {
            keep(name, stats.map(|s| s.scaled(PER_SECOND)));
        }
    }
    let [numbers, _] = numbers.statistics();
    keep(number, numbers);
}

fn littles_law(rows: &RequestRows, concurrency: f64, window_ns: u64) -> Option<LittlesLaw> {
    let time_ns: u128 = rows.iter().map(|row| u128::from(row.end_ns.saturating_sub(row.start_ns))).sum();
    let throughput = rows.len() as f64 / (window_ns as f64 / PER_SECOND);
    let time_in_flight = time_ns as f64 / rows.len() as f64 / PER_SECOND;
    let expected = throughput * time_in_flight;
    (expected > 0.0).then(|| LittlesLaw {
        concurrency,
        throughput,
        time_in_flight,
        difference: (concurrency - expected) / expected,
    })
}

#[cfg(test)]
mod tests;
