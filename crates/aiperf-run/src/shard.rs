//! One shard: a thread with a single-threaded runtime and its own connections, that paces and sends its part of the run.
//!
//! The life of a request here is pace → write → stamp reads → hand over. Nothing is parsed, tokenized or written to disk on
//! this thread, but for the reply that a session's next turn repeats; and nothing is shared per request but a counter or a
//! permit.

mod session;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::CancelReason;
use aiperf_core::plan::{EndpointPlan, Pacing};
use aiperf_core::ticket::{Ticket, Uuid};
use aiperf_core::url::BaseUrl;
use aiperf_load::{Arrivals, Stage, share};
use aiperf_net::{Answer, Client, Endpoint};
use aiperf_os::deadlines::Deadlines;
use aiperf_os::mono_ns;
use aiperf_rng::Key;
use bytes::Bytes;
use tokio::runtime::LocalOptions;
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinError, JoinSet};

use crate::error::RunError;
use crate::handover::Handover;
use crate::phase::Phase;
use crate::prepare::Prepared;

/// Ended requests handed over in one message.
const BATCH: usize = 64;
/// A batch that is not full waits no longer than this.
const BATCH_AGE: Duration = Duration::from_millis(20);

/// A request that ended, on its way to the reader.
#[derive(Debug)]
pub(crate) struct Ended {
    pub ticket: Ticket,
    pub exchange: Exchange,
    pub prepared: Arc<Prepared>,
    /// The body as it was sent, with all that was said before in it.
    pub body: Bytes,
    /// What came back, if the session's next turn had to know it.
    pub answer: Option<Answer>,
}

/// What a shard is told.
#[derive(Debug)]
pub(crate) enum Command {
    /// Run this phase; answer with [`ShardEvent::PhaseDone`].
    Phase(Arc<Phase>),
    /// Stop sending and drop what is in flight.
    Cancel(CancelReason),
}

/// What a shard tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShardEvent {
    /// Its part of the phase is over.
    PhaseDone,
    /// Its thread is gone.
    Gone,
}

/// What a shard is made of.
pub(crate) struct ShardSetup {
    pub index: usize,
    pub shards: usize,
    pub endpoint: EndpointPlan,
    /// Reads the replies that later turns repeat.
    pub api: Arc<Endpoint>,
    pub url: BaseUrl,
    pub tls: Option<Arc<rustls::ClientConfig>>,
    pub seed: u64,
    /// Key of the ids of this run: random, so that no two runs share an id.
    pub id_key: u64,
    pub commands: mpsc::UnboundedReceiver<Command>,
    pub events: mpsc::UnboundedSender<ShardEvent>,
    pub ended: Handover,
}

/// Runs a shard until its commands end. Meant for a thread of its own.
pub(crate) fn run(setup: ShardSetup) -> Result<(), RunError> {
    /// Tells of the thread's end, however it comes.
    struct Farewell(mpsc::UnboundedSender<ShardEvent>);
    impl Drop for Farewell {
        fn drop(&mut self) {
            // The receiver is gone only when the run is.
            let _ = self.0.send(ShardEvent::Gone);
        }
    }
    let _farewell = Farewell(setup.events.clone());
    aiperf_os::sched::set_timer_slack(1);
    let client = Client::new(&setup.endpoint, &setup.url, setup.tls.clone())?;
    // Not a `LocalSet` in a runtime: there, what a socket wakes goes through a shared queue and a second scheduler.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(RunError::Thread)?;
    runtime.block_on(serve(setup, client));
    Ok(())
}

async fn serve(setup: ShardSetup, client: Client) {
    let ShardSetup { index, shards, api, seed, id_key, mut commands, events, ended, .. } = setup;
    let shard = Rc::new(Shard {
        index,
        shards,
        seed,
        ids: IdSource { stream: Key::new(id_key).purpose("run.ids").lane(index as u64), next: Cell::new(0) },
        api,
        client,
        deadlines: Deadlines::new(),
        batch: RefCell::new(Vec::new()),
        ended,
    });
    let driver = {
        let deadlines = shard.deadlines.clone();
        tokio::task::spawn_local(async move { deadlines.drive().await })
    };
    let mut waiting_cancel = None;
    'phases: while let Some(command) = commands.recv().await {
        let phase = match command {
            Command::Phase(phase) => phase,
            // Between phases nothing is in flight; the next phase starts cancelled.
            Command::Cancel(reason) => {
                waiting_cancel = Some(reason);
                continue;
            }
        };
        let cancel = Rc::new(Cancel::default());
        if let Some(reason) = waiting_cancel {
            cancel.fire(reason);
        }
        let mut work = std::pin::pin!(shard.clone().phase(phase.clone(), cancel.clone()));
        let mut flush = tokio::time::interval(BATCH_AGE);
        flush.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = &mut work => break,
                command = commands.recv() => match command {
                    Some(Command::Cancel(reason)) => {
                        waiting_cancel = Some(reason);
                        cancel.fire(reason);
                    }
                    Some(Command::Phase(_)) => tracing::error!("a phase was started inside another"),
                    None => break 'phases,
                },
                _ = flush.tick() => shard.flush(),
            }
        }
        shard.flush();
        if events.send(ShardEvent::PhaseDone).is_err() {
            break;
        }
    }
    shard.flush();
    driver.abort();
    tracing::info!("shard {index}: {:?}", shard.client.counters());
}

