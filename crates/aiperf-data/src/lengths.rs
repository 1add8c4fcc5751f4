//! How true the lengths are that a tokenizer lets us make, measured.

use std::sync::Arc;

use aiperf_rng::Key;
use aiperf_tokens::{Probe, TemplateClock, Tokenizer, count_chat};
use serde_json::json;

use crate::corpus::SONNET;
use crate::cut::Cutter;
use crate::slot::Slot;

/// Prompts are up to 2 to the power of this many tokens.
const BITS: u64 = 11;
/// Misses that are kept as examples.
pub(crate) const EXAMPLES: usize = 5;

/// A length that was asked for and not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthMiss {
    /// Tokens asked for.
    pub asked: usize,
    /// The nearest count found.
    pub nearest: usize,
}

/// How far a first guess was from the rendered count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuessErrors {
    /// Prompts that were rendered.
    pub prompts: usize,
    /// Of those, with the length that was guessed.
    pub exact: usize,
    /// Rendered less guessed, tokens, at least.
    pub least: i64,
    /// The same, at most.
    pub most: i64,
}

/// What measuring some prompts showed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LengthCheck {
    /// Prompts tried, from 1 token on.
    pub prompts: usize,
    /// Tokens of the longest.
    pub longest: usize,
    /// Of the prompts, those that have exactly the tokens asked for, encoded whole again.
    pub exact: usize,
    /// Of the prompts, those that running sums made; the others were searched for by counting whole texts.
    pub by_sums: usize,
    /// Whole texts are counted whatever made them, for the vocabulary is not known to keep words apart.
    pub whole: bool,
    /// Of the prompts, those that come back unchanged when their ids are decoded. A tokenizer that normalizes text loses some;
    /// lengths do not suffer, for it is the text that is sent.
    pub restored: usize,
    /// The first that could not be made.
    pub misses: Vec<LengthMiss>,
    /// The template's linear estimate against rendering; none without one.
    pub first_guess: Option<GuessErrors>,
}

/// Makes `prompts` prompts of all sizes from the sonnet corpus and counts them again; always the same ones. `probe` is the
/// template's, rendered at the moment `now`.
pub fn check_lengths(
    tokenizer: &Arc<dyn Tokenizer>,
    probe: &Probe,
    now: TemplateClock,
    prompts: usize,
) -> LengthCheck {
    let cutter = Cutter::new(Arc::clone(&SONNET), Arc::clone(tokenizer));
    let draws = Key::new(0).purpose("tokenizer.check");
    let mut check = LengthCheck { prompts, ..LengthCheck::default() };
    for index in 0..prompts {
        let mut draw = draws.at(index as u64);
        let low = 1u64 << draw.below(BITS);
        let asked = (low + draw.below(low)) as usize;
        let start = SONNET.start(draws, index as u64);
        check.longest = check.longest.max(asked);
        let by_sums = cutter.by_sums(start, Slot::bare(asked));
        let text = match cutter.cut(start, Slot::bare(asked)) {
            Ok(text) => text,
            Err(nearest) => {
                check.miss(asked, nearest);
                continue;
            }
        };
        check.by_sums += usize::from(by_sums.is_some_and(|by_sums| by_sums == text));
        let mut ids = Vec::new();
        tokenizer.encode(&text, &mut ids);
        if ids.len() == asked {
            check.exact += 1;
        } else {
            check.miss(asked, ids.len());
        }
        check.restored += usize::from(tokenizer.decode(&ids) == text);
        check.guess(&**tokenizer, probe, now, &text, ids.len());
    }
    check.whole = prompts > 0 && !cutter.keeps_words_apart();
    check
}

impl LengthCheck {
    fn miss(&mut self, asked: usize, nearest: usize) {
        if self.misses.len() < EXAMPLES {
            self.misses.push(LengthMiss { asked, nearest });
        }
    }

