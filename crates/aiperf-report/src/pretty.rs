//! Indents JSON without reading it into values: numbers, key order and escapes stay byte for byte, depth costs nothing.

/// From this level on lines are not indented further: 100,000 levels would be gigabytes of blanks.
const DEEPEST: usize = 128;

/// Appends `source` to `out`, indented by two spaces per level, the first line at `level` already. Layout as AIPerf's files: `"key": value`,
/// `{}` and `[]` for empty ones. `source` must be one JSON value; white space between its tokens is dropped.
pub fn pretty(out: &mut Vec<u8>, source: &[u8], level: usize) {
    let mut level = level;
    let mut at = 0;
    while at < source.len() {
        let byte = source[at];
        match byte {
            b'"' => {
                let end = string_end(source, at);
                out.extend_from_slice(&source[at..end]);
                at = end;
                continue;
            }
            b'{' | b'[' => {
                out.push(byte);
                let next = skip_space(source, at + 1);
                if matches!(source.get(next), Some(b'}' | b']')) {
                    out.push(source[next]);
                    at = next + 1;
                    continue;
                }
                level += 1;
                new_line(out, level);
            }
            b'}' | b']' => {
                level = level.saturating_sub(1);
                new_line(out, level);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(out, level);
            }
            b':' => out.extend_from_slice(b": "),
            b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => out.push(byte),
        }
        at += 1;
    }
}

/// Whether the bytes are one well-formed JSON value.
pub fn is_json(source: &[u8]) -> bool {
    serde_json::from_slice::<&serde_json::value::RawValue>(source).is_ok()
}

pub(crate) fn new_line(out: &mut Vec<u8>, level: usize) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', level.min(DEEPEST) * 2));
}

/// One past the closing quote of the string that opens at `start`.
fn string_end(source: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < source.len() {
        match source[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    source.len()
}

fn skip_space(source: &[u8], from: usize) -> usize {
    (from..source.len()).find(|i| !matches!(source[*i], b' ' | b'\t' | b'\n' | b'\r')).unwrap_or(source.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn indented(source: &str) -> String {
        let mut out = Vec::new();
        pretty(&mut out, source.as_bytes(), 0);
        String::from_utf8(out).expect("UTF-8 in, UTF-8 out")
    }

    #[test]
    fn empty_ones_stay_on_their_line() {
        assert_eq!(
            indented("{ \"a\" : [ ] ,\"b\":{}, \"c\":[1, {\"d\":\"x,\\\"]\"}]}"),
            "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": \"x,\\\"]\"\n    }\n  ]\n}"
        );
    }

    #[test]
    fn broken_input_ends() {
        for source in ["", "\"", "\"\\", "{", "]]]]", "[,", "{\"a\":"] {
            let _ = indented(source);
            assert!(!is_json(source.as_bytes()), "{source}");
        }
    }

    #[test]
    fn a_deep_one_needs_no_stack_and_little_room() {
        let deep = "[".repeat(100_000);
        let mut out = Vec::new();
        pretty(&mut out, deep.as_bytes(), 0);
        assert_eq!(String::from_utf8_lossy(&out).matches('[').count(), 100_000);
        assert!(out.len() < 100_000 * (2 * DEEPEST + 2), "{}", out.len());
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f32>().prop_filter("finite", |v| v.is_finite()).prop_map(|v| json!(v)),
            ".*".prop_map(Value::from)
        ];
        leaf.prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::vec((".*", inner), 0..6)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect()))
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_what_a_full_printer_makes(value in values()) {
            let compact = serde_json::to_string(&value).expect("a value");
            let full = serde_json::to_string_pretty(&value).expect("a value");
            prop_assert_eq!(&indented(&compact), &full);
            prop_assert_eq!(&indented(&full), &full);
        }
    }
}
