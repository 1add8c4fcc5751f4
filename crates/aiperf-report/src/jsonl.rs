//! `profile_export.jsonl`: one line per request, in the order they came back. Runs once per request behind the load.

use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::{Disposition, Failure, Outcome};
use aiperf_core::plan::PhaseKind;
use aiperf_core::ticket::{Ticket, Uuid};
use aiperf_core::time::ClockAnchor;
use aiperf_metrics::{RecordValues, Value};

use crate::write::{self, Object};

/// The phase a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseMeta<'a> {
    /// Warm-up or profiling.
    pub kind: PhaseKind,
    /// Position among all phases.
    pub index: u32,
    /// Position among profiling phases; absent in a warm-up.
    pub profiling_index: Option<u32>,
    /// Its name.
    pub name: &'a str,
}

/// Who and when: everything of a line but its numbers. Times are nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Meta<'a> {
    /// Position of the session in its phase.
    pub session_num: u64,
    /// `X-Request-ID`.
    pub request_id: Uuid,
    /// The same for all turns of a session.
    pub correlation_id: Uuid,
    /// Id of the conversation.
    pub conversation_id: &'a str,
    /// Position of the turn in its conversation.
    pub turn_index: u16,
    /// When it held its place under every limit; AIPerf's credit.
    pub dispatched_ns: u64,
    /// When the transport took it.
    pub start_ns: u64,
    /// When the response headers were whole.
    pub ack_ns: Option<u64>,
    /// When it ended.
    pub end_ns: u64,
    /// The shard that sent it.
    pub shard: u16,
    /// The reader that made this line.
    pub reader: u16,
    /// Its phase.
    pub phase: PhaseMeta<'a>,
    /// When we dropped it on purpose.
    pub cancelled_ns: Option<u64>,
    /// When the schedule wanted it sent.
    pub scheduled_ns: Option<u64>,
    /// The class it ended in.
    pub outcome: Outcome,
}

impl<'a> Meta<'a> {
    /// From the request's ticket and what the wire showed; `reader` is 0.
    pub fn of(
        ticket: &Ticket,
        exchange: &Exchange,
        anchor: &ClockAnchor,
        conversation_id: &'a str,
        phase: PhaseMeta<'a>,
        outcome: Outcome,
    ) -> Self {
        let stamps = &exchange.stamps;
        let cancelled_ns = match exchange.disposition {
            Disposition::Cancelled { at_ns, .. } => Some(anchor.wall(at_ns)),
            _ => None,
        };
        Self {
            session_num: ticket.session,
            request_id: ticket.request_id,
            correlation_id: ticket.correlation_id,
            conversation_id,
            turn_index: ticket.turn,
            dispatched_ns: anchor.wall(ticket.dispatched_ns),
            start_ns: anchor.wall(stamps.start_ns),
            ack_ns: stamps.headers_ns.map(|ns| anchor.wall(ns)),
            end_ns: anchor.wall(stamps.end_ns),
            shard: ticket.shard,
            reader: 0,
            phase,
            cancelled_ns,
            scheduled_ns: ticket.scheduled_ns.map(|ns| anchor.wall(ns)),
            outcome,
        }
    }

    /// The `metadata` object: AIPerf's keys in its order, then `scheduled_ns` and `outcome`, which are ours.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut o = Object::begin(out);
        o.int("session_num", self.session_num);
        o.plain("x_request_id", self.request_id);
        o.plain("x_correlation_id", self.correlation_id);
        o.text("conversation_id", self.conversation_id);
        o.int("turn_index", self.turn_index.into());
        o.int("credit_issued_ns", self.dispatched_ns);
        o.int("request_start_ns", self.start_ns);
        if let Some(ns) = self.ack_ns {
            o.int("request_ack_ns", ns);
        }
        o.int("request_end_ns", self.end_ns);
        o.plain("worker_id", format_args!("worker_{}", self.shard));
        o.plain("record_processor_id", format_args!("record_processor_{}", self.reader));
        o.plain("benchmark_phase", self.phase.kind.name());
        o.int("phase_index", self.phase.index.into());
        if let Some(index) = self.phase.profiling_index {
            o.int("profiling_index", index.into());
        }
        o.text("phase_name", self.phase.name);
        o.plain("phase_kind", self.phase.kind.name());
        o.bool("was_cancelled", self.outcome == Outcome::Cancelled);
        if let Some(ns) = self.cancelled_ns {
            o.int("cancellation_time_ns", ns);
        }
        o.bool("context_overflow_skip", false);
        o.int("agent_depth", 0);
        o.plain("root_correlation_id", self.correlation_id);
        if let Some(ns) = self.scheduled_ns {
            o.int("scheduled_ns", ns);
        }
        o.plain("outcome", outcome_name(self.outcome));
        o.end();
    }
}

/// The name files hold for a class.
pub const fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "cancelled",
        Outcome::Lost => "lost",
        Outcome::Unsent => "unsent",
    }
}

/// Appends one line, newline included. `error` words a failure or a cancellation.
pub fn line(out: &mut Vec<u8>, meta: &Meta<'_>, values: &RecordValues, error: Option<&Failure>) {
    let mut o = Object::begin(out);
    meta.write(o.key("metadata"));
    metrics(o.key("metrics"), values);
    if let Some(failure) = error {
        error_object(o.key("error"), failure);
    }
    o.end();
    out.push(b'\n');
}

/// `{code?, type, message}`.
pub(crate) fn error_object(out: &mut Vec<u8>, failure: &Failure) {
    let mut o = Object::begin(out);
    if let Some(code) = failure.code {
        write::signed(o.key("code"), code);
    }
    o.text("type", &failure.type_name);
    o.text("message", &failure.message);
    o.end();
}

fn metrics(out: &mut Vec<u8>, values: &RecordValues) {
    let mut o = Object::begin(out);
    for (spec, value) in values.iter().filter(|(spec, _)| spec.is_per_record()) {
        let factor = spec.factor();
        let one = |out: &mut Vec<u8>, v: u64| match factor {
            Some(f) => write::real(out, v as f64 * f),
            None => write::int(out, v),
        };
        let out = o.key(spec.tag);
        out.extend_from_slice(b"{\"value\":");
        match value {
            Value::Int(v) => one(out, *v),
            Value::Real(v) => write::real(out, factor.map_or(*v, |f| v * f)),
            Value::List(list) => {
                out.push(b'[');
                for (i, v) in list.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    one(out, *v);
                }
                out.push(b']');
            }
        }
        out.extend_from_slice(b",\"unit\":\"");
        out.extend_from_slice(spec.display.name().as_bytes());
        out.extend_from_slice(b"\"}");
    }
    o.end();
}
