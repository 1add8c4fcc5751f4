//! Cutting text into the pieces that byte pairs may merge within, as the encodings' regular expressions do.
//!
//! The patterns need look-ahead and, with a general engine, tables that take longer to build than a short run takes. Their
//! alternatives are few and plain, so each is a function of classes here; the tests hold it against a regular expression
//! engine on the published patterns.

use super::classes::{Class, class};

/// Which pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s`
    Cl100k,
    /// Words cut where a small letter is followed by a capital one, contractions glued behind:
    /// `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?`, the same
    /// with `+` and `*` exchanged, `\p{N}{1,3}`, ` ?[^\s\p{L}\p{N}]+[\r\n/]*`, `\s*[\r\n]+`, `\s+(?!\S)`, `\s+`.
    O200k,
    /// `'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s`: GPT-2's, of r50k and p50k.
    R50k,
    /// As [`Self::O200k`], but contractions are not glued and each digit stands alone: Mistral's tekken.
    Tekken,
}

impl Pattern {
    /// Length in bytes of the piece that begins `text`; 0 for no text alone.
    #[inline]
    pub(super) fn piece(self, text: &str) -> usize {
        let Some(first) = text.chars().next() else { return 0 };
        match self {
            Self::Cl100k => cl100k(text, first),
            Self::O200k => o200k(text, first, contraction, 3),
            Self::R50k => r50k(text, first),
            Self::Tekken => o200k(text, first, |_| 0, 1),
        }
    }
}

/// `behind` gives the bytes that are glued behind a word, `digits` is the most that stand together.
#[inline]
fn o200k(text: &str, first: char, behind: impl Fn(&str) -> usize, digits: usize) -> usize {
    let kind = class(first);
    // A character glued before a word: a space in most text. A mark may be glue too, and is then matched as the word's own
    // first character just as far; where only capitals follow it, the pattern's first alternative takes the mark alone
    // before the second one would glue it.
    if kind.is_glue() && !kind.is_head() {
        let rest = &text[first.len_utf8()..];
        if let Some(word) = o200k_word(rest) {
            let end = first.len_utf8() + word;
            return end + behind(&text[end..]);
        }
    }
    if (kind.is_letter() || kind.is_head())
        && let Some(end) = o200k_word(text)
    {
        return end + behind(&text[end..]);
    }
    if kind.is_number() {
        return run(text, digits, Class::is_number);
    }
    if let Some(end) = others(text, first) {
        return end + run_of(&text[end..], |b| matches!(b, b'\r' | b'\n' | b'/'));
    }
    spaces(text, Tail::AfterLineEnd)
}

