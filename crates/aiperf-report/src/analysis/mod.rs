//! How far results may be off, the steady part of a run, results by group: in words and keys. The numbers and the rules are of
//! `aiperf-metrics`.

mod keys;
mod words;

pub(crate) use keys::{
    breakdown, breakdown_schema, interval_schema, steady_state, steady_state_schema, uncertainty,
    uncertainty_schema,
};
pub(crate) use words::{GroupTable, INTERVALS, footnote, group_tables, has_few, interval_rows, steady_line};
