//! The capture: every request as it arrived, so that somebody else may count it again.
//!
//! A request's line is taken when its body is whole and handed over when its prompt is counted or it is clear that it will
//! not be; the writer puts the lines back into the order of arrival.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::mpsc::Sender;

use aiperf_core::time::ClockAnchor;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Uri};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::lines::{LineLog, Out, write_line};

/// Headers that hold credentials, and are left out.
const CREDENTIALS: [&str; 5] = ["api-key", "authorization", "cookie", "proxy-authorization", "x-api-key"];

/// A request on its way into the file.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Order of arrival among all requests.
    index: u64,
    request: Option<u64>,
    wall_ns: u64,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    prompt_tokens: Option<u64>,
}

/// Takes the requests of one server thread.
#[derive(Debug)]
pub(crate) struct Capture {
    sender: Sender<Option<Seen>>,
    next: Cell<u64>,
    clock: ClockAnchor,
}

impl Capture {
    pub(crate) fn new(log: &LineLog<Seen>, clock: ClockAnchor) -> Self {
        Self { sender: log.sender(), next: Cell::new(0), clock }
    }

    /// A request has arrived whole.
    pub(crate) fn take(&self, head: &Parts, body: &Bytes, arrival_ns: u64) -> Entry {
        let index = self.next.get();
        self.next.set(index + 1);
        let seen = Seen {
            index,
            request: None,
            wall_ns: self.clock.wall(arrival_ns),
            method: head.method.clone(),
            uri: head.uri.clone(),
            headers: head.headers.clone(),
            body: body.clone(),
            prompt_tokens: None,
        };
        Entry { sender: self.sender.clone(), seen: Some(seen) }
    }
}

/// A line that is not complete yet. Dropped, it is handed over as it is.
#[derive(Debug)]
pub(crate) struct Entry {
    sender: Sender<Option<Seen>>,
    seen: Option<Seen>,
}

impl Entry {
    /// It is the inference request with this number.
    pub(crate) fn number(&mut self, request: u64) {
        if let Some(seen) = &mut self.seen {
            seen.request = Some(request);
        }
    }

    /// So many tokens were counted.
    pub(crate) fn counted(&mut self, prompt_tokens: u64) {
        if let Some(seen) = &mut self.seen {
            seen.prompt_tokens = Some(prompt_tokens);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // The writer ends early only when its disk failed, which the stop reports.
        let _ = self.sender.send(self.seen.take());
    }
}

/// Opens the file.
pub(crate) fn open(path: &Path) -> io::Result<LineLog<Seen>> {
    let mut next = 0;
    let mut early = BTreeMap::new();
    let write = move |seen: Seen, out: &mut Out| {
        early.insert(seen.index, seen);
        while let Some(seen) = early.remove(&next) {
            write_line(out, &Line::of(&seen))?;
            next += 1;
        }
        Ok(())
    };
    LineLog::open(path, "sim-capture", |_| Ok(()), write)
}

/// The line as it is written.
#[derive(Serialize)]
struct Line<'a> {
    index: u64,
    /// Number among the inference requests, as in the truth log; null for other requests.
    request: Option<u64>,
    wall_ns: u64,
    method: &'a str,
    /// With its query, if it has one.
    path: &'a str,
    x_request_id: Option<Cow<'a, str>>,
    /// All headers but credentials, names in lower case.
    headers: Map<String, Value>,
    /// Null when nothing was counted.
    prompt_tokens: Option<u64>,
    body: Body<'a>,
}

/// JSON keeps its bytes: numbers, order, escapes. Anything else is a text.
#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Json(Cow<'a, RawValue>),
    Text(Cow<'a, str>),
}

