//! What a caller asks the transport for: a request, and what is special about it.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use aiperf_core::conversation::TurnHeaders;
use aiperf_core::ticket::{SessionId, Uuid};
use bytes::Bytes;

use crate::connection::Connection;
use crate::http2::Shared;

/// A request ready to go.
pub struct Outgoing {
    /// JSON body.
    pub body: Bytes,
    /// `X-Request-ID`.
    pub request_id: Uuid,
    /// Session header and `X-Session-Affinity`.
    pub correlation_id: SessionId,
    /// Where the session keeps its connection. Only under
    /// [`ConnectionReuse::Sticky`](aiperf_core::plan::ConnectionReuse::Sticky).
    pub sticky: Option<Rc<Sticky>>,
    /// Drop the request on purpose, this long after the last of its bytes was handed to the kernel.
    pub cancel_after_ns: Option<u64>,
    /// Headers of this request alone.
    pub headers: Option<Arc<TurnHeaders>>,
    /// Called once, when the first content of a streamed answer has been read: text, reasoning or part of a tool call. Not
    /// called for an answer that is no stream, nor for one without content.
    pub first_content: Option<Box<dyn FnOnce()>>,
}

impl Outgoing {
    /// A request with nothing special about it.
    pub fn new(body: Bytes, request_id: Uuid, correlation_id: impl Into<SessionId>) -> Self {
        Self {
            body,
            request_id,
            correlation_id: correlation_id.into(),
            sticky: None,
            cancel_after_ns: None,
            headers: None,
            first_content: None,
        }
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { body, request_id, correlation_id, sticky, cancel_after_ns, headers, first_content } = self;
        f.debug_struct("Outgoing")
            .field("body", &body.len())
            .field("request_id", request_id)
            .field("correlation_id", correlation_id)
            .field("sticky", &sticky.is_some())
            .field("cancel_after_ns", cancel_after_ns)
            // A key may be among them.
            .field("headers", &headers.as_ref().map_or(0, |own| own.len()))
            .field("first_content", &first_content.is_some())
            .finish()
    }
}

/// The connection of one session between its turns. Dropping it closes the connection.
///
/// A turn takes the connection out and puts it back when its answer is whole and the connection good for another; after a
/// failure or a cancellation there is none, and the next turn opens a fresh one.
#[derive(Debug, Default)]
pub struct Sticky {
    pub(crate) kept: RefCell<Option<Kept>>,
}

/// A connection of one session.
#[derive(Debug)]
pub(crate) enum Kept {
    One(Box<Connection>),
    Two(Rc<Shared>),
}
