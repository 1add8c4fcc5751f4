//! One connection that speaks HTTP/2, and the exchange of a request on a stream of it.

use std::cell::Cell;
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use aiperf_core::outcome::Failure;
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream};
use http::{Request, header};
use tokio::task::{AbortHandle, spawn_local, yield_now};

use super::StreamBook;
use super::book::Book;
use super::tap::Tap;
use crate::failure;
use crate::seen::{Carrier, Seen};
use crate::wire::{Pulse, Wire};

/// What a server may send on one stream, and on all of them, before we have taken any of it: more than comes between two
/// turns of a busy loop, so that no stream ever waits for our permission.
const STREAM_WINDOW: u32 = 16 << 20;
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
/// Streams opened on a connection whose server has not said how many it allows. It is always asked first.
const UNTOLD_STREAMS: usize = 100;
/// Streams we have broken off, of which late frames are known for what they are.
const BROKEN_OFF: usize = 10_000;
/// How much is kept for small frames that were not taken yet. Tokens come in small frames, and a limit here would end
/// connections under those who are merely late.
const SMALL_FRAMES: usize = usize::MAX / 2;

/// Why a stream did not carry a request to its end.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The connection took no more streams: another one may.
    NotSent,
    /// The server says that it did not look at the request.
    Untaken(Failure),
    /// The request failed.
    Failed(Failure),
}

/// A connection and how much it carries. Dropping it closes the connection.
pub(crate) struct Shared {
    sender: SendRequest<Bytes>,
    book: Rc<Book>,
    driver: AbortHandle,
    /// The driver has come to its end, and the connection with it.
    ended: Rc<Cell<bool>>,
    /// No request is to be put on it any more.
    retired: Cell<bool>,
    /// Requests it carries.
    pub(super) streams: Cell<usize>,
    /// Since when it carries none, monotonic.
    pub(super) idle_since_ns: Cell<u64>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("streams", &self.streams)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// HTTP/2 over `wire` with the server called `authority`, once that has said what it allows.
    pub(crate) async fn open(wire: Wire, authority: &str) -> Result<Rc<Self>, Failure> {
        let book = Rc::new(Book::new(Rc::clone(wire.socket())));
        let tap = Tap { wire, book: Rc::clone(&book) };
        let refused = |error: Option<h2::Error>| failure::no_http2(authority, book.speaks_http1(), error);
        let handshake = Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(UNTOLD_STREAMS)
            .max_concurrent_reset_streams(BROKEN_OFF)
            .max_local_error_reset_streams(None)
            .data_frame_budget(SMALL_FRAMES)
            .enable_push(false)
            .handshake::<_, Bytes>(tap);
        let (sender, mut connection) = handshake.await.map_err(|e| refused(Some(e)))?;
        poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(Err(refused(None))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(refused(Some(error)))),
            Poll::Pending if book.is_settled.get() => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        })
        .await?;
        let ended = Rc::new(Cell::new(false));
        let driver = spawn_local({
            let ended = Rc::clone(&ended);
            async move {
                // What it ends with is told to each of its streams.
                let _ = connection.await;
                ended.set(true);
            }
        });
        Ok(Rc::new(Self {
            sender,
            book,
            driver: driver.abort_handle(),
            ended,
            retired: Cell::new(false),
            streams: Cell::new(0),
            idle_since_ns: Cell::new(0),
        }))
    }

    #[cfg(test)]
    pub(super) fn socket(&self) -> Rc<crate::wire::Socket> {
        Rc::clone(&self.book.socket)
    }

    /// How many streams the server allows now.
    pub(super) fn limit(&self) -> usize {
        self.sender.current_max_send_streams()
    }

    /// Whether a request can be put on it, as far as is known without asking the socket.
    pub(crate) fn is_open(&self) -> bool {
        !self.ended.get() && !self.retired.get()
    }

    /// Whether the server ended it by itself, with nobody having noticed.
    pub(super) fn has_left(&self) -> bool {
        self.ended.get() && !self.retired.get()
    }

    /// Whether an idle connection can carry a request: asks the socket, and lets the driver read what came.
    pub(crate) async fn is_live(&self) -> bool {
        // A farewell is short; whatever else a server has to say to nobody in particular is not waited for.
        for _ in 0..3 {
            match self.book.socket.pulse() {
                Pulse::Quiet => break,
                Pulse::Dead => return false,
                Pulse::Talking => yield_now().await,
            }
        }
        self.is_open()
    }

    /// Sends `head` and `body` on a stream of its own and takes the whole answer into `seen`. Dropped before its end, the
    /// stream is broken off and the connection stays.
    pub(crate) async fn exchange(
        &self,
        head: Request<()>,
        body: Bytes,
        seen: &mut Seen,
        cap: usize,
    ) -> Result<(), Broken> {
        let mut sender = self.sender.clone();
        if poll_fn(|cx| sender.poll_ready(cx)).await.is_err() {
            self.retire();
            return Err(Broken::NotSent);
        }
        let (response, mut send) = match sender.send_request(head, body.is_empty()) {
            Ok(streams) => streams,
            Err(error) if error.is_go_away() || error.is_io() => {
                self.retire();
                return Err(Broken::NotSent);
            }
            Err(error) => return Err(Broken::Failed(failure::unsendable(&error))),
        };
        // A sender that stays would count as one more who might send.
        drop(sender);
        let stream = Stream { id: response.stream_id().as_u32(), shared: self };
        let book = self.book.open(stream.id);
        seen.carry(Some(Carrier::Stream(Rc::clone(&book))));
        seen.note_addresses(&self.book.socket);
        if !body.is_empty() {
            // All at once: it is in memory already, and what the server does not take yet waits there. An error here is an
            // error of the answer too, where it is told.
            let _ = send.send_data(body, true);
        }
        let response = response.await.map_err(|e| stream.broken(&e, &book, false))?;
        let (parts, incoming) = response.into_parts();
        let length = parts.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
        let reason = parts.status.canonical_reason().unwrap_or("");
        let headers = parts.headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes()));
        seen.head(parts.status.as_u16(), reason, headers, book.head_ns.get(), length);
        take(incoming, seen, cap).await.map_err(|error| match error {
            Some(error) => stream.broken(&error, &book, true),
            None => Broken::Failed(failure::too_large(cap)),
        })?;
        seen.exchange.stamps.end_ns = book.end_ns.get();
        Ok(())
    }

    /// No more requests are put on it.
    pub(crate) fn retire(&self) {
        self.retired.set(true);
    }
}

