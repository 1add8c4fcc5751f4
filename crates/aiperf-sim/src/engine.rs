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
pub const BLOCK_TOKENS: u64 = aiperf_tokens::BLOCK_TOKENS as u64;

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

    /// Empties the prefix cache; what is being computed brings its blocks all the same.
    pub fn forget(&mut self) {
        self.cache.clear();
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
            Phase::Leap => make(at, &mut run, u64::MAX, out),
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
            return make(at, run, u64::MAX, out);
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
        make(at, run, chunk, out);
        if run.done < run.job.output_tokens {
            let next = at.saturating_add(self.gap(run, run.done - before));
            self.due.push(Reverse((next, run.job.id)));
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

/// Up to `tokens` more tokens are done.
fn make(at: u64, run: &mut Running, tokens: u64, out: &mut Vec<Action>) {
    let made = tokens.min(run.job.output_tokens - run.done);
    if made > 0 {
        run.done += made;
        out.push(Action { id: run.job.id, at_ns: at, what: What::Tokens { done: run.done } });
    }
}

/// Chained hashes of the full blocks of a prompt: the client's own definition.
pub fn block_hashes(ids: &[u32]) -> Arc<[u64]> {
    aiperf_tokens::block_hashes(ids, aiperf_tokens::BLOCK_TOKENS).collect()
}

#[cfg(test)]
mod tests;
