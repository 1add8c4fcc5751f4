//! From ids to a text that encodes to so many of them.

use aiperf_tokens::Tokenizer;

use crate::slot::{SHORTEST, Slot, tight};

/// Rounds of the tools' loop.
const ROUNDS: usize = 10;
/// How far before its end a text is looked through for a place where it can be cut.
const WALL_TOKENS: usize = 256;
/// Most ids given up at the end to mend what the loop leaves.
const MOST_GIVEN_UP: usize = 12;
/// How often a number of fillers is tried.
const MOST_FITTINGS: usize = 4;
/// What is put in their place: common pieces, in most vocabularies one token each.
const FILLERS: [&str; 6] = [" a", " the", "a", "1", ".", "\n"];

/// A text and its encoding.
#[derive(Debug)]
pub(super) struct Corrected {
    pub(super) text: String,
    /// What `text` encodes to.
    pub(super) ids: Vec<u32>,
    /// Whether `ids` decode to `text`; not known before it is asked. A tokenizer that normalizes text gives another one, and
    /// it is that which the tools go on with.
    restores: Option<bool>,
}

/// vLLM's loop: as text and back, and where that is too long or too short, cut or topped up, at most ten times. What the last
/// round leaves is taken whatever its length, as the tools do.
///
/// The tools encode the whole text each time. Only its end changes, so here only that is encoded again.
pub(super) fn correct(
    tokenizer: &dyn Tokenizer,
    ids: &[u32],
    tokens: usize,
    mut top_up: impl FnMut() -> u32,
) -> Corrected {
    let mut draft = Corrected::new(tokenizer, ids);
    for _ in 0..ROUNDS {
        if draft.ids.len() == tokens {
            break;
        }
        draft.resize(tokenizer, tokens, &mut top_up);
    }
    draft
}

impl Corrected {
    /// The text and its tokens.
    pub(super) fn into_parts(self) -> (String, usize) {
        (self.text, self.ids.len())
    }

    fn new(tokenizer: &dyn Tokenizer, ids: &[u32]) -> Self {
        let text = tokenizer.decode(ids);
        let mut ids = Vec::with_capacity(ids.len() + ids.len() / 8);
        tokenizer.encode(&text, &mut ids);
        Self { text, ids, restores: None }
    }

    /// The text of its first `tokens` ids, topped up where there are fewer, and what that encodes to.
    fn resize(&mut self, tokenizer: &dyn Tokenizer, tokens: usize, mut top_up: impl FnMut() -> u32) {
        let kept = self.ids.len().min(tokens);
        let added = std::iter::repeat_with(&mut top_up).take(tokens - kept);
        let Some(wall) = self.wall(tokenizer, kept) else {
            self.ids.truncate(kept);
            self.ids.extend(added);
            *self = Self::new(tokenizer, &self.ids);
            return;
        };
        let end: Vec<u32> = self.ids[wall.token..kept].iter().copied().chain(added).collect();
        let end = tokenizer.decode(&end);
        self.text.truncate(wall.byte);
        self.text.push_str(&end);
        self.ids.truncate(wall.token);
        tokenizer.encode(&end, &mut self.ids);
        self.restores = Some(tokenizer.decode(&self.ids[wall.token..]) == end);
    }

    /// A place before the id at `kept` where the text falls apart: a space before a letter, behind no other white space. What
    /// stands behind it, encoded alone, is what it is in the text; that is tried, not supposed.
    fn wall(&mut self, tokenizer: &dyn Tokenizer, kept: usize) -> Option<Wall> {
        if !*self.restores.get_or_insert_with(|| tokenizer.decode(&self.ids) == self.text) {
            return None;
        }
        let from = kept.saturating_sub(WALL_TOKENS).max(1);
        let token = (from..kept).rev().find(|at| {
            let token = tokenizer.decode(&self.ids[*at..=*at]);
            matches!(token.as_bytes(), [b' ', letter, ..] if letter.is_ascii_alphabetic())
        })?;
        let behind = tokenizer.decode(&self.ids[token..]);
        let before = self.text.strip_suffix(behind.as_str())?;
        if before.is_empty() || before.ends_with(char::is_whitespace) {
            return None;
        }
        let mut alone = Vec::with_capacity(self.ids.len() - token);
        tokenizer.encode(&behind, &mut alone);
        (alone == self.ids[token..]).then_some(Wall { token, byte: before.len() })
    }
}

/// Where a text falls apart.
struct Wall {
    token: usize,
    byte: usize,
}

