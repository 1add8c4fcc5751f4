//! What a trace holds: lengths, prefixes, and hit rates of a cache that forgets nothing.

use std::path::Path;

use crate::counts::{Counts, Stats};
use crate::findings::{Findings, Kind};
use crate::lines::{Lines, ReadError};
use crate::marks::{Came, Marks, joined, mixed};
use crate::row::Row;
use crate::sessions::Sessions;

/// Block sizes that traces are made with.
const SIZES: [u64; 10] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/// Figures of a trace, under AIPerf's names, and what is wrong with it.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// Tokens of a block, as given.
    pub block_size: u64,
    /// Rows that could be read.
    pub total_requests: u64,
    /// Distinct beginnings of rows, in ids.
    pub unique_prefixes: u64,
    /// First ids that begin two rows or more.
    pub num_prefix_groups: u64,
    /// Mean of the rows' hit rates; 0 without ids.
    pub cache_hit_rate: f64,
    /// Beginnings that came more than once, of all, each counted as often as it came.
    pub prefix_reuse_ratio: f64,
    /// Tokens of prompts.
    pub isl: Option<Stats>,
    /// Tokens of answers.
    pub osl: Option<Stats>,
    /// Tokens in blocks that come in another row at the same place, at most the prompt's.
    pub context_length: Option<Stats>,
    /// The rest of each prompt.
    pub unique_prompt_length: Option<Stats>,
    /// Of each row with ids, the share of its ids at the front that came in rows before it, behind whatever blocks.
    pub hit_rate: Option<Stats>,
    /// Of all ids, the share at the front of their rows that came at the front of a row before, behind the same blocks.
    pub prefix_cache_hit_rate: Option<f64>,
    /// Conversations: sessions, and rows without one.
    pub conversations: u64,
    /// Times, where rows have any.
    pub schedule: Option<Schedule>,
    /// What is wrong.
    pub findings: Findings,
}

/// When rows are to be sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// Rows with a timestamp.
    pub rows: u64,
    /// The earliest, milliseconds.
    pub first_ms: f64,
    /// The latest.
    pub last_ms: f64,
}

impl Schedule {
    /// Rows a second from the first to the last.
    pub fn rate(&self) -> Option<f64> {
        let seconds = (self.last_ms - self.first_ms) / 1e3;
        (seconds > 0.0).then(|| (self.rows - 1) as f64 / seconds)
    }
}

/// Reads `path`, whose ids are of blocks of `block_size` tokens, at least one.
pub fn analyze(path: &Path, block_size: u64) -> Result<Analysis, ReadError> {
    let mut lines = Lines::open(path)?;
    let mut first = First::new(block_size.max(1));
    let mut row = Row::default();
    lines.each(|line, text| {
        first.line(line, text, &mut row);
        true
    })?;
    if first.rows == 0
        && let Some((line, why)) = first.broken.take()
    {
        let lines = first.findings.get(Kind::Broken).map_or(0, |finding| finding.count);
        return Err(ReadError::NoTrace { path: path.to_owned(), lines, first: line, why });
    }
    let mut second = Second::default();
    lines.each(|_, text| {
        if row.read(text).is_ok() {
            second.row(&row, first.block_size, &first.pairs);
        }
        true
    })?;
    if second.rows != first.rows {
        return Err(ReadError::Changed { path: lines.path().to_owned() });
    }
    Ok(first.finish(&second))
}

/// Of the pass that counts.
struct First {
    block_size: u64,
    rows: u64,
    broken: Option<(u64, String)>,
    isl: Counts,
    osl: Counts,
    hits: Counts,
    /// Digests of beginnings, of (place, id), of ids.
    prefixes: Marks,
    pairs: Marks,
    ids: Marks,
    groups: u64,
    all_ids: u64,
    prefix_hits: u64,
    fits: Fits,
    sessions: Sessions,
    alone: u64,
    is_timed: Option<bool>,
    last_ms: Option<f64>,
    schedule: Option<Schedule>,
    scratch: Vec<u64>,
    findings: Findings,
}

