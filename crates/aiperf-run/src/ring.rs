//! The hand-over of prepared conversations to the shards, in session order and in bounded memory.
//!
//! A ring of slots keyed by session number. The composer fills it in order and waits while the slot ahead is still
//! taken; a session takes its slot as it is sent. Each slot has its own lock, touched by one session and the composer
//! alone, so the send path shares nothing with its neighbours. No deadlock: sessions are started in order, so whatever
//! the composer waits for is ready and its session is on its way.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The ring closed before the session's item came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

#[derive(Debug)]
enum Slot<T> {
    Empty,
    Ready(u64, T),
    Wanted(u64, Waker),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    slots: Vec<Mutex<Slot<T>>>,
    /// Items put in so far.
    filled: AtomicU64,
    closed: AtomicBool,
    /// What the composer and the starter of a phase wait on.
    gate: Mutex<()>,
    moved: Condvar,
    /// Set while somebody waits on `moved`, so that a taker pays for a wake-up only then.
    somebody_waits: AtomicBool,
}

impl<T> Ring<T> {
    /// An empty ring of `slots` slots.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            slots: (0..slots.max(1)).map(|_| Mutex::new(Slot::Empty)).collect(),
            filled: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            gate: Mutex::new(()),
            moved: Condvar::new(),
            somebody_waits: AtomicBool::new(false),
        }
    }

    fn slot(&self, session: u64) -> MutexGuard<'_, Slot<T>> {
        let at = (session % self.slots.len() as u64) as usize;
        self.slots[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts in the item of the next session, waiting for its slot to be free. Gives the item back when the ring closed.
    pub(crate) fn put(&self, item: T) -> Result<(), T> {
        let session = self.filled.load(Ordering::Acquire);
        let mut item = Some(item);
        self.wait_until(|| {
            if self.closed.load(Ordering::Acquire) {
                return true;
            }
            let mut slot = self.slot(session);
            if matches!(*slot, Slot::Ready(..)) {
                return false;
            }
            // Whoever waits here re-checks its number: it may be a session a lap ahead.
            if let Some(item) = item.take()
                && let Slot::Wanted(_, waker) = std::mem::replace(&mut *slot, Slot::Ready(session, item))
            {
                waker.wake();
            }
            true
        });
        match item {
            None => {
                self.filled.store(session + 1, Ordering::Release);
                self.announce();
                Ok(())
            }
            Some(item) => Err(item),
        }
    }

    /// Takes the item of `session`, waiting for it to be ready.
    pub(crate) async fn take(&self, session: u64) -> Result<T, Closed> {
        poll_fn(|cx| self.poll_take(session, cx)).await
    }

    fn poll_take(&self, session: u64, cx: &Context<'_>) -> Poll<Result<T, Closed>> {
        let mut slot = self.slot(session);
        match std::mem::replace(&mut *slot, Slot::Empty) {
            Slot::Ready(number, item) if number == session => {
                drop(slot);
                self.announce();
                Poll::Ready(Ok(item))
            }
            other => {
                if self.closed.load(Ordering::Acquire) {
                    *slot = other;
                    return Poll::Ready(Err(Closed));
                }
                *slot = match other {
                    // The item of a session a lap behind, not taken yet.
                    Slot::Ready(number, item) => {
                        *slot = Slot::Ready(number, item);
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    // The session with the lower number is served first; the other asks again.
                    Slot::Wanted(number, waker) if number < session => {
                        cx.waker().wake_by_ref();
                        Slot::Wanted(number, waker)
                    }
                    Slot::Wanted(number, waker) => {
                        if number > session {
                            waker.wake();
                        }
                        Slot::Wanted(session, cx.waker().clone())
                    }
                    Slot::Empty => Slot::Wanted(session, cx.waker().clone()),
                };
                Poll::Pending
            }
        }
    }

    /// Ends it: the composer stops, waiting sessions get [`Closed`].
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for slot in &self.slots {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            if let Slot::Wanted(_, waker) = std::mem::replace(&mut *slot, Slot::Empty) {
                waker.wake();
            }
        }
        self.announce();
    }

    /// Whether [`Ring::close`] was called.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Items put in so far.
    pub(crate) fn filled(&self) -> u64 {
        self.filled.load(Ordering::Acquire)
    }

    /// Blocks until `count` items were put in or the ring closed.
    pub(crate) fn wait_filled(&self, count: u64) {
        self.wait_until(|| self.filled() >= count || self.is_closed());
    }

    fn announce(&self) {
        // Pairs with the fence in `wait_until`: either the waiter sees what moved, or we see that it waits.
        fence(Ordering::SeqCst);
        if self.somebody_waits.load(Ordering::SeqCst) {
            drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
            self.moved.notify_all();
        }
    }

    fn wait_until(&self, mut done: impl FnMut() -> bool) {
        if done() {
            return;
        }
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            self.somebody_waits.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if done() {
                // Others may wait too; they set it again when they wake.
                self.somebody_waits.store(false, Ordering::SeqCst);
                self.moved.notify_all();
                return;
            }
            gate = self.moved.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn block_on<F: Future>(f: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(f)
    }

    #[test]
    fn sessions_get_their_own_items_over_many_laps() {
        let ring = Arc::new(Ring::new(4));
        let producer = {
            let ring = ring.clone();
            std::thread::spawn(move || (0..1000u64).map(|k| ring.put(k)).filter(Result::is_ok).count())
        };
        block_on(async {
            for session in 0..1000 {
                assert_eq!(ring.take(session).await, Ok(session));
            }
        });
        assert_eq!(producer.join().expect("no panic"), 1000);
    }

    #[test]
    fn takers_on_several_threads_lose_nothing() {
        let ring = Arc::new(Ring::new(8));
        let next = Arc::new(AtomicU64::new(0));
        let takers: Vec<_> = (0..4)
            .map(|_| {
                let (ring, next) = (ring.clone(), next.clone());
                std::thread::spawn(move || {
                    block_on(async {
                        let mut sum = 0;
                        loop {
                            let session = next.fetch_add(1, Ordering::Relaxed);
                            if session >= 5000 {
                                return sum;
                            }
                            sum += ring.take(session).await.expect("open");
                        }
                    })
                })
            })
            .collect();
        for k in 0..5000u64 {
            ring.put(k).expect("open");
        }
        let sum: u64 = takers.into_iter().map(|t| t.join().expect("no panic")).sum();
        assert_eq!(sum, (0..5000).sum());
    }

    #[test]
    fn closing_frees_both_sides() {
        let ring = Arc::new(Ring::new(2));
        ring.put(0u64).expect("open");
        ring.put(1).expect("open");
        let blocked = {
            let ring = ring.clone();
            std::thread::spawn(move || ring.put(2))
        };
        let waiting = {
            let ring = ring.clone();
            std::thread::spawn(move || block_on(ring.take(7)))
        };
        ring.close();
        assert_eq!(blocked.join().expect("no panic"), Err(2));
        assert_eq!(waiting.join().expect("no panic"), Err(Closed));
    }

    #[test]
    fn the_starter_waits_for_enough() {
        let ring = Arc::new(Ring::new(16));
        let producer = {
            let ring = ring.clone();
            std::thread::spawn(move || (0..5u64).for_each(|k| ring.put(k).expect("open")))
        };
        ring.wait_filled(5);
        assert_eq!(ring.filled(), 5);
        producer.join().expect("no panic");
    }
}
