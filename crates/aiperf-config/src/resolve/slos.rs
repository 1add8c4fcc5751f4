//! What a request must keep to count as good.

use aiperf_core::plan::SloPlan;
use aiperf_core::text::{for_terminal, nearest};
use aiperf_metrics::{Flags, METRICS, MetricSpec, find};

use super::Resolver;
use crate::error::ConfigError;
use crate::options::Id;

impl Resolver<'_> {
    /// The objectives, in the order given.
    pub(super) fn slos(&mut self) -> Vec<SloPlan> {
        let mut slos = Vec::new();
        for (tag, threshold) in self.settings.objectives(Id::Goodput) {
            match find(tag).filter(|spec| spec.can_be_objective()) {
                Some(spec) => {
                    self.warn_of_absence(spec);
                    slos.push(SloPlan { tag: tag.clone(), threshold: *threshold });
                }
                None => self.no_objective(tag),
            }
        }
        slos
    }

    /// A metric of streams in a run without one is missing in each request, so none is good.
    fn warn_of_absence(&mut self, spec: &MetricSpec) {
        if spec.flags.has(Flags::STREAMING) && !self.streams() {
            self.notes.push(format!(
                "--goodput: {} is measured in streams alone, and without --streaming no request will be good",
                spec.tag
            ));
        }
    }

    fn no_objective(&mut self, tag: &str) {
        let Some(place) = self.place(Id::Goodput) else { return };
        let known: Vec<&str> = METRICS.iter().filter(|s| s.can_be_objective()).map(|s| s.tag).collect();
        let why = if find(tag).is_some() { ", which has no value of its own for each request" } else { "" };
        self.errors.push(ConfigError::BadValue {
            place,
            found: format!("'{}'{why}", for_terminal(tag, 200)),
            allowed: known.join(", "),
            nearest: nearest(tag, known.iter().copied()).map(str::to_owned),
        });
    }
}
