//! From ids to a text that encodes to so many of them.

use aiperf_tokens::Tokenizer;

/// Rounds of the tools' loop.
const ROUNDS: usize = 10;
/// Most ids given up at the end to mend what the loop leaves.
const MOST_GIVEN_UP: usize = 12;
/// What is put in their place: common pieces, in most vocabularies one token each.
const FILLERS: [&str; 6] = [" a", " the", "a", "1", ".", "\n"];

/// What the loop made.
pub(super) struct Corrected {
    pub(super) text: String,
    /// The ids that `text` was decoded from.
    pub(super) ids: Vec<u32>,
    /// Whether the text encodes to as many tokens as were asked for.
    pub(super) exact: bool,
}

/// vLLM's loop: as text and back, and where that is too long or too short, cut or topped up, at most ten times.
pub(super) fn correct(
    tokenizer: &dyn Tokenizer,
    mut ids: Vec<u32>,
    tokens: usize,
    mut top_up: impl FnMut() -> u32,
) -> Corrected {
    let mut encoded = Vec::new();
    for _ in 0..ROUNDS {
        let text = tokenizer.decode(&ids);
        encoded.clear();
        tokenizer.encode(&text, &mut encoded);
        if encoded.len() == tokens {
            return Corrected { text, ids, exact: true };
        }
        std::mem::swap(&mut ids, &mut encoded);
        ids.truncate(tokens);
        while ids.len() < tokens {
            ids.push(top_up());
        }
    }
    // The tools send what the last round left, measured or not.
    let text = tokenizer.decode(&ids);
    let exact = tokenizer.count(&text) == tokens;
    Corrected { text, ids, exact }
}

/// Makes a text exact that the loop did not: the last tokens give way to common ones. The error is the nearest count found.
pub(super) fn mend(
    tokenizer: &dyn Tokenizer,
    text: &str,
    ids: &[u32],
    tokens: usize,
) -> Result<String, usize> {
    let mut nearest = tokenizer.count(text);
    for given_up in 1..=MOST_GIVEN_UP {
        let base = tokenizer.decode(&ids[..ids.len().saturating_sub(given_up)]);
        for filler in FILLERS {
            let mut text = base.clone();
            for _ in 0..2 * given_up + 2 {
                text.push_str(filler);
                let count = tokenizer.count(&text);
                if count == tokens {
                    return Ok(text);
                }
                if count.abs_diff(tokens) < nearest.abs_diff(tokens) {
                    nearest = count;
                }
            }
        }
    }
    Err(nearest)
}
