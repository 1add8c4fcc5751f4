// Shared with build.rs, which lays out the tables that `ranks.rs` reads; a change here changes both at once.

/// Bits of a slot that hold the id; the rest holds a part of the hash, so that nearly all misses end at the slot.
pub(crate) const ID_BITS: u32 = 18;

/// A slot that holds nothing.
pub(crate) const EMPTY: u32 = u32::MAX;

/// A hash of a few bytes, the same on every machine.
#[inline]
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut h = (bytes.len() as u64).wrapping_mul(SPREAD);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        h = (h.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(SPREAD);
    }
    if !tail.is_empty() {
        h = (h.rotate_left(5) ^ short(tail)).wrapping_mul(SPREAD);
    }
    h ^= h >> 29;
    h = h.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h ^ (h >> 32)
}

/// One to seven bytes as a number, by loads that overlap instead of a loop.
#[inline]
fn short(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first))
            | (u64::from(u32::from_le_bytes(*last)) << ((n - 4) * 8));
    }
    u64::from(bytes[0]) | (u64::from(bytes[n / 2]) << 8) | (u64::from(bytes[n - 1]) << 16)
}

/// Where the search for a hash begins in a table of `slots` slots.
#[inline]
pub(crate) fn first_slot(hash: u64, slots: usize) -> usize {
    (((hash >> 32) * slots as u64) >> 32) as usize
}

/// What a slot holds for a token of that hash and id.
#[inline]
pub(crate) fn slot_value(hash: u64, id: u32) -> u32 {
    ((hash as u32) << ID_BITS) | id
}
