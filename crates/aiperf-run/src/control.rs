//! The one place where phases, shards, the user's wish to stop, and the screen meet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use aiperf_core::outcome::CancelReason;
use aiperf_core::plan::{Pacing, PhaseKind, PhasePlan};
use aiperf_load::PhaseWindow;
use aiperf_os::mono_ns;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::MissedTickBehavior;

use crate::error::RunError;
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::phase::{Counters, Phase};
use crate::prepare::{Composer, Prepared, Sessions};
use crate::progress::{Moment, Progress, TICK};
use crate::ring::{Ahead, Ring};
use crate::shard::{Command, ShardEvent};

/// Slots of the ring of prepared conversations, beside two for each live session.
const RING_SLOTS: usize = 4096;
/// Bytes of bodies that may lie ready, beyond those of the first instant.
const READY_BYTES: u64 = 64 << 20;
/// Time between the decision to start a phase and its arrival 0, so that every shard is waiting for it.
const START_AHEAD_NS: u64 = 500_000;
/// Most conversations made before the start of an open loop.
const MOST_PRIMED: u64 = 1024;
/// How long the end of a phase waits for the reader before it is told on the screen.
const READER_PATIENCE: Duration = Duration::from_millis(250);

/// Said once when the user stops the run.
const STOPPING: &str =
    "Stopping: requests in flight are dropped, results are written. Ctrl-C again quits at once.";

/// What became of a phase.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PhaseEnd {
    /// Arrival 0.
    pub start_ns: u64,
    /// All shards were done.
    pub end_ns: u64,
    /// Requests that came due.
    pub scheduled: u64,
    /// Of these, never sent.
    pub unsent: u64,
    /// Sessions used up, so that the next phase goes on behind them.
    pub sessions: u64,
}

impl PhaseEnd {
    /// A phase that the run never came to.
    pub(crate) fn unstarted() -> Self {
        let now = mono_ns();
        Self { start_ns: now, end_ns: now, scheduled: 0, unsent: 0, sessions: 0 }
    }
}

/// A phase that ran, whatever happened in it.
pub(crate) struct PhaseRun {
    pub end: PhaseEnd,
    /// For the next phase; gone when it panicked.
    pub composer: Option<Composer>,
    /// Why the phase could not go on. What was measured until then stands.
    pub problem: Option<RunError>,
}

/// Drives the shards through the phases.
pub(crate) struct Control {
    pub commands: Vec<mpsc::UnboundedSender<Command>>,
    pub events: mpsc::UnboundedReceiver<ShardEvent>,
    pub interrupt: Arc<Interrupt>,
    pub live: Arc<Live>,
    pub progress: Progress,
    /// Shards that are still there.
    pub alive: usize,
}

impl Control {
    /// Runs one phase to its end. `base` is the number of sessions that earlier phases used up. The composer comes back for the
    /// next phase.
    pub(crate) async fn phase(
        &mut self,
        number: u16,
        plan: &PhasePlan,
        base: u64,
        composer: Composer,
    ) -> Result<PhaseRun, RunError> {
        let limit = plan.most_sessions().unwrap_or(u64::MAX);
        let live_sessions = plan.concurrency.unwrap_or(0) as usize;
        let primed = primed(plan).min(limit);
        let ring =
            Arc::new(Ring::new(RING_SLOTS + 2 * live_sessions, Ahead { items: primed, bytes: READY_BYTES }));
        let sessions = Sessions { base, limit, warmup: plan.kind == PhaseKind::Warmup };
        let filler = start_filler(composer, ring.clone(), sessions)?;
        let interrupt = self.interrupt.clone();
        tokio::select! {
            biased;
            () = interrupt.wait() => {
                self.progress.say(STOPPING);
                let (composer, problem) = stop_filler(filler, &ring);
                return Ok(PhaseRun { end: PhaseEnd::unstarted(), composer, problem });
            }
            () = ring.wait_filled(primed) => {}
        }

        self.live.reset();
        let phase = Arc::new(Phase {
            number,
            plan: plan.clone(),
            window: PhaseWindow::start(plan, mono_ns() + START_AHEAD_NS),
            ring: ring.clone(),
            permits: match &plan.pacing {
                Pacing::Rate { .. } | Pacing::FixedSchedule { .. } | Pacing::UserCentric { .. } => {
                    plan.concurrency.map(|n| Semaphore::new(n as usize))
                }
                Pacing::Concurrency => None,
            },
            next_session: AtomicU64::new(0),
            counters: Counters::default(),
        });
        tracing::info!("phase {} starts", plan.name);
        self.progress.start(plan);
        for shard in &self.commands {
            // A shard that is gone told so through its events.
            let _ = shard.send(Command::Phase(phase.clone()));
        }
        self.wait(&phase).await;
        // Stopped in the instant before its arrival 0, a phase has no length; it has no negative one either.
        let end_ns = mono_ns().max(phase.window.start_ns);
        // The closing line counts every request, if the reader is not far behind.
        let ended = phase.counters.ended.load(Ordering::Relaxed);
        let _ = tokio::time::timeout(READER_PATIENCE, self.live.caught_up(ended)).await;
        self.progress.end(&self.moment(&phase));
        let (composer, problem) = stop_filler(filler, &ring);

        let counters = &phase.counters;
        let end = PhaseEnd {
            start_ns: phase.window.start_ns,
            end_ns,
            scheduled: counters.scheduled.load(Ordering::Relaxed),
            unsent: counters.unsent.load(Ordering::Relaxed),
            sessions: counters.sessions.load(Ordering::Relaxed),
        };
        tracing::info!(
            "phase {} complete: {} scheduled, {} unsent, {:.3} s",
            plan.name,
            end.scheduled,
            end.unsent,
            (end.end_ns - end.start_ns) as f64 / 1e9
        );
        Ok(PhaseRun { end, composer, problem })
    }

