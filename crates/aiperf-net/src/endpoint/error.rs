//! Failures that are in an answer, as data: kind, code, and the server's own words where it has any.

use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::{CancelReason, Failure, FailureKind, Stage};
use aiperf_core::secret::redact_url;
use aiperf_core::text::for_terminal;
use serde_json::{Map, Value, json};

/// Most characters kept of a server's words; AIPerf's limit for error texts.
const MESSAGE_CHARS: usize = 4096;
/// Most characters of a body quoted to show what it is.
const EXCERPT_CHARS: usize = 120;
/// Bytes by which a body is taken for one that is no text, and those of them that are told.
const LOOKED_BYTES: usize = 256;
const FIRST_BYTES: usize = 8;
/// AIPerf's code for an error event, used when the server gives none.
const SSE_ERROR_CODE: i64 = 502;

/// Type of a stream that ended on the wire as it should, and not in the API; AIPerf counts it as whole and has no type for it.
const TRUNCATED_STREAM: &str = "TruncatedStream";

/// A request dropped on purpose. The code is nginx's "client closed request", as in AIPerf.
pub(super) fn cancelled(reason: CancelReason, exchange: &Exchange) -> Failure {
    let message = match reason {
        CancelReason::GraceOver => "request cancelled: the phase's duration and grace period were over",
        CancelReason::Interrupted => "request cancelled: the run was interrupted",
        CancelReason::Asked => "request cancelled on purpose, as asked for",
        CancelReason::Threshold => "request cancelled: too many requests had failed",
        CancelReason::Saturated => "request cancelled: an arrival found no place and the run was to stop",
    };
    Failure {
        kind: FailureKind::Cancelled,
        stage: reached(exchange),
        code: Some(499),
        type_name: "RequestCancellationError".to_owned(),
        message: message.to_owned(),
        retryable: false,
        server_code: None,
    }
}

/// How far a request came.
fn reached(exchange: &Exchange) -> Stage {
    let stamps = &exchange.stamps;
    if stamps.headers_ns.is_some() || exchange.bytes_received > 0 {
        Stage::InStream
    } else if stamps.send_end_ns.is_some() {
        Stage::BeforeFirstByte
    } else if stamps.send_start_ns.is_some() {
        Stage::Send
    } else if stamps.tls_ns.is_some() {
        Stage::Tls
    } else if stamps.tcp_ns.is_some() || stamps.dns_ns.is_some() {
        Stage::Connect
    } else {
        Stage::Resolve
    }
}

/// A status outside 200..=299: the code, the reason phrase, the body's text.
pub(super) fn status(exchange: &Exchange) -> Failure {
    let code = exchange.status.map(i64::from);
    let message = if exchange.body.is_empty() {
        match (exchange.status, header(exchange, "location")) {
            (Some(300..400), Some(to)) => {
                format!("redirected to {}; redirects are not followed", redact_url(to))
            }
            _ => "the answer has no body".to_owned(),
        }
    } else {
        cut(&String::from_utf8_lossy(&exchange.body))
    };
    Failure {
        kind: FailureKind::HttpStatus,
        stage: Stage::Answer,
        code,
        type_name: exchange.reason.clone(),
        message,
        retryable: code.is_some_and(retryable),
        server_code: own_code(&exchange.body),
    }
}

/// The name of the error in the body of a bad status.
fn own_code(body: &[u8]) -> Option<String> {
    let tree: Value = serde_json::from_slice(body).ok()?;
    let outer = match &tree {
        Value::Array(list) => list.first()?,
        other => other,
    };
    let outer = outer.as_object()?;
    let inner = outer.get("error").and_then(Value::as_object);
    inner.and_then(name).or_else(|| name(outer))
}

/// An error whose kind stands beside its words, as in TGI's answers.
pub(super) fn typed(error: Value, kind: &str) -> Value {
    match error {
        Value::String(words) if !kind.is_empty() => json!({"message": words, "error_type": kind}),
        other => other,
    }
}

/// Statuses after which the same request may succeed: the server was busy, late or not ready, or asks for another try.
fn retryable(code: i64) -> bool {
    matches!(code, 408 | 409 | 425 | 429 | 500 | 502 | 503 | 504 | 529)
}

fn header<'a>(exchange: &'a Exchange, name: &str) -> Option<&'a str> {
    exchange.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
}

