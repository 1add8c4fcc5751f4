//! What AIPerf 0.13.0 calls its options, so that one this version lacks is refused by its name and not as a typing slip.

static FLAGS: &str = include_str!("facts/aiperf-flags.txt");
static KEYS: &str = include_str!("facts/aiperf-keys.txt");

/// Parts of a number that may be a distribution.
const LENGTH_PARTS: &[&str] = &["max", "mean", "median", "min", "peaks", "points", "stddev", "type", "value"];

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|l| !l.is_empty() && !l.starts_with('#'))
}

/// AIPerf's options, each with all its spellings, dashes included.
pub(crate) fn flags() -> impl Iterator<Item = Vec<&'static str>> {
    lines(FLAGS).map(|line| line.split(' ').collect())
}

/// Whether AIPerf has this flag; dashes included, `_` counts as `-`.
pub(crate) fn has_flag(flag: &str) -> bool {
    let flag = if flag.starts_with("--") { flag.replace('_', "-") } else { flag.to_owned() };
    flags().flatten().any(|f| f == flag)
}

/// AIPerf's keys in snake_case, `benchmark.` included.
#[cfg(test)]
pub(crate) fn keys() -> impl Iterator<Item = String> {
    lines(KEYS).flat_map(|line| {
        let (key, note) = line.split_once('\t').unwrap_or((line, ""));
        let parts = LENGTH_PARTS.iter().filter(move |_| note == "length").map(move |p| format!("{key}.{p}"));
        std::iter::once(key.to_owned()).chain(parts)
    })
}

/// Whether AIPerf has this key, in snake_case and with its forms folded together.
pub(crate) fn has_key(key: &str) -> bool {
    lines(KEYS).any(|line| {
        let (name, note) = line.split_once('\t').unwrap_or((line, ""));
        let rest = key.strip_prefix(name);
        match rest {
            Some("") => true,
            // A point of a distribution may be a distribution again.
            Some(rest) if note == "length" => rest
                .strip_prefix('.')
                .and_then(|r| r.split('.').next())
                .is_some_and(|p| LENGTH_PARTS.contains(&p)),
            _ => false,
        }
    })
}

/// AIPerf's default of a key, when writing it down asks for nothing.
pub(crate) fn default_of_key(key: &str) -> Option<serde_json::Value> {
    lines(KEYS)
        .find_map(|line| line.split_once("\t=").filter(|(name, _)| *name == key))
        .and_then(|(_, json)| serde_json::from_str(json).ok())
}

/// Whether one of AIPerf's spellings is one of ours.
#[cfg(test)]
pub(crate) fn is_accepted(flag: &str) -> bool {
    let Some(name) = flag.strip_prefix("--") else { return false };
    let is_switch = |row: &crate::row::Row| row.kind == crate::row::Kind::Bool;
    let negated = name.strip_prefix("no-").and_then(crate::row::row_by_flag).is_some_and(is_switch);
    negated || crate::row::row_by_flag(name).is_some()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::options::OPTIONS;

    #[test]
    fn the_migration_page_lists_what_is_refused() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/migrating.md");
        let page = std::fs::read_to_string(page).expect("the page");
        let (_, behind) = page.split_once("<!-- refused").expect("the table's mark");
        let (table, _) = behind.split_once("<!-- end of refused").expect("the table's end");
        let listed: BTreeSet<&str> = table.split('`').filter(|part| part.starts_with("--")).collect();
        let refused: BTreeSet<&str> = flags().map(|s| s[0]).filter(|first| !is_accepted(first)).collect();
        let missing: Vec<_> = refused.difference(&listed).collect();
        let stale: Vec<_> = listed.difference(&refused).collect();
        assert!(missing.is_empty() && stale.is_empty(), "add {missing:?}, drop {stale:?}");
    }

    #[test]
    fn an_accepted_option_has_all_spellings_of_the_reference() {
        for spellings in flags() {
            let ours = OPTIONS.iter().find(|r| {
                spellings.iter().any(|s| s.strip_prefix("--").is_some_and(|n| r.flags.contains(&n)))
            });
            let Some(row) = ours else { continue };
            let negative = |s: &str| s.starts_with("--no-") || s.contains("-no-");
            for spelling in &spellings {
                // `--x` and `--no-x` are one option there; only the half that is true here is accepted.
                if spellings.iter().any(|s| negative(s)) && spellings.iter().any(|s| !negative(s)) {
                    continue;
                }
                let known = match spelling.strip_prefix("--") {
                    Some(name) => row.flags.contains(&name),
                    None => row.shorts.contains(&spelling.trim_start_matches('-')),
                };
                assert!(known, "{spelling} is missing in {:?}", row.flags);
            }
        }
    }

    #[test]
    fn facts_are_complete() {
        assert_eq!(flags().count(), 264);
        assert!(has_flag("--fixed_schedule") && has_flag("-b") && !has_flag("--fixed"));
        assert!(has_key("benchmark.gpu_telemetry.urls") && !has_key("benchmark.gpu_telemetry.nope"));
        assert!(has_key("benchmark.dataset.prompts.isl.peaks.distribution.mean"));
        assert_eq!(default_of_key("benchmark.tokenizer.revision"), Some("main".into()));
        assert_eq!(default_of_key("benchmark.gpu_telemetry.enabled"), None);
    }
}
