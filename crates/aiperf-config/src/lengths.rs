//! How lengths are written: distributions, pairs of lengths, and range ratios, as JSON from a flag or a node of a file.

use aiperf_core::plan::{LengthPair, LengthPlan, LengthShape, Weighted};
use aiperf_core::text::{for_terminal, nearest};
use serde_json::{Map, Value as Json};

use crate::value::Trouble;
use crate::yaml;

/// Tokens of the longest prompt or answer.
pub(crate) const MOST_TOKENS: f64 = 10_000_000.0;
/// How far the probabilities of pairs may be from 100 in sum.
const SUM_SLACK: f64 = 1e-4;

const DISTRIBUTION: &str = "a length, {mean, stddev}, {mean, median}, {peaks: [{mean, stddev, weight}, …]}, \
                            {points: [{value, weight}, …]} or {value}, with min and max where wanted";
const PAIRS: &str = "'ISL[|stddev],OSL[|stddev]:percent' joined by ';', '[(ISL,OSL):percent, …]', or \
                     '{\"pairs\": [{\"isl\", \"osl\", \"prob\"}, …]}'; percents add up to 100";
const RATIO: &str = "a number, or {\"input\": A, \"output\": B}";

/// Shares of the input and the output length that make their windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    pub input: f64,
    pub output: f64,
}

impl Ratio {
    /// The number that counts for both lengths, if it is one.
    pub(crate) fn single(self) -> Option<f64> {
        self.input.total_cmp(&self.output).is_eq().then_some(self.input)
    }
}

/// Lengths that are drawn together, by weight.
pub(crate) type Pairs = Vec<Weighted<LengthPair>>;

/// What is allowed, as errors and the reference page say it.
pub(crate) const fn allowed_distribution() -> &'static str {
    DISTRIBUTION
}

/// What is allowed, as errors and the reference page say it.
pub(crate) const fn allowed_pairs() -> &'static str {
    PAIRS
}

/// What is allowed, as errors and the reference page say it.
pub(crate) const fn allowed_ratio() -> &'static str {
    RATIO
}

fn bad(found: impl Into<String>, allowed: &str) -> Trouble {
    Trouble::Bad { found: for_terminal(&found.into(), 200), allowed: allowed.to_owned(), nearest: None }
}

/// A JSON value as a message shows it.
fn shown(value: &Json) -> String {
    format!(
        "'{}'",
        match value {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        }
    )
}

/// A distribution from the text of a flag: a number or a JSON object.
pub(crate) fn distribution_text(text: &str) -> Result<LengthPlan, Trouble> {
    let json = serde_json::from_str(text.trim()).ok();
    // As a file has it, where keys need no quotes.
    let yaml =
        || yaml::parse(&"".into(), text).ok().map(|node| node.to_json()).filter(|json| !json.is_string());
    let json = json.or_else(yaml).filter(|json| !json.is_null());
    distribution(&json.ok_or_else(|| bad(format!("'{text}'"), DISTRIBUTION))?)
}

/// A distribution.
pub(crate) fn distribution(json: &Json) -> Result<LengthPlan, Trouble> {
    length(json, "")
}

/// A distribution at `at`, a path for messages.
fn length(json: &Json, at: &str) -> Result<LengthPlan, Trouble> {
    match json {
        Json::Object(map) => shape(map, at, &[]),
        other => Ok(LengthPlan::normal(number(other, at, &Range::LENGTH)?, 0.0)),
    }
}

/// Numbers that are allowed.
struct Range {
    above_zero: bool,
    most: f64,
}

impl Range {
    const LENGTH: Self = Self { above_zero: false, most: MOST_TOKENS };
    const ABOVE_ZERO: Self = Self { above_zero: true, most: MOST_TOKENS };
    const WEIGHT: Self = Self { above_zero: false, most: 1e12 };

    fn allowed(&self) -> String {
        let from = if self.above_zero { "above" } else { "from" };
        format!("a number {from} 0 to {}", self.most)
    }
}