/// Whether the value of an `error` field is an error: null, false, and what is empty are none.
pub(super) fn says_something(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) | Value::Number(_) => true,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(object) => !object.is_empty(),
    }
}

/// A server-sent event named `error`. Its data is the error, or holds one, or is plain words; else a comment speaks.
pub(super) fn event(data: Option<&str>, comment: Option<&str>) -> Failure {
    let data = data.filter(|d| !d.trim().is_empty());
    match data.map(|d| (d, serde_json::from_str::<Value>(d))) {
        Some((_, Ok(Value::Object(mut tree)))) => match tree.remove("error") {
            Some(inner) if says_something(&inner) => {
                let kind = tree.get("error_type").and_then(Value::as_str).unwrap_or("");
                object(&typed(inner, kind))
            }
            _ => object(&Value::Object(tree)),
        },
        Some((text, _)) => server(None, None, cut(text.trim())),
        None => server(None, None, cut(comment.unwrap_or("an error event without words").trim())),
    }
}

/// An error object (the value of `error`, or an object that is an error itself). A string is its own message.
pub(super) fn object(error: &Value) -> Failure {
    match error {
        Value::Object(fields) => {
            let words =
                ["message", "detail", "error", "msg"].iter().find_map(|k| fields.get(*k)).and_then(words);
            server(code(fields), name(fields), words.unwrap_or_else(|| cut(&error.to_string())))
        }
        other => server(None, None, words(other).unwrap_or_else(|| cut(&other.to_string()))),
    }
}

/// The server's own name of an error: its code, where that is a word, else its type or the name of its status.
fn name(fields: &Map<String, Value>) -> Option<String> {
    let word = |key: &&str| {
        let text = fields.get(*key)?.as_str()?.trim();
        // Not the digits of a number, nor what every error is called.
        let is_name = text.parse::<f64>().is_err() && !matches!(text, "" | "error");
        is_name.then(|| for_terminal(text, 80))
    };
    ["code", "type", "error_type", "err_type", "status"].iter().find_map(word)
}

fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(cut(text)),
        Value::Object(fields) => fields.get("message").and_then(Value::as_str).map(cut),
        _ => None,
    }
}

/// The server's own number: the first of the usual fields that holds one, as a number or as its digits; else that of the
/// status with which the server would have answered, had it known of the error before it began.
fn code(fields: &Map<String, Value>) -> Option<i64> {
    const NUMBERS: [&str; 6] =
        ["code", "status", "status_code", "http_status", "http_code", "http_status_code"];
    let number = NUMBERS.iter().find_map(|k| {
        let value = fields.get(*k)?;
        value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
    });
    let named = || {
        ["type", "code", "status", "error_type"].iter().find_map(|k| status_named(fields.get(*k)?.as_str()?))
    };
    number.or_else(named)
}

/// Statuses of the errors that Anthropic, OpenAI, Google and TGI name in their documents.
fn status_named(name: &str) -> Option<i64> {
    Some(match name {
        "invalid_request_error" | "invalid_prompt" | "INVALID_ARGUMENT" | "FAILED_PRECONDITION" => 400,
        "authentication_error" | "UNAUTHENTICATED" => 401,
        "billing_error" => 402,
        "permission_error" | "PERMISSION_DENIED" => 403,
        "not_found_error" | "NOT_FOUND" => 404,
        "request_too_large" => 413,
        "validation" => 422,
        "generation" => 424,
        "rate_limit_error"
        | "rate_limit_exceeded"
        | "insufficient_quota"
        | "RESOURCE_EXHAUSTED"
        | "overloaded" => 429,
        "CANCELLED" => 499,
        "api_error"
        | "server_error"
        | "internal_server_error"
        | "INTERNAL"
        | "UNKNOWN"
        | "incomplete_generation" => 500,
        "UNAVAILABLE" => 503,
        "timeout_error" | "DEADLINE_EXCEEDED" => 504,
        "overloaded_error" => 529,
        _ => return None,
    })
}

fn server(code: Option<i64>, server_code: Option<String>, message: String) -> Failure {
    let code = code.unwrap_or(SSE_ERROR_CODE);
    Failure {
        kind: FailureKind::ServerError,
        stage: Stage::Answer,
        code: Some(code),
        type_name: "SSEResponseError".to_owned(),
        message,
        retryable: retryable(code),
        server_code,
    }
}

