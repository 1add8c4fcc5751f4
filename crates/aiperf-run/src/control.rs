//! The one place where phases, shards, the user's wish to stop, and the screen meet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use aiperf_core::outcome::CancelReason;
use aiperf_core::plan::{Pacing, PhasePlan};
use aiperf_load::PhaseWindow;
use aiperf_os::mono_ns;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::MissedTickBehavior;

use crate::error::RunError;
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::phase::{Counters, Phase};
use crate::prepare::Composer;
use crate::progress::{Moment, Progress, TICK};
use crate::ring::Ring;
use crate::shard::{Command, ShardEvent};

/// Slots of the ring of prepared conversations, beside two for each live session.
const RING_SLOTS: usize = 4096;
/// Time between the decision to start a phase and its arrival 0, so that every shard is waiting for it.
const START_AHEAD_NS: u64 = 500_000;
/// Most conversations made before the start of an open loop.
const MOST_PRIMED: u64 = 1024;

/// How long the end of a phase waits for the reader before it is told on the screen.
const READER_PATIENCE: Duration = Duration::from_millis(250);

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
    /// Sessions the composer was asked for, so that the next phase goes on behind them.
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
    /// Shards that panicked.
    pub panicked: usize,
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
        let limit = plan.requests.unwrap_or(u64::MAX);
        let live_sessions = plan.concurrency.unwrap_or(0) as usize;
        let ring = Arc::new(Ring::new(RING_SLOTS + 2 * live_sessions));
        let filler = start_filler(composer, ring.clone(), base, limit)?;
        ring.wait_filled(primed(plan).min(limit));

        self.live.reset();
        let phase = Arc::new(Phase {
            number,
            plan: plan.clone(),
            window: PhaseWindow::start(plan, mono_ns() + START_AHEAD_NS),
            ring: ring.clone(),
            permits: match plan.pacing {
                Pacing::Rate { .. } => plan.concurrency.map(|n| Semaphore::new(n as usize)),
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
        let used = ring.filled();
        ring.close();
        let (composer, problem) = match filler.join() {
            Ok((composer, filled)) => (Some(composer), filled.err()),
            Err(_) => (None, Some(RunError::Panicked("composer"))),
        };

        let counters = &phase.counters;
        let end = PhaseEnd {
            start_ns: phase.window.start_ns,
            end_ns,
            scheduled: counters.scheduled.load(Ordering::Relaxed),
            unsent: counters.unsent.load(Ordering::Relaxed),
            sessions: if plan.requests.is_some() { used.min(limit) } else { used_sessions(&phase, used) },
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
                    Some(ShardEvent::Gone(panicked)) => {
                        open -= 1;
                        self.alive -= 1;
                        self.panicked += usize::from(panicked);
                    }
                    None => return,
                },
                () = interrupt.wait(), if !told => {
                    told = true;
                    self.progress.say("Stopping: requests in flight are dropped, results are written. Ctrl-C again quits at once.");
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
    match plan.pacing {
        Pacing::Concurrency => places.max(1),
        Pacing::Rate { per_second, .. } => (per_second.ceil() as u64).clamp(1, MOST_PRIMED),
    }
}

/// In a timed phase the composer runs ahead of the sessions; only those that started are used up.
fn used_sessions(phase: &Phase, filled: u64) -> u64 {
    let started = match phase.plan.pacing {
        Pacing::Concurrency => phase.next_session.load(Ordering::Relaxed),
        Pacing::Rate { .. } => phase.counters.scheduled.load(Ordering::Relaxed),
    };
    started.min(filled)
}

type Filled = (Composer, Result<(), RunError>);

fn start_filler(
    mut composer: Composer,
    ring: Arc<Ring<Arc<crate::prepare::Prepared>>>,
    base: u64,
    limit: u64,
) -> Result<JoinHandle<Filled>, RunError> {
    std::thread::Builder::new()
        .name("composer".into())
        .spawn(move || {
            let result = composer.fill(&ring, base, limit);
            (composer, result)
        })
        .map_err(RunError::Thread)
}
