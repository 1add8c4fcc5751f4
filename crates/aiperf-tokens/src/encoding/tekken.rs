//! Mistral's tekken files: a byte-pair vocabulary with its pattern, as one JSON file.
//!
//! Ids are those of mistral-common: special tokens first, then the vocabulary, as many tokens as the configuration says
//! although the file lists more. As there, text never becomes a special token: Mistral's own encoder puts those between texts, and
//! a file holds no chat template that would write them into one.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::hash::ID_BITS;
use super::layout::{Tables, layout};
use super::ranks::Ranks;
use super::split::Pattern;
use super::{SCRATCH, text_of, walk};
use crate::error::TokenizerError;
use crate::file::read_text;
use crate::template::ChatTemplate;
use crate::tokenizer::{Kind, Origin, Tokenizer};

/// The pattern of all files that Mistral has published.
const PATTERN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// Special tokens of files that list none, by id. mistral-common has them for versions up to 7.
const UNLISTED: [&str; 20] = [
    "<unk>",
    BOS,
    EOS,
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
];
const LAST_UNLISTED_VERSION: u32 = 7;
const BOS: &str = "<s>";
const EOS: &str = "</s>";
/// Every byte is a token, in order, before all others.
const BYTES: usize = 256;

/// A file of Mistral's tekken.
pub(crate) struct Tekken {
    name: String,
    path: PathBuf,
    tokens: Vec<u8>,
    tables: Tables,
    /// Texts of the special tokens, by id.
    specials: Vec<String>,
}

impl fmt::Debug for Tekken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tekken").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct File<'a> {
    config: Config<'a>,
    #[serde(borrow)]
    vocab: Vec<Entry<'a>>,
    special_tokens: Option<Vec<Special>>,
}

#[derive(Deserialize)]
struct Config<'a> {
    #[serde(borrow)]
    pattern: Cow<'a, str>,
    default_vocab_size: usize,
    default_num_special_tokens: usize,
    #[serde(borrow)]
    version: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Entry<'a> {
    rank: usize,
    #[serde(borrow)]
    token_bytes: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Special {
    rank: usize,
    token_str: String,
}

impl Tekken {
    /// Whether a file is one by its name, as mistral-common tells it.
    pub(crate) fn is_named_so(file: &Path) -> bool {
        file.extension().is_some_and(|extension| extension == "json")
            && file.file_name().is_some_and(|name| name.to_string_lossy().contains("tekken"))
    }

    /// Opens `file`.
    pub(crate) fn open(name: &str, file: &Path) -> Result<Self, TokenizerError> {
        let text = read_text(file)?;
        Self::read(name, file, &text)
            .map_err(|detail| TokenizerError::Broken { path: file.to_owned(), detail })
    }

    fn read(name: &str, path: &Path, text: &str) -> Result<Self, String> {
        let File { config, vocab, special_tokens } = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if config.pattern != PATTERN {
            return Err(format!(
                "its pattern is not tekken's, and no other is known: {}",
                config.pattern.chars().take(120).collect::<String>()
            ));
        }
        let specials = specials(special_tokens, &config)?;
        let size = config.default_vocab_size.checked_sub(specials.len()).filter(|size| *size >= BYTES);
        let size = size.ok_or("its `default_vocab_size` leaves no room for a token of each byte")?;
        if config.default_vocab_size >= 1 << ID_BITS {
            return Err(format!("its `default_vocab_size` is above {}", (1 << ID_BITS) - 1));
        }
        let vocab = vocab
            .get(..size)
            .ok_or_else(|| format!("its `vocab` has {} tokens where {size} are used", vocab.len()))?;
        let tokens = laid_in_order(vocab)?;
        let tables = layout(&tokens).ok_or("its vocabulary is too large")?;
        let tekken = Self { name: name.to_owned(), path: path.to_owned(), tokens, tables, specials };
        let ranks = tekken.ranks();
        let twice =
            (0..size as u32).find(|id| ranks.bytes(*id).is_some_and(|bytes| ranks.rank(bytes) != *id));
        match twice {
            Some(id) => Err(format!("its `vocab` has the token of rank {id} twice")),
            None => Ok(tekken),
        }
    }

    fn ranks(&self) -> Ranks<'_> {
        Ranks::of(&self.tokens, &self.tables)
    }

    fn first_rank(&self) -> u32 {
        self.specials.len() as u32
    }

    fn walk(&self, text: &str, mut whole: impl FnMut(u32), mut part: impl FnMut(&[u8])) {
        SCRATCH.with_borrow_mut(|scratch| {
            walk(&self.ranks(), Pattern::Tekken, text, scratch, &mut whole, &mut part);
        });
    }
}

