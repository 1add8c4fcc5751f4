//! Looks at each request of a dry run: its lengths, its bytes, whether it was sent before, and what a prefix cache finds of it.

use std::sync::Arc;

use aiperf_core::plan::{PhaseKind, PhasePlan};
use aiperf_metrics::CacheFacts;
use aiperf_net::Endpoint;
use aiperf_report::dry_run::{ArrivalCurve, Bound, CacheForecast, LengthCounts, PhaseForecast, Repeats};
use aiperf_tokens::marked_block_hashes;
use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::reply::Replies;
use super::walk::{Looker, Walked};
use crate::count::BodyCounter;
use crate::error::RunError;
use crate::filler;
use crate::history::History;
use crate::phase::Starts;
use crate::prefix_cache::{PrefixCache, body_hash};
use crate::prepare::{Composer, Prepared, Sessions};
use crate::prompt_ids::PromptIds;

/// What a look is made of.
pub(super) struct LookSetup {
    pub composer: Composer,
    /// Counts as a run counts; `None` where the server's counts are used.
    pub counter: Option<BodyCounter>,
    pub endpoint: Arc<Endpoint>,
    /// Tells what servers prefill; `None` where that is not known.
    pub prompts: Option<PromptIds>,
    /// Stands in for answers; `None` without a tokenizer that could say their length.
    pub replies: Option<Replies>,
    pub cache: PrefixCache,
    /// A conversation has the same requests whenever it is sent.
    pub is_fixed: bool,
}

/// A request that was looked at.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// The last phase that sent it, and how often.
    phase: u16,
    times: u32,
    /// A warm-up has sent it.
    warmup: bool,
    /// What was found of it, were it sent once more.
    again: Option<CacheFacts>,
}

/// See the module.
pub(super) struct Look {
    setup: LookSetup,
    sessions: Sessions,
    is_warmup: bool,
    phase: u16,
    seen: FxHashMap<u64, Seen>,
    told: Told,
    /// Requests of all phases in which no prompt can be read.
    unread: u64,
}

/// What is known of the phase so far.
#[derive(Debug, Default)]
struct Told {
    sessions: u64,
    requests: u64,
    later_turns: u64,
    isl_asked: LengthCounts,
    isl_sent: LengthCounts,
    exact: u64,
    osl_asked: LengthCounts,
    body_bytes: u64,
    arrivals: ArrivalCurve,
    repeats: Repeats,
    found: CacheFacts,
    known: u64,
    unknown: u64,
    pacing: &'static str,
}

/// A session with what it has said and what it was told.
pub(super) struct Talk {
    /// Number in the run.
    number: u64,
    prepared: Arc<Prepared>,
    history: History,
    /// An answer has no length, so nothing is known of what holds it.
    is_unknown: bool,
    /// The first turn's prompt, until the second one shows how much of it stays the same.
    first: Option<First>,
    /// From where on prompts of this session hold answers, tokens.
    parted: Option<usize>,
}

enum First {
    Body(Bytes),
    Ids(Vec<u32>),
}

impl Look {
    pub(super) fn new(setup: LookSetup) -> Self {
        let sessions = Sessions { base: 0, limit: 0, warmup: false, order: None };
        Self {
            setup,
            sessions,
            is_warmup: false,
            phase: 0,
            seen: FxHashMap::default(),
            told: Told::default(),
            unread: 0,
        }
    }

    /// Requests so far, of all phases, in which no prompt can be read.
    pub(super) const fn unread(&self) -> u64 {
        self.unread
    }

    /// What is looked at from here on is of this phase, behind `base` sessions of others.
    pub(super) fn begin_phase(&mut self, plan: &PhasePlan, starts: &Starts, base: u64) {
        self.sessions = filler::sessions(plan, starts, base);
        self.is_warmup = plan.kind == PhaseKind::Warmup;
        self.told = Told { pacing: plan.pacing.name(), ..Told::default() };
    }

