//! Which files of a repository are the wanted rows of a data set: as its page says, else by their names.

use aiperf_core::plan::{PublicSet, PublicSource};
use serde_json::Value;

/// Forms of files that are read, the best first.
pub(super) const ENDS: [&str; 4] = ["parquet", "jsonl", "json", "csv"];
/// How they may be packed.
pub(super) const PACKED: [&str; 2] = ["gz", "zst"];

/// What is wanted of a data set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) set: &'static PublicSet,
    /// The part that the user names.
    pub(super) subset: Option<&'a str>,
}

impl Wanted<'_> {
    /// The part, as the user or the data set's usual one says it.
    pub(super) fn part(&self) -> Option<&str> {
        let usual = match self.set.source {
            PublicSource::Hub { subset, .. } => subset,
            PublicSource::File { .. } => None,
        };
        self.subset.or(usual)
    }

    /// The rows.
    pub(super) fn split(&self) -> &'static str {
        match self.set.source {
            PublicSource::Hub { split, .. } => split,
            PublicSource::File { .. } => "train",
        }
    }
}

/// Which form a file has, by its name, as its place in [`ENDS`]; what is packed is what it is without its last ending.
pub(super) fn end(path: &str) -> Option<usize> {
    let name = name_of(path).to_ascii_lowercase();
    if name.starts_with('.') || name.starts_with("dataset_info") {
        return None;
    }
    let name = PACKED.iter().find_map(|end| name.strip_suffix(end)?.strip_suffix('.')).unwrap_or(&name);
    ENDS.iter().position(|end| name.strip_suffix(end).is_some_and(|name| name.ends_with('.')))
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a path of somebody else's stays in its folder.
pub(super) fn is_inside(path: &str) -> bool {
    path.len() < 1024
        && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
        && !path.contains(|c: char| c == '\\' || c == ':' || c.is_control())
}

/// The files of `all` that the page's `configs` name for what is wanted; `None` when it says nothing of it.
pub(super) fn by_page(wanted: Wanted<'_>, configs: &[Value], all: &[String]) -> Option<Vec<String>> {
    let name = |config: &Value| config["config_name"].as_str().unwrap_or("default").to_owned();
    let config = match wanted.part() {
        Some(part) => configs.iter().find(|config| name(config) == part),
        None => configs
            .iter()
            .find(|config| config["default"] == true)
            .or_else(|| configs.iter().find(|config| name(config) == "default"))
            .or(if let [one] = configs { Some(one) } else { None }),
    }?;
    let folder = config["data_dir"].as_str().map(|folder| folder.trim_matches('/'));
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().map_or_else(|| vec![value.clone()], Clone::clone);
        list.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let files = &config["data_files"];
    let patterns: Vec<String> = match files.as_array() {
        Some(list) if list.iter().all(Value::is_object) => list
            .iter()
            .filter(|file| file["split"].as_str().unwrap_or("train") == wanted.split())
            .flat_map(|file| texts(&file["path"]))
            .collect(),
        // Files without names of rows are all there is to train with.
        _ if wanted.split() == "train" => texts(files),
        _ => Vec::new(),
    };
    let mut found = Vec::new();
    for pattern in patterns {
        let pattern = match folder {
            Some(folder) => format!("{folder}/{pattern}"),
            None => pattern,
        };
        let mut here: Vec<&String> =
            all.iter().filter(|path| matches(pattern.as_bytes(), path.as_bytes())).collect();
        here.sort();
        for path in here {
            if !found.contains(path) {
                found.push(path.clone());
            }
        }
    }
    of_one_form(&found)
}

/// Whether `path` is one of `pattern`: `*` and `?` within a folder, `**` across them, and `[…]` as in a shell.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    match pattern {
        [] => path.is_empty(),
        [b'*', b'*', rest @ ..] => {
            let rest_is = |rest: &[u8]| (0..=path.len()).any(|at| matches(rest, &path[at..]));
            // `**/x` is also `x`.
            rest_is(rest) || rest.strip_prefix(b"/").is_some_and(|rest| matches(rest, path))
        }
        [b'*', rest @ ..] => {
            let end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
            (0..=end).any(|at| matches(rest, &path[at..]))
        }
        [b'?', rest @ ..] => matches!(path, [first, ..] if *first != b'/') && matches(rest, &path[1..]),
        [b'[', rest @ ..] if rest.contains(&b']') => {
            let end = rest.iter().position(|byte| *byte == b']').unwrap_or(0);
            let (class, rest) = (&rest[..end], &rest[end + 1..]);
            let [first, path @ ..] = path else { return false };
            let (is_not, class) = match class {
                [b'!' | b'^', class @ ..] => (true, class),
                class => (false, class),
            };
            let is_in = match class {
                [from, b'-', to] => (from..=to).contains(&first),
                class => class.contains(first),
            };
            is_in != is_not && matches(rest, path)
        }
        [byte, rest @ ..] => path.first() == Some(byte) && matches(rest, &path[1..]),
    }
}

