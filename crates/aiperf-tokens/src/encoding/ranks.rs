//! A vocabulary of byte strings with ranks, read in place: from the program's own pages, or from tables that a file made.

use super::hash::{EMPTY, ID_BITS, first_slot, hash, slot_value};
use super::layout::Tables;

/// No token.
pub(super) const NONE: u32 = u32::MAX;

/// The tables of one encoding; `layout.rs` says how they are laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranks<'a> {
    tokens: &'a [u8],
    starts: &'a [[u8; 4]],
    slots: &'a [[u8; 4]],
    pairs: &'a [[u8; 4]],
    /// Ranks from here on belong to another encoding that shares the tables.
    end: u32,
}

macro_rules! table {
    ($name:literal, $kind:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".", $kind)).as_chunks().0
    };
}

macro_rules! ranks {
    ($name:literal, $end:literal) => {
        Ranks {
            tokens: include_bytes!(concat!("../../data/", $name, ".tokens")),
            starts: table!($name, "starts"),
            slots: table!($name, "slots"),
            pairs: table!($name, "pairs"),
            end: $end,
        }
    };
}

/// The tables of `o200k_base`.
pub(super) static O200K: Ranks<'static> = ranks!("o200k_base", 199_998);

/// The tables of `cl100k_base`.
pub(super) static CL100K: Ranks<'static> = ranks!("cl100k_base", 100_256);

/// What `p50k_base` and `r50k_base` share: the former has the latter's tokens, then runs of blanks behind a rank that no
/// token has.
const FIFTY_THOUSAND: Ranks<'static> = ranks!("p50k_base", 50_281);

/// The tables of `p50k_base`.
pub(super) static P50K: Ranks<'static> = FIFTY_THOUSAND;

/// The tables of `r50k_base`.
pub(super) static R50K: Ranks<'static> = Ranks { end: 50_256, ..FIFTY_THOUSAND };

impl<'a> Ranks<'a> {
    /// Over `tokens` and the tables that were laid out from them.
    pub(super) fn of(tokens: &'a [u8], tables: &'a Tables) -> Self {
        let Tables { starts, slots, pairs } = tables;
        Self { tokens, starts, slots, pairs, end: starts.len() as u32 }
    }

    /// Number of ranks, which go from 0 to one less.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.end as usize
    }

    /// The bytes of the token of that rank, if there is one; never empty.
    #[inline]
    pub(super) fn bytes(&self, id: u32) -> Option<&'a [u8]> {
        if id >= self.end {
            return None;
        }
        let start = u32::from_le_bytes(*self.starts.get(id as usize)?) as usize;
        let len = usize::from(*self.tokens.get(start - 1)?);
        self.tokens.get(start..start + len).filter(|bytes| !bytes.is_empty())
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
        let id = u32::from_le_bytes(self.pairs[usize::from(first) << 8 | usize::from(second)]);
        if id < self.end { id } else { NONE }
    }
}
