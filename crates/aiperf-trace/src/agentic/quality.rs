//! What came of a configuration, beside what it asked for.

use std::fmt::Write as _;

use aiperf_core::text::grouped;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::config::Config;
use super::session::{Conversation, End};
use crate::counts::between;

/// Statistics of drawn values, rounded to hundredths.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of a population.
    pub std: f64,
    /// 50th percentile.
    pub median: f64,
    /// 5th percentile.
    pub p05: f64,
    /// 25th percentile.
    pub p25: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Spread {
    /// Nothing of no values.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (n, last) = (values.len() as f64, values.len().checked_sub(1)?);
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let percentile = |p: f64| {
            let place = p / 100.0 * last as f64;
            let (low, part) = (values[place as usize], place.fract());
            let high = values[(place as usize + 1).min(last)];
            rounded(between(low, high, part), 2)
        };
        Some(Self {
            count: values.len() as u64,
            mean: rounded(mean, 2),
            std: rounded((squares / n).sqrt(), 2),
            median: percentile(50.0),
            p05: percentile(5.0),
            p25: percentile(25.0),
            p75: percentile(75.0),
            p95: percentile(95.0),
            p99: percentile(99.0),
        })
    }
}

/// To so many decimals, half to even of what the number is.
fn rounded(value: f64, decimals: usize) -> f64 {
    format!("{value:.decimals$}").parse().unwrap_or(value)
}

/// A quantity with what was asked of it.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    name: &'static str,
    title: &'static str,
    /// Mean and median.
    target: Option<(f64, f64)>,
    observed: Spread,
}

impl Part {
    /// Distance from the target in percent of it, of the mean and the median.
    fn errors(&self) -> Option<(f64, f64)> {
        let (mean, median) = self.target?;
        let error = |target: f64, found: f64| {
            if target == 0.0 { 0.0 } else { rounded((found - target).abs() / target * 100.0, 2) }
        };
        Some((error(mean, self.observed.mean), error(median, self.observed.median)))
    }

    fn json(&self) -> Value {
        let errors = self.errors();
        json!({
            "target_mean": self.target.map(|t| t.0),
            "target_median": self.target.map(|t| t.1),
            "observed": self.observed,
            "pct_error_mean": errors.map(|e| e.0),
            "pct_error_median": errors.map(|e| e.1),
        })
    }
}

/// The report on a set of conversations, of which there is at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Quality {
    config: Config,
    sessions: u64,
    parts: Vec<Part>,
    ends: [(End, u64); 4],
    full: Option<Spread>,
}

impl Quality {
    /// Looks at them.
    pub fn of(sessions: &[Conversation], config: &Config) -> Self {
        let turns = || sessions.iter().flat_map(|s| &s.turns);
        let later = || sessions.iter().flat_map(|s| &s.turns[1..]);
        let cache = config.cache;
        let common = cache.common_tokens() as f64;
        let asked = |lengths: super::config::LogNormal| Some((lengths.mean, lengths.median));
        let part = |name, title, target, values: Vec<f64>| {
            Spread::of(values).map(|observed| Part { name, title, target, observed })
        };
        let parts = [
            part(
                "initial_context",
                "Initial context (tokens)",
                Some((common + cache.layer2.mean, common + cache.layer2.median)),
                sessions.iter().map(|s| s.turns[0].input as f64).collect(),
            ),
            part(
                "generation_length",
                "Generation length (tokens)",
                asked(config.generation_length),
                turns().map(|t| t.output as f64).collect(),
            ),
            part(
                "new_tokens_per_turn",
                "New tokens per turn",
                asked(config.new_tokens_per_turn.lengths),
                later().map(|t| t.new as f64).collect(),
            ),
            part(
                "inter_turn_delay_ms",
                "Delay between turns (ms)",
                None,
                later().map(|t| t.delay_ms).collect(),
            ),
            part(
                "turns_per_session",
                "Turns per session",
                config.turns.map(|turns| (turns.mean as f64, turns.median as f64)),
                sessions.iter().map(|s| s.turns.len() as f64).collect(),
            ),
        ];
        let last = |s: &Conversation| s.turns[s.turns.len() - 1].input as f64;
        let ended = |end| (end, sessions.iter().filter(|s| s.end == end).count() as u64);
        Self {
            config: config.clone(),
            sessions: sessions.len() as u64,
            parts: parts.into_iter().flatten().collect(),
            ends: [End::ForcedRetire, End::ProbabilisticReset, End::TargetTurnCount, End::RestartSplit]
                .map(ended),
            full: Spread::of(sessions.iter().map(|s| last(s) / config.max_prompt_tokens as f64).collect()),
        }
    }

    /// What was found of the part with that name.
    fn observed(&self, name: &str) -> Option<&Spread> {
        self.parts.iter().find(|part| part.name == name).map(|part| &part.observed)
    }

