//! The classes requests ended in, kept so that they always add up.

/// How many requests ended in which class. `scheduled = sent + unsent` and `sent = completed + failed + cancelled + lost` hold after every
/// change made through [`Recorder`](crate::Recorder).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests the schedule asked for.
    pub scheduled: u64,
    /// Never sent.
    pub unsent: u64,
    /// Handed to the wire.
    pub sent: u64,
    /// A whole answer with content.
    pub completed: u64,
    /// No such answer.
    pub failed: u64,
    /// Dropped by us on purpose.
    pub cancelled: u64,
    /// Sent, end unknown.
    pub lost: u64,
}

impl Tally {
    /// Requests whose end is known: completed + failed + cancelled.
    pub const fn ended(&self) -> u64 {
        self.completed + self.failed + self.cancelled
    }

    /// AIPerf's `error_request_count`: failed and cancelled together.
    pub const fn errors(&self) -> u64 {
        self.failed + self.cancelled
    }

    /// Whether both sums hold.
    pub const fn adds_up(&self) -> bool {
        self.scheduled == self.sent + self.unsent && self.sent == self.ended() + self.lost
    }
}

/// What was reported; [`Ledger::tally`] settles it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ledger {
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
    /// Records that say so themselves.
    pub(crate) lost: u64,
    pub(crate) unsent: u64,
    pub(crate) scheduled: Option<u64>,
}

impl Ledger {
    /// What the schedule does not find among sent and unsent is lost. When more ended than was said to be scheduled, what ended is
    /// believed: it was seen.
    pub(crate) fn tally(&self) -> Tally {
        let ended = self.completed + self.failed + self.cancelled;
        let missing = self.scheduled.map_or(0, |s| s.saturating_sub(self.unsent + ended));
        let lost = self.lost.max(missing);
        let sent = ended + lost;
        Tally {
            scheduled: sent + self.unsent,
            unsent: self.unsent,
            sent,
            completed: self.completed,
            failed: self.failed,
            cancelled: self.cancelled,
            lost,
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.scheduled = match (self.scheduled, other.scheduled) {
            (None, None) => None,
            _ => Some(self.own_scheduled() + other.own_scheduled()),
        };
        self.completed += other.completed;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.lost += other.lost;
        self.unsent += other.unsent;
    }

    fn own_scheduled(&self) -> u64 {
        self.tally().scheduled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ledger() -> impl Strategy<Value = Ledger> {
        (0u64..50, 0u64..50, 0u64..50, 0u64..50, 0u64..50, proptest::option::of(0u64..300)).prop_map(
            |(completed, failed, cancelled, lost, unsent, scheduled)| Ledger {
                completed,
                failed,
                cancelled,
                lost,
                unsent,
                scheduled,
            },
        )
    }

    #[test]
    fn what_nobody_saw_again_is_lost() {
        let ledger = Ledger { completed: 16, failed: 1, unsent: 2, scheduled: Some(20), ..Ledger::default() };
        let tally = ledger.tally();
        assert_eq!((tally.sent, tally.lost, tally.unsent), (18, 1, 2));
        assert!(tally.adds_up());
    }

    proptest! {
        #[test]
        fn it_adds_up_whatever_was_reported(a in ledger(), b in ledger()) {
            prop_assert!(a.tally().adds_up());
            let mut both = a;
            both.merge(&b);
            prop_assert!(both.tally().adds_up());
            prop_assert_eq!(both.tally().ended(), a.tally().ended() + b.tally().ended());
            prop_assert!(both.tally().scheduled >= a.tally().scheduled.max(b.tally().scheduled));
        }
    }
}
