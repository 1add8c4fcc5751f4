//! From the name a user gave to a tokenizer.

use std::path::Path;
use std::sync::Arc;

use aiperf_core::plan::TokenizerPlan;
use aiperf_core::text::nearest;

use crate::encoding::Encoding;
use crate::error::TokenizerError;
use crate::hf::HuggingFace;
use crate::tokenizer::Tokenizer;

/// The names that are built in, the default first.
pub fn known_encodings() -> &'static [&'static str] {
    &["builtin", "o200k_base", "cl100k_base"]
}

/// Encodings of tiktoken's that AIPerf accepts and that are not embedded.
const NOT_BUILT_IN: [&str; 4] = ["o200k_harmony", "p50k_base", "p50k_edit", "r50k_base"];

/// Opens what `plan` names: a built-in encoding, a folder that holds a `tokenizer.json`, or such a file.
pub fn open(plan: &TokenizerPlan) -> Result<Arc<dyn Tokenizer>, TokenizerError> {
    let name = plan.name.as_str();
    if let Some(encoding) = Encoding::named(name) {
        return Ok(Arc::new(encoding));
    }
    let path = Path::new(name);
    if path.is_dir() {
        return Ok(Arc::new(HuggingFace::open_folder(name, path)?));
    }
    if path.exists() {
        return Ok(Arc::new(HuggingFace::open_file(name, path)?));
    }
    Err(refuse(name))
}

/// The error for a name that is nothing this program can open.
fn refuse(name: &str) -> TokenizerError {
    if NOT_BUILT_IN.contains(&name) {
        return TokenizerError::NotYet { name: name.to_owned(), known: known_encodings() };
    }
    TokenizerError::Unknown {
        name: name.to_owned(),
        nearest: nearest(name, known_encodings().iter().copied()),
        known: known_encodings(),
        hub_like: is_hub_like(name),
    }
}

/// `owner/name`, neither a path that is spelled as one nor deeper than the hub's ids are.
fn is_hub_like(name: &str) -> bool {
    let mut parts = name.split('/');
    let fits = |part: Option<&str>| {
        part.is_some_and(|p| {
            !p.is_empty()
                && !p.starts_with(['.', '~'])
                && p.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        })
    };
    fits(parts.next()) && fits(parts.next()) && parts.next().is_none() && !Path::new(name).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str) -> String {
        open(&TokenizerPlan { name: name.to_owned() }).expect_err("not a tokenizer").to_string()
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
        assert!(
            text.contains("cl100k_base") && text.contains("tokenizer.json") && !text.contains("hub"),
            "{text}"
        );
        let text = said("Qwen/Qwen3-0.6B");
        assert!(
            text.contains("hub") && text.contains("pass a folder") && !text.contains("did you mean"),
            "{text}"
        );
        for path in ["./no/such", "/no/such/folder", "~/x", "../a/b", "a/b/c", ""] {
            assert!(!said(path).contains("hub"), "{path}");
        }
    }

    #[test]
    fn other_encodings_are_known_but_not_yet_here() {
        for name in NOT_BUILT_IN {
            let text = said(name);
            assert!(
                text.contains(name) && text.contains("not built in yet") && text.contains("o200k_base"),
                "{text}"
            );
        }
    }
}
