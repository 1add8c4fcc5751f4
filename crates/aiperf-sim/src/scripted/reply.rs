//! What a scripted server plays for one request.

use std::time::Duration;

use bytes::Bytes;

use super::signal::Signal;

/// One thing that a script does.
#[derive(Debug, Clone)]
pub enum Step {
    /// One write.
    Send(Bytes),
    /// A pause.
    Pause(Duration),
    /// Waits until the test raises the signal.
    Await(Signal),
    /// Raises a signal: the test knows that the script is here.
    Raise(Signal),
    /// Nothing more until the client closes or the server stops.
    Stall,
    /// Closes both ways; unread bytes of the client are read first, so that it sees an end and no reset.
    Close,
    /// Closes with a reset (RST).
    Reset,
    /// Closes the way out; the way in stays open until the client closes.
    HalfClose,
}

/// What is played for one request (or at once after a connection was accepted).
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub(super) steps: Vec<Step>,
}

impl Reply {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds any step.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds one write.
    #[must_use]
    pub fn send(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(Step::Send(Bytes::copy_from_slice(bytes.as_ref())))
    }

    /// Adds `bytes` cut at the positions `at` (ascending; those outside are ignored), with a pause between the parts.
    #[must_use]
    pub fn send_split(mut self, bytes: impl AsRef<[u8]>, at: &[usize], pause: Duration) -> Self {
        let bytes = bytes.as_ref();
        let mut from = 0;
        for &cut in at.iter().filter(|c| **c > 0 && **c < bytes.len()) {
            if cut > from {
                self = self.send(&bytes[from..cut]).step(Step::Pause(pause));
                from = cut;
            }
        }
        self.send(&bytes[from..])
    }

    /// Adds `bytes`, each byte its own write.
    #[must_use]
    pub fn send_bytewise(mut self, bytes: impl AsRef<[u8]>, pause: Duration) -> Self {
        for byte in bytes.as_ref() {
            self = self.send([*byte]);
            if !pause.is_zero() {
                self = self.step(Step::Pause(pause));
            }
        }
        self
    }

    /// Adds a pause.
    #[must_use]
    pub fn pause(self, length: Duration) -> Self {
        self.step(Step::Pause(length))
    }

    /// Adds a wait for the test.
    #[must_use]
    pub fn wait_for(self, signal: &Signal) -> Self {
        self.step(Step::Await(signal.clone()))
    }

    /// Adds a word to the test.
    #[must_use]
    pub fn raise(self, signal: &Signal) -> Self {
        self.step(Step::Raise(signal.clone()))
    }

    /// Ends in silence.
    #[must_use]
    pub fn stall(self) -> Self {
        self.step(Step::Stall)
    }

    /// Ends by closing.
    #[must_use]
    pub fn close(self) -> Self {
        self.step(Step::Close)
    }

    /// Ends with a reset.
    #[must_use]
    pub fn reset(self) -> Self {
        self.step(Step::Reset)
    }

    /// Ends by closing the way out.
    #[must_use]
    pub fn half_close(self) -> Self {
        self.step(Step::HalfClose)
    }

    /// A whole answer with a length, in one write.
    pub fn text(status: u16, content_type: &str, body: &str) -> Self {
        Self::new().send(format!(
            "HTTP/1.1 {status} {}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
            reason(status),
            body.len()
        ))
    }

    /// A whole JSON answer.
    pub fn json(status: u16, body: &str) -> Self {
        Self::text(status, "application/json", body)
    }

    /// A whole page of HTML with status 200.
    pub fn html() -> Self {
        Self::text(200, "text/html", "<html><body>It works!</body></html>")
    }

    /// A chat answer that is not streamed, with `content` and a usage of `prompt` and `completion` tokens.
    pub fn chat(content: &str, prompt: u64, completion: u64) -> Self {
        let body = serde_json::json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion},
        });
        Self::json(200, &body.to_string())
    }

    /// The head of an event stream in chunked coding.
    pub fn sse_head() -> Self {
        Self::new()
            .send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    }

    /// Adds `data` as one HTTP chunk in one write.
    #[must_use]
    pub fn chunk(self, data: impl AsRef<[u8]>) -> Self {
        self.send(http_chunk(data.as_ref()))
    }

    /// Adds `data: …` with its blank line as one HTTP chunk.
    #[must_use]
    pub fn event(self, data: &str) -> Self {
        self.chunk(format!("data: {data}\n\n"))
    }

    /// Adds a chat event with `content`.
    #[must_use]
    pub fn chat_event(self, content: &str) -> Self {
        self.event(&chat_chunk(content))
    }

    /// Adds the last HTTP chunk.
    #[must_use]
    pub fn end_chunks(self) -> Self {
        self.send("0\r\n\r\n")
    }

    /// A whole stream: a chat event for each text, a finish reason, the end marker.
    pub fn chat_stream(texts: &[&str]) -> Self {
        texts
            .iter()
            .fold(Self::sse_head(), |reply, text| reply.chat_event(text))
            .event(r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#)
            .event("[DONE]")
            .end_chunks()
    }

    /// A stream that breaks inside an event after `texts`: half the bytes of the next event, then an end that is well-formed
    /// HTTP.
    pub fn half_event(texts: &[&str]) -> Self {
        let event = format!("data: {}\n\n", chat_chunk("never whole"));
        texts
            .iter()
            .fold(Self::sse_head(), |reply, text| reply.chat_event(text))
            .chunk(&event.as_bytes()[..event.len() / 2])
            .end_chunks()
    }

    /// A chat answer with no choices.
    pub fn no_choices() -> Self {
        Self::json(200, r#"{"id":"c","object":"chat.completion","choices":[]}"#)
    }

    /// Bytes that are not HTTP, then the end.
    pub fn garbage() -> Self {
        Self::new().send(b"\x16\x03\x01\x00\xff not HTTP\r\n\r\n").close()
    }

    /// Nothing but the end.
    pub fn close_before_answer() -> Self {
        Self::new().close()
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// `data` in HTTP's chunked coding.
pub fn http_chunk(data: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", data.len()).into_bytes();
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
    out
}

/// The JSON of a chat event with `content`.
pub fn chat_chunk(content: &str) -> String {
    serde_json::json!({
        "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": null}],
    })
    .to_string()
}

fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|s| s.canonical_reason()).unwrap_or("Status")
}
