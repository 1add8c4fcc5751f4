//! Functions of time that are constant between instants, and statistics that weigh each value with how long it held.

use crate::statistics::PartStats;

/// What is smaller than this part of the largest value is what rounding left of a zero.
const ROUNDING: f64 = 1e-9;
/// Percentiles of a curve: their share, and their place among those of a distribution.
const SHARES: [(f64, usize); 4] = [(0.50, 4), (0.90, 6), (0.95, 7), (0.99, 8)];
/// Marks time in which the other curve was above zero.
const ACTIVE: u64 = 1 << 63;

/// A step function: 0 at first, and from each instant on the value beside it. Instants are in nanoseconds and rise.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Steps(Vec<(u64, f64)>);

impl Steps {
    /// From changes at instants, in any order.
    pub(super) fn of(mut changes: Vec<(u64, f64)>) -> Self {
        changes.sort_unstable_by_key(|(at, _)| *at);
        let (mut value, mut largest) = (0.0_f64, 0.0_f64);
        let mut kept = 0;
        for i in 0..changes.len() {
            let (at, change) = changes[i];
            value += change;
            if changes.get(i + 1).is_none_or(|(next, _)| *next != at) {
                changes[kept] = (at, value);
                kept += 1;
                largest = largest.max(value.abs());
            }
        }
        changes.truncate(kept);
        for (_, value) in &mut changes {
            if value.abs() < ROUNDING * largest {
                *value = 0.0;
            }
        }
        Self(changes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Goes through several curves side by side from `start` to `end` and hands over how long (never 0) which values held.
pub(super) fn walk<const N: usize>(
    curves: [&Steps; N],
    start: u64,
    end: u64,
    mut take: impl FnMut(u64, [f64; N]),
) {
    let (mut next, mut values) = ([0_usize; N], [0.0; N]);
    let mut now = start;
    loop {
        let mut until = end;
        for (curve, Steps(steps)) in curves.iter().enumerate() {
            while let Some((at, value)) = steps.get(next[curve]) {
                if *at > now {
                    until = until.min(*at);
                    break;
                }
                values[curve] = *value;
                next[curve] += 1;
            }
        }
        if now >= end {
            return;
        }
        take(until - now, values);
        now = until;
    }
}

/// Values with the time that each held.
#[derive(Debug, Default)]
pub(super) struct Held(Vec<(f64, u64)>);

impl Held {
    /// `value` held for `ns`, in which the curve it belongs to was active or not.
    pub(super) fn push(&mut self, value: f64, ns: u64, is_active: bool) {
        let mark = if is_active { ACTIVE } else { 0 };
        match self.0.last_mut() {
            Some((last, time)) if last.to_bits() == value.to_bits() && *time & ACTIVE == mark => *time += ns,
            _ => self.0.push((value, ns | mark)),
        }
    }

    /// Statistics over all time and over the active time alone; `None` where there was none.
    pub(super) fn statistics(mut self) -> [Option<PartStats>; 2] {
        self.0.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
        [false, true].map(|only_active| self.weighted(only_active))
    }

    /// AIPerf's: a percentile is the smallest value at which the time at or below it reaches the share.
    fn weighted(&self, only_active: bool) -> Option<PartStats> {
        let held = || {
            let all = self.0.iter().filter(move |(_, time)| !only_active || time & ACTIVE != 0);
            all.map(|(value, time)| (*value, time & !ACTIVE))
        };
        let total: u64 = held().map(|(_, ns)| ns).sum();
        if total == 0 {
            return None;
        }
        let total = total as f64;
        let avg = held().map(|(value, ns)| value * ns as f64).sum::<f64>() / total;
        let square = held().map(|(value, ns)| (value - avg) * (value - avg) * ns as f64).sum::<f64>();
        let mut percentiles = [None; 9];
        let (mut shares, mut sum, mut largest) = (SHARES.iter().peekable(), 0_u64, None);
        for (value, ns) in held() {
            sum += ns;
            largest = Some(value);
            while let Some((_, at)) = shares.next_if(|(share, _)| sum as f64 / total >= *share) {
                percentiles[*at] = Some(value);
            }
        }
        Some(PartStats {
            avg: Some(avg),
            min: held().next().map(|(value, _)| value),
            max: largest,
            std: Some((square / total).sqrt()),
            percentiles,
            count: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_worked_example() {
        // 0 up to 10, 2 up to 30, 5 up to 40, 0 from there.
        let steps = Steps::of(vec![(40, -3.0), (10, 2.0), (30, 3.0), (40, -2.0)]);
        assert_eq!(steps, Steps(vec![(10, 2.0), (30, 5.0), (40, 0.0)]));
        let mut held = Held::default();
        walk([&steps], 0, 50, |ns, [value]| held.push(value, ns, value > 0.0));
        let [all, active] = held.statistics().map(|s| s.expect("time"));
        // (2·20 + 5·10) ÷ 50; 20 of 50 are 0, 40 of 50 at most 2.
        assert_eq!((all.avg, all.min, all.max), (Some(1.8), Some(0.0), Some(5.0)));
        assert_eq!((all.get("p50"), all.get("p90"), all.get("p1")), (Some(2.0), Some(5.0), None));
        // (1.8²·20 + 0.2²·20 + 3.2²·10) ÷ 50 = 168 ÷ 50.
        assert!((all.std.expect("a spread") - 3.36_f64.sqrt()).abs() < 1e-12);
        assert_eq!((active.avg, active.min, active.get("p50")), (Some(3.0), Some(2.0), Some(2.0)));
        assert_eq!(active.get("p95"), Some(5.0));
    }

    #[test]
    fn what_rounding_leaves_is_zero() {
        let steps = Steps::of(vec![(1, 0.1), (2, 0.2), (3, -0.3)]);
        assert_eq!(steps.0.last(), Some(&(3, 0.0)));
        assert_eq!(Held::default().statistics(), [None, None]);
    }

    /// Whole numbers that hold for some ticks.
    fn changes() -> impl Strategy<Value = Vec<(u64, f64)>> {
        proptest::collection::vec((0u64..60, 1u64..30, 1u32..9), 0..20).prop_map(|spans| {
            let span = |(at, length, height): (u64, u64, u32)| {
                [(at, f64::from(height)), (at + length, -f64::from(height))]
            };
            spans.into_iter().flat_map(span).collect()
        })
    }

    proptest! {
        #[test]
        fn statistics_are_those_of_the_value_at_each_tick(a in changes(), b in changes(), start in 0u64..40, length in 1u64..80) {
            let at = |changes: &[(u64, f64)], tick: u64| -> f64 {
                changes.iter().filter(|(at, _)| *at <= tick).map(|(_, change)| change).sum()
            };
            let end = start + length;
            let mut held = Held::default();
            walk([&Steps::of(a.clone()), &Steps::of(b.clone())], start, end, |ns, [value, other]| {
                held.push(value, ns, other > 0.0);
            });
            let all: Vec<f64> = (start..end).map(|tick| at(&a, tick)).collect();
            let active: Vec<f64> = (start..end).filter(|tick| at(&b, *tick) > 0.0).map(|t| at(&a, t)).collect();
            for (fast, mut slow) in held.statistics().into_iter().zip([all, active]) {
                prop_assert_eq!(fast.is_some(), !slow.is_empty());
                let Some(fast) = fast else { continue };
                slow.sort_by(f64::total_cmp);
                let n = slow.len() as f64;
                let avg = slow.iter().sum::<f64>() / n;
                let std = (slow.iter().map(|v| (v - avg) * (v - avg)).sum::<f64>() / n).sqrt();
                prop_assert!((fast.avg.expect("a mean") - avg).abs() < 1e-9);
                prop_assert!((fast.std.expect("a spread") - std).abs() < 1e-9);
                prop_assert_eq!((fast.min, fast.max), (slow.first().copied(), slow.last().copied()));
                for (share, _) in SHARES {
                    let value = slow.iter().enumerate().find(|(i, _)| (i + 1) as f64 / n >= share).map(|(_, v)| *v);
                    prop_assert_eq!(fast.get(&format!("p{}", (share * 100.0).round())), value);
                }
            }
        }
    }
}
