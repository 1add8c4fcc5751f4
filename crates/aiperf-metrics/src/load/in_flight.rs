//! How many of something were there at once, over time, in constant memory.

/// A count that goes up and down, its mean over time and its peak. What happens after [`close`](Self::close) is left out of both:
/// a phase that has sent its last request is no longer asked to hold anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InFlight {
    /// There now.
    level: u64,
    peak: u64,
    /// Count × time up to `last_ns`.
    area: u128,
    /// Start and end of what was looked at.
    start_ns: u64,
    last_ns: u64,
    is_started: bool,
    is_closed: bool,
}

impl InFlight {
    /// Nothing is there yet; time counts from `now_ns`.
    pub fn start(now_ns: u64) -> Self {
        Self { start_ns: now_ns, last_ns: now_ns, is_started: true, ..Self::default() }
    }

    /// One more. A stamp from before the last one counts as that.
    pub fn add(&mut self, now_ns: u64) {
        self.advance(now_ns);
        self.level += 1;
        if !self.is_closed {
            self.peak = self.peak.max(self.level);
        }
    }

    /// One less.
    pub fn remove(&mut self, now_ns: u64) {
        self.advance(now_ns);
        self.level = self.level.saturating_sub(1);
    }

    /// The mean and the peak are of the time up to now. Only the first call counts.
    pub fn close(&mut self, now_ns: u64) {
        self.advance(now_ns);
        self.is_closed = true;
    }

    /// There now, closed or not.
    pub const fn level(&self) -> u64 {
        self.level
    }

    /// The time looked at, nanoseconds.
    pub const fn length_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.start_ns)
    }

    /// Mean over time; `None` when no time went by.
    pub fn mean(&self) -> Option<f64> {
        let length_ns = self.length_ns();
        (self.is_started && length_ns > 0).then(|| self.area as f64 / length_ns as f64)
    }

    /// The most at once. After [`merge`](Self::merge) of parts whose peaks may lie at different times: at most this many.
    pub fn peak(&self) -> Option<u64> {
        self.is_started.then_some(self.peak)
    }

    /// Adds what another shard held in the same time.
    pub fn merge(&mut self, other: &Self) {
        if !other.is_started {
            return;
        }
        if !self.is_started {
            *self = *other;
            return;
        }
        self.level += other.level;
        self.peak += other.peak;
        self.area += other.area;
        self.start_ns = self.start_ns.min(other.start_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.is_closed &= other.is_closed;
    }

    fn advance(&mut self, now_ns: u64) {
        if !self.is_started {
            *self = Self { level: self.level, ..Self::start(now_ns) };
        }
        if self.is_closed {
            return;
        }
        let now_ns = now_ns.max(self.last_ns);
        self.area += u128::from(self.level) * u128::from(now_ns - self.last_ns);
        self.last_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_worked_example() {
        let mut held = InFlight::start(100);
        assert_eq!((held.mean(), held.peak()), (None, Some(0)));
        held.add(110); // 0 for 10
        held.add(120); // 1 for 10
        held.remove(140); // 2 for 20
        held.close(150); // 1 for 10
        assert_eq!(held.mean(), Some(60.0 / 50.0));
        assert_eq!(held.peak(), Some(2));
        held.add(900);
        held.add(900);
        held.close(1000);
        assert_eq!(
            (held.mean(), held.peak(), held.level()),
            (Some(1.2), Some(2), 3),
            "the drain is left out"
        );
    }

    #[test]
    fn what_never_began_is_not_zero() {
        let mut nothing = InFlight::default();
        assert_eq!((nothing.mean(), nothing.peak()), (None, None));
        nothing.merge(&InFlight::default());
        assert_eq!(nothing.peak(), None);
        let mut held = InFlight::start(0);
        held.add(0);
        held.close(10);
        nothing.merge(&held);
        assert_eq!((nothing.mean(), nothing.peak()), (Some(1.0), Some(1)));
    }

    /// Requests as (start, length, shard); all within 1000 ticks.
    fn requests() -> impl Strategy<Value = Vec<(u64, u64, usize)>> {
        proptest::collection::vec((0u64..500, 0u64..500, 0usize..3), 0..40)
    }

    proptest! {
        #[test]
        fn shards_together_hold_what_a_count_at_each_tick_says(requests in requests(), end in 1u64..1000) {
            let mut shards = [InFlight::start(0), InFlight::start(0), InFlight::start(0)];
            let mut events: Vec<(u64, bool, usize)> = requests
                .iter()
                .flat_map(|(start, length, shard)| [(*start, false, *shard), (start + length, true, *shard)])
                .collect();
            // What ends at a tick ends before what begins there, but no request ends before it begins.
            events.sort_by_key(|(at, is_end, _)| (*at, *is_end));
            for (at, is_end, shard) in events {
                if at >= end {
                    shards[shard].close(end);
                }
                if is_end { shards[shard].remove(at) } else { shards[shard].add(at) }
            }
            for shard in &mut shards {
                shard.close(end);
            }
            let mut whole = InFlight::default();
            for shard in &shards {
                whole.merge(shard);
            }

            let at = |tick: u64, of: &dyn Fn(usize) -> bool| {
                requests.iter().filter(|(s, l, k)| of(*k) && *s <= tick && tick < s + l).count() as u64
            };
            let area: u64 = (0..end).map(|tick| at(tick, &|_| true)).sum();
            prop_assert_eq!(whole.mean(), Some(area as f64 / end as f64));
            // Peaks count requests of no length too, so they are bounded rather than equal.
            let peak = (0..end).map(|tick| at(tick, &|_| true)).max().unwrap_or(0);
            prop_assert!(whole.peak().is_some_and(|p| p >= peak && p <= requests.len() as u64));
            prop_assert_eq!(whole.level(), 0);
        }
    }
}
