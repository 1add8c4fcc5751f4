//! From texts and nodes of a file to values of an option's kind. Flags and environment give texts, files give nodes;
//! both end in the same [`Value`], so what a value means does not depend on where it was written.

use aiperf_core::headers::is_token;
use aiperf_core::plan::{LengthPlan, RatePoint};
use aiperf_core::secret::redact_url_list;
use aiperf_core::text::{for_terminal, nearest};
use serde_json::{Map, Value as Json};

use crate::error::ConfigError;
use crate::extra;
use crate::lengths::{self, Pairs, Ratio};
use crate::objectives;
use crate::options::Id;
use crate::place::Place;
use crate::rate_series;
use crate::redact::redact_fields;
use crate::row::{Kind, Row};
use crate::yaml::{Data, Entry, Node, Scalar};

/// A value of some option.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Of [`Kind::Bool`] and [`Kind::Off`].
    Bool(bool),
    /// Of [`Kind::Int`] and [`Kind::Bytes`].
    Int(u64),
    /// Of [`Kind::Float`] and, in seconds, [`Kind::Duration`]; infinite for `inf`.
    Float(f64),
    /// Of [`Kind::Choice`] (canonical word), [`Kind::Text`], [`Kind::Path`], and the file of a [`Kind::Series`].
    Text(String),
    /// Of [`Kind::List`], and of [`Kind::Filters`] with their keys in front.
    List(Vec<String>),
    /// Of [`Kind::Headers`]: names and values.
    Headers(Vec<(String, String)>),
    /// Of [`Kind::Extra`].
    Extra(Map<String, Json>),
    /// Of [`Kind::Lengths`].
    Lengths(LengthPlan),
    /// Of [`Kind::Pairs`].
    Pairs(Pairs),
    /// Of [`Kind::Objectives`]: tags and bounds.
    Objectives(Vec<(String, f64)>),
    /// Of [`Kind::Ratio`].
    Ratio(Ratio),
    /// Of [`Kind::Series`], where its points are written out.
    Series(Vec<RatePoint>),
    /// Of [`Kind::Weights`].
    Weights(Vec<f64>),
}

/// Why a text or node is no value of its option; the place is added by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Outside of what is allowed.
    Bad { found: String, allowed: String, nearest: Option<String> },
    /// AIPerf has it.
    Later { found: String },
    /// A list where one value is meant.
    Sweep { found: String },
    /// Another shape.
    Shape { found: String, expected: String },
}

impl Trouble {
    pub(crate) fn at(self, place: Place) -> ConfigError {
        match self {
            Self::Bad { found, allowed, nearest } => ConfigError::BadValue { place, found, allowed, nearest },
            Self::Later { found } => {
                ConfigError::NotYet { place, what: format!("'{found}' is an AIPerf value") }
            }
            Self::Sweep { found } => ConfigError::Sweep { place, found },
            Self::Shape { found, expected } => ConfigError::WrongType { place, found, expected },
        }
    }

    fn bad(row: &Row, found: &str) -> Self {
        let found = match row.kind {
            Kind::Extra => for_terminal(&redact_fields(found), 200),
            _ => for_terminal(found, 200),
        };
        Self::Bad { found: format!("'{found}'"), allowed: row.kind.allowed(), nearest: None }
    }
}

