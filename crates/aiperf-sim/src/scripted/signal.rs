//! How a test and a script wait for each other.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Something that happens once and stays so; tests and scripts wait for each other with it.
#[derive(Debug, Clone, Default)]
pub struct Signal(Arc<(Mutex<bool>, Condvar)>);

impl Signal {
    /// Not raised yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises it and wakes all that wait.
    pub fn raise(&self) {
        *lock(&self.0.0) = true;
        self.0.1.notify_all();
    }

    /// Whether it was raised.
    pub fn is_raised(&self) -> bool {
        *lock(&self.0.0)
    }

    /// Waits until it is raised.
    pub fn wait(&self) {
        let mut raised = lock(&self.0.0);
        while !*raised {
            raised = self.0.1.wait(raised).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A lock whose holder's panic does not spread.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
