//! A piece of work that is measured.

use crate::material::Material;

/// Work that was prepared: does as many units as it is told.
pub(crate) type Work = Box<dyn FnMut(u64)>;

/// One case.
#[derive(Debug)]
pub(crate) struct Case {
    /// What users type.
    pub name: &'static str,
    /// What one unit is.
    pub unit: &'static str,
    /// The work in one line.
    pub about: &'static str,
    /// Units done for a CPU time.
    pub units: u64,
    /// Units done under valgrind, some fifty times slower; 0 where other threads take part, whose turns valgrind decides.
    pub counted: u64,
    /// Prepares it.
    pub make: fn(&Material) -> Work,
}
