//! What the wire showed of one request. Filled by the transport, read behind the run: the hot path only stamps.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::outcome::Disposition;

/// Monotonic stamps of one request, nanoseconds. `None` means it did not happen (a reused connection has no connect).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamps {
    /// The transport took the request: AIPerf's request start, before any DNS, TCP or TLS work.
    pub start_ns: u64,
    /// Waiting for a connection that another request had made (HTTP/2) began and ended.
    pub blocked_ns: Option<(u64, u64)>,
    /// Name resolution began and ended.
    pub dns_ns: Option<(u64, u64)>,
    /// TCP connect began and ended.
    pub tcp_ns: Option<(u64, u64)>,
    /// TLS handshake began and ended.
    pub tls_ns: Option<(u64, u64)>,
    /// First byte of the request handed to the kernel.
    pub send_start_ns: Option<u64>,
    /// The first write, which has the head of the request in it, had returned.
    pub head_sent_ns: Option<u64>,
    /// Last byte of the request handed to the kernel.
    pub send_end_ns: Option<u64>,
    /// The bytes that made status line and headers whole arrived. This and the following are, as in [`ReadMark::at_ns`], the
    /// kernel's receive stamps where there are any.
    pub headers_ns: Option<u64>,
    /// The first body byte arrived, with what was read together with it.
    pub first_byte_ns: Option<u64>,
    /// The last body byte arrived.
    pub last_byte_ns: Option<u64>,
    /// The end, however it came: end of body, failure, cancellation. Never earlier than `start_ns`.
    pub end_ns: u64,
}

impl Stamps {
    /// From the first byte of the request out to the last. Connecting is before that.
    pub fn sending_ns(&self) -> Option<u64> {
        self.send_end_ns?.checked_sub(self.send_start_ns?)
    }

    /// From the last byte of the request out to the first of the answer's body; 0 when that came earlier.
    pub fn waiting_ns(&self) -> Option<u64> {
        Some(self.first_byte_ns?.saturating_sub(self.send_end_ns?))
    }

    /// From the first byte of the answer's body to the last.
    pub fn receiving_ns(&self) -> Option<u64> {
        self.last_byte_ns?.checked_sub(self.first_byte_ns?)
    }

    /// From the first byte of the request out to the last of the answer's body.
    pub fn duration_ns(&self) -> Option<u64> {
        self.last_byte_ns?.checked_sub(self.send_start_ns?)
    }
}

/// What went over the wire beside times: counts, and the two ends of the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Bytes of the request's body that were handed to the kernel.
    pub body_sent: u64,
    /// Writes that took bytes of the request: on the socket, or with HTTP/2 those with something of its body.
    pub writes: u32,
    /// Our end of the connection, kept only when asked for.
    pub local: Option<SocketAddr>,
    /// The other end, which may be a proxy; kept only when asked for.
    pub remote: Option<SocketAddr>,
}

/// One socket read that brought body bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadMark {
    /// When the last of these bytes arrived: the kernel's receive stamp where there is one, else when `read` returned.
    pub at_ns: u64,
    /// Length of the body (transfer coding removed) once these bytes were in.
    pub body_len: u32,
    /// One more than the nanoseconds from the arrival until `read` returned, if the arrival is the kernel's word.
    lag: Option<NonZeroU32>,
}

// There is one for every chunk of every answer.
const _: () = assert!(size_of::<ReadMark>() == 16);

impl ReadMark {
    /// A read that returned at `read_ns`, of bytes nobody else stamped. Lengths are below 4 GiB, as the size cap is.
    pub fn read(read_ns: u64, body_len: usize) -> Self {
        Self { at_ns: read_ns, body_len: u32::try_from(body_len).unwrap_or(u32::MAX), lag: None }
    }

    /// A read that returned at `read_ns`, of bytes that the kernel had received at `at_ns`.
    pub fn received(at_ns: u64, read_ns: u64, body_len: usize) -> Self {
        let lag = u32::try_from(read_ns.saturating_sub(at_ns)).unwrap_or(u32::MAX).saturating_add(1);
        Self { lag: NonZeroU32::new(lag), ..Self::read(at_ns, body_len) }
    }

    /// How long the bytes lay in the kernel before they were read, nanoseconds (4.29 s stand for all that is longer). `None`
    /// where the kernel did not stamp them.
    pub fn read_lag_ns(&self) -> Option<u32> {
        self.lag.map(|lag| lag.get() - 1)
    }

    /// When `read` returned.
    pub fn read_ns(&self) -> u64 {
        self.at_ns + u64::from(self.read_lag_ns().unwrap_or(0))
    }
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
    /// Bytes of request head and body written. With HTTP/2 those of the frames that carried them, heads of frames included; what
    /// a connection says for all of its streams belongs to no request and is not counted.
    pub bytes_sent: u64,
    /// Bytes of response head and body read, transfer coding included; with HTTP/2 as above.
    pub bytes_received: u64,
    /// Counts and addresses.
    pub traffic: Traffic,
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

    /// When body byte `offset` (0-based) arrived: the stamp of the earliest mark that covers it.
    pub fn arrival_ns(&self, offset: usize) -> Option<u64> {
        let at = self.reads.partition_point(|m| m.body_len as usize <= offset);
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
            reads: vec![ReadMark::read(5, 4), ReadMark::received(9, 12, 10)],
            bytes_sent: 0,
            bytes_received: 0,
            traffic: Traffic::default(),
            disposition: Disposition::Finished,
        };
        assert_eq!(exchange.arrival_ns(0), Some(5));
        assert_eq!(exchange.arrival_ns(3), Some(5));
        assert_eq!(exchange.arrival_ns(4), Some(9));
        assert_eq!(exchange.arrival_ns(10), None);
    }

    #[test]
    fn a_mark_says_when_bytes_came_and_when_they_were_read() {
        let plain = ReadMark::read(7, 3);
        assert_eq!((plain.at_ns, plain.read_ns(), plain.read_lag_ns(), plain.body_len), (7, 7, None, 3));
        let late = ReadMark::received(7, 12, 3);
        assert_eq!((late.at_ns, late.read_ns(), late.read_lag_ns()), (7, 12, Some(5)));
        assert_eq!(ReadMark::received(7, 7, 3).read_lag_ns(), Some(0));
        // Longer than can be told, and an impossible one.
        assert_eq!(ReadMark::received(7, u64::MAX, 3).read_lag_ns(), Some(u32::MAX - 1));
        assert_eq!(ReadMark::received(7, 6, 3).read_lag_ns(), Some(0));
    }
}
