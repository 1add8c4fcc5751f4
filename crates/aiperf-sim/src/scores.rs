//! Embeddings and rankings: what is asked, what is counted, and the bodies of answers. Every number is a function of the seed and the
//! text, so the same text has the same vector wherever it stands.

use std::hash::{DefaultHasher, Hash, Hasher};

use aiperf_rng::Key;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::option::SimConfig;
use crate::prompt::{Counter, Prompt};
use crate::refusal::{Refusal, known_model};
use crate::service::Part;
use crate::strict::refuse_others;

/// The APIs that answer with vectors or scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScoreApi {
    /// OpenAI's embeddings, asked with texts, token ids, or (vLLM) chat messages.
    Embeddings,
    /// Cohere's rerank.
    Cohere,
    /// Hugging Face TEI's rerank.
    Tei,
    /// NVIDIA NIM's ranking.
    Nim,
}

impl ScoreApi {
    /// The API that is served at `path`.
    pub(crate) fn at(path: &str) -> Option<Self> {
        match path {
            "/v1/embeddings" => Some(Self::Embeddings),
            "/v1/rerank" | "/v2/rerank" => Some(Self::Cohere),
            "/rerank" => Some(Self::Tei),
            "/v1/ranking" => Some(Self::Nim),
            _ => None,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Embeddings => "embeddings",
            Self::Cohere => "cohere_rankings",
            Self::Tei => "hf_tei_rankings",
            Self::Nim => "nim_rankings",
        }
    }

    /// Fields of its reference.
    const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Embeddings => &[
                "add_generation_prompt",
                "chat_template_kwargs",
                "dimensions",
                "encoding_format",
                "input",
                "input_type",
                "messages",
                "model",
                "stream",
                "truncate",
                "user",
            ],
            Self::Cohere => &["documents", "max_tokens_per_doc", "model", "priority", "query", "top_n"],
            Self::Tei => &["query", "raw_scores", "return_text", "texts", "truncate", "truncation_direction"],
            Self::Nim => &["model", "passages", "query", "truncate"],
        }
    }
}

/// A request, understood.
#[derive(Debug)]
pub(crate) struct ScoreAsk {
    api: ScoreApi,
    model: String,
    asked: Asked,
}

#[derive(Debug)]
enum Asked {
    Vectors { inputs: Inputs, dimensions: u64, base64: bool },
    Scores { query: String, passages: Vec<String>, most: usize },
}

#[derive(Debug)]
enum Inputs {
    /// `input`: a text, a list of token ids, or a list of such.
    Plain(Value),
    /// `messages`, and what the template gets beside them.
    Chat { messages: Value, kwargs: Option<Map<String, Value>>, generation: bool },
}

impl ScoreAsk {
    /// Understands `body` or says what is wrong with it.
    pub(crate) fn parse(api: ScoreApi, body: &[u8], config: &SimConfig) -> Result<Self, Refusal> {
        let mut fields: Map<String, Value> = serde_json::from_slice(body).map_err(|e| Refusal::wrong(&e))?;
        if config.strict {
            refuse_others(&fields, &[api.fields()])?;
        }
        let model = match fields.remove("model") {
            Some(Value::String(model)) if !model.is_empty() => model,
            _ if api == ScoreApi::Tei => String::new(),
            _ => return Err(Refusal::bad("the field 'model' is missing")),
        };
        known_model(&config.models, Some(&model).filter(|m| !m.is_empty()).map(String::as_str))?;
        let asked = if api == ScoreApi::Embeddings { vectors(fields, config)? } else { scores(api, fields)? };
        Ok(Self { api, model, asked })
    }

    /// What the engine works on: each input for itself, the query with each passage.
    pub(crate) fn count(&self, counter: &Counter) -> Result<Vec<Prompt>, Refusal> {
        match &self.asked {
            Asked::Vectors { inputs: Inputs::Plain(input), .. } => counter.inputs(input),
            Asked::Vectors { inputs: Inputs::Chat { messages, kwargs, generation }, .. } => {
                counter.messages(messages, kwargs.as_ref(), *generation).map(|prompt| vec![prompt])
            }
            Asked::Scores { query, passages, .. } => Ok(counter.pairs(query, passages)),
        }
    }

    /// The body of an answer.
    pub(crate) fn body(&self, config: &SimConfig, id: u128, tokens: u64, part: Part) -> Bytes {
        if part == Part::Failed {
            let error = json!({"message": "simulated failure inside the answer", "type": "InternalServerError", "param": null, "code": 500});
            return json!({ "error": error }).to_string().into();
        }
        let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
        let list = if part == Part::Whole { self.list(config) } else { Value::Array(Vec::new()) };
        let body = match self.api {
            ScoreApi::Embeddings => {
                json!({"id": format!("embd-{id:032x}"), "object": "list", "model": self.model, "data": list, "usage": usage})
            }
            ScoreApi::Cohere => {
                json!({"id": format!("rerank-{id:032x}"), "model": self.model, "results": list, "usage": usage,
                    "meta": {"billed_units": {"search_units": 1}}})
            }
            ScoreApi::Tei => list,
            ScoreApi::Nim => json!({"rankings": list, "usage": usage}),
        };
        body.to_string().into()
    }

