//! Asks the server how it counts a first request, before the run.
//!
//! vLLM and others answer `POST /tokenize`. A `GET` of it tells whether it is there (405, use POST) and costs nothing anywhere else, so that a
//! server without it never sees a prompt that is no part of the run. No answer, a late one or one that is no count is no finding: the run
//! itself compares every request with what the server says of it.

use std::sync::Arc;

use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::{CancelReason, Disposition};
use aiperf_core::plan::{ConnectionReuse, EndpointKind, EndpointPlan};
use aiperf_core::ticket::Uuid;
use aiperf_core::url::BaseUrl;
use aiperf_net::{Client, Outgoing};
use aiperf_tokens::TemplateFields;
use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::task::LocalSet;

use crate::interrupt::Interrupt;

const PATH: &str = "/tokenize";
/// How long either question may wait for its answer.
const PATIENCE_NS: u64 = 2_000_000_000;
/// The ids of a prompt come with its count; the longest take some MB.
const MOST_BYTES: usize = 64 << 20;

/// Whom to ask, and how.
pub(crate) struct Asked<'a> {
    pub plan: &'a EndpointPlan,
    pub url: &'a BaseUrl,
    pub tls: Option<Arc<rustls::ClientConfig>>,
    pub interrupt: &'a Interrupt,
    /// For the headers of the questions, which have ids as every request has.
    pub id: Uuid,
}

/// The server's count of the request `body`; `None` when it does not tell.
pub(crate) async fn count(asked: &Asked<'_>, body: &[u8]) -> Option<u64> {
    let question = question(asked.plan.kind, body)?;
    let plan = EndpointPlan {
        path: Some(PATH.to_owned()),
        streaming: false,
        timeout_ns: PATIENCE_NS,
        reuse: ConnectionReuse::Never,
        max_response_bytes: MOST_BYTES,
        ..asked.plan.clone()
    };
    let url = root(asked.url, asked.plan.path.as_deref());
    let client = |get: bool| {
        let client = Client::new(&plan, &url, asked.tls.clone()).ok()?;
        Some(if get { client.getting() } else { client })
    };
    let send = async |client: Client, body: Bytes| {
        let out = Outgoing::new(body, asked.id, asked.id);
        let stopped = async {
            asked.interrupt.wait().await;
            CancelReason::Interrupted
        };
        // Connections of HTTP/2 have tasks.
        LocalSet::new().run_until(client.exchange(out, stopped)).await
    };
    let there = send(client(true)?, Bytes::new()).await;
    if there.status != Some(405) {
        tracing::debug!("the server has no {PATH} to ask: {:?}, {:?}", there.status, there.disposition);
        return None;
    }
    let answer = send(client(false)?, question.into()).await;
    let count = read(&answer);
    if count.is_none() {
        tracing::debug!("{PATH} gave no count: {:?}, {:?}", answer.status, answer.disposition);
    }
    count
}

/// Where [`PATH`] stands: beside the version of the API.
pub(crate) fn root(url: &BaseUrl, own_path: Option<&str>) -> BaseUrl {
    let path = url.path.as_str();
    let version = path.rfind("/v1").filter(|at| matches!(path.as_bytes().get(at + 3), None | Some(b'/')));
    let root = match (version, own_path) {
        (Some(at), _) => &path[..at],
        (None, Some(own)) => path.strip_suffix(own).unwrap_or(path),
        (None, None) => path,
    };
    BaseUrl { path: root.trim_end_matches('/').to_owned(), ..url.clone() }
}

/// What to ask about the request `body` of the API `kind`; `None` when the server could not be asked about it: several prompts,
/// messages that are not those of the chat API, documents, which the question has no field for.
fn question(kind: EndpointKind, body: &[u8]) -> Option<Vec<u8>> {
    let fields: Map<String, Value> = serde_json::from_slice(body).ok()?;
    let around = TemplateFields::of(kind, &fields);
    let mut out = Map::new();
    let mut keep = |name: &str| {
        if let Some(value) = fields.get(name) {
            out.insert(name.to_owned(), value.clone());
        }
    };
    keep("model");
    match (fields.get("messages"), fields.get("prompt")) {
        (Some(Value::Array(_)), _) if !fields.contains_key("system") && !around.has_documents() => {
            ["messages", "chat_template", "chat_template_kwargs"].into_iter().for_each(keep);
            out.extend(around.tools().map(|tools| ("tools".to_owned(), tools.clone())));
            out.insert("add_generation_prompt".to_owned(), around.generation().into());
        }
        (None, Some(Value::String(_))) => keep("prompt"),
        // Of several inputs, no count tells of one.
        (None, None) if kind.is_embedding() => {
            match fields.get("input").and_then(Value::as_array)?.as_slice() {
                [text @ Value::String(_)] => drop(out.insert("prompt".to_owned(), text.clone())),
                _ => return None,
            }
        }
        _ => return None,
    }
    serde_json::to_vec(&out).ok()
}

