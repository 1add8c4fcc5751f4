//! Public data sets: their files found on this machine, or fetched when asked to, each when it is wanted.
//!
//! - `choose`: which files of a repository are the wanted rows.
//! - `here`: what is on this machine.
//! - `listing`: what the hub said of the files, kept for the next run.

mod choose;
mod here;
mod listing;

use std::error::Error;
use std::path::{Path, PathBuf};

use aiperf_core::plan::{PublicParts, PublicPlan, PublicSet, PublicSource};
use aiperf_core::url::BaseUrl;
use aiperf_tokens::HubCache;

use self::choose::{Wanted, by_names, by_page, end, is_inside};
use self::here::{Found, Places, holds_no, listed};
use self::listing::Listing;
use crate::draft::{Announced, Draft};
use crate::error::{HubError, PartName};
use crate::fetch::waited_for;
use crate::http::Facts;
use crate::hub::{Hub, Listed, is_name};
use crate::progress::size;
use crate::settings::Settings;
use crate::store::Store;
use crate::{Download, Teller};

/// The branch that is fetched.
const MAIN: &str = "main";
/// The branch on which the hub keeps data sets of other forms as Parquet, in `PART/ROWS/`.
const CONVERTED: &str = "refs/convert/parquet";

/// A file of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    /// Its path in the repository.
    name: String,
    /// Bytes, where the hub tells.
    size: Option<u64>,
    /// Where it is, if it is here.
    path: Option<PathBuf>,
}

impl Part {
    fn here(path: PathBuf) -> Self {
        Self { name: path.to_string_lossy().into_owned(), size: None, path: Some(path) }
    }
}

/// Where what is not here comes from.
#[derive(Debug)]
enum Source {
    /// Nobody knows.
    Nowhere,
    /// The hub.
    Hub { repo: &'static str, listing: Listing, store: Store, note: PathBuf },
    /// A file of another place, which becomes this one.
    Elsewhere { url: &'static str, place: PathBuf },
}

/// The files of a public data set.
#[derive(Debug)]
pub struct DatasetFiles<'a> {
    set: &'static PublicSet,
    parts: Vec<Part>,
    source: Source,
    /// Where they are looked for.
    folder: PathBuf,
    settings: Settings,
    download: Download<'a>,
}

impl<'a> DatasetFiles<'a> {
    /// Looks for the files of `plan`, with the process's environment, and asks the hub which there are where they are not here and
    /// `download` allows it.
    pub fn find(plan: &PublicPlan, download: Download<'a>) -> Result<Self, HubError> {
        Self::find_with(plan, download, &|name| std::env::var(name).ok())
    }

    /// The same; `env` looks a variable up.
    pub fn find_with(
        plan: &PublicPlan,
        download: Download<'a>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, HubError> {
        let cache = HubCache::from_env(env);
        let places = Places::of(plan.set, &cache);
        let wanted = Wanted { set: plan.set, subset: plan.subset.as_deref() };
        let settings = Settings::from_env(env)?;
        let teller = match download {
            Download::WhenMissing(teller) if settings.offline_sets.is_none() => Some(teller),
            _ => None,
        };
        let (parts, source) = match places.find(wanted)? {
            Found::Files(parts, listing) => {
                let is_whole = parts.iter().all(|part| part.path.is_some());
                match (listing, plan.set.repo(), &places.folder) {
                    (Some(listing), Some(repo), Some(folder)) => {
                        let note = listing::place(folder, wanted);
                        (parts, Source::Hub { repo, listing, store: Store::new(folder.clone()), note })
                    }
                    _ => match teller.filter(|_| !is_whole) {
                        Some(teller) => ask(&places, wanted, &settings, teller)?,
                        None => (parts, Source::Nowhere),
                    },
                }
            }
            missing => match (teller, missing) {
                (Some(teller), _) => ask(&places, wanted, &settings, teller)?,
                (None, Found::Others { snapshot, problem }) => {
                    return Err(HubError::Lacks { path: snapshot, problem });
                }
                (None, _) => {
                    let (set, looked, how) = (plan.set.name, places.told(wanted), places.how());
                    return Err(match (download, settings.offline_sets) {
                        (Download::WhenMissing(_), Some(variable)) => {
                            HubError::AbsentOffline { set, looked, variable, how }
                        }
                        _ => HubError::Absent { set, looked, how },
                    });
                }
            },
        };
        let folder = places.folder.clone().unwrap_or_else(|| places.kept().to_owned());
        let mut files = Self { set: plan.set, parts, source, folder, settings, download };
        // The first is wanted by every run, and what is wrong with the way to it is best told with what else could be done.
        let first = files.get(0).map_err(|error| match error {
            HubError::PartUnfetched { cause, part } => {
                HubError::Unfetched { set: part.set, cause, looked: places.told(wanted), how: places.how() }
            }
            other => other,
        })?;
        files.parts[0].path = Some(first);
        Ok(files)
    }

