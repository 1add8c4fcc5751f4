//! Names of the Hugging Face hub, looked up in the cache that its tools keep on disk. Nothing is fetched.
//!
//! The layout is `huggingface_hub`'s: `models--OWNER--NAME/refs/REVISION` holds a commit, `snapshots/COMMIT/` the files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{HubProblem, TokenizerError};

/// The revision that a name without one means.
pub const MAIN: &str = "main";
const MODEL: &str = "models--";

/// A name on the hub: `OWNER/NAME`, or `NAME` alone, which is looked for under every owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HubName<'a> {
    /// Without its revision.
    pub id: &'a str,
    /// A branch, a tag or a commit.
    pub revision: &'a str,
}

impl<'a> HubName<'a> {
    /// Takes `name` apart, `@REVISION` behind it or not; `None` for what cannot be a name on the hub.
    pub fn parse(name: &'a str) -> Option<Self> {
        let (id, revision) = name.split_once('@').unwrap_or((name, MAIN));
        let is_part = |part: &str| {
            !part.is_empty()
                && !part.starts_with(['.', '~', '-'])
                && !part.contains("--")
                && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        };
        // A revision is a path below `refs`, and must stay there.
        let is_revision = revision.split('/').all(|part| {
            !part.is_empty()
                && !part.starts_with('.')
                && part.chars().all(|c| c.is_ascii_graphic() && c != '\\')
        });
        let fits = id.split('/').count() <= 2 && id.split('/').all(is_part) && is_revision;
        fits.then_some(Self { id, revision })
    }

    /// It has an owner.
    pub fn is_full(self) -> bool {
        self.id.contains('/')
    }
}

/// The cache of the hub's tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubCache {
    folder: Option<PathBuf>,
}

impl HubCache {
    /// Where the environment says it is: `HF_HUB_CACHE`, else `HF_HOME`/hub, else huggingface/hub in `XDG_CACHE_HOME`, else in
    /// `~/.cache`.
    pub fn from_env(env: &dyn Fn(&str) -> Option<String>) -> Self {
        let home = env("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let path = |text: String| match (text.strip_prefix('~'), &home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                home.join(rest.trim_start_matches('/'))
            }
            _ => PathBuf::from(text),
        };
        let get = |name: &str| env(name).filter(|text| !text.is_empty()).map(path);
        let folder = get("HF_HUB_CACHE")
            .or_else(|| get("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| Some(get("HF_HOME")?.join("hub")))
            .or_else(|| Some(get("XDG_CACHE_HOME")?.join("huggingface/hub")))
            .or_else(|| Some(home.as_ref()?.join(".cache/huggingface/hub")));
        Self { folder }
    }

    /// The cache in `folder`.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()) }
    }

    /// The folder, if there is a place for one; it need not exist.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The folder of the model `id` alone, whether or not it is there.
    pub fn model_folder(&self, id: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{MODEL}{}", id.replace('/', "--"))))
    }

    /// The folder that holds the files of `name`.
    pub fn find(&self, name: HubName<'_>) -> Result<PathBuf, TokenizerError> {
        let model = self.model(name.id).map_err(|problem| self.refuse(name, problem))?;
        let snapshots = model.join("snapshots");
        // A name of a branch or tag leads to its commit; a commit is a folder itself.
        let commit = fs::read_to_string(model.join("refs").join(name.revision)).ok();
        let snapshot = snapshots.join(commit.as_deref().map_or(name.revision, str::trim));
        // A ref's content is a plain folder name; anything else would lead out of the cache.
        let inside = snapshot.parent() == Some(&*snapshots) && !snapshot.ends_with("..");
        if inside && snapshot.is_dir() {
            Ok(snapshot)
        } else {
            Err(self.refuse(name, HubProblem::NoRevision { has: revisions(&model) }))
        }
    }

    /// The error for `name` with this `problem`.
    pub(crate) fn refuse(&self, name: HubName<'_>, problem: HubProblem) -> TokenizerError {
        TokenizerError::Hub {
            name: name.id.to_owned(),
            revision: Some(name.revision).filter(|revision| *revision != MAIN).map(str::to_owned),
            cache: self.folder.clone(),
            problem,
        }
    }

