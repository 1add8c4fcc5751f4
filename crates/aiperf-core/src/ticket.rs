//! Names of one request: where it stands in the plan and under which ids it travels.

use std::fmt;

/// A 128-bit id shown as a version-4 UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Uuid(u128);

impl Uuid {
    /// A version-4 UUID from 128 random bits; version and variant bits are set here.
    pub const fn from_random(bits: u128) -> Self {
        let bits = bits & !(0xf << 76) | (0x4 << 76);
        Self(bits & !(0x3 << 62) | (0x2 << 62))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v = self.0;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            (v >> 96) as u32,
            (v >> 80) as u16,
            (v >> 64) as u16,
            (v >> 48) as u16,
            v & 0xffff_ffff_ffff
        )
    }
}

/// One request of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Position of the phase in the plan's list.
    pub phase: u16,
    /// Position of the session in its phase: the arrival index in open loop, the start order in closed loop.
    pub session: u64,
    /// Position of the conversation in the workload.
    pub entry: usize,
    /// Position of the turn in its conversation.
    pub turn: u16,
    /// The shard that sends it.
    pub shard: u16,
    /// Travels as `X-Request-ID`.
    pub request_id: Uuid,
    /// Travels as the session header; the same for all turns of a session.
    pub correlation_id: Uuid,
    /// When the schedule wants it sent, monotonic; absent in closed loop, where a free place decides.
    pub scheduled_ns: Option<u64>,
    /// When it held its place under every limit and was handed to the transport, monotonic.
    pub dispatched_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_prints_version_and_variant() {
        let text = Uuid::from_random(u128::MAX).to_string();
        assert_eq!(text, "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(Uuid::from_random(0).to_string(), "00000000-0000-4000-8000-000000000000");
    }
}
