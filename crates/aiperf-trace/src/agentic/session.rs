//! Conversations, drawn as AIPerf draws them.

use std::fmt::Write as _;

use aiperf_core::conversation::MOST_TURNS;
use aiperf_rng::elementary::ln;
use aiperf_rng::numpy::Pcg64;

use super::config::{Config, LogNormal};
use super::layout::{Layout, MOST_OWN_BLOCKS};
use crate::row::MOST_MS;
use crate::zipf::shares;

/// Tries to draw a length within its bounds.
const TRIES: u32 = 100;
/// Part of the conversations over which restarts become rarer, down to none.
const RESTARTS: f64 = 0.75;
/// Part of the conversations that are between the two halves of a cut one, at least.
const APART: f64 = 0.25;

/// Most turns of all conversations: they and what is told of them are held in memory, about 100 bytes each.
const MOST_IN_ALL: u64 = 10_000_000;
/// After so many conversations it is known about how many turns all have.
const LOOKED_AT: u64 = 1000;

/// A turn of a conversation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turn {
    /// Tokens of the whole context that is sent.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// Tokens that this turn adds; all of the first.
    pub new: u64,
    /// Since the answer before, milliseconds.
    pub delay_ms: f64,
}

/// Why a conversation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The next turn would not fit into the context.
    ForcedRetire,
    /// By chance.
    ProbabilisticReset,
    /// It was cut in two.
    RestartSplit,
    /// It has the turns it was to have.
    TargetTurnCount,
}

impl End {
    /// Its name in the references' files.
    #[cfg(test)]
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ForcedRetire => "forced_retire",
            Self::ProbabilisticReset => "probabilistic_reset",
            Self::RestartSplit => "restart_split",
            Self::TargetTurnCount => "target_turn_count",
        }
    }
}

/// A conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// Its name.
    pub id: String,
    /// Which common beginning it has.
    pub group: u64,
    /// Which ids are its own; both halves of a cut one have the same.
    pub index: u64,
    /// At least one.
    pub turns: Vec<Turn>,
    /// How it ended.
    pub end: End,
    /// It goes on from one that was cut.
    pub is_restart: bool,
}

/// Why conversations cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Impossible {
    /// There are not so many ids.
    #[error(
        "a context of {input} tokens has {blocks} blocks of its own, and a conversation has ids for 4000; a larger block_size or a smaller \
         max_prompt_tokens makes them fewer"
    )]
    Blocks {
        /// Tokens.
        input: u64,
        /// Blocks beyond the common ones.
        blocks: u64,
    },
    /// A replay does not wait so long.
    #[error(
        "a delay of {ms:e} ms is drawn, and a replay takes up to {MOST_MS} ms; inter_turn_delay.max cuts delays off, and a smaller sigma, \
         or a median nearer to the mean, makes long ones rarer"
    )]
    Delay {
        /// Milliseconds.
        ms: f64,
    },
    /// A replay does not number so many turns.
    #[error(
        "a conversation has more than {MOST_TURNS} turns, the most that a replay takes; a smaller max_prompt_tokens, more \
         new_tokens_per_turn, or a reset ends it earlier"
    )]
    Turns,
    /// Memory does not hold so many.
    #[error(
        "{sessions} conversations have about {turns} turns, and up to {MOST_IN_ALL} are made, for memory holds them all; make fewer \
         conversations (--num-sessions)"
    )]
    Many {
        /// Conversations that were wanted.
        sessions: u64,
        /// Turns of all, going by those that were made.
        turns: u64,
    },
    /// None of so many turns fitted.
    #[error(
        "no conversation of {turns} turns fitted into {max} tokens in {attempts} attempts; fewer turns, a larger max_prompt_tokens, or \
         turns.allow_truncation make it possible"
    )]
    Attempts {
        /// Wanted.
        turns: u64,
        /// How often it was tried.
        attempts: u64,
        /// The context.
        max: u64,
    },
}

