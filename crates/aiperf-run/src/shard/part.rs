//! A shard's part of a phase: its tasks, who of them may still send, and who waits for what.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use aiperf_core::outcome::CancelReason;
use aiperf_core::plan::PhaseKind;
use aiperf_load::{CancelDraw, Stage};
use aiperf_os::mono_ns;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;

use super::session::Arrival;
use super::{ShardEvent, pass_on_panic};
use crate::health::ShardMeter;
use crate::phase::Phase;

/// The wish to drop what is in flight, within one shard.
#[derive(Debug, Default)]
pub(super) struct Cancel {
    reason: Cell<Option<CancelReason>>,
    notify: Notify,
}

impl Cancel {
    pub(super) fn fire(&self, reason: CancelReason) {
        if self.reason.get().is_none() {
            self.reason.set(Some(reason));
            self.notify.notify_waiters();
        }
    }

    pub(super) fn fired(&self) -> bool {
        self.reason.get().is_some()
    }

    pub(super) async fn wait(&self) -> CancelReason {
        loop {
            let notified = self.notify.notified();
            if let Some(reason) = self.reason.get() {
                return reason;
            }
            notified.await;
        }
    }
}

/// See the module.
pub(super) struct Part {
    pub(super) phase: Arc<Phase>,
    pub(super) cancel: Cancel,
    /// Which requests are dropped on purpose.
    pub(super) cancels: Option<CancelDraw>,
    /// From arrival 0 to the end.
    meter: RefCell<Option<ShardMeter>>,
    /// Arrivals without a place so far.
    pub(super) waiting: RefCell<VecDeque<Arrival>>,
    /// Something was put into `waiting`.
    pub(super) gate: Notify,
    /// Turns that wait for an arrival; `None` once no more arrivals come.
    ready: RefCell<Option<VecDeque<ReadyTurn>>>,
    /// A turn is ready, or a sender less is there.
    pub(super) ticked: Notify,
    senders: Cell<u64>,
    events: mpsc::UnboundedSender<ShardEvent>,
    tasks: RefCell<JoinSet<()>>,
}

/// A turn that waits for an arrival.
struct ReadyTurn {
    since_ns: u64,
    at: oneshot::Sender<u64>,
}

/// The right to send in a part. When the last one is given back, the part has sent everything.
pub(super) struct MaySend(Rc<Part>);

/// A session that lives, for the meter.
pub(super) struct Lives<'a>(&'a Part);

impl Drop for Lives<'_> {
    fn drop(&mut self) {
        self.0.meter(|meter| meter.sessions().remove(mono_ns()));
    }
}

impl Part {
    pub(super) fn new(phase: Arc<Phase>, seed: u64, events: mpsc::UnboundedSender<ShardEvent>) -> Rc<Self> {
        let cancellation = phase.plan.cancellation.filter(|_| phase.plan.kind == PhaseKind::Profiling);
        Rc::new(Self {
            cancels: cancellation.map(|c| CancelDraw::new(c, seed, phase.number)),
            phase,
            cancel: Cancel::default(),
            meter: RefCell::default(),
            waiting: RefCell::default(),
            gate: Notify::new(),
            ready: RefCell::new(Some(VecDeque::new())),
            ticked: Notify::new(),
            senders: Cell::new(0),
            events,
            tasks: RefCell::default(),
        })
    }

    /// Begins to measure.
    pub(super) fn measure(&self, meter: ShardMeter) {
        *self.meter.borrow_mut() = Some(meter);
    }

    /// What was measured, once.
    pub(super) fn measured(&self) -> Option<ShardMeter> {
        self.meter.take()
    }

    pub(super) fn meter(&self, note: impl FnOnce(&mut ShardMeter)) {
        if let Some(meter) = &mut *self.meter.borrow_mut() {
            note(meter);
        }
    }

