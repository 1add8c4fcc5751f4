//! Where a text goes, and what all of it is to count there.
//!
//! A server does not count a text alone: it counts what its template puts around it, with a marker and a prefix that belong to
//! the same message. What stands between the nearest walls (special tokens, which nothing merges over) is counted together, so
//! a text is made to fit its surroundings and the sum is true whatever merges at the seams.

use aiperf_tokens::Tokenizer;

/// Texts that are single tokens in most vocabularies: the shortest that a message can hold.
pub(crate) const SHORTEST: [&str; 6] = ["I", "a", "1", "The", "x", "0"];

/// A place for a text.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a> {
    /// What stands before the text, from the nearest wall on.
    pub(crate) before: &'a str,
    /// What stands behind it, up to the nearest wall.
    pub(crate) after: &'a str,
    /// Tokens that all three together are to be.
    pub(crate) tokens: usize,
    /// Tokens of `before` alone, where they are known.
    pub(crate) before_tokens: Option<usize>,
    /// The text keeps off white space at its ends, which a template may drop; texts cut from a corpus always do.
    pub(crate) is_tight: bool,
    /// The text goes on a text before it, so it begins with the white space of its corpus.
    pub(crate) joins: bool,
    /// Counts the request with the text in it, where the template does more than put something around it. `tokens` is then the
    /// whole request's.
    pub(crate) render: Option<&'a dyn Fn(&str) -> usize>,
}

impl<'a> Slot<'a> {
    /// Nothing around it.
    pub(crate) const fn bare(tokens: usize) -> Self {
        Self {
            before: "",
            after: "",
            tokens,
            before_tokens: None,
            is_tight: false,
            joins: false,
            render: None,
        }
    }

    /// Nothing stands around the text, and any text will do.
    pub(crate) fn is_bare(&self) -> bool {
        self.is_alone() && !self.is_tight
    }

    fn is_alone(&self) -> bool {
        self.before.is_empty() && self.after.is_empty() && self.render.is_none()
    }

    /// Tokens of `text` in its place.
    pub(crate) fn count(&self, tokenizer: &dyn Tokenizer, text: &str) -> usize {
        match self.render {
            Some(render) => render(text),
            None if self.is_alone() => tokenizer.count(text),
            None => tokenizer.count(&[self.before, text, self.after].concat()),
        }
    }

    /// The same place with no more before it than the text can count otherwise for, where it goes on a long text whose tokens are
    /// known. Right for vocabularies that keep words apart.
    pub(crate) fn near(self, tokenizer: &dyn Tokenizer) -> Option<Slot<'a>> {
        let Some(known) = self.before_tokens else { return Some(self) };
        let near = last_words(self.before);
        let left_out = known.checked_sub(tokenizer.count(near))?;
        Some(Slot { before: near, tokens: self.tokens.checked_sub(left_out)?, before_tokens: None, ..self })
    }
}

/// `text` without what a template may drop around a message: white space, and the separators that Python takes for some.
pub(crate) fn tight(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
}

/// Where words begin that a vocabulary keeps apart from what is before them: a space before a letter behind no white space.
pub(crate) fn words_from(text: &str) -> impl DoubleEndedIterator<Item = usize> + '_ {
    let bytes = text.as_bytes();
    (1..bytes.len().saturating_sub(1)).filter(|at| {
        bytes[*at] == b' ' && bytes[at + 1].is_ascii_alphabetic() && !bytes[at - 1].is_ascii_whitespace()
    })
}

/// The last words of a long text, on which alone depends how what follows counts.
pub(crate) fn last_words(text: &str) -> &str {
    const WORDS: usize = 3;
    words_from(text).rev().nth(WORDS - 1).map_or(text, |from| &text[from..])
}
