//! `random_pool`: rows with texts that conversations of one turn are drawn from, with replacement. Each file is a pool, and a
//! conversation has one row of each; with a batch size, so many texts of the one pool.

use std::path::Path;

use aiperf_core::conversation::TextGroup;
use aiperf_rng::Stream;
use serde_json::Value;

use super::record::Record;
use super::row::{Placed, Row, read, shown, wrong};
use super::source::Source;
use crate::error::RowProblem;

/// Keys of other forms that mean nothing to a row that may be drawn at any time.
const FOREIGN: [&str; 9] = [
    "role",
    "session_id",
    "output_length",
    "timestamp",
    "delay",
    "duration_e2e_ms",
    "reset_context",
    "extra",
    "headers",
];

/// Reads a line.
pub(super) fn parse(line: &[u8]) -> Result<Record, Placed> {
    record(read(line)?).map_err(|problem| (None, problem))
}

fn record(value: Value) -> Result<Record, RowProblem> {
    let Value::Object(mut map) = value else {
        return Err(RowProblem::NotAnObject { found: shown(&value) });
    };
    match map.shift_remove("type") {
        None | Some(Value::Null) => {}
        Some(kind) if kind == "random_pool" => {}
        Some(other) => return Err(wrong("type", "\"random_pool\"", &other)),
    }
    let is_there = |key: &&str| map.get(*key).is_some_and(|value| !value.is_null());
    let mut unknown: Vec<String> =
        FOREIGN.iter().filter(|key| is_there(key)).map(|key| (*key).to_owned()).collect();
    for key in FOREIGN {
        map.shift_remove(key);
    }
    let mut row = Row::from_value(Value::Object(map))?;
    unknown.append(&mut row.unknown);
    Ok(Record { turns: vec![row], unknown, ..Record::default() })
}

/// A file of rows.
#[derive(Debug)]
struct Pool {
    /// Number of its first row.
    first: usize,
    rows: usize,
    /// What its texts are called that have no name of their own.
    name: String,
}

/// What conversations are drawn from.
#[derive(Debug)]
pub(super) struct Pools {
    files: Vec<Pool>,
    /// Texts of a conversation that are drawn each by itself, of the one pool.
    batch: Option<Batch>,
    draws: Stream,
}

#[derive(Debug)]
struct Batch {
    size: usize,
    /// Texts of the rows up to each, itself included; none where each row has one.
    texts: Vec<u64>,
}

/// A row that was drawn, and which of its texts; all of them if none is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pick {
    pub(super) row: usize,
    pool: usize,
    text: Option<usize>,
}

impl Pools {
    /// The files of `source`, whose rows have so many `texts` each; `size` texts are drawn where it is not 1.
    pub(super) fn new(source: &Source, texts: &[u32], size: usize, draws: Stream) -> Self {
        let pool = |at| {
            let (first, rows, path) = source.file(at);
            Pool { first, rows, name: stem(path) }
        };
        let batch = (size != 1).then(|| {
            let is_plain = texts.iter().all(|count| *count == 1);
            Batch { size, texts: if is_plain { Vec::new() } else { up_to_each(texts) } }
        });
        Self { files: (0..source.files()).map(pool).collect(), batch, draws }
    }

    /// The rows of conversation `index`: a function of the seed and that.
    pub(super) fn picks(&self, index: usize) -> Vec<Pick> {
        if let (Some(batch), Some(pool)) = (&self.batch, self.files.first()) {
            let all = batch.texts.last().map_or(pool.rows, |sum| *sum as usize);
            let mut draws = self.draws.at(index as u64);
            let mut pick = || {
                let at = draws.position(all);
                if batch.texts.is_empty() {
                    return Pick { row: at, pool: 0, text: Some(0) };
                }
                let row = batch.texts.partition_point(|sum| *sum <= at as u64);
                let before = row.checked_sub(1).map_or(0, |row| batch.texts[row]);
                Pick { row, pool: 0, text: Some(at - before as usize) }
            };
            return (0..batch.size).map(|_| pick()).collect();
        }
        let pick = |(at, pool): (usize, &Pool)| {
            let row = pool.first + self.draws.lane(at as u64).at(index as u64).position(pool.rows);
            Pick { row, pool: at, text: None }
        };
        self.files.iter().enumerate().map(pick).collect()
    }

    /// One row of those that were drawn.
    pub(super) fn merged(&self, drawn: Vec<(Pick, Row)>) -> Row {
        let mut merged = Row::default();
        for (pick, mut row) in drawn {
            if let Some(at) = pick.text {
                merged.texts.extend(row.texts.into_iter().nth(at));
                continue;
            }
            if row.groups.is_empty() {
                row.groups
                    .push(TextGroup { name: self.files[pick.pool].name.clone(), count: row.texts.len() });
            }
            for media in row.media.iter_mut().filter(|media| media.name.is_empty()) {
                media.name.clone_from(&self.files[pick.pool].name);
            }
            merged.media.append(&mut row.media);
            merged.groups.append(&mut row.groups);
            merged.texts.append(&mut row.texts);
        }
        merged
    }

