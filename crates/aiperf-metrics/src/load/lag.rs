//! Lags of any number of events in 2.4 KB.

/// Bits of a value that are kept below its highest one: a bucket is an eighth of its power of two wide.
const FINE_BITS: u32 = 3;
const FINE: usize = 1 << FINE_BITS;
/// Lags from 2⁴⁰ ns (18 minutes) up share the last bucket.
const HIGHEST_BIT: u32 = 39;
const BUCKETS: usize = FINE * (HIGHEST_BIT - FINE_BITS + 2) as usize;

/// A histogram of nanoseconds with buckets that grow with the value. A quantile is the upper edge of its bucket, so it is never
/// told too small and at most an eighth too large; count and maximum are exact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LagHistogram {
    counts: Box<[u64; BUCKETS]>,
    count: u64,
    max_ns: u64,
}

impl Default for LagHistogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]), count: 0, max_ns: 0 }
    }
}

impl LagHistogram {
    /// Counts one lag.
    pub fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Takes in what another one counted.
    pub fn merge(&mut self, other: &Self) {
        for (ours, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *ours += theirs;
        }
        self.count += other.count;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Lags counted.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The largest, exact; `None` when there is none.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }

    /// A lag that the share `q` (0 to 1) of all does not pass; `None` when there is none.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        // The smallest rank with at least this share at or below it, from 1.
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut below = 0;
        let at = self.counts.iter().position(|n| {
            below += n;
            below >= rank
        })?;
        Some(upper_edge(at).min(self.max_ns))
    }
}

/// Values below 8 have a bucket each; from there on a power of two has eight.
fn bucket(ns: u64) -> usize {
    if ns < FINE as u64 {
        return ns as usize;
    }
    let high = ns.ilog2();
    if high > HIGHEST_BIT {
        return BUCKETS - 1;
    }
    let step = high - FINE_BITS;
    let fine = (ns >> step) as usize - FINE;
    FINE * (step as usize + 1) + fine
}

/// The largest value of a bucket; the last one has none.
fn upper_edge(at: usize) -> u64 {
    if at < FINE {
        return at as u64;
    }
    if at == BUCKETS - 1 {
        return u64::MAX;
    }
    let step = at / FINE - 1;
    (((FINE + at % FINE + 1) as u64) << step) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_worked_example() {
        let mut lags = LagHistogram::default();
        assert_eq!((lags.quantile_ns(0.5), lags.max_ns(), lags.count()), (None, None, 0));
        // 100 lies in 96..=103: 2⁶ in eighths of 8.
        for ns in [5, 100, 100, 1000] {
            lags.add(ns);
        }
        assert_eq!(lags.quantile_ns(0.25), Some(5));
        assert_eq!(lags.quantile_ns(0.5), Some(103));
        assert_eq!(lags.quantile_ns(1.0), Some(1000), "no more than the largest");
        lags.add(u64::MAX);
        assert_eq!(lags.quantile_ns(1.0), Some(u64::MAX));
    }

    #[test]
    fn buckets_join_without_gap_or_overlap() {
        for at in 0..BUCKETS - 1 {
            let edge = upper_edge(at);
            assert_eq!((bucket(edge), bucket(edge + 1)), (at, at + 1), "{edge}");
        }
    }

    fn lags() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::vec(prop_oneof![0u64..20, 0u64..1_000_000, any::<u64>()], 0..60)
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_a_sort_and_at_most_an_eighth_more(a in lags(), b in lags(), q in 0.0f64..=1.0) {
            let (mut one, mut other) = (LagHistogram::default(), LagHistogram::default());
            for ns in &a {
                one.add(*ns);
            }
            for ns in &b {
                other.add(*ns);
            }
            one.merge(&other);
            let mut all = [a, b].concat();
            all.sort_unstable();
            prop_assert_eq!(one.count(), all.len() as u64);
            prop_assert_eq!(one.max_ns(), all.last().copied());
            let rank = ((q * all.len() as f64).ceil() as usize).max(1);
            match (one.quantile_ns(q), all.get(rank - 1).copied()) {
                (Some(told), Some(true_ns)) => {
                    prop_assert!(told >= true_ns, "{} {}", told, true_ns);
                    if true_ns < 1 << 40 {
                        prop_assert!(told <= true_ns + true_ns / 8, "{} {}", told, true_ns);
                    }
                }
                (told, true_ns) => prop_assert_eq!(told, true_ns),
            }
        }
    }
}