/// The files of `all` that are wanted, by their names.
pub(super) fn by_names(wanted: Wanted<'_>, all: &[String]) -> Option<Vec<String>> {
    if let PublicSource::File { file, .. } = wanted.set.source {
        return all.iter().find(|path| name_of(path) == file).map(|path| vec![path.clone()]);
    }
    let mut all: Vec<&String> = all.iter().filter(|path| end(path).is_some()).collect();
    all.sort();
    // `train-00000-of-00001.parquet`, `test.jsonl`, `default/train/0000.parquet`.
    let is_named = |path: &str, word: &str| {
        let begins = name_of(path).strip_prefix(word);
        let is_file = begins.is_some_and(|rest| rest.starts_with(|c: char| !c.is_ascii_alphanumeric()));
        is_file || path.rsplit('/').skip(1).any(|part| part == word)
    };
    let of_split: Vec<&String> = all.iter().copied().filter(|path| is_named(path, wanted.split())).collect();
    let of_part = |part: &str| -> Vec<&String> {
        of_split.iter().copied().filter(|path| is_named(path, part)).collect()
    };
    let found = match (wanted.subset, wanted.part()) {
        (Some(part), _) => of_part(part),
        (None, Some(part)) if !of_part(part).is_empty() => of_part(part),
        _ if of_split.is_empty() && all.len() == 1 => all,
        _ => of_split,
    };
    of_one_form(&found.into_iter().cloned().collect::<Vec<_>>())
}

/// Those of the form that is best read, and of a file that is there packed too the one that is not; `None` when there is none.
fn of_one_form(found: &[String]) -> Option<Vec<String>> {
    let best = found.iter().filter_map(|path| end(path)).min()?;
    let bare = |path: &str| -> String {
        let packed = PACKED.iter().find_map(|end| path.strip_suffix(end)?.strip_suffix('.'));
        packed.unwrap_or(path).to_owned()
    };
    let is_twice = |path: &String| bare(path) != *path && found.contains(&bare(path));
    Some(found.iter().filter(|path| end(path) == Some(best) && !is_twice(path)).cloned().collect())
}

/// The files of `found` with those between them that their names tell of (`train-00001-of-00005.parquet`), each with whether it is
/// there.
pub(super) fn with_gaps(found: Vec<String>) -> Vec<(String, bool)> {
    fn taken_apart(path: &str) -> Option<(&str, usize, usize, &str)> {
        let (before, behind) = path.rsplit_once("-of-")?;
        let (head, index) = before.rsplit_once('-')?;
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        let (total, tail) = behind.split_at(digits);
        Some((head, index.parse().ok()?, total.parse().ok()?, tail))
    }
    let all: Option<Vec<_>> = found.iter().map(|path| taken_apart(path)).collect();
    let Some((&(head, _, total, tail), all)) = all.as_deref().and_then(|all| Some((all.first()?, all)))
    else {
        return found.into_iter().map(|path| (path, true)).collect();
    };
    let is_one = all.iter().all(|part| part.0 == head && part.2 == total && part.1 < total);
    if !is_one || total > 100_000 || all.len() >= total {
        return found.into_iter().map(|path| (path, true)).collect();
    }
    let part = |index: usize| match all.iter().position(|part| part.1 == index) {
        Some(at) => (found[at].clone(), true),
        None => (format!("{head}-{index:05}-of-{total:05}{tail}"), false),
    };
    (0..total).map(part).collect()
}

#[cfg(test)]
mod tests {
    use aiperf_core::plan::{PublicName, public_named};
    use serde_json::json;

    use super::*;

