//! Header names spelled on the wire as they were given.
//!
//! HTTP/1.1 names have no case, but some servers and proxies believe otherwise, and AIPerf sends `X-Request-ID`, not
//! `X-Request-Id`. hyper can write names in a given spelling, and has one door for it, made for proxies: the spelling of a
//! received message is kept in its extensions and used again when they are part of a message that is sent. So, once per
//! client, a canned answer with our names in it goes through hyper in memory, and its extensions are kept.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Extensions, Request};
use http_body_util::Empty;
use hyper::client::conn::http1::Builder;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Extensions that spell `names` as given; `None` if hyper no longer does this, and names then go out in title case.
pub(crate) fn spelling<'a>(names: impl Iterator<Item = &'a str>) -> Option<Extensions> {
    let mut answer = String::from("HTTP/1.1 200 OK\r\n");
    for name in names {
        // One canned value has to be legal for every name; 0 is, even for Content-Length.
        answer.push_str(name);
        answer.push_str(": 0\r\n");
    }
    answer.push_str("\r\n");
    let canned = Canned { answer: answer.into_bytes(), taken: 0, asked: false };
    let mut cx = Context::from_waker(Waker::noop());
    let handshake = pin!(Builder::new().preserve_header_case(true).handshake(TokioIo::new(canned)));
    let Poll::Ready(Ok((mut sender, mut driver))) = handshake.poll(&mut cx) else { return None };
    let mut response = pin!(sender.send_request(Request::new(Empty::<Bytes>::new())));
    // Nothing in here waits for anything outside: a few turns settle it or it never settles.
    for _ in 0..8 {
        let _ = Pin::new(&mut driver).poll(&mut cx);
        if let Poll::Ready(response) = response.as_mut().poll(&mut cx) {
            return response.ok().map(|r| r.into_parts().0.extensions).filter(|e| !e.is_empty());
        }
    }
    None
}

/// A stream that answers once something was asked.
struct Canned {
    answer: Vec<u8>,
    taken: usize,
    asked: bool,
}

impl AsyncRead for Canned {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = self.answer.len() - self.taken;
        if !self.asked || rest == 0 {
            return Poll::Pending;
        }
        let n = rest.min(buf.remaining());
        buf.put_slice(&self.answer[self.taken..self.taken + n]);
        self.taken += n;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Canned {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.asked = true;
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hyper_hands_out_the_spelling() {
        assert!(spelling(["Host", "X-Request-ID", "x-lower", "Content-Length"].into_iter()).is_some());
    }
}
