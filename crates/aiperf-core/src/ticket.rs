//! Names of one request: where it stands in the plan and under which ids it travels.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Length of an id's text: 32 digits and four dashes.
pub const UUID_LEN: usize = 36;

/// A 128-bit id shown as a version-4 UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Uuid(u128);

impl Uuid {
    /// A version-4 UUID from 128 random bits; version and variant bits are set here.
    pub const fn from_random(bits: u128) -> Self {
        let bits = bits & !(0xf << 76) | (0x4 << 76);
        Self(bits & !(0x3 << 62) | (0x2 << 62))
    }

    /// Its text, which is ASCII. By hand, for some are written for each request, and formatting its five numbers costs several times
    /// as much.
    pub fn text(&self) -> [u8; UUID_LEN] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'-'; UUID_LEN];
        let mut at = 0;
        for (i, byte) in self.0.to_be_bytes().into_iter().enumerate() {
            at += usize::from(matches!(i, 4 | 6 | 8 | 10));
            text[at] = DIGITS[usize::from(byte >> 4)];
            text[at + 1] = DIGITS[usize::from(byte & 15)];
            at += 2;
        }
        text
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.text()).unwrap_or_default())
    }
}

/// Names a session on the wire and in files; the same for all its turns.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionId {
    /// Random, so that no two sessions of any runs share it.
    Random(Uuid),
    /// The same in every run of the plan: a fixed schedule's conversation, or the number of a user. See [`SessionId::fixed`].
    Fixed(#[serde(serialize_with = "write_shared", deserialize_with = "read_shared")] Arc<str>),
}

fn write_shared<S: Serializer>(text: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

fn read_shared<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
    String::deserialize(from).map(Arc::from)
}

impl SessionId {
    /// One that is `text`. It travels in a header, which must not end before it does: control characters, be they a file's, are
    /// written as `%` and two hexadecimal digits.
    pub fn fixed(text: &str) -> Self {
        if !text.contains(|c: char| c.is_ascii_control()) {
            return Self::Fixed(text.into());
        }
        let mut safe = String::with_capacity(text.len() + 8);
        for c in text.chars() {
            if c.is_ascii_control() {
                // Writing to a String cannot fail.
                let _ = write!(safe, "%{:02X}", u32::from(c));
            } else {
                safe.push(c);
            }
        }
        Self::Fixed(safe.into())
    }

    /// Length of its text, bytes.
    pub fn text_len(&self) -> usize {
        match self {
            Self::Random(_) => UUID_LEN,
            Self::Fixed(text) => text.len(),
        }
    }
}

impl From<Uuid> for SessionId {
    fn from(id: Uuid) -> Self {
        Self::Random(id)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random(id) => id.fmt(f),
            Self::Fixed(text) => f.write_str(text),
        }
    }
}

/// One request of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Position of the server in the plan's list.
    pub target: u16,
    /// Travels as `X-Request-ID`.
    pub request_id: Uuid,
    /// Travels as the session header; the same for all turns of a session.
    pub correlation_id: SessionId,
    /// When the schedule wants it sent, monotonic; absent in closed loop, where a free place decides.
    pub scheduled_ns: Option<u64>,
    /// When it held its place under every limit and was handed to the transport, monotonic.
    pub dispatched_ns: u64,
    /// Turns of its session that are not sent because it failed.
    pub abandoned_turns: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_prints_version_and_variant() {
        let text = Uuid::from_random(u128::MAX).to_string();
        assert_eq!(text, "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(Uuid::from_random(0).to_string(), "00000000-0000-4000-8000-000000000000");
        let each_place = Uuid::from_random(0x0123_4567_89ab_0def_8123_4567_89ab_cdef);
        assert_eq!(each_place.to_string(), "01234567-89ab-4def-8123-456789abcdef");
    }

    #[test]
    fn an_id_of_a_file_cannot_end_its_header() {
        assert_eq!(SessionId::fixed("a b-\u{e9}%0A").to_string(), "a b-\u{e9}%0A");
        let id = SessionId::fixed("x\r\nX-Other: 1\0\u{7f}");
        assert_eq!(id.to_string(), "x%0D%0AX-Other: 1%00%7F");
        assert_eq!(id.text_len(), id.to_string().len());
    }
}
