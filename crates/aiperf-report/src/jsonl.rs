//! `profile_export.jsonl`: one line per request, in the order they came back. Runs once per request behind the load.

use std::sync::LazyLock;

use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::{Disposition, Failure, Finish, Outcome};
use aiperf_core::plan::PhaseKind;
use aiperf_core::spec_decode::SpecDecode;
use aiperf_core::ticket::{SessionId, Ticket, Uuid};
use aiperf_core::time::ClockAnchor;
use aiperf_metrics::{CacheFacts, METRICS, MetricSpec, RecordValues, Value};

use crate::trace::{self, Trace};
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
    pub correlation_id: &'a SessionId,
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
    /// When its first byte went out.
    pub send_start_ns: Option<u64>,
    /// When its last byte went out.
    pub send_end_ns: Option<u64>,
    /// When the first byte of the answer's body came.
    pub receive_start_ns: Option<u64>,
    /// The server it went to, where there are several; set by whoever knows them.
    pub url: Option<&'a str>,
    /// The model it asked for, where there are several; set by whoever knows them.
    pub model: Option<&'a str>,
    /// The class it ended in.
    pub outcome: Outcome,
    /// Why the server stopped, in our word and in its own; set by whoever read the answer.
    pub finish: (Finish, Option<&'a str>),
    /// Tokens of the first chunk, where ITL is taken without them.
    pub first_chunk_tokens: Option<u64>,
    /// Turns of its session that are not sent because it failed.
    pub abandoned_turns: u16,
    /// A later turn that holds all that it is, and no answers to this run's; set by whoever knows it.
    pub self_contained: bool,
    /// What a prefix cache was to find of its prompt, where somebody looked.
    pub expected_cache: Option<CacheFacts>,
}

impl<'a> Meta<'a> {
    /// From the request's ticket and what the wire showed; `reader` is 0, and there is neither `url` nor `model`.
    pub fn of(
        ticket: &'a Ticket,
        exchange: &Exchange,
        anchor: &ClockAnchor,
        conversation_id: &'a str,
        phase: PhaseMeta<'a>,
        outcome: Outcome,
    ) -> Self {
        let stamps = &exchange.stamps;
        let wall = |ns: Option<u64>| ns.map(|ns| anchor.wall(ns));
        let cancelled_ns = match exchange.disposition {
            Disposition::Cancelled { at_ns, .. } => Some(anchor.wall(at_ns)),
            _ => None,
        };
        Self {
            session_num: ticket.session,
            request_id: ticket.request_id,
            correlation_id: &ticket.correlation_id,
            conversation_id,
            turn_index: ticket.turn,
            dispatched_ns: anchor.wall(ticket.dispatched_ns),
            start_ns: anchor.wall(stamps.start_ns),
            ack_ns: wall(stamps.headers_ns),
            end_ns: anchor.wall(stamps.end_ns),
            shard: ticket.shard,
            reader: 0,
            phase,
            cancelled_ns,
            scheduled_ns: wall(ticket.scheduled_ns),
            send_start_ns: wall(stamps.send_start_ns),
            send_end_ns: wall(stamps.send_end_ns),
            receive_start_ns: wall(stamps.first_byte_ns),
            url: None,
            model: None,
            outcome,
            finish: (Finish::Unsaid, None),
            first_chunk_tokens: None,
            abandoned_turns: ticket.abandoned_turns,
            self_contained: false,
            expected_cache: None,
        }
    }

