//! The words of one index, and the distributions made of them.

use crate::elementary::{exp, ln};
use crate::philox::philox4x64;

/// How often [`Draws::positive_normal`] draws again before it takes the mean; AIPerf's bound.
const LENGTH_TRIES: u32 = 10_000;
/// 2^-53, the distance of neighbours in [`Draws::unit`].
const UNIT_STEP: f64 = 1.0 / 9_007_199_254_740_992.0;

/// The draws of one (seed, purpose, index): an endless iterator of 64-bit words.
///
/// Each method takes as many words as it needs, so their order within an index matters, and nothing outside it does.
#[derive(Debug, Clone)]
pub struct Draws {
    key: [u64; 2],
    index: u64,
    lane: u64,
    /// Next block to make.
    block: u64,
    words: [u64; 4],
    /// Words of `words` already given; 4 means none is left.
    used: u8,
}

impl Draws {
    pub(crate) const fn new(key: [u64; 2], index: u64, lane: u64) -> Self {
        Self { key, index, lane, block: 0, words: [0; 4], used: 4 }
    }

    /// The next word, uniform over all 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        if self.used >= 4 {
            self.words = philox4x64([self.block, self.index, self.lane, 0], self.key);
            self.block += 1;
            self.used = 0;
        }
        let word = self.words[usize::from(self.used)];
        self.used += 1;
        word
    }

    /// The next 128 bits, for an id.
    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }

    /// Uniform in [0, 1), in steps of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * UNIT_STEP
    }

    /// Uniform in (0, 1], in steps of 2^-53: fit for a logarithm.
    #[inline]
    pub fn unit_positive(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 * UNIT_STEP
    }

    /// A whole number below `bound`, each equally likely; 0 when `bound` is 0.
    ///
    /// Lemire, "Fast random integer generation in an interval" (2019): the high half of a 128-bit product, and another
    /// draw for the few low halves that would favour some numbers.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let mut product = u128::from(self.next_u64()) * u128::from(bound);
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// A position in a slice of `len` elements; 0 when it is empty.
    pub fn position(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Standard normal (mean 0, variance 1), by Marsaglia's polar method: it needs a logarithm and a square root, no
    /// trigonometry. The method's second value is not kept.
    pub fn normal(&mut self) -> f64 {
        loop {
            let x = 2.0 * self.unit() - 1.0;
            let y = 2.0 * self.unit() - 1.0;
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * ln(square) / square).sqrt();
            }
        }
    }

    /// Exponential with mean 1, by inversion; at most 53 ln 2 ≈ 36.7.
    pub fn exp1(&mut self) -> f64 {
        -ln(self.unit_positive())
    }

    /// Gamma with the given shape and scale 1 (mean and variance are the shape). A shape that is not a positive finite
    /// number gives NaN.
    ///
    /// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000): a cubed normal is accepted or drawn
    /// again; below shape 1, a gamma of shape + 1 times U^(1/shape).
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if !(shape > 0.0 && shape.is_finite()) {
            return f64::NAN;
        }
        if shape < 1.0 {
            let boost = exp(ln(self.unit_positive()) / shape);
            return self.gamma(shape + 1.0) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let root = 1.0 + c * x;
            if root <= 0.0 {
                continue;
            }
            let v = root * root * root;
            if ln(self.unit_positive()) < 0.5 * x * x + d - d * v + d * ln(v) {
                return d * v;
            }
        }
    }

    /// Normal with `mean` and `stddev`, drawn again while it is negative; after 10,000 tries the mean.
    pub fn positive_normal(&mut self, mean: f64, stddev: f64) -> f64 {
        for _ in 0..LENGTH_TRIES {
            let sample = mean + stddev * self.normal();
            if sample >= 0.0 {
                return sample;
            }
        }
        mean
    }

    /// A length in tokens, at least 1.
    ///
    /// AIPerf's rule for a positive normal integer: with `stddev` ≤ 0 the mean rounded half to even, without a draw; else
    /// a normal sample rounded up, drawn again while it is negative, and after 10,000 tries the mean rounded up. NaN and
    /// means below 1 give 1.
    pub fn normal_length(&mut self, mean: f64, stddev: f64) -> u64 {
        if stddev.is_nan() || stddev <= 0.0 {
            return (mean.round_ties_even() as u64).max(1);
        }
        (self.positive_normal(mean, stddev).ceil() as u64).max(1)
    }
}

