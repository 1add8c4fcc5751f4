//! Results by turn, model, server, finish reason and cache hit.

use std::collections::BTreeSet;

use aiperf_core::outcome::{Finish, Outcome};

use crate::latencies::Latencies;
use crate::rows::{RequestRow, RequestRows};
use crate::store::Disk;
use crate::summary::Stats;

/// Most groups of a dimension that are told apart; those behind are one.
pub const MAX_BREAKDOWN: usize = 64;

/// Names of what rows know by number.
#[derive(Debug, Clone, Copy, Default)]
pub struct Names<'a> {
    /// Models of the plan.
    pub models: &'a [String],
    /// Servers of the plan, without secrets.
    pub urls: &'a [String],
}

/// A way to tell requests apart that had at least two values.
#[derive(Debug, Clone, PartialEq)]
pub struct Dimension {
    /// `turn`, `model`, `url`, `finish_reason` or `cache`.
    pub name: &'static str,
    /// Its groups: turns by number, models and servers in the order of the plan.
    pub groups: Vec<Group>,
}

/// Requests that have a value in common.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The value; turns count from 1.
    pub value: String,
    /// Requests that were sent and came to an end.
    pub requests: u64,
    /// Those that completed.
    pub completed: u64,
    /// Of the completed ones, display unit: `request_latency`, and of streams `time_to_first_token` and `inter_token_latency`.
    pub latencies: Vec<(&'static str, Stats)>,
}

type KeyOf = fn(&RequestRow) -> Option<u16>;

const DIMENSIONS: [(&str, KeyOf); 5] = [
    ("turn", |row| Some(row.place.turn)),
    ("model", |row| Some(row.place.model)),
    ("url", |row| Some(row.place.target)),
    ("finish_reason", |row| Some(row.finish as u16).filter(|_| row.outcome == Outcome::Completed)),
    ("cache", |row| row.cache_hit.map(|is_hit| u16::from(!is_hit))),
];

/// Names of all dimensions, in the order in which they are told.
pub fn dimension_names() -> impl Iterator<Item = &'static str> {
    DIMENSIONS.iter().map(|(name, _)| *name)
}

struct Columns {
    requests: u64,
    completed: u64,
    latencies: Latencies,
}

impl Columns {
    fn add(&mut self, row: &RequestRow) {
        self.requests += 1;
        if row.outcome == Outcome::Completed {
            self.completed += 1;
            self.latencies.add(row);
        }
    }
}

/// Every way to tell `rows` apart; one at a time, so that columns of one are in memory and no more.
pub(crate) fn breakdown(
    rows: &RequestRows,
    names: Names<'_>,
    is_streaming: bool,
    disk: Option<&Disk>,
) -> Vec<Dimension> {
    DIMENSIONS
        .iter()
        .filter_map(|(name, key_of)| {
            let keys = keys(rows, *key_of);
            if keys.len() < 2 {
                return None;
            }
            let last = (keys.len() > MAX_BREAKDOWN).then(|| keys[MAX_BREAKDOWN - 1]);
            let place = |key: u16| keys.binary_search(&key).unwrap_or(0).min(MAX_BREAKDOWN - 1);
            let mut columns: Vec<Columns> = keys
                .iter()
                .take(MAX_BREAKDOWN)
                .map(|_| Columns { requests: 0, completed: 0, latencies: Latencies::on(disk) })
                .collect();
            for row in rows.iter() {
                if let Some(key) = key_of(&row) {
                    columns[place(key)].add(&row);
                }
            }
            let groups = keys.iter().zip(&columns).map(|(key, columns)| {
                let mut value = word(name, *key, names);
                if last == Some(*key) {
                    value.push_str(" and others");
                }
                let latencies = columns.latencies.stats(is_streaming);
                Group { value, requests: columns.requests, completed: columns.completed, latencies }
            });
            Some(Dimension { name, groups: groups.collect() })
        })
        .collect()
}

/// Values that are there, ascending.
fn keys(rows: &RequestRows, key_of: KeyOf) -> Vec<u16> {
    let (mut found, mut last) = (BTreeSet::new(), None);
    for key in rows.iter().filter_map(|row| key_of(&row)) {
        // They come in long runs.
        if last.replace(key) != Some(key) {
            found.insert(key);
        }
    }
    found.into_iter().collect()
}

