//! What the hub is asked, and what its answers mean.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use aiperf_core::text::{for_terminal, nearest};
use aiperf_core::url::BaseUrl;
use http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;

use crate::draft::{Announced, Draft};
use crate::error::HubError;
use crate::http::{Answer, Facts, Http, Reading, Sink, Trouble};
use crate::progress::{Progress, size};
use crate::retry;
use crate::settings::Settings;
use crate::{Said, Teller};

/// Largest answer about a model; the ones with thousands of files are some MiB.
const ABOUT: usize = 32 << 20;
/// Largest file; vocabularies of a million tokens have some tens of MiB.
const FILE: usize = 512 << 20;
/// Hits of a search that are looked at.
const HITS: usize = 50;
/// Models that are told when several may be meant.
const TOLD: usize = 5;
/// Characters of a name that came from the hub.
const NAME: usize = 200;

/// A model at a revision.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Model {
    /// The commit.
    pub(crate) commit: String,
    /// Paths of its files; `None` when the hub does not tell.
    pub(crate) files: Option<Vec<String>>,
}

/// A data set at a revision.
#[derive(Debug)]
pub(crate) struct Dataset {
    /// The commit.
    pub(crate) commit: String,
    /// Its files.
    pub(crate) files: Vec<Listed>,
    /// What its page says of its parts (`configs` of the head of its README), as it stands there.
    pub(crate) configs: Vec<serde_json::Value>,
}

/// A file as the hub lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Its path.
    pub(crate) path: String,
    /// What the hub tells of it.
    pub(crate) about: Announced,
}

/// A repository of the hub.
#[derive(Debug, Clone, Copy)]
enum Repo<'a> {
    Model(&'a str),
    Dataset(&'a str),
}

impl Repo<'_> {
    /// Its path, for people and for its files.
    fn page(self) -> String {
        match self {
            Self::Model(id) => id.to_owned(),
            Self::Dataset(id) => format!("datasets/{id}"),
        }
    }

    const fn kind(self) -> &'static str {
        match self {
            Self::Model(_) => "models",
            Self::Dataset(_) => "datasets",
        }
    }

    const fn id(&self) -> &str {
        match self {
            Self::Model(id) | Self::Dataset(id) => id,
        }
    }
}

/// A file that came, or that need not come.
pub(crate) struct File {
    pub(crate) etag: String,
    /// `None` when its bytes are there already.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// A model as a search finds it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Hit {
    id: String,
    #[serde(default)]
    downloads: u64,
}

#[derive(Deserialize)]
struct About {
    sha: Option<String>,
    siblings: Option<Vec<Sibling>>,
    #[serde(rename = "cardData", default)]
    card: serde_json::Value,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    /// Of a file that the repository only points to.
    lfs: Option<Pointer>,
}

#[derive(Deserialize)]
struct Pointer {
    sha256: Option<String>,
}

/// Asks the hub, more than once where that may help.
pub(crate) struct Hub<'a> {
    http: Http,
    teller: Teller<'a>,
}

impl<'a> Hub<'a> {
    pub(crate) fn new(settings: Settings, teller: Teller<'a>) -> Self {
        Self { http: Http::new(settings), teller }
    }

    /// The hub, as it is told.
    pub(crate) fn endpoint(&self) -> String {
        self.http.settings().endpoint.to_string()
    }

    /// Says one line.
    pub(crate) fn tell(&self, line: &str) {
        (self.teller.say)(Said::Line(line));
    }

    fn has_token(&self) -> bool {
        self.http.settings().authorization.is_some()
    }

    /// The model `id` at `revision`; `None` when the hub knows none of that name, or does not say so to us.
    pub(crate) async fn model(&mut self, id: &str, revision: &str) -> Result<Option<Model>, HubError> {
        match self.about(Repo::Model(id), revision, None).await? {
            Known::Is(found) => read_model(&found.0, &found.1).map(Some),
            Known::NoRevision => Err(HubError::NoRevision {
                id: id.to_owned(),
                revision: revision.to_owned(),
                endpoint: self.endpoint(),
            }),
            Known::No => Ok(None),
        }
    }