/// A number, or the text of one: references to the environment give texts.
fn number(json: &Json, at: &str, range: &Range) -> Result<f64, Trouble> {
    let found = match json {
        Json::Number(n) => n.as_f64(),
        Json::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    found
        .filter(|n: &f64| {
            n.is_finite() && *n <= range.most && if range.above_zero { *n > 0.0 } else { *n >= 0.0 }
        })
        .ok_or_else(|| bad(format!("{}{}", named(at), shown(json)), &range.allowed()))
}

/// `at`, before what was found there.
fn named(at: &str) -> String {
    if at.is_empty() { String::new() } else { format!("{at}: ") }
}

fn below(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") }
}

/// The keys that one form of distribution has.
fn form(map: &Map<String, Json>, at: &str) -> Result<&'static [&'static str], Trouble> {
    const FORMS: [(&str, &[&str]); 5] = [
        ("peaks", &["peaks"]),
        ("points", &["points"]),
        ("median", &["mean", "median"]),
        ("mean", &["mean", "stddev"]),
        ("value", &["value"]),
    ];
    FORMS
        .iter()
        .find(|(mark, _)| map.contains_key(*mark))
        .map(|(_, keys)| *keys)
        .ok_or_else(|| bad(format!("{}{}", named(at), shown(&Json::Object(map.clone()))), DISTRIBUTION))
}

/// A distribution that is a mapping; `also` may stand in it too.
fn shape(map: &Map<String, Json>, at: &str, also: &[&str]) -> Result<LengthPlan, Trouble> {
    let map = &with_snake_keys(map);
    let keys = form(map, at)?;
    let allowed: Vec<&str> = keys.iter().chain(&["min", "max", "type"]).chain(also).copied().collect();
    only(map, at, &allowed)?;
    let get = |key: &str, range: &Range, default: Option<f64>| match (map.get(key), default) {
        (Some(value), _) if !value.is_null() => number(value, &below(at, key), range),
        (_, Some(default)) => Ok(default),
        _ => Err(bad(format!("{}no '{key}'", named(at)), &range.allowed())),
    };
    let shape = match keys[0] {
        "peaks" => LengthShape::Peaks(items(map, "peaks", at, 2, |item, at| {
            let Json::Object(peak) = item else {
                return Ok(Weighted { item: length(item, at)?, weight: 1.0 });
            };
            let weight = weight(peak, at, &Range::WEIGHT)?;
            let item = match peak.get("distribution") {
                Some(inner) => {
                    only(peak, at, &["distribution", "weight"])?;
                    length(inner, &below(at, "distribution"))?
                }
                None => shape(peak, at, &["weight"])?,
            };
            Ok(Weighted { item, weight })
        })?),
        "points" => LengthShape::Points(items(map, "points", at, 1, |item, at| {
            let Json::Object(point) = item else {
                return Ok(Weighted { item: number(item, at, &Range::LENGTH)?, weight: 1.0 });
            };
            only(point, at, &["value", "weight"])?;
            let value = point.get("value").unwrap_or(&Json::Null);
            let item = number(value, &below(at, "value"), &Range::LENGTH)?;
            Ok(Weighted { item, weight: weight(point, at, &Range::ABOVE_ZERO)? })
        })?),
        "value" => LengthShape::Normal { mean: get("value", &Range::LENGTH, None)?, stddev: 0.0 },
        _ if keys.contains(&"median") => {
            let (mean, median) =
                (get("mean", &Range::ABOVE_ZERO, None)?, get("median", &Range::ABOVE_ZERO, None)?);
            if median > mean {
                return Err(bad(
                    format!("{}a median of {median} with a mean of {mean}", named(at)),
                    "a median that is at most the mean: a log-normal distribution leans to long lengths",
                ));
            }
            LengthShape::LogNormal { mean, median }
        }
        _ => LengthShape::Normal {
            mean: get("mean", &Range::LENGTH, None)?,
            stddev: get("stddev", &Range::LENGTH, Some(0.0))?,
        },
    };
    said_type(map, at, &shape, keys[0])?;
    let bound = |key| match map.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => number(value, &below(at, key), &Range::LENGTH).map(Some),
    };
    let (least, most) = (bound("min")?, bound("max")?);
    if let (Some(least), Some(most)) = (least, most)
        && least > most
    {
        return Err(bad(
            format!("{}min {least} above max {most}", named(at)),
            "a min that is at most the max",
        ));
    }
    Ok(LengthPlan { shape, least, most })
}

