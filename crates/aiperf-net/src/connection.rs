//! One connection and the requests it carries, one at a time.
//!
//! The task that waits for the answer drives the connection itself: there is no second task, no channel between threads and
//! no wake-up between a byte's arrival and its stamp.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use aiperf_core::exchange::{Exchange, ReadMark, Stamps};
use aiperf_core::outcome::{Disposition, Failure, Stage};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{Builder, Connection as Driver, SendRequest};
use hyper_util::rt::TokioIo;

use crate::failure;
use crate::wire::{Pulse, Socket, Wire};

/// Most bytes reserved on the word of a `Content-Length`, before any of them came.
const TRUSTED_LENGTH: u64 = 1 << 20;

/// What has been seen of a request so far. It outlives the attempt, so a cancellation keeps what came before it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) exchange: Exchange,
    /// The socket in use, for its counts.
    pub(crate) socket: Option<Rc<Socket>>,
    /// How far the request came while there was no socket in use.
    pub(crate) stage: Stage,
    /// Bytes of head and body to be sent.
    pub(crate) expected: u64,
    pub(crate) keep_headers: bool,
    /// The socket's read count at the last mark.
    marked_read: u64,
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
                disposition: Disposition::Finished,
            },
            socket: None,
            stage: Stage::Resolve,
            expected,
            keep_headers,
            marked_read: 0,
        }
    }

    /// How far the request came.
    pub(crate) fn stage(&self) -> Stage {
        self.socket.as_ref().map_or(self.stage, |s| failure::stage(s, self.expected))
    }

    /// The facts, once it is over: at `end_ns`, as `disposition` says.
    pub(crate) fn into_exchange(mut self, end_ns: u64, disposition: Disposition) -> Exchange {
        let stamps = &mut self.exchange.stamps;
        if let Some(socket) = &self.socket {
            stamps.send_start_ns = Some(socket.first_write_ns.get()).filter(|ns| *ns > 0);
            stamps.send_end_ns = socket.sent_ns(self.expected);
            self.exchange.bytes_sent = socket.bytes_out.get();
            self.exchange.bytes_received = socket.bytes_in.get();
        }
        stamps.first_byte_ns = self.exchange.reads.first().map(|r| r.at_ns);
        stamps.last_byte_ns = self.exchange.reads.last().map(|r| r.at_ns);
        stamps.end_ns = end_ns.max(stamps.start_ns);
        self.exchange.disposition = disposition;
        self.exchange
    }

    fn head(&mut self, response: Response<Incoming>, socket: &Socket) -> Incoming {
        let (parts, body) = response.into_parts();
        let e = &mut self.exchange;
        e.stamps.headers_ns = Some(socket.last_read_ns.get());
        e.status = Some(parts.status.as_u16());
        e.reason = match parts.extensions.get::<hyper::ext::ReasonPhrase>() {
            Some(phrase) => String::from_utf8_lossy(phrase.as_bytes()).into_owned(),
            None => parts.status.canonical_reason().unwrap_or("").to_owned(),
        };
        let text = |v: &http::HeaderValue| String::from_utf8_lossy(v.as_bytes()).into_owned();
        e.content_type = parts.headers.get(http::header::CONTENT_TYPE).map(text);
        // A redirect's target is told in the failure's message, so it is kept in any case.
        let wanted = |n: &http::HeaderName| {
            self.keep_headers || (*n == http::header::LOCATION && parts.status.is_redirection())
        };
        e.headers =
            parts.headers.iter().filter(|(n, _)| wanted(n)).map(|(n, v)| (n.to_string(), text(v))).collect();
        if let Some(length) = body.size_hint().exact() {
            e.body.reserve(length.min(TRUSTED_LENGTH) as usize);
        }
        body
    }

    /// Takes the bytes of a frame; `false` when the body is over `cap`.
    fn data(&mut self, data: &[u8], socket: &Socket, cap: usize) -> bool {
        let e = &mut self.exchange;
        let room = cap - e.body.len().min(cap);
        let taken = &data[..data.len().min(room)];
        if !taken.is_empty() {
            e.body.extend_from_slice(taken);
            let read = socket.reads.get();
            match e.reads.last_mut() {
                // Several frames of one read are one mark.
                Some(mark) if self.marked_read == read => mark.body_len = e.body.len(),
                _ => e.reads.push(ReadMark { at_ns: socket.last_read_ns.get(), body_len: e.body.len() }),
            }
            self.marked_read = read;
        }
        taken.len() == data.len()
    }
}

/// Why a connection did not carry a request to its end.
#[derive(Debug)]
pub(crate) enum Broken {
    /// It was closed before any byte of the request was written: another connection may take it.
    NotSent,
    /// The request failed.
    Failed(Failure),
}

