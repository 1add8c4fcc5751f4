//! One shard: a thread with a single-threaded runtime and its own connections, that paces and sends its part of the run.
//!
//! The life of a request here is pace → write → stamp reads → hand over. Nothing is parsed, tokenized or written to disk on
//! this thread, but for the reply that a session's next turn repeats; and nothing is shared per request but a counter or a
//! permit.

mod closed;
mod open;
mod part;
mod session;
mod ticks;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::CancelReason;
use aiperf_core::plan::{ConnectionReuse, EndpointPlan, Pacing, UrlStrategy};
use aiperf_core::ticket::{Ticket, Uuid};
use aiperf_core::url::BaseUrl;
use aiperf_load::{Arrivals, Stage, Targets, UserClock, UserSessions, share};
use aiperf_metrics::ShardHealth;
use aiperf_net::{Answer, Client, Counters, Endpoint, NetError};
use aiperf_os::deadlines::Deadlines;
use aiperf_os::mono_ns;
use aiperf_rng::Key;
use bytes::Bytes;
use tokio::runtime::LocalOptions;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

use self::part::Part;
use self::session::{Apart, Arrival, Own, User};
use crate::error::RunError;
use crate::handover::Handover;
use crate::health::ShardMeter;
use crate::phase::{Phase, Starts, Users};
use crate::prepare::Prepared;

/// Ended requests handed over in one message.
const BATCH: usize = 64;
/// A batch that is not full waits no longer than this.
const BATCH_AGE: Duration = Duration::from_millis(20);
/// Time between two looks at how late this thread is.
const BEAT_NS: u64 = 10_000_000;
/// Turns on a core that a shard asks for: it mostly waits, and what it does when it wakes takes less than this.
const TURN_NS: u64 = 100_000;

/// A request that ended, on its way to the reader.
#[derive(Debug)]
pub(crate) struct Ended {
    pub ticket: Ticket,
    pub exchange: Exchange,
    pub prepared: Arc<Prepared>,
    /// The body as it was sent, with all that was said before in it.
    pub body: Bytes,
    /// The server keeps what was said before, which is not in the body.
    pub is_chained: bool,
    /// What came back, if the session's next turn had to know it.
    pub answer: Option<Answer>,
}

/// What a shard is told.
#[derive(Debug)]
pub(crate) enum Command {
    /// Run this phase, beside those that still run; answer with [`ShardEvent::Sent`] and [`ShardEvent::Done`].
    Phase(Arc<Phase>),
    /// Stop sending and drop what is in flight, in all phases.
    Cancel(CancelReason),
}

/// What a shard tells, of the phase with that number.
#[derive(Debug, PartialEq)]
pub(crate) enum ShardEvent {
    /// It sends nothing more.
    Sent(u16),
    /// Its part is over, and what it measured of itself.
    Done(u16, Box<ShardHealth>),
    /// The thread of that shard is gone.
    Gone(u16),
}

/// What a shard is made of.
pub(crate) struct ShardSetup {
    pub index: usize,
    pub shards: usize,
    pub endpoint: EndpointPlan,
    /// Headers and addresses are kept.
    pub traces: bool,
    /// Reads the replies that later turns repeat.
    pub api: Arc<Endpoint>,
    /// Where the plan's servers are.
    pub urls: Vec<BaseUrl>,
    pub tls: Option<Arc<rustls::ClientConfig>>,
    pub seed: u64,
    /// A session ends with a failed turn.
    pub aborts: bool,
    /// Key of the ids of this run: random, so that no two runs share an id.
    pub id_key: u64,
    pub commands: mpsc::UnboundedReceiver<Command>,
    pub events: mpsc::UnboundedSender<ShardEvent>,
    pub ended: Handover,
}

