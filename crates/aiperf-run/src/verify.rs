//! Counts requests again as a whole, beside the run.
//!
//! A prompt that was made to a length leaves without being counted once more: that it has the length was proven at the seams of its parts.
//! Here what was made is encoded afresh as a whole and compared with what was said of it, on a thread of its own at low priority, behind a
//! queue of bounded length. What was counted to begin with is not looked at: counting it in the same way again would prove nothing. The one who offers a request is never kept waiting: what the queue has no room for is left out of a sample, and
//! where every request is to be counted, the reader counts that one itself.

use std::thread::JoinHandle;

use aiperf_metrics::{LengthFacts, LengthLedger};
use aiperf_report::{Verified, WrongLength};
use crossbeam_channel::{Receiver, Sender, TrySendError};

use crate::count::BodyCounter;
use crate::error::RunError;
use crate::item::{OwnBody, Recounted};

/// Requests that may wait.
const QUEUE: usize = 64;
/// Wrong ones that are kept as examples.
const EXAMPLES: usize = 5;

/// A turn that was made to a length: the whole request or, where it holds what was said before, its own part of it.
#[derive(Debug)]
pub(crate) struct Claim {
    pub conversation: String,
    pub turn: u16,
    pub own: OwnBody,
    /// Tokens it was said to have.
    pub said: u64,
    /// What the ledger of its phase has of the request.
    pub facts: LengthFacts,
    /// The phase, by its place in the run.
    pub phase: usize,
}

/// What is wrong in the ledger of a phase.
#[derive(Debug, Default)]
pub(crate) struct Correction {
    /// What it has of requests whose length is another.
    pub said: LengthLedger,
    /// What is true of them.
    pub found: LengthLedger,
}

/// What came of counting again.
#[derive(Debug, Default)]
pub(crate) struct Recount {
    pub verified: Verified,
    /// With the phase of each.
    pub corrections: Vec<(usize, Correction)>,
}

/// Counts claims and keeps what came of it.
#[derive(Debug)]
struct Desk {
    counter: BodyCounter,
    recount: Recount,
}

impl Desk {
    fn new(counter: BodyCounter, all: bool) -> Self {
        let verified = Verified { all, ..Verified::default() };
        Self { counter, recount: Recount { verified, corrections: Vec::new() } }
    }

    fn check(&mut self, claim: &Claim) {
        let OwnBody { body, list } = &claim.own;
        let part = list.clone().filter(|_| claim.facts.later);
        let is_part = part.is_some();
        let counted = match part {
            Some(list) => Some(self.counter.part(body, list)),
            None => self.counter.body(body),
        };
        // One that the template refuses has no length, and nobody said otherwise.
        let Some(counted) = counted else { return };
        let Recount { verified, corrections } = &mut self.recount;
        verified.requests += 1;
        if counted != claim.said {
            verified.wrong += 1;
            let at = corrections.iter().position(|(phase, _)| *phase == claim.phase).unwrap_or_else(|| {
                corrections.push((claim.phase, Correction::default()));
                corrections.len() - 1
            });
            let correction = &mut corrections[at].1;
            correction.said.add(&claim.facts);
            let found = Some(counted);
            correction.found.add(&if is_part {
                LengthFacts { made: found, ..claim.facts }
            } else {
                LengthFacts { sent: found, ..claim.facts }
            });
            if verified.examples.len() < EXAMPLES {
                verified.examples.push(WrongLength {
                    conversation_id: claim.conversation.clone(),
                    turn_index: claim.turn,
                    said: claim.said,
                    counted,
                });
            }
        }
    }

