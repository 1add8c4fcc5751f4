//! One connection of HTTP/1.1 and the requests it carries, one at a time.
//!
//! The task that waits for the answer drives the connection itself: there is no second task, no channel between threads and
//! no wake-up between a byte's arrival and its stamp. What a read brings is taken apart at once, so all connections of a client
//! read into one buffer.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use aiperf_core::outcome::Failure;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::answer_reader::{AnswerReader, Head, Malformed, Takes};
use crate::failure;
use crate::seen::Seen;
use crate::wire::{Pulse, Socket, Wire};

/// Most bytes of one read.
const READ: usize = 64 << 10;
/// A body up to this long is copied behind its head: dearer for the kernel than the copy is a second part of a write.
const JOINED: usize = 16 << 10;

/// Why a connection did not carry a request to its end.
#[derive(Debug)]
pub(crate) enum Broken {
    /// It was closed before any byte of the request was written: another connection may take it.
    NotSent,
    /// The request failed.
    Failed(Failure),
}

/// What all connections of a client read into.
#[derive(Debug)]
pub(crate) struct ReadBuffer(RefCell<Box<[u8]>>);

impl ReadBuffer {
    pub(crate) fn new() -> Self {
        Self(RefCell::new(vec![0; READ].into()))
    }
}

/// A request, and how much of it is still to be written.
#[derive(Debug)]
pub(crate) struct Unsent {
    head: Vec<u8>,
    body: Bytes,
    written: usize,
    /// The socket has taken all of it.
    is_flushed: bool,
}

impl Unsent {
    pub(crate) fn new(mut head: Vec<u8>, body: Bytes) -> Self {
        if body.len() > JOINED {
            return Self { head, body, written: 0, is_flushed: false };
        }
        head.extend_from_slice(&body);
        Self { head, body: Bytes::new(), written: 0, is_flushed: false }
    }

    /// Writes what is left. Frees it when it is written.
    fn poll_write(&mut self, wire: &mut Wire, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_flushed {
            return Poll::Ready(Ok(()));
        }
        while self.written < self.head.len() + self.body.len() {
            let head = &self.head[self.written.min(self.head.len())..];
            let body = &self.body[self.written.saturating_sub(self.head.len())..];
            let wire = Pin::new(&mut *wire);
            let written = if body.is_empty() {
                wire.poll_write(cx, head)
            } else {
                wire.poll_write_vectored(cx, &[IoSlice::new(head), IoSlice::new(body)])
            };
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => self.written += n,
            }
        }
        ready!(Pin::new(wire).poll_flush(cx))?;
        *self = Self { head: Vec::new(), body: Bytes::new(), written: 0, is_flushed: true };
        Poll::Ready(Ok(()))
    }
}

/// Puts the pieces of an answer to what was seen.
struct Taker<'a> {
    seen: &'a mut Seen,
    socket: &'a Socket,
    cap: usize,
}

impl Takes for Taker<'_> {
    fn head(&mut self, head: &Head<'_>) {
        self.seen.head(head.status, head.reason, head.headers(), self.socket.arrived_ns.get(), head.length);
    }

    fn data(&mut self, data: &[u8]) -> bool {
        self.seen.data(data, self.socket, self.cap)
    }
}

/// A connection that speaks HTTP/1.1.
#[derive(Debug)]
pub(crate) struct Connection {
    wire: Wire,
    pub(crate) socket: Rc<Socket>,
    /// Since when nobody uses it, monotonic.
    pub(crate) idle_since_ns: u64,
}

impl Connection {
    /// HTTP over `wire`.
    pub(crate) fn new(wire: Wire) -> Self {
        Self { socket: Rc::clone(wire.socket()), wire, idle_since_ns: 0 }
    }

    /// Whether an idle connection can carry a request: asks the socket, then lets TLS look at what came.
    pub(crate) fn is_live(&mut self) -> bool {
        match self.socket.pulse() {
            Pulse::Dead => false,
            Pulse::Quiet => true,
            Pulse::Talking => {
                // TLS session tickets are harmless; bytes of HTTP are not, nor is an end.
                let mut byte = [0];
                let mut buf = ReadBuf::new(&mut byte);
                let mut cx = Context::from_waker(Waker::noop());
                Pin::new(&mut self.wire).poll_read(&mut cx, &mut buf).is_pending()
            }
        }
    }

    /// Sends `request` and takes the whole answer into `seen`. `Ok(true)` when the connection can be kept.
    pub(crate) async fn exchange(
        &mut self,
        mut request: Unsent,
        seen: &mut Seen,
        cap: usize,
        buffer: &ReadBuffer,
    ) -> Result<bool, Broken> {
        let socket = Rc::clone(&self.socket);
        socket.begin();
        seen.marked_read = socket.reads.get();
        let mut answer = AnswerReader::new();
        let wire = &mut self.wire;
        // A server may answer before it has the whole request, and then take no more of it.
        let mut refused = None;
        let kept = poll_fn(|cx| {
            if refused.is_none()
                && let Poll::Ready(Err(error)) = request.poll_write(wire, cx)
            {
                if socket.bytes_out.get() == 0 {
                    return Poll::Ready(Err(Broken::NotSent));
                }
                refused = Some(error);
            }
            loop {
                let mut room = buffer.0.borrow_mut();
                let mut buf = ReadBuf::new(&mut room);
                let read = ready!(Pin::new(&mut *wire).poll_read(cx, &mut buf));
                let in_body = answer.has_head();
                let stage = failure::stage(&socket, seen.expected);
                let failed = |failure| Poll::Ready(Err(Broken::Failed(failure)));
                if let Err(error) = read {
                    return failed(failure::broken(&error, stage, in_body));
                }
                let came = buf.filled();
                if came.is_empty() {
                    if answer.close() {
                        return Poll::Ready(Ok(false));
                    }
                    return failed(match refused.take() {
                        Some(error) => failure::broken(&error, stage, in_body),
                        None => failure::closed(stage, in_body),
                    });
                }
                match answer.feed(came, &mut Taker { seen, socket: &socket, cap }) {
                    Ok(_) if !answer.is_over() => {}
                    Ok(over) => {
                        let is_clean = over.is_empty() && request.is_flushed;
                        return Poll::Ready(Ok(is_clean && answer.keeps_connection()));
                    }
                    Err(Malformed::Head(what)) => return failed(failure::not_http(what)),
                    Err(Malformed::Body(what)) => return failed(failure::broken_body(what)),
                    Err(Malformed::TooLarge) => return failed(failure::too_large(cap)),
                }
            }
        })
        .await?;
        // The end of the exchange is the read that brought it.
        seen.exchange.stamps.end_ns = socket.arrived_ns.get();
        Ok(kept)
    }
}