/// Texts of all special tokens: those of the file, or the ones that older files mean, then fillers.
fn specials(listed: Option<Vec<Special>>, config: &Config<'_>) -> Result<Vec<String>, String> {
    let mut texts: Vec<String> = if let Some(listed) = listed {
        if let Some((at, _)) = listed.iter().enumerate().find(|(at, special)| special.rank != *at) {
            return Err(format!("its special token number {at} has another rank"));
        }
        listed.into_iter().map(|special| special.token_str).collect()
    } else {
        let version = &config.version;
        let number = version.strip_prefix('v').and_then(|digits| digits.parse::<u32>().ok());
        if number.is_none_or(|number| number > LAST_UNLISTED_VERSION) {
            return Err(format!("it has no `special_tokens`, which version '{version}' needs"));
        }
        UNLISTED.map(str::to_owned).into()
    };
    let count = config.default_num_special_tokens;
    if texts.len() > count || count >= 1 << ID_BITS {
        return Err(format!("it has {} special tokens where it says {count}", texts.len()));
    }
    texts.extend((texts.len()..count).map(|id| format!("<SPECIAL_{id}>")));
    Ok(texts)
}

/// The tokens as `layout` takes them.
fn laid_in_order(vocab: &[Entry<'_>]) -> Result<Vec<u8>, String> {
    let mut tokens = Vec::with_capacity(vocab.len() * 8);
    for (rank, entry) in vocab.iter().enumerate() {
        let bad = |what: &str| format!("its token number {rank} {what}");
        if entry.rank != rank {
            return Err(bad("has another rank"));
        }
        let start = tokens.len();
        tokens.push(0);
        unpack(&entry.token_bytes, &mut tokens).ok_or_else(|| bad("is not base64"))?;
        let bytes = &tokens[start + 1..];
        if rank < BYTES && bytes != [rank as u8] {
            return Err(bad("is not the byte of that number"));
        }
        let len = u8::try_from(bytes.len()).ok().filter(|len| *len > 0);
        tokens[start] = len.ok_or_else(|| bad("is empty or longer than 255 bytes"))?;
    }
    Ok(tokens)
}

/// Appends the bytes of a base64 text.
fn unpack(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let (mut word, mut bits) = (0u32, 0);
    for digit in digits.bytes() {
        let six = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        word = word << 6 | u32::from(six);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((word >> bits) as u8);
        }
    }
    Some(())
}

impl Tokenizer for Tekken {
    fn name(&self) -> &str {
        &self.name
    }

    fn origin(&self) -> Origin {
        Origin { kind: Kind::Tekken, path: Some(self.path.clone()), template: None }
    }

    fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        ids.reserve(text.len() / 4);
        let (ranks, first) = (self.ranks(), self.first_rank());
        // Both closures append to the one list, one at a time.
        let ids = RefCell::new(ids);
        self.walk(
            text,
            |rank| ids.borrow_mut().push(rank + first),
            |bytes| ids.borrow_mut().push(ranks.rank(bytes) + first),
        );
    }

    fn count(&self, text: &str) -> usize {
        let (mut whole, mut parts) = (0, 0);
        self.walk(text, |_| whole += 1, |_| parts += 1);
        whole + parts
    }

    fn decode(&self, ids: &[u32]) -> String {
        let ranks = self.ranks();
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        for &id in ids {
            if let Some(special) = self.specials.get(id as usize) {
                bytes.extend_from_slice(special.as_bytes());
            } else if let Some(token) = ranks.bytes(id - self.first_rank()) {
                bytes.extend_from_slice(token);
            }
        }
        text_of(bytes)
    }

    fn vocab_size(&self) -> usize {
        self.specials.len() + self.ranks().len()
    }

    fn token_ids(&self) -> Vec<u32> {
        (0..self.vocab_size() as u32).collect()
    }

    fn is_special(&self, id: u32) -> bool {
        id < self.first_rank()
    }

    fn is_control(&self, id: u32) -> bool {
        self.is_special(id)
    }

    fn prompt_specials(&self) -> usize {
        // Mistral's encoder begins every prompt with a BOS.
        usize::from(self.token_id(BOS).is_some())
    }

    fn chat_template(&self) -> Option<&ChatTemplate> {
        None
    }

    fn bos_token(&self) -> Option<&str> {
        self.specials.iter().map(String::as_str).find(|text| *text == BOS)
    }

    fn eos_token(&self) -> Option<&str> {
        self.specials.iter().map(String::as_str).find(|text| *text == EOS)
    }

    fn token_id(&self, token: &str) -> Option<u32> {
        self.specials.iter().position(|text| text == token).map(|id| id as u32)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A file with the bytes and two tokens more, which `change` makes wrong.
    fn read(change: impl FnOnce(&mut Value)) -> Result<Tekken, String> {
        let base64 = |bytes: &[u8]| super::super::tests::base64(bytes);
        let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        tokens.extend([b"ab".to_vec(), b"abc".to_vec(), b"unused".to_vec()]);
        let vocab: Vec<Value> = tokens
            .iter()
            .enumerate()
            .map(|(rank, bytes)| json!({"rank": rank, "token_bytes": base64(bytes), "token_str": null}))
            .collect();
        let mut file = json!({
            "config": {"pattern": PATTERN, "num_vocab_tokens": 259, "default_vocab_size": 288,
                       "default_num_special_tokens": 30, "version": "v3"},
            "vocab": vocab,
        });
        change(&mut file);
        Tekken::read("t", Path::new("t.json"), &file.to_string())
    }

    #[test]
    fn specials_come_first_and_unused_tokens_are_not_there() {
        let tekken = read(|_| ()).expect("a whole file");
        assert_eq!(tekken.vocab_size(), 288);
        assert_eq!(tekken.token_ids().len(), 288);
        let mut ids = Vec::new();
        tekken.encode("abc ab unused<s>", &mut ids);
        assert_eq!(ids[..2], [30 + 257, 30 + 32]);
        assert_eq!(ids.len(), tekken.count("abc ab unused<s>"));
        assert_eq!(tekken.decode(&ids), "abc ab unused<s>");
        let mut prompt = Vec::new();
        tekken.encode_prompt("abc ab unused<s>", &mut prompt);
        assert_eq!((prompt[0], &prompt[1..]), (1, &ids[..]), "a prompt begins with the BOS");
        assert!(ids.iter().all(|id| !tekken.is_special(*id)), "text never becomes a special token");
        assert_eq!(
            tekken.decode(&[1, 3, 30 + 256, 4, 29, 2, 288, u32::MAX]),
            "<s>[INST]ab[/INST]<SPECIAL_29></s>"
        );
        assert_eq!(tekken.token_id("[/INST]"), Some(4));
        assert!(tekken.is_special(29) && tekken.is_control(0) && !tekken.is_special(30));
        assert_eq!(
            (tekken.bos_token(), tekken.eos_token(), tekken.prompt_specials()),
            (Some("<s>"), Some("</s>"), 1)
        );
        assert!(tekken.chat_template().is_none());
    }

    #[test]
    fn a_file_may_list_its_specials() {
        let tekken = read(|file| {
            file["config"]["version"] = json!("v13");
            file["special_tokens"] = json!([{"rank": 0, "token_str": "<unk>", "is_control": true}]);
        })
        .expect("a whole file");
        assert_eq!((tekken.token_id("<unk>"), tekken.token_id("<SPECIAL_1>")), (Some(0), Some(1)));
        assert_eq!((tekken.bos_token(), tekken.prompt_specials()), (None, 0));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 14] = [
            (
                |f| f["config"]["pattern"] = json!(r"\w+"),
                r"pattern is not tekken's, and no other is known: \w+",
            ),
            (|f| f["config"]["version"] = json!("v11"), "no `special_tokens`, which version 'v11' needs"),
            (|f| f["config"]["version"] = json!("3"), "which version '3' needs"),
            (|f| f["config"]["default_vocab_size"] = json!(200), "no room for a token of each byte"),
            (|f| f["config"]["default_vocab_size"] = json!(400), "has 259 tokens where 370 are used"),
            (|f| f["config"]["default_vocab_size"] = json!(1 << 18), "above 262143"),
            (|f| f["config"]["default_num_special_tokens"] = json!(7), "20 special tokens where it says 7"),
            (|f| f["special_tokens"] = json!([{"rank": 1, "token_str": "<s>"}]), "special token number 0"),
            (|f| f["vocab"][9]["rank"] = json!(8), "token number 9 has another rank"),
            (|f| f["vocab"][9]["token_bytes"] = json!("AAAA"), "token number 9 is not the byte"),
            (|f| f["vocab"][256]["token_bytes"] = json!("a-b="), "token number 256 is not base64"),
            (|f| f["vocab"][256]["token_bytes"] = json!(""), "token number 256 is empty"),
            (
                |f| f["vocab"][256] = json!({"rank": 256, "token_bytes": f["vocab"][257]["token_bytes"]}),
                "rank 2",
            ),
            (|f| f["vocab"] = json!(null), "invalid type: null"),
        ];
        for (change, words) in cases {
            let said = read(change).err().unwrap_or_default();
            assert!(said.contains(words), "{words}: {said}");
        }
    }

    #[test]
    fn base64_is_read_to_its_last_digit() {
        for bytes in [&b"\0"[..], b"ab", b"abc", b"\xff\xfe\xfd\xfc", "größe".as_bytes()] {
            let mut out = Vec::new();
            assert_eq!(unpack(&super::super::tests::base64(bytes), &mut out), Some(()));
            assert_eq!(out, bytes);
        }
        for text in ["A", "AB=", "A===", "AA=A", "AA A", "ÄA=="] {
            assert_eq!(unpack(text, &mut Vec::new()), None, "{text}");
        }
    }
}
