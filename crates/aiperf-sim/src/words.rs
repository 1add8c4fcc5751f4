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

/// Fewest words of a text that proves the count: a small surplus a word shows itself in a long text only.
const PROOF: u64 = 64;

/// Tokens at the start of a text that tell it from others: the digits of its start, a word for each. As many as half a block of a
/// prefix cache has; with all [`KEEP`] words a hundred thousand million texts differ in them.
const DIGITS: u64 = 8;

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
            match found.first_bad(tokenizer).or_else(|| found.first_bad_neighbour(tokenizer)) {
                None => break,
                Some(bad) => {
                    found.words.remove(bad);
                }
            }
        }
        found
    }

    /// The position of a word that breaks the count beside another one: digits come in any order.
    fn first_bad_neighbour(&self, tokenizer: &dyn Tokenizer) -> Option<usize> {
        let counts = |words: &[&str]| tokenizer.count(&words.join(self.space)) == words.len();
        let all: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let bad = all.iter().position(|word| {
            let beside: Vec<&str> = all.iter().flat_map(|other| [*word, *other]).collect();
            !counts(&beside)
        })?;
        // The other one, if it alone is to blame.
        Some(all.iter().position(|other| !counts(&[all[bad], other, all[bad]])).unwrap_or(bad))
    }

    /// The position of a word that breaks the count. From every start a text of two rounds, and no less than
    /// [`PROOF`] words, must count as it should.
    fn first_bad(&self, tokenizer: &dyn Tokenizer) -> Option<usize> {
        let round = self.words.len() as u64;
        let length = PROOF.max(2 * round + 1);
        let mut text = String::new();
        let counts = |start: u64, length: u64, text: &mut String| {
            text.clear();
            self.write(start, 0, length, text);
            tokenizer.count(text) as u64 == length
        };
        let start = (0..round).find(|start| !counts(*start, length, &mut text))?;
        let short = (1..=length).find(|l| !counts(start, *l, &mut text)).unwrap_or(length);
        Some(self.word(start, short - 1) as usize)
    }

    /// Appends tokens `from..to` of the text `start`: its last eight digits to the base of the number of words, the lowest first, and
    /// behind them the words in their cycle, from the place of the lowest digit on. Token 0 has no space before it.
    pub fn write(&self, start: u64, from: u64, to: u64, out: &mut String) {
        for i in from..to {
            if i > 0 {
                out.push_str(self.space);
            }
            out.push_str(&self.words[self.word(start, i) as usize]);
        }
    }

    /// Which word is token `i` of the text `start`.
    fn word(&self, start: u64, i: u64) -> u64 {
        let round = self.words.len() as u64;
        if i < DIGITS { start / round.pow(i as u32) % round } else { (start % round + i) % round }
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

#[cfg(test)]
mod tests {
    use super::*;
    use aiperf_tokens::ChatTemplate;

    /// One token per character, or per so many characters.
    #[derive(Debug)]
    struct Pieces(usize);

    impl Tokenizer for Pieces {
        fn name(&self) -> &'static str {
            "pieces"
        }
        fn encode(&self, text: &str, ids: &mut Vec<u32>) {
            let chars: Vec<char> = text.chars().collect();
            ids.extend(chars.chunks(self.0).map(|c| u32::from(c[0])));
        }
        fn decode(&self, ids: &[u32]) -> String {
            ids.iter().filter_map(|id| char::from_u32(*id)).collect()
        }
        fn vocab_size(&self) -> usize {
            128
        }
        fn token_ids(&self) -> Vec<u32> {
            (0..128).collect()
        }
        fn is_special(&self, id: u32) -> bool {
            id < 32
        }
        fn is_control(&self, id: u32) -> bool {
            id < 32
        }
        fn prompt_specials(&self) -> usize {
            0
        }
        fn chat_template(&self) -> Option<&ChatTemplate> {
            None
        }
        fn bos_token(&self) -> Option<&str> {
            None
        }
        fn eos_token(&self) -> Option<&str> {
            None
        }
        fn token_id(&self, _: &str) -> Option<u32> {
            None
        }
    }

    #[test]
    fn a_vocabulary_of_characters_gives_characters() {
        let words = Words::find(&Pieces(1)).expect("letters and digits");
        let mut text = String::new();
        words.write(3, 0, 50, &mut text);
        assert_eq!(text.chars().count(), 50);
        assert!(!words.is_empty() && words.len() <= KEEP);
    }

    #[test]
    fn a_vocabulary_whose_counts_do_not_add_up_is_refused() {
        let error =
            Words::find(&Pieces(7)).expect_err("words of five letters add up for a while, and then do not");
        assert!(error.to_string().contains("'pieces'"), "{error}");
    }

    #[test]
    fn texts_differ_from_their_first_tokens_on() {
        let words = Words::find(&Pieces(1)).expect("letters and digits");
        let round = words.len() as u64;
        let text = |start| {
            let mut text = String::new();
            words.write(start, 0, 3, &mut text);
            text
        };
        let texts: std::collections::HashSet<String> = (0..round.pow(3)).map(text).collect();
        assert_eq!(texts.len() as u64, round.pow(3), "each has digits of its own");
    }

    #[test]
    fn texts_of_any_start_and_length_count_as_they_should() {
        let plan = aiperf_core::plan::TokenizerPlan { name: "builtin".into() };
        let tokenizer = aiperf_tokens::open(&plan).expect("is built in");
        let words = Words::find(&*tokenizer).expect("words");
        let key = aiperf_rng::Key::new(3).purpose("words");
        for i in 0..200 {
            let start = (key.at(i).next_u128() >> 64) as u64;
            let (mut text, length) = (String::new(), 1 + i);
            words.write(start, 0, length, &mut text);
            assert_eq!(tokenizer.count(&text) as u64, length, "{start}: {text}");
        }
    }

    #[test]
    fn parts_of_a_text_are_the_text() {
        let words = Words::find(&Pieces(1)).expect("letters and digits");
        let (mut whole, mut parts) = (String::new(), String::new());
        words.write(u64::MAX, 0, 100, &mut whole);
        for from in (0..100).step_by(7) {
            words.write(u64::MAX, from, (from + 7).min(100), &mut parts);
        }
        assert_eq!(whole, parts);
    }
}