    fn work(mut self, claims: &Receiver<Claim>) -> Recount {
        while let Ok(claim) = claims.recv() {
            self.check(&claim);
        }
        self.recount
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Verifier {
    own: Desk,
    chosen: Recounted,
    queue: Sender<Claim>,
    thread: JoinHandle<Recount>,
}

impl Verifier {
    /// Starts one that counts all requests or a sample; each of the two who count has its own counter.
    pub(crate) fn start(chosen: Recounted, counters: [BodyCounter; 2]) -> Result<Self, RunError> {
        let all = chosen == Recounted::All;
        let [own, theirs] = counters.map(|counter| Desk::new(counter, all));
        let (queue, claims) = crossbeam_channel::bounded(QUEUE);
        let thread = std::thread::Builder::new()
            .name("verifier".into())
            .spawn(move || {
                aiperf_os::sched::lower_priority(10);
                theirs.work(&claims)
            })
            .map_err(RunError::Thread)?;
        Ok(Self { own, chosen, queue, thread })
    }

    /// Which requests it counts.
    pub(crate) fn chosen(&self) -> Recounted {
        self.chosen
    }

    /// Takes the request behind `number` others, if it is one of those to count.
    pub(crate) fn offer(&mut self, number: u64, claim: impl FnOnce() -> Claim) {
        if !self.chosen.chooses(number) {
            return;
        }
        let all = self.chosen == Recounted::All;
        match self.queue.try_send(claim()) {
            Err(TrySendError::Full(claim)) if all => self.own.check(&claim),
            Err(TrySendError::Full(_)) => self.own.recount.verified.skipped += 1,
            // A thread that is gone is told of by `finish`.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
    }

    /// Waits for what still waits, and returns what came of all.
    pub(crate) fn finish(self) -> Result<Recount, RunError> {
        let Self { own, queue, thread, .. } = self;
        drop(queue);
        let mut recount = thread.join().map_err(|_| RunError::Panicked("verifier"))?;
        recount.corrections.extend(own.recount.corrections);
        let (verified, own) = (&mut recount.verified, own.recount.verified);
        verified.requests += own.requests;
        verified.wrong += own.wrong;
        verified.skipped += own.skipped;
        verified.examples.extend(own.examples);
        verified.examples.truncate(EXAMPLES);
        Ok(recount)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aiperf_core::plan::EndpointKind;
    use aiperf_net::Endpoint;

    use super::*;
    use crate::prepare::PreparedTurn;
    use crate::toys::{self, Toy};

    fn counter() -> BodyCounter {
        let endpoint = Arc::new(Endpoint::new(&toys::endpoint(EndpointKind::Chat)));
        BodyCounter::new(Arc::new(Toy::new(None)), endpoint, 0, None)
    }

    /// A request of three words of which `said` are told and were asked for, as the second phase sends it.
    fn claim(said: u64) -> Claim {
        let prepared = toys::prepared(toys::conversation(&["one two three", "four five six"]));
        let facts =
            LengthFacts { asked: Some(said), made: Some(said), sent: Some(said), ..LengthFacts::default() };
        claim_of(&prepared.turns[0], said, facts)
    }

    fn claim_of(turn: &PreparedTurn, said: u64, facts: LengthFacts) -> Claim {
        let own = OwnBody { body: turn.body.clone(), list: turn.list.clone() };
        Claim { conversation: "talk".into(), turn: 0, own, said, facts, phase: 1 }
    }

    /// One whose thread starts to count when it is finished, so that its queue is full after `QUEUE` requests.
    fn sleeping(chosen: Recounted) -> (Verifier, impl FnOnce()) {
        let all = chosen == Recounted::All;
        let (queue, claims) = crossbeam_channel::bounded(QUEUE);
        let (wake, sleep) = crossbeam_channel::bounded::<()>(0);
        let thread = std::thread::spawn(move || {
            let _ = sleep.recv();
            Desk::new(counter(), all).work(&claims)
        });
        (Verifier { own: Desk::new(counter(), all), chosen, queue, thread }, move || drop(wake))
    }

    #[test]
    fn a_wrong_length_is_found_and_shown() {
        let mut verifier = Verifier::start(Recounted::All, [counter(), counter()]).expect("a thread");
        (0..200).for_each(|i| verifier.offer(i, || claim(if i % 20 == 7 { 4 } else { 3 })));
        let verified = verifier.finish().expect("it counts").verified;
        assert_eq!((verified.all, verified.requests, verified.wrong, verified.skipped), (true, 200, 10, 0));
        assert_eq!(verified.examples.len(), EXAMPLES);
        let example = WrongLength { conversation_id: "talk".into(), turn_index: 0, said: 4, counted: 3 };
        assert!(verified.examples.iter().all(|e| *e == example));
    }

    #[test]
    fn what_the_ledger_has_of_wrong_ones_is_corrected_by_phase() {
        let (mut verifier, wake) = sleeping(Recounted::All);
        let mut ledgers = [LengthLedger::default(), LengthLedger::default()];
        // The queue holds most of them; whoever offers the others counts them.
        for i in 0..QUEUE + 20 {
            let said = if i % 7 == 0 { 4 } else { 3 };
            let phase = i % 2;
            ledgers[phase].add(&claim(said).facts);
            verifier.offer(i as u64, || Claim { phase, ..claim(said) });
        }
        // A later turn's own part was made one too short, beside a whole that was counted.
        let facts = LengthFacts {
            asked: Some(2),
            made: Some(2),
            sent: Some(9),
            later: true,
            ..LengthFacts::default()
        };
        ledgers[1].add(&facts);
        let prepared = toys::prepared(toys::conversation(&["one two three", "four five six"]));
        verifier.offer(QUEUE as u64, || Claim { turn: 1, ..claim_of(&prepared.turns[1], 2, facts) });
        wake();
        let recount = verifier.finish().expect("it counts");
        assert_eq!(recount.verified.wrong, 13);
        for (phase, correction) in &recount.corrections {
            ledgers[*phase].correct(&correction.said, &correction.found);
        }
        let agreements = ledgers.map(|l| l.summary().asked_sent.expect("all were asked for"));
        assert_eq!(agreements.map(|a| (a.requests, a.exact)), [(42, 36), (43, 36)]);
        assert_eq!(agreements.map(|a| (a.min_error, a.max_error)), [(-1, 0), (-1, 1)]);
    }

    #[test]
    fn a_sample_is_the_first_ones_and_some_of_the_others() {
        let mut chosen = Vec::new();
        let mut verifier = Verifier::start(Recounted::Sample, [counter(), counter()]).expect("a thread");
        for i in 0..1000 {
            verifier.offer(i, || {
                chosen.push(i);
                claim(3)
            });
        }
        let expected: Vec<u64> = (0..1000).filter(|i| Recounted::Sample.chooses(*i)).collect();
        assert_eq!(chosen, expected);
        let verified = verifier.finish().expect("it counts").verified;
        assert_eq!(verified.requests + verified.skipped, expected.len() as u64);
        assert_eq!(verified.wrong, 0);
    }

    #[test]
    fn a_sample_leaves_out_what_there_is_no_room_for() {
        const REQUESTS: u64 = 6400;
        let (mut verifier, wake) = sleeping(Recounted::Sample);
        (0..REQUESTS).for_each(|i| verifier.offer(i, || claim(3)));
        wake();
        let verified = verifier.finish().expect("it counts").verified;
        let chosen = (0..REQUESTS).filter(|i| Recounted::Sample.chooses(*i)).count() as u64;
        assert_eq!((verified.requests, verified.skipped), (QUEUE as u64, chosen - QUEUE as u64));
    }

    #[test]
    fn all_are_counted_even_without_room() {
        let (mut verifier, wake) = sleeping(Recounted::All);
        (0..QUEUE + 30).for_each(|i| verifier.offer(i as u64, || claim(if i < QUEUE { 3 } else { 2 })));
        assert_eq!(verifier.own.recount.verified.requests, 30, "the one who offers them counts them");
        wake();
        let verified = verifier.finish().expect("it counts").verified;
        assert_eq!((verified.requests, verified.wrong, verified.skipped), (QUEUE as u64 + 30, 30, 0));
    }

    #[test]
    fn a_request_that_the_template_refuses_is_not_counted() {
        let template = "{{ raise_exception('never') }}";
        let now = aiperf_tokens::TemplateClock::civil(2025, 1, 2, 3, 4, 5);
        let refusing = || {
            let endpoint = Arc::new(Endpoint::new(&toys::endpoint(EndpointKind::Chat)));
            BodyCounter::new(Arc::new(Toy::new(Some(template))), endpoint, 0, now)
        };
        let mut verifier = Verifier::start(Recounted::All, [refusing(), refusing()]).expect("a thread");
        verifier.offer(0, || claim(3));
        assert_eq!(verifier.finish().expect("it ends").verified.requests, 0);
    }
}
