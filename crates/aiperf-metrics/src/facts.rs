//! What is known of one request once its answer was read and counted: the only input of every formula.

use aiperf_core::exchange::{Exchange, ReadMark};
use aiperf_core::outcome::{Finish, Outcome};
use aiperf_core::ticket::Ticket;
use aiperf_core::usage::Usage;

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
    /// ISL and OSL are the server's own counts, so comparing them with its usage says nothing.
    pub server_token_count: bool,
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
    /// Why the server stopped.
    pub finish: Finish,
    /// The server refused it because it is longer than the model's context.
    pub context_overflow: bool,
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
    /// Headers of the answer were whole.
    pub headers_ns: Option<u64>,
    /// Time that name, TCP and TLS of its connection took, or the wait for one that another request made, nanoseconds: 0 on a kept one,
    /// absent when it had none.
    pub connecting_ns: Option<u64>,
    /// The longest that a part of the answer lay in the kernel before it was read, nanoseconds; absent where the kernel does not stamp.
    pub read_lag_ns: Option<u64>,
}

impl WireFacts {
    /// What ticket and exchange tell.
    pub fn of(ticket: &Ticket, exchange: &Exchange) -> Self {
        let stamps = &exchange.stamps;
        // Who waits for a connection that another request makes waits for the connecting all the same.
        let steps = [stamps.blocked_ns, stamps.dns_ns, stamps.tcp_ns, stamps.tls_ns];
        let fresh = steps.into_iter().flatten().map(|(from, to)| to.saturating_sub(from));
        Self {
            dispatched_ns: Some(ticket.dispatched_ns),
            send_start_ns: stamps.send_start_ns,
            headers_ns: stamps.headers_ns,
            connecting_ns: stamps.send_start_ns.map(|_| fresh.sum()),
            read_lag_ns: exchange.reads.iter().filter_map(ReadMark::read_lag_ns).max().map(u64::from),
        }
    }
}
