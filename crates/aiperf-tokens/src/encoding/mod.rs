//! Byte-pair vocabularies of tiktoken's kind: OpenAI's encodings, which are built in, and Mistral's tekken files.
//!
//! Opening a built-in one costs nothing: its tables lie in the program's read-only pages and are used there (see `build.rs`).
//! A tekken file is laid out into the same tables when it is opened. Ids of the built-in ones are those of Python's tiktoken,
//! special tokens' texts allowed, as AIPerf calls it.

mod classes;
mod hash;
mod layout;
mod merge;
mod ranks;
mod specials;
mod split;
mod tekken;

use std::cell::RefCell;

use self::merge::Scratch;
use self::ranks::{CL100K, NONE, O200K, P50K, R50K, Ranks};
use self::specials::{CL100K_SPECIALS, END_OF_TEXT, HARMONY_SPECIALS, O200K_SPECIALS, Specials};
use self::specials::{P50K_EDIT_SPECIALS, P50K_SPECIALS};
use self::split::Pattern;
pub(crate) use self::tekken::Tekken;
use crate::template::ChatTemplate;
use crate::tokenizer::{Kind, Origin, Tokenizer};

/// The names that are built in, the default first.
pub(crate) const NAMES: [&str; 7] =
    ["builtin", "o200k_base", "o200k_harmony", "cl100k_base", "p50k_base", "p50k_edit", "r50k_base"];

/// All that sets one encoding apart.
#[derive(Debug)]
pub(crate) struct Encoding {
    /// As the user named it.
    name: String,
    ranks: &'static Ranks<'static>,
    pattern: Pattern,
    specials: &'static Specials,
}

thread_local! {
    /// Merging is called for every unknown word; its room is kept by each thread.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Walks the tokens of `text`, which holds no special ones, in order: `whole` gets the rank of a token that was found at
/// once, `part` the bytes of one that came out of merging.
fn walk(
    ranks: &Ranks<'_>,
    pattern: Pattern,
    text: &str,
    scratch: &mut Scratch,
    whole: &mut impl FnMut(u32),
    part: &mut impl FnMut(&[u8]),
) {
    let mut plain = text;
    while !plain.is_empty() {
        let (piece, tail) = plain.split_at(pattern.piece(plain));
        plain = tail;
        match ranks.rank(piece.as_bytes()) {
            NONE => merge::merge(ranks, piece.as_bytes(), scratch, &mut *part),
            id => whole(id),
        }
    }
}

/// The text that `bytes` are; what is not UTF-8 becomes U+FFFD.
fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

impl Encoding {
    /// The encoding of that name, if it is built in.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let (ranks, pattern, specials) = match name {
            "builtin" | "o200k_base" => (&O200K, Pattern::O200k, &O200K_SPECIALS),
            "o200k_harmony" => (&O200K, Pattern::O200k, &HARMONY_SPECIALS),
            "cl100k_base" => (&CL100K, Pattern::Cl100k, &CL100K_SPECIALS),
            "p50k_base" => (&P50K, Pattern::R50k, &P50K_SPECIALS),
            "p50k_edit" => (&P50K, Pattern::R50k, &P50K_EDIT_SPECIALS),
            "r50k_base" => (&R50K, Pattern::R50k, &P50K_SPECIALS),
            _ => return None,
        };
        Some(Self { name: name.to_owned(), ranks, pattern, specials })
    }

    fn walk(&self, text: &str, mut whole: impl FnMut(u32), mut part: impl FnMut(&[u8])) {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut rest = text;
            loop {
                let special = self.specials.find(rest);
                let plain = special.as_ref().map_or(rest, |(at, _)| &rest[..at.start]);
                walk(self.ranks, self.pattern, plain, scratch, &mut whole, &mut part);
                let Some((at, id)) = special else { break };
                whole(id);
                rest = &rest[at.end..];
            }
        });
    }
}

impl Tokenizer for Encoding {
    fn name(&self) -> &str {
        &self.name
    }

    fn origin(&self) -> Origin {
        Origin { kind: Kind::Tiktoken, ..Origin::default() }
    }

    fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        ids.reserve(text.len() / 4);
        // Both closures append to the one list, one at a time.
        let ids = RefCell::new(ids);
        self.walk(
            text,
            |id| ids.borrow_mut().push(id),
            |bytes| ids.borrow_mut().push(self.ranks.rank(bytes)),
        );
    }

    fn count(&self, text: &str) -> usize {
        let (mut whole, mut parts) = (0, 0);
        self.walk(text, |_| whole += 1, |_| parts += 1);
        whole + parts
    }

    fn decode(&self, ids: &[u32]) -> String {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        for &id in ids {
            if let Some(token) = self.ranks.bytes(id) {
                bytes.extend_from_slice(token);
            } else if let Some(token) = self.specials.text(id) {
                bytes.extend_from_slice(token.as_bytes());
            }
        }
        text_of(bytes)
    }

    fn vocab_size(&self) -> usize {
        self.specials.end().max(self.ranks.len())
    }

    fn token_ids(&self) -> Vec<u32> {
        let is_token = |id: &u32| self.ranks.bytes(*id).is_some() || self.specials.is(*id);
        (0..self.vocab_size() as u32).filter(is_token).collect()
    }

    fn is_special(&self, id: u32) -> bool {
        self.specials.is(id)
    }

    fn is_control(&self, id: u32) -> bool {
        self.is_special(id)
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
        Some(END_OF_TEXT)
    }

    fn token_id(&self, token: &str) -> Option<u32> {
        self.specials.id(token)
    }
}

#[cfg(test)]
mod tests;
