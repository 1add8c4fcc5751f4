//! A vocabulary of byte strings with ranks, read in place from the program's own pages.

use super::hash::{EMPTY, ID_BITS, first_slot, hash, slot_value};

/// No token.
pub(super) const NONE: u32 = u32::MAX;

/// The tables of one encoding; `build.rs` says how they are laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranks {
    tokens: &'static [u8],
    starts: &'static [[u8; 4]],
    slots: &'static [[u8; 4]],
    pairs: &'static [[u8; 4]],
}

macro_rules! table {
    ($name:literal, $kind:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".", $kind)).as_chunks().0
    };
}

/// The tables of `o200k_base`.
pub(super) static O200K: Ranks = Ranks {
    tokens: include_bytes!("../../data/o200k_base.tokens"),
    starts: table!("o200k_base", "starts"),
    slots: table!("o200k_base", "slots"),
    pairs: table!("o200k_base", "pairs"),
};

/// The tables of `cl100k_base`.
pub(super) static CL100K: Ranks = Ranks {
    tokens: include_bytes!("../../data/cl100k_base.tokens"),
    starts: table!("cl100k_base", "starts"),
    slots: table!("cl100k_base", "slots"),
    pairs: table!("cl100k_base", "pairs"),
};

impl Ranks {
    /// Number of tokens; ranks go from 0 to one less.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The bytes of the token of that rank.
    #[inline]
    pub(super) fn bytes(&self, id: u32) -> Option<&'static [u8]> {
        let start = u32::from_le_bytes(*self.starts.get(id as usize)?) as usize;
        let len = usize::from(*self.tokens.get(start - 1)?);
        self.tokens.get(start..start + len)
    }

    /// The rank of the token of exactly these bytes, [`NONE`] if there is none.
    #[inline]
    pub(super) fn rank(&self, bytes: &[u8]) -> u32 {
        if let [first, second] = *bytes {
            return self.pair(first, second);
        }
        let h = hash(bytes);
        let wanted = slot_value(h, 0) >> ID_BITS;
        let mut at = first_slot(h, self.slots.len());
        loop {
            let slot = u32::from_le_bytes(self.slots[at]);
            if slot == EMPTY {
                return NONE;
            }
            let id = slot & ((1 << ID_BITS) - 1);
            if slot >> ID_BITS == wanted && self.bytes(id) == Some(bytes) {
                return id;
            }
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
    }

    /// The rank of the token of these two bytes.
    #[inline]
    pub(super) fn pair(&self, first: u8, second: u8) -> u32 {
        u32::from_le_bytes(self.pairs[usize::from(first) << 8 | usize::from(second)])
    }
}
