//! `inputs_json`: one JSON document with the bodies of sessions, as a run writes it into `inputs.json`:
//! `{"data": [{"session_id": "…", "payloads": [{…}, …]}, …]}`. Each session is a conversation whose turns are its bodies, sent as they
//! are.
//!
//! One streaming pass when it is opened checks the document and keeps where each body and each name begins: 8 bytes a body and 24 a
//! session.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use aiperf_core::conversation::{ContextMode, Conversation, Turn};
use aiperf_core::plan::{FilePlan, Plan};
use aiperf_core::text::for_terminal;
use aiperf_files::Input;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::index::MOST_TURNS;
use super::raw_payload::{Body, Streams, needed};
use crate::error::{DataError, RowProblem};
use crate::models::Models;
use crate::workload::{Visit, Workload, WorkloadFacts, WorkloadKind};

const BUFFER: usize = 1 << 16;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const MOST_NAMED: usize = 8;

/// Sessions of a checked document.
#[derive(Debug)]
pub(crate) struct InputsJson {
    path: PathBuf,
    file: Mutex<File>,
    /// Where bodies begin; one more at the end.
    bodies: Vec<u64>,
    sessions: Vec<Session>,
    len: usize,
    models: Models,
    notes: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct Session {
    /// Bodies of the sessions before it.
    before: u64,
    /// Where its name is.
    name: u64,
    name_bytes: u32,
    turns: u16,
}

impl InputsJson {
    /// Checks and indexes the document.
    pub(crate) fn open(plan: &Plan, set: &FilePlan, input: Input) -> Result<Self, DataError> {
        if set.entries == Some(0) {
            return Err(DataError::NoEntries);
        }
        let (path, file) = (&input.name, &input.file);
        let at = Cell::new(0);
        let mut index = Index::new(&at, needed(plan.endpoint.kind));
        index.document(path, file)?;
        if index.sessions.is_empty() {
            return Err(DataError::EmptyFile { path: path.clone() });
        }
        let Index { mut bodies, sessions, streams, unknown, .. } = index;
        bodies.push(at.get());
        let mut notes: Vec<String> = streams.note_for(plan.endpoint.streaming).into_iter().collect();
        if !unknown.is_empty() {
            let names: Vec<String> =
                unknown.iter().map(|key| format!("'{}'", for_terminal(key, 40))).collect();
            let file = path.display();
            notes.push(format!(
                "{file}: keys that inputs_json does not have are ignored: {}",
                names.join(", ")
            ));
        }
        let made = Self {
            path: input.name,
            file: Mutex::new(input.file),
            bodies,
            len: set.entries.map_or(sessions.len(), |most| most.min(sessions.len())),
            sessions,
            models: Models::new(plan)?,
            notes,
        };
        made.check_names()?;
        Ok(made)
    }

    /// The same, with something to be told before the rest.
    #[must_use]
    pub(crate) fn told(mut self, notes: Vec<String>) -> Self {
        self.notes.splice(..0, notes);
        self
    }

    /// Each session has a name of its own.
    fn check_names(&self) -> Result<(), DataError> {
        let mut digests = Vec::with_capacity(self.sessions.len());
        for at in 0..self.sessions.len() {
            let mut hasher = DefaultHasher::new();
            self.name(at)?.hash(&mut hasher);
            digests.push((hasher.finish(), at));
        }
        digests.sort_unstable();
        for same in digests.chunk_by(|one, other| one.0 == other.0).filter(|same| same.len() > 1) {
            for (i, (_, later)) in same.iter().enumerate() {
                let name = self.name(*later)?;
                for (_, earlier) in &same[..i] {
                    if self.name(*earlier)? == name {
                        let problem = RowProblem::SameName { name: for_terminal(&name, 40), first: *earlier };
                        return Err(self.at_fault(format!("data[{later}]"), problem));
                    }
                }
            }
        }
        Ok(())
    }

    fn at_fault(&self, place: String, problem: RowProblem) -> DataError {
        DataError::Entry { path: self.path.clone(), place, problem }
    }

    fn read(&self, start: u64, bytes: usize) -> Result<Vec<u8>, DataError> {
        let mut read = vec![0; bytes];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(start))
            .and_then(|_| file.read_exact(&mut read))
            .map_err(|source| DataError::Read { path: self.path.clone(), source })?;
        Ok(read)
    }

    fn name(&self, session: usize) -> Result<String, DataError> {
        let of = &self.sessions[session];
        let bytes = self.read(of.name, of.name_bytes as usize)?;
        serde_json::from_slice(&bytes)
            .map_err(|_| self.at_fault(format!("data[{session}].session_id"), RowProblem::Truncated))
    }

