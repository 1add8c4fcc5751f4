//! Requests over HTTP/2: which connection they go on, and when they go a second time.

use std::rc::Rc;

use aiperf_core::outcome::{Failure, FailureKind, Stage};
use aiperf_core::plan::ConnectionReuse;
use aiperf_core::ticket::Uuid;
use aiperf_core::url::{self, BaseUrl};
use aiperf_os::mono_ns;
use bytes::Bytes;
use http::header::HOST;
use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{Method, Request, Uri, Version};

use super::{Client, KEEP_ALIVE_NS};
use crate::headers::RequestTemplate;
use crate::http2::{Broken, Dropped, Lease, Pool, Shared};
use crate::outgoing::Kept;
use crate::seen::Seen;
use crate::{NetError, Outgoing, failure};

/// What a client needs beside the rest to speak HTTP/2.
#[derive(Debug)]
pub(super) struct Two {
    pub(super) pool: Pool,
    /// `host:port`, for messages.
    server: String,
}

impl Two {
    /// For the server at `url`.
    pub(super) fn new(url: &BaseUrl) -> Self {
        Self { pool: Pool::new(), server: url.authority() }
    }
}

/// Requests of `template` for the server at `url`, over HTTP/2. Their `Host` is the authority: the user's own, if there is one.
pub(super) fn template(template: RequestTemplate, url: &BaseUrl) -> Result<RequestTemplate, NetError> {
    let request = template.request(&Bytes::new(), Uuid::from_random(0), &Uuid::from_random(0).into());
    let host = request.headers().get(HOST).map_or(&b""[..], |host| host.as_bytes());
    let authority = Authority::try_from(host)
        .map_err(|_| NetError::HostName { host: String::from_utf8_lossy(host).into_owned() })?;
    let mut parts = Parts::default();
    parts.scheme = Some(if url.scheme == url::Scheme::Https { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = Some(authority);
    let root = PathAndQuery::from_static("/");
    parts.path_and_query = Some(request.uri().path_and_query().cloned().unwrap_or(root));
    let uri = Uri::from_parts(parts).map_err(|_| NetError::Target { target: request.uri().to_string() })?;
    Ok(template.for_http2(uri))
}

impl Client {
    /// As [`Client::attempt`], over HTTP/2.
    pub(super) async fn attempt_two(
        &self,
        two: &Two,
        template: &RequestTemplate,
        out: &Outgoing,
        seen: &mut Seen,
    ) -> Result<(), Failure> {
        loop {
            let (lease, reused) = self.lease(two, out, seen).await?;
            seen.exchange.reused = reused;
            if reused && lease.was_idle && !lease.shared.is_live().await {
                lease.shared.retire();
                self.count(|c| c.stale += 1);
                continue;
            }
            self.count(|c| c.reused += u64::from(reused));
            let head = self.head(template, out);
            let result = lease.shared.exchange(head, out.body.clone(), seen, self.max_response_bytes).await;
            let (failure, again) = match result {
                Ok(()) => {
                    if self.reuse == ConnectionReuse::Sticky
                        && let Some(sticky) = &out.sticky
                    {
                        *sticky.kept.borrow_mut() = Some(Kept::Two(Rc::clone(&lease.shared)));
                    }
                    return Ok(());
                }
                Err(Broken::NotSent) if reused => {
                    self.count(|c| {
                        c.reused -= 1;
                        c.stale += 1;
                    });
                    continue;
                }
                Err(Broken::NotSent) => (failure::closed(Stage::Send, false), false),
                Err(Broken::Untaken(failure)) => (failure, true),
                // As with HTTP/1.1: closed under the first request after a pause, the server had closed it before.
                Err(Broken::Failed(failure)) => {
                    let again = reused
                        && lease.was_idle
                        && failure.kind == FailureKind::Disconnected
                        && self.may_resend(seen);
                    (failure, again && !lease.shared.is_open())
                }
            };
            if !again || !self.resend || seen.exchange.resent {
                return Err(failure);
            }
            self.count(|c| c.resent += 1);
            seen.exchange.resent = true;
            seen.carry(None);
        }
    }

    /// A place on a connection, and whether another request had it made.
    async fn lease(&self, two: &Two, out: &Outgoing, seen: &mut Seen) -> Result<(Lease, bool), Failure> {
        let own = match self.reuse {
            ConnectionReuse::Pooled => loop {
                if seen.exchange.resent {
                    return Ok((two.pool.open(self.open_two(two, seen)).await?, false));
                }
                let mut dropped = Dropped::default();
                let found = two.pool.find(KEEP_ALIVE_NS, &mut dropped);
                self.count(|c| {
                    c.stale += dropped.stale;
                    c.expired += dropped.expired;
                });
                if let Some(lease) = found {
                    return Ok((lease, true));
                }
                seen.stage = Stage::Connect;
                let began = mono_ns();
                if let Some(lease) = two.pool.wait_or_open(self.open_two(two, seen)).await? {
                    return Ok((lease, false));
                }
                let first = seen.exchange.stamps.blocked_ns.map_or(began, |(from, _)| from);
                seen.exchange.stamps.blocked_ns = Some((first, mono_ns()));
            },
            ConnectionReuse::Never => None,
            ConnectionReuse::Sticky => out.sticky.as_ref().and_then(|sticky| sticky.kept.take()),
        };
        Ok(match own {
            Some(Kept::Two(shared)) if !seen.exchange.resent => (Lease::new(shared), true),
            _ => (Lease::new(self.open_two(two, seen).await?), false),
        })
    }

    async fn open_two(&self, two: &Two, seen: &mut Seen) -> Result<Rc<Shared>, Failure> {
        Box::pin(self.connect(seen, async |wire| Shared::open(wire, &two.server).await)).await
    }

    fn head(&self, template: &RequestTemplate, out: &Outgoing) -> Request<()> {
        let mut head = template.request(&out.body, out.request_id, &out.correlation_id);
        if self.gets {
            *head.method_mut() = Method::GET;
        }
        *head.version_mut() = Version::HTTP_2;
        head
    }
}
