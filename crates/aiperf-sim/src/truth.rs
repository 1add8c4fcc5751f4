//! The truth: what the server itself knows of each request, to be laid beside what a client reports.
//!
//! Records are finished on the server's thread and written by another one; stamps are `CLOCK_MONOTONIC` nanoseconds, the same
//! clock as a client's on the same machine.

use std::io;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use aiperf_core::time::ClockAnchor;
use serde::{Deserialize, Serialize};

use crate::lines::{LineLog, write_line};

/// How a request ended, as the server sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TruthOutcome {
    /// A whole answer was written.
    Completed,
    /// Refused with an HTTP error that the request earned.
    Rejected,
    /// It went wrong on purpose.
    Fault,
    /// The client left first.
    ClientGone,
    /// The server was stopped first.
    Stopped,
}

/// All the server knows of one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruthRecord {
    /// Order of arrival, from 0.
    pub index: u64,
    /// The `X-Request-ID` header.
    pub x_request_id: Option<String>,
    /// `chat`, `completions`, `responses`, `messages`, `embeddings`, `cohere_rankings`, `hf_tei_rankings` or `nim_rankings`.
    pub endpoint: String,
    /// Whether events were asked for.
    pub stream: bool,
    /// Status of the answer; 0 when there was none.
    pub status: u16,
    /// How it ended.
    pub outcome: TruthOutcome,
    /// The fault that was chosen for it.
    pub fault: Option<String>,
    /// When the kernel received the first bytes of the request (where it tells, else when they were read): waiting for a busy
    /// server is the server's time.
    pub arrival_ns: u64,
    /// The request was whole.
    pub body_ns: u64,
    /// Its prompt was counted and it stood in the engine's queue.
    pub queued_ns: Option<u64>,
    /// It left the queue (model time); of several prompts the first.
    pub prefill_start_ns: Option<u64>,
    /// Its first token was done (model time); of several prompts the first.
    pub prefill_end_ns: Option<u64>,
    /// Just before the write of each chunk with content.
    pub chunks_ns: Vec<u64>,
    /// Just before the last write of the answer; the moment it broke, for other outcomes.
    pub end_ns: u64,
    /// Prompt tokens, template and specials included.
    pub prompt_tokens: u64,
    /// Prompt tokens found in the prefix cache.
    pub cached_tokens: u64,
    /// Tokens written, reasoning included.
    pub completion_tokens: u64,
    /// Of them, reasoning.
    pub reasoning_tokens: u64,
    /// Bytes of the request body.
    pub body_bytes: u64,
}

/// What a server did from start to stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SimTotals {
    /// Inference requests that arrived whole.
    pub requests: u64,
    /// Whole answers.
    pub completed: u64,
    /// Refused.
    pub rejected: u64,
    /// Gone wrong on purpose.
    pub faults: u64,
    /// Left by the client.
    pub client_gone: u64,
    /// Cut by the stop.
    pub stopped: u64,
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Prompt tokens found in the prefix cache.
    pub cached_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Chunks with content written.
    pub chunks: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Most connections at once.
    pub peak_connections: u64,
    /// Connections closed at once, for no descriptor was left for them; at least so many.
    pub turned_away: u64,
    /// Most requests in prefill or decode at once.
    pub peak_running: u64,
    /// Most requests in the queue at once.
    pub peak_waiting: u64,
    /// The server's own lateness: from a token's due moment to the moment its thread got to it; the greatest, nanoseconds.
    pub late_max_ns: u64,
    /// The same, summed over `late_count` wake-ups.
    pub late_sum_ns: u64,
    /// Wake-ups with something due.
    pub late_count: u64,
}

