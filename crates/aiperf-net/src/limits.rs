//! What ends a request before its answer does, beside the limit of the whole: limits between two moments of it, and a
//! cancellation that was asked for.
//!
//! Few requests have any of it. Those that have are polled together with their limits: whatever the request did in a poll is
//! seen right behind it, so no event has to be sent from one to the other, and nothing is armed for a chunk.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use aiperf_os::mono_ns;
use tokio::time::Sleep;

use crate::seen::Carrier;

/// How far a request came, as its limits see it.
#[derive(Debug)]
pub(crate) struct Progress {
    carrier: RefCell<Option<Carrier>>,
    /// How often the request was put on one.
    attempts: Cell<u32>,
    /// The first content is there, or there will be none to wait for.
    settled: Cell<bool>,
    /// Bytes of head and body to be sent.
    expected: u64,
}

impl Progress {
    pub(crate) fn new(expected: u64) -> Self {
        Self { carrier: RefCell::new(None), attempts: Cell::new(0), settled: Cell::new(false), expected }
    }

    /// From now on the request is on `carrier`.
    pub(crate) fn carry(&self, carrier: Option<Carrier>) {
        self.attempts.set(self.attempts.get() + u32::from(carrier.is_some()));
        *self.carrier.borrow_mut() = carrier;
    }

    /// No content is waited for any more.
    pub(crate) fn content_is_settled(&self) {
        self.settled.set(true);
    }

    /// When the whole request had been handed to the kernel.
    fn sent_ns(&self) -> Option<u64> {
        self.carrier.borrow().as_ref()?.sent_ns(self.expected)
    }

    /// The last read of the answer.
    fn last_read_ns(&self) -> Option<u64> {
        self.carrier.borrow().as_ref()?.last_read_ns()
    }
}

/// Limits of a request, nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_field_names, reason = "the unit is part of a time's name everywhere")]
pub(crate) struct Limits {
    /// From the start until all is sent.
    pub(crate) send_ns: Option<u64>,
    /// Then, until it is dropped on purpose.
    pub(crate) cancel_after_ns: Option<u64>,
    /// From all being sent to the first content, of a stream.
    pub(crate) first_token_ns: Option<u64>,
    /// Between two reads.
    pub(crate) idle_ns: Option<u64>,
}

/// What ended a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The cancellation that was asked for.
    Asked,
    /// It could not be sent.
    Unsent,
    /// No content for this long.
    NoContent(u64),
    /// No read for this long.
    Idle(u64),
}

impl Limits {
    /// Whether there is any.
    pub(crate) fn any(&self) -> bool {
        let Self { send_ns, cancel_after_ns, first_token_ns, idle_ns } = self;
        [send_ns, cancel_after_ns, first_token_ns, idle_ns].iter().any(|limit| limit.is_some())
    }

    /// Waits until one of them is reached. To be polled whenever the request was, right behind it.
    pub(crate) async fn reached(self, progress: Rc<Progress>) -> Cut {
        let mut send = self.send_ns.map(Alarm::new);
        let mut attempt = 0;
        let (mut cancel, mut content) = (None, None);
        // The alarm, and the read it was set at.
        let mut idle: Option<(Alarm, u64)> = None;
        poll_fn(|cx| {
            if attempt != progress.attempts.get() {
                // Sent once more: what was waited for begins again.
                attempt = progress.attempts.get();
                (cancel, content, idle) = (None, None, None);
            }
            let sent_ns = progress.sent_ns();
            if sent_ns.is_some() {
                send = None;
            } else if let Some(carrier) = &*progress.carrier.borrow() {
                carrier.wake_when_sent(cx.waker());
            }
            if send.as_mut().is_some_and(|alarm| alarm.rings(cx)) {
                return Poll::Ready(Cut::Unsent);
            }
            if let (Some(after_ns), Some(sent_ns)) = (self.cancel_after_ns, sent_ns)
                && cancel.get_or_insert_with(|| Alarm::since(sent_ns, after_ns)).rings(cx)
            {
                return Poll::Ready(Cut::Asked);
            }
            if let (Some(limit_ns), Some(sent_ns)) = (self.first_token_ns, sent_ns)
                && !progress.settled.get()
                && content.get_or_insert_with(|| Alarm::since(sent_ns, limit_ns)).rings(cx)
            {
                return Poll::Ready(Cut::NoContent(limit_ns));
            }
            if let (Some(limit_ns), Some(read_ns)) = (self.idle_ns, progress.last_read_ns()) {
                loop {
                    let (alarm, set_at_ns) =
                        idle.get_or_insert_with(|| (Alarm::since(read_ns, limit_ns), read_ns));
                    if !alarm.rings(cx) {
                        break;
                    }
                    if *set_at_ns == read_ns {
                        return Poll::Ready(Cut::Idle(limit_ns));
                    }
                    // There were reads since: it counts from the last of them.
                    idle = None;
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Rings once, on tokio's wheel of milliseconds, or at once when there is nothing to wait for.
#[derive(Debug)]
struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    fn new(ns: u64) -> Self {
        Self((ns > 0).then(|| Box::pin(tokio::time::sleep(Duration::from_nanos(ns)))))
    }

    /// To ring `ns` after the monotonic `from_ns`.
    fn since(from_ns: u64, ns: u64) -> Self {
        Self::new(ns.saturating_sub(mono_ns().saturating_sub(from_ns)))
    }

    fn rings(&mut self, cx: &mut Context<'_>) -> bool {
        self.0.as_mut().is_none_or(|sleep| sleep.as_mut().poll(cx).is_ready())
    }
}
