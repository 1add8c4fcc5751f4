//! A share of a file's sessions: whole ones, drawn by seed and name.

use aiperf_core::plan::FilePlan;
use aiperf_rng::draw;

const PURPOSE: &str = "dataset.trace.session_share";
/// Rows of a file have numbers below this.
const FILE: u32 = 40;

/// Draws sessions.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    seed: u64,
    /// Draws below this are kept.
    below: u64,
    /// The least draw so far.
    least: u64,
    /// Files so far.
    files: u64,
}

impl Sample {
    /// The draws of a plan that keeps a share of the sessions.
    pub(super) fn new(set: &FilePlan, seed: u64) -> Option<Self> {
        let share = set.replay.session_share;
        let below = (share * 2f64.powi(64)) as u64;
        (share < 1.0).then_some(Self { seed, below, least: u64::MAX, files: 0 })
    }

    /// Begins with another file, whose rows without a session are others.
    pub(super) fn next_file(&mut self) {
        self.files += 1;
    }

    /// Whether the session of the row of a line is kept; a row without one is a session.
    pub(super) fn keeps(&mut self, session: Option<&str>, line: u64) -> bool {
        let at = match session {
            Some(name) => draw(self.seed, &format!("{PURPOSE}/{name}"), 0),
            None => draw(self.seed, PURPOSE, (self.files << FILE) + line),
        };
        self.least = self.least.min(at);
        at < self.below
    }

    /// Keeps the session with the least draw, where none was kept of some; `false` where there was none.
    pub(super) fn widen(&mut self) -> bool {
        let is_some = self.least < u64::MAX && self.least >= self.below;
        if is_some {
            (self.below, self.least, self.files) = (self.least + 1, u64::MAX, 0);
        }
        is_some
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(share: f64) -> Sample {
        Sample { seed: 7, below: (share * 2f64.powi(64)) as u64, least: u64::MAX, files: 1 }
    }

    #[test]
    fn a_share_is_kept_and_at_least_one() {
        let mut tenth = of(0.1);
        let kept = (0..10_000).filter(|i| tenth.keeps(Some(&i.to_string()), 1)).count();
        // Six standard deviations of 10,000 draws at a tenth.
        assert!(kept.abs_diff(1_000) < 180, "{kept}");
        let kept = (0..10_000).filter(|line| tenth.keeps(None, *line)).count();
        assert!(kept.abs_diff(1_000) < 180, "{kept}");
        assert!(!tenth.widen(), "some are kept");
        let mut none = of(0.0);
        assert!(!none.widen(), "nothing was there");
        assert!((0..5).all(|line| !none.keeps(None, line)) && none.widen());
        none.next_file();
        assert_eq!((0..5).filter(|line| none.keeps(None, *line)).count(), 1);
    }

    proptest! {
        /// A larger share keeps what a smaller one does, whatever stands around it.
        #[test]
        fn shares_grow(name in "[a-z]{0,6}", line in 0u64..1_000, small in 0.0..1.0f64, more in 0.0..1.0f64) {
            let large = small + (1.0 - small) * more;
            for session in [Some(name.as_str()), None] {
                prop_assert!(!of(small).keeps(session, line) || of(large).keeps(session, line));
            }
            prop_assert_eq!(of(small).keeps(Some(&name), line), of(small).keeps(Some(&name), line + 9));
        }
    }
}
