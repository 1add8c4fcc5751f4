//! Exact statistics of any number of values from how often each came.

use rustc_hash::FxHashMap;
use serde::Serialize;

/// Statistics of values: numpy's linear percentiles and the standard deviation of a population.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stats {
    /// Arithmetic mean.
    pub mean: f64,
    /// Square root of the mean squared distance from the mean.
    pub std_dev: f64,
    /// Least.
    pub min: f64,
    /// 25th percentile.
    pub p25: f64,
    /// 50th percentile.
    pub median: f64,
    /// 75th percentile.
    pub p75: f64,
    /// Greatest.
    pub max: f64,
}

/// Fractions of whole numbers and how often each came; whole numbers are fractions over 1.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    times: FxHashMap<(u64, u32), u64>,
    n: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, value: u64) {
        self.add_share(value, 1);
    }

    /// `part` of `whole`, which is not 0.
    pub(crate) fn add_share(&mut self, part: u64, whole: u32) {
        *self.times.entry((part, whole)).or_default() += 1;
        self.n += 1;
    }

    /// The values, least first, and how often each came.
    fn sorted(&self) -> Vec<(f64, u64)> {
        let value = |(part, whole): (u64, u32)| part as f64 / f64::from(whole);
        let mut sorted: Vec<(f64, u64)> = self.times.iter().map(|(key, n)| (value(*key), *n)).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        sorted
    }

    /// The mean: parts of one whole are summed as whole numbers.
    pub(crate) fn mean(&self) -> Option<f64> {
        let mut sums: FxHashMap<u32, u128> = FxHashMap::default();
        for ((part, whole), n) in &self.times {
            *sums.entry(*whole).or_default() += u128::from(*part) * u128::from(*n);
        }
        let mut sums: Vec<(u32, u128)> = sums.into_iter().collect();
        sums.sort_unstable();
        let sum: f64 = sums.iter().map(|(whole, sum)| *sum as f64 / f64::from(*whole)).sum();
        (self.n > 0).then(|| sum / self.n as f64)
    }

    /// Nothing of no values.
    pub(crate) fn stats(&self) -> Option<Stats> {
        let mean = self.mean()?;
        let sorted = self.sorted();
        let squares: f64 = sorted.iter().map(|(value, n)| (value - mean).powi(2) * *n as f64).sum();
        let [(min, _), ..] = sorted[..] else { return None };
        let max = sorted[sorted.len() - 1].0;
        let quarter = |quarters| self.quartile(&sorted, quarters);
        Some(Stats {
            mean,
            std_dev: (squares / self.n as f64).sqrt(),
            min,
            p25: quarter(1),
            median: quarter(2),
            p75: quarter(3),
            max,
        })
    }

    fn quartile(&self, sorted: &[(f64, u64)], quarters: u64) -> f64 {
        let place = u128::from(self.n - 1) * u128::from(quarters);
        let (at, part) = ((place / 4) as u64, (place % 4) as f64 / 4.0);
        let low = ranked(sorted, at);
        let high = ranked(sorted, (at + 1).min(self.n - 1));
        between(low, high, part)
    }
}

/// `part` of the way from `low` to `high`, from the nearer end, as numpy does.
pub(crate) fn between(low: f64, high: f64, part: f64) -> f64 {
    if part < 0.5 { low + (high - low) * part } else { high - (high - low) * (1.0 - part) }
}

/// The value at place `at` of all.
fn ranked(sorted: &[(f64, u64)], at: u64) -> f64 {
    let mut passed = 0;
    for (value, n) in sorted {
        passed += n;
        if at < passed {
            return *value;
        }
    }
    sorted.last().map_or(0.0, |(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn by_hand() {
        let mut counts = Counts::default();
        assert_eq!(counts.stats(), None);
        for value in [4, 2, 4, 6] {
            counts.add(value);
        }
        let told = counts.stats().expect("four values");
        let wanted =
            Stats { mean: 4.0, std_dev: 2f64.sqrt(), min: 2.0, p25: 3.5, median: 4.0, p75: 4.5, max: 6.0 };
        assert_eq!(told, wanted);
    }

    proptest! {
        /// Against a sorted list of all values.
        #[test]
        fn counts_are_as_good_as_the_values(shares in prop::collection::vec((0..50u64, 1..12u32), 1..80)) {
            let mut counts = Counts::default();
            let mut values: Vec<f64> = Vec::new();
            for (part, whole) in shares {
                counts.add_share(part, whole);
                values.push(part as f64 / f64::from(whole));
            }
            values.sort_by(f64::total_cmp);
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
            let percentile = |q: f64| {
                let place = q * (n - 1.0);
                let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
                low + (high - low) * place.fract()
            };
            let told = counts.stats().expect("there are some");
            for (got, want) in [
                (told.mean, mean), (told.std_dev, deviation), (told.min, values[0]), (told.p25, percentile(0.25)),
                (told.median, percentile(0.5)), (told.p75, percentile(0.75)), (told.max, values[values.len() - 1]),
            ] {
                prop_assert!((got - want).abs() <= 1e-9 * want.abs().max(1.0), "{got} for {want}");
            }
        }
    }
}
