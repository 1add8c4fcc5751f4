//! APIs whose answers are vectors (embeddings) or scores (rankings).
//!
//! Their numbers are not kept. What is looked at is whether each of them is there and is one, so that an answer without them is no
//! good answer.

use std::borrow::Cow;
use std::fmt;

use aiperf_core::conversation::{MediaKind, Turn};
use aiperf_core::plan::EndpointKind;
use aiperf_core::text::for_terminal;
use aiperf_core::usage::Usage;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::body::{Field, Fields};
use super::chunk::{Text, with_object};
use super::error::says_something;
use super::message::{Form, MessageList};
use super::{EncodeError, Request};
use crate::usage::read_usage;

/// Fields that say how many results there will be, whatever the turn holds.
const DECIDING: [&str; 8] =
    ["input", "messages", "documents", "texts", "passages", "top_n", "top_k", "raw_input"];
/// Most characters shown of a server's own word.
const SHOWN: usize = 40;

/// The API's own fields of a request, in AIPerf's order. None of these APIs has an output limit.
pub(super) fn fields<'a>(kind: EndpointKind, request: &Request<'a>) -> Result<Fields<'a>, EncodeError> {
    let turn = request.turn;
    let model = ("model", Field::Text(&turn.model));
    let query = || turn.query().ok_or(EncodeError::NoQuery { kind: kind.name() });
    Ok(Fields::new(match kind {
        EndpointKind::ChatEmbeddings => {
            let messages = Field::Messages(MessageList { request: *request, form: Form::Chat });
            vec![("messages", messages), model, ("stream", Field::Flag(false))]
        }
        EndpointKind::CohereRankings => {
            vec![model, ("query", Field::Text(query()?)), ("documents", Field::Passages(turn))]
        }
        EndpointKind::HfTeiRankings => {
            vec![("query", Field::Text(query()?)), ("texts", Field::Passages(turn))]
        }
        EndpointKind::NimRankings => {
            vec![model, ("query", Field::InObject(query()?)), ("passages", Field::PassageObjects(turn))]
        }
        EndpointKind::NimEmbeddings => vec![model, ("input", Field::Paired(pairs(turn)?))],
        _ => vec![model, ("input", Field::Inputs(turn))],
    }))
}

/// The inputs of a request that may have images: each text with its image behind it, as NVIDIA's servers read it; texts or images
/// where the other is not there.
fn pairs(turn: &Turn) -> Result<Vec<Cow<'_, str>>, EncodeError> {
    let texts: Vec<&str> = turn.texts.iter().map(String::as_str).filter(|t| !t.is_empty()).collect();
    let images: Vec<&str> = turn.media_of(MediaKind::Image).filter(|i| !i.is_empty()).collect();
    if texts.is_empty() || images.is_empty() {
        return Ok(texts.into_iter().chain(images).map(Cow::Borrowed).collect());
    }
    if texts.len() != images.len() {
        return Err(EncodeError::Unpaired { texts: texts.len(), images: images.len() });
    }
    Ok(texts.iter().zip(images).map(|(text, image)| Cow::Owned(format!("{text} {image}"))).collect())
}

/// How many vectors or scores should answer a turn.
pub(super) fn expected(kind: EndpointKind, turn: &Turn, layers: &[&Map<String, Value>]) -> Option<u64> {
    if layers.iter().any(|layer| DECIDING.iter().any(|name| layer.contains_key(*name))) {
        return None;
    }
    match kind {
        EndpointKind::ChatEmbeddings => Some(1),
        EndpointKind::NimEmbeddings => pairs(turn).ok().map(|inputs| inputs.len() as u64),
        _ if kind.is_embedding() => Some(turn.texts.iter().filter(|t| !t.is_empty()).count() as u64),
        _ if kind.is_ranking() => Some(turn.passages().count() as u64),
        _ => None,
    }
}

/// An answer, understood.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) model: Option<String>,
    pub(super) usage: Option<Usage>,
    /// The error that it holds or is.
    pub(super) error: Option<Value>,
    pub(super) results: Results,
}

/// The vectors or scores of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Results {
    /// So many, each of them sound.
    Whole(u64),
    /// There are none; why that is so.
    None(String),
    /// Some are none; what they are.
    Odd(String),
}

