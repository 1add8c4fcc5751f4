//! Fields for request bodies as a person writes them: `key:value` with AIPerf's typing, `key:=json` with JSON's own, several
//! of either separated by commas, or a JSON object.

use aiperf_core::secret::{REDACTED, is_credential};
use aiperf_core::text::{for_terminal, without_place};
use serde_json::{Map, Value as Json};

use crate::row::Kind;
use crate::value::Trouble;
use aiperf_core::secret::is_sensitive_parameter;

/// Most characters of a text that an error shows.
const SHOWN: usize = 200;

/// One field of a list.
pub(crate) struct Field<'a> {
    /// Its name.
    pub key: &'a str,
    /// What goes into the body.
    pub value: Json,
    /// Whether it was written as JSON.
    pub is_json: bool,
    /// The field as it was written, without the comma behind it.
    pub written: &'a str,
}

/// The fields of a text.
pub(crate) fn from_text(text: &str) -> Result<Map<String, Json>, Trouble> {
    if text.trim_start().starts_with('{') {
        let trimmed = text.trim();
        return match serde_json::from_str(trimmed) {
            Ok(Json::Object(map)) => Ok(map),
            Ok(_) => Err(bad(trimmed, "", None)),
            Err(error) => Err(not_json(trimmed, "", &error)),
        };
    }
    Ok(fields(text)?.into_iter().map(|field| (field.key.to_owned(), field.value)).collect())
}

/// The fields of a list. A comma inside JSON parts no fields; one inside a plain value does.
pub(crate) fn fields(text: &str) -> Result<Vec<Field<'_>>, Trouble> {
    let mut fields: Vec<Field<'_>> = Vec::new();
    let mut rest = text;
    loop {
        let plain = rest.split(',').next().unwrap_or(rest);
        let Some((name, _)) = plain.split_once(':') else {
            return Err(no_field(plain, fields.last()));
        };
        let key = name.trim();
        if key.is_empty() {
            return Err(bad(plain.trim(), ", which has no name", None));
        }
        let value = &rest[name.len() + 1..];
        let (value, written, is_json) = match value.strip_prefix('=') {
            Some(json) => {
                let (value, length) = leading_json(key, json)?;
                (value, &rest[..name.len() + 2 + length], true)
            }
            None => (typed(plain[name.len() + 1..].trim()), plain, false),
        };
        fields.push(Field { key, value, is_json, written });
        match rest[written.len()..].strip_prefix(',') {
            Some(behind) => rest = behind,
            None => return Ok(fields),
        }
    }
}

/// The JSON that a text starts with, up to the end or a comma, and how many bytes that is.
fn leading_json(key: &str, text: &str) -> Result<(Json, usize), Trouble> {
    let start = format!("{key}:=");
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Json>();
    let value = match values.next() {
        Some(Ok(value)) => value,
        Some(Err(error)) => return Err(not_json(text, &start, &error)),
        None => {
            let nearest = (!is_sensitive_parameter(key)).then(|| format!("{start}null"));
            return Err(bad(&start, ", which has no JSON behind ':='", nearest));
        }
    };
    let mut end = values.byte_offset();
    end += text[end..].len() - text[end..].trim_start().len();
    if text[end..].is_empty() || text[end..].starts_with(',') {
        return Ok((value, end));
    }
    let at = text[..end].chars().count() + 1;
    Err(bad_json(text, &start, &format!("goes on behind its end, at character {at}")))
}

