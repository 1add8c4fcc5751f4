//! The files that grow by a line with every request: its record, and the request and its answer as they were.

use aiperf_core::conversation::TurnHeaders;
use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::{Failure, Outcome};
use aiperf_core::plan::{EndpointPlan, ExportLevel, HttpVersion, Plan};
use aiperf_core::ticket::Ticket;
use aiperf_core::time::ClockAnchor;
use aiperf_core::url::BaseUrl;
use aiperf_metrics::{Facts, RecordValues};
use aiperf_net::Client;
use aiperf_net::sse::SseScanner;
use aiperf_report::jsonl::{self, Meta};
use aiperf_report::raw::{self, Raw, Responses};
use aiperf_report::trace::Trace;

use crate::artifacts::{Folder, Spool};
use crate::error::RunError;

/// See the module.
pub(super) struct Files {
    records: Option<Spool>,
    raw: Option<Spool>,
    /// Each record is to have what the wire showed.
    has_traces: bool,
    plan: EndpointPlan,
    /// The servers.
    urls: Vec<BaseUrl>,
}

/// A request that was read, and all that lines tell of it.
pub(super) struct Line<'a> {
    pub ticket: &'a Ticket,
    pub exchange: &'a Exchange,
    pub anchor: &'a ClockAnchor,
    pub meta: &'a Meta<'a>,
    pub facts: &'a Facts,
    pub values: &'a RecordValues,
    pub failure: Option<&'a Failure>,
    /// Headers that the request had alone.
    pub headers: &'a TurnHeaders,
    /// As it was sent.
    pub body: &'a [u8],
}

impl Files {
    /// Opens those of the plan's export level.
    pub(super) fn create(plan: &Plan, folder: &Folder, urls: Vec<BaseUrl>) -> Result<Self, RunError> {
        let level = plan.artifacts.level;
        let records = (level >= ExportLevel::Records)
            .then(|| Spool::create(folder.records_jsonl(), false))
            .transpose()?;
        let raw = (level >= ExportLevel::Raw).then(|| Spool::create(folder.raw_jsonl(), true)).transpose()?;
        Ok(Self { records, raw, has_traces: plan.artifacts.trace.export, plan: plan.endpoint.clone(), urls })
    }

    /// Whether bodies are looked at.
    pub(super) const fn has_raw(&self) -> bool {
        self.raw.is_some()
    }

    /// What words the headers in lines, for each server; none where no line has any. It opens no connection here. A client belongs to one
    /// thread, so this is called in the one that writes. Shards make the same ones first and fail the run if they cannot be made.
    pub(super) fn senders(&self) -> Vec<Option<Client>> {
        let is_wanted = self.raw.is_some() || self.has_traces;
        let urls = self.urls.iter().filter(|_| is_wanted);
        urls.map(|url| Client::new(&self.plan, url, None).ok()).collect()
    }

    /// Adds the lines of a request; `sender` is the one of its server.
    pub(super) fn add(&mut self, line: &Line<'_>, sender: Option<&Client>) {
        self.add_record(line, sender);
        self.add_raw(line, sender);
    }

    fn add_record(&mut self, line: &Line<'_>, sender: Option<&Client>) {
        let Some(spool) = &mut self.records else { return };
        let Line { ticket, exchange, facts, .. } = *line;
        let headers = sender.filter(|_| self.has_traces).map(|sender| {
            sender.sent_headers(
                ticket.request_id,
                &ticket.correlation_id,
                line.headers,
                exchange.traffic.body_sent,
            )
        });
        let trace = headers.as_ref().map(|headers| Trace {
            exchange,
            anchor: line.anchor,
            headers,
            http_version: match self.plan.http {
                HttpVersion::One => "1.1",
                HttpVersion::Two => "2",
            },
            scheduled_ns: ticket.scheduled_ns,
            is_named: self.plan.unix_socket.is_none()
                && self.urls.get(usize::from(ticket.target)).is_none_or(is_name),
        });
        let said = jsonl::Said {
            trace: trace.as_ref(),
            error: line.failure,
            spec_decode: facts.spec_decode.as_ref().filter(|_| facts.outcome == Outcome::Completed),
            completion_tokens: facts.usage.and_then(|u| u.completion_tokens),
        };
        spool.append(|out| jsonl::line(out, line.meta, line.values, said));
    }

    fn add_raw(&mut self, line: &Line<'_>, sender: Option<&Client>) {
        let (Some(spool), Some(sender)) = (&mut self.raw, sender) else { return };
        let Line { ticket, exchange, .. } = *line;
        let sent = sender.request_headers(ticket.request_id, &ticket.correlation_id, line.headers);
        let sent: Vec<(&str, &str)> = sent.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let events;
        let responses = match exchange.status {
            Some(200..=299) if exchange.is_event_stream() => {
                events = events_of(exchange);
                Responses::Events(&events)
            }
            Some(200..=299) if !exchange.body.is_empty() => Responses::Body {
                at_ns: exchange.stamps.last_byte_ns.unwrap_or(exchange.stamps.end_ns),
                text: &exchange.body,
                content_type: exchange.content_type.as_deref(),
            },
            _ => Responses::None,
        };
        let raw = Raw {
            meta: line.meta,
            start_mono_ns: exchange.stamps.start_ns,
            headers: &sent,
            status: exchange.status,
            responses,
            error: line.failure,
            payload: line.body,
        };
        spool.append(|out| raw::line(out, &raw));
    }

    pub(super) fn flush(&mut self) {
        self.records.iter_mut().chain(&mut self.raw).for_each(Spool::flush);
    }

    /// The files with their label for the footer.
    pub(super) fn finish(self) -> impl Iterator<Item = (&'static str, Spool)> {
        let records = self.records.map(|spool| ("Records", spool));
        records.into_iter().chain(self.raw.map(|spool| ("Raw Records", spool)))
    }
}

/// Whether the host is a name that is looked up.
fn is_name(url: &BaseUrl) -> bool {
    url.host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_err()
}

/// Every event with its fields, stamped with the read that brought its first byte.
#[expect(clippy::type_complexity, reason = "the form the raw file takes")]
fn events_of(exchange: &Exchange) -> Vec<(u64, Vec<(&[u8], &[u8])>)> {
    let mut scanner = SseScanner::new();
    let mut events = Vec::new();
    while let Some(event) = scanner.next(&exchange.body, true) {
        let at_ns = exchange.arrival_ns(event.start()).unwrap_or(exchange.stamps.end_ns);
        events.push((at_ns, event.fields().collect()));
    }
    events
}