/// Reads an answer. `Err` when it is no JSON object, or with rankings a list.
pub(super) fn read(kind: EndpointKind, json: &str) -> Result<Found, serde_json::Error> {
    if kind.is_ranking() && json.trim_start().starts_with('[') {
        let list: List<Score> = serde_json::from_str(json)?;
        return Ok(Found { model: None, usage: None, error: None, results: list.results("the answer") });
    }
    with_object(json, |text| {
        let body: Body<'_> = serde_json::from_str(text)?;
        let results = match kind {
            EndpointKind::ChatEmbeddings => body.vectors().or_else(|| body.bare_vectors()),
            _ if kind.is_embedding() => body.vectors(),
            _ => body.scores(),
        };
        let results = results.unwrap_or_else(|| {
            let wanted = if kind.is_embedding() { "'data'" } else { "'results' and no 'rankings'" };
            Results::None(format!("the answer has no {wanted}"))
        });
        Ok(Found { error: body.error(text), model: body.model(), usage: body.usage(), results })
    })
}

/// The fields looked at, of all these APIs.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    object: Text<'a>,
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    meta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<List<Embedding<'a>>>,
    #[serde(default)]
    embeddings: Option<List<Vector>>,
    #[serde(default)]
    embedding: Option<Vector>,
    #[serde(default)]
    results: Option<List<Score>>,
    #[serde(default)]
    rankings: Option<List<Score>>,
}

impl Body<'_> {
    fn model(&self) -> Option<String> {
        Some(self.model.0.to_string()).filter(|name| !name.is_empty())
    }

    /// The API's own usage; Cohere has its counts in `meta`.
    fn usage(&self) -> Option<Usage> {
        let tree = |raw: Option<&RawValue>| serde_json::from_str::<Value>(raw?.get()).ok();
        let own = tree(self.usage).and_then(|usage| read_usage(&usage));
        let meta = || read_usage(json!({ "meta": tree(self.meta)? })).filter(|u| *u != Usage::default());
        own.or_else(meta)
    }

    /// An `error` that says something, or the object itself where it is called one.
    fn error(&self, text: &str) -> Option<Value> {
        let own = self.error.and_then(|raw| serde_json::from_str(raw.get()).ok());
        own.filter(says_something)
            .or_else(|| (self.object.0 == "error").then(|| serde_json::from_str(text).ok()).flatten())
    }

    fn vectors(&self) -> Option<Results> {
        Some(self.data.as_ref()?.results("'data' of the answer"))
    }

    fn bare_vectors(&self) -> Option<Results> {
        let several = self.embeddings.as_ref().map(|list| list.results("'embeddings' of the answer"));
        several.or_else(|| match self.embedding.as_ref()? {
            Vector::Sound => Some(Results::Whole(1)),
            Vector::Odd(odd) => Some(Results::Odd(format!("'embedding' {odd}"))),
        })
    }

    fn scores(&self) -> Option<Results> {
        let results = self.results.as_ref().map(|list| list.results("'results' of the answer"));
        results.or_else(|| Some(self.rankings.as_ref()?.results("'rankings' of the answer")))
    }
}

/// One of a list of results.
trait Item {
    /// Whether it is there; what is wrong with it.
    fn check(&self) -> Result<bool, Cow<'static, str>>;
}

/// A list, of which only the count of what is sound and the first thing at fault are kept.
enum List<T> {
    Of {
        sound: u64,
        all: u64,
        odd: Option<String>,
        kind: std::marker::PhantomData<T>,
    },
    /// No list at all; what it is.
    Odd(&'static str),
}

impl<T> List<T> {
    fn results(&self, name: &str) -> Results {
        match self {
            Self::Odd(kind) => Results::Odd(format!("{name} is {kind} where a list is expected")),
            Self::Of { odd: Some(odd), .. } => Results::Odd(format!("{name}: {odd}")),
            Self::Of { all: 0, .. } => Results::None(format!("{name} is an empty list")),
            Self::Of { sound: 0, .. } => Results::None(format!("no entry of {name} has an embedding")),
            Self::Of { sound, .. } => Results::Whole(*sound),
        }
    }
}

/// A visitor's answers to values of the kinds that it has no use for.
macro_rules! other_kinds {
    ($make:expr; $($kind:ident)*) => { $(other_kinds!(@ $kind $make);)* };
    (@ null $make:expr) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> { Ok($make("null")) }
    };
    (@ bool $make:expr) => {
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> { Ok($make("true or false")) }
    };
    (@ number $make:expr) => {
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> { Ok($make("a number")) }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> { Ok($make("a number")) }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> { Ok($make("a number")) }
    };
    (@ text $make:expr) => {
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> { Ok($make("a text")) }
    };
    (@ list $make:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok($make("a list"))
        }
    };
    (@ object $make:expr) => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($make("an object"))
        }
    };
}

