//! Files of a public data set that are on this machine.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use aiperf_core::plan::{PublicSet, PublicSource};
use aiperf_core::text::for_terminal;
use aiperf_tokens::HubCache;

use super::Part;
use super::choose::{ENDS, PACKED, Wanted, by_names, end, with_gaps};
use super::listing::{self, Listing};
use crate::error::HubError;

/// Where AIPerf keeps the files that it fetches, below the folder that it is started in.
const KEPT: &str = ".cache/aiperf/datasets";
/// How deep below a snapshot files are looked for.
const DEPTH: usize = 5;
/// Most files of a data set named in an error.
const TOLD: usize = 6;

/// Where a data set may be.
#[derive(Debug)]
pub(super) struct Places {
    set: &'static PublicSet,
    /// Files that AIPerf keeps.
    own: Vec<PathBuf>,
    cache: Option<PathBuf>,
    /// The data set's folder in the hub's cache, there or not.
    pub(super) folder: Option<PathBuf>,
}

/// What of it is there.
#[derive(Debug)]
pub(super) enum Found {
    /// All files, or those of them that are there; a listing when what is missing can be fetched.
    Files(Vec<Part>, Option<Listing>),
    /// Files, and none of what is wanted.
    Others {
        snapshot: PathBuf,
        problem: String,
    },
    Nothing,
}

impl Places {
    pub(super) fn of(set: &'static PublicSet, cache: &HubCache) -> Self {
        let kept = Path::new(KEPT);
        let own = match set.source {
            PublicSource::File { file, .. } => vec![kept.join(file)],
            PublicSource::Hub { .. } => {
                let packed = PACKED.iter().flat_map(|packed| ENDS.map(|end| format!("{end}.{packed}")));
                let ends = ENDS.map(str::to_owned).into_iter().chain(packed);
                ends.map(|end| kept.join(format!("{}.{end}", set.name))).collect()
            }
        };
        let cache = cache.folder().map(ToOwned::to_owned);
        let folder = set
            .repo()
            .zip(cache.as_ref())
            .map(|(repo, cache)| cache.join(format!("datasets--{}", repo.replace('/', "--"))));
        Self { set, own, cache, folder }
    }

    /// The file that AIPerf would keep.
    pub(super) fn kept(&self) -> &Path {
        self.own.first().map_or(Path::new(KEPT), |path| path)
    }

    /// Looks for what is `wanted`.
    pub(super) fn find(&self, wanted: Wanted<'_>) -> Result<Found, HubError> {
        // What lies there is one part, whichever it is.
        if wanted.subset.is_none() {
            for path in &self.own {
                if self.looked(path, fs::metadata(path))?.is_some_and(|about| about.is_file()) {
                    return Ok(Found::Files(vec![Part::here(path.clone())], None));
                }
            }
        }
        let Some(folder) = &self.folder else { return Ok(Found::Nothing) };
        if self.looked(folder, fs::metadata(folder))?.is_none() {
            return Ok(Found::Nothing);
        }
        let is_meant = |listing: &Listing| self.set.commit().is_none_or(|commit| commit == listing.commit);
        if let Some(listing) = listing::read(folder, wanted).filter(is_meant) {
            let parts = listed(folder, &listing);
            if parts.first().is_some_and(|part| part.path.is_some()) {
                return Ok(Found::Files(parts, Some(listing)));
            }
        }
        let snapshot = match self.set.commit() {
            Some(commit) => Some(folder.join("snapshots").join(commit)).filter(|pinned| pinned.is_dir()),
            None => snapshot(folder),
        };
        let Some(snapshot) = snapshot else { return Ok(Found::Nothing) };
        let mut all = Vec::new();
        let walked = walk(&snapshot, "", DEPTH, &mut all);
        walked.map_err(|(path, source)| HubError::Look { set: self.set.name, path, source })?;
        all.sort();
        Ok(match by_names(wanted, &all) {
            Some(found) => {
                let part = |(name, is_here): (String, bool)| {
                    let path = is_here.then(|| snapshot.join(&name));
                    Part { name, size: None, path }
                };
                Found::Files(with_gaps(found).into_iter().map(part).collect(), None)
            }
            None => Found::Others { problem: lacks(wanted, &all), snapshot },
        })
    }

