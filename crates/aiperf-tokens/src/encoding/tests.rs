use std::fmt::Write as _;

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::merge::{Scratch, merge};
use super::ranks::{CL100K, NONE, O200K, P50K, R50K, Ranks};
use super::split::Pattern;
use super::{Encoding, NAMES};
use crate::tokenizer::Tokenizer;

/// The patterns as tiktoken 0.14 publishes them.
const O200K_PATTERN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const CL100K_PATTERN: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+",
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
);

const R50K_PATTERN: &str = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s";
/// As Mistral's files hold it.
const TEKKEN_PATTERN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

fn encode(name: &str, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    Encoding::named(name).expect("a built-in encoding").encode(text, &mut ids);
    ids
}

fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").expect("writing to a String cannot fail");
        out
    })
}

pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, &b| word << 8 | u32::from(b)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let six = (word >> (18 - 6 * digit)) & 63;
            out.push(if digit <= chunk.len() { char::from(DIGITS[six as usize]) } else { '=' });
        }
    }
    out
}

#[test]
fn embedded_tokens_are_the_published_files() {
    // SHA-256 that tiktoken checks its downloads against.
    for (ranks, published) in [
        (&O200K, "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"),
        (&CL100K, "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"),
        (&P50K, "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069"),
        (&R50K, "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"),
    ] {
        let mut file = Sha256::new();
        for id in 0..ranks.len() as u32 {
            let Some(bytes) = ranks.bytes(id) else { continue };
            file.update(format!("{} {id}\n", base64(bytes)));
        }
        assert_eq!(hex(&file.finalize()), published);
    }
}

#[test]
fn every_token_is_found_and_nothing_else_is() {
    for ranks in [&O200K, &CL100K, &P50K, &R50K] {
        for id in 0..ranks.len() as u32 {
            match ranks.bytes(id) {
                Some(bytes) => assert_eq!(ranks.rank(bytes), id),
                None => assert_eq!((ranks.len(), id), (50_281, 50_256)),
            }
        }
        assert_eq!(ranks.bytes(ranks.len() as u32), None);
        for absent in [&b""[..], b"\xff\xfe", b"no such token", &[0x80; 9], &[b' '; 200]] {
            assert_eq!(ranks.rank(absent), NONE, "{absent:?}");
        }
    }
    for blanks in ["  ", "   ", &" ".repeat(25)] {
        assert_eq!(P50K.rank(blanks.as_bytes()), 50_255 + blanks.len() as u32);
        assert_eq!(R50K.rank(blanks.as_bytes()), NONE, "they are another encoding's");
    }
    assert_eq!(P50K.bytes(50_257), Some(&b"  "[..]));
    assert_eq!(R50K.bytes(50_257), None);
}

#[test]
fn sizes_and_specials_follow_tiktoken() {
    let sizes = [
        ("builtin", 200_019, 200_000),
        ("o200k_base", 200_019, 200_000),
        ("o200k_harmony", 201_088, 201_088),
        ("cl100k_base", 100_277, 100_261),
        ("p50k_base", 50_281, 50_281),
        ("p50k_edit", 50_284, 50_284),
        ("r50k_base", 50_257, 50_257),
    ];
    assert_eq!(sizes.map(|size| size.0), NAMES);
    for (name, size, tokens) in sizes {
        let encoding = Encoding::named(name).expect("a built-in encoding");
        assert_eq!(encoding.name(), name);
        assert_eq!(encoding.vocab_size(), size);
        let ids = encoding.token_ids();
        assert_eq!(ids.len(), tokens);
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert_eq!(encoding.prompt_specials(), 0);
        let eos = encoding.eos_token().and_then(|text| encoding.token_id(text)).expect("an end of text");
        assert!(encoding.is_special(eos));
        assert_eq!(encoding.bos_token(), None);
        assert!(encoding.chat_template().is_none());
    }
    assert!(Encoding::named("gpt2").is_none());
}

#[test]
fn special_tokens_in_text_are_single_ids() {
    for name in NAMES {
        let encoding = Encoding::named(name).expect("a built-in encoding");
        let specials: Vec<u32> =
            encoding.token_ids().into_iter().filter(|id| encoding.is_special(*id)).collect();
        assert!(!specials.is_empty() && specials.len() < 1_100);
        for id in specials {
            let token = encoding.decode(&[id]);
            let text = format!("a {token}{token} <|b|> <| {}", &token[..token.len() - 1]);
            let ids = encode(name, &text);
            assert_eq!(ids.iter().filter(|&&i| i == id).count(), 2, "{text}");
            assert_eq!(encoding.decode(&ids), text);
            assert_eq!(encoding.token_id(&token), Some(id));
            assert_eq!(encoding.token_id(&format!("{token} ")), None);
        }
    }
}

#[test]
fn numbered_tokens_of_harmony_are_those_without_a_name() {
    let encoding = Encoding::named("o200k_harmony").expect("a built-in encoding");
    for (token, id) in [
        ("<|reserved_200000|>", Some(200_000)),
        ("<|reserved_200018|>", Some(200_018)),
        ("<|reserved_201087|>", Some(201_087)),
        ("<|reserved_200002|>", None),
        ("<|reserved_201088|>", None),
        ("<|reserved_+20000|>", None),
        ("<|reserved_20000|>", None),
        ("<|reserved_2000000|>", None),
        ("<|reserved_20000é|>", None),
    ] {
        assert_eq!(encoding.token_id(token), id, "{token}");
        assert_eq!(encode("o200k_harmony", token).len() == 1, id.is_some(), "{token}");
        assert!(encode("o200k_base", token).len() > 1, "{token}");
    }
    assert_eq!(encoding.decode(&[200_018]), "<|endofprompt|>");
}

