//! Data sets that others publish: found among the files that are here, never fetched.

use std::fs;
use std::path::{Path, PathBuf};

use aiperf_core::plan::{PUBLIC, PublicName, PublicPlan, PublicSet, PublicShape, PublicSource, public_named};
use aiperf_core::text::{for_terminal, nearest};

use super::how;
use crate::error::ConfigError;
use crate::options::Id;
use crate::settings::Settings;
use crate::value::Value;
use crate::yaml::{Env, Structure};

/// Where AIPerf keeps the files that it fetches, below the folder that it is started in.
const KEPT: &str = ".cache/aiperf/datasets";
/// Forms of files that are read.
const ENDS: [&str; 3] = ["parquet", "jsonl", "json"];
/// How deep below a snapshot files are looked for.
const DEPTH: usize = 5;
/// Most files of a data set named in an error.
const TOLD: usize = 6;
/// What a data set's own columns and form leave no room for.
const TAKEN: &[(Id, &str)] = &[
    (Id::DatasetFormat, "a public data set has a form of its own; keep one of the two"),
    (Id::PromptColumn, "a public data set has columns of its own; keep one of the two"),
    (Id::ResponseColumn, "a public data set has columns of its own; keep one of the two"),
    (Id::MessagesColumn, "a public data set has columns of its own; keep one of the two"),
    (Id::SystemColumn, "a public data set has columns of its own; keep one of the two"),
    (Id::OutputLengthColumn, "a public data set has columns of its own; keep one of the two"),
];

/// Puts the file of the public data set that `settings` name, and its form, into `settings`; gives which set it is, and its other
/// files.
pub(crate) fn find(
    settings: &mut Settings,
    structure: &Structure,
    env: &Env<'_>,
    errors: &mut Vec<ConfigError>,
) -> Option<PublicPlan> {
    let declared = structure.dataset_type.as_ref();
    let Some((name, place)) =
        settings.text(Id::PublicDataset).map(str::to_owned).zip(settings.place(Id::PublicDataset).cloned())
    else {
        if declared.is_some_and(|(kind, _)| *kind == "public") {
            errors.push(ConfigError::Missing {
                what: "the name of the public data set",
                how: how(Id::PublicDataset),
            });
        }
        if let Some(place) = settings.place(Id::HfSubset).cloned() {
            let why = "it says which part of a public data set is sent";
            errors.push(ConfigError::Needs { place, needs: "--public-dataset".into(), why });
        }
        return None;
    };
    if let Some((_, second)) = declared.filter(|(kind, _)| *kind != "public") {
        let why = "a public data set is of the type public; change the type or drop the data set";
        errors.push(ConfigError::Conflict { first: place, second: second.clone(), why });
        return None;
    }
    let set = match public_named(&name) {
        PublicName::Here(set) => set,
        PublicName::Later(what) => {
            let name = for_terminal(&name, 60);
            let what = format!("'{name}' is a data set of AIPerf ({what}) that");
            errors.push(ConfigError::NotYet { place, what });
            return None;
        }
        PublicName::Unknown => {
            let names: Vec<&str> = PUBLIC.iter().map(|set| set.name).collect();
            errors.push(ConfigError::BadValue {
                place,
                found: format!("'{}'", for_terminal(&name, 60)),
                allowed: names.join(", "),
                nearest: nearest(&name, names.iter().copied()).map(str::to_owned),
            });
            return None;
        }
    };
    let before = errors.len();
    for (id, why) in TAKEN {
        if let Some(second) = settings.place(*id).cloned() {
            errors.push(ConfigError::Conflict { first: place.clone(), second, why });
        }
    }
    let subset = settings.text(Id::HfSubset).map(str::to_owned);
    if let (Some(place), PublicSource::File { .. }) = (settings.place(Id::HfSubset).cloned(), set.source) {
        let found = format!("a part of '{}'", set.name);
        let allowed = "nothing: this data set is one file without parts".to_owned();
        errors.push(ConfigError::BadValue { place, found, allowed, nearest: None });
    }
    let mut more = Vec::new();
    if !settings.has(Id::InputFile) {
        match files(set, subset.as_deref(), env) {
            Ok(found) => {
                let mut found = found.into_iter();
                let first = found.next().unwrap_or_default().to_string_lossy().into_owned();
                more.extend(found);
                settings.add(Id::InputFile, Value::Text(first), place.clone());
            }
            Err((path, problem)) => errors.push(ConfigError::File { place: place.clone(), path, problem }),
        }
    }
    if errors.len() > before {
        return None;
    }
    let form = if set.shape == PublicShape::ShareGpt { "sharegpt" } else { "chat" };
    settings.add(Id::DatasetFormat, Value::Text(form.to_owned()), place);
    Some(PublicPlan { set, more })
}