/// Takes a body to its end. `Err(None)` when it is over `cap`.
async fn take(mut body: RecvStream, seen: &mut Seen, cap: usize) -> Result<(), Option<h2::Error>> {
    while let Some(data) = poll_fn(|cx| body.poll_data(cx)).await {
        let data = data.map_err(Some)?;
        // Fails only for more than came.
        let _ = body.flow_control().release_capacity(data.len());
        if !seen.append(&data, cap) {
            return Err(None);
        }
    }
    poll_fn(|cx| body.poll_trailers(cx)).await.map_err(Some)?;
    Ok(())
}

/// A stream whose page in the book ends with it.
struct Stream<'a> {
    id: u32,
    shared: &'a Shared,
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        self.shared.book.close(self.id);
    }
}

impl Stream<'_> {
    /// Why the stream broke, before (`in_body` false) or after the head of the answer was whole.
    fn broken(&self, error: &h2::Error, book: &StreamBook, in_body: bool) -> Broken {
        let failure = failure::http2(error, book.stage(), in_body);
        let refused = error.is_reset() && error.is_remote() && error.reason() == Some(Reason::REFUSED_STREAM);
        if error.is_go_away() || error.is_io() {
            self.shared.retire();
        }
        if refused || (error.is_go_away() && self.shared.book.is_untaken(self.id)) {
            Broken::Untaken(failure)
        } else {
            Broken::Failed(failure)
        }
    }
}