/// Makes `n` conversations and the second halves of those that are cut.
pub fn conversations(config: &Config, n: u64, seed: u64) -> Result<Vec<Conversation>, Impossible> {
    let config = &config.whole();
    let mut maker = Maker::new(config, seed);
    let mut all: Vec<Conversation> = Vec::new();
    let (mut halves, mut turns) = (Vec::new(), 0);
    for i in 0..n {
        let expected = (u128::from(turns) * u128::from(n) / u128::from(i.max(1))) as u64;
        if turns > MOST_IN_ALL || i == LOOKED_AT && expected > MOST_IN_ALL {
            return Err(Impossible::Many { sessions: n, turns: expected });
        }
        if config.turns.is_some() {
            let made = maker.of_turns()?;
            turns += made.turns.len() as u64;
            all.push(made);
            continue;
        }
        let progress = i as f64 / n.saturating_sub(1).max(1) as f64;
        let chance = if progress >= RESTARTS {
            0.0
        } else {
            config.restart_initial_probability * (1.0 - progress / RESTARTS)
        };
        let is_cut = maker.rng.random() < chance;
        let (first, second) = maker.session(is_cut)?;
        turns +=
            [Some(&first), second.as_ref()].into_iter().flatten().map(|s| s.turns.len() as u64).sum::<u64>();
        halves.extend(second.map(|second| (second, all.len())));
        all.push(first);
    }
    let apart = ((n as f64 * APART) as usize).max(1);
    for (half, origin) in halves {
        let low = (origin + apart).min(all.len());
        let at = if low >= all.len() {
            all.len()
        } else {
            maker.rng.integers(low as u64, all.len() as u64 + 1) as usize
        };
        all.insert(at, half);
    }
    Ok(all)
}

struct Maker<'a> {
    config: &'a Config,
    rng: Pcg64,
    layout: Layout,
    /// Cumulative shares of groups.
    groups: Vec<f64>,
    next_index: u64,
    new_tokens: LogNormal,
    least_output: u64,
}

/// How the turns behind the first go on.
enum Next {
    Turn(Turn),
    Full,
    Reset,
}

impl<'a> Maker<'a> {
    fn new(config: &'a Config, seed: u64) -> Self {
        let groups = config.cache.layer1_5_groups;
        let mut new_tokens = config.new_tokens_per_turn.lengths;
        let (mu, sigma) = new_tokens.logs();
        let bias = config.new_tokens_per_turn.bias;
        (new_tokens.mu, new_tokens.sigma) = (Some(mu + ln(bias)), Some(sigma));
        Self {
            config,
            rng: Pcg64::new(seed),
            layout: Layout::new(config),
            groups: shares(groups.num_groups, groups.zipf_alpha),
            next_index: 0,
            new_tokens,
            least_output: config.least_output(),
        }
    }

    fn draw(&mut self, lengths: &LogNormal) -> f64 {
        let (mu, sigma) = lengths.logs();
        let (min, max) = (lengths.min.unwrap_or(0.0), lengths.max.unwrap_or(f64::INFINITY));
        let mut drawn = self.rng.lognormal(mu, sigma);
        for _ in 0..TRIES {
            if (min..=max).contains(&drawn) {
                break;
            }
            drawn = self.rng.lognormal(mu, sigma);
        }
        drawn.clamp(min, max)
    }

    fn id(&mut self) -> String {
        let bytes = self.rng.bytes::<16>();
        bytes[..6].iter().fold("sess-".to_owned(), |mut id, byte| {
            // Writing to a String cannot fail.
            let _ = write!(id, "{byte:02x}");
            id
        })
    }

    fn output(&mut self) -> u64 {
        let lengths = self.config.generation_length;
        (self.draw(&lengths) as u64).max(self.least_output)
    }

    fn delay_ms(&mut self, before: Turn) -> f64 {
        let delay = self.config.inter_turn_delay;
        let is_agentic = self.rng.random() < delay.agentic_fraction;
        // Both are drawn.
        let (agentic, human) = (self.draw(&delay.agentic_delay), self.draw(&delay.human_delay));
        let max = delay.max.unwrap_or(f64::INFINITY);
        let drawn = if is_agentic { agentic } else { human }.min(max);
        let full = before.input as f64 / self.config.max_prompt_tokens as f64;
        (drawn * (1.0 - 0.8 * full).max(0.2)).min(max)
    }

    fn first(&mut self, input: u64) -> Result<Turn, Impossible> {
        let output = self.output();
        self.fits(input)?;
        Ok(Turn { input, output, new: input, delay_ms: 0.0 })
    }

    fn initial(&mut self) -> u64 {
        let layer2 = self.config.cache.layer2;
        let own = (self.draw(&layer2) as u64).max(1);
        self.layout.common_tokens().saturating_add(own).min(self.config.max_prompt_tokens - 1)
    }

    fn fits(&self, input: u64) -> Result<(), Impossible> {
        let blocks = self.layout.own_blocks(input);
        if blocks > MOST_OWN_BLOCKS { Err(Impossible::Blocks { input, blocks }) } else { Ok(()) }
    }

