//! Sums, moments and percentiles that agree with numpy to the last bit.
//!
//! - Sum: pairwise, blocks of 128 with eight running sums, halves rounded down to a multiple of eight (numpy's scheme).
//! - Mean: that sum divided by n. Standard deviation: population (divisor n), squares of differences from the mean, summed pairwise.
//! - Percentile q of n sorted values: rank `(n − 1)·q/100`, linear between neighbours, taken from the nearer end (numpy's `linear`).

/// Percentiles every distribution has.
pub const PERCENTILES: [f64; 9] = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0];

/// Names of the statistics of a distribution in the order of AIPerf's JSON.
pub const STATISTICS: [&str; 15] =
    ["avg", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "min", "max", "std", "count", "sum"];

/// Names of the statistics in the order of AIPerf's CSV columns.
pub const STAT_NAMES: [&str; 14] =
    ["avg", "min", "max", "sum", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "std"];

const BLOCK: usize = 128;

/// Sum of the next `n` values of `next`, added in numpy's order.
pub fn pairwise_sum(n: usize, next: &mut impl FnMut() -> f64) -> f64 {
    if n < 8 {
        return (0..n).fold(0.0, |sum, _| sum + next());
    }
    if n <= BLOCK {
        let mut r: [f64; 8] = std::array::from_fn(|_| next());
        let whole = n - n % 8;
        for _ in 1..whole / 8 {
            for slot in &mut r {
                *slot += next();
            }
        }
        let sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        return (whole..n).fold(sum, |sum, _| sum + next());
    }
    let half = n / 2;
    let half = half - half % 8;
    let left = pairwise_sum(half, next);
    left + pairwise_sum(n - half, next)
}

/// Population standard deviation of the `n` values of `values` around `mean`; 0 for an empty column.
pub(crate) fn population_std(n: usize, mean: f64, mut values: impl Iterator<Item = f64>) -> f64 {
    if n == 0 {
        return 0.0;
    }
    let mut square = || {
        let d = values.next().unwrap_or(mean) - mean;
        d * d
    };
    (pairwise_sum(n, &mut square) / n as f64).sqrt()
}

/// Where a percentile sits: the two neighbouring ranks and the way between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rank {
    pub(crate) low: usize,
    pub(crate) high: usize,
    way: f64,
}

impl Rank {
    /// Rank of percentile `q` (0 to 100) among `n` > 0 values.
    pub(crate) fn of(q: f64, n: usize) -> Self {
        let last = n - 1;
        let at = last as f64 * (q / 100.0);
        let low = (at.floor() as usize).min(last);
        Self { low, high: (low + 1).min(last), way: at - low as f64 }
    }

    /// The value between the two neighbours.
    pub(crate) fn between(self, low: f64, high: f64) -> f64 {
        let step = high - low;
        if self.way >= 0.5 { high - step * (1.0 - self.way) } else { low + step * self.way }
    }
}

/// Percentile `q` (0 to 100) of sorted values; `None` when there are none.
pub fn percentile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    if sorted.is_empty() {
        return None;
    }
    let rank = Rank::of(q, sorted.len());
    Some(rank.between(sorted[rank.low], sorted[rank.high]))
}

/// Statistics of a metric with one value per request (or per chunk gap).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distribution {
    /// Mean.
    pub avg: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Population standard deviation.
    pub std: f64,
    /// Values of [`PERCENTILES`], in their order.
    pub percentiles: [f64; 9],
    /// Sum.
    pub sum: f64,
    /// Number of values.
    pub count: u64,
}

impl Distribution {
    /// The same in another unit.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        for value in [&mut self.avg, &mut self.min, &mut self.max, &mut self.std, &mut self.sum] {
            *value *= factor;
        }
        for value in &mut self.percentiles {
            *value *= factor;
        }
        self
    }

    /// A statistic by its name in files (`avg`, `p50`, `std`, `count` …).
    pub fn get(&self, name: &str) -> Option<f64> {
        Some(match name {
            "avg" => self.avg,
            "min" => self.min,
            "max" => self.max,
            "std" => self.std,
            "sum" => self.sum,
            "count" => self.count as f64,
            _ => {
                let q: f64 = name.strip_prefix('p')?.parse().ok()?;
                #[expect(clippy::float_cmp, reason = "both sides are small whole numbers")]
                let at = PERCENTILES.iter().position(|p| *p == q)?;
                self.percentiles[at]
            }
        })
    }

    /// Median.
    pub const fn p50(&self) -> f64 {
        self.percentiles[4]
    }

    /// 90th percentile.
    pub const fn p90(&self) -> f64 {
        self.percentiles[6]
    }

    /// 99th percentile.
    pub const fn p99(&self) -> f64 {
        self.percentiles[8]
    }
}

