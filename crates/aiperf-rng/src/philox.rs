//! Philox4x64-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
//! 1, 2, 3" (SC 2011). It passes TestU01's BigCrush for sequential counters and for sequential keys.
//!
//! Chosen over Philox4x32 and Threefry because the 128-bit key holds seed and purpose side by side without hashing them
//! into each other, and because one block gives four 64-bit words for ten multiplication rounds.

/// Multipliers of the two halves.
const MULTIPLIER: [u64; 2] = [0xd2e7_470e_e14c_6c93, 0xca5a_8263_9512_1157];
/// What each round adds to the key: the golden ratio and √3 − 1, as 64-bit fractions.
const WEYL: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xbb67_ae85_84ca_a73b];
const ROUNDS: usize = 10;

/// Four random words from a counter and a key: a bijection of the counter for each key.
#[inline]
pub const fn philox4x64(mut counter: [u64; 4], mut key: [u64; 2]) -> [u64; 4] {
    let mut round = 0;
    while round < ROUNDS {
        let a = MULTIPLIER[0] as u128 * counter[0] as u128;
        let b = MULTIPLIER[1] as u128 * counter[2] as u128;
        counter = [
            (b >> 64) as u64 ^ counter[1] ^ key[0],
            b as u64,
            (a >> 64) as u64 ^ counter[3] ^ key[1],
            a as u64,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        round += 1;
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The three known answers that the authors publish with Random123 (`philox4x64`, 10 rounds).
    #[test]
    fn known_answers_of_random123() {
        assert_eq!(
            philox4x64([0; 4], [0; 2]),
            [0x1655_4d9e_ca36_314c, 0xdb20_fe9d_672d_0fdc, 0xd7e7_72ce_e186_176b, 0x7e68_b68a_ec7b_a23b]
        );
        assert_eq!(
            philox4x64([u64::MAX; 4], [u64::MAX; 2]),
            [0x87b0_92c3_013f_e90b, 0x438c_3c67_be8d_0224, 0x9cc7_d7c6_9cd7_77b6, 0xa09c_aebf_594f_0ba0]
        );
        assert_eq!(
            philox4x64(
                [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89],
                [0x4528_21e6_38d0_1377, 0xbe54_66cf_34e9_0c6c]
            ),
            [0xa528_f454_03e6_1d95, 0x38c7_2dbd_566e_9788, 0xa5a1_610e_72fd_18b5, 0x57bd_43b5_e52b_7fe6]
        );
    }
}
