//! Limits that hold for all shards together: a permit count that can be raised and lowered while it is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Semaphore;

/// A number of places. Who waits for one gets it in the order of asking.
///
/// Raising the number wakes waiters at once. Lowering it lets those that hold a place keep it: the places that cannot be taken
/// away now are owed, and withheld as they come back.
#[derive(Debug)]
pub(crate) struct Limit {
    free: Semaphore,
    /// Places that exist: free, held or owed.
    total: AtomicU64,
    /// Held places that do not come back.
    owed: AtomicU64,
}

/// A place; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Permit {
    limit: Arc<Limit>,
}

impl Limit {
    /// `places` of them, all free.
    pub(crate) fn new(places: u32) -> Arc<Self> {
        Arc::new(Self {
            free: Semaphore::new(places as usize),
            total: AtomicU64::new(places.into()),
            owed: AtomicU64::new(0),
        })
    }

    /// Changes the number of places. One thread alone calls this.
    pub(crate) fn set(&self, places: u32) {
        let places = u64::from(places);
        let before = self.total.swap(places, Ordering::AcqRel);
        if places < before {
            let take = before - places;
            // First owed, then taken: a place that comes back in between pays for itself, and what is free pays for the rest.
            self.owed.fetch_add(take, Ordering::AcqRel);
            for _ in 0..take {
                match self.free.try_acquire() {
                    Ok(place) if self.pay() => place.forget(),
                    _ => break,
                }
            }
        } else {
            for _ in 0..places - before {
                if !self.pay() {
                    self.free.add_permits(1);
                }
            }
        }
    }

    /// One owed place less; `false` when none was owed.
    fn pay(&self) -> bool {
        self.owed.fetch_update(Ordering::AcqRel, Ordering::Acquire, |owed| owed.checked_sub(1)).is_ok()
    }

    /// A place, once there is one.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Permit {
        match self.free.acquire().await {
            Ok(place) => place.forget(),
            // Nobody ever closes it.
            Err(_) => std::future::pending().await,
        }
        Permit { limit: self.clone() }
    }

    /// A place, if one is free now.
    pub(crate) fn try_acquire(self: &Arc<Self>) -> Option<Permit> {
        self.free.try_acquire().ok()?.forget();
        Some(Permit { limit: self.clone() })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.limit.pay() {
            self.limit.free.add_permits(1);
        }
    }
}

/// The limits of a phase; `None` is no limit.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// Live sessions of an open loop. In a closed loop each shard holds its share of places instead.
    pub sessions: Option<Arc<Limit>>,
    /// Requests on the wire.
    pub in_flight: Option<Arc<Limit>>,
    /// Requests without content so far.
    pub prefills: Option<Arc<Limit>>,
}

/// What a session holds under the limits while one of its turns is on the wire.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// From the first turn to the last: held, never looked at.
    pub _session: Option<Permit>,
    /// From the send to the end.
    pub in_flight: Option<Permit>,
    /// From the send to the first content.
    pub prefill: Option<Permit>,
}

impl Limits {
    /// Whether an arrival never has to wait.
    pub(crate) fn are_none(&self) -> bool {
        self.sessions.is_none() && self.in_flight.is_none() && self.prefills.is_none()
    }

    /// All places that a session's first turn needs, if they are free now.
    pub(crate) fn try_all(&self) -> Option<Places> {
        let take = |limit: &Option<Arc<Limit>>| match limit {
            None => Some(None),
            Some(limit) => limit.try_acquire().map(Some),
        };
        Some(Places {
            _session: take(&self.sessions)?,
            in_flight: take(&self.in_flight)?,
            prefill: take(&self.prefills)?,
        })
    }

    /// All places that a session's first turn needs, once they are free. Always asked for in this order: who waits for a
    /// later one holds the earlier, never the other way round.
    pub(crate) async fn all(&self) -> Places {
        let mut places = Places { _session: acquire(self.sessions.as_ref()).await, ..Places::default() };
        self.for_turn(&mut places).await;
        places
    }

    /// The places of one turn that `places` lacks.
    pub(crate) async fn for_turn(&self, places: &mut Places) {
        if places.in_flight.is_none() {
            places.in_flight = acquire(self.in_flight.as_ref()).await;
        }
        if places.prefill.is_none() {
            places.prefill = acquire(self.prefills.as_ref()).await;
        }
    }
}

async fn acquire(limit: Option<&Arc<Limit>>) -> Option<Permit> {
    match limit {
        Some(limit) => Some(limit.acquire().await),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn free(limit: &Arc<Limit>) -> usize {
        limit.free.available_permits()
    }

    #[test]
    fn raising_gives_places_at_once_and_lowering_withholds_them() {
        let limit = Limit::new(2);
        let (a, b) = (limit.try_acquire(), limit.try_acquire());
        assert!(a.is_some() && b.is_some() && limit.try_acquire().is_none());
        limit.set(3);
        let c = limit.try_acquire();
        assert!(c.is_some());
        limit.set(1);
        drop(a);
        drop(b);
        assert!(limit.try_acquire().is_none(), "one is held and one is all there may be");
        drop(c);
        assert_eq!(free(&limit), 1);
        limit.set(0);
        assert!(limit.try_acquire().is_none());
        limit.set(2);
        assert_eq!(free(&limit), 2);
    }

    #[test]
    fn a_place_that_is_missing_gives_back_the_others() {
        let limits = Limits {
            sessions: Some(Limit::new(1)),
            in_flight: Some(Limit::new(1)),
            prefills: Some(Limit::new(0)),
        };
        assert!(limits.try_all().is_none());
        assert_eq!(limits.sessions.as_ref().map(free), Some(1));
        assert_eq!(limits.in_flight.as_ref().map(free), Some(1));
    }

    #[test]
    fn threads_that_come_and_go_while_the_limit_moves_end_with_the_limit() {
        let limit = Limit::new(5);
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let limit = limit.clone();
                std::thread::spawn(move || {
                    for _ in 0..20_000 {
                        drop(limit.try_acquire());
                    }
                })
            })
            .collect();
        for places in (0..2_000).map(|i| i % 9).chain([4]) {
            limit.set(places);
        }
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert_eq!((free(&limit), limit.owed.load(Ordering::Relaxed)), (4, 0));
    }

    proptest! {
        #[test]
        fn never_more_are_held_than_were_ever_allowed_and_what_is_free_is_right(
            steps in prop::collection::vec((0u8..3, 0u32..6), 1..60),
        ) {
            let limit = Limit::new(3);
            let mut total = 3u32;
            let mut held = Vec::new();
            for (what, n) in steps {
                match what {
                    0 => {
                        let got = limit.try_acquire();
                        prop_assert_eq!(got.is_some(), (held.len() as u32) < total);
                        held.extend(got);
                    }
                    1 => drop(held.pop()),
                    _ => {
                        limit.set(n);
                        total = n;
                    }
                }
                prop_assert_eq!(free(&limit) as u32, total.saturating_sub(held.len() as u32));
            }
        }
    }
}