/// The wish to drop what is in flight, within one shard.
#[derive(Debug, Default)]
struct Cancel {
    reason: Cell<Option<CancelReason>>,
    notify: Notify,
}

impl Cancel {
    fn fire(&self, reason: CancelReason) {
        if self.reason.get().is_none() {
            self.reason.set(Some(reason));
            self.notify.notify_waiters();
        }
    }

    fn fired(&self) -> bool {
        self.reason.get().is_some()
    }

    async fn wait(&self) -> CancelReason {
        loop {
            let notified = self.notify.notified();
            if let Some(reason) = self.reason.get() {
                return reason;
            }
            notified.await;
        }
    }
}

/// Ids that no other run, shard or request has.
struct IdSource {
    stream: aiperf_rng::Stream,
    next: Cell<u64>,
}

impl IdSource {
    fn take(&self) -> Uuid {
        let at = self.next.get();
        self.next.set(at + 1);
        Uuid::from_random(self.stream.at(at).next_u128())
    }
}

struct Shard {
    index: usize,
    shards: usize,
    seed: u64,
    ids: IdSource,
    api: Arc<Endpoint>,
    client: Client,
    deadlines: Deadlines,
    batch: RefCell<Vec<Ended>>,
    ended: Handover,
}

impl Shard {
    /// This shard's part of a phase, until its last request ended.
    async fn phase(self: Rc<Self>, phase: Arc<Phase>, cancel: Rc<Cancel>) {
        let over = {
            let (shard, phase, cancel) = (self.clone(), phase.clone(), cancel.clone());
            tokio::task::spawn_local(async move {
                if phase.window.over_ns != u64::MAX {
                    shard.deadlines.until(phase.window.over_ns).await;
                    cancel.fire(CancelReason::GraceOver);
                }
            })
        };
        self.deadlines.until(phase.window.start_ns).await;
        match &phase.plan.pacing {
            Pacing::FixedSchedule { .. } | Pacing::UserCentric { .. } => {}
            Pacing::Concurrency => self.clone().closed_loop(&phase, &cancel).await,
            Pacing::Rate { rate, arrival } => {
                let arrivals = Arrivals::new(rate, *arrival, self.seed, phase.number);
                self.clone().open_loop(&phase, &cancel, arrivals).await;
            }
        }
        over.abort();
    }

    /// One worker per place; each starts the next session as soon as its last one ended.
    async fn closed_loop(self: Rc<Self>, phase: &Arc<Phase>, cancel: &Rc<Cancel>) {
        let places = share::places(phase.plan.concurrency.unwrap_or(1), self.index, self.shards);
        let mut workers = JoinSet::new();
        for _ in 0..places {
            let (shard, phase, cancel) = (self.clone(), phase.clone(), cancel.clone());
            workers.spawn_local(async move {
                loop {
                    let over = phase.window.stage(mono_ns()) != Stage::Sending;
                    if cancel.fired() || over || phase.is_spent() {
                        return;
                    }
                    let session = phase.next_session.fetch_add(1, Ordering::Relaxed);
                    if !phase.window.admits(session) {
                        return;
                    }
                    shard.session(&phase, &cancel, session, None).await;
                    // What came for other streams at the same moment is stamped before this one's next request is made and sent:
                    // in step with each other, 64 streams would else stamp their last chunks up to 64 requests late.
                    tokio::task::yield_now().await;
                }
            });
            // Each connects and sends before the next one starts, where the server is near; all at once, the first request of
            // each would be stamped before the connections of all others were made. The kernel may answer a handshake in a
            // thread of its own that waits for this core, so the core is offered once, too.
            tokio::task::yield_now().await;
            std::thread::yield_now();
            tokio::task::yield_now().await;
        }
        join_all(workers).await;
    }

