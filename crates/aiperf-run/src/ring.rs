//! The hand-over of prepared conversations to the shards, in session order and in bounded memory.
//!
//! A ring of slots keyed by session number. The composer fills it in order and waits while the slot ahead is still
//! taken or enough bytes lie ready; a session takes its slot as it is sent. Each slot has its own lock, touched by its
//! sessions and the composer alone, so the send path shares nothing with its neighbours. No deadlock: sessions are started
//! in order, so whatever the composer waits for is ready and its session is on its way.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

/// One of so many parts of what is ready: small enough that the composer never comes late, and is back asleep soon.
const PART: u64 = 64;

/// The ring closed before the session's item came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

#[derive(Debug)]
struct Slot<T> {
    ready: Option<Ready<T>>,
    /// Sessions that asked for an item that is not there yet; more than one when they are laps ahead of the composer.
    waiting: Vec<(u64, Waker)>,
}

#[derive(Debug)]
struct Ready<T> {
    session: u64,
    bytes: u64,
    item: T,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    slots: Vec<Mutex<Slot<T>>>,
    limit: Ahead,
    /// Items put in so far.
    filled: AtomicU64,
    /// Items and bytes that are ready and not taken.
    ready_items: AtomicU64,
    ready_bytes: AtomicU64,
    closed: AtomicBool,
    /// What the composer waits on.
    gate: Mutex<()>,
    taken: Condvar,
    /// Set while the composer waits, so that a taker pays for a wake-up only then.
    composer_waits: AtomicBool,
    /// The waiting composer sleeps while more items than this are ready.
    wake_at: AtomicU64,
    /// What the starter of a phase waits on.
    put: Notify,
}

/// How far ahead the composer may be, beside one lap.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ahead {
    /// So many items may be ready whatever they weigh.
    pub items: u64,
    /// Beyond those, so many bytes.
    pub bytes: u64,
}

impl<T> Ring<T> {
    /// An empty ring of `slots` slots.
    pub(crate) fn new(slots: usize, limit: Ahead) -> Self {
        let empty = || Mutex::new(Slot { ready: None, waiting: Vec::new() });
        Self {
            slots: (0..slots.max(1)).map(|_| empty()).collect(),
            limit: Ahead { items: limit.items.max(1), ..limit },
            filled: AtomicU64::new(0),
            ready_items: AtomicU64::new(0),
            ready_bytes: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            gate: Mutex::new(()),
            taken: Condvar::new(),
            composer_waits: AtomicBool::new(false),
            wake_at: AtomicU64::new(0),
            put: Notify::new(),
        }
    }

