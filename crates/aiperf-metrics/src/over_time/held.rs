//! Statistics that weigh each value of a curve with how long it held, in two goes over the curve and without keeping it.
//!
//! The first go adds up and counts time by the leading bits of a value, the second one by the next bits where a percentile is. So a
//! percentile is found to 32 bits of its mantissa: one part in four thousand million, exactly for whole numbers below that. A short
//! curve is kept and sorted.

use crate::statistics::PartStats;

/// Percentiles of a curve: their share, and their place among those of a distribution.
pub(super) const SHARES: [(f64, usize); 4] = [(0.50, 4), (0.90, 6), (0.95, 7), (0.99, 8)];
/// Bits of a value's pattern below its exponent.
const MANTISSA: u32 = 52;
/// Bits that each go tells apart.
const DIGIT: u32 = 16;
const WAYS: usize = 1 << DIGIT;
/// What is shifted out of a pattern to leave exponent and first digit.
const COARSE: u32 = MANTISSA - DIGIT;
/// The same for the second digit.
const FINE: u32 = COARSE - DIGIT;

/// Where one share is reached: over all time, or over the active time alone.
type Places<T> = [[T; SHARES.len()]; 2];

/// A curve's values with their times. While a curve is idle it is 0, and its active statistics do not count that time.
#[derive(Debug)]
pub(super) struct Held {
    active_ns: u64,
    idle_ns: u64,
    sum: f64,
    min: f64,
    max: f64,
    square: f64,
    times: Times,
}

#[derive(Debug)]
enum Times {
    /// Of a short curve: patterns and times.
    All(Vec<(u64, u64)>),
    /// By exponent and first digit.
    Coarse(Counts),
    Fine(Box<Fine>),
}

/// Keys of a page of [`Counts`], in bits. Smaller ones need more entries to find them, larger ones more zeros that nothing is added to.
const PAGE: u32 = 12;

/// Time by key, in pages that are there once a key of theirs is.
#[derive(Debug, Default)]
struct Counts {
    /// Which page has so many times the keys of a page, one more than its place among them; 0 for none.
    pages: Vec<u32>,
    times: Vec<u64>,
    keys: Vec<u32>,
}

impl Counts {
    /// Of so many times the values of a digit.
    fn of(digits: usize) -> Self {
        Self { pages: vec![0; digits << (DIGIT - PAGE)], times: Vec::new(), keys: Vec::new() }
    }

    fn add(&mut self, key: u32, ns: u64) {
        let page = &mut self.pages[(key >> PAGE) as usize];
        if *page == 0 {
            self.times.resize(self.times.len() + (1 << PAGE), 0);
            *page = (self.times.len() >> PAGE) as u32;
        }
        let time = &mut self.times[Self::place(*page, key)];
        if *time == 0 {
            self.keys.push(key);
        }
        *time += ns;
    }

    const fn place(page: u32, key: u32) -> usize {
        (page as usize - 1) << PAGE | key as usize & ((1 << PAGE) - 1)
    }

    fn in_order(&mut self) -> impl Iterator<Item = (u32, u64)> + Clone {
        self.keys.sort_unstable();
        let Self { pages, times, keys } = self;
        keys.iter().map(|key| (*key, times[Self::place(pages[(key >> PAGE) as usize], *key)]))
    }
}

/// Times of those values whose first bits a percentile has.
#[derive(Debug, Default)]
struct Fine {
    prefixes: Vec<u32>,
    /// A page for each of them.
    times: Counts,
    /// Prefix of each percentile, and the time at values before it; `None` where there is no such value, or idle time has it.
    places: Places<Option<(u32, u64)>>,
}

impl Held {
    /// Of a curve that is short enough to be kept, or not.
    pub(super) fn new(is_short: bool) -> Self {
        let times = if is_short { Times::All(Vec::new()) } else { Times::Coarse(Counts::of(1 << 11)) };
        Self { active_ns: 0, idle_ns: 0, sum: 0.0, min: f64::INFINITY, max: 0.0, square: 0.0, times }
    }

    /// First go: `value`, or nothing while the curve is idle, held for `ns`. Below 0 is what rounding left of it.
    pub(super) fn push(&mut self, value: Option<f64>, ns: u64) {
        let Some(value) = value else {
            self.idle_ns += ns;
            return;
        };
        let value = if value > 0.0 { value } else { 0.0 };
        self.active_ns += ns;
        self.sum += value * ns as f64;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let bits = value.to_bits();
        match &mut self.times {
            Times::All(all) => all.push((bits, ns)),
            Times::Coarse(counts) => counts.add((bits >> COARSE) as u32, ns),
            Times::Fine(_) => {}
        }
    }