/// Reads one text, from a flag or the environment.
pub(crate) fn from_text(row: &Row, text: &str) -> Result<Value, Trouble> {
    if row.sweepable && text.contains(',') {
        return Err(Trouble::Sweep { found: text.to_owned() });
    }
    let trimmed = text.trim();
    match row.kind {
        Kind::Bool | Kind::Off => parse_bool(trimmed).map(Value::Bool).ok_or_else(|| Trouble::bad(row, text)),
        Kind::Bytes { min, max } => parse_bytes(trimmed)
            .filter(|n| (min..=max).contains(n))
            .map(Value::Int)
            .ok_or_else(|| Trouble::bad(row, text)),
        Kind::Choice { words, later } => choice(row, words, later, trimmed),
        Kind::Duration { zero, endless } => parse_duration(trimmed)
            .filter(|s| fits_duration(*s, zero, endless))
            .map(Value::Float)
            .ok_or_else(|| Trouble::bad(row, text)),
        Kind::Extra => extra::from_text(text).map(Value::Extra),
        Kind::Float { min, above, max } => trimmed
            .parse()
            .ok()
            .filter(|x| fits_float(*x, min, above, max))
            .map(Value::Float)
            .ok_or_else(|| Trouble::bad(row, text)),
        Kind::Filters => filters(row, text.split(',').map(|part| part.trim().to_owned())),
        Kind::Headers => parse_headers(row, text).map(Value::Headers),
        Kind::Int { min, max } => trimmed
            .parse()
            .ok()
            .filter(|n| (min..=max).contains(n))
            .map(Value::Int)
            .ok_or_else(|| Trouble::bad(row, text)),
        Kind::Lengths => lengths::distribution_text(text).map(Value::Lengths),
        Kind::List => {
            let mut items: Vec<String> = Vec::new();
            for part in text.split(',').map(str::trim) {
                match items.last_mut() {
                    // The simulated server has lists in its query (`sim://?faults=…,…`).
                    Some(last) if last.starts_with("sim://") && !part.contains("://") => {
                        last.push(',');
                        last.push_str(part);
                    }
                    _ => items.push(part.to_owned()),
                }
            }
            list(row, items)
        }
        Kind::Pairs => lengths::pairs_text(text).map(Value::Pairs),
        Kind::Objectives => objectives::from_text(row, text),
        Kind::Path | Kind::Series if text.is_empty() => Err(Trouble::bad(row, text)),
        Kind::Path | Kind::Series | Kind::Text => Ok(Value::Text(text.to_owned())),
        Kind::Ratio => lengths::ratio_text(text).map(Value::Ratio),
        Kind::Weights => text
            .split(',')
            .map(weight)
            .collect::<Option<_>>()
            .map(Value::Weights)
            .ok_or_else(|| Trouble::bad(row, text)),
    }
}

/// Reads a node of a configuration file.
pub(crate) fn from_node(row: &Row, node: &Node) -> Result<Value, Trouble> {
    let shape = |expected: &str| Trouble::Shape { found: node.describe(), expected: expected.to_owned() };
    match (&node.data, row.kind) {
        (Data::Map(entries), Kind::Headers) => {
            let mut headers = Vec::with_capacity(entries.len());
            for entry in entries {
                let Data::Scalar(scalar) = &entry.node.data else {
                    return Err(shape("a mapping of names to texts"));
                };
                headers.push(header(row, &entry.key, &scalar.raw)?);
            }
            Ok(Value::Headers(headers))
        }
        (Data::Map(_), Kind::Extra) => match node.to_json() {
            Json::Object(map) => Ok(Value::Extra(map)),
            _ => Err(shape("a mapping")),
        },
        (Data::Scalar(s), Kind::Extra) if !s.is_null() => from_text(row, &s.raw),
        (Data::List(items), Kind::Extra) => {
            let mut all = Map::new();
            for item in items {
                match &item.data {
                    Data::Scalar(s) if !s.is_null() => all.extend(extra::from_text(&s.raw)?),
                    _ => return Err(shape("a mapping, or a list of texts key:value and key:=json")),
                }
            }
            Ok(Value::Extra(all))
        }
        (Data::Map(entries), Kind::Filters) => {
            let one = |entry: &Entry| match &entry.node.data {
                Data::Scalar(scalar) => Ok(format!("{}={}", entry.key.trim(), scalar.raw.trim())),
                Data::List(_) | Data::Map(_) => Err(shape("a mapping of names to texts")),
            };
            filters(row, entries.iter().map(one).collect::<Result<Vec<_>, _>>()?.into_iter())
        }
        (_, Kind::Extra) => Err(shape("a mapping, or texts key:value and key:=json")),
        (_, Kind::Filters | Kind::Headers) => Err(shape("a mapping")),
        (_, Kind::Objectives) => objectives::from_node(node),
        (_, Kind::Lengths) => lengths::distribution(&node.to_json()).map(Value::Lengths),
        (_, Kind::Pairs) => lengths::pairs(&node.to_json()).map(Value::Pairs),
        (_, Kind::Ratio) => lengths::ratio(&node.to_json()).map(Value::Ratio),
        (_, Kind::Series) => rate_series::from_node(node),
        (Data::List(items), Kind::Weights) => {
            let one = |item: &Node| match &item.data {
                Data::Scalar(s) => weight(&s.raw),
                Data::List(_) | Data::Map(_) => None,
            };
            items
                .iter()
                .map(one)
                .collect::<Option<_>>()
                .map(Value::Weights)
                .ok_or_else(|| shape("a list of numbers above 0"))
        }
        (Data::List(items), Kind::List) => {
            let mut texts = Vec::with_capacity(items.len());
            for item in items {
                match &item.data {
                    Data::Scalar(s) if !s.is_null() => texts.push(s.raw.trim().to_owned()),
                    _ => return Err(shape("a list of texts")),
                }
            }
            list(row, texts)
        }
        (Data::Scalar(s), Kind::List) => list(row, vec![s.raw.trim().to_owned()]),
        (Data::List(items), _) if row.sweepable => {
            let found = items.iter().map(Node::brief).collect::<Vec<_>>().join(", ");
            Err(Trouble::Sweep { found })
        }
        (Data::Map(_) | Data::List(_), kind) => Err(shape(&kind.allowed())),
        (Data::Scalar(scalar), kind) => from_scalar(row, kind, node, scalar),
    }
}

