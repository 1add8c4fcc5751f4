//! Counts requests again as a whole, beside the run.
//!
//! A prompt that was made to a length leaves without being counted once more: that it has the length was proven at the seams of its parts.
//! Here whole requests are encoded afresh and compared with what was said of them, on a thread of its own at low priority, behind a queue of
//! bounded length. The one who offers a request is never kept waiting: what the queue has no room for is left out of a sample, and
//! where every request is to be counted, the reader counts that one itself.

use std::sync::Arc;
use std::thread::JoinHandle;

use aiperf_report::{Verified, WrongLength};
use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, TrySendError};

use crate::count::BodyCounter;
use crate::error::RunError;
use crate::prepare::Prepared;

/// Requests of a sample that are counted whatever comes, the first ones of the run.
const FIRST: u64 = 16;
/// Behind them, one of so many.
const EVERY: u64 = 64;
/// Requests that may wait.
const QUEUE: usize = 64;
/// Wrong ones that are kept as examples.
const EXAMPLES: usize = 5;

/// A request and what was said of it.
#[derive(Debug)]
pub(crate) struct Claim {
    pub prepared: Arc<Prepared>,
    pub turn: u16,
    /// What has the length.
    pub body: Bytes,
    /// Tokens of it.
    pub said: u64,
}

/// Counts claims and keeps what came of it.
#[derive(Debug)]
struct Desk {
    counter: BodyCounter,
    verified: Verified,
}

impl Desk {
    fn new(counter: BodyCounter, all: bool) -> Self {
        Self { counter, verified: Verified { all, ..Verified::default() } }
    }

    fn check(&mut self, claim: &Claim) {
        // One that the template refuses has no length, and nobody said otherwise.
        let Some(counted) = self.counter.body(&claim.body) else { return };
        let verified = &mut self.verified;
        verified.requests += 1;
        if counted != claim.said {
            verified.wrong += 1;
            if verified.examples.len() < EXAMPLES {
                verified.examples.push(WrongLength {
                    conversation_id: claim.prepared.id.clone(),
                    turn_index: claim.turn,
                    said: claim.said,
                    counted,
                });
            }
        }
    }

