//! Many deadlines of one thread on one kernel timer.
//!
//! A thread that holds thousands of streams or sessions needs thousands of deadlines; a timer each would cost a
//! descriptor and a system call each. Here they share a heap and one [`AsyncTimer`], armed for the earliest.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::clock::mono_ns;
use crate::timer::AsyncTimer;

/// Wakes any number of waiters of this thread, each at its own deadline. [`Deadlines::drive`] must run in a task of the
/// same thread for as long as anybody waits.
#[derive(Debug, Default, Clone)]
pub struct Deadlines {
    inner: Rc<RefCell<Inner>>,
}

/// So many entries of waiters that left are not worth a pass over the heap.
const FEW: usize = 64;

#[derive(Debug, Default)]
struct Inner {
    /// Earliest first. Entries whose waiter left are skipped when their time comes, or taken out once they are the most.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    /// Wakers by slot; `None` is a free slot or a waiter that left.
    slots: Vec<Option<Waker>>,
    free: Vec<usize>,
    /// Entries of the heap whose waiter left.
    left: usize,
    driver: Option<Waker>,
}

impl Inner {
    fn earliest(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    fn wake_due(&mut self, now_ns: u64) {
        while let Some(&Reverse((at, slot))) = self.heap.peek()
            && at <= now_ns
        {
            self.heap.pop();
            match self.slots[slot].take() {
                Some(waker) => waker.wake(),
                None => self.left -= 1,
            }
            self.free.push(slot);
        }
    }

    /// The waiter of `slot` left before its time. A far deadline that everybody leaves (the end of a phase) must not fill the
    /// heap, so the entries of those who left are taken out when they are more than half.
    fn leave(&mut self, slot: usize) {
        self.slots[slot] = None;
        self.left += 1;
        if self.left >= FEW && self.left * 2 > self.heap.len() {
            let (slots, free) = (&self.slots, &mut self.free);
            self.heap.retain(|Reverse((_, slot))| {
                let stays = slots[*slot].is_some();
                if !stays {
                    free.push(*slot);
                }
                stays
            });
            self.left = 0;
        }
    }
}

impl Deadlines {
    /// No deadlines yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until `deadline_ns` (monotonic); returns at once when that has passed.
    pub fn until(&self, deadline_ns: u64) -> Until {
        Until { deadlines: self.clone(), deadline_ns, slot: None }
    }

