//! A shuffled order that needs no table: where does index `i` go?

use crate::Stream;

/// Rounds of the Feistel network; four are enough for a pseudo-random permutation (Luby and Rackoff, 1988), two more
/// because the halves of small domains are short.
const ROUNDS: u64 = 6;

/// A keyed bijection of `0..len`.
///
/// A Feistel network over the next even power of two, walked along its cycle until it lands inside the domain (Black and
/// Rogaway, "Ciphers with arbitrary finite domains", 2002): less than four steps in the mean.
#[derive(Debug, Clone, Copy)]
pub struct Permutation {
    stream: Stream,
    len: u64,
    half_bits: u32,
}

impl Permutation {
    /// The permutation of `0..len` that belongs to `stream`. Lengths above 2^62 are taken as 2^62.
    pub fn new(stream: Stream, len: u64) -> Self {
        let len = len.min(1 << 62);
        let bits = 64 - len.saturating_sub(1).leading_zeros();
        Self { stream, len, half_bits: bits.div_ceil(2).max(1) }
    }

    /// Number of elements.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no element.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where `index` goes; it is taken modulo [`Self::len`]. 0 when there is no element.
    pub fn at(&self, index: u64) -> u64 {
        if self.len == 0 {
            return 0;
        }
        let mut x = index % self.len;
        loop {
            x = self.network(x);
            if x < self.len {
                return x;
            }
        }
    }

    fn network(&self, x: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (x >> self.half_bits, x & mask);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ (self.stream.lane(round).draw(right) & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use proptest::prelude::*;

    #[test]
    fn empty_and_single() {
        let stream = Key::new(1).purpose("test.permutation");
        assert!(Permutation::new(stream, 0).is_empty());
        assert_eq!(Permutation::new(stream, 0).at(5), 0);
        assert_eq!(Permutation::new(stream, 1).at(5), 0);
    }

    /// Each of the 24 orders of four elements comes about equally often over the seeds.
    #[test]
    fn orders_of_four_are_even() {
        let mut counts = std::collections::HashMap::new();
        for seed in 0..12_000 {
            let p = Permutation::new(Key::new(seed).purpose("test.permutation"), 4);
            *counts.entry([0, 1, 2, 3].map(|i| p.at(i))).or_insert(0f64) += 1.0;
        }
        assert_eq!(counts.len(), 24);
        let chi_square: f64 = counts.values().map(|c| (c - 500.0).powi(2) / 500.0).sum();
        assert!(chi_square < 23.0 + 5.0 * 46.0f64.sqrt(), "{chi_square}");
    }

    proptest! {
        #[test]
        fn is_a_bijection(seed: u64, len in 1u64..3000) {
            let p = Permutation::new(Key::new(seed).purpose("test.permutation"), len);
            let mut seen = vec![false; len as usize];
            for i in 0..len {
                let to = p.at(i) as usize;
                prop_assert!(!seen[to]);
                seen[to] = true;
            }
        }

        #[test]
        fn huge_domains_stay_inside(seed: u64, len in 1u64..=1 << 62, index: u64) {
            prop_assert!(Permutation::new(Key::new(seed).purpose("test.permutation"), len).at(index) < len);
        }
    }
}
