//! Moments at which a ramp that goes in steps takes them.

use aiperf_rng::Stream;

/// `count` moments drawn evenly from `duration_ns`, in order: given their number, the arrivals of a Poisson process lie so.
pub(crate) fn times(stream: Stream, count: usize, duration_ns: u64) -> Vec<u64> {
    let mut times: Vec<u64> = (0..count as u64).map(|i| stream.at(i).below(duration_ns)).collect();
    times.sort_unstable();
    times
}
