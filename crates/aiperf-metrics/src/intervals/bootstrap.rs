//! Intervals of means and rates from sums over short bins of time.
//!
//! What is measured at neighbouring times is alike, so values are not drawn one by one but with their neighbours: the circular block
//! bootstrap (Politis and Romano, "A circular block-resampling procedure for stationary data", 1992) over bins of time, each block a
//! thirty-second of the run. So few blocks make the spread too small by a little, and the ends of the interval are moved out as Student's law for
//! their number has it.

use aiperf_rng::{Key, Stream};

use super::Interval;

/// Bins of time.
pub(super) const BINS: usize = 1024;
/// Blocks drawn for a replicate.
const BLOCKS: usize = 32;
const BLOCK: usize = BINS / BLOCKS;
/// Replicates.
const REPLICATES: u64 = 1000;
/// Bins with values, below which nothing is said: fewer blocks than these would all be the same few values.
const LEAST_BINS: usize = 10;
/// 97.5 % quantiles of Student's law with 31 degrees of freedom and of the normal law, and what the variance of 32 blocks lacks.
const WIDER: f64 = 2.0395 / 1.9600 * 1.016;

/// Sums over bins of time of a value and of what it is divided by.
#[derive(Debug, Clone)]
pub(super) struct Bins {
    /// In units of a 1024th, so that their order does not matter.
    sums: Vec<i128>,
    counts: Vec<u64>,
}

/// Where the blocks of each replicate begin.
#[derive(Debug)]
pub(super) struct Blocks {
    first: Vec<u16>,
}

impl Blocks {
    pub(super) fn drawn(seed: u64) -> Self {
        let stream: Stream = Key::new(seed).purpose("metrics.intervals.blocks");
        let replicate = |at: u64| {
            let mut draws = stream.at(at);
            std::iter::repeat_with(move || draws.below(BINS as u64) as u16).take(BLOCKS)
        };
        Self { first: (0..REPLICATES).flat_map(replicate).collect() }
    }
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Resampled {
    pub(super) interval: Interval,
    /// Variance of the mean.
    pub(super) variance: f64,
}

const PARTS: f64 = 1024.0;

impl Default for Bins {
    fn default() -> Self {
        Self { sums: vec![0; BINS], counts: vec![0; BINS] }
    }
}

impl Bins {
    pub(super) fn add(&mut self, bin: usize, value: f64) {
        self.sums[bin] += (value * PARTS).round() as i128;
        self.counts[bin] += 1;
    }

    pub(super) fn add_whole(&mut self, bin: usize, value: u64) {
        self.sums[bin] += i128::from(value) << 10;
        self.counts[bin] += 1;
    }

    /// Whether nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.iter().all(|n| *n == 0)
    }

    /// Both together.
    pub(super) fn plus(mut self, other: &Self) -> Self {
        self.sums.iter_mut().zip(&other.sums).for_each(|(ours, theirs)| *ours += theirs);
        self.counts.iter_mut().zip(&other.counts).for_each(|(ours, theirs)| *ours += theirs);
        self
    }

    /// Of the mean of all values.
    pub(super) fn mean(&self, blocks: &Blocks) -> Option<Resampled> {
        self.resampled(blocks, &self.counts)
    }

    /// Of the sum of all values by bin.
    pub(super) fn per_bin(&self, blocks: &Blocks) -> Option<Resampled> {
        self.resampled(blocks, &[1; BINS])
    }

    fn resampled(&self, blocks: &Blocks, counts: &[u64]) -> Option<Resampled> {
        if self.counts.iter().filter(|n| **n > 0).count() < LEAST_BINS {
            return None;
        }
        // Sums up to a bin, twice around, so that a block that goes over the end is one difference, too.
        let around = || (0..=2 * BINS).map(|at| at % BINS);
        let sums: Vec<i128> = prefix(around().map(|at| self.sums[at]));
        let counts: Vec<i128> = prefix(around().map(|at| i128::from(counts[at])));
        let mean = sums[BINS] as f64 / counts[BINS] as f64 / PARTS;
        let mut means: Vec<f64> = blocks
            .first
            .chunks_exact(BLOCKS)
            .filter_map(|replicate| {
                let (mut sum, mut count) = (0, 0);
                for from in replicate {
                    let from = usize::from(*from);
                    sum += sums[from + BLOCK] - sums[from];
                    count += counts[from + BLOCK] - counts[from];
                }
                (count > 0).then(|| sum as f64 / count as f64 / PARTS)
            })
            .collect();
        means.sort_unstable_by(f64::total_cmp);
        let of_means = means.iter().sum::<f64>() / means.len() as f64;
        let squares = means.iter().map(|m| (m - of_means).powi(2)).sum::<f64>();
        let end = |q| crate::statistics::percentile_of_sorted(&means, q);
        let (low, high) = (end(2.5)?, end(97.5)?);
        let interval = Interval {
            low: mean - (mean - low).max(0.0) * WIDER,
            high: mean + (high - mean).max(0.0) * WIDER,
        };
        Some(Resampled { interval, variance: squares / means.len() as f64 * WIDER * WIDER })
    }
}

fn prefix(values: impl Iterator<Item = i128>) -> Vec<i128> {
    let mut sum = 0;
    values
        .map(|v| {
            let before = sum;
            sum += v;
            before
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A series whose neighbours are alike: x' = r·x + noise, with mean 100.
    fn series(seed: u64, r: f64) -> Bins {
        let mut bins = Bins::default();
        let stream = Key::new(seed).purpose("test");
        let mut x = 0.0;
        for at in 0..BINS * 4 {
            let mut draws = stream.at(at as u64);
            let noise: f64 = (0..12).map(|_| draws.unit()).sum::<f64>() - 6.0;
            x = r * x + noise;
            bins.add(at / 4, 100.0 + x);
        }
        bins
    }

    #[test]
    fn the_mean_is_inside_as_often_as_promised() {
        let blocks = Blocks::drawn(7);
        for r in [0.0, 0.7, 0.9] {
            let inside = (0..400)
                .filter(|seed| {
                    let found = series(*seed, r).mean(&blocks).expect("enough").interval;
                    found.low <= 100.0 && 100.0 <= found.high
                })
                .count();
            assert!((368..=392).contains(&inside), "{inside} of 400 with {r}");
        }
    }

    #[test]
    fn one_seed_gives_one_interval() {
        let bins = series(1, 0.5);
        assert_eq!(bins.mean(&Blocks::drawn(3)), bins.mean(&Blocks::drawn(3)));
        assert_ne!(bins.mean(&Blocks::drawn(3)), bins.mean(&Blocks::drawn(4)));
    }

    #[test]
    fn what_never_changes_has_no_width() {
        let mut bins = Bins::default();
        (0..BINS).for_each(|at| bins.add_whole(at, 5));
        let blocks = Blocks::drawn(1);
        let found = bins.mean(&blocks).expect("enough");
        assert_eq!((found.interval.low, found.interval.high, found.variance), (5.0, 5.0, 0.0));
        assert_eq!(bins.per_bin(&blocks), Some(found), "one value in each bin");
    }

    #[test]
    fn a_few_bins_say_nothing() {
        let mut bins = Bins::default();
        (0..LEAST_BINS - 1).for_each(|at| bins.add_whole(at, 5));
        assert_eq!(bins.mean(&Blocks::drawn(1)), None);
        bins.add_whole(500, 5);
        assert!(bins.mean(&Blocks::drawn(1)).is_some());
    }
}