/// The word that `text` begins with: capitals, then small letters, at least one of either; letters without case and marks
/// are both. Without a small letter behind them, capitals give way to the last character that may end a word.
#[inline]
fn o200k_word(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    // Most words are ASCII: capitals, then small letters.
    while at < bytes.len() && bytes[at].is_ascii_uppercase() {
        at += 1;
    }
    let capitals = at;
    while at < bytes.len() && bytes[at].is_ascii_lowercase() {
        at += 1;
    }
    if bytes.get(at).is_none_or(u8::is_ascii) {
        return (at > 0).then_some(at);
    }
    // Not ASCII alone: start over from the last place where the general rule's state is known.
    let mut at =
        if at > capitals { return Some(at + run(&text[at..], usize::MAX, Class::is_tail)) } else { capitals };
    let mut last_tail_end = None;
    for c in text[at..].chars() {
        let kind = class(c);
        if !kind.is_head() {
            if kind.is_tail() {
                return Some(at + run(&text[at..], usize::MAX, Class::is_tail));
            }
            break;
        }
        at += c.len_utf8();
        if kind.is_tail() {
            last_tail_end = Some(at);
        }
    }
    last_tail_end.or((at > 0).then_some(at))
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`, in bytes.
#[inline]
fn contraction(text: &str) -> usize {
    let Some(rest) = text.strip_prefix('\'') else { return 0 };
    let mut chars = rest.chars();
    match (chars.next(), chars.next()) {
        // Unicode folds the long s to s.
        (Some('ſ'), _) => 1 + 'ſ'.len_utf8(),
        (Some('s' | 'S' | 't' | 'T' | 'm' | 'M' | 'd' | 'D'), _) => 2,
        (Some(a), Some(b)) => match (a.to_ascii_lowercase(), b.to_ascii_lowercase()) {
            ('r' | 'v', 'e') | ('l', 'l') => 3,
            _ => 0,
        },
        _ => 0,
    }
}

#[inline]
fn cl100k(text: &str, first: char) -> usize {
    if first == '\'' {
        let end = contraction(text);
        if end > 0 {
            return end;
        }
    }
    let kind = class(first);
    if kind.is_letter() {
        return letters(text);
    }
    if kind.is_glue() {
        let word = letters(&text[first.len_utf8()..]);
        if word > 0 {
            return first.len_utf8() + word;
        }
    }
    if kind.is_number() {
        return run(text, 3, Class::is_number);
    }
    if let Some(end) = others(text, first) {
        return end + run_of(&text[end..], |b| matches!(b, b'\r' | b'\n'));
    }
    spaces(text, Tail::WholeAtEnd)
}

#[inline]
fn r50k(text: &str, first: char) -> usize {
    if let Some(rest) = text.strip_prefix('\'') {
        let known = ["s", "d", "m", "t", "ll", "ve", "re"];
        if let Some(word) = known.iter().find(|word| rest.starts_with(**word)) {
            return 1 + word.len();
        }
    }
    let begin = usize::from(first == ' ');
    let word = letters(&text[begin..]);
    if word > 0 {
        return begin + word;
    }
    let number = run(&text[begin..], usize::MAX, Class::is_number);
    if number > 0 {
        return begin + number;
    }
    others(text, first).unwrap_or_else(|| spaces(text, Tail::WithoutLineEnds))
}

/// Bytes of `\p{L}*`.
#[inline]
fn letters(text: &str) -> usize {
    let ascii = run_of(text, |b| b.is_ascii_alphabetic());
    if text.as_bytes().get(ascii).is_none_or(u8::is_ascii) {
        return ascii;
    }
    ascii + run(&text[ascii..], usize::MAX, Class::is_letter)
}

/// ` ?[^\s\p{L}\p{N}]+`.
#[inline]
fn others(text: &str, first: char) -> Option<usize> {
    let begin = usize::from(first == ' ');
    let end = begin + run(&text[begin..], usize::MAX, Class::is_other);
    (end > begin).then_some(end)
}

/// What a pattern does with line ends in a run of whitespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// The run is cut behind its last line end.
    AfterLineEnd,
    /// The same, but a run that ends the text is one piece.
    WholeAtEnd,
    /// They are blanks as any other.
    WithoutLineEnds,
}

/// What the patterns do with whitespace: up to the last line end of the run where that counts; else all but the last
/// character, which stays for the word behind it; all of it at the end of the text.
#[inline]
fn spaces(text: &str, tail: Tail) -> usize {
    let mut end = 0;
    let mut last_start = 0;
    let mut behind_line_end = 0;
    for c in text.chars() {
        let kind = class(c);
        if !kind.is_space() {
            break;
        }
        last_start = end;
        end += c.len_utf8();
        if kind.is_line_end() {
            behind_line_end = end;
        }
    }
    let at_text_end = end == text.len();
    if tail == Tail::WholeAtEnd && at_text_end {
        return end;
    }
    if tail != Tail::WithoutLineEnds && behind_line_end > 0 {
        return behind_line_end;
    }
    if at_text_end || last_start == 0 { end } else { last_start }
}

/// Bytes of the first characters of `text` that `is` holds for, at most `most` characters.
#[inline]
fn run(text: &str, most: usize, is: impl Fn(Class) -> bool) -> usize {
    let mut end = 0;
    for c in text.chars().take(most) {
        if !is(class(c)) {
            break;
        }
        end += c.len_utf8();
    }
    end
}

/// As [`run`] for ASCII characters.
#[inline]
fn run_of(text: &str, is: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(|b| !is(b)).unwrap_or(text.len())
}
