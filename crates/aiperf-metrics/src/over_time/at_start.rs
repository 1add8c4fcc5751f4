//! Latency against the load that a request met.

use super::flow::Span;

/// Completed requests that started while so many were in flight, themselves included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConcurrencyBucket {
    /// The fewest in flight: 1, 2, 4, 8 …
    pub from: u64,
    /// The most in flight: 1, 3, 7, 15 …
    pub to: u64,
    /// How many there are.
    pub requests: u64,
    /// Mean time to the first content, nanoseconds; of streams alone.
    pub first_ns: Option<f64>,
    /// Mean time to the last content, nanoseconds.
    pub latency_ns: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    requests: u64,
    first_ns: u128,
    latency_ns: u128,
    answered: u64,
}

/// Requests by how many were in flight as they started.
#[derive(Debug, Default)]
pub(super) struct AtStart(Vec<Sums>);

impl AtStart {
    /// A request started, and with it so many were in flight.
    pub(super) fn add(&mut self, in_flight: u64, span: &Span) {
        if !span.is_completed {
            return;
        }
        // One that took no time is over as it begins, and was there all the same.
        let at = in_flight.max(1).ilog2() as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, Sums::default());
        }
        let sums = &mut self.0[at];
        sums.requests += 1;
        if let Some((first, last)) = span.content() {
            sums.answered += 1;
            sums.first_ns += u128::from(first.saturating_sub(span.start));
            sums.latency_ns += u128::from(last.saturating_sub(span.start));
        }
    }

    /// Buckets in rising order, each twice as wide as the one before; those without a request are not there.
    pub(super) fn buckets(self, streams: bool) -> Vec<ConcurrencyBucket> {
        let mean = |sum: u128, n: u64| (n > 0).then(|| sum as f64 / n as f64);
        self.0
            .into_iter()
            .enumerate()
            .filter(|(_, sums)| sums.requests > 0)
            .map(|(at, sums)| ConcurrencyBucket {
                from: 1 << at,
                to: (2 << at) - 1,
                requests: sums.requests,
                first_ns: mean(sums.first_ns, sums.answered).filter(|_| streams),
                latency_ns: mean(sums.latency_ns, sums.answered),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::over_time::flow::Flow;
    use crate::rows::{RequestRow, RequestRows};
    use crate::summary::Window;
    use proptest::prelude::*;

    fn by_concurrency(rows: &RequestRows, streams: bool) -> Vec<ConcurrencyBucket> {
        let mut at_start = AtStart::default();
        Flow::of(rows, None).walk(Window::new(0, 1), |_, _, _| {}, |n, span| at_start.add(n, span));
        at_start.buckets(streams)
    }

    fn row(start_ns: u64, length: u64) -> RequestRow {
        let (end_ns, last_ns) = (start_ns + length, Some(start_ns + length));
        RequestRow {
            start_ns,
            end_ns,
            first_ns: Some(start_ns + length / 2),
            last_ns,
            ..RequestRow::default()
        }
    }

    fn rows(spans: &[(u64, u64)]) -> RequestRows {
        let mut rows = RequestRows::default();
        for (start, length) in spans {
            rows.push(&row(*start, *length));
        }
        rows
    }

    #[test]
    fn a_worked_example() {
        // Alone; then two at 100 and 110; the last of three at 120.
        let found = by_concurrency(&rows(&[(0, 40), (100, 60), (110, 80), (120, 100)]), true);
        let bucket = |from, to, requests, first_ns, latency_ns| ConcurrencyBucket {
            from,
            to,
            requests,
            first_ns: Some(first_ns),
            latency_ns: Some(latency_ns),
        };
        assert_eq!(found, [bucket(1, 1, 2, 25.0, 50.0), bucket(2, 3, 2, 45.0, 90.0)]);
        assert_eq!(by_concurrency(&RequestRows::default(), true), []);
    }

    proptest! {
        #[test]
        fn each_request_is_where_a_count_of_the_others_puts_it(spans in proptest::collection::vec((0u64..50, 0u64..30), 0..30)) {
            let mut slow = std::collections::BTreeMap::<u32, (u64, u64)>::new();
            for (start, length) in &spans {
                let there = spans.iter().filter(|(s, l)| s <= start && s + l > *start).count().max(1);
                let entry = slow.entry(there.ilog2()).or_default();
                *entry = (entry.0 + 1, entry.1 + length);
            }
            let fast: Vec<(u64, u64, f64)> = by_concurrency(&rows(&spans), false)
                .iter()
                .map(|b| (b.from, b.requests, b.latency_ns.expect("an answer")))
                .collect();
            let slow: Vec<(u64, u64, f64)> =
                slow.iter().map(|(at, (n, sum))| (1 << at, *n, *sum as f64 / *n as f64)).collect();
            prop_assert_eq!(fast, slow);
        }
    }
}
