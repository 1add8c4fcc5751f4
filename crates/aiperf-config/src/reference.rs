//! The reference page of options, made from the table.

use std::fmt::Write as _;

use crate::environment::{IP_VERSION, SSL_VERIFY, TRUST_ENV};
use crate::options::OPTIONS;
use crate::row::{Default, Group, Row};

/// The page `docs/reference/options.md`.
pub fn reference_markdown() -> String {
    let mut out = String::from(
        "# Options\n\n\
         Made from the table of options; do not edit. The same option can be given as a flag, as an environment variable \
         and as a key of a configuration file (`-f config.yaml`). Flags win over variables, variables over the file, the \
         file over defaults; headers and body fields are merged key by key. Each variable that is used is told on stderr.\n\n\
         * Flags: `-` and `_` are alike, `--flag value` and `--flag=value` too. Switches: `--streaming`, \
         `--streaming=false`, `--no-streaming`.\n\
         * Words: case is ignored, `-` and `_` are alike.\n\
         * Times: seconds as a number, or `30s`, `5m`, `2h`; `inf` where it is allowed.\n\
         * Keys: snake_case and camelCase are alike. `model`, `dataset`, `profiling` and `warmup` are AIPerf's short forms \
         of `models`, `datasets` and `phases`; below, `phases.profiling` stands for the phase of that kind.\n\
         * Phases: `phases` is a list of any number of them, each with a `name` that no other has, a `kind` (`warmup` or \
         `profiling`; the two names say it themselves) and its own keys. `seamless: true` starts a profiling phase when the \
         one before it has sent its last request. Flags and variables for a phase mean the only one of its kind; where \
         there are several, they are refused.\n\
         * Files: `${VAR}` and `${VAR:default}` are replaced first, then Jinja templates, which know `variables` and the \
         file's own keys.\n\
         * An option, key or value that AIPerf has and this version does not is refused by its name. A comma list on an option \
         marked *sweep* is refused until sweeps exist.\n\
         * `artifacts.records` and `artifacts.raw` say together what `artifacts.level` says in one word.\n",
    );
    let _ = writeln!(
        out,
        "* `{SSL_VERIFY}=false` turns certificate checks off; `{TRUST_ENV}=true` is `--proxy-from-env`; \
         `{IP_VERSION}` (4, 6 or auto, which is the default) chooses among the addresses of a name. No other variable of \
         AIPerf's own is read.\n"
    );
    for group in Group::ALL {
        let _ = writeln!(
            out,
            "## {group}\n\n| flag | key | environment | allowed | default | |\n|---|---|---|---|---|---|"
        );
        for row in OPTIONS.iter().filter(|r| r.group == group) {
            line(&mut out, row);
        }
        out.push('\n');
    }
    out
}

fn line(out: &mut String, row: &Row) {
    let code = |s: String| format!("`{s}`");
    let flags: Vec<String> = row
        .flags
        .iter()
        .map(|f| code(format!("--{f}")))
        .chain(row.shorts.iter().map(|s| code(format!("-{s}"))))
        .collect();
    let default = match row.default {
        Default::Absent => String::new(),
        Default::Is(text) => code(text.to_owned()),
        Default::Said(text) => escaped(text),
    };
    let sweep = if row.sweepable { " *sweep*" } else { "" };
    let _ = writeln!(
        out,
        "| {} | {} | {} | {} | {default} | {}{sweep} |",
        flags.join(" "),
        row.keys().map(code).collect::<Vec<_>>().join(" "),
        row.env().map(code).unwrap_or_default(),
        escaped(&row.kind.allowed()),
        escaped(row.doc),
    );
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_every_spelling_of_every_option() {
        let page = reference_markdown();
        for row in OPTIONS {
            for flag in row.flags {
                assert!(page.contains(&format!("`--{flag}`")), "{flag}");
            }
            for name in row.shorts.iter().map(|s| format!("-{s}")).chain(row.env()).chain(row.keys()) {
                assert!(page.contains(&format!("`{name}`")), "{name}");
            }
            assert!(page.contains(&escaped(row.doc)), "{}", row.name());
        }
        let rows = page.lines().filter(|l| l.starts_with("| `--")).count();
        assert_eq!(rows, OPTIONS.len());
        assert!(
            page.lines()
                .filter(|l| l.starts_with('|'))
                .all(|l| l.replace("\\|", "").matches('|').count() == 7)
        );
    }
}
