//! A trace with other lengths and prefixes: what `--synthesis-…` asks for, row by row.
//!
//! A row's prefix is the run of ids at its front that come more than once in the trace; the rest is its prompt. What becomes of a row is a
//! function of the row, its number, and of which ids are shared, which a pass over the file finds ([`Learning`]). So rows can be read in
//! any order and again, and what rows had in common they keep in common.

use aiperf_rng::Key;

use crate::marks::{Marks, joined, mixed};
use crate::row::MOST_TOKENS;

/// Against products such as 10 · 1.1, which are a hair above what they mean.
const HAIR: f64 = 1e-9;
/// Kinds of ids that no trace has.
const ADDED: u64 = 1;
const OWN: u64 = 2;
const ROOT: u64 = 3;

/// What becomes of lengths and prefixes. Output lengths are multiplied apart, by [`multiplied_output`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Multipliers {
    /// Of the blocks of a prefix; 1 leaves them. Below 1 the first blocks stay, at least one.
    pub prefix: f64,
    /// Of the tokens of a prompt.
    pub prompt: f64,
    /// Conversations are spread over so many trees of blocks that share nothing; at least 1.
    pub roots: u64,
    /// Longest result, tokens.
    pub max_isl: Option<u64>,
    /// Tokens of a block, at least 1.
    pub block_size: u64,
    /// Seed of the spread over trees.
    pub seed: u64,
}

/// Finds the ids that rows share.
#[derive(Debug, Default)]
pub struct Learning {
    ids: Marks,
}

impl Learning {
    /// Looks at a row.
    pub fn row(&mut self, ids: &[u64]) {
        for id in ids {
            self.ids.add(mixed(*id));
        }
    }

    /// What was learnt, for `multipliers`.
    pub fn finish(self, multipliers: Multipliers) -> Multiplier {
        Multiplier { shared: self.ids.only_repeated(), multipliers }
    }
}

/// Changes rows.
#[derive(Debug)]
pub struct Multiplier {
    /// Ids that come more than once.
    shared: Marks,
    multipliers: Multipliers,
}

impl Multiplier {
    /// Whether any two rows share a block.
    pub fn has_prefixes(&self) -> bool {
        self.shared.len() > 0
    }

    /// Changes row number `row`, of `tokens` tokens and with `ids`, of the conversation that `session` stands for; its tokens now, at
    /// least 1. A row without ids stays as it is, but for the longest length.
    pub fn change(&self, row: u64, session: u64, tokens: u64, ids: &mut Vec<u64>) -> u64 {
        let Multipliers { max_isl, block_size, .. } = self.multipliers;
        let tokens = if ids.is_empty() { tokens } else { self.multiplied(row, session, tokens, ids) };
        let tokens = tokens.clamp(1, max_isl.unwrap_or(MOST_TOKENS).clamp(1, MOST_TOKENS));
        ids.truncate(usize::try_from(tokens.div_ceil(block_size)).unwrap_or(usize::MAX));
        tokens
    }

    fn multiplied(&self, row: u64, session: u64, tokens: u64, ids: &mut Vec<u64>) -> u64 {
        let Multipliers { prefix, prompt, roots, block_size, seed, .. } = self.multipliers;
        let shared = ids.iter().take_while(|id| self.shared.has(mixed(**id))).count();
        let known = tokens.min(shared as u64 * block_size);
        let own_ids = ids.split_off(shared);
        let known_now = self.prefix(ids, known, prefix);
        // Behind whole blocks, or nothing is there.
        let own = tokens - known;
        // A prompt of nothing is none.
        let own_now = ((own as f64 * prompt + HAIR) as u64).max(u64::from(known_now == 0));
        let blocks = if own_ids.len() as u64 >= own.div_ceil(block_size) {
            own_now.div_ceil(block_size)
        } else {
            // Ids that do not reach the end of the prompt go on not to.
            own_now.div_ceil(block_size).min((own_ids.len() as f64 * prompt + HAIR) as u64)
        };
        let kept = own_ids.iter().copied().take(usize::try_from(blocks).unwrap_or(usize::MAX));
        ids.extend(kept);
        let new = own_ids.len() as u64..blocks;
        ids.extend(new.map(|at| joined(joined(OWN, row), at)));
        let tree = if roots > 1 { Key::new(seed).purpose("trace.root").at(session).below(roots) } else { 0 };
        if tree > 0 {
            for id in ids.iter_mut() {
                *id = joined(joined(ROOT, tree), *id);
            }
        }
        known_now.saturating_add(own_now)
    }

