//! Faults: what goes wrong on purpose, for which requests, where in the answer.
//!
//! A fault is written `KIND:key=value:…`; several are separated by commas. `rate=`, `every=` or `at=` say for which requests
//! (without any: all). Faults of delivery (how bytes are cut into writes) join with one other fault; of the rest the first
//! that matches a request counts.

use aiperf_core::text::nearest;
use aiperf_rng::Key;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// An HTTP error status, 400 to 599, with a JSON error object; 429 and 503 say when to come back.
    Status(u16),
    /// The connection is reset (RST) before the answer, or after some chunks.
    Reset,
    /// The connection is closed before any byte of an answer.
    Close,
    /// Nothing more comes, and the connection stays open.
    Stall,
    /// The connection is closed inside the answer.
    Cut,
    /// The answer ends well-formed on the wire, without finish reason, usage and end marker.
    End,
    /// `event: error` with an error object inside a 200 stream; an error object as body otherwise.
    ErrorEvent,
    /// An error object as a plain data event inside a 200 stream (a response that failed, in `/v1/responses`); an error object as
    /// body otherwise.
    ErrorData,
    /// One event that is not JSON, then on as usual; a body that is not JSON otherwise.
    Malformed,
    /// Half an event, then the end.
    HalfEvent,
    /// No choices in any event or body; no output, no blocks.
    EmptyChoices,
    /// A role, a finish reason, no text.
    RoleOnly,
    /// A 200 page of HTML.
    Html,
    /// Bytes that are not HTTP.
    Garbage,
    /// Several events in one write.
    Join,
    /// Every event in two writes.
    Split,
    /// Every byte its own write.
    Bytes,
    /// Every byte its own write, and a pause between them.
    SlowLoris,
}

/// The words for kinds, beside the status numbers.
const KINDS: [(&str, FaultKind); 17] = [
    ("reset", FaultKind::Reset),
    ("close", FaultKind::Close),
    ("stall", FaultKind::Stall),
    ("cut", FaultKind::Cut),
    ("end", FaultKind::End),
    ("error-event", FaultKind::ErrorEvent),
    ("error-data", FaultKind::ErrorData),
    ("malformed", FaultKind::Malformed),
    ("half-event", FaultKind::HalfEvent),
    ("empty-choices", FaultKind::EmptyChoices),
    ("role-only", FaultKind::RoleOnly),
    ("html", FaultKind::Html),
    ("garbage", FaultKind::Garbage),
    ("join", FaultKind::Join),
    ("split", FaultKind::Split),
    ("bytes", FaultKind::Bytes),
    ("slow-loris", FaultKind::SlowLoris),
];

impl FaultKind {
    /// The word of the option and of the truth log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Status(_) => "status",
            other => KINDS.iter().find(|(_, k)| *k == other).map_or("status", |(name, _)| name),
        }
    }

    /// Whether it only changes how bytes are cut into writes.
    pub const fn is_delivery(self) -> bool {
        matches!(self, Self::Join | Self::Split | Self::Bytes | Self::SlowLoris)
    }
}

/// For which requests, by index from 0.
#[derive(Debug, Clone, PartialEq)]
pub enum When {
    /// Every one.
    Always,
    /// The n-th, the 2n-th …
    Every(u64),
    /// By a keyed draw with this probability.
    Rate(f64),
    /// These.
    At(Vec<u64>),
}

/// One fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// For which requests.
    pub when: When,
    /// After so many chunks with content.
    pub after: Option<u64>,
    /// Delivery: events in a write (`join`), byte of the event where it is cut (`split`).
    pub size: Option<u64>,
    /// Delivery: pause between the pieces.
    pub gap_ns: u64,
    /// Seconds told in `Retry-After`.
    pub retry_after_s: u64,
}

/// Pause of `slow-loris` when none is given.
const LORIS_GAP_NS: u64 = 1_000_000;
/// Pause of `split` when none is given: long enough for a reader to see both parts.
const SPLIT_GAP_NS: u64 = 2_000_000;

impl Fault {
    /// Parses one fault; `Err` holds the nearest kind when the kind is a slip of the hand.
    pub fn parse(text: &str) -> Result<Self, Option<String>> {
        let mut parts = text.split(':');
        let kind = parse_kind(parts.next().unwrap_or_default().trim())?;
        let gap_ns = match kind {
            FaultKind::SlowLoris => LORIS_GAP_NS,
            FaultKind::Split => SPLIT_GAP_NS,
            _ => 0,
        };
        let mut fault = Self { kind, when: When::Always, after: None, size: None, gap_ns, retry_after_s: 1 };
        for part in parts {
            let (key, value) = part.split_once('=').ok_or(None)?;
            let value = value.trim();
            match key.trim() {
                "rate" => {
                    let rate: f64 = value.parse().map_err(|_| None)?;
                    if !(0.0..=1.0).contains(&rate) {
                        return Err(None);
                    }
                    fault.when = When::Rate(rate);
                }
                "every" => fault.when = When::Every(value.parse().ok().filter(|n| *n > 0).ok_or(None)?),
                "at" => {
                    // A query string may turn the plus into a space.
                    let list: Result<Vec<u64>, _> = value.split(['+', ' ']).map(str::parse).collect();
                    fault.when = When::At(list.map_err(|_| None)?);
                }
                "after" => fault.after = Some(value.parse().map_err(|_| None)?),
                "size" => fault.size = Some(value.parse().ok().filter(|n| *n > 0).ok_or(None)?),
                "gap" => fault.gap_ns = crate::option::parse_ms(value).ok_or(None)?,
                "retry" => fault.retry_after_s = value.parse().map_err(|_| None)?,
                other => {
                    let keys = ["rate", "every", "at", "after", "size", "gap", "retry"];
                    return Err(nearest(other, keys).map(|k| format!("{k}=")));
                }
            }
        }
        Ok(fault)
    }

    /// Parses a comma-separated list.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, Option<String>> {
        text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(Self::parse).collect()
    }

    fn hits(&self, seed: u64, place: u64, index: u64) -> bool {
        match &self.when {
            When::Always => true,
            When::Every(n) => (index + 1).is_multiple_of(*n),
            When::At(list) => list.contains(&index),
            When::Rate(rate) => Key::new(seed).purpose("sim.fault").lane(place).at(index).unit() < *rate,
        }
    }
}

fn parse_kind(word: &str) -> Result<FaultKind, Option<String>> {
    if let Some((_, kind)) = KINDS.iter().find(|(name, _)| *name == word) {
        return Ok(*kind);
    }
    match word.parse::<u16>() {
        Ok(status @ 400..=599) => Ok(FaultKind::Status(status)),
        _ => Err(nearest(word, KINDS.iter().map(|(name, _)| *name)).map(str::to_owned)),
    }
}

/// What was chosen for one request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chosen {
    /// The fault of content or connection.
    pub main: Option<Fault>,
    /// The fault of delivery.
    pub delivery: Option<Fault>,
}

/// The faults of request `index`: a function of the list, the seed and the index.
pub fn choose(faults: &[Fault], seed: u64, index: u64) -> Chosen {
    let mut chosen = Chosen::default();
    for (place, fault) in faults.iter().enumerate() {
        let slot = if fault.kind.is_delivery() { &mut chosen.delivery } else { &mut chosen.main };
        if slot.is_none() && fault.hits(seed, place as u64, index) {
            *slot = Some(fault.clone());
        }
    }
    chosen
}
