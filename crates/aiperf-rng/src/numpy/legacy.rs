//! `numpy.random.RandomState(seed)`: MT19937 (Matsumoto and Nishimura, 1998) and its `randint`.

const WORDS: usize = 624;
const MIDDLE: usize = 397;
const TWIST: u32 = 0x9908_b0df;
const UPPER: u32 = 0x8000_0000;

/// The generator of `numpy.random.RandomState(seed)` and, after `numpy.random.seed(seed)`, of `numpy.random.randint`.
///
/// ```
/// use aiperf_rng::numpy::LegacyMt19937;
///
/// // numpy.random.RandomState(42).randint(19, 65, size=3)
/// let mut rng = LegacyMt19937::new(42);
/// assert_eq!([(); 3].map(|()| rng.randint(19, 65)), [57, 47, 33]);
/// ```
#[derive(Clone)]
pub struct LegacyMt19937 {
    words: Box<[u32; WORDS]>,
    used: usize,
}

impl std::fmt::Debug for LegacyMt19937 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LegacyMt19937").field("used", &self.used).finish_non_exhaustive()
    }
}

impl LegacyMt19937 {
    /// Seeded as `RandomState(seed)`, which takes 32 bits.
    pub fn new(seed: u32) -> Self {
        let mut words = Box::new([0; WORDS]);
        let mut word = seed;
        for (i, slot) in (1u32..).zip(words.iter_mut()) {
            *slot = word;
            word = 1_812_433_253u32.wrapping_mul(word ^ word >> 30).wrapping_add(i);
        }
        Self { words, used: WORDS }
    }

    /// Seeded with 64 bits folded into 32, as AIPerf does for SGLang's style; see [`fold`](Self::fold).
    pub fn folded(seed: u64) -> Self {
        Self::new(Self::fold(seed))
    }

    /// AIPerf's way from 64 bits of seed to the 32 that `RandomState` takes. Different seeds can fold into one.
    pub const fn fold(seed: u64) -> u32 {
        (seed ^ seed >> 32) as u32
    }

    fn next_u32(&mut self) -> u32 {
        if self.used == WORDS {
            for i in 0..WORDS {
                let joined = (self.words[i] & UPPER) | (self.words[(i + 1) % WORDS] & !UPPER);
                let twist = if joined & 1 == 1 { TWIST } else { 0 };
                self.words[i] = self.words[(i + MIDDLE) % WORDS] ^ joined >> 1 ^ twist;
            }
            self.used = 0;
        }
        let mut word = self.words[self.used];
        self.used += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }

    /// `randint(low, high)` for ranges of at most 2^32 numbers: uniform from `low` up to and without `high`, by masked
    /// rejection. A range of one number draws nothing; an empty one gives `low`; a wider one is taken as 2^32.
    pub fn randint(&mut self, low: u64, high: u64) -> u64 {
        let last = high.saturating_sub(1).saturating_sub(low);
        if last == 0 {
            return low;
        }
        let last = u32::try_from(last).unwrap_or(u32::MAX);
        let mask = u32::MAX >> last.leading_zeros();
        loop {
            let offset = self.next_u32() & mask;
            if offset <= last {
                return low + u64::from(offset);
            }
        }
    }
}