    fn wanted<'a>(name: &str, subset: Option<&'a str>) -> Wanted<'a> {
        match public_named(name) {
            PublicName::Here(set) => Wanted { set, subset },
            other => panic!("{name}: {other:?}"),
        }
    }

    fn paths(all: &[&str]) -> Vec<String> {
        all.iter().map(|path| (*path).to_owned()).collect()
    }

    fn choose(name: &str, subset: Option<&str>, all: &[&str]) -> Option<Vec<String>> {
        by_names(wanted(name, subset), &paths(all))
    }

    #[test]
    fn files_are_chosen_by_part_and_rows() {
        let names = |list: &[&str]| Some(paths(list));
        let shards = [
            "data/test-00000-of-00001.parquet",
            "data/train-00000-of-00002.parquet",
            "data/train-00001-of-00002.parquet",
        ];
        assert_eq!(choose("aimo", None, &shards), names(&shards[1..]));
        let parts = ["main/test-0.parquet", "main/train-0.parquet", "socratic/test-0.parquet"];
        assert_eq!(choose("spec_al_gsm8k", None, &parts), names(&parts[..1]));
        assert_eq!(choose("spec_al_gsm8k", Some("socratic"), &parts), names(&parts[2..]));
        assert_eq!(choose("spec_al_gsm8k", Some("other"), &parts), None);
        assert_eq!(choose("spec_al_math500", None, &["README.md", "test.jsonl"]), names(&["test.jsonl"]));
        let mtbench = ["data/train-0.parquet", "raw/question.jsonl"];
        assert_eq!(choose("spec_al_mtbench", None, &mtbench), names(&mtbench[..1]));
        let converted = ["default/train/0000.parquet"];
        assert_eq!(choose("aimo", None, &converted), names(&converted));
        let both = ["a.json", "train.json", "train.parquet"];
        assert_eq!(choose("aimo", None, &both), names(&both[2..]));
        assert_eq!(choose("blazedit_5k", None, &["anything.json"]), names(&["anything.json"]));
        assert_eq!(choose("aimo", None, &["training.json", "x.json"]), None);
        let talk = "ShareGPT_V3_unfiltered_cleaned_split.json";
        assert_eq!(choose("sharegpt", None, &["other.json", talk]), names(&[talk]));
        // Packed files are as good, and the same file is not read twice.
        assert_eq!(choose("aimo", None, &["train.jsonl.gz"]), names(&["train.jsonl.gz"]));
        assert_eq!(choose("aimo", None, &["train.jsonl", "train.jsonl.gz"]), names(&["train.jsonl"]));
        assert_eq!(choose("aimo", None, &["dataset_infos.json", ".train.json"]), None);
    }

    #[test]
    fn the_page_of_a_data_set_says_which_files_are_which_rows() {
        let all = paths(&["a.parquet", "b/test-0.parquet", "b/test-1.parquet", "c/train.jsonl", "README.md"]);
        let configs = [
            json!({"config_name": "main", "data_files": [{"split": "test", "path": "b/*.parquet"}]}),
            json!({"config_name": "other", "data_files": [
                {"split": "train", "path": "a.parquet"}, {"split": "test", "path": ["c/*", "a.*"]}]}),
            json!({"config_name": "plain", "data_files": "c/train.jsonl"}),
        ];
        let chosen = |name: &str, subset: Option<&str>| by_page(wanted(name, subset), &configs, &all);
        assert_eq!(chosen("spec_al_gsm8k", None), Some(paths(&["b/test-0.parquet", "b/test-1.parquet"])));
        // Of two forms the better one.
        assert_eq!(chosen("spec_al_gsm8k", Some("other")), Some(paths(&["a.parquet"])));
        assert_eq!(chosen("aimo", Some("plain")), Some(paths(&["c/train.jsonl"])));
        assert_eq!(chosen("spec_al_gsm8k", Some("plain")), None);
        // Nobody says which of several is meant.
        assert_eq!(chosen("aimo", None), None);
        let one = [json!({"data_dir": "b", "data_files": [{"split": "train", "path": "test-[!0].parquet"}]})];
        assert_eq!(by_page(wanted("aimo", None), &one, &all), Some(paths(&["b/test-1.parquet"])));
    }

    #[test]
    fn patterns_are_those_of_a_shell() {
        for (pattern, path, is) in [
            ("data/train-*", "data/train-00000-of-00001.parquet", true),
            ("data/*", "data/x/train.parquet", false),
            ("**/*.parquet", "a/b/c.parquet", true),
            ("**/*.parquet", "c.parquet", true),
            ("data/**", "data/a/b", true),
            ("tes?.json", "test.json", true),
            ("t[a-e]st", "test", true),
            ("t[!a-e]st", "test", false),
            ("a.b", "axb", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), path.as_bytes()), is, "{pattern} {path}");
        }
    }

    #[test]
    fn names_tell_of_files_that_are_missing() {
        let part = |n: usize| format!("data/train-{n:05}-of-00003.parquet");
        let gaps = |found: Vec<String>| with_gaps(found);
        assert_eq!(gaps(vec![part(0), part(2)]), [(part(0), true), (part(1), false), (part(2), true)]);
        assert_eq!(gaps(vec![part(0), part(1), part(2)]).len(), 3);
        for whole in [&["train.json"][..], &["train-0.json", "x/train-00000-of-00009.json"], &[]] {
            assert_eq!(gaps(paths(whole)).len(), whole.len());
        }
    }

    #[test]
    fn paths_of_others_stay_in_their_folder() {
        assert!(is_inside("a/b c/d-0.parquet"));
        for bad in ["", "/etc/x", "a//b", "../x", "a/../b", "a\\b", "c:x", "a\nb"] {
            assert!(!is_inside(bad), "{bad}");
        }
    }
}