/// AIPerf's typing of a written value: booleans, null, whole numbers without leading zeros, plain decimals; the rest
/// is text (so `1e-3` and `01` are).
fn typed(text: &str) -> Json {
    let lower = text.to_lowercase();
    match lower.as_str() {
        "true" => return Json::Bool(true),
        "false" => return Json::Bool(false),
        "none" | "null" => return Json::Null,
        _ => {}
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if all_digits(digits) && (digits == "0" || !digits.starts_with('0')) {
        let whole = text.parse::<i64>().map(Json::from).or_else(|_| text.parse::<u64>().map(Json::from));
        if let Ok(n) = whole {
            return n;
        }
    }
    if let Some((whole, part)) = digits.split_once('.')
        && all_digits(&format!("{whole}{part}"))
        && let Some(n) = text.parse().ok().and_then(serde_json::Number::from_f64)
    {
        return Json::Number(n);
    }
    Json::String(text.to_owned())
}

/// A part of a list without a colon: a slip for one with it, or the rest of a value that has commas.
fn no_field(part: &str, before: Option<&Field<'_>>) -> Trouble {
    let part = part.trim();
    let nearest = match (part.split_once('='), before) {
        _ if part.is_empty() => None,
        (Some((key, value)), _) if !key.trim().is_empty() && !is_sensitive_parameter(key.trim()) => {
            let value = value.trim_start_matches(|c: char| c == '=' || c.is_whitespace());
            Some(format!("{}:{}", key.trim(), value.trim_end()))
        }
        (None, Some(Field { key, value: Json::String(first), is_json: false, .. }))
            if !is_sensitive_parameter(key) =>
        {
            Some(format!("{key}:={}", Json::from(vec![first.as_str(), part])))
        }
        _ => None,
    };
    // What stands behind the comma of a secret is a part of the secret.
    let hidden = before.is_some_and(|field| is_sensitive_parameter(field.key))
        || part.split_once('=').is_some_and(|(key, _)| is_sensitive_parameter(key.trim()));
    // A name may begin as a JSON object does.
    let nearest = nearest.filter(|text| from_text(text).is_ok());
    bad(if hidden { REDACTED } else { part }, ", which has no ':' between a name and a value", nearest)
}

/// `text`, behind `start` on the command line, is not JSON.
fn not_json(text: &str, start: &str, error: &serde_json::Error) -> Trouble {
    let words = error.to_string();
    let said = without_place(&words);
    // The library counts lines from 1, and in them bytes.
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let column = line.char_indices().take_while(|(at, _)| *at < error.column()).count().max(1);
    let place = match error.line() {
        0 | 1 => format!("character {column}"),
        line => format!("line {line}, character {column}"),
    };
    bad_json(text, start, &format!("is no JSON: {said} at {place}"))
}

fn bad_json(text: &str, start: &str, problem: &str) -> Trouble {
    let repaired = repair(text, !start.is_empty());
    let (shown, nearest) = if hides(text, start) {
        (format!("{start}{REDACTED}"), None)
    } else {
        let shown = format!("{start}{}", text[..repaired.end].trim_end());
        (shown, repaired.text.map(|json| format!("{start}{json}")))
    };
    let which = if start.is_empty() { ", which" } else { ", whose value" };
    bad(&shown, &format!("{which} {problem}"), nearest)
}

/// Whether broken JSON may hold a secret: what cannot be read is not shown if anything in it is called as secrets are.
fn hides(text: &str, start: &str) -> bool {
    let word = |c: char| !(c.is_alphanumeric() || c == '_' || c == '-');
    is_credential(text) || start.split(word).chain(text.split(word)).any(is_sensitive_parameter)
}

fn bad(shown: &str, problem: &str, nearest: Option<String>) -> Trouble {
    let nearest = nearest.filter(|text| text.chars().count() <= SHOWN).map(|text| for_terminal(&text, SHOWN));
    let found = format!("'{}'{problem}", for_terminal(shown, SHOWN));
    Trouble::Bad { found, allowed: Kind::Extra.allowed(), nearest }
}

/// What [`repair`] makes of a text.
struct Repaired {
    /// JSON, if that came of it.
    text: Option<String>,
    /// Where the value ends in the text.
    end: usize,
}

/// Makes JSON of what is nearly JSON: Python's quotes and words, words that lost their quotes to a shell, brackets that are
/// not closed. With `in_list` a comma outside of brackets is the end.
fn repair(text: &str, in_list: bool) -> Repaired {
    let mut out = String::new();
    let mut open = Vec::new();
    let mut end = text.len();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            ',' if in_list && open.is_empty() => {
                end = at;
                break;
            }
            '"' | '\'' => {
                let mut string = String::new();
                while let Some((_, inner)) = chars.next() {
                    match inner {
                        '\\' => string.extend(['\\'].into_iter().chain(chars.next().map(|(_, c)| c))),
                        _ if inner == c => break,
                        '"' => string.push_str("\\\""),
                        _ => string.push(inner),
                    }
                }
                out.push('"');
                out.push_str(&string);
                out.push('"');
            }
            '[' | '{' => {
                open.push(if c == '[' { ']' } else { '}' });
                out.push(c);
            }
            ']' | '}' => {
                open.pop();
                out.push(c);
            }
            ',' | ':' => {
                out.push(c);
                out.push(' ');
            }
            c if c.is_whitespace() => {}
            _ => {
                let mut stop = at + c.len_utf8();
                while let Some((at, c)) = chars.next_if(|(_, c)| !r#"[]{}:,"'"#.contains(*c)) {
                    stop = at + c.len_utf8();
                }
                out.push_str(&word(text[at..stop].trim_end()));
            }
        }
    }
    out.extend(open.into_iter().rev());
    Repaired { text: serde_json::from_str::<Json>(&out).is_ok().then_some(out), end }
}

