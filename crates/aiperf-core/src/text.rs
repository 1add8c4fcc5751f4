//! Text for a person: what came from elsewhere made harmless, and numbers made readable.

use std::fmt;

/// Removes what could drive a terminal: C0 and C1 control characters (newline and tab become a space), escape sequences'
/// introducers, bidirectional overrides. Long text is cut to `max_chars` characters with an ellipsis.
pub fn for_terminal(text: &str, max_chars: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max_chars.saturating_mul(4)));
    let mut chars = 0;
    for c in text.chars() {
        let c = match c {
            '\n' | '\r' | '\t' => ' ',
            c if c.is_control() => continue,
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => continue,
            c => c,
        };
        if chars == max_chars {
            out.push('…');
            break;
        }
        out.push(c);
        chars += 1;
    }
    out
}

/// The candidate nearest to `word` by edit distance, if it is near enough to be a slip of the hand.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = lower(word);
    let limit = (word.len() / 3).max(1) + 1;
    candidates
        .into_iter()
        .map(|c| (distance(&word, &lower(c)), c))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c)
}

/// Edit distance of two words, upper and lower case being the same: letters put in, left out or replaced, and neighbours that
/// changed places, each one step (optimal string alignment).
pub fn edit_distance(a: &str, b: &str) -> usize {
    distance(&lower(a), &lower(b))
}

fn lower(word: &str) -> Vec<char> {
    word.chars().flat_map(char::to_lowercase).collect()
}

fn distance(a: &[char], b: &[char]) -> usize {
    let width = b.len() + 1;
    let mut rows = vec![0usize; (a.len() + 1) * width];
    for (j, cell) in rows.iter_mut().take(width).enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        rows[i * width] = i;
        for j in 1..width {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[(i - 1) * width + j] + 1)
                .min(rows[i * width + j - 1] + 1)
                .min(rows[(i - 1) * width + j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[(i - 2) * width + j - 2] + 1);
            }
            rows[i * width + j] = best;
        }
    }
    rows[a.len() * width + b.len()]
}

/// What a JSON parser said, without " at line N column M" behind it: for texts whose place is told in another way.
pub fn without_place(said: &str) -> &str {
    let is_place = |place: &str| {
        place.split_once(" column ").is_some_and(|(line, column)| {
            [line, column].iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        })
    };
    said.rsplit_once(" at line ").filter(|(_, place)| is_place(place)).map_or(said, |(reason, _)| reason)
}

/// A whole number, or its digits, with a comma before each three from the end.
pub fn grouped(number: impl fmt::Display) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_lose_their_teeth() {
        assert_eq!(for_terminal("a\x1b[31mred\x07\u{9b}0m\nb", 80), "a[31mred0m b");
        assert_eq!(for_terminal("\u{202e}evil", 80), "evil");
        assert_eq!(for_terminal("abcdef", 3), "abc…");
    }

    #[test]
    fn nearest_finds_slips_and_nothing_else() {
        let flags = ["--concurrency", "--request-rate", "--isl"];
        assert_eq!(nearest("--concurency", flags), Some("--concurrency"));
        assert_eq!(nearest("--ilS", flags), Some("--isl"));
        assert_eq!(nearest("--frobnicate", flags), None);
    }

    #[test]
    fn steps_between_words() {
        for (a, b, steps) in [
            ("hashids", "hashids", 0),
            ("hashid", "HashIds", 1),
            ("lenght", "length", 1),
            ("delayed", "delay", 2),
            ("", "abc", 3),
        ] {
            assert_eq!((edit_distance(a, b), edit_distance(b, a)), (steps, steps), "{a} {b}");
        }
    }

    #[test]
    fn the_place_is_taken_off_and_nothing_else() {
        assert_eq!(without_place("expected value at line 1 column 12"), "expected value");
        assert_eq!(
            without_place("no \"a at line 3 column 4\" at line 1 column 2"),
            "no \"a at line 3 column 4\""
        );
        for said in ["", "unknown name \"x at line \"", "it stops at line 3", "a at line  column 4"] {
            assert_eq!(without_place(said), said);
        }
    }

    #[test]
    fn digits_stand_in_threes() {
        let all = ["", "7", "123", "1234", "1234567"].map(grouped);
        assert_eq!(all, ["", "7", "123", "1,234", "1,234,567"]);
    }
}
