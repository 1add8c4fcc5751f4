//! The user's wish to stop.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Fired once by the signal handler of the binary (or a test), seen by the run.
#[derive(Debug, Default)]
pub struct Interrupt {
    fired: AtomicBool,
    notify: Notify,
}

impl Interrupt {
    /// Asks the run to stop sending, drop what is in flight, and write everything. Firing again changes nothing.
    pub fn fire(&self) {
        self.fired.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    /// Whether it was fired.
    pub fn fired(&self) -> bool {
        self.fired.load(Ordering::Acquire)
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
