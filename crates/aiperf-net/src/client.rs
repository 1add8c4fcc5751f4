//! The client of one shard: keeps connections, carries requests, gives back what the wire showed.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::{CancelReason, Disposition, Failure, Stage};
use aiperf_core::plan::{ConnectionReuse, EndpointPlan};
use aiperf_core::ticket::{SessionId, Uuid};
use aiperf_core::time::NS_PER_S;
use aiperf_core::url::BaseUrl;
use aiperf_os::mono_ns;
use http::Method;

use crate::connection::{Broken, Connection, Seen};
use crate::dial::Dialer;
use crate::headers::RequestTemplate;
#[cfg(test)]
use crate::wire::Socket;
use crate::{NetError, Outgoing, endpoint, failure};

/// How long an unused connection is kept, nanoseconds (AIPerf's keep-alive: 300 s).
const KEEP_ALIVE_NS: u64 = 300 * NS_PER_S;

/// What happened to connections since the client was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections made.
    pub opened: u64,
    /// Connections that could not be made (name, TCP or TLS).
    pub refused: u64,
    /// Requests that went out on a kept connection.
    pub reused: u64,
    /// Kept connections found closed by the server when they were wanted, and not used.
    pub stale: u64,
    /// Kept connections dropped because nobody wanted them for 300 s.
    pub expired: u64,
}

/// Which came first.
enum End {
    Came(Result<(), Failure>),
    Cancelled(CancelReason),
    Late,
}

/// The HTTP client of one shard. It stays on the thread that made it; any number of requests can be in flight, each on its
/// own connection. Connections are kept last in, first out, so that few stay warm instead of many getting stale.
#[derive(Debug)]
pub struct Client {
    template: RequestTemplate,
    dialer: Dialer,
    timeout_ns: u64,
    max_response_bytes: usize,
    keep_connections: bool,
    keep_headers: bool,
    gets: bool,
    idle: RefCell<Vec<Connection>>,
    counters: Cell<Counters>,
}

impl Client {
    /// A client for the server at `url` (the plan's own, or the address a simulated server was given), with `tls` settings
    /// shared between shards; they are made from the plan when an https URL comes without.
    ///
    /// # Errors
    /// A header, path or host that cannot be sent; a trust store that cannot be read.
    pub fn new(
        plan: &EndpointPlan,
        url: &BaseUrl,
        tls: Option<Arc<rustls::ClientConfig>>,
    ) -> Result<Self, NetError> {
        Ok(Self {
            dialer: Dialer::new(plan, url, tls)?,
            template: RequestTemplate::new(plan, url, &url.join(endpoint::path(plan)))?,
            timeout_ns: plan.timeout_ns,
            max_response_bytes: plan.max_response_bytes,
            keep_connections: plan.reuse == ConnectionReuse::Pooled,
            keep_headers: false,
            gets: false,
            idle: RefCell::new(Vec::new()),
            counters: Cell::new(Counters::default()),
        })
    }

    /// The same client, keeping all headers of answers in [`Exchange::headers`] (else only a redirect's `location`).
    #[must_use]
    pub fn keeping_headers(mut self) -> Self {
        self.keep_headers = true;
        self
    }

    /// The same client, sending GET in place of POST.
    #[must_use]
    pub fn getting(mut self) -> Self {
        self.gets = true;
        self
    }

    /// Names and values of the headers of a request as they are sent, secrets included, without Host and Content-Length.
    pub fn request_headers(&self, request_id: Uuid, correlation_id: &SessionId) -> Vec<(String, String)> {
        self.template.listed(request_id, correlation_id)
    }

