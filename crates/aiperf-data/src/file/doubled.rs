//! Keys that an object has twice. JSON readers take the last one without a word; whoever wrote the row may have meant the first.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

/// The first key that the object of a line has a second time; `None` for a line that is no object.
pub(super) fn doubled_key(line: &[u8]) -> Option<String> {
    serde_json::Deserializer::from_slice(line).deserialize_map(Keys).ok().flatten()
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut seen, mut doubled): (Vec<Cow<'de, str>>, _) = (Vec::with_capacity(8), None);
        while let Some(Key(key)) = map.next_key()? {
            map.next_value::<IgnoredAny>()?;
            if doubled.is_none() && seen.contains(&key) {
                doubled = Some(key.into_owned());
            } else {
                seen.push(key);
            }
        }
        Ok(doubled)
    }
}

/// Borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_that_comes_again_is_told() {
        let of = |line: &str| doubled_key(line.as_bytes());
        assert_eq!(
            of(r#"{"text":"a","output_length":1,"text":"b","output_length":2}"#).as_deref(),
            Some("text")
        );
        assert_eq!(of(r#"{"a":{"b":1},"c":{"b":1}}"#), None);
        assert_eq!(of(r#"{"te\u0078t":"a","text":"b"}"#).as_deref(), Some("text"));
        assert!(["[]", "1", "{", "", r#"{"a":1,"a""#].into_iter().all(|line| of(line).is_none()));
    }
}
