//! The configuration as AIPerf writes it into `input_config`: what the user set, the sections it always writes, and no
//! secret. Numbers are those that count, so a reader of the file sees the run and not its defaults.

use aiperf_core::plan::{
    Arrival, ExportLevel, LengthPair, LengthPlan, LengthShape, ModelSelection, Pacing, PhaseKind, PhasePlan,
    Plan, Ramp, RampShape, RatePoint, RateShape, Saturation, Ui, Weighted,
};
use serde_json::{Map, Value as Json, json};

mod endpoint;

use self::endpoint::endpoint;
use crate::options::Id;
use crate::place::Place;
use crate::settings::Settings;
use crate::value::Value;

/// Sets the key of the JSON object.
fn put(map: &mut Map<String, Json>, key: &str, value: impl Into<Json>) {
    map.insert(key.to_owned(), value.into());
}

/// Sets the keys that were given.
fn copy(out: &mut Map<String, Json>, settings: &Settings, pairs: &[(Id, &str)]) {
    for (id, key) in pairs {
        if let Some(value) = settings.get(*id).and_then(|s| plain(&s.value)) {
            put(out, key, value);
        }
    }
}

/// The shape of AIPerf's `input_config` for `plan`, which was made from `settings`; `phases` are what [`phase`] makes of each.
pub(crate) fn input_config(
    settings: &Settings,
    plan: &Plan,
    phases: Vec<Json>,
    entries: Option<u64>,
) -> Json {
    let mut models = Map::new();
    // With weights the strategy is said, for AIPerf does not take it from them.
    let (strategy, weights) = match &plan.model_selection {
        ModelSelection::Weighted(weights) => (Some("weighted"), &weights[..]),
        _ => (settings.text(Id::ModelSelection), &[][..]),
    };
    if let Some(strategy) = strategy {
        put(&mut models, "strategy", strategy);
    }
    let item = |(at, name): (usize, &String)| match weights.get(at) {
        Some(weight) => json!({"name": name, "weight": weight}),
        None => json!({"name": name}),
    };
    put(&mut models, "items", plan.models.iter().enumerate().map(item).collect::<Vec<_>>());

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
    put(&mut out, "endpoint", endpoint(settings, plan));
    put(&mut out, "datasets", vec![dataset(settings, entries)]);
    put(&mut out, "phases", phases);
    put(&mut out, "artifacts", artifacts(settings, plan));
    if !plan.slos.is_empty() {
        let slos: Map<String, Json> =
            plan.slos.iter().map(|slo| (slo.tag.clone(), Json::from(slo.threshold))).collect();
        put(&mut out, "slos", slos);
    }
    put(&mut out, "tokenizer", tokenizer);
    for off in ["gpu_telemetry", "server_metrics"] {
        put(&mut out, off, json!({"enabled": false}));
    }
    put(&mut out, "network_latency", network(settings, plan));
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

/// A number as AIPerf's floats print: endless ones are the text `Infinity`, because JSON has no such number.
fn plain(value: &Value) -> Option<Json> {
    match value {
        Value::Bool(b) => Some(Json::from(*b)),
        Value::Int(n) => Some(Json::from(*n)),
        Value::Float(x) if x.is_finite() => Some(Json::from(*x)),
        Value::Float(_) => Some(Json::from("Infinity")),
        Value::Text(t) => Some(Json::from(t.as_str())),
        // AIPerf has it as text, from a file too.
        Value::Ratio(ratio) => {
            let both = || json!({"input": ratio.input, "output": ratio.output});
            Some(Json::from(ratio.single().map_or_else(both, Json::from).to_string()))
        }
        Value::List(_)
        | Value::Headers(_)
        | Value::Extra(_)
        | Value::Lengths(_)
        | Value::Pairs(_)
        | Value::Objectives(_)
        | Value::Series(_)
        | Value::Weights(_) => None,
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

fn dataset(settings: &Settings, entries: Option<u64>) -> Json {
    let mut out = Map::new();
    let copy = |out: &mut Map<String, Json>, pairs: &[(Id, &str)]| copy(out, settings, pairs);
    copy(&mut out, &[(Id::SystemPrompt, "system_prompt"), (Id::SystemPromptFile, "system_prompt_file")]);
    put(&mut out, "name", "main");
    let osl = length(settings, [Id::Osl, Id::OslStddev, Id::OslShape], None);
    let mut cache_bust = Map::new();
    copy(&mut cache_bust, &[(Id::CacheBust, "target"), (Id::CacheBustRunId, "run_id")]);
    if settings.has(Id::InputFile) {
        if settings.has(Id::PublicDataset) {
            put(&mut out, "type", "public");
            copy(&mut out, &[(Id::PublicDataset, "dataset"), (Id::HfSubset, "hf_subset")]);
            if settings.is_on(Id::DatasetDownload) {
                put(&mut out, "download", true);
            }
            // One that was found is not the user's.
            if !settings.has_found_set() {
                copy(&mut out, &[(Id::InputFile, "path")]);
            }
        } else {
            put(&mut out, "type", "file");
            copy(&mut out, &[(Id::InputFile, "path"), (Id::DatasetFormat, "format")]);
        }
        copy(
            &mut out,
            &[
                (Id::PromptColumn, "prompt_column"),
                (Id::ResponseColumn, "response_column"),
                (Id::MessagesColumn, "messages_column"),
                (Id::SystemColumn, "system_column"),
                (Id::OutputLengthColumn, "output_length_column"),
                (Id::Sampling, "sampling"),
                (Id::OnTurnError, "on_turn_error"),
                (Id::NoFixedSchedule, "ignore_timestamps"),
            ],
        );
        let mut synthesis = Map::new();
        copy(
            &mut synthesis,
            &[
                (Id::SynthesisSpeedup, "speedup_ratio"),
                (Id::SynthesisPrefix, "prefix_len_multiplier"),
                (Id::SynthesisRoots, "prefix_root_multiplier"),
                (Id::SynthesisPrompt, "prompt_len_multiplier"),
                (Id::SynthesisOutput, "output_len_multiplier"),
                (Id::SynthesisMaxIsl, "max_isl"),
                (Id::SynthesisMaxOsl, "max_osl"),
            ],
        );
        if !synthesis.is_empty() {
            put(&mut out, "synthesis", synthesis);
        }
        // AIPerf records the number here too, though it says nothing about a file.
        if let Some(entries) = entries {
            put(&mut out, "entries", entries);
        }
        copy(
            &mut out,
            &[
                (Id::Seed, "random_seed"),
                (Id::SessionShare, "trace_session_sample_ratio"),
                (Id::DelayCap, "inter_turn_delay_cap_seconds"),
                (Id::IdleGapCap, "max_idle_gap_cap_seconds"),
                (Id::ReplaySpeedup, "replay_speedup"),
                (Id::OpenLoopReplay, "open_loop_replay"),
                (Id::OpenLoopStrict, "open_loop_strict"),
                (Id::OmitKvHints, "omit_kv_hints"),
                (Id::ForceMinTokens, "force_min_tokens"),
            ],
        );
        let filters = settings
            .list(Id::DatasetFilter)
            .unwrap_or_default()
            .iter()
            .filter_map(|filter| filter.split_once('='));
        let filters: Map<String, Json> = filters.map(|(key, value)| (key.to_owned(), value.into())).collect();
        if !filters.is_empty() {
            put(&mut out, "filters", filters);
        }
        if let Some(osl) = osl {
            put(&mut out, "osl", osl);
        }
        copy(
            &mut out,
            &[
                (Id::BatchSize, "prompt_batch_size"),
                (Id::BlockSize, "block_size"),
                (Id::IgnoreTraceDelays, "ignore_trace_delays"),
                (Id::OnBadRow, "on_bad_row"),
            ],
        );
        if !cache_bust.is_empty() {
            put(&mut out, "cache_bust", cache_bust);
        }
        return Json::Object(out);
    }
    put(&mut out, "type", "synthetic");
    if let Some(entries) = entries {
        put(&mut out, "entries", entries);
    }
    copy(
        &mut out,
        &[(Id::Seed, "random_seed"), (Id::Sampling, "sampling"), (Id::OnTurnError, "on_turn_error")],
    );
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
    copy(&mut prompts, &[(Id::Corpus, "corpus")]);
    if let Some(pairs) = settings.pairs(Id::SeqDist) {
        // AIPerf writes both of each where they come from the flag.
        let of_flag = !matches!(settings.place(Id::SeqDist), Some(Place::File { .. }));
        let part = |plan: &LengthPlan| match &plan.shape {
            LengthShape::Normal { mean, stddev } if of_flag => json!({"mean": mean, "stddev": stddev}),
            _ => distribution(plan),
        };
        let pair = |p: &Weighted<LengthPair>| json!({"isl": part(&p.item.isl), "osl": part(&p.item.osl), "probability": p.weight});
        put(&mut prompts, "sequence_distribution", pairs.iter().map(pair).collect::<Vec<_>>());
    }
    copy(
        &mut prompts,
        &[
            (Id::RangeRatio, "random_range_ratio"),
            (Id::CorpusStyle, "random_corpus_style"),
            (Id::IslBelowMinimum, "isl_below_minimum"),
        ],
    );
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
    let mut rankings = Map::new();
    for (ids, key) in [
        ([Id::Passages, Id::PassagesStddev, Id::PassagesShape], "passages"),
        ([Id::PassageTokens, Id::PassageTokensStddev, Id::PassageTokensShape], "passage_tokens"),
        ([Id::QueryTokens, Id::QueryTokensStddev, Id::QueryTokensShape], "query_tokens"),
    ] {
        let default = settings.has(ids[1]).then(|| settings.int_or_default(ids[0]));
        if let Some(length) = length(settings, ids, default) {
            put(&mut rankings, key, length);
        }
    }
    if !rankings.is_empty() {
        put(&mut out, "rankings", rankings);
    }
    Json::Object(out)
}

/// A phase as AIPerf writes it, from the plan and the settings that it was made from.
pub(crate) fn phase(settings: &Settings, plan: &PhasePlan) -> Json {
    let is_warmup = plan.kind == PhaseKind::Warmup;
    let is_open = !plan.pacing.is_closed_loop();
    let seconds = aiperf_core::time::ns_to_seconds;
    let mut out = Map::new();
    put(&mut out, "name", plan.name.as_str());
    put(&mut out, "kind", plan.kind.name());
    put(&mut out, "type", plan.pacing.name());
    if is_warmup {
        put(&mut out, "exclude_from_results", true);
    }
    if let Some(requests) = plan.requests {
        put(&mut out, "requests", requests);
    }
    let (duration, grace) =
        if is_warmup { (Id::WarmupDuration, Id::WarmupGrace) } else { (Id::Duration, Id::Grace) };
    if let Some(value) = settings.get(duration).and_then(|s| plain(&s.value)) {
        put(&mut out, "duration", value);
    }
    if let Some(sessions) = plan.sessions {
        put(&mut out, "sessions", sessions);
    }
    // A profiling phase's limit of 1 is AIPerf's default, which it does not write.
    let told = is_warmup || is_open || settings.has(Id::Concurrency);
    if let Some(concurrency) = plan.concurrency.filter(|_| told) {
        put(&mut out, "concurrency", concurrency);
    }
    if let Some(way) = plan.concurrency_ramp {
        put(&mut out, "concurrency_ramp", limit_ramp(way));
    }
    if let Some(prefill) = plan.prefill_concurrency {
        put(&mut out, "prefill_concurrency", prefill);
    }
    if let Some(way) = plan.prefill_ramp {
        put(&mut out, "prefill_ramp", limit_ramp(way));
    }
    if plan.duration_ns.is_some() && (!is_warmup || settings.has(grace)) {
        put(
            &mut out,
            "grace_period",
            plan.grace_ns.map_or(Json::from("Infinity"), |ns| Json::from(seconds(ns))),
        );
    }
    if plan.cancellation.is_some() {
        let mut cancellation = Map::new();
        for (id, key) in [(Id::CancellationRate, "rate"), (Id::CancellationDelay, "delay")] {
            if let Some(value) = settings.get(id).and_then(|s| plain(&s.value)) {
                put(&mut cancellation, key, value);
            }
        }
        put(&mut out, "cancellation", cancellation);
    }
    if plan.seamless {
        put(&mut out, "seamless", true);
    }
    if let Some(threshold) = plan.failed_threshold {
        put(&mut out, "failed_request_threshold", threshold);
    }
    if let Some(limit) = plan.max_in_flight {
        put(&mut out, "max_in_flight", limit);
    }
    if plan.saturation != Saturation::Queue {
        put(&mut out, "saturation_policy", plan.saturation.name());
    }
    pacing(&mut out, settings, &plan.pacing);
    Json::Object(out)
}

/// What the type of a phase has of its own.
fn pacing(out: &mut Map<String, Json>, settings: &Settings, pacing: &Pacing) {
    match pacing {
        Pacing::Concurrency => {}
        Pacing::Rate { rate, arrival } => {
            if let RateShape::Steady(per_second) = rate.shape {
                put(out, "rate", per_second);
            }
            if let Some(way) = rate.ramp {
                put(out, "rate_ramp", ramp(way, way.from.map(Json::from)));
            }
            if let RateShape::Series(points) = &rate.shape {
                let point = |p: &RatePoint| json!({"time_s": aiperf_core::time::ns_to_seconds(p.at_ns), "qps": p.per_second});
                put(out, "rate_series", json!({"points": points.iter().map(point).collect::<Vec<_>>()}));
            }
            if let Arrival::Gamma { smoothness } = arrival {
                put(out, "smoothness", *smoothness);
            }
        }
        Pacing::FixedSchedule { auto_offset, start_offset_ns, .. } => {
            // AIPerf writes that a start offset turned it off, and otherwise only what was given.
            if start_offset_ns.is_some() || settings.has(Id::AutoOffset) {
                put(out, "auto_offset", *auto_offset);
            }
            for (id, key) in [(Id::StartOffset, "start_offset"), (Id::EndOffset, "end_offset")] {
                if let Some(ms) = settings.int(id) {
                    put(out, key, ms);
                }
            }
        }
        Pacing::UserCentric { per_second, users } => {
            put(out, "rate", *per_second);
            put(out, "users", *users);
        }
    }
}

/// A ramp of a limit, which is a whole number.
fn limit_ramp(way: Ramp) -> Map<String, Json> {
    ramp(way, way.from.map(|from| Json::from(from as u64)))
}

fn ramp(way: Ramp, from: Option<Json>) -> Map<String, Json> {
    let mut out = Map::new();
    put(&mut out, "duration", aiperf_core::time::ns_to_seconds(way.duration_ns));
    if way.shape != RampShape::Linear {
        put(&mut out, "strategy", way.shape.name());
    }
    if let Some(from) = from {
        put(&mut out, "from", from);
    }
    out
}

fn network(settings: &Settings, plan: &Plan) -> Map<String, Json> {
    let mut out = Map::new();
    put(&mut out, "enabled", plan.network.is_some());
    if let Some(seconds) = settings.float(Id::NetworkInterval) {
        put(&mut out, "ping_interval", seconds);
    }
    if let Some(ms) = settings.float(Id::NetworkMean) {
        put(&mut out, "mean_ms", ms);
    }
    out
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
    if settings.has(Id::ExportHttpTrace) {
        put(&mut out, "trace", settings.is_on(Id::ExportHttpTrace));
    }
    if let Some(seconds) = settings.float(Id::SliceDuration) {
        put(&mut out, "slice_duration", seconds);
    }
    if settings.has(Id::ShowTraceTiming) {
        put(&mut out, "show_trace_timing", settings.is_on(Id::ShowTraceTiming));
    }
    put(&mut out, "auto_plot", false);
    put(&mut out, "plot_required", false);
    if settings.has(Id::ExportOutputs) {
        put(&mut out, "export_outputs_json", plan.artifacts.outputs);
    }
    // AIPerf has no such keys: they stand behind its own.
    if settings.has(Id::ExportParquet) {
        put(&mut out, "export_parquet", plan.artifacts.parquet);
    }
    if let Some(schema) = settings.int(Id::ExportSchema) {
        put(&mut out, "schema", schema);
    }
    if settings.has(Id::CacheLedger) {
        put(&mut out, "cache_ledger", plan.artifacts.cache_ledger);
    }
    if let Some(tokens) = settings.int(Id::CacheBlockSize) {
        put(&mut out, "cache_block_size", tokens);
    }
    out
}
