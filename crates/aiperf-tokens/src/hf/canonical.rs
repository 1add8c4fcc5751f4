//! Bringing a `tokenizer.json` into the one form that the `tokenizers` release candidate reads.
//!
//! That crate's own conversion parses the whole file into a tree, 11 MB for a vocabulary of 150,000, and prints it again.
//! Here vocabulary and merges, which are nearly all of a file, are never taken apart: their text is cut out, the small rest
//! goes through the crate's conversion, and the text is put back. Merges in the older spelling (`"a b"` for `["a", "b"]`) are
//! respelled on the way.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::tokenizer::Kind;

/// A file in the form the library reads, and what was seen on the way.
pub(super) struct Canonical {
    /// The file's text.
    pub(super) text: String,
    /// How it cuts text.
    pub(super) kind: Kind,
    /// Tokens of the vocabulary, added ones not counted.
    pub(super) vocab_size: usize,
    /// Ids of added tokens that the file calls special.
    pub(super) control_ids: Vec<u32>,
    /// Ids from here on are no tokens: they stand for bytes that the vocabulary drops.
    pub(super) first_filler: Option<u32>,
}

/// Where the provisional ids of added tokens begin that the library is to number.
const FIRST_UNNUMBERED: u64 = 1 << 31;

/// Tables are as long as the highest id, so one wild id would ask for gigabytes. The largest vocabularies have a million.
const HIGHEST_ID: u64 = (1 << 24) - 1;

type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// Brings `text` into canonical form. `specials` are the texts of special tokens that the model's configuration names; those
/// that the file does not list as added tokens are added, as `transformers` does.
pub(super) fn canonical(text: &str, specials: &[&str]) -> Result<Canonical, String> {
    let words = |e: serde_json::Error| e.to_string();
    let mut root: Fields<'_> = serde_json::from_str(text).map_err(words)?;
    let model = root.remove("model").ok_or("it has no `model`")?;
    let mut model: Fields<'_> = serde_json::from_str(model.get()).map_err(words)?;
    let vocab = model.remove("vocab").ok_or("its model has no `vocab`")?.get();
    let merges = model.remove("merges").map(RawValue::get).filter(|raw| *raw != "null");

    // What stands for the two while the rest is converted: the conversion asks for their kind alone.
    let mut small_model = small(&model)?;
    let is_list = vocab.starts_with('[');
    small_model.insert("vocab".to_owned(), if is_list { json!([]) } else { json!({}) });
    if merges.is_some() {
        small_model.insert("merges".to_owned(), json!([]));
    }
    let mut small_root = small(&root)?;
    small_root.insert("model".to_owned(), Value::Object(small_model));
    let control_ids = add_specials(&mut small_root, specials)?;
    let mut small_root = Value::Object(small_root);
    tokenizers::canonicalize_value(&mut small_root).map_err(|e| e.to_string())?;

    let census: Census = serde_json::from_str(vocab).map_err(words)?;
    if census.highest > HIGHEST_ID {
        return Err(format!(
            "its vocabulary has the id {}; ids up to {HIGHEST_ID} are taken",
            census.highest
        ));
    }
    let merges = merges.map(respell_merges).transpose()?;
    let is_byte_level = small_root["model"]["byte_level"] == Value::Bool(true);
    let filled = match small_root["added_tokens"].as_array() {
        Some(added) if is_byte_level && census.entries > 0 => fill_bytes(vocab, &census, added)?,
        _ => None,
    };
    let (vocab, first_filler) =
        filled.as_ref().map_or((vocab, None), |(text, id)| (text.as_str(), Some(*id)));
    let text = put_back(&small_root, vocab, merges.as_deref());
    Ok(Canonical {
        text,
        kind: kind(&small_root["model"]),
        vocab_size: census.entries,
        control_ids,
        first_filler,
    })
}

fn kind(model: &Value) -> Kind {
    match model["type"].as_str() {
        Some("BPE") if model["byte_level"] == Value::Bool(true) => Kind::ByteLevelBpe,
        Some("BPE") => Kind::CharacterBpe,
        Some("Unigram") => Kind::Unigram,
        Some("WordPiece") => Kind::WordPiece,
        Some("WordLevel") => Kind::WordLevel,
        _ => Kind::Other,
    }
}

