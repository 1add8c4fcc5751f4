//! The client of one shard: keeps connections, carries requests, gives back what the wire showed.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use aiperf_core::conversation::TurnHeaders;
use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::{CancelReason, Disposition, Failure, FailureKind, Stage};
use aiperf_core::plan::{ConnectionReuse, EndpointKind, EndpointPlan, HttpVersion};
use aiperf_core::ticket::{SessionId, Uuid};
use aiperf_core::time::NS_PER_S;
use aiperf_core::url::BaseUrl;
use aiperf_os::mono_ns;
use http::Method;

use crate::connection::{Broken, Connection, ReadBuffer, Unsent};
use crate::dial::Dialer;
use crate::endpoint::{Extraction, FirstContent};
use crate::headers::RequestTemplate;
use crate::limits::{Cut, Limits, Progress};
use crate::outgoing::Kept;
use crate::proxy::Proxy;
use crate::seen::{Carrier, Seen, Watch};
#[cfg(test)]
use crate::wire::Socket;
use crate::wire::Wire;
use crate::{NetError, Outgoing, endpoint, failure};

mod http2;

use http2::Two;

/// How long a request that is to be cancelled may take to be sent, nanoseconds (AIPerf's 300 s).
const SEND_LIMIT_NS: u64 = 300 * NS_PER_S;
/// How long an unused connection is kept, nanoseconds (AIPerf's keep-alive: 300 s).
const KEEP_ALIVE_NS: u64 = 300 * NS_PER_S;
/// A close that crosses a request comes within a round trip of it; so long after, the server had seen the request.
const RESEND_WITHIN_NS: u64 = NS_PER_S;

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
    /// Requests that were sent a second time, because a kept connection turned out closed by the server.
    pub resent: u64,
    /// Kept connections dropped because nobody wanted them for 300 s.
    pub expired: u64,
    /// Connections that could not be made for want of local ports.
    pub port_shortages: u64,
    /// Connections that could not be made for want of descriptors.
    pub descriptor_shortages: u64,
    /// How often the wall clock was found to have been set, which the kernel's receive stamps are told by. Of several clients
    /// the most: each finds the same ones.
    pub clock_steps: u64,
}

impl std::iter::Sum for Counters {
    fn sum<I: Iterator<Item = Self>>(counters: I) -> Self {
        counters.fold(Self::default(), |a, b| Self {
            opened: a.opened + b.opened,
            refused: a.refused + b.refused,
            reused: a.reused + b.reused,
            stale: a.stale + b.stale,
            resent: a.resent + b.resent,
            expired: a.expired + b.expired,
            port_shortages: a.port_shortages + b.port_shortages,
            descriptor_shortages: a.descriptor_shortages + b.descriptor_shortages,
            clock_steps: a.clock_steps.max(b.clock_steps),
        })
    }
}

/// Which came first.
enum End {
    Came(Result<(), Failure>),
    Cut(Cut),
    Cancelled(CancelReason),
    Late,
}

/// The HTTP client of one shard. It stays on the thread that made it; any number of requests can be in flight, each on its
/// own connection. Connections are kept last in, first out, so that few stay warm instead of many getting stale.
///
/// With HTTP/2, requests share connections, each of which has a task: requests must then be sent from a local runtime of tokio
/// or within a `LocalSet`.
#[derive(Debug)]
pub struct Client {
    template: RequestTemplate,
    dialer: Dialer,
    kind: EndpointKind,
    /// Where answers have their content, of an API without a form of its own.
    rule: Option<Arc<Extraction>>,
    timeout_ns: u64,
    connect_timeout_ns: Option<u64>,
    /// Of every request; the rest comes with each.
    limits: Limits,
    max_response_bytes: usize,
    reuse: ConnectionReuse,
    resend: bool,
    /// How long after its last byte out a request may be closed and still be taken for one that the server never saw.
    resend_within_ns: u64,
    keep_headers: bool,
    gets: bool,
    idle: RefCell<Vec<Connection>>,
    buffer: ReadBuffer,
    /// In place of all that is about connections here, where HTTP/2 is spoken.
    two: Option<Two>,
    counters: Cell<Counters>,
}

