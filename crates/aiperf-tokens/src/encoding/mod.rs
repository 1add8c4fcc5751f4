//! The encodings that are built in: tiktoken's `o200k_base`, which is also `builtin`, and `cl100k_base`.
//!
//! Opening one costs nothing: its tables lie in the program's read-only pages and are used there (see `build.rs`). Ids are those
//! of Python's tiktoken, special tokens' texts allowed, as AIPerf calls it.

mod classes;
mod hash;
mod merge;
mod ranks;
mod split;

use std::cell::RefCell;

use memchr::memmem;

use self::merge::Scratch;
use self::ranks::{CL100K, NONE, O200K, Ranks};
use self::split::Pattern;
use crate::template::ChatTemplate;
use crate::tokenizer::Tokenizer;

/// All that sets one encoding apart.
#[derive(Debug)]
pub(crate) struct Encoding {
    /// As the user named it.
    name: String,
    ranks: &'static Ranks,
    pattern: Pattern,
    /// Special tokens: text and id, by id.
    specials: &'static [(&'static str, u32)],
}

/// The end of a text, the one special token that all encodings share.
const END_OF_TEXT: &str = "<|endoftext|>";

const O200K_SPECIALS: [(&str, u32); 2] = [(END_OF_TEXT, 199_999), ("<|endofprompt|>", 200_018)];
const CL100K_SPECIALS: [(&str, u32); 5] = [
    (END_OF_TEXT, 100_257),
    ("<|fim_prefix|>", 100_258),
    ("<|fim_middle|>", 100_259),
    ("<|fim_suffix|>", 100_260),
    ("<|endofprompt|>", 100_276),
];

thread_local! {
    /// Merging is called for every unknown word; its room is kept by each thread.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Encoding {
    /// The encoding of that name, if it is built in.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let (ranks, pattern, specials): (_, _, &[_]) = match name {
            "builtin" | "o200k_base" => (&O200K, Pattern::O200k, &O200K_SPECIALS),
            "cl100k_base" => (&CL100K, Pattern::Cl100k, &CL100K_SPECIALS),
            _ => return None,
        };
        Some(Self { name: name.to_owned(), ranks, pattern, specials })
    }

    /// Walks the tokens of `text` in order: `whole` gets the id of a token that was found at once, `part` the bytes of one
    /// that came out of merging.
    fn walk(&self, text: &str, mut whole: impl FnMut(u32), mut part: impl FnMut(&[u8])) {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut rest = text;
            loop {
                let special = self.next_special(rest);
                let mut plain = special.map_or(rest, |(at, ..)| &rest[..at]);
                while !plain.is_empty() {
                    let (piece, tail) = plain.split_at(self.pattern.piece(plain));
                    plain = tail;
                    match self.ranks.rank(piece.as_bytes()) {
                        NONE => merge::merge(self.ranks, piece.as_bytes(), scratch, &mut part),
                        id => whole(id),
                    }
                }
                let Some((at, token, id)) = special else { break };
                whole(id);
                rest = &rest[at + token.len()..];
            }
        });
    }

    /// The first special token in `text`: where, its text, its id.
    fn next_special(&self, text: &str) -> Option<(usize, &'static str, u32)> {
        // All of them begin so, and hardly any text has it.
        memmem::find_iter(text.as_bytes(), "<|").find_map(|at| {
            let (token, id) = *self.specials.iter().find(|(token, _)| text[at..].starts_with(token))?;
            Some((at, token, id))
        })
    }

    fn special_text(&self, id: u32) -> Option<&'static str> {
        self.specials.iter().find(|special| special.1 == id).map(|special| special.0)
    }
}

impl Tokenizer for Encoding {
    fn name(&self) -> &str {
        &self.name
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
            } else if let Some(token) = self.special_text(id) {
                bytes.extend_from_slice(token.as_bytes());
            }
        }
        String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
    }

    fn vocab_size(&self) -> usize {
        self.specials.iter().map(|special| special.1 as usize + 1).max().unwrap_or(self.ranks.len())
    }

    fn token_ids(&self) -> Vec<u32> {
        (0..self.ranks.len() as u32).chain(self.specials.iter().map(|special| special.1)).collect()
    }

    fn is_special(&self, id: u32) -> bool {
        self.special_text(id).is_some()
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
        self.specials.iter().find(|special| special.0 == token).map(|special| special.1)
    }
}

#[cfg(test)]
mod tests;
