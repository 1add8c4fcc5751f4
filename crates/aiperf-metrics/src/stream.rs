//! The rules of how even a stream was: gaps, stalls, and how many tokens come together.

use crate::facts::Facts;
use crate::formulas::output_sequence_length;

/// A gap is a stall when it is over so many times the median gap of its request,
const STALL_FACTOR: u64 = 5;
/// and over this, nanoseconds: what is shorter nobody notices who reads.
const STALL_FLOOR_NS: u64 = 50_000_000;

/// Gaps between content chunks.
fn gaps(f: &Facts) -> Option<impl Iterator<Item = u64>> {
    let ordered = f.chunks.len() > 1 && f.chunks.is_sorted_by_key(|chunk| chunk.at_ns);
    ordered.then(|| f.chunks.windows(2).map(|pair| pair[1].at_ns - pair[0].at_ns))
}

/// A role alone is an event too.
pub(crate) fn time_to_first_event(f: &Facts) -> Option<u64> {
    f.first_event_ns?.checked_sub(f.start_ns)
}

pub(crate) fn longest_gap(f: &Facts) -> Option<u64> {
    gaps(f)?.max()
}

/// Chunks that came together have no gap between them, so the median is that of the others.
pub(crate) fn stall_count(f: &Facts) -> Option<u64> {
    let mut real: Vec<u64> = gaps(f)?.filter(|gap| *gap > 0).collect();
    if real.iter().all(|gap| *gap <= STALL_FLOOR_NS) {
        return Some(0);
    }
    let middle = (real.len() - 1) / 2;
    let (_, median, _) = real.select_nth_unstable(middle);
    let limit = (*median * STALL_FACTOR).max(STALL_FLOOR_NS);
    Some(real.iter().filter(|gap| **gap > limit).count() as u64)
}

/// The share of chunks behind the first that came with the one before them.
pub(crate) fn chunk_coalescing_ratio(f: &Facts) -> Option<f64> {
    let together = gaps(f)?.filter(|gap| *gap == 0).count();
    Some(together as f64 / (f.chunks.len() - 1) as f64)
}

pub(crate) fn tokens_per_chunk(f: &Facts) -> Option<f64> {
    let osl = output_sequence_length(f)?;
    (!f.chunks.is_empty()).then(|| osl as f64 / f.chunks.len() as f64)
}

pub(crate) fn inter_token_gap(f: &Facts) -> Option<Vec<u64>> {
    (!f.token_gaps.is_empty()).then(|| f.token_gaps.clone())
}

/// Time of each token behind the one before it, from the arrival of each chunk and the number of its tokens. Chunks that came together
/// are one, and the tokens of one share the time since the last that had any, so that all gaps together are the time from the first such
/// arrival to the last. The tokens of the first arrival have no gap.
pub fn token_gaps(chunks: impl IntoIterator<Item = (u64, u64)>) -> Vec<u64> {
    let mut arrivals: Vec<(u64, u64)> = Vec::new();
    for (at_ns, tokens) in chunks {
        match arrivals.last_mut() {
            Some(last) if last.0 >= at_ns => last.1 += tokens,
            // What brought no token waits for what does.
            Some(last) if last.1 == 0 => *last = (at_ns, tokens),
            _ => arrivals.push((at_ns, tokens)),
        }
    }
    let share = |gap: u64, part: u64, of: u64| (u128::from(gap) * u128::from(part) / u128::from(of)) as u64;
    arrivals
        .windows(2)
        .flat_map(|pair| {
            let (gap, tokens) = (pair[1].0 - pair[0].0, pair[1].1);
            (0..tokens).map(move |at| share(gap, at + 1, tokens) - share(gap, at, tokens))
        })
        .collect()
}

