//! The part of a run in which load and answers had settled: behind the ramp-up, before the drain.
//!
//! Time is cut into bins of about five completions each. The window begins where requests in flight have come to nine tenths of their usual number
//! and the completions of the bins have settled by MSER-5 (White, "An effective truncation heuristic for bias reduction in
//! simulation output", Simulation 69, 1997; batches of five by White, Cobb and Spratt, 2000): the start that leaves the mean of the rest
//! the smallest standard error. It ends where the last request was sent, where requests in flight fall below nine tenths for good, or where MSER-5 of the
//! series read backwards has it, whichever is first.

use aiperf_core::outcome::Outcome;

use crate::intervals::shares;
use crate::latencies::Latencies;
use crate::rows::RequestRow;
use crate::store::Disk;
use crate::summary::Stats;

/// Completions of a bin, about.
const BATCH: u64 = 5;
const LEAST_BINS: usize = 20;
const MOST_BINS: usize = 400;
/// Share of the usual number in flight that counts as having come to it.
const REACHED: f64 = 0.9;
/// Bins of a window, at least.
const LEAST_WINDOW: usize = 10;
/// Completions in it, at least.
const LEAST_COMPLETED: u64 = 50;

/// Whether a run had settled.
#[derive(Debug, Clone, PartialEq)]
pub enum Steadiness {
    /// For this time.
    Steady(Box<SteadyState>),
    /// It had not.
    No(NotSteady),
}

/// Why there is no such part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotSteady {
    /// So many completed requests, of at least so many.
    TooShort {
        /// Completed requests.
        completed: u64,
        /// Needed.
        needed: u64,
    },
    /// Completions went on changing beyond the middle of the run, or what had settled was too short.
    NotSettled,
    /// There were several measured phases, each with a load of its own.
    SeveralPhases,
    /// What was measured cannot be read back.
    Unreadable,
}

impl NotSteady {
    /// One sentence.
    pub fn words(&self) -> String {
        match self {
            Self::TooShort { completed, needed } => {
                format!("{completed} requests completed, and it takes {needed} to tell")
            }
            Self::NotSettled => "the rate of completions did not settle".to_owned(),
            Self::SeveralPhases => "several phases were measured, each with a load of its own".to_owned(),
            Self::Unreadable => "measured values cannot be read back".to_owned(),
        }
    }
}

/// The settled part of a run. Work is where it happened: completions at their end, tokens at their chunk; latencies are those of the
/// requests that were sent in it.
#[derive(Debug, Clone, PartialEq)]
pub struct SteadyState {
    /// Where it begins, nanoseconds from the first request sent.
    pub start_ns: u64,
    /// Where it ends, nanoseconds from the first request sent.
    pub end_ns: u64,
    /// The first request sent.
    pub origin_ns: u64,
    /// From the first request sent to the last end, nanoseconds.
    pub whole_ns: u64,
    /// What it begins with, in words.
    pub from: &'static str,
    /// What ends it, in words.
    pub until: &'static str,
    /// Requests in flight, average over its time.
    pub concurrency: f64,
    /// Requests that completed in it.
    pub completed: u64,
    /// Completions a second.
    pub request_throughput: f64,
    /// Output tokens a second; absent where answers are not counted or their times are not known.
    pub output_token_throughput: Option<f64>,
    /// Of the completed requests that were sent in it, display unit: `request_latency`, and of streams `time_to_first_token` and
    /// `inter_token_latency`.
    pub latencies: Vec<(&'static str, Stats)>,
}

/// Requests by bins of time.
#[derive(Debug)]
pub(crate) struct Finder {
    start_ns: u64,
    end_ns: u64,
    width_ns: u64,
    completed: u64,
    completions: Vec<f64>,
    busy: Busy,
    last_start_ns: u64,
}

/// Time in flight by bins, nanoseconds: of bins that a request fills, how many begin and end; of others, the part.
#[derive(Debug, Clone)]
pub(crate) struct Busy {
    start_ns: u64,
    width_ns: u64,
    parts: Vec<u64>,
    steps: Vec<i64>,
}

impl Busy {
    pub(crate) fn new(start_ns: u64, width_ns: u64, bins: usize) -> Self {
        Self { start_ns, width_ns, parts: vec![0; bins], steps: vec![0; bins + 1] }
    }