    /// Starts each of its sessions at its instant, whatever the others do.
    async fn open_loop(
        self: Rc<Self>,
        phase: &Arc<Phase>,
        cancel: &Rc<Cancel>,
        arrivals: impl Iterator<Item = u64>,
    ) {
        let mut sessions = JoinSet::new();
        let mut stopped_ns = None;
        for (session, offset_ns) in arrivals.enumerate() {
            let session = session as u64;
            if !phase.window.has_arrival(session, offset_ns) {
                break;
            }
            if !share::owns(session, self.index, self.shards) {
                continue;
            }
            let at_ns = phase.window.start_ns.saturating_add(offset_ns);
            if stopped_ns.is_none() {
                if mono_ns() >= at_ns {
                    // Behind its schedule this loop never waits, and the sessions it started would never come to their turn.
                    tokio::task::yield_now().await;
                }
                tokio::select! {
                    biased;
                    _ = cancel.wait() => stopped_ns = Some(mono_ns()),
                    () = self.deadlines.until(at_ns) => {}
                }
            }
            if let Some(stopped_ns) = stopped_ns {
                if at_ns > stopped_ns {
                    break;
                }
                // It came due before the stop, though the loop was too late for it.
                phase.counters.scheduled.fetch_add(1, Ordering::Relaxed);
                phase.counters.unsent.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            if phase.is_spent() {
                break;
            }
            let (shard, phase, cancel) = (self.clone(), phase.clone(), cancel.clone());
            sessions.spawn_local(async move {
                shard.session_with_place(&phase, &cancel, session, at_ns).await;
            });
            // Those that ended leave the set as others arrive, so that it holds the live ones only.
            while let Some(ended) = sessions.try_join_next() {
                pass_on_panic(ended);
            }
        }
        join_all(sessions).await;
    }

    fn hand_over(&self, ended: Ended) {
        let mut batch = self.batch.borrow_mut();
        batch.push(ended);
        if batch.len() >= BATCH {
            let full = std::mem::replace(&mut *batch, Vec::with_capacity(BATCH));
            self.ended.send(full);
        }
    }

    fn flush(&self) {
        let batch = std::mem::take(&mut *self.batch.borrow_mut());
        if !batch.is_empty() {
            self.ended.send(batch);
        }
    }
}

/// Waits for tasks; a panic in one is passed on, for it means lost requests.
async fn join_all(mut tasks: JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        pass_on_panic(ended);
    }
}

