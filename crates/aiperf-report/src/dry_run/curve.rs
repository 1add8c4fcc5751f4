//! Arrivals over time in constant memory: when they go on for longer than there are bins, neighbours become one.

/// Most bins.
const BINS: usize = 128;
/// Width of the first bins, nanoseconds.
const NARROWEST_NS: u64 = 1_000_000;

/// Planned arrivals over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArrivalCurve {
    bins: Vec<u64>,
    width_ns: u64,
    requests: u64,
    last_ns: u64,
}

impl ArrivalCurve {
    /// An arrival so long after the start.
    pub fn add(&mut self, at_ns: u64) {
        self.width_ns = self.width_ns.max(NARROWEST_NS);
        while at_ns / self.width_ns >= BINS as u64 {
            self.bins = self.bins.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.width_ns = self.width_ns.saturating_mul(2);
        }
        let bin = (at_ns / self.width_ns) as usize;
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
        self.requests += 1;
        self.last_ns = self.last_ns.max(at_ns);
    }

    /// How many there are.
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// When the last one is, nanoseconds after the start.
    pub const fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// How long a bin is, nanoseconds; 0 without arrivals.
    pub const fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// How many are in each bin, from the start on.
    pub fn bins(&self) -> &[u64] {
        &self.bins
    }

    /// The same in no more than `most` (at least 1) bins.
    pub fn narrowed(&self, most: usize) -> Vec<u64> {
        let mut bins = self.bins.clone();
        while bins.len() > most.max(1) {
            bins = bins.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        bins
    }
}
