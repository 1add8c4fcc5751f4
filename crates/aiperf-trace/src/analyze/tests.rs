use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::findings::Severity;

/// Reports of AIPerf 0.13.0.
const GOLDENS: &str = include_str!("../../testdata/analyze_trace.json");

fn analyzed(lines: &[String], block: u64) -> Analysis {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    for line in lines {
        writeln!(file, "{line}").expect("it is written");
    }
    analyze(file.path(), block).expect("a trace")
}

fn of(rows: &[Value], block: u64) -> Analysis {
    analyzed(&rows.iter().map(Value::to_string).collect::<Vec<_>>(), block)
}

/// Numbers may differ in the last digits: numpy sums in another order.
fn same(got: &Value, want: &Value, at: &str) {
    match (got, want) {
        (Value::Object(got), Value::Object(want)) => {
            for (key, want) in want {
                same(got.get(key).unwrap_or(&Value::Null), want, &format!("{at}.{key}"));
            }
        }
        (Value::Number(got), Value::Number(want)) => {
            assert_eq!(got.is_f64(), want.is_f64(), "{at}: {got} for {want}");
            let (got, want) = (got.as_f64().expect("a number"), want.as_f64().expect("a number"));
            assert!((got - want).abs() <= 1e-13 * want.abs().max(1.0), "{at}: {got} for {want}");
        }
        _ => assert_eq!(got, want, "{at}"),
    }
}

#[test]
fn figures_are_the_references() {
    let goldens: Value = serde_json::from_str(GOLDENS).expect("JSON");
    let cases = goldens["cases"].as_array().expect("cases");
    for case in cases {
        let rows = case["rows"].as_array().expect("rows");
        let report = of(rows, case["block_size"].as_u64().expect("a size")).json();
        same(&report, &case["report"], case["id"].as_str().expect("an id"));
        let ours: Vec<&String> = report.as_object().expect("an object").keys().collect();
        let theirs: Vec<&String> = case["report"].as_object().expect("an object").keys().collect();
        assert_eq!(ours[..theirs.len()], theirs[..], "order of keys");
    }
    assert_eq!(cases.len(), 4);
}

fn kinds(analysis: &Analysis) -> Vec<(Kind, u64, Vec<u64>)> {
    analysis.findings.list().into_iter().map(|f| (f.kind, f.count, f.lines)).collect()
}

#[test]
fn a_sound_trace_has_nothing_to_tell() {
    let row = |ms: u32, ids: &[u64]| json!({"timestamp": ms, "input_length": ids.len() * 512 - 3, "output_length": 3, "hash_ids": ids});
    let told = of(&[row(0, &[1, 2, 3]), row(500, &[1, 2, 4]), row(1500, &[5])], 512);
    assert_eq!(kinds(&told), []);
    assert_eq!(told.conversations, 3);
    assert_eq!(told.schedule, Some(Schedule { rows: 3, first_ms: 0.0, last_ms: 1500.0 }));
    assert_eq!(told.schedule.and_then(|s| s.rate()), Some(2.0 / 1.5));
    assert_eq!(told.prefix_cache_hit_rate, Some(2.0 / 7.0));
    assert!(told.text().contains("Findings: none"), "{}", told.text());
}

#[test]
fn unique_lengths_are_never_negative() {
    // Two blocks of 16 are shared, and the second is cut short at 20 tokens.
    let row = |input: u32, ids: &[u64]| json!({"input_length": input, "output_length": 1, "hash_ids": ids});
    let told = of(&[row(20, &[1, 2, 3]), row(20, &[1, 2, 4])], 16);
    assert_eq!(told.context_length.map(|s| s.max), Some(20.0));
    assert_eq!(told.unique_prompt_length.map(|s| s.min), Some(0.0));
}

/// What the rows give is found with its count and its lines, and nothing else.
#[track_caller]
fn finds(rows: &[Value], wanted: &[(Kind, u64, &[u64])]) {
    let told = kinds(&of(rows, 32));
    let wanted: Vec<_> = wanted.iter().map(|(kind, n, lines)| (*kind, *n, lines.to_vec())).collect();
    assert_eq!(told, wanted, "{rows:?}");
}

fn row(more: &Value) -> Value {
    let mut row = json!({"input_length": 64, "output_length": 3});
    row.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    row
}

