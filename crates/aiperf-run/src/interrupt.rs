//! The user's wish to stop.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Fired once by the signal handler of the binary (or a test), seen by the run.
#[derive(Debug, Default)]
pub struct Interrupt {
    fired: AtomicBool,
    seen: AtomicBool,
    notify: Notify,
}

impl Interrupt {
    /// Asks the run to stop sending, drop what is in flight, and write everything. Firing again changes nothing.
    pub fn fire(&self) {
        self.fired.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    /// Whether it was fired. Who asks is taken to act on it.
    pub fn fired(&self) -> bool {
        let fired = self.fired.load(Ordering::Acquire);
        if fired {
            self.seen.store(true, Ordering::Release);
        }
        fired
    }

    /// Whether somebody knows that it was fired.
    pub fn is_seen(&self) -> bool {
        self.seen.load(Ordering::Acquire)
    }

    /// Waits until it is fired.
    pub async fn wait(&self) {
        loop {
            let notified = self.notify.notified();
            if self.fired() {
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_has_seen_it() {
        let interrupt = Interrupt::default();
        assert!(!interrupt.fired() && !interrupt.is_seen());
        interrupt.fire();
        assert!(!interrupt.is_seen());
        assert!(interrupt.fired() && interrupt.is_seen());
    }
}
