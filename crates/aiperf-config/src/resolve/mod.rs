//! From settings to a [`Plan`]: defaults, rules that concern several options, and the order in which AIPerf decides.
//! Every part collects its errors; a plan exists only if there are none.

mod artifacts;
mod connection;
mod context;
mod dataset;
mod endpoint;
mod hooks;
mod phases;
pub(crate) mod public;
mod rankings;
mod replay;
mod slos;
mod turns;
pub(crate) mod unformed;

use std::borrow::Cow;
use std::path::Path;

use aiperf_core::plan::{
    EndpointPlan, LogLevel, ModelSelection, OnTurnError, PhasePlan, Plan, PublicPlan, RuntimePlan,
    TokenizerPlan, Ui,
};
use aiperf_core::url::Scheme;
use serde_json::Value as Json;

use crate::error::ConfigError;
use crate::input_config::input_config;
use crate::options::Id;
use crate::place::Place;
use crate::row::{row_by_flag, row_of};
use crate::settings::Settings;
use crate::yaml::{Env, Structure};

/// What is put together while a plan is made.
pub(crate) struct Resolver<'a> {
    /// What is read now: all settings, or those of one phase.
    pub settings: &'a Settings,
    /// All settings but those of phases that share their kind with another.
    pub whole: &'a Settings,
    pub structure: &'a Structure,
    pub env: &'a Env<'a>,
    /// The public data set that is sent, whose file is the input file then.
    pub public: Option<PublicPlan>,
    pub notes: Vec<String>,
    pub errors: Vec<ConfigError>,
}

impl<'a> Resolver<'a> {
    /// The plan, if nothing is wrong.
    pub(crate) fn plan(&mut self, draw_seed: &dyn Fn() -> u64, cli_command: String) -> Option<Plan> {
        let models = self.settings.list(Id::Model).map(<[String]>::to_vec).unwrap_or_default();
        if models.is_empty() {
            self.errors.push(ConfigError::Missing { what: "the model", how: how(Id::Model) });
        }
        let model_selection = self.model_selection(models.len());
        let endpoint = self.endpoint();
        let dataset = self.dataset();
        let sampling = self.sampling();
        let on_turn_error = match self.settings.text_or_default(Id::OnTurnError).as_str() {
            "abort_session" => OnTurnError::AbortSession,
            _ => OnTurnError::Continue,
        };
        let system_prompt = self.system_prompt();
        let chat_template = self.chat_template();
        let verify_lengths = self.verify_lengths();
        let (phases, told): (Vec<PhasePlan>, Vec<Json>) = self.phases().into_iter().unzip();
        self.replay_needs_schedule(&phases);
        self.agents_need_count(&phases);
        let cache_bust = self.cache_bust(&phases);
        let slos = self.slos();
        let artifacts = self.artifacts(&models, &phases);
        let network = self.network();
        let runtime = self.runtime();
        let (endpoint, dataset) = endpoint.zip(dataset).filter(|_| self.errors.is_empty())?;
        let tokenizer = self.tokenizer(&models, &endpoint);
        let seed = self.settings.int(Id::Seed);
        let mut plan = Plan {
            models,
            model_selection,
            endpoint,
            dataset,
            sampling,
            on_turn_error,
            tokenizer,
            chat_template,
            system_prompt,
            cache_bust,
            verify_lengths,
            slos,
            phases,
            network,
            artifacts,
            runtime,
            seed: seed.unwrap_or_else(draw_seed),
            seed_given: seed.is_some(),
            cli_command,
            input_config: Json::Null,
        };
        plan.input_config = input_config(self.settings, &plan, told, self.synthetic_entries());
        Some(plan)
    }

    /// How `count` models are given to turns.
    fn model_selection(&mut self, count: usize) -> ModelSelection {
        let rank = |id: Id| self.settings.place(id).map(Place::rank);
        let (weighed, chosen) = (rank(Id::ModelWeights), rank(Id::ModelSelection));
        let way = self.settings.text(Id::ModelSelection).unwrap_or("round_robin").to_owned();
        let weights = self.settings.weights(Id::ModelWeights).map(<[f64]>::to_vec);
        // Weights mean the strategy weighted, unless a higher layer says another one.
        if way != "weighted" && (weighed.is_none() || chosen >= weighed) {
            if weighed.is_some() && weighed == chosen {
                self.exclude(
                    Id::ModelWeights,
                    Id::ModelSelection,
                    "weights are for the strategy weighted; choose it or drop the weights",
                );
            }
            return if way == "random" { ModelSelection::Random } else { ModelSelection::RoundRobin };
        }
        let Some(weights) = weights else {
            self.needs(
                Id::ModelSelection,
                "--model-weights",
                "they say which share of the requests each model gets",
            );
            return ModelSelection::RoundRobin;
        };
        if weights.len() != count && count > 0 {
            let found = format!("{} weights", weights.len());
            self.bad(Id::ModelWeights, found, &format!("one for each of the {count} models"));
        }
        ModelSelection::Weighted(weights)
    }

    /// Where an option was written. What shapes a phase is looked for in that phase alone.
    fn place(&self, id: Id) -> Option<Place> {
        let whole = (!phases::is_of_a_phase(id)).then_some(self.whole);
        self.settings.place(id).or_else(|| whole?.place(id)).cloned()
    }

    /// [`Self::place`] of what asks for something: a switch that is off by default, and given as off, does not.
    fn asked(&self, id: Id) -> Option<Place> {
        let place = self.place(id)?;
        let settings = if self.settings.has(id) { self.settings } else { self.whole };
        (!settings.is_left_off(id)).then_some(place)
    }

    /// `read` with the settings of one phase.
    fn with<T>(&mut self, settings: &'a Settings, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.settings, settings);
        let out = read(self);
        self.settings = before;
        out
    }

    /// Two settings that exclude each other, if both are there.
    fn exclude(&mut self, first: Id, second: Id, why: &'static str) {
        if let (Some(first), Some(second)) = (self.asked(first), self.asked(second)) {
            self.errors.push(ConfigError::Conflict { first, second, why });
        }
    }

    /// A setting that needs another one, if it is there.
    fn needs(&mut self, id: Id, needs: impl Into<Cow<'static, str>>, why: &'static str) {
        if let Some(place) = self.asked(id) {
            let mut needs = needs.into();
            if matches!(place, Place::File { .. }) {
                needs = in_a_file(needs);
            }
            self.errors.push(ConfigError::Needs { place, needs, why });
        }
    }

    /// The first of several settings that is there, from a layer of at least `rank`, needs another one.
    fn stray(&mut self, ids: &[Id], rank: u8, needs: impl Into<Cow<'static, str>>, why: &'static str) {
        let found = ids.iter().find(|id| self.asked(**id).is_some_and(|place| place.rank() >= rank));
        if let Some(id) = found {
            self.needs(*id, needs, why);
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

/// What a file calls a flag of a phase: a key beside the one that needs it. Anything else stays.
fn in_a_file(needs: Cow<'static, str>) -> Cow<'static, str> {
    let row = needs.strip_prefix("--").and_then(row_by_flag);
    let key = row.and_then(|row| {
        row.yaml.strip_prefix("phases.profiling.").or_else(|| row.yaml.strip_prefix("phases.warmup."))
    });
    key.map_or(needs, Cow::Borrowed)
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