    fn turn(&self, session: usize, turn: usize) -> Result<Turn, DataError> {
        let number = self.sessions[session].before + turn as u64;
        let (start, end) = (self.bodies[number as usize], self.bodies[number as usize + 1]);
        let bytes = self.read(start, (end - start) as usize)?;
        // Behind it is what stands between it and the next one.
        let mut values = serde_json::Deserializer::from_slice(&bytes).into_iter::<&RawValue>();
        // What was good when it was opened may have been changed since.
        let fault = |problem| self.at_fault(format!("data[{session}].payloads[{turn}]"), problem);
        let Some(Ok(raw)) = values.next() else { return Err(fault(RowProblem::Truncated)) };
        let body = Body::parse(raw.get().as_bytes(), None).map_err(|(_, problem)| fault(problem))?;
        Ok(Turn {
            model: self.models.of_turn(number).to_owned(),
            max_tokens: body.limit,
            payload: Some(raw.get().as_bytes().to_vec()),
            ..Turn::default()
        })
    }
}

impl Workload for InputsJson {
    fn len(&self) -> usize {
        self.len
    }

    fn conversation(&self, index: usize, _: Visit) -> Result<Conversation, DataError> {
        if index >= self.len {
            return Err(DataError::OutOfRange { index, len: self.len });
        }
        Ok(Conversation {
            id: self.name(index)?,
            context: ContextMode::SelfContained,
            system: None,
            user_context: None,
            turns: (0..self.turn_count(index))
                .map(|turn| self.turn(index, turn))
                .collect::<Result<_, _>>()?,
            marker: None,
        })
    }

    fn turn_count(&self, index: usize) -> usize {
        usize::from(self.sessions[index].turns)
    }

    fn describe(&self) -> WorkloadFacts {
        let turns = self.sessions[..self.len].iter().map(|session| session.turns);
        WorkloadFacts {
            kind: WorkloadKind::InputsJson,
            entries: self.len,
            turns: turns.clone().map(u64::from).sum(),
            most_turns: turns.max().map_or(0, usize::from),
            notes: self.notes.clone(),
            rows: None,
        }
    }
}

/// Reads, and counts what was read: the JSON reader takes one byte after the other.
struct Counted<'a> {
    reader: BufReader<&'a File>,
    at: &'a Cell<u64>,
}

impl<'a> Counted<'a> {
    /// From the first byte of `file` behind a byte order mark.
    fn new(mut file: &'a File, at: &'a Cell<u64>) -> io::Result<Self> {
        file.rewind()?;
        let mut mark = [0; 3];
        let is_marked = file.read_exact(&mut mark).is_ok() && mark == BYTE_ORDER_MARK;
        at.set(if is_marked { mark.len() as u64 } else { 0 });
        file.seek(SeekFrom::Start(at.get()))?;
        Ok(Self { reader: BufReader::with_capacity(BUFFER, file), at })
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
struct Index<'a> {
    at: &'a Cell<u64>,
    field: Option<&'static str>,
    bodies: Vec<u64>,
    sessions: Vec<Session>,
    streams: Streams,
    unknown: Vec<String>,
    has_data: bool,
    /// What is wrong, and where.
    problem: Option<(String, RowProblem)>,
}

impl<'a> Index<'a> {
    fn new(at: &'a Cell<u64>, field: Option<&'static str>) -> Self {
        let (bodies, sessions, unknown) = (Vec::new(), Vec::new(), Vec::new());
        let streams = Streams::default();
        Self { at, field, bodies, sessions, streams, unknown, has_data: false, problem: None }
    }

    fn document(&mut self, path: &Path, file: &'a File) -> Result<(), DataError> {
        let read = |source| DataError::Read { path: path.to_owned(), source };
        let mut json = serde_json::Deserializer::from_reader(Counted::new(file, self.at).map_err(read)?);
        let done = Whole(self).deserialize(&mut json).and_then(|()| json.end());
        if let Some((place, problem)) = self.problem.take() {
            return Err(DataError::Entry { path: path.to_owned(), place, problem });
        }
        let Err(error) = done else {
            return if self.has_data { Ok(()) } else { Err(DataError::NoData { path: path.to_owned() }) };
        };
        let said = error.to_string();
        let reason = said.rsplit_once(" at line ").map_or(said.as_str(), |(reason, _)| reason);
        let problem = if error.is_eof() {
            RowProblem::Truncated
        } else {
            RowProblem::Json { reason: reason.to_owned() }
        };
        let (line, column) = (error.line() as u64, Some(error.column()));
        Err(DataError::Row { path: path.to_owned(), line, column, problem })
    }

