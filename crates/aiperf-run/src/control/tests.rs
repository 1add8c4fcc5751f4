//! The control over shards that are played.

use super::*;
use crate::toys::{self, Then};
use aiperf_core::plan::Ui;
use aiperf_metrics::ShardHealth;

/// Control over shards that are played by `act`, each on its own thread.
fn control<const N: usize>(shards: [fn(&Phase); N]) -> Control {
    let (events_tx, events) = mpsc::unbounded_channel();
    let commands = shards
        .into_iter()
        .map(|act| {
            let (tx, mut rx) = mpsc::unbounded_channel();
            let events = events_tx.clone();
            std::thread::spawn(move || {
                // As a shard does, it stays until nobody can command it.
                while let Some(command) = rx.blocking_recv() {
                    let Command::Phase(phase) = command else { continue };
                    act(&phase);
                    let _ = events.send(ShardEvent::Sent(phase.number));
                    let _ = events.send(ShardEvent::Done(phase.number, Box::default()));
                }
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
        alive: (0..N as u16).collect(),
        targets: 1,
        seed: 1,
        hooks: None,
        is_stopped: false,
    }
}

fn run(control: &mut Control, plan: &PhasePlan, composer: Composer) -> Ran {
    run_all(control, &[(plan.clone(), Starts::Places)], composer)
}

fn run_all(control: &mut Control, phases: &[(PhasePlan, Starts)], composer: Composer) -> Ran {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(control.run(phases, composer))
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
    assert!(matches!(run.problems[..], [RunError::Data(_)]), "{:?}", run.problems);
    assert!(run.ends[0].scheduled == 0 && run.composer.is_some());
}

#[test]
fn a_composer_that_panics_ends_the_phase() {
    let run = run(&mut control([take_all]), &toys::closed_loop(), toys::composer(3, Then::Panic));
    assert!(matches!(run.problems[..], [RunError::Panicked("composer")]), "{:?}", run.problems);
    assert!(run.composer.is_none());
}

#[test]
fn a_shard_that_is_gone_ends_the_phase_for_the_others() {
    let mut control = control([take_all]);
    let (gone, mut nobody) = mpsc::unbounded_channel();
    control.commands.push(gone);
    control.alive.insert(1);
    let (events_tx, events) = mpsc::unbounded_channel();
    let mut from_others = std::mem::replace(&mut control.events, events);
    std::thread::spawn(move || {
        let _ = nobody.blocking_recv();
        let _ = events_tx.send(ShardEvent::Gone(1));
        while let Some(event) = from_others.blocking_recv() {
            let _ = events_tx.send(event);
        }
    });
    let run = run(&mut control, &toys::closed_loop(), toys::composer(usize::MAX, Then::Error));
    assert!(run.problems.is_empty(), "{:?}", run.problems);
    assert_eq!((control.alive.len(), control.commands.len()), (1, 2));
}

#[test]
fn an_interrupt_before_the_start_sends_nothing() {
    let mut control = control([|phase| {
        phase.counters.scheduled.fetch_add(1, Ordering::Relaxed);
    }]);
    control.interrupt.fire();
    let run = run(&mut control, &toys::closed_loop(), toys::composer(usize::MAX, Then::Error));
    assert!(run.problems.is_empty() && run.composer.is_some());
    assert!(run.ends.is_empty());
}

#[test]
fn shards_are_told_of_in_their_order_whichever_ended_first() {
    let (tell, events) = mpsc::unbounded_channel();
    for shard in [1, 0] {
        let health = ShardHealth { shard, ..ShardHealth::default() };
        tell.send(ShardEvent::Sent(0)).expect("it is heard");
        tell.send(ShardEvent::Done(0, Box::new(health))).expect("it is heard");
    }
    let mut control = Control { events, alive: BTreeSet::from([0, 1]), ..control([]) };
    let plan = PhasePlan { requests: Some(1), ..toys::closed_loop() };
    let run = run(&mut control, &plan, toys::composer(usize::MAX, Then::Error));
    assert_eq!(run.ends[0].shards.iter().map(|s| s.shard).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_phase_goes_on_behind_the_sessions_that_sent_something() {
    let plan = PhasePlan { requests: Some(100), ..toys::closed_loop() };
    let mut control = control([|phase| {
        phase.counters.scheduled.store(phase.base, Ordering::Relaxed);
        phase.counters.sessions.store(7, Ordering::Relaxed);
    }]);
    let phases = [(plan.clone(), Starts::Places), (plan.clone(), Starts::Places), (plan, Starts::Places)];
    let run = run_all(&mut control, &phases, toys::composer(usize::MAX, Then::Error));
    assert_eq!(run.ends.iter().map(|end| end.scheduled).collect::<Vec<_>>(), [0, 7, 14]);
}
