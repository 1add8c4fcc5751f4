//! One vocabulary for the token counts that servers report.
//!
//! The names are those of the vendors' own documents, as AIPerf 0.13.0 knows them: of each list the first key present counts,
//! even when its value is no number (the count is then absent, not taken from a later key).

use std::borrow::Cow;
use std::fmt;

use aiperf_core::usage::Usage;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::endpoint::Text;

const PROMPT: [&str; 5] =
    ["prompt_tokens", "input_tokens", "promptTokenCount", "inputTokens", "input_token_count"];
const COMPLETION: [&str; 5] =
    ["completion_tokens", "output_tokens", "candidatesTokenCount", "outputTokens", "generated_token_count"];
const TOTAL: [&str; 3] = ["total_tokens", "totalTokenCount", "totalTokens"];
const PROMPT_DETAILS: [&str; 2] = ["prompt_tokens_details", "input_tokens_details"];
const COMPLETION_DETAILS: [&str; 2] = ["completion_tokens_details", "output_tokens_details"];
const CACHE_READ: [&str; 5] = [
    "cache_read_input_tokens",
    "prompt_cache_hit_tokens",
    "cachedContentTokenCount",
    "cacheReadInputTokens",
    "cached_tokens",
];
const CACHE_WRITE: [&str; 2] = ["cache_creation_input_tokens", "cacheWriteInputTokens"];
const CACHE_MISS: [&str; 1] = ["prompt_cache_miss_tokens"];
const REASONING: [&str; 1] = ["thoughtsTokenCount"];
const TOOL_USE_PROMPT: [&str; 1] = ["toolUsePromptTokenCount"];
const PROMPT_AUDIO_SECONDS: &str = "prompt_audio_seconds";
/// Prompt keys of vendors whose prompt count leaves out what the cache served or took in…
const DISJOINT_PROMPT: [&str; 2] = ["input_tokens", "inputTokens"];
/// …and the keys that say so, which have to be added back.
const DISJOINT_CACHE: [&str; 4] = [
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "cacheReadInputTokens",
    "cacheWriteInputTokens",
];

/// Reads a usage object. `None` for what holds nothing (null, `{}`, not an object).
///
/// Envelopes (`usageMetadata`, `meta.tokens`, `meta.cached_tokens`, `tokens`) are lifted to the top without overwriting
/// what is there. `billed_units` are money, not tokens, and stay where they are.
pub fn read_usage<'de>(usage: impl Deserializer<'de>) -> Option<Usage> {
    let Ok(Node::Object(usage)) = Node::deserialize(usage) else { return None };
    if usage.is_empty() {
        return None;
    }
    let lookup = Lookup::new(&usage);
    let (prompt_tokens, uncached) = lookup.prompt().unzip();
    let of_prompt = |field, keys: &[&str]| lookup.detail_or(&PROMPT_DETAILS, field, keys);
    let of_completion = |field, keys: &[&str]| lookup.detail_or(&COMPLETION_DETAILS, field, keys);
    Some(Usage {
        prompt_tokens,
        completion_tokens: lookup.first(&COMPLETION).and_then(Node::count),
        total_tokens: lookup.first(&TOTAL).and_then(Node::count),
        reasoning_tokens: of_completion("reasoning_tokens", &REASONING),
        cached_tokens: of_prompt("cached_tokens", &CACHE_READ),
        cache_write_tokens: lookup.first(&CACHE_WRITE).and_then(Node::count),
        cache_miss_tokens: lookup.first(&CACHE_MISS).and_then(Node::count).or(uncached.flatten()),
        prompt_audio_tokens: of_prompt("audio_tokens", &[]),
        // Mistral writes `{}` for a prompt without audio.
        prompt_audio_seconds: lookup.get(PROMPT_AUDIO_SECONDS).and_then(Node::number).filter(|s| *s >= 0.0),
        tool_use_prompt_tokens: lookup.first(&TOOL_USE_PROMPT).and_then(Node::count),
        completion_audio_tokens: of_completion("audio_tokens", &[]),
        accepted_prediction_tokens: of_completion("accepted_prediction_tokens", &[]),
        rejected_prediction_tokens: of_completion("rejected_prediction_tokens", &[]),
    })
}

/// The same of JSON text that was passed over as a whole.
pub(crate) fn read_raw_usage(usage: &RawValue) -> Option<Usage> {
    read_usage(&mut serde_json::Deserializer::from_str(usage.get()))
}

/// As much of a JSON value as token counts need. One is read for each answer, which a tree with hashed keys is too dear for.
#[derive(Debug)]
enum Node<'a> {
    Whole(u64),
    Real(f64),
    Object(Object<'a>),
    Other,
}

type Object<'a> = Vec<(Cow<'a, str>, Node<'a>)>;