    fn get(&self, index: usize) -> Result<PathBuf, HubError> {
        let part = &self.parts[index];
        if let Some(path) = &part.path {
            return Ok(path.clone());
        }
        let file = &part.name;
        let name = || {
            let (set, count, file) = (self.set.name, self.parts.len(), file.clone());
            Box::new(PartName { set, number: index + 1, count, file })
        };
        let absent = |why: String| HubError::PartAbsent { part: name(), folder: self.folder.clone(), why };
        let Download::WhenMissing(teller) = self.download else {
            return Err(absent(
                "--dataset-download fetches it, and --request-count or --num-dataset-entries may do without it".into(),
            ));
        };
        if let Some(variable) = self.settings.offline_sets {
            return Err(absent(format!("nothing is fetched while {variable} is set")));
        }
        let hub = Hub::new(self.settings.clone(), teller);
        let fetched = match &self.source {
            Source::Nowhere => return Err(absent("nobody says where it comes from".into())),
            Source::Hub { repo, listing, store, note } => {
                waited_for(from_hub(hub, repo, listing, store, file)).and_then(|fetched| {
                    // What is missing is only worth knowing where something is there.
                    let fetched = fetched?;
                    listing::write(note, listing)?;
                    Ok(fetched)
                })
            }
            Source::Elsewhere { url, place } => {
                waited_for(from_elsewhere(hub, url, place)).and_then(|fetched| fetched)
            }
        };
        fetched.map_err(|cause| HubError::PartUnfetched { part: name(), cause: Box::new(cause) })
    }
}

impl PublicParts for DatasetFiles<'_> {
    fn count(&self) -> usize {
        self.parts.len()
    }

    fn part(&self, index: usize) -> Result<PathBuf, Box<dyn Error + Send + Sync>> {
        Ok(self.get(index)?)
    }
}

/// Asks which files there are, and says what is to come.
fn ask(
    places: &Places,
    wanted: Wanted<'_>,
    settings: &Settings,
    teller: Teller<'_>,
) -> Result<(Vec<Part>, Source), HubError> {
    let set = wanted.set;
    let mut hub = Hub::new(settings.clone(), teller);
    let Some(repo) = set.repo() else {
        let PublicSource::File { url, file, .. } = set.source else {
            return Err(HubError::Absent { set: set.name, looked: places.told(wanted), how: places.how() });
        };
        let place = places.kept().to_owned();
        hub.tell(&format!("Fetching the public data set '{}' from {url} into {}", set.name, place.display()));
        let part = Part { name: file.to_owned(), size: None, path: None };
        return Ok((vec![part], Source::Elsewhere { url, place }));
    };
    let Some(folder) = &places.folder else {
        return Err(HubError::NoCache { name: set.name.to_owned() });
    };
    let asked = waited_for(list(&mut hub, repo, wanted)).and_then(|listing| listing);
    let listing = asked.map_err(|cause| HubError::Unfetched {
        set: set.name,
        cause: Box::new(cause),
        looked: places.told(wanted),
        how: places.how(),
    })?;
    let store = Store::new(folder.clone());
    let note = listing::place(folder, wanted);
    let parts = listed(folder, &listing);
    let missing = parts.iter().filter(|part| part.path.is_none());
    let bytes: Option<u64> = missing.clone().map(|part| part.size).sum();
    let (count, bytes) =
        (missing.count(), bytes.map(|bytes| format!(", {}", size(bytes))).unwrap_or_default());
    let files = if count == 1 {
        format!("1 file{bytes}")
    } else {
        format!("{count} files{bytes}, as far as the run needs them")
    };
    hub.tell(&format!(
        "Fetching the public data set '{}' ('{repo}', revision {}, commit {}) from {} into {}: {files}",
        set.name,
        listing.revision,
        listing.commit,
        hub.endpoint(),
        folder.display()
    ));
    Ok((parts, Source::Hub { repo, listing, store, note }))
}