fn from_scalar(row: &Row, kind: Kind, node: &Node, scalar: &Scalar) -> Result<Value, Trouble> {
    let expected = || Trouble::Shape { found: node.describe(), expected: kind.allowed() };
    match kind {
        // A file's own true and false; the words yes, on and 1 too, because a quoted or substituted one is a text.
        Kind::Bool | Kind::Off => {
            scalar.as_bool().or_else(|| parse_bool(&scalar.raw)).map(Value::Bool).ok_or_else(expected)
        }
        Kind::Int { min, max } => match scalar.as_whole() {
            // 550.0 is how AIPerf itself writes a whole number into its files.
            Some(n) => u64::try_from(n)
                .ok()
                .filter(|n| (min..=max).contains(n))
                .map(Value::Int)
                .ok_or_else(|| Trouble::bad(row, &scalar.raw)),
            None if scalar.as_number().is_some() => Err(Trouble::bad(row, &scalar.raw)),
            None => Err(expected()),
        },
        Kind::Float { min, above, max } => match scalar.as_number() {
            Some(x) if fits_float(x, min, above, max) => Ok(Value::Float(x)),
            Some(_) => Err(Trouble::bad(row, &scalar.raw)),
            None => Err(expected()),
        },
        Kind::Duration { zero, endless } => {
            match scalar.as_number().or_else(|| parse_duration(scalar.raw.trim())) {
                Some(s) if fits_duration(s, zero, endless) => Ok(Value::Float(s)),
                Some(_) => Err(Trouble::bad(row, &scalar.raw)),
                None => Err(expected()),
            }
        }
        Kind::Text | Kind::Path if scalar.as_bool().is_some() => Err(expected()),
        _ => from_text(row, &scalar.raw),
    }
}

/// A share of several: a number above 0.
pub(crate) fn weight(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|w| w.is_finite() && *w > 0.0)
}

/// The words for true and false that AIPerf's command line takes.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// Seconds of `30`, `1.5 s`, `5m`, `2 hours`, `inf`.
fn parse_duration(text: &str) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    if matches!(lower.as_str(), "inf" | "infinity") {
        return Some(f64::INFINITY);
    }
    let digits = lower.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(digits);
    let factor = match unit {
        "" | "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" | "hr" | "hour" => 3600.0,
        _ => return None,
    };
    number.trim().parse::<f64>().ok().map(|n| n * factor)
}

