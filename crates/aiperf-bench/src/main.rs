//! What a unit of each part's work costs: instructions where valgrind is at hand, CPU time everywhere.
//!
//! ```text
//! cargo run --release -p aiperf-bench -- list                    what there is
//! cargo run --release -p aiperf-bench -- all                     CPU time of a unit of each
//! cargo run --release -p aiperf-bench -- count all               instructions of a unit of each (valgrind)
//! cargo run --release -p aiperf-bench -- sse-read record         some of them
//! cargo run --release -p aiperf-bench -- runs                    whole runs of the `aiperf` beside this program
//! cargo run --release -p aiperf-bench -- prompts [WORD…]         speed of making prompts: corpora × lengths × surroundings
//!     --save FILE         keep the figures
//!     --compare FILE      ratios to figures kept before
//!     --tokenizer NAME    another one than `builtin`
//!     --memory PROMPTS    with `prompts`: resident memory over so many instead
//!     --seed N, --json    with `prompts`: another seed than 1; lines of JSON
//! ```
//!
//! A case does a fixed amount of work. Its instructions are counted by running this program twice under valgrind's callgrind, with
//! and without the work, so that neither start nor preparation is in the difference. They repeat to a part in a thousand and
//! hardly depend on what else the machine does; CPU time does, so take it as a ratio: to the yardstick of the same run
//! (`yards`), or to figures kept on the same machine. Nothing here fails for being slow.

mod case;
mod cases;
mod figures;
mod material;
mod measure;
mod prompts;
mod runs;

// The very file the run is built from: the ring is no part of that crate's surface and is not to become one for being measured.
#[cfg_attr(not(test), expect(dead_code, reason = "the end of a phase is not measured"))]
#[path = "../../aiperf-run/src/ring.rs"]
mod ring;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use case::Case;
use cases::CASES;
use figures::{Figures, Kind};
use material::Material;

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    names: Vec<String>,
    count: bool,
    save: Option<PathBuf>,
    compare: Option<PathBuf>,
    tokenizer: String,
}

impl Asked {
    fn read(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked =
            Self { names: Vec::new(), count: false, save: None, compare: None, tokenizer: "builtin".into() };
        let mut args = args;
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "count" => asked.count = true,
                "--save" => asked.save = Some(value()?.into()),
                "--compare" => asked.compare = Some(value()?.into()),
                "--tokenizer" => asked.tokenizer = value()?,
                _ if arg.starts_with('-') => return Err(format!("unknown option {arg}")),
                _ => asked.names.push(arg),
            }
        }
        Ok(asked)
    }

    /// The cases of the names.
    fn cases(&self) -> Result<Vec<&'static Case>, String> {
        if self.names.iter().any(|n| n == "all") {
            return Ok(CASES.iter().collect());
        }
        let find = |name: &String| {
            CASES.iter().find(|c| c.name == name).ok_or(format!("no case is named {name}; see `list`"))
        };
        self.names.iter().map(find).collect()
    }
}

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            let _ = writeln!(io::stderr(), "error: {text}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[String]) -> Result<(), String> {
    // How this program calls itself under valgrind: a case, a number of units, a tokenizer.
    if let [only, name, units, tokenizer] = args
        && only == "only"
    {
        let asked = Asked { names: vec![name.clone()], ..Asked::read(std::iter::empty())? };
        let units = units.parse().map_err(|e| format!("{units}: {e}"))?;
        let material = Material::new(tokenizer)?;
        return asked.cases()?.iter().try_for_each(|case| {
            measure::only(case, &material, units);
            Ok(())
        });
    }
    if let [only, rest @ ..] = args
        && only == "prompts"
    {
        return prompts::run(&prompts::Asked::read(rest)?, &say);
    }
    let asked = Asked::read(args.iter().cloned())?;
    let before = asked.compare.as_deref().map(Figures::read).transpose()?;
    let figures = match asked.names.first().map(String::as_str) {
        None | Some("list") => {
            list();
            return Ok(());
        }
        Some("runs") => runs::all()?,
        Some(_) if asked.count => measure::instructions(&asked.cases()?, &asked.tokenizer)?,
        Some(_) => measure::cpu(&asked.cases()?, &Material::new(&asked.tokenizer)?),
    };
    say(&figures.table(before.as_ref()));
    asked.save.as_deref().map_or(Ok(()), |path| figures.save(path))
}

fn list() {
    for case in CASES {
        say(&format!("{:<18} {}\n", case.name, case.about));
    }
    say(&format!("{:<18} whole runs of the `aiperf` beside this program\n", Kind::Run.name()));
    say(&format!("{:<18} speed and memory of making prompts, cell by cell\n", "prompts"));
}

/// Writes to stdout. A reader that has gone (`| head`) is no error.
fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        Asked::read(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_may_stand_anywhere() {
        let a = asked("count --save a record --compare b all").expect("a command line");
        assert!(a.count);
        assert_eq!(a.names, ["record", "all"]);
        assert_eq!((a.save, a.compare), (Some("a".into()), Some("b".into())));
    }

    #[test]
    fn unknown_words_are_told() {
        assert!(asked("--sav a").is_err_and(|e| e.contains("--sav")));
        assert!(asked("all --save").is_err_and(|e| e.contains("value")));
        let none = asked("recrod").expect("a name").cases();
        assert!(none.is_err_and(|e| e.contains("recrod")));
    }

    #[test]
    fn every_case_does_what_it_says_and_names_differ() {
        let material = Material::new("builtin").expect("built in");
        for (at, case) in CASES.iter().enumerate() {
            assert!(CASES[..at].iter().all(|c| c.name != case.name), "{} twice", case.name);
            assert!(case.counted <= case.units);
            // Cases check their own results; what they make of one unit is enough here.
            (case.make)(&material)(1);
        }
    }
}
