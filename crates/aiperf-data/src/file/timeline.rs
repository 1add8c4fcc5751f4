//! From the times that a file recorded to those of its replay: faster or slower as a whole, with long silences made short.

/// Parts of one in which speeds are kept: twelve digits behind the point are exact.
const PARTS: u128 = 1_000_000_000_000;

/// How many times faster than recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Speed(u128);

impl Speed {
    /// `factor` is above 0; 2 is twice as fast.
    pub(super) fn new(factor: f64) -> Self {
        Self(((factor * PARTS as f64).round() as u128).max(1))
    }

    /// A recorded time or pause, nanoseconds, as it is replayed: divided, to the nearest nanosecond.
    pub(super) fn replayed(self, ns: u64) -> u64 {
        if self.0 == PARTS {
            return ns;
        }
        let exact = (u128::from(ns) * PARTS + self.0 / 2) / self.0;
        u64::try_from(exact).unwrap_or(u64::MAX)
    }
}

/// A silence of the replay that is longer than it may be. Nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    /// Where it has lasted as long as it may, and where it ends, at the replay's speed.
    from: u64,
    to: u64,
    /// What is taken out before it.
    before: u64,
}

/// A map of times that never goes backwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Timeline {
    speed: Speed,
    cuts: Vec<Cut>,
}

impl Timeline {
    /// `starts` are the recorded times, in any order, of which no two that follow each other may lie more than `most_ns` of replay
    /// apart.
    pub(super) fn new(speed: Speed, most_ns: Option<u64>, mut starts: Vec<u64>) -> Self {
        let mut cuts = Vec::new();
        if let Some(most_ns) = most_ns {
            starts.sort_unstable();
            let mut before = 0;
            for pair in starts.windows(2) {
                let (last, next) = (speed.replayed(pair[0]), speed.replayed(pair[1]));
                let from = last.saturating_add(most_ns);
                if from < next {
                    cuts.push(Cut { from, to: next, before });
                    before += next - from;
                }
            }
            cuts.shrink_to_fit();
        }
        Self { speed, cuts }
    }

    /// When what was recorded at `ns` is replayed.
    pub(super) fn replayed(&self, ns: u64) -> u64 {
        let ns = self.speed.replayed(ns);
        let behind = self.cuts.partition_point(|cut| cut.from <= ns);
        let Some(cut) = behind.checked_sub(1).map(|i| &self.cuts[i]) else { return ns };
        ns - cut.before - (ns.min(cut.to) - cut.from)
    }

    /// Silences that are cut, and all that is taken out of them, nanoseconds.
    pub(super) fn cut(&self) -> (u64, u64) {
        let taken = self.cuts.last().map_or(0, |cut| cut.before + cut.to - cut.from);
        (self.cuts.len() as u64, taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn speeds_divide_exactly() {
        assert_eq!(Speed::new(1.0).replayed(u64::MAX), u64::MAX);
        assert_eq!(Speed::new(2.0).replayed(1_001), 501, "half a nanosecond goes up");
        assert_eq!(Speed::new(0.5).replayed(7), 14);
        assert_eq!(Speed::new(1.1).replayed(1_100_000_000_000_000_000), 1_000_000_000_000_000_000);
        assert_eq!(Speed::new(0.1).replayed(u64::MAX), u64::MAX, "the clock has an end");
    }

    #[test]
    fn silences_end_where_they_may() {
        let line = Timeline::new(Speed::new(2.0), Some(10), vec![100, 0, 40, 44, 240]);
        // Replayed without a cut at 0, 20, 22, 50, 120.
        assert_eq!([0, 40, 44, 100, 240].map(|t| line.replayed(t)), [0, 10, 12, 22, 32]);
        assert_eq!(
            (line.replayed(20), line.replayed(30)),
            (10, 10),
            "a silence ends when it has lasted as long as it may"
        );
        assert_eq!(line.replayed(250), 37, "behind the last start time goes on");
        assert_eq!(line.cut(), (3, 10 + 18 + 60));
        assert_eq!(Timeline::new(Speed::new(1.0), None, vec![5, 9_000]).cut(), (0, 0));
    }

    proptest! {
        /// Against the obvious way: walk over all starts in order and shorten each gap.
        #[test]
        fn replayed_starts_are_those_of_the_slow_way(
            mut starts in prop::collection::vec(0u64..5_000, 1..40),
            most in 1u64..400,
            factor in prop::sample::select(vec![0.25, 0.5, 1.0, 2.0, 3.0, 10.0]),
        ) {
            let speed = Speed::new(factor);
            let line = Timeline::new(speed, Some(most), starts.clone());
            starts.sort_unstable();
            let mut at = speed.replayed(starts[0]);
            prop_assert_eq!(line.replayed(starts[0]), at);
            for pair in starts.windows(2) {
                at += (speed.replayed(pair[1]) - speed.replayed(pair[0])).min(most);
                prop_assert_eq!(line.replayed(pair[1]), at);
            }
        }

        #[test]
        fn time_never_goes_backwards(
            starts in prop::collection::vec(0u64..5_000, 1..40),
            most in 1u64..400,
            times in prop::collection::vec(0u64..6_000, 2..40),
        ) {
            let line = Timeline::new(Speed::new(1.5), Some(most), starts);
            let mut times = times;
            times.sort_unstable();
            prop_assert!(times.windows(2).all(|pair| line.replayed(pair[0]) <= line.replayed(pair[1])));
        }
    }
}