    /// Until every living shard is done with the phase.
    async fn wait(&mut self, phase: &Phase) {
        let mut open = self.alive;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut told = false;
        let interrupt = self.interrupt.clone();
        while open > 0 {
            tokio::select! {
                biased;
                event = self.events.recv() => match event {
                    Some(ShardEvent::PhaseDone) => open -= 1,
                    Some(ShardEvent::Gone) => {
                        open -= 1;
                        self.alive -= 1;
                        // Nobody takes the bodies of its sessions, and the composer would wait for that. What the other
                        // shards have in flight may end.
                        phase.ring.close();
                    }
                    None => return,
                },
                () = interrupt.wait(), if !told => {
                    told = true;
                    self.progress.say(STOPPING);
                    for shard in &self.commands {
                        let _ = shard.send(Command::Cancel(CancelReason::Interrupted));
                    }
                }
                _ = tick.tick() => self.progress.show(&self.moment(phase)),
            }
        }
    }

    fn moment(&self, phase: &Phase) -> Moment {
        let now = mono_ns();
        let sent = phase.counters.sent.load(Ordering::Relaxed);
        Moment {
            elapsed_ns: now.saturating_sub(phase.window.start_ns),
            in_flight: phase.counters.in_flight(),
            ended: phase.counters.ended.load(Ordering::Relaxed),
            latest: self.live.read(),
            draining: !phase.window.may_send(sent, now),
        }
    }
}

/// How many conversations must be ready before arrival 0: what the first instant can ask for, and about a second of a
/// schedule.
fn primed(plan: &PhasePlan) -> u64 {
    let places = u64::from(plan.concurrency.unwrap_or(0));
    match &plan.pacing {
        Pacing::Concurrency => places.max(1),
        Pacing::Rate { rate, .. } => (rate.peak().ceil() as u64).clamp(1, MOST_PRIMED),
        Pacing::UserCentric { users, .. } => u64::from(*users).clamp(1, MOST_PRIMED),
        Pacing::FixedSchedule { .. } => MOST_PRIMED,
    }
}

type Filled = (Composer, Result<(), RunError>);

/// Closes the ring when the composer panics: sessions would wait for ever for what it does not bring.
struct CloseOnPanic<T>(Arc<Ring<T>>);

impl<T> Drop for CloseOnPanic<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
        }
    }
}

fn start_filler(
    mut composer: Composer,
    ring: Arc<Ring<Arc<Prepared>>>,
    sessions: Sessions,
) -> Result<JoinHandle<Filled>, RunError> {
    std::thread::Builder::new()
        .name("composer".into())
        .spawn(move || {
            // Being ahead must not cost the shards a core.
            aiperf_os::sched::lower_priority(5);
            let guard = CloseOnPanic(ring);
            let result = composer.fill(&guard.0, sessions);
            (composer, result)
        })
        .map_err(RunError::Thread)
}