    /// Ends the first go.
    pub(super) fn turn(&mut self) {
        let Times::Coarse(counts) = &mut self.times else { return };
        let mut counts = std::mem::take(counts);
        let counted = counts.in_order();
        let places = self.both(|before, total| reach(counted.clone(), before, total));
        let mut prefixes: Vec<u32> = places.iter().flatten().flatten().map(|(prefix, _)| *prefix).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        let times = Counts::of(prefixes.len());
        self.times = Times::Fine(Box::new(Fine { prefixes, times, places }));
    }

    /// Second go, with the same values again.
    pub(super) fn push_again(&mut self, value: Option<f64>, ns: u64) {
        let Some(value) = value else { return };
        let value = if value > 0.0 { value } else { 0.0 };
        let off = value - self.mean();
        self.square += off * off * ns as f64;
        if let Times::Fine(fine) = &mut self.times {
            let bits = value.to_bits();
            let prefix = (bits >> COARSE) as u32;
            if let Some(slot) = fine.prefixes.iter().position(|p| *p == prefix) {
                fine.times.add((slot << DIGIT) as u32 | (bits >> FINE) as u32 & (WAYS as u32 - 1), ns);
            }
        }
    }

    /// Of the active time.
    fn mean(&self) -> f64 {
        self.sum / self.active_ns as f64
    }

    /// Does it for all time, idle time first, and for the active time.
    fn both<T>(&self, mut of: impl FnMut(u64, u64) -> T) -> [T; 2] {
        [of(self.idle_ns, self.idle_ns + self.active_ns), of(0, self.active_ns)]
    }

    /// Statistics over all time and over the active time alone, after the second go; `None` where there was none.
    pub(super) fn statistics(mut self) -> [Option<PartStats>; 2] {
        let found = self.percentiles();
        let (active, idle) = (self.active_ns as f64, self.idle_ns as f64);
        let mean = if self.active_ns > 0 { self.mean() } else { 0.0 };
        let [mut all, mut of_active] = [None, None];
        let stats = |avg: f64, square: f64, total: f64, min, max, found: [Option<f64>; SHARES.len()]| {
            let mut percentiles = [None; 9];
            for ((_, at), value) in SHARES.iter().zip(found) {
                percentiles[*at] = value;
            }
            let std = Some((square / total).sqrt());
            PartStats { avg: Some(avg), min: Some(min), max: Some(max), std, percentiles, count: None }
        };
        if self.active_ns > 0 {
            of_active = Some(stats(mean, self.square, active, self.min, self.max, found[1]));
        }
        if self.active_ns + self.idle_ns > 0 {
            let avg = self.sum / (active + idle);
            // About another mean, and with the zeros.
            let square = self.square + active * (mean - avg) * (mean - avg) + idle * avg * avg;
            let min = if self.idle_ns > 0 { 0.0 } else { self.min };
            all = Some(stats(avg, square, active + idle, min, self.max, found[0]));
        }
        [all, of_active]
    }

    /// AIPerf's: a percentile is the smallest value at which the time at or below it reaches the share.
    fn percentiles(&mut self) -> Places<Option<f64>> {
        let found = match &mut self.times {
            Times::All(all) => {
                all.sort_unstable();
                let all = std::mem::take(all);
                self.both(|before, total| reach(all.iter().copied(), before, total))
                    .map(|places| places.map(|place| place.map(|(bits, _)| f64::from_bits(bits))))
            }
            Times::Fine(fine) => {
                let mut fine = std::mem::take(fine);
                let mut places = fine.places.into_iter();
                self.both(|_, total| {
                    let places = places.next().unwrap_or_default();
                    std::array::from_fn(|share| fine.value(places[share]?, share, total))
                })
            }
            Times::Coarse(_) => Places::default(),
        };
        let (min, max) = (self.min, self.max);
        let mut found = found.map(|values| values.map(|value| value.map(|v| v.max(min).min(max))));
        let both = self.both(|idle, total| SHARES.map(|(share, _)| idle > 0 && reaches(idle, total, share)));
        for (value, is_idle) in found.as_flattened_mut().iter_mut().zip(both.as_flattened()) {
            if *is_idle {
                *value = Some(0.0);
            }
        }
        found
    }
}

impl Fine {
    fn value(&mut self, (prefix, before): (u32, u64), share: usize, total: u64) -> Option<f64> {
        let slot = self.prefixes.iter().position(|p| *p == prefix)? as u32;
        let of_prefix = self.times.in_order().filter(|(key, _)| key >> DIGIT == slot);
        let (key, _) = reach(of_prefix, before, total)[share]?;
        let digit = u64::from(key) & (WAYS as u64 - 1);
        Some(f64::from_bits((u64::from(prefix) << DIGIT | digit) << FINE))
    }
}

fn reaches(time: u64, total: u64, share: f64) -> bool {
    time as f64 / total as f64 >= share
}