    /// Makes a prefix of `tokens` tokens longer or shorter; its tokens now. What it begins with stays, and what is added behind a block
    /// depends on that block and its place alone: rows that shared it share what was added.
    fn prefix(&self, ids: &mut Vec<u64>, tokens: u64, times: f64) -> u64 {
        let size = self.multipliers.block_size;
        let blocks = ids.len() as u64;
        if blocks == 0 || (times - 1.0).abs() < HAIR {
            return tokens;
        }
        if times < 1.0 {
            let left = ((blocks as f64 * times + HAIR) as u64).max(1);
            ids.truncate(left as usize);
            return tokens.min(left * size);
        }
        let up_to = |blocks: u64| (blocks as f64 * times - HAIR).ceil() as u64;
        let all = if blocks * size == tokens {
            up_to(blocks) * size
        } else {
            (tokens as f64 * times + HAIR) as u64
        };
        let all = all.min(MOST_TOKENS);
        let before = std::mem::take(ids);
        for (at, id) in (0u64..).zip(before) {
            ids.push(id);
            let added = up_to(at + 1) - up_to(at);
            ids.extend((1..added).map(|n| joined(joined(ADDED, id), n)));
            if ids.len() as u64 * size >= all {
                break;
            }
        }
        ids.truncate(all.div_ceil(size) as usize);
        all
    }
}