    /// Notes a session that has its prompt now, which it asked for at `asked_ns`, and, when what is returned is dropped, its end.
    pub(super) fn lives(&self, asked_ns: u64) -> Lives<'_> {
        let now_ns = mono_ns();
        self.meter(|meter| {
            meter.waited_for_prompt(now_ns.saturating_sub(asked_ns));
            meter.sessions().add(now_ns);
        });
        Lives(self)
    }

    pub(super) fn may_send(self: &Rc<Self>) -> MaySend {
        self.senders.set(self.senders.get() + 1);
        MaySend(self.clone())
    }

    /// Those that may still send.
    pub(super) fn senders(&self) -> u64 {
        self.senders.get()
    }

    /// Whether no session starts any more: sending is over, stopped, or all was sent.
    pub(super) fn starts_no_more(&self, now_ns: u64) -> bool {
        self.cancel.fired() || self.phase.window.stage(now_ns) != Stage::Sending || self.phase.is_spent()
    }

    /// Runs `work` beside the others.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + 'static) {
        let mut tasks = self.tasks.borrow_mut();
        tasks.spawn_local(work);
        // Those that ended leave the set as others come, so that it holds the live ones only.
        while let Some(ended) = tasks.try_join_next() {
            pass_on_panic(&ended);
        }
    }

    /// A request that came due at `at_ns` is not sent: the run stopped, or its phase was over.
    pub(super) fn cut(&self, at_ns: u64) {
        self.phase.counters.leave_out();
        self.meter(|meter| meter.cut(at_ns));
    }

    /// A request that came due at `at_ns` is not sent, for there was no place and the plan says to skip those.
    pub(super) fn skip(&self, at_ns: u64) {
        self.phase.counters.leave_out();
        self.phase.counters.skipped.fetch_add(1, Ordering::Relaxed);
        self.meter(|meter| meter.skipped(at_ns));
    }

    /// Waits for all tasks.
    pub(super) async fn end(&self) {
        while let Some(ended) = poll_fn(|cx| self.tasks.borrow_mut().poll_join_next(cx)).await {
            pass_on_panic(&ended);
        }
    }

    /// Puts a turn that is ready since `since_ns` among those that wait for an arrival; its instant comes through `at`.
    pub(super) fn offer(&self, since_ns: u64, at: oneshot::Sender<u64>) {
        let mut ready = self.ready.borrow_mut();
        let Some(ready) = &mut *ready else { return };
        // They become ready nearly in order.
        let place = ready.iter().rposition(|turn| turn.since_ns <= since_ns).map_or(0, |last| last + 1);
        ready.insert(place, ReadyTurn { since_ns, at });
        self.ticked.notify_waiters();
    }

    /// Gives the arrival at `at_ns` to the turn that is ready longest, if one was ready by then.
    pub(super) fn give(&self, at_ns: u64) -> bool {
        let mut ready = self.ready.borrow_mut();
        let Some(ready) = &mut *ready else { return false };
        while ready.front().is_some_and(|turn| turn.since_ns <= at_ns) {
            let Some(turn) = ready.pop_front() else { break };
            // Who was cut off while waiting left its end.
            if turn.at.send(at_ns).is_ok() {
                return true;
            }
        }
        false
    }

    /// Whether any turn waits for an arrival.
    pub(super) fn has_ready(&self) -> bool {
        self.ready.borrow().iter().flatten().any(|turn| !turn.at.is_closed())
    }

    /// No more arrivals come: turns that wait for one, now or later, are told so.
    pub(super) fn end_arrivals(&self) {
        self.ready.take();
    }
}

impl Drop for MaySend {
    fn drop(&mut self) {
        let left = self.0.senders.get() - 1;
        self.0.senders.set(left);
        self.0.ticked.notify_waiters();
        if left == 0 {
            self.0.meter(|meter| meter.sending_over(mono_ns()));
            // The receiver is gone only when the run is.
            let _ = self.0.events.send(ShardEvent::Sent(self.0.phase.number));
        }
    }
}
