//! Values at given ranks of a long column, without sorting or copying it: a few passes, each of which counts by the next 16 bits among
//! those values that can still be meant.

use crate::store::{Plain, Store};

const DIGIT: u32 = 16;
const WAYS: usize = 1 << DIGIT;
/// No prefix.
const NONE: usize = usize::MAX;

/// Values at the 0-based `ranks` (ascending, each below the number of values) of the sorted column.
pub(crate) fn select<T: Plain>(store: &Store<T>, ranks: &[usize]) -> Vec<T> {
    // For each rank: the leading bits of its key, as far as they are known, and its rank among those that share them.
    let mut places: Vec<(u64, usize)> = ranks.iter().map(|rank| (0, *rank)).collect();
    for pass in 1..=T::BITS / DIGIT {
        let shift = T::BITS - pass * DIGIT;
        let mut prefixes: Vec<u64> = places.iter().map(|p| p.0).collect();
        prefixes.dedup();
        let counts = count(store, shift, &prefixes);
        let (mut slot, mut at, mut before) = (0, 0, 0);
        for place in &mut places {
            if prefixes[slot] != place.0 {
                slot += 1;
                (at, before) = (0, 0);
            }
            // A column that cannot be read any more has counted too few.
            while at < WAYS - 1 && before + counts[slot * WAYS + at] <= place.1 {
                before += counts[slot * WAYS + at];
                at += 1;
            }
            *place = (place.0 << DIGIT | at as u64, place.1 - before);
        }
    }
    places.into_iter().map(|(key, _)| T::of_key(key)).collect()
}

/// For each of `prefixes` (ascending): how many keys begin with it, by the 16 bits behind it.
fn count<T: Plain>(store: &Store<T>, shift: u32, prefixes: &[u64]) -> Vec<usize> {
    let mut counts = vec![0; prefixes.len() * WAYS];
    let digit = |key: u64| (key >> shift) as usize & (WAYS - 1);
    if shift + DIGIT == T::BITS {
        store.scan(|values| values.iter().for_each(|v| counts[digit(v.key())] += 1));
        return counts;
    }
    // Where among the prefixes those stand that end in these 16 bits, so that most values cost one look.
    let ends: Vec<usize> = prefixes.iter().map(|p| *p as usize & (WAYS - 1)).collect();
    let mut first = vec![NONE; WAYS];
    for (slot, end) in ends.iter().enumerate().rev() {
        first[*end] = slot;
    }
    store.scan(|values| {
        for value in values {
            let key = value.key();
            let prefix = key >> (shift + DIGIT);
            let begin = first[prefix as usize & (WAYS - 1)];
            if begin != NONE
                && let Some(slot) = prefixes[begin..].iter().position(|p| *p == prefix)
            {
                counts[(begin + slot) * WAYS + digit(key)] += 1;
            }
        }
    });
    counts
}
