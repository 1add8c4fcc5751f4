//! A trace from a few figures: rate, lengths, groups that share prefixes, and the hit rate that a prefix cache can have of it.
//!
//! A row takes over blocks from the front of an earlier row of its group and adds new ones. It begins a chain on the group's trunk, as
//! conversations begin with one system prompt, or goes on from a row of a chain. How many blocks it takes over is drawn around the asked
//! hit rate and led back to it by what came of the rows before, so the rate of all rows is the asked one as far as the lengths allow.

use std::collections::VecDeque;
use std::io::{self, Write};

use aiperf_rng::elementary::{exp, ln};
use aiperf_rng::{Draws, Key, Stream};

use crate::zipf::shares;

/// Rows of a group that others may go on from.
const KEPT: usize = 8;
/// How fast a hit rate that was missed is made up for: the share of what is missing that the next row brings.
const LED_BACK: f64 = 0.5;

/// How gaps between rows are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Constant,
}

/// How lengths are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Normal, drawn again below 0 and rounded up.
    Normal,
    /// Log-normal with that mean and standard deviation, rounded up.
    LogNormal,
}

/// Lengths in tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lengths {
    /// Mean, at least 1.
    pub mean: f64,
    /// Standard deviation; 0 for equal lengths.
    pub stddev: f64,
    /// Longest.
    pub max: u64,
    /// Distribution.
    pub form: Form,
}

/// The figures of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Rows.
    pub rows: u64,
    /// Rows a second, above 0.
    pub rate: f64,
    /// Gaps between rows.
    pub arrival: Arrival,
    /// Of prompts.
    pub isl: Lengths,
    /// Of answers.
    pub osl: Lengths,
    /// Tokens of a block, at least 1.
    pub block_size: u64,
    /// Groups of rows that share no block with others, at least 1.
    pub groups: u32,
    /// Rows of group k come as often as k to the power of −skew says; 0 for equal shares.
    pub skew: f64,
    /// Most rows in a chain of rows that go on from each other, at least 1: all begin on the group's trunk.
    pub depth: u32,
    /// Share of all blocks that a prefix cache which forgets nothing has.
    pub hit_rate: f64,
    /// Seed of all draws.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Made {
    /// Rows.
    pub rows: u64,
    /// Time of the last, milliseconds.
    pub last_ms: f64,
    /// Blocks of all rows.
    pub blocks: u64,
    /// Blocks at the front of rows that came at the front of an earlier row.
    pub hits: u64,
    /// Tokens of all prompts.
    pub input: u64,
    /// Tokens of all answers.
    pub output: u64,
}

impl Made {
    /// Hits of all blocks.
    pub fn hit_rate(&self) -> f64 {
        if self.blocks == 0 { 0.0 } else { self.hits as f64 / self.blocks as f64 }
    }
}

/// Rows of a group that share blocks.
#[derive(Default)]
struct Group {
    /// What chains begin with: the longest row that began with all of it.
    trunk: Vec<u64>,
    /// Rows of chains that are not at their end, oldest first.
    rows: VecDeque<Kept>,
}

/// A row that others may go on from.
struct Kept {
    /// Its whole blocks.
    ids: Vec<u64>,
    /// Place in its chain, from 1.
    depth: u32,
}

impl Lengths {
    /// What the mean will be, about: lengths below 0 are drawn again, and those above the longest are cut.
    pub fn expected(&self) -> f64 {
        let mean = match self.form {
            // Half of a normal distribution has this mean at least.
            Form::Normal => self.mean.max(self.stddev * std::f64::consts::FRAC_2_PI.sqrt()),
            Form::LogNormal => self.mean,
        };
        mean.min(self.max as f64)
    }

    fn draw(&self, draws: &mut Draws) -> u64 {
        let length = match self.form {
            Form::Normal => draws.normal_length(self.mean, self.stddev),
            Form::LogNormal => {
                let sigma2 = ln(1.0 + (self.stddev / self.mean).powi(2));
                exp(ln(self.mean) - sigma2 / 2.0 + sigma2.sqrt() * draws.normal()).ceil() as u64
            }
        };
        length.clamp(1, self.max.max(1))
    }
}

impl Shape {
    /// How many block ids the rows will have, and bytes all will be, about.
    pub fn expected(&self) -> (f64, f64) {
        let rows = self.rows as f64;
        let ids = rows * (self.isl.expected() / self.block_size as f64).max(1.0);
        let digits = (ids * (1.0 - self.hit_rate)).max(10.0).log10();
        // An id is followed by a comma and a blank; the rest of a row is names and short numbers.
        (ids, ids * (digits + 2.0) + rows * 80.0)
    }

