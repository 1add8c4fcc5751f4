//! What a prefix cache that evicts nothing would find of each request, in the order in which they ended. Behind the run, and only when
//! asked for: each prompt is rendered and encoded once more.
//!
//! Over all requests that order makes no difference, but for those that were in flight together.

use aiperf_metrics::CacheFacts;
use aiperf_tokens::block_hashes;
use rustc_hash::FxHashMap;

use crate::prefix_cache::{PrefixCache, body_hash};
use crate::prompt_ids::PromptIds;

/// Bodies that are remembered, so that they need not be encoded when they are sent again.
const REMEMBERED: usize = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct CacheLedgers {
    prompts: PromptIds,
    cache: PrefixCache,
    /// What is found of a body that was sent before, by a hash of it.
    known: FxHashMap<u64, CacheFacts>,
}

/// How a request went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Went<'a> {
    /// It belongs to a warm-up.
    pub is_warmup: bool,
    /// The server got as far as its first content: the prompt is in its cache.
    pub is_prefilled: bool,
    /// What it wrote, where a later turn says that again.
    pub reply: Option<&'a str>,
}

impl CacheLedgers {
    /// An empty one of blocks of so many tokens.
    pub(crate) fn new(prompts: PromptIds, block: usize) -> Self {
        Self { prompts, cache: PrefixCache::new(block), known: FxHashMap::default() }
    }

    /// Whether there were more blocks than are kept.
    pub(crate) fn is_full(&self) -> bool {
        self.cache.is_full()
    }

    /// What was to be found of the prompts in `body`. Nothing of a body without prompts, and of those behind the last block that
    /// was kept.
    pub(crate) fn of(&mut self, body: &[u8], went: Went<'_>) -> Option<CacheFacts> {
        if self.cache.is_full() {
            return None;
        }
        let hash = body_hash(body);
        if went.reply.is_none()
            && let Some(found) = self.known.get(&hash)
        {
            return Some(*found);
        }
        let sequences = self.prompts.of(body);
        if sequences.is_empty() {
            return None;
        }
        let (found, again) = self.cache.send_all(&sequences, None, went.is_warmup, went.is_prefilled);
        if went.is_prefilled {
            if self.known.len() < REMEMBERED {
                self.known.insert(hash, again);
            }
            if let (Some(reply), Some(mut ids)) = (went.reply, sequences.into_iter().next()) {
                self.prompts.reply(reply, &mut ids);
                let hashes = block_hashes(&ids, self.cache.block());
                self.cache.decode(hashes);
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use aiperf_core::plan::EndpointKind;
    use aiperf_net::Endpoint;
    use aiperf_tokens::TemplateClock;

    use super::*;
    use crate::toys::{self, Toy};

    const WENT: Went<'_> = Went { is_warmup: false, is_prefilled: true, reply: None };

    fn ledgers(toy: &Arc<Toy>) -> CacheLedgers {
        let now = TemplateClock::civil(2025, 1, 2, 3, 4, 5).expect("a real moment");
        let endpoint = Arc::new(Endpoint::new(&toys::endpoint(EndpointKind::Chat)));
        let prompts = PromptIds::new(toy.clone(), endpoint, now).expect("chat has prompts");
        CacheLedgers::new(prompts, 2)
    }

    /// A conversation of these texts; a token is a word, known by its length.
    fn body(texts: &[&str]) -> Vec<u8> {
        let messages: Vec<_> =
            texts.iter().map(|text| serde_json::json!({"role": "user", "content": text})).collect();
        serde_json::json!({"messages": messages}).to_string().into_bytes()
    }

    fn facts(prompt: u64, cached: u64, warmup: u64, with_replies: u64) -> CacheFacts {
        CacheFacts { prompt, cached, warmup, with_replies }
    }

    #[test]
    fn later_requests_find_what_earlier_ones_brought() {
        let toy = Arc::new(Toy::new(None));
        let mut ledgers = ledgers(&toy);
        let first = body(&["a bb ccc"]);
        assert_eq!(ledgers.of(&first, Went { is_prefilled: false, ..WENT }), Some(facts(3, 0, 0, 0)));
        assert_eq!(ledgers.of(&first, Went { is_warmup: true, ..WENT }), Some(facts(3, 0, 0, 0)));
        let encoded = toy.counted.load(Ordering::Relaxed);
        assert_eq!(ledgers.of(&first, WENT), Some(facts(3, 2, 2, 2)));
        assert_eq!(toy.counted.load(Ordering::Relaxed), encoded, "it was known");
        assert_eq!(ledgers.of(&first, Went { reply: Some("dddd eeeee f"), ..WENT }), Some(facts(3, 2, 2, 2)));
        let second = body(&["a bb ccc", "dddd eeeee f", "gg"]);
        assert_eq!(ledgers.of(&second, WENT), Some(facts(7, 2, 2, 6)));
        assert_eq!(ledgers.of(&second, WENT), Some(facts(7, 6, 2, 6)));
        assert_eq!(ledgers.of(b"no JSON", WENT), None);
    }
}