    fn slot(&self, session: u64) -> MutexGuard<'_, Slot<T>> {
        let at = (session % self.slots.len() as u64) as usize;
        self.slots[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts in the item of the next session, which weighs `bytes`, waiting for room. Gives the item back when the ring closed.
    pub(crate) fn put(&self, item: T, bytes: u64) -> Result<(), T> {
        let session = self.filled.load(Ordering::Acquire);
        let mut item = Some(item);
        self.wait_until(|| {
            if self.is_closed() {
                return true;
            }
            let is_far_ahead = self.ready_items.load(Ordering::Acquire) >= self.limit.items
                && self.ready_bytes.load(Ordering::Acquire) + bytes > self.limit.bytes;
            let mut slot = self.slot(session);
            if is_far_ahead || slot.ready.is_some() {
                return false;
            }
            if let Some(item) = item.take() {
                self.ready_items.fetch_add(1, Ordering::AcqRel);
                self.ready_bytes.fetch_add(bytes, Ordering::AcqRel);
                slot.ready = Some(Ready { session, bytes, item });
                if let Some(at) = slot.waiting.iter().position(|(number, _)| *number == session) {
                    slot.waiting.swap_remove(at).1.wake();
                }
            }
            true
        });
        match item {
            None => {
                self.filled.store(session + 1, Ordering::Release);
                self.put.notify_waiters();
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
        if let Some(ready) = slot.ready.take_if(|ready| ready.session == session) {
            drop(slot);
            self.ready_bytes.fetch_sub(ready.bytes, Ordering::AcqRel);
            let left = self.ready_items.fetch_sub(1, Ordering::AcqRel) - 1;
            self.wake_composer(left);
            return Poll::Ready(Ok(ready.item));
        }
        // Closing locks every slot after it set the mark, so a session that misses the mark is woken.
        if self.is_closed() {
            return Poll::Ready(Err(Closed));
        }
        match slot.waiting.iter_mut().find(|(number, _)| *number == session) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => slot.waiting.push((session, cx.waker().clone())),
        }
        Poll::Pending
    }

    /// Ends it: the composer stops, what is ready is dropped, waiting sessions get [`Closed`].
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for slot in &self.slots {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            slot.ready = None;
            slot.waiting.drain(..).for_each(|(_, waker)| waker.wake());
        }
        self.wake_composer(0);
        self.put.notify_waiters();
    }

    /// Whether [`Ring::close`] was called.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Waits until `count` items (no more than may be ahead whatever they weigh) were put in or the ring closed.
    pub(crate) async fn wait_filled(&self, count: u64) {
        loop {
            let put = self.put.notified();
            if self.filled.load(Ordering::Acquire) >= count || self.is_closed() {
                return;
            }
            put.await;
        }
    }

    /// Wakes the composer if it waits for no more than `left` items to be ready.
    fn wake_composer(&self, left: u64) {
        // Pairs with the fence in `wait_until`: either the composer sees what was taken, or we see that it waits.
        fence(Ordering::SeqCst);
        if self.composer_waits.load(Ordering::SeqCst)
            && left <= self.wake_at.load(Ordering::SeqCst)
            && self.composer_waits.swap(false, Ordering::SeqCst)
        {
            // The first one alone: woken, the composer has the gate, and may wait for a core with it.
            drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
            self.taken.notify_one();
        }
    }

    /// Blocks the composer, the only one who calls this.
    ///
    /// It sleeps until a [`PART`] of what was ready is taken. Were it woken for each item, every send of a full ring would pay
    /// for a system call and, on a busy core, for a change of threads: a third of all that a short request costs.
    fn wait_until(&self, mut done: impl FnMut() -> bool) {
        if done() {
            return;
        }
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let ready = self.ready_items.load(Ordering::SeqCst);
            let wake_at = ready.saturating_sub((ready / PART).max(1));
            self.wake_at.store(wake_at, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if done() {
                break;
            }
            loop {
                self.composer_waits.store(true, Ordering::SeqCst);
                fence(Ordering::SeqCst);
                if self.is_closed() || self.ready_items.load(Ordering::SeqCst) <= wake_at {
                    break;
                }
                gate = self.taken.wait(gate).unwrap_or_else(PoisonError::into_inner);
            }
        }
        self.composer_waits.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    const ANY: Ahead = Ahead { items: u64::MAX, bytes: 0 };

    fn block_on<F: Future>(f: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(f)
    }

    #[test]
    fn sessions_get_their_own_items_over_many_laps() {
        let ring = Arc::new(Ring::new(4, ANY));
        let producer = {
            let ring = ring.clone();
            std::thread::spawn(move || (0..1000u64).flat_map(|k| ring.put(k, 1)).count())
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
        let ring = Arc::new(Ring::new(8, ANY));
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
            ring.put(k, 1).expect("open");
        }
        let sum: u64 = takers.into_iter().map(|t| t.join().expect("no panic")).sum();
        assert_eq!(sum, (0..5000).sum::<u64>());
    }

    #[test]
    fn closing_frees_both_sides() {
        let ring = Arc::new(Ring::new(2, ANY));
        ring.put(0u64, 1).expect("open");
        ring.put(1, 1).expect("open");
        let blocked = {
            let ring = ring.clone();
            std::thread::spawn(move || ring.put(2, 1))
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
        let ring = Arc::new(Ring::new(16, ANY));
        let producer = {
            let ring = ring.clone();
            std::thread::spawn(move || (0..5u64).for_each(|k| ring.put(k, 1).expect("open")))
        };
        block_on(ring.wait_filled(5));
        assert_eq!(ring.filled.load(Ordering::Acquire), 5);
        producer.join().expect("no panic");
        ring.close();
        block_on(ring.wait_filled(6));
    }

    #[test]
    fn the_composer_is_no_more_bytes_ahead_than_allowed() {
        let ring = Arc::new(Ring::new(16, Ahead { items: 2, bytes: 10 }));
        // Two may be ready whatever they weigh; a third only beside light ones.
        ring.put(0u64, 100).expect("room");
        ring.put(1, 1).expect("room");
        let producer = {
            let ring = ring.clone();
            std::thread::spawn(move || ring.put(2, 1).and_then(|()| ring.put(3, 1)))
        };
        while !ring.composer_waits.load(Ordering::SeqCst) {
            assert!(!producer.is_finished(), "it goes on beside 101 bytes");
            std::thread::yield_now();
        }
        assert_eq!(ring.filled.load(Ordering::Acquire), 2);
        assert_eq!(block_on(ring.take(0)), Ok(0));
        producer.join().expect("no panic").expect("open");
        for session in 1..4 {
            assert_eq!(block_on(ring.take(session)), Ok(session));
        }
        assert_eq!(ring.ready_items.load(Ordering::Acquire), 0);
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn sessions_laps_ahead_sleep_until_their_own_item_comes() {
        let ring = Ring::new(2, ANY);
        let wakes: [Arc<Wakes>; 3] = Default::default();
        let poll = |session: u64, wakes: &Arc<Wakes>| {
            ring.poll_take(session, &Context::from_waker(&Waker::from(wakes.clone())))
        };
        for lap in [2, 0, 1] {
            assert_eq!(poll(lap as u64 * 2, &wakes[lap]), Poll::Pending);
        }
        let woken = || wakes.each_ref().map(|w| w.0.load(Ordering::Relaxed));
        assert_eq!(woken(), [0, 0, 0]);
        ring.put(0u64, 1).expect("room");
        ring.put(1, 1).expect("room");
        assert_eq!(woken(), [1, 0, 0]);
        assert_eq!(poll(2, &wakes[1]), Poll::Pending, "the slot holds the item of session 0");
        assert_eq!(poll(0, &wakes[0]), Poll::Ready(Ok(0)));
        assert_eq!(woken(), [1, 0, 0]);
        ring.put(2, 1).expect("room");
        assert_eq!(woken(), [1, 1, 0]);
        assert_eq!(poll(2, &wakes[1]), Poll::Ready(Ok(2)));
    }

    #[test]
    fn the_composer_sleeps_until_a_part_is_taken() {
        let ring = Arc::new(Ring::new(256, ANY));
        (0..256u64).for_each(|k| ring.put(k, 1).expect("room"));
        let producer = {
            let ring = ring.clone();
            std::thread::spawn(move || (256..260u64).try_for_each(|k| ring.put(k, 1)))
        };
        while !ring.composer_waits.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        // It gives the gate up only to sleep.
        drop(ring.gate.lock().expect("no panic"));
        for session in 0..3 {
            assert_eq!(block_on(ring.take(session)), Ok(session));
        }
        assert_eq!(ring.filled.load(Ordering::Acquire), 256);
        assert_eq!(block_on(ring.take(3)), Ok(3));
        assert_eq!(producer.join().expect("no panic"), Ok(()));
    }
}