/// The count in an answer.
fn read(answer: &Exchange) -> Option<u64> {
    if answer.status != Some(200) || !matches!(answer.disposition, Disposition::Finished) {
        return None;
    }
    let fields: Map<String, Value> = serde_json::from_slice(&answer.body).ok()?;
    fields.get("count")?.as_u64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(body: &Value) -> Option<Value> {
        asked_of(EndpointKind::Chat, body)
    }

    fn asked_of(kind: EndpointKind, body: &Value) -> Option<Value> {
        Some(serde_json::from_slice(&question(kind, body.to_string().as_bytes())?).expect("JSON"))
    }

    #[test]
    fn a_question_has_what_decides_the_count() {
        let messages = json!([{"role": "user", "content": "a"}]);
        let body = json!({"model": "m", "messages": messages, "stream": true, "max_tokens": 4,
            "chat_template_kwargs": {"quiet": true}});
        let expected = json!({"model": "m", "messages": messages, "chat_template_kwargs": {"quiet": true},
            "add_generation_prompt": true});
        assert_eq!(asked(&body), Some(expected));
        let body = json!({"messages": messages, "add_generation_prompt": false});
        assert_eq!(asked(&body), Some(body));
        let tools = json!([{"name": "f", "input_schema": {"a": 1}}]);
        let expected = json!({"messages": messages, "add_generation_prompt": true,
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": 1}}}]});
        let body = json!({"messages": messages, "tools": tools});
        assert_eq!(asked_of(EndpointKind::Messages, &body), Some(expected));
        let body = json!({"model": "m", "prompt": "a b", "stream": true});
        assert_eq!(asked(&body), Some(json!({"model": "m", "prompt": "a b"})));
        let body = json!({"model": "m", "input": ["a b"]});
        let expected = json!({"model": "m", "prompt": "a b"});
        assert_eq!(asked_of(EndpointKind::NimEmbeddings, &body), Some(expected));
        let expected = json!({"messages": messages, "add_generation_prompt": false});
        let body = json!({"messages": messages});
        assert_eq!(asked_of(EndpointKind::ChatEmbeddings, &body), Some(expected), "vectors need no prompt");
    }

    #[test]
    fn what_the_server_could_not_answer_is_not_asked() {
        for body in [
            json!({"prompt": ["a", "b"]}),
            json!({"messages": [], "system": "s"}),
            json!({"messages": [], "documents": [{"text": "d"}]}),
            json!({"input": "a"}),
            json!([]),
        ] {
            assert_eq!(asked(&body), None, "{body}");
        }
        let several = json!({"input": ["a", "b"]});
        assert_eq!(asked_of(EndpointKind::Embeddings, &several), None);
        assert_eq!(asked_of(EndpointKind::HfTeiRankings, &json!({"query": "q", "texts": ["p"]})), None);
    }

    #[test]
    fn the_path_stands_beside_the_version() {
        for (url, own, expected) in [
            ("http://h", None, "/tokenize"),
            ("http://h/v1", None, "/tokenize"),
            ("http://h/v1/chat/completions", None, "/tokenize"),
            ("http://h/llm/v1", None, "/llm/tokenize"),
            ("http://h/v10", None, "/v10/tokenize"),
            ("http://h/llm", Some("/generate"), "/llm/tokenize"),
            ("http://h/llm/generate", Some("/generate"), "/llm/tokenize"),
            ("http://h/v1?key=1", None, "/tokenize?key=1"),
        ] {
            let url = BaseUrl::parse(url).expect("a good URL");
            assert_eq!(root(&url, own).join(PATH), expected, "{url}");
        }
    }
}
