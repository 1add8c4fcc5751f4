//! From a seed and a named purpose to draws by index.

use crate::draws::Draws;

/// The seed of a run; the root of all its draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    seed: u64,
}

impl Key {
    /// The key of a run seed. Every seed is a good one, 0 included.
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The stream of a purpose. Names are dotted and lower case (`load.arrival.gap`); each consumer has its own.
    pub const fn purpose(self, name: &str) -> Stream {
        Stream { key: [self.seed, fnv1a(name.as_bytes())], lane: 0 }
    }
}

/// All draws of one seed and purpose, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    key: [u64; 2],
    lane: u64,
}

impl Stream {
    /// A stream beside this one, for purposes that come in numbers (a phase, a turn). Lane 0 is the stream itself.
    #[must_use]
    pub const fn lane(self, lane: u64) -> Self {
        Self { key: self.key, lane }
    }

    /// The draws of an index: as many as a rejection loop may need.
    #[inline]
    pub const fn at(self, index: u64) -> Draws {
        Draws::new(self.key, index, self.lane)
    }

    /// The first word of an index.
    #[inline]
    pub fn draw(self, index: u64) -> u64 {
        self.at(index).next_u64()
    }
}

/// One word: a function of seed, purpose and index alone.
pub fn draw(seed: u64, purpose: &str, index: u64) -> u64 {
    Key::new(seed).purpose(purpose).draw(index)
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo). Philox mixes the key, so the hash has only to keep different names apart.
const fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::philox::philox4x64;

    #[test]
    fn fnv1a_known_answers() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    /// The layout of key and counter is part of what a seed means; it must not move.
    #[test]
    fn a_draw_is_the_documented_block() {
        let want = philox4x64([0, 7, 0, 0], [42, fnv1a(b"dataset.prompt.length")]);
        assert_eq!(draw(42, "dataset.prompt.length", 7), want[0]);
        let next = philox4x64([1, 7, 3, 0], [42, fnv1a(b"dataset.prompt.length")]);
        let lane = Key::new(42).purpose("dataset.prompt.length").lane(3);
        assert_eq!(lane.at(7).nth(4), Some(next[0]));
    }

    #[test]
    fn seed_purpose_index_and_lane_each_matter() {
        let a = Key::new(1).purpose("a");
        let mut seen = std::collections::HashSet::new();
        for seed in 0..20 {
            for purpose in ["a", "b", "ab", "ba", ""] {
                for index in 0..20 {
                    for lane in 0..5 {
                        let stream = Key::new(seed).purpose(purpose).lane(lane);
                        assert!(seen.insert(stream.draw(index)), "{seed} {purpose} {index} {lane}");
                    }
                }
            }
        }
        assert_eq!(a.draw(3), a.lane(0).draw(3));
    }

    /// One bit of seed, index or lane changes half of the output bits.
    #[test]
    fn avalanche() {
        let mut flipped = 0u32;
        for bit in 0..64 {
            let base = Key::new(0x63).purpose("p");
            let word = base.draw(0x4d2);
            flipped += (word ^ Key::new(0x63 ^ 1 << bit).purpose("p").draw(0x4d2)).count_ones();
            flipped += (word ^ base.draw(0x4d2 ^ 1 << bit)).count_ones();
            flipped += (word ^ base.lane(1 << bit).draw(0x4d2)).count_ones();
        }
        let mean = f64::from(flipped) / (3.0 * 64.0);
        assert!((mean - 32.0).abs() < 1.2, "{mean}: 4 standard errors are 1.2");
    }
}
