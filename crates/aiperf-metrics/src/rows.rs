//! What is kept of each request as a whole, for figures that need several of its values together: load over time, slices, intervals,
//! results by turn or server.
//!
//! A row is 64 bytes. A million requests have 64 MB of them, of which all but the first eight are on disk where there is one.

use aiperf_core::outcome::{Finish, Outcome};

use crate::facts::{Facts, Place};
use crate::store::{Disk, Store};

/// One request that was sent. Stamps are monotonic nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestRow {
    /// The class it ended in.
    pub outcome: Outcome,
    /// The transport took it.
    pub start_ns: u64,
    /// When the schedule wanted it sent; absent in closed loop.
    pub scheduled_ns: Option<u64>,
    /// First content.
    pub first_ns: Option<u64>,
    /// Last content.
    pub last_ns: Option<u64>,
    /// The end, however it came.
    pub end_ns: u64,
    /// Input length, tokens.
    pub isl: Option<u32>,
    /// Output length, reasoning included, tokens.
    pub osl: Option<u32>,
    /// Tokens of the first chunk as the server counts them; only where each chunk was asked for its counts.
    pub first_chunk_tokens: Option<u32>,
    /// Whether the server took prompt tokens from its cache; absent where it does not say.
    pub cache_hit: Option<bool>,
    /// Chunks with content.
    pub chunks: u32,
    /// Where it belongs.
    pub place: Place,
    /// Why the server stopped.
    pub finish: Finish,
}

/// Words of a row in the store.
const WORDS: usize = 8;
const ABSENT: u64 = u64::MAX;
const ABSENT_SHORT: u32 = u32::MAX;

impl RequestRow {
    /// What a row keeps of the facts.
    pub fn of(facts: &Facts) -> Self {
        let short = |value: Option<u64>| value.map(|v| v.min(u64::from(ABSENT_SHORT - 1)) as u32);
        Self {
            outcome: facts.outcome,
            start_ns: facts.start_ns,
            scheduled_ns: facts.scheduled_ns,
            first_ns: facts.chunks.first().map(|chunk| chunk.at_ns),
            last_ns: facts.chunks.last().map(|chunk| chunk.at_ns),
            end_ns: facts.end_ns,
            isl: short(facts.isl),
            osl: short(crate::formulas::output_sequence_length(facts)),
            first_chunk_tokens: short(facts.first_chunk_tokens),
            cache_hit: facts.usage.and_then(|usage| usage.cached_tokens).map(|tokens| tokens > 0),
            chunks: u32::try_from(facts.chunks.len()).unwrap_or(u32::MAX),
            place: facts.place,
            finish: facts.finish,
        }
    }

    fn words(&self) -> [u64; WORDS] {
        let long = |value: Option<u64>| value.unwrap_or(ABSENT);
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let short = |value: Option<u32>| value.unwrap_or(ABSENT_SHORT);
        let Place { turn, model, target } = self.place;
        let hit = self.cache_hit.map_or(0, |hit| 1 + u32::from(hit));
        let classes = u32::from(target) << 16 | (self.finish as u32) << 8 | hit << 4 | self.outcome as u32;
        [
            self.start_ns,
            long(self.scheduled_ns),
            long(self.first_ns),
            long(self.last_ns),
            self.end_ns,
            pair(short(self.isl), short(self.osl)),
            pair(short(self.first_chunk_tokens), self.chunks),
            pair(u32::from(turn) << 16 | u32::from(model), classes),
        ]
    }

