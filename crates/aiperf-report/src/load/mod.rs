//! How honest the load was, in words and keys. The numbers and the rules are of `aiperf-metrics`.

mod keys;
mod targets;
mod words;

pub(crate) use keys::{Shapes, schema, value, without_nulls};
pub use targets::TargetResult;
pub(crate) use targets::{
    COLUMNS as TARGET_COLUMNS, csv as targets_csv, rows as targets_rows, schema as targets_schema,
    value as targets_value,
};
pub(crate) use words::{csv, rows, run_rows};
