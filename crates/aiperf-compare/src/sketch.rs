//! What is kept of the values of a metric, in bounded memory.

use std::collections::BTreeMap;

/// Values that are kept as they are; beyond, they are counted in buckets.
const EXACT: usize = 1 << 15;
/// Width of a bucket, of its value: no rank is told more than half of it wrong.
const WIDTH: f64 = 1e-3;
/// Most batches, and parts of time; half as many are the fewest once there were so many.
pub(crate) const BATCHES: usize = 64;

/// Values by rank.
#[derive(Debug, Clone)]
enum Ranks {
    Exact(Vec<f64>),
    /// By logarithm; negative ones below 0.
    Counted(BTreeMap<i32, u64>),
}

fn bucket(value: f64) -> i32 {
    if value == 0.0 {
        return 0;
    }
    // Below 1e-9 (of any unit here) nothing is told apart.
    let at = 1 + ((value.abs().max(1e-9) / 1e-9).ln() / WIDTH).floor() as i32;
    if value < 0.0 { -at } else { at }
}

fn middle(bucket: i32) -> f64 {
    if bucket == 0 {
        return 0.0;
    }
    let size = 1e-9 * ((f64::from(bucket.abs()) - 0.5) * WIDTH).exp();
    if bucket < 0 { -size } else { size }
}

/// Sums of runs of neighbours, each of equally many requests.
#[derive(Debug, Clone, Default)]
struct Batches {
    /// Requests in each whole batch.
    size: u64,
    /// Sum and number of values of each; the last may be short.
    all: Vec<(f64, f64)>,
    in_last: u64,
}

impl Batches {
    fn add(&mut self, sum: f64, count: f64) {
        self.size = self.size.max(1);
        if self.all.is_empty() || self.in_last == self.size {
            if self.all.len() == BATCHES {
                self.all = self.all.chunks(2).map(|p| (p[0].0 + p[1].0, p[0].1 + p[1].1)).collect();
                self.size *= 2;
            }
            self.all.push((0.0, 0.0));
            self.in_last = 0;
        }
        if let Some(last) = self.all.last_mut() {
            *last = (last.0 + sum, last.1 + count);
        }
        self.in_last += 1;
    }
}

/// Values of one metric over the requests of a run.
#[derive(Debug, Clone)]
pub(crate) struct Sketch {
    ranks: Ranks,
    n: u64,
    mean: f64,
    /// Σ (x − mean)², by Welford.
    square: f64,
    batches: Batches,
}

impl Default for Sketch {
    fn default() -> Self {
        Self { ranks: Ranks::Exact(Vec::new()), n: 0, mean: 0.0, square: 0.0, batches: Batches::default() }
    }
}

impl Sketch {
    /// The values of one request.
    pub(crate) fn add(&mut self, values: &[f64]) {
        if values.is_empty() {
            return;
        }
        for &value in values {
            self.n += 1;
            let before = value - self.mean;
            self.mean += before / self.n as f64;
            self.square += before * (value - self.mean);
            match &mut self.ranks {
                Ranks::Exact(all) if all.len() < EXACT => all.push(value),
                Ranks::Exact(all) => {
                    let mut counted = BTreeMap::new();
                    all.iter().chain([&value]).for_each(|v| *counted.entry(bucket(*v)).or_insert(0) += 1);
                    self.ranks = Ranks::Counted(counted);
                }
                Ranks::Counted(counted) => *counted.entry(bucket(value)).or_insert(0) += 1,
            }
        }
        self.batches.add(values.iter().sum(), values.len() as f64);
    }

    /// No more will come.
    pub(crate) fn finish(&mut self) {
        if let Ranks::Exact(all) = &mut self.ranks {
            all.sort_by(f64::total_cmp);
        }
    }

    pub(crate) const fn len(&self) -> u64 {
        self.n
    }

    /// The value of a rank from 1 on, after [`finish`](Self::finish).
    pub(crate) fn at(&self, rank: u64) -> Option<f64> {
        let rank = rank.checked_sub(1).filter(|r| *r < self.n)?;
        match &self.ranks {
            Ranks::Exact(all) => all.get(rank as usize).copied(),
            Ranks::Counted(counted) => {
                let mut before = 0;
                counted.iter().find_map(|(at, count)| {
                    before += count;
                    (before > rank).then(|| middle(*at))
                })
            }
        }
    }

    /// Standard error of the mean and its degrees of freedom, by batch means of a ratio; `None` below five batches.
    pub(crate) fn error_of_mean(&self) -> Option<(f64, f64)> {
        let batches = &self.batches.all;
        let k = batches.len();
        if k < 5 {
            return None;
        }
        let rest: f64 = batches.iter().map(|(sum, count)| (sum - self.mean * count).powi(2)).sum();
        Some(((rest * k as f64 / (k as f64 - 1.0)).sqrt() / self.n as f64, k as f64 - 1.0))
    }

    /// How many independent values tell as much of the mean as these do; never more than there are.
    pub(crate) fn independent(&self) -> f64 {
        let n = self.n as f64;
        let plain = self.square / n / n;
        match self.error_of_mean() {
            Some((error, _)) if error * error > plain && plain > 0.0 => n * plain / (error * error),
            _ => n,
        }
    }
}

