//! The rules of the engine model, in virtual time.

use super::*;
use proptest::prelude::*;

fn config() -> EngineConfig {
    EngineConfig {
        prefill_ns: 100,
        prefill_ns_per_token: 0.0,
        step_ns: 10,
        step_ns_per_peer: 0.0,
        jitter: 0.0,
        max_batch: usize::MAX,
        max_prefills: usize::MAX,
        tokens_per_chunk: 1,
        prefix_cache: false,
        seed: 0,
    }
}

fn job(id: u64, prompt_tokens: u64, output_tokens: u64) -> Job {
    Job { id, prompt_tokens, blocks: None, output_tokens, chunks: true }
}

/// Runs every deadline at its moment until nothing is due.
fn run_out(engine: &mut Engine, out: &mut Vec<Action>) {
    while let Some(at) = engine.next_ns() {
        engine.advance(at, out);
    }
}

fn times(out: &[Action], id: u64, what: impl Fn(&What) -> bool) -> Vec<u64> {
    out.iter().filter(|a| a.id == id && what(&a.what)).map(|a| a.at_ns).collect()
}

#[test]
fn one_stream_by_hand() {
    let mut engine = Engine::new(EngineConfig { prefill_ns_per_token: 2.0, ..config() });
    let mut out = Vec::new();
    engine.submit(1_000, 1_000, job(7, 50, 3), &mut out);
    run_out(&mut engine, &mut out);
    let seen: Vec<_> = out.iter().map(|a| (a.at_ns, a.what)).collect();
    assert_eq!(
        seen,
        [
            (1_000, What::PrefillStart { cached: 0 }),
            (1_200, What::PrefillEnd),
            (1_200, What::Tokens { done: 1 }),
            (1_210, What::Tokens { done: 2 }),
            (1_220, What::Tokens { done: 3 }),
            (1_220, What::End),
        ]
    );
    assert_eq!((engine.running(), engine.waiting()), (0, 0));
}

#[test]
fn chunks_of_several_tokens_are_as_many_steps_apart() {
    let mut engine = Engine::new(EngineConfig { tokens_per_chunk: 4, ..config() });
    let mut out = Vec::new();
    engine.submit(0, 0, job(0, 1, 10), &mut out);
    run_out(&mut engine, &mut out);
    let seen: Vec<_> = out
        .iter()
        .filter_map(|a| if let What::Tokens { done } = a.what { Some((a.at_ns, done)) } else { None })
        .collect();
    assert_eq!(seen, [(100, 4), (140, 8), (180, 10)]);
}

#[test]
fn being_looked_at_late_changes_no_time() {
    let mut on_time = Vec::new();
    let mut late = Vec::new();
    for (out, every) in [(&mut on_time, 1), (&mut late, 77)] {
        let mut engine = Engine::new(EngineConfig { max_batch: 2, step_ns_per_peer: 3.0, ..config() });
        for id in 0..5 {
            engine.submit(0, 0, job(id, 1, 9), out);
        }
        let mut now = 0;
        while engine.next_ns().is_some() {
            now += every;
            engine.advance(now, out);
        }
    }
    assert_eq!(on_time, late);
}

#[test]
fn a_full_batch_queues_in_order_and_starts_when_a_seat_is_free() {
    let mut engine = Engine::new(EngineConfig { max_batch: 2, ..config() });
    let mut out = Vec::new();
    for id in 0..4 {
        engine.submit(id, id, job(id, 1, 2), &mut out);
    }
    assert_eq!((engine.running(), engine.waiting()), (2, 2));
    run_out(&mut engine, &mut out);
    let starts: Vec<_> =
        (0..4).flat_map(|id| times(&out, id, |w| matches!(w, What::PrefillStart { .. }))).collect();
    // Request 0 ends at 0 + 100 + 10, request 1 at 111.
    assert_eq!(starts, [0, 1, 110, 111]);
}

#[test]
fn prefill_places_are_fewer_than_seats() {
    let mut engine = Engine::new(EngineConfig { max_prefills: 1, ..config() });
    let mut out = Vec::new();
    for id in 0..3 {
        engine.submit(0, 0, job(id, 1, 50), &mut out);
    }
    run_out(&mut engine, &mut out);
    let ends: Vec<_> = (0..3).flat_map(|id| times(&out, id, |w| *w == What::PrefillEnd)).collect();
    assert_eq!(ends, [100, 200, 300]);
}