    /// A row of the first of so many conversations whose texts and images do not go in pairs, of those that each row has; none where
    /// `inputs` are not known.
    pub(super) fn unpaired(
        &self,
        conversations: usize,
        inputs: &[(u32, u32)],
        source: &Source,
    ) -> Option<(usize, RowProblem)> {
        // One row alone was looked at, and texts that are drawn have no images beside them.
        if inputs.is_empty() || self.files.len() < 2 {
            return None;
        }
        (0..conversations).find_map(|index| {
            let picks = self.picks(index);
            let sum =
                |of: fn(&(u32, u32)) -> u32| picks.iter().map(|pick| of(&inputs[pick.row]) as usize).sum();
            let (texts, images): (usize, usize) = (sum(|of| of.0), sum(|of| of.1));
            if texts == 0 || images == 0 || texts == images {
                return None;
            }
            let row = picks.iter().find(|pick| inputs[pick.row].1 > 0)?.row;
            let others = picks.iter().filter(|pick| pick.row != row).map(|pick| source.place(pick.row));
            let others = others.collect::<Vec<_>>().join(", ");
            Some((row, RowProblem::UnpairedDraw { texts, images, others }))
        })
    }

    /// What a user should know.
    pub(super) fn note(&self, conversations: usize) -> String {
        let rows: usize = self.files.iter().map(|pool| pool.rows).sum();
        let of = match (self.files.len(), &self.batch) {
            (1, Some(batch)) => format!("{} texts of {rows} rows", batch.size),
            (1, None) => format!("one of {rows} rows"),
            (files, _) => format!("one row of each of {files} files, {rows} in all"),
        };
        format!(
            "{conversations} conversations are drawn with replacement, each {of}; --num-dataset-entries says how many"
        )
    }
}

/// Sums of the counts up to each, itself included.
fn up_to_each(counts: &[u32]) -> Vec<u64> {
    let mut sum = 0;
    let add = |count: &u32| {
        sum += u64::from(*count);
        sum
    };
    counts.iter().map(add).collect()
}

/// The name of a file without its ending.
fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use aiperf_rng::Key;
    use proptest::prelude::*;

    use super::*;

    fn pools(rows: &[usize], batch: Option<Batch>) -> Pools {
        let mut first = 0;
        let pool = |(at, rows): (usize, &usize)| {
            let pool = Pool { first, rows: *rows, name: format!("p{at}") };
            first += rows;
            pool
        };
        let files = rows.iter().enumerate().map(pool).collect();
        Pools { files, batch, draws: Key::new(3).purpose("dataset.pool.pick") }
    }

    #[test]
    fn rows_are_texts_alone() {
        let record =
            parse(br#"{"type":"random_pool","texts":["a","b"],"delay":4,"mood":1}"#).expect("a good row");
        assert_eq!(
            (record.turns[0].texts.len(), record.unknown),
            (2, vec!["delay".to_owned(), "mood".to_owned()])
        );
        assert_eq!(record.turns[0].delay_ns, None);
        let problem = |line: &str| parse(line.as_bytes()).expect_err(line).1.to_string();
        assert_eq!(
            problem(r#"{"type":"single_turn","text":"a"}"#),
            "'type' must be \"random_pool\", not \"single_turn\""
        );
        assert!(problem("{}").starts_with("holds nothing to send"));
    }

    #[test]
    fn a_conversation_has_a_row_of_each_pool_under_its_name() {
        let of = pools(&[5, 2], None);
        let picks = of.picks(9);
        assert_eq!(picks, of.picks(9));
        assert!(picks.len() == 2 && picks[0].row < 5 && (5..7).contains(&picks[1].row));
        let row = |texts: &[&str], names: &[(&str, usize)]| Row {
            texts: texts.iter().map(|t| (*t).to_owned()).collect(),
            groups: names
                .iter()
                .map(|(name, count)| TextGroup { name: (*name).to_owned(), count: *count })
                .collect(),
            ..Row::default()
        };
        let merged =
            of.merged(vec![(picks[0], row(&["a", "b"], &[])), (picks[1], row(&["q"], &[("query", 1)]))]);
        assert_eq!(merged, row(&["a", "b", "q"], &[("p0", 2), ("query", 1)]));
        let image = |name: &str| aiperf_core::conversation::Media {
            kind: aiperf_core::conversation::MediaKind::Image,
            name: name.to_owned(),
            contents: vec!["http://h/i".to_owned()],
            uuids: Vec::new(),
        };
        let seen = Row { media: vec![image(""), image("own")], ..row(&["a"], &[]) };
        assert_eq!(of.merged(vec![(picks[1], seen)]).media, [image("p1"), image("own")]);
    }

    proptest! {
        /// Every text is drawn, none that is not there, and each about as often as any other.
        #[test]
        fn draws_are_even(counts in prop::collection::vec(0u32..4, 2..6)) {
            prop_assume!(counts.iter().sum::<u32>() > 0);
            let mut sum = 0;
            let texts: Vec<u64> = counts.iter().map(|n| { sum += u64::from(*n); sum }).collect();
            let of = pools(&[counts.len()], Some(Batch { size: 3, texts }));
            let mut seen = std::collections::BTreeMap::new();
            for index in 0..400 {
                let picks = of.picks(index);
                prop_assert_eq!(picks.len(), 3);
                for pick in picks {
                    *seen.entry((pick.row, pick.text.expect("a text"))).or_insert(0u32) += 1;
                }
            }
            let all: Vec<(usize, usize)> = counts.iter().enumerate()
                .flat_map(|(row, n)| (0..*n as usize).map(move |text| (row, text))).collect();
            prop_assert_eq!(seen.keys().copied().collect::<Vec<_>>(), all.clone());
            let mean = 1200.0 / all.len() as f64;
            // Six standard deviations of a count of independent draws.
            prop_assert!(seen.values().all(|n| (f64::from(*n) - mean).abs() < 6.0 * mean.sqrt() + 1.0), "{seen:?}");
        }
    }
}