    /// The data set `id` at `revision`; `None` when it has no such revision.
    pub(crate) async fn dataset(&mut self, id: &str, revision: &str) -> Result<Option<Dataset>, HubError> {
        // With the sizes of files.
        let query = Some("blobs=true".to_owned());
        match self.about(Repo::Dataset(id), revision, query).await? {
            Known::Is(found) => read_dataset(&found.0, &found.1).map(Some),
            Known::NoRevision => Ok(None),
            Known::No => Err(HubError::NoDataset {
                id: id.to_owned(),
                endpoint: self.endpoint(),
                has_token: self.has_token(),
            }),
        }
    }

    async fn about(
        &mut self,
        repo: Repo<'_>,
        revision: &str,
        query: Option<String>,
    ) -> Result<Known, HubError> {
        let (kind, id) = (repo.kind(), repo.id());
        let url = self.url(&format!("api/{kind}/{id}/revision/{}", escaped(revision)), query);
        let answer = self.ask(&url, None, &|_| true, ABOUT).await?;
        if answer.status == StatusCode::OK {
            return Ok(Known::Is(Box::new((url, answer))));
        }
        match answer.code().as_deref() {
            Some("RevisionNotFound") => Ok(Known::NoRevision),
            Some("GatedRepo") => Err(self.gated(repo)),
            Some("RepoNotFound") => Ok(Known::No),
            // Without a token the hub says the same of what is private and of what is not there.
            _ if answer.status == StatusCode::NOT_FOUND => Ok(Known::No),
            _ if answer.status == StatusCode::UNAUTHORIZED && !self.has_token() => Ok(Known::No),
            _ => Err(self.refused(&url, &answer)),
        }
    }

    /// The id of the model that `name`, which no model has, is meant for.
    pub(crate) async fn alias(&mut self, name: &str) -> Result<String, HubError> {
        let url = self.url("api/models", Some(format!("search={}&limit={HITS}", escaped(name))));
        let answer = self.ask(&url, None, &|_| true, ABOUT).await?;
        if answer.status != StatusCode::OK {
            return Err(self.refused(&url, &answer));
        }
        let hits: Vec<Hit> = read_json(&url, &answer)?;
        match choose(name, hits) {
            Choice::One(id) if is_id(&id) => Ok(id),
            Choice::One(id) => Err(foreign(&url, format!("it finds a model '{}'", for_terminal(&id, NAME)))),
            Choice::None => Err(self.no_model(name)),
            Choice::Several(likely) => {
                let shown = |hit: &Hit| (for_terminal(&hit.id, NAME), hit.downloads);
                let likely = likely.iter().take(TOLD).map(shown).collect();
                Err(HubError::Ambiguous { name: name.to_owned(), endpoint: self.endpoint(), likely })
            }
        }
    }

    pub(crate) fn no_model(&self, name: &str) -> HubError {
        let known = aiperf_tokens::known_encodings().iter().copied();
        HubError::NoModel {
            name: name.to_owned(),
            endpoint: self.endpoint(),
            has_token: self.has_token(),
            // Nobody means a built-in name with an owner.
            nearest: if name.contains('/') { None } else { nearest(name, known) },
        }
    }