impl SimTotals {
    pub(crate) fn add(&mut self, record: &TruthRecord, chunks: u64) {
        match record.outcome {
            TruthOutcome::Completed => self.completed += 1,
            TruthOutcome::Rejected => self.rejected += 1,
            TruthOutcome::Fault => self.faults += 1,
            TruthOutcome::ClientGone => self.client_gone += 1,
            TruthOutcome::Stopped => self.stopped += 1,
        }
        self.prompt_tokens += record.prompt_tokens;
        self.cached_tokens += record.cached_tokens;
        self.completion_tokens += record.completion_tokens;
        self.chunks += chunks;
    }
}

/// The first line of a truth log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruthHeader {
    /// Version of this form.
    pub truth_log: u32,
    /// Monotonic and wall clock at the server's start.
    pub clock: ClockAnchor,
}

/// Where finished records go.
#[derive(Debug)]
pub(crate) struct TruthSink {
    memory: Option<Mutex<Vec<TruthRecord>>>,
    file: Mutex<Option<LineLog<TruthRecord>>>,
}

impl TruthSink {
    /// Opens the log, if one is asked for.
    pub(crate) fn open(memory: bool, path: Option<&Path>, clock: ClockAnchor) -> io::Result<Arc<Self>> {
        let open = |path| {
            LineLog::open(
                path,
                "sim-truth",
                |out| write_line(out, &TruthHeader { truth_log: 1, clock }),
                |record, out| write_line(out, &record),
            )
        };
        let file = path.map(open).transpose()?;
        Ok(Arc::new(Self { memory: memory.then(Mutex::default), file: Mutex::new(file) }))
    }

    /// A sender of its own for the server's thread, so that no lock is taken per request.
    pub(crate) fn sender(&self) -> Option<Sender<Option<TruthRecord>>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(LineLog::sender)
    }

    /// Keeps a record in memory, if asked for.
    pub(crate) fn remember(&self, record: &TruthRecord) {
        if let Some(memory) = &self.memory {
            memory.lock().unwrap_or_else(PoisonError::into_inner).push(record.clone());
        }
    }

    /// A copy of what is in memory, in order of ending.
    pub(crate) fn records(&self) -> Vec<TruthRecord> {
        self.memory
            .as_ref()
            .map_or_else(Vec::new, |m| m.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Waits until every record handed over is in the file. The server's thread must be gone.
    pub(crate) fn close(&self) -> io::Result<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        file.map_or(Ok(()), LineLog::close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(index: u64) -> TruthRecord {
        TruthRecord {
            index,
            x_request_id: Some("a\"b".to_owned()),
            endpoint: "chat".to_owned(),
            stream: true,
            status: 200,
            outcome: TruthOutcome::Completed,
            fault: None,
            arrival_ns: 1,
            body_ns: 2,
            queued_ns: Some(3),
            prefill_start_ns: Some(3),
            prefill_end_ns: Some(4),
            chunks_ns: vec![4, 5],
            end_ns: 6,
            prompt_tokens: 7,
            cached_tokens: 0,
            completion_tokens: 2,
            reasoning_tokens: 0,
            body_bytes: 9,
        }
    }

    #[test]
    fn the_log_holds_every_record_once_closed() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("truth.jsonl");
        let sink = TruthSink::open(true, Some(&path), aiperf_os::anchor()).expect("a log");
        let sender = sink.sender().expect("a log was asked for");
        for index in 0..1000 {
            sink.remember(&record(index));
            sender.send(Some(record(index))).expect("the writer lives");
        }
        drop(sender);
        sink.close().expect("written");
        let text = std::fs::read_to_string(&path).expect("a file");
        let mut lines = text.lines();
        let header: TruthHeader = serde_json::from_str(lines.next().expect("a header")).expect("its form");
        assert_eq!(header.truth_log, 1);
        let read: Vec<TruthRecord> = lines.map(|l| serde_json::from_str(l).expect("a record")).collect();
        assert_eq!(read, sink.records());
        assert_eq!(read.len(), 1000);
    }

    #[test]
    fn a_log_that_cannot_be_made_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(TruthSink::open(false, Some(&dir.path().join("no/such")), aiperf_os::anchor()).is_err());
    }
}
