//! When the first and the last of many things happened.

use aiperf_core::time::ns_to_seconds;

/// How many, the first and the last. Monotonic nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// How many.
    pub count: u64,
    /// The earliest; meaningless while there is none.
    pub first_ns: u64,
    /// The latest; meaningless while there is none.
    pub last_ns: u64,
}

impl Span {
    /// Counts one that happened at `at_ns`; the order does not matter.
    pub fn add(&mut self, at_ns: u64) {
        self.merge(&Self { count: 1, first_ns: at_ns, last_ns: at_ns });
    }

    /// Takes in another one.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        self.count += other.count;
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
    }

    /// From the first to the last, nanoseconds.
    pub const fn length_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }

    /// How many a second: n of them span n − 1 gaps. `None` without a gap.
    pub fn per_second(&self) -> Option<f64> {
        let length_ns = self.length_ns();
        (self.count > 1 && length_ns > 0).then(|| (self.count - 1) as f64 / ns_to_seconds(length_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rate_is_that_of_the_gaps_in_whatever_order_they_come() {
        let mut span = Span::default();
        span.add(2_000_000_000);
        assert_eq!(span.per_second(), None, "one has no gap");
        span.add(1_000_000_000);
        span.add(1_500_000_000);
        assert_eq!(span.per_second(), Some(2.0));
    }

    proptest! {
        #[test]
        fn parts_are_as_good_as_the_whole(a in proptest::collection::vec(any::<u64>(), 0..9),
                                          b in proptest::collection::vec(any::<u64>(), 0..9)) {
            let of = |times: &[u64]| times.iter().fold(Span::default(), |mut span, at| { span.add(*at); span });
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let all = [a, b].concat();
            prop_assert_eq!(merged.count, all.len() as u64);
            if let (Some(first), Some(last)) = (all.iter().min(), all.iter().max()) {
                prop_assert_eq!((merged.first_ns, merged.last_ns), (*first, *last));
            }
        }
    }
}
