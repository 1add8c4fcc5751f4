//! A client and a server without sockets: a queue of events, in which time goes from one to the next.
//!
//! It does what a run does with the answers of the machines, and nothing else: sessions take places, turns are sent when they
//! are due and allowed, an answer takes as long as the world says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use aiperf_core::plan::{Pacing, PhaseKind, PhasePlan};
use aiperf_load::{
    Arrivals, FixedSchedule, LimitCurve, Limited, PhaseWindow, ScheduleWindow, Stage, UserClock,
    UserSessions, share,
};

pub(crate) const S: u64 = 1_000_000_000;
pub(crate) const MS: u64 = 1_000_000;
/// More than any world has, so that a shard which finds none of its own does not look for ever.
const MOST_ARRIVALS: usize = 50_000;

/// Everything that a phase depends on. It starts at time 0.
pub(crate) struct World {
    pub(crate) plan: PhasePlan,
    pub(crate) shards: usize,
    /// Turns of each session.
    pub(crate) turns: u32,
    /// Think time between turns.
    pub(crate) think_ns: u64,
    /// How long an answer takes.
    pub(crate) service_ns: fn(u64, u32) -> u64,
    /// First timestamps of the workload, for a fixed schedule.
    pub(crate) starts_ns: Vec<u64>,
}

/// A request that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) session: u64,
    pub(crate) turn: u32,
    pub(crate) due_ns: u64,
    pub(crate) sent_ns: u64,
    pub(crate) end_ns: u64,
    /// It did not end within the phase.
    pub(crate) is_dropped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A request ended. First of those at the same moment, so that its place is free for the others.
    End { session: u64, turn: u32 },
    /// A turn is ready.
    Ready { session: u64, turn: u32 },
    /// A session is due that has its number already.
    Start { session: u64 },
    /// An arrival on a shard.
    Tick { shard: usize },
    /// A place of a closed loop is free.
    Place { place: u32 },
}

/// A session that is on its way.
#[derive(Debug, Clone, Copy)]
struct Live {
    place: Option<u32>,
    shard: usize,
    turns: u32,
    due_ns: u64,
}

impl World {
    /// A phase of `pacing` whose sessions are one turn that takes no time.
    pub(crate) fn new(pacing: Pacing) -> Self {
        Self {
            plan: PhasePlan::new("profiling", PhaseKind::Profiling, pacing),
            shards: 1,
            turns: 1,
            think_ns: 0,
            service_ns: |_, _| 0,
            starts_ns: Vec::new(),
        }
    }

    /// Runs the phase to its end.
    pub(crate) fn run(&self) -> Vec<Request> {
        let mut run = Run {
            world: self,
            window: PhaseWindow::start(&self.plan, 0),
            events: BinaryHeap::new(),
            live: BTreeMap::new(),
            waiting: VecDeque::new(),
            ready: vec![VecDeque::new(); self.shards],
            ticks: Vec::new(),
            curve: None,
            schedule: None,
            next_session: 0,
            sent: Vec::new(),
        };
        run.begin();
        while let Some(Reverse((now_ns, event))) = run.events.pop() {
            run.handle(now_ns, event);
        }
        run.sent
    }
}

struct Run<'a> {
    world: &'a World,
    window: PhaseWindow,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    live: BTreeMap<u64, Live>,
    /// Sessions that wait for a place, with the moments they were due.
    waiting: VecDeque<(u64, Live)>,
    /// Turns that wait for an arrival, by shard.
    ready: Vec<VecDeque<(u64, u32)>>,
    ticks: Vec<Box<dyn Iterator<Item = u64>>>,
    curve: Option<LimitCurve>,
    schedule: Option<FixedSchedule>,
    next_session: u64,
    sent: Vec<Request>,
}

