//! Where HTTP/2 meets the socket: every frame that is read or written is noted in the connection's book.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use aiperf_os::mono_ns;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::book::Book;
use crate::wire::Wire;

/// A wire whose frames are noted.
#[derive(Debug)]
pub(super) struct Tap {
    pub(super) wire: Wire,
    pub(super) book: Rc<Book>,
}

impl AsyncRead for Tap {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // What is read is noted with its stamp at once, so one read need not wait for another's bytes to be taken.
        let before = buf.filled().len();
        let read = Pin::new(&mut self.wire).poll_read(cx, buf);
        self.book.read(&buf.filled()[before..]);
        read
    }
}

impl AsyncWrite for Tap {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let began_ns = mono_ns();
        let written = Pin::new(&mut self.wire).poll_write(cx, buf);
        if let Poll::Ready(Ok(n)) = &written {
            self.book.wrote(&buf[..*n], began_ns);
        }
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let began_ns = mono_ns();
        let written = Pin::new(&mut self.wire).poll_write_vectored(cx, bufs);
        if let Poll::Ready(Ok(n)) = &written {
            let mut left = *n;
            for buf in bufs {
                let taken = left.min(buf.len());
                self.book.wrote(&buf[..taken], began_ns);
                left -= taken;
            }
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.wire).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.book.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }
}
