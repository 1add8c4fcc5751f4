//! The character classes that the encodings' patterns speak of, in one look-up.
//!
//! The table is fixed to Unicode 16, which is what tiktoken 0.14 cuts by: a character that is a letter only since a later
//! version would else move a cut and with it ids.

/// Classes of a character, one bit for each; no bit for what is neither letter, mark, number nor whitespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Class(u8);

impl Class {
    /// `\p{Lu}\p{Lt}`.
    const UPPER: u8 = 1;
    /// `\p{Ll}`.
    const LOWER: u8 = 2;
    /// `\p{Lm}\p{Lo}`.
    const CASELESS: u8 = 4;
    /// `\p{M}`.
    const MARK: u8 = 8;
    const NUMBER: u8 = 16;
    /// Whitespace other than the two line ends.
    const BLANK: u8 = 32;
    /// CR and LF.
    const LINE_END: u8 = 64;

    /// `\p{L}`.
    #[inline]
    pub(super) fn is_letter(self) -> bool {
        self.0 & (Self::UPPER | Self::LOWER | Self::CASELESS) != 0
    }

    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, what a word of o200k may begin with.
    #[inline]
    pub(super) fn is_head(self) -> bool {
        self.0 & (Self::UPPER | Self::CASELESS | Self::MARK) != 0
    }

    /// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`, what a word of o200k may end with.
    #[inline]
    pub(super) fn is_tail(self) -> bool {
        self.0 & (Self::LOWER | Self::CASELESS | Self::MARK) != 0
    }

    /// `\p{N}`.
    #[inline]
    pub(super) fn is_number(self) -> bool {
        self.0 & Self::NUMBER != 0
    }

    /// `\s`.
    #[inline]
    pub(super) fn is_space(self) -> bool {
        self.0 & (Self::BLANK | Self::LINE_END) != 0
    }

    /// `[\r\n]`.
    #[inline]
    pub(super) fn is_line_end(self) -> bool {
        self.0 & Self::LINE_END != 0
    }

    /// `[^\r\n\p{L}\p{N}]`, what may stand glued before a word.
    #[inline]
    pub(super) fn is_glue(self) -> bool {
        !self.is_letter() && self.0 & (Self::NUMBER | Self::LINE_END) == 0
    }

    /// `[^\s\p{L}\p{N}]`.
    #[inline]
    pub(super) fn is_other(self) -> bool {
        !self.is_letter() && !self.is_number() && !self.is_space()
    }
}

static TABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classes.bin"));

/// Bytes of the first part of the table: a u16 for each 128 code points.
const INDEX_BYTES: usize = 0x11_0000 / 128 * 2;

/// The class of `c`.
#[inline]
pub(super) fn class(c: char) -> Class {
    let code = c as usize;
    if code < 128 {
        // ASCII is the first block.
        return Class(TABLE[INDEX_BYTES + code]);
    }
    let at = (code >> 7) * 2;
    let block = usize::from(u16::from_le_bytes([TABLE[at], TABLE[at + 1]]));
    Class(TABLE[INDEX_BYTES + block * 128 + (code & 127)])
}

#[cfg(test)]
mod tests {
    use super::class;

    #[test]
    fn whitespace_is_what_the_standard_library_says() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            assert_eq!(class(c).is_space(), c.is_whitespace(), "{c:?}");
        }
    }

    #[test]
    fn letters_and_numbers_agree_where_the_unicode_versions_do() {
        // char::is_alphabetic has marks and letter numbers too, so compare what must hold in one direction.
        let mut letters = 0;
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let k = class(c);
            assert!(!k.is_letter() || c.is_alphabetic(), "{c:?}");
            assert!(!k.is_number() || c.is_numeric(), "{c:?}");
            assert!(u8::from(k.is_letter()) + u8::from(k.is_number()) + u8::from(k.is_space()) <= 1, "{c:?}");
            letters += u32::from(k.is_letter());
        }
        // Unicode 16.0 has 141,028 letters: 1,858 Lu, 31 Lt, 2,258 Ll, 404 Lm, 136,477 Lo.
        assert_eq!(letters, 141_028);
    }
}