fn word(dimension: &str, key: u16, names: Names<'_>) -> String {
    let named = |names: &[String]| {
        names.get(usize::from(key)).cloned().unwrap_or_else(|| format!("number {}", u32::from(key) + 1))
    };
    match dimension {
        "model" => named(names.models),
        "url" => named(names.urls),
        "finish_reason" => Finish::ALL.get(usize::from(key)).copied().unwrap_or_default().name().to_owned(),
        "cache" => if key == 0 { "hit" } else { "miss" }.to_owned(),
        _ => (u32::from(key) + 1).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Place;
    use proptest::prelude::*;

    fn row(turn: u16, model: u16, cache_hit: Option<bool>, ms: u64) -> RequestRow {
        RequestRow {
            outcome: Outcome::Completed,
            first_ns: Some(ms * 500_000),
            last_ns: Some(ms * 1_000_000),
            end_ns: ms * 1_000_000,
            osl: Some(6),
            cache_hit,
            place: Place { turn, model, target: 0 },
            ..RequestRow::default()
        }
    }

    fn rows(all: &[RequestRow]) -> RequestRows {
        let mut rows = RequestRows::default();
        for row in all {
            rows.push(row);
        }
        rows
    }

    #[test]
    fn a_worked_run() {
        let mut failed = row(1, 1, None, 7);
        failed.outcome = Outcome::Failed;
        let all = [row(0, 0, Some(false), 10), row(0, 1, Some(true), 30), row(1, 0, Some(true), 50), failed];
        let models = ["small".to_owned()];
        let found = breakdown(&rows(&all), Names { models: &models, urls: &[] }, true, None);
        assert_eq!(found.iter().map(|d| d.name).collect::<Vec<_>>(), ["turn", "model", "cache"]);
        let group = |dimension: usize, at: usize| {
            let group: &Group = &found[dimension].groups[at];
            let stat = |at: usize, name| group.latencies[at].1.get(name).expect("measured");
            (
                group.value.as_str(),
                group.requests,
                group.completed,
                stat(0, "avg"),
                stat(1, "p50"),
                stat(2, "max"),
            )
        };
        // First content at half of the latency, and five steps in the other half: a tenth of it each.
        assert_eq!(group(0, 0), ("1", 2, 2, 20.0, 10.0, 3.0));
        assert_eq!(group(0, 1), ("2", 2, 1, 50.0, 25.0, 5.0));
        assert_eq!(group(1, 0), ("small", 2, 2, 30.0, 15.0, 5.0));
        assert_eq!(group(1, 1), ("number 2", 2, 1, 30.0, 15.0, 3.0));
        assert_eq!(group(2, 0), ("hit", 2, 2, 40.0, 20.0, 5.0));
        assert_eq!(group(2, 1), ("miss", 1, 1, 10.0, 5.0, 1.0));
        assert_eq!(breakdown(&rows(&all[..1]), Names::default(), true, None), []);
        let whole = breakdown(&rows(&all), Names::default(), false, None);
        assert!(whole[0].groups.iter().all(|g| g.latencies.len() == 1), "whole bodies have no first token");
    }

    #[test]
    fn what_is_behind_the_last_group_is_in_it() {
        let all: Vec<_> = (0..100).map(|turn| row(turn, 0, None, 10)).collect();
        let found = breakdown(&rows(&all), Names::default(), true, None);
        let groups = &found[0].groups;
        assert_eq!(groups.len(), MAX_BREAKDOWN);
        assert_eq!((groups[62].value.as_str(), groups[62].requests), ("63", 1));
        assert_eq!((groups[63].value.as_str(), groups[63].requests), ("64 and others", 37));
    }

    proptest! {
        #[test]
        fn groups_are_what_a_filter_finds(given in proptest::collection::vec((0u16..4, 0u16..3, 1u64..1000), 2..60)) {
            let all: Vec<_> = given.iter().map(|(turn, model, ms)| row(*turn, *model, None, *ms)).collect();
            for dimension in breakdown(&rows(&all), Names::default(), true, None) {
                prop_assert_eq!(dimension.groups.iter().map(|g| g.requests).sum::<u64>(), all.len() as u64);
                for group in &dimension.groups {
                    let of: Vec<u64> = given
                        .iter()
                        .filter(|(turn, model, _)| match dimension.name {
                            "turn" => group.value == (turn + 1).to_string(),
                            _ => group.value == format!("number {}", model + 1),
                        })
                        .map(|(.., ms)| *ms)
                        .collect();
                    prop_assert_eq!(group.completed, of.len() as u64);
                    prop_assert_eq!(group.latencies[0].1.get("max"), of.iter().max().map(|ms| *ms as f64));
                    let mean = of.iter().sum::<u64>() as f64 / of.len() as f64;
                    prop_assert!((group.latencies[0].1.avg().expect("a mean") - mean).abs() < 1e-6);
                }
            }
        }
    }
}