/// A `type` may be written, and then it must be that of the other keys.
fn said_type(map: &Map<String, Json>, at: &str, shape: &LengthShape, first: &str) -> Result<(), Trouble> {
    let Some(said) = map.get("type").filter(|t| !t.is_null()) else { return Ok(()) };
    let is = match shape {
        LengthShape::Normal { .. } if first == "value" => "fixed",
        LengthShape::Normal { .. } => "normal",
        LengthShape::LogNormal { .. } => "lognormal",
        LengthShape::Peaks(_) => "multimodal",
        LengthShape::Points(_) => "empirical",
    };
    if said.as_str() == Some(is) {
        return Ok(());
    }
    Err(bad(format!("{}type {}", named(at), shown(said)), &format!("'{is}', which the other keys say")))
}

fn weight(map: &Map<String, Json>, at: &str, range: &Range) -> Result<f64, Trouble> {
    match map.get("weight") {
        None | Some(Json::Null) => Ok(1.0),
        Some(value) => number(value, &below(at, "weight"), range),
    }
}

/// The items of a list in a mapping, at least `least` of them and one with a weight above 0.
fn items<T>(
    map: &Map<String, Json>,
    key: &str,
    at: &str,
    least: usize,
    read: impl Fn(&Json, &str) -> Result<Weighted<T>, Trouble>,
) -> Result<Vec<Weighted<T>>, Trouble> {
    let at = below(at, key);
    let list = map.get(key).and_then(Json::as_array).filter(|list| list.len() >= least);
    let Some(list) = list else {
        let found = map.get(key).unwrap_or(&Json::Null);
        let many = if least == 1 { "1 item".to_owned() } else { format!("{least} items") };
        return Err(bad(format!("{at}: {}", shown(found)), &format!("a list of at least {many}")));
    };
    let items: Vec<Weighted<T>> = list
        .iter()
        .enumerate()
        .map(|(i, item)| read(item, &format!("{at}[{i}]")))
        .collect::<Result<_, _>>()?;
    if items.iter().all(|i| i.weight <= 0.0) {
        return Err(bad(format!("{at}: no weight above 0"), "weights of which one is above 0"));
    }
    Ok(items)
}

fn only(map: &Map<String, Json>, at: &str, allowed: &[&str]) -> Result<(), Trouble> {
    match map.keys().find(|key| !allowed.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(Trouble::Bad {
            found: format!("{}the key '{}'", named(at), for_terminal(key, 60)),
            allowed: allowed.join(", "),
            nearest: nearest(key, allowed.iter().copied()).map(str::to_owned),
        }),
    }
}

/// The same mapping with `stdDev` for no key: files may spell keys in camelCase, but these have one word each.
fn with_snake_keys(map: &Map<String, Json>) -> Map<String, Json> {
    map.iter().map(|(key, value)| (key.to_lowercase(), value.clone())).collect()
}

/// Pairs of lengths from the text of a flag, in any of the three forms.
pub(crate) fn pairs_text(text: &str) -> Result<Pairs, Trouble> {
    let trimmed = text.trim();
    let refuse = || bad(format!("'{text}'"), PAIRS);
    let pairs = if trimmed.starts_with('{') {
        let json: Json = serde_json::from_str(trimmed).map_err(|_| refuse())?;
        let list = json.get("pairs").and_then(Json::as_array).ok_or_else(refuse)?;
        list.iter().enumerate().map(|(i, item)| json_pair(item, i)).collect::<Result<Pairs, _>>()?
    } else if let Some(inner) = trimmed.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        let mut rest = inner.trim();
        let mut pairs = Pairs::new();
        while !rest.is_empty() {
            let (lengths, behind) =
                rest.strip_prefix('(').and_then(|r| r.split_once(')')).ok_or_else(refuse)?;
            let behind = behind.trim_start().strip_prefix(':').ok_or_else(refuse)?;
            let (percent, behind) = behind.split_once(',').unwrap_or((behind, ""));
            pairs.push(
                written_pair(lengths, percent)
                    .ok_or_else(|| bad(format!("'({lengths}):{percent}' in '{text}'"), PAIRS))?,
            );
            rest = behind.trim_start();
        }
        pairs
    } else {
        let segments = trimmed.split(';').filter(|s| !s.trim().is_empty());
        let read = |segment: &str| {
            let pair = segment.rsplit_once(':').and_then(|(lengths, percent)| written_pair(lengths, percent));
            pair.ok_or_else(|| bad(format!("'{segment}' in '{text}'"), PAIRS))
        };
        segments.map(read).collect::<Result<Pairs, _>>()?
    };
    whole(pairs, &format!("'{text}'"))
}