/// Files of a data set, at least one; else a place for one, and what is to be done.
fn files(set: &PublicSet, subset: Option<&str>, env: &Env<'_>) -> Result<Vec<PathBuf>, (PathBuf, String)> {
    let kept = Path::new(KEPT);
    let own = match set.source {
        PublicSource::File { file, .. } => vec![kept.join(file)],
        PublicSource::Hub { .. } => ENDS.iter().map(|end| kept.join(format!("{}.{end}", set.name))).collect(),
    };
    // What lies there is one part, whichever it is.
    if subset.is_none()
        && let Some(file) = own.iter().find(|path| path.is_file())
    {
        return Ok(vec![file.clone()]);
    }
    let cache = hub_cache(env);
    let folder = set
        .repo()
        .zip(cache.as_ref())
        .map(|(repo, cache)| cache.join(format!("datasets--{}", repo.replace('/', "--"))));
    if let Some(snapshot) = folder.as_deref().and_then(snapshot) {
        let mut all = Vec::new();
        walk(&snapshot, Path::new(""), DEPTH, &mut all);
        all.sort();
        return match chosen(set, subset, &all) {
            Some(found) => Ok(found.into_iter().map(|path| snapshot.join(path)).collect()),
            None => Err((snapshot, lacks(set, subset, &all))),
        };
    }
    let place = own.into_iter().next().unwrap_or_default();
    Err((place, missing(set, cache.as_deref())))
}

/// What to do where no file is there.
fn missing(set: &PublicSet, cache: Option<&Path>) -> String {
    let fetch = match set.source {
        PublicSource::File { url, file, .. } => {
            format!("'curl -L --create-dirs -o {KEPT}/{file} {url}' fetches it")
        }
        PublicSource::Hub { repo, .. } => {
            format!(
                "'hf download {repo} --repo-type dataset' puts it there (behind 'hf auth login', or with HF_TOKEN, where it is gated)"
            )
        }
    };
    let cache = match (set.repo(), cache) {
        (Some(repo), Some(cache)) => {
            format!(", and the hub's cache {} has no data set '{repo}'", cache.display())
        }
        _ => String::new(),
    };
    format!(
        "does not exist{cache}; nothing is fetched by a benchmark: {fetch}; or give a file of it with --input-file beside --public-dataset"
    )
}

fn lacks(set: &PublicSet, subset: Option<&str>, all: &[PathBuf]) -> String {
    let PublicSource::Hub { repo, subset: usual, split } = set.source else {
        return "has not the file that the data set is known by".to_owned();
    };
    let part =
        subset.or(usual).map(|part| format!(" of the part '{}'", for_terminal(part, 40))).unwrap_or_default();
    let names: Vec<String> = all
        .iter()
        .take(TOLD)
        .map(|path| format!("'{}'", for_terminal(&path.to_string_lossy(), 80)))
        .collect();
    let more = if all.len() > TOLD { " and more" } else { "" };
    let held =
        if names.is_empty() { "no data at all".to_owned() } else { format!("{}{more}", names.join(", ")) };
    format!(
        "holds no rows '{split}'{part} of '{repo}', but {held}; 'hf download {repo} --repo-type dataset' completes it, or give a file of it with \
         --input-file beside --public-dataset"
    )
}

/// The cache of the hub's own tools, by their variables.
fn hub_cache(env: &Env<'_>) -> Option<PathBuf> {
    let get = |name: &str| env(name).filter(|text| !text.is_empty());
    let home = get("HOME").map(PathBuf::from);
    let path = |text: String| match (text.strip_prefix("~/"), &home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(text),
    };
    let named = get("HF_HUB_CACHE").or_else(|| get("HUGGINGFACE_HUB_CACHE")).map(path);
    named
        .or_else(|| Some(path(get("HF_HOME")?).join("hub")))
        .or_else(|| Some(path(get("XDG_CACHE_HOME")?).join("huggingface/hub")))
        .or_else(|| Some(home.as_ref()?.join(".cache/huggingface/hub")))
}

