//! What can be told while the run goes on: counts and the latest latencies, kept by the reader, read by the screen.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// Values remembered per metric: enough for a steady median, small enough to sort on every tick.
const REMEMBERED: usize = 1024;

/// Shared between the reader (writes once per batch) and the screen (reads some times a second).
#[derive(Debug, Default)]
pub(crate) struct Live {
    inner: Mutex<Latest>,
    changed: Notify,
}

/// Counts of the current phase and its latest values.
#[derive(Debug, Default, Clone)]
pub(crate) struct Latest {
    /// Whole answers.
    pub completed: u64,
    /// Failures.
    pub failed: u64,
    /// Dropped on purpose.
    pub cancelled: u64,
    /// Time to first token, milliseconds.
    pub ttft_ms: Window,
    /// Inter-token latency, milliseconds.
    pub itl_ms: Window,
    /// Request latency, milliseconds.
    pub latency_ms: Window,
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
    /// Changes the counts.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Latest)) {
        change(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_waiters();
    }

    /// Waits until the reader has seen `ended` requests of this phase.
    pub(crate) async fn caught_up(&self, ended: u64) {
        loop {
            let changed = self.changed.notified();
            let latest = self.read();
            if latest.completed + latest.failed + latest.cancelled >= ended {
                return;
            }
            changed.await;
        }
    }

    /// A copy of the counts.
    pub(crate) fn read(&self) -> Latest {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets everything, for a new phase.
    pub(crate) fn reset(&self) {
        self.update(|latest| *latest = Latest::default());
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
