//! When so many requests failed that going on is of no use.

/// Fewest requests that say anything.
const LEAST: u64 = 10;

/// Watches the requests of a phase and says once when too many failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FailureThreshold {
    share: f64,
    least: u64,
    ended: u64,
    failed: u64,
    has_fired: bool,
}

impl FailureThreshold {
    /// Fires when more than `share` (0 to 1) failed, but not before `concurrency` requests or ten, whichever is more, ended.
    pub fn new(share: f64, concurrency: Option<u32>) -> Self {
        let least = u64::from(concurrency.unwrap_or(1)).max(LEAST);
        Self { share, least, ended: 0, failed: 0, has_fired: false }
    }

    /// Takes note of a request that ended. `true` once: when the share is above the threshold for the first time.
    pub fn note(&mut self, failed: bool) -> bool {
        self.ended += 1;
        self.failed += u64::from(failed);
        let is_over = self.ended >= self.least && self.failed as f64 / self.ended as f64 > self.share;
        let fires = is_over && !self.has_fired;
        self.has_fired |= fires;
        fires
    }

    /// Requests that failed, and all that ended.
    pub const fn counts(&self) -> (u64, u64) {
        (self.failed, self.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers (from 1) of the requests at which it fires.
    fn fires(share: f64, concurrency: Option<u32>, outcomes: impl IntoIterator<Item = bool>) -> Vec<usize> {
        let mut threshold = FailureThreshold::new(share, concurrency);
        outcomes
            .into_iter()
            .enumerate()
            .filter_map(|(i, failed)| threshold.note(failed).then_some(i + 1))
            .collect()
    }

    #[test]
    fn it_fires_once_and_not_before_there_is_enough_to_say() {
        let half = || (0..200).map(|i| i % 2 == 0);
        assert_eq!(fires(0.1, None, half()), [10]);
        assert_eq!(fires(0.1, Some(4), half()), [10]);
        assert_eq!(fires(0.1, Some(50), half()), [50]);
        assert!(fires(0.1, Some(50), half().take(49)).is_empty());
    }

    #[test]
    fn the_share_itself_is_allowed() {
        let one_of_ten = (0..100).map(|i| i % 10 == 9);
        assert!(fires(0.1, None, one_of_ten).is_empty());
        // One more: 2 of 11.
        assert_eq!(fires(0.1, None, (0..100).map(|i| i == 9 || i == 10)), [11]);
        assert_eq!(fires(0.0, None, (0..100).map(|i| i == 20)), [21]);
        assert!(fires(1.0, None, [true; 100]).is_empty());
    }

    #[test]
    fn a_good_phase_can_turn_bad() {
        let mut threshold = FailureThreshold::new(0.5, None);
        assert!((0..20).all(|_| !threshold.note(false)));
        assert!((0..20).all(|_| !threshold.note(true)));
        assert!(threshold.note(true));
        assert_eq!(threshold.counts(), (21, 41));
    }
}
