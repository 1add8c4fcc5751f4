//! What the wire showed of one request. Filled by the transport, read behind the run: the hot path only stamps.

use serde::{Deserialize, Serialize};

use crate::outcome::Disposition;

/// Monotonic stamps of one request, nanoseconds. `None` means it did not happen (a reused connection has no connect).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamps {
    /// The transport took the request: AIPerf's request start, before any DNS, TCP or TLS work.
    pub start_ns: u64,
    /// Name resolution began and ended.
    pub dns_ns: Option<(u64, u64)>,
    /// TCP connect began and ended.
    pub tcp_ns: Option<(u64, u64)>,
    /// TLS handshake began and ended.
    pub tls_ns: Option<(u64, u64)>,
    /// First byte of the request handed to the kernel.
    pub send_start_ns: Option<u64>,
    /// Last byte of the request handed to the kernel.
    pub send_end_ns: Option<u64>,
    /// Status line and headers were whole.
    pub headers_ns: Option<u64>,
    /// The read that brought the first body byte.
    pub first_byte_ns: Option<u64>,
    /// The read that brought the last body byte.
    pub last_byte_ns: Option<u64>,
    /// The end, however it came: end of body, failure, cancellation. Never earlier than `start_ns`.
    pub end_ns: u64,
}

/// One socket read that brought body bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadMark {
    /// Stamp taken where `read` returned.
    pub at_ns: u64,
    /// Length of the body (transfer coding removed) once these bytes were in.
    pub body_len: usize,
}

/// Everything the wire showed of one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// When things happened.
    pub stamps: Stamps,
    /// Whether a kept connection carried it.
    pub reused: bool,
    /// Whether it was sent a second time, because a kept connection turned out closed before any byte of an answer came.
    /// `start_ns` is that of the first attempt; all else tells of the second.
    pub resent: bool,
    /// HTTP status, once there was one.
    pub status: Option<u16>,
    /// Reason phrase (the server's, else the standard one).
    pub reason: String,
    /// `Content-Type` of the answer, as sent.
    pub content_type: Option<String>,
    /// Response headers, kept only when asked for.
    pub headers: Vec<(String, String)>,
    /// Body bytes, transfer coding removed, cut at the size cap.
    pub body: Vec<u8>,
    /// The reads that brought the body, in order; `body_len` strictly grows.
    pub reads: Vec<ReadMark>,
    /// Bytes of request head and body written.
    pub bytes_sent: u64,
    /// Bytes of response head and body read, transfer coding included.
    pub bytes_received: u64,
    /// How it ended on the wire.
    pub disposition: Disposition,
}

impl Exchange {
    /// Whether the answer calls itself a stream of server-sent events.
    pub fn is_event_stream(&self) -> bool {
        self.content_type
            .as_deref()
            .and_then(|t| t.split(';').next())
            .is_some_and(|t| t.trim().eq_ignore_ascii_case("text/event-stream"))
    }

    /// The stamp of the read that brought body byte `offset` (0-based): the earliest mark that covers it.
    pub fn arrival_ns(&self, offset: usize) -> Option<u64> {
        let at = self.reads.partition_point(|m| m.body_len <= offset);
        self.reads.get(at).map(|m| m.at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_arrives_with_the_read_that_covers_it() {
        let exchange = Exchange {
            stamps: Stamps::default(),
            reused: false,
            resent: false,
            status: Some(200),
            reason: String::new(),
            content_type: None,
            headers: Vec::new(),
            body: vec![0; 10],
            reads: vec![ReadMark { at_ns: 5, body_len: 4 }, ReadMark { at_ns: 9, body_len: 10 }],
            bytes_sent: 0,
            bytes_received: 0,
            disposition: Disposition::Finished,
        };
        assert_eq!(exchange.arrival_ns(0), Some(5));
        assert_eq!(exchange.arrival_ns(3), Some(5));
        assert_eq!(exchange.arrival_ns(4), Some(9));
        assert_eq!(exchange.arrival_ns(10), None);
    }
}