impl Client {
    /// A client for the server at `url` (the plan's own, or the address a simulated server was given), with `tls` settings
    /// shared between shards; they are made from the plan when an https URL comes without.
    ///
    /// # Errors
    /// A header, path or host that cannot be sent; certificates or keys that cannot be used; a proxy that cannot be spoken to.
    pub fn new(
        plan: &EndpointPlan,
        url: &BaseUrl,
        tls: Option<Arc<rustls::ClientConfig>>,
    ) -> Result<Self, NetError> {
        let proxied = plan.proxy_from_env && plan.unix_socket.is_none();
        let proxy = if proxied { Proxy::from_env(url)? } else { None };
        Self::through(proxy, plan, url, tls)
    }

    /// The same through `proxy`, if there is one.
    pub(crate) fn through(
        proxy: Option<Proxy>,
        plan: &EndpointPlan,
        url: &BaseUrl,
        tls: Option<Arc<rustls::ClientConfig>>,
    ) -> Result<Self, NetError> {
        let dialer = Dialer::new(plan, url, tls, proxy)?;
        let template = RequestTemplate::new(plan, url, &url.join(endpoint::path(plan)), dialer.forwarder())?;
        let (template, two) = match plan.http {
            HttpVersion::One => (template, None),
            HttpVersion::Two => (http2::template(template, url)?, Some(Two::new(url))),
        };
        Ok(Self {
            template,
            dialer,
            two,
            kind: plan.kind,
            rule: crate::endpoint::rule(plan)?,
            timeout_ns: plan.timeout_ns,
            connect_timeout_ns: plan.connect_timeout_ns,
            limits: Limits {
                first_token_ns: plan.first_token_timeout_ns.filter(|_| plan.streaming),
                idle_ns: plan.idle_timeout_ns,
                ..Limits::default()
            },
            max_response_bytes: plan.max_response_bytes.min(u32::MAX as usize),
            reuse: plan.reuse,
            resend: plan.resend,
            resend_within_ns: RESEND_WITHIN_NS,
            keep_headers: false,
            gets: false,
            idle: RefCell::new(Vec::new()),
            buffer: ReadBuffer::new(),
            counters: Cell::new(Counters::default()),
        })
    }

    /// The same client, keeping all headers of answers in [`Exchange::headers`] (else only a redirect's `location`), and both ends of
    /// their connections in [`Exchange::traffic`].
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

    /// Names and values of the headers of a request as they are sent, secrets included, without Host and Content-Length; `own` are those
    /// that it has alone.
    pub fn request_headers(
        &self,
        request_id: Uuid,
        correlation_id: &SessionId,
        own: &TurnHeaders,
    ) -> Vec<(String, String)> {
        let with = self.template.with(own);
        with.as_ref().unwrap_or(&self.template).listed(request_id, correlation_id)
    }

    /// All of them, of a request with a body of `body_len` bytes.
    pub fn sent_headers(
        &self,
        request_id: Uuid,
        correlation_id: &SessionId,
        own: &TurnHeaders,
        body_len: u64,
    ) -> Vec<(String, String)> {
        let with = self.template.with(own);
        with.as_ref().unwrap_or(&self.template).sent(request_id, correlation_id, body_len)
    }

