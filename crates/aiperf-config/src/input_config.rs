//! The configuration as AIPerf writes it into `input_config`: what the user set, the sections it always writes, and no
//! secret. Numbers are those that count, so a reader of the file sees the run and not its defaults.

use aiperf_core::plan::{
    Arrival, ExportLevel, LengthPair, LengthPlan, LengthShape, Pacing, PhaseKind, PhasePlan, Plan, Ui,
    Weighted,
};
use aiperf_core::secret::{REDACTED, shown_header};
use serde_json::{Map, Value as Json, json};

use crate::options::Id;
use crate::redact::{redact_json, redact_url};
use crate::settings::Settings;
use crate::value::Value;

/// Sets the key of the JSON object.
fn put(map: &mut Map<String, Json>, key: &str, value: impl Into<Json>) {
    map.insert(key.to_owned(), value.into());
}

/// The shape of AIPerf's `input_config` for `plan`, which was made from `settings`.
pub(crate) fn input_config(settings: &Settings, plan: &Plan) -> Json {
    let mut models = Map::new();
    if let Some(strategy) = settings.text(Id::ModelSelection) {
        put(&mut models, "strategy", strategy);
    }
    put(&mut models, "items", plan.models.iter().map(|m| json!({"name": m})).collect::<Vec<_>>());

    let mut tokenizer = Map::new();
    if let Some(name) = settings.text(Id::Tokenizer) {
        put(&mut tokenizer, "name", name);
    }
    if let Some(revision) = settings.text(Id::TokenizerRevision) {
        put(&mut tokenizer, "revision", revision);
    }
    if settings.is_on(Id::TokenizerDownload) {
        put(&mut tokenizer, "download", true);
    }
    for (id, key) in [(Id::ApplyChatTemplate, "apply_chat_template"), (Id::VerifyLengths, "verify_lengths")] {
        if let Some(value) = settings.get(id).and_then(|s| plain(&s.value)) {
            put(&mut tokenizer, key, value);
        }
    }
    let mut runtime = Map::new();
    put(
        &mut runtime,
        "ui",
        match plan.runtime.ui {
            Ui::Simple => "simple",
            Ui::None => "none",
        },
    );
    if let Some(workers) = settings.int(Id::WorkersMax) {
        put(&mut runtime, "workers", workers);
    }
    if let Some(interval) = settings.float(Id::StatsInterval) {
        put(&mut runtime, "stats_interval", interval);
    }

    let mut out = Map::new();
    put(&mut out, "models", models);
    put(&mut out, "endpoint", endpoint(settings));
    put(&mut out, "datasets", vec![dataset(settings)]);
    put(&mut out, "phases", plan.phases.iter().map(|p| phase(settings, p)).collect::<Vec<_>>());
    put(&mut out, "artifacts", artifacts(settings, plan));
    put(&mut out, "tokenizer", tokenizer);
    for off in ["gpu_telemetry", "server_metrics", "network_latency"] {
        put(&mut out, off, json!({"enabled": false}));
    }
    for empty in ["otel", "mlflow", "wandb"] {
        put(&mut out, empty, json!({}));
    }
    put(&mut out, "runtime", runtime);
    let level = if settings.is_on(Id::ExtraVerbose) {
        Some("TRACE".to_owned())
    } else if settings.is_on(Id::Verbose) {
        Some("DEBUG".to_owned())
    } else {
        settings.text(Id::LogLevel).map(str::to_uppercase)
    };
    if let Some(level) = level {
        put(&mut out, "logging", json!({"level": level}));
    }
    Json::Object(out)
}

fn endpoint(settings: &Settings) -> Map<String, Json> {
    let mut out = Map::new();
    let urls = settings.list(Id::Url).map_or_else(
        || vec!["http://localhost:8000".to_owned()],
        |urls| urls.iter().map(|u| redact_url(&with_scheme(u))).collect(),
    );
    put(&mut out, "urls", urls);
    for (id, key) in [
        (Id::EndpointType, "type"),
        (Id::CustomEndpoint, "path"),
        (Id::Streaming, "streaming"),
        (Id::RequestTimeout, "timeout"),
        (Id::Transport, "transport"),
        (Id::ConnectionReuse, "connection_reuse"),
        (Id::LegacyMaxTokens, "use_legacy_max_tokens"),
        (Id::ServerTokenCount, "use_server_token_count"),
        (Id::SessionHeader, "session_header"),
        (Id::MaxResponseBytes, "max_response_bytes"),
    ] {
        if let Some(value) = settings.get(id).and_then(|s| plain(&s.value)) {
            put(&mut out, key, value);
        }
    }
    if [Id::ApiKey, Id::ApiKeyFile, Id::ApiKeyEnv].into_iter().any(|id| settings.has(id)) {
        put(&mut out, "api_key", REDACTED);
    }
    if !settings.headers().is_empty() {
        let shown: Map<String, Json> =
            settings.headers().iter().map(|(n, v)| (n.clone(), Json::from(shown_header(n, v)))).collect();
        put(&mut out, "headers", shown);
    }
    if settings.has(Id::ExtraInputs) {
        let mut extra = Json::Object(settings.extra());
        redact_json(&mut extra);
        put(&mut out, "extra", extra);
    }
    out
}

