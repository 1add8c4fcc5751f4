//! A rate over time as users write it: points of time and rate, in a file of their own or in the configuration.

use std::path::Path;

use aiperf_core::plan::RatePoint;
use aiperf_core::text::{for_terminal, nearest};
use aiperf_core::time::seconds_to_ns;
use serde_json::{Map, Value as Json};

use crate::value::{Trouble, Value};
use crate::yaml::{Data, Node, read_bounded};

/// Largest file of points.
const MAX_BYTES: u64 = 16 << 20;
/// As far as the clock reaches, seconds.
const MOST_SECONDS: f64 = 1e9;
/// The rates that an option takes.
const RATES: std::ops::RangeInclusive<f64> = 0.000_001..=1_000_000_000.0;

/// What a file has below `rate_series`: a path, points, or a mapping with one of the two.
pub(crate) fn from_node(node: &Node) -> Result<Value, Trouble> {
    let expected = "a path, a list of points {time_s, qps}, or one of {path} and {points}";
    let shape = || Trouble::Shape { found: node.describe(), expected: expected.to_owned() };
    match &node.data {
        Data::Scalar(s) if s.is_text() && !s.raw.is_empty() => Ok(Value::Text(s.raw.clone())),
        Data::Scalar(_) => Err(shape()),
        Data::List(_) => inline(&node.to_json()),
        Data::Map(entries) => match &entries[..] {
            [one] if one.key == "path" => match &one.node.data {
                Data::Scalar(s) if s.is_text() && !s.raw.is_empty() => Ok(Value::Text(s.raw.clone())),
                _ => Err(Trouble::Shape { found: one.node.describe(), expected: "a path".to_owned() }),
            },
            [one] if one.key == "points" => inline(&one.node.to_json()),
            [_, _, ..] | [] => Err(Trouble::Bad {
                found: "both or neither of path and points".to_owned(),
                allowed: "one of the two".to_owned(),
                nearest: None,
            }),
            [one] => Err(Trouble::Bad {
                found: format!("the key '{}'", for_terminal(&one.key, 40)),
                allowed: "path, points".to_owned(),
                nearest: nearest(&one.key, ["path", "points"]).map(str::to_owned),
            }),
        },
    }
}

fn inline(json: &Json) -> Result<Value, Trouble> {
    points(json).map(Value::Series).map_err(|found| Trouble::Bad {
        found,
        allowed: "at least two points {time_s, qps} with growing times and rates above 0".to_owned(),
        nearest: None,
    })
}

/// The points of the file `path`, or what is wrong with it, with a verb.
pub(crate) fn read(path: &Path) -> Result<Vec<RatePoint>, String> {
    let bytes = read_bounded(path, MAX_BYTES)?;
    let document: Json = serde_json::from_slice(&bytes).map_err(|e| format!("is not valid JSON: {e}"))?;
    let list = match &document {
        Json::Array(_) => &document,
        Json::Object(map) => match map.get("points") {
            Some(list) if map.len() == 1 => list,
            _ => return Err("holds an object with other keys than 'points' alone".to_owned()),
        },
        _ => return Err("holds neither a list of points nor an object with 'points'".to_owned()),
    };
    points(list).map_err(|problem| format!("does not hold a rate series: found {problem}"))
}

/// The points of a list, or what was found that is none.
fn points(list: &Json) -> Result<Vec<RatePoint>, String> {
    let Json::Array(items) = list else { return Err("points that are no list".to_owned()) };
    let mut out: Vec<RatePoint> = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let point = point(item).map_err(|found| format!("points[{i}]{found}"))?;
        if let Some(before) = out.last()
            && point.at_ns <= before.at_ns
        {
            return Err(format!("points[{i}].time_s, which is not later than that of points[{}]", i - 1));
        }
        out.push(point);
    }
    match out.len() {
        0 => Err("no points".to_owned()),
        1 => Err("one point alone".to_owned()),
        _ => Ok(out),
    }
}

fn point(item: &Json) -> Result<RatePoint, String> {
    let Json::Object(map) = item else { return Err(format!(", which is {}", brief(item))) };
    if let Some(stranger) = map.keys().find(|k| !["time_s", "timeS", "qps"].contains(&k.as_str())) {
        return Err(format!(" with the key '{}'", for_terminal(stranger, 40)));
    }
    if map.contains_key("time_s") && map.contains_key("timeS") {
        return Err(" with both time_s and timeS".to_owned());
    }
    let seconds = number(map, &["time_s", "timeS"])?;
    let qps = number(map, &["qps"])?;
    if !(0.0..=MOST_SECONDS).contains(&seconds) {
        return Err(format!(".time_s {seconds}, which is not from 0 to {MOST_SECONDS} seconds"));
    }
    if !RATES.contains(&qps) {
        return Err(format!(".qps {qps}, which is not from {} to {}", RATES.start(), RATES.end()));
    }
    Ok(RatePoint { at_ns: seconds_to_ns(seconds), per_second: qps })
}

fn number(map: &Map<String, Json>, names: &[&str]) -> Result<f64, String> {
    let Some(value) = names.iter().find_map(|name| map.get(*name)) else {
        return Err(format!(" without {}", names[0]));
    };
    value.as_f64().ok_or_else(|| format!(".{} that is no number: {}", names[0], brief(value)))
}

fn brief(value: &Json) -> String {
    for_terminal(&value.to_string(), 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn points_are_taken_in_order_and_told_by_their_index() {
        let at = |seconds: u64, per_second| RatePoint { at_ns: seconds * 1_000_000_000, per_second };
        assert_eq!(
            points(&json!([{"time_s": 0, "qps": 1}, {"timeS": 5, "qps": 0.5}])),
            Ok(vec![at(0, 1.0), at(5, 0.5)])
        );
        for (list, found) in [
            (json!([]), "no points"),
            (json!([{"time_s": 0, "qps": 1}]), "one point alone"),
            (json!({"a": 1}), "points that are no list"),
            (json!([{"time_s": 0, "qps": 1}, 7]), "points[1], which is 7"),
            (json!([{"time_s": 0, "rate": 1}]), "points[0] with the key 'rate'"),
            (json!([{"time_s": 0}]), "points[0] without qps"),
            (json!([{"qps": 3}]), "points[0] without time_s"),
            (json!([{"time_s": "0", "qps": 1}]), "points[0].time_s that is no number: \"0\""),
            (
                json!([{"time_s": -1, "qps": 1}]),
                "points[0].time_s -1, which is not from 0 to 1000000000 seconds",
            ),
            (json!([{"time_s": 0, "qps": 0}]), "points[0].qps 0, which is not from 0.000001 to 1000000000"),
            (json!([{"time_s": 0, "timeS": 0, "qps": 1}]), "points[0] with both time_s and timeS"),
            (
                json!([{"time_s": 1, "qps": 1}, {"time_s": 3, "qps": 1}, {"time_s": 3, "qps": 1}]),
                "points[2].time_s, which is not later than that of points[1]",
            ),
        ] {
            assert_eq!(points(&list), Err(found.to_owned()), "{list}");
        }
    }
}
