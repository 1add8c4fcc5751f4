//! Where the engine model meets the clock and the connections of one server thread: actions become wake-ups, and one kernel
//! timer serves all deadlines, however many streams there are.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use aiperf_os::mono_ns;
use aiperf_os::timer::AsyncTimer;
use rustc_hash::FxHashMap;

use crate::engine::{Action, Engine, EngineConfig, Job, What};

/// What the engine has told of one request so far.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    pub(crate) prefill_start_ns: Cell<Option<u64>>,
    pub(crate) prefill_end_ns: Cell<Option<u64>>,
    pub(crate) cached: Cell<u64>,
    pub(crate) done: Cell<u64>,
    pub(crate) ended: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Flow {
    /// Asks to be woken by the next thing the engine tells.
    pub(crate) fn watch(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        match &mut *waker {
            Some(old) if old.will_wake(cx.waker()) => {}
            other => *other = Some(cx.waker().clone()),
        }
    }

    /// Waits for the first token of any of these requests.
    pub(crate) async fn first(flows: &[Rc<Self>]) {
        std::future::poll_fn(|cx| {
            if flows.iter().any(|f| f.ended.get() || f.done.get() > 0) {
                return Poll::Ready(());
            }
            for flow in flows {
                flow.watch(cx);
            }
            Poll::Pending
        })
        .await;
    }

    /// Waits for the request's end.
    pub(crate) async fn end(&self) {
        std::future::poll_fn(|cx| {
            if self.ended.get() {
                return Poll::Ready(());
            }
            self.watch(cx);
            Poll::Pending
        })
        .await;
    }
}

/// Lateness and peaks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DeskStats {
    pub(crate) peak_running: u64,
    pub(crate) peak_waiting: u64,
    pub(crate) late_max_ns: u64,
    pub(crate) late_sum_ns: u64,
    pub(crate) late_count: u64,
}

#[derive(Debug)]
struct Inner {
    engine: Engine,
    actions: Vec<Action>,
    flows: FxHashMap<u64, Rc<Flow>>,
    /// Deadlines of sleepers and their names.
    sleeps: BinaryHeap<Reverse<(u64, u64)>>,
    sleepers: FxHashMap<u64, Waker>,
    next_sleep: u64,
    /// The deadline that the driver waits for, and how to tell it of an earlier one.
    armed_ns: u64,
    driver: Option<Waker>,
    stats: DeskStats,
}

/// Shared by all connections of a server thread.
#[derive(Debug)]
pub(crate) struct Desk {
    inner: RefCell<Inner>,
}

impl Desk {
    pub(crate) fn new(config: EngineConfig) -> Rc<Self> {
        Rc::new(Self {
            inner: RefCell::new(Inner {
                engine: Engine::new(config),
                actions: Vec::new(),
                flows: FxHashMap::default(),
                sleeps: BinaryHeap::new(),
                sleepers: FxHashMap::default(),
                next_sleep: 0,
                armed_ns: u64::MAX,
                driver: None,
                stats: DeskStats::default(),
            }),
        })
    }

    /// Gives a request to the engine.
    pub(crate) fn submit(&self, ready_ns: u64, job: Job) -> Rc<Flow> {
        let mut inner = self.inner.borrow_mut();
        let flow = Rc::new(Flow::default());
        inner.flows.insert(job.id, Rc::clone(&flow));
        let mut actions = std::mem::take(&mut inner.actions);
        inner.engine.submit(ready_ns, mono_ns(), job, &mut actions);
        inner.actions = actions;
        inner.apply();
        let (running, waiting) = (inner.engine.running() as u64, inner.engine.waiting() as u64);
        inner.stats.peak_running = inner.stats.peak_running.max(running);
        inner.stats.peak_waiting = inner.stats.peak_waiting.max(waiting);
        inner.rearm();
        flow
    }

    /// Takes a request away from the engine; nothing happens when it has ended.
    pub(crate) fn cancel(&self, id: u64) {
        let mut inner = self.inner.borrow_mut();
        if inner.flows.remove(&id).is_none() {
            return;
        }
        let mut actions = std::mem::take(&mut inner.actions);
        inner.engine.cancel(mono_ns(), id, &mut actions);
        inner.actions = actions;
        inner.apply();
        inner.rearm();
    }

