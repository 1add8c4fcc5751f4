//! `inputs_json`: one JSON document with the bodies of sessions, as a run writes it into `inputs.json`:
//! `{"data": [{"session_id": "…", "payloads": [{…}, …]}, …]}`. Each session is a conversation whose turns are its bodies, sent as they
//! are.
//!
//! One streaming pass when it is opened checks the document and keeps where each body and each name begins: 8 bytes a body and 24 a
//! session.

mod look;
mod pass;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use aiperf_core::conversation::{ContextMode, Conversation, Turn};
use aiperf_core::plan::{FilePlan, Plan};
use aiperf_core::text::for_terminal;
use aiperf_files::Input;
use serde_json::value::RawValue;

pub(super) use self::look::Shown;
use self::pass::Index;
use super::lines;
use super::raw_payload::{Body, needed};
use super::source::{self, Stamp};
use crate::error::{DataError, RowProblem};
use crate::models::Models;
use crate::workload::{Visit, Workload, WorkloadFacts, WorkloadKind};

/// Sessions of a checked document.
#[derive(Debug)]
pub(crate) struct InputsJson {
    path: PathBuf,
    file: Mutex<File>,
    stamp: Option<Stamp>,
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
        if lines::first(&input)?.is_none() {
            return Err(DataError::EmptyFile { path: input.name.clone() });
        }
        let stamp = Stamp::of(&input);
        let index = Index::of(&input, needed(plan.endpoint.kind))?;
        if index.sessions.is_empty() {
            return Err(DataError::EmptyFile { path: input.name.clone() });
        }
        let Index { bodies, sessions, streams, unknown, more_unknown, .. } = index;
        let mut notes: Vec<String> = streams.note_for(plan.endpoint.streaming).into_iter().collect();
        if !unknown.is_empty() {
            let names: Vec<String> =
                unknown.iter().map(|key| format!("'{}'", for_terminal(key, 40))).collect();
            let file = input.name.display();
            let more = if more_unknown { " and more" } else { "" };
            notes.push(format!(
                "{file}: keys that inputs_json does not have are ignored: {}{more}",
                names.join(", ")
            ));
        }
        let made = Self {
            path: input.name,
            file: Mutex::new(input.file),
            stamp,
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
        file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut read)).map_err(|source| {
            match source.kind() {
                ErrorKind::UnexpectedEof => self.at_fault("data".to_owned(), RowProblem::Changed),
                _ => DataError::Read { path: self.path.clone(), source },
            }
        })?;
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

    fn changed(&self) -> Option<String> {
        let now = self.file.lock().unwrap_or_else(PoisonError::into_inner).metadata();
        self.stamp.as_ref().filter(|stamp| stamp.is_not(now)).map(|_| source::told(&self.path))
    }

    fn describe(&self) -> WorkloadFacts {
        let turns = self.sessions[..self.len].iter().map(|session| session.turns);
        WorkloadFacts {
            kind: WorkloadKind::InputsJson,
            entries: self.len,
            turns: turns.clone().map(u64::from).sum(),
            most_turns: turns.max().map_or(0, usize::from),
            waits: false,
            notes: self.notes.clone(),
            rows: None,
        }
    }
}
