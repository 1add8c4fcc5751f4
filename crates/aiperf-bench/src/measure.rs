//! How work is measured.

use std::process::Command;

use aiperf_os::usage::process_usage;

use crate::case::Case;
use crate::figures::{Figure, Figures, Kind};
use crate::material::Material;

/// Rounds of a CPU time; the smallest one counts, for whatever disturbs adds.
const ROUNDS: u32 = 5;

/// CPU time of a unit of each case, the yardstick in front.
pub(crate) fn cpu(cases: &[&'static Case], material: &Material) -> Figures {
    Figures(with_yardstick(cases).map(|case| figure(Kind::Cpu, case, cpu_of(case, material))).collect())
}

fn cpu_of(case: &Case, material: &Material) -> f64 {
    let mut work = (case.make)(material);
    work(1);
    let round = || {
        let before = process_usage().cpu_ns;
        work(case.units);
        (process_usage().cpu_ns - before) as f64 / case.units as f64
    };
    std::iter::repeat_with(round).take(ROUNDS as usize).fold(f64::INFINITY, f64::min)
}

/// Instructions of a unit of each case that can be counted, the yardstick in front.
pub(crate) fn instructions(cases: &[&'static Case], tokenizer: &str) -> Result<Figures, String> {
    with_yardstick(cases)
        .filter(|case| case.counted > 0)
        .map(|case| {
            let without = collected(case, 0, tokenizer)?;
            let with = collected(case, case.counted, tokenizer)?;
            let value = with.saturating_sub(without) as f64 / case.counted as f64;
            Ok(figure(Kind::Instructions, case, value))
        })
        .collect::<Result<_, String>>()
        .map(Figures)
}

/// Does a case's preparation, one unit that fills tables made at first use, and `units` more.
pub(crate) fn only(case: &Case, material: &Material, units: u64) {
    let mut work = (case.make)(material);
    work(1);
    work(units);
}

/// Instructions of this program doing `units` of a case.
fn collected(case: &Case, units: u64, tokenizer: &str) -> Result<u64, String> {
    let this = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(this)
        .args(["only", case.name, &units.to_string(), tokenizer])
        .output()
        .map_err(|e| format!("valgrind: {e}; without `count` CPU times need no valgrind"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    parse_collected(&said).ok_or_else(|| format!("valgrind gave no count for {}:\n{said}", case.name))
}

/// The number in callgrind's `==1== Collected : 123`.
fn parse_collected(said: &str) -> Option<u64> {
    let (_, rest) = said.lines().find_map(|line| line.split_once("Collected :"))?;
    rest.trim().parse().ok()
}

fn with_yardstick(cases: &[&'static Case]) -> impl Iterator<Item = &'static Case> {
    let yardstick = &crate::cases::CASES[0];
    let rest: Vec<_> = cases.iter().copied().filter(|case| case.name != yardstick.name).collect();
    std::iter::once(yardstick).chain(rest)
}

fn figure(kind: Kind, case: &Case, value: f64) -> Figure {
    Figure { kind, name: case.name.to_owned(), unit: case.unit.to_owned(), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_among_what_valgrind_says() {
        let said = "==7== Callgrind, a call-graph generating cache profiler\n==7== \n==7== Events    : Ir\n==7== Collected : 1234567\n";
        assert_eq!(parse_collected(said), Some(1_234_567));
        assert_eq!(parse_collected("valgrind: cannot execute"), None);
    }

    #[test]
    fn the_yardstick_comes_first_and_once() {
        let all: Vec<_> = crate::cases::CASES.iter().collect();
        let names: Vec<_> = with_yardstick(&all[1..3]).map(|c| c.name).collect();
        assert_eq!(names[0], "yardstick");
        assert_eq!(names.len(), 3);
        assert_eq!(with_yardstick(&all).count(), all.len());
    }
}