impl First {
    fn new(block_size: u64) -> Self {
        Self {
            block_size,
            rows: 0,
            broken: None,
            isl: Counts::default(),
            osl: Counts::default(),
            hits: Counts::default(),
            prefixes: Marks::default(),
            pairs: Marks::default(),
            ids: Marks::default(),
            groups: 0,
            all_ids: 0,
            prefix_hits: 0,
            fits: Fits::new(block_size),
            sessions: Sessions::default(),
            alone: 0,
            is_timed: None,
            last_ms: None,
            schedule: None,
            scratch: Vec::new(),
            findings: Findings::default(),
        }
    }

    fn line(&mut self, line: u64, text: &[u8], row: &mut Row) {
        if let Err(why) = row.read(text) {
            self.findings.add(Kind::Broken, line, || why.clone());
            self.broken.get_or_insert((line, why));
            return;
        }
        self.rows += 1;
        let has_no_source = row.problems.iter().any(|problem| problem.kind == Kind::NoSource);
        for problem in std::mem::take(&mut row.problems) {
            self.findings.add(problem.kind, line, || problem.told);
        }
        for key in std::mem::take(&mut row.unknown) {
            self.findings.key(key, line);
        }
        self.isl.add(row.input.unwrap_or(0));
        self.osl.add(row.output.unwrap_or(0));
        if row.input.is_none() && !row.is_input_wrong && !has_no_source {
            self.findings.add(Kind::NoLength, line, String::new);
        }
        if row.output.is_none() && !row.is_output_wrong {
            self.findings.add(Kind::NoOutput, line, String::new);
        }
        if !row.ids.is_empty() {
            self.blocks(line, row);
        }
        let begins = self.sessions.push(line, row, self.block_size, &mut self.findings);
        self.alone += u64::from(row.session.is_none());
        self.time(line, row, begins);
    }

    fn blocks(&mut self, line: u64, row: &Row) {
        let n = row.ids.len() as u64;
        if let Some(input) = row.input.filter(|input| *input > 0) {
            self.fits.add(input, n);
            let size = self.block_size;
            let told = || format!("{n} ids in {input} tokens, blocks of {size}");
            if n > input.div_ceil(size) {
                self.findings.add(Kind::TooManyIds, line, told);
            } else if n < input / size {
                self.findings.add(Kind::FewIds, line, told);
            }
        }
        let seen = row.ids.iter().take_while(|id| self.ids.has(mixed(**id))).count();
        self.hits.add_share(seen as u64, u32::try_from(n).unwrap_or(u32::MAX));
        let (mut prefix, mut known, mut is_new, mut moved) = (0, 0, false, None);
        for (at, id) in row.ids.iter().enumerate() {
            prefix = joined(prefix, *id);
            let came = self.prefixes.add(prefix);
            is_new |= came == Came::First;
            known += u64::from(!is_new);
            if is_new && moved.is_none() && self.ids.has(mixed(*id)) {
                moved = Some(*id);
            }
            self.groups += u64::from(at == 0 && came == Came::Second);
            self.pairs.add(joined(at as u64, *id));
        }
        self.all_ids += n;
        self.prefix_hits += known;
        if let Some(id) = moved {
            self.findings.add(Kind::IdBehindOthers, line, || format!("id {id}"));
        }
        if row.ids.windows(2).any(|pair| pair[0] >= pair[1]) {
            self.scratch.clone_from(&row.ids);
            self.scratch.sort_unstable();
            if let Some([twice, ..]) = self.scratch.windows(2).find(|pair| pair[0] == pair[1]) {
                self.findings.add(Kind::RepeatedIds, line, || format!("id {twice}"));
            }
        }
        for id in &row.ids {
            self.ids.add(mixed(*id));
        }
    }

    fn time(&mut self, line: u64, row: &Row, begins: bool) {
        let is_timed = *self.is_timed.get_or_insert(row.timestamp.is_some());
        let Some(ms) = row.timestamp else {
            if begins && is_timed {
                self.findings.add(Kind::UntimedStart, line, String::new);
            }
            return;
        };
        if !is_timed {
            self.findings.add(Kind::LaterTimed, line, String::new);
        }
        // Turns behind the first wait for the one before them.
        if begins {
            if let Some(before) = self.last_ms.filter(|before| ms < *before) {
                self.findings.add(Kind::TimeBackwards, line, || format!("{ms} ms behind {before} ms"));
            }
            self.last_ms = Some(ms);
        }
        let schedule = self.schedule.get_or_insert(Schedule { rows: 0, first_ms: ms, last_ms: ms });
        schedule.rows += 1;
        schedule.first_ms = schedule.first_ms.min(ms);
        schedule.last_ms = schedule.last_ms.max(ms);
    }

