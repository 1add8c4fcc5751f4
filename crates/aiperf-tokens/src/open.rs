//! From the name a user gave to a tokenizer.

use std::path::Path;
use std::sync::Arc;

use aiperf_core::plan::TokenizerPlan;
use aiperf_core::text::nearest;

use crate::encoding::{Encoding, NAMES, Tekken};
use crate::error::{HubProblem, TokenizerError, built_in_twin};
use crate::file::names_in;
use crate::hf::{HuggingFace, TOKENIZER_FILE};
use crate::hub::{HubCache, HubName};
use crate::tokenizer::Tokenizer;

/// Mistral's vocabulary in a model's folder.
const TEKKEN_FILE: &str = "tekken.json";

/// Files of a model's folder by which a tokenizer is opened: the first of them that is there.
pub const VOCABULARY_FILES: [&str; 2] = [TOKENIZER_FILE, TEKKEN_FILE];

/// The names that are built in, the default first.
pub fn known_encodings() -> &'static [&'static str] {
    &NAMES
}

/// Opens what `plan` names, the hub's cache being where the process's environment says.
pub fn open(plan: &TokenizerPlan) -> Result<Arc<dyn Tokenizer>, TokenizerError> {
    open_with(plan, &HubCache::from_env(&|name| std::env::var(name).ok()))
}

/// Opens what `plan` names, the first that is: a built-in encoding; a folder that holds a `tokenizer.json` or a `tekken.json`;
/// such a file; a model of the hub that is in `cache`.
pub fn open_with(plan: &TokenizerPlan, cache: &HubCache) -> Result<Arc<dyn Tokenizer>, TokenizerError> {
    let name = plan.name.as_str();
    if let Some(encoding) = Encoding::named(name) {
        return Ok(Arc::new(encoding));
    }
    let path = Path::new(name);
    if path.is_dir() {
        return open_folder(name, path);
    }
    if path.exists() {
        return if Tekken::is_named_so(path) {
            Ok(Arc::new(Tekken::open(name, path)?))
        } else {
            Ok(Arc::new(HuggingFace::open_file(name, path)?))
        };
    }
    let near = nearest(name, NAMES.iter().copied());
    match HubName::parse(name) {
        // A name without an owner may be a slip of anything, so it is told of all that is allowed.
        Some(hub) => match cache.find(hub) {
            Ok(folder) if !has_vocabulary(&folder) => {
                Err(cache.refuse(hub, HubProblem::NoVocabulary { holds: names_in(&folder)?, folder }))
            }
            Ok(folder) => open_folder(name, &folder),
            Err(TokenizerError::Hub {
                problem: HubProblem::NotCached { .. } | HubProblem::NoCache, ..
            }) if !hub.is_full() && built_in_twin(hub.id).is_none() => Err(unknown(name, near)),
            Err(error) => Err(error),
        },
        None => Err(unknown(name, near)),
    }
}

/// The model of the hub that `plan` names, when its vocabulary is neither built in nor on disk nor in `cache`.
pub fn missing<'a>(plan: &'a TokenizerPlan, cache: &HubCache) -> Option<HubName<'a>> {
    let name = plan.name.as_str();
    if Encoding::named(name).is_some() || Path::new(name).exists() {
        return None;
    }
    HubName::parse(name).filter(|hub| !cache.find(*hub).is_ok_and(|folder| has_vocabulary(&folder)))
}

fn has_vocabulary(folder: &Path) -> bool {
    VOCABULARY_FILES.iter().any(|file| folder.join(file).is_file())
}

/// Opens the tokenizer in `folder` under `name`. Where a model brings both forms, the one with the chat template counts.
pub fn open_folder(name: &str, folder: &Path) -> Result<Arc<dyn Tokenizer>, TokenizerError> {
    if folder.join(TOKENIZER_FILE).is_file() {
        return Ok(Arc::new(HuggingFace::open_folder(name, folder)?));
    }
    let tekken = folder.join(TEKKEN_FILE);
    if tekken.is_file() {
        return Ok(Arc::new(Tekken::open(name, &tekken)?));
    }
    Err(TokenizerError::FolderWithoutTokenizer { path: folder.to_owned(), holds: names_in(folder)? })
}

