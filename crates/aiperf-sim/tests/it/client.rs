//! A raw client: what leaves the socket is what the test wrote, what comes is kept as it came.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

/// How an answer ended on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// By its length or its last chunk.
    Whole,
    /// The connection was closed first.
    Closed,
    /// The connection was reset first.
    Reset,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Lengths of the HTTP chunks.
    pub(crate) chunks: Vec<usize>,
    pub(crate) end: End,
}

impl Got {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// The data of each event, the end marker left out.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.text()
            .split("\n\n")
            .filter_map(|e| e.strip_prefix("data: "))
            .filter(|d| *d != "[DONE]")
            .map(|d| serde_json::from_str(d).expect("an event of JSON"))
            .collect()
    }

    /// Names and data of events, where all have names.
    pub(crate) fn named(&self) -> Vec<(String, Value)> {
        self.text()
            .split_terminator("\n\n")
            .map(|event| {
                let (name, data) = event.split_once("\ndata: ").expect("a name and data");
                let name = name.strip_prefix("event: ").expect("a name");
                (name.to_owned(), serde_json::from_str(data).expect("an event of JSON"))
            })
            .collect()
    }

    /// Text of `field` over all events.
    pub(crate) fn joined(&self, field: &str) -> String {
        self.events()
            .iter()
            .filter_map(|e| {
                let choice = &e["choices"][0];
                choice["delta"][field].as_str().or_else(|| choice[field].as_str()).map(str::to_owned)
            })
            .collect()
    }

    /// The last usage object.
    pub(crate) fn usage(&self) -> Value {
        self.events()
            .iter()
            .rev()
            .find(|e| e["usage"].is_object())
            .map_or(Value::Null, |e| e["usage"].clone())
    }
}

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).expect("the server listens");
        stream.set_nodelay(true).expect("an option of TCP");
        Self { stream, buffer: Vec::new() }
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &str, body: &str) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: sim\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        self.stream.write_all((head + body).as_bytes()).expect("the server reads");
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Got {
        self.send("POST", path, "Content-Type: application/json\r\n", &body.to_string());
        self.read().expect("an answer")
    }

    /// One read; `Err` is how the connection ended.
    fn fill(&mut self) -> Result<(), End> {
        let mut scratch = [0; 4096];
        match self.stream.read(&mut scratch) {
            Ok(0) => Err(End::Closed),
            Ok(n) => {
                self.buffer.extend_from_slice(&scratch[..n]);
                Ok(())
            }
            Err(_) => Err(End::Reset),
        }
    }

    /// Reads until `text` has come, and keeps it all.
    pub(crate) fn wait_for(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.buffer).contains(text) {
            self.fill().expect("the connection stays open");
        }
    }

    fn line(&mut self) -> Result<String, End> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|w| w == b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..at]).into_owned();
                self.buffer.drain(..at + 2);
                return Ok(line);
            }
            self.fill()?;
        }
    }

    fn take(&mut self, length: usize, into: &mut Vec<u8>) -> Result<(), End> {
        while self.buffer.len() < length {
            if let Err(end) = self.fill() {
                into.append(&mut self.buffer);
                return Err(end);
            }
        }
        into.extend(self.buffer.drain(..length));
        Ok(())
    }

    /// Reads one answer; `Err` when there is none at all.
    pub(crate) fn read(&mut self) -> Result<Got, End> {
        let status_line = self.line()?;
        let mut head = String::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            head.push_str(&line.to_ascii_lowercase());
            head.push('\n');
        }
        let status = status_line.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
        let mut got = Got { status, head, body: Vec::new(), chunks: Vec::new(), end: End::Whole };
        got.end = self.body(&mut got).err().unwrap_or(End::Whole);
        Ok(got)
    }

    fn body(&mut self, got: &mut Got) -> Result<(), End> {
        let length = got.head.lines().find_map(|l| l.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if let Some(length) = length {
            return self.take(length, &mut got.body);
        }
        loop {
            let size = usize::from_str_radix(&self.line()?, 16).expect("a chunk size");
            self.take(size, &mut got.body)?;
            self.line()?;
            if size == 0 {
                return Ok(());
            }
            got.chunks.push(size);
        }
    }
}
