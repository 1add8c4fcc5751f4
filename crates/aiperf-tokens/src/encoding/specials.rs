//! Special tokens of the built-in encodings.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

/// The end of a text, the one special token that all encodings share.
pub(super) const END_OF_TEXT: &str = "<|endoftext|>";
const END_OF_PROMPT: &str = "<|endofprompt|>";

/// Special tokens: those with a name, and numbered ones (`<|reserved_200013|>`).
#[derive(Debug)]
pub(super) struct Specials {
    /// Text and id, by id.
    named: &'static [(&'static str, u32)],
    /// Ids whose text is their number.
    reserved: &'static [Range<u32>],
}

pub(super) static O200K_SPECIALS: Specials =
    Specials { named: &[(END_OF_TEXT, 199_999), (END_OF_PROMPT, 200_018)], reserved: &[] };

/// gpt-oss's. Id 200,018 has two texts, of which decoding gives the name.
pub(super) static HARMONY_SPECIALS: Specials = Specials {
    named: &[
        ("<|startoftext|>", 199_998),
        (END_OF_TEXT, 199_999),
        ("<|return|>", 200_002),
        ("<|constrain|>", 200_003),
        ("<|channel|>", 200_005),
        ("<|start|>", 200_006),
        ("<|end|>", 200_007),
        ("<|message|>", 200_008),
        ("<|call|>", 200_012),
        (END_OF_PROMPT, 200_018),
    ],
    reserved: &[200_000..200_002, 200_004..200_005, 200_009..200_012, 200_013..201_088],
};

pub(super) static CL100K_SPECIALS: Specials = Specials {
    named: &[
        (END_OF_TEXT, 100_257),
        ("<|fim_prefix|>", 100_258),
        ("<|fim_middle|>", 100_259),
        ("<|fim_suffix|>", 100_260),
        (END_OF_PROMPT, 100_276),
    ],
    reserved: &[],
};

/// Of `r50k_base` too.
pub(super) static P50K_SPECIALS: Specials = Specials { named: &[(END_OF_TEXT, 50_256)], reserved: &[] };

pub(super) static P50K_EDIT_SPECIALS: Specials = Specials {
    named: &[
        (END_OF_TEXT, 50_256),
        ("<|fim_prefix|>", 50_281),
        ("<|fim_middle|>", 50_282),
        ("<|fim_suffix|>", 50_283),
    ],
    reserved: &[],
};

const RESERVED_BEGIN: &str = "<|reserved_";
const RESERVED_END: &str = "|>";
/// All reserved ids have as many digits.
const RESERVED_DIGITS: usize = 6;

impl Specials {
    /// The first special token in `text`: where, and its id.
    pub(super) fn find(&self, text: &str) -> Option<(Range<usize>, u32)> {
        // All of them begin so, and hardly any text has it.
        memmem::find_iter(text.as_bytes(), "<|").find_map(|at| {
            let rest = &text[at..];
            let named = self.named.iter().find(|(token, _)| rest.starts_with(token));
            let (len, id) = named.map(|(token, id)| (token.len(), *id)).or_else(|| self.reserved_at(rest))?;
            Some((at..at + len, id))
        })
    }

    /// Length and id of the reserved token that `text` begins with.
    fn reserved_at(&self, text: &str) -> Option<(usize, u32)> {
        let rest = text.strip_prefix(RESERVED_BEGIN)?;
        let digits = rest.get(..RESERVED_DIGITS)?;
        if !digits.bytes().all(|b| b.is_ascii_digit()) || !rest[RESERVED_DIGITS..].starts_with(RESERVED_END) {
            return None;
        }
        let id = digits.parse().ok().filter(|id| self.is_reserved(*id))?;
        Some((RESERVED_BEGIN.len() + RESERVED_DIGITS + RESERVED_END.len(), id))
    }

    fn is_reserved(&self, id: u32) -> bool {
        self.reserved.iter().any(|range| range.contains(&id))
    }

    /// Whether `id` is a special token.
    pub(super) fn is(&self, id: u32) -> bool {
        self.named.iter().any(|special| special.1 == id) || self.is_reserved(id)
    }

    /// The text of the special token `id`.
    pub(super) fn text(&self, id: u32) -> Option<Cow<'static, str>> {
        if let Some((token, _)) = self.named.iter().find(|special| special.1 == id) {
            return Some(Cow::Borrowed(*token));
        }
        self.is_reserved(id).then(|| Cow::Owned(format!("{RESERVED_BEGIN}{id}{RESERVED_END}")))
    }

    /// The id of the special token whose text `token` is.
    pub(super) fn id(&self, token: &str) -> Option<u32> {
        self.find(token).filter(|(at, _)| *at == (0..token.len())).map(|(_, id)| id)
    }

    /// One more than the highest id.
    pub(super) fn end(&self) -> usize {
        let named = self.named.iter().map(|special| special.1 + 1);
        named.chain(self.reserved.iter().map(|range| range.end)).max().unwrap_or(0) as usize
    }
}
