//! `numpy.random.SeedSequence`: from a seed to the words a generator starts with.

const POOL_WORDS: usize = 4;
const INIT_A: u32 = 0x43b0_d7e5;
const MULT_A: u32 = 0x931e_8875;
const INIT_B: u32 = 0x8b51_f9dd;
const MULT_B: u32 = 0x58f3_8ded;
const MIX_LEFT: u32 = 0xca01_f9dd;
const MIX_RIGHT: u32 = 0x4973_f715;
const SHIFT: u32 = 16;

/// Hashes one word with a constant that moves on with each call.
struct Hash {
    constant: u32,
    factor: u32,
}

impl Hash {
    fn of(&mut self, word: u32) -> u32 {
        let mixed = word ^ self.constant;
        self.constant = self.constant.wrapping_mul(self.factor);
        let mixed = mixed.wrapping_mul(self.constant);
        mixed ^ mixed >> SHIFT
    }
}

fn mix(left: u32, right: u32) -> u32 {
    let mixed = MIX_LEFT.wrapping_mul(left).wrapping_sub(MIX_RIGHT.wrapping_mul(right));
    mixed ^ mixed >> SHIFT
}

/// The first four 64-bit words that `SeedSequence(seed)` generates.
pub(super) fn words(seed: u64) -> [u64; 4] {
    // A seed of 64 bits is at most two of the pool's four words; numpy fills the others as if they were zeros.
    let entropy = [seed as u32, (seed >> 32) as u32, 0, 0];
    let mut hash = Hash { constant: INIT_A, factor: MULT_A };
    let mut pool = entropy.map(|word| hash.of(word));
    for from in 0..POOL_WORDS {
        for to in (0..POOL_WORDS).filter(|to| *to != from) {
            pool[to] = mix(pool[to], hash.of(pool[from]));
        }
    }
    let mut hash = Hash { constant: INIT_B, factor: MULT_B };
    let mut half = 0;
    [(); 4].map(|()| {
        let low = u64::from(hash.of(pool[half % POOL_WORDS]));
        let high = u64::from(hash.of(pool[(half + 1) % POOL_WORDS]));
        half += 2;
        high << 32 | low
    })
}