    /// Empties the prefix cache.
    pub(crate) fn forget(&self) {
        self.inner.borrow_mut().engine.forget();
    }

    /// Requests in prefill or decode, in the queue, and blocks in the prefix cache.
    pub(crate) fn load(&self) -> (usize, usize, usize) {
        let inner = self.inner.borrow();
        (inner.engine.running(), inner.engine.waiting(), inner.engine.cached_blocks())
    }

    pub(crate) fn stats(&self) -> DeskStats {
        self.inner.borrow().stats
    }

    /// Waits until `deadline_ns` on the common timer.
    pub(crate) fn sleep_until_ns(self: &Rc<Self>, deadline_ns: u64) -> Sleep {
        Sleep { desk: Rc::clone(self), deadline_ns, name: None }
    }

    /// Runs the common timer. Never ends; is dropped with the server.
    pub(crate) async fn drive(self: Rc<Self>) {
        let timer = AsyncTimer::new();
        loop {
            let next = self.fire();
            let mut wait = pin!(timer.until(next));
            std::future::poll_fn(|cx| {
                let mut inner = self.inner.borrow_mut();
                // Somebody has put an earlier deadline in: wait for that one.
                if inner.next_ns() < next {
                    return Poll::Ready(());
                }
                inner.armed_ns = next;
                inner.driver = Some(cx.waker().clone());
                drop(inner);
                if next == u64::MAX { Poll::Pending } else { wait.as_mut().poll(cx) }
            })
            .await;
            self.inner.borrow_mut().armed_ns = 0;
        }
    }

    /// Lets everything happen that is due and returns the next deadline.
    fn fire(&self) -> u64 {
        let mut inner = self.inner.borrow_mut();
        let now = mono_ns();
        let due = inner.next_ns();
        if due <= now {
            let late = now - due;
            inner.stats.late_max_ns = inner.stats.late_max_ns.max(late);
            inner.stats.late_sum_ns += late;
            inner.stats.late_count += 1;
        }
        let mut actions = std::mem::take(&mut inner.actions);
        inner.engine.advance(now, &mut actions);
        inner.actions = actions;
        inner.apply();
        while let Some(&Reverse((at, name))) = inner.sleeps.peek() {
            if at > now {
                break;
            }
            inner.sleeps.pop();
            if let Some(waker) = inner.sleepers.remove(&name) {
                waker.wake();
            }
        }
        inner.next_ns()
    }
}

impl Inner {
    fn next_ns(&self) -> u64 {
        let sleep = self.sleeps.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
        self.engine.next_ns().unwrap_or(u64::MAX).min(sleep)
    }

    /// Tells the flows what the engine said. Wakers only queue their tasks, so nothing comes back in here.
    fn apply(&mut self) {
        for action in self.actions.drain(..) {
            let Some(flow) = self.flows.get(&action.id) else { continue };
            match action.what {
                What::PrefillStart { cached } => {
                    flow.prefill_start_ns.set(Some(action.at_ns));
                    flow.cached.set(cached);
                }
                What::PrefillEnd => flow.prefill_end_ns.set(Some(action.at_ns)),
                What::Tokens { done } => flow.done.set(done),
                What::End => flow.ended.set(true),
            }
            let waker = flow.waker.borrow_mut().take();
            if flow.ended.get() {
                self.flows.remove(&action.id);
            }
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    fn rearm(&mut self) {
        if self.next_ns() < self.armed_ns
            && let Some(driver) = self.driver.take()
        {
            driver.wake();
        }
    }
}

/// A wait on the common timer.
#[derive(Debug)]
pub(crate) struct Sleep {
    desk: Rc<Desk>,
    deadline_ns: u64,
    name: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if mono_ns() >= self.deadline_ns {
            return Poll::Ready(());
        }
        let desk = Rc::clone(&self.desk);
        let mut inner = desk.inner.borrow_mut();
        let name = if let Some(name) = self.name {
            name
        } else {
            let name = inner.next_sleep;
            inner.next_sleep += 1;
            inner.sleeps.push(Reverse((self.deadline_ns, name)));
            self.name = Some(name);
            name
        };
        inner.sleepers.insert(name, cx.waker().clone());
        inner.rearm();
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(name) = self.name {
            self.desk.inner.borrow_mut().sleepers.remove(&name);
        }
    }
}