/// Makes a text exact that the loop did not: the last tokens give way to common ones. `slot` says what the text is to be, `bare`
/// about how many tokens of its own that are. The error is the nearest count found.
pub(super) fn mend(
    tokenizer: &dyn Tokenizer,
    draft: &Corrected,
    bare: usize,
    slot: Slot<'_>,
) -> Result<String, usize> {
    let kept = draft.ids.len().min(bare);
    let further = [2, 4, 8].map(|times| times * MOST_GIVEN_UP);
    let cut = (1..=MOST_GIVEN_UP)
        .chain(further)
        .take_while(|given_up| *given_up <= kept)
        .map(|given_up| tokenizer.decode(&draft.ids[..kept - given_up]));
    let mut nearest = 0usize;
    let mut fits = |text: &str| {
        let count = slot.count(tokenizer, text);
        if count.abs_diff(slot.tokens) < nearest.abs_diff(slot.tokens) {
            nearest = count;
        }
        count
    };
    // At last nothing of it.
    for base in cut.chain(SHORTEST.map(str::to_owned)) {
        let placed = |text: &str| if slot.is_bare() { text.to_owned() } else { tight(text).to_owned() };
        let base = placed(&base);
        let count = fits(&base);
        if count == slot.tokens && !base.is_empty() {
            return Ok(base);
        }
        let Some(missing) = slot.tokens.checked_sub(count) else { continue };
        for filler in FILLERS {
            // As many as tokens are missing, and then as many more or less as that was wrong by.
            let mut fillers = missing;
            for _ in 0..MOST_FITTINGS {
                let text = placed(&[base.as_str(), &filler.repeat(fillers)].concat());
                let count = fits(&text);
                if count == slot.tokens && !text.is_empty() {
                    return Ok(text);
                }
                let wanted = fillers.saturating_add_signed(slot.tokens as isize - count as isize);
                if wanted == fillers || wanted > 2 * slot.tokens {
                    break;
                }
                fillers = wanted;
            }
        }
    }
    Err(nearest)
}

#[cfg(test)]
mod tests {
    use aiperf_rng::Key;
    use proptest::prelude::*;

    use super::*;
    use crate::exactness::TOKENIZERS;
    use crate::toys::{BEHIND_SPACE, Cut, Toy};

    /// The loop as the tools have it.
    fn as_written(
        tokenizer: &dyn Tokenizer,
        mut ids: Vec<u32>,
        tokens: usize,
        mut top_up: impl FnMut() -> u32,
    ) -> String {
        for _ in 0..ROUNDS {
            let text = tokenizer.decode(&ids);
            ids.clear();
            tokenizer.encode(&text, &mut ids);
            if ids.len() == tokens {
                return text;
            }
            ids.truncate(tokens);
            while ids.len() < tokens {
                ids.push(top_up());
            }
        }
        tokenizer.decode(&ids)
    }

    #[test]
    fn a_text_falls_apart_before_a_word_that_stands_alone() {
        let tokenizer = TOKENIZERS.last().expect("the built-in one").as_ref();
        let draft = |text: &str| {
            let mut ids = Vec::new();
            tokenizer.encode(text, &mut ids);
            Corrected { text: text.to_owned(), ids, restores: None }
        };
        let mut words = draft("one two three (four five)");
        let wall = words.wall(tokenizer, 5).expect("a space before a letter");
        assert_eq!((wall.token, &words.text[wall.byte..]), (2, " three (four five)"));
        for text in ["one", "onetwo123", "one  two", "\n\n two"] {
            let mut draft = draft(text);
            let all = draft.ids.len();
            assert!(draft.wall(tokenizer, all).is_none(), "{text}");
        }
    }

    fn check(tokenizer: &dyn Tokenizer, pool: &[u32], seed: u64, ids: &[u32], tokens: usize) {
        let draws = || Key::new(seed).purpose("test.correct").at(1);
        let (mut one, mut other) = (draws(), draws());
        let ours = correct(tokenizer, ids, tokens, || pool[one.position(pool.len())]);
        let theirs = as_written(tokenizer, ids.to_vec(), tokens, || pool[other.position(pool.len())]);
        assert_eq!(ours.text, theirs);
        assert_eq!(one.next_u64(), other.next_u64(), "not one draw more or less");
        let mut encoded = Vec::new();
        tokenizer.encode(&theirs, &mut encoded);
        assert_eq!(ours.ids, encoded);
    }

    /// Found by the goldens: Qwen3 normalizes to NFC, so what was encoded is not what its ids decode to.
    #[test]
    fn a_normalized_text_is_the_one_that_is_gone_on_with() {
        let toy = Toy { cut: Cut::Folded, specials: 0 };
        // Letters, large ones too, which encode as small ones, and letters behind a space.
        let pool: Vec<u32> = (b'A'..=b'z').filter(u8::is_ascii_alphabetic).map(u32::from).collect();
        let pool: Vec<u32> =
            pool.iter().copied().chain(pool.iter().map(|c| c + BEHIND_SPACE)).chain([32]).collect();
        for seed in 0..300 {
            let mut draw = Key::new(seed).purpose("test.correct").at(0);
            let ids: Vec<u32> = (0..80).map(|_| pool[draw.position(pool.len())]).collect();
            check(&toy, &pool, seed, &ids, 80);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn encoding_the_end_alone_is_encoding_it_all(
            tokenizer in 0..TOKENIZERS.len(),
            seed in 0..1000u64,
            length in 1..400usize,
            tokens in 1..400usize,
            row: bool,
        ) {
            let tokenizer = TOKENIZERS[tokenizer].as_ref();
            let pool = tokenizer.token_ids();
            let mut draw = Key::new(seed).purpose("test.correct").at(0);
            let from = draw.position(pool.len());
            let ids: Vec<u32> = (0..length)
                .map(|i| if row { pool[(from + i) % pool.len()] } else { pool[draw.position(pool.len())] })
                .collect();
            let tokens = if row { length } else { tokens };
            check(tokenizer, &pool, seed, &ids, tokens);
        }
    }
}
