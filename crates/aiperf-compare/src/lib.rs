//! Results of several runs side by side. Nothing here opens a file or prints.
//!
//! A [`Run`] is a summary JSON of ours or of AIPerf 1.4, and, where there are records, [`Samples`] read off them line by line in bounded
//! memory. [`Comparison::of`] says first whether the runs may be compared ([`Finding`]), then how each statistic differs from that of the
//! baseline, with an interval where the records give one. All of it is a function of its input: no draw is made.
//!
//! Intervals of a difference are made of one interval for each run (MOVER, Zou and Donner 2008):
//! - of a mean by batch means (32 to 64 batches in order of arrival, so that neighbours that resemble each other are not taken for independent),
//! - of a percentile by order statistics, with as many values as the batches say are independent,
//! - of a rate by the counts in 32 to 64 equal parts of its time,
//! - of a share by Wilson's score interval.

mod comparison;
mod data;
mod findings;
mod interval;
mod page;
mod records;
mod run;
mod sketch;
#[cfg(test)]
mod toys;

pub use comparison::{Comparison, Difference, Direction, Line, Verdict};
pub use findings::{Finding, Severity};
pub use interval::Interval;
pub use records::{RecordsProblem, Samples};
pub use run::{Metric, NotASummary, Run};
