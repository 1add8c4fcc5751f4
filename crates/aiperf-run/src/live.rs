//! What can be told while the run goes on: counts and the latest latencies, kept by the reader, read by the screen.

use std::sync::{Mutex, OnceLock, PoisonError};

use aiperf_core::outcome::Outcome;
use aiperf_core::time::ns_to_ms;
use aiperf_metrics::{Facts, RecordValues, Value};
use tokio::sync::Notify;

/// Values remembered per metric: enough for a steady median, small enough to sort on every tick.
const REMEMBERED: usize = 1024;

/// Shared between the reader (writes once per batch) and the screen (reads some times a second).
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// By phase.
    inner: Mutex<Vec<Latest>>,
    changed: Notify,
    /// Failed and ended requests when a phase's threshold was passed.
    too_many: OnceLock<(u64, u64)>,
    passed: Notify,
}

/// Counts of a phase and its latest values.
#[derive(Debug, Default, Clone)]
pub(crate) struct Latest {
    /// What ended.
    pub counts: Counts,
    /// Time to first token, milliseconds.
    pub ttft_ms: Window,
    /// Inter-token latency, milliseconds.
    pub itl_ms: Window,
    /// Request latency, milliseconds.
    pub latency_ms: Window,
}

impl Latest {
    /// Takes in a request that was read.
    pub(crate) fn add(&mut self, facts: &Facts, values: &RecordValues) {
        match facts.outcome {
            Outcome::Completed => self.counts.completed += 1,
            Outcome::Cancelled => self.counts.cancelled += 1,
            Outcome::Failed | Outcome::Lost | Outcome::Unsent => self.counts.failed += 1,
        }
        if facts.outcome != Outcome::Completed {
            return;
        }
        // An answer that came whole has none.
        if let Some(Value::Int(ttft_ns)) = values.get("time_to_first_token") {
            self.ttft_ms.push(ns_to_ms(*ttft_ns));
        }
        if let Some(last) = facts.chunks.last() {
            self.latency_ms.push(ns_to_ms(last.at_ns.saturating_sub(facts.start_ns)));
        }
        if let Some(Value::Real(itl_ns)) = values.get("inter_token_latency") {
            self.itl_ms.push(itl_ns / 1e6);
        }
    }

    /// Takes in what was seen since.
    pub(crate) fn absorb(&mut self, seen: &Self) {
        self.counts.completed += seen.counts.completed;
        self.counts.failed += seen.counts.failed;
        self.counts.cancelled += seen.counts.cancelled;
        self.ttft_ms.absorb(&seen.ttft_ms);
        self.itl_ms.absorb(&seen.itl_ms);
        self.latency_ms.absorb(&seen.latency_ms);
    }
}

/// Requests of a phase that ended and were read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Whole answers.
    pub completed: u64,
    /// Failures.
    pub failed: u64,
    /// Dropped on purpose.
    pub cancelled: u64,
}

impl Counts {
    /// All of them.
    pub(crate) const fn ended(&self) -> u64 {
        self.completed + self.failed + self.cancelled
    }
}

/// The last values of one metric.
#[derive(Debug, Default, Clone)]
pub(crate) struct Window {
    values: Vec<f64>,
    next: usize,
}

impl Window {
    /// Adds a value in place of the oldest.
    pub(crate) fn push(&mut self, value: f64) {
        if self.values.len() < REMEMBERED {
            self.values.push(value);
        } else {
            self.values[self.next] = value;
            self.next = (self.next + 1) % REMEMBERED;
        }
    }

    /// Adds the values of another window.
    pub(crate) fn absorb(&mut self, other: &Self) {
        other.values.iter().for_each(|v| self.push(*v));
    }

    /// The value that the share `q` (0..=1) of the remembered ones does not pass.
    pub(crate) fn quantile(&self, q: f64) -> Option<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let at = (q * sorted.len().saturating_sub(1) as f64).round() as usize;
        sorted.get(at).copied()
    }
}

impl Live {
    /// Changes the counts of `phase`.
    pub(crate) fn update(&self, phase: u16, change: impl FnOnce(&mut Latest)) {
        let mut phases = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let at = usize::from(phase);
        if phases.len() <= at {
            phases.resize_with(at + 1, Latest::default);
        }
        change(&mut phases[at]);
        drop(phases);
        self.changed.notify_waiters();
    }

    /// Too many requests failed: `failed` of `ended`. The first call counts.
    pub(crate) fn pass_threshold(&self, failed: u64, ended: u64) {
        let _ = self.too_many.set((failed, ended));
        self.passed.notify_one();
    }

    /// How many requests had failed, and of how many, when that was too many.
    pub(crate) fn too_many(&self) -> Option<(u64, u64)> {
        self.too_many.get().copied()
    }

    /// Resolves when too many requests failed, with how many and of how many.
    pub(crate) async fn too_many_failed(&self) -> (u64, u64) {
        loop {
            let passed = self.passed.notified();
            if let Some(counts) = self.too_many.get() {
                return *counts;
            }
            passed.await;
        }
    }

    /// Waits until the reader has seen `ended` requests of `phase`.
    pub(crate) async fn caught_up(&self, phase: u16, ended: u64) {
        loop {
            let changed = self.changed.notified();
            if self.counts(phase).ended() >= ended {
                return;
            }
            changed.await;
        }
    }

    /// A copy of what is known of `phase`.
    pub(crate) fn read(&self, phase: u16) -> Latest {
        let phases = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        phases.get(usize::from(phase)).cloned().unwrap_or_default()
    }

    /// The counts of `phase` alone.
    pub(crate) fn counts(&self, phase: u16) -> Counts {
        let phases = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        phases.get(usize::from(phase)).map(|latest| latest.counts).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_forgets_the_oldest() {
        let mut window = Window::default();
        assert_eq!(window.quantile(0.5), None);
        for v in 0..REMEMBERED + 10 {
            window.push(v as f64);
        }
        assert_eq!(window.quantile(0.0), Some(10.0));
        assert_eq!(window.quantile(1.0), Some((REMEMBERED + 9) as f64));
    }
}