    /// Ends the pass.
    fn stop<E: serde::de::Error>(&mut self, place: String, problem: RowProblem) -> E {
        self.problem = Some((place, problem));
        E::custom("")
    }

    fn note_unknown(&mut self, key: String) {
        if self.unknown.len() < MOST_NAMED && !self.unknown.contains(&key) {
            self.unknown.push(key);
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
                    if !raw.get().starts_with('"') {
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

/// What the first JSON object of a file shows, without reading the file into memory.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// Its first item of `data` has `payloads`.
    pub(super) is_inputs: bool,
    /// Its first keys.
    pub(super) keys: Vec<String>,
}

impl Shown {
    const MOST_KEYS: usize = 32;

    /// Of `input`.
    pub(super) fn by(input: &Input) -> Result<Self, DataError> {
        let read = |source| DataError::Read { path: input.name.clone(), source };
        let at = Cell::new(0);
        let mut json = serde_json::Deserializer::from_reader(Counted::new(&input.file, &at).map_err(read)?);
        let mut shown = Self::default();
        // What is no JSON is told by the reader of the form.
        let _ = Look(&mut shown, 0).deserialize(&mut json);
        Ok(shown)
    }
}

/// Looks into the document (0), the list `data` (1), or its first item (2).
struct Look<'i>(&'i mut Shown, u8);

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(shown, depth) = self;
        while let Some(key) = map.next_key::<String>()? {
            if depth == 0 && key == "data" {
                map.next_value_seed(Look(shown, 1))?;
            } else if depth == 2 && key == "payloads" {
                shown.is_inputs = true;
                return Err(A::Error::custom("seen enough"));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
            if depth == 0 && shown.keys.len() < Shown::MOST_KEYS {
                shown.keys.push(key);
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if self.1 == 1 {
            list.next_element_seed(Look(self.0, 2))?;
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;

    use aiperf_core::plan::{BadRows, CorpusPlan, DatasetPlan, EndpointKind, FileFormat, ReplayPlan};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::toys::{context, plan};

    fn open(text: &str, format: FileFormat, kind: EndpointKind) -> Result<Arc<dyn Workload>, String> {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(text.as_bytes()).expect("written");
        let set = FilePlan {
            path: file.path().to_owned(),
            format,
            osl: None,
            corpus: CorpusPlan::Sonnet,
            block: None,
            entries: None,
            ignore_timestamps: false,
            bad_rows: BadRows::Stop,
            replay: ReplayPlan::default(),
            columns: aiperf_core::plan::ColumnsPlan::default(),
        };
        let path = file.path().display().to_string();
        crate::open(&plan(DatasetPlan::File(set), kind), None, context())
            .map_err(|error| error.to_string().replace(&path, ""))
    }

    fn said(workload: &dyn Workload) -> Vec<(String, Vec<String>)> {
        let body = |turn: &Turn| String::from_utf8(turn.payload.clone().expect("a body")).expect("UTF-8");
        (0..workload.len())
            .map(|i| workload.conversation(i, Visit::default()).expect("a checked session"))
            .map(|c| (c.id, c.turns.iter().map(body).collect()))
            .collect()
    }

    #[test]
    fn sessions_are_conversations_of_their_bodies() {
        let text = "\u{feff} {\"version\" : 1.5, \"data\" :[ {\"session_id\":\"abc\",\"payloads\":[ {\"messages\":[{\"role\":\"user\"}]} ,\n \
                    {\"messages\": [\"東\"],\"max_tokens\":7}]},\n{\"payloads\":[{\"messages\":[]}], \"mood\":3,\"session_id\":\"d\\\"e\"}], \"z\":[]} \n";
        for format in [FileFormat::InputsJson, FileFormat::Detect] {
            let workload = open(text, format, EndpointKind::Chat).expect("a good document");
            let wanted = [
                (
                    "abc",
                    vec!["{\"messages\":[{\"role\":\"user\"}]}", "{\"messages\": [\"東\"],\"max_tokens\":7}"],
                ),
                ("d\"e", vec!["{\"messages\":[]}"]),
            ];
            let wanted =
                wanted.map(|(id, bodies)| (id.to_owned(), bodies.into_iter().map(str::to_owned).collect()));
            assert_eq!(said(&*workload), wanted);
            let facts = workload.describe();
            assert_eq!(
                (facts.kind, facts.entries, facts.turns, facts.most_turns),
                (WorkloadKind::InputsJson, 2, 3, 2)
            );
            let first = workload.conversation(0, Visit::default()).expect("a checked session");
            assert_eq!(first.turns.iter().map(|t| t.max_tokens).collect::<Vec<_>>(), [None, Some(7)]);
            assert!(facts.notes.iter().any(|note| note.ends_with("are ignored: 'version', 'mood', 'z'")));
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_its_place() {
        for (text, wanted) in [
            ("", ":1:0: the row ends in the middle of its JSON; is the file cut off?"),
            (
                "{}",
                ": has no list named 'data', which inputs_json has: {\"data\": [{\"session_id\": …, \"payloads\": [{…}]}]}",
            ),
            ("{\"data\":[]}", ": holds no rows"),
            (
                "{\"data\":[1]}",
                ":1:11: not valid JSON: invalid type: integer `1`, expected an object with session_id and payloads as data[0]",
            ),
            (
                "{\"data\":[{\"payloads\":[{\"messages\":[]}]}]}",
                ": data[0]: 'session_id' is missing, which every row of inputs_json has",
            ),
            (
                "{\"data\":[{\"session_id\":\"a\"}]}",
                ": data[0]: 'payloads' is missing, which every row of inputs_json has",
            ),
            (
                "{\"data\":[{\"session_id\":7,\"payloads\":[]}]}",
                ": data[0]: 'session_id' must be a text, not 7",
            ),
            (
                "{\"data\":[{\"session_id\":\"a\",\"payloads\":[]}]}",
                ": data[0]: 'payloads' must be a list with a body in it, not []",
            ),
            (
                "{\"data\":[{\"session_id\":\"a\",\"payloads\":[{\"messages\":[]},{}]}]}",
                ": data[0].payloads[1]: 'messages' must be a list, not absent",
            ),
            (
                "{\"data\":[{\"session_id\":\"a\",\"payloads\":[[]]}]}",
                ": data[0].payloads[0]: a row must be a JSON object, not []",
            ),
            (
                "{\"data\":[{\"session_id\":\"a\",\"payloads\":[{\"messages\":[]}]},{\"session_id\":\"\\u0061\",\"payloads\":[{\"messages\":[]}]}]}",
                ": data[1]: 'a' is the session_id of data[0] too; each session has one of its own",
            ),
            ("{\"data\":[]} x", ":1:13: not valid JSON: trailing characters"),
        ] {
            let error =
                open(text, FileFormat::InputsJson, EndpointKind::Chat).map(|w| w.len()).expect_err(text);
            assert_eq!(error, wanted, "{text}");
        }
        let ok = "{\"data\":[{\"session_id\":\"a\",\"payloads\":[{}]}]}";
        assert!(open(ok, FileFormat::InputsJson, EndpointKind::Completions).is_ok());
    }

    proptest! {
        /// Whatever stands around bodies: each comes back byte for byte.
        #[test]
        fn bodies_come_back(
            sessions in prop::collection::vec(prop::collection::vec(("[a-zä\"\\\\ ]{0,8}", any::<i32>()), 1..4), 1..5),
            is_pretty: bool,
            name_first: bool,
        ) {
            let body = |(text, n): &(String, i32)| json!({"messages": [{"content": text}], "n": n, "x": {"y": []}});
            let entry = |(i, bodies): (usize, &Vec<(String, i32)>)| {
                let payloads: Vec<Value> = bodies.iter().map(body).collect();
                let (id, more) = (format!("s \"{i}"), json!({"k": [1, "}"]}));
                if name_first {
                    json!({"session_id": id, "more": more, "payloads": payloads})
                } else {
                    json!({"more": 1.25, "payloads": payloads, "session_id": id})
                }
            };
            let all: Vec<Value> = sessions.iter().enumerate().map(entry).collect();
            let document = json!({"n": -3, "data": all, "end": null});
            let text = if is_pretty { format!("{document:#}") } else { document.to_string() };
            let workload = open(&text, FileFormat::InputsJson, EndpointKind::Chat).expect("a good document");
            for (i, (id, bodies)) in said(&*workload).into_iter().enumerate() {
                prop_assert_eq!(id, format!("s \"{i}"));
                for (body, given) in bodies.iter().zip(&sessions[i]) {
                    let read: Value = serde_json::from_str(body).expect("JSON");
                    prop_assert_eq!(read, json!({"messages": [{"content": given.0}], "n": given.1, "x": {"y": []}}));
                    prop_assert!(text.contains(body.as_str()));
                }
                prop_assert_eq!(bodies.len(), sessions[i].len());
            }
        }
    }
}