#[test]
fn blocks_that_do_not_fit() {
    let ids = |n: u64| row(&json!({"hash_ids": (0..n).collect::<Vec<_>>()}));
    finds(&[ids(3)], &[(Kind::TooManyIds, 1, &[1]), (Kind::BlockSize, 1, &[1])]);
    finds(&[ids(2), ids(1)], &[(Kind::FewIds, 1, &[2])]);
    // 22 to 31 tokens a block: 30 is the roundest.
    let told = of(&[ids(3)], 32).findings.list();
    assert_eq!(told[1].example, "30 fits 1 of the 1 rows with ids, 32 fits 0");
    let told = of(&[ids(4), ids(4)], 512).findings.list();
    assert_eq!(told[1].example, "16 fits 2 of the 2 rows with ids, 512 fits 0");
    // A size that no other trace has fits all rows but one; 64 fits the short row by chance.
    let of_48 = |tokens: u64, n: u64| json!({"input_length": tokens, "output_length": 3, "hash_ids": (0..n).collect::<Vec<_>>()});
    let told = of(&[of_48(480, 10), of_48(40, 1), of_48(480, 9)], 48);
    assert_eq!(kinds(&told), [(Kind::FewIds, 1, vec![3])]);
    let told = of(&[of_48(480, 10), of_48(480, 10), of_48(40, 1)], 60).findings.list();
    assert_eq!(told[1].example, "50 fits 3 of the 3 rows with ids, 60 fits 1");
}

#[test]
fn times_and_sessions() {
    let at = |ms: u32| row(&json!({"timestamp": ms}));
    finds(&[at(5), at(3), at(4), at(2)], &[(Kind::TimeBackwards, 2, &[2, 4])]);
    finds(&[row(&json!({})), at(3)], &[(Kind::LaterTimed, 1, &[2])]);
    finds(
        &[at(3), row(&json!({"session_id": "a"})), row(&json!({"session_id": "a"}))],
        &[(Kind::UntimedStart, 1, &[2]), (Kind::AddsUp, 1, &[3])],
    );
    let turn = |ms: u32| row(&json!({"timestamp": ms, "session_id": "a"}));
    finds(&[turn(0), turn(9), at(1), turn(8)], &[(Kind::SessionBackwards, 1, &[4]), (Kind::AddsUp, 1, &[2])]);
    let later = || row(&json!({"session_id": "a", "delay": 5}));
    finds(&[turn(0), later(), turn(30), later()], &[(Kind::SessionAgain, 1, &[3]), (Kind::AddsUp, 1, &[2])]);
    finds(
        &[row(&json!({"session_id": 7})), row(&json!({"session_id": "7"}))],
        &[(Kind::AddsUp, 1, &[2]), (Kind::SessionTypes, 1, &[2])],
    );
    let whole =
        json!({"session_id": "a", "output_length": 2, "messages": [{"role": "user", "content": "a"}]});
    finds(&[turn(0), whole], &[(Kind::MixedSession, 1, &[2]), (Kind::NoLength, 1, &[2])]);
}

#[test]
fn rows_that_hold_their_history() {
    let said = |id: &str, ids: &[u64]| json!({"session_id": id, "input_length": ids.len() * 32, "output_length": 3, "hash_ids": ids});
    finds(
        &[
            said("g", &[1, 2]),
            said("a", &[7]),
            said("g", &[1, 2, 3]),
            said("a", &[8]),
            said("g", &[1, 2, 3, 4]),
        ],
        &[(Kind::HoldsHistory, 1, &[3]), (Kind::AddsUp, 1, &[4])],
    );
    finds(
        &[said("g", &[1, 2]), said("g", &[1, 2, 3]), said("g", &[9]), said("g", &[9, 10])],
        &[(Kind::HistoryBreaks, 1, &[3])],
    );
}

#[test]
fn ids_that_are_no_prefixes() {
    finds(&[row(&json!({"hash_ids": [3, 3]}))], &[(Kind::RepeatedIds, 1, &[1])]);
    let moved = [
        row(&json!({"hash_ids": [3, 4]})),
        row(&json!({"hash_ids": [5, 4]})),
        row(&json!({"hash_ids": [3, 4]})),
    ];
    finds(&moved, &[(Kind::IdBehindOthers, 1, &[2])]);
    let told = of(&moved, 32);
    assert_eq!((told.hit_rate.expect("rows").max, told.prefix_cache_hit_rate), (1.0, Some(2.0 / 6.0)));
}