/// Statistics of which some cannot be made; those are absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PartStats {
    /// Mean.
    pub avg: Option<f64>,
    /// Smallest.
    pub min: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Standard deviation.
    pub std: Option<f64>,
    /// Those of [`PERCENTILES`], in their order.
    pub percentiles: [Option<f64>; 9],
    /// Number of values.
    pub count: Option<u64>,
}

impl PartStats {
    /// The same in another unit.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        let own = [&mut self.avg, &mut self.min, &mut self.max, &mut self.std];
        for value in own.into_iter().chain(&mut self.percentiles) {
            *value = value.map(|v| v * factor);
        }
        self
    }

    /// A statistic by its name in files.
    pub fn get(&self, name: &str) -> Option<f64> {
        match name {
            "avg" => self.avg,
            "min" => self.min,
            "max" => self.max,
            "std" => self.std,
            "count" => self.count.map(|n| n as f64),
            _ => {
                let q: f64 = name.strip_prefix('p')?.parse().ok()?;
                #[expect(clippy::float_cmp, reason = "both sides are small whole numbers")]
                let at = PERCENTILES.iter().position(|p| *p == q)?;
                self.percentiles[at]
            }
        }
    }
}

/// The rank that is nearest to percentile `q` (0 to 100) of `n` > 0 values, halves to the even one: numpy's `nearest`.
pub(crate) fn nearest_rank(q: f64, n: usize) -> usize {
    (((n - 1) as f64 * (q / 100.0)).round_ties_even() as usize).min(n - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule read off the definition: nearest ranks found by counting, no index arithmetic shared with the code.
    fn slow_percentile(values: &[f64], q: f64) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = (sorted.len() - 1) as f64 * q / 100.0;
        let below = sorted.iter().enumerate().filter(|(i, _)| *i as f64 <= at).map(|(_, v)| *v).next_back();
        let above = sorted.iter().enumerate().find(|(i, _)| *i as f64 >= at).map(|(_, v)| *v);
        let (below, above) =
            (below.expect("rank 0 is never above"), above.expect("the last rank is never below"));
        below + (above - below) * (at - at.floor())
    }

    #[test]
    fn a_worked_example() {
        // Ranks of 4 values: p25 → 0.75, p50 → 1.5, p90 → 2.7.
        let sorted = [10.0, 20.0, 40.0, 80.0];
        assert_eq!(percentile_of_sorted(&sorted, 25.0), Some(17.5));
        assert_eq!(percentile_of_sorted(&sorted, 50.0), Some(30.0));
        assert_eq!(percentile_of_sorted(&sorted, 90.0), Some(68.0));
        assert_eq!(percentile_of_sorted(&sorted, 100.0), Some(80.0));
        assert_eq!(percentile_of_sorted(&[], 50.0), None);
        // Mean 37.5, squares of differences 756.25 + 306.25 + 6.25 + 1806.25 = 2875, divided by 4.
        assert_eq!(population_std(4, 37.5, sorted.into_iter()).to_bits(), 718.75f64.sqrt().to_bits());
    }

    #[test]
    fn every_name_of_a_statistic_is_known() {
        let values = Distribution {
            avg: 1.0,
            min: 2.0,
            max: 3.0,
            std: 4.0,
            percentiles: [5.0; 9],
            sum: 6.0,
            count: 7,
        };
        for name in STAT_NAMES {
            assert!(values.get(name).is_some(), "{name}");
        }
        assert_eq!(values.get("p50"), Some(5.0));
        assert_eq!(values.get("p33"), None);
        assert_eq!(values.get("mean"), None);
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_a_plain_sort(
            values in proptest::collection::vec(-1e6f64..1e6, 1..200),
            q in 0u8..=100
        ) {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let fast = percentile_of_sorted(&sorted, q.into()).expect("values");
            let slow = slow_percentile(&values, q.into());
            prop_assert!((fast - slow).abs() <= 1e-9 * slow.abs().max(1.0), "{fast} {slow}");
        }

        #[test]
        fn pairwise_is_the_sum(values in proptest::collection::vec(0u32..1_000_000, 0..2000)) {
            let mut reals = values.iter().map(|v| f64::from(*v));
            let sum = pairwise_sum(values.len(), &mut || reals.next().expect("as many as asked"));
            prop_assert_eq!(reals.next(), None);
            // Whole numbers below 2⁵³: every order gives the same.
            prop_assert_eq!(sum as u64, values.iter().map(|v| u64::from(*v)).sum::<u64>());
        }
    }
}
