//! Everything that is not an inference request: models, health, metrics, refusals.

use std::rc::Rc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};

use crate::body::{FullBody, SimBody};
use crate::metrics::{Gauges, page};
use crate::refusal::Refusal;
use crate::service::Server;
use crate::ticket::Ticket;
use crate::truth::TruthOutcome;
use crate::wire::WireControl;

/// Name of the model that `/v1/models` and `/metrics` show when any name is served.
const ANY_MODEL: &str = "sim";

impl Server {
    pub(crate) fn unauthorized(&self, headers: &HeaderMap) -> Option<Refusal> {
        let wanted = self.config.api_key.as_ref()?;
        let text = |name| headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok());
        let bearer = text("authorization").and_then(|v| v.strip_prefix("Bearer "));
        // Anthropic's clients show their key in a header of its own.
        if [bearer, text("x-api-key")].contains(&Some(wanted.expose())) {
            return None;
        }
        Some(Refusal::new(401, "AuthenticationError", "Unauthorized: the key is missing or wrong"))
    }

    /// Everything that is not an inference request.
    pub(crate) fn page(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        control: Rc<WireControl>,
    ) -> Response<SimBody> {
        if matches!(path, "/reset_prefix_cache" | "/start_profile" | "/stop_profile") {
            return self.order(method, path, control);
        }
        let known = matches!(path, "/v1/models" | "/health" | "/metrics");
        if known && method != Method::GET && method != Method::HEAD {
            let refusal = Refusal::new(405, "MethodNotAllowedError", "use GET here");
            return refuse(&refusal, None, control);
        }
        if path.starts_with("/v1/")
            && let Some(refusal) = self.unauthorized(headers)
        {
            return refuse(&refusal, None, control);
        }
        let (kind, text) = match path {
            "/health" => ("application/json", "{}".to_owned()),
            "/metrics" => ("text/plain; version=0.0.4; charset=utf-8", self.metrics()),
            "/v1/models" => ("application/json", self.models()),
            _ => {
                let refusal =
                    Refusal::new(404, "NotFoundError", format!("nothing is served at {method} {path}"));
                return refuse(&refusal, None, control);
            }
        };
        let mut response = Response::new(full(Bytes::from(text), None, control));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }

    /// What vLLM is told beside the load: to forget its prefix cache, to profile itself. There is nothing to profile here.
    fn order(&self, method: &Method, path: &str, control: Rc<WireControl>) -> Response<SimBody> {
        if method != Method::POST {
            return refuse(&Refusal::new(405, "MethodNotAllowedError", "use POST here"), None, control);
        }
        if path == "/reset_prefix_cache" {
            self.desk.forget();
        }
        Response::new(full(Bytes::new(), None, control))
    }

    fn models(&self) -> String {
        let any = [ANY_MODEL.to_owned()];
        let names: &[String] = if self.config.models.is_empty() { &any } else { &self.config.models };
        let list: Vec<_> = names
            .iter()
            .map(|name| {
                serde_json::json!({
                    "id": name, "object": "model", "created": self.created_s, "owned_by": "aiperf-sim",
                    "root": name, "parent": null, "max_model_len": self.config.max_model_len,
                })
            })
            .collect();
        serde_json::json!({"object": "list", "data": list}).to_string()
    }

    fn metrics(&self) -> String {
        let (running, waiting, cached_blocks) = self.desk.load();
        let totals = self.ledger.with_totals(|t| *t);
        let gauges = Gauges {
            running,
            waiting,
            cached_blocks,
            prompt_tokens: totals.prompt_tokens,
            generation_tokens: totals.completion_tokens,
            cache_queries: if self.config.prefix_cache { totals.prompt_tokens } else { 0 },
            cache_hits: totals.cached_tokens,
            finished_stop: self.ledger.finished[0].get(),
            finished_length: self.ledger.finished[1].get(),
        };
        page(self.config.models.first().map_or(ANY_MODEL, String::as_str), &gauges)
    }
}

/// An HTTP error, and its entry in the books.
pub(crate) fn refuse(
    refusal: &Refusal,
    ticket: Option<Ticket>,
    control: Rc<WireControl>,
) -> Response<SimBody> {
    if let Some(ticket) = &ticket {
        ticket.note(|r| {
            r.status = refusal.status;
            if r.outcome != TruthOutcome::Fault {
                r.outcome = TruthOutcome::Rejected;
            }
        });
    }
    let mut response = Response::new(full(Bytes::from(refusal.body()), ticket, control));
    *response.status_mut() =
        StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = refusal.retry_after_s {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A body with a length.
pub(crate) fn full(bytes: Bytes, ticket: Option<Ticket>, control: Rc<WireControl>) -> SimBody {
    SimBody::Full(Box::new(FullBody::new(bytes, ticket, control)))
}