/// A connection that speaks HTTP/1.1.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: Driver<TokioIo<Wire>, Full<Bytes>>,
    pub(crate) socket: Rc<Socket>,
    /// Since when nobody uses it, monotonic.
    pub(crate) idle_since_ns: u64,
}

impl Connection {
    /// HTTP over `wire`. Nothing is sent yet.
    pub(crate) async fn new(wire: Wire) -> Result<Self, hyper::Error> {
        let socket = Rc::clone(wire.socket());
        // Lenient where aiohttp is: what matters is the answer, not its headers' manners.
        // How our own names are spelled comes with each request; to keep how the server spells its own would cost a second map.
        let (sender, driver) = Builder::new()
            .title_case_headers(true)
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .ignore_invalid_headers_in_responses(true)
            .handshake(TokioIo::new(wire))
            .await?;
        Ok(Self { sender, driver, socket, idle_since_ns: 0 })
    }

    /// Whether an idle connection can carry a request: asks the socket, then lets HTTP (and TLS) look at what came.
    pub(crate) fn is_live(&mut self) -> bool {
        match self.socket.pulse() {
            Pulse::Dead => return false,
            Pulse::Quiet => {}
            Pulse::Talking => {
                // TLS session tickets are harmless, bytes of HTTP are not: the driver can tell.
                self.socket.open_gate();
                let mut cx = Context::from_waker(Waker::noop());
                if Pin::new(&mut self.driver).poll(&mut cx).is_ready() {
                    return false;
                }
            }
        }
        self.sender.is_ready()
    }

    /// Sends `request` and takes the whole answer into `seen`. `Ok(true)` when the connection can be kept.
    pub(crate) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        seen: &mut Seen,
        cap: usize,
    ) -> Result<bool, Broken> {
        let socket = Rc::clone(&self.socket);
        socket.begin();
        seen.marked_read = socket.reads.get();
        let mut head = pin!(self.sender.try_send_request(request));
        let mut body: Option<Incoming> = None;
        let driver = &mut self.driver;
        let mut open = true;
        // Answer and body are only ever filled by polling the driver right here, so nothing else has to wake for them.
        let mut quiet = Context::from_waker(Waker::noop());
        poll_fn(|cx| {
            loop {
                socket.open_gate();
                if open {
                    open = Pin::new(&mut *driver).poll(cx).is_pending();
                }
                let mut progress = false;
                if body.is_none() {
                    match head.as_mut().poll(&mut quiet) {
                        Poll::Ready(Ok(response)) => body = Some(seen.head(response, &socket)),
                        Poll::Ready(Err(mut e)) => {
                            if e.take_message().is_some() {
                                return Poll::Ready(Err(Broken::NotSent));
                            }
                            let stage = failure::stage(&socket, seen.expected);
                            return Poll::Ready(Err(Broken::Failed(failure::http(e.error(), stage, false))));
                        }
                        Poll::Pending => {}
                    }
                }
                while let Some(incoming) = &mut body {
                    match Pin::new(incoming).poll_frame(&mut quiet) {
                        Poll::Ready(Some(Ok(frame))) => {
                            progress = true;
                            if let Some(data) = frame.data_ref()
                                && !seen.data(data, &socket, cap)
                            {
                                return Poll::Ready(Err(Broken::Failed(failure::too_large(cap))));
                            }
                        }
                        Poll::Ready(Some(Err(e))) => {
                            return Poll::Ready(Err(Broken::Failed(failure::http(
                                &e,
                                Stage::InStream,
                                true,
                            ))));
                        }
                        Poll::Ready(None) => return Poll::Ready(Ok(())),
                        Poll::Pending => break,
                    }
                }
                if !open {
                    let stage = failure::stage(&socket, seen.expected);
                    return Poll::Ready(Err(Broken::Failed(failure::closed(stage, body.is_some()))));
                }
                if !progress && !socket.is_starved() {
                    return Poll::Pending;
                }
            }
        })
        .await?;
        // The end of the exchange is the read that brought it; what settling reads is not part of it.
        seen.exchange.stamps.end_ns = socket.last_read_ns.get();
        Ok(open && self.settle().await)
    }

    /// Lets HTTP close the exchange on its side; whether it is ready for the next one.
    async fn settle(&mut self) -> bool {
        self.socket.open_gate();
        let driver = &mut self.driver;
        let open = poll_fn(|cx| Poll::Ready(Pin::new(&mut *driver).poll(cx).is_pending())).await;
        open && self.sender.is_ready()
    }
}
