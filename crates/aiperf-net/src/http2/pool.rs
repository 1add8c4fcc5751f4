//! Connections shared between requests, up to the streams that the server allows on each.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use aiperf_core::outcome::Failure;
use aiperf_os::mono_ns;
use tokio::sync::Notify;

use super::Shared;

/// A place on a connection; given back when dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) shared: Rc<Shared>,
    /// Nobody else was on it, so nothing vouches for its being alive.
    pub(crate) was_idle: bool,
}

impl Lease {
    /// A place on `shared`.
    pub(crate) fn new(shared: Rc<Shared>) -> Self {
        let streams = shared.streams.get();
        shared.streams.set(streams + 1);
        Self { shared, was_idle: streams == 0 }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let streams = self.shared.streams.get() - 1;
        self.shared.streams.set(streams);
        if streams == 0 {
            self.shared.idle_since_ns.set(mono_ns());
        }
    }
}

/// A connection that is being made. Who has no place on the others waits for it, if it can be expected to have one.
#[derive(Debug)]
struct Opening {
    /// How many will want a place on it.
    wanted: Cell<usize>,
    /// Once it is over: a failure is theirs too who waited.
    failure: RefCell<Option<Failure>>,
    notify: Notify,
}

/// Ends an opening, however that comes.
struct Opener<'a> {
    pool: &'a Pool,
    opening: Rc<Opening>,
}

impl Drop for Opener<'_> {
    fn drop(&mut self) {
        self.pool.openings.borrow_mut().retain(|o| !Rc::ptr_eq(o, &self.opening));
        self.opening.notify.notify_waiters();
    }
}

/// The connections of a client.
#[derive(Debug)]
pub(crate) struct Pool {
    kept: RefCell<Vec<Rc<Shared>>>,
    openings: RefCell<Vec<Rc<Opening>>>,
    /// Streams that the server allowed on the last connection that was made.
    streams: Cell<usize>,
}

/// What the search for a place came upon.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    /// Connections that had ended while nobody used them.
    pub(crate) stale: u64,
    /// Connections that nobody had used for too long.
    pub(crate) expired: u64,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self { kept: RefCell::default(), openings: RefCell::default(), streams: Cell::new(usize::MAX) }
    }

    /// A place on a connection that has one, the oldest first, so that few are used much. Those that ended, and those that
    /// were idle for longer than `keep_ns`, are dropped.
    pub(crate) fn find(&self, keep_ns: u64, dropped: &mut Dropped) -> Option<Lease> {
        let now_ns = mono_ns();
        let mut kept = self.kept.borrow_mut();
        kept.retain(|shared| {
            let idle = shared.streams.get() == 0;
            let open = shared.is_open();
            let expired = open && idle && now_ns.saturating_sub(shared.idle_since_ns.get()) > keep_ns;
            dropped.stale += u64::from(idle && shared.has_left());
            dropped.expired += u64::from(expired);
            open && !expired
        });
        let found = kept.iter().find(|shared| shared.streams.get() < shared.limit());
        found.map(|shared| Lease::new(Rc::clone(shared)))
    }

    /// A place on a fresh connection: one that is being made already, or else one made by `open`. `Ok(None)`: look again.
    pub(crate) async fn wait_or_open(
        &self,
        open: impl Future<Output = Result<Rc<Shared>, Failure>>,
    ) -> Result<Option<Lease>, Failure> {
        let streams = self.streams.get().max(1);
        let under_way = self.openings.borrow().iter().find(|o| o.wanted.get() < streams).cloned();
        if let Some(opening) = under_way {
            opening.wanted.set(opening.wanted.get() + 1);
            opening.notify.notified().await;
            return opening.failure.borrow().clone().map_or(Ok(None), Err);
        }
        self.open(open).await.map(Some)
    }

    /// A place on a connection made by `open`, for others too.
    pub(crate) async fn open(
        &self,
        open: impl Future<Output = Result<Rc<Shared>, Failure>>,
    ) -> Result<Lease, Failure> {
        let opening =
            Rc::new(Opening { wanted: Cell::new(1), failure: RefCell::new(None), notify: Notify::new() });
        self.openings.borrow_mut().push(Rc::clone(&opening));
        let opener = Opener { pool: self, opening };
        match open.await {
            Ok(shared) => {
                self.streams.set(shared.limit());
                self.kept.borrow_mut().push(Rc::clone(&shared));
                Ok(Lease::new(shared))
            }
            Err(failure) => {
                *opener.opening.failure.borrow_mut() = Some(failure.clone());
                Err(failure)
            }
        }
    }

    /// Closes the connections that carry no request.
    pub(crate) fn close_idle(&self) {
        self.kept.borrow_mut().retain(|shared| shared.streams.get() > 0);
    }

    /// Sockets of the connections, for tests that watch them.
    #[cfg(test)]
    pub(crate) fn sockets(&self) -> Vec<Rc<crate::wire::Socket>> {
        self.kept.borrow().iter().map(|shared| shared.socket()).collect()
    }
}