    pub(crate) fn bin(&self, at_ns: u64) -> usize {
        ((at_ns.saturating_sub(self.start_ns) / self.width_ns) as usize).min(self.parts.len() - 1)
    }

    pub(crate) fn add(&mut self, from_ns: u64, to_ns: u64) {
        let (first, last) = (self.bin(from_ns), self.bin(to_ns));
        let edge = |bin: usize| self.start_ns + bin as u64 * self.width_ns;
        if first == last {
            self.parts[first] += to_ns - from_ns;
        } else {
            self.parts[first] += edge(first + 1) - from_ns;
            self.parts[last] += to_ns - edge(last);
            self.steps[first + 1] += 1;
            self.steps[last] -= 1;
        }
    }

    /// Of each bin.
    pub(crate) fn times(&self) -> Vec<u64> {
        let mut whole = 0;
        let time = |(part, step): (&u64, &i64)| {
            whole += step;
            part + whole as u64 * self.width_ns
        };
        self.parts.iter().zip(&self.steps).map(time).collect()
    }
}

/// A window that was found: bins from the first to the last, both in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    first: usize,
    last: usize,
    from: &'static str,
    until: &'static str,
}

impl Finder {
    /// For so many completed requests between these stamps.
    pub(crate) fn new(start_ns: u64, end_ns: u64, completed: u64) -> Self {
        let bins = ((completed / BATCH) as usize).clamp(LEAST_BINS, MOST_BINS);
        let width_ns = end_ns.saturating_sub(start_ns) / bins as u64 + 1;
        Self {
            start_ns,
            end_ns,
            width_ns,
            completed,
            completions: vec![0.0; bins],
            busy: Busy::new(start_ns, width_ns, bins),
            last_start_ns: start_ns,
        }
    }

    pub(crate) fn add(&mut self, row: &RequestRow) {
        self.busy.add(row.start_ns, row.end_ns.max(row.start_ns));
        self.last_start_ns = self.last_start_ns.max(row.start_ns);
        if row.outcome == Outcome::Completed {
            let bin = self.busy.bin(row.end_ns);
            self.completions[bin] += 1.0;
        }
    }

    /// Where the run had settled.
    pub(crate) fn find(&self) -> Result<Found, NotSteady> {
        let needed = BATCH * LEAST_BINS as u64;
        if self.completed < needed {
            return Err(NotSteady::TooShort { completed: self.completed, needed });
        }
        let times: Vec<u64> = self.busy.times();
        let mut middle = times[times.len() / 4..times.len() * 3 / 4].to_vec();
        middle.sort_unstable();
        let enough = (middle[middle.len() / 2] as f64 * REACHED) as u64;
        let is_reached = |time: &u64| *time >= enough;
        let (Some(reached), Some(left)) =
            (times.iter().position(is_reached), times.iter().rposition(is_reached))
        else {
            return Err(NotSteady::NotSettled);
        };
        let sent = self.busy.bin(self.last_start_ns);
        let (end, until) = [
            (sent, "the last request was sent"),
            (left, "requests in flight fell below nine tenths of their usual number"),
        ]
        .into_iter()
        .min_by_key(|(at, _)| *at)
        .unwrap_or_default();
        let settled = mser(&self.completions[..=end]).ok_or(NotSteady::NotSettled)?;
        let (first, from) = [
            (reached, "requests in flight had come to nine tenths of their usual number"),
            (settled, "completions had settled (MSER-5)"),
        ]
        .into_iter()
        .max_by_key(|(at, _)| *at)
        .unwrap_or_default();
        let mut back: Vec<f64> = self.completions.get(first..=end).ok_or(NotSteady::NotSettled)?.to_vec();
        back.reverse();
        let dropped = mser(&back).ok_or(NotSteady::NotSettled)?;
        let until = if dropped > 0 { "completions began to change again (MSER-5)" } else { until };
        let found = Found { first, last: end - dropped, from, until };
        let completed: f64 = self.completions[first..=found.last].iter().sum();
        if found.last + 1 - first < LEAST_WINDOW || completed < LEAST_COMPLETED as f64 {
            return Err(NotSteady::NotSettled);
        }
        Ok(found)
    }
}