/// The files of a data set in the cache: those of its main branch, or the newest.
fn snapshot(folder: &Path) -> Option<PathBuf> {
    let all = folder.join("snapshots");
    let main = fs::read_to_string(folder.join("refs/main")).ok().map(|commit| all.join(commit.trim()));
    if let Some(main) = main.filter(|main| main.is_dir()) {
        return Some(main);
    }
    let entries = fs::read_dir(&all).ok()?.flatten().filter(|entry| entry.path().is_dir());
    entries
        .max_by_key(|entry| entry.metadata().and_then(|about| about.modified()).ok())
        .map(|entry| entry.path())
}

/// Files of data below `folder`, as paths from there.
fn walk(root: &Path, below: &Path, depth: usize, out: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(root.join(below)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let path = below.join(&name);
        let full = root.join(&path);
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        if full.is_dir() && depth > 0 {
            walk(root, &path, depth - 1, out);
        } else if full.is_file()
            && end(&path).is_some()
            && !name.to_string_lossy().starts_with("dataset_info")
        {
            out.push(path);
        }
    }
}

/// Which form a file has, by its name; what is packed is what it is without its last ending.
fn end(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    let name = [".gz", ".zst"].iter().find_map(|packed| name.strip_suffix(packed)).unwrap_or(&name);
    ENDS.into_iter().find(|end| name.ends_with(&format!(".{end}")))
}

/// Those of `all` that are sent: of the part and the rows that are wanted, in one form.
fn chosen(set: &PublicSet, subset: Option<&str>, all: &[PathBuf]) -> Option<Vec<PathBuf>> {
    let (usual, split) = match set.source {
        PublicSource::Hub { subset, split, .. } => (subset, split),
        PublicSource::File { file, .. } => {
            return all
                .iter()
                .find(|path| path.file_name().is_some_and(|name| name == file))
                .map(|path| vec![path.clone()]);
        }
    };
    // `train-00000-of-00001.parquet`, `test.jsonl`, `default/train/0000.parquet`.
    let is_named = |path: &Path, word: &str| {
        let begins = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(word));
        let is_file = begins.is_some_and(|rest| rest.starts_with(|c: char| !c.is_ascii_alphanumeric()));
        is_file || path.parent().is_some_and(|parent| parent.iter().any(|part| part == word))
    };
    let of_split: Vec<&PathBuf> = all.iter().filter(|path| is_named(path, split)).collect();
    let of_part = |part: &str| -> Vec<&PathBuf> {
        of_split.iter().copied().filter(|path| is_named(path, part)).collect()
    };
    let found = match (subset, usual) {
        (Some(part), _) => of_part(part),
        (None, Some(part)) if !of_part(part).is_empty() => of_part(part),
        _ if of_split.is_empty() && all.len() == 1 => all.iter().collect(),
        _ => of_split,
    };
    let form = ENDS.into_iter().find(|form| found.iter().any(|path| end(path) == Some(form)))?;
    Some(found.into_iter().filter(|path| end(path) == Some(form)).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str) -> &'static PublicSet {
        match public_named(name) {
            PublicName::Here(set) => set,
            other => panic!("{name}: {other:?}"),
        }
    }

    fn choose(name: &str, subset: Option<&str>, all: &[&str]) -> Option<Vec<String>> {
        let all: Vec<PathBuf> = all.iter().map(PathBuf::from).collect();
        let found = chosen(set(name), subset, &all)?;
        Some(found.iter().map(|path| path.to_string_lossy().into_owned()).collect())
    }

    #[test]
    fn files_are_chosen_by_part_and_rows() {
        let names = |list: &[&str]| Some(list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
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
        assert_eq!(choose("spec_al_math500", None, &["test.jsonl"]), names(&["test.jsonl"]));
        assert_eq!(
            choose("spec_al_mtbench", None, &["data/train-0.parquet", "raw/question.jsonl"]),
            names(&["data/train-0.parquet"])
        );
        assert_eq!(
            choose("aimo", None, &["default/train/0000.parquet"]),
            names(&["default/train/0000.parquet"])
        );
        assert_eq!(
            choose("aimo", None, &["a.json", "train.json", "train.parquet"]),
            names(&["train.parquet"])
        );
        assert_eq!(choose("blazedit_5k", None, &["anything.json"]), names(&["anything.json"]));
        assert_eq!(choose("aimo", None, &["training.json", "x.json"]), None);
        let talk = "ShareGPT_V3_unfiltered_cleaned_split.json";
        assert_eq!(choose("sharegpt", None, &["other.json", talk]), names(&[talk]));
    }
}
