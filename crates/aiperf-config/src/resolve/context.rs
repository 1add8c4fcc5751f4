//! What stands around prompts: system messages, shared beginnings, markers, and the template that all of it is counted in.

use std::path::Path;

use aiperf_core::plan::{
    CacheBustPlan, FileFormat, MarkerTarget, PhaseKind, PhasePlan, PrefixPlan, VerifyLengths,
};

use super::Resolver;
use crate::error::ConfigError;
use crate::options::Id;
use crate::yaml::read_bounded;

/// Largest file taken for a system prompt: about a million tokens, and each request in flight holds it.
const MAX_SYSTEM_PROMPT_BYTES: u64 = 4 << 20;

/// The two ways to give a system message word for word.
pub(super) const SYSTEM_PROMPTS: [Id; 2] = [Id::SystemPrompt, Id::SystemPromptFile];

impl Resolver<'_> {
    /// Whether lengths are those of rendered requests.
    pub(super) fn chat_template(&mut self) -> bool {
        if !self.settings.is_on(Id::ApplyChatTemplate) {
            return false;
        }
        self.wants_messages(Id::ApplyChatTemplate);
        if !self.counts_tokens()
            && let Some(place) = self.place(Id::ApplyChatTemplate)
        {
            self.notes.push(format!(
                "{place} has no effect: the prompts are a file's and their tokens are counted by the server"
            ));
            return false;
        }
        true
    }

    /// Whether anything is counted here at all: the lengths of prompts made here, or what is sent and answered.
    pub(super) fn counts_tokens(&self) -> bool {
        let format = self.file_format();
        let is_needed = format.gives_lengths() || format == FileFormat::ShareGpt;
        !(self.settings.is_on(Id::ServerTokenCount) && self.settings.has(Id::InputFile)) || is_needed
    }

    pub(super) fn verify_lengths(&mut self) -> VerifyLengths {
        let verify = match self.settings.text_or_default(Id::VerifyLengths).as_str() {
            "all" => VerifyLengths::All,
            "off" => VerifyLengths::Off,
            _ => VerifyLengths::Sample,
        };
        if let Some(place) = self.place(Id::VerifyLengths)
            && verify != VerifyLengths::Off
            && self.settings.has(Id::InputFile)
        {
            self.notes.push(format!(
                "{place} counts nothing again: the prompts of a file have no length to be held to; a server that answers /tokenize \
                 is asked how it counts the first one"
            ));
        }
        verify
    }

    /// The user's own system message.
    pub(super) fn system_prompt(&mut self) -> Option<String> {
        let [inline, file] = SYSTEM_PROMPTS;
        self.exclude(inline, file, "both are the system message; keep one");
        for id in SYSTEM_PROMPTS {
            self.exclude(
                id,
                Id::SharedSystem,
                "both are the system message: the one word for word, the other of a length; keep one",
            );
            self.wants_messages(id);
        }
        if let Some(text) = self.settings.text(inline).map(str::to_owned) {
            if text.trim().is_empty() {
                self.bad(inline, format!("'{text}'"), "a text; without the option no system message is sent");
            }
            return Some(text);
        }
        let path = self.settings.text(file)?;
        match read_system_prompt(Path::new(path)) {
            Ok(text) => Some(text),
            Err(problem) => {
                let (place, path) = (self.place(file)?, path.into());
                self.errors.push(ConfigError::File { place, path, problem });
                None
            }
        }
    }

    /// Tokens of a synthetic message before all turns.
    pub(super) fn generated(&mut self, id: Id) -> Option<u64> {
        self.wants_messages(id);
        self.settings.int(id)
    }

    /// Beginnings that conversations share; a length alone is a pool of one.
    pub(super) fn prefixes(&mut self) -> Option<PrefixPlan> {
        let pool = self.settings.int(Id::PrefixPool);
        let tokens = self.settings.int(Id::PrefixLength);
        let (named, off) = match (pool, tokens) {
            (Some(0), _) => (Id::PrefixLength, Id::PrefixPool),
            (_, Some(0)) => (Id::PrefixPool, Id::PrefixLength),
            (Some(_), None) => {
                self.needs(
                    Id::PrefixPool,
                    "--prompt-prefix-length",
                    "it says how many tokens each of the prefixes has",
                );
                return None;
            }
            (_, None) => return None,
            (pool, Some(tokens)) => {
                let named = if pool.is_some() { Id::PrefixPool } else { Id::PrefixLength };
                for other in [Id::SharedSystem, Id::UserContext].into_iter().chain(SYSTEM_PROMPTS) {
                    self.exclude(
                        named,
                        other,
                        "prefixes are for prompts without messages before them; keep one of the two",
                    );
                }
                return Some(PrefixPlan {
                    pool: usize::try_from(pool.unwrap_or(1)).unwrap_or(usize::MAX),
                    tokens,
                });
            }
        };
        if self.settings.int(named).is_some_and(|n| n > 0)
            && let (Some(named), Some(off)) = (self.place(named), self.place(off))
        {
            self.notes.push(format!("{named} has no effect: {off} is 0, which turns prefixes off"));
        }
        None
    }

    /// Markers against prefix caches.
    pub(super) fn cache_bust(&mut self, phases: &[PhasePlan]) -> Option<CacheBustPlan> {
        let target = self.settings.text(Id::CacheBust);
        let Some(target) = MarkerTarget::ALL.into_iter().find(|t| Some(t.name()) == target) else {
            self.needs(
                Id::CacheBustRunId,
                "--cache-bust with a target",
                "markers are made from it, and without a target there are none",
            );
            return None;
        };
        self.wants_messages(Id::CacheBust);
        let run_id = self.settings.text(Id::CacheBustRunId).map(str::to_owned);
        if let Some(text) = run_id.as_deref().filter(|text| text.trim().is_empty()) {
            self.bad(Id::CacheBustRunId, format!("'{text}'"), "a text that is not blank");
        }
        if target.is_warmup_isolation() {
            self.warmup_isolation(target, phases);
        }
        Some(CacheBustPlan { target, run_id })
    }

    fn warmup_isolation(&mut self, target: MarkerTarget, phases: &[PhasePlan]) {
        let has_system = [Id::SharedSystem].into_iter().chain(SYSTEM_PROMPTS).any(|id| self.settings.has(id))
            || self.endpoint_kind().is_replaced_by(&self.settings.extra());
        // A file's rows may bring their own.
        if target.wants_system() && !has_system && !self.settings.has(Id::InputFile) {
            self.needs(
                Id::CacheBust,
                "--shared-system-prompt-length, --system-prompt or --system-prompt-file",
                "there is no system message to mark; warmup_isolation_first_turn marks the first user message",
            );
        }
        if let Some(place) = self.place(Id::CacheBust)
            && phases.iter().all(|phase| phase.kind != PhaseKind::Warmup)
        {
            self.notes
                .push(format!("{place} has no effect: it marks warmup requests, and there is no warmup"));
        }
        if let Some(place) = self.place(Id::CacheBustRunId) {
            self.notes
                .push(format!("{place} has no effect: the marker of warmup requests is always the same"));
        }
    }
}

/// The text of a file that holds a system prompt. Symbolic links are refused wherever they are on the way, as AIPerf does: what
/// is sent is the file that was named.
fn read_system_prompt(path: &Path) -> Result<String, String> {
    for part in path.ancestors() {
        if std::fs::symlink_metadata(part).is_ok_and(|found| found.is_symlink()) {
            return Err(format!(
                "is reached through the symbolic link {}; name the file itself",
                part.display()
            ));
        }
    }
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err("is a folder; a text file is expected".to_owned()),
        Ok(found) if !found.is_file() => return Err("is no regular file".to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err("does not exist".to_owned()),
        Err(error) => return Err(format!("cannot be read: {error}")),
    }
    let bytes = read_bounded(path, MAX_SYSTEM_PROMPT_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        format!("is not UTF-8 (line {})", before.split(|b| *b == b'\n').count())
    })?;
    if text.trim().is_empty() {
        return Err("is blank; without the option no system message is sent".to_owned());
    }
    Ok(text)
}