fn small(fields: &Fields<'_>) -> Result<Map<String, Value>, String> {
    fields
        .iter()
        .map(|(key, raw)| {
            Ok((key.clone().into_owned(), serde_json::from_str(raw.get()).map_err(|e| e.to_string())?))
        })
        .collect()
}

/// Adds to the file's added tokens those of `specials` that it does not list; gives the ids of all that are special and
/// have one.
fn add_specials(root: &mut Map<String, Value>, specials: &[&str]) -> Result<Vec<u32>, String> {
    let added = root.entry("added_tokens").or_insert_with(|| json!([]));
    if added.is_null() {
        *added = json!([]);
    }
    let added = added.as_array_mut().ok_or("its `added_tokens` are not a list")?;
    for token in added.iter_mut().filter_map(Value::as_object_mut) {
        // The library wants all flags spelled out; the format's defaults are these.
        for (flag, default) in
            [("single_word", false), ("lstrip", false), ("rstrip", false), ("special", false)]
        {
            token.entry(flag).or_insert(Value::Bool(default));
        }
        let special = token["special"].as_bool().unwrap_or(false);
        token.entry("normalized").or_insert(Value::Bool(!special));
    }
    let ids = added
        .iter()
        .filter(|token| token["special"] == Value::Bool(true))
        .filter_map(|token| u32::try_from(token["id"].as_u64()?).ok())
        .collect();
    for (index, text) in specials.iter().enumerate() {
        if added.iter().any(|token| token["content"].as_str() == Some(text)) {
            continue;
        }
        // The library keeps the id of a token that is in the vocabulary and else gives the next free one, in the order of these
        // ids, which are above all others so that no listed token moves.
        let order = FIRST_UNNUMBERED + index as u64;
        added.push(json!({
            "id": order, "content": text, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true,
        }));
    }
    Ok(ids)
}

/// Writes `root` with the real vocabulary and merges in their places.
fn put_back(root: &Value, vocab: &str, merges: Option<&str>) -> String {
    let mut out = String::with_capacity(vocab.len() + merges.map_or(0, str::len) + (1 << 16));
    let fields = |value: &Value, out: &mut String, write: &mut dyn FnMut(&str, &Value, &mut String)| {
        out.push('{');
        for (index, (key, value)) in value.as_object().into_iter().flatten().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(&Value::from(key.as_str()).to_string());
            out.push(':');
            write(key, value, out);
        }
        out.push('}');
    };
    fields(root, &mut out, &mut |key, value, out| {
        if key != "model" {
            out.push_str(&value.to_string());
            return;
        }
        fields(value, out, &mut |key, value, out| match (key, merges) {
            ("vocab", _) => out.push_str(vocab),
            ("merges", Some(merges)) => out.push_str(merges),
            _ => out.push_str(&value.to_string()),
        });
    });
    out
}

/// Merges as pairs. The older spelling has the two tokens in one text with a space between, which is cut without taking
/// its escapes apart.
fn respell_merges(raw: &str) -> Result<Cow<'_, str>, String> {
    let first = raw.trim_start_matches(|c: char| c == '[' || c.is_ascii_whitespace());
    if !first.starts_with('"') || raw[1..].trim_start().starts_with('[') {
        return Ok(Cow::Borrowed(raw));
    }
    let entries: Vec<&RawValue> = serde_json::from_str(raw).map_err(|e| e.to_string())?;
    let mut out = String::with_capacity(raw.len() + entries.len() * 5 + 2);
    out.push('[');
    for entry in entries {
        let text = entry.get();
        let body = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).ok_or_else(|| bad_merge(text))?;
        // The first line of a merges.txt.
        if body.starts_with("#version") {
            continue;
        }
        let (left, right) = body.split_once(' ').ok_or_else(|| bad_merge(text))?;
        if right.contains(' ') || body.contains("\\u0020") {
            return Err(bad_merge(text));
        }
        if out.len() > 1 {
            out.push(',');
        }
        for part in ["[\"", left, "\",\"", right, "\"]"] {
            out.push_str(part);
        }
    }
    out.push(']');
    Ok(Cow::Owned(out))
}

