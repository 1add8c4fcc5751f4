//! From settings to a [`Plan`]: defaults, rules that concern several options, and the order in which AIPerf decides.
//! Every part collects its errors; a plan exists only if there are none.

mod artifacts;
mod context;
mod dataset;
mod endpoint;
mod phases;
mod turns;

use std::path::Path;

use aiperf_core::plan::{EndpointPlan, LogLevel, ModelSelection, Plan, RuntimePlan, TokenizerPlan, Ui};
use aiperf_core::url::Scheme;
use serde_json::Value as Json;

use crate::error::ConfigError;
use crate::input_config::input_config;
use crate::options::Id;
use crate::place::Place;
use crate::row::row_of;
use crate::settings::Settings;
use crate::yaml::{Env, Structure};

/// What is put together while a plan is made.
pub(crate) struct Resolver<'a> {
    pub settings: &'a Settings,
    pub structure: &'a Structure,
    pub env: &'a Env<'a>,
    pub notes: Vec<String>,
    pub errors: Vec<ConfigError>,
}

impl Resolver<'_> {
    /// The plan, if nothing is wrong.
    pub(crate) fn plan(&mut self, draw_seed: &dyn Fn() -> u64, cli_command: String) -> Option<Plan> {
        let models = self.settings.list(Id::Model).map(<[String]>::to_vec).unwrap_or_default();
        if models.is_empty() {
            self.errors.push(ConfigError::Missing { what: "the model", how: how(Id::Model) });
        }
        let endpoint = self.endpoint();
        let dataset = self.dataset();
        let system_prompt = self.system_prompt();
        let chat_template = self.chat_template();
        let verify_lengths = self.verify_lengths();
        let phases = self.phases();
        let cache_bust = self.cache_bust(&phases);
        let artifacts = self.artifacts(&models, &phases);
        let runtime = self.runtime();
        let (endpoint, dataset) = endpoint.zip(dataset).filter(|_| self.errors.is_empty())?;
        let tokenizer = self.tokenizer(&models, &endpoint);
        let seed = self.settings.int(Id::Seed);
        let mut plan = Plan {
            models,
            model_selection: match self.settings.text_or_default(Id::ModelSelection).as_str() {
                "random" => ModelSelection::Random,
                _ => ModelSelection::RoundRobin,
            },
            endpoint,
            dataset,
            tokenizer,
            chat_template,
            system_prompt,
            cache_bust,
            verify_lengths,
            phases,
            artifacts,
            runtime,
            seed: seed.unwrap_or_else(draw_seed),
            seed_given: seed.is_some(),
            cli_command,
            input_config: Json::Null,
        };
        plan.input_config = input_config(self.settings, &plan);
        Some(plan)
    }

    fn place(&self, id: Id) -> Option<Place> {
        self.settings.place(id).cloned()
    }

    /// Two settings that exclude each other, if both are there.
    fn exclude(&mut self, first: Id, second: Id, why: &'static str) {
        if let (Some(first), Some(second)) = (self.place(first), self.place(second)) {
            self.errors.push(ConfigError::Conflict { first, second, why });
        }
    }

    /// A setting that needs another one, if it is there.
    fn needs(&mut self, id: Id, needs: &'static str, why: &'static str) {
        if let Some(place) = self.place(id) {
            self.errors.push(ConfigError::Needs { place, needs, why });
        }
    }

    fn bad(&mut self, id: Id, found: String, allowed: &str) {
        if let Some(place) = self.place(id) {
            self.errors.push(ConfigError::BadValue {
                place,
                found,
                allowed: allowed.to_owned(),
                nearest: None,
            });
        }
    }

    fn tokenizer(&mut self, models: &[String], endpoint: &EndpointPlan) -> Option<TokenizerPlan> {
        if !self.counts_tokens() {
            return None;
        }
        if let Some(name) = self.settings.text(Id::Tokenizer) {
            return Some(TokenizerPlan { name: self.at_revision(name) });
        }
        let model = models.first()?;
        if is_placeholder(model) {
            self.notes.push(format!(
                "'{model}' names no real model, so tokens are counted with the builtin tokenizer; --tokenizer chooses another"
            ));
            return Some(TokenizerPlan { name: "builtin".to_owned() });
        }
        // The simulated server has no model whose tokenizer could be meant.
        let simulated = endpoint.url().scheme == Scheme::Sim && !Path::new(model).exists();
        let name = if simulated { "builtin".to_owned() } else { self.at_revision(model) };
        Some(TokenizerPlan { name })
    }

    /// `name` at the revision that was asked for, unless it is a file or folder, which have none.
    fn at_revision(&self, name: &str) -> String {
        match self.settings.text(Id::TokenizerRevision) {
            Some(revision) if revision != "main" && !Path::new(name).exists() => format!("{name}@{revision}"),
            _ => name.to_owned(),
        }
    }

    fn runtime(&mut self) -> RuntimePlan {
        let ui = match self.settings.text_or_default(Id::Ui).as_str() {
            "none" => Ui::None,
            "dashboard" => {
                self.notes.push("the dashboard comes later; this run shows simple progress".to_owned());
                Ui::Simple
            }
            _ => Ui::Simple,
        };
        let log_level = if self.settings.is_on(Id::ExtraVerbose) {
            LogLevel::Trace
        } else if self.settings.is_on(Id::Verbose) {
            LogLevel::Debug
        } else {
            match self.settings.text_or_default(Id::LogLevel).as_str() {
                "error" => LogLevel::Error,
                "warning" => LogLevel::Warning,
                "debug" => LogLevel::Debug,
                "trace" => LogLevel::Trace,
                _ => LogLevel::Info,
            }
        };
        RuntimePlan {
            max_shards: self.settings.int(Id::WorkersMax).map(|n| n as usize),
            ui,
            stats_interval_s: self.settings.float_or_default(Id::StatsInterval),
            log_level,
        }
    }
}

/// `--model, or benchmark.models in a file`.
fn how(id: Id) -> String {
    let row = row_of(id);
    match row.key() {
        Some(key) => format!("{}, or {key} in a configuration file", row.flag()),
        None => row.flag(),
    }
}

/// Whether a model's name is one that people write when there is no model; AIPerf's rule.
fn is_placeholder(model: &str) -> bool {
    const WHOLE: &[&str] = &["test", "mock", "fake", "dummy", "example", "sample", "placeholder"];
    const PARTS: &[&str] = &[
        "mock-",
        "-mock",
        "fake-",
        "-fake",
        "test-model",
        "-test-model",
        "your-model",
        "my-model",
        "model-name",
        "model-id",
    ];
    if model.contains(['/', '\\']) || model.starts_with(['.', '~']) {
        return false;
    }
    let name = model.to_lowercase().replace('_', "-");
    WHOLE.contains(&name.as_str()) || PARTS.iter().any(|p| name.contains(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_known_by_the_rule_of_the_reference() {
        for name in ["mock", "Test", "mock-model", "my_model", "a-fake", "YOUR_MODEL_NAME"] {
            assert!(is_placeholder(name), "{name}");
        }
        for name in ["demo", "Qwen/Qwen3-0.6B", "mock/model-id", "./mock", "testing", "gpt-4o"] {
            assert!(!is_placeholder(name), "{name}");
        }
    }
}
