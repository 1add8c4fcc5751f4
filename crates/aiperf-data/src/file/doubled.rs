//! Keys that an object has twice. JSON readers take the last one without a word; whoever wrote the row may have meant the first.

use std::borrow::Cow;
use std::collections::HashSet;
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
        let (mut seen, mut doubled) = (Seen::default(), None);
        while let Some(Key(key)) = map.next_key()? {
            map.next_value::<IgnoredAny>()?;
            if doubled.is_none() {
                doubled = seen.again(key);
            }
        }
        Ok(doubled)
    }
}

/// Most keys that are compared one by one: rows have no more, unless somebody made them so.
const FEW: usize = 32;

/// Keys so far.
#[derive(Default)]
struct Seen<'a> {
    few: Vec<Cow<'a, str>>,
    more: HashSet<Cow<'a, str>>,
}

impl<'a> Seen<'a> {
    /// Takes in a key; gives it back if it was there.
    fn again(&mut self, key: Cow<'a, str>) -> Option<String> {
        if self.few.contains(&key) || self.more.contains(&key) {
            return Some(key.into_owned());
        }
        if self.few.len() < FEW {
            self.few.push(key);
        } else {
            self.more.insert(key);
        }
        None
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
        for n in [FEW - 1, FEW, FEW + 1, 60_000] {
            let keys: Vec<String> = (0..n).map(|i| format!("\"k{i}\":1")).collect();
            for again in [0, n - 1] {
                let line = format!("{{{},\"k{again}\":2}}", keys.join(","));
                assert_eq!(of(&line), Some(format!("k{again}")), "of {n}");
            }
            assert_eq!(of(&format!("{{{}}}", keys.join(","))), None, "of {n}");
        }
        assert!(["[]", "1", "{", "", r#"{"a":1,"a""#].into_iter().all(|line| of(line).is_none()));
    }
}
