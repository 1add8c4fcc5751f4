//! `inputs.json`, written piece by piece beside the run: every conversation and the bodies of its requests as they are sent.

use crate::pretty::{is_json, new_line, pretty};
use crate::write;

/// Writes the file in pieces: [`begin`](Self::begin), [`entry`](Self::entry) for each conversation, [`end`](Self::end). Each appends to a buffer
/// that the caller may write out and clear between calls.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    entries: u64,
}

impl Writer {
    /// A writer with no entry yet.
    pub const fn new() -> Self {
        Self { entries: 0 }
    }

    /// The head of the file.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        self.entries = 0;
        out.extend_from_slice(b"{\n  \"data\": [");
    }

    /// One conversation: its id and its request bodies in order. A body that is not JSON becomes a string.
    pub fn entry(&mut self, out: &mut Vec<u8>, session_id: &str, payloads: &[&[u8]]) {
        if self.entries > 0 {
            out.push(b',');
        }
        self.entries += 1;
        new_line(out, 2);
        out.push(b'{');
        new_line(out, 3);
        out.extend_from_slice(b"\"session_id\": ");
        write::text(out, session_id);
        out.push(b',');
        new_line(out, 3);
        out.extend_from_slice(b"\"payloads\": [");
        for (i, payload) in payloads.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            new_line(out, 4);
            if is_json(payload) {
                pretty(out, payload, 4);
            } else {
                write::lossy(out, payload);
            }
        }
        if !payloads.is_empty() {
            new_line(out, 3);
        }
        out.push(b']');
        new_line(out, 2);
        out.push(b'}');
    }

    /// The tail of the file.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        if self.entries > 0 {
            new_line(out, 1);
        }
        out.extend_from_slice(b"]\n}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_one_file() {
        let mut writer = Writer::new();
        let mut out = Vec::new();
        writer.begin(&mut out);
        writer.entry(
            &mut out,
            "session_000000",
            &[br#"{"messages":[{"role":"user"}],"stop":[]}"#, b"not json"],
        );
        writer.entry(&mut out, "a \"quoted\" id", &[]);
        writer.end(&mut out);
        insta::assert_snapshot!(String::from_utf8_lossy(&out), @r#"
        {
          "data": [
            {
              "session_id": "session_000000",
              "payloads": [
                {
                  "messages": [
                    {
                      "role": "user"
                    }
                  ],
                  "stop": []
                },
                "not json"
              ]
            },
            {
              "session_id": "a \"quoted\" id",
              "payloads": []
            }
          ]
        }
        "#);
        let value: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(serde_json::to_string_pretty(&value).expect("a value"), String::from_utf8_lossy(&out));
    }

    #[test]
    fn no_entries_is_a_file_too() {
        let mut writer = Writer::new();
        let mut out = Vec::new();
        writer.begin(&mut out);
        writer.end(&mut out);
        assert_eq!(out, b"{\n  \"data\": []\n}");
    }
}
