//! The engine model: who may prefill when, and when each token is done. A pure machine: `(state, now, event) → actions`,
//! no clock, no sockets, so that its rules are tested in virtual time.
//!
//! Rules:
//! * Requests wait in one first-in-first-out queue. The head starts when the batch has a seat and a prefill place is free.
//! * Prefill takes `prefill_ns + prefill_ns_per_token × (prompt tokens that are not cached)`. Its end is the first token.
//! * After a chunk of k tokens the next one comes k decode steps later. A step takes
//!   `step_ns + step_ns_per_peer × (streams that decode beside this one at that moment)`.
//! * Deadlines follow from deadlines, never from when somebody got to look: being late once does not make the rest late.
//! * A prefix block is cached when the prefill that brought it ends; nothing is evicted.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use aiperf_rng::{Key, Stream};
use rustc_hash::{FxHashMap, FxHashSet};

/// Tokens of one prefix-cache block, as in vLLM and in the published block-hash traces' finer variants.
pub const BLOCK_TOKENS: u64 = 16;

/// Settings of the model. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineConfig {
    /// Fixed part of a prefill.
    pub prefill_ns: u64,
    /// Part of a prefill per token that is not cached; 0 is free.
    pub prefill_ns_per_token: f64,
    /// One decode step of a stream that is alone.
    pub step_ns: u64,
    /// What each further decoding stream adds to a step.
    pub step_ns_per_peer: f64,
    /// Spread of prefills and steps: each is multiplied by a keyed draw from `1 ± jitter`. In 0..=1.
    pub jitter: f64,
    /// Most requests in prefill or decode at once; at least 1.
    pub max_batch: usize,
    /// Most prefills at once; at least 1.
    pub max_prefills: usize,
    /// Tokens of a chunk; at least 1.
    pub tokens_per_chunk: u64,
    /// Whether prefixes are cached.
    pub prefix_cache: bool,
    /// Seed of the jitter.
    pub seed: u64,
}

/// One request as the engine sees it.
#[derive(Debug, Clone)]
pub struct Job {
    /// Name in actions and key of its draws; never used twice.
    pub id: u64,
    /// Prompt length.
    pub prompt_tokens: u64,
    /// Chained hashes of the prompt's full blocks ([`block_hashes`]); looked at only with the prefix cache on.
    pub blocks: Option<Arc<[u64]>>,
    /// Tokens to make.
    pub output_tokens: u64,
    /// Whether somebody wants to know of each chunk; else only of the end.
    pub chunks: bool,
}

/// Something happened to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action {
    /// The request.
    pub id: u64,
    /// When, in the model's time: never later than the `now` it was asked with.
    pub at_ns: u64,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It left the queue; so many prompt tokens were found cached.
    PrefillStart {
        /// Cached prompt tokens, whole blocks.
        cached: u64,
    },
    /// Its prefill ended.
    PrefillEnd,
    /// So many of its tokens are done by now.
    Tokens {
        /// Tokens done, cumulative.
        done: u64,
    },
    /// All its tokens are done.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Prefill,
    Decode,
    /// Nothing can change the times of this stream and nobody asked for its chunks: its one deadline is its end.
    Leap,
}

#[derive(Debug)]
struct Running {
    job: Job,
    phase: Phase,
    done: u64,
    /// Decode gaps drawn so far.
    gaps: u64,
}

/// The machine. Events go in by [`Engine::submit`], [`Engine::cancel`] and [`Engine::advance`]; each appends to `out`.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    queue: VecDeque<(Job, u64)>,
    running: FxHashMap<u64, Running>,
    prefilling: usize,
    decoding: usize,
    due: BinaryHeap<Reverse<(u64, u64)>>,
    /// When a request could last not start and then could again: starts in the past are not before this.
    gate_open_ns: u64,
    cache: FxHashSet<u64>,
    prefill_draws: Stream,
    step_draws: Stream,
}