/// At most a thousand million seconds, so that sums of nanoseconds cannot overflow.
fn fits_duration(seconds: f64, zero: bool, endless: bool) -> bool {
    if seconds == f64::INFINITY {
        return endless;
    }
    (seconds > 0.0 || (zero && seconds == 0.0)) && seconds <= 1e9
}

fn fits_float(x: f64, min: f64, above: bool, max: f64) -> bool {
    x.is_finite() && x <= max && if above { x > min } else { x >= min }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

fn folded(word: &str) -> String {
    word.to_lowercase().replace('-', "_")
}

fn choice(row: &Row, words: &[&str], later: &[&str], text: &str) -> Result<Value, Trouble> {
    let wanted = folded(text);
    for word in words {
        let mut spellings = word.split('|');
        let canonical = spellings.next().unwrap_or(word);
        if wanted == canonical || spellings.any(|s| s == wanted) {
            return Ok(Value::Text(canonical.to_owned()));
        }
    }
    if later.contains(&wanted.as_str()) {
        return Err(Trouble::Later { found: text.to_owned() });
    }
    let near = nearest(&wanted, words.iter().flat_map(|w| w.split('|'))).map(str::to_owned);
    let text = for_terminal(text, 200);
    Err(Trouble::Bad { found: format!("'{text}'"), allowed: row.kind.allowed(), nearest: near })
}

fn list(row: &Row, items: Vec<String>) -> Result<Value, Trouble> {
    if items.is_empty() || items.iter().any(String::is_empty) {
        let joined = items.join(",");
        let shown = if row.id == Id::Url { redact_url_list(&joined) } else { joined };
        return Err(Trouble::Bad {
            found: format!("'{shown}'"),
            allowed: "texts that are not empty".to_owned(),
            nearest: None,
        });
    }
    Ok(Value::List(items))
}

/// Each `key=value`, without the blanks around both.
fn filters(row: &Row, items: impl Iterator<Item = String>) -> Result<Value, Trouble> {
    let one = |item: String| match item.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok(format!("{key}={value}")),
        _ => Err(Trouble::bad(row, &item)),
    };
    items.map(one).collect::<Result<_, _>>().map(Value::List)
}

/// `name:value`, several separated by commas; a comma that no `name:` follows belongs to the value.
fn parse_headers(row: &Row, text: &str) -> Result<Vec<(String, String)>, Trouble> {
    if text.trim_start().starts_with('{') {
        let map: Map<String, Json> = serde_json::from_str(text.trim()).map_err(|_| not_a_header(row))?;
        return map
            .iter()
            .map(|(name, value)| match value {
                Json::String(value) => header(row, name, value),
                other => header(row, name, &other.to_string()),
            })
            .collect();
    }
    let mut headers: Vec<(String, String)> = Vec::new();
    for part in text.split(',') {
        match (part.split_once(':').filter(|(name, _)| is_token(name.trim())), headers.last_mut()) {
            (Some((name, value)), _) => headers.push((name.trim().to_owned(), value.trim().to_owned())),
            (None, Some((_, value))) => {
                value.push(',');
                value.push_str(part.trim_end());
            }
            (None, None) => return Err(not_a_header(row)),
        }
    }
    headers.into_iter().map(|(name, value)| header(row, &name, &value)).collect()
}

/// The text itself is not shown: it may be a credential with a slip in front.
fn not_a_header(row: &Row) -> Trouble {
    Trouble::Bad {
        found: "a text that names no header (not shown, it may be a secret)".to_owned(),
        allowed: row.kind.allowed(),
        nearest: None,
    }
}