    fn of_words(words: [u64; WORDS]) -> Self {
        let long = |word: u64| (word != ABSENT).then_some(word);
        let (high, low) = (|word: u64| (word >> 32) as u32, |word: u64| word as u32);
        let short = |value: u32| (value != ABSENT_SHORT).then_some(value);
        let [start_ns, scheduled, first, last, end_ns, lengths, counts, classes] = words;
        let class = |at: u32, bits: u32| (classes >> at) as usize & ((1 << bits) - 1);
        Self {
            outcome: Outcome::ALL.get(class(0, 4)).copied().unwrap_or_default(),
            start_ns,
            scheduled_ns: long(scheduled),
            first_ns: long(first),
            last_ns: long(last),
            end_ns,
            isl: short(high(lengths)),
            osl: short(low(lengths)),
            first_chunk_tokens: short(high(counts)),
            cache_hit: class(4, 4).checked_sub(1).map(|hit| hit == 1),
            chunks: low(counts),
            place: Place {
                turn: (classes >> 48) as u16,
                model: (classes >> 32) as u16,
                target: (classes >> 16) as u16,
            },
            finish: Finish::ALL.get(class(8, 8)).copied().unwrap_or_default(),
        }
    }
}

/// Rows of a phase in the order in which requests were read.
#[derive(Debug, Clone, Default)]
pub struct RequestRows {
    words: Store<u64>,
}

impl RequestRows {
    /// Empty ones that go to `disk` when they are many; without one they stay in memory.
    pub fn on(disk: Option<&Disk>) -> Self {
        Self { words: Store::on(disk.cloned()) }
    }

    /// Appends a row.
    pub fn push(&mut self, row: &RequestRow) {
        row.words().into_iter().for_each(|word| self.words.push(word));
    }

    /// Appends other rows, which use the same disk, or none.
    pub fn append(&mut self, other: Self) {
        self.words.append(other.words);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.words.len() / WORDS
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held in memory, as used.
    pub fn bytes(&self) -> usize {
        size_of_val(self.words.in_memory())
    }

    /// All rows, in order. It ends early when the disk cannot be read: see [`is_readable`](Self::is_readable).
    pub fn iter(&self) -> impl Iterator<Item = RequestRow> {
        let mut words = self.words.iter();
        std::iter::from_fn(move || {
            let mut row = [0; WORDS];
            for word in &mut row {
                *word = words.next()?;
            }
            Some(RequestRow::of_words(row))
        })
    }

    /// Whether all rows can be read back.
    pub fn is_readable(&self) -> bool {
        self.words.is_readable()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_row() -> impl Strategy<Value = RequestRow> {
        let stamp = 0..ABSENT;
        let short = 0..ABSENT_SHORT;
        (
            (
                0..Outcome::ALL.len(),
                0..Finish::ALL.len(),
                any::<Option<bool>>(),
                any::<[u16; 3]>(),
                any::<u32>(),
            ),
            (stamp.clone(), stamp.clone(), proptest::option::of(stamp.clone())),
            (proptest::option::of(stamp.clone()), proptest::option::of(stamp)),
            proptest::array::uniform3(proptest::option::of(short)),
        )
            .prop_map(
                |(
                    (outcome, finish, cache_hit, place, chunks),
                    (start, end, scheduled),
                    (first, last),
                    shorts,
                )| {
                    RequestRow {
                        outcome: Outcome::ALL[outcome],
                        start_ns: start,
                        scheduled_ns: scheduled,
                        first_ns: first,
                        last_ns: last,
                        end_ns: end,
                        isl: shorts[0],
                        osl: shorts[1],
                        first_chunk_tokens: shorts[2],
                        cache_hit,
                        chunks,
                        place: Place { turn: place[0], model: place[1], target: place[2] },
                        finish: Finish::ALL[finish],
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn rows_come_back_as_they_were(given in proptest::collection::vec(any_row(), 0..20), cut in 0_usize..20) {
            let cut = cut.min(given.len());
            let (mut rows, mut more) = (RequestRows::default(), RequestRows::default());
            given[..cut].iter().for_each(|row| rows.push(row));
            given[cut..].iter().for_each(|row| more.push(row));
            rows.append(more);
            prop_assert_eq!(rows.len(), given.len());
            prop_assert_eq!(rows.iter().collect::<Vec<_>>(), given);
        }
    }

    #[test]
    fn a_length_too_long_for_its_place_is_the_longest_that_fits() {
        let row = RequestRow::of(&Facts { isl: Some(u64::MAX), ..Facts::default() });
        assert_eq!(row.isl, Some(u32::MAX - 1));
    }
}
