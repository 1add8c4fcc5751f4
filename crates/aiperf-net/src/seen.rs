//! What has been seen of a request so far, and how far it came.

use std::rc::Rc;
use std::task::Waker;

use aiperf_core::exchange::{Exchange, Stamps};
use aiperf_core::outcome::{Disposition, Stage};

use crate::endpoint::FirstContent;
use crate::failure;
use crate::http2::StreamBook;
use crate::limits::Progress;
use crate::wire::Socket;

/// Most bytes reserved on the word of a `Content-Length`, before any of them came.
const TRUSTED_LENGTH: u64 = 1 << 20;
/// A body grows by no less.
const FIRST_ROOM: usize = 1 << 10;

/// Somebody waits for the first content of a stream.
pub(crate) struct Watch {
    pub(crate) content: FirstContent,
    /// Told when it is there.
    pub(crate) hook: Option<Box<dyn FnOnce()>>,
}

/// What a request is on, with its stamps and counts.
#[derive(Debug, Clone)]
pub(crate) enum Carrier {
    /// A connection of HTTP/1.1, for it alone.
    Socket(Rc<Socket>),
    /// A stream of HTTP/2.
    Stream(Rc<StreamBook>),
}

impl Carrier {
    /// When the whole request, `expected` bytes long where it can be known beforehand, had been handed to the kernel.
    pub(crate) fn sent_ns(&self, expected: u64) -> Option<u64> {
        match self {
            Self::Socket(socket) => socket.sent_ns(expected),
            Self::Stream(stream) => Some(stream.sent_ns.get()).filter(|ns| *ns > 0),
        }
    }

    /// Has the task polled again when all is sent, where that is not its own doing.
    pub(crate) fn wake_when_sent(&self, waker: &Waker) {
        if let Self::Stream(stream) = self {
            *stream.sent_waker.borrow_mut() = Some(waker.clone());
        }
    }

    /// When the last read of the answer returned.
    pub(crate) fn last_read_ns(&self) -> Option<u64> {
        let ns = match self {
            Self::Socket(socket) => &socket.last_read_ns,
            Self::Stream(stream) => &stream.last_read_ns,
        };
        Some(ns.get()).filter(|ns| *ns > 0)
    }

    fn stage(&self, expected: u64) -> Stage {
        match self {
            Self::Socket(socket) => failure::stage(socket, expected),
            Self::Stream(stream) => stream.stage(),
        }
    }
}

/// Adds to a body that grows by a quarter where a vector would double: of ten thousand streams, half of what they hold would be room
/// that is never used.
fn add(body: &mut Vec<u8>, data: &[u8]) {
    if body.capacity() - body.len() < data.len() {
        body.reserve_exact(data.len().max(body.len() / 4).max(FIRST_ROOM));
    }
    body.extend_from_slice(data);
}

/// The value of a header; one that goes over several lines is one line.
fn text(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    if text.contains(['\r', '\n']) {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    } else {
        text.into_owned()
    }
}

/// What has been seen of a request so far. It outlives the attempt, so a cancellation keeps what came before it.
pub(crate) struct Seen {
    pub(crate) exchange: Exchange,
    /// What it is on, for its counts.
    carrier: Option<Carrier>,
    /// How far the request came while it was on nothing.
    pub(crate) stage: Stage,
    /// Bytes of head and body to be sent.
    pub(crate) expected: u64,
    /// Bytes of body to be sent.
    pub(crate) body_len: u64,
    pub(crate) keep_headers: bool,
    /// Who wants to know of the first content. Only until it is there.
    pub(crate) watch: Option<Box<Watch>>,
    /// What the request's limits see of it, if it has any beside that of the whole.
    pub(crate) progress: Option<Rc<Progress>>,
    /// The socket's read count at the last mark.
    pub(crate) marked_read: u64,
}

impl Seen {
    pub(crate) fn new(start_ns: u64, expected: u64, keep_headers: bool) -> Self {
        Self {
            exchange: Exchange {
                stamps: Stamps { start_ns, end_ns: start_ns, ..Stamps::default() },
                reused: false,
                resent: false,
                status: None,
                reason: String::new(),
                content_type: None,
                headers: Vec::new(),
                body: Vec::new(),
                reads: Vec::new(),
                bytes_sent: 0,
                bytes_received: 0,
                traffic: aiperf_core::exchange::Traffic::default(),
                disposition: Disposition::Finished,
            },
            carrier: None,
            stage: Stage::Resolve,
            expected,
            body_len: 0,
            keep_headers,
            watch: None,
            progress: None,
            marked_read: 0,
        }
    }

    /// Keeps both ends of the connection that `socket` is of, if they are asked for.
    pub(crate) fn note_addresses(&mut self, socket: &Socket) {
        if self.keep_headers
            && let Some((local, remote)) = socket.addresses()
        {
            let traffic = &mut self.exchange.traffic;
            (traffic.local, traffic.remote) = (Some(local), Some(remote));
        }
    }

    /// From now on the request is on `carrier`; with `None` it needs another one.
    pub(crate) fn carry(&mut self, carrier: Option<Carrier>) {
        if let Some(progress) = &self.progress {
            progress.carry(carrier.clone());
        }
        self.carrier = carrier;
    }

    /// How far the request came.
    pub(crate) fn stage(&self) -> Stage {
        self.carrier.as_ref().map_or(self.stage, |c| c.stage(self.expected))
    }

    /// When the whole request had been handed to the kernel.
    pub(crate) fn sent_ns(&self) -> Option<u64> {
        self.carrier.as_ref().and_then(|c| c.sent_ns(self.expected))
    }

