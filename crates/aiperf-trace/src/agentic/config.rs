//! What the conversations are made of.

use aiperf_core::conversation::MOST_TURNS;
use aiperf_core::text::without_place;
use aiperf_rng::elementary::ln;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::layout::{MOST_GROUP_BLOCKS, MOST_GROUPS};

/// Most tokens of a context: far beyond all that is served, and far from where sums of them would end.
const MOST_TOKENS: u64 = 1 << 40;
/// How far the logarithms of lengths and times are from 0, and how far they spread: what is drawn is then a number, and not infinite.
const MOST_MU: f64 = 100.0;
const MOST_SIGMA: f64 = 20.0;

/// A log-normal distribution by mean and median: μ = ln(median), σ = √(2 ln(mean / median)).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LogNormal {
    /// Mean of the logarithm; from the median unless given.
    #[serde(default)]
    pub mu: Option<f64>,
    /// Deviation of the logarithm; from mean and median unless given.
    #[serde(default)]
    pub sigma: Option<f64>,
    /// Mean.
    pub mean: f64,
    /// Median, at most the mean.
    pub median: f64,
    /// Least; what is drawn below is drawn again.
    #[serde(default)]
    pub min: Option<f64>,
    /// Most.
    #[serde(default)]
    pub max: Option<f64>,
}

/// Tokens that the user's side adds in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NewTokens {
    /// Their distribution.
    #[serde(flatten)]
    pub lengths: LogNormal,
    /// A factor on mean and median, against what the end of the context cuts off.
    #[serde(default = "one")]
    pub bias: f64,
}

const fn one() -> f64 {
    1.0
}

/// Time between an answer and the next turn, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Delay {
    /// Share of turns that a tool sends.
    pub agentic_fraction: f64,
    /// Of those.
    pub agentic_delay: LogNormal,
    /// Of turns that a human sends.
    pub human_delay: LogNormal,
    /// Longest.
    pub max: Option<f64>,
}

/// A conversation ends at a turn with `base_probability`, which grows to `context_scaling` times as much at a full context.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reset {
    /// At an empty context.
    pub base_probability: f64,
    /// At least 1.
    pub context_scaling: f64,
}

/// Numbers of turns, in the place of resets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turns {
    /// Mean.
    pub mean: u64,
    /// Median.
    pub median: u64,
    /// Least.
    pub min: u64,
    /// Most.
    pub max: u64,
    /// A conversation may end early at the end of the context.
    #[serde(default)]
    pub allow_truncation: bool,
    /// How often one that does is made anew; 100 unless given.
    #[serde(default)]
    pub max_session_attempts: Option<u64>,
}

/// Which parts of a context are common.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// Tokens that all conversations begin with: tools and system prompt.
    pub layer1_tokens: u64,
    /// Tokens that those of a group go on with: a repository's instructions.
    pub layer1_5_tokens: u64,
    /// Tokens of a conversation's own beginning.
    pub layer2: LogNormal,
    /// The groups.
    pub layer1_5_groups: Groups,
}

/// Groups of conversations; the k-th has a share as k^−α.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Groups {
    /// How many.
    pub num_groups: u64,
    /// α.
    pub zipf_alpha: f64,
}

/// All of it; keys and defaults are AIPerf's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// What a turn adds.
    pub new_tokens_per_turn: NewTokens,
    /// Tokens of an answer.
    pub generation_length: LogNormal,
    /// Time between turns.
    pub inter_turn_delay: Delay,
    /// How conversations end by chance.
    pub reset: Option<Reset>,
    /// How many turns they have.
    pub turns: Option<Turns>,
    /// Tokens of the context; a conversation ends below them.
    pub max_prompt_tokens: u64,
    /// Tokens of a block.
    pub block_size: u64,
    /// Common beginnings.
    pub cache: Cache,
    /// Chance of a conversation to be cut in two that go on from each other; it falls to 0 over three quarters of the conversations.
    pub restart_initial_probability: f64,
    /// Turns at which it is cut, the last one not among them.
    pub restart_turn_range: [u64; 2],
}

/// Why a configuration is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not JSON, or a value of the wrong type.
    #[error("line {line}, column {column}: {reason}")]
    Json {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// The parser's words.
        reason: String,
    },
    /// Values that do not go together, each with its key.
    #[error("{}", problems.join("; "))]
    Values {
        /// At least one.
        problems: Vec<String>,
    },
}