    /// Sends `out` and waits for the whole answer, a limit, or `cancel`, whichever is first. Never fails: what went wrong is
    /// the exchange's disposition. A cut exchange keeps what had come, and its connection is dropped.
    ///
    /// A kept connection that turns out closed before the first byte of the request is written is counted as stale, and
    /// another one is used. If it turns out so later, but before any byte of an answer came, the request is sent again on a
    /// fresh one, once, unless the plan says otherwise. Nothing else is ever sent twice.
    pub async fn exchange(&self, mut out: Outgoing, cancel: impl Future<Output = CancelReason>) -> Exchange {
        let start_ns = mono_ns();
        let template = self.template_of(&out);
        let template = template.as_deref().unwrap_or(&self.template);
        let expected = template.size(out.body.len(), &out.correlation_id);
        let mut seen = Seen::new(start_ns, expected, self.keep_headers);
        seen.body_len = out.body.len() as u64;
        let limits = self.limits_of(&mut out, &mut seen);
        let mut cut = seen.progress.clone().map(|progress| Box::pin(limits.reached(progress)));
        let end = {
            let attempt = pin!(async {
                match &self.two {
                    None => self.attempt(template, &out, &mut seen).await,
                    // Larger than all the rest, and only with those who need it.
                    Some(two) => Box::pin(self.attempt_two(two, template, &out, &mut seen)).await,
                }
            });
            let cut = poll_fn(|cx| cut.as_mut().map_or(Poll::Pending, |cut| cut.as_mut().poll(cx)));
            let cancel = pin!(cancel);
            let limit = pin!(tokio::time::sleep(Duration::from_nanos(self.timeout_ns)));
            tokio::select! {
                biased;
                result = attempt => End::Came(result),
                cut = cut => End::Cut(cut),
                reason = cancel => End::Cancelled(reason),
                () = limit => End::Late,
            }
        };
        let reason = match end {
            End::Came(Ok(())) => {
                let end_ns = seen.exchange.stamps.end_ns;
                let disposition = match self.refused_by_proxy(&seen.exchange) {
                    Some(failure) => Disposition::Failed(failure),
                    None => Disposition::Finished,
                };
                return seen.into_exchange(end_ns, disposition);
            }
            End::Came(Err(failure)) => Err(failure),
            End::Cancelled(reason) => Ok(reason),
            End::Cut(Cut::Asked) => Ok(CancelReason::Asked),
            End::Cut(Cut::Unsent) => {
                Err(failure::unsent(seen.stage(), limits.send_ns.unwrap_or(SEND_LIMIT_NS)))
            }
            End::Cut(Cut::NoContent(limit_ns)) => Err(failure::first_token_timeout(seen.stage(), limit_ns)),
            End::Cut(Cut::Idle(limit_ns)) => Err(failure::idle_timeout(limit_ns)),
            // Both limits are the same then, and the wheel may turn either up first.
            End::Late if limits.send_ns == Some(self.timeout_ns) && !seen.is_sent() => {
                Err(failure::unsent(seen.stage(), self.timeout_ns))
            }
            End::Late => Err(failure::timeout(seen.stage(), self.timeout_ns)),
        };
        let at_ns = mono_ns();
        let disposition = match reason {
            Ok(reason) => Disposition::Cancelled { reason, at_ns },
            Err(failure) => Disposition::Failed(failure),
        };
        seen.into_exchange(at_ns, disposition)
    }

    /// The failure of a proxy to pass a request on, told by a status that proxies give of themselves.
    fn refused_by_proxy(&self, exchange: &Exchange) -> Option<Failure> {
        let proxy = self.dialer.forwarder()?;
        let status = exchange.status.filter(|status| matches!(status, 407 | 502 | 504))?;
        Some(failure::by_proxy(&proxy.authority, status, &exchange.reason, &exchange.body))
    }

    /// The limits of `out`; `seen` is made ready for them, and for who waits for the first content.
    fn limits_of(&self, out: &mut Outgoing, seen: &mut Seen) -> Limits {
        let mut limits = self.limits;
        if out.cancel_after_ns.is_some() {
            limits.cancel_after_ns = out.cancel_after_ns;
            limits.send_ns = Some(self.timeout_ns.min(SEND_LIMIT_NS));
        }
        if limits.any() {
            seen.progress = Some(Rc::new(Progress::new(seen.expected)));
        }
        if out.first_content.is_some() || limits.first_token_ns.is_some() {
            let content = FirstContent::new(self.kind, self.rule.clone());
            seen.watch = Some(Box::new(Watch { content, hook: out.first_content.take() }));
        }
        limits
    }

    /// Closes every connection that carries no request.
    pub fn close_idle(&self) {
        self.idle.borrow_mut().clear();
        if let Some(two) = &self.two {
            two.pool.close_idle();
        }
    }

    /// What happened to connections so far.
    pub fn counters(&self) -> Counters {
        Counters { clock_steps: self.dialer.clock_steps(), ..self.counters.get() }
    }

    /// Sockets of the kept connections, for tests that watch them.
    #[cfg(test)]
    pub(crate) fn idle_sockets(&self) -> Vec<Rc<Socket>> {
        match &self.two {
            None => self.idle.borrow().iter().map(|c| Rc::clone(&c.socket)).collect(),
            Some(two) => two.pool.sockets(),
        }
    }

    fn count(&self, add: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        add(&mut counters);
        self.counters.set(counters);
    }

    /// What makes the request, where that has headers of its own.
    fn template_of(&self, out: &Outgoing) -> Option<Box<RequestTemplate>> {
        self.template.with(out.headers.as_ref()?).map(Box::new)
    }