    /// A file of the model `id` at `commit`; `None` when there is no such file, which is an error for one that `is_listed`.
    /// `has_blob` says which bytes need not come.
    pub(crate) async fn file(
        &mut self,
        id: &str,
        commit: &str,
        file: &str,
        is_listed: bool,
        has_blob: &dyn Fn(&str) -> bool,
    ) -> Result<Option<File>, HubError> {
        let url = self.url(&format!("{id}/resolve/{commit}/{file}"), None);
        let wants =
            |facts: &Facts| !facts.etag.as_deref().is_some_and(|etag| is_name(etag) && has_blob(etag));
        let answer = self.ask(&url, Some(file), &wants, FILE).await?;
        match answer.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND if !is_listed => return Ok(None),
            StatusCode::UNAUTHORIZED if !self.has_token() => return Err(self.gated(Repo::Model(id))),
            _ if answer.code().as_deref() == Some("GatedRepo") => return Err(self.gated(Repo::Model(id))),
            _ => return Err(self.refused(&url, &answer)),
        }
        match answer.facts.etag {
            Some(etag) if is_name(&etag) => Ok(Some(File { etag, bytes: answer.body })),
            Some(etag) => {
                Err(foreign(&url, format!("its ETag '{}' is no name of a file", for_terminal(&etag, NAME))))
            }
            None => Err(no_etag(&url)),
        }
    }

    /// Fetches a file of the data set `id` at `commit`; gives its ETag. `open` opens its draft.
    pub(crate) async fn dataset_file(
        &mut self,
        id: &str,
        commit: &str,
        file: &str,
        open: Open<'_>,
    ) -> Result<String, HubError> {
        let repo = Repo::Dataset(id);
        let parts: Vec<String> = file.split('/').map(escaped).collect();
        let url = self.url(&format!("{}/resolve/{commit}/{}", repo.page(), parts.join("/")), None);
        let answer = self.pour(&url, file, open).await?;
        match answer.status {
            status if status.is_success() => answer.facts.etag.ok_or_else(|| no_etag(&url)),
            StatusCode::UNAUTHORIZED if !self.has_token() => Err(self.gated(repo)),
            _ if answer.code().as_deref() == Some("GatedRepo") => Err(self.gated(repo)),
            _ => Err(self.refused(&url, &answer)),
        }
    }

    /// Fetches a file of another place than the hub.
    pub(crate) async fn elsewhere(
        &mut self,
        url: &BaseUrl,
        file: &str,
        open: Open<'_>,
    ) -> Result<(), HubError> {
        let answer = self.pour(url, file, open).await?;
        if answer.status.is_success() { Ok(()) } else { Err(self.refused(url, &answer)) }
    }

    /// A file that is written down while it comes, or a status that says what is wrong for good. After a break what is missing is
    /// asked for, and as long as something comes, this goes on.
    async fn pour(&mut self, url: &BaseUrl, file: &str, open: Open<'_>) -> Result<Answer, HubError> {
        let teller = self.teller;
        let mut line = |text: &str| (teller.say)(Said::Line(text));
        let mut open = |facts: &Facts| open(facts, &mut line);
        let mut draft: Option<Draft> = None;
        let mut attempts = 1;
        loop {
            let before = draft.as_ref().map_or(0, Draft::len);
            let progress = RefCell::new(Progress::new(Some(file), teller.is_drawn));
            let mut on_bytes = |received, total| {
                if let Some(line) = progress.borrow_mut().line(received, total, Instant::now()) {
                    (teller.say)(Said::Progress(&line));
                }
            };
            let sink = Some(Sink { open: &mut open, draft: &mut draft });
            let mut reading = Reading { cap: 0, wants: &|_| true, progress: &mut on_bytes, sink };
            let (detail, asked, may_pass) = match self.http.get(url, &mut reading).await {
                Ok(answer) if answer.status == StatusCode::RANGE_NOT_SATISFIABLE && before > 0 => {
                    // There is no more than what is here, which is not what it was.
                    if let Some(mut draft) = draft.take() {
                        draft.begin_anew()?;
                    }
                    ("what was here is no part of it".to_owned(), None, true)
                }
                Ok(answer) if !retry::is_passing(answer.status) => return Ok(answer),
                Ok(answer) => (passing(&answer), retry::asked(&answer.headers, Timestamp::now()), true),
                Err(Trouble::Disk(error)) => return Err(*error),
                Err(Trouble::Partly) => {
                    let here = draft.as_ref().map_or(0, Draft::len);
                    self.tell(&format!("  {file}: {} are here from an earlier run", size(here)));
                    continue;
                }
                Err(trouble) => (trouble.to_string(), None, trouble.is_passing()),
            };
            if draft.as_ref().is_some_and(|draft| draft.goes_on() && draft.len() > before) {
                attempts = 1;
            }
            let Some(wait) = retry::pause(attempts, asked).filter(|_| may_pass) else {
                let kept = draft.filter(Draft::goes_on).map_or(0, |draft| draft.len());
                let detail = if kept > 0 {
                    format!("{detail}; {} of it are kept, and the next run goes on from there", size(kept))
                } else {
                    detail
                };
                return Err(HubError::Unreachable { url: url.to_string(), attempts, detail, asked });
            };
            attempts += 1;
            self.again(url, &detail, attempts, wait).await;
        }
    }

    /// Tells what went wrong, and waits.
    async fn again(&self, url: &BaseUrl, detail: &str, attempt: u32, wait: Duration) {
        self.tell(&format!(
            "{url}: {detail}; attempt {attempt} of {} in {} s",
            retry::ATTEMPTS,
            wait.as_secs_f64()
        ));
        tokio::time::sleep(wait).await;
    }

    /// A good answer, or one whose status says what is wrong for good. `file` is told of while it comes.
    async fn ask(
        &mut self,
        url: &BaseUrl,
        file: Option<&str>,
        wants: &dyn Fn(&Facts) -> bool,
        cap: usize,
    ) -> Result<Answer, HubError> {
        let mut attempts = 1;
        loop {
            let teller = self.teller;
            let mut progress = Progress::new(file, teller.is_drawn);
            let mut on_bytes = |received, total| {
                if let Some(line) = progress.line(received, total, Instant::now()) {
                    (teller.say)(Said::Progress(&line));
                }
            };
            let mut reading = Reading { cap, wants, progress: &mut on_bytes, sink: None };
            let (detail, asked, may_pass) = match self.http.get(url, &mut reading).await {
                Ok(answer) if !retry::is_passing(answer.status) => return Ok(answer),
                Ok(answer) => (passing(&answer), retry::asked(&answer.headers, Timestamp::now()), true),
                Err(trouble) => (trouble.to_string(), None, trouble.is_passing()),
            };
            let Some(wait) = retry::pause(attempts, asked).filter(|_| may_pass) else {
                return Err(HubError::Unreachable { url: url.to_string(), attempts, detail, asked });
            };
            attempts += 1;
            self.again(url, &detail, attempts, wait).await;
        }
    }

    fn url(&self, path: &str, query: Option<String>) -> BaseUrl {
        let endpoint = &self.http.settings().endpoint;
        BaseUrl { path: format!("{}/{path}", endpoint.path), query, ..endpoint.clone() }
    }

    fn gated(&self, repo: Repo<'_>) -> HubError {
        HubError::Gated {
            id: repo.id().to_owned(),
            page: format!("{}/{}", self.endpoint(), repo.page()),
            has_token: self.has_token(),
        }
    }

    fn refused(&self, url: &BaseUrl, answer: &Answer) -> HubError {
        let said = answer.said();
        if answer.status == StatusCode::UNAUTHORIZED && self.has_token() {
            return HubError::TokenRefused { endpoint: self.endpoint(), said };
        }
        HubError::Refused { url: url.to_string(), status: answer.status, said }
    }
}

