//! `profile_export_run.json`: what was run, written before the first request, so that the records of a run that was killed can still
//! be summarised.

use aiperf_core::plan::{EndpointKind, NetworkPlan, Pacing, PhaseKind, Plan, SloPlan};
use aiperf_core::rows::RowFacts;
use aiperf_core::time::ClockAnchor;
use aiperf_metrics::Capabilities;
use aiperf_report::Counting;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::reader::{model_names, target_names};

/// Version of the form.
const FORMAT: u32 = 1;

/// See the module. All of it is known when the run starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunFile {
    format: u32,
    /// Version of the program.
    pub aiperf_version: String,
    /// Identity of the run, 12 hexadecimal digits.
    pub benchmark_id: String,
    /// Wall clock at the start, nanoseconds since the Unix epoch.
    pub start_time_ns: u64,
    /// Seed of the run.
    pub random_seed: u64,
    /// The command line, secrets redacted.
    pub cli_command: String,
    /// Shape of the summary JSON.
    pub schema: u8,
    /// Name of the API; files without it are of the first version, which knew APIs of text alone.
    #[serde(default = "text_api")]
    pub endpoint_type: String,
    /// Answers come as server-sent events.
    pub streaming: bool,
    /// Lengths are the server's counts.
    pub server_token_count: bool,
    /// Requests asked the server to reach the output length.
    pub length_forced: bool,
    /// What a good request keeps: metrics and bounds in their display units.
    #[serde(default)]
    slos: Vec<(String, f64)>,
    /// The console has the table of what HTTP took.
    #[serde(default)]
    pub show_trace_timing: bool,
    /// What the user said of the time to the servers and back, nanoseconds.
    #[serde(default)]
    pub network_mean_ns: Option<f64>,
    /// What input lengths count.
    pub counting: CountingFact,
    /// Tokenizer behind our counts.
    pub tokenizer: Option<String>,
    /// Length of the slices of time that were wanted, nanoseconds.
    #[serde(default)]
    pub slice_ns: Option<u64>,
    /// Models, where there are several.
    #[serde(default)]
    pub models: Vec<String>,
    /// Servers without secrets, where there are several.
    #[serde(default)]
    pub urls: Vec<String>,
    /// What became of the rows of a file, where that is not simply all of them.
    #[serde(default)]
    pub dataset_rows: Option<RowFacts>,
    /// Where a public data set comes from.
    #[serde(default)]
    pub dataset_source: Option<Value>,
    /// In the order of the plan.
    pub phases: Vec<PhaseFact>,
    /// What the user set, secrets redacted.
    pub input_config: Value,
}

/// A phase of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PhaseFact {
    pub name: String,
    pub warmup: bool,
    /// Its requests follow the times of a file.
    #[serde(default)]
    pub replay: bool,
}

/// [`Counting`] as the file has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CountingFact {
    Rendered,
    Messages {
        has_template: bool,
        #[serde(default)]
        between: u64,
    },
    Prompts {
        specials: u64,
    },
    Ranked,
}

/// Schema (JSON Schema, draft 2020-12) of the file.
pub fn run_file_schema() -> Value {
    let text = json!({"type": "string"});
    let yes = json!({"type": "boolean"});
    let phase = json!({"type": "object", "additionalProperties": false, "required": ["name", "warmup"],
        "properties": {"name": text, "warmup": yes, "replay": yes}});
    let texts = json!({"type": "array", "items": text});
    let slo = json!({"type": "array", "items": {"type": ["string", "number"]}, "minItems": 2, "maxItems": 2});
    let with = |word: &str, key: &str, forms: Value| {
        json!({"type": "object", "additionalProperties": false, "required": [word],
            "properties": {word: {"type": "object", "additionalProperties": false, "required": [key], "properties": forms}}})
    };
    let tokens = json!({"type": "integer", "minimum": 0});
    let counting = json!({"anyOf": [
        {"enum": ["rendered", "ranked"]},
        with("messages", "has_template", json!({"has_template": yes, "between": tokens})),
        with("prompts", "specials", json!({"specials": tokens})),
    ]});
    let properties = json!({
        "format": {"const": FORMAT},
        "aiperf_version": text,
        "benchmark_id": text,
        "start_time_ns": {"type": "integer", "minimum": 0},
        "random_seed": {"type": "integer", "minimum": 0},
        "cli_command": text,
        "schema": {"enum": [1, 2]},
        "endpoint_type": text,
        "streaming": yes,
        "server_token_count": yes,
        "length_forced": yes,
        "slos": {"type": "array", "items": slo},
        "show_trace_timing": yes,
        "network_mean_ns": {"type": ["number", "null"]},
        "counting": counting,
        "tokenizer": {"type": ["string", "null"]},
        "slice_ns": {"type": ["integer", "null"]},
        "models": texts,
        "urls": texts,
        "dataset_rows": {"anyOf": [aiperf_report::rows_schema(), {"type": "null"}]},
        "dataset_source": {"anyOf": [aiperf_report::source_schema(), {"type": "null"}]},
        "phases": {"type": "array", "items": phase},
        "input_config": {"type": "object"},
    });
    let required: Vec<&String> = properties.as_object().into_iter().flat_map(|keys| keys.keys()).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "AIPerf run",
        "type": "object",
        "required": required,
        "additionalProperties": false,
        "properties": properties,
    })
}

