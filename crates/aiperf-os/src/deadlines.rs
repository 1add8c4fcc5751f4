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

#[derive(Debug, Default)]
struct Inner {
    /// Earliest first; entries whose waiter is gone are skipped when their time comes.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    /// Wakers by slot; `None` is a free slot or a waiter that left.
    slots: Vec<Option<Waker>>,
    free: Vec<usize>,
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
            if let Some(waker) = self.slots[slot].take() {
                waker.wake();
            }
            self.free.push(slot);
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
        // The heap entry stays until its time comes; without a waker it wakes nobody. Once the deadline has passed the slot
        // may already serve another waiter, so it is left alone.
        if let Some(slot) = self.slot
            && mono_ns() < self.deadline_ns
        {
            self.deadlines.inner.borrow_mut().slots[slot] = None;
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

    #[test]
    fn waiters_wake_in_the_order_of_their_deadlines_and_never_early() {
        let deadlines = Deadlines::new();
        let order = Rc::new(RefCell::new(Vec::new()));
        let base = mono_ns();
        run(&deadlines, async {
            let mut tasks = Vec::new();
            for k in [5u64, 1, 4, 2, 3] {
                let (d, order) = (deadlines.clone(), order.clone());
                tasks.push(tokio::task::spawn_local(async move {
                    let at = base + k * 3_000_000;
                    d.until(at).await;
                    assert!(mono_ns() >= at);
                    order.borrow_mut().push(k);
                }));
            }
            for t in tasks {
                t.await.expect("no panic");
            }
        });
        assert_eq!(order.borrow().len(), 5);
    }

    #[test]
    fn a_waiter_that_left_frees_its_slot_for_another() {
        let deadlines = Deadlines::new();
        run(&deadlines, async {
            for _ in 0..50 {
                let far = deadlines.until(mono_ns() + 2_000_000);
                let _ = tokio::time::timeout(std::time::Duration::ZERO, far).await;
            }
            let at = mono_ns() + 4_000_000;
            deadlines.until(at).await;
            assert!(mono_ns() >= at);
        });
        assert!(deadlines.inner.borrow().slots.len() <= 51);
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
