//! When conversations begin, as far as they say so.

/// Stands for no time: the clock never reaches it.
const NONE: u64 = u64::MAX;

/// Times in the order of conversations, 8 bytes each; nothing as long as there is none.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    ns: Vec<u64>,
    len: usize,
}

impl Starts {
    /// Adds the next conversation.
    pub(crate) fn push(&mut self, start_ns: Option<u64>) {
        if let Some(start_ns) = start_ns {
            self.ns.resize(self.len, NONE);
            self.ns.push(start_ns);
        }
        self.len += 1;
    }

    /// When conversation `index` begins.
    pub(crate) fn get(&self, index: usize) -> Option<u64> {
        self.ns.get(index).copied().filter(|ns| *ns != NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_put_in_comes_out(times in prop::collection::vec(prop::option::of(0u64..50), 0..40)) {
            let mut starts = Starts::default();
            for time in &times {
                starts.push(*time);
            }
            let got: Vec<_> = (0..times.len()).map(|i| starts.get(i)).collect();
            prop_assert_eq!(got, times);
            prop_assert_eq!(starts.get(99), None);
        }
    }
}