    /// The `metadata` object: AIPerf's keys in its order, then what is ours: `scheduled_ns`, further stamps of the wire under the names
    /// they have in AIPerf's `trace_data`, `url`, `model`, `outcome`, `finish_reason` with the server's own word for it,
    /// `first_chunk_tokens`, `self_contained`, and what a prefix cache was to find.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut o = Object::begin(out);
        o.int("session_num", self.session_num);
        o.ascii("x_request_id", &self.request_id.text());
        let random;
        let correlation = match self.correlation_id {
            SessionId::Random(id) => {
                random = id.text();
                &random[..]
            }
            SessionId::Fixed(text) => text.as_bytes(),
        };
        o.ascii("x_correlation_id", correlation);
        o.text("conversation_id", self.conversation_id);
        o.int("turn_index", self.turn_index.into());
        o.int("credit_issued_ns", self.dispatched_ns);
        o.int("request_start_ns", self.start_ns);
        if let Some(ns) = self.ack_ns {
            o.int("request_ack_ns", ns);
        }
        o.int("request_end_ns", self.end_ns);
        o.numbered("worker_id", "worker_", self.shard.into());
        o.numbered("record_processor_id", "record_processor_", self.reader.into());
        let kind = self.phase.kind.name().as_bytes();
        o.ascii("benchmark_phase", kind);
        o.int("phase_index", self.phase.index.into());
        if let Some(index) = self.phase.profiling_index {
            o.int("profiling_index", index.into());
        }
        o.text("phase_name", self.phase.name);
        o.ascii("phase_kind", kind);
        o.bool("was_cancelled", self.outcome == Outcome::Cancelled);
        if let Some(ns) = self.cancelled_ns {
            o.int("cancellation_time_ns", ns);
        }
        o.bool("context_overflow_skip", false);
        o.int("agent_depth", 0);
        o.ascii("root_correlation_id", correlation);
        for (key, ns) in [
            ("scheduled_ns", self.scheduled_ns),
            ("request_send_start_ns", self.send_start_ns),
            ("request_send_end_ns", self.send_end_ns),
            ("response_receive_start_ns", self.receive_start_ns),
        ] {
            if let Some(ns) = ns {
                o.int(key, ns);
            }
        }
        if let Some(url) = self.url {
            o.text("url", url);
        }
        if let Some(model) = self.model {
            o.text("model", model);
        }
        o.ascii("outcome", outcome_name(self.outcome).as_bytes());
        if let (finish, Some(word)) = self.finish {
            o.ascii("finish_reason", finish.name().as_bytes());
            o.text("server_finish_reason", word);
        }
        if let Some(tokens) = self.first_chunk_tokens {
            o.int("first_chunk_tokens", tokens);
        }
        if self.abandoned_turns > 0 {
            o.int("abandoned_turns", self.abandoned_turns.into());
        }
        if self.self_contained {
            o.bool("self_contained", true);
        }
        if let Some(cache) = self.expected_cache {
            o.int("rendered_prompt_tokens", cache.prompt);
            o.int("expected_cached_tokens", cache.cached);
            o.int("expected_cached_tokens_from_warmup", cache.warmup);
            o.int("expected_cached_tokens_with_replies", cache.with_replies);
        }
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

/// What an answer adds to a line beside its numbers.
#[derive(Clone, Copy, Default)]
pub struct Said<'a> {
    /// What the wire showed, if that was asked for.
    pub trace: Option<&'a Trace<'a>>,
    /// Words a failure or a cancellation.
    pub error: Option<&'a Failure>,
    /// What the server tells of speculative decoding.
    pub spec_decode: Option<&'a SpecDecode>,
    /// Completion tokens as the server counts them.
    pub completion_tokens: Option<u64>,
}

/// Appends one line, newline included.
pub fn line(out: &mut Vec<u8>, meta: &Meta<'_>, values: &RecordValues, said: Said<'_>) {
    let mut o = Object::begin(out);
    meta.write(o.key("metadata"));
    metrics(o.key("metrics"), values);
    if let Some(trace) = said.trace {
        trace::write(o.key("trace_data"), trace);
    }
    if let Some(stats) = said.spec_decode {
        spec_decode(o.key("spec_decode_acceptance"), stats, said.completion_tokens);
    }
    if let Some(failure) = said.error {
        let mut e = Object::begin(o.key("error"));
        error_words(&mut e, failure);
        // Ours: what the words alone do not tell for sure.
        if let Some(code) = &failure.server_code {
            e.text("server_code", code);
        }
        for (key, value) in
            [("kind", serde_json::to_string(&failure.kind)), ("stage", serde_json::to_string(&failure.stage))]
        {
            e.key(key).extend_from_slice(value.unwrap_or_default().as_bytes());
        }
        e.bool("retryable", failure.retryable);
        e.end();
    }
    o.end();
    out.push(b'\n');
}