    /// The turn behind `before`.
    fn next(&mut self, before: Turn, can_reset: bool) -> Result<Next, Impossible> {
        let delay_ms = self.delay_ms(before);
        let lengths = self.new_tokens;
        let new = (self.draw(&lengths) as u64).max(1);
        let input = before.input.saturating_add(before.output).saturating_add(new);
        if input >= self.config.max_prompt_tokens {
            return Ok(Next::Full);
        }
        if can_reset && let Some(reset) = self.config.reset {
            let full = input as f64 / self.config.max_prompt_tokens as f64;
            let chance = reset.base_probability * (1.0 + (reset.context_scaling - 1.0) * full);
            if self.rng.random() < chance {
                return Ok(Next::Reset);
            }
        }
        if delay_ms > MOST_MS {
            return Err(Impossible::Delay { ms: delay_ms });
        }
        let output = self.output();
        self.fits(input)?;
        Ok(Next::Turn(Turn { input, output, new, delay_ms }))
    }

    fn index(&mut self) -> u64 {
        self.next_index += 1;
        self.next_index - 1
    }

    /// A conversation, and its second half where it is cut.
    fn session(&mut self, is_cut: bool) -> Result<(Conversation, Option<Conversation>), Impossible> {
        let index = self.index();
        let id = self.id();
        let [low, high] = self.config.restart_turn_range;
        let cut_at = is_cut.then(|| self.rng.integers(low, high));
        let group = self.rng.choice(&self.groups) as u64;
        let input = self.initial();
        let first = self.first(input)?;
        let begun =
            Conversation { id, group, index, turns: vec![first], end: End::RestartSplit, is_restart: false };
        let whole = self.go_on(begun, cut_at)?;
        if whole.end != End::RestartSplit {
            return Ok((whole, None));
        }
        let id = self.id();
        let last = whole.turns[whole.turns.len() - 1];
        let input = last.input.saturating_add(last.output).min(self.config.max_prompt_tokens - 1);
        let first = self.first(input)?;
        let begun =
            Conversation { id, group, index, turns: vec![first], end: End::RestartSplit, is_restart: true };
        let half = self.go_on(begun, None)?;
        Ok((whole, Some(half)))
    }

    /// Adds turns until it ends, or is cut in front of turn `cut_at`.
    fn go_on(&mut self, mut session: Conversation, cut_at: Option<u64>) -> Result<Conversation, Impossible> {
        session.end = loop {
            if cut_at == Some(session.turns.len() as u64) {
                break End::RestartSplit;
            }
            match self.next(session.turns[session.turns.len() - 1], true)? {
                Next::Turn(_) if session.turns.len() >= usize::from(MOST_TURNS) => {
                    return Err(Impossible::Turns);
                }
                Next::Turn(turn) => session.turns.push(turn),
                Next::Full => break End::ForcedRetire,
                Next::Reset => break End::ProbabilisticReset,
            }
        };
        Ok(session)
    }

    /// A conversation with a drawn number of turns.
    fn of_turns(&mut self) -> Result<Conversation, Impossible> {
        let turns = self.config.turns.expect("the caller saw them");
        let bounds = |n: u64| Some(n as f64);
        let counts = LogNormal {
            min: bounds(turns.min),
            max: bounds(turns.max),
            ..LogNormal::new(turns.mean as f64, turns.median as f64)
        };
        let target = (self.draw(&counts).round_ties_even() as u64).clamp(turns.min, turns.max);
        let attempts = if turns.allow_truncation { 1 } else { turns.max_session_attempts.unwrap_or(100) };
        'attempts: for _ in 0..attempts {
            let index = self.index();
            let id = self.id();
            let group = self.rng.choice(&self.groups) as u64;
            let input = self.initial();
            let mut all = vec![self.first(input)?];
            let mut end = End::TargetTurnCount;
            while (all.len() as u64) < target {
                match self.next(all[all.len() - 1], false)? {
                    Next::Turn(turn) => all.push(turn),
                    _ if turns.allow_truncation => {
                        end = End::ForcedRetire;
                        break;
                    }
                    _ => continue 'attempts,
                }
            }
            return Ok(Conversation { id, group, index, turns: all, end, is_restart: false });
        }
        Err(Impossible::Attempts { turns: target, attempts, max: self.config.max_prompt_tokens })
    }
}