impl LogNormal {
    /// By mean and median alone.
    pub const fn new(mean: f64, median: f64) -> Self {
        Self { mu: None, sigma: None, mean, median, min: None, max: None }
    }

    /// With an upper bound.
    const fn up_to(self, max: f64) -> Self {
        Self { max: Some(max), ..self }
    }

    /// μ and σ.
    pub fn logs(&self) -> (f64, f64) {
        match (self.mu, self.sigma) {
            (Some(mu), Some(sigma)) => (mu, sigma),
            _ => (ln(self.median), (2.0 * ln(self.mean / self.median)).max(0.0).sqrt()),
        }
    }

    fn with_logs(self) -> Self {
        let (mu, sigma) = self.logs();
        Self { mu: Some(mu), sigma: Some(sigma), ..self }
    }

    fn check(&self, key: &str, problems: &mut Vec<String>) {
        let Self { mu, sigma, mean, median, min, max } = *self;
        let is_positive = |n: f64| n > 0.0 && n.is_finite();
        if !is_positive(mean)
            || !is_positive(median)
            || [min, max].into_iter().flatten().any(|n| !is_positive(n))
        {
            problems.push(format!("{key}: mean, median, min and max must be above 0"));
        } else if mean < median {
            problems.push(format!("{key}: the mean, {mean}, must be at least the median, {median}"));
        }
        if let (Some(min), Some(max)) = (min, max)
            && min > max
        {
            problems.push(format!("{key}: min, {min}, must be at most max, {max}"));
        }
        let is_measured = |mu: f64, sigma| mu.abs() <= MOST_MU && (0.0..=MOST_SIGMA).contains(&sigma);
        match (mu, sigma) {
            (Some(mu), Some(sigma)) if !is_measured(mu, sigma) => problems.push(format!(
                "{key}: mu, {mu}, must be from -{MOST_MU} to {MOST_MU}, and sigma, {sigma}, from 0 to {MOST_SIGMA}: they are the mean and \
                 the deviation of the logarithm"
            )),
            (None, None) if is_positive(mean) && is_positive(median) => {
                let (mu, sigma) = self.logs();
                if !is_measured(mu, sigma) {
                    problems.push(format!(
                        "{key}: mean and median, {mean:e} and {median:e}, are further from 1 or from each other than any length or time"
                    ));
                }
            }
            (Some(_), None) | (None, Some(_)) => {
                problems.push(format!("{key}: mu and sigma must be given together, or neither"));
            }
            _ => {}
        }
    }
}

impl Default for Delay {
    fn default() -> Self {
        Self {
            agentic_fraction: 0.7,
            agentic_delay: LogNormal::new(2_500.0, 1_800.0),
            human_delay: LogNormal::new(40_000.0, 25_000.0),
            max: None,
        }
    }
}

impl Default for Reset {
    fn default() -> Self {
        Self { base_probability: 0.02, context_scaling: 2.0 }
    }
}

impl Default for Groups {
    fn default() -> Self {
        Self { num_groups: 50, zipf_alpha: 1.2 }
    }
}

impl Cache {
    /// Tokens that conversations of a group have in common.
    pub(crate) const fn common_tokens(&self) -> u64 {
        self.layer1_tokens.saturating_add(self.layer1_5_tokens)
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            layer1_tokens: 32_000,
            layer1_5_tokens: 20_000,
            layer2: LogNormal::new(10_000.0, 5_000.0),
            layer1_5_groups: Groups::default(),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            new_tokens_per_turn: NewTokens { lengths: LogNormal::new(3_500.0, 1_800.0), bias: 1.0 },
            generation_length: LogNormal::new(500.0, 300.0),
            inter_turn_delay: Delay::default(),
            reset: Some(Reset::default()),
            turns: None,
            max_prompt_tokens: 200_000,
            block_size: 512,
            cache: Cache::default(),
            restart_initial_probability: 0.0,
            restart_turn_range: [5, 15],
        }
    }
}

impl Config {
    /// Names of configurations that are built in.
    pub const BUNDLED: [&str; 1] = ["default"];