impl Engine {
    /// An idle engine with an empty cache.
    pub fn new(mut config: EngineConfig) -> Self {
        config.max_batch = config.max_batch.max(1);
        config.max_prefills = config.max_prefills.max(1);
        config.tokens_per_chunk = config.tokens_per_chunk.max(1);
        let key = Key::new(config.seed);
        Self {
            config,
            queue: VecDeque::new(),
            running: FxHashMap::default(),
            prefilling: 0,
            decoding: 0,
            due: BinaryHeap::new(),
            gate_open_ns: 0,
            cache: FxHashSet::default(),
            prefill_draws: key.purpose("sim.engine.prefill"),
            step_draws: key.purpose("sim.engine.step"),
        }
    }

    /// A request is ready to be worked on since `ready_ns` (≤ `now`; the time spent on counting its prompt is not the
    /// model's).
    pub fn submit(&mut self, ready_ns: u64, now: u64, job: Job, out: &mut Vec<Action>) {
        self.advance(now, out);
        self.queue.push_back((job, ready_ns));
        self.admit(out);
        self.advance(now, out);
    }

    /// A request's client is gone: its place is free from `now` on. Unknown ids are no news.
    pub fn cancel(&mut self, now: u64, id: u64, out: &mut Vec<Action>) {
        self.advance(now, out);
        if let Some(run) = self.running.remove(&id) {
            self.release(&run, now);
            self.admit(out);
        } else {
            self.queue.retain(|(job, _)| job.id != id);
            // The head may have gone, and the next one may fit now.
            self.admit(out);
        }
        self.advance(now, out);
    }

    /// Lets everything happen that is due by `now`.
    pub fn advance(&mut self, now: u64, out: &mut Vec<Action>) {
        while let Some(&Reverse((at, id))) = self.due.peek() {
            if at > now {
                break;
            }
            self.due.pop();
            self.step(at, id, out);
        }
    }