    async fn attempt(
        &self,
        template: &RequestTemplate,
        out: &Outgoing,
        seen: &mut Seen,
    ) -> Result<(), Failure> {
        loop {
            let kept = if seen.exchange.resent { None } else { self.checkout(out) };
            seen.exchange.reused = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                // Much larger than what goes on afterwards, and over soon.
                None => Box::pin(self.connect(seen, async |wire| Ok(Connection::new(wire)))).await?,
            };
            seen.carry(Some(Carrier::Socket(Rc::clone(&connection.socket))));
            seen.note_addresses(&connection.socket);
            let method = if self.gets { Method::GET } else { Method::POST };
            let head = template.head(&method, out.body.len(), out.request_id, &out.correlation_id);
            let request = Unsent::new(head, out.body.clone());
            // Now, for it may be dropped before it comes to its end.
            let reused = u64::from(seen.exchange.reused);
            self.count(|c| c.reused += reused);
            match connection.exchange(request, seen, self.max_response_bytes, &self.buffer).await {
                Ok(can_be_kept) => {
                    if can_be_kept {
                        self.keep(out, connection);
                    }
                    return Ok(());
                }
                Err(Broken::NotSent) if seen.exchange.reused => self.count(|c| {
                    c.reused -= 1;
                    c.stale += 1;
                }),
                Err(Broken::NotSent) => return Err(failure::closed(Stage::Send, false)),
                // Closed without a byte of an answer: the server had closed it before it saw the request.
                Err(Broken::Failed(failure))
                    if self.may_resend(seen)
                        && seen.exchange.reused
                        && failure.kind == FailureKind::Disconnected =>
                {
                    self.count(|c| c.resent += 1);
                    seen.exchange.resent = true;
                }
                Err(Broken::Failed(failure)) => return Err(failure),
            }
            seen.carry(None);
        }
    }

    /// Whether a request that a kept connection did not carry may go out again. Closed long after it went out, it may have been
    /// worked on: then it is a failure, and not the same work once more.
    fn may_resend(&self, seen: &Seen) -> bool {
        let waited_ns = seen.sent_ns().map_or(0, |sent_ns| mono_ns().saturating_sub(sent_ns));
        self.resend && waited_ns <= self.resend_within_ns
    }

    /// The same client, that sends again only what was closed within `ns` of its last byte out.
    #[cfg(test)]
    pub(crate) fn resending_within(mut self, ns: u64) -> Self {
        self.resend_within_ns = ns;
        self
    }

    /// A kept connection that is still good.
    fn checkout(&self, out: &Outgoing) -> Option<Connection> {
        match self.reuse {
            ConnectionReuse::Pooled => self.pooled(),
            ConnectionReuse::Never => None,
            ConnectionReuse::Sticky => {
                let Kept::One(mut own) = out.sticky.as_ref()?.kept.take()? else { return None };
                let live = own.is_live();
                self.count(|c| c.stale += u64::from(!live));
                live.then_some(*own)
            }
        }
    }

    fn pooled(&self) -> Option<Connection> {
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

    /// Puts a connection where the next request finds it that may use it.
    fn keep(&self, out: &Outgoing, mut connection: Connection) {
        match self.reuse {
            ConnectionReuse::Pooled => {
                connection.idle_since_ns = mono_ns();
                self.idle.borrow_mut().push(connection);
            }
            ConnectionReuse::Never => {}
            ConnectionReuse::Sticky => {
                if let Some(sticky) = &out.sticky {
                    *sticky.kept.borrow_mut() = Some(Kept::One(Box::new(connection)));
                }
            }
        }
    }

    /// A fresh connection, on which `open` speaks HTTP.
    async fn connect<C>(
        &self,
        seen: &mut Seen,
        open: impl AsyncFnOnce(Wire) -> Result<C, Failure>,
    ) -> Result<C, Failure> {
        let dial = async {
            let wire = self.dialer.connect(seen).await?;
            let opened = open(wire).await;
            if opened.is_ok() {
                seen.stage = Stage::Send;
            }
            opened
        };
        let connection = match self.connect_timeout_ns {
            None => dial.await,
            Some(limit_ns) => {
                let dialled = tokio::time::timeout(Duration::from_nanos(limit_ns), dial).await;
                dialled.unwrap_or_else(|_| Err(failure::connect_timeout(seen.stage, limit_ns)))
            }
        };
        self.count(|c| match connection {
            Ok(_) => c.opened += 1,
            Err(_) => c.refused += 1,
        });
        connection
    }
}