/// Opens the draft of a file, and tells of what is in the way; `None` when the file is there.
pub(crate) type Open<'a> = &'a mut dyn FnMut(&Facts, &mut dyn FnMut(&str)) -> Result<Option<Draft>, HubError>;

/// What the hub knows of a name.
enum Known {
    Is(Box<(BaseUrl, Answer)>),
    NoRevision,
    No,
}

/// What an answer says that may be another one the next time.
fn passing(answer: &Answer) -> String {
    let mut detail = format!("it answers {}", answer.status);
    if let Some(said) = answer.said() {
        // Writing to a String cannot fail.
        let _ = write!(detail, ": {said}");
    }
    detail
}

/// What a search comes to.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    One(String),
    /// The most downloaded first.
    Several(Vec<Hit>),
    None,
}

/// AIPerf's rule: the model of exactly that name, whatever its case; else the most downloaded of those whose name without the
/// owner it is; else nobody can tell.
fn choose(name: &str, mut hits: Vec<Hit>) -> Choice {
    let name = name.to_lowercase();
    hits.truncate(HITS);
    // Stable: where two are downloaded as often, the hub's own order counts.
    hits.sort_by_key(|hit| std::cmp::Reverse(hit.downloads));
    let exact = hits.iter().find(|hit| hit.id.to_lowercase() == name);
    let ending = format!("/{name}");
    match exact.or_else(|| hits.iter().find(|hit| hit.id.to_lowercase().ends_with(&ending))) {
        Some(hit) => Choice::One(hit.id.clone()),
        None if hits.is_empty() => Choice::None,
        None => Choice::Several(hits),
    }
}

fn read_model(url: &BaseUrl, answer: &Answer) -> Result<Model, HubError> {
    let About { sha, siblings, .. } = read_json(url, answer)?;
    match sha {
        Some(commit) if is_name(&commit) => Ok(Model {
            commit,
            files: siblings.map(|all| all.into_iter().map(|sibling| sibling.rfilename).collect()),
        }),
        _ => Err(foreign(url, "it gives no commit of the model".to_owned())),
    }
}