impl<'de, T: Item + Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads<T>(std::marker::PhantomData<T>);
        impl<'de, T: Item + Deserialize<'de>> Visitor<'de> for Reads<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let (mut sound, mut all, mut odd) = (0, 0, None);
                while let Some(item) = seq.next_element::<T>()? {
                    match item.check() {
                        Ok(there) => sound += u64::from(there),
                        Err(words) if odd.is_none() => odd = Some(format!("entry {all} {words}")),
                        Err(_) => {}
                    }
                    all += 1;
                }
                Ok(List::Of { sound, all, odd, kind: self.0 })
            }

            other_kinds!(List::Odd; null bool number text object);
        }
        deserializer.deserialize_any(Reads(std::marker::PhantomData))
    }
}

/// An entry of `data`: an object that says it is an embedding, with the vector.
enum Embedding<'a> {
    Object(EmbeddingFields<'a>),
    Odd(&'static str),
}

#[derive(Deserialize)]
struct EmbeddingFields<'a> {
    #[serde(borrow, default)]
    object: Text<'a>,
    #[serde(default)]
    embedding: Option<Vector>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Embedding<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Embedding<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                EmbeddingFields::deserialize(MapAccessDeserializer::new(map)).map(Embedding::Object)
            }

            other_kinds!(Embedding::Odd; null bool number text list);
        }
        deserializer.deserialize_any(Reads)
    }
}

impl Item for Embedding<'_> {
    fn check(&self) -> Result<bool, Cow<'static, str>> {
        match self {
            Self::Odd(kind) => Err(format!("is {kind} where an embedding object is expected").into()),
            Self::Object(fields) if fields.object.0.is_empty() => {
                Err("has no 'object': \"embedding\", so it is no embedding".into())
            }
            Self::Object(fields) if fields.object.0 != "embedding" => {
                let name = for_terminal(&fields.object.0, SHOWN);
                Err(format!("has the object \"{name}\" where \"embedding\" is expected").into())
            }
            Self::Object(EmbeddingFields { embedding: None, .. }) => Ok(false),
            Self::Object(EmbeddingFields { embedding: Some(vector), .. }) => vector.check(),
        }
    }
}

/// A list of numbers, or the base64 of 32-bit floats.
enum Vector {
    Sound,
    /// What is wrong with it.
    Odd(Cow<'static, str>),
}

impl Item for Vector {
    fn check(&self) -> Result<bool, Cow<'static, str>> {
        match self {
            Self::Sound => Ok(true),
            Self::Odd(words) => Err(words.clone()),
        }
    }
}

impl<'de> Deserialize<'de> for Vector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Vector;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(if is_base64_of_floats(text) {
                    Vector::Sound
                } else {
                    Vector::Odd("has a text as its vector that is no base64 of 32-bit floats".into())
                })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let (mut numbers, mut odd) = (0u64, None);
                while let Some(Kind(kind)) = seq.next_element()? {
                    match kind {
                        "a number" => numbers += 1,
                        other => odd = odd.or(Some(other)),
                    }
                }
                Ok(match odd {
                    Some(odd) => Vector::Odd(format!("has {odd} in its vector").into()),
                    None if numbers == 0 => Vector::Odd("has an empty vector".into()),
                    None => Vector::Sound,
                })
            }

            other_kinds!(|kind| Vector::Odd(format!("has {kind} as its vector").into()); null bool number object);
        }
        deserializer.deserialize_any(Reads)
    }
}

/// Whether a text is the base64 of at least one 32-bit float.
fn is_base64_of_floats(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    let letters = body.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'-' | b'_'));
    let bytes = body.len() * 3 / 4;
    letters && padding <= 2 && text.len().is_multiple_of(4) && bytes > 0 && bytes.is_multiple_of(4)
}

/// What kind of JSON a value is.
struct Kind(&'static str);

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Kind;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            other_kinds!(Kind; null bool number text list object);
        }
        deserializer.deserialize_any(Reads)
    }
}

/// A passage's place: an object with its index and a number that says how good it is, whatever that is called (`relevance_score`,
/// `score`, `logit`).
enum Score {
    Sound,
    Odd(Cow<'static, str>),
}

impl Item for Score {
    fn check(&self) -> Result<bool, Cow<'static, str>> {
        match self {
            Self::Sound => Ok(true),
            Self::Odd(words) => Err(words.clone()),
        }
    }
}

impl<'de> Deserialize<'de> for Score {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Score;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut scored = false;
                while let Some((Text(name), Kind(kind))) = map.next_entry()? {
                    scored |= kind == "a number" && name != "index";
                }
                Ok(if scored { Score::Sound } else { Score::Odd("has no score".into()) })
            }

            other_kinds!(|kind| Score::Odd(format!("is {kind} where an object with a score is expected").into());
                null bool number text list);
        }
        deserializer.deserialize_any(Reads)
    }
}