/// Pairs of lengths from a file: `[{isl, osl, probability}]`, where lengths may be distributions.
pub(crate) fn pairs(json: &Json) -> Result<Pairs, Trouble> {
    if let Json::String(text) = json {
        return pairs_text(text);
    }
    let list = json.as_array().ok_or_else(|| bad(shown(json), "a list of {isl, osl, probability}"))?;
    let read = |(i, item): (usize, &Json)| {
        let at = format!("[{i}]");
        let Json::Object(map) = item else {
            return Err(bad(format!("{at}: {}", shown(item)), "{isl, osl, probability}"));
        };
        only(map, &at, &["isl", "osl", "probability"])?;
        let get = |key: &str| map.get(key).unwrap_or(&Json::Null);
        let isl = length(get("isl"), &below(&at, "isl"))?;
        let osl = length(get("osl"), &below(&at, "osl"))?;
        let weight = number(get("probability"), &below(&at, "probability"), &PERCENT)?;
        Ok(Weighted { item: LengthPair { isl, osl }, weight })
    };
    whole(list.iter().enumerate().map(read).collect::<Result<_, _>>()?, "probabilities")
}

const PERCENT: Range = Range { above_zero: false, most: 100.0 };

fn whole(pairs: Pairs, found: &str) -> Result<Pairs, Trouble> {
    if pairs.is_empty() {
        return Err(bad(found, PAIRS));
    }
    let sum: f64 = pairs.iter().map(|p| p.weight).sum();
    if (sum - 100.0).abs() > SUM_SLACK {
        return Err(bad(format!("{found} that add up to {sum}"), "percents that add up to 100"));
    }
    Ok(pairs)
}

/// `256|10,128|5` and `40`.
fn written_pair(lengths: &str, percent: &str) -> Option<Weighted<LengthPair>> {
    let (isl, osl) = lengths.split_once(',')?;
    let weight = plain(percent).filter(|p| *p <= 100.0)?;
    Some(Weighted { item: LengthPair { isl: written_length(isl)?, osl: written_length(osl)? }, weight })
}

/// `256` or `256|10`.
fn written_length(text: &str) -> Option<LengthPlan> {
    let (mean, stddev) = match text.split_once('|') {
        Some((mean, stddev)) => (mean, plain(stddev)?),
        None => (text, 0.0),
    };
    let mean: u64 = mean.trim().parse().ok()?;
    let fits = (1.0..=MOST_TOKENS).contains(&(mean as f64)) && stddev <= MOST_TOKENS;
    fits.then(|| LengthPlan::normal(mean as f64, stddev))
}

/// A decimal without sign or exponent.
fn plain(text: &str) -> Option<f64> {
    let text = text.trim();
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse().ok().filter(|_| is_plain)
}

/// `{"isl": 256, "osl": 128, "prob": 40}` with standard deviations where wanted.
fn json_pair(json: &Json, index: usize) -> Result<Weighted<LengthPair>, Trouble> {
    let at = format!("pairs[{index}]");
    let Json::Object(map) = json else { return Err(bad(format!("{at}: {}", shown(json)), PAIRS)) };
    only(map, &at, &["isl", "osl", "prob", "isl_stddev", "osl_stddev"])?;
    let get = |key: &str, range: &Range| number(map.get(key).unwrap_or(&Json::Null), &below(&at, key), range);
    let spread = |key: &str| if map.contains_key(key) { get(key, &Range::LENGTH) } else { Ok(0.0) };
    let isl = LengthPlan::normal(get("isl", &Range::ABOVE_ZERO)?, spread("isl_stddev")?);
    let osl = LengthPlan::normal(get("osl", &Range::ABOVE_ZERO)?, spread("osl_stddev")?);
    Ok(Weighted { item: LengthPair { isl, osl }, weight: get("prob", &PERCENT)? })
}