    /// What is at a place; nothing is no error, and what cannot be looked at is one.
    fn looked<T>(&self, path: &Path, found: io::Result<T>) -> Result<Option<T>, HubError> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(source) => Err(HubError::Look { set: self.set.name, path: path.to_owned(), source }),
        }
    }

    /// Where it was looked for, in words.
    pub(super) fn told(&self, wanted: Wanted<'_>) -> String {
        // It was passed over where a part is wanted by its name.
        let nameless = self.own.iter().find(|path| wanted.subset.is_some() && path.is_file());
        let own = match (self.set.source, nameless) {
            (PublicSource::Hub { .. }, Some(path)) => {
                format!(
                    "{} is one part and does not say which (it is sent without --hf-subset)",
                    path.display()
                )
            }
            (PublicSource::File { .. }, _) => format!("{} does not exist", self.kept().display()),
            (PublicSource::Hub { .. }, None) => {
                format!("there is no {KEPT}/{}.parquet (.jsonl, .json, .csv)", self.set.name)
            }
        };
        match (self.set.repo(), &self.cache) {
            (Some(repo), Some(cache)) => {
                let commit = self.set.commit().map(|commit| format!(", commit {commit}")).unwrap_or_default();
                format!("{own}, and the hub's cache {} has no data set '{repo}'{commit}", cache.display())
            }
            (Some(_), None) => format!("{own}, and there is no folder for the hub's cache"),
            (None, _) => own,
        }
    }

    /// What puts it there, in words.
    pub(super) fn how(&self) -> String {
        let fetch = match self.set.source {
            PublicSource::File { url, file, .. } => {
                format!("'curl -L --create-dirs -o {KEPT}/{file} {url}' puts it there")
            }
            PublicSource::Hub { repo, .. } => format!(
                "{} puts it there (behind 'hf auth login', or with HF_TOKEN, where it is gated)",
                download(self.set, repo)
            ),
        };
        format!("{fetch}, or give a file of it with --input-file beside --public-dataset")
    }
}

/// The files of a listing, there or not.
pub(super) fn listed(folder: &Path, listing: &Listing) -> Vec<Part> {
    let snapshot = folder.join("snapshots").join(&listing.commit);
    let part = |file: &crate::hub::Listed| {
        let path = snapshot.join(&file.path);
        Part { name: file.path.clone(), size: file.about.size, path: path.is_file().then_some(path) }
    };
    listing.files.iter().map(part).collect()
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

/// Files of data below `root`, as paths from there.
fn walk(root: &Path, below: &str, depth: usize, out: &mut Vec<String>) -> Result<(), (PathBuf, io::Error)> {
    let folder = root.join(below);
    let failed = |source| (folder.clone(), source);
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
        let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        let full = root.join(&path);
        if full.is_dir() && depth > 0 {
            walk(root, &path, depth - 1, out)?;
        } else if full.is_file() && end(&path).is_some() {
            out.push(path);
        }
    }
    Ok(())
}

/// The command that fetches a data set whole.
fn download(set: &PublicSet, repo: &str) -> String {
    let commit = set.commit().map(|commit| format!(" --revision {commit}")).unwrap_or_default();
    format!("'hf download {repo} --repo-type dataset{commit}'")
}

/// What is missing, where there are `all`.
fn lacks(wanted: Wanted<'_>, all: &[String]) -> String {
    let PublicSource::Hub { repo, .. } = wanted.set.source else {
        return "has not the file that the data set is known by; --dataset-download fetches it".to_owned();
    };
    format!(
        "{}; --dataset-download fetches it, or {}; or give a file of it with --input-file beside --public-dataset",
        holds_no(wanted, repo, all),
        download(wanted.set, repo)
    )
}

/// That `all` are not what is wanted.
pub(super) fn holds_no(wanted: Wanted<'_>, repo: &str, all: &[String]) -> String {
    let part =
        wanted.part().map(|part| format!(" of the part '{}'", for_terminal(part, 40))).unwrap_or_default();
    let mut different: Vec<&String> = Vec::new();
    for path in all {
        if !different.contains(&path) && different.len() <= TOLD {
            different.push(path);
        }
    }
    let names: Vec<String> =
        different.iter().take(TOLD).map(|path| format!("'{}'", for_terminal(path, 80))).collect();
    let more = if different.len() > TOLD { " and more" } else { "" };
    let held =
        if names.is_empty() { "no data at all".to_owned() } else { format!("{}{more}", names.join(", ")) };
    format!("holds no rows '{}'{part} of '{repo}', but {held}", wanted.split())
}
