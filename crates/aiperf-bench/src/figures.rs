//! Measured figures: shown, kept in a file, compared.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Instructions per unit.
    Instructions,
    /// Nanoseconds of CPU per unit.
    Cpu,
    /// Nanoseconds of CPU per request of a whole run.
    Run,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Instructions, Self::Cpu, Self::Run];

    /// The word in files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Cpu => "cpu",
            Self::Run => "runs",
        }
    }

    const fn heading(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Cpu | Self::Run => "CPU ns",
        }
    }
}

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub kind: Kind,
    pub name: String,
    pub unit: String,
    pub value: f64,
}

/// Several, in order. The first one is what the others are set in relation to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Figures(pub Vec<Figure>);

impl Figures {
    /// One line a figure: kind, name, unit, value, parted by tabs.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        for f in &self.0 {
            let _ = writeln!(out, "{}\t{}\t{}\t{}", f.kind.name(), f.name, f.unit, f.value);
        }
        out
    }

    fn parse(text: &str) -> Result<Self, String> {
        let figure = |(at, line): (usize, &str)| {
            let wrong = |what: &str| format!("line {}: {what} in '{line}'", at + 1);
            let mut cells = line.split('\t');
            let mut cell = || cells.next().ok_or_else(|| wrong("a cell is missing"));
            let (kind, name, unit, value) = (cell()?, cell()?, cell()?, cell()?);
            let kind =
                Kind::ALL.into_iter().find(|k| k.name() == kind).ok_or_else(|| wrong("unknown kind"))?;
            let value = value.parse().map_err(|_| wrong("no number"))?;
            Ok(Figure { kind, name: name.to_owned(), unit: unit.to_owned(), value })
        };
        text.lines().enumerate().map(figure).collect::<Result<_, String>>().map(Self)
    }

    /// Reads what [`Figures::save`] wrote.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Keeps them.
    pub(crate) fn save(&self, path: &Path) -> Result<(), String> {
        fs::write(path, self.to_text()).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn of(&self, kind: Kind, name: &str) -> Option<f64> {
        self.0.iter().find(|f| f.kind == kind && f.name == name).map(|f| f.value)
    }

    /// A table for people; with ratios to `before`, where it has the same figure.
    pub(crate) fn table(&self, before: Option<&Self>) -> String {
        let mut out = String::new();
        let Some(first) = self.0.first() else { return out };
        let yard = first.value;
        let relation = if first.kind == Kind::Run { "of first" } else { "yards" };
        let _ = write!(out, "{:<22}{:>16}  {:<10}{relation:>10}", "", first.kind.heading(), "per");
        out.push_str(if before.is_some() { "    before×\n" } else { "\n" });
        for f in &self.0 {
            let relation = f.value / yard;
            let _ = write!(out, "{:<22}{:>16.1}  {:<10}{relation:>10.3}", f.name, f.value, f.unit);
            match before.and_then(|b| b.of(f.kind, &f.name)) {
                Some(b) => {
                    let _ = writeln!(out, "{:>11.3}", f.value / b);
                }
                None => out.push('\n'),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(value: f64) -> Figures {
        let figure = |kind, name: &str, value| Figure { kind, name: name.into(), unit: "line".into(), value };
        Figures(vec![figure(Kind::Cpu, "yardstick", 2.0), figure(Kind::Cpu, "jsonl", value)])
    }

    #[test]
    fn what_is_kept_reads_back() {
        let figures = sample(1234.5);
        assert_eq!(Figures::parse(&figures.to_text()), Ok(figures));
        assert!(Figures::parse("cpu\ta\tb\tx").is_err_and(|e| e.contains("line 1: no number")));
        assert!(Figures::parse("time\ta\tb\t1").is_err_and(|e| e.contains("unknown kind")));
        assert!(Figures::parse("cpu\ta").is_err_and(|e| e.contains("missing")));
    }

    #[test]
    fn ratios_are_to_the_same_kind_and_name() {
        let table = sample(30.0).table(Some(&sample(20.0)));
        let line = table.lines().find(|l| l.starts_with("jsonl")).expect("its line");
        assert!(line.ends_with("15.000      1.500"), "{line}");
        let other = Figures(vec![Figure { kind: Kind::Instructions, ..sample(1.0).0[1].clone() }]);
        let table = sample(30.0).table(Some(&other));
        assert!(table.lines().any(|l| l.ends_with("15.000")), "{table}");
    }
}
