//! What is written and where.

use std::path::PathBuf;

use aiperf_core::plan::{
    ArtifactsPlan, EndpointKind, ExportLevel, NetworkPlan, Pacing, PhaseKind, PhasePlan, TracePlan,
};
use aiperf_core::text::for_terminal;
use aiperf_core::time::seconds_to_ns;

use super::Resolver;
use crate::error::ConfigError;
use crate::options::Id;
use crate::place::Place;

/// Endings of the files of a run; a prefix that ends so loses it. Longer ones first.
const KNOWN_ENDINGS: &[&str] = &[
    "_raw.jsonl",
    "_timeslices.csv",
    "_timeslices.json",
    "_gpu_telemetry.jsonl",
    "_server_metrics.jsonl",
    "_server_metrics.json",
    "_server_metrics.csv",
    "_server_metrics.parquet",
    "_network_latency.jsonl",
    "_console.txt",
    ".csv",
    ".jsonl",
    ".json",
    ".parquet",
];

/// Phases of more than a year are meant to be without end.
const ENDLESS_NS: u64 = 366 * 86_400 * 1_000_000_000;

impl Resolver<'_> {
    pub(super) fn artifacts(&mut self, models: &[String], phases: &[PhasePlan]) -> ArtifactsPlan {
        let dir = match self.settings.text(Id::ArtifactDir).map(PathBuf::from) {
            Some(dir) => {
                if std::fs::metadata(&dir).is_ok_and(|m| !m.is_dir())
                    && let Some(place) = self.place(Id::ArtifactDir)
                {
                    self.errors.push(ConfigError::File {
                        place,
                        path: dir.clone(),
                        problem: "is a file; a folder is expected".to_owned(),
                    });
                }
                dir
            }
            None => PathBuf::from("artifacts").join(self.folder(models, phases)),
        };
        let level = match self.settings.text_or_default(Id::ExportLevel).as_str() {
            "summary" => ExportLevel::Summary,
            "raw" => ExportLevel::Raw,
            _ => ExportLevel::Records,
        };
        let trace = TracePlan {
            export: self.settings.is_on(Id::ExportHttpTrace),
            show: self.settings.is_on(Id::ShowTraceTiming),
        };
        if trace.export && level == ExportLevel::Summary {
            self.needs(Id::ExportHttpTrace, "--export-level records or raw", "traces are part of records");
        }
        let parquet = self.settings.is_on(Id::ExportParquet);
        if parquet && level == ExportLevel::Summary {
            self.needs(Id::ExportParquet, "--export-level records or raw", "it is made from the records");
        }
        if !self.settings.is_on(Id::DryRun) {
            self.needs(Id::DryRunFormat, "--dry-run", "it is the form of what that prints");
        }
        ArtifactsPlan {
            dir,
            prefix: self.prefix(),
            level,
            schema: if self.settings.int_or_default(Id::ExportSchema) == 2 { 2 } else { 1 },
            trace,
            slice_ns: self.slice_ns(phases),
            outputs: self.settings.is_on(Id::ExportOutputs),
            parquet,
            cache_ledger: self.cache_ledger(),
            cache_block: self.settings.int_or_default(Id::CacheBlockSize) as usize,
        }
    }

    fn cache_ledger(&mut self) -> bool {
        let is_on = self.settings.is_on(Id::CacheLedger);
        let is_text = matches!(
            self.endpoint_kind(),
            EndpointKind::Chat
                | EndpointKind::Completions
                | EndpointKind::Responses
                | EndpointKind::Messages
                | EndpointKind::HuggingfaceGenerate
                | EndpointKind::SglangGenerate
        );
        if is_on && !is_text {
            self.needs(
                Id::CacheLedger,
                "--endpoint-type chat, completions, responses, messages, huggingface_generate or sglang_generate",
                "of others nobody knows what a server prefills",
            );
        } else if is_on && self.is_chained() {
            self.needs(
                Id::CacheLedger,
                "requests that hold all that is prefilled",
                "with store:true the server keeps the answers, and what it prefills is not in the request",
            );
        } else if is_on && !self.counts_tokens() {
            self.needs(Id::CacheLedger, "--no-use-server-token-count", "blocks are those of the tokenizer");
        }
        is_on
    }

    /// Where the length of a round trip comes from. A file says `enabled` beside a mean as AIPerf's do; on the command line each flag
    /// says it by itself.
    pub(super) fn network(&mut self) -> Option<NetworkPlan> {
        let asked = self.settings.switch(Id::NetworkAutomatic);
        let mean_ms = self.settings.float(Id::NetworkMean);
        if let Some(mean_ms) = mean_ms {
            let is_flag = |id: Id| self.place(id).is_some_and(|place| !matches!(place, Place::File { .. }));
            if asked == Some(true) && is_flag(Id::NetworkAutomatic) {
                self.exclude(
                    Id::NetworkAutomatic,
                    Id::NetworkMean,
                    "one measures what the other says; drop one of the two",
                );
            }
            self.needs_probes();
            let rank = |id: Id| self.place(id).map_or(0, |place| place.rank());
            let is_off = asked == Some(false) && rank(Id::NetworkAutomatic) >= rank(Id::NetworkMean);
            return (!is_off).then_some(NetworkPlan::Fixed { mean_ns: mean_ms * 1e6 });
        }
        if asked != Some(true) {
            self.needs_probes();
            return None;
        }
        self.exclude(
            Id::NetworkAutomatic,
            Id::UnixSocket,
            "probes are TCP connections, and nothing else of this run is one; drop one of the two",
        );
        let seconds = self.settings.float_or_default(Id::NetworkInterval);
        Some(NetworkPlan::Probes { interval_ns: (seconds * 1e9) as u64 })
    }

    /// An interval says nothing where nothing is measured.
    fn needs_probes(&mut self) {
        let in_file = |place: Place| matches!(place, Place::File { .. });
        // A file may write down everything, as AIPerf's do.
        if !self.place(Id::NetworkInterval).is_some_and(in_file) {
            self.needs(
                Id::NetworkInterval,
                "--network-latency-automatic",
                "it is the time between its probes",
            );
        }
    }

    /// The length of slices; what is known to make too many of them is refused before the run.
    fn slice_ns(&mut self, phases: &[PhasePlan]) -> Option<u64> {
        let slice_ns = self.settings.float(Id::SliceDuration).map(seconds_to_ns)?.max(1);
        let profiling = phases.iter().filter(|phase| phase.kind == PhaseKind::Profiling);
        // A phase that lasts until the user ends it has no length to go by.
        let lengths = profiling.filter(|phase| phase.requests.is_none() && phase.sessions.is_none());
        let known_ns: u64 = lengths.filter_map(|phase| phase.duration_ns).filter(|ns| *ns < ENDLESS_NS).sum();
        let slices = known_ns / slice_ns;
        if slices > ArtifactsPlan::MOST_SLICES {
            let found = format!("{} s, which makes {slices} slices of this run,", slice_ns as f64 / 1e9);
            self.bad(Id::SliceDuration, found, "a length of which the run has at most 100,000");
        }
        Some(slice_ns)
    }

    /// `<model>-openai-<endpoint type>-<load>`; AIPerf's name for a run's folder.
    fn folder(&self, models: &[String], phases: &[PhasePlan]) -> String {
        let mut model = models.first().map(|m| m.replace(['/', '\\', '\0'], "_")).unwrap_or_default();
        if models.len() > 1 {
            model.push_str("_multi");
        }
        let kind = self.endpoint_kind().name();
        let load = phases.iter().find(|p| p.kind == PhaseKind::Profiling).map(load).unwrap_or_default();
        format!("{model}-openai-{kind}-{load}")
    }

    fn prefix(&mut self) -> Option<String> {
        let given = self.settings.text(Id::ExportPrefix)?;
        let prefix = KNOWN_ENDINGS.iter().find_map(|e| given.strip_suffix(e)).unwrap_or(given).to_owned();
        let names_other_files = matches!(prefix.as_str(), "inputs" | "outputs" | "phase_manifest");
        if prefix.is_empty()
            || names_other_files
            || prefix.contains(|c: char| matches!(c, '/' | '\\') || c.is_control())
            || prefix.starts_with('.')
        {
            let found = format!("'{}'", for_terminal(given, 200));
            self.bad(
                Id::ExportPrefix,
                found,
                "a file name without folder that no other file of the run has (inputs, outputs, phase_manifest)",
            );
            return None;
        }
        Some(prefix)
    }
}

/// The load in a few letters: `concurrency10`, `request_rate5.0`, `concurrency10-request_rate5.0`.
fn load(phase: &PhasePlan) -> String {
    let concurrency = phase.concurrency.map(|c| format!("concurrency{c}"));
    match &phase.pacing {
        Pacing::Concurrency => concurrency.unwrap_or_default(),
        Pacing::FixedSchedule { .. } => "fixed_schedule".to_owned(),
        // `{:?}` always shows a decimal point, as AIPerf's floats do.
        Pacing::UserCentric { per_second, users } => format!("user_centric-users{users}-qps{per_second:?}"),
        Pacing::Rate { rate, .. } => concurrency
            .into_iter()
            .chain([format!("request_rate{:?}", rate.target())])
            .collect::<Vec<_>>()
            .join("-"),
    }
}