fn with_scheme(url: &str) -> String {
    if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
}

/// A number as AIPerf's floats print: endless ones are the text `Infinity`, because JSON has no such number.
fn plain(value: &Value) -> Option<Json> {
    match value {
        Value::Bool(b) => Some(Json::from(*b)),
        Value::Int(n) => Some(Json::from(*n)),
        Value::Float(x) if x.is_finite() => Some(Json::from(*x)),
        Value::Float(_) => Some(Json::from("Infinity")),
        Value::Text(t) => Some(Json::from(t.as_str())),
        Value::Ratio(ratio) => Some(
            ratio.single().map_or_else(|| json!({"input": ratio.input, "output": ratio.output}), Json::from),
        ),
        Value::List(_) | Value::Headers(_) | Value::Extra(_) | Value::Lengths(_) | Value::Pairs(_) => None,
    }
}

fn length(settings: &Settings, [mean, stddev, shape]: [Id; 3], default: Option<u64>) -> Option<Json> {
    if let Some(plan) = settings.lengths(shape) {
        return Some(distribution(plan));
    }
    let mean = settings.int(mean).or(default)?;
    let mut out = Map::new();
    put(&mut out, "mean", mean as f64);
    if let Some(stddev) = settings.float(stddev) {
        put(&mut out, "stddev", stddev);
    }
    Some(Json::Object(out))
}

/// A mean and its standard deviation: AIPerf writes both when either is given.
fn normal(settings: &Settings, mean: Id, stddev: Id) -> Option<Json> {
    let given = settings.has(mean) || settings.has(stddev);
    given.then(
        || json!({"mean": settings.float_or_default(mean), "stddev": settings.float_or_default(stddev)}),
    )
}

/// A distribution in the form that a file has it in.
fn distribution(plan: &LengthPlan) -> Json {
    let mut out = match &plan.shape {
        LengthShape::Normal { mean, stddev } if *stddev > 0.0 => json!({"mean": mean, "stddev": stddev}),
        LengthShape::Normal { mean, .. } => json!({"mean": mean}),
        LengthShape::LogNormal { mean, median } => json!({"mean": mean, "median": median}),
        LengthShape::Peaks(peaks) => {
            let peak =
                |p: &Weighted<LengthPlan>| json!({"distribution": distribution(&p.item), "weight": p.weight});
            json!({"peaks": peaks.iter().map(peak).collect::<Vec<_>>()})
        }
        LengthShape::Points(points) => {
            let point = |p: &Weighted<f64>| json!({"value": p.item, "weight": p.weight});
            json!({"points": points.iter().map(point).collect::<Vec<_>>()})
        }
    };
    for (key, bound) in [("min", plan.least), ("max", plan.most)] {
        if let (Some(bound), Some(map)) = (bound, out.as_object_mut()) {
            put(map, key, bound);
        }
    }
    out
}

fn dataset(settings: &Settings) -> Json {
    let mut out = Map::new();
    let copy = |out: &mut Map<String, Json>, pairs: &[(Id, &str)]| {
        for (id, key) in pairs {
            if let Some(value) = settings.get(*id).and_then(|s| plain(&s.value)) {
                put(out, key, value);
            }
        }
    };
    copy(&mut out, &[(Id::SystemPrompt, "system_prompt"), (Id::SystemPromptFile, "system_prompt_file")]);
    put(&mut out, "name", "main");
    let osl = length(settings, [Id::Osl, Id::OslStddev, Id::OslShape], None);
    let mut cache_bust = Map::new();
    copy(&mut cache_bust, &[(Id::CacheBust, "target"), (Id::CacheBustRunId, "run_id")]);
    if settings.has(Id::InputFile) {
        put(&mut out, "type", "file");
        copy(
            &mut out,
            &[
                (Id::InputFile, "path"),
                (Id::DatasetFormat, "format"),
                (Id::NoFixedSchedule, "ignore_timestamps"),
                (Id::Entries, "entries"),
                (Id::Seed, "random_seed"),
            ],
        );
        if let Some(osl) = osl {
            put(&mut out, "osl", osl);
        }
        if !cache_bust.is_empty() {
            put(&mut out, "cache_bust", cache_bust);
        }
        return Json::Object(out);
    }
    put(&mut out, "type", "synthetic");
    if let Some(entries) = settings.synthetic_entries() {
        put(&mut out, "entries", entries);
    }
    copy(&mut out, &[(Id::Seed, "random_seed")]);
    let default = settings.int_or_default(Id::Isl);
    let mut prompts = Map::new();
    if let Some(isl) = length(settings, [Id::Isl, Id::IslStddev, Id::IslShape], Some(default)) {
        put(&mut prompts, "isl", isl);
    }
    if let Some(osl) = osl {
        put(&mut prompts, "osl", osl);
    }
    copy(&mut prompts, &[(Id::BatchSize, "batch_size")]);
    if !cache_bust.is_empty() {
        put(&mut prompts, "cache_bust", cache_bust);
    }
    copy(
        &mut prompts,
        &[
            (Id::Corpus, "corpus"),
            (Id::RangeRatio, "random_range_ratio"),
            (Id::CorpusStyle, "random_corpus_style"),
            (Id::IslBelowMinimum, "isl_below_minimum"),
        ],
    );
    if let Some(pairs) = settings.pairs(Id::SeqDist) {
        let pair = |p: &Weighted<LengthPair>| json!({"isl": distribution(&p.item.isl), "osl": distribution(&p.item.osl), "probability": p.weight});
        put(&mut prompts, "sequence_distribution", pairs.iter().map(pair).collect::<Vec<_>>());
    }
    put(&mut out, "prompts", prompts);
    let mut prefixes = Map::new();
    for (id, key) in [
        (Id::PrefixPool, "pool_size"),
        (Id::PrefixLength, "length"),
        (Id::SharedSystem, "shared_system_length"),
        (Id::UserContext, "user_context_length"),
    ] {
        // AIPerf writes no 0: there it is an error.
        if let Some(n) = settings.int(id).filter(|n| *n > 0) {
            put(&mut prefixes, key, n);
        }
    }
    if !prefixes.is_empty() {
        put(&mut out, "prefix_prompts", prefixes);
    }
    let turns = settings.lengths(Id::TurnsShape).map(distribution);
    if let Some(turns) = turns.or_else(|| normal(settings, Id::Turns, Id::TurnsStddev)) {
        put(&mut out, "turns", turns);
    }
    if let Some(delay) = normal(settings, Id::TurnDelay, Id::TurnDelayStddev) {
        put(&mut out, "turn_delay", delay);
    }
    copy(&mut out, &[(Id::TurnDelayRatio, "turn_delay_ratio")]);
    Json::Object(out)
}

