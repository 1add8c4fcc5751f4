//! Ids of blocks: those of all conversations, of a group, and of one conversation are apart.

use super::config::Config;

/// Groups there are ids for.
pub(crate) const MOST_GROUPS: u64 = 1_000;
/// Blocks of a group.
pub(crate) const MOST_GROUP_BLOCKS: u64 = 200;
/// Blocks of a conversation.
pub(crate) const MOST_OWN_BLOCKS: u64 = 4_000;

/// Which ids a context has: common ones from 0, then 200 for each of 1,000 groups, then 4,000 for each conversation.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    block: u64,
    common: u64,
    grouped: u64,
}

impl Layout {
    /// Of a configuration's layers, each in whole blocks.
    pub fn new(config: &Config) -> Self {
        let block = config.block_size;
        Self {
            block,
            common: config.cache.layer1_tokens.div_ceil(block),
            grouped: config.cache.layer1_5_tokens.div_ceil(block),
        }
    }

    /// Tokens of a block.
    pub const fn block_size(&self) -> u64 {
        self.block
    }

    /// Tokens that conversations of a group have in common.
    pub const fn common_tokens(&self) -> u64 {
        self.common.saturating_add(self.grouped).saturating_mul(self.block)
    }

    /// Blocks of a context of `input` tokens that are its conversation's own.
    pub const fn own_blocks(&self, input: u64) -> u64 {
        input.div_ceil(self.block).saturating_sub(self.common.saturating_add(self.grouped))
    }

    /// Ids of a context of `input` tokens, of conversation number `index` in `group`.
    pub fn ids(&self, index: u64, group: u64, input: u64) -> impl Iterator<Item = u64> + use<> {
        let all = input.div_ceil(self.block);
        let common = all.min(self.common);
        let grouped = (all - common).min(self.grouped);
        let group = self.common + group * MOST_GROUP_BLOCKS;
        let own = self.common + MOST_GROUPS * MOST_GROUP_BLOCKS + index * MOST_OWN_BLOCKS;
        (0..common).chain(group..group + grouped).chain(own..own + (all - common - grouped))
    }
}
