//! Intervals of single statistics, and of differences.

use crate::sketch::{Bins, Sketch};

/// Two bounds; the lower first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl Interval {
    /// Of the difference `b − a` of two independent statistics, from the interval of each: the bounds are as far from the difference as the far
    /// bounds together are (method of variance estimates recovery).
    pub(crate) fn of_difference(a: f64, around_a: Self, b: f64, around_b: Self) -> Self {
        let down = (b - around_b.low).max(0.0).hypot((around_a.high - a).max(0.0));
        let up = (around_b.high - b).max(0.0).hypot((a - around_a.low).max(0.0));
        Self { low: b - a - down, high: b - a + up }
    }

    /// Whether 0 is in it, bounds included.
    pub fn has_zero(&self) -> bool {
        self.low <= 0.0 && self.high >= 0.0
    }
}

/// Of a mean; `value` is the statistic as the summary has it.
pub(crate) fn mean(value: f64, sketch: &Sketch, level: f64) -> Option<Interval> {
    let (error, freedom) = sketch.error_of_mean()?;
    let reach = error * student(f64::midpoint(1.0, level), freedom);
    Some(Interval { low: value - reach, high: value + reach })
}

/// Of a percentile `q` in (0, 1); `None` where the bound would lie beyond the values.
pub(crate) fn percentile(q: f64, sketch: &Sketch, level: f64) -> Option<Interval> {
    let n = sketch.len() as f64;
    let (low, high) = rank_shares(sketch.independent(), q, level)?;
    let low = sketch.at(((low * n).floor() as u64).max(1))?;
    let high = sketch.at(((high * n).ceil() as u64).min(sketch.len()))?;
    Some(Interval { low, high })
}

/// Of a rate over time.
pub(crate) fn rate(value: f64, bins: &Bins, level: f64) -> Option<Interval> {
    let (error, freedom) = bins.relative_error()?;
    let reach = value * error * student(f64::midpoint(1.0, level), freedom);
    Some(Interval { low: (value - reach).max(0.0), high: value + reach })
}

/// Wilson's score interval of `part` in `whole`.
pub(crate) fn share(part: f64, whole: f64, level: f64) -> Option<Interval> {
    if whole <= 0.0 {
        return None;
    }
    let z = normal(f64::midpoint(1.0, level));
    let p = part / whole;
    let middle = (p + z * z / (2.0 * whole)) / (1.0 + z * z / whole);
    let reach = z * (p * (1.0 - p) / whole + z * z / (4.0 * whole * whole)).sqrt() / (1.0 + z * z / whole);
    // Without the last bits where they would be noise.
    let low = if part == 0.0 { 0.0 } else { (middle - reach).max(0.0) };
    let high = if part >= whole { 1.0 } else { (middle + reach).min(1.0) };
    Some(Interval { low, high })
}

/// Ranks, as shares of `n`, that hold the quantile `q` between them with the probability `level`: of the binomial law, and of the normal one
/// where that is the same.
fn rank_shares(n: f64, q: f64, level: f64) -> Option<(f64, f64)> {
    let tail = (1.0 - level) / 2.0;
    if n > 2_000.0 && n * q * (1.0 - q) > 50.0 {
        let reach = normal(1.0 - tail) * (q * (1.0 - q) / n).sqrt();
        return Some((q - reach, q + reach)).filter(|(low, high)| *low > 0.0 && *high <= 1.0);
    }
    let n = n.floor();
    // The largest rank whose value is below the quantile often enough, and the smallest above it.
    let (mut below, mut low, mut high) = (0.0, None, None);
    let mut log = n * (-q).ln_1p();
    for k in 0..=(n as u64) {
        let before = below;
        below += log.exp();
        // P(X ≤ k − 1) is the chance that the value of rank k is above the quantile.
        if before <= tail && k >= 1 {
            low = Some(k);
        }
        if below >= 1.0 - tail && k < n as u64 {
            high = Some(k + 1);
            break;
        }
        log += ((n - k as f64) / (k as f64 + 1.0)).ln() + q.ln() - (-q).ln_1p();
    }
    Some((low? as f64 / n, high? as f64 / n))
}

/// Quantile of the standard normal law (Wichura 1988 to seven digits: AS 241, PPND7).
pub(crate) fn normal(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * (((59.109_374_72 * r + 159.291_132_02) * r + 50.434_271_938) * r + 3.387_132_717_9)
            / (((67.187_563_6 * r + 78.757_757_664) * r + 17.895_169_469) * r + 1.0);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = (-tail.ln()).sqrt();
    let size = if r <= 5.0 {
        let r = r - 1.6;
        (((0.170_238_21 * r + 1.306_728_481_6) * r + 2.756_815_39) * r + 1.423_437_277_7)
            / ((0.120_211_32 * r + 0.737_001_642_5) * r + 1.0)
    } else {
        let r = r - 5.0;
        (((0.017_337_203_997 * r + 0.428_682_948_37) * r + 3.081_226_388) * r + 6.657_905_115)
            / ((0.012_258_202_635 * r + 0.241_978_942_25) * r + 1.0)
    };
    if q < 0.0 { -size } else { size }
}