/// How many of the first values to drop, so that the mean of the others has the smallest standard error; `None` when that is half of them
/// or more, which says that they had not settled.
fn mser(values: &[f64]) -> Option<usize> {
    let n = values.len();
    let most = n / 2;
    // From the end on, so that each sum is the one before and a value.
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for at in (0..n).rev() {
        sum += values[at];
        squares += values[at] * values[at];
        let left = (n - at) as f64;
        let error = (squares - sum * sum / left).max(0.0) / (left * left);
        // Of equals the one that drops least.
        if at <= most && error <= best.0 {
            best = (error, at);
        }
    }
    (n > 0 && best.1 < most.max(1)).then_some(best.1)
}

/// Statistics of a window that was found.
#[derive(Debug)]
pub(crate) struct Gatherer {
    found: Found,
    origin_ns: u64,
    whole_ns: u64,
    start_ns: u64,
    end_ns: u64,
    busy_ns: u128,
    completed: u64,
    tokens: u64,
    counted: bool,
    latencies: Latencies,
}

impl Gatherer {
    pub(crate) fn new(finder: &Finder, found: Found, disk: Option<&Disk>) -> Self {
        let edge = |bin: usize| finder.start_ns + bin as u64 * finder.width_ns;
        Self {
            found,
            origin_ns: finder.start_ns,
            whole_ns: finder.end_ns - finder.start_ns,
            start_ns: edge(found.first),
            end_ns: edge(found.last + 1).min(finder.end_ns),
            busy_ns: 0,
            completed: 0,
            tokens: 0,
            counted: false,
            latencies: Latencies::on(disk),
        }
    }

    fn has(&self, at_ns: u64) -> bool {
        (self.start_ns..self.end_ns).contains(&at_ns)
    }

    pub(crate) fn add(&mut self, row: &RequestRow, chunks: &[u64]) {
        let (from, to) = (row.start_ns.max(self.start_ns), row.end_ns.min(self.end_ns));
        self.busy_ns += u128::from(to.saturating_sub(from));
        if row.outcome != Outcome::Completed {
            return;
        }
        self.completed += u64::from(self.has(row.end_ns));
        self.counted |= row.osl.is_some();
        self.tokens += shares(row, chunks).filter(|(at, _)| self.has(*at)).map(|(_, n)| n).sum::<u64>();
        if self.has(row.start_ns) {
            self.latencies.add(row);
        }
    }