    /// AIPerf's `quality.json`.
    pub fn json(&self) -> Value {
        let parts: Map<String, Value> = self.parts.iter().map(|p| (p.name.to_owned(), p.json())).collect();
        let [retired, reset, target, split] = self.ends.map(|(_, n)| n);
        let share = |n: u64| rounded(n as f64 / self.sessions.max(1) as f64, 4);
        json!({
            "config_summary": self.summary(),
            "observed_vs_target": parts,
            "session_stats": self.observed("turns_per_session"),
            "session_end_stats": {
                "total_sessions": self.sessions,
                "forced_retires": retired,
                "probabilistic_resets": reset,
                "target_turn_completions": target,
                "restart_splits": split,
                "retire_fraction": share(retired),
                "reset_fraction": share(reset),
                "target_turn_fraction": share(target),
                "restart_split_fraction": share(split),
                "final_context_utilization": self.full,
            },
        })
    }

    fn summary(&self) -> Value {
        let Config { cache, new_tokens_per_turn, generation_length, inter_turn_delay, turns, reset, .. } =
            &self.config;
        let common = cache.common_tokens() as f64;
        let mut summary = json!({
            "initial_context_mean": common + cache.layer2.mean,
            "initial_context_median": common + cache.layer2.median,
            "layer1_tokens": cache.layer1_tokens,
            "layer1_5_tokens": cache.layer1_5_tokens,
            "layer2_mean": cache.layer2.mean,
            "layer2_median": cache.layer2.median,
            "num_groups": cache.layer1_5_groups.num_groups,
            "zipf_alpha": cache.layer1_5_groups.zipf_alpha,
            "new_tokens_per_turn_mean": new_tokens_per_turn.lengths.mean,
            "new_tokens_per_turn_median": new_tokens_per_turn.lengths.median,
            "generation_length_mean": generation_length.mean,
            "generation_length_median": generation_length.median,
            "max_prompt_tokens": self.config.max_prompt_tokens,
            "block_size": self.config.block_size,
            "inter_turn_delay_agentic_fraction": inter_turn_delay.agentic_fraction,
            "inter_turn_delay_agentic_mean_ms": inter_turn_delay.agentic_delay.mean,
            "inter_turn_delay_human_mean_ms": inter_turn_delay.human_delay.mean,
            "turn_mode_enabled": u64::from(turns.is_some()),
        });
        let mut set = |key: &str, value: Value| summary[key] = value;
        if let Some(reset) = reset {
            set("reset_base_probability", json!(reset.base_probability));
            set("reset_context_scaling", json!(reset.context_scaling));
        }
        if let Some(turns) = turns {
            set("turns_mean", json!(turns.mean));
            set("turns_median", json!(turns.median));
            set("turns_min", json!(turns.min));
            set("turns_max", json!(turns.max));
            set("turns_allow_truncation", json!(u64::from(turns.allow_truncation)));
            if !turns.allow_truncation {
                set("turns_max_session_attempts", json!(turns.max_session_attempts.unwrap_or(100)));
            }
        }
        summary
    }

    /// For a screen: asked and found, side by side.
    pub fn text(&self) -> String {
        let turns = self.observed("generation_length").map_or(0, |found| found.count);
        let mut out = format!(
            "{} sessions, {} turns, blocks of {} tokens\n\n{:<36}{:>12}{:>12}{:>10}\n",
            grouped(self.sessions),
            grouped(turns),
            self.config.block_size,
            "",
            "asked",
            "found",
            "off by"
        );
        let number = |n: f64| format!("{n:.1}");
        for part in &self.parts {
            let errors = part.errors();
            let row = |out: &mut String, name: &str, asked: Option<f64>, found: f64, error: Option<f64>| {
                let asked = asked.map_or_else(|| "-".to_owned(), number);
                let error = error.map_or_else(String::new, |e| format!("{e:.1} %"));
                // Writing to a String cannot fail.
                let _ = writeln!(out, "  {name:<34}{asked:>12}{:>12}{error:>10}", number(found));
            };
            let _ = writeln!(out, "{}", part.title);
            row(&mut out, "mean", part.target.map(|t| t.0), part.observed.mean, errors.map(|e| e.0));
            row(&mut out, "median", part.target.map(|t| t.1), part.observed.median, errors.map(|e| e.1));
            row(&mut out, "p05", None, part.observed.p05, None);
            row(&mut out, "p95", None, part.observed.p95, None);
            row(&mut out, "p99", None, part.observed.p99, None);
        }
        out.push_str("Ends\n");
        for (end, n) in self.ends {
            let words = match end {
                End::ForcedRetire => "the context was full",
                End::ProbabilisticReset => "by chance",
                End::TargetTurnCount => "all turns were there",
                End::RestartSplit => "cut in two",
            };
            let _ = writeln!(out, "  {words:<34}{:>12}{:>12}", "-", grouped(n));
        }
        out
    }
}