impl Iterator for Draws {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        Some(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Draws, Key};
    use proptest::prelude::*;

    const N: u64 = 100_000;

    /// Mean and variance of one draw from each of [`N`] indexes; and the correlation of neighbours.
    fn moments(f: impl Fn(&mut Draws) -> f64) -> (f64, f64, f64) {
        let stream = Key::new(2024).purpose("test.moments");
        let xs: Vec<f64> = (0..N).map(|i| f(&mut stream.at(i))).collect();
        let n = N as f64;
        let mean = xs.iter().sum::<f64>() / n;
        let variance = xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let lagged = xs.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>() / n / variance;
        (mean, variance, lagged)
    }

    /// The bounds are 4 standard errors; the seed is fixed, so the outcome is too.
    fn assert_moments(f: impl Fn(&mut Draws) -> f64, mean: f64, variance: f64, fourth: f64) {
        let (m, v, lag) = moments(f);
        let n = N as f64;
        let mean_error = 4.0 * (variance / n).sqrt();
        let variance_error = 4.0 * ((fourth - variance * variance) / n).sqrt();
        assert!((m - mean).abs() < mean_error, "mean {m}, want {mean} ± {mean_error}");
        assert!((v - variance).abs() < variance_error, "variance {v}, want {variance} ± {variance_error}");
        assert!(lag.abs() < 4.0 / n.sqrt(), "neighbours correlate: {lag}");
    }

    #[test]
    fn uniform_moments() {
        assert_moments(Draws::unit, 0.5, 1.0 / 12.0, 1.0 / 80.0);
        assert_moments(Draws::unit_positive, 0.5, 1.0 / 12.0, 1.0 / 80.0);
    }

    #[test]
    fn normal_moments() {
        assert_moments(Draws::normal, 0.0, 1.0, 3.0);
    }

    #[test]
    fn exponential_moments() {
        assert_moments(Draws::exp1, 1.0, 1.0, 9.0);
    }

    /// The fourth central moment of a gamma of shape a is 3a² + 6a.
    #[test]
    fn gamma_moments() {
        for shape in [0.1, 0.5, 1.0, 2.5, 30.0, 1e4] {
            assert_moments(|d| d.gamma(shape), shape, shape, 3.0 * shape * shape + 6.0 * shape);
        }
    }

    /// Kolmogorov–Smirnov against the exact distribution; 1.95 / √n is the 0.1 % point.
    fn assert_distribution(f: impl Fn(&mut Draws) -> f64, cdf: impl Fn(f64) -> f64) {
        let stream = Key::new(77).purpose("test.distribution");
        let mut xs: Vec<f64> = (0..N).map(|i| f(&mut stream.at(i))).collect();
        xs.sort_by(f64::total_cmp);
        let n = N as f64;
        let distance = xs
            .iter()
            .enumerate()
            .map(|(i, x)| {
                let p = cdf(*x);
                (p - i as f64 / n).abs().max((p - (i + 1) as f64 / n).abs())
            })
            .fold(0.0, f64::max);
        assert!(distance < 1.95 / n.sqrt(), "{distance}");
    }

    #[test]
    fn distributions_are_the_named_ones() {
        assert_distribution(Draws::unit, |x| x);
        assert_distribution(Draws::exp1, |x| 1.0 - (-x).exp());
        assert_distribution(|d| d.gamma(1.0), |x| 1.0 - (-x).exp());
        // Shape 2 has the closed form 1 − (1 + x) e^−x; half the sum of two squared normals is exponential.
        assert_distribution(|d| d.gamma(2.0), |x| 1.0 - (1.0 + x) * (-x).exp());
        let chi = |d: &mut Draws| {
            let z = d.normal();
            0.5 * (z * z + d.normal().powi(2))
        };
        assert_distribution(chi, |x| 1.0 - (-x).exp());
    }