/// The files of what is wanted, as the hub's page of the data set names them, else by their names, else those that the hub made of
/// them.
async fn list(hub: &mut Hub<'_>, repo: &str, wanted: Wanted<'_>) -> Result<Listing, HubError> {
    let mut all = Vec::new();
    // What the hub makes of a data set, it makes of its newest commit.
    for revision in wanted.set.commit().map_or_else(|| vec![MAIN, CONVERTED], |commit| vec![commit]) {
        let Some(found) = hub.dataset(repo, revision).await? else { continue };
        let files: Vec<Listed> = found.files.into_iter().filter(|file| is_inside(&file.path)).collect();
        let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
        let chosen = match wanted.set.source {
            PublicSource::Hub { .. } => by_page(wanted, &found.configs, &paths),
            PublicSource::File { .. } => None,
        };
        if let Some(chosen) = chosen.or_else(|| by_names(wanted, &paths)) {
            let listed = |path: &String| files.iter().find(|file| file.path == *path).cloned();
            return Ok(Listing {
                revision: revision.to_owned(),
                commit: found.commit,
                files: chosen.iter().filter_map(listed).collect(),
            });
        }
        all.extend(paths.into_iter().filter(|path| end(path).is_some()));
    }
    Err(HubError::NoRows { problem: format!("{} {}", hub.endpoint(), holds_no(wanted, repo, &all)) })
}

/// Fetches a file into the cache.
async fn from_hub(
    mut hub: Hub<'_>,
    repo: &str,
    listing: &Listing,
    store: &Store,
    file: &str,
) -> Result<PathBuf, HubError> {
    let endpoint = hub.endpoint();
    let mut open = |facts: &Facts, tell: &mut dyn FnMut(&str)| {
        let foreign =
            |detail: String| HubError::Foreign { url: format!("{endpoint}/datasets/{repo}"), detail };
        let Some(etag) = facts.etag.as_deref() else {
            return Err(foreign(format!("it gives no ETag of {file}")));
        };
        if !is_name(etag) {
            let etag = aiperf_core::text::for_terminal(etag, 200);
            return Err(foreign(format!("the ETag '{etag}' of {file} is no name of a file")));
        }
        let blob = store.blob(etag);
        let listed = listing.files.iter().find(|listed| listed.path == file);
        let about = listed.map(|listed| listed.about.clone()).unwrap_or_default();
        Draft::open(&beside(&blob, ""), &blob, facts, about, tell)
    };
    let etag = hub.dataset_file(repo, &listing.commit, file, &mut open).await?;
    store.link(&listing.commit, file, &etag)?;
    if listing.revision != listing.commit {
        store.set_ref(&listing.revision, &listing.commit)?;
    }
    let path = store.snapshot(&listing.commit).join(file);
    fetched(&hub, file, &path);
    Ok(path)
}

/// Fetches a file of another place.
async fn from_elsewhere(mut hub: Hub<'_>, url: &str, place: &Path) -> Result<PathBuf, HubError> {
    let address = BaseUrl::parse(url)
        .map_err(|error| HubError::Foreign { url: url.to_owned(), detail: error.to_string() })?;
    let file = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut open = |facts: &Facts, tell: &mut dyn FnMut(&str)| {
        let etag = facts.etag.as_deref().filter(|etag| is_name(etag)).map(|etag| format!(".{etag}"));
        Draft::open(&beside(place, &etag.unwrap_or_default()), place, facts, Announced::default(), tell)
    };
    hub.elsewhere(&address, &file, &mut open).await?;
    fetched(&hub, &file, place);
    Ok(place.to_owned())
}

/// Says that a file is here.
fn fetched(hub: &Hub<'_>, file: &str, path: &Path) {
    let bytes = std::fs::metadata(path).map(|about| format!(": {}", size(about.len()))).unwrap_or_default();
    hub.tell(&format!("  {file}{bytes}"));
}

