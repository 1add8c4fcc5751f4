//! A set of numbers that remembers of each whether it came once or more often: 8 bytes a place, three quarters of them used at most.

/// Tables, so that one that grows is a small part of the whole.
const TABLES: usize = 64;
const TABLE_BITS: u32 = TABLES.trailing_zeros();
/// Places of a table at first.
const FIRST: usize = 16;

/// How often a number has come, this time counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    First,
    Second,
    Later,
}

/// The set. Numbers are digests whose bits are all alike ([`mixed`]); their lowest bit does not count.
#[derive(Debug)]
pub(crate) struct Marks {
    tables: Vec<Table>,
    len: u64,
    repeated: u64,
}

#[derive(Debug)]
struct Table {
    /// A digest, its lowest bit set when it came again; 0 is a free place.
    places: Vec<u64>,
    used: usize,
}

impl Default for Marks {
    fn default() -> Self {
        let table = || Table { places: vec![0; FIRST], used: 0 };
        Self { tables: (0..TABLES).map(|_| table()).collect(), len: 0, repeated: 0 }
    }
}

impl Marks {
    pub(crate) fn add(&mut self, digest: u64) -> Came {
        let table = &mut self.tables[(digest >> (u64::BITS - TABLE_BITS)) as usize];
        let place = table.place(key(digest));
        if table.places[place] == 0 {
            table.places[place] = key(digest);
            table.used += 1;
            if table.used * 4 > table.places.len() * 3 {
                table.grow();
            }
            self.len += 1;
            return Came::First;
        }
        if table.places[place] & 1 == 0 {
            table.places[place] |= 1;
            self.repeated += 1;
            return Came::Second;
        }
        Came::Later
    }

    pub(crate) fn has(&self, digest: u64) -> bool {
        self.found(digest) != 0
    }

    /// Whether it came more than once.
    pub(crate) fn is_repeated(&self, digest: u64) -> bool {
        self.found(digest) & 1 == 1
    }

    fn found(&self, digest: u64) -> u64 {
        let table = &self.tables[(digest >> (u64::BITS - TABLE_BITS)) as usize];
        table.places[table.place(key(digest))]
    }

    /// The numbers that came more than once, in the least place.
    pub(crate) fn only_repeated(self) -> Self {
        let repeated = |table: Table| {
            let entries: Vec<u64> = table.places.into_iter().filter(|entry| entry & 1 == 1).collect();
            let places = (entries.len() * 4 / 3 + 1).next_power_of_two().max(FIRST);
            let mut table = Table { places: vec![0; places], used: entries.len() };
            for entry in entries {
                let at = table.place(entry & !1);
                table.places[at] = entry;
            }
            table
        };
        let len = self.repeated;
        Self { tables: self.tables.into_iter().map(repeated).collect(), len, repeated: len }
    }

    /// Distinct numbers.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Of them, those that came more than once.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated
    }
}

impl Table {
    /// Where `key` is, or the free place where it belongs.
    fn place(&self, key: u64) -> usize {
        let mask = self.places.len() - 1;
        // The highest bits chose the table.
        let mut at = (key << TABLE_BITS >> 32) as usize & mask;
        while self.places[at] != 0 && self.places[at] & !1 != key {
            at = (at + 1) & mask;
        }
        at
    }

    fn grow(&mut self) {
        let before = std::mem::take(&mut self.places);
        self.places = vec![0; before.len() * 2];
        for entry in before.into_iter().filter(|entry| *entry != 0) {
            let at = self.place(entry & !1);
            self.places[at] = entry;
        }
    }
}

fn key(digest: u64) -> u64 {
    (digest & !1).max(2)
}

/// A bijection of 64 bits that spreads them (the finalizer of SplitMix64).
pub(crate) const fn mixed(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

/// Two numbers as one, with their order.
pub(crate) const fn joined(before: u64, next: u64) -> u64 {
    mixed(
        before.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
            ^ mixed(next.wrapping_add(0x6a09_e667_f3bc_c909)),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain map, beyond several growths.
        #[test]
        fn it_counts_to_two(numbers in prop::collection::vec(0..3000u64, 0..6000)) {
            let (mut marks, mut slow) = (Marks::default(), HashMap::<u64, u32>::new());
            for n in &numbers {
                let count = slow.entry(*n).or_default();
                *count += 1;
                let came = match *count { 1 => Came::First, 2 => Came::Second, _ => Came::Later };
                prop_assert_eq!(marks.add(mixed(*n)), came);
            }
            prop_assert_eq!(marks.len(), slow.len() as u64);
            prop_assert_eq!(marks.repeated(), slow.values().filter(|n| **n > 1).count() as u64);
            for n in 0..3100 {
                prop_assert_eq!(marks.has(mixed(n)), slow.contains_key(&n));
                prop_assert_eq!(marks.is_repeated(mixed(n)), slow.get(&n).is_some_and(|n| *n > 1));
            }
            let repeated = marks.only_repeated();
            prop_assert_eq!(repeated.len(), slow.values().filter(|n| **n > 1).count() as u64);
            for n in 0..3100 {
                prop_assert_eq!(repeated.has(mixed(n)), slow.get(&n).is_some_and(|n| *n > 1));
            }
        }
    }

    #[test]
    fn digests_of_few_bits_are_held_too() {
        let mut marks = Marks::default();
        assert_eq!([0, 2, 4, 0].map(|n| marks.add(n)), [Came::First, Came::Second, Came::First, Came::Later]);
    }

    #[test]
    fn order_counts() {
        assert_ne!(joined(joined(0, 1), 2), joined(joined(0, 2), 1));
        assert_ne!(joined(0, 0), joined(joined(0, 0), 0));
    }
}