/// The value of a key, of one given twice the last.
fn field<'n, 'a>(object: &'n Object<'a>, key: &str) -> Option<&'n Node<'a>> {
    object.iter().rev().find_map(|(name, node)| (name == key).then_some(node))
}

impl<'a> Node<'a> {
    fn object(&self) -> Option<&Object<'a>> {
        match self {
            Node::Object(fields) => Some(fields),
            _ => None,
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Node::Whole(count) => Some(*count as f64),
            Node::Real(number) => Some(*number),
            _ => None,
        }
    }

    /// A token count: a whole number, also when written as `12.0`.
    fn count(&self) -> Option<u64> {
        match *self {
            Node::Whole(count) => Some(count),
            // 2^53: above it a float no longer names one integer.
            Node::Real(number)
                if number >= 0.0 && number.fract() == 0.0 && number < 9_007_199_254_740_992.0 =>
            {
                Some(number as u64)
            }
            _ => None,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Node<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_u64<E>(self, count: u64) -> Result<Self::Value, E> {
        Ok(Node::Whole(count))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(u64::try_from(number).map_or(Node::Real(number as f64), Node::Whole))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Node::Real(number))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Node::Other)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Node::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Node::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Node::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Object::new();
        while let Some((Text(key), value)) = map.next_entry()? {
            fields.push((key, value));
        }
        Ok(Node::Object(fields))
    }
}

/// The usage object and its envelopes, in order of precedence.
struct Lookup<'n, 'a> {
    layers: [Option<&'n Object<'a>>; 4],
    meta: Option<&'n Object<'a>>,
}

impl<'n, 'a> Lookup<'n, 'a> {
    fn new(usage: &'n Object<'a>) -> Self {
        let object = |key: &str| field(usage, key).and_then(Node::object);
        let meta = object("meta");
        let meta_tokens = meta.and_then(|m| field(m, "tokens")).and_then(Node::object);
        Self { layers: [Some(usage), object("usageMetadata"), meta_tokens, object("tokens")], meta }
    }

    fn get(&self, key: &str) -> Option<&'n Node<'a>> {
        let top = self.layers[..3].iter().flatten().find_map(|l| field(l, key));
        // `meta.cached_tokens` stands beside `meta.tokens` and is lifted right after it.
        let meta = || self.meta.filter(|_| key == "cached_tokens").and_then(|m| field(m, key));
        top.or_else(meta).or_else(|| field(self.layers[3]?, key))
    }

    fn first(&self, keys: &[&str]) -> Option<&'n Node<'a>> {
        keys.iter().find_map(|k| self.get(k))
    }

    fn detail_or(&self, objects: &[&str], name: &str, keys: &[&str]) -> Option<u64> {
        let nested = objects.iter().find_map(|o| field(self.get(o)?.object()?, name));
        nested.and_then(Node::count).or_else(|| self.first(keys).and_then(Node::count))
    }