/// How many of `tokens` each chunk brought, from a count of each chunk for itself. Where those do not add up, because a vocabulary cuts
/// a text otherwise than its pieces, each chunk has its share.
pub fn tokens_of_chunks(alone: &[u64], tokens: u64) -> Vec<u64> {
    let sum: u64 = alone.iter().sum();
    if sum == 0 {
        return vec![0; alone.len()];
    }
    let mut before = 0;
    alone
        .iter()
        .scan(0, |counted, own| {
            *counted += own;
            let upto = (u128::from(tokens) * u128::from(*counted) / u128::from(sum)) as u64;
            Some(upto - std::mem::replace(&mut before, upto))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::ChunkFact;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn at(ms: &[u64], tokens: u64) -> Facts {
        let chunks = ms.iter().map(|ms| ChunkFact { at_ns: ms * MS, answer: true }).collect();
        Facts {
            start_ns: 100 * MS,
            first_event_ns: Some(110 * MS),
            chunks,
            output_tokens: Some(tokens),
            ..Facts::default()
        }
    }

    #[test]
    fn a_worked_example_of_each_rule() {
        // Gaps 10, 0, 10, 20, 60, 50.
        let f = at(&[120, 130, 130, 140, 160, 220, 270], 21);
        assert_eq!(time_to_first_event(&f), Some(10 * MS));
        assert_eq!(longest_gap(&f), Some(60 * MS));
        // The median of 10, 10, 20, 50, 60 is 20: a stall is longer than 100.
        assert_eq!(stall_count(&f), Some(0));
        assert_eq!(chunk_coalescing_ratio(&f), Some(1.0 / 6.0));
        assert_eq!(tokens_per_chunk(&f), Some(3.0));
        // The median is 5, so the floor decides: 51 is a stall, 50 is none.
        assert_eq!(stall_count(&at(&[120, 125, 130, 135, 140, 190, 241], 7)), Some(1));
        // The median is 20 and the limit 100.
        assert_eq!(stall_count(&at(&[0, 20, 40, 60, 160, 261], 7)), Some(1));
    }

    #[test]
    fn one_chunk_has_no_gaps() {
        let f = at(&[120], 4);
        assert_eq!((longest_gap(&f), stall_count(&f), chunk_coalescing_ratio(&f)), (None, None, None));
        assert_eq!(tokens_per_chunk(&f), Some(4.0));
        assert_eq!(tokens_per_chunk(&at(&[], 0)), None);
        assert_eq!(inter_token_gap(&f), None);
        // All came together: there is no gap to be stalled in.
        assert_eq!((stall_count(&at(&[5, 5, 5], 3)), longest_gap(&at(&[5, 5, 5], 3))), (Some(0), Some(0)));
    }

    #[test]
    fn the_tokens_of_a_chunk_share_the_wait_for_it() {
        // Four a chunk, 16 ms apart: 4 ms each, whatever the first chunk has.
        assert_eq!(token_gaps([(100, 4), (116, 4), (132, 4)]), [4; 8]);
        // Two chunks of one read are one; a chunk without a token adds its wait to the next; what does not divide is spread.
        assert_eq!(token_gaps([(100, 1), (110, 1), (110, 2), (115, 0), (120, 1)]), [3, 3, 4, 10]);
        assert_eq!(token_gaps([(100, 0), (105, 1), (110, 1)]), [5]);
        assert!(token_gaps([(100, 9)]).is_empty());
    }

    #[test]
    fn counts_of_pieces_are_made_to_add_up() {
        assert_eq!(tokens_of_chunks(&[4, 4, 2], 10), [4, 4, 2]);
        assert_eq!(tokens_of_chunks(&[2, 2, 2], 3), [1, 1, 1]);
        assert_eq!(tokens_of_chunks(&[0, 0], 3), [0, 0]);
        assert!(tokens_of_chunks(&[], 3).is_empty());
    }

    proptest! {
        #[test]
        fn gaps_add_up_to_the_time_between_first_and_last(chunks in proptest::collection::vec((0_u64..3, 0_u64..5), 1..40)) {
            let mut now = 1000;
            let chunks: Vec<(u64, u64)> = chunks.iter().map(|(step, tokens)| { now += step * 1000; (now, *tokens) }).collect();
            let gaps = token_gaps(chunks.iter().copied());
            // Slowly: arrivals by time, then those with tokens.
            let mut by_time = std::collections::BTreeMap::new();
            for (at, tokens) in &chunks {
                *by_time.entry(*at).or_insert(0) += tokens;
            }
            by_time.retain(|_, tokens| *tokens > 0);
            let first = by_time.first_key_value().map(|(at, tokens)| (*at, *tokens));
            let last = by_time.last_key_value().map(|(at, _)| *at);
            let span = first.zip(last).map_or(0, |((from, _), to)| to - from);
            prop_assert_eq!(gaps.iter().sum::<u64>(), span);
            let tokens: u64 = by_time.values().sum();
            prop_assert_eq!(gaps.len() as u64, tokens - first.map_or(0, |(_, tokens)| tokens));
        }

        #[test]
        fn every_token_is_some_chunk_s(alone in proptest::collection::vec(0_u64..6, 1..40), tokens in 0_u64..200) {
            let shares = tokens_of_chunks(&alone, tokens);
            let sum: u64 = alone.iter().sum();
            prop_assert_eq!(shares.iter().sum::<u64>(), if sum > 0 { tokens } else { 0 });
            if sum == tokens {
                prop_assert_eq!(shares, alone);
            }
        }

        #[test]
        fn stalls_are_found_as_a_slow_reader_finds_them(gaps in proptest::collection::vec(0_u64..400, 1..40)) {
            let mut now = 0;
            let times: Vec<u64> = std::iter::once(0).chain(gaps.iter().map(|gap| { now += gap; now })).collect();
            let mut real: Vec<u64> = gaps.iter().copied().filter(|gap| *gap > 0).collect();
            real.sort_unstable();
            let median = real.get(real.len().saturating_sub(1) / 2).copied().unwrap_or(0);
            let slow = gaps.iter().filter(|gap| **gap > 50 && **gap > 5 * median).count() as u64;
            let f = at(&times, 1);
            prop_assert_eq!(stall_count(&f), Some(slow));
            prop_assert_eq!(longest_gap(&f), gaps.iter().max().map(|gap| gap * MS));
        }
    }
}
