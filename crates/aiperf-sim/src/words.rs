//! Answer text whose token count is known without counting: words that are one token each, alone at the start of a text and
//! with a space before them, and whose counts add up. So `completion_tokens` is what any client counts again.

use aiperf_tokens::Tokenizer;

use crate::error::SimError;

/// Common words; in nearly every vocabulary trained on English each of them is one token, with and without a space.
const CANDIDATES: [&str; 40] = [
    "the", "of", "and", "to", "in", "that", "is", "was", "for", "on", "with", "as", "his", "they", "at",
    "be", "this", "from", "have", "or", "by", "one", "had", "not", "but", "what", "all", "were", "when",
    "we", "there", "can", "an", "your", "which", "their", "said", "if", "do", "will",
];

/// Words kept: enough for a text that does not look like a stuck loop, few enough to check every neighbour pair.
const KEEP: usize = 24;

/// Ids tried, from the lowest, when no common word is a token.
const SCAN: u32 = 4_096;

/// A cycle of words, each one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// What stands before a word that is not the first: a space, or nothing for vocabularies without spaced words.
    space: &'static str,
    words: Vec<String>,
}

impl Words {
    /// Finds words for `tokenizer` and proves on the tokenizer itself that they add up.
    pub fn find(tokenizer: &dyn Tokenizer) -> Result<Self, SimError> {
        for space in [" ", ""] {
            let words = Self::additive(tokenizer, space, CANDIDATES.iter().map(|w| (*w).to_owned()));
            if !words.words.is_empty() {
                return Ok(words);
            }
        }
        // Toy and byte vocabularies: whatever plain piece of text stands for one token.
        let pieces = || {
            (0..SCAN.min(u32::try_from(tokenizer.vocab_size()).unwrap_or(u32::MAX)))
                .filter(|id| !tokenizer.is_special(*id))
                .map(|id| tokenizer.decode(&[id]).trim().to_owned())
                .filter(|t| !t.is_empty() && t.chars().all(|c| c.is_ascii_alphanumeric()))
        };
        for space in [" ", ""] {
            let words = Self::additive(tokenizer, space, pieces());
            if !words.words.is_empty() {
                return Ok(words);
            }
        }
        Err(SimError::NoWords { tokenizer: tokenizer.name().to_owned() })
    }

    /// Keeps candidates as long as every order in which the cycle can bring them still counts one token a word.
    fn additive(
        tokenizer: &dyn Tokenizer,
        space: &'static str,
        candidates: impl Iterator<Item = String>,
    ) -> Self {
        let mut found = Self { space, words: Vec::new() };
        for word in candidates {
            if found.words.len() == KEEP {
                break;
            }
            // Cheap test first: alone, and after itself.
            if tokenizer.count(&word) != 1 || tokenizer.count(&format!("{word}{space}{word}")) != 2 {
                continue;
            }
            found.words.push(word);
        }
        // Each removal can only make new neighbours, so prove the cycle anew until it holds or is empty.
        while !found.words.is_empty() {
            match found.first_bad(tokenizer) {
                None => break,
                Some(bad) => {
                    found.words.remove(bad);
                }
            }
        }
        found
    }

    /// The position of a word that breaks the count: every start is tried, and from it every length up to two rounds.
    fn first_bad(&self, tokenizer: &dyn Tokenizer) -> Option<usize> {
        let round = self.words.len();
        let mut text = String::new();
        self.write(0, 0, 2 * round as u64 + 1, &mut text);
        if tokenizer.count(&text) == 2 * round + 1 {
            // The usual case: now every start and every two words.
            for start in 0..round {
                text.clear();
                self.write(start as u64, 0, 2, &mut text);
                if tokenizer.count(&text) != 2 {
                    return Some((start + 1) % round);
                }
            }
            return None;
        }
        text.clear();
        for i in 0..=2 * round {
            self.write(0, i as u64, i as u64 + 1, &mut text);
            if tokenizer.count(&text) != i + 1 {
                return Some(i % round);
            }
        }
        Some(0)
    }

    /// Appends tokens `from..to` of the text that starts at place `start` of the cycle. Token 0 has no space before it.
    pub fn write(&self, start: u64, from: u64, to: u64, out: &mut String) {
        let round = self.words.len() as u64;
        for i in from..to {
            if i > 0 {
                out.push_str(self.space);
            }
            out.push_str(&self.words[((start % round + i) % round) as usize]);
        }
    }

    /// Number of different words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Never: a set without words is refused when it is made.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}
