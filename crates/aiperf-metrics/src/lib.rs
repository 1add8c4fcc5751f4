//! Records to columns to statistics: every formula, no printing.