/// Quantile of Student's law with `freedom` degrees of freedom, 4 or more (Cornish and Fisher's expansion).
pub(crate) fn student(p: f64, freedom: f64) -> f64 {
    let z = normal(p);
    let z2 = z * z;
    let terms = [
        z * (z2 + 1.0) / 4.0,
        z * ((5.0 * z2 + 16.0) * z2 + 3.0) / 96.0,
        z * (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / 384.0,
        z * ((((79.0 * z2 + 776.0) * z2 + 1482.0) * z2 - 1920.0) * z2 - 945.0) / 92_160.0,
    ];
    z + terms.iter().rev().fold(0.0, |sum, term| (sum + term) / freedom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (p, z) in
            [(0.5, 0.0), (0.9, 1.281_552), (0.975, 1.959_964), (0.995, 2.575_829), (0.999_999, 4.753_424)]
        {
            assert!((normal(p) - z).abs() < 2e-6, "{p}: {}", normal(p));
            assert!((normal(1.0 - p) + z).abs() < 2e-6, "{p}");
        }
        for (p, v, t) in
            [(0.975, 4.0, 2.776_4), (0.975, 10.0, 2.228_1), (0.975, 31.0, 2.039_5), (0.95, 63.0, 1.669_4)]
        {
            assert!((student(p, v) / t - 1.0).abs() < 0.01, "{v}: {}", student(p, v));
        }
    }

    #[test]
    fn ranks_around_a_median_are_those_of_the_tables() {
        // Conover's: the median of 20 lies between the values of rank 6 and 15 in 95.9 % of cases.
        let (low, high) = rank_shares(20.0, 0.5, 0.95).expect("there are");
        assert_eq!((low * 20.0, high * 20.0), (6.0, 15.0));
        // Of 100 values none is surely above p99; of 400 there is one.
        assert_eq!(rank_shares(100.0, 0.99, 0.95), None);
        assert!(rank_shares(400.0, 0.99, 0.95).is_some());
        let (exact, near) = (rank_shares(2_000.0, 0.5, 0.95), rank_shares(2_001.0, 0.5, 0.95));
        let (exact, near) = (exact.expect("there are"), near.expect("there are"));
        assert!((exact.0 - near.0).abs() < 2e-3 && (exact.1 - near.1).abs() < 2e-3);
    }

    #[test]
    fn shares_are_wilson_s() {
        // 10 of 100: 0.0552 to 0.1744.
        let found = share(10.0, 100.0, 0.95).expect("some");
        assert!((found.low - 0.055_2).abs() < 1e-4 && (found.high - 0.174_4).abs() < 1e-4, "{found:?}");
        assert_eq!(share(0.0, 0.0, 0.95), None);
        assert_eq!(share(0.0, 10.0, 0.95).map(|i| i.low), Some(0.0));
    }

    #[test]
    fn a_difference_reaches_as_far_as_both_together() {
        let around = |value: f64, reach: f64| Interval { low: value - reach, high: value + reach };
        let found = Interval::of_difference(10.0, around(10.0, 3.0), 12.0, around(12.0, 4.0));
        assert_eq!(found, Interval { low: -3.0, high: 7.0 });
        assert!(found.has_zero());
        assert!(!Interval::of_difference(10.0, around(10.0, 0.3), 12.0, around(12.0, 0.4)).has_zero());
    }

    /// Of many samples of one law the interval of the difference must hold 0 about as often as it says.
    #[test]
    fn intervals_hold_what_they_promise() {
        let mut state = 7u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            -((((state >> 11) as f64) + 0.5) / (1u64 << 53) as f64).ln()
        };
        let (mut means, mut medians) = (0, 0);
        for _ in 0..400 {
            let mut pair = || {
                let mut sketch = Sketch::default();
                let all: Vec<f64> = (0..200).map(|_| draw()).collect();
                for v in &all {
                    sketch.add(&[*v]);
                }
                sketch.finish();
                (all.iter().sum::<f64>() / 200.0, sketch)
            };
            let ((a, of_a), (b, of_b)) = (pair(), pair());
            let around = |value, sketch| mean(value, sketch, 0.95).expect("enough");
            means += u32::from(Interval::of_difference(a, around(a, &of_a), b, around(b, &of_b)).has_zero());
            let middle = |s: &Sketch| f64::midpoint(s.at(100).expect("there"), s.at(101).expect("there"));
            let around = |sketch| percentile(0.5, sketch, 0.95).expect("enough");
            let of = Interval::of_difference(middle(&of_a), around(&of_a), middle(&of_b), around(&of_b));
            medians += u32::from(of.has_zero());
        }
        assert!((364..=394).contains(&means), "{means} of 400");
        assert!((364..=398).contains(&medians), "{medians} of 400");
    }
}
