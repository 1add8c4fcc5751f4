//! Exact columns of one metric: all values of a run, in order of arrival.
//!
//! Integers (nanoseconds, tokens) take 4 bytes; the rare ones from 2³² − 1 up are kept beside, in order. With a [`Disk`], a column
//! that grows too long for memory goes there. Percentiles of a long column are selected in passes, so a column of a hundred million
//! gaps needs no copy and, on disk, no memory.

use crate::select::select;
use crate::statistics::{Distribution, PERCENTILES, Rank, pairwise_sum, population_std};
use crate::store::{Disk, Plain, Store};

/// Marks a value that is kept in the second store.
const LONG: u32 = u32::MAX;
/// Above this many values percentiles are selected in passes instead of sorting a copy (4 or 8 MB).
const SORT_LIMIT: usize = 1 << 20;

/// A column of whole numbers.
#[derive(Debug, Clone, Default)]
pub struct IntColumn {
    short: Store<u32>,
    long: Store<u64>,
    sum: u128,
}

impl IntColumn {
    /// An empty one that goes to `disk` when it grows long; without one it stays in memory.
    pub fn on(disk: Option<&Disk>) -> Self {
        Self { short: Store::on(disk.cloned()), long: Store::on(disk.cloned()), sum: 0 }
    }

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
        self.len() == 0
    }

    /// Exact sum.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Values in order of arrival. It ends early when the disk cannot be read, which the disk then tells.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        let mut long = self.long.iter();
        self.short.iter().map(move |v| if v == LONG { long.next().unwrap_or(0) } else { u64::from(v) })
    }

    /// Appends another column, which uses the same disk, or none.
    pub fn append(&mut self, other: Self) {
        self.short.append(other.short);
        self.long.append(other.long);
        self.sum += other.sum;
    }

    /// Bytes held on the heap, as used (capacity may be up to twice that while growing).
    pub fn bytes(&self) -> usize {
        size_of_val(self.short.in_memory()) + size_of_val(self.long.in_memory())
    }

    /// Statistics in the stored unit; `None` for an empty column, and for one that cannot be read back.
    pub fn distribution(&self) -> Option<Distribution> {
        let n = self.len();
        let statistics = statistics(n, self.sum as f64, self.iter().map(|v| v as f64), |ranks| {
            self.order_statistics(ranks, SORT_LIMIT).into_iter().map(|v| v as f64).collect()
        })?;
        (self.short.is_readable() && self.long.is_readable()).then_some(statistics)
    }

    /// Values at the 0-based `ranks` (ascending, each below [`len`](Self::len)) of the sorted column; `None` when it cannot be read
    /// back.
    pub fn sorted_at(&self, ranks: &[usize]) -> Option<Vec<f64>> {
        let found = self.order_statistics(ranks, SORT_LIMIT).into_iter().map(|v| v as f64).collect();
        (self.short.is_readable() && self.long.is_readable()).then_some(found)
    }

    /// Values at the 0-based `ranks` (ascending, each below `len`) of the sorted column.
    fn order_statistics(&self, ranks: &[usize], sort_limit: usize) -> Vec<u64> {
        // Every long value is above every short one, and so are their marks.
        let shorts = self.len() - self.long.len();
        let (short, long) = ranks.split_at(ranks.partition_point(|r| *r < shorts));
        let long: Vec<usize> = long.iter().map(|r| r - shorts).collect();
        let short = at_ranks(&self.short, short, sort_limit).into_iter().map(u64::from);
        short.chain(at_ranks(&self.long, &long, sort_limit)).collect()
    }
}

/// Values at the 0-based `ranks` (ascending, each below the number of values) of the sorted column.
fn at_ranks<T: Plain>(store: &Store<T>, ranks: &[usize], sort_limit: usize) -> Vec<T> {
    if ranks.is_empty() {
        return Vec::new();
    }
    if store.len() > sort_limit {
        return select(store, ranks);
    }
    let mut values: Vec<T> = store.iter().collect();
    // Lengths are often all the same.
    if values.first().is_some_and(|first| values.iter().any(|v| v.key() != first.key())) {
        put_in_place(&mut values, 0, ranks);
    }
    // Fewer than there should be are those of a column that cannot be read back, which has no statistics.
    ranks.iter().map(|rank| values.get(*rank).copied().unwrap_or_default()).collect()
}

/// Moves the values at `ranks` (ascending) of the sorted whole to their places, for a part of it that begins at `begin`. The few ranks of
/// percentiles are found in a third of the time that sorting takes.
fn put_in_place<T: Plain>(part: &mut [T], begin: usize, ranks: &[usize]) {
    let (before, from) = ranks.split_at(ranks.len() / 2);
    let Some((rank, after)) = from.split_first() else { return };
    let at = rank - begin;
    if at >= part.len() {
        return put_in_place(part, begin, before);
    }
    let (low, _, high) = part.select_nth_unstable_by_key(at, |v| v.key());
    put_in_place(low, begin, before);
    put_in_place(high, rank + 1, after);
}

