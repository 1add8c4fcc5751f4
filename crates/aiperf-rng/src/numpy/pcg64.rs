//! `numpy.random.default_rng(seed)`: PCG XSL-RR 128/64 (O'Neill, 2014) and numpy's ways of drawing from it.

use super::seed_sequence;
use super::ziggurat::{BOUNDS, HEIGHTS, TAIL, TAIL_INVERSE, WIDTHS};
use crate::elementary::{exp, ln};

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
/// 2^-53.
const UNIT_STEP: f64 = 1.0 / 9_007_199_254_740_992.0;

/// The generator of `numpy.random.default_rng(seed)`.
///
/// ```
/// use aiperf_rng::numpy::Pcg64;
///
/// // numpy.random.default_rng(0).integers(44, 84, size=3)
/// let mut rng = Pcg64::new(0);
/// assert_eq!([(); 3].map(|()| rng.integers(44, 84)), [78, 69, 64]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pcg64 {
    state: u128,
    increment: u128,
    /// The high half of a word whose low half was given by [`Self::next_u32`]. It waits across all other calls.
    half: Option<u32>,
}

impl Pcg64 {
    /// Seeded as `default_rng(seed)`.
    pub fn new(seed: u64) -> Self {
        let [a, b, c, d] = seed_sequence::words(seed).map(u128::from);
        let mut rng = Self { state: 0, increment: (c << 64 | d) << 1 | 1, half: None };
        rng.step();
        rng.state = rng.state.wrapping_add(a << 64 | b);
        rng.step();
        rng
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    /// The next word.
    pub fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// The next half word: the low half of a fresh word, and on the next call its high half.
    pub fn next_u32(&mut self) -> u32 {
        if let Some(half) = self.half.take() {
            return half;
        }
        let word = self.next_u64();
        self.half = Some((word >> 32) as u32);
        word as u32
    }

    /// `random()`: uniform in [0, 1), in steps of 2^-53.
    pub fn random(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * UNIT_STEP
    }

    /// `integers(low, high)`: uniform from `low` up to and without `high`. A range of one number draws nothing; an empty
    /// one gives `low`.
    pub fn integers(&mut self, low: u64, high: u64) -> u64 {
        // numpy's `rng` is the largest offset, not the number of them.
        let last = high.saturating_sub(1).saturating_sub(low);
        if last == 0 {
            return low;
        }
        let offset = match u32::try_from(last) {
            Ok(u32::MAX) => u64::from(self.next_u32()),
            Ok(last) => u64::from(self.lemire_32(last)),
            Err(_) => self.lemire_64(last),
        };
        low + offset
    }

    /// Lemire's bounded integers (2019) over half words; `last` is below `u32::MAX`.
    fn lemire_32(&mut self, last: u32) -> u32 {
        let count = last + 1;
        let mut product = u64::from(self.next_u32()) * u64::from(count);
        if (product as u32) < count {
            let threshold = (u32::MAX - last) % count;
            while (product as u32) < threshold {
                product = u64::from(self.next_u32()) * u64::from(count);
            }
        }
        (product >> 32) as u32
    }

    /// The same over whole words.
    fn lemire_64(&mut self, last: u64) -> u64 {
        let Some(count) = last.checked_add(1) else { return self.next_u64() };
        let mut product = u128::from(self.next_u64()) * u128::from(count);
        if (product as u64) < count {
            let threshold = (u64::MAX - last) % count;
            while (product as u64) < threshold {
                product = u128::from(self.next_u64()) * u128::from(count);
            }
        }
        (product >> 64) as u64
    }

    /// `shuffle(list)`: in place, from the end, each position by masked rejection over half words. For lists below 2^32.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            let last = u32::try_from(i).unwrap_or(u32::MAX);
            let mask = u32::MAX >> last.leading_zeros();
            let mut j = self.next_u32() & mask;
            while j > last {
                j = self.next_u32() & mask;
            }
            list.swap(i, j as usize);
        }
    }

    /// `bytes(N)`: four of each half word, least first; what is left of the last is dropped.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for four in bytes.chunks_mut(4) {
            four.copy_from_slice(&self.next_u32().to_le_bytes()[..four.len()]);
        }
        bytes
    }

    /// `choice(len, p=…)` for the cumulative sums of `p`, the last of which is 1.
    pub fn choice(&mut self, sums: &[f64]) -> usize {
        let at = self.random();
        sums.partition_point(|sum| *sum <= at).min(sums.len().saturating_sub(1))
    }

    /// `standard_normal()`.
    pub fn standard_normal(&mut self) -> f64 {
        loop {
            let word = self.next_u64();
            let layer = (word & 0xff) as usize;
            let is_negative = word >> 8 & 1 == 1;
            let within = word >> 9 & 0x000f_ffff_ffff_ffff;
            let size = within as f64 * f64::from_bits(WIDTHS[layer]);
            let x = if is_negative { -size } else { size };
            if within < BOUNDS[layer] {
                return x;
            }
            if layer == 0 {
                loop {
                    // 1 - u is exact for the steps of u.
                    let beyond = -TAIL_INVERSE * ln(1.0 - self.random());
                    let gate = -ln(1.0 - self.random());
                    if gate + gate > beyond * beyond {
                        let x = TAIL + beyond;
                        return if within >> 8 & 1 == 1 { -x } else { x };
                    }
                }
            }
            let (low, high) = (f64::from_bits(HEIGHTS[layer]), f64::from_bits(HEIGHTS[layer - 1]));
            if (high - low) * self.random() + low < exp(-0.5 * x * x) {
                return x;
            }
        }
    }

    /// `lognormal(mean, sigma)`: e to the power of a normal. Where the platform's exponential rounds otherwise than ours, the last digit
    /// differs from numpy's.
    pub fn lognormal(&mut self, mean: f64, sigma: f64) -> f64 {
        exp(mean + sigma * self.standard_normal())
    }

    #[cfg(test)]
    pub(super) fn parts(&self) -> (u128, u128, Option<u32>) {
        (self.state, self.increment, self.half)
    }
}