    /// Writes the rows, one a line.
    pub fn write(&self, out: &mut impl Write) -> io::Result<Made> {
        let key = Key::new(self.seed);
        let stream = |name| -> Stream { key.purpose(name) };
        let [gaps, lengths, groups, chains] =
            ["trace.gap", "trace.lengths", "trace.group", "trace.chain"].map(stream);
        let shares = shares(u64::from(self.groups), self.skew);
        let mut all: Vec<Group> = (0..self.groups).map(|_| Group::default()).collect();
        let mut made = Made::default();
        let (mut at_ms, mut next_id) = (0.0, 0u64);
        let mut ids: Vec<u64> = Vec::new();
        let mut line = Vec::new();
        for row in 0..self.rows {
            if row > 0 {
                let gap = match self.arrival {
                    Arrival::Poisson => gaps.at(row).exp1(),
                    Arrival::Constant => 1.0,
                };
                at_ms += gap * 1e3 / self.rate;
            }
            let mut draws = lengths.at(row);
            let (input, output) = (self.isl.draw(&mut draws), self.osl.draw(&mut draws));
            let blocks = input.div_ceil(self.block_size);
            let mut draws = groups.at(row);
            let unit = draws.unit();
            let group = &mut all[shares.partition_point(|share| *share <= unit).min(shares.len() - 1)];
            let mut draws = chains.at(row);
            let missing = self.hit_rate * made.blocks as f64 - made.hits as f64;
            let wanted = self.wanted(blocks, missing, draws.unit());
            ids.clear();
            let depth = self.go_on(group, wanted, &mut draws, &mut ids);
            let shared = ids.len() as u64;
            ids.extend(next_id..next_id + (blocks - shared));
            next_id += blocks - shared;
            made = Made {
                rows: row + 1,
                last_ms: at_ms,
                blocks: made.blocks + blocks,
                hits: made.hits + shared,
                input: made.input + input,
                output: made.output + output,
            };
            let whole = (input / self.block_size) as usize;
            if shared as usize == group.trunk.len() && depth == 1 && whole > group.trunk.len() {
                group.trunk = ids[..whole].to_vec();
            }
            // One that shares nothing stands alone.
            if shared > 0 && depth < self.depth && whole > 0 {
                if group.rows.len() == KEPT {
                    group.rows.pop_front();
                }
                group.rows.push_back(Kept { ids: ids[..whole].to_vec(), depth });
            }
            line.clear();
            write_row(&mut line, at_ms, input, output, &ids)?;
            out.write_all(&line)?;
        }
        out.flush()?;
        Ok(made)
    }

    /// Blocks of `blocks` that are to be taken over, when `missing` are due from the rows before.
    fn wanted(&self, blocks: u64, missing: f64, unit: f64) -> usize {
        let spread = self.hit_rate.min(1.0 - self.hit_rate);
        let share = self.hit_rate + spread * (2.0 * unit - 1.0);
        (blocks as f64 * share + missing * LED_BACK).round().clamp(0.0, blocks as f64) as usize
    }

    /// Takes up to `wanted` blocks over from a row of the group; the place in the chain.
    fn go_on(&self, group: &Group, wanted: usize, draws: &mut Draws, ids: &mut Vec<u64>) -> u32 {
        let begins = draws.unit() < 1.0 / f64::from(self.depth);
        // One that is long enough, from a drawn place on; else the longest.
        let from = draws.position(group.rows.len());
        let mut rows = (0..group.rows.len()).map(|i| &group.rows[(from + i) % group.rows.len()]);
        let longest = || group.rows.iter().max_by_key(|row| row.ids.len());
        let row = rows.find(|row| row.ids.len() >= wanted).or_else(longest);
        let row = row.filter(|row| !begins && (row.ids.len() >= wanted || row.ids.len() > group.trunk.len()));
        let before = row.map_or(&group.trunk, |row| &row.ids);
        ids.extend_from_slice(&before[..wanted.min(before.len())]);
        row.map_or(1, |row| row.depth + 1)
    }
}