#[test]
fn ids_that_are_no_token_are_nothing_and_halves_of_characters_are_marked() {
    let encoding = Encoding::named("builtin").expect("a built-in encoding");
    assert_eq!(encoding.decode(&[199_998, 200_000, 200_017, 200_019, u32::MAX]), "");
    // 0xF0 alone, then "a".
    let ids = [encoding.ranks.rank(b"\xf0"), encoding.ranks.rank(b"a")];
    assert_eq!(encoding.decode(&ids), "\u{fffd}a");
}

/// Pieces by a regular expression engine on the published pattern.
fn oracle<'a>(regex: &fancy_regex::Regex, text: &'a str) -> Vec<&'a str> {
    regex.find_iter(text).map(|m| m.expect("the patterns do not backtrack without end").as_str()).collect()
}

fn pieces(pattern: Pattern, text: &str) -> Vec<&str> {
    let mut rest = text;
    let mut out = Vec::new();
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(pattern.piece(rest));
        out.push(piece);
        rest = tail;
    }
    out
}

/// Characters of every class that a pattern tells apart, the odd ones among them: title case, modifier letters, letters
/// without case, marks, number letters, fractions, all kinds of blanks, the long s and the Kelvin sign that fold to ASCII.
fn any_class() -> impl Strategy<Value = char> {
    prop_oneof![
        6 => proptest::char::range('a', 'z'),
        3 => proptest::char::range('A', 'Z'),
        3 => Just(' '),
        2 => proptest::sample::select(vec!['\'', 's', 'S', 't', 'r', 'e', 'v', 'm', 'l', 'L', 'd', 'ſ', 'K']),
        2 => proptest::sample::select(vec!['\n', '\r', '\t', '\u{b}', '\u{85}', '\u{a0}', '\u{2028}', '\u{3000}']),
        2 => proptest::char::range('!', '@'),
        2 => proptest::sample::select(vec!['ǅ', 'ʰ', 'ª', 'あ', 'ー', '中', 'ß', 'É', 'é', 'Ω', 'я', 'Я', 'ا']),
        2 => proptest::sample::select(vec!['\u{301}', '\u{20dd}', '\u{903}', '\u{fe0f}']),
        1 => proptest::sample::select(vec!['٣', 'Ⅷ', '½', '৪', '𝟘']),
        1 => proptest::sample::select(vec!['👨', '\u{200d}', '€', '\u{0}', '\u{fffd}', '\u{e000}', '\u{10ffff}']),
    ]
}

fn texts() -> impl Strategy<Value = String> {
    proptest::collection::vec(any_class(), 0..40).prop_map(|chars| chars.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn pieces_are_those_of_the_published_patterns(text in texts()) {
        thread_local! {
            static REGEXES: [(Pattern, fancy_regex::Regex); 4] = [
                (Pattern::O200k, O200K_PATTERN),
                (Pattern::Cl100k, CL100K_PATTERN),
                (Pattern::R50k, R50K_PATTERN),
                (Pattern::Tekken, TEKKEN_PATTERN),
            ]
            .map(|(pattern, text)| (pattern, fancy_regex::Regex::new(text).expect("a published pattern")));
        }
        REGEXES.with(|regexes| {
            for (pattern, regex) in regexes {
                prop_assert_eq!(pieces(*pattern, &text), oracle(regex, &text), "{:?}", pattern);
            }
            Ok(())
        })?;
    }
}

proptest! {
    #[test]
    fn text_comes_back_and_counts_agree(text in prop_oneof![texts(), any::<String>()]) {
        for name in NAMES {
            let encoding = Encoding::named(name).expect("a built-in encoding");
            let mut ids = vec![7];
            encoding.encode(&text, &mut ids);
            prop_assert_eq!(ids[0], 7, "what was there stays");
            prop_assert_eq!(encoding.decode(&ids[1..]), text.as_str());
            prop_assert_eq!(encoding.count(&text), ids.len() - 1);
        }
    }

    /// The two ways of merging are one rule; lengths on both sides of the border between them.
    #[test]
    fn long_and_short_merging_agree(
        piece in proptest::collection::vec(prop_oneof![4 => 97u8..104, 1 => any::<u8>()], 1..300),
    ) {
        for ranks in [&O200K, &CL100K, &P50K, &R50K] {
            let mut merged: Vec<Vec<u8>> = Vec::new();
            merge(ranks, &piece, &mut Scratch::default(), |part| merged.push(part.to_vec()));
            prop_assert_eq!(merged, by_definition(ranks, &piece));
        }
    }
}

/// Byte pair merging in its plainest words.
fn by_definition(ranks: &Ranks<'_>, piece: &[u8]) -> Vec<Vec<u8>> {
    let mut parts: Vec<Vec<u8>> = piece.iter().map(|&b| vec![b]).collect();
    loop {
        let joined = parts.windows(2).enumerate().map(|(at, pair)| (ranks.rank(&pair.concat()), at));
        match joined.min() {
            Some((rank, at)) if rank != NONE => {
                let next = parts.remove(at + 1);
                parts[at].extend(next);
            }
            _ => return parts,
        }
    }
}

#[test]
fn a_long_piece_does_not_take_quadratic_time() {
    // A megabyte without a cut: a scan per merge would need 10^12 steps.
    for text in ["ab".repeat(500_000), "=".repeat(1_000_000)] {
        let count = Encoding::named("builtin").expect("a built-in encoding").count(&text);
        assert!(count > 1_000 && count < 500_000);
    }
}