fn pass_on_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toys;
    use aiperf_core::plan::{Arrival, EndpointKind, PhasePlan};
    use tokio::sync::Semaphore;

    /// A shard of its own on its own thread.
    pub(super) struct Alone {
        pub commands: mpsc::UnboundedSender<Command>,
        pub events: mpsc::UnboundedReceiver<ShardEvent>,
        pub ended: crate::handover::Incoming,
        thread: std::thread::JoinHandle<Result<(), RunError>>,
    }

    impl Alone {
        /// One that talks to `endpoint`.
        pub(super) fn start(endpoint: EndpointPlan) -> Self {
            let (commands_tx, commands) = mpsc::unbounded_channel();
            let (events_tx, events) = mpsc::unbounded_channel();
            let (ended_tx, ended) = crate::handover::channel();
            let setup = ShardSetup {
                index: 0,
                shards: 1,
                api: Arc::new(Endpoint::new(&endpoint)),
                url: endpoint.url().clone(),
                endpoint,
                tls: None,
                seed: 1,
                id_key: 1,
                commands,
                events: events_tx,
                ended: ended_tx,
            };
            let thread = std::thread::spawn(move || run(setup));
            Self { commands: commands_tx, events, ended, thread }
        }

        /// Waits until the phase is done, ends the shard, and returns what ended and was not looked at.
        pub(super) fn finish(mut self) -> Vec<Ended> {
            assert_eq!(self.events.blocking_recv(), Some(ShardEvent::PhaseDone));
            drop(self.commands);
            self.thread.join().expect("no panic").expect("no error");
            std::iter::from_fn(|| self.ended.recv()).flatten().collect()
        }
    }

    /// Runs `phase` on a shard of its own and returns when that is done with it.
    fn run_phase(phase: &Arc<Phase>) {
        let alone = Alone::start(toys::endpoint(EndpointKind::Chat));
        alone.commands.send(Command::Phase(phase.clone())).expect("the shard listens");
        assert!(alone.finish().is_empty());
    }

    const HOUR_NS: u64 = 3_600_000_000_000;

    #[test]
    fn without_bodies_a_phase_ends_long_before_its_time() {
        let rate = Pacing::steady(1000.0, Arrival::Constant);
        for pacing in [Pacing::Concurrency, rate] {
            let plan = PhasePlan { pacing, duration_ns: Some(HOUR_NS), ..toys::closed_loop() };
            let phase = toys::phase(plan, mono_ns());
            phase.ring.close();
            run_phase(&phase);
            assert_eq!(phase.counters.scheduled.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn nothing_comes_due_behind_the_cap() {
        let pacing = Pacing::steady(1000.0, Arrival::Constant);
        let plan = PhasePlan { pacing, requests: Some(5), ..toys::closed_loop() };
        let phase = toys::phase(plan, mono_ns());
        // Sessions of several turns have reached the cap before as many sessions came due.
        phase.counters.sent.store(5, Ordering::Relaxed);
        run_phase(&phase);
        assert_eq!(phase.counters.scheduled.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_waits_for_a_body_at_the_end_of_sending_waits_no_longer() {
        let pacing = Pacing::steady(1000.0, Arrival::Constant);
        let plan = PhasePlan { pacing, duration_ns: Some(3_000_000), ..toys::closed_loop() };
        // No grace ends it, and no body ever comes.
        let phase = toys::phase(plan, mono_ns());
        run_phase(&phase);
        let counters = &phase.counters;
        let (scheduled, unsent) = (&counters.scheduled, &counters.unsent);
        assert_eq!((scheduled.load(Ordering::Relaxed), unsent.load(Ordering::Relaxed)), (3, 3));
    }

    /// Runs `arrivals` on a shard of its own, with `cancel`.
    fn run_arrivals(phase: &Arc<Phase>, cancel: &Rc<Cancel>, arrivals: impl Iterator<Item = u64>) {
        let endpoint = toys::endpoint(EndpointKind::Chat);
        let shard = Rc::new(Shard {
            index: 0,
            shards: 1,
            seed: 1,
            ids: IdSource { stream: Key::new(1).purpose("run.ids").lane(0), next: Cell::new(0) },
            api: Arc::new(Endpoint::new(&endpoint)),
            client: Client::new(&endpoint, endpoint.url(), None).expect("a client"),
            deadlines: Deadlines::new(),
            batch: RefCell::new(Vec::new()),
            ended: crate::handover::channel().0,
        });
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .expect("a runtime")
            .block_on(shard.open_loop(phase, cancel, arrivals));
    }

    #[test]
    fn what_came_due_before_a_stop_is_counted_and_nothing_else() {
        let pacing = Pacing::steady(1e9, Arrival::Constant);
        let phase = toys::phase(PhasePlan { pacing, ..toys::closed_loop() }, mono_ns());
        let cancel = Rc::new(Cancel::default());
        // The loop comes to the third arrival when the run is stopped already; the last one lies ahead.
        let arrivals = [0, 0, 0, 0, HOUR_NS, HOUR_NS].into_iter().enumerate().map(|(i, offset_ns)| {
            if i == 2 {
                cancel.fire(CancelReason::Interrupted);
            }
            offset_ns
        });
        run_arrivals(&phase, &cancel, arrivals);
        let counters = &phase.counters;
        let (scheduled, unsent) = (&counters.scheduled, &counters.unsent);
        assert_eq!((scheduled.load(Ordering::Relaxed), unsent.load(Ordering::Relaxed)), (4, 4));
    }

    #[test]
    fn a_schedule_that_is_behind_leaves_sessions_their_turn() {
        let pacing = Pacing::steady(1e9, Arrival::Constant);
        let mut phase = toys::phase(PhasePlan { pacing, ..toys::closed_loop() }, mono_ns());
        Arc::get_mut(&mut phase).expect("nobody else has it").permits = Some(Semaphore::new(1));
        // All are due at once. The first session that runs takes the only place; no body ever comes.
        let mut is_place_taken = false;
        let arrivals = (0..1000).map(|i| {
            is_place_taken |= phase.permits.as_ref().is_some_and(|p| p.available_permits() == 0);
            if i == 999 {
                phase.ring.close();
            }
            0
        });
        run_arrivals(&phase, &Rc::new(Cancel::default()), arrivals);
        assert!(is_place_taken);
    }
}