#[test]
fn a_step_grows_with_the_streams_beside_it() {
    let mut engine = Engine::new(EngineConfig { step_ns_per_peer: 5.0, ..config() });
    let mut out = Vec::new();
    engine.submit(0, 0, job(0, 1, 3), &mut out);
    engine.submit(0, 0, job(1, 1, 3), &mut out);
    run_out(&mut engine, &mut out);
    let first = times(&out, 0, |w| matches!(w, What::Tokens { .. }));
    // Stream 0 plans its first step before stream 1 decodes: 10, then 15.
    assert_eq!(first, [100, 110, 125]);
    assert_eq!(times(&out, 1, |w| matches!(w, What::Tokens { .. })), [100, 115, 130]);
}

#[test]
fn blocks_are_cached_when_their_prefill_ends_and_cost_nothing_then() {
    let ids: Vec<u32> = (0..50).collect();
    let blocks = Some(block_hashes(&ids));
    let mut engine = Engine::new(EngineConfig { prefix_cache: true, prefill_ns_per_token: 1.0, ..config() });
    let ask = |id| Job { blocks: blocks.clone(), ..job(id, 50, 1) };
    let mut out = Vec::new();
    engine.submit(0, 0, ask(0), &mut out);
    engine.submit(10, 10, ask(1), &mut out);
    engine.submit(150, 150, ask(2), &mut out);
    run_out(&mut engine, &mut out);
    let cached: Vec<_> = out
        .iter()
        .filter_map(|a| if let What::PrefillStart { cached } = a.what { Some(cached) } else { None })
        .collect();
    assert_eq!(cached, [0, 0, 48], "three full blocks of 16, once the first prefill has ended");
    assert_eq!(times(&out, 2, |w| *w == What::PrefillEnd), [150 + 100 + 2]);
    assert_eq!(engine.cached_blocks(), 3);
}

#[test]
fn a_block_is_known_by_everything_before_it() {
    let mut ids: Vec<u32> = (0..48).collect();
    let whole = block_hashes(&ids);
    assert_eq!(whole.len(), 3);
    assert_eq!(block_hashes(&ids[..47]).len(), 2);
    assert_eq!(block_hashes(&ids[..32])[..], whole[..2]);
    ids[0] = 99;
    let other = block_hashes(&ids);
    assert!(whole.iter().zip(other.iter()).all(|(a, b)| a != b));
}

#[test]
fn a_cancelled_request_frees_its_place() {
    let mut engine = Engine::new(EngineConfig { max_batch: 1, ..config() });
    let mut out = Vec::new();
    for id in 0..3 {
        engine.submit(0, 0, job(id, 1, 2), &mut out);
    }
    engine.cancel(40, 0, &mut out);
    engine.cancel(41, 1, &mut out);
    engine.cancel(42, 99, &mut out);
    run_out(&mut engine, &mut out);
    assert_eq!(times(&out, 1, |w| matches!(w, What::PrefillStart { .. })), [40]);
    assert_eq!(times(&out, 2, |w| matches!(w, What::PrefillStart { .. })), [41]);
    assert!(times(&out, 0, |w| *w == What::End).is_empty());
    assert_eq!(times(&out, 2, |w| *w == What::End), [41 + 110]);
}

#[test]
fn a_request_that_nobody_watches_ends_when_a_watched_one_does() {
    for jitter in [0.0, 0.5] {
        let mut ends = Vec::new();
        for chunks in [true, false] {
            let mut engine = Engine::new(EngineConfig { jitter, tokens_per_chunk: 3, seed: 5, ..config() });
            let mut out = Vec::new();
            engine.submit(0, 0, Job { chunks, ..job(4, 9, 20) }, &mut out);
            run_out(&mut engine, &mut out);
            ends.push(times(&out, 4, |w| *w == What::End));
        }
        assert_eq!(ends[0], ends[1]);
    }
}