/// AIPerf's keys in its order.
fn spec_decode(out: &mut Vec<u8>, stats: &SpecDecode, completion_tokens: Option<u64>) {
    let mut o = Object::begin(out);
    o.plain("engine", "vllm");
    o.real("mean_acceptance_length", stats.mean_acceptance_length);
    o.real("draft_acceptance_rate", stats.draft_acceptance_rate);
    let mut places = Object::begin(o.key("acceptance_histogram"));
    for (accepted, steps) in stats.histogram.iter().enumerate().filter(|(_, steps)| **steps > 0) {
        places.int(&accepted.to_string(), *steps);
    }
    places.end();
    o.int("num_accepted_draft_tokens", stats.accepted);
    o.int("num_draft_tokens", stats.drafted);
    o.int("num_spec_steps", stats.steps);
    for (key, count) in [("num_spec_tokens", stats.width), ("completion_tokens", completion_tokens)] {
        if let Some(count) = count {
            o.int(key, count);
        }
    }
    for (key, list) in
        [("per_step_accepted", &stats.per_step_accepted), ("per_step_drafted", &stats.per_step_drafted)]
    {
        if let Some(list) = list {
            let out = o.key(key);
            let _ = serde_json::to_writer(out, list);
        }
    }
    o.end();
}

/// `{code?, type, message}`.
pub(crate) fn error_object(out: &mut Vec<u8>, failure: &Failure) {
    let mut o = Object::begin(out);
    error_words(&mut o, failure);
    o.end();
}

fn error_words(o: &mut Object<'_>, failure: &Failure) {
    if let Some(code) = failure.code {
        write::signed(o.key("code"), code);
    }
    o.text("type", &failure.type_name);
    o.text("message", &failure.message);
}

/// What is the same for a metric in every line.
struct Around {
    before: Box<[u8]>,
    factor: Option<f64>,
    after: Box<[u8]>,
}

impl Around {
    /// `None` of a metric that lines do not have.
    fn of(spec: &MetricSpec) -> Option<Self> {
        spec.is_per_record().then(|| Self {
            before: format!("\"{}\":{{\"value\":", spec.tag).into_bytes().into(),
            factor: spec.factor(),
            after: format!(",\"unit\":\"{}\"}}", spec.display.name()).into_bytes().into(),
        })
    }
}

/// In the order of [`METRICS`].
static AROUND: LazyLock<Vec<Option<Around>>> = LazyLock::new(|| METRICS.iter().map(Around::of).collect());

fn metrics(out: &mut Vec<u8>, values: &RecordValues) {
    out.push(b'{');
    let begin = out.len();
    for (spec, value) in values.iter() {
        if let Some(around) = METRICS.element_offset(spec).and_then(|at| AROUND[at].as_ref()) {
            if out.len() > begin {
                out.push(b',');
            }
            out.extend_from_slice(&around.before);
            scaled(out, around.factor, value);
            out.extend_from_slice(&around.after);
        }
    }
    out.push(b'}');
}

/// A value in its display unit.
pub(crate) fn value(out: &mut Vec<u8>, spec: &MetricSpec, value: &Value) {
    scaled(out, spec.factor(), value);
}