/// For each share the first key of rising ones at which the time up to it reaches it, and the time before that key. What is reached
/// before the first one is not there.
fn reach<K: Copy>(
    keys: impl Iterator<Item = (K, u64)>,
    before: u64,
    total: u64,
) -> [Option<(K, u64)>; SHARES.len()] {
    let mut found = [None; SHARES.len()];
    let reached = |time: u64, share: usize| time > 0 && reaches(time, total, SHARES[share].0);
    let mut time = before;
    let mut next = (0..SHARES.len()).take_while(|share| reached(time, *share)).count();
    for (key, ns) in keys {
        let upto = time + ns;
        while next < SHARES.len() && reached(upto, next) {
            found[next] = Some((key, time));
            next += 1;
        }
        time = upto;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn statistics(values: &[(Option<f64>, u64)], is_short: bool) -> [Option<PartStats>; 2] {
        let mut held = Held::new(is_short);
        for (value, ns) in values {
            held.push(*value, *ns);
        }
        held.turn();
        for (value, ns) in values {
            held.push_again(*value, *ns);
        }
        held.statistics()
    }

    #[test]
    fn a_worked_example() {
        // Idle for 20, 2 for 20, 5 for 10.
        for is_short in [true, false] {
            let values = [(None, 15), (Some(2.0), 20), (Some(5.0), 10), (None, 5)];
            let [all, active] = statistics(&values, is_short).map(|s| s.expect("time"));
            // (2·20 + 5·10) ÷ 50; 20 of 50 are 0, 40 of 50 at most 2.
            assert_eq!((all.avg, all.min, all.max), (Some(1.8), Some(0.0), Some(5.0)));
            assert_eq!((all.get("p50"), all.get("p90"), all.get("p1")), (Some(2.0), Some(5.0), None));
            // (1.8²·20 + 0.2²·20 + 3.2²·10) ÷ 50 = 168 ÷ 50.
            assert!((all.std.expect("a spread") - 3.36_f64.sqrt()).abs() < 1e-12);
            assert_eq!((active.avg, active.min, active.get("p50")), (Some(3.0), Some(2.0), Some(2.0)));
            assert_eq!(active.get("p95"), Some(5.0));
        }
    }

    #[test]
    fn nothing_has_no_statistics_and_what_is_idle_is_zero() {
        for is_short in [true, false] {
            assert_eq!(statistics(&[], is_short), [None, None]);
            let [all, active] = statistics(&[(None, 7)], is_short);
            let all = all.expect("time");
            assert_eq!(
                (all.avg, all.min, all.max, all.get("p99")),
                (Some(0.0), Some(0.0), Some(0.0), Some(0.0))
            );
            assert_eq!(active, None);
            let [_, rounded] = statistics(&[(Some(-1e-12), 7)], is_short);
            assert_eq!(rounded.and_then(|s| s.get("p50")), Some(0.0));
        }
    }

    fn value() -> impl Strategy<Value = Option<f64>> {
        prop_oneof![
            Just(None),
            (0u8..6).prop_map(|v| Some(f64::from(v))),
            (0.0f64..1e9).prop_map(Some),
            (1.0f64..1.000_001).prop_map(Some),
            (0.0f64..1e-9).prop_map(Some)
        ]
    }

    proptest! {
        #[test]
        fn statistics_are_those_of_the_value_at_each_tick(
            values in proptest::collection::vec((value(), 1u64..30), 1..40),
            is_short: bool,
        ) {
            let ticks = |idle: Option<f64>| -> Vec<f64> {
                let each = |(v, ns): &(Option<f64>, u64)| v.or(idle).into_iter().cycle().take(*ns as usize);
                values.iter().flat_map(each).collect()
            };
            for (fast, mut slow) in statistics(&values, is_short).into_iter().zip([ticks(Some(0.0)), ticks(None)]) {
                prop_assert_eq!(fast.is_some(), !slow.is_empty());
                let Some(fast) = fast else { continue };
                slow.sort_by(f64::total_cmp);
                let n = slow.len() as f64;
                let avg = slow.iter().sum::<f64>() / n;
                let std = (slow.iter().map(|v| (v - avg) * (v - avg)).sum::<f64>() / n).sqrt();
                let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(avg);
                prop_assert!(near(fast.avg.expect("a mean"), avg));
                prop_assert!(near(fast.std.expect("a spread"), std), "{fast:?} {std}");
                prop_assert_eq!((fast.min, fast.max), (slow.first().copied(), slow.last().copied()));
                for (share, _) in SHARES {
                    let (_, value) = slow.iter().enumerate().find(|(i, _)| (i + 1) as f64 / n >= share).expect("a value");
                    let name = format!("p{}", (share * 100.0).round());
                    let found = fast.get(&name).expect("a percentile");
                    prop_assert!((found - value).abs() <= 2.4e-10 * value, "{name}: {found} is not {value}");
                    prop_assert!(!is_short || found.to_bits() == value.to_bits());
                }
            }
        }
    }
}