    #[test]
    fn small_bounds_are_filled_evenly() {
        let stream = Key::new(5).purpose("test.below");
        for bound in [2u64, 3, 7, 10] {
            let mut counts = vec![0f64; bound as usize];
            for i in 0..N {
                counts[stream.at(i).below(bound) as usize] += 1.0;
            }
            let want = N as f64 / bound as f64;
            let chi_square: f64 = counts.iter().map(|c| (c - want).powi(2) / want).sum();
            // Mean bound − 1, standard deviation √(2(bound − 1)).
            let free = (bound - 1) as f64;
            assert!(chi_square < free + 5.0 * (2.0 * free).sqrt() + 3.0, "{bound}: {chi_square}");
        }
    }

    /// With a bound of 3/4 of the range a quarter of all words must be drawn again, else the low third is favoured.
    #[test]
    fn huge_bounds_have_no_bias() {
        let bound = 3 << 62;
        let stream = Key::new(6).purpose("test.below");
        let low = (0..N).filter(|i| stream.at(*i).below(bound) < bound / 3).count() as f64;
        let want = N as f64 / 3.0;
        assert!((low - want).abs() < 4.0 * (want * 2.0 / 3.0).sqrt(), "{low}, want {want}");
    }

    #[test]
    fn odd_arguments_have_odd_answers_and_no_panic() {
        let mut d = Key::new(0).purpose("").at(0);
        assert_eq!(d.below(0), 0);
        assert_eq!(d.below(1), 0);
        for shape in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(d.gamma(shape).is_nan());
        }
        assert!(d.gamma(1e-300) >= 0.0);
        assert_eq!(d.normal_length(f64::NAN, 0.0), 1);
        assert_eq!(d.normal_length(f64::NAN, 1.0), 1);
        assert_eq!(d.normal_length(-1e9, 1.0), 1);
    }

    #[test]
    fn lengths_follow_the_reference_rule() {
        let stream = Key::new(1).purpose("test.length");
        for (mean, want) in [(550.0, 550), (2.5, 2), (3.5, 4), (0.4, 1), (0.0, 1)] {
            let mut d = stream.at(0);
            assert_eq!(d.normal_length(mean, 0.0), want);
            assert_eq!(d.next_u64(), stream.draw(0), "no draw is used");
        }
        let (mean, variance, _) = moments(|d| d.normal_length(550.0, 50.0) as f64);
        // Rounding up adds a half to the mean and a twelfth to the variance.
        assert!((mean - 550.5).abs() < 0.65, "{mean}");
        assert!((variance - 2500.0).abs() < 45.0, "{variance}");
        // A wide spread is truncated at zero, not folded or clamped.
        let ones = (0..1000).filter(|i| stream.at(*i).normal_length(10.0, 20.0) == 1).count();
        assert!((5..60).contains(&ones), "{ones}");
    }

    /// Pinned values: what a seed means must not change between versions.
    #[test]
    fn a_seed_keeps_its_meaning() {
        let stream = Key::new(42).purpose("test.pinned");
        let bits = |x: f64| x.to_bits();
        let got = [
            stream.at(0).next_u64(),
            stream.at(1).below(1_000_000),
            bits(stream.at(2).unit()),
            bits(stream.at(3).normal()),
            bits(stream.at(4).exp1()),
            bits(stream.at(5).gamma(0.5)),
            bits(stream.at(6).gamma(3.0)),
            stream.at(7).normal_length(550.0, 100.0),
        ];
        assert_eq!(
            got,
            [
                8_560_343_669_646_956_161,
                756_511,
                4_606_928_952_775_867_813,
                13_821_716_385_613_981_739,
                4_608_705_708_139_156_162,
                4_609_707_262_550_923_725,
                4_612_963_529_053_982_866,
                440
            ]
        );
    }

    proptest! {
        #[test]
        fn ranges_hold(seed: u64, index: u64, bound in 1u64..) {
            let mut d = Key::new(seed).purpose("test.ranges").at(index);
            for _ in 0..20 {
                let (a, b) = (d.unit(), d.unit_positive());
                prop_assert!((0.0..1.0).contains(&a));
                prop_assert!(b > 0.0 && b <= 1.0);
                prop_assert!(d.below(bound) < bound);
                let e = d.exp1();
                prop_assert!((0.0..40.0).contains(&e));
                prop_assert!(d.normal().is_finite());
            }
        }
    }
}
