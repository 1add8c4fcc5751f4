//! Exact columns of one metric: all values of a run, in order of arrival.
//!
//! Integers (nanoseconds, tokens) take 4 bytes; the rare ones from 2³² − 1 up are kept beside, in order. Percentiles of a long integer column are
//! selected by two counting passes over the high and the low half of the bits, so a column of a hundred million gaps needs no copy.

use crate::statistics::{Distribution, PERCENTILES, Rank, pairwise_sum, population_std};

/// Marks a value that is kept in the second vector.
const LONG: u32 = u32::MAX;
/// Above this many values percentiles are selected in passes instead of sorting a copy (4 MB).
const SORT_LIMIT: usize = 1 << 20;

/// A column of whole numbers.
#[derive(Debug, Clone, Default)]
pub struct IntColumn {
    short: Vec<u32>,
    long: Vec<u64>,
    sum: u128,
}

impl IntColumn {
    /// Appends a value.
    pub fn push(&mut self, value: u64) {
        self.sum += u128::from(value);
        match u32::try_from(value) {
            Ok(v) if v != LONG => self.short.push(v),
            _ => {
                self.short.push(LONG);
                self.long.push(value);
            }
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.short.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.short.is_empty()
    }

    /// Exact sum.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Values in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        let mut long = self.long.iter();
        self.short
            .iter()
            .map(move |v| if *v == LONG { long.next().copied().unwrap_or(0) } else { u64::from(*v) })
    }

    /// Appends another column.
    pub fn append(&mut self, mut other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        self.short.append(&mut other.short);
        self.long.append(&mut other.long);
        self.sum += other.sum;
    }

    /// Bytes held on the heap, as used (capacity may be up to twice that while growing).
    pub fn bytes(&self) -> usize {
        self.short.len() * size_of::<u32>() + self.long.len() * size_of::<u64>()
    }

    /// Statistics in the stored unit; `None` for an empty column.
    pub fn distribution(&self) -> Option<Distribution> {
        let n = self.len();
        if n == 0 {
            return None;
        }
        let ranks = PERCENTILES.map(|q| Rank::of(q, n));
        let mut wanted: Vec<usize> = ranks.iter().flat_map(|r| [r.low, r.high]).chain([0, n - 1]).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let found = self.order_statistics(&wanted, SORT_LIMIT);
        let value = |rank: usize| wanted.binary_search(&rank).map_or(0.0, |at| found[at] as f64);
        let sum = self.sum as f64;
        let avg = sum / n as f64;
        Some(Distribution {
            avg,
            min: value(0),
            max: value(n - 1),
            std: population_std(n, avg, self.iter().map(|v| v as f64)),
            percentiles: ranks.map(|r| r.between(value(r.low), value(r.high))),
            sum,
            count: n as u64,
        })
    }

    /// Values at the 0-based `ranks` (ascending, each below `len`) of the sorted column.
    fn order_statistics(&self, ranks: &[usize], sort_limit: usize) -> Vec<u64> {
        let mut long = self.long.clone();
        long.sort_unstable();
        // Every long value is above every short one.
        let shorts = self.short.len() - long.len();
        let split = ranks.partition_point(|r| *r < shorts);
        let mut out = if self.short.len() <= sort_limit {
            let mut sorted = self.short.clone();
            sorted.sort_unstable();
            ranks[..split].iter().map(|r| u64::from(sorted[*r])).collect()
        } else {
            self.select_in_passes(&ranks[..split])
        };
        out.extend(ranks[split..].iter().map(|r| long[r - shorts]));
        out
    }

    fn select_in_passes(&self, ranks: &[usize]) -> Vec<u64> {
        const HALF: usize = 1 << 16;
        let values = || self.short.iter().filter(|v| **v != LONG);
        let mut high = vec![0usize; HALF];
        for v in values() {
            high[(v >> 16) as usize] += 1;
        }
        // For each rank: the bucket of its high half and the rank inside that bucket.
        let mut places = Vec::with_capacity(ranks.len());
        let (mut bucket, mut before) = (0, 0);
        for rank in ranks {
            while before + high[bucket] <= *rank {
                before += high[bucket];
                bucket += 1;
            }
            places.push((bucket, rank - before));
        }
        let mut buckets: Vec<usize> = places.iter().map(|p| p.0).collect();
        buckets.dedup();
        let mut slot_of = vec![usize::MAX; HALF];
        for (slot, bucket) in buckets.iter().enumerate() {
            slot_of[*bucket] = slot;
        }
        let mut low = vec![0usize; HALF * buckets.len()];
        for v in values() {
            let slot = slot_of[(v >> 16) as usize];
            if slot != usize::MAX {
                low[slot * HALF + (v & 0xffff) as usize] += 1;
            }
        }
        places
            .iter()
            .map(|(bucket, inside)| {
                let slot = slot_of[*bucket] * HALF;
                let (mut at, mut before) = (0, 0);
                while before + low[slot + at] <= *inside {
                    before += low[slot + at];
                    at += 1;
                }
                ((bucket << 16) | at) as u64
            })
            .collect()
    }
}

/// A column of real numbers. Only finite values are kept.
#[derive(Debug, Clone, Default)]
pub struct RealColumn {
    values: Vec<f64>,
}