    fn list(&self, config: &SimConfig) -> Value {
        match &self.asked {
            Asked::Vectors { inputs, dimensions, base64 } => {
                let one = |(index, input): (usize, &Value)| {
                    let vector = vector(config.seed, &input.to_string(), *dimensions);
                    let embedding = if *base64 { encode(&vector).into() } else { json!(vector) };
                    json!({"object": "embedding", "index": index, "embedding": embedding})
                };
                match inputs {
                    Inputs::Plain(Value::Array(list)) if !list.iter().all(Value::is_number) => {
                        list.iter().enumerate().map(one).collect()
                    }
                    Inputs::Plain(input) | Inputs::Chat { messages: input, .. } => json!([one((0, input))]),
                }
            }
            Asked::Scores { query, passages, most } => {
                let mut scored: Vec<(usize, f64)> =
                    passages.iter().map(|p| score(config.seed, query, p)).enumerate().collect();
                scored.sort_by(|a, b| b.1.total_cmp(&a.1));
                let one = |(index, score): &(usize, f64)| match self.api {
                    ScoreApi::Tei => json!({"index": index, "score": score}),
                    ScoreApi::Nim => json!({"index": index, "logit": (score / (1.0 - score)).ln()}),
                    _ => json!({"index": index, "relevance_score": score}),
                };
                scored.iter().take(*most).map(one).collect()
            }
        }
    }
}

fn vectors(mut fields: Map<String, Value>, config: &SimConfig) -> Result<Asked, Refusal> {
    let dimensions = match fields.get("dimensions") {
        None | Some(Value::Null) => config.embedding_dimensions,
        Some(given) => given.as_u64().filter(|n| (1..=MOST_DIMENSIONS).contains(n)).ok_or_else(|| {
            Refusal::bad(format!("dimensions must be a whole number from 1 to {MOST_DIMENSIONS}"))
        })?,
    };
    let base64 = match fields.get("encoding_format").and_then(Value::as_str) {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => {
            return Err(Refusal::bad(format!("encoding_format '{other}' is neither float nor base64")));
        }
    };
    let inputs = match (fields.remove("input"), fields.remove("messages")) {
        (Some(_), Some(_)) => return Err(Refusal::bad("input and messages exclude each other")),
        (Some(input), None) => Inputs::Plain(input),
        (None, Some(messages)) => Inputs::Chat {
            messages,
            kwargs: fields.get("chat_template_kwargs").and_then(Value::as_object).cloned(),
            generation: fields.get("add_generation_prompt").and_then(Value::as_bool).unwrap_or(false),
        },
        (None, None) => return Err(Refusal::bad("the field 'input' is missing")),
    };
    Ok(Asked::Vectors { inputs, dimensions, base64 })
}

fn scores(api: ScoreApi, mut fields: Map<String, Value>) -> Result<Asked, Refusal> {
    let text = |value: &Value| match api {
        ScoreApi::Nim => value.get("text").and_then(Value::as_str).map(str::to_owned),
        _ => value.as_str().or_else(|| value.get("text")?.as_str()).map(str::to_owned),
    };
    let query =
        fields.get("query").and_then(text).ok_or_else(|| Refusal::bad("the field 'query' is missing"))?;
    let name = match api {
        ScoreApi::Tei => "texts",
        ScoreApi::Nim => "passages",
        _ => "documents",
    };
    let Some(Value::Array(list)) = fields.remove(name) else {
        return Err(Refusal::bad(format!("the field '{name}' is missing")));
    };
    let passages: Option<Vec<String>> = list.iter().map(text).collect();
    let passages = passages.ok_or_else(|| Refusal::bad(format!("each of '{name}' must be a text")))?;
    if passages.is_empty() {
        return Err(Refusal::bad(format!("'{name}' must not be empty")));
    }
    let most = fields.get("top_n").and_then(Value::as_u64).map_or(usize::MAX, |n| n as usize);
    Ok(Asked::Scores { query, passages, most })
}

/// Most numbers of a vector.
pub(crate) const MOST_DIMENSIONS: u64 = 65_536;