    fn work(mut self, claims: &Receiver<Claim>) -> Verified {
        while let Ok(claim) = claims.recv() {
            self.check(&claim);
        }
        self.verified
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Verifier {
    own: Desk,
    offered: u64,
    queue: Sender<Claim>,
    thread: JoinHandle<Verified>,
}

impl Verifier {
    /// Starts one that counts all requests or a sample; each of the two who count has its own counter.
    pub(crate) fn start(all: bool, counters: [BodyCounter; 2]) -> Result<Self, RunError> {
        let [own, theirs] = counters.map(|counter| Desk::new(counter, all));
        let (queue, claims) = crossbeam_channel::bounded(QUEUE);
        let thread = std::thread::Builder::new()
            .name("verifier".into())
            .spawn(move || {
                aiperf_os::sched::lower_priority(10);
                theirs.work(&claims)
            })
            .map_err(RunError::Thread)?;
        Ok(Self { own, offered: 0, queue, thread })
    }

    /// Takes a request, if it is one of those to count.
    pub(crate) fn offer(&mut self, claim: impl FnOnce() -> Claim) {
        let number = self.offered;
        self.offered += 1;
        let all = self.own.verified.all;
        if !all && number >= FIRST && !number.is_multiple_of(EVERY) {
            return;
        }
        match self.queue.try_send(claim()) {
            Err(TrySendError::Full(claim)) if all => self.own.check(&claim),
            Err(TrySendError::Full(_)) => self.own.verified.skipped += 1,
            // A thread that is gone is told of by `finish`.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
    }

    /// Waits for what still waits, and returns what came of all.
    pub(crate) fn finish(self) -> Result<Verified, RunError> {
        let Self { own, queue, thread, .. } = self;
        drop(queue);
        let mut verified = thread.join().map_err(|_| RunError::Panicked("verifier"))?;
        let own = own.verified;
        verified.requests += own.requests;
        verified.wrong += own.wrong;
        verified.skipped += own.skipped;
        verified.examples.extend(own.examples);
        verified.examples.truncate(EXAMPLES);
        Ok(verified)
    }
}

#[cfg(test)]
mod tests {
    use aiperf_core::plan::EndpointKind;
    use aiperf_net::Endpoint;

    use super::*;
    use crate::toys::{self, Toy};

    fn counter() -> BodyCounter {
        let endpoint = Arc::new(Endpoint::new(&toys::endpoint(EndpointKind::Chat)));
        BodyCounter::new(Arc::new(Toy::new(None)), endpoint, 0, None)
    }

    /// A request of three words of which `said` are told.
    fn claim(said: u64) -> Claim {
        let prepared = toys::prepared(toys::conversation(&["one two three"]));
        Claim { body: prepared.turns[0].body.clone(), prepared, turn: 0, said }
    }

    /// One whose thread starts to count when it is finished, so that its queue is full after `QUEUE` requests.
    fn sleeping(all: bool) -> (Verifier, impl FnOnce()) {
        let (queue, claims) = crossbeam_channel::bounded(QUEUE);
        let (wake, sleep) = crossbeam_channel::bounded::<()>(0);
        let thread = std::thread::spawn(move || {
            let _ = sleep.recv();
            Desk::new(counter(), all).work(&claims)
        });
        (Verifier { own: Desk::new(counter(), all), offered: 0, queue, thread }, move || drop(wake))
    }

    #[test]
    fn a_wrong_length_is_found_and_shown() {
        let mut verifier = Verifier::start(true, [counter(), counter()]).expect("a thread");
        (0..200).for_each(|i| verifier.offer(|| claim(if i % 20 == 7 { 4 } else { 3 })));
        let verified = verifier.finish().expect("it counts");
        assert_eq!((verified.all, verified.requests, verified.wrong, verified.skipped), (true, 200, 10, 0));
        assert_eq!(verified.examples.len(), EXAMPLES);
        let example = WrongLength { conversation_id: "talk".into(), turn_index: 0, said: 4, counted: 3 };
        assert!(verified.examples.iter().all(|e| *e == example));
    }

    #[test]
    fn a_sample_is_the_first_ones_and_some_of_the_others() {
        let mut chosen = Vec::new();
        let mut verifier = Verifier::start(false, [counter(), counter()]).expect("a thread");
        for i in 0..1000 {
            verifier.offer(|| {
                chosen.push(i);
                claim(3)
            });
        }
        let expected: Vec<u64> = (0..16).chain((64..1000).step_by(64)).collect();
        assert_eq!(chosen, expected);
        let verified = verifier.finish().expect("it counts");
        assert_eq!(verified.requests + verified.skipped, expected.len() as u64);
        assert_eq!(verified.wrong, 0);
    }

    #[test]
    fn a_sample_leaves_out_what_there_is_no_room_for() {
        let (mut verifier, wake) = sleeping(false);
        (0..100 * EVERY).for_each(|_| verifier.offer(|| claim(3)));
        wake();
        let verified = verifier.finish().expect("it counts");
        let chosen = FIRST + 99;
        assert_eq!((verified.requests, verified.skipped), (QUEUE as u64, chosen - QUEUE as u64));
    }

    #[test]
    fn all_are_counted_even_without_room() {
        let (mut verifier, wake) = sleeping(true);
        (0..QUEUE + 30).for_each(|i| verifier.offer(|| claim(if i < QUEUE { 3 } else { 2 })));
        assert_eq!(verifier.own.verified.requests, 30, "the one who offers them counts them");
        wake();
        let verified = verifier.finish().expect("it counts");
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
        let mut verifier = Verifier::start(true, [refusing(), refusing()]).expect("a thread");
        verifier.offer(|| claim(3));
        assert_eq!(verifier.finish().expect("it ends").requests, 0);
    }
}