/// Statistics of `n` values with a known sum; `find` gives the values at ascending ranks.
fn statistics(
    n: usize,
    sum: f64,
    values: impl Iterator<Item = f64>,
    find: impl FnOnce(&[usize]) -> Vec<f64>,
) -> Option<Distribution> {
    let last = n.checked_sub(1)?;
    let ranks = PERCENTILES.map(|q| Rank::of(q, n));
    let mut wanted: Vec<usize> = ranks.iter().flat_map(|r| [r.low, r.high]).chain([0, last]).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let found = find(&wanted);
    let value = |rank: usize| wanted.binary_search(&rank).map_or(0.0, |at| found[at]);
    let avg = sum / n as f64;
    Some(Distribution {
        avg,
        min: value(0),
        max: value(last),
        std: population_std(n, avg, values),
        percentiles: ranks.map(|r| r.between(value(r.low), value(r.high))),
        sum,
        count: n as u64,
    })
}

/// A column of real numbers. Only finite values are kept.
#[derive(Debug, Clone, Default)]
pub struct RealColumn {
    values: Store<f64>,
}

impl RealColumn {
    /// An empty one that goes to `disk` when it grows long; without one it stays in memory.
    pub fn on(disk: Option<&Disk>) -> Self {
        Self { values: Store::on(disk.cloned()) }
    }

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
        self.len() == 0
    }

    /// Values in order of arrival. It ends early when the disk cannot be read, which the disk then tells.
    pub fn iter(&self) -> impl Iterator<Item = f64> {
        self.values.iter()
    }

    /// Values at the 0-based `ranks` (ascending, each below [`len`](Self::len)) of the sorted column; `None` when it cannot be read
    /// back.
    pub fn sorted_at(&self, ranks: &[usize]) -> Option<Vec<f64>> {
        let found = at_ranks(&self.values, ranks, SORT_LIMIT);
        self.values.is_readable().then_some(found)
    }

    /// Sum in numpy's order; not a number when the column cannot be read back.
    pub fn sum(&self) -> f64 {
        let mut values = self.values.iter();
        let sum = pairwise_sum(self.len(), &mut || values.next().unwrap_or(0.0));
        if self.values.is_readable() { sum } else { f64::NAN }
    }

    /// Appends another column, which uses the same disk, or none.
    pub fn append(&mut self, other: Self) {
        self.values.append(other.values);
    }

    /// Bytes held on the heap, as used.
    pub fn bytes(&self) -> usize {
        size_of_val(self.values.in_memory())
    }

    /// Statistics in the stored unit; `None` for an empty column, and for one that cannot be read back.
    pub fn distribution(&self) -> Option<Distribution> {
        let find = |ranks: &[usize]| at_ranks(&self.values, ranks, SORT_LIMIT);
        let statistics = statistics(self.len(), self.sum(), self.iter(), find)?;
        self.values.is_readable().then_some(statistics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numpy_vectors::{INTEGERS, REALS};
    use crate::store::DiskProblem;
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

    /// A disk in the system's folder for such files, with blocks of `block` values.
    fn disk(block: usize, in_memory: usize) -> Disk {
        Disk::new(tempfile::tempfile).sized(block, in_memory)
    }

    fn on_disk(disk: &Disk, values: &[u64]) -> IntColumn {
        let mut column = IntColumn::on(Some(disk));
        for value in values {
            column.push(*value);
        }
        column
    }

    fn reals_on(disk: Option<&Disk>, values: &[f64]) -> RealColumn {
        let mut column = RealColumn::on(disk);
        for value in values {
            column.push(*value);
        }
        column
    }

    #[test]
    fn a_long_column_leaves_memory() {
        let disk = disk(64, 128);
        let values: Vec<u64> = generator(10_000).map(|x| x >> 20).collect();
        let column = on_disk(&disk, &values);
        assert!(column.bytes() <= 64 * 12 + 64 * 4, "{}", column.bytes());
        assert!(disk.bytes() > 9_000 * 12);
        assert_eq!(column.distribution(), ints(values.iter().copied()).distribution());
        assert_eq!(disk.problem(), None);
    }

    #[test]
    fn without_room_on_the_disk_values_stay_in_memory() {
        let disk = Disk::new(|| Err(std::io::ErrorKind::StorageFull.into())).sized(4, 8);
        let values: Vec<u64> = generator(100).map(|x| x >> 20).collect();
        let column = on_disk(&disk, &values);
        assert!(column.iter().eq(values.iter().copied()));
        assert_eq!(column.distribution(), ints(values).distribution());
        assert!(matches!(disk.problem(), Some(DiskProblem::Write(_))));
    }

    #[test]
    fn what_cannot_be_read_back_has_no_statistics() {
        // Written through one handle into a file that another one cuts off.
        let (give, take) = std::sync::mpsc::channel();
        let disk = Disk::new(move || {
            let file = tempfile::tempfile()?;
            let _ = give.send(file.try_clone()?);
            Ok(file)
        })
        .sized(4, 8);
        let mut reals = reals_on(Some(&disk), &[]);
        let mut column = on_disk(&disk, &(0..100).collect::<Vec<_>>());
        (0..100).for_each(|v| reals.push(f64::from(v)));
        take.recv().expect("it was made").set_len(10).expect("it is cut");
        assert_eq!(column.distribution(), None);
        assert_eq!(reals.distribution(), None);
        assert!(reals.sum().is_nan());
        assert!(matches!(disk.problem(), Some(DiskProblem::Read(_))));
        column.push(1);
        assert_eq!(column.sum(), 4951);
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

    /// A dozen of the ranks of `n` values.
    fn some_ranks(n: usize) -> Vec<usize> {
        (0..n).step_by(n / 12 + 1).collect()
    }

    /// Ties, both signs, both zeros, tiny and huge.
    fn reals() -> impl Strategy<Value = Vec<f64>> {
        let value = prop_oneof![
            (0u8..4).prop_map(f64::from),
            Just(-0.0),
            0.0f64..1e9,
            -1.0f64..1.0,
            any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |v| v.is_finite() && v.abs() < 1e150)
        ];
        proptest::collection::vec(value, 0..300)
    }

    /// Every bit of every statistic.
    fn exact(d: &Distribution) -> Vec<u64> {
        let mut all = bits(d);
        all.extend([d.min.to_bits(), d.max.to_bits(), d.count]);
        all
    }

    proptest! {
        #[test]
        fn passes_find_what_a_sort_finds(values in values()) {
            let column = ints(values.iter().copied());
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let ranks = some_ranks(values.len());
            let sorted: Vec<u64> = ranks.iter().map(|rank| sorted[*rank]).collect();
            prop_assert_eq!(column.order_statistics(&ranks, 0), sorted.clone());
            prop_assert_eq!(column.order_statistics(&ranks, usize::MAX), sorted.clone());
            prop_assert_eq!(on_disk(&disk(3, 5), &values).order_statistics(&ranks, 0), sorted);
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

        #[test]
        fn passes_find_real_numbers_in_their_order(values in reals()) {
            let mut sorted = values.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            let ranks = some_ranks(values.len());
            for disk in [None, Some(&disk(3, 5))] {
                let found = at_ranks(&reals_on(disk, &values).values, &ranks, 0);
                prop_assert!(found.iter().map(|v| v.to_bits()).eq(ranks.iter().map(|r| sorted[*r].to_bits())));
            }
        }

        #[test]
        fn a_column_on_disk_is_the_column_in_memory(
            ints_of in values(),
            reals_of in reals(),
            block in 1usize..9,
            more in 0usize..20,
        ) {
            let disk = disk(block, block + more);
            let (column, memory) = (on_disk(&disk, &ints_of), ints(ints_of.iter().copied()));
            prop_assert!(column.iter().eq(memory.iter()));
            prop_assert_eq!((column.len(), column.sum()), (memory.len(), memory.sum()));
            prop_assert_eq!(
                column.distribution().map(|d| exact(&d)),
                memory.distribution().map(|d| exact(&d))
            );
            let (column, memory) = (reals_on(Some(&disk), &reals_of), reals_on(None, &reals_of));
            prop_assert!(column.iter().map(f64::to_bits).eq(memory.iter().map(f64::to_bits)));
            prop_assert_eq!(column.sum().to_bits(), memory.sum().to_bits());
            prop_assert_eq!(
                column.distribution().map(|d| exact(&d)),
                memory.distribution().map(|d| exact(&d))
            );
        }

        #[test]
        fn columns_on_disk_are_appended(a in values(), b in values(), c in reals(), d in reals()) {
            let disk = disk(4, 6);
            let mut joined = on_disk(&disk, &a);
            joined.append(on_disk(&disk, &b));
            joined.push(7);
            let whole = ints([&a[..], &b, &[7]].concat());
            prop_assert!(joined.iter().eq(whole.iter()));
            prop_assert_eq!(joined.distribution(), whole.distribution());
            let mut joined = reals_on(Some(&disk), &c);
            joined.append(reals_on(Some(&disk), &d));
            prop_assert_eq!(joined.distribution(), reals_on(None, &[c, d].concat()).distribution());
        }
    }
}