fn phase(settings: &Settings, plan: &PhasePlan) -> Json {
    let is_warmup = plan.kind == PhaseKind::Warmup;
    let mut out = Map::new();
    put(&mut out, "name", plan.name.as_str());
    put(&mut out, "kind", plan.kind.name());
    let (kind, rate, smoothness) = match &plan.pacing {
        Pacing::Concurrency => ("concurrency", None, None),
        Pacing::Rate { rate, arrival } => match *arrival {
            Arrival::Constant => ("constant", Some(rate.target()), None),
            Arrival::Poisson => ("poisson", Some(rate.target()), None),
            Arrival::Gamma { smoothness } => ("gamma", Some(rate.target()), Some(smoothness)),
        },
        Pacing::FixedSchedule { .. } => ("fixed_schedule", None, None),
        Pacing::UserCentric { per_second, .. } => ("user_centric", Some(*per_second), None),
    };
    put(&mut out, "type", kind);
    if is_warmup {
        put(&mut out, "exclude_from_results", true);
    }
    if let Some(requests) = plan.requests {
        put(&mut out, "requests", requests);
    }
    let seconds = |ns: u64| aiperf_core::time::ns_to_seconds(ns);
    if let Some(ns) = plan.duration_ns {
        put(&mut out, "duration", seconds(ns));
    }
    if let Some(sessions) = plan.sessions {
        put(&mut out, "sessions", sessions);
    }
    // A profiling phase's limit of 1 is AIPerf's default, which it does not write.
    let told = is_warmup || rate.is_some() || settings.has(Id::Concurrency);
    if let Some(concurrency) = plan.concurrency.filter(|_| told) {
        put(&mut out, "concurrency", concurrency);
    }
    let grace = if is_warmup { Id::WarmupGrace } else { Id::Grace };
    if plan.duration_ns.is_some() && (!is_warmup || settings.has(grace)) {
        put(
            &mut out,
            "grace_period",
            plan.grace_ns.map_or(Json::from("Infinity"), |ns| Json::from(seconds(ns))),
        );
    }
    if let Some(rate) = rate {
        put(&mut out, "rate", rate);
    }
    if let Some(smoothness) = smoothness {
        put(&mut out, "smoothness", smoothness);
    }
    Json::Object(out)
}

fn artifacts(settings: &Settings, plan: &Plan) -> Map<String, Json> {
    let mut out = Map::new();
    // The whole path, so that a reader of the file elsewhere finds the others.
    let dir = &plan.artifacts.dir;
    put(&mut out, "dir", std::path::absolute(dir).as_ref().unwrap_or(dir).display().to_string());
    if let Some(prefix) = settings.text(Id::ExportPrefix) {
        put(&mut out, "prefix", prefix);
    }
    if settings.has(Id::ExportLevel) {
        let records = plan.artifacts.level >= ExportLevel::Records;
        put(&mut out, "records", if records { json!(["jsonl"]) } else { json!(false) });
        put(&mut out, "raw", plan.artifacts.level == ExportLevel::Raw);
    }
    if let Some(schema) = settings.int(Id::ExportSchema) {
        put(&mut out, "schema", schema);
    }
    put(&mut out, "auto_plot", false);
    put(&mut out, "plot_required", false);
    out
}