    pub(crate) fn finish(self, is_streaming: bool) -> SteadyState {
        let seconds = (self.end_ns - self.start_ns) as f64 * 1e-9;
        SteadyState {
            start_ns: self.start_ns - self.origin_ns,
            end_ns: self.end_ns - self.origin_ns,
            origin_ns: self.origin_ns,
            whole_ns: self.whole_ns,
            from: self.found.from,
            until: self.found.until,
            concurrency: self.busy_ns as f64 * 1e-9 / seconds,
            completed: self.completed,
            request_throughput: self.completed as f64 / seconds,
            output_token_throughput: self.counted.then(|| self.tokens as f64 / seconds),
            latencies: self.latencies.stats(is_streaming),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(start_ns: u64, end_ns: u64) -> RequestRow {
        RequestRow {
            outcome: Outcome::Completed,
            start_ns,
            end_ns,
            first_ns: Some(start_ns + 1),
            last_ns: Some(end_ns),
            osl: Some(10),
            ..RequestRow::default()
        }
    }

    fn found(rows: &[RequestRow]) -> Result<SteadyState, NotSteady> {
        let start = rows.iter().map(|r| r.start_ns).min().unwrap_or(0);
        let end = rows.iter().map(|r| r.end_ns).max().unwrap_or(0);
        let mut finder = Finder::new(start, end, rows.len() as u64);
        for row in rows {
            finder.add(row);
        }
        let mut gatherer = Gatherer::new(&finder, finder.find()?, None);
        for row in rows {
            gatherer.add(row, &[row.end_ns]);
        }
        Ok(gatherer.finish(true))
    }

    /// `users` who begin one after the other over the first 200 ms, each with a request every 100 ms that takes all of it, until 2 s.
    fn ramped(users: u64) -> Vec<RequestRow> {
        const MS: u64 = 1_000_000;
        (0..users)
            .flat_map(|user| {
                let first = 200 * MS * user / users;
                (0..20).map(move |i| request(first + i * 100 * MS, first + (i + 1) * 100 * MS - 1))
            })
            .collect()
    }

    #[test]
    fn ramp_and_drain_are_left_out() {
        let steady = found(&ramped(40)).expect("steady");
        let ms = |ns: u64| ns as f64 / 1e6;
        assert!((100.0..400.0).contains(&ms(steady.start_ns)), "{}", ms(steady.start_ns));
        assert!((1700.0..2110.0).contains(&ms(steady.end_ns)), "{}", ms(steady.end_ns));
        // Forty users, each with ten requests of ten tokens a second.
        assert!((steady.request_throughput - 400.0).abs() < 12.0, "{}", steady.request_throughput);
        assert!((steady.output_token_throughput.expect("counted") - 4000.0).abs() < 120.0);
        assert!((steady.concurrency - 40.0).abs() < 1.0, "{}", steady.concurrency);
        // Over the whole run it would be less: 800 requests in 2.295 s are 349 a second.
        assert_eq!(steady.latencies[0].1.get("max"), Some(99.999_999));
    }

    #[test]
    fn a_run_that_is_short_or_never_settles_has_none() {
        let few = ramped(2);
        assert_eq!(found(&few), Err(NotSteady::TooShort { completed: 40, needed: 100 }));
        // Twice as fast all the time: arrivals at the square root.
        let faster: Vec<_> = (0..2000u64)
            .map(|i| {
                let at = ((i * 1_000_000_000_000) as f64).sqrt() as u64;
                request(at, at + 1000)
            })
            .collect();
        assert_eq!(found(&faster), Err(NotSteady::NotSettled));
        assert!(NotSteady::NotSettled.words().contains("settle"));
    }

    #[test]
    fn mser_of_a_worked_series() {
        // Without the 9: no spread at all.
        assert_eq!(mser(&[9.0, 1.0, 1.0, 1.0, 1.0, 1.0]), Some(1));
        assert_eq!(mser(&[1.0; 8]), Some(0));
        assert_eq!(
            mser(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
            None,
            "the less the better until the middle"
        );
        assert_eq!(mser(&[]), None);
    }

    proptest! {
        #[test]
        fn mser_is_what_its_definition_says(values in proptest::collection::vec(0u8..20, 1..60)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let n = values.len();
            let error = |d: usize| {
                let rest = &values[d..];
                let mean = rest.iter().sum::<f64>() / rest.len() as f64;
                rest.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (rest.len() as f64).powi(2)
            };
            let least = (0..=n / 2).map(error).fold(f64::INFINITY, f64::min);
            match mser(&values) {
                Some(d) => prop_assert!(error(d) <= least + 1e-9),
                None => prop_assert!((0..(n / 2).max(1)).all(|d| error(d) >= least - 1e-9) && error(n / 2) <= least + 1e-9),
            }
        }

        #[test]
        fn time_in_flight_is_where_it_was(spans in proptest::collection::vec((0u64..1000, 0u64..1000), 1..40), width in 1u64..200) {
            let bins = (1000 / width + 1) as usize;
            let mut busy = Busy::new(0, width, bins);
            let mut slow = vec![0u64; bins];
            for (a, b) in spans {
                let (from, to) = (a.min(b), a.max(b));
                busy.add(from, to);
                (from..to).for_each(|ns| slow[(ns / width) as usize] += 1);
            }
            prop_assert_eq!(busy.times(), slow);
        }
    }
}
