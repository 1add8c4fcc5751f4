//! From a name to a folder of the cache that holds the model's tokenizer.

use std::path::PathBuf;

use aiperf_tokens::{COMPANION_FILES, HubCache, HubName, VOCABULARY_FILES};

use crate::Teller;
use crate::error::HubError;
use crate::hub::Hub;
use crate::progress::size;
use crate::settings::Settings;
use crate::store::Store;

/// Read by nothing here, but without it `transformers` does not open a tokenizer, and the cache is for all.
const FOR_OTHERS: &str = "config.json";
/// Names of a model's files that are told when none of them is a vocabulary.
const TOLD: usize = 10;

/// Fetches what the opener of tokenizers reads of the model `name`; gives its folder.
pub(crate) fn fetch(
    name: HubName<'_>,
    cache: &HubCache,
    settings: Settings,
    teller: Teller<'_>,
) -> Result<PathBuf, HubError> {
    if let Some(variable) = settings.offline {
        let cache = cache.folder().map(ToOwned::to_owned);
        return Err(HubError::Offline { name: name.id.to_owned(), cache, variable });
    }
    if cache.folder().is_none() {
        return Err(HubError::NoCache { name: name.id.to_owned() });
    }
    waited_for(fetch_with(name, cache, Hub::new(settings, teller)))?
}

/// Waits for what is fetched.
pub(crate) fn waited_for<T>(fetching: impl Future<Output = T>) -> Result<T, HubError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(HubError::Runtime)?;
    let fetched = runtime.block_on(fetching);
    // A resolver that still waits for a name server must not be waited for.
    runtime.shutdown_background();
    Ok(fetched)
}

async fn fetch_with(name: HubName<'_>, cache: &HubCache, mut hub: Hub<'_>) -> Result<PathBuf, HubError> {
    let mut id = name.id.to_owned();
    let mut found = hub.model(&id, name.revision).await?;
    if found.is_none() {
        id = hub.alias(name.id).await?;
        hub.tell(&format!("'{}' is taken for '{id}'", name.id));
        found = hub.model(&id, name.revision).await?;
    }
    // The hub may know the model by another name now (gpt2). Its own tools keep the one they were given, and so the next run
    // finds it.
    let model = found.ok_or_else(|| hub.no_model(&id))?;
    let no_cache = || HubError::NoCache { name: id.clone() };
    let store = Store::new(cache.model_folder(&id).ok_or_else(no_cache)?);
    let commit = &model.commit;
    hub.tell(&format!(
        "Fetching the tokenizer of '{id}' (revision {}, commit {commit}) from {} into {}",
        name.revision,
        hub.endpoint(),
        store.folder().display()
    ));
    let is_listed = |file: &str| model.files.as_ref().is_none_or(|files| files.iter().any(|f| f == file));
    let knows_files = model.files.is_some();
    let mut fetch = Fetch { hub, store, id: &id, commit, knows_files, links: Vec::new(), came: 0 };
    let mut vocabulary = None;
    for file in VOCABULARY_FILES.into_iter().filter(|file| is_listed(file)) {
        if fetch.file(file).await? {
            vocabulary = Some(file);
            break;
        }
    }
    match vocabulary {
        // The other one holds all that is known of it.
        Some(file) if file != VOCABULARY_FILES[0] => {}
        Some(_) => {
            for file in COMPANION_FILES.into_iter().chain([FOR_OTHERS]).filter(|file| is_listed(file)) {
                fetch.file(file).await?;
            }
        }
        None => {
            let holds = model.files.unwrap_or_default().into_iter().take(TOLD).collect();
            return Err(HubError::NoVocabulary { id, revision: name.revision.to_owned(), holds });
        }
    }
    fetch.finish(name.revision)
}

/// Files of one model on their way.
struct Fetch<'a, 'h> {
    hub: Hub<'h>,
    store: Store,
    id: &'a str,
    commit: &'a str,
    /// The hub said which files there are.
    knows_files: bool,
    /// Files and what their bytes are called.
    links: Vec<(&'static str, String)>,
    /// Bytes that came.
    came: u64,
}

impl Fetch<'_, '_> {
    /// Sees to it that the bytes of `file` are in the cache; `false` when the model has no such file.
    async fn file(&mut self, file: &'static str) -> Result<bool, HubError> {
        if self.store.snapshot(self.commit).join(file).is_file() {
            return Ok(true);
        }
        let store = &self.store;
        let has_blob = |etag: &str| store.has_blob(etag);
        let found = self.hub.file(self.id, self.commit, file, self.knows_files, &has_blob).await?;
        let Some(found) = found else { return Ok(false) };
        if let Some(bytes) = found.bytes {
            self.store.put_blob(&found.etag, &bytes)?;
            self.came += bytes.len() as u64;
            self.hub.tell(&format!("  {file}: {}", size(bytes.len() as u64)));
        }
        self.links.push((file, found.etag));
        Ok(true)
    }

    /// Everything is there: makes it visible. The vocabulary, which came first, gets its name last, because a folder that has
    /// one counts as whole.
    fn finish(self, revision: &str) -> Result<PathBuf, HubError> {
        for (file, etag) in self.links.iter().rev() {
            self.store.link(self.commit, file, etag)?;
        }
        if revision != self.commit {
            self.store.set_ref(revision, self.commit)?;
        }
        self.hub.tell(&format!("Fetched {} files, {}", self.links.len(), size(self.came)));
        Ok(self.store.snapshot(self.commit))
    }
}