impl RunFile {
    /// Of a run that starts.
    pub(crate) fn of(
        plan: &Plan,
        run_id: &str,
        anchor: &ClockAnchor,
        counting: Counting,
        tokenizer: Option<&str>,
        dataset_rows: Option<RowFacts>,
    ) -> Self {
        let counting = match counting {
            Counting::Rendered => CountingFact::Rendered,
            Counting::Messages { has_template, between } => CountingFact::Messages { has_template, between },
            Counting::Prompts { specials } => CountingFact::Prompts { specials },
            Counting::Ranked => CountingFact::Ranked,
        };
        let phase = |phase: &aiperf_core::plan::PhasePlan| PhaseFact {
            name: phase.name.clone(),
            warmup: phase.kind == PhaseKind::Warmup,
            replay: matches!(phase.pacing, Pacing::FixedSchedule { .. }),
        };
        Self {
            format: FORMAT,
            aiperf_version: env!("CARGO_PKG_VERSION").to_owned(),
            benchmark_id: run_id.to_owned(),
            start_time_ns: anchor.wall_ns,
            random_seed: plan.seed,
            cli_command: plan.cli_command.clone(),
            schema: plan.artifacts.schema,
            endpoint_type: plan.endpoint.kind.name().to_owned(),
            streaming: plan.endpoint.streaming,
            server_token_count: plan.endpoint.server_token_count,
            length_forced: is_length_forced(plan),
            slos: plan.slos.iter().map(|slo| (slo.tag.clone(), slo.threshold)).collect(),
            show_trace_timing: plan.artifacts.trace.show,
            network_mean_ns: match plan.network {
                Some(NetworkPlan::Fixed { mean_ns }) => Some(mean_ns),
                Some(NetworkPlan::Probes { .. }) | None => None,
            },
            counting,
            tokenizer: tokenizer.map(str::to_owned),
            slice_ns: plan.artifacts.slice_ns,
            models: model_names(plan),
            urls: if plan.endpoint.targets.len() > 1 { target_names(plan) } else { Vec::new() },
            dataset_rows,
            dataset_source: plan.source(),
            phases: plan.phases.iter().map(phase).collect(),
            input_config: plan.input_config.clone(),
        }
    }

    /// The file's bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Reads it back.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let file: Self = serde_json::from_slice(bytes)?;
        if file.format == FORMAT {
            Ok(file)
        } else {
            Err(serde::de::Error::custom(format_args!(
                "its format is {} and this program reads {FORMAT}",
                file.format
            )))
        }
    }

    /// What the run could measure.
    pub(crate) fn capabilities(&self) -> Capabilities {
        capabilities(self.kind(), self.streaming, self.server_token_count)
    }

    /// The API.
    pub(crate) fn kind(&self) -> EndpointKind {
        EndpointKind::named(&self.endpoint_type).unwrap_or(EndpointKind::Chat)
    }

    /// What a good request keeps.
    pub(crate) fn slos(&self) -> Vec<SloPlan> {
        self.slos.iter().map(|(tag, threshold)| SloPlan { tag: tag.clone(), threshold: *threshold }).collect()
    }

    pub(crate) fn counting(&self) -> Counting {
        match self.counting {
            CountingFact::Rendered => Counting::Rendered,
            CountingFact::Messages { has_template, between } => Counting::Messages { has_template, between },
            CountingFact::Prompts { specials } => Counting::Prompts { specials },
            CountingFact::Ranked => Counting::Ranked,
        }
    }
}

fn text_api() -> String {
    EndpointKind::Chat.name().to_owned()
}

/// What a run of an API can measure that streams, or counts by the server.
pub(crate) fn capabilities(kind: EndpointKind, streaming: bool, server_token_count: bool) -> Capabilities {
    let produces_tokens = kind.traits().produces_tokens;
    Capabilities {
        streaming,
        produces_tokens,
        tokenizes_input: true,
        reasoning: produces_tokens,
        // A server that ranks counts the query with every passage: a count of something else.
        compares_usage: !server_token_count && !kind.is_ranking(),
    }
}

/// Whether the requests of a plan ask the server to reach the output length.
pub(crate) fn is_length_forced(plan: &Plan) -> bool {
    ["ignore_eos", "min_tokens"].iter().any(|key| plan.endpoint.extra.contains_key(*key))
}