fn unknown(name: &str, nearest: Option<&'static str>) -> TokenizerError {
    TokenizerError::Unknown { name: name.to_owned(), nearest, known: known_encodings() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str) -> String {
        let plan = TokenizerPlan { name: name.to_owned() };
        open_with(&plan, &HubCache::at("/no/such/cache")).expect_err("not a tokenizer").to_string()
    }

    #[test]
    fn built_in_names_open() {
        for &name in known_encodings() {
            let tokenizer = open(&TokenizerPlan { name: name.to_owned() }).expect("a built-in encoding");
            assert_eq!(tokenizer.name(), name);
            assert!(tokenizer.count("a few words") > 0);
        }
    }

    #[test]
    fn unknown_names_are_told_with_what_is_allowed() {
        let text = said("biultin");
        assert!(
            text.starts_with("unknown tokenizer 'biultin' (did you mean 'builtin'?); allowed are builtin,"),
            "{text}"
        );
        assert!(text.contains("cl100k_base") && text.contains("tokenizer.json"), "{text}");
        let text = said("Qwen/Qwen3-0.6B");
        assert!(
            text.contains("'Qwen/Qwen3-0.6B' is not in the cache")
                && text.contains("/no/such/cache")
                && text.contains("pass a folder"),
            "{text}"
        );
        assert!(said("Qwen3-0.6B").contains("a model in the hub's cache; --tokenizer-download"));
        for path in ["none", "./no/such", "/no/such/folder", "~/x", "../a/b", "a/b/c", "", "a/b@../c"] {
            assert!(said(path).starts_with(&format!("unknown tokenizer '{path}'")), "{path}");
        }
    }

    #[test]
    fn gpt2_is_a_model_of_the_hub_and_its_vocabulary_is_at_hand() {
        assert!(said("gpt2").contains("r50k_base"), "{}", said("gpt2"));
    }

    #[test]
    fn a_name_of_the_hub_opens_its_cached_folder() {
        let cache = tempfile::tempdir().expect("a folder");
        let model = cache.path().join("models--org--tiny");
        let snapshot = model.join("snapshots/abc");
        std::fs::create_dir_all(&snapshot).expect("a folder");
        std::fs::create_dir_all(model.join("refs")).expect("a folder");
        std::fs::write(model.join("refs/main"), "abc").expect("a file");
        let open =
            |name: &str| open_with(&TokenizerPlan { name: name.to_owned() }, &HubCache::at(cache.path()));
        let missing = |name: &str| {
            missing(&TokenizerPlan { name: name.to_owned() }, &HubCache::at(cache.path())).is_some()
        };
        let refused = open("org/tiny").expect_err("there is no vocabulary yet").to_string();
        assert!(refused.contains("has no tokenizer.json") && refused.contains("snapshots/abc"), "{refused}");
        assert!(missing("org/tiny") && missing("org/other"));
        let vocabulary = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/byte_level/tokenizer.json");
        std::fs::copy(vocabulary, snapshot.join("tokenizer.json")).expect("a file");
        for name in ["org/tiny", "tiny", "org/tiny@main", "org/tiny@abc"] {
            let tokenizer = open(name).expect("it is there");
            assert_eq!(tokenizer.name(), name);
            assert_eq!(tokenizer.origin().path.as_deref(), Some(&*snapshot.join("tokenizer.json")));
            assert!(!missing(name), "{name}");
        }
        assert!(missing("org/tiny@v2"));
        for local in ["builtin", "/no/such/folder", "src", "a b"] {
            assert!(!missing(local), "{local} is no name of the hub");
        }
    }
}