fn bad_merge(text: &str) -> String {
    let text: String = text.chars().take(60).collect();
    format!("its merge {text} is not two tokens")
}

/// What a vocabulary holds, without keeping it.
#[derive(Default)]
struct Census {
    entries: usize,
    /// The highest id; 0 for a list, whose ids are its places.
    highest: u64,
    /// Tokens of one character among those that stand for bytes.
    bytes: Vec<char>,
}

impl<'de> Deserialize<'de> for Census {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Count;
        impl<'de> Visitor<'de> for Count {
            type Value = Census;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vocabulary: an object of tokens or a list of scored tokens")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Census, A::Error> {
                let mut census = Census::default();
                while let Some((Token(token), id)) = map.next_entry::<Token<'de>, u64>()? {
                    census.entries += 1;
                    census.highest = census.highest.max(id);
                    let mut chars = token.chars();
                    if let (Some(c), None) = (chars.next(), chars.next()) {
                        census.bytes.push(c);
                    }
                }
                Ok(census)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Census, A::Error> {
                let mut census = Census::default();
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    census.entries += 1;
                }
                Ok(census)
            }
        }
        deserializer.deserialize_any(Count)
    }
}

/// A token's text, borrowed where it has no escapes.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Token<'a>(#[serde(borrow)] Cow<'a, str>);

/// The character by which byte-level vocabularies write `byte`: itself where it is visible in Latin-1, else the next free one
/// from U+0100 on (the table of GPT-2's `bytes_to_unicode`).
fn byte_character(byte: u8) -> char {
    let visible = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if visible(byte) {
        return char::from(byte);
    }
    let hidden_before = (0..byte).filter(|&b| !visible(b)).count() as u32;
    char::from_u32(0x100 + hidden_before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Gives every byte a token. Some vocabularies (SmolLM2's) lack tokens for bytes that no text has, and drop such bytes; the
/// library refuses them instead. So the missing tokens are put in, above all other ids, for the caller to drop. Gives the new
/// text of the vocabulary and the first of the new ids; `None` where nothing is missing.
fn fill_bytes(vocab: &str, census: &Census, added: &[Value]) -> Result<Option<(String, u32)>, String> {
    let missing: Vec<char> =
        (0..=u8::MAX).map(byte_character).filter(|c| !census.bytes.contains(c)).collect();
    if missing.is_empty() {
        return Ok(None);
    }
    // The library numbers added tokens from the size of the vocabulary on, which grows here; those that it would number
    // must be in the vocabulary under the numbers they would have had.
    let known: BTreeMap<Token<'_>, u64> = serde_json::from_str(vocab).map_err(|e| e.to_string())?;
    let listed = added.iter().filter_map(|token| token["id"].as_u64()).filter(|id| *id < FIRST_UNNUMBERED);
    let mut next = listed.map(|id| id + 1).max().unwrap_or(0).max(census.entries as u64);
    let mut entries: Vec<(String, u64)> = Vec::new();
    for token in added {
        let (Some(text), Some(id)) = (token["content"].as_str(), token["id"].as_u64()) else { continue };
        if known.contains_key(&Token(Cow::Borrowed(text))) {
            continue;
        }
        let id = if id < FIRST_UNNUMBERED {
            id
        } else {
            next += 1;
            next - 1
        };
        entries.push((text.to_owned(), id));
    }
    next = next.max(census.highest + 1);
    let first = u32::try_from(next).map_err(|_| "its ids are too large")?;
    entries.extend(missing.into_iter().map(String::from).zip(next..));
    let mut out = String::with_capacity(vocab.len() + entries.len() * 24);
    out.push('{');
    for (token, id) in entries {
        out.push_str(&format_entry(&token, id));
    }
    out.push_str(vocab.trim_start().strip_prefix('{').ok_or("its vocabulary is not an object")?);
    Ok(Some((out, first)))
}

fn format_entry(token: &str, id: u64) -> String {
    format!("{}:{id},", Value::from(token))
}
