//! How often each length is there: memory for the lengths, not for the requests.

use std::collections::BTreeMap;

/// Lengths with their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LengthCounts(BTreeMap<u64, u64>);

/// Some statistics of lengths, tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// How many there are.
    pub count: u64,
    /// The least.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile: linear between neighbours, as everywhere.
    pub p99: f64,
    /// The largest.
    pub max: u64,
    /// Their sum.
    pub sum: u64,
}

impl LengthCounts {
    /// One more of that length.
    pub fn add(&mut self, length: u64) {
        *self.0.entry(length).or_default() += 1;
    }

    /// How many lengths there are, each as often as it was added.
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// Statistics; absent without lengths.
    pub fn spread(&self) -> Option<Spread> {
        let (min, max) = (*self.0.keys().next()?, *self.0.keys().next_back()?);
        let count = self.count();
        let sum = self.0.iter().map(|(length, n)| length * n).sum::<u64>();
        Some(Spread {
            count,
            min,
            mean: sum as f64 / count as f64,
            p50: self.percentile(count, 50.0),
            p99: self.percentile(count, 99.0),
            max,
            sum,
        })
    }

    fn percentile(&self, count: u64, q: f64) -> f64 {
        let at = (count - 1) as f64 * q / 100.0;
        let low = at.floor() as u64;
        let (low_value, high_value) = (self.ranked(low), self.ranked((low + 1).min(count - 1)));
        low_value + (high_value - low_value) * (at - low as f64)
    }

    /// The length behind `rank` shorter or equal ones.
    fn ranked(&self, rank: u64) -> f64 {
        let mut before = 0;
        let found = self.0.iter().find(|(_, n)| {
            before += **n;
            before > rank
        });
        found.map_or(0.0, |(length, _)| *length as f64)
    }

    /// How many lie in each of `bins` (at least 1) equal parts from the least to the largest.
    pub fn bins(&self, bins: usize) -> Vec<u64> {
        let mut out = vec![0; bins];
        let (Some(min), Some(max)) = (self.0.keys().next(), self.0.keys().next_back()) else { return out };
        let width = max - min + 1;
        for (length, n) in &self.0 {
            let bin = u128::from(length - min) * bins as u128 / u128::from(width);
            out[bin as usize] += n;
        }
        out
    }
}