    /// One that is built in. AIPerf's `default` is not what it does without `--config`.
    pub fn bundled(name: &str) -> Option<Self> {
        let delay = Delay::default();
        (name == "default").then(|| Self {
            new_tokens_per_turn: NewTokens {
                lengths: LogNormal::new(6_000.0, 6_000.0).up_to(10_000.0),
                bias: 1.1,
            },
            generation_length: LogNormal::new(1_000.0, 1_000.0).up_to(1_500.0),
            inter_turn_delay: Delay {
                agentic_delay: delay.agentic_delay.up_to(10_000.0),
                human_delay: delay.human_delay.up_to(120_000.0),
                ..delay
            },
            reset: Some(Reset { base_probability: 0.01, context_scaling: 1.5 }),
            max_prompt_tokens: 167_000,
            cache: Cache {
                layer1_5_tokens: 0,
                layer2: LogNormal::new(15_000.0, 5_000.0).up_to(30_000.0),
                layer1_5_groups: Groups { num_groups: 1, zipf_alpha: 0.6 },
                ..Cache::default()
            },
            ..Self::default()
        })
    }

    /// Reads a configuration, or the one in a manifest (`generation_params`), and names keys that mean nothing.
    pub fn read(text: &str) -> Result<(Self, Vec<String>), ConfigError> {
        #[derive(Deserialize)]
        struct Manifest {
            generation_params: Config,
        }
        let json = |e: serde_json::Error| {
            let reason = without_place(&e.to_string()).to_owned();
            ConfigError::Json { line: e.line(), column: e.column(), reason }
        };
        let mut map: Map<String, Value> = serde_json::from_str(text).map_err(json)?;
        let mut config: Self = match map.remove("generation_params") {
            None => serde_json::from_str(text).map_err(json)?,
            Some(inner) => {
                let manifest: Manifest = serde_json::from_str(text).map_err(json)?;
                map = match inner {
                    Value::Object(inner) => inner,
                    _ => Map::new(),
                };
                manifest.generation_params
            }
        };
        let mut problems = Vec::new();
        // Keys of earlier versions.
        map.remove("system_prompt_tokens");
        if let Some(fraction) = map.remove("restart_fraction") {
            match (fraction.as_f64(), map.contains_key("restart_initial_probability")) {
                (Some(fraction), false) => config.restart_initial_probability = fraction,
                (Some(fraction), true)
                    if fraction.to_bits() == config.restart_initial_probability.to_bits() => {}
                _ => problems.push(
                    "restart_fraction: the older name of restart_initial_probability; give that one alone"
                        .to_owned(),
                ),
            }
        }
        if config.turns.is_some() && !map.contains_key("reset") {
            config.reset = None;
        }
        problems.extend(config.problems());
        if !problems.is_empty() {
            return Err(ConfigError::Values { problems });
        }
        let mut unknown = Vec::new();
        let full = Self {
            turns: Some(Turns {
                mean: 1,
                median: 1,
                min: 1,
                max: 1,
                allow_truncation: false,
                max_session_attempts: None,
            }),
            ..Self::default()
        };
        if let Ok(full) = serde_json::to_value(full) {
            unknown_keys(&Value::Object(map), &full, "", &mut unknown);
        }
        Ok((config, unknown))
    }

    /// With other bounds: `--max-isl` and `--max-osl`.
    pub fn bounded(mut self, max_isl: Option<u64>, max_osl: Option<u64>) -> Result<Self, ConfigError> {
        self.max_prompt_tokens = max_isl.unwrap_or(self.max_prompt_tokens);
        self.generation_length.max = max_osl.map(|most| most as f64).or(self.generation_length.max);
        let problems = self.problems();
        if problems.is_empty() { Ok(self) } else { Err(ConfigError::Values { problems }) }
    }

