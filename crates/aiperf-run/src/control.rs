//! The one place where phases, shards, the user's wish to stop, and the screen meet.

mod open;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aiperf_core::outcome::CancelReason;
use aiperf_core::plan::{PhaseKind, PhasePlan, Ramp};
use aiperf_load::{LimitCurve, Limited, PhaseWindow};
use aiperf_os::mono_ns;
use tokio::sync::{Notify, mpsc};
use tokio::time::MissedTickBehavior;

use crate::error::RunError;
use crate::filler::{self, Bodies, Filling};
use crate::health::ProcessMeter;
use crate::hooks::Hooks;
use crate::interrupt::Interrupt;
use crate::limit::{Limit, Limits};
use crate::live::Live;
use crate::phase::{Counters, Phase, Starts, Stop};
use crate::prepare::Composer;
use crate::progress::{Moment, Progress, TICK};
use crate::shard::{Command, ShardEvent};

pub(crate) use open::PhaseEnd;
use open::{LimitRamp, Open};

/// Time between the decision to start a phase and its arrival 0, so that every shard is waiting for it.
const START_AHEAD_NS: u64 = 500_000;
/// How long the end of a phase waits for the reader before it is told on the screen.
const READER_PATIENCE: Duration = Duration::from_millis(250);

/// Said once when the user stops the run.
const STOPPING: &str =
    "Stopping: requests in flight are dropped, results are written. Ctrl-C again quits at once.";

/// What the phases came to, whatever happened in them.
pub(crate) struct Ran {
    /// Those that started, in order.
    pub ends: Vec<PhaseEnd>,
    /// Gone when it panicked.
    pub composer: Option<Composer>,
    /// Why the run could not go on. What was measured until then stands.
    pub problems: Vec<RunError>,
}

/// Drives the shards through the phases.
pub(crate) struct Control {
    pub commands: Vec<mpsc::UnboundedSender<Command>>,
    pub events: mpsc::UnboundedReceiver<ShardEvent>,
    pub interrupt: Arc<Interrupt>,
    pub live: Arc<Live>,
    pub progress: Progress,
    /// Shards that are still there.
    pub alive: BTreeSet<u16>,
    /// Servers that requests go to.
    pub targets: usize,
    /// Seed of the run.
    pub seed: u64,
    /// What is asked of the servers around the load; `None` when nothing is.
    pub hooks: Option<Hooks>,
    /// What happened in it has stopped the run.
    pub is_stopped: bool,
}

/// How far a phase must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Its last request was sent.
    Sent,
    /// Its last request ended.
    Done,
}

impl Control {
    /// Runs the phases in order, until the last one or the one in which the run was stopped. A seamless phase starts when the
    /// one before it has sent everything, the others when it is over.
    pub(crate) async fn run(&mut self, phases: &[(PhasePlan, Starts)], composer: Composer) -> Ran {
        let mut ran = Ran { ends: Vec::new(), composer: Some(composer), problems: Vec::new() };
        let mut open: Vec<Open> = Vec::new();
        // The servers were told to profile themselves.
        let mut profiles = false;
        for (number, (plan, starts)) in phases.iter().enumerate() {
            let Some(composer) = ran.composer.take() else { break };
            let base = open.iter().map(|o| o.phase.counters.sessions.load(Ordering::Relaxed)).sum();
            let filling = match filler::start(plan, starts, base, composer) {
                Ok(filling) => filling,
                Err(problem) => {
                    ran.problems.push(problem);
                    break;
                }
            };
            let mut stopped = None;
            let is_filled = self.filled(filler::primed(plan, starts), &filling.ring).await;
            if is_filled && plan.kind == PhaseKind::Profiling && !profiles {
                stopped = self.start_profiler().await.err();
                profiles = true;
            }
            if is_filled && stopped.is_none() {
                open.push(self.start(number as u16, plan, starts, base, &filling));
                let until = match phases.get(number + 1) {
                    Some((next, _)) if next.seamless => Until::Sent,
                    _ => Until::Done,
                };
                stopped = self.wait(&mut open, until).await;
                if profiles && until == Until::Done {
                    self.stop_profiler().await;
                    profiles = false;
                }
            }
            let (composer, problem) = filling.stop();
            ran.composer = composer;
            let is_over = problem.is_some() || stopped.is_some();
            ran.problems.extend(problem.into_iter().chain(stopped));
            // A shard that is gone is told of when its thread is joined.
            if is_over || self.interrupt.fired() || self.alive.len() < self.commands.len() {
                break;
            }
        }
        ran.problems.extend(self.wait(&mut open, Until::Done).await);
        if profiles {
            self.stop_profiler().await;
        }
        ran.ends = open.iter_mut().map(Open::end).collect();
        ran
    }

