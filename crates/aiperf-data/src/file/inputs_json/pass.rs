//! The streaming pass over a document: it checks every session and keeps where bodies and names begin.

use aiperf_core::text::for_terminal;
use aiperf_files::Input;

use super::super::index::MOST_TURNS;
use super::super::raw_payload::{Body, Streams};
use super::super::walk::Walk;
use super::Session;
use crate::error::{DataError, RowProblem};

/// Most unknown keys that are told.
const MOST_NAMED: usize = 8;

/// What the pass over a document keeps.
pub(super) struct Index<'a> {
    input: &'a Input,
    field: Option<&'static str>,
    /// Where each begins; one more at the end.
    pub(super) bodies: Vec<u64>,
    pub(super) sessions: Vec<Session>,
    pub(super) streams: Streams,
    pub(super) unknown: Vec<String>,
    /// There are others.
    pub(super) more_unknown: bool,
}

impl<'a> Index<'a> {
    /// Of the document; `field` is the list that bodies cannot do without.
    pub(super) fn of(input: &'a Input, field: Option<&'static str>) -> Result<Self, DataError> {
        let mut index = Self {
            input,
            field,
            bodies: Vec::new(),
            sessions: Vec::new(),
            streams: Streams::default(),
            unknown: Vec::new(),
            more_unknown: false,
        };
        let walk = &mut Walk::new(input)?;
        let mut has_data = false;
        if !walk.takes(b'{')? {
            return Err(walk.unexpected("an object with a list named 'data'"));
        }
        let mut is_first = true;
        while let Some(key) = walk.key(&mut is_first)? {
            if key == "data" && !has_data {
                has_data = true;
                index.data(walk)?;
            } else {
                walk.skip()?;
                index.note_unknown(key);
            }
        }
        walk.end()?;
        index.bodies.push(walk.offset());
        if has_data { Ok(index) } else { Err(DataError::NoData { path: input.name.clone() }) }
    }

    fn data(&mut self, walk: &mut Walk<'a>) -> Result<(), DataError> {
        if !walk.takes(b'[')? {
            return Err(walk.unexpected("a list of sessions as 'data'"));
        }
        let mut is_first = true;
        while walk.item(&mut is_first)? {
            self.session(walk)?;
        }
        Ok(())
    }

    fn session(&mut self, walk: &mut Walk<'a>) -> Result<(), DataError> {
        let at = self.sessions.len();
        if !walk.takes(b'{')? {
            return Err(walk.unexpected(&format!("an object with session_id and payloads as data[{at}]")));
        }
        let before = self.bodies.len();
        let (mut name, mut has_bodies, mut is_first) = (None, false, true);
        while let Some(key) = walk.key(&mut is_first)? {
            match key.as_str() {
                "session_id" => {
                    let raw = walk.value()?;
                    if serde_json::from_slice::<String>(raw.bytes).is_err() {
                        let found = for_terminal(&String::from_utf8_lossy(raw.bytes), 40);
                        return Err(self
                            .wrong(at, RowProblem::Field { field: "session_id", wanted: "a text", found }));
                    }
                    name = Some((raw.start, u32::try_from(raw.bytes.len()).unwrap_or(u32::MAX)));
                }
                "payloads" if !has_bodies => {
                    has_bodies = true;
                    self.payloads(walk, at)?;
                }
                _ => {
                    walk.skip()?;
                    self.note_unknown(key);
                }
            }
        }
        let missing = |field| RowProblem::Lacks { field, form: "inputs_json" };
        let Some((name, name_bytes)) = name else { return Err(self.wrong(at, missing("session_id"))) };
        if !has_bodies {
            return Err(self.wrong(at, missing("payloads")));
        }
        let turns = match u16::try_from(self.bodies.len() - before) {
            Ok(0) => {
                let (field, wanted) = ("payloads", "a list with a body in it");
                return Err(self.wrong(at, RowProblem::Field { field, wanted, found: "[]".to_owned() }));
            }
            Ok(turns) => turns,
            Err(_) => {
                let session = format!("data[{at}]");
                return Err(self.wrong(at, RowProblem::TooManyTurns { session, max: MOST_TURNS }));
            }
        };
        self.sessions.push(Session { before: before as u64, name, name_bytes, turns });
        Ok(())
    }

    fn payloads(&mut self, walk: &mut Walk<'a>, session: usize) -> Result<(), DataError> {
        if !walk.takes(b'[')? {
            return Err(walk.unexpected(&format!("a list of bodies as data[{session}].payloads")));
        }
        let (mut turn, mut is_first) = (0, true);
        while walk.item(&mut is_first)? {
            let raw = walk.value()?;
            let place = || format!("data[{session}].payloads[{turn}]");
            match Body::parse(raw.bytes, self.field) {
                Ok(body) => self.streams.note(body.streams, place),
                Err((_, problem)) => return Err(self.at_fault(place(), problem)),
            }
            self.bodies.push(raw.start);
            turn += 1;
        }
        Ok(())
    }

    fn wrong(&self, session: usize, problem: RowProblem) -> DataError {
        self.at_fault(format!("data[{session}]"), problem)
    }

    fn at_fault(&self, place: String, problem: RowProblem) -> DataError {
        DataError::Entry { path: self.input.name.clone(), place, problem }
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
}