    /// The folder of a model: of exactly that name; else the only one of that name when case, and an owner that is not
    /// given, do not count.
    fn model(&self, id: &str) -> Result<PathBuf, HubProblem> {
        let folder = self.folder.as_ref().ok_or(HubProblem::NoCache)?;
        if let Some(exact) = self.model_folder(id).filter(|exact| exact.is_dir()) {
            return Ok(exact);
        }
        let wanted = id.replace('/', "--").to_lowercase();
        let mut models: Vec<String> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                Some(entry.ok()?.file_name().to_string_lossy().strip_prefix(MODEL)?.to_owned())
            })
            .collect();
        models.sort();
        let is_same = |model: &&String| {
            let model = model.to_lowercase();
            model == wanted
                || (!id.contains('/') && model.split_once("--").is_some_and(|(_, name)| name == wanted))
        };
        let same: Vec<&String> = models.iter().filter(is_same).collect();
        match same.as_slice() {
            [one] => Ok(folder.join(format!("{MODEL}{one}"))),
            [] => Err(HubProblem::NotCached { has: models.iter().map(|model| id_of(model)).collect() }),
            several => Err(HubProblem::Ambiguous { ids: several.iter().map(|model| id_of(model)).collect() }),
        }
    }
}

/// `OWNER/NAME` of a folder's `OWNER--NAME`.
fn id_of(model: &str) -> String {
    model.replacen("--", "/", 1)
}