impl Run<'_> {
    fn at(&mut self, at_ns: u64, event: Event) {
        self.events.push(Reverse((at_ns, event)));
    }

    fn begin(&mut self) {
        let World { plan, shards, turns, .. } = self.world;
        let (seed, phase) = (7, 1);
        match &plan.pacing {
            Pacing::Concurrency => {
                let target = plan.concurrency.unwrap_or(1);
                let ramp = plan.concurrency_ramp.as_ref();
                let curve = LimitCurve::new(target, ramp, Limited::Sessions, seed, phase);
                for shard in 0..*shards {
                    for own in 0..share::places(curve.peak(), shard, *shards) {
                        let place = own * *shards as u32 + shard as u32;
                        if let Some(at_ns) = curve.reached_ns(place + 1) {
                            self.at(at_ns, Event::Place { place });
                        }
                    }
                }
                self.curve = Some(curve);
            }
            Pacing::Rate { rate, arrival } => {
                for shard in 0..*shards {
                    let arrivals = Arrivals::new(rate, *arrival, seed, phase).take(MOST_ARRIVALS);
                    let own = share_of(arrivals, shard, *shards);
                    self.ticks.push(Box::new(own));
                    self.next_tick(shard);
                }
            }
            Pacing::FixedSchedule { auto_offset, start_offset_ns, end_offset_ns } => {
                let window = ScheduleWindow {
                    auto_offset: *auto_offset,
                    start_ns: *start_offset_ns,
                    end_ns: *end_offset_ns,
                };
                let starts = &self.world.starts_ns;
                let schedule =
                    FixedSchedule::new(starts.len(), |i| Some(starts[i]), |i| i.to_string(), &window)
                        .expect("times in the window");
                for (session, entry) in (0..).zip(schedule.entries()) {
                    if self.window.has_arrival(session, entry.offset_ns) {
                        self.events.push(Reverse((entry.offset_ns, Event::Start { session })));
                        self.live.insert(session, self.fresh(session, *turns, entry.offset_ns));
                    }
                }
                self.schedule = Some(schedule);
            }
            Pacing::UserCentric { per_second, users } => {
                for user in UserSessions::new(*per_second, *users, *turns, |_| *turns) {
                    if !self.window.has_arrival(user.session, user.start_ns) {
                        break;
                    }
                    self.at(user.start_ns, Event::Start { session: user.session });
                    self.live.insert(user.session, self.fresh(user.session, user.turns, user.start_ns));
                }
            }
        }
    }

    fn fresh(&self, session: u64, turns: u32, due_ns: u64) -> Live {
        Live { place: None, shard: (session % self.world.shards as u64) as usize, turns, due_ns }
    }

    fn handle(&mut self, now_ns: u64, event: Event) {
        match event {
            Event::End { session, turn } => self.ended(now_ns, session, turn),
            Event::Ready { session, turn } => {
                let shard = self.live[&session].shard;
                if self.ticks.is_empty() {
                    self.send(now_ns, session, turn);
                } else {
                    self.ready[shard].push_back((session, turn));
                }
            }
            Event::Start { session } => {
                let live = self.live.remove(&session).expect("it was announced");
                self.arrive(now_ns, session, live);
            }
            Event::Tick { shard } => {
                if let Some((session, turn)) = self.ready[shard].pop_front() {
                    self.send(now_ns, session, turn);
                } else if let Some(session) = self.number(now_ns) {
                    let live = Live { shard, ..self.fresh(session, self.world.turns, now_ns) };
                    self.arrive(now_ns, session, live);
                }
                let is_busy = self.window.admits(self.next_session) || !self.live.is_empty();
                if self.window.may_send(self.sent.len() as u64, now_ns) && is_busy {
                    self.next_tick(shard);
                }
            }
            Event::Place { place } => {
                let is_there = self.curve.as_ref().is_none_or(|curve| place < curve.limit_at(now_ns));
                if is_there && let Some(session) = self.number(now_ns) {
                    let live = Live { place: Some(place), ..self.fresh(session, self.world.turns, now_ns) };
                    self.live.insert(session, live);
                    self.send(now_ns, session, 0);
                }
            }
        }
    }

    /// The number of a session that starts now, if one may.
    fn number(&mut self, now_ns: u64) -> Option<u64> {
        let session = self.next_session;
        let may = self.window.may_send(self.sent.len() as u64, now_ns) && self.window.admits(session);
        may.then(|| {
            self.next_session += 1;
            session
        })
    }

    fn next_tick(&mut self, shard: usize) {
        if let Some(at_ns) = self.ticks[shard].next()
            && at_ns < self.window.sending_end_ns
        {
            self.at(at_ns, Event::Tick { shard });
        }
    }

    /// A session of an open loop starts, or waits for a place.
    fn arrive(&mut self, now_ns: u64, session: u64, live: Live) {
        if self.started() >= self.world.plan.concurrency.map_or(usize::MAX, |c| c as usize) {
            self.waiting.push_back((session, live));
            return;
        }
        self.live.insert(session, Live { place: Some(0), ..live });
        self.send(now_ns, session, 0);
    }

    fn started(&self) -> usize {
        self.live.values().filter(|live| live.place.is_some()).count()
    }

    fn send(&mut self, now_ns: u64, session: u64, turn: u32) {
        if !self.window.may_send(self.sent.len() as u64, now_ns) {
            return self.leave(now_ns, session);
        }
        let due_ns = if turn == 0 { self.live[&session].due_ns } else { now_ns };
        let wanted_ns = now_ns.saturating_add((self.world.service_ns)(session, turn));
        let end_ns = wanted_ns.min(self.window.over_ns);
        let is_dropped = wanted_ns > end_ns;
        self.sent.push(Request { session, turn, due_ns, sent_ns: now_ns, end_ns, is_dropped });
        self.live.get_mut(&session).expect("it is alive").due_ns = due_ns;
        self.at(end_ns, Event::End { session, turn });
    }

    fn ended(&mut self, now_ns: u64, session: u64, turn: u32) {
        let live = self.live[&session];
        if turn + 1 == live.turns || self.window.stage(now_ns) != Stage::Sending {
            return self.leave(now_ns, session);
        }
        let delay_ns = Some(self.world.think_ns).filter(|think| *think > 0);
        let ready_ns = match (&self.schedule, &self.world.plan.pacing) {
            (Some(schedule), _) => schedule.later_ns(0, None, delay_ns, now_ns),
            (None, Pacing::UserCentric { per_second, users }) => {
                UserClock::new(*per_second, *users).next_ns(live.due_ns, now_ns)
            }
            _ => now_ns.saturating_add(self.world.think_ns),
        };
        self.at(ready_ns, Event::Ready { session, turn: turn + 1 });
    }

    /// A session is over and its place is free.
    fn leave(&mut self, now_ns: u64, session: u64) {
        let live = self.live.remove(&session).expect("it is alive");
        if self.curve.is_some() {
            return self.at(now_ns, Event::Place { place: live.place.expect("a closed loop has places") });
        }
        if let Some((next, live)) = self.waiting.pop_front() {
            self.live.insert(next, Live { place: Some(0), ..live });
            self.send(now_ns, next, 0);
        }
    }
}

/// What `shard` keeps of a schedule.
pub(crate) fn share_of(
    arrivals: impl Iterator<Item = u64>,
    shard: usize,
    shards: usize,
) -> impl Iterator<Item = u64> {
    (0u64..)
        .zip(arrivals)
        .filter(move |(index, _)| share::owns(*index, shard, shards))
        .map(|(_, at_ns)| at_ns)
}

/// The most of `spans` that overlap. One that ends where another begins does not overlap it.
pub(crate) fn most_at_once(spans: impl IntoIterator<Item = (u64, u64)>) -> i64 {
    let mut edges: Vec<(u64, i64)> = spans.into_iter().flat_map(|(from, to)| [(from, 1), (to, -1)]).collect();
    edges.sort_unstable();
    let mut now = 0;
    edges
        .into_iter()
        .map(|(_, step)| {
            now += step;
            now
        })
        .max()
        .unwrap_or(0)
}

/// From the first request of each session to the end of its last.
pub(crate) fn lives(sent: &[Request]) -> Vec<(u64, u64)> {
    let mut lives: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for request in sent {
        let life = lives.entry(request.session).or_insert((request.sent_ns, request.end_ns));
        life.1 = life.1.max(request.end_ns);
    }
    lives.into_values().collect()
}