    /// All prompt tokens, and, where the vendor's own count leaves out those of the cache, that count: they missed it.
    fn prompt(&self) -> Option<(u64, Option<u64>)> {
        let (key, value) = PROMPT.iter().find_map(|k| Some((*k, self.get(k)?)))?;
        let prompt = value.count()?;
        if !DISJOINT_PROMPT.contains(&key) || DISJOINT_CACHE.iter().all(|k| self.get(k).is_none()) {
            return Some((prompt, None));
        }
        let cache = DISJOINT_CACHE.iter().filter_map(|k| self.get(k)?.count());
        Some((cache.fold(prompt, u64::saturating_add), Some(prompt)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn usage(
        prompt: u64,
        completion: u64,
        total: Option<u64>,
        reasoning: Option<u64>,
        cached: Option<u64>,
    ) -> Usage {
        Usage {
            prompt_tokens: Some(prompt),
            completion_tokens: Some(completion),
            total_tokens: total,
            reasoning_tokens: reasoning,
            cached_tokens: cached,
            ..Usage::default()
        }
    }

    #[test]
    fn each_vendor_s_words_are_known() {
        let openai = json!({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
            "prompt_tokens_details": {"cached_tokens": 3}, "completion_tokens_details": {"reasoning_tokens": 2}});
        assert_eq!(read_usage(&openai), Some(usage(9, 4, Some(13), Some(2), Some(3))));
        let gemini = json!({"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 15,
            "thoughtsTokenCount": 2, "cachedContentTokenCount": 1}});
        assert_eq!(read_usage(&gemini), Some(usage(9, 4, Some(15), Some(2), Some(1))));
        let cohere_1 = json!({"meta": {"tokens": {"input_tokens": 9, "output_tokens": 4}, "cached_tokens": 5,
            "billed_units": {"input_tokens": 1}}});
        assert_eq!(read_usage(&cohere_1), Some(usage(9, 4, None, None, Some(5))));
        let cohere_2 =
            json!({"tokens": {"input_tokens": 9, "output_tokens": 4}, "billed_units": {"input_tokens": 1}});
        assert_eq!(read_usage(&cohere_2), Some(usage(9, 4, None, None, None)));
        let deepseek = json!({"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 6});
        assert_eq!(read_usage(&deepseek), Some(usage(9, 4, None, None, Some(6))));
        let watsonx = json!({"input_token_count": 9, "generated_token_count": 4});
        assert_eq!(read_usage(&watsonx), Some(usage(9, 4, None, None, None)));
    }

    #[test]
    fn disjoint_cache_counts_are_added_back() {
        let anthropic = json!({"input_tokens": 10, "output_tokens": 4, "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 7});
        let of_anthropic = Usage {
            cache_write_tokens: Some(7),
            cache_miss_tokens: Some(10),
            ..usage(117, 4, None, None, Some(100))
        };
        assert_eq!(read_usage(&anthropic), Some(of_anthropic));
        let bedrock =
            json!({"inputTokens": 10, "outputTokens": 4, "totalTokens": 14, "cacheReadInputTokens": 3});
        let of_bedrock = Usage { cache_miss_tokens: Some(10), ..usage(13, 4, Some(14), None, Some(3)) };
        assert_eq!(read_usage(&bedrock), Some(of_bedrock));
        let writing = json!({"inputTokens": 10, "outputTokens": 4, "cacheWriteInputTokens": 5, "cacheReadInputTokens": null});
        let of_writing = Usage {
            cache_write_tokens: Some(5),
            cache_miss_tokens: Some(10),
            ..usage(15, 4, None, None, None)
        };
        assert_eq!(read_usage(&writing), Some(of_writing));
        let openai = json!({"prompt_tokens": 10, "completion_tokens": 4, "cache_read_input_tokens": 3});
        assert_eq!(read_usage(&openai), Some(usage(10, 4, None, None, Some(3))));
    }

    #[test]
    fn details_and_extras_are_read() {
        let openai = json!({"prompt_tokens": 9, "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 3, "audio_tokens": 2},
            "completion_tokens_details": {"reasoning_tokens": 1, "audio_tokens": 5, "accepted_prediction_tokens": 6,
                "rejected_prediction_tokens": 7}});
        let of_openai = Usage {
            prompt_audio_tokens: Some(2),
            completion_audio_tokens: Some(5),
            accepted_prediction_tokens: Some(6),
            rejected_prediction_tokens: Some(7),
            ..usage(9, 4, None, Some(1), Some(3))
        };
        assert_eq!(read_usage(&openai), Some(of_openai));
        let responses = json!({"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 3, "audio_tokens": 2},
            "output_tokens_details": {"reasoning_tokens": 1, "audio_tokens": 5}});
        let of_responses = Usage {
            prompt_audio_tokens: Some(2),
            completion_audio_tokens: Some(5),
            ..usage(9, 4, None, Some(1), Some(3))
        };
        assert_eq!(read_usage(&responses), Some(of_responses));
        let deepseek = json!({"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 6,
            "prompt_cache_miss_tokens": 3});
        let of_deepseek = Usage { cache_miss_tokens: Some(3), ..usage(9, 4, None, None, Some(6)) };
        assert_eq!(read_usage(&deepseek), Some(of_deepseek));
        let gemini = json!({"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4, "toolUsePromptTokenCount": 8}});
        let of_gemini = Usage { tool_use_prompt_tokens: Some(8), ..usage(9, 4, None, None, None) };
        assert_eq!(read_usage(&gemini), Some(of_gemini));
        for (said, seconds) in
            [(json!(3), Some(3.0)), (json!(2.5), Some(2.5)), (json!({}), None), (json!(true), None)]
        {
            let mistral = json!({"prompt_tokens": 9, "completion_tokens": 4, "prompt_audio_seconds": said});
            let of_mistral = Usage { prompt_audio_seconds: seconds, ..usage(9, 4, None, None, None) };
            assert_eq!(read_usage(&mistral), Some(of_mistral));
        }
    }

    #[test]
    fn nothing_is_made_up() {
        assert_eq!(read_usage(&Value::Null), None);
        assert_eq!(read_usage(json!({})), None);
        assert_eq!(read_usage(json!([1])), None);
        let odd =
            json!({"prompt_tokens": "nine", "input_tokens": 3, "completion_tokens": -1, "total_tokens": 7.0});
        assert_eq!(read_usage(&odd), Some(Usage { total_tokens: Some(7), ..Usage::default() }));
        let null_details = json!({"prompt_tokens": 1, "completion_tokens": 0, "prompt_tokens_details": null});
        assert_eq!(read_usage(&null_details), Some(usage(1, 0, None, None, None)));
        let zero = json!({"prompt_tokens": 1, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}});
        assert_eq!(read_usage(&zero), Some(usage(1, 0, None, None, Some(0))));
    }
}