/// Revisions of a model that are there: names, and commits without one.
fn revisions(model: &Path) -> Vec<String> {
    let names = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(model.join(folder)).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect()
    };
    let mut all = names("refs");
    let commits: Vec<String> = all
        .iter()
        .filter_map(|name| fs::read_to_string(model.join("refs").join(name)).ok())
        .map(|commit| commit.trim().to_owned())
        .collect();
    all.extend(names("snapshots").into_iter().filter(|commit| !commits.contains(commit)));
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache_of(variables: &[(&str, &str)]) -> Option<String> {
        let env = |name: &str| variables.iter().find(|v| v.0 == name).map(|v| v.1.to_owned());
        HubCache::from_env(&env).folder().map(|folder| folder.display().to_string())
    }

    #[test]
    fn the_cache_is_where_the_hub_s_own_tools_have_it() {
        let home = ("HOME", "/h");
        for (variables, folder) in [
            (&[home][..], Some("/h/.cache/huggingface/hub")),
            (&[home, ("XDG_CACHE_HOME", "/x")], Some("/x/huggingface/hub")),
            (&[home, ("HF_HOME", "~/models"), ("XDG_CACHE_HOME", "/x")], Some("/h/models/hub")),
            (&[home, ("HF_HOME", "/m"), ("HF_HUB_CACHE", "/c")], Some("/c")),
            (&[home, ("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", "~")], Some("/h/")),
            (&[], None),
        ] {
            assert_eq!(cache_of(variables).as_deref(), folder, "{variables:?}");
        }
    }

    #[test]
    fn names_are_those_the_hub_allows() {
        for (name, id, revision) in [
            ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B", "main"),
            ("gpt2", "gpt2", "main"),
            ("a_b/c.d@v1.0", "a_b/c.d", "v1.0"),
            ("a/b@refs/pr/3", "a/b", "refs/pr/3"),
        ] {
            assert_eq!(HubName::parse(name), Some(HubName { id, revision }));
        }
        for name in [
            "", "/", "a/", "/a", "a/b/c", "./a", "~/a", "a b", "a--b", "a@", "a@../x", "a@x/../y", "a@/x",
            "a@x\\y", "ü/a",
        ] {
            assert_eq!(HubName::parse(name), None, "{name}");
        }
    }

    /// A model's folder: its name, refs to commits, commits that have a folder.
    type Model<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);

    /// A cache as the hub's tools write it.
    fn cache(models: &[Model<'_>]) -> tempfile::TempDir {
        let cache = tempfile::tempdir().expect("a folder");
        for (model, refs, commits) in models {
            let folder = cache.path().join(format!("models--{model}"));
            fs::create_dir_all(&folder).expect("a folder");
            for (name, commit) in *refs {
                let path = folder.join("refs").join(name);
                fs::create_dir_all(path.parent().expect("it is below refs")).expect("a folder");
                fs::write(path, commit).expect("a file");
            }
            for commit in *commits {
                fs::create_dir_all(folder.join("snapshots").join(commit)).expect("a folder");
            }
        }
        cache
    }

    fn find(cache: &tempfile::TempDir, name: &str) -> Result<String, String> {
        let found = HubCache::at(cache.path()).find(HubName::parse(name).expect("a name"));
        let relative =
            |path: PathBuf| path.strip_prefix(cache.path()).expect("in the cache").display().to_string();
        found.map(relative).map_err(|e| e.to_string().replace(&cache.path().display().to_string(), "CACHE"))
    }

    #[test]
    fn revisions_are_names_or_commits() {
        let cache =
            cache(&[("o--m", &[("main", "c1\n"), ("refs/pr/3", "c2"), ("gone", "c9")], &["c1", "c2", "c3"])]);
        let at = |commit: &str| Ok(format!("models--o--m/snapshots/{commit}"));
        assert_eq!(find(&cache, "o/m"), at("c1"));
        assert_eq!(find(&cache, "o/m@main"), at("c1"));
        assert_eq!(find(&cache, "o/m@refs/pr/3"), at("c2"));
        assert_eq!(find(&cache, "o/m@c3"), at("c3"));
        let said = find(&cache, "o/m@v2").expect_err("no such revision");
        assert!(said.contains("'v2'") && said.contains("c2, c3, gone, main, refs"), "{said}");
        assert!(find(&cache, "o/m@gone").is_err());
    }

    #[test]
    fn a_ref_does_not_lead_out_of_the_cache() {
        for content in ["../..", "/", "", "..", "c1/../../.."] {
            let cache = cache(&[("o--m", &[("main", content)], &["c1"])]);
            assert!(find(&cache, "o/m").is_err(), "{content:?}");
        }
    }

    #[test]
    fn a_short_name_means_the_only_model_of_that_name() {
        let models: &[Model<'_>] = &[
            ("Org--Model-7B", &[("main", "c")], &["c"]),
            ("gpt2", &[("main", "c")], &["c"]),
            ("one--twin", &[("main", "c")], &["c"]),
            ("two--twin", &[("main", "c")], &["c"]),
        ];
        let cache = cache(models);
        for name in ["Org/Model-7B", "org/model-7b", "Model-7B", "model-7b"] {
            assert_eq!(find(&cache, name).as_deref(), Ok("models--Org--Model-7B/snapshots/c"), "{name}");
        }
        assert_eq!(find(&cache, "gpt2").as_deref(), Ok("models--gpt2/snapshots/c"));
        let said = find(&cache, "twin").expect_err("two models have it");
        assert!(said.contains("one/twin, two/twin"), "{said}");
        for name in ["7B", "odel-7B", "Other/Model-7B"] {
            let said = find(&cache, name).expect_err("no such model");
            assert!(said.contains("CACHE") && said.contains("--tokenizer-download"), "{said}");
        }
        let said = find(&cache, "Org/Model-8B").expect_err("no such model");
        assert!(said.contains("did you mean 'Org/Model-7B'?"), "{said}");
    }

    #[test]
    fn no_cache_is_told() {
        let name = HubName::parse("a/b").expect("a name");
        let said = HubCache { folder: None }.find(name).expect_err("nowhere to look").to_string();
        assert!(said.contains("HF_HUB_CACHE"), "{said}");
        assert!(
            HubCache::at("/no/such/folder")
                .find(name)
                .expect_err("no model")
                .to_string()
                .contains("/no/such/folder")
        );
    }
}
