//! A look at a file that may be such a document.

use std::fmt;
use std::io::BufReader;

use aiperf_files::Input;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::error::DataError;

/// What the first JSON object of a file shows, without reading the file into memory.
#[derive(Debug, Default)]
pub(in crate::file) struct Shown {
    /// Its first item of `data` has `payloads`.
    pub(in crate::file) is_inputs: bool,
    /// Its first keys.
    pub(in crate::file) keys: Vec<String>,
    /// What it says that it is.
    pub(in crate::file) kind: Option<String>,
}

impl Shown {
    const MOST_KEYS: usize = 32;

    /// Of `input`.
    pub(in crate::file) fn by(input: &Input) -> Result<Self, DataError> {
        let read = |source| DataError::Read { path: input.name.clone(), source };
        input.to_text().map_err(read)?;
        let mut json = serde_json::Deserializer::from_reader(BufReader::new(&input.file));
        let mut shown = Self::default();
        // What is no JSON is told by the reader of the form.
        let _ = Look(&mut shown, 0).deserialize(&mut json);
        Ok(shown)
    }
}

/// Looks into the document (0), the list `data` (1), or its first item (2).
struct Look<'i>(&'i mut Shown, u8);

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(shown, depth) = self;
        while let Some(key) = map.next_key::<String>()? {
            if depth == 0 && key == "data" {
                map.next_value_seed(Look(shown, 1))?;
            } else if depth == 2 && key == "payloads" {
                shown.is_inputs = true;
                return Err(A::Error::custom("seen enough"));
            } else if depth == 0 && key == "type" {
                let kind = map.next_value::<Value>()?;
                shown.kind = kind.as_str().map(str::to_owned);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
            if depth == 0 && shown.keys.len() < Shown::MOST_KEYS {
                shown.keys.push(key);
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if self.1 == 1 {
            list.next_element_seed(Look(self.0, 2))?;
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}