/// A line of Mooncake's form; the time in milliseconds, to a microsecond.
fn write_row(line: &mut Vec<u8>, at_ms: f64, input: u64, output: u64, ids: &[u64]) -> io::Result<()> {
    let us = (at_ms * 1e3).round() as u64;
    write!(line, "{{\"timestamp\": {}", us / 1000)?;
    if !us.is_multiple_of(1000) {
        let part = format!("{:03}", us % 1000);
        write!(line, ".{}", part.trim_end_matches('0'))?;
    }
    write!(line, ", \"input_length\": {input}, \"output_length\": {output}, \"hash_ids\": [")?;
    for (at, id) in ids.iter().enumerate() {
        write!(line, "{}{id}", if at == 0 { "" } else { ", " })?;
    }
    line.extend_from_slice(b"]}\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Row, analyze};
    use proptest::prelude::*;

    fn shape() -> Shape {
        let lengths = |mean, stddev| Lengths { mean, stddev, max: 1 << 20, form: Form::Normal };
        Shape {
            rows: 2000,
            rate: 50.0,
            arrival: Arrival::Poisson,
            isl: lengths(2000.0, 600.0),
            osl: lengths(100.0, 20.0),
            block_size: 64,
            groups: 5,
            skew: 1.0,
            depth: 6,
            hit_rate: 0.5,
            seed: 42,
        }
    }

    #[test]
    fn the_size_is_known_beforehand() {
        for (mean, stddev, block_size) in
            [(2000.0, 600.0, 64), (2000.0, 0.0, 1), (40.0, 10.0, 512), (10.0, 900.0, 4)]
        {
            for form in [Form::Normal, Form::LogNormal] {
                let isl = Lengths { mean, stddev, max: 4000, form };
                // Of few long texts a mean tells little.
                if form == Form::LogNormal && stddev > mean {
                    continue;
                }
                let shape = Shape { isl, block_size, rows: 500, ..shape() };
                let (ids, bytes) = shape.expected();
                let (text, made) = written(&shape);
                let near = |expected: f64, found: f64| (0.8..1.25).contains(&(found / expected));
                assert!(near(ids, made.blocks as f64), "{ids} {} {shape:?}", made.blocks);
                assert!(near(bytes, text.len() as f64), "{bytes} {} {shape:?}", text.len());
            }
        }
    }

    fn written(shape: &Shape) -> (Vec<u8>, Made) {
        let mut out = Vec::new();
        let made = shape.write(&mut out).expect("memory takes all");
        (out, made)
    }

    #[test]
    fn it_is_what_was_asked() {
        let (out, made) = written(&shape());
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), &out).expect("it is written");
        let told = analyze(file.path(), 64).expect("a trace");
        assert_eq!(told.findings.list(), []);
        assert_eq!((told.total_requests, made.rows), (2000, 2000));
        assert_eq!(told.prefix_cache_hit_rate, Some(made.hit_rate()));
        assert!((made.hit_rate() - 0.5).abs() < 0.005, "{made:?}");
        assert_eq!(told.num_prefix_groups, 5, "one trunk each");
        let (isl, osl) = (told.isl.expect("rows"), told.osl.expect("rows"));
        assert!((isl.mean - 2000.0).abs() < 60.0 && (isl.std_dev - 600.0).abs() < 50.0, "{isl:?}");
        assert!((osl.mean - 100.0).abs() < 2.0, "{osl:?}");
        let rate = told.schedule.and_then(|s| s.rate()).expect("times");
        assert!((rate - 50.0).abs() < 5.0, "{rate}");
        assert_eq!(written(&shape()).0, out, "the same seed is the same trace");
        assert_ne!(written(&Shape { seed: 43, ..shape() }).0, out);
    }

    #[test]
    fn log_normal_lengths_have_mean_and_deviation() {
        let lengths = Lengths { mean: 1000.0, stddev: 800.0, max: u64::MAX, form: Form::LogNormal };
        let n = 40_000;
        let drawn: Vec<f64> =
            (0..n).map(|i| lengths.draw(&mut Key::new(1).purpose("t").at(i)) as f64).collect();
        let mean = drawn.iter().sum::<f64>() / n as f64;
        let deviation = (drawn.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
        assert!((mean - 1000.0).abs() < 20.0 && (deviation - 800.0).abs() < 60.0, "{mean} {deviation}");
    }

    proptest! {
        /// Every row is sound, and its front came before exactly as far as was counted.
        #[test]
        fn rows_share_what_they_say(
            seed in any::<u64>(), hit_rate in prop_oneof![Just(0.0), 0.0..=1.0f64], depth in 1..5u32, groups in 1..6u32, block_size in 1..100u64,
            mean in 1.0..900.0f64, stddev in 0.0..500.0f64, skew in 0.0..2.0f64,
        ) {
            let isl = Lengths { mean, stddev, ..shape().isl };
            let asked = Shape { rows: 60, seed, hit_rate, depth, groups, block_size, isl, skew, arrival: Arrival::Constant, ..shape() };
            let (out, made) = written(&asked);
            let (mut cache, mut hits, mut blocks) = (std::collections::HashSet::<Vec<u64>>::new(), 0, 0);
            for (at, line) in out.split(|b| *b == b'\n').filter(|line| !line.is_empty()).enumerate() {
                let mut row = Row::default();
                row.read(line).expect("a row");
                prop_assert_eq!(&row.problems, &[]);
                prop_assert_eq!(row.ids.len() as u64, row.input.expect("a length").div_ceil(block_size));
                prop_assert_eq!(row.timestamp, Some(at as f64 * 20.0));
                hits += (1..=row.ids.len()).take_while(|n| cache.contains(&row.ids[..*n])).count() as u64;
                blocks += row.ids.len() as u64;
                cache.extend((1..=row.ids.len()).map(|n| row.ids[..n].to_vec()));
            }
            prop_assert_eq!((hits, blocks), (made.hits, made.blocks));
            if hit_rate == 0.0 {
                prop_assert_eq!(hits, 0);
            }
        }
    }
}