    /// What there was in the phase.
    pub(super) fn end_phase(&mut self, plan: &PhasePlan, walked: &Walked) -> PhaseForecast {
        self.phase += 1;
        let told = std::mem::take(&mut self.told);
        let last_ns = (told.arrivals.requests() > 0).then(|| told.arrivals.last_ns());
        // A cap ends an open loop at its last arrival, unless time does before.
        let is_ended_by_time = walked.bound != Bound::Exact || plan.most_sessions().is_none();
        let sending_ns = match (plan.duration_ns, last_ns) {
            (Some(duration_ns), _) if is_ended_by_time => Some(duration_ns),
            (_, last_ns) => last_ns.filter(|_| told.arrivals.requests() == told.requests),
        };
        PhaseForecast {
            name: plan.name.clone(),
            is_warmup: plan.kind == PhaseKind::Warmup,
            pacing: told.pacing,
            bound: walked.bound,
            sessions: told.sessions,
            requests: told.requests,
            later_turns: told.later_turns,
            isl_asked: told.isl_asked,
            isl_sent: told.isl_sent,
            exact: told.exact,
            osl_asked: told.osl_asked,
            body_bytes: told.body_bytes,
            arrivals: told.arrivals,
            sending_ns,
            repeats: told.repeats,
            cache: CacheForecast {
                block_tokens: self.setup.cache.block() as u64,
                requests: told.known,
                unknown: told.unknown,
                prompt_tokens: told.found.prompt,
                cached_tokens: told.found.cached,
                warmup_tokens: told.found.warmup,
                with_replies_tokens: told.found.with_replies,
                is_least: self.setup.cache.is_full(),
            },
        }
    }

    /// The composer, to be ended.
    pub(super) fn finish(self) -> Composer {
        self.setup.composer
    }

    /// Notes a request whose whole body is known, and gives what was found of it when it was sent before.
    fn note(&mut self, body: &[u8]) -> (u64, Option<CacheFacts>) {
        let hash = body_hash(body);
        let (phase, is_warmup) = (self.phase, self.is_warmup);
        let seen = self.seen.entry(hash).or_insert(Seen { phase, times: 0, warmup: is_warmup, again: None });
        let repeats = &mut self.told.repeats;
        if seen.phase != phase || seen.times == 0 {
            (seen.phase, seen.times) = (phase, 0);
            repeats.distinct += 1;
            repeats.in_warmup += u64::from(seen.warmup && !is_warmup);
        }
        seen.times = seen.times.saturating_add(1);
        seen.warmup |= is_warmup;
        repeats.requests += 1;
        repeats.most = repeats.most.max(seen.times.into());
        (hash, seen.again)
    }

    /// What the cache finds of a prompt.
    fn search(
        &mut self,
        talk: &mut Talk,
        turn: usize,
        body: &Bytes,
        known: Option<(u64, Option<CacheFacts>)>,
    ) {
        let Some(prompts) = &self.setup.prompts else { return };
        let is_remembered = talk.prepared.is_remembered(turn);
        if let Some((_, Some(again))) = known
            && !is_remembered
            && !self.setup.cache.is_full()
        {
            self.told.found += again;
            self.told.known += 1;
            return;
        }
        let sequences = prompts.of(body);
        if sequences.is_empty() {
            self.told.unknown += 1;
            self.unread += 1;
            return;
        }
        if known.is_none() && talk.parted.is_none() {
            let before = match talk.first.take() {
                Some(First::Ids(ids)) => Some(ids),
                Some(First::Body(body)) => prompts.of(&body).into_iter().next(),
                None => None,
            };
            let same = |before: &[u32]| sequences[0].iter().zip(before).take_while(|(a, b)| a == b).count();
            talk.parted = before.as_deref().map(same);
        }
        let mark = talk.parted.filter(|_| known.is_none()).map(|place| (place, talk.number));
        let (found, again) = self.setup.cache.send_all(&sequences, mark, self.is_warmup, true);
        self.told.found += found;
        self.told.known += 1;
        if let Some((hash, _)) = known
            && let Some(seen) = self.seen.get_mut(&hash)
        {
            seen.again = Some(again);
        }
        if is_remembered && let Some(ids) = sequences.into_iter().next() {
            self.decode(talk, turn, &ids, mark);
            if talk.parted.is_none() {
                talk.first = Some(First::Ids(ids));
            }
        }
    }