fn header(row: &Row, name: &str, value: &str) -> Result<(String, String), Trouble> {
    if !is_token(name) {
        return Err(not_a_header(row));
    }
    if value.chars().any(|c| c.is_control() && c != '\t') {
        return Err(Trouble::Bad {
            found: format!("control characters in the value of {name}"),
            allowed: "printable text".to_owned(),
            nearest: None,
        });
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::row_of;

    fn read(id: Id, text: &str) -> Result<Value, Trouble> {
        from_text(row_of(id), text)
    }

    #[test]
    fn header_values_are_text_and_keep_their_commas() {
        let headers = |text: &str| match read(Id::Header, text) {
            Ok(Value::Headers(h)) => h,
            other => panic!("{other:?}"),
        };
        assert_eq!(headers("X:123"), [("X".into(), "123".into())]);
        assert_eq!(headers("a:b,c: d"), [("a".into(), "b".into()), ("c".into(), "d".into())]);
        assert_eq!(
            headers("Accept:text/html, image/png"),
            [("Accept".into(), "text/html, image/png".into())]
        );
        assert_eq!(headers("R:http://h/x"), [("R".into(), "http://h/x".into())]);
        assert_eq!(headers(r#"{"a":"b"}"#), [("a".into(), "b".into())]);
    }

    #[test]
    fn a_broken_header_is_refused_without_being_shown() {
        for text in ["Bearer sk-secret", "a b:sk-secret", "a:sk-secret\r\nb:c", "{sk-secret"] {
            let error = read(Id::Header, text).expect_err("refused").at(Place::Flag("-H".into())).to_string();
            assert!(!error.contains("sk-secret"), "{error}");
        }
    }

    #[test]
    fn durations_take_the_units_of_the_reference() {
        for (text, seconds) in
            [("30", 30.0), ("1.5s", 1.5), ("5m", 300.0), ("5 MIN", 300.0), ("2h", 7200.0), ("1hour", 3600.0)]
        {
            assert_eq!(read(Id::Duration, text), Ok(Value::Float(seconds)), "{text}");
        }
        for text in ["0", "-1", "nan", "5x", "", "s", "1e300"] {
            assert!(read(Id::Duration, text).is_err(), "{text}");
        }
        assert!(read(Id::RequestTimeout, "inf").is_err());
        assert_eq!(read(Id::Duration, "inf"), Ok(Value::Float(f64::INFINITY)));
        assert_eq!(read(Id::Grace, "inf"), Ok(Value::Float(f64::INFINITY)));
        assert_eq!(read(Id::Grace, "0"), Ok(Value::Float(0.0)));
    }

    #[test]
    fn sizes_take_decimal_and_binary_units() {
        for (text, bytes) in [("10MiB", 10 << 20), ("4096", 4096), ("2 kb", 2000), ("1GB", 1_000_000_000)] {
            assert_eq!(read(Id::MaxResponseBytes, text), Ok(Value::Int(bytes)), "{text}");
        }
        for text in ["", "x", "1.5MiB", "-1", "1", "99999999999999GiB", "18446744073709551615k"] {
            assert!(read(Id::MaxResponseBytes, text).is_err(), "{text}");
        }
    }

    #[test]
    fn words_ignore_case_and_dashes() {
        assert_eq!(
            read(Id::ArrivalPattern, "CONCURRENCY-BURST"),
            Ok(Value::Text("concurrency_burst".into()))
        );
        assert_eq!(read(Id::LogLevel, "Critical"), Ok(Value::Text("error".into())));
        assert_eq!(read(Id::EndpointType, "Image-Edit"), Err(Trouble::Later { found: "Image-Edit".into() }));
        let Err(Trouble::Bad { nearest, .. }) = read(Id::EndpointType, "chatt") else { panic!("accepted") };
        assert_eq!(nearest.as_deref(), Some("chat"));
    }

    #[test]
    fn a_comma_list_on_a_sweepable_option_is_a_sweep() {
        assert_eq!(read(Id::Concurrency, "1,2,4"), Err(Trouble::Sweep { found: "1,2,4".into() }));
    }
}
