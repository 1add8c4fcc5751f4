//! Load over time: how many requests were in flight, in prefill and in decode, and how fast tokens went, at each instant of a window.
//!
//! The curves are AIPerf's, with one difference: the end of a failed request is when it failed. A request is in flight from its start
//! to its end. A completed one that streamed is in prefill up to its first content and in decode from there to its end; its prompt
//! tokens are spread evenly over the prefill. Its answer tokens but the first are spread over the gaps between its chunks, the same
//! number over each gap that is not 0; where there are more than [`MAX_GAPS`] gaps, or one chunk, evenly over the decode.
//!
//! Everything that happens is put in order once; all curves are read off it in two goes. Memory: 16 bytes for each start, first content,
//! end and gap, 64 more for a request and 16 for a gap, so no more than [`MAX_ROWS`] requests are looked at.

#[cfg(test)]
mod aiperf_vectors;
mod at_start;
mod flow;
mod held;

use at_start::AtStart;
pub use at_start::ConcurrencyBucket;
use flow::{Flow, LINES, Line};
use held::Held;

use aiperf_core::outcome::Outcome;

use crate::column::IntColumn;
use crate::rows::{RequestRow, RequestRows};
use crate::statistics::PartStats;
use crate::summary::Window;

/// Gaps between chunks up to which decode is told by chunks.
const MAX_GAPS: u64 = 4_000_000;
/// Requests up to which there are curves.
const MAX_ROWS: usize = 4_000_000;
/// Events up to which the values of curves are kept and sorted.
const SHORT: usize = 1 << 15;
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
        Self::told(rows, gaps, window, max_gaps, SHORT)
    }

    fn told(
        rows: &RequestRows,
        gaps: Option<&IntColumn>,
        window: Window,
        max_gaps: u64,
        short: usize,
    ) -> Option<Self> {
        if rows.is_empty() || rows.len() > MAX_ROWS || window.end_ns <= window.start_ns {
            return None;
        }
        let streams = gaps.is_some();
        let count = gaps_of(rows);
        // A column that does not belong to the rows tells nothing of them.
        let by_chunk = gaps.filter(|gaps| count > 0 && count <= max_gaps && gaps.len() as u64 == count);
        let flow = Flow::of(rows, by_chunk);
        let mut held: [Held; LINES] = std::array::from_fn(|_| Held::new(flow.len() <= short));
        let mut at_start = AtStart::default();
        let wanted = |line: Line| line == Line::Concurrency || (streams && flow.has_streams());
        let first_go = |line: Line, value: Option<f64>, ns: u64| {
            if wanted(line) {
                held[line as usize].push(value, ns);
            }
        };
        flow.walk(window, first_go, |in_flight, span| at_start.add(in_flight, span));
        held.iter_mut().for_each(Held::turn);
        let second_go = |line: Line, value: Option<f64>, ns: u64| {
            if wanted(line) {
                held[line as usize].push_again(value, ns);
            }
        };
        flow.walk(window, second_go, |_, _| {});
        drop(flow);
        let mut curves = Vec::with_capacity(14);
        for (line, held) in Line::ALL.into_iter().zip(held) {
            let (names, scale) = curves_of(line);
            for (curve, stats) in names.into_iter().zip(held.statistics()) {
                curves.extend(curve.zip(stats).map(|(curve, stats)| (curve, stats.scaled(scale))));
            }
        }
        let concurrency = curves.iter().find(|(curve, _)| *curve == Curve::Concurrency);
        let concurrency = concurrency.and_then(|(_, stats)| stats.avg);
        Some(Self {
            decode: streams.then_some(if by_chunk.is_some() {
                DecodeShape::Chunks
            } else {
                DecodeShape::Uniform
            }),
            gaps: count,
            littles_law: concurrency.and_then(|c| littles_law(rows, c, window.end_ns - window.start_ns)),
            by_concurrency: at_start.buckets(streams),
            curves,
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

/// Gaps between the chunks of completed requests.
fn gaps_of(rows: &RequestRows) -> u64 {
    rows.iter().filter(is_completed).map(|row| u64::from(row.chunks.saturating_sub(1))).sum()
}

/// What is told of a line over all time and over its active time, and its unit's factor.
const fn curves_of(line: Line) -> ([Option<Curve>; 2], f64) {
    match line {
        Line::Concurrency => ([Some(Curve::Concurrency), None], 1.0),
        Line::Prefill => ([Some(Curve::Prefill), Some(Curve::ActivePrefill)], PER_SECOND),
        Line::PrefillPerUser => {
            ([Some(Curve::PrefillPerUser), Some(Curve::ActivePrefillPerUser)], PER_SECOND)
        }
        Line::PrefillConcurrency => ([Some(Curve::PrefillConcurrency), None], 1.0),
        Line::Decode => ([Some(Curve::Decode), Some(Curve::ActiveDecode)], PER_SECOND),
        Line::DecodePerUser => ([Some(Curve::DecodePerUser), Some(Curve::ActiveDecodePerUser)], PER_SECOND),
        Line::DecodeConcurrency => ([Some(Curve::DecodeConcurrency), None], 1.0),
        Line::Total => ([Some(Curve::Total), Some(Curve::ActiveTotal)], PER_SECOND),
        Line::Tokens => ([Some(Curve::TokensInFlight), None], 1.0),
    }
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
