//! The streaming pass over a document: it checks every session and keeps where bodies and names begin.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};

use aiperf_core::text::for_terminal;
use aiperf_files::Input;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::super::index::MOST_TURNS;
use super::super::raw_payload::{Body, Streams};
use super::super::row::broken;
use super::Session;
use crate::error::{DataError, RowProblem};

const BUFFER: usize = 1 << 16;
/// Most unknown keys that are told.
const MOST_NAMED: usize = 8;

/// Reads, and counts what was read: the JSON reader takes one byte after the other.
pub(super) struct Counted<'a> {
    reader: BufReader<&'a File>,
    at: &'a Cell<u64>,
}

impl<'a> Counted<'a> {
    /// From where the text of `input` begins.
    pub(super) fn new(input: &'a Input, at: &'a Cell<u64>) -> io::Result<Self> {
        at.set(input.to_text()?);
        Ok(Self { reader: BufReader::with_capacity(BUFFER, &input.file), at })
    }
}

impl Read for Counted<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(into)?;
        self.at.set(self.at.get() + read as u64);
        Ok(read)
    }
}

/// What the pass over a document keeps.
pub(super) struct Index<'a> {
    at: &'a Cell<u64>,
    field: Option<&'static str>,
    pub(super) bodies: Vec<u64>,
    pub(super) sessions: Vec<Session>,
    pub(super) streams: Streams,
    pub(super) unknown: Vec<String>,
    /// There are others.
    pub(super) more_unknown: bool,
    has_data: bool,
    /// What is wrong, and where.
    problem: Option<(String, RowProblem)>,
}

impl<'a> Index<'a> {
    pub(super) fn new(at: &'a Cell<u64>, field: Option<&'static str>) -> Self {
        let (bodies, sessions, unknown) = (Vec::new(), Vec::new(), Vec::new());
        let streams = Streams::default();
        Self {
            at,
            field,
            bodies,
            sessions,
            streams,
            unknown,
            more_unknown: false,
            has_data: false,
            problem: None,
        }
    }

    pub(super) fn document(&mut self, input: &'a Input) -> Result<(), DataError> {
        let read = |source| DataError::Read { path: input.name.clone(), source };
        let mut json = serde_json::Deserializer::from_reader(Counted::new(input, self.at).map_err(read)?);
        let done = Whole(self).deserialize(&mut json).and_then(|()| json.end());
        if let Some((place, problem)) = self.problem.take() {
            return Err(DataError::Entry { path: input.name.clone(), place, problem });
        }
        let Err(error) = done else {
            return if self.has_data { Ok(()) } else { Err(DataError::NoData { path: input.name.clone() }) };
        };
        if let Some(kind) = error.io_error_kind() {
            return Err(read(kind.into()));
        }
        let line = error.line() as u64;
        let (column, problem) = broken(&error);
        Err(DataError::Row { path: input.name.clone(), line, column, problem })
    }

    /// Ends the pass.
    fn stop<E: serde::de::Error>(&mut self, place: String, problem: RowProblem) -> E {
        self.problem = Some((place, problem));
        E::custom("")
    }

    fn note_unknown(&mut self, key: String) {
        if self.unknown.contains(&key) {
            return;
        }
        if self.unknown.len() < MOST_NAMED {
            self.unknown.push(key);
        } else {
            self.more_unknown = true;
        }
    }

    /// Where the value began that was read last: a text, a list or an object, whose last byte ends it.
    fn start_of(&self, raw: &RawValue) -> u64 {
        self.at.get() - raw.get().len() as u64
    }
}

/// The whole document.
struct Whole<'i, 'a>(&'i mut Index<'a>);
/// The list of sessions.
struct Sessions<'i, 'a>(&'i mut Index<'a>);
/// A session.
struct Entry<'i, 'a>(&'i mut Index<'a>);
/// The list of bodies of a session.
struct Payloads<'i, 'a>(&'i mut Index<'a>);

impl<'de> DeserializeSeed<'de> for Whole<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a list named 'data'")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "data" && !self.0.has_data {
                self.0.has_data = true;
                map.next_value_seed(Sessions(self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
                self.0.note_unknown(key);
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Sessions<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Sessions<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of sessions as 'data'")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Entry(self.0))?.is_some() {}
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Entry<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Entry<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with session_id and payloads as data[{}]", self.0.sessions.len())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(index) = self;
        let place = format!("data[{}]", index.sessions.len());
        let before = index.bodies.len();
        let (mut name, mut has_bodies) = (None, false);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "session_id" => {
                    let raw: Box<RawValue> = map.next_value()?;
                    if serde_json::from_str::<String>(raw.get()).is_err() {
                        let found = for_terminal(raw.get(), 40);
                        let problem = RowProblem::Field { field: "session_id", wanted: "a text", found };
                        return Err(index.stop(place, problem));
                    }
                    name = Some((index.start_of(&raw), u32::try_from(raw.get().len()).unwrap_or(u32::MAX)));
                }
                "payloads" if !has_bodies => {
                    has_bodies = true;
                    map.next_value_seed(Payloads(index))?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    index.note_unknown(key);
                }
            }
        }
        let missing = |field| RowProblem::Lacks { field, form: "inputs_json" };
        let Some((name, name_bytes)) = name else { return Err(index.stop(place, missing("session_id"))) };
        if !has_bodies {
            return Err(index.stop(place, missing("payloads")));
        }
        let turns = match u16::try_from(index.bodies.len() - before) {
            Ok(0) => {
                let (field, wanted) = ("payloads", "a list with a body in it");
                return Err(index.stop(place, RowProblem::Field { field, wanted, found: "[]".to_owned() }));
            }
            Ok(turns) => turns,
            Err(_) => {
                let problem = RowProblem::TooManyTurns { session: place.clone(), max: MOST_TURNS };
                return Err(index.stop(place, problem));
            }
        };
        index.sessions.push(Session { before: before as u64, name, name_bytes, turns });
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Payloads<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Payloads<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of bodies as data[{}].payloads", self.0.sessions.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self(index) = self;
        let session = index.sessions.len();
        let mut turn = 0;
        while let Some(raw) = list.next_element::<Box<RawValue>>()? {
            let place = || format!("data[{session}].payloads[{turn}]");
            match Body::parse(raw.get().as_bytes(), index.field) {
                Ok(body) => index.streams.note(body.streams, place),
                Err((_, problem)) => return Err(index.stop(place(), problem)),
            }
            index.bodies.push(index.start_of(&raw));
            turn += 1;
        }
        Ok(())
    }
}
