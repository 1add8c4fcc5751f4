//! Rules that text is written by.
//!
//! A file holds sections. `== name` begins one way of writing rule `name`, to the next section; `=| name` begins a list with one
//! way on each line. A rule's ways are equally likely. In a way, `«…»` stands for something:
//!
//! | written | stands for |
//! | --- | --- |
//! | `«noun»` | one way of the rule `noun` |
//! | `«2-5*py.step»` | two to five of them, each on a line of its own |
//! | `«1..90»`, `«00..59»`, `«0.10..2.00»` | a number, with as many digits as the first one has |
//! | `«#8»` | eight hexadecimal digits |
//! | `«noun.Pascal»` | the same in another spelling |
//! | `«x:noun»` | the same as `«noun»`, kept as `x` until the way ends |
//! | `«x»`, `«x.Pascal»` | what was kept |
//! | `«today»`, `«clock»`, `«tick»`, `«falling»` | a day, and a time, a number and a loss that go on through the document |
//!
//! An `s` behind a mark is its plural: `es` or `ies` where the word wants it.

use rustc_hash::FxHashMap;

/// A part of one way.
#[derive(Debug)]
pub(super) enum Part {
    Text(&'static str),
    Rule { rule: usize, spelling: Spelling, keep: Option<&'static str> },
    Lines { rule: usize, low: u64, high: u64 },
    Number { number: Number, keep: Option<&'static str> },
    Hex { digits: usize, keep: Option<&'static str> },
    Kept { name: &'static str, spelling: Spelling },
    Plural,
    Today,
    Clock,
    Tick,
    Falling,
}

/// Numbers from one to another, in steps of the last digit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    pub(super) low: u64,
    pub(super) high: u64,
    /// Digits behind the point.
    pub(super) decimals: usize,
    /// Digits at least, with zeros in front.
    pub(super) width: usize,
}

/// How words joined by `_` are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    AsIs,
    Pascal,
    Camel,
    Upper,
    Kebab,
    Words,
}

/// Rules by name.
#[derive(Debug, Default)]
pub(super) struct Grammar {
    names: FxHashMap<&'static str, usize>,
    rules: Vec<Vec<Vec<Part>>>,
}

impl Grammar {
    /// Reads files that are part of the program. A name that no rule has counts as something kept.
    pub(super) fn read(files: &[&'static str]) -> Self {
        let mut ways: Vec<(usize, &'static str)> = Vec::new();
        let mut grammar = Self::default();
        for file in files {
            // A section begins at a line's start.
            let mut rest = *file;
            while let Some(at) = section(rest) {
                let (head, body) = rest[at..].split_once('\n').unwrap_or((&rest[at..], ""));
                let end = section(body).unwrap_or(body.len());
                let next = grammar.names.len();
                let rule = *grammar.names.entry(head[2..].trim()).or_insert(next);
                let text = body[..end].trim_end();
                if head.starts_with("=|") {
                    ways.extend(text.lines().map(|line| (rule, line)));
                } else {
                    ways.push((rule, text));
                }
                rest = &body[end..];
            }
        }
        grammar.rules.resize_with(grammar.names.len(), Vec::new);
        for (rule, text) in ways {
            let way = grammar.way(text);
            grammar.rules[rule].push(way);
        }
        grammar
    }

    fn way(&self, text: &'static str) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('«') {
            let (mark, behind) = behind.split_once('»').unwrap_or((behind, ""));
            if !before.is_empty() {
                parts.push(Part::Text(before));
            }
            parts.push(self.part(mark));
            let ends = |text: &str| !text.starts_with(|c: char| c.is_ascii_lowercase());
            rest = match behind.strip_prefix('s') {
                Some(behind) if ends(behind) => {
                    parts.push(Part::Plural);
                    behind
                }
                _ => behind,
            };
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest));
        }
        parts
    }

    fn part(&self, mark: &'static str) -> Part {
        let (keep, what) = match mark.split_once(':') {
            Some((name, what)) => (Some(name), what),
            None => (None, mark),
        };
        // Names of rules hold points too, so the whole counts first.
        if let Some(rule) = self.names.get(what) {
            return Part::Rule { rule: *rule, spelling: Spelling::AsIs, keep };
        }
        let (name, spelling) = spelling(what);
        if let Some(rule) = self.names.get(name) {
            return Part::Rule { rule: *rule, spelling, keep };
        }
        if let Some(digits) = what.strip_prefix('#').and_then(|d| d.parse().ok()) {
            return Part::Hex { digits, keep };
        }
        if let Some(number) = number(what) {
            return Part::Number { number, keep };
        }
        if let Some((times, rule)) = what.split_once('*')
            && let Some((low, high)) = times.split_once('-')
            && let (Ok(low), Ok(high), Some(rule)) = (low.parse(), high.parse(), self.names.get(rule))
        {
            return Part::Lines { rule: *rule, low, high };
        }
        match what {
            "today" => return Part::Today,
            "clock" => return Part::Clock,
            "tick" => return Part::Tick,
            "falling" => return Part::Falling,
            _ => {}
        }
        Part::Kept { name, spelling }
    }

    /// The ways of a rule; none of one that does not exist.
    pub(super) fn ways(&self, rule: usize) -> &[Vec<Part>] {
        self.rules.get(rule).map_or(&[], Vec::as_slice)
    }

    /// The rule of that name.
    pub(super) fn rule(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }
}

/// Where the first section begins.
fn section(text: &str) -> Option<usize> {
    let begins = |text: &str| text.starts_with("== ") || text.starts_with("=| ");
    if begins(text) {
        return Some(0);
    }
    text.match_indices("\n=").map(|(at, _)| at + 1).find(|at| begins(&text[*at..]))
}

/// A name and how what it stands for is spelled.
fn spelling(mark: &'static str) -> (&'static str, Spelling) {
    match mark.rsplit_once('.') {
        Some((name, "Pascal")) => (name, Spelling::Pascal),
        Some((name, "camel")) => (name, Spelling::Camel),
        Some((name, "UPPER")) => (name, Spelling::Upper),
        Some((name, "kebab")) => (name, Spelling::Kebab),
        Some((name, "words")) => (name, Spelling::Words),
        _ => (mark, Spelling::AsIs),
    }
}

fn number(text: &str) -> Option<Number> {
    let (low, high) = text.split_once("..")?;
    let decimals = low.split_once('.').map_or(0, |(_, digits)| digits.len());
    let scaled = |text: &str| text.replace('.', "").parse::<u64>().ok();
    let width = if decimals == 0 && low.len() > 1 && low.starts_with('0') { low.len() } else { 0 };
    Some(Number { low: scaled(low)?, high: scaled(high)?, decimals, width })
}

#[cfg(test)]
impl Grammar {
    pub(super) fn has(&self, name: &str) -> bool {
        self.rule(name).is_some()
    }

    fn name(&self, rule: usize) -> &'static str {
        self.names.iter().find(|(_, r)| **r == rule).map_or("", |(name, _)| name)
    }

    fn parts(&self) -> impl Iterator<Item = (usize, &Part)> {
        let ways = self.rules.iter().enumerate().flat_map(|(rule, ways)| ways.iter().map(move |w| (rule, w)));
        ways.flat_map(|(rule, way)| way.iter().map(move |part| (rule, part)))
    }

    /// Names that are neither rules nor ever kept, and rules without a way.
    pub(super) fn unknown(&self) -> Vec<String> {
        let kept: Vec<&str> = self
            .parts()
            .filter_map(|(_, part)| match part {
                Part::Rule { keep, .. } | Part::Number { keep, .. } | Part::Hex { keep, .. } => *keep,
                _ => None,
            })
            .collect();
        let mut unknown: Vec<String> = self
            .parts()
            .filter_map(|(rule, part)| match part {
                Part::Kept { name, .. } if !kept.contains(name) => {
                    Some(format!("{}: {name}", self.name(rule)))
                }
                _ => None,
            })
            .collect();
        unknown.extend(
            (0..self.rules.len()).filter(|r| self.rules[*r].is_empty()).map(|r| self.name(r).to_owned()),
        );
        unknown
    }

    /// Rules that nothing leads to from `roots`.
    pub(super) fn unused<'a>(&self, roots: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut found: Vec<usize> = roots.filter_map(|name| self.rule(name)).collect();
        let mut at = 0;
        while at < found.len() {
            for part in self.rules[found[at]].iter().flatten() {
                if let Part::Rule { rule, .. } | Part::Lines { rule, .. } = part
                    && !found.contains(rule)
                {
                    found.push(*rule);
                }
            }
            at += 1;
        }
        (0..self.rules.len()).filter(|r| !found.contains(r)).map(|r| self.name(r).to_owned()).collect()
    }
}