    /// Serves the waiters; never returns. Dropping the future stops the service.
    pub async fn drive(&self) {
        let timer = AsyncTimer::new();
        loop {
            let earliest = self.inner.borrow().earliest();
            match earliest {
                // A new, earlier deadline must interrupt the wait for this one.
                Some(at) => {
                    let mut wait = std::pin::pin!(timer.until(at));
                    poll_fn(|cx| {
                        self.inner.borrow_mut().driver = Some(cx.waker().clone());
                        if self.inner.borrow().earliest() != Some(at) {
                            return Poll::Ready(());
                        }
                        wait.as_mut().poll(cx)
                    })
                    .await;
                    self.inner.borrow_mut().wake_due(mono_ns());
                }
                None => {
                    poll_fn(|cx| {
                        let mut inner = self.inner.borrow_mut();
                        inner.driver = Some(cx.waker().clone());
                        if inner.heap.is_empty() { Poll::Pending } else { Poll::Ready(()) }
                    })
                    .await;
                }
            }
        }
    }
}

/// A wait for one deadline.
#[derive(Debug)]
pub struct Until {
    deadlines: Deadlines,
    deadline_ns: u64,
    slot: Option<usize>,
}

impl Future for Until {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if mono_ns() >= self.deadline_ns {
            return Poll::Ready(());
        }
        let deadlines = self.deadlines.clone();
        let mut inner = deadlines.inner.borrow_mut();
        if let Some(slot) = self.slot {
            inner.slots[slot] = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let slot = inner.free.pop().unwrap_or_else(|| {
            inner.slots.push(None);
            inner.slots.len() - 1
        });
        inner.slots[slot] = Some(cx.waker().clone());
        self.slot = Some(slot);
        let earlier = inner.earliest().is_none_or(|e| self.deadline_ns < e);
        inner.heap.push(Reverse((self.deadline_ns, slot)));
        if earlier && let Some(driver) = &inner.driver {
            driver.wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Until {
    fn drop(&mut self) {
        // Once the deadline has passed the slot may already serve another waiter, so it is left alone.
        if let Some(slot) = self.slot
            && mono_ns() < self.deadline_ns
        {
            self.deadlines.inner.borrow_mut().leave(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::LocalSet;

    fn run<F: Future>(deadlines: &Deadlines, f: F) -> F::Output {
        let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        LocalSet::new().block_on(&rt, async {
            let d = deadlines.clone();
            let driver = tokio::task::spawn_local(async move { d.drive().await });
            let out = f.await;
            driver.abort();
            out
        })
    }

    /// Polls a waiter once and drops it, as `select!` does with a branch that lost.
    async fn leave(waiter: Until) {
        let mut waiter = std::pin::pin!(waiter);
        poll_fn(|cx| {
            let _ = waiter.as_mut().poll(cx);
            Poll::Ready(())
        })
        .await;
    }

    #[test]
    fn waiters_wake_in_the_order_of_their_deadlines_and_never_early() {
        let deadlines = Deadlines::new();
        run(&deadlines, async {
            // A stalled machine may let the first deadline pass before all wait; then there is no order to speak of.
            loop {
                let order = Rc::new(RefCell::new(Vec::new()));
                let base = mono_ns();
                let tasks = [5u64, 1, 4, 2, 3].map(|k| {
                    let (d, order) = (deadlines.clone(), order.clone());
                    tokio::task::spawn_local(async move {
                        let at = base + k * 3_000_000;
                        d.until(at).await;
                        assert!(mono_ns() >= at);
                        order.borrow_mut().push(k);
                    })
                });
                tokio::task::yield_now().await;
                let all_waited = deadlines.inner.borrow().heap.len() == 5;
                for task in tasks {
                    task.await.expect("no panic");
                }
                if all_waited {
                    assert_eq!(*order.borrow(), [1, 2, 3, 4, 5]);
                    return;
                }
            }
        });
    }

    #[test]
    fn waiters_that_leave_a_far_deadline_take_no_room() {
        let deadlines = Deadlines::new();
        let hour_ns = 3_600_000_000_000;
        run(&deadlines, async {
            let far = mono_ns() + hour_ns;
            let stays = deadlines.clone();
            let stays = tokio::task::spawn_local(async move { stays.until(far + 1).await });
            tokio::task::yield_now().await;
            for _ in 0..10_000 {
                leave(deadlines.until(far)).await;
            }
            {
                let inner = deadlines.inner.borrow();
                assert!(inner.slots.len() <= 2 * FEW && inner.heap.len() <= 2 * FEW, "{}", inner.slots.len());
                assert!(inner.heap.iter().any(|Reverse((at, _))| *at == far + 1), "who waits stays");
            }
            let at = mono_ns() + 1_000_000;
            deadlines.until(at).await;
            assert!(mono_ns() >= at);
            stays.abort();
        });
    }

    #[test]
    fn slots_serve_again_when_their_time_has_passed() {
        let deadlines = Deadlines::new();
        run(&deadlines, async {
            for _ in 0..3 {
                for _ in 0..50 {
                    leave(deadlines.until(mono_ns() + 1_000_000)).await;
                }
                while deadlines.inner.borrow().left > 0 {
                    deadlines.until(mono_ns() + 500_000).await;
                }
            }
        });
        // Three times fifty left; this test's own waits take a few slots beside theirs.
        assert!(deadlines.inner.borrow().slots.len() < 100);
    }

    #[test]
    fn an_earlier_deadline_interrupts_the_wait_for_a_later_one() {
        let deadlines = Deadlines::new();
        run(&deadlines, async {
            let d = deadlines.clone();
            let far = tokio::task::spawn_local(async move { d.until(mono_ns() + 3_600_000_000_000).await });
            tokio::task::yield_now().await;
            deadlines.until(mono_ns() + 1_000_000).await;
            far.abort();
        });
    }
}