    /// Whether the whole request was handed to the kernel.
    pub(crate) fn is_sent(&self) -> bool {
        self.sent_ns().is_some()
    }

    /// The facts, once it is over: at `end_ns`, as `disposition` says.
    pub(crate) fn into_exchange(mut self, end_ns: u64, disposition: Disposition) -> Exchange {
        let stamps = &mut self.exchange.stamps;
        if let Some(carrier) = &self.carrier {
            let (first_write_ns, head_sent_ns, writes) = match carrier {
                Carrier::Socket(s) => (&s.first_write_ns, &s.head_sent_ns, &s.writes),
                Carrier::Stream(s) => (&s.first_write_ns, &s.head_sent_ns, &s.writes),
            };
            let (bytes_out, bytes_in) = match carrier {
                Carrier::Socket(s) => (&s.bytes_out, &s.bytes_in),
                Carrier::Stream(s) => (&s.bytes_out, &s.bytes_in),
            };
            stamps.send_start_ns = Some(first_write_ns.get()).filter(|ns| *ns > 0);
            stamps.send_end_ns = carrier.sent_ns(self.expected);
            // Under TLS a head may be taken before it is written.
            let end_ns = stamps.send_end_ns.unwrap_or(u64::MAX);
            let head_sent = Some(head_sent_ns.get()).filter(|ns| *ns > 0);
            stamps.head_sent_ns = head_sent.map(|ns| ns.max(first_write_ns.get()).min(end_ns));
            self.exchange.traffic.writes = writes.get();
            self.exchange.traffic.body_sent = match (stamps.send_end_ns, carrier) {
                (Some(_), _) => self.body_len,
                (None, Carrier::Socket(_)) => {
                    bytes_out.get().saturating_sub(self.expected.saturating_sub(self.body_len))
                }
                (None, Carrier::Stream(stream)) => stream.body_out.get(),
            };
            self.exchange.bytes_sent = bytes_out.get();
            self.exchange.bytes_received = bytes_in.get();
            if let Carrier::Stream(stream) = carrier {
                self.exchange.reads = stream.reads(self.exchange.body.len());
            }
        }
        stamps.first_byte_ns = self.exchange.reads.first().map(|r| r.at_ns);
        stamps.last_byte_ns = self.exchange.reads.last().map(|r| r.at_ns);
        stamps.end_ns = end_ns.max(stamps.start_ns);
        self.exchange.disposition = disposition;
        self.exchange
    }

    /// Takes the head of the answer, which was whole at `at_ns`, and gets ready for a body of `length`, if it is told.
    pub(crate) fn head<'a>(
        &mut self,
        status: u16,
        reason: &str,
        headers: impl Iterator<Item = (&'a str, &'a [u8])>,
        at_ns: u64,
        length: Option<u64>,
    ) {
        let e = &mut self.exchange;
        e.stamps.headers_ns = Some(at_ns);
        e.status = Some(status);
        reason.clone_into(&mut e.reason);
        // A redirect's target is told in the failure's message, so it is kept in any case.
        let is_redirect = (300..400).contains(&status);
        for (name, value) in headers {
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            if e.content_type.is_none() && is("content-type") {
                e.content_type = Some(text(value));
            }
            if self.keep_headers || (is_redirect && is("location")) {
                e.headers.push((name.to_ascii_lowercase(), text(value)));
            }
        }
        if let Some(length) = length {
            e.body.reserve(length.min(TRUSTED_LENGTH) as usize);
        }
        let is_success = (200..300).contains(&status);
        if self.watch.is_some() && !(is_success && self.exchange.is_event_stream()) {
            self.unwatch();
        }
    }

    /// Takes the bytes of a frame, and marks the read of `socket` that brought them; `false` when the body is over `cap`.
    pub(crate) fn data(&mut self, data: &[u8], socket: &Socket, cap: usize) -> bool {
        let e = &mut self.exchange;
        let taken = room(data, &e.body, cap);
        if !taken.is_empty() {
            add(&mut e.body, taken);
            let read = socket.reads.get();
            match e.reads.last_mut() {
                // Several frames of one read are one mark.
                Some(last) if self.marked_read == read => last.body_len = e.body.len() as u32,
                _ => e.reads.push(socket.mark(e.body.len())),
            }
            self.marked_read = read;
            if self.watch.is_some() {
                self.look_for_content();
            }
        }
        taken.len() == data.len()
    }

    /// Takes the bytes of a frame whose reads are marked elsewhere; `false` when the body is over `cap`.
    pub(crate) fn append(&mut self, data: &[u8], cap: usize) -> bool {
        let taken = room(data, &self.exchange.body, cap);
        add(&mut self.exchange.body, taken);
        if self.watch.is_some() {
            self.look_for_content();
        }
        taken.len() == data.len()
    }

    #[cold]
    fn look_for_content(&mut self) {
        if self.watch.as_mut().is_some_and(|w| w.content.is_in(&self.exchange.body)) {
            let hook = self.watch.take().and_then(|w| w.hook);
            self.unwatch();
            if let Some(hook) = hook {
                hook();
            }
        }
    }

    /// No content is waited for any more.
    fn unwatch(&mut self) {
        self.watch = None;
        if let Some(progress) = &self.progress {
            progress.content_is_settled();
        }
    }
}

/// As much of `data` as there is room for behind `body`.
fn room<'a>(data: &'a [u8], body: &[u8], cap: usize) -> &'a [u8] {
    &data[..data.len().min(cap - body.len().min(cap))]
}
