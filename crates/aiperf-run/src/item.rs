//! A request on its way into the files: what ended, and what of its turn the reader has to know.

use std::ops::Range;

use aiperf_core::conversation::TurnHeaders;
use aiperf_core::exchange::Exchange;
use aiperf_core::ticket::Ticket;
use aiperf_net::Answer;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::prepare::Prepared;
use crate::shard::Ended;

/// See the module.
#[derive(Debug)]
pub(crate) struct Item {
    /// How many were handed over before it.
    pub number: u64,
    pub ticket: Ticket,
    pub exchange: Exchange,
    pub turn: TurnFacts,
    /// The body as it was sent; empty where nobody looks at it.
    pub body: Bytes,
    /// What came back, if it was read already.
    pub answer: Option<Answer>,
    /// The turn itself; empty where nobody counts it again.
    pub own: OwnBody,
}

/// What was known of a turn before it was sent. It keeps no text alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TurnFacts {
    /// Id of the conversation.
    pub conversation: String,
    /// Tokens of the body, where they were known.
    pub isl: Option<u64>,
    /// Length the turn was to have.
    pub asked: Option<u64>,
    /// Tokens it has for having been made to a length.
    pub made: Option<u64>,
    /// Output limit asked for.
    pub requested_osl: Option<u64>,
    /// Vectors or scores that should answer it.
    pub results: Option<u64>,
    /// Images of the request, with those of turns that are sent again before it.
    pub images: u64,
    /// How long the audio of the request plays, with that of turns that are sent again before it; 0 where there is none.
    pub audio_ns: u64,
    /// Position of its model in the plan's list.
    pub model: u16,
    /// Headers that it has alone.
    pub headers: TurnHeaders,
    /// It is part of a conversation: what was said before went in front of it.
    pub is_part: bool,
    /// A later turn says again what was said and heard.
    pub is_remembered: bool,
}

impl TurnFacts {
    fn of(prepared: &Prepared, number: usize, is_chained: bool) -> Self {
        let turn = &prepared.turns[number];
        Self {
            conversation: prepared.id.clone(),
            isl: turn.isl,
            asked: turn.length.map(|l| l.asked),
            made: turn.made,
            requested_osl: turn.requested_osl,
            results: turn.results,
            images: prepared.images(number, is_chained),
            audio_ns: prepared.audio_ns(number, is_chained),
            model: turn.model,
            headers: turn.headers.as_deref().cloned().unwrap_or_default(),
            is_part: turn.list.is_some(),
            is_remembered: prepared.is_remembered(number),
        }
    }
}

/// The body of a turn without what was said before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OwnBody {
    pub body: Bytes,
    /// Where in it the elements of its list of messages stand.
    pub list: Option<Range<usize>>,
}

impl OwnBody {
    fn of(prepared: &Prepared, number: usize) -> Self {
        let turn = &prepared.turns[number];
        Self { body: turn.body.clone(), list: turn.list.clone() }
    }
}

/// What of bodies somebody behind the run looks at.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Needs {
    /// All of them as they were sent.
    pub raw: bool,
    /// Those that nobody could count before they were sent.
    pub uncounted: bool,
    /// The turn alone, of requests that are chosen to be counted again: all or a sample.
    pub recount: Option<Recounted>,
}

/// Which requests are counted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recounted {
    All,
    Sample,
}

/// Requests of a sample that are counted whatever comes, the first ones of the run.
const FIRST: u64 = 16;
/// Behind them, one of 2 to the power of this.
const EVERY_BITS: u32 = 6;

impl Recounted {
    /// Whether the request behind `number` others is chosen: the same ones, wherever it is asked.
    pub(crate) fn chooses(self, number: u64) -> bool {
        self == Self::All || is_in_sample(number, FIRST, EVERY_BITS)
    }
}

/// Whether the request behind `number` others is one of the `first` of the run or, behind them, of one in 2 to the power of `every_bits`.
/// Numbers are scattered, so that no rhythm of turns makes a sample of first turns alone.
pub(crate) const fn is_in_sample(number: u64, first: u64, every_bits: u32) -> bool {
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number < first || scattered >> (u64::BITS - every_bits) == 0
}

impl Needs {
    /// The body as it was sent, if somebody will look at it.
    pub(crate) fn body<'a>(self, ended: &'a Ended, turn: &TurnFacts) -> &'a [u8] {
        if self.raw || (self.uncounted && turn.is_part && turn.isl.is_none()) { &ended.body } else { &[] }
    }

    /// The turn alone, if somebody will look at it.
    pub(crate) fn own(self, number: u64, ended: &Ended, turn: &TurnFacts) -> OwnBody {
        match self.recount.filter(|r| turn.made.is_some() && r.chooses(number)) {
            Some(_) => OwnBody::of(&ended.prepared, usize::from(ended.ticket.turn)),
            None => OwnBody::default(),
        }
    }
}

/// What is known of the turn that `ended`.
pub(crate) fn turn_of(ended: &Ended) -> TurnFacts {
    TurnFacts::of(&ended.prepared, usize::from(ended.ticket.turn), ended.is_chained)
}

impl Item {
    /// Of a request that never left memory.
    pub(crate) fn new(number: u64, ended: Ended) -> Self {
        let turn = turn_of(&ended);
        let own = OwnBody::of(&ended.prepared, usize::from(ended.ticket.turn));
        let Ended { ticket, exchange, prepared: _, body, is_chained: _, answer } = ended;
        Self { number, ticket, exchange, turn, body, answer, own }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_the_first_ones_and_an_even_share_of_the_others() {
        let chosen: Vec<u64> = (0..64_000).filter(|n| Recounted::Sample.chooses(*n)).collect();
        assert_eq!(chosen[..16], (0..16).collect::<Vec<_>>());
        assert!((1000..1030).contains(&chosen.len()), "{}", chosen.len());
        for turns in 2..8 {
            let firsts = chosen.iter().filter(|n| **n % turns == 0).count() as u64;
            assert!((firsts * turns).abs_diff(chosen.len() as u64) < 200, "{firsts} of {turns} turns");
        }
        assert!((0..100).all(|n| Recounted::All.chooses(n)));
    }
}