/// A range ratio from the text of a flag.
pub(crate) fn ratio_text(text: &str) -> Result<Ratio, Trouble> {
    let trimmed = text.trim();
    if trimmed.starts_with('{') {
        let json = serde_json::from_str(trimmed).map_err(|_| bad(format!("'{text}'"), RATIO))?;
        return ratio(&json);
    }
    let one = trimmed.parse().ok().filter(|r: &f64| (0.0..=1.0).contains(r));
    one.map(|r| Ratio { input: r, output: r })
        .ok_or_else(|| bad(format!("'{text}'"), &format!("{RATIO}, from 0 to 1")))
}

/// A range ratio from a file.
pub(crate) fn ratio(json: &Json) -> Result<Ratio, Trouble> {
    const SHARE: Range = Range { above_zero: false, most: 1.0 };
    match json {
        Json::String(text) => ratio_text(text),
        Json::Object(map) => {
            only(map, "", &["input", "output"])?;
            let get = |key: &str| number(map.get(key).unwrap_or(&Json::Null), key, &SHARE);
            Ok(Ratio { input: get("input")?, output: get("output")? })
        }
        other => number(other, "", &SHARE).map(|r| Ratio { input: r, output: r }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use serde_json::json;

    fn said<T: std::fmt::Debug>(result: Result<T, Trouble>) -> String {
        result.expect_err("refused").at(Place::Flag("--x".into())).to_string()
    }

    #[test]
    fn every_shape_is_read() {
        let read = |json: Json| distribution(&json).expect("a distribution");
        assert_eq!(read(json!(128)), LengthPlan::normal(128.0, 0.0));
        assert_eq!(read(json!({"value": 128, "type": "fixed"})), LengthPlan::normal(128.0, 0.0));
        assert_eq!(
            read(json!({"mean": 550, "stddev": 0.9, "type": "normal"})),
            LengthPlan::normal(550.0, 0.9)
        );
        assert_eq!(
            read(json!({"mean": 500, "median": 300, "min": 10, "max": null, "type": "lognormal"})),
            LengthPlan {
                shape: LengthShape::LogNormal { mean: 500.0, median: 300.0 },
                least: Some(10.0),
                most: None
            }
        );
        let peaks = read(json!({"peaks": [
            {"mean": 128, "stddev": 20, "weight": 60},
            {"distribution": {"mean": 2048, "median": 1024, "max": 9000}, "weight": "40"},
            7
        ]}));
        let LengthShape::Peaks(peaks) = peaks.shape else { panic!("{peaks:?}") };
        assert_eq!(peaks[0], Weighted { item: LengthPlan::normal(128.0, 20.0), weight: 60.0 });
        assert_eq!((peaks[1].weight, peaks[1].item.most), (40.0, Some(9000.0)));
        assert_eq!(peaks[2], Weighted { item: LengthPlan::normal(7.0, 0.0), weight: 1.0 });
        let points =
            read(json!({"points": [{"value": 100}, {"value": 200, "weight": 3}], "type": "empirical"}));
        let points_of = |items: &[(f64, f64)]| {
            LengthShape::Points(
                items.iter().map(|(item, weight)| Weighted { item: *item, weight: *weight }).collect(),
            )
        };
        assert_eq!(points.shape, points_of(&[(100.0, 1.0), (200.0, 3.0)]));
        assert_eq!(distribution_text(" {\"mean\": 9} ").ok(), Some(LengthPlan::normal(9.0, 0.0)));
        assert_eq!(distribution_text("{mean: 9, stddev: 2}").ok(), Some(LengthPlan::normal(9.0, 2.0)));
    }

    #[test]
    fn a_wrong_distribution_is_told_by_its_part() {
        for (json, message) in [
            (json!({"mean": -1}), "--x: found mean: '-1'; allowed: a number from 0 to 10000000"),
            (
                json!({"mean": 10, "stdev": 2}),
                "found the key 'stdev'; allowed: mean, stddev, min, max, type; did you mean 'stddev'?",
            ),
            (json!({"mean": 100, "median": 300}), "found a median of 300 with a mean of 100"),
            (json!({"median": 300}), "found no 'mean'; allowed: a number above 0"),
            (
                json!({"peaks": [{"mean": 1}]}),
                "found peaks: '[{\"mean\":1}]'; allowed: a list of at least 2 items",
            ),
            (json!({"peaks": [{"mean": 1, "weight": -1}, {"mean": 2}]}), "found peaks[0].weight: '-1'"),
            (
                json!({"peaks": [{"mean": 1, "weight": 0}, {"mean": 2, "weight": 0}]}),
                "peaks: no weight above 0",
            ),
            (json!({"points": []}), "found points: '[]'; allowed: a list of at least 1 item"),
            (
                json!({"points": [{"value": 5, "weight": 0}]}),
                "found points[0].weight: '0'; allowed: a number above 0",
            ),
            (json!({"points": [{"weight": 5}]}), "found points[0].value: 'null'"),
            (json!({"mean": 10, "min": 20, "max": 5}), "found min 20 above max 5"),
            (
                json!({"mean": 10, "type": "lognormal"}),
                "found type 'lognormal'; allowed: 'normal', which the other keys say",
            ),
            (json!({"median_": 3}), "allowed: a length, {mean, stddev}"),
            (json!(true), "found 'true'"),
            (json!({"value": 1e300}), "found value: '1e+300'; allowed: a number from 0 to 10000000"),
        ] {
            let error = said(distribution(&json));
            assert!(error.contains(message), "{json}: {error}");
        }
        for text in ["{mean: 3", "many"] {
            assert!(said(distribution_text(text)).contains(&format!("found '{text}'")), "{text}");
        }
    }

    /// The reference's own cases (goldens, seq_dist).
    #[test]
    fn pairs_are_read_in_three_forms() {
        let flat = |pairs: &Pairs| -> Vec<[f64; 5]> {
            let parts = |plan: &LengthPlan| match plan.shape {
                LengthShape::Normal { mean, stddev } => (mean, stddev),
                _ => panic!("{plan:?}"),
            };
            pairs
                .iter()
                .map(|p| {
                    let ((isl, isl_sd), (osl, osl_sd)) = (parts(&p.item.isl), parts(&p.item.osl));
                    [isl, isl_sd, osl, osl_sd, p.weight]
                })
                .collect()
        };
        for (text, want) in [
            ("256,128:100", vec![[256.0, 0.0, 128.0, 0.0, 100.0]]),
            (
                "256|10,128|5:40;512|20,256|10:60",
                vec![[256.0, 10.0, 128.0, 5.0, 40.0], [512.0, 20.0, 256.0, 10.0, 60.0]],
            ),
            (" 256 , 128 : 100 ", vec![[256.0, 0.0, 128.0, 0.0, 100.0]]),
            (
                "[(256,128):40,(512,256):60]",
                vec![[256.0, 0.0, 128.0, 0.0, 40.0], [512.0, 0.0, 256.0, 0.0, 60.0]],
            ),
            (
                "{\"pairs\":[{\"isl\":256,\"isl_stddev\":10,\"osl\":128,\"osl_stddev\":5,\"prob\":40},{\"isl\":512,\"osl\":256,\"prob\":60}]}",
                vec![[256.0, 10.0, 128.0, 5.0, 40.0], [512.0, 0.0, 256.0, 0.0, 60.0]],
            ),
            (
                "100,50:33.3;200,60:33.3;300,70:33.4",
                vec![
                    [100.0, 0.0, 50.0, 0.0, 33.3],
                    [200.0, 0.0, 60.0, 0.0, 33.3],
                    [300.0, 0.0, 70.0, 0.0, 33.4],
                ],
            ),
            ("1,1:.5;2,2:99.5", vec![[1.0, 0.0, 1.0, 0.0, 0.5], [2.0, 0.0, 2.0, 0.0, 99.5]]),
            ("10,5:100;", vec![[10.0, 0.0, 5.0, 0.0, 100.0]]),
            (
                "[ (10|.5, 5) : 50 , (20,5|2):50 ]",
                vec![[10.0, 0.5, 5.0, 0.0, 50.0], [20.0, 0.0, 5.0, 2.0, 50.0]],
            ),
        ] {
            assert_eq!(pairs_text(text).map(|p| flat(&p)), Ok(want), "{text}");
        }
        let file = json!([{"isl": {"mean": 10, "median": 5}, "osl": 5, "probability": 25}, {"isl": 20, "osl": {"value": 3}, "probability": 75}]);
        let file = pairs(&file).expect("pairs");
        assert_eq!(file[0].item.isl.shape, LengthShape::LogNormal { mean: 10.0, median: 5.0 });
        assert_eq!((file[1].item.osl.clone(), file[1].weight), (LengthPlan::normal(3.0, 0.0), 75.0));
    }

    #[test]
    fn wrong_pairs_are_told() {
        for (text, message) in [
            (
                "256,128",
                "found '256,128' in '256,128'; allowed: 'ISL[|stddev],OSL[|stddev]:percent' joined by ';'",
            ),
            ("256,128:50", "found '256,128:50' that add up to 50; allowed: percents that add up to 100"),
            ("256,128:0.4;512,256:0.6", "that add up to 1;"),
            ("a,b:100", "found 'a,b:100' in"),
            ("256,128:100;x", "found 'x' in '256,128:100;x'"),
            ("[256,128:100]", "found '[256,128:100]'"),
            ("{}", "found '{}'"),
            ("{\"pairs\":[{\"isl\":1,\"prob\":100}]}", "found pairs[0].osl: 'null'"),
            ("256|-1,5:100", "found '256|-1,5:100' in"),
            ("256,128:101", "found '256,128:101' in"),
            ("0,128:100", "found '0,128:100' in"),
            ("", "found ''; allowed: 'ISL[|stddev]"),
            ("[(1,2):50,(3,4)60]", "found '[(1,2):50,(3,4)60]'"),
        ] {
            let error = said(pairs_text(text));
            assert!(error.contains(message), "{text}: {error}");
        }
        for (json, message) in [
            (
                json!([{"isl": 1, "osl": 2, "prob": 100}]),
                "found [0]: the key 'prob'; allowed: isl, osl, probability",
            ),
            (json!([{"isl": 1, "osl": 2, "probability": 10}]), "found probabilities that add up to 10"),
            (json!({"isl": 1}), "allowed: a list of {isl, osl, probability}"),
        ] {
            let error = said(pairs(&json));
            assert!(error.contains(message), "{json}: {error}");
        }
    }

    #[test]
    fn ratios_are_a_number_or_two() {
        let both = |input, output| Ok(Ratio { input, output });
        for (text, want) in [
            (" 0.5 ", both(0.5, 0.5)),
            ("0", both(0.0, 0.0)),
            ("1e-3", both(0.001, 0.001)),
            ("1", both(1.0, 1.0)),
        ] {
            assert_eq!(ratio_text(text), want, "{text}");
        }
        assert_eq!(ratio_text("{\"input\":0.3,\"output\":0.5}"), both(0.3, 0.5));
        assert_eq!(ratio(&json!("0.25")), both(0.25, 0.25));
        assert_eq!(ratio(&json!(0.25)), both(0.25, 0.25));
        for text in [
            "-0.1",
            "nan",
            "inf",
            "1.1",
            "abc",
            "",
            "[0.1,0.2]",
            "{\"input\":0.3}",
            "{\"input\":0.3,\"output\":0.5,\"x\":1}",
        ] {
            assert!(ratio_text(text).is_err(), "{text}");
        }
        assert!(ratio(&json!(true)).is_err());
        assert_eq!(
            said(ratio_text("2")),
            "--x: found '2'; allowed: a number, or {\"input\": A, \"output\": B}, from 0 to 1"
        );
    }
}