    /// Least tokens of an answer.
    pub fn least_output(&self) -> u64 {
        self.generation_length.max.map_or(30, |max| (max as u64).min(30)).max(1)
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        self.new_tokens_per_turn.lengths.check("new_tokens_per_turn", &mut problems);
        self.generation_length.check("generation_length", &mut problems);
        self.inter_turn_delay.agentic_delay.check("inter_turn_delay.agentic_delay", &mut problems);
        self.inter_turn_delay.human_delay.check("inter_turn_delay.human_delay", &mut problems);
        self.cache.layer2.check("cache.layer2", &mut problems);
        let mut demand = |holds: bool, words: &str| {
            if !holds {
                problems.push(words.to_owned());
            }
        };
        let is_share = |n: f64| (0.0..=1.0).contains(&n);
        let bias = self.new_tokens_per_turn.bias;
        demand(bias > 0.0 && bias.is_finite(), "new_tokens_per_turn.bias: must be above 0");
        demand(
            is_share(self.inter_turn_delay.agentic_fraction),
            "inter_turn_delay.agentic_fraction: must be from 0 to 1",
        );
        demand(
            self.inter_turn_delay.max.is_none_or(|max| max >= 0.0),
            "inter_turn_delay.max: must be from 0 up",
        );
        if let Some(reset) = self.reset {
            demand(is_share(reset.base_probability), "reset.base_probability: must be from 0 to 1");
            demand(
                reset.context_scaling >= 1.0 && reset.context_scaling.is_finite(),
                "reset.context_scaling: must be from 1 up",
            );
        }
        // A context of one token leaves none for a prompt: conversations end below it.
        demand(
            (2..=MOST_TOKENS).contains(&self.max_prompt_tokens),
            "max_prompt_tokens: must be from 2 to 1099511627776",
        );
        demand(self.cache.layer1_tokens <= MOST_TOKENS, "cache.layer1_tokens: must be at most 1099511627776");
        demand(self.block_size > 0, "block_size: must be above 0");
        let groups = self.cache.layer1_5_groups;
        demand(
            (1..=MOST_GROUPS).contains(&groups.num_groups),
            "cache.layer1_5_groups.num_groups: must be from 1 to 1000",
        );
        demand(
            groups.zipf_alpha >= 0.0 && groups.zipf_alpha.is_finite(),
            "cache.layer1_5_groups.zipf_alpha: must be from 0 up",
        );
        demand(
            self.cache.layer1_5_tokens <= self.block_size.max(1).saturating_mul(MOST_GROUP_BLOCKS)
                || self.block_size == 0,
            "cache.layer1_5_tokens: must be at most 200 blocks",
        );
        demand(
            is_share(self.restart_initial_probability),
            "restart_initial_probability: must be from 0 to 1",
        );
        let [low, high] = self.restart_turn_range;
        demand(
            low >= 1 && low < high,
            "restart_turn_range: must be two turns from 1 up, the first below the second",
        );
        if let Some(turns) = self.turns {
            let Turns { mean, median, min, max, allow_truncation, max_session_attempts } = turns;
            demand(
                1 <= min && min <= median && median <= mean && mean <= max,
                "turns: must be in this order, from 1 up: min, median, mean, max",
            );
            demand(
                !(allow_truncation && max_session_attempts.is_some()),
                "turns.max_session_attempts: excludes turns.allow_truncation",
            );
            demand(
                max <= u64::from(MOST_TURNS),
                "turns.max: must be at most 65535, the most turns that a replay takes",
            );
            demand(max_session_attempts != Some(0), "turns.max_session_attempts: must be above 0");
            demand(self.reset.is_none(), "turns: excludes reset");
            demand(self.restart_initial_probability == 0.0, "turns: excludes restart_initial_probability");
            demand(self.turns_fit(turns), "turns: so many do not fit into max_prompt_tokens");
        }
        problems
    }

    /// Whether the shortest conversation with the fewest turns fits.
    fn turns_fit(&self, turns: Turns) -> bool {
        let least = |lengths: &LogNormal| lengths.min.map_or(1, |min| min as u64);
        let first = self.cache.common_tokens().saturating_add(least(&self.cache.layer2));
        let later = self.least_output().saturating_add(least(&self.new_tokens_per_turn.lengths));
        let more = if turns.allow_truncation { 0 } else { turns.min.saturating_sub(1) };
        first.saturating_add(later.saturating_mul(more)) < self.max_prompt_tokens
    }

    /// As it is written to a manifest: with μ and σ.
    #[must_use]
    pub fn whole(&self) -> Self {
        let mut whole = self.clone();
        for lengths in [
            &mut whole.new_tokens_per_turn.lengths,
            &mut whole.generation_length,
            &mut whole.inter_turn_delay.agentic_delay,
            &mut whole.inter_turn_delay.human_delay,
            &mut whole.cache.layer2,
        ] {
            *lengths = lengths.with_logs();
        }
        if let Some(turns) = whole.turns.as_mut().filter(|turns| !turns.allow_truncation) {
            turns.max_session_attempts.get_or_insert(100);
        }
        whole
    }
}

fn unknown_keys(given: &Value, known: &Value, path: &str, unknown: &mut Vec<String>) {
    let (Value::Object(given), Value::Object(known)) = (given, known) else { return };
    for (key, value) in given {
        match known.get(key) {
            Some(inner) => unknown_keys(value, inner, &format!("{path}{key}."), unknown),
            None => unknown.push(format!("{path}{key}")),
        }
    }
}
