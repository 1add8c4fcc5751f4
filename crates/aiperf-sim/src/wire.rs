//! A connection as hyper sees it, with what hyper does not offer: stamps where bytes arrive and before writes begin, word of
//! when a frame has left, writes cut into pieces, resets.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use aiperf_os::arrival::ArrivalClock;
use aiperf_os::mono_ns;
use aiperf_os::receive::{poll_receive, stamp_arrivals};
use bytes::Bytes;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::io::ReadBuf;
use tokio::net::TcpStream;

use crate::desk::{Desk, Sleep};
use crate::ticket::Ticket;

/// Most bytes of a request's first read: its head, and of most the body.
const FIRST_READ: usize = 8192;

/// How a connection is to be broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kill {
    /// Closed in the usual way (FIN).
    Close,
    /// Reset (RST).
    Reset,
    /// These bytes as they are, then closed.
    Raw(Bytes),
}

/// How writes are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Whole,
    /// One byte a write, with a pause of so many nanoseconds between writes.
    Bytes(u64),
}

/// What connection, handler and body of one connection share. All on one thread.
#[derive(Debug)]
pub(crate) struct WireControl {
    /// When the kernel received the first bytes of the request being read; 0 before.
    pub(crate) first_read_ns: Cell<u64>,
    /// A frame was handed to hyper and no write has begun since.
    armed: Cell<bool>,
    /// Everything handed to hyper has gone to the kernel.
    drained: Cell<bool>,
    /// When the write of the last frame began.
    pub(crate) write_ns: Cell<u64>,
    pub(crate) shape: Cell<Shape>,
    kill: RefCell<Option<Kill>>,
    waiter: RefCell<Option<Waker>>,
    /// The request whose last frame is on its way.
    ending: RefCell<Option<Ticket>>,
}

impl WireControl {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self {
            first_read_ns: Cell::new(0),
            armed: Cell::new(false),
            drained: Cell::new(true),
            write_ns: Cell::new(0),
            shape: Cell::new(Shape::Whole),
            kill: RefCell::new(None),
            waiter: RefCell::new(None),
            ending: RefCell::new(None),
        })
    }

    /// A frame is handed to hyper: its write will be stamped.
    pub(crate) fn arm(&self) {
        self.armed.set(true);
        self.drained.set(false);
    }

    /// Whether the last frame has gone to the kernel; else the task is woken when it has.
    pub(crate) fn poll_drained(&self, cx: &Context<'_>) -> Poll<()> {
        if self.drained.get() {
            return Poll::Ready(());
        }
        *self.waiter.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether everything handed to hyper has gone to the kernel.
    pub(crate) fn is_drained(&self) -> bool {
        self.drained.get()
    }

    /// Breaks the connection as soon as its task has been polled again.
    pub(crate) fn kill(&self, how: Kill) {
        *self.kill.borrow_mut() = Some(how);
    }

    pub(crate) fn killed(&self) -> bool {
        self.kill.borrow().is_some()
    }

    /// Leaves the bookkeeping of a request to the write of its last frame.
    pub(crate) fn end_with_last_write(&self, ticket: Ticket) {
        if self.drained.get() {
            ticket.finish(self.write_ns.get());
        } else {
            *self.ending.borrow_mut() = Some(ticket);
        }
    }

    fn wrote_all(&self) {
        self.drained.set(true);
        if let Some(ticket) = self.ending.borrow_mut().take() {
            ticket.finish(self.write_ns.get());
            self.shape.set(Shape::Whole);
        }
        if let Some(waker) = self.waiter.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// The socket.
#[derive(Debug)]
pub(crate) struct Wire {
    io: TokioIo<TcpStream>,
    arrivals: ArrivalClock,
    /// Nothing arrived before.
    opened_ns: u64,
    control: Rc<WireControl>,
    desk: Rc<Desk>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream, control: Rc<WireControl>, desk: Rc<Desk>) -> Self {
        stamp_arrivals(&stream);
        Self {
            io: TokioIo::new(stream),
            arrivals: ArrivalClock::new(),
            opened_ns: mono_ns(),
            control,
            desk,
            pause: None,
        }
    }

    /// Breaks the connection as it was asked for and drops it.
    pub(crate) fn break_off(self) {
        let how = self.control.kill.borrow_mut().take();
        let stream = self.io.inner();
        match how {
            Some(Kill::Reset) => {
                // Failing means that the peer is gone already.
                let _ = stream.set_zero_linger();
            }
            Some(Kill::Raw(bytes)) => {
                // A few bytes on a connection without a byte of answer: they fit into its send buffer.
                let _ = stream.try_write(&bytes);
            }
            Some(Kill::Close) | None => {}
        }
    }

    fn write_bytewise(&mut self, cx: &mut Context<'_>, buf: &[u8], gap_ns: u64) -> Poll<io::Result<usize>> {
        if let Some(pause) = &mut self.pause {
            match pause.as_mut().poll(cx) {
                Poll::Ready(()) => self.pause = None,
                Poll::Pending => return Poll::Pending,
            }
        }
        let written = match Pin::new(&mut self.io).poll_write(cx, &buf[..1]) {
            Poll::Ready(Ok(n)) => n,
            other => return other,
        };
        if gap_ns > 0 && written > 0 {
            self.pause = Some(Box::pin(self.desk.sleep_until_ns(mono_ns() + gap_ns)));
        }
        Poll::Ready(Ok(written))
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.control.first_read_ns.get() > 0 {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        // The first bytes of a request take a way of their own: this thread may have been busy with other streams when they came,
        // and its lateness is the server's, not the client's.
        let mut bytes = [0; FIRST_READ];
        let room = bytes.len().min(buf.remaining());
        let mut first = ReadBuf::new(&mut bytes[..room]);
        let Self { io, arrivals, opened_ns, .. } = &mut *self;
        match poll_receive(io.inner_mut(), arrivals, *opened_ns, cx, &mut first) {
            Poll::Ready(Ok(arrival)) => {
                self.control.first_read_ns.set(arrival.at_ns());
                buf.put_slice(first.filled());
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Write for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.control.armed.replace(false) {
            self.control.write_ns.set(mono_ns());
        }
        let result = match self.control.shape.get() {
            Shape::Bytes(gap_ns) if buf.len() > 1 || self.pause.is_some() => {
                self.write_bytewise(cx, buf, gap_ns)
            }
            _ => Pin::new(&mut self.io).poll_write(cx, buf),
        };
        if let Poll::Ready(Ok(n)) = result
            && n == buf.len()
        {
            self.control.wrote_all();
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