/// A word outside of quotes as JSON.
fn word(bare: &str) -> String {
    match bare {
        "True" => "true".to_owned(),
        "False" => "false".to_owned(),
        "None" => "null".to_owned(),
        _ if serde_json::from_str::<Json>(bare).is_ok() => bare.to_owned(),
        _ => Json::from(bare).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(text: &str) -> Json {
        Json::Object(from_text(text).unwrap_or_else(|e| panic!("{text}: {e:?}")))
    }

    fn error(text: &str) -> String {
        from_text(text).expect_err(text).at(Place::Flag("--extra-inputs".into())).to_string()
    }

    #[test]
    fn plain_values_are_typed_as_the_reference_types_them() {
        let text =
            "ignore_eos:true,x:null,y:1e-3,z:01,w:1.50,q:-3,p:-1.5,u:a:b, s : t ,n:18446744073709551615";
        let expected = json!({"ignore_eos": true, "x": null, "y": "1e-3", "z": "01", "w": 1.5, "q": -3, "p": -1.5,
            "u": "a:b", "s": "t", "n": u64::MAX});
        assert_eq!(read(text), expected);
        assert_eq!(read(r#"{"a":{"b":[1,2]}}"#), json!({"a": {"b": [1, 2]}}));
    }

    #[test]
    fn json_values_stand_beside_plain_ones() {
        assert_eq!(
            read(
                r#"temperature:=0.2,mode:fast,stop:=["a, b","c:=d"] ,seed := null,top_p:=1e-3,x:={"a":[1]},s:="007""#
            ),
            json!({"temperature": 0.2, "mode": "fast", "stop": ["a, b", "c:=d"], "seed": null, "top_p": 1e-3,
                "x": {"a": [1]}, "s": "007"})
        );
        // Only the two characters together make JSON of it.
        assert_eq!(read("a:x:=1,b: =2"), json!({"a": "x:=1", "b": "=2"}));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place_and_the_nearest_right_thing() {
        let allowed = "allowed: key:value or key:=json, several separated by commas, or a JSON object";
        for (text, found, nearest) in [
            ("abc", "'abc', which has no ':' between a name and a value", ""),
            ("temperature=0.2", "'temperature=0.2', which has no ':'", "temperature:0.2"),
            ("stop:a,b", "'b', which has no ':' between a name and a value", r#"stop:=["a","b"]"#),
            (":1", "':1', which has no name", ""),
            ("a:=", "'a:=', which has no JSON behind ':='", "a:=null"),
            (
                "mode:=fast,b:1",
                "'mode:=fast', whose value is no JSON: expected ident at character 3",
                r#"mode:="fast""#,
            ),
            ("on:=True", "'on:=True', whose value is no JSON: expected value at character 1", "on:=true"),
            (
                "stop:=['é', END",
                "'stop:=['é', END', whose value is no JSON: expected value at character 2",
                r#"stop:=["é", "END"]"#,
            ),
            (
                r#"a:=["é" 1]"#,
                r#"'a:=["é" 1]', whose value is no JSON: expected `,` or `]` at character 6"#,
                "",
            ),
            ("a:=1 2", "'a:=1 2', whose value goes on behind its end, at character 3", r#"a:="1 2""#),
            (
                "a:=1,b:=[2",
                "'b:=[2', whose value is no JSON: EOF while parsing a list at character 2",
                "b:=[2]",
            ),
            (
                "{'a': None}",
                "'{'a': None}', which is no JSON: key must be a string at character 2",
                r#"{"a": null}"#,
            ),
            ("{\"a\":\n \"b\": 1}", "which is no JSON: expected `,` or `}` at line 2, character 5", ""),
        ] {
            let told = error(text);
            assert!(
                told.starts_with("--extra-inputs: found ") && told.contains(found) && told.contains(allowed),
                "{told}"
            );
            let hint = told
                .split_once("did you mean '")
                .map_or("", |(_, hint)| hint.strip_suffix("'?").expect(&told));
            assert_eq!(hint, nearest, "{told}");
        }
    }

    #[test]
    fn an_error_shows_no_secret() {
        for text in [
            "api_key:=s3cret",
            "api_key:a,s3cret",
            "token=s3cret",
            r#"x:={"password": s3cret}"#,
            r#"{"api_key": "s3cret""#,
            "auth:=Bearer s3cret",
        ] {
            let told = error(text);
            assert!(!told.contains("s3cret"), "{told}");
        }
    }

    proptest! {
        /// Whatever JSON is written comes out as it went in, also with others beside it.
        #[test]
        fn any_json_is_read_back(
            whole in any::<i64>(), thousandths in any::<i32>(), text in ".{0,12}", flags in prop::collection::vec(any::<bool>(), 0..4),
            tight in any::<bool>(),
        ) {
            let value = json!({"w": whole, "r": f64::from(thousandths) / 1e3, "t": [text.clone(), {"f": flags}], "n": null});
            let json = if tight { value.to_string() } else { serde_json::to_string_pretty(&value).expect("JSON") };
            let line = format!("a:1,v:={json},t:={},z:b", Json::from(text.as_str()));
            prop_assert_eq!(read(&line), json!({"a": 1, "v": value, "t": text, "z": "b"}));
            let parts: Vec<String> = fields(&line).expect("fields").iter().map(|f| f.written.to_owned()).collect();
            prop_assert_eq!(parts.join(","), line);
        }

        /// What is suggested is JSON, and nothing that is typed makes the parser fail otherwise than by an error.
        #[test]
        fn a_suggestion_is_right(text in r#"[a-c:=,\[\]{}"' 0-9\\é]{0,16}"#) {
            if let Err(Trouble::Bad { nearest: Some(nearest), .. }) = from_text(&text) {
                prop_assert!(from_text(&nearest).is_ok(), "{} for {}", nearest, text);
            }
        }
    }
}