    /// Sends `out` and waits for the whole answer, the time limit, or `cancel`, whichever is first. Never fails: what went
    /// wrong is the exchange's disposition. A cut exchange keeps what had come, and its connection is dropped.
    ///
    /// Nothing is ever sent twice. A kept connection that turns out closed before the first byte of the request is written
    /// is counted as stale, and another one is used.
    pub async fn exchange(&self, out: Outgoing, cancel: impl Future<Output = CancelReason>) -> Exchange {
        let start_ns = mono_ns();
        let mut seen = Seen::new(start_ns, self.template.size(out.body.len(), &out.correlation_id), self.keep_headers);
        let end = {
            let attempt = pin!(self.attempt(&out, &mut seen));
            let cancel = pin!(cancel);
            let limit = pin!(tokio::time::sleep(Duration::from_nanos(self.timeout_ns)));
            tokio::select! {
                biased;
                result = attempt => End::Came(result),
                reason = cancel => End::Cancelled(reason),
                () = limit => End::Late,
            }
        };
        match end {
            End::Came(Ok(())) => {
                let end_ns = seen.exchange.stamps.end_ns;
                seen.into_exchange(end_ns, Disposition::Finished)
            }
            End::Came(Err(failure)) => seen.into_exchange(mono_ns(), Disposition::Failed(failure)),
            End::Cancelled(reason) => {
                let at_ns = mono_ns();
                seen.into_exchange(at_ns, Disposition::Cancelled { reason, at_ns })
            }
            End::Late => {
                let failure = failure::timeout(seen.stage(), self.timeout_ns);
                seen.into_exchange(mono_ns(), Disposition::Failed(failure))
            }
        }
    }

    /// Closes every connection that carries no request.
    pub fn close_idle(&self) {
        self.idle.borrow_mut().clear();
    }

    /// What happened to connections so far.
    pub fn counters(&self) -> Counters {
        self.counters.get()
    }

    /// Sockets of the kept connections, for tests that watch them.
    #[cfg(test)]
    pub(crate) fn idle_sockets(&self) -> Vec<std::rc::Rc<Socket>> {
        self.idle.borrow().iter().map(|c| std::rc::Rc::clone(&c.socket)).collect()
    }

    fn count(&self, add: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        add(&mut counters);
        self.counters.set(counters);
    }

    async fn attempt(&self, out: &Outgoing, seen: &mut Seen) -> Result<(), Failure> {
        loop {
            let kept = self.checkout();
            seen.exchange.reused = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                None => self.connect(seen).await?,
            };
            seen.socket = Some(std::rc::Rc::clone(&connection.socket));
            let mut request = self.template.request(&out.body, out.request_id, &out.correlation_id);
            if self.gets {
                *request.method_mut() = Method::GET;
            }
            match connection.exchange(request, seen, self.max_response_bytes).await {
                Ok(can_be_kept) => {
                    if seen.exchange.reused {
                        self.count(|c| c.reused += 1);
                    }
                    if can_be_kept && self.keep_connections {
                        connection.idle_since_ns = mono_ns();
                        self.idle.borrow_mut().push(connection);
                    }
                    return Ok(());
                }
                Err(Broken::NotSent) if seen.exchange.reused => {
                    self.count(|c| c.stale += 1);
                    seen.socket = None;
                }
                Err(Broken::NotSent) => return Err(failure::closed(Stage::Send, false)),
                Err(Broken::Failed(failure)) => {
                    if seen.exchange.reused {
                        self.count(|c| c.reused += 1);
                    }
                    return Err(failure);
                }
            }
        }
    }

    /// A kept connection that is still good.
    fn checkout(&self) -> Option<Connection> {
        loop {
            let mut connection = self.idle.borrow_mut().pop()?;
            if mono_ns().saturating_sub(connection.idle_since_ns) > KEEP_ALIVE_NS {
                // The ones below were put back earlier still.
                let below = std::mem::take(&mut *self.idle.borrow_mut()).len() as u64;
                self.count(|c| c.expired += below + 1);
                return None;
            }
            if connection.is_live() {
                return Some(connection);
            }
            self.count(|c| c.stale += 1);
        }
    }

    async fn connect(&self, seen: &mut Seen) -> Result<Connection, Failure> {
        let connection = match self.dialer.connect(seen).await {
            Ok(wire) => {
                seen.stage = Stage::Send;
                Connection::new(wire).await.map_err(|e| failure::http(&e, Stage::Send, false))
            }
            Err(failure) => Err(failure),
        };
        self.count(|c| match connection {
            Ok(_) => c.opened += 1,
            Err(_) => c.refused += 1,
        });
        connection
    }
}