    /// Holds the estimate for `text` as the only message, itself of `bare` tokens, against its rendered count.
    fn guess(
        &mut self,
        tokenizer: &dyn Tokenizer,
        probe: &Probe,
        now: TemplateClock,
        text: &str,
        bare: usize,
    ) {
        if probe.samples.is_empty() {
            return;
        }
        let messages = json!([{"role": "user", "content": text}]);
        let Ok(rendered) = count_chat(tokenizer, &messages, None, true, now) else { return };
        // The specials of the probe's formula: with a template that writes its BOS, they are in the rendered text.
        let guessed = bare + probe.first_turn_adjustment(0) + tokenizer.prompt_specials();
        let error = rendered as i64 - guessed as i64;
        let so_far =
            self.first_guess.unwrap_or(GuessErrors { prompts: 0, exact: 0, least: error, most: error });
        self.first_guess = Some(GuessErrors {
            prompts: so_far.prompts + 1,
            exact: so_far.exact + usize::from(error == 0),
            least: so_far.least.min(error),
            most: so_far.most.max(error),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use aiperf_core::plan::TokenizerPlan;
    use aiperf_tokens::probe;

    use super::*;
    use crate::toys::{Cut, Toy};

    fn now() -> TemplateClock {
        TemplateClock::civil(2025, 1, 2, 3, 4, 5).expect("a real moment")
    }

    fn check(tokenizer: &Arc<dyn Tokenizer>, prompts: usize) -> LengthCheck {
        check_lengths(tokenizer, &probe(&**tokenizer, now()), now(), prompts)
    }

    fn trained(name: &str) -> Arc<dyn Tokenizer> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
        aiperf_tokens::open(&TokenizerPlan { name: path.display().to_string() })
            .expect("a vocabulary of the tests")
    }

    #[test]
    fn all_lengths_are_exact_by_sums_where_they_hold_and_by_search_elsewhere() {
        let words = check(&Toy::shared(Cut::Words), 200);
        assert_eq!((words.prompts, words.exact), (200, 200));
        assert!(words.by_sums > 150 && words.longest > 1_000, "{words:?}");
        let pieces = check(&Toy::shared(Cut::Pieces), 60);
        assert_eq!((pieces.exact, pieces.by_sums), (60, 0));
        assert_eq!(pieces.first_guess, None);
        assert_eq!(check(&Toy::shared(Cut::Words), 0), LengthCheck::default());
    }

    #[test]
    fn lengths_that_cannot_be_made_are_shown_with_the_nearest() {
        let even = check(&Toy::shared(Cut::Even), 40);
        assert!(even.exact > 0 && even.exact < 40 && even.misses.len() == 5, "{even:?}");
        assert!(even.misses.iter().all(|miss| miss.asked % 2 == 1 && miss.asked.abs_diff(miss.nearest) == 1));
    }

    #[test]
    fn a_normalizer_that_loses_text_does_not_make_lengths_untrue() {
        // BERT's kind: lower case without accents.
        let lossy = check(&trained("word_piece.json"), 60);
        assert_eq!(lossy.exact, 60);
        assert!(lossy.restored < 60, "{lossy:?}");
        let lossless = check(&trained("byte_level.json"), 60);
        assert_eq!((lossless.exact, lossless.restored), (60, 60));
    }

    #[test]
    fn the_first_guess_is_held_against_rendering() {
        let folder = tempfile::tempdir().expect("a folder");
        let vocabulary = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/byte_level.json");
        std::fs::copy(vocabulary, folder.path().join("tokenizer.json")).expect("a file");
        let template = |text: &str| {
            std::fs::write(folder.path().join("chat_template.jinja"), text).expect("a file");
            let name = folder.path().display().to_string();
            check(&aiperf_tokens::open(&TokenizerPlan { name }).expect("a tokenizer"), 50)
        };
        // Line ends are walls for this vocabulary, so the linear model holds.
        let plain = template("{% for m in messages %}\n\n{{ m.content }}{% endfor %}\n\n");
        let errors = plain.first_guess.expect("there is a template");
        assert_eq!((errors.prompts, errors.exact, errors.least, errors.most), (50, 50, 0, 0));
        // One that writes every message twice costs as much again as the text has, which no constant is.
        let doubled = template("{% for m in messages %}{{ m.content }} {{ m.content }}{% endfor %}");
        let errors = doubled.first_guess.expect("there is a template");
        assert!(errors.exact < 10 && errors.most > 900, "{errors:?}");
        assert!(template("{{ raise_exception('no') }}").first_guess.is_none());
    }
}
