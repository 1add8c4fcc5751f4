//! A prefix cache without end, in hashes of blocks: what a server that evicts nothing would find of each prompt.
//!
//! A prompt's blocks are in it once the prompt was sent. So over any requests what is found is all blocks less the different
//! ones, in whatever order they come; only what several of them send at the same moment is found later on a real server.

use std::hash::{DefaultHasher, Hash, Hasher};

use aiperf_metrics::CacheFacts;
use aiperf_tokens::marked_block_hashes;
use rustc_hash::FxHashSet;

/// Most hashes that are kept: three sets of 8 bytes each and their slack, 300 MB and a half more while one grows.
const MOST: usize = (1 << 25) / 8 * 7;

/// See the module.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    block: usize,
    most: usize,
    /// Brought by warm-ups, by other requests, and by answers alone: no hash is in two of them.
    warmup: FxHashSet<u64>,
    measured: FxHashSet<u64>,
    replies: FxHashSet<u64>,
    is_full: bool,
    hashes: Vec<u64>,
}

impl PrefixCache {
    /// An empty one of blocks of so many tokens (at least 1).
    pub(crate) fn new(block: usize) -> Self {
        Self::of_at_most(block, MOST)
    }

    fn of_at_most(block: usize, most: usize) -> Self {
        Self {
            block,
            most,
            warmup: FxHashSet::default(),
            measured: FxHashSet::default(),
            replies: FxHashSet::default(),
            is_full: false,
            hashes: Vec::new(),
        }
    }

    /// Tokens of a block.
    pub(crate) fn block(&self) -> usize {
        self.block
    }

    /// Whether blocks were left out because there were too many: then more would be found than is told.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The prompts of a request are sent, as ids: what is found of them, and what is found when all of it is sent once more. From the
    /// place in `mark` on, ids are those of the session that it names, whatever they are. See [`Self::send`] for the rest.
    pub(crate) fn send_all(
        &mut self,
        prompts: &[Vec<u32>],
        mark: Option<(usize, u64)>,
        is_warmup: bool,
        is_kept: bool,
    ) -> (CacheFacts, CacheFacts) {
        let block = self.block;
        let (mut found, mut whole) = (CacheFacts::default(), 0);
        for ids in prompts {
            found += self.send(ids.len(), marked_block_hashes(ids, block, mark), is_warmup, is_kept);
            whole += (ids.len() / block * block) as u64;
        }
        let warmup = if is_warmup { whole } else { found.warmup };
        (found, CacheFacts { prompt: found.prompt, cached: whole, warmup, with_replies: whole })
    }

    /// A prompt of `tokens` is sent, whose blocks have these hashes: looks for it, then keeps it if the server got so far.
    pub(crate) fn send(
        &mut self,
        tokens: usize,
        hashes: impl Iterator<Item = u64>,
        is_warmup: bool,
        is_kept: bool,
    ) -> CacheFacts {
        self.hashes.clear();
        self.hashes.extend(hashes);
        let block = self.block as u64;
        let mut found = CacheFacts { prompt: tokens as u64, ..CacheFacts::default() };
        let mut is_known = true;
        for hash in &self.hashes {
            let is_warm = self.warmup.contains(hash);
            is_known = is_known && (is_warm || self.measured.contains(hash));
            if is_known {
                found.cached += block;
                found.warmup += if is_warm { block } else { 0 };
            } else if !self.replies.contains(hash) && !self.measured.contains(hash) && !is_warm {
                break;
            }
            found.with_replies += block;
        }
        if is_kept {
            let from = (found.cached / block) as usize;
            for at in from..self.hashes.len() {
                let hash = self.hashes[at];
                if self.warmup.contains(&hash) || self.measured.contains(&hash) {
                    continue;
                }
                let was_reply = self.replies.remove(&hash);
                if !was_reply && !self.has_room() {
                    break;
                }
                if is_warmup {
                    self.warmup.insert(hash)
                } else {
                    self.measured.insert(hash)
                };
            }
        }
        found
    }

    /// A prompt and its answer are in the server's memory, whose blocks together have these hashes.
    pub(crate) fn decode(&mut self, hashes: impl Iterator<Item = u64>) {
        for hash in hashes {
            if self.warmup.contains(&hash) || self.measured.contains(&hash) || self.replies.contains(&hash) {
                continue;
            }
            if !self.has_room() {
                return;
            }
            self.replies.insert(hash);
        }
    }