#[test]
fn without_decode_time_everything_is_there_at_once() {
    let mut engine = Engine::new(EngineConfig { prefill_ns: 0, step_ns: 0, ..config() });
    let mut out = Vec::new();
    engine.submit(5, 9, job(0, 1, 1_000), &mut out);
    assert_eq!(out.last(), Some(&Action { id: 0, at_ns: 5, what: What::End }));
    assert!(out.iter().any(|a| a.what == What::Tokens { done: 1_000 }));
}

#[derive(Debug, Clone)]
struct Op {
    wait: u64,
    cancel: Option<u64>,
    output: u64,
    chunks: bool,
}

fn op() -> impl Strategy<Value = Op> {
    (0u64..60, proptest::option::weighted(0.2, 0u64..40), 0u64..12, any::<bool>())
        .prop_map(|(wait, cancel, output, chunks)| Op { wait, cancel, output, chunks })
}

fn any_config() -> impl Strategy<Value = EngineConfig> {
    ((0u64..80, 0u64..20, 0u64..8), (1usize..5, 1usize..4, 1u64..5), 0.0f64..1.0, any::<u64>()).prop_map(
        |((prefill_ns, step_ns, peer), (max_batch, max_prefills, tokens_per_chunk), jitter, seed)| {
            EngineConfig {
                prefill_ns,
                step_ns,
                step_ns_per_peer: peer as f64,
                max_batch,
                max_prefills,
                tokens_per_chunk,
                jitter,
                seed,
                ..config()
            }
        },
    )
}

fn play(config: &EngineConfig, ops: &[Op]) -> (Vec<Action>, Vec<u64>) {
    let mut engine = Engine::new(config.clone());
    let (mut out, mut now, mut cancelled) = (Vec::new(), 0, Vec::new());
    for (id, op) in ops.iter().enumerate() {
        now += op.wait;
        engine.submit(now, now, Job { chunks: op.chunks, ..job(id as u64, 3, op.output) }, &mut out);
        assert!(engine.running() <= config.max_batch);
        if let Some(victim) = op.cancel.filter(|v| *v <= id as u64) {
            engine.cancel(now, victim, &mut out);
            cancelled.push(victim);
        }
    }
    run_out(&mut engine, &mut out);
    assert_eq!((engine.running(), engine.waiting(), engine.prefilling, engine.decoding), (0, 0, 0, 0));
    (out, cancelled)
}

proptest! {
    #[test]
    fn every_request_gets_all_its_tokens_in_order_and_limits_hold(
        config in any_config(),
        ops in proptest::collection::vec(op(), 1..40),
    ) {
        let (out, cancelled) = play(&config, &ops);
        let (mut running, mut prefilling) = (0usize, 0usize);
        let mut last_start = None;
        for id in 0..ops.len() as u64 {
            let own: Vec<_> = out.iter().filter(|a| a.id == id).collect();
            prop_assert!(own.windows(2).all(|w| w[0].at_ns <= w[1].at_ns));
            let done: Vec<u64> = own.iter()
                .filter_map(|a| if let What::Tokens { done } = a.what { Some(done) } else { None })
                .collect();
            prop_assert!(done.windows(2).all(|w| w[0] < w[1]));
            if !cancelled.contains(&id) {
                prop_assert_eq!(own.last().map(|a| a.what), Some(What::End));
                prop_assert_eq!(done.last().copied().unwrap_or(0), ops[id as usize].output);
            }
        }
        if cancelled.is_empty() {
            // The log itself is in order of what caused what, so the limits can be counted along it.
            for action in &out {
                match action.what {
                    What::PrefillStart { .. } => {
                        prop_assert!(last_start.is_none_or(|l| l < action.id), "first in, first out");
                        last_start = Some(action.id);
                        running += 1;
                        prefilling += 1;
                    }
                    What::PrefillEnd => prefilling -= 1,
                    What::End => running -= 1,
                    What::Tokens { .. } => {}
                }
                prop_assert!(running <= config.max_batch && prefilling <= config.max_prefills);
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_run(
        config in any_config(),
        ops in proptest::collection::vec(op(), 1..20),
    ) {
        prop_assert_eq!(play(&config, &ops).0, play(&config, &ops).0);
    }
}