impl<'a> Line<'a> {
    fn of(seen: &'a Seen) -> Self {
        let text = |name: &str| seen.headers.get(name).map(|v| String::from_utf8_lossy(v.as_bytes()));
        let mut headers = Map::new();
        for name in seen.headers.keys().filter(|n| !CREDENTIALS.contains(&n.as_str())) {
            let values: Vec<_> =
                seen.headers.get_all(name).iter().map(|v| String::from_utf8_lossy(v.as_bytes())).collect();
            headers.insert(name.as_str().to_owned(), Value::from(values.join(", ")));
        }
        Self {
            index: seen.index,
            request: seen.request,
            wall_ns: seen.wall_ns,
            method: seen.method.as_str(),
            path: seen.uri.path_and_query().map_or("", |p| p.as_str()),
            x_request_id: text("x-request-id"),
            headers,
            prompt_tokens: seen.prompt_tokens,
            body: Body::of(&seen.body),
        }
    }
}

impl<'a> Body<'a> {
    fn of(bytes: &'a Bytes) -> Self {
        let Ok(raw) = serde_json::from_slice::<&RawValue>(bytes) else {
            return Self::Text(String::from_utf8_lossy(bytes));
        };
        if !raw.get().contains(['\n', '\r']) {
            return Self::Json(Cow::Borrowed(raw));
        }
        // Inside JSON a line end is no part of any string, but it would end the line of the file.
        let one_line = RawValue::from_string(raw.get().replace(['\n', '\r'], " "));
        Self::Json(Cow::Owned(one_line.expect("JSON with other white space is still JSON")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method("POST").uri("/v1/completions?a=1");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a good request").into_parts().0
    }

    fn lines(bodies: &[&'static [u8]], order: &[usize]) -> Vec<String> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("capture.jsonl");
        let log = open(&path).expect("a file");
        let capture = Capture::new(&log, ClockAnchor { mono_ns: 1_000, wall_ns: 7_000 });
        let head = head(&[("X-Request-ID", "r"), ("X-Correlation-ID", "s"), ("Authorization", "Bearer k")]);
        let mut entries: Vec<_> =
            bodies.iter().map(|b| Some(capture.take(&head, &Bytes::from_static(b), 1_500))).collect();
        for at in order {
            let mut entry = entries[*at].take().expect("each once");
            entry.number(*at as u64 + 10);
            entry.counted(*at as u64 + 20);
        }
        log.close().expect("written");
        std::fs::read_to_string(&path).expect("a file").lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_come_in_order_of_arrival_whenever_they_were_counted() {
        let lines = lines(&[b"{}", b"[]", b"1"], &[2, 0, 1]);
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines[1],
            r#"{"index":1,"request":11,"wall_ns":7500,"method":"POST","path":"/v1/completions?a=1","x_request_id":"r","#
                .to_owned()
                + r#""headers":{"x-request-id":"r","x-correlation-id":"s"},"prompt_tokens":21,"body":[]}"#
        );
        for (i, line) in lines.iter().enumerate() {
            assert!(line.starts_with(&format!("{{\"index\":{i},")), "{line}");
        }
    }

    #[test]
    fn bodies_keep_their_bytes() {
        let odd: &[u8] = br#"{"b":1.00,"a":1e400,"a":"\u00e9\/\ud800","n":-0}"#;
        let pretty: &[u8] = b" {\r\n\t\"x\": \"a\\nb\"\n}\n";
        let lines = lines(&[odd, pretty, b"not JSON\n\"", b"\xff", b"", b"{}}"], &[0, 1, 2, 3, 4, 5]);
        let body = |i: usize| {
            lines[i].split_once(",\"body\":").expect("a body").1.strip_suffix('}').expect("an end")
        };
        assert_eq!(body(0).as_bytes(), odd);
        assert_eq!(body(1), "{  \t\"x\": \"a\\nb\" }");
        assert_eq!(body(2), r#""not JSON\n\"""#);
        assert_eq!(body(3), "\"\u{fffd}\"");
        assert_eq!(body(4), "\"\"");
        assert_eq!(body(5), "\"{}}\"");
    }

    #[test]
    fn a_file_that_cannot_be_made_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(open(&dir.path().join("no/such")).is_err());
    }
}
