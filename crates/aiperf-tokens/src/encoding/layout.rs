// Shared with build.rs: the tables of a vocabulary are laid out the same way for those that are built in and those that
// are read from a file.

use super::hash::{EMPTY, ID_BITS, first_slot, hash, slot_value};

/// Slots for each token, in tenths: 1.6 keeps a miss at three to four slots, which share a cache line.
const SLOTS_PER_TEN_TOKENS: usize = 16;

/// The tables that `ranks.rs` reads beside the tokens themselves, in words that are little-endian bytes.
pub(crate) struct Tables {
    /// For each rank, where its bytes begin among the tokens.
    pub(crate) starts: Vec<[u8; 4]>,
    /// An open-addressing hash table with linear probing; a slot is a rank and a piece of its hash.
    pub(crate) slots: Vec<[u8; 4]>,
    /// For each two bytes, the rank of their token; all ones where there is none.
    pub(crate) pairs: Vec<[u8; 4]>,
}

/// Lays out `tokens`: in order of their ranks from 0, each as one byte of length followed by its bytes. A length of 0 is a
/// rank that no token has. `None` when the last token is cut or there are more than a slot can number.
pub(crate) fn layout(tokens: &[u8]) -> Option<Tables> {
    let mut starts: Vec<u32> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        starts.push(u32::try_from(at + 1).ok()?);
        at += 1 + usize::from(tokens[at]);
    }
    if at != tokens.len() || starts.len() >= 1 << ID_BITS {
        return None;
    }
    // Two slots at least, so that a search always meets an empty one.
    let mut slots = vec![EMPTY; (starts.len() * SLOTS_PER_TEN_TOKENS / 10).max(2)];
    let mut pairs = vec![EMPTY; 1 << 16];
    for (id, &start) in starts.iter().enumerate() {
        let id = u32::try_from(id).ok()?;
        let start = start as usize;
        let bytes = &tokens[start..start + usize::from(tokens[start - 1])];
        if bytes.is_empty() {
            continue;
        }
        let h = hash(bytes);
        let mut slot = first_slot(h, slots.len());
        while slots[slot] != EMPTY {
            slot = if slot + 1 == slots.len() { 0 } else { slot + 1 };
        }
        slots[slot] = slot_value(h, id);
        if let [first, second] = bytes {
            pairs[usize::from(*first) << 8 | usize::from(*second)] = id;
        }
    }
    let words = |table: Vec<u32>| table.into_iter().map(u32::to_le_bytes).collect();
    Some(Tables { starts: words(starts), slots: words(slots), pairs: words(pairs) })
}
