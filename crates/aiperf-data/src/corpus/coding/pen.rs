//! Writes text by the rules of a grammar.

use std::fmt::Write as _;

use aiperf_rng::Draws;

use super::grammar::{Grammar, Number, Part, Spelling};

/// How deep rules may stand in each other; deeper ones write nothing. The deepest of the corpus's own is 7.
const DEPTH: usize = 16;

/// Writes one document.
pub(super) struct Pen<'a> {
    grammar: &'a Grammar,
    draws: &'a mut Draws,
    out: &'a mut String,
    /// What was kept, the latest last.
    kept: Vec<(&'static str, String)>,
    /// What each line but the first of a nested way begins with.
    indent: String,
    /// Year, month, day.
    today: (u64, u64, u64),
    /// Milliseconds of the day.
    clock: u64,
    tick: u64,
    tick_step: u64,
    falling: f64,
}

impl<'a> Pen<'a> {
    pub(super) fn new(grammar: &'a Grammar, draws: &'a mut Draws, out: &'a mut String) -> Self {
        let today = (2024 + draws.below(3), 1 + draws.below(12), 1 + draws.below(28));
        let clock = draws.below(86_400_000);
        let tick_step = [1, 10, 20, 25, 50, 100][draws.position(6)];
        let tick = draws.below(400) * tick_step;
        let falling = 1.2 + draws.unit() * 9.0;
        Self {
            grammar,
            draws,
            out,
            kept: Vec::new(),
            indent: String::new(),
            today,
            clock,
            tick,
            tick_step,
            falling,
        }
    }

    /// Bytes written so far, those before this document included.
    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    /// Writes a text as it is.
    pub(super) fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Writes one way of a rule.
    pub(super) fn write(&mut self, rule: &str) {
        if let Some(rule) = self.grammar.rule(rule) {
            self.rule(rule, 0);
        }
    }

    fn rule(&mut self, rule: usize, depth: usize) {
        let grammar = self.grammar;
        let ways = grammar.ways(rule);
        if depth >= DEPTH || ways.is_empty() {
            return;
        }
        let way = &ways[self.draws.position(ways.len())];
        let (kept, indent) = (self.kept.len(), self.indent.len());
        self.indent_as_this_line();
        for part in way {
            self.part(part, depth);
        }
        self.kept.truncate(kept);
        self.indent.truncate(indent);
    }

    /// Nested lines begin as the line does that they are nested in.
    fn indent_as_this_line(&mut self) {
        let line = self.out.rfind('\n').map_or(0, |at| at + 1);
        let text = &self.out[line..];
        let white = text.len() - text.trim_start_matches([' ', '\t']).len();
        let known = self.indent.len();
        if white > known {
            self.indent.push_str(&self.out[line + known..line + white]);
        }
    }

    fn part(&mut self, part: &Part, depth: usize) {
        match part {
            Part::Text(text) => self.lines(text),
            Part::Rule { rule, spelling, keep } => {
                let from = self.out.len();
                self.rule(*rule, depth + 1);
                if *spelling != Spelling::AsIs {
                    let plain = self.out.split_off(from);
                    spell(&plain, *spelling, self.out);
                }
                self.keep(*keep, from);
            }
            Part::Lines { rule, low, high } => {
                let indent = self.indent.len();
                self.indent_as_this_line();
                for i in 0..low + self.draws.below(high - low + 1) {
                    if i > 0 {
                        self.lines("\n");
                    }
                    self.rule(*rule, depth + 1);
                }
                self.indent.truncate(indent);
            }
            Part::Number { number, keep } => {
                let from = self.out.len();
                self.number(*number);
                self.keep(*keep, from);
            }
            Part::Hex { digits, keep } => {
                let from = self.out.len();
                for _ in 0..*digits {
                    let digit = char::from_digit(self.draws.below(16) as u32, 16).unwrap_or('0');
                    self.out.push(digit);
                }
                self.keep(*keep, from);
            }
            Part::Kept { name, spelling } => {
                let kept = self.kept.iter().rev().find(|(n, _)| n == name);
                let text = kept.map_or(*name, |(_, text)| text.as_str());
                spell(text, *spelling, self.out);
            }
            Part::Plural => plural(self.out),
            Part::Today => {
                let (year, month, day) = self.today;
                self.put(format_args!("{year}-{month:02}-{day:02}"));
            }
            Part::Clock => {
                self.clock = (self.clock + 1 + self.draws.below(4000)) % 86_400_000;
                let s = self.clock / 1000;
                self.put(format_args!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60));
            }
            Part::Tick => {
                self.tick += self.tick_step;
                let tick = self.tick;
                self.put(format_args!("{tick}"));
            }
            Part::Falling => {
                self.falling *= 0.965 + self.draws.unit() * 0.05;
                let falling = self.falling;
                self.put(format_args!("{falling:.4}"));
            }
        }
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.out.write_fmt(text);
    }

    fn number(&mut self, number: Number) {
        let Number { low, high, decimals, width } = number;
        let drawn = low + self.draws.below((high - low).saturating_add(1));
        if decimals == 0 {
            self.put(format_args!("{drawn:0width$}"));
        } else {
            let unit = 10u64.pow(decimals as u32);
            self.put(format_args!("{}.{:0decimals$}", drawn / unit, drawn % unit));
        }
    }

    fn keep(&mut self, name: Option<&'static str>, from: usize) {
        if let Some(name) = name {
            self.kept.push((name, self.out[from..].to_owned()));
        }
    }

    /// Writes a text whose lines but the first are indented, those that hold nothing excepted.
    fn lines(&mut self, text: &str) {
        let mut lines = text.split('\n');
        self.out.push_str(lines.next().unwrap_or_default());
        let mut lines = lines.peekable();
        while let Some(line) = lines.next() {
            self.out.push('\n');
            // What follows the text goes on in its last line.
            if !line.is_empty() || lines.peek().is_none() {
                self.out.push_str(&self.indent);
            }
            self.out.push_str(line);
        }
    }
}