    fn has_room(&mut self) -> bool {
        let kept = self.warmup.len() + self.measured.len() + self.replies.len();
        self.is_full |= kept >= self.most;
        !self.is_full
    }
}

/// What a body is known again by.
pub(crate) fn body_hash(body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use aiperf_tokens::block_hashes;
    use proptest::prelude::*;

    use super::*;

    fn send(cache: &mut PrefixCache, ids: &[u32], is_warmup: bool) -> CacheFacts {
        let block = cache.block();
        cache.send(ids.len(), block_hashes(ids, block), is_warmup, true)
    }

    #[test]
    fn a_prompt_is_found_as_far_as_one_before_had_the_same_blocks() {
        let mut cache = PrefixCache::new(4);
        let found =
            |prompt, cached, warmup, with_replies| CacheFacts { prompt, cached, warmup, with_replies };
        assert_eq!(send(&mut cache, &[1, 2, 3, 4, 5, 6], true), found(6, 0, 0, 0));
        assert_eq!(send(&mut cache, &[1, 2, 3, 4, 5, 6, 7, 8], false), found(8, 4, 4, 4));
        assert_eq!(send(&mut cache, &[1, 2, 3, 4, 5, 6, 7, 8, 9], false), found(9, 8, 4, 8));
        // A whole prompt is found whole: what a server does of its last token nevertheless is another matter.
        assert_eq!(send(&mut cache, &[1, 2, 3, 4], false), found(4, 4, 4, 4));
        assert_eq!(send(&mut cache, &[0, 2, 3, 4, 5, 6, 7, 8], false), found(8, 0, 0, 0));
    }

    #[test]
    fn answers_are_found_by_servers_that_keep_them_and_by_all_once_they_were_sent_again() {
        let mut cache = PrefixCache::new(2);
        assert_eq!(send(&mut cache, &[1, 2, 3], false).cached, 0);
        cache.decode(block_hashes(&[1, 2, 3, 4, 5, 6], 2));
        let second = send(&mut cache, &[1, 2, 3, 4, 5, 6, 7, 8], false);
        assert_eq!((second.cached, second.with_replies), (2, 6));
        let third = send(&mut cache, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 9], false);
        assert_eq!((third.cached, third.with_replies), (8, 8));
    }

    #[test]
    fn what_no_server_took_is_not_kept() {
        let mut cache = PrefixCache::new(2);
        let ids = [1, 2, 3, 4];
        assert_eq!(cache.send(4, block_hashes(&ids, 2), false, false).cached, 0);
        assert_eq!(send(&mut cache, &ids, false).cached, 0);
        assert_eq!(send(&mut cache, &ids, false).cached, 4);
    }

    #[test]
    fn memory_is_bounded_and_that_is_told() {
        let mut cache = PrefixCache::of_at_most(1, 4);
        send(&mut cache, &[1, 2, 3, 4], false);
        assert!(!cache.is_full());
        send(&mut cache, &[9, 9], false);
        assert!(cache.is_full());
        cache.decode(block_hashes(&[7, 7], 1));
        assert_eq!(send(&mut cache, &[9, 9], false).cached, 0);
        assert_eq!(send(&mut cache, &[1, 2, 3, 4], false).cached, 4);
    }

    proptest! {
        /// Prefixes of few ids and few lengths meet often.
        #[test]
        fn it_finds_what_a_set_of_prefixes_finds(
            prompts in prop::collection::vec((prop::collection::vec(0u32..3, 0..14), any::<bool>()), 0..20),
            block in 1usize..4,
        ) {
            let mut cache = PrefixCache::new(block);
            let mut sent: HashSet<Vec<u32>> = HashSet::new();
            let (mut all, mut found) = (0, 0);
            for (ids, is_warmup) in &prompts {
                let cached = send(&mut cache, ids, *is_warmup).cached;
                let whole = (1..=ids.len() / block).map(|n| &ids[..n * block]);
                let expected = whole.clone().take_while(|prefix| sent.contains(*prefix)).count() * block;
                prop_assert_eq!(cached, expected as u64);
                sent.extend(whole.map(<[u32]>::to_vec));
                all += (ids.len() / block) as u64;
                found += cached / block as u64;
            }
            prop_assert_eq!(found, all - sent.len() as u64, "all blocks less the different ones");
        }
    }
}
