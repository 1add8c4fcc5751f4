//! The composer: turns the workload into request bodies ahead of the send, on its own thread.
//!
//! For each session in order it finds the conversation, encodes its turns, counts their tokens (the *sent* length) and
//! puts them into the [`Ring`]. What it makes for the first time also goes into `inputs.json`, streamed beside the run.
//! Conversations that will be sent again are kept up to a byte budget; beyond it they are made again, since a workload
//! is a function.

use std::sync::Arc;

use aiperf_core::conversation::Turn;
use aiperf_core::plan::EndpointKind;
use aiperf_data::{Sequential, Visit, Workload};
use aiperf_net::{Endpoint, Request};
use aiperf_tokens::Tokenizer;
use bytes::Bytes;

use crate::artifacts::InputsFile;
use crate::error::RunError;
use crate::ring::Ring;

/// Bytes of bodies kept for sessions that send a conversation again.
const KEPT_BYTES: usize = 256 << 20;

/// A conversation ready for the wire.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Its id.
    pub id: String,
    /// Position in the workload.
    pub entry: usize,
    /// Its turns in order; at least one.
    pub turns: Vec<PreparedTurn>,
}

/// A request ready for the wire.
#[derive(Debug)]
pub(crate) struct PreparedTurn {
    /// The whole JSON body.
    pub body: Bytes,
    /// Tokens of it as the tokenizer counts; `None` without a tokenizer.
    pub isl: Option<u64>,
    /// Output limit asked for.
    pub requested_osl: Option<u64>,
    /// Think time after the turn before it.
    pub delay_ns: Option<u64>,
}

impl Prepared {
    fn bytes(&self) -> usize {
        self.turns.iter().map(|t| t.body.len()).sum()
    }
}

/// Makes prepared conversations.
pub(crate) struct Composer {
    workload: Arc<dyn Workload>,
    endpoint: Arc<Endpoint>,
    kind: EndpointKind,
    /// Counts what is sent; `None` when the server's counts are used.
    counter: Option<Arc<dyn Tokenizer>>,
    inputs: Option<InputsFile>,
    /// Conversations before this one are in `inputs.json`.
    written: usize,
    /// Whether conversations will be sent more than once.
    repeats: bool,
    kept: Vec<Arc<Prepared>>,
    kept_bytes: usize,
}

impl Composer {
    /// A composer over `workload`; `repeats` says that sessions outnumber conversations.
    pub(crate) fn new(
        workload: Arc<dyn Workload>,
        endpoint: Arc<Endpoint>,
        kind: EndpointKind,
        counter: Option<Arc<dyn Tokenizer>>,
        inputs: Option<InputsFile>,
        repeats: bool,
    ) -> Self {
        Self {
            workload,
            endpoint,
            kind,
            counter,
            inputs,
            written: 0,
            repeats,
            kept: Vec::new(),
            kept_bytes: 0,
        }
    }

    /// Fills `ring` with the sessions of a phase: session `s` sends what session `base + s` of the run sends. Ends after `limit`
    /// sessions or when the ring closes.
    pub(crate) fn fill(&mut self, ring: &Ring<Arc<Prepared>>, base: u64, limit: u64) -> Result<(), RunError> {
        let order = Sequential::new(self.workload.len());
        for session in 0..limit {
            if ring.is_closed() {
                break;
            }
            let prepared = self.prepared(order.entry_for(base + session)).inspect_err(|_| ring.close())?;
            let bytes = prepared.bytes() as u64;
            if ring.put(prepared, bytes).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Ends `inputs.json`.
    pub(crate) fn finish(self) -> Option<InputsFile> {
        self.inputs
    }

    fn prepared(&mut self, entry: usize) -> Result<Arc<Prepared>, RunError> {
        // Sampling is sequential, so the kept ones are the first ones.
        if let Some(kept) = self.kept.get(entry) {
            return Ok(kept.clone());
        }
        let prepared = Arc::new(self.compose(entry)?);
        if entry == self.written {
            self.written += 1;
            if let Some(inputs) = &mut self.inputs {
                inputs.entry(&prepared.id, prepared.turns.iter().map(|t| t.body.as_ref()));
            }
        }
        let bytes = prepared.bytes();
        if self.repeats && entry == self.kept.len() && self.kept_bytes + bytes <= KEPT_BYTES {
            self.kept_bytes += bytes;
            self.kept.push(prepared.clone());
        }
        Ok(prepared)
    }

    fn compose(&self, entry: usize) -> Result<Prepared, RunError> {
        let conversation = self.workload.conversation(entry, Visit::default())?;
        let turns = conversation.turns.iter().map(|t| self.turn(t)).collect::<Result<_, _>>()?;
        Ok(Prepared { id: conversation.id, entry, turns })
    }

    fn turn(&self, turn: &Turn) -> Result<PreparedTurn, RunError> {
        let mut body = Vec::with_capacity(256 + turn.texts.iter().map(String::len).sum::<usize>());
        let request = Request { system: None, user_context: None, turn, opens: true };
        self.endpoint.encode(&request, &mut body)?;
        let isl = self.counter.as_ref().map(|t| count_body(&**t, &self.endpoint, self.kind, &body));
        Ok(PreparedTurn {
            body: Bytes::from(body),
            isl,
            requested_osl: turn.max_tokens,
            delay_ns: turn.delay_ns,
        })
    }
}

/// Tokens of a body: its texts, each counted alone, for what joins them is the server's affair. A completions server puts the
/// tokenizer's own specials (BOS) in front of each prompt, so they are counted; what a chat server's template adds is not
/// known here.
fn count_body(tokenizer: &dyn Tokenizer, endpoint: &Endpoint, kind: EndpointKind, body: &[u8]) -> u64 {
    let specials = if kind.has_messages() { 0 } else { tokenizer.prompt_specials() };
    endpoint.texts(body).iter().map(|text| (tokenizer.count(text) + specials) as u64).sum()
}
