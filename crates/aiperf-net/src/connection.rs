//! One connection and the requests it carries, one at a time.
//!
//! The task that waits for the answer drives the connection itself: there is no second task, no channel between threads and
//! no wake-up between a byte's arrival and its stamp.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use aiperf_core::outcome::{Failure, Stage};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{Builder, Connection as Driver, SendRequest};
use hyper_util::rt::TokioIo;

use crate::failure;
use crate::seen::Seen;
use crate::wire::{Pulse, Socket, Wire};

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
    pub(crate) async fn open(wire: Wire) -> Result<Self, Failure> {
        let socket = Rc::clone(wire.socket());
        // Lenient where aiohttp is: what matters is the answer, not its headers' manners.
        // How our own names are spelled comes with each request; to keep how the server spells its own would cost a second map.
        let (sender, driver) = Builder::new()
            .title_case_headers(true)
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .ignore_invalid_headers_in_responses(true)
            .handshake(TokioIo::new(wire))
            .await
            .map_err(|e| failure::http(&e, Stage::Send, false))?;
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
                        Poll::Ready(Ok(response)) => {
                            let (parts, incoming) = response.into_parts();
                            let length = incoming.size_hint().exact();
                            seen.head(&parts, socket.arrived_ns.get(), length);
                            body = Some(incoming);
                        }
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
        seen.exchange.stamps.end_ns = socket.arrived_ns.get();
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
