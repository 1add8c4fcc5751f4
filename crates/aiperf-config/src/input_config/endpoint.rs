//! What is told of the endpoint.

use aiperf_core::plan::Plan;
use aiperf_core::secret::{REDACTED, redact_url, shown_header};
use serde_json::{Map, Value as Json};

use super::{copy, plain, put};
use crate::options::Id;
use crate::redact::{redact_json, redact_template};
use crate::resolve::unformed::{FIELD_EXTRA, LOOK_FOR_IT, TEMPLATE_EXTRA, is_named};
use crate::settings::Settings;

pub(super) fn endpoint(settings: &Settings, plan: &Plan) -> Map<String, Json> {
    let mut out = Map::new();
    let urls = settings.list(Id::Url).map_or_else(
        || vec!["http://localhost:8000".to_owned()],
        |urls| urls.iter().map(|u| redact_url(&with_scheme(u))).collect(),
    );
    put(&mut out, "urls", urls);
    // In the order of AIPerf's own, with ours beside what they belong to.
    let copy = |out: &mut Map<String, Json>, pairs: &[(Id, &str)]| copy(out, settings, pairs);
    copy(&mut out, &[(Id::UrlStrategy, "url_strategy")]);
    if let Some(weights) = settings.weights(Id::UrlWeights) {
        put(&mut out, "url_weights", weights.to_vec());
    }
    copy(&mut out, &[(Id::EndpointType, "type"), (Id::CustomEndpoint, "path")]);
    if [Id::ApiKey, Id::ApiKeyFile, Id::ApiKeyEnv].into_iter().any(|id| settings.has(id)) {
        put(&mut out, "api_key", REDACTED);
    }
    copy(
        &mut out,
        &[
            (Id::RequestTimeout, "timeout"),
            (Id::ConnectTimeout, "connect_timeout"),
            (Id::FirstTokenTimeout, "first_token_timeout"),
            (Id::IdleTimeout, "idle_timeout"),
            (Id::Streaming, "streaming"),
        ],
    );
    // What cannot stream does not, and AIPerf says so here.
    if settings.is_on(Id::Streaming) {
        put(&mut out, "streaming", plan.endpoint.streaming);
    }
    copy(&mut out, &[(Id::Transport, "transport")]);
    if let Some(reuse) = settings.text(Id::ConnectionReuse) {
        put(&mut out, "connection_reuse", reuse.replace('_', "-"));
    }
    copy(
        &mut out,
        &[
            (Id::HttpVersion, "http_version"),
            (Id::Resend, "resend"),
            (Id::UnixSocket, "unix_socket"),
            (Id::ProxyFromEnv, "proxy_from_env"),
            (Id::CaFile, "ca_file"),
            (Id::ClientCert, "client_cert"),
            (Id::ClientKey, "client_key"),
            (Id::LegacyMaxTokens, "use_legacy_max_tokens"),
            (Id::ServerTokenCount, "use_server_token_count"),
            (Id::PerChunkUsage, "per_chunk_usage"),
            (Id::MaxResponseBytes, "max_response_bytes"),
            (Id::ReceiveStamps, "receive_stamps"),
        ],
    );
    let mut template = Map::new();
    for (id, key) in [(Id::PayloadTemplate, "body"), (Id::ResponseField, "response_field")] {
        if let Some(text) = settings.text(id) {
            put(&mut template, key, redact_template(text));
        }
    }
    let mut extra = settings.extra();
    if let Some(made) = &plan.endpoint.template
        && let Some(Json::String(text)) = extra.shift_remove(TEMPLATE_EXTRA)
    {
        // Extra inputs that say what the template is are told as that: its text, where they name a file.
        let body = if is_named(&text) { text.as_str() } else { made.body.as_str() };
        put(&mut template, "body", redact_template(body));
        let field = extra.shift_remove(FIELD_EXTRA).unwrap_or_else(|| Json::from(LOOK_FOR_IT));
        put(&mut template, "response_field", field);
    }
    if !template.is_empty() {
        put(&mut out, "template", template);
    }
    if !settings.headers().is_empty() {
        let shown: Map<String, Json> =
            settings.headers().iter().map(|(n, v)| (n.clone(), Json::from(shown_header(n, v)))).collect();
        put(&mut out, "headers", shown);
    }
    if settings.has(Id::ExtraInputs) {
        let mut extra = Json::Object(extra);
        redact_json(&mut extra);
        put(&mut out, "extra", extra);
    }
    copy(
        &mut out,
        &[
            (Id::SessionHeader, "session_header"),
            (Id::WaitForModelTimeout, "wait_for_model_timeout"),
            (Id::WaitForModelInterval, "wait_for_model_interval"),
            (Id::WaitForModelMode, "wait_for_model_mode"),
        ],
    );
    let part = |id: Id| settings.get(id).and_then(|s| plain(&s.value));
    let hooks = [
        (
            "reset_kv_cache",
            Id::ResetKvCache,
            [
                (Id::ResetKvCacheTimeout, "timeout_seconds"),
                (Id::ResetKvCacheMaxRetry, "max_retry_seconds"),
                (Id::ResetKvCachePath, "path"),
            ],
        ),
        (
            "server_profiler",
            Id::ServerProfiler,
            [
                (Id::ServerProfilerTimeout, "timeout_seconds"),
                (Id::ServerProfilerStartPath, "start_path"),
                (Id::ServerProfilerStopPath, "stop_path"),
            ],
        ),
    ];
    for (key, id, parts) in hooks {
        let given: Map<String, Json> =
            parts.into_iter().filter_map(|(id, name)| Some((name.to_owned(), part(id)?))).collect();
        if settings.switch(id).unwrap_or(!given.is_empty()) {
            put(&mut out, key, given);
        }
    }
    out
}

fn with_scheme(url: &str) -> String {
    if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
}