/// Makes the last word written a plural.
fn plural(out: &mut String) {
    let is_vowel = |c: Option<char>| c.is_some_and(|c| "aeiou".contains(c.to_ascii_lowercase()));
    let stem = out.strip_suffix('y').filter(|stem| !is_vowel(stem.chars().next_back())).map(str::len);
    if let Some(stem) = stem {
        out.truncate(stem);
        out.push_str("ies");
    } else if ["s", "x", "ch", "sh", "X"].iter().any(|end| out.ends_with(end)) {
        out.push_str("es");
    } else {
        out.push('s');
    }
}

/// Writes `snake_case` words in another spelling.
fn spell(text: &str, spelling: Spelling, out: &mut String) {
    match spelling {
        Spelling::AsIs => out.push_str(text),
        Spelling::Upper => out.extend(text.chars().flat_map(char::to_uppercase)),
        Spelling::Kebab => out.extend(text.chars().map(|c| if c == '_' { '-' } else { c })),
        Spelling::Words => out.extend(text.chars().map(|c| if c == '_' { ' ' } else { c })),
        Spelling::Pascal | Spelling::Camel => {
            let mut upper = spelling == Spelling::Pascal;
            for c in text.chars() {
                if c == '_' {
                    upper = true;
                } else if upper {
                    out.extend(c.to_uppercase());
                    upper = false;
                } else {
                    out.push(c);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use aiperf_rng::Key;

    use super::*;

    fn written(rules: &'static str, root: &str) -> String {
        let grammar = Grammar::read(&[rules]);
        let mut draws = Key::new(1).purpose("test.pen").at(0);
        let mut out = String::new();
        Pen::new(&grammar, &mut draws, &mut out).write(root);
        out
    }

    #[test]
    fn rules_nest_keep_and_indent() {
        let rules = "== root\ndef «f:name»():\n    «2-2*step»\n\n    return «f.Pascal»«f.UPPER»«f.kebab»«f.camel»«f.words»\n\
                     =| name\nold_value\n== step\nif x:\n    «leaf»\n== leaf\na\n\nb\n";
        assert_eq!(
            written(rules, "root"),
            "def old_value():\n    if x:\n        a\n\n        b\n    if x:\n        a\n\n        b\n\n    \
             return OldValueOLD_VALUEold-valueoldValueold value"
        );
    }

    #[test]
    fn numbers_have_the_digits_of_their_bounds() {
        assert_eq!(
            written("== root\n«7..7» «007..007» «1.50..1.50» «0.05..0.05»", "root"),
            "7 007 1.50 0.05"
        );
        let hex = written("== root\n«h:#8» «h»", "root");
        let (first, second) = hex.split_once(' ').expect("two words");
        assert_eq!((first.len(), first), (8, second));
        assert!(first.bytes().all(|b| b.is_ascii_hexdigit()));
    }

    #[test]
    fn words_get_their_plural() {
        for (word, plural) in
            [("job", "jobs"), ("policy", "policies"), ("key", "keys"), ("matrix", "matrixes")]
        {
            let rules: &'static str = String::leak(format!("== root\n«word»s, «word»_ids\n== word\n{word}"));
            assert_eq!(written(rules, "root"), format!("{plural}, {word}_ids"));
        }
    }

    #[test]
    fn what_goes_on_through_a_document_goes_on() {
        let text = written("== root\n«clock» «tick» «falling»\n«clock» «tick» «falling»", "root");
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split(' ').collect()).collect();
        let number = |line: usize| lines[line][1].parse::<u64>().expect("a number");
        assert!(number(1) > number(0));
        assert!(lines[0][0] <= lines[1][0], "{text}");
        assert!(lines.iter().all(|l| l[2].parse::<f64>().is_ok()));
    }

    #[test]
    fn rules_without_an_end_stop() {
        assert_eq!(written("== root\na«root»", "root"), "a".repeat(DEPTH));
    }
}
