//! `outputs.json`: the text of each answer beside its lengths and latencies.

use aiperf_metrics::RecordValues;

use crate::jsonl::{self, Meta};
use crate::pretty::{new_line, pretty};
use crate::write::Object;

/// Version of the form, AIPerf's own number.
pub const SCHEMA: &str = "1.0";

/// What of a record stands there, AIPerf's choice and order.
pub(crate) const METRICS: [&str; 6] = [
    "input_sequence_length",
    "output_token_count",
    "output_sequence_length",
    "request_latency",
    "time_to_first_token",
    "inter_token_latency",
];

/// The head of the file.
pub fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\n  \"schema_version\": \"");
    out.extend_from_slice(SCHEMA.as_bytes());
    out.extend_from_slice(b"\",\n  \"data\": [");
}

/// One request, compact: it may wait for its place in the order. `text` is `None` when nothing was written.
pub fn entry(out: &mut Vec<u8>, meta: &Meta<'_>, values: &RecordValues, text: Option<&str>) {
    let mut o = Object::begin(out);
    o.int("session_num", meta.session_num);
    o.text("conversation_id", meta.conversation_id);
    o.int("turn_index", meta.turn_index.into());
    o.plain("x_request_id", meta.request_id);
    o.int("request_start_ns", meta.start_ns);
    o.int("request_end_ns", meta.end_ns);
    let mut metrics = Object::begin(o.key("metrics"));
    for tag in METRICS {
        if let Some((spec, value)) = values.iter().find(|(spec, _)| spec.tag == tag) {
            jsonl::value(metrics.key(tag), spec, value);
        }
    }
    metrics.end();
    o.text_or_null("response_text", text);
    o.end();
}

/// Puts an entry, as [`entry`] made it, into its place in the file.
pub fn place(out: &mut Vec<u8>, entry: &[u8], is_first: bool) {
    if !is_first {
        out.push(b',');
    }
    new_line(out, 2);
    pretty(out, entry, 2);
}

/// The tail of a file of `entries` entries. As in AIPerf's, there is no line end behind it.
pub fn end(out: &mut Vec<u8>, entries: usize) {
    if entries > 0 {
        new_line(out, 1);
    }
    out.extend_from_slice(b"]\n}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn meta() -> Meta<'static> {
        let conversation_id = "session_000003";
        Meta { session_num: 3, conversation_id, turn_index: 1, end_ns: 9, ..sample::meta() }
    }

    #[test]
    fn entries_in_a_document() {
        let values = sample::recorder_and_values().1;
        let mut out = Vec::new();
        begin(&mut out);
        for (i, text) in [Some("naïve \"東京\"\n🙂"), None].into_iter().enumerate() {
            let mut compact = Vec::new();
            entry(&mut compact, &meta(), &values[if text.is_some() { 0 } else { 3 }], text);
            place(&mut out, &compact, i == 0);
        }
        end(&mut out, 2);
        let text = String::from_utf8(out).expect("UTF-8");
        insta::assert_snapshot!(text);
        let file: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(file["data"][0]["response_text"], "naïve \"東京\"\n🙂");
        assert!(file["data"][1]["response_text"].is_null());
        assert!(file["data"][0]["metrics"]["request_latency"].is_number());
    }

    #[test]
    fn nothing_is_a_document_too() {
        let mut out = Vec::new();
        begin(&mut out);
        end(&mut out, 0);
        assert_eq!(String::from_utf8_lossy(&out), "{\n  \"schema_version\": \"1.0\",\n  \"data\": []\n}");
    }
}
