//! Response bodies: whole ones here, streams in `stream`.

use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::stream::StreamBody;
use crate::ticket::Ticket;
use crate::wire::{Kill, WireControl};

/// The body of any answer.
#[derive(Debug)]
pub(crate) enum SimBody {
    Full(Box<FullBody>),
    Stream(Box<StreamBody>),
}

impl Body for SimBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Full(body) => body.poll(cx).map(|b| b.map(|b| Ok(Frame::data(b)))),
            Self::Stream(body) => body.poll(cx).map(|b| b.map(|b| Ok(Frame::data(b)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(body) => body.bytes.is_none() && !body.cut,
            Self::Stream(body) => body.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(body) => SizeHint::with_exact(body.promised),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// A body with a length.
#[derive(Debug)]
pub(crate) struct FullBody {
    bytes: Option<Bytes>,
    promised: u64,
    /// The connection breaks once the bytes are out, which are fewer than promised.
    cut: bool,
    ticket: Option<Ticket>,
    control: Rc<WireControl>,
}

impl FullBody {
    pub(crate) fn new(bytes: Bytes, ticket: Option<Ticket>, control: Rc<WireControl>) -> Self {
        Self { promised: bytes.len() as u64, bytes: Some(bytes), cut: false, ticket, control }
    }

    /// The first half of `bytes`, then nothing: the connection is closed.
    pub(crate) fn cut(bytes: &Bytes, ticket: Ticket, control: Rc<WireControl>) -> Self {
        let half = bytes.slice(..bytes.len() / 2);
        Self { promised: bytes.len() as u64, bytes: Some(half), cut: true, ticket: Some(ticket), control }
    }

    fn poll(&mut self, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(bytes) = self.bytes.take() {
            self.control.arm();
            if !self.cut
                && let Some(ticket) = self.ticket.take()
            {
                self.control.end_with_last_write(ticket);
            }
            return Poll::Ready(Some(bytes));
        }
        if self.cut {
            ready!(self.control.poll_drained(cx));
            if let Some(ticket) = self.ticket.take() {
                ticket.finish(self.control.write_ns.get());
            }
            self.control.kill(Kill::Close);
            return Poll::Pending;
        }
        Poll::Ready(None)
    }
}
