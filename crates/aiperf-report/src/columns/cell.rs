//! A line of records taken apart into cells, whoever wrote it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// What a record says under one key.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Real(f64),
    Text(Cow<'a, str>),
    /// Numbers.
    List(Vec<f64>),
    /// Objects, and lists of anything else.
    Nested,
}

impl<'de: 'a, 'a> Deserialize<'de> for Cell<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Any<'a> {
            type Value = Cell<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<Cell<'a>, E> {
                Ok(Cell::Null)
            }

            fn visit_bool<E>(self, v: bool) -> Result<Cell<'a>, E> {
                Ok(Cell::Bool(v))
            }

            fn visit_i64<E>(self, v: i64) -> Result<Cell<'a>, E> {
                Ok(Cell::Int(v))
            }

            fn visit_u64<E>(self, v: u64) -> Result<Cell<'a>, E> {
                Ok(i64::try_from(v).map_or(Cell::Real(v as f64), Cell::Int))
            }

            fn visit_f64<E>(self, v: f64) -> Result<Cell<'a>, E> {
                Ok(Cell::Real(v))
            }

            fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Cell<'a>, E> {
                Ok(Cell::Text(Cow::Borrowed(v)))
            }

            fn visit_str<E>(self, v: &str) -> Result<Cell<'a>, E> {
                Ok(Cell::Text(Cow::Owned(v.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Cell<'a>, A::Error> {
                let (mut numbers, mut texts, mut others) = (Vec::new(), Vec::new(), false);
                while let Some(item) = items.next_element::<Cell<'a>>()? {
                    match item {
                        Cell::Int(v) => numbers.push(v as f64),
                        Cell::Real(v) => numbers.push(v),
                        Cell::Text(v) => texts.push(v),
                        _ => others = true,
                    }
                }
                Ok(match (numbers.is_empty(), texts.is_empty()) {
                    _ if others => Cell::Nested,
                    (_, true) => Cell::List(numbers),
                    // Texts, as AIPerf's chain of causes, are one text.
                    (true, false) => Cell::Text(Cow::Owned(serde_json::Value::from(texts).to_string())),
                    (false, false) => Cell::Nested,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Cell<'a>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Cell::Nested)
            }
        }
        from.deserialize_any(Any(PhantomData))
    }
}

/// A text, borrowed where it has no escapes.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Word<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// A metric of a record.
#[derive(Debug, Deserialize)]
pub(super) struct Metric<'a> {
    #[serde(borrow)]
    pub(super) value: Cell<'a>,
    #[serde(borrow)]
    pub(super) unit: Option<Word<'a>>,
}

/// The entries of an object in their order.
#[derive(Debug)]
pub(super) struct Entries<'a, T>(pub(super) Vec<(Word<'a>, T)>);

impl<T> Default for Entries<'_, T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for Entries<'a, T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct All<'a, T>(PhantomData<(&'a (), T)>);
        impl<'de: 'a, 'a, T: Deserialize<'de>> Visitor<'de> for All<'a, T> {
            type Value = Vec<(Word<'a>, T)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::with_capacity(64);
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(all)
            }
        }
        from.deserialize_map(All(PhantomData)).map(Self)
    }
}

/// What of a line becomes columns.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow)]
    pub(super) metadata: Entries<'a, Cell<'a>>,
    #[serde(borrow, default)]
    pub(super) metrics: Entries<'a, Metric<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<Entries<'a, Cell<'a>>>,
}