/// Runs a shard until its commands end. Meant for a thread of its own.
pub(crate) fn run(setup: ShardSetup) -> Result<(), RunError> {
    /// Tells of the thread's end, however it comes.
    struct Farewell(u16, mpsc::UnboundedSender<ShardEvent>);
    impl Drop for Farewell {
        fn drop(&mut self) {
            // The receiver is gone only when the run is.
            let _ = self.1.send(ShardEvent::Gone(self.0));
        }
    }
    let _farewell = Farewell(setup.index as u16, setup.events.clone());
    aiperf_os::sched::set_timer_slack(1);
    aiperf_os::sched::shorten_turns(TURN_NS);
    let traces = setup.traces;
    let clients = setup.urls.iter().map(|url| {
        let client = Client::new(&setup.endpoint, url, setup.tls.clone())?;
        Ok::<_, NetError>(if traces { client.keeping_headers() } else { client })
    });
    let clients = clients.collect::<Result<Vec<_>, _>>()?;
    // Not a `LocalSet` in a runtime: there, what a socket wakes goes through a shared queue and a second scheduler.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(RunError::Thread)?;
    runtime.block_on(serve(setup, clients));
    Ok(())
}

async fn serve(setup: ShardSetup, clients: Vec<Client>) {
    let ShardSetup {
        index, shards, endpoint, api, seed, aborts, id_key, mut commands, events, ended, ..
    } = setup;
    let weights = endpoint.targets.iter().map(|target| target.weight);
    let shard = Rc::new(Shard {
        index,
        shards,
        seed,
        aborts,
        targets: Targets::new(endpoint.url_strategy, weights, seed),
        counts_targets: endpoint.url_strategy == UrlStrategy::LeastInFlight && clients.len() > 1,
        reuse: endpoint.reuse,
        ids: IdSource { stream: Key::new(id_key).purpose("run.ids").lane(index as u64), next: Cell::new(0) },
        api,
        clients,
        deadlines: Deadlines::new(),
        batch: RefCell::new(Vec::new()),
        ended,
    });
    let driver = {
        let deadlines = shard.deadlines.clone();
        tokio::task::spawn_local(async move { deadlines.drive().await })
    };
    // A phase that is told of after the stop starts stopped.
    let mut stopped = None;
    let mut parts: Vec<Rc<Part>> = Vec::new();
    let mut running = JoinSet::new();
    let mut flush = tokio::time::interval(BATCH_AGE);
    flush.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            Some(done) = running.join_next(), if !running.is_empty() => {
                pass_on_panic(&done);
                if let Ok((number, health)) = done {
                    shard.flush();
                    parts.retain(|part| part.phase.number != number);
                    if events.send(ShardEvent::Done(number, Box::new(health))).is_err() {
                        break;
                    }
                }
            }
            command = commands.recv() => match command {
                Some(Command::Phase(phase)) => {
                    let part = Part::new(phase, seed, events.clone());
                    if let Some(reason) = stopped {
                        part.cancel.fire(reason);
                    }
                    parts.push(part.clone());
                    running.spawn_local(shard.clone().phase(part));
                }
                Some(Command::Cancel(reason)) => {
                    stopped = Some(reason);
                    for part in &parts {
                        part.cancel.fire(reason);
                    }
                }
                None => break,
            },
            _ = flush.tick(), if !parts.is_empty() => shard.flush(),
        }
    }
    shard.flush();
    driver.abort();
    for client in &shard.clients {
        tracing::info!("shard {index}: {:?}", client.counters());
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
    /// A session ends with a failed turn.
    aborts: bool,
    ids: IdSource,
    targets: Targets,
    /// Requests on the wire are counted for each server. All shards touch those counts, so only where they decide.
    counts_targets: bool,
    reuse: ConnectionReuse,
    api: Arc<Endpoint>,
    /// One for each server.
    clients: Vec<Client>,
    deadlines: Deadlines,
    batch: RefCell<Vec<Ended>>,
    ended: Handover,
}