    async fn start_profiler(&self) -> Result<(), RunError> {
        match &self.hooks {
            Some(hooks) => hooks.start_profiler().await,
            None => Ok(()),
        }
    }

    async fn stop_profiler(&self) {
        let Some(hooks) = &self.hooks else { return };
        for trouble in hooks.stop_profiler().await {
            tracing::warn!("{trouble}");
            self.progress.say(&format!("warning: {trouble}"));
        }
    }

    /// Waits until the first instant's sessions are ready; `false` when the user stopped the run before.
    async fn filled(&mut self, primed: u64, ring: &Bodies) -> bool {
        let interrupt = self.interrupt.clone();
        tokio::select! {
            biased;
            () = interrupt.wait() => {
                self.progress.say(STOPPING);
                // A phase before may still have requests in flight.
                self.cancel(CancelReason::Interrupted);
                false
            }
            () = ring.wait_filled(primed) => true,
        }
    }

    /// Starts a phase on all shards.
    fn start(
        &mut self,
        number: u16,
        plan: &PhasePlan,
        starts: &Starts,
        base: u64,
        filling: &Filling,
    ) -> Open {
        let mut ramps = Vec::new();
        let mut limit = |places: Option<u32>, ramp: Option<Ramp>, limited: Limited| {
            let curve = LimitCurve::new(places?, ramp.as_ref(), limited, self.seed, number);
            let limit = Limit::new(curve.limit_at(0));
            let mut ahead: Vec<(u64, u32)> = curve.changes().skip(1).collect();
            ahead.reverse();
            ramps.push(LimitRamp { limit: limit.clone(), ahead });
            Some(limit)
        };
        let limits = Limits {
            // A closed loop's places are the shards' own.
            sessions: limit(
                plan.concurrency.filter(|_| !plan.pacing.is_closed_loop()),
                plan.concurrency_ramp,
                Limited::Sessions,
            ),
            prefills: limit(plan.prefill_concurrency, plan.prefill_ramp, Limited::Prefills),
            in_flight: plan.max_in_flight.map(Limit::new),
        };
        let phase = Arc::new(Phase {
            number,
            plan: plan.clone(),
            window: PhaseWindow::start(plan, mono_ns() + START_AHEAD_NS),
            ring: filling.ring.clone(),
            again: filling.again.clone(),
            limits,
            starts: starts.clone(),
            base,
            next_session: AtomicU64::new(0),
            to_targets: (0..self.targets).map(|_| AtomicU64::new(0)).collect(),
            counters: Counters::default(),
            stop: Stop::default(),
            spent: Notify::new(),
            started: Notify::new(),
        });
        tracing::info!("phase {} starts", plan.name);
        self.progress.start(plan);
        for shard in &self.commands {
            // A shard that is gone told so through its events.
            let _ = shard.send(Command::Phase(phase.clone()));
        }
        Open {
            phase,
            sending: self.alive.len(),
            running: self.alive.clone(),
            ramps,
            end_ns: None,
            shards: Vec::new(),
            process: ProcessMeter::start(),
            used: None,
        }
    }