fn scaled(out: &mut Vec<u8>, factor: Option<f64>, value: &Value) {
    let one = |out: &mut Vec<u8>, v: u64| match factor {
        Some(f) => write::real(out, v as f64 * f),
        None => write::int(out, v),
    };
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use aiperf_core::exchange::Stamps;

    fn ticket() -> Ticket {
        Ticket {
            phase: 1,
            session: 7,
            entry: 3,
            turn: 0,
            shard: 2,
            target: 0,
            request_id: Uuid::from_random(1),
            correlation_id: Uuid::from_random(2).into(),
            scheduled_ns: Some(900),
            dispatched_ns: 950,
            abandoned_turns: 0,
        }
    }

    fn exchange(disposition: Disposition) -> Exchange {
        Exchange {
            stamps: Stamps {
                start_ns: 1000,
                send_start_ns: Some(1100),
                send_end_ns: Some(1200),
                headers_ns: Some(1500),
                first_byte_ns: Some(1600),
                end_ns: 9000,
                ..Stamps::default()
            },
            reused: true,
            resent: false,
            status: Some(200),
            reason: String::new(),
            content_type: None,
            headers: Vec::new(),
            body: Vec::new(),
            reads: Vec::new(),
            bytes_sent: 0,
            bytes_received: 0,
            traffic: aiperf_core::exchange::Traffic::default(),
            disposition,
        }
    }

    const PHASE: PhaseMeta<'static> =
        PhaseMeta { kind: PhaseKind::Profiling, index: 1, profiling_index: Some(0), name: "profiling" };

    fn written(meta: &Meta<'_>, values: &RecordValues, error: Option<&Failure>) -> String {
        let mut out = Vec::new();
        line(&mut out, meta, values, Said { error, ..Said::default() });
        let text = String::from_utf8(out).expect("UTF-8");
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.ends_with('\n'));
        text
    }

    #[test]
    fn a_completed_request() {
        let exchange = exchange(Disposition::Finished);
        let ticket = ticket();
        let mut meta =
            Meta::of(&ticket, &exchange, &sample::ANCHOR, "session_000003", PHASE, Outcome::Completed);
        meta.url = Some("http://one:8000/v1");
        meta.finish = (Finish::Length, Some("max_tokens"));
        meta.first_chunk_tokens = Some(2);
        let values = sample::recorder_and_values().1;
        insta::assert_snapshot!(written(&meta, &values[0], None).replace("},", "},\n"));
    }

    #[test]
    fn a_cancelled_request_in_a_warm_up() {
        use aiperf_core::outcome::CancelReason;
        let dropped = Disposition::Cancelled { reason: CancelReason::GraceOver, at_ns: 8000 };
        let phase =
            PhaseMeta { kind: PhaseKind::Warmup, index: 0, profiling_index: None, name: "warm \"up\"" };
        let mut ticket = ticket();
        ticket.scheduled_ns = None;
        let mut exchange = exchange(dropped);
        exchange.stamps =
            Stamps { start_ns: 1000, send_start_ns: Some(1100), end_ns: 9000, ..Stamps::default() };
        let meta = Meta::of(&ticket, &exchange, &sample::ANCHOR, "a\nb", phase, Outcome::Cancelled);
        let values = sample::recorder_and_values().1;
        let failure = sample::cancelled();
        insta::assert_snapshot!(written(&meta, &values[3], Some(&failure)).replace("},", "},\n"));
    }

    #[test]
    fn counts_of_speculative_decoding_have_aiperf_s_keys() {
        let mut out = Vec::new();
        let stats = SpecDecode { per_step_drafted: Some(vec![3; 10]), ..sample::spec_decode() };
        spec_decode(&mut out, &stats, Some(20));
        let expected = r#"{"engine":"vllm","mean_acceptance_length":2.5,"draft_acceptance_rate":0.5,"acceptance_histogram":{"0":2,"1":3,"3":5},"num_accepted_draft_tokens":18,"num_draft_tokens":30,"num_spec_steps":10,"num_spec_tokens":3,"completion_tokens":20,"per_step_drafted":[3,3,3,3,3,3,3,3,3,3]}"#;
        assert_eq!(String::from_utf8(out).expect("UTF-8"), expected);
    }

    #[test]
    fn every_line_is_json_with_the_values_of_the_request() {
        let exchange = exchange(Disposition::Finished);
        let ticket = ticket();
        let meta = Meta::of(&ticket, &exchange, &sample::ANCHOR, "s", PHASE, Outcome::Completed);
        let values = sample::recorder_and_values().1;
        let line: serde_json::Value = serde_json::from_str(&written(&meta, &values[0], None)).expect("JSON");
        assert_eq!(line["metadata"]["request_start_ns"], sample::ANCHOR.wall(1000));
        assert_eq!(line["metadata"]["credit_issued_ns"], sample::ANCHOR.wall(950));
        assert_eq!(line["metadata"]["scheduled_ns"], sample::ANCHOR.wall(900));
        assert_eq!(line["metrics"]["output_sequence_length"]["value"], 4);
        assert_eq!(line["metrics"]["inter_chunk_latency"]["value"].as_array().map(Vec::len), Some(3));
        for internal in ["requested_osl", "osl_mismatch_count", "request_count"] {
            assert!(line["metrics"].get(internal).is_none(), "{internal}");
        }
    }
}
