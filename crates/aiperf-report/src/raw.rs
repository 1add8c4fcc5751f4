//! `profile_export_raw.jsonl`: one line per request with the body sent and everything that came back.

use aiperf_core::outcome::Failure;
use aiperf_core::secret::shown_header;

use crate::jsonl::{self, Meta};
use crate::pretty::is_json;
use crate::write::{self, Object};

/// What came back. Stamps are monotonic nanoseconds, as in AIPerf's file.
#[derive(Debug, Clone, Copy)]
pub enum Responses<'a, N, V> {
    /// Nothing, or an error status whose body is in the error's message.
    None,
    /// Server-sent events: arrival and fields (name, value) of each, comments and end marker included.
    Events(&'a [(u64, Vec<(N, V)>)]),
    /// A whole body.
    Body {
        /// Arrival of its end.
        at_ns: u64,
        /// The body.
        text: &'a [u8],
        /// Its `Content-Type`.
        content_type: Option<&'a str>,
    },
}

/// One request as it went over the wire.
#[derive(Debug, Clone, Copy)]
pub struct Raw<'a, N, V> {
    /// Who and when.
    pub meta: &'a Meta<'a>,
    /// Monotonic twin of the start; with `request_start_ns` it turns stamps into times.
    pub start_mono_ns: u64,
    /// Headers sent; secret ones are redacted here.
    pub headers: &'a [(&'a str, &'a str)],
    /// HTTP status, once there was one.
    pub status: Option<u16>,
    /// What came back.
    pub responses: Responses<'a, N, V>,
    /// Why it failed or was cancelled.
    pub error: Option<&'a Failure>,
    /// Body sent.
    pub payload: &'a [u8],
}

/// Appends one line, newline included.
pub fn line<N: AsRef<[u8]>, V: AsRef<[u8]>>(out: &mut Vec<u8>, raw: &Raw<'_, N, V>) {
    let mut o = Object::begin(out);
    raw.meta.write(o.key("metadata"));
    o.int("start_perf_ns", raw.start_mono_ns);
    let mut headers = Object::begin(o.key("request_headers"));
    for (name, value) in raw.headers {
        write::text(headers.foreign_key(name), &shown_header(name, value));
    }
    headers.end();
    if let Some(status) = raw.status {
        o.int("status", status.into());
    }
    responses(o.key("responses"), &raw.responses);
    if let Some(failure) = raw.error {
        jsonl::error_object(o.key("error"), failure);
    }
    payload(o.key("payload"), raw.payload);
    o.end();
    out.push(b'\n');
}

fn responses<N: AsRef<[u8]>, V: AsRef<[u8]>>(out: &mut Vec<u8>, responses: &Responses<'_, N, V>) {
    out.push(b'[');
    match responses {
        Responses::None => {}
        Responses::Events(events) => {
            for (i, (at_ns, fields)) in events.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                let mut o = Object::begin(out);
                o.int("perf_ns", *at_ns);
                let packets = o.key("packets");
                packets.push(b'[');
                for (i, (name, value)) in fields.iter().enumerate() {
                    if i > 0 {
                        packets.push(b',');
                    }
                    let mut packet = Object::begin(packets);
                    write::lossy(packet.key("name"), name.as_ref());
                    write::lossy(packet.key("value"), value.as_ref());
                    packet.end();
                }
                packets.push(b']');
                o.end();
            }
        }
        Responses::Body { at_ns, text, content_type } => {
            let mut o = Object::begin(out);
            o.int("perf_ns", *at_ns);
            write::lossy(o.key("text"), text);
            if let Some(content_type) = content_type {
                o.text("content_type", content_type);
            }
            o.end();
        }
    }
    out.push(b']');
}

/// JSON stays as it is but for line breaks, which can only stand between its tokens; anything else becomes a string.
fn payload(out: &mut Vec<u8>, body: &[u8]) {
    if is_json(body) {
        out.extend(body.iter().filter(|b| !matches!(b, b'\n' | b'\r')));
    } else {
        write::lossy(out, body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    type Field<'a> = (&'a [u8], &'a [u8]);

    fn written(raw: &Raw<'_, &[u8], &[u8]>) -> String {
        let mut out = Vec::new();
        line(&mut out, raw);
        let text = String::from_utf8(out).expect("UTF-8");
        assert_eq!(text.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let keys: Vec<&String> = value.as_object().expect("an object").keys().collect();
        format!("{keys:?}\n{}", text.split_once("\"start_perf_ns\"").expect("a start").1)
    }

    #[test]
    fn events_keep_their_fields_and_secrets_go() {
        let events: Vec<(u64, Vec<Field<'_>>)> = vec![
            (10, vec![(b"event", b"ping"), (b"data", br#"{"choices":[]}"#)]),
            (11, vec![(b"comment", b"caf\xff"), (b"data", b"[DONE]")]),
        ];
        let raw = Raw {
            meta: &sample::meta(),
            start_mono_ns: 5,
            headers: &[
                ("Authorization", "Bearer x"),
                ("X-Session-Affinity", "abc"),
                ("Accept", "text/event-stream"),
            ],
            status: Some(200),
            responses: Responses::Events(&events),
            error: None,
            payload: b"{\"a\":\n  \"b\\n\"}",
        };
        insta::assert_snapshot!(written(&raw));
    }

    #[test]
    fn bodies_failures_and_odd_payloads() {
        let failure = sample::failure(503, "busy");
        let raw = Raw {
            meta: &sample::meta(),
            start_mono_ns: 5,
            headers: &[],
            status: None,
            responses: Responses::Body { at_ns: 9, text: b"<html>", content_type: Some("text/html") },
            error: Some(&failure),
            payload: b"not \"json\"",
        };
        insta::assert_snapshot!(written(&raw));
    }
}