impl RealColumn {
    /// Appends a value; not-a-number and infinities are dropped.
    pub fn push(&mut self, value: f64) {
        if value.is_finite() {
            self.values.push(value);
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Values in order of arrival.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Sum in numpy's order.
    pub fn sum(&self) -> f64 {
        let mut values = self.values.iter().copied();
        pairwise_sum(self.values.len(), &mut || values.next().unwrap_or(0.0))
    }

    /// Appends another column.
    pub fn append(&mut self, mut other: Self) {
        if self.is_empty() {
            *self = other;
        } else {
            self.values.append(&mut other.values);
        }
    }

    /// Bytes held on the heap, as used.
    pub fn bytes(&self) -> usize {
        self.values.len() * size_of::<f64>()
    }

    /// Statistics in the stored unit; `None` for an empty column.
    pub fn distribution(&self) -> Option<Distribution> {
        let n = self.values.len();
        let mut sorted = self.values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let sum = self.sum();
        let avg = sum / n as f64;
        Some(Distribution {
            avg,
            min,
            max,
            std: population_std(n, avg, self.values.iter().copied()),
            percentiles: PERCENTILES.map(|q| {
                let rank = Rank::of(q, n);
                rank.between(sorted[rank.low], sorted[rank.high])
            }),
            sum,
            count: n as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numpy_vectors::{INTEGERS, REALS};
    use proptest::prelude::*;

    fn generator(n: usize) -> impl Iterator<Item = u64> {
        let next =
            |x: &u64| Some(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        std::iter::successors(Some(1), next).skip(1).take(n)
    }

    /// Length of a column and the bits numpy gave for it.
    fn vectors(text: &str) -> impl Iterator<Item = (usize, Vec<u64>)> {
        text.lines().map(|line| {
            let (n, bits) = line.split_once(' ').expect("a length and bits");
            let bits = bits.split(' ').map(|b| u64::from_str_radix(b, 16).expect("hexadecimal"));
            (n.parse().expect("a length"), bits.collect())
        })
    }

    fn bits(d: &Distribution) -> Vec<u64> {
        [d.sum, d.avg, d.std].into_iter().chain(d.percentiles).map(f64::to_bits).collect()
    }

    fn ints(values: impl IntoIterator<Item = u64>) -> IntColumn {
        let mut column = IntColumn::default();
        for value in values {
            column.push(value);
        }
        column
    }

    #[test]
    fn reals_agree_with_numpy_to_the_last_bit() {
        for (n, expected) in vectors(REALS) {
            let mut column = RealColumn::default();
            for x in generator(n) {
                column.push((x >> 11) as f64 * 2f64.powi(-53) * 1000.0);
            }
            assert_eq!(bits(&column.distribution().expect("values")), expected, "{n} values");
        }
    }

    #[test]
    fn integers_agree_with_numpy_to_the_last_bit() {
        for (n, expected) in vectors(INTEGERS) {
            let column = ints(generator(n).map(|x| x >> 30));
            assert_eq!(bits(&column.distribution().expect("values")), expected, "{n} values");
        }
    }

    #[test]
    fn an_empty_column_has_no_statistics() {
        assert_eq!(IntColumn::default().distribution(), None);
        let mut reals = RealColumn::default();
        reals.push(f64::NAN);
        reals.push(f64::INFINITY);
        assert_eq!(reals.distribution(), None);
    }

    #[test]
    fn a_value_costs_four_bytes_and_a_long_one_twelve() {
        let column = ints([0, 4_294_967_294, 4_294_967_295, u64::MAX]);
        assert_eq!(column.bytes(), 2 * 4 + 2 * 12);
        assert_eq!(column.iter().collect::<Vec<_>>(), [0, 4_294_967_294, 4_294_967_295, u64::MAX]);
        assert_eq!(column.distribution().map(|d| (d.min, d.max)), Some((0.0, u64::MAX as f64)));
    }

    /// Small, equal, around the edge of the short form, and huge values.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        let value = prop_oneof![
            0u64..5,
            0u64..2_000_000,
            any::<u32>().prop_map(u64::from),
            (u64::from(u32::MAX) - 2)..(u64::from(u32::MAX) + 3),
            any::<u64>()
        ];
        proptest::collection::vec(value, 1..300)
    }

    proptest! {
        #[test]
        fn passes_find_what_a_sort_finds(values in values()) {
            let column = ints(values.iter().copied());
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let ranks: Vec<usize> = (0..values.len()).collect();
            prop_assert_eq!(column.order_statistics(&ranks, 0), sorted.clone());
            prop_assert_eq!(column.order_statistics(&ranks, usize::MAX), sorted);
            prop_assert_eq!(column.iter().collect::<Vec<_>>(), values);
        }

        #[test]
        fn appended_columns_are_one_column(a in values(), b in values()) {
            let mut joined = ints(a.iter().copied());
            joined.append(ints(b.iter().copied()));
            let whole = ints([a, b].concat());
            prop_assert_eq!(joined.distribution(), whole.distribution());
            prop_assert_eq!(joined.sum(), whole.sum());
        }
    }
}