    fn finish(mut self, second: &Second) -> Analysis {
        let line_of = |kind| self.findings.get(kind).map(|finding| finding.lines[0]);
        if let Some((size, fit)) = self.fits.better()
            && let Some(line) = line_of(Kind::TooManyIds).or_else(|| line_of(Kind::FewIds))
        {
            let Fits { rows, given, of_given, .. } = self.fits;
            self.findings.add(Kind::BlockSize, line, || {
                format!("{size} fits {fit} of the {rows} rows with ids, {given} fits {of_given}")
            });
        }
        let conversations = self.sessions.len() + self.alone;
        self.sessions.finish(&mut self.findings);
        // A count of a prefix is at least 2 where it is repeated; those with 1 are the others.
        let single = self.prefixes.len() - self.prefixes.repeated();
        let share = |part: u64| (self.all_ids > 0).then(|| part as f64 / self.all_ids as f64);
        Analysis {
            block_size: self.block_size,
            total_requests: self.rows,
            unique_prefixes: self.prefixes.len(),
            num_prefix_groups: self.groups,
            cache_hit_rate: self.hits.mean().unwrap_or(0.0),
            prefix_reuse_ratio: share(self.all_ids - single).unwrap_or(0.0),
            isl: self.isl.stats(),
            osl: self.osl.stats(),
            context_length: second.context.stats(),
            unique_prompt_length: second.own.stats(),
            hit_rate: self.hits.stats(),
            prefix_cache_hit_rate: share(self.prefix_hits),
            conversations,
            schedule: self.schedule,
            findings: self.findings,
        }
    }
}

/// Of the pass that knows what is repeated.
#[derive(Default)]
struct Second {
    rows: u64,
    context: Counts,
    own: Counts,
}

impl Second {
    fn row(&mut self, row: &Row, size: u64, pairs: &Marks) {
        self.rows += 1;
        let input = row.input.unwrap_or(0);
        let repeated =
            row.ids.iter().enumerate().filter(|(at, id)| pairs.is_repeated(joined(*at as u64, **id)));
        let repeated = repeated.count();
        let is_all = !row.ids.is_empty() && repeated == row.ids.len();
        let context = if is_all { input } else { input.min((repeated as u64).saturating_mul(size)) };
        self.context.add(context);
        self.own.add(input - context);
    }
}

/// Which block sizes fit lengths and numbers of ids: the last block may be cut short, or have no id.
#[derive(Debug)]
struct Fits {
    rows: u64,
    of_sizes: [u64; SIZES.len()],
    /// The size that was asked for, which may be none of the usual ones, and the rows that it fits.
    given: u64,
    of_given: u64,
    /// Sizes that fit all rows, the last block having an id.
    least: u64,
    most: u64,
}

impl Fits {
    fn new(given: u64) -> Self {
        Self { rows: 0, of_sizes: [0; SIZES.len()], given, of_given: 0, least: 1, most: u64::MAX }
    }

    fn add(&mut self, input: u64, ids: u64) {
        let fits = |size: u64| u64::from((input / size..=input.div_ceil(size)).contains(&ids));
        self.rows += 1;
        self.of_given += fits(self.given);
        for (fit, size) in self.of_sizes.iter_mut().zip(SIZES) {
            *fit += fits(size);
        }
        self.least = self.least.max(input.div_ceil(ids));
        if ids > 1 {
            self.most = self.most.min(input.div_ceil(ids - 1) - 1);
        }
    }

    /// A size that fits more rows than the given one, and how many.
    fn better(&self) -> Option<(u64, u64)> {
        let usual = SIZES.into_iter().zip(self.of_sizes);
        // The roundest of those that fit all.
        let span = self.least..=self.most;
        let round = [1000, 100, 50, 10, 1].into_iter().map(|unit| self.least.next_multiple_of(unit));
        let other = round.filter(|size| span.contains(size)).map(|size| (size, self.rows)).next();
        usual
            .chain(other)
            .filter(|(_, fit)| *fit > self.of_given)
            .max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)))
    }
}

#[cfg(test)]
mod tests;