    /// Waits until the phase that started last is so far, and with [`Until::Done`] all before it, too. Gives the reason why the
    /// run was stopped, if it was stopped by what happened in it.
    async fn wait(&mut self, open: &mut [Open], until: Until) -> Option<RunError> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut told = self.interrupt.fired();
        let mut stopped: Option<RunError> = None;
        let interrupt = self.interrupt.clone();
        let live = self.live.clone();
        loop {
            self.close_ended(open).await;
            let is_there = match until {
                Until::Done => open.iter().all(|o| o.running.is_empty()),
                Until::Sent => open.last().is_none_or(Open::has_sent),
            };
            let Some(phase) = open.last().filter(|_| !is_there).map(|last| last.phase.clone()) else {
                return stopped;
            };
            let due = open.iter().filter_map(Open::next_ns).min();
            let due = async {
                match due {
                    Some(at_ns) => {
                        tokio::time::sleep(Duration::from_nanos(at_ns.saturating_sub(mono_ns()))).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                event = self.events.recv() => match event {
                    Some(event) => self.note(open, event),
                    None => return stopped,
                },
                () = interrupt.wait(), if !told => {
                    told = true;
                    self.progress.say(STOPPING);
                    self.cancel(CancelReason::Interrupted);
                }
                reason = phase.stop.wanted(), if !self.is_stopped => {
                    self.is_stopped = true;
                    stopped = Some(RunError::NoPlace { phase: phase.plan.name.clone() });
                    self.cancel(reason);
                }
                () = phase.reached_cap(), if until == Until::Sent => {}
                () = due => open.iter_mut().for_each(Open::change_limits),
                (failed, ended) = live.too_many_failed(), if !self.is_stopped => {
                    self.is_stopped = true;
                    stopped = Some(RunError::TooManyFailures { failed, ended });
                    self.cancel(CancelReason::Threshold);
                }
                _ = tick.tick() => self.progress.show(&self.moment(&phase)),
            }
        }
    }

    /// All shards stop sending and drop what is in flight.
    fn cancel(&self, reason: CancelReason) {
        for shard in &self.commands {
            let _ = shard.send(Command::Cancel(reason));
        }
    }

    fn note(&mut self, open: &mut [Open], event: ShardEvent) {
        let of = |number: u16| move |o: &&mut Open| o.phase.number == number;
        match event {
            ShardEvent::Sent(number) => {
                open.iter_mut().filter(of(number)).for_each(|o| o.sending -= 1);
            }
            ShardEvent::Done(number, health) => {
                if let Some(o) = open.iter_mut().find(of(number)) {
                    o.running.remove(&health.shard);
                    o.shards.push(*health);
                }
            }
            ShardEvent::Gone(shard) => {
                self.alive.remove(&shard);
                for o in open.iter_mut().filter(|o| o.running.contains(&shard)) {
                    o.running.remove(&shard);
                    // Nobody takes the bodies of its sessions, and the composer would wait for that. What the other shards
                    // have in flight may end.
                    o.phase.ring.close();
                }
            }
        }
    }

    /// Notes the end of phases whose last request ended, and tells of it.
    async fn close_ended(&mut self, open: &mut [Open]) {
        // Whoever still runs has limits to be changed and a user to be heard meanwhile.
        let patience =
            if open.iter().all(|o| o.running.is_empty()) { READER_PATIENCE } else { Duration::ZERO };
        for o in open.iter_mut().filter(|o| o.running.is_empty() && o.end_ns.is_none()) {
            o.end_ns = Some(mono_ns());
            o.used = Some(o.process.share());
            // The closing line counts every request, if the reader is not far behind.
            let (phase, ended) = (&o.phase, o.phase.counters.ended.load(Ordering::Relaxed));
            let _ = tokio::time::timeout(patience, self.live.caught_up(phase.number, ended)).await;
            self.progress.end(&phase.plan, &self.moment(phase));
            let counters = &phase.counters;
            tracing::info!(
                "phase {} complete: {} scheduled, {} unsent, {:.3} s",
                phase.plan.name,
                counters.scheduled.load(Ordering::Relaxed),
                counters.unsent.load(Ordering::Relaxed),
                mono_ns().saturating_sub(phase.window.start_ns) as f64 / 1e9
            );
        }
    }

    fn moment(&self, phase: &Phase) -> Moment {
        let now = mono_ns();
        let sent = phase.counters.sent.load(Ordering::Relaxed);
        Moment {
            elapsed_ns: now.saturating_sub(phase.window.start_ns),
            in_flight: phase.counters.in_flight(),
            ended: phase.counters.ended.load(Ordering::Relaxed),
            latest: self.live.read(phase.number),
            draining: !phase.window.may_send(sent, now),
        }
    }
}

#[cfg(test)]
mod tests;