#[test]
fn broken_lines_are_counted_and_passed_over() {
    let good = row(&json!({"mood": 1, "hash_id": [1]})).to_string();
    let told = analyzed(&[good.clone(), "{".into(), String::new(), good, "nothing".into()], 32);
    assert_eq!(
        kinds(&told),
        [(Kind::Broken, 2, vec![2, 5]), (Kind::Misspelt, 2, vec![1, 4]), (Kind::UnknownKeys, 1, vec![1])]
    );
    assert_eq!((told.total_requests, told.findings.worst()), (2, Some(Severity::Refused)));
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(b"\nno\n[]\n").expect("it is written");
    let error = analyze(file.path(), 16).expect_err("no trace").to_string();
    assert!(
        error
            .ends_with("is no trace: none of its 2 lines is a JSON object; line 2: column 2: expected ident"),
        "{error}"
    );
}

/// The figures from all rows in memory, by their definitions.
fn slow(rows: &[(u64, Vec<u64>)], block: u64) -> (u64, u64, f64, f64, Vec<f64>, Vec<u64>) {
    let mut prefixes: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
    let mut pairs: HashMap<(usize, u64), u64> = HashMap::new();
    let mut firsts: HashMap<u64, u64> = HashMap::new();
    let (mut seen, mut rates) = (HashSet::new(), Vec::new());
    let (mut cache, mut hits, mut all) = (HashSet::<Vec<u64>>::new(), 0, 0);
    for (_, ids) in rows {
        for n in 1..=ids.len() {
            *prefixes.entry(ids[..n].to_vec()).or_default() += 1;
        }
        for (at, id) in ids.iter().enumerate() {
            *pairs.entry((at, *id)).or_default() += 1;
        }
        if let Some(first) = ids.first() {
            *firsts.entry(*first).or_default() += 1;
            rates.push(ids.iter().take_while(|id| seen.contains(*id)).count() as f64 / ids.len() as f64);
        }
        seen.extend(ids.iter().copied());
        hits += (1..=ids.len()).take_while(|n| cache.contains(&ids[..*n])).count();
        all += ids.len();
        cache.extend((1..=ids.len()).map(|n| ids[..n].to_vec()));
    }
    let contexts = rows.iter().map(|(input, ids)| {
        let repeated = ids.iter().enumerate().filter(|(at, id)| pairs[&(*at, **id)] > 1).count();
        if !ids.is_empty() && repeated == ids.len() { *input } else { (repeated as u64 * block).min(*input) }
    });
    let total: u64 = prefixes.values().sum();
    let reused: u64 = prefixes.values().filter(|n| **n > 1).sum();
    let reuse = if total == 0 { 0.0 } else { reused as f64 / total as f64 };
    let groups = firsts.values().filter(|n| **n > 1).count() as u64;
    let cache = if all == 0 { -1.0 } else { hits as f64 / all as f64 };
    (prefixes.len() as u64, groups, reuse, cache, rates, contexts.collect())
}

proptest! {
    #[test]
    fn figures_are_what_their_definitions_say(
        rows in prop::collection::vec((0..200u64, prop::collection::vec(0..5u64, 0..6)), 1..30),
        block in 1..40u64,
    ) {
        let lines: Vec<Value> = rows.iter().map(|(input, ids)| json!({"input_length": input, "hash_ids": ids})).collect();
        let told = of(&lines, block);
        let (prefixes, groups, reuse, cache, rates, contexts) = slow(&rows, block);
        prop_assert_eq!((told.unique_prefixes, told.num_prefix_groups), (prefixes, groups));
        prop_assert_eq!(Some(told.prefix_reuse_ratio), Some(reuse));
        prop_assert_eq!(told.prefix_cache_hit_rate.or(Some(-1.0)), Some(cache));
        let mean = if rates.is_empty() { 0.0 } else { rates.iter().sum::<f64>() / rates.len() as f64 };
        prop_assert!((told.cache_hit_rate - mean).abs() < 1e-12);
        let stats = told.context_length.expect("rows");
        prop_assert_eq!((stats.min, stats.max), (*contexts.iter().min().expect("rows") as f64, *contexts.iter().max().expect("rows") as f64));
        prop_assert!((stats.mean - contexts.iter().sum::<u64>() as f64 / rows.len() as f64).abs() < 1e-9);
        prop_assert!(told.unique_prompt_length.expect("rows").min >= 0.0);
    }
}