fn read_dataset(url: &BaseUrl, answer: &Answer) -> Result<Dataset, HubError> {
    let About { sha, siblings, mut card } = read_json(url, answer)?;
    let commit = sha.filter(|commit| is_name(commit));
    let commit = commit.ok_or_else(|| foreign(url, "it gives no commit of the data set".to_owned()))?;
    let files =
        siblings.ok_or_else(|| foreign(url, "it does not list the files of the data set".to_owned()))?;
    let configs = match card.get_mut("configs").map(serde_json::Value::take) {
        Some(serde_json::Value::Array(configs)) => configs,
        _ => Vec::new(),
    };
    let is_hash = |hash: &String| hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
    let listed = |file: Sibling| {
        let sha256 = file.lfs.and_then(|pointer| pointer.sha256).filter(is_hash);
        Listed { path: file.rfilename, about: Announced { size: file.size, sha256 } }
    };
    let files = files.into_iter().map(listed).collect();
    Ok(Dataset { commit, files, configs })
}

fn no_etag(url: &BaseUrl) -> HubError {
    foreign(url, "it gives no ETag".to_owned())
}

fn read_json<T: for<'de> Deserialize<'de>>(url: &BaseUrl, answer: &Answer) -> Result<T, HubError> {
    let body = answer.body.as_deref().unwrap_or_default();
    serde_json::from_slice(body).map_err(|e| foreign(url, e.to_string()))
}

fn foreign(url: &BaseUrl, detail: String) -> HubError {
    HubError::Foreign { url: url.to_string(), detail }
}

/// Commits and ETags name files and folders of the cache, so they must not lead out of it.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && !text.starts_with('.')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// A search may find only what a user could have named.
fn is_id(id: &str) -> bool {
    aiperf_tokens::HubName::parse(id).is_some_and(|name| name.id == id)
}

/// `text` as a part of a path or a value of a query.
pub(crate) fn escaped(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(list: &[(&str, u64)]) -> Vec<Hit> {
        list.iter().map(|(id, downloads)| Hit { id: (*id).to_owned(), downloads: *downloads }).collect()
    }

    #[test]
    fn a_name_means_the_model_of_that_name_or_the_most_downloaded_one_that_ends_so() {
        let found = hits(&[("a/Tiny", 1), ("b/tiny", 9), ("c/tiny-2", 50), ("tiny", 0), ("d/nottiny", 99)]);
        assert_eq!(choose("TINY", found.clone()), Choice::One("tiny".to_owned()));
        assert_eq!(choose("A/tiny", found.clone()), Choice::One("a/Tiny".to_owned()));
        let without = hits(&[("a/Tiny", 1), ("b/tiny", 9), ("c/tiny-2", 50), ("d/nottiny", 99)]);
        assert_eq!(choose("tiny", without), Choice::One("b/tiny".to_owned()));
        let ranked = hits(&[("d/nottiny", 99), ("c/tiny-2", 50), ("a/Tiny", 1)]);
        assert_eq!(
            choose("iny", hits(&[("a/Tiny", 1), ("d/nottiny", 99), ("c/tiny-2", 50)])),
            Choice::Several(ranked)
        );
        assert_eq!(choose("tiny", Vec::new()), Choice::None);
    }

    #[test]
    fn only_the_first_hits_count() {
        let mut many = hits(&[("o/other", 1); HITS]);
        many.push(Hit { id: "o/tiny".to_owned(), downloads: 7 });
        assert!(matches!(choose("tiny", many), Choice::Several(list) if list.len() == HITS));
    }

    #[test]
    fn names_stay_in_their_folder() {
        for good in ["abc", "a-b_c.d", "0f"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "..", ".a", "a/b", "a\\b", "a b", "ä", "a\0"] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(!is_name(&"a".repeat(129)));
        assert!(is_id("o/m") && is_id("m") && !is_id("o/../m") && !is_id("o/m@v1"));
    }

    #[test]
    fn text_in_an_address_is_escaped() {
        assert_eq!(escaped("refs/pr/3"), "refs%2Fpr%2F3");
        assert_eq!(escaped("a-b_c.d~e&f=ü"), "a-b_c.d~e%26f%3D%C3%BC");
    }
}