impl Shard {
    /// This shard's part of a phase, until its last request ended.
    async fn phase(self: Rc<Self>, part: Rc<Part>) -> (u16, ShardHealth) {
        let phase = part.phase.clone();
        let over = {
            let (shard, part) = (self.clone(), part.clone());
            tokio::task::spawn_local(async move {
                if part.phase.window.over_ns != u64::MAX {
                    shard.deadlines.until(part.phase.window.over_ns).await;
                    part.cancel.fire(CancelReason::GraceOver);
                }
            })
        };
        self.deadlines.until(phase.window.start_ns).await;
        part.measure(ShardMeter::start(self.index as u16, mono_ns(), &self.counters()));
        let heart = tokio::task::spawn_local(self.clone().beat(part.clone()));
        match (&phase.starts, &phase.plan.pacing) {
            (Starts::Arrivals, Pacing::Rate { rate, arrival }) => {
                let arrivals = Arrivals::new(rate, *arrival, self.seed, phase.number);
                self.clone().open_loop(&part, (0..).zip(arrivals).map(numbered)).await;
            }
            (Starts::Ticks, Pacing::Rate { rate, arrival }) => {
                let arrivals = Arrivals::new(rate, *arrival, self.seed, phase.number);
                self.clone().ticks(&part, arrivals).await;
            }
            (Starts::Schedule(schedule), _) => {
                let offsets = schedule.entries().iter().map(|entry| entry.offset_ns);
                self.clone().open_loop(&part, (0..).zip(offsets).map(numbered)).await;
            }
            (Starts::Users(users), _) => self.clone().open_loop(&part, arrivals_of(users, phase.base)).await,
            _ if phase.again.is_there() => self.clone().closed_loop::<Apart>(&part).await,
            _ => self.clone().closed_loop::<Own>(&part).await,
        }
        part.end().await;
        over.abort();
        heart.abort();
        let counters = self.counters();
        let health = part.measured().map(|meter| meter.finish(mono_ns(), &counters)).unwrap_or_default();
        (phase.number, health)
    }

    /// What happened to connections to all servers.
    fn counters(&self) -> Counters {
        self.clients.iter().map(Client::counters).sum()
    }

    /// Measures how late this thread comes to what is due, whatever else it does.
    async fn beat(self: Rc<Self>, part: Rc<Part>) {
        loop {
            let due_ns = mono_ns() + BEAT_NS;
            self.deadlines.until(due_ns).await;
            let now_ns = mono_ns();
            part.meter(|meter| meter.woken(due_ns, now_ns));
            if part.phase.is_spent() || part.phase.window.stage(now_ns) != Stage::Sending {
                part.meter(|meter| meter.sending_over(now_ns));
            }
        }
    }

    /// Whether session or arrival `index` is this shard's.
    fn owns(&self, index: u64) -> bool {
        share::owns(index, self.index, self.shards)
    }

    /// Resolves when the phase stops sending; never without a duration.
    async fn sending_over(&self, phase: &Phase) {
        match phase.window.sending_end_ns {
            u64::MAX => std::future::pending().await,
            end_ns => self.deadlines.until(end_ns).await,
        }
    }