    /// The next moment at which something happens by itself. May name a cancelled request's moment: looking early is
    /// harmless.
    pub fn next_ns(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Requests in prefill or decode.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Requests in the queue.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Blocks in the prefix cache.
    pub fn cached_blocks(&self) -> usize {
        self.cache.len()
    }

    fn gate_open(&self) -> bool {
        self.running.len() < self.config.max_batch && self.prefilling < self.config.max_prefills
    }

    fn admit(&mut self, out: &mut Vec<Action>) {
        while self.gate_open() {
            let Some((job, ready_ns)) = self.queue.pop_front() else { return };
            let at = ready_ns.max(self.gate_open_ns);
            let cached = self.lookup(&job);
            out.push(Action { id: job.id, at_ns: at, what: What::PrefillStart { cached } });
            let fresh = job.prompt_tokens.saturating_sub(cached) as f64;
            let length = self.config.prefill_ns as f64 + self.config.prefill_ns_per_token * fresh;
            let length = self.spread(length, self.prefill_draws, job.id);
            self.prefilling += 1;
            self.due.push(Reverse((at.saturating_add(length), job.id)));
            self.running.insert(job.id, Running { job, phase: Phase::Prefill, done: 0, gaps: 0 });
        }
    }

    fn step(&mut self, at: u64, id: u64, out: &mut Vec<Action>) {
        let Some(mut run) = self.running.remove(&id) else { return };
        match run.phase {
            Phase::Prefill => {
                self.end_prefill(at, &mut run, out);
                self.decode(at, &mut run, out);
            }
            Phase::Decode => self.decode(at, &mut run, out),
            Phase::Leap => self.make(at, &mut run, u64::MAX, out),
        }
        if run.done >= run.job.output_tokens {
            out.push(Action { id, at_ns: at, what: What::End });
            self.release(&run, at);
        } else {
            self.running.insert(id, run);
        }
        self.admit(out);
    }

    fn end_prefill(&mut self, at: u64, run: &mut Running, out: &mut Vec<Action>) {
        self.note_closed_gate(at);
        self.prefilling -= 1;
        self.decoding += 1;
        run.phase = Phase::Decode;
        if self.config.prefix_cache
            && let Some(blocks) = &run.job.blocks
        {
            self.cache.extend(blocks.iter().copied());
        }
        out.push(Action { id: run.job.id, at_ns: at, what: What::PrefillEnd });
    }

    /// Hands out the chunk that is done at `at` and plans the next.
    fn decode(&mut self, at: u64, run: &mut Running, out: &mut Vec<Action>) {
        let chunk = self.config.tokens_per_chunk;
        let steady = self.config.step_ns_per_peer == 0.0;
        if steady && self.config.step_ns == 0 {
            return self.make(at, run, u64::MAX, out);
        }
        if steady && !run.job.chunks && run.job.output_tokens > chunk {
            let mut end = at;
            let mut before = chunk;
            while before < run.job.output_tokens {
                end = end.saturating_add(self.gap(run, chunk));
                before += chunk;
            }
            run.phase = Phase::Leap;
            self.due.push(Reverse((end, run.job.id)));
            return;
        }
        let before = run.done;
        self.make(at, run, chunk, out);
        if run.done < run.job.output_tokens {
            let next = at.saturating_add(self.gap(run, run.done - before));
            self.due.push(Reverse((next, run.job.id)));
        }
    }

    /// Up to `tokens` more tokens are done.
    fn make(&self, at: u64, run: &mut Running, tokens: u64, out: &mut Vec<Action>) {
        let made = tokens.min(run.job.output_tokens - run.done);
        if made > 0 {
            run.done += made;
            out.push(Action { id: run.job.id, at_ns: at, what: What::Tokens { done: run.done } });
        }
    }

    /// Time from one chunk of `tokens` tokens to the next.
    fn gap(&self, run: &mut Running, tokens: u64) -> u64 {
        let peers = self.decoding.saturating_sub(1) as f64;
        let step = self.config.step_ns as f64 + self.config.step_ns_per_peer * peers;
        run.gaps += 1;
        self.spread(step * tokens as f64, self.step_draws.lane(run.job.id), run.gaps)
    }

    fn spread(&self, length_ns: f64, draws: Stream, index: u64) -> u64 {
        let factor = if self.config.jitter > 0.0 {
            1.0 + self.config.jitter * (2.0 * draws.at(index).unit() - 1.0)
        } else {
            1.0
        };
        (length_ns * factor).round() as u64
    }

    fn lookup(&self, job: &Job) -> u64 {
        match &job.blocks {
            Some(blocks) if self.config.prefix_cache => {
                blocks.iter().take_while(|b| self.cache.contains(b)).count() as u64 * BLOCK_TOKENS
            }
            _ => 0,
        }
    }

    /// Called while a request is taken out of the map and before its other books are closed: if nobody could start until
    /// now, nobody starts before now.
    fn note_closed_gate(&mut self, at: u64) {
        let open =
            self.running.len() + 1 < self.config.max_batch && self.prefilling < self.config.max_prefills;
        if !open {
            self.gate_open_ns = self.gate_open_ns.max(at);
        }
    }

    /// Takes a request that has just left the map out of the books.
    fn release(&mut self, run: &Running, at: u64) {
        self.note_closed_gate(at);
        match run.phase {
            Phase::Prefill => self.prefilling -= 1,
            Phase::Decode | Phase::Leap => self.decoding -= 1,
        }
    }
}

/// Chained hashes of the full blocks of a prompt: a block's hash covers all tokens before it too. What is left over at the
/// end makes no block.
pub fn block_hashes(ids: &[u32]) -> Arc<[u64]> {
    let mut hash = 0x9e37_79b9_7f4a_7c15u64;
    ids.chunks_exact(BLOCK_TOKENS as usize)
        .map(|block| {
            for id in block {
                hash = mix(hash ^ u64::from(*id));
            }
            hash
        })
        .collect()
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood, 2014): a bijection, so chains differ until they collide by chance.
fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
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
        let mut engine =
            Engine::new(EngineConfig { prefix_cache: true, prefill_ns_per_token: 1.0, ..config() });
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
                let mut engine =
                    Engine::new(EngineConfig { jitter, tokens_per_chunk: 3, seed: 5, ..config() });
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
}