fn hash(parts: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// A vector of length 1.
fn vector(seed: u64, text: &str, dimensions: u64) -> Vec<f32> {
    let mut draws = Key::new(seed).purpose("sim.embedding").at(hash(&[text]));
    let raw: Vec<f64> = (0..dimensions).map(|_| draws.unit_positive() * 2.0 - 1.0).collect();
    let norm = raw.iter().map(|x| x * x).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    raw.iter().map(|x| (x / norm) as f32).collect()
}

/// Between 0 and 1, both excluded.
fn score(seed: u64, query: &str, passage: &str) -> f64 {
    let drawn = Key::new(seed).purpose("sim.score").at(hash(&[query, passage])).unit_positive();
    drawn.clamp(1e-6, 1.0 - 1e-6)
}

/// The base64 of the numbers as 32-bit floats, the lowest byte first, as OpenAI gives them.
fn encode(vector: &[f32]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            out.push(if place <= group.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(api: ScoreApi, body: &Value, query: &str) -> (u16, String) {
        let config = SimConfig::from_query(query).expect("good settings");
        let refusal = ScoreAsk::parse(api, body.to_string().as_bytes(), &config).expect_err("a bad body");
        (refusal.status, refusal.message)
    }

    fn list(api: ScoreApi, body: &Value) -> Value {
        let config = SimConfig::from_query("embedding-dimensions=3&seed=4").expect("good settings");
        ScoreAsk::parse(api, body.to_string().as_bytes(), &config).expect("a good body").list(&config)
    }

    #[test]
    fn numbers_in_base64_are_those_of_the_list() {
        // RFC 4648's own examples, made of as many bytes as fit.
        assert_eq!(encode(&[1.0, -2.0]), "AACAPwAAAMA=");
        assert_eq!(encode(&[1.0]), "AACAPw==");
        assert_eq!(encode(&[0.0, 0.0, 1.0]), "AAAAAAAAAAAAAIA/");
        assert_eq!(encode(&[]), "");
    }

    #[test]
    fn a_vector_is_a_function_of_seed_and_text() {
        let body = |input: Value| json!({"model": "m", "input": input});
        let both = list(ScoreApi::Embeddings, &body(json!(["a", "b", "a"])));
        assert_eq!(both[0]["embedding"], both[2]["embedding"]);
        assert_ne!(both[0]["embedding"], both[1]["embedding"]);
        assert_eq!(list(ScoreApi::Embeddings, &body(json!("a")))[0]["embedding"], both[0]["embedding"]);
        assert_eq!(list(ScoreApi::Embeddings, &body(json!([1, 2]))).as_array().map(Vec::len), Some(1));
        let numbers: Vec<f64> = vector(4, "x", 64).into_iter().map(f64::from).collect();
        assert!((numbers.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-5);
        assert_ne!(vector(4, "x", 8), vector(5, "x", 8));
    }

    #[test]
    fn passages_are_ranked_the_best_first() {
        let passages = ["p", "q", "r", "s"];
        let objects: Vec<Value> = passages.iter().map(|p| json!({ "text": p })).collect();
        for (api, body, field) in [
            (ScoreApi::Cohere, json!({"model": "m", "query": "x", "documents": passages}), "relevance_score"),
            (ScoreApi::Tei, json!({"query": "x", "texts": passages}), "score"),
            (ScoreApi::Nim, json!({"model": "m", "query": {"text": "x"}, "passages": objects}), "logit"),
        ] {
            let got = list(api, &body);
            let scores: Vec<f64> =
                got.as_array().expect("a list").iter().filter_map(|r| r[field].as_f64()).collect();
            assert!(scores.len() == 4 && scores.is_sorted_by(|a, b| a >= b), "{got}");
            let mut places: Vec<u64> =
                got.as_array().expect("a list").iter().filter_map(|r| r["index"].as_u64()).collect();
            places.sort_unstable();
            assert_eq!(places, [0, 1, 2, 3]);
        }
        let some = json!({"model": "m", "query": "x", "documents": passages, "top_n": 2});
        assert_eq!(list(ScoreApi::Cohere, &some).as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn wrong_bodies_are_told_what_is_wrong() {
        use ScoreApi::{Cohere, Embeddings, Nim, Tei};
        for (api, body, query, status, word) in [
            (Embeddings, json!({"input": "a"}), "", 400, "'model'"),
            (Embeddings, json!({"model": "m"}), "", 400, "'input'"),
            (Embeddings, json!({"model": "m", "input": "a", "messages": []}), "", 400, "exclude"),
            (Embeddings, json!({"model": "m", "input": "a", "dimensions": 0}), "", 400, "dimensions"),
            (Embeddings, json!({"model": "m", "input": "a", "encoding_format": "hex"}), "", 400, "'hex'"),
            (Embeddings, json!({"model": "x", "input": "a"}), "models=m", 404, "`x`"),
            (
                Embeddings,
                json!({"model": "m", "input": "a", "max_tokens": 4}),
                "strict=on",
                422,
                "max_tokens",
            ),
            (Cohere, json!({"model": "m", "documents": ["a"]}), "", 400, "'query'"),
            (Cohere, json!({"model": "m", "query": "q"}), "", 400, "'documents'"),
            (Tei, json!({"query": "q", "texts": []}), "", 400, "empty"),
            (Tei, json!({"query": "q", "texts": [1]}), "", 400, "each of 'texts'"),
            (Nim, json!({"model": "m", "query": "q", "passages": []}), "", 400, "'query'"),
            (Nim, json!({"model": "m", "query": {"text": "q"}, "passages": ["p"]}), "", 400, "'passages'"),
        ] {
            let (got, message) = refused(api, &body, query);
            assert!(got == status && message.contains(word), "{body}: {got} {message}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_body_is_too_strange(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..120)) {
            for api in [ScoreApi::Embeddings, ScoreApi::Cohere, ScoreApi::Tei, ScoreApi::Nim] {
                if let Err(refusal) = ScoreAsk::parse(api, &bytes, &SimConfig::default()) {
                    proptest::prop_assert!((400..500).contains(&refusal.status));
                }
            }
        }
    }
}
