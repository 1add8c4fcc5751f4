//! The report a person reads: box tables, notes, the outcome line, the footer.
//!
//! Titles, columns, row labels and number forms are AIPerf's, so that scripts which read its console find their lines. Text that came from a
//! server loses its control characters before it gets here.

mod body;
mod notes;
mod paint;
mod table;

pub(crate) use body::count;
pub use body::render;

/// Width of `profile_export_console.txt`, columns.
pub const EXPORT_WIDTH: usize = 140;