    /// Resolves when nothing more is to be sent: the run is stopped, sending is over, or the cap was reached.
    async fn stopped(&self, part: &Part) {
        tokio::select! {
            biased;
            _ = part.cancel.wait() => {}
            () = self.sending_over(&part.phase) => {}
            () = part.phase.reached_cap() => {}
        }
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

/// Session `session` at an offset from the start of its phase.
fn numbered((session, at_ns): (u64, u64)) -> Arrival {
    Arrival { session, at_ns, user: None }
}

/// The sessions of users, as they start. Sessions are numbered behind `base` others when they take their conversation.
fn arrivals_of(users: &Users, base: u64) -> impl Iterator<Item = Arrival> {
    let Users { per_second, at_once, mean_turns, workload, sampler } = users;
    let clock = UserClock::new(*per_second, *at_once);
    let turns_of = move |session| {
        u32::try_from(workload.turn_count(sampler.entry_for(base + session))).unwrap_or(u32::MAX)
    };
    UserSessions::new(*per_second, *at_once, *mean_turns, turns_of).map(move |next| {
        let user = User { id: next.user, turns: next.turns, clock };
        Arrival { session: next.session, at_ns: next.start_ns, user: Some(user) }
    })
}

/// A panic in a task is passed on, for it means lost requests.
fn pass_on_panic<T>(ended: &Result<T, JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        // The panic itself was told by its own thread's hook.
        std::panic::resume_unwind(Box::new("a task of the shard panicked"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use aiperf_core::plan::{Arrival as Gaps, EndpointKind, PhasePlan, Saturation};

    use super::*;
    use crate::limit::{Limit, Limits};
    use crate::toys;

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
            Self::start_as(endpoint, false)
        }

        /// One whose sessions may end with a failed turn.
        pub(super) fn start_as(endpoint: EndpointPlan, aborts: bool) -> Self {
            let (commands_tx, commands) = mpsc::unbounded_channel();
            let (events_tx, events) = mpsc::unbounded_channel();
            let (ended_tx, ended) = crate::handover::channel();
            let setup = ShardSetup {
                index: 0,
                shards: 1,
                api: Arc::new(Endpoint::new(&endpoint)),
                urls: endpoint.targets.iter().map(|target| target.url.clone()).collect(),
                endpoint,
                traces: false,
                tls: None,
                seed: 1,
                aborts,
                id_key: 1,
                commands,
                events: events_tx,
                ended: ended_tx,
            };
            let thread = std::thread::spawn(move || run(setup));
            Self { commands: commands_tx, events, ended, thread }
        }

        /// Waits until the phase is done, ends the shard, and returns what ended and was not looked at.
        pub(super) fn finish(self) -> Vec<Ended> {
            self.finish_measured().0
        }

        /// The same, and what the shard measured of itself.
        pub(super) fn finish_measured(mut self) -> (Vec<Ended>, ShardHealth) {
            assert_eq!(self.events.blocking_recv(), Some(ShardEvent::Sent(0)));
            let Some(ShardEvent::Done(0, health)) = self.events.blocking_recv() else {
                panic!("the phase is done when all is sent");
            };
            drop(self.commands);
            self.thread.join().expect("no panic").expect("no error");
            (std::iter::from_fn(|| self.ended.recv()).flatten().collect(), *health)
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
        let rate = Pacing::steady(1000.0, Gaps::Constant);
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
        let pacing = Pacing::steady(1000.0, Gaps::Constant);
        let plan = PhasePlan { pacing, requests: Some(5), ..toys::closed_loop() };
        let phase = toys::phase(plan, mono_ns());
        // Sessions of several turns have reached the cap before as many sessions came due.
        phase.counters.sent.store(5, Ordering::Relaxed);
        run_phase(&phase);
        assert_eq!(phase.counters.scheduled.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_waits_for_a_body_at_the_end_of_sending_waits_no_longer() {
        let pacing = Pacing::steady(1000.0, Gaps::Constant);
        let plan = PhasePlan { pacing, duration_ns: Some(3_000_000), ..toys::closed_loop() };
        // No grace ends it, and no body ever comes.
        let phase = toys::phase(plan, mono_ns());
        run_phase(&phase);
        let counters = &phase.counters;
        let (scheduled, unsent) = (&counters.scheduled, &counters.unsent);
        assert_eq!((scheduled.load(Ordering::Relaxed), unsent.load(Ordering::Relaxed)), (3, 3));
    }

    /// A shard of its own, whose deadlines nobody drives.
    fn shard() -> Rc<Shard> {
        let endpoint = toys::endpoint(EndpointKind::Chat);
        Rc::new(Shard {
            index: 0,
            shards: 1,
            seed: 1,
            aborts: false,
            ids: IdSource { stream: Key::new(1).purpose("run.ids").lane(0), next: Cell::new(0) },
            targets: Targets::new(UrlStrategy::RoundRobin, [1.0], 1),
            counts_targets: false,
            reuse: ConnectionReuse::Pooled,
            api: Arc::new(Endpoint::new(&endpoint)),
            clients: vec![Client::new(&endpoint, endpoint.url(), None).expect("a client")],
            deadlines: Deadlines::new(),
            batch: RefCell::new(Vec::new()),
            ended: crate::handover::channel().0,
        })
    }

    fn drive(work: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .expect("a runtime")
            .block_on(work);
    }

    /// Runs `arrivals` (offsets) on a shard of its own.
    fn run_arrivals(part: &Rc<Part>, arrivals: impl Iterator<Item = u64>) {
        drive(shard().open_loop(part, (0..).zip(arrivals).map(numbered)));
    }

    fn part(phase: Arc<Phase>) -> Rc<Part> {
        Part::new(phase, 1, mpsc::unbounded_channel().0)
    }

    fn counts(phase: &Phase) -> [u64; 3] {
        let counters = &phase.counters;
        [&counters.scheduled, &counters.unsent, &counters.skipped].map(|c| c.load(Ordering::Relaxed))
    }

    /// A schedule of a billion arrivals a second, with `places` for sessions.
    fn crowded(places: Option<u32>, saturation: Saturation) -> Arc<Phase> {
        let pacing = Pacing::steady(1e9, Gaps::Constant);
        let mut phase = toys::phase(PhasePlan { pacing, saturation, ..toys::closed_loop() }, mono_ns());
        let own = Arc::get_mut(&mut phase).expect("nobody else has it");
        own.limits = Limits { sessions: places.map(Limit::new), ..Limits::default() };
        phase
    }

    #[test]
    fn what_came_due_before_a_stop_is_counted_and_nothing_else() {
        let phase = crowded(None, Saturation::Queue);
        let part = part(phase.clone());
        // The loop comes to the third arrival when the run is stopped already; the last one lies ahead.
        let arrivals = [0, 0, 0, 0, HOUR_NS, HOUR_NS].into_iter().enumerate().map(|(i, offset_ns)| {
            if i == 2 {
                part.cancel.fire(CancelReason::Interrupted);
            }
            offset_ns
        });
        run_arrivals(&part, arrivals);
        assert_eq!(counts(&phase), [4, 4, 0]);
    }

    #[test]
    fn a_schedule_that_is_behind_leaves_sessions_their_turn() {
        let phase = crowded(Some(1), Saturation::Queue);
        let limit = phase.limits.sessions.clone().expect("it has one");
        // All are due at once. The first session that runs takes the only place; no body ever comes.
        let mut is_place_taken = false;
        let arrivals = (0..1000).map(|i| {
            is_place_taken |= limit.try_acquire().is_none();
            if i == 999 {
                phase.ring.close();
            }
            0
        });
        run_arrivals(&part(phase.clone()), arrivals);
        assert!(is_place_taken);
        // The last one came when no bodies were to come any more.
        assert_eq!(counts(&phase), [999, 999, 0]);
    }

    #[test]
    fn arrivals_without_a_place_are_skipped_where_the_plan_says_so() {
        let phase = crowded(Some(2), Saturation::Skip);
        let arrivals = (0..10).inspect(|i| {
            if *i == 9 {
                phase.ring.close();
            }
        });
        run_arrivals(&part(phase.clone()), arrivals.map(|_| 0));
        // Two hold the places and get no body; at the last one it is known that none comes.
        assert_eq!(counts(&phase), [9, 9, 7]);
        assert_eq!(phase.next_session.load(Ordering::Relaxed), 2, "who is skipped uses up no conversation");
    }

    #[test]
    fn an_arrival_without_a_place_asks_for_a_stop_where_the_plan_says_so() {
        let phase = crowded(Some(0), Saturation::Abort);
        run_arrivals(&part(phase.clone()), std::iter::once(0));
        assert_eq!(counts(&phase), [1, 1, 0]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        assert_eq!(runtime.block_on(phase.stop.wanted()), CancelReason::Saturated);
    }

    #[test]
    fn no_tick_is_waited_for_behind_the_cap() {
        let plan = PhasePlan { requests: Some(5), ..crowded(None, Saturation::Queue).plan.clone() };
        let phase = toys::phase(plan, mono_ns());
        phase.counters.sent.store(5, Ordering::Relaxed);
        drive(shard().ticks(&part(phase.clone()), std::iter::once(HOUR_NS)));
        assert_eq!(counts(&phase), [0, 0, 0]);
    }

    #[test]
    fn no_more_ticks_are_cut_by_a_stop_than_could_have_begun_a_session() {
        let plan = PhasePlan { requests: Some(3), ..crowded(None, Saturation::Queue).plan.clone() };
        let phase = toys::phase(plan, mono_ns());
        let part = part(phase.clone());
        part.cancel.fire(CancelReason::Interrupted);
        drive(shard().ticks(&part, std::iter::repeat_n(0, 10)));
        assert_eq!(counts(&phase), [3, 3, 0]);
    }

    #[test]
    fn a_turn_is_given_the_first_arrival_at_which_it_is_ready() {
        let part = part(crowded(None, Saturation::Queue));
        let offer = |since_ns| {
            let (sender, at) = tokio::sync::oneshot::channel();
            part.offer(since_ns, sender);
            at
        };
        let (mut late, mut early, gone) = (offer(30), offer(10), offer(5));
        drop(gone);
        assert!(part.has_ready() && !part.give(4), "nobody was ready by then");
        assert!(part.give(20) && !part.give(29) && part.give(31));
        assert_eq!((early.try_recv(), late.try_recv()), (Ok(20), Ok(31)));
        assert!(!part.has_ready());
    }
}