/// Ends the ring and takes the composer back, with what went wrong in it.
fn stop_filler(
    filler: JoinHandle<Filled>,
    ring: &Ring<Arc<Prepared>>,
) -> (Option<Composer>, Option<RunError>) {
    ring.close();
    match filler.join() {
        Ok((composer, filled)) => (Some(composer), filled.err()),
        Err(_) => (None, Some(RunError::Panicked("composer"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toys::{self, Then};
    use aiperf_core::plan::Ui;

    /// Control over shards that are played by `act`, each on its own thread.
    fn control<const N: usize>(shards: [fn(&Phase); N]) -> Control {
        let (events_tx, events) = mpsc::unbounded_channel();
        let commands = shards
            .into_iter()
            .map(|act| {
                let (tx, mut rx) = mpsc::unbounded_channel();
                let events = events_tx.clone();
                std::thread::spawn(move || {
                    let Some(Command::Phase(phase)) = rx.blocking_recv() else { return };
                    act(&phase);
                    let _ = events.send(ShardEvent::PhaseDone);
                    // As a shard does, it stays until nobody can command it.
                    while rx.blocking_recv().is_some() {}
                });
                tx
            })
            .collect();
        Control {
            commands,
            events,
            interrupt: Arc::new(Interrupt::default()),
            live: Arc::new(Live::default()),
            progress: Progress::new(Ui::None, false, 0.0),
            alive: N,
        }
    }

    fn run(control: &mut Control, plan: &PhasePlan, composer: Composer) -> PhaseRun {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(control.phase(0, plan, 0, composer)).expect("it starts")
    }

    /// Takes session after session until there are no more.
    fn take_all(phase: &Phase) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            loop {
                let session = phase.next_session.fetch_add(1, Ordering::Relaxed);
                if phase.ring.take(session).await.is_err() {
                    return;
                }
                phase.counters.sessions.fetch_max(session + 1, Ordering::Relaxed);
            }
        });
    }

    #[test]
    fn a_composer_that_fails_ends_the_phase_and_says_why() {
        let run = run(&mut control([take_all]), &toys::closed_loop(), toys::composer(3, Then::Error));
        assert!(matches!(run.problem, Some(RunError::Data(_))), "{:?}", run.problem);
        assert!(run.end.sessions <= 3 && run.composer.is_some());
    }

    #[test]
    fn a_composer_that_panics_ends_the_phase() {
        let run = run(&mut control([take_all]), &toys::closed_loop(), toys::composer(3, Then::Panic));
        assert!(matches!(run.problem, Some(RunError::Panicked("composer"))), "{:?}", run.problem);
        assert!(run.composer.is_none());
    }

    #[test]
    fn a_shard_that_is_gone_ends_the_phase_for_the_others() {
        let mut control = control([take_all]);
        let (gone, mut nobody) = mpsc::unbounded_channel();
        control.commands.push(gone);
        control.alive += 1;
        let (events_tx, events) = mpsc::unbounded_channel();
        let mut from_others = std::mem::replace(&mut control.events, events);
        std::thread::spawn(move || {
            let _ = nobody.blocking_recv();
            let _ = events_tx.send(ShardEvent::Gone);
            while let Some(event) = from_others.blocking_recv() {
                let _ = events_tx.send(event);
            }
        });
        let run = run(&mut control, &toys::closed_loop(), toys::composer(usize::MAX, Then::Error));
        assert!(run.problem.is_none(), "{:?}", run.problem);
        assert_eq!((control.alive, control.commands.len()), (1, 2));
    }

    #[test]
    fn an_interrupt_before_the_start_sends_nothing() {
        let mut control = control([|phase| {
            phase.counters.scheduled.fetch_add(1, Ordering::Relaxed);
        }]);
        control.interrupt.fire();
        let run = run(&mut control, &toys::closed_loop(), toys::composer(usize::MAX, Then::Error));
        assert!(run.problem.is_none() && run.composer.is_some());
        assert_eq!((run.end.scheduled, run.end.sessions), (0, 0));
    }

    #[test]
    fn sessions_that_sent_nothing_are_not_used_up() {
        let plan = PhasePlan { requests: Some(100), ..toys::closed_loop() };
        let mut control = control([|phase| {
            phase.counters.sessions.store(7, Ordering::Relaxed);
        }]);
        let run = run(&mut control, &plan, toys::composer(usize::MAX, Then::Error));
        assert_eq!(run.end.sessions, 7);
    }
}