/// Amounts over time in equal parts, doubled in width when time goes on.
#[derive(Debug, Clone)]
pub(crate) struct Bins {
    origin_ns: u64,
    width_ns: u64,
    all: Vec<f64>,
}

impl Bins {
    /// From the first instant on.
    pub(crate) fn from(origin_ns: u64) -> Self {
        Self { origin_ns, width_ns: 1_000_000, all: Vec::new() }
    }

    pub(crate) fn add(&mut self, at_ns: u64, amount: f64) {
        let mut at = at_ns.saturating_sub(self.origin_ns) / self.width_ns;
        while at >= BATCHES as u64 {
            self.all = self.all.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.width_ns = self.width_ns.saturating_mul(2);
            at /= 2;
        }
        let at = at as usize;
        if self.all.len() <= at {
            self.all.resize(at + 1, 0.0);
        }
        self.all[at] += amount;
    }

    /// Standard error of the rate, of the rate itself, and its degrees of freedom; the last part, which may be short, is left out.
    pub(crate) fn relative_error(&self) -> Option<(f64, f64)> {
        let (_, whole) = self.all.split_last()?;
        let k = whole.len() as f64;
        let mean = whole.iter().sum::<f64>() / k;
        if whole.len() < 5 || mean <= 0.0 {
            return None;
        }
        let spread = whole.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (k - 1.0);
        Some(((spread / k).sqrt() / mean, k - 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(n: u64) -> impl Iterator<Item = f64> {
        (0..n).map(|i| 1.0 + 99.0 * crate::toys::noise(i))
    }

    #[test]
    fn ranks_are_exact_first_and_near_enough_later() {
        for n in [1_000, 100_000] {
            let mut sketch = Sketch::default();
            noise(n).for_each(|v| sketch.add(&[v]));
            sketch.finish();
            let mut all: Vec<f64> = noise(n).collect();
            all.sort_by(f64::total_cmp);
            for rank in [1, n / 2, n * 99 / 100, n] {
                let (found, true_value) = (sketch.at(rank).expect("a rank"), all[rank as usize - 1]);
                let off = (found / true_value - 1.0).abs();
                assert!(off <= if n == 1_000 { 0.0 } else { WIDTH }, "{n} {rank}: {found} for {true_value}");
            }
            assert_eq!((sketch.at(0), sketch.at(n + 1)), (None, None));
            let mean = all.iter().sum::<f64>() / n as f64;
            assert!((sketch.mean - mean).abs() < 1e-9 * mean);
        }
    }

    #[test]
    fn buckets_keep_order_and_sign() {
        let values = [-5.0, -1.0, -1e-12, 0.0, 1e-12, 0.5, 1.0, 2e9];
        let at: Vec<i32> = values.iter().map(|v| bucket(*v)).collect();
        assert!(at.is_sorted(), "{at:?}");
        for value in [-5.0, -1.0, 0.5, 1.0, 2e9] {
            assert!((middle(bucket(value)) / value - 1.0).abs() <= WIDTH);
        }
        assert!(middle(bucket(0.0)).abs() < f64::MIN_POSITIVE);
    }

    #[test]
    fn the_error_of_independent_values_is_the_textbook_s_and_of_dependent_ones_larger() {
        let mut apart = Sketch::default();
        noise(6_400).for_each(|v| apart.add(&[v]));
        let plain = (apart.square / 6_399.0 / 6_400.0).sqrt();
        let (error, freedom) = apart.error_of_mean().expect("enough");
        assert!((0.6..1.5).contains(&(error / plain)), "{error} {plain}");
        assert!((31.0..64.0).contains(&freedom));
        let mut alike = Sketch::default();
        noise(64).for_each(|v| (0..100).for_each(|_| alike.add(&[v])));
        let (error, _) = alike.error_of_mean().expect("enough");
        assert!(error > 5.0 * plain, "{error} {plain}");
        assert!(alike.independent() < 200.0, "{}", alike.independent());
    }

    #[test]
    fn a_list_counts_by_request() {
        let mut sketch = Sketch::default();
        for v in [1.0, 2.0, 3.0, 4.0] {
            sketch.add(&[v, v]);
        }
        sketch.add(&[]);
        assert_eq!((sketch.len(), sketch.error_of_mean()), (8, None), "four requests are too few");
    }

    #[test]
    fn parts_of_time_double() {
        let mut bins = Bins::from(1_000);
        for i in 0..1_000u64 {
            bins.add(1_000 + i * 10_000_000, 1.0);
        }
        assert!((BATCHES / 2..=BATCHES).contains(&bins.all.len()), "{}", bins.all.len());
        assert!((bins.all.iter().sum::<f64>() - 1_000.0).abs() < 0.5);
        let (error, _) = bins.relative_error().expect("enough");
        assert!(error < 0.02, "{error}: a steady rate");
        assert_eq!(Bins::from(0).relative_error(), None);
    }
}
