//! What of a server's words changes from request to request: ids, times, numbers. Without it equal errors are equal.

/// Shortest run of hexadecimal digits, and of letters and digits, that is taken for an id.
const HEX: usize = 8;
const MIXED: usize = 12;
/// What stands for what changes.
const ANY: char = '#';

/// `text` with `#` in the place of what changes. A name with a digit in it (`llama-3-8b`, `gpt-4o`) stays.
pub(crate) fn without_volatile(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        out.push_str(&rest[..start]);
        let word = &rest[start..];
        let word = &word[..word.find(|c| !is_word(c)).unwrap_or(word.len())];
        rest = &rest[start + word.len()..];
        // A full stop belongs to the sentence, a colon to what follows.
        let kept = word.trim_end_matches(['.', ':', '-', '+']);
        put(&mut out, kept);
        out.push_str(&word[kept.len()..]);
    }
    out.push_str(rest);
    out
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '+')
}

fn put(out: &mut String, word: &str) {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
    if digits == 0 {
        out.push_str(word);
    } else if digits >= letters || is_uuid(word) {
        out.push(ANY);
    } else {
        for piece in word.split_inclusive(['_', '-', '.', ':', '+']) {
            let bare = piece.trim_end_matches(['_', '-', '.', ':', '+']);
            if is_id(bare) {
                out.push(ANY);
            } else {
                out.push_str(bare);
            }
            out.push_str(&piece[bare.len()..]);
        }
    }
}

fn is_id(piece: &str) -> bool {
    let piece = piece.strip_prefix("0x").unwrap_or(piece);
    let digits = piece.bytes().filter(u8::is_ascii_digit).count();
    let is_hex = piece.bytes().all(|b| b.is_ascii_hexdigit());
    (is_hex && piece.len() >= HEX && digits > 0) || (piece.len() >= MIXED && digits > 1)
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36 && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_times_and_numbers_go_and_names_stay() {
        for (text, expected) in [
            ("queue is full", "queue is full"),
            ("waited 12.5 s for slot 7.", "waited # s for slot #."),
            ("at 2026-11-30T15:22:02.123Z: busy", "at #: busy"),
            ("request chatcmpl-9f8e7d6c5b4a failed", "request chatcmpl-# failed"),
            ("request req_011CSHoEeqs5C35K2UUqR7Fy", "request req_#"),
            ("id abcdefab-abcd-abcd-abcd-abcdefabcde1", "id #"),
            ("id 'ffffffff-aaaa-bbbb-cccc-0123456789ab'", "id '#'"),
            ("The model `llama-3-70b` does not exist", "The model `llama-3-70b` does not exist"),
            ("gpt-4o of user 17", "gpt-4o of user #"),
            ("max_tokens=4096, 0x7fff12ab", "max_tokens=#, #"),
            ("127.0.0.1:8000 said no", "# said no"),
            ("naïve 東京 3", "naïve 東京 #"),
            ("", ""),
        ] {
            assert_eq!(without_volatile(text), expected, "{text}");
        }
    }
}
