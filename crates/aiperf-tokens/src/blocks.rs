//! Hashes of the blocks in which servers cache prefixes.

/// Tokens of a prefix-cache block in vLLM unless it is told otherwise.
pub const BLOCK_TOKENS: usize = 16;

/// A chain of hashes over token ids: each depends on all ids before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chain(u64);

impl Chain {
    const START: Self = Self(0x9e37_79b9_7f4a_7c15);

    const fn then(self, word: u64) -> Self {
        Self(mix(self.0 ^ word))
    }
}

/// Chained hashes of the full blocks of `tokens` (at least 1) ids: a block's hash covers all ids before it too. What is left
/// over at the end makes no block.
///
/// # Panics
/// Without `tokens`.
pub fn block_hashes(ids: &[u32], tokens: usize) -> impl Iterator<Item = u64> + '_ {
    marked_block_hashes(ids, tokens, None)
}

/// The same where from place `mark.0` of the ids on all is other text than that of any prompt whose `mark.1` is another, though
/// it may have the same ids: what stands in for text that is not known.
///
/// # Panics
/// Without `tokens`.
pub fn marked_block_hashes(
    ids: &[u32],
    tokens: usize,
    mark: Option<(usize, u64)>,
) -> impl Iterator<Item = u64> + '_ {
    let mut chain = Chain::START;
    let mut at = 0;
    ids.chunks_exact(tokens).map(move |block| {
        for id in block {
            if let Some((place, mark)) = mark
                && place == at
            {
                // No id is that large, so no sequence of ids has the same chain.
                chain = chain.then(mark | 1 << 63);
            }
            at += 1;
            chain = chain.then(u64::from(*id));
        }
        chain.0
    })
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood, 2014): a bijection, so chains differ until they collide by chance.
const fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(ids: &[u32], tokens: usize) -> Vec<u64> {
        block_hashes(ids, tokens).collect()
    }

    #[test]
    fn a_block_s_hash_covers_all_before_it() {
        let ids: Vec<u32> = (0..40).collect();
        let whole = hashes(&ids, 16);
        assert_eq!(whole.len(), 2, "what is left over makes no block");
        assert_eq!(hashes(&ids[..32], 16), whole);
        assert_eq!(hashes(&ids[..16], 16), whole[..1]);
        let mut other = ids.clone();
        other[3] = 99;
        assert!(hashes(&other, 16).iter().all(|hash| !whole.contains(hash)));
        other = ids.clone();
        other[16] = 99;
        let late = hashes(&other, 16);
        assert_eq!(late[0], whole[0]);
        assert_ne!(late[1], whole[1]);
        // The same ids in one block of 32 have the chain's state at its end.
        assert_eq!(hashes(&ids, 32), whole[1..]);
        assert!(hashes(&ids[..15], 16).is_empty() && hashes(&[], 1).is_empty());
    }

    #[test]
    fn a_mark_parts_what_is_behind_it() {
        let ids: Vec<u32> = (0..64).collect();
        let marked = |place: usize, mark: u64| -> Vec<u64> {
            marked_block_hashes(&ids, 16, Some((place, mark))).collect()
        };
        let plain = hashes(&ids, 16);
        for place in [0, 1, 16, 31, 32, 47] {
            let (one, two) = (marked(place, 1), marked(place, 2));
            assert_eq!(one, marked(place, 1));
            for block in 0..4 {
                let is_before = (block + 1) * 16 <= place;
                assert_eq!(one[block] == plain[block], is_before, "{place} {block}");
                assert_eq!(one[block] == two[block], is_before, "{place} {block}");
            }
        }
        assert_eq!(marked(64, 1), plain);
    }
}