    /// A server that keeps what it decodes has the answer, too.
    fn decode(&mut self, talk: &Talk, turn: usize, ids: &[u32], mark: Option<(usize, u64)>) {
        let (Some(prompts), Some(replies)) = (&self.setup.prompts, &self.setup.replies) else { return };
        let Some(tokens) = talk.prepared.turns[turn].requested_osl else { return };
        let mut whole = ids.to_vec();
        prompts.reply(&replies.answer(tokens).text, &mut whole);
        let mark = mark.or(Some((ids.len(), talk.number)));
        let hashes = marked_block_hashes(&whole, self.setup.cache.block(), mark);
        self.setup.cache.decode(hashes);
    }
}

impl Looker for Look {
    type Talk = Talk;

    fn begin(&mut self, session: u64) -> Result<Talk, RunError> {
        let number = self.sessions.base + session;
        let prepared = self.setup.composer.session(&self.sessions, session)?;
        Ok(Talk {
            number,
            prepared,
            history: History::default(),
            is_unknown: false,
            first: None,
            parted: None,
        })
    }

    fn turns(talk: &Talk) -> usize {
        talk.prepared.turns.len()
    }

    fn times(talk: &Talk, turn: usize) -> (Option<u64>, Option<u64>) {
        let turn = &talk.prepared.turns[turn];
        (turn.at_ns, turn.delay_ns)
    }

    fn turn(&mut self, talk: &mut Talk, turn: usize, at_ns: Option<u64>) -> Result<(), RunError> {
        let prepared = talk.prepared.clone();
        let own = &prepared.turns[turn];
        if own.resets {
            (talk.history, talk.is_unknown) = (History::default(), false);
            (talk.first, talk.parted) = (None, None);
        }
        let holds_answers = turn > 0 && own.list.is_some() && !own.resets;
        let body = talk.history.body(&prepared.turns, turn);
        let told = &mut self.told;
        told.requests += 1;
        if turn == 0 {
            told.sessions += 1;
        } else {
            told.later_turns += 1;
        }
        if let Some(at_ns) = at_ns {
            told.arrivals.add(at_ns);
        }
        told.body_bytes += body.len() as u64;
        if let Some(osl) = own.requested_osl {
            told.osl_asked.add(osl);
        }
        let sent = match own.isl {
            Some(isl) => Some(isl),
            None if holds_answers && !talk.is_unknown => {
                self.setup.counter.as_mut().and_then(|counter| counter.body(&body))
            }
            None => None,
        };
        if let Some(isl) = sent {
            told.isl_sent.add(isl);
        }
        if let Some(length) = own.length {
            told.isl_asked.add(length.asked);
            // A later turn's length is that of its own part.
            let made = if holds_answers { Some(length.made) } else { sent.or(Some(length.made)) };
            told.exact += u64::from(made == Some(length.asked));
        }
        if holds_answers && talk.is_unknown {
            told.unknown += u64::from(self.setup.prompts.is_some());
        } else {
            let known = (!holds_answers).then(|| self.note(&body));
            let known = known.map(|(hash, again)| (hash, again.filter(|_| self.setup.is_fixed)));
            self.search(talk, turn, &body, known);
        }
        if prepared.is_remembered(turn) {
            if !holds_answers && talk.first.is_none() {
                talk.first = Some(First::Body(body));
            }
            let answer = own.requested_osl.zip(self.setup.replies.as_ref());
            let answer = answer.map(|(tokens, replies)| replies.answer(tokens));
            talk.is_unknown |= answer.is_none();
            talk.history.add(&prepared.turns, turn, &self.setup.endpoint, &answer.unwrap_or_default());
        }
        Ok(())
    }
}
