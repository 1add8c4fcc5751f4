//! What is known of one request once its answer was read and counted: the only input of every formula.

use aiperf_core::exchange::{Exchange, ReadMark};
use aiperf_core::outcome::{Finish, Outcome};
use aiperf_core::spec_decode::SpecDecode;
use aiperf_core::ticket::Ticket;
use aiperf_core::usage::Usage;

use crate::cache::CacheFacts;

/// What the endpoint and the run can give; decides which metrics exist at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Answers come as server-sent events.
    pub streaming: bool,
    /// Answers are text that is counted in tokens.
    pub produces_tokens: bool,
    /// Prompts are counted in tokens.
    pub tokenizes_input: bool,
    /// Answers may have a reasoning channel.
    pub reasoning: bool,
    /// The server's usage counts what ISL and OSL count, and they are no counts of its own: comparing them says something.
    pub compares_usage: bool,
}

/// One event or body that carried content (answer text, reasoning or a tool call). Role-only, empty, usage-only and end-marker events
/// are not chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkFact {
    /// When its content was whole: the read that brought the last byte of its data, monotonic nanoseconds.
    pub at_ns: u64,
    /// Whether it carries answer text or a tool call, not reasoning alone.
    pub answer: bool,
}

/// One request as the formulas see it. Stamps are monotonic nanoseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// The class it ended in.
    pub outcome: Outcome,
    /// The transport took the request, before DNS, TCP and TLS.
    pub start_ns: u64,
    /// The end, however it came; trailing usage and end markers included.
    pub end_ns: u64,
    /// When the schedule wanted it sent; absent in closed loop.
    pub scheduled_ns: Option<u64>,
    /// Content chunks in order of arrival; a whole body is one chunk.
    pub chunks: Vec<ChunkFact>,
    /// Input length, tokens.
    pub isl: Option<u64>,
    /// Images of the request, those of turns before it too; 0 where there are none.
    pub images: u64,
    /// How long the request's audio plays, that of turns before it too, nanoseconds; 0 where there is none, or it cannot be told.
    pub audio_ns: u64,
    /// Input length that the turn was to have, tokens; absent when it was not made to a length.
    pub asked_isl: Option<u64>,
    /// Answer tokens, reasoning excluded.
    pub output_tokens: Option<u64>,
    /// Reasoning tokens.
    pub reasoning_tokens: Option<u64>,
    /// Output length asked for, tokens.
    pub requested_osl: Option<u64>,
    /// What the server counted.
    pub usage: Option<Usage>,
    /// The first event with data was whole, be there content in it or not; absent where there are no events.
    pub first_event_ns: Option<u64>,
    /// Time of each token behind the one before it, nanoseconds, where somebody looked how many tokens each chunk has
    /// ([`token_gaps`](crate::token_gaps)).
    pub token_gaps: Vec<u64>,
    /// Tokens of the first chunk as the server counts them; only where each chunk was asked for its counts.
    pub first_chunk_tokens: Option<u64>,
    /// What the server tells of speculative decoding.
    pub spec_decode: Option<SpecDecode>,
    /// Why the server stopped.
    pub finish: Finish,
    /// The server refused it because it is longer than the model's context.
    pub context_overflow: bool,
    /// Turns of its session that are not sent because it failed.
    pub abandoned_turns: u16,
    /// What a prefix cache was to find of its prompt, where somebody looked.
    pub cache: Option<CacheFacts>,
    /// Where it belongs.
    pub place: Place,
    /// Its way to the wire and over it.
    pub wire: WireFacts,
}

/// Where a request belongs, for results by turn, model and server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Position of the turn in its session, from 0.
    pub turn: u16,
    /// Position of its model in the plan's list.
    pub model: u16,
    /// Position of its server in the plan's list.
    pub target: u16,
}

/// What the schedule and the wire showed of a request beside its content. Stamps are monotonic nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WireFacts {
    /// When it held its place under every limit and was handed to the transport; AIPerf's credit.
    pub dispatched_ns: Option<u64>,
    /// First byte of the request handed to the kernel.
    pub send_start_ns: Option<u64>,
    /// Last byte of the request handed to the kernel.
    pub send_end_ns: Option<u64>,
    /// Headers of the answer were whole.
    pub headers_ns: Option<u64>,
    /// First byte of the answer's body.
    pub first_byte_ns: Option<u64>,
    /// Last byte of the answer's body.
    pub last_byte_ns: Option<u64>,
    /// Time spent waiting for a connection that another request was opening, nanoseconds. This and the three below are 0 where there
    /// was nothing to be done, and absent when no connection carried the request.
    pub blocked_ns: Option<u64>,
    /// Time that looking the name up took, nanoseconds.
    pub dns_ns: Option<u64>,
    /// Time that the TCP handshake took, nanoseconds; a proxy's tunnel included.
    pub tcp_ns: Option<u64>,
    /// Time that the TLS handshake took, nanoseconds.
    pub tls_ns: Option<u64>,
    /// Whether a kept connection carried it.
    pub reused: Option<bool>,
    /// Bytes and pieces.
    pub traffic: Option<TrafficFacts>,
    /// The longest that a part of the answer lay in the kernel before it was read, nanoseconds; absent where the kernel does not stamp.
    pub read_lag_ns: Option<u64>,
}

/// Bytes and pieces of one request and its answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrafficFacts {
    /// Bytes of the request's body.
    pub body_sent: u64,
    /// Bytes of the answer's body, transfer coding removed.
    pub body_received: u64,
    /// Bytes of the request, head included.
    pub wire_sent: u64,
    /// Bytes of the answer, head and transfer coding included.
    pub wire_received: u64,
    /// Writes of the request.
    pub chunks_sent: u64,
    /// Reads that brought something of the answer's body.
    pub chunks_received: u64,
}

impl WireFacts {
    /// What ticket and exchange tell.
    pub fn of(ticket: &Ticket, exchange: &Exchange) -> Self {
        let stamps = &exchange.stamps;
        let steps = [stamps.blocked_ns, stamps.dns_ns, stamps.tcp_ns, stamps.tls_ns];
        let [blocked, dns, tcp, tls] = steps.map(length);
        let carried = |ns: u64| stamps.send_start_ns.map(|_| ns);
        Self {
            dispatched_ns: Some(ticket.dispatched_ns),
            send_start_ns: stamps.send_start_ns,
            send_end_ns: stamps.send_end_ns,
            headers_ns: stamps.headers_ns,
            first_byte_ns: stamps.first_byte_ns,
            last_byte_ns: stamps.last_byte_ns,
            blocked_ns: carried(blocked),
            dns_ns: carried(dns),
            tcp_ns: carried(tcp),
            tls_ns: carried(tls),
            reused: stamps.send_start_ns.map(|_| exchange.reused),
            traffic: stamps.send_start_ns.map(|_| TrafficFacts {
                body_sent: exchange.traffic.body_sent,
                body_received: exchange.body.len() as u64,
                wire_sent: exchange.bytes_sent,
                wire_received: exchange.bytes_received,
                chunks_sent: exchange.traffic.writes.into(),
                chunks_received: exchange.reads.len() as u64,
            }),
            read_lag_ns: exchange.reads.iter().filter_map(ReadMark::read_lag_ns).max().map(u64::from),
        }
    }
}

/// How long a step took; 0 when there was none.
fn length(step: Option<(u64, u64)>) -> u64 {
    step.map_or(0, |(from, to)| to.saturating_sub(from))
}
