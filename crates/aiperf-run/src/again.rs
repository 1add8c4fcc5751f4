//! Conversations that are made again. Where those of all live sessions are too many, a session that thinks for long gives its
//! own back and gets the same one shortly before its next turn; what it keeps is the replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::error::RunError;
use crate::filler::{Bodies, CloseOnPanic};
use crate::prepare::{Composer, Prepared, Sessions};

/// When conversations are given back, and made again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rests {
    /// So many bytes live sessions may hold before those that think give theirs back.
    pub bytes: u64,
    /// So long before its next turn a session asks for its conversation. One that thinks for less than twice as long keeps it.
    pub ahead_ns: u64,
}

/// Those of a run.
pub(crate) const RESTS: Rests = Rests { bytes: 128 << 20, ahead_ns: 500_000_000 };

/// What live sessions of a phase hold, and who makes it again.
#[derive(Debug)]
pub(crate) struct Again {
    /// Bytes that go when their sessions give them back.
    held: AtomicU64,
    rests: Rests,
    maker: Option<Sender<Wish>>,
}

#[derive(Debug)]
enum Wish {
    /// The conversation of this session of the phase.
    Conversation(u64, oneshot::Sender<Arc<Prepared>>),
    /// Nothing more.
    Over,
}

/// The thread that makes conversations again, and how it ended.
pub(crate) type Maker = JoinHandle<Result<(), RunError>>;

impl Again {
    /// Nobody makes anything again: sessions keep what they have.
    pub(crate) fn never() -> Self {
        Self { held: AtomicU64::default(), rests: RESTS, maker: None }
    }

    /// Starts the maker: `composer` makes the same `sessions` as the one that fills `ring`, which closes when that fails.
    pub(crate) fn start(
        composer: Composer,
        sessions: Sessions,
        ring: Bodies,
        rests: Rests,
    ) -> Result<(Self, Maker), RunError> {
        let (maker, wishes) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("composer-again".into())
            .spawn(move || {
                aiperf_os::sched::lower_priority(5);
                let guard = CloseOnPanic(ring);
                make(composer, &sessions, &wishes).inspect_err(|_| guard.0.close())
            })
            .map_err(RunError::Thread)?;
        Ok((Self { held: AtomicU64::default(), rests, maker: Some(maker) }, thread))
    }

    /// Whether sessions have several turns, between which they may think.
    pub(crate) const fn is_there(&self) -> bool {
        self.maker.is_some()
    }

    /// Ends the maker. Who still waits for a conversation gets none.
    pub(crate) fn stop(&self) {
        if let Some(maker) = &self.maker {
            // It is gone already when it failed.
            let _ = maker.send(Wish::Over);
        }
    }
}

fn make(mut composer: Composer, sessions: &Sessions, wishes: &Receiver<Wish>) -> Result<(), RunError> {
    while let Ok(Wish::Conversation(session, to)) = wishes.recv() {
        // Its session may have been stopped meanwhile, as all of them are at the end.
        if to.is_closed() {
            continue;
        }
        let _ = to.send(composer.session(sessions, session)?);
    }
    Ok(())
}

/// The conversation of a session, while it is at hand.
pub(crate) struct InHand<'a> {
    again: &'a Again,
    session: u64,
    prepared: Option<Arc<Prepared>>,
}

impl<'a> InHand<'a> {
    /// That of session number `session` of the phase.
    pub(crate) fn new(again: &'a Again, session: u64, prepared: Arc<Prepared>) -> Self {
        let mut this = Self { again, session, prepared: None };
        this.take(prepared);
        this
    }

    fn take(&mut self, prepared: Arc<Prepared>) {
        // One turn waits for nothing; not even the counter is touched for it.
        if prepared.weight > 0 {
            self.again.held.fetch_add(prepared.weight, Ordering::Relaxed);
        }
        self.prepared = Some(prepared);
    }

    /// The conversation; `None` once it was given back.
    pub(crate) fn get(&self) -> Option<&Arc<Prepared>> {
        self.prepared.as_ref()
    }

    /// When to get it again, if it is worth to give it back until a turn at `wanted_ns`, now that it is `now_ns`.
    pub(crate) fn back_ns(&self, wanted_ns: u64, now_ns: u64) -> Option<u64> {
        let Again { held, rests, maker } = self.again;
        let is_free = self.prepared.as_ref().is_some_and(|prepared| prepared.weight > 0);
        let is_long = wanted_ns.saturating_sub(now_ns) >= 2 * rests.ahead_ns;
        let is_tight = || held.load(Ordering::Relaxed) > rests.bytes;
        (is_free && is_long && maker.is_some() && is_tight()).then(|| wanted_ns - rests.ahead_ns)
    }

    /// Gives it back.
    pub(crate) fn give_back(&mut self) {
        if let Some(prepared) = self.prepared.take().filter(|prepared| prepared.weight > 0) {
            self.again.held.fetch_sub(prepared.weight, Ordering::Relaxed);
        }
    }

    /// Gets it again; `false` when nobody makes it any more.
    pub(crate) async fn make(&mut self) -> bool {
        let (to, made) = oneshot::channel();
        let Some(maker) = &self.again.maker else { return false };
        if maker.send(Wish::Conversation(self.session, to)).is_err() {
            return false;
        }
        let Ok(prepared) = made.await else { return false };
        self.take(prepared);
        true
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}