/// An output length, times `times`: to the nearest whole number, half to even, at least 1.
pub fn multiplied_output(tokens: u64, times: f64) -> u64 {
    ((tokens as f64 * times).round_ties_even() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// What AIPerf 0.13.0 makes of rows.
    const GOLDENS: &str = include_str!("../testdata/trace_synthesis.json");

    fn multipliers(block_size: u64) -> Multipliers {
        Multipliers { prefix: 1.0, prompt: 1.0, roots: 1, max_isl: None, block_size, seed: 7 }
    }

    type Rows = Vec<(u64, Vec<u64>)>;

    fn changed(rows: &Rows, multipliers: Multipliers) -> Rows {
        let mut learning = Learning::default();
        for (_, ids) in rows {
            learning.row(ids);
        }
        let multiplier = learning.finish(multipliers);
        let row = |(at, (tokens, ids)): (usize, &(u64, Vec<u64>))| {
            let mut ids = ids.clone();
            let tokens = multiplier.change(at as u64, at as u64, *tokens, &mut ids);
            (tokens, ids)
        };
        rows.iter().enumerate().map(row).collect()
    }

    fn rows_of(value: &Value) -> Vec<(u64, Vec<u64>, u64)> {
        let rows = value.as_array().expect("rows").iter().map(|row| {
            let ids = row["hash_ids"].as_array().map(|ids| ids.iter().filter_map(Value::as_u64).collect());
            (
                row["input_length"].as_u64().expect("a length"),
                ids.unwrap_or_default(),
                row["output_length"].as_u64().unwrap_or(0),
            )
        });
        rows.collect()
    }

    /// Each id by when it came first: what rows share, whatever the numbers are.
    fn pattern<'a>(rows: impl Iterator<Item = &'a Vec<u64>>) -> Vec<Vec<usize>> {
        let mut names: HashMap<u64, usize> = HashMap::new();
        let mut name = |id: &u64| {
            let next = names.len();
            *names.entry(*id).or_insert(next)
        };
        rows.map(|ids| ids.iter().map(&mut name).collect()).collect()
    }

    #[test]
    fn rows_become_the_references_where_it_is_right() {
        let goldens: Value = serde_json::from_str(GOLDENS).expect("JSON");
        let before = rows_of(&goldens["rows"]);
        let (mut whole, mut lengths) = (0, 0);
        for case in goldens["cases"].as_array().expect("cases") {
            let (id, params) = (case["id"].as_str().expect("an id"), &case["params"]);
            let Some(out) = case.get("out") else {
                assert_eq!(id, "partial_shared");
                continue;
            };
            let number = |key: &str, default: f64| params[key].as_f64().unwrap_or(default);
            let wanted = Multipliers {
                prefix: number("prefix_len_multiplier", 1.0),
                prompt: number("prompt_len_multiplier", 1.0),
                roots: number("prefix_root_multiplier", 1.0) as u64,
                max_isl: params["max_isl"].as_u64(),
                ..multipliers(512)
            };
            let rows: Rows = before.iter().map(|(tokens, ids, _)| (*tokens, ids.clone())).collect();
            let got = changed(&rows, wanted);
            let want = rows_of(out);
            for (((got, before), want), at) in got.iter().zip(&before).zip(&want).zip(0..) {
                let output = multiplied_output(before.2, number("output_len_multiplier", 1.0));
                assert_eq!(output.min(params["max_osl"].as_u64().unwrap_or(u64::MAX)), want.2, "{id}");
                // A row without a prefix got one block of tokens for it, and no id.
                if (id, at) == ("syn5", 6) || (id, at) == ("syn5", 8) {
                    assert_eq!(want.0, got.0 + 512);
                } else {
                    assert_eq!(got.0, want.0, "{id} row {at}");
                }
                lengths += 1;
            }
            // Drawn trees, ids beyond a clipped length, and added blocks that nobody shares are not the reference's.
            if !["syn14", "syn15", "syn12", "syn6"].contains(&id) {
                assert_eq!(pattern(got.iter().map(|r| &r.1)), pattern(want.iter().map(|r| &r.1)), "{id}");
                whole += 1;
            }
            assert!(
                got.iter().all(|(tokens, ids)| ids.is_empty() || ids.len() as u64 == tokens.div_ceil(512))
            );
        }
        assert_eq!((whole, lengths), (7, 110));
    }

    #[test]
    fn repeated_prompts_with_a_block_cut_short() {
        let rows = vec![(1000, vec![1, 2]), (1000, vec![1, 2])];
        let twice = Multipliers { prompt: 2.0, ..multipliers(512) };
        assert_eq!(changed(&rows, twice), rows, "there is no prompt of their own");
        let longer = changed(&rows, Multipliers { prefix: 1.5, ..multipliers(512) });
        assert_eq!((longer[0].0, longer[0].1.len()), (1500, 3));
        assert_eq!(longer[0], longer[1]);
        for least in [0.9, 0.0] {
            assert_eq!(changed(&rows, Multipliers { prefix: least, ..multipliers(512) })[0], (512, vec![1]));
        }
    }

    #[test]
    fn what_is_added_in_parts_is_shared() {
        // One and a half blocks for each of three: 2, 1, 2.
        let rows = vec![(48, vec![1, 2, 3]), (64, vec![1, 2, 3, 9]), (32, vec![1, 2])];
        let got = changed(&rows, Multipliers { prefix: 1.5, ..multipliers(16) });
        assert_eq!(got.iter().map(|r| (r.0, r.1.len())).collect::<Vec<_>>(), [(80, 5), (96, 6), (48, 3)]);
        assert_eq!(
            pattern(got.iter().map(|r| &r.1)),
            [vec![0, 1, 2, 3, 4], vec![0, 1, 2, 3, 4, 5], vec![0, 1, 2]]
        );
    }

    #[test]
    fn the_longest_length_cuts_ids_too() {
        let rows = vec![(1600, vec![0, 1, 3, 4]), (1024, vec![0, 1])];
        let got = changed(&rows, Multipliers { prompt: 3.0, max_isl: Some(1200), ..multipliers(512) });
        assert_eq!(got, [(1200, vec![0, 1, 3]), (1024, vec![0, 1])]);
    }

    #[test]
    fn trees_share_nothing() {
        let rows: Rows = (0..60).map(|_| (32, vec![1, 2])).collect();
        let got = changed(&rows, Multipliers { roots: 3, ..multipliers(16) });
        let mut firsts: HashMap<u64, u32> = HashMap::new();
        for (_, ids) in &got {
            *firsts.entry(ids[0]).or_default() += 1;
        }
        assert_eq!(firsts.len(), 3);
        assert!(firsts.values().all(|n| *n > 8), "{firsts:?}");
    }

    proptest! {
        /// Whatever the rows: lengths and ids go together, what was shared at the front is shared as far or farther, and what was not
        /// is not.
        #[test]
        fn rows_keep_what_they_share(
            rows in prop::collection::vec((prop::collection::vec(0..4u64, 1..6), 1..16u64), 1..12),
            prefix in 0.0..3.5f64, prompt in 0.0..3.0f64, max_isl in prop::option::of(1..200u64),
        ) {
            // Ids name their place, as a prefix's do.
            let rows: Rows = rows.into_iter().map(|(ids, last)| {
                let named = ids.iter().scan(0, |before, id| { *before = *before * 5 + id + 1; Some(*before) }).collect();
                ((ids.len() as u64 - 1) * 16 + last, named)
            }).collect();
            let got = changed(&rows, Multipliers { prefix, prompt, max_isl, ..multipliers(16) });
            for (tokens, ids) in &got {
                prop_assert_eq!(ids.len() as u64, tokens.div_ceil(16));
                prop_assert!(*tokens <= max_isl.unwrap_or(u64::MAX).max(1));
            }
            let common = |a: &[u64], b: &[u64]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
            for a in 0..rows.len() {
                for b in 0..a {
                    let before = common(&rows[a].1, &rows[b].1);
                    let now = common(&got[a].1, &got[b].1);
                    let least = if prefix < 1.0 { ((before as f64 * prefix) as usize).max(before.min(1)) } else { (before as f64 * prefix).floor() as usize };
                    prop_assert!(now >= least.min(got[a].1.len()).min(got[b].1.len()) || before == 0, "{before} {now}");
                    prop_assert!(before > 0 || now == 0);
                }
            }
        }

        /// Nothing is changed by multipliers of 1.
        #[test]
        fn once_is_as_it_was(rows in prop::collection::vec((1..90u64, prop::collection::vec(0..9u64, 0..6)), 1..12)) {
            let rows: Rows = rows.into_iter().map(|(tokens, mut ids)| {
                ids.truncate(tokens.div_ceil(16) as usize);
                (tokens, ids)
            }).collect();
            prop_assert_eq!(changed(&rows, multipliers(16)), rows);
        }
    }
}