/// Where a file lies while it comes. The ending is the one by which the hub's tools know what may be swept away.
fn beside(place: &Path, more: &str) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!("{name}{more}.aiperf.incomplete"))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use aiperf_core::plan::agents::AgentFilter;
    use aiperf_core::plan::{PublicName, PublicShape, public_named};
    use aiperf_sim::scripted::{Reply, Script};

    use super::*;
    use crate::Said;

    fn answer(status: &str, headers: &str, body: &str) -> Reply {
        Reply::new()
            .send(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len()))
    }

    /// What lies at another place than the hub, and what is said on the way.
    #[test]
    fn a_file_of_another_place_is_fetched_to_where_it_is_kept() {
        let server = Script::by_request(|request| match (request.index, request.path.as_str()) {
            (0, "/question.jsonl") => {
                // It breaks off, and what came without an ETag cannot be gone on with.
                Reply::new().send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}").close()
            }
            (1, "/question.jsonl") => answer("200 OK", "ETag: W/\"e\"\r\n", "{\"a\": 1}\n"),
            _ => answer("404 Not Found", "", ""),
        });
        let server = server.start().expect("it listens");
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("kept/spec_bench.jsonl");
        let told = RefCell::new(Vec::new());
        let say = |said: Said<'_>| {
            let (Said::Line(text) | Said::Progress(text)) = said;
            told.borrow_mut().push(text.to_owned());
        };
        let settings = Settings::from_env(&|name| (name == "HF_TOKEN").then(|| "hf_secret".to_owned()));
        let settings = settings.expect("sound");
        let fetch = |file: &str| {
            let hub = Hub::new(settings.clone(), Teller { say: &say, is_drawn: false });
            waited_for(from_elsewhere(hub, &format!("{}/{file}", server.url()), &place)).expect("a runtime")
        };
        assert_eq!(fetch("question.jsonl").expect("it is there"), place);
        assert_eq!(std::fs::read(&place).expect("a file"), b"{\"a\": 1}\n");
        let kept = std::fs::read_dir(folder.path().join("kept")).expect("a folder");
        assert_eq!(kept.count(), 1, "no draft is left");
        assert!(told.borrow().iter().any(|line| line.contains("attempt 2 of 4")), "{told:?}");
        assert_eq!(told.borrow().last().map(String::as_str), Some("  spec_bench.jsonl: 9 bytes"));
        // The token is the hub's.
        for request in server.requests() {
            assert_eq!((request.header("authorization"), request.header("range")), (None, None));
        }
        let said = fetch("none").expect_err("it is not there").to_string();
        assert!(said.contains("/none answers 404 Not Found"), "{said}");
    }

    #[test]
    fn what_lies_in_the_folder_is_looked_at_and_not_guessed() {
        let PublicName::Here(set) = public_named("aimo") else { panic!("it is known") };
        assert!(matches!(set.shape, PublicShape::Column("problem")));
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("hub");
        let repo = cache.join("datasets--AI-MO--NuminaMath-TIR");
        let env = |name: &str| (name == "HF_HUB_CACHE").then(|| cache.display().to_string());
        let find = || {
            let filter = AgentFilter::default();
            let plan = PublicPlan { set, subset: None, is_given: false, entries: None, filter };
            DatasetFiles::find_with(&plan, Download::Never, &env).map(|files| files.count())
        };
        assert!(matches!(find(), Err(HubError::Absent { .. })));
        std::fs::create_dir_all(repo.join("snapshots/c/data")).expect("a folder");
        assert!(find().expect_err("nothing is in it").to_string().contains("holds no rows 'train'"));
        std::fs::write(repo.join("snapshots/c/data/train-00000-of-00002.parquet"), "").expect("written");
        assert_eq!(find().expect("one of two"), 2);
        // What a listing says that leads elsewhere is no listing.
        let outside = r#"{"revision": "main", "commit": "c", "files": [{"path": "../x", "size": 1}]}"#;
        std::fs::create_dir_all(repo.join(".aiperf")).expect("a folder");
        std::fs::write(repo.join(".aiperf/train.json"), outside).expect("written");
        assert_eq!(find().expect("one of two"), 2);
        // A file where the folder would be.
        std::fs::remove_dir_all(&cache).expect("removed");
        std::fs::write(&cache, "").expect("written");
        assert!(matches!(find(), Err(HubError::Absent { .. })));
    }
}