/// An answer without content.
pub(super) fn empty(what: &str) -> Failure {
    invalid(FailureKind::Empty, format!("no content: {what}"))
}

/// Why an answer without a form of its own has no content: where it was looked for, and a look at the answer.
pub(super) fn not_found(expression: Option<&str>, body: &str) -> String {
    let begins = for_terminal(body.trim(), EXCERPT_CHARS);
    match expression {
        Some(expression) => {
            let expression = for_terminal(expression, EXCERPT_CHARS);
            format!(
                "the response field '{expression}' (--response-field) finds no text, vector or ranking in the answer, which begins: {begins}"
            )
        }
        None => format!(
            "no embeddings, rankings or text (text, content, response, output, result, choices) in the answer, which begins: {begins}; \
             --response-field says where it is"
        ),
    }
}

/// An answer that is not the JSON it should be, with a look at it; `is_object` if it is a JSON object of another form.
pub(super) fn malformed(
    content_type: Option<&str>,
    streamed: bool,
    is_object: bool,
    excerpt: &str,
) -> Failure {
    let excerpt = for_terminal(excerpt.trim(), EXCERPT_CHARS);
    let message = if streamed {
        format!("no event of the stream could be read as JSON with content; the first reads: {excerpt}")
    } else if is_object {
        format!("a field of the answer has another form than this API gives it; it begins: {excerpt}")
    } else {
        let kind = content_type.map_or_else(|| "no content type".to_owned(), |k| for_terminal(k, 60));
        format!("the answer ({kind}) is not a JSON object; it begins: {excerpt}")
    };
    invalid(FailureKind::Malformed, message)
}

/// A body in a coding that was not asked for: its first bytes tell. Of Brotli they tell nothing but that it is no text; one that was
/// read, `is_text`, is none.
pub(super) fn compressed(body: &[u8], is_text: bool) -> Option<Failure> {
    let is_binary = || {
        let start = &body[..body.len().min(LOOKED_BYTES)];
        std::str::from_utf8(start).is_err()
            && start.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
    };
    let message = match body {
        [0x1f, 0x8b, 0x08, ..] => coded("gzip"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => coded("zstd"),
        _ if !is_text && is_binary() => {
            let first: Vec<String> =
                body.iter().take(FIRST_BYTES).map(|byte| format!("{byte:02x}")).collect();
            format!(
                "the answer is no text (its first bytes are {}): it may be compressed (Brotli), which no request asks for; it was not read",
                first.join(" ")
            )
        }
        _ => return None,
    };
    Some(invalid(FailureKind::Malformed, message))
}

fn coded(coding: &str) -> String {
    format!(
        "the answer is compressed ({coding}), which no request asks for; it cannot be timed and was not read"
    )
}

/// An answer of JSON that does not mean what it should.
pub(super) fn odd(what: &str) -> Failure {
    invalid(FailureKind::Malformed, what.to_owned())
}

/// A stream whose last event is broken, with a look at it.
pub(super) fn broken_end(body: &[u8]) -> Failure {
    let end = String::from_utf8_lossy(&body[body.len().saturating_sub(4 * EXCERPT_CHARS)..]);
    let last = end.trim().rsplit(['\n', '\r']).next().unwrap_or("").trim();
    let last = for_terminal(last.trim_start_matches('\u{fffd}'), EXCERPT_CHARS);
    let message = format!(
        "the stream ends in an event that is not JSON, without a finish reason or an end mark; it reads: {last}"
    );
    Failure { stage: Stage::InStream, retryable: true, ..invalid(FailureKind::Malformed, message) }
}

/// A stream that stops in the middle.
pub(super) fn unfinished() -> Failure {
    let message = "the stream ended in the middle: neither a finish reason nor an end mark came".to_owned();
    Failure {
        stage: Stage::InStream,
        type_name: TRUNCATED_STREAM.to_owned(),
        retryable: true,
        ..invalid(FailureKind::Truncated, message)
    }
}

fn invalid(kind: FailureKind, message: String) -> Failure {
    Failure {
        kind,
        stage: Stage::Answer,
        code: None,
        type_name: "InvalidInferenceResultError".to_owned(),
        message,
        retryable: false,
        server_code: None,
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
