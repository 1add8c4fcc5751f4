//! `raw_payload`: request bodies as they are to be sent. A JSONL file is a conversation of one turn for each row; a folder is a
//! conversation for each of its JSONL files, whose rows are its turns.
//!
//! As with the other files, one streaming pass checks every row and keeps its place, and a row is read again when it is sent.

use std::collections::BTreeMap;

use aiperf_core::conversation::{ContextMode, Conversation, Turn};
use aiperf_core::plan::{EndpointKind, FilePlan, Plan};
use aiperf_core::text::for_terminal;
use serde_json::Value;
use serde_json::value::RawValue;

use super::folder::{Folder, Which, empty_note};
use super::index::{MOST_TURNS, Rows};
use super::lines;
use super::row::{Placed, broken, shown};
use super::source::{Source, Stamp};
use super::told::{self, BadRows, LongPause};
use crate::error::{DataError, RowProblem};
use crate::models::Models;
use crate::workload::{RowFacts, Visit, Workload, WorkloadFacts, WorkloadKind};

/// Fields that limit the answer, in the order in which AIPerf looks for them.
const LIMITS: [&str; 4] = ["max_completion_tokens", "max_tokens", "max_output_tokens", "max_new_tokens"];

/// Bodies of checked files.
#[derive(Debug)]
pub(crate) struct RawPayloads {
    source: Source,
    /// Each file is one conversation.
    is_folder: bool,
    len: usize,
    models: Models,
    notes: Vec<String>,
    facts: RowFacts,
}

/// What is looked at in a body.
pub(super) struct Body {
    pub(super) streams: bool,
    pub(super) limit: Option<u64>,
}

impl Body {
    /// Checks a row; `field` is the list that the API cannot do without.
    pub(super) fn parse(row: &[u8], field: Option<&'static str>) -> Result<Self, Placed> {
        let text = std::str::from_utf8(row).map_err(|e| (Some(e.valid_up_to() + 1), RowProblem::NotUtf8))?;
        if !text.starts_with('{') {
            let value: Value = serde_json::from_str(text).map_err(|e| broken(&e))?;
            return Err((None, RowProblem::NotAnObject { found: shown(&value) }));
        }
        let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).map_err(|e| broken(&e))?;
        if let Some(field) = field {
            let found = fields.get(field).map(|raw| raw.get());
            if !found.is_some_and(|raw| raw.starts_with('[')) {
                let found = found.map_or_else(|| "absent".to_owned(), |raw| for_terminal(raw, 40));
                return Err((None, RowProblem::Field { field, wanted: "a list", found }));
            }
        }
        let limit = LIMITS.iter().find_map(|name| fields.get(*name)?.get().parse().ok().filter(|n| *n > 0));
        Ok(Self { streams: fields.get("stream").is_some_and(|raw| raw.get() == "true"), limit })
    }
}

/// The list that bodies of this API have; AIPerf asks all of them for `messages`.
pub(super) const fn needed(kind: EndpointKind) -> Option<&'static str> {
    if kind.has_messages() && !matches!(kind, EndpointKind::Responses) { kind.messages_field() } else { None }
}

impl RawPayloads {
    /// Checks and indexes the file, or the files of the folder.
    pub(crate) fn open(plan: &Plan, set: &FilePlan) -> Result<Self, DataError> {
        if set.entries == Some(0) {
            return Err(DataError::NoEntries);
        }
        let is_folder = set.path.is_dir();
        let (paths, passed) = if is_folder {
            let found = Folder::open(&set.path, Which::Jsonl)?;
            (found.paths, found.note)
        } else {
            (vec![set.path.clone()], None)
        };
        let field = needed(plan.endpoint.kind);
        let mut source = Source::default();
        let (mut streams, mut empty) = (Streams::default(), Vec::new());
        let (mut bad, mut facts) = (BadRows::new(set.bad_rows), RowFacts::default());
        for path in paths {
            let input = aiperf_files::open(&path)?;
            let (path, stamp) = (input.name.clone(), Stamp::of(&input));
            let mut rows = Rows::default();
            lines::each(&input, |line| {
                facts.read += 1;
                let body = match Body::parse(line.row(), field) {
                    Ok(body) => body,
                    Err(placed) => return bad.push(line.error(&path, placed)),
                };
                streams.note(body.streams, || format!("{}:{}", path.display(), line.number));
                rows.push(line.number, line.start, line.end);
                if is_folder && rows.len() > MOST_TURNS {
                    let session = path.display().to_string();
                    let placed = (None, RowProblem::TooManyTurns { session, max: MOST_TURNS });
                    return Err(line.error(&path, placed));
                }
                Ok(())
            })?;
            // An empty file of a folder is no conversation, as in AIPerf.
            if rows.len() > 0 {
                let stays_open = !is_folder || input.is_spooled;
                source.push(path, stays_open.then_some(input.file), stamp, rows);
            } else if is_folder {
                empty.push(path);
            }
        }
        bad.enter(&mut facts);
        if source.len() == 0 {
            return Err(bad.nothing_left(&set.path, facts.read));
        }
        let mut notes = told::notes(&facts, LongPause::default(), &set.path);
        notes.extend(passed);
        notes.extend(empty_note(&set.path, &empty));
        notes.extend(streams.note_for(plan.endpoint.streaming));
        let all = if is_folder { source.files() } else { source.len() };
        Ok(Self {
            len: set.entries.map_or(all, |most| most.min(all)),
            source,
            is_folder,
            models: Models::new(plan)?,
            notes,
            facts,
        })
    }

    /// The same, with something to be told before the rest.
    #[must_use]
    pub(crate) fn told(mut self, notes: Vec<String>) -> Self {
        self.notes.splice(..0, notes);
        self
    }

    fn turn(&self, row: usize) -> Result<Turn, DataError> {
        let payload = self.source.bytes(row)?;
        // What was good when it was opened may have been changed since.
        let body = Body::parse(&payload, None).map_err(|placed| self.source.error(row, placed))?;
        Ok(Turn {
            model: self.models.of_turn(row as u64).to_owned(),
            max_tokens: body.limit,
            payload: Some(payload),
            ..Turn::default()
        })
    }

    fn rows_of(&self, index: usize) -> usize {
        if self.is_folder { self.source.file(index).1 } else { 1 }
    }
}

/// Which bodies ask for a stream.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Where the first is that does, and the first that does not.
    asks: Option<String>,
    silent: Option<String>,
}

impl Streams {
    pub(super) fn note(&mut self, streams: bool, place: impl FnOnce() -> String) {
        let first = if streams { &mut self.asks } else { &mut self.silent };
        first.get_or_insert_with(place);
    }

    /// What does not go together with `--streaming`.
    pub(super) fn note_for(&self, streaming: bool) -> Option<String> {
        if streaming {
            self.silent.as_ref().map(|place| {
                format!("{place}: the body does not ask for a stream, and bodies are sent as they are: unless the server streams \
                     anyway, its answer comes as a whole in spite of --streaming")
            })
        } else {
            self.asks.as_ref().map(|place| {
                format!("{place}: the body asks for a stream; the times of its tokens are measured with --streaming alone")
            })
        }
    }
}

impl Workload for RawPayloads {
    fn len(&self) -> usize {
        self.len
    }

    fn conversation(&self, index: usize, _: Visit) -> Result<Conversation, DataError> {
        if index >= self.len {
            return Err(DataError::OutOfRange { index, len: self.len });
        }
        let first = if self.is_folder { self.source.file(index).0 } else { index };
        let rows = first..first + self.rows_of(index);
        let turns = rows.map(|row| self.turn(row)).collect::<Result<_, _>>()?;
        Ok(Conversation {
            id: format!("session_{index:06}"),
            context: ContextMode::SelfContained,
            system: None,
            user_context: None,
            turns,
            marker: None,
        })
    }

    fn turn_count(&self, index: usize) -> usize {
        self.rows_of(index)
    }

    fn place(&self, index: usize) -> Option<String> {
        Some(self.source.place(if self.is_folder { self.source.file(index).0 } else { index }))
    }

    fn changed(&self) -> Option<String> {
        self.source.changed()
    }

    fn describe(&self) -> WorkloadFacts {
        let turns = (0..self.len).map(|index| self.rows_of(index));
        WorkloadFacts {
            kind: WorkloadKind::RawPayload,
            entries: self.len,
            turns: turns.clone().sum::<usize>() as u64,
            most_turns: turns.max().unwrap_or(0),
            waits: false,
            notes: self.notes.clone(),
            rows: Some(self.facts.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use aiperf_core::plan::{DatasetPlan, FileFormat};
    use proptest::prelude::*;

    use super::*;
    use crate::toys::{self, context, plan};

    fn open(path: &Path, kind: EndpointKind, streaming: bool) -> Result<Arc<dyn Workload>, DataError> {
        most(path, kind, streaming, None)
    }

    fn most(
        path: &Path,
        kind: EndpointKind,
        streaming: bool,
        entries: Option<usize>,
    ) -> Result<Arc<dyn Workload>, DataError> {
        let set = FilePlan { entries, ..toys::file(path, FileFormat::RawPayload) };
        let mut plan = plan(DatasetPlan::File(set), kind);
        plan.endpoint.streaming = streaming;
        crate::open(&plan, None, context())
    }

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("written");
        }
        folder
    }

    fn bodies(workload: &dyn Workload) -> Vec<Vec<String>> {
        (0..workload.len())
            .map(|i| {
                let conversation = workload.conversation(i, Visit::default()).expect("a checked row");
                assert_eq!(
                    (conversation.context, workload.turn_count(i)),
                    (ContextMode::SelfContained, conversation.turns.len())
                );
                let body =
                    |turn: &Turn| String::from_utf8(turn.payload.clone().expect("a body")).expect("UTF-8");
                conversation.turns.iter().map(body).collect()
            })
            .collect()
    }

    #[test]
    fn a_packed_file_of_a_folder_is_not_passed_over_and_none_is_read_twice() {
        let both = folder(&[("a.jsonl", "{}"), ("a.jsonl.gz", "")]);
        let said = open(both.path(), EndpointKind::Completions, false).map(|w| w.len());
        let said = said.expect_err("one of the two is too much").to_string();
        assert!(said.contains("a.jsonl: is there packed too, as "), "{said}");
        // Of two files one that is no gzip data at all is not passed over.
        let other = folder(&[("a.jsonl", "{}"), ("b.jsonl.gz", "{}")]);
        let said = open(other.path(), EndpointKind::Completions, false).map(|w| w.len());
        assert!(said.expect_err("it is not packed").to_string().contains("b.jsonl.gz: its name ends like"));
    }

    #[test]
    fn each_row_of_a_file_is_a_conversation_as_it_stands() {
        let text = "\u{feff} { \"q\" : \"東\", \"max_tokens\":9 } \r\n\n{\"messages\":[],\"max_completion_tokens\":7,\"max_tokens\":8}\n{}";
        let folder = folder(&[("a.jsonl", text)]);
        let path = folder.path().join("a.jsonl");
        let workload = open(&path, EndpointKind::Raw, false).expect("a good file");
        assert_eq!(
            bodies(&*workload),
            [
                ["{ \"q\" : \"東\", \"max_tokens\":9 }"],
                ["{\"messages\":[],\"max_completion_tokens\":7,\"max_tokens\":8}"],
                ["{}"]
            ]
        );
        let turns: Vec<Turn> = (0..3)
            .map(|i| workload.conversation(i, Visit::default()).expect("a checked row").turns.remove(0))
            .collect();
        assert_eq!(turns.iter().map(|t| t.max_tokens).collect::<Vec<_>>(), [Some(9), Some(7), None]);
        assert_eq!(turns.iter().map(|t| t.model.as_str()).collect::<Vec<_>>(), ["a", "b", "a"]);
        let facts = workload.describe();
        assert_eq!(
            (facts.kind, facts.entries, facts.turns, facts.most_turns),
            (WorkloadKind::RawPayload, 3, 3, 1)
        );
        assert_eq!(workload.conversation(1, Visit::default()).expect("a checked row").id, "session_000001");
        assert!(matches!(workload.conversation(3, Visit::default()), Err(DataError::OutOfRange { .. })));
        assert_eq!(bodies(&*most(&path, EndpointKind::Raw, false, Some(2)).expect("a good file")).len(), 2);
        assert!(matches!(most(&path, EndpointKind::Raw, false, Some(0)), Err(DataError::NoEntries)));
    }

    #[test]
    fn each_file_of_a_folder_is_a_conversation() {
        let folder = folder(&[
            ("b.jsonl", "{\"n\":3}\n"),
            ("a.jsonl", "{\"n\":1}\n\n{\"n\":2}"),
            ("c.jsonl", "\n"),
            ("d.txt", "no"),
        ]);
        let workload = open(folder.path(), EndpointKind::Raw, false).expect("a good folder");
        assert_eq!(bodies(&*workload), [vec!["{\"n\":1}", "{\"n\":2}"], vec!["{\"n\":3}"]]);
        let facts = workload.describe();
        assert_eq!((facts.entries, facts.turns, facts.most_turns), (2, 3, 2));
        let models: Vec<String> = (0..2)
            .flat_map(|i| workload.conversation(i, Visit::default()).expect("a checked row").turns)
            .map(|turn| turn.model)
            .collect();
        assert_eq!(models, ["a", "b", "a"], "they go around over turns");
    }

    #[test]
    fn bad_rows_are_told_by_file_and_line() {
        let refusal = |text: &str, kind| {
            let folder = folder(&[("a.jsonl", text)]);
            let message =
                open(folder.path(), kind, false).map(|w| w.len()).expect_err("a bad file").to_string();
            let name = folder.path().display().to_string();
            message
                .strip_prefix(&name)
                .expect("begins with the path")
                .trim_start_matches("/a.jsonl")
                .to_owned()
        };
        let raw = EndpointKind::Raw;
        assert_eq!(refusal("{}\n [1]", raw), ":2: a row must be a JSON object, not [1]");
        assert_eq!(
            refusal("{}\n\n  {\"a\":", raw),
            ":3:7: the row ends in the middle of its JSON; is the file cut off?"
        );
        assert_eq!(refusal("{} x", raw), ":1:4: not valid JSON: trailing characters");
        assert_eq!(refusal("\n", raw), ": holds no rows");
        let chat = EndpointKind::Chat;
        assert_eq!(
            refusal("{\"messages\":[]}\n{\"prompt\":\"x\"}", chat),
            ":2: 'messages' must be a list, not absent"
        );
        assert_eq!(refusal("{\"messages\":{\"a\":1}}", chat), ":1: 'messages' must be a list, not {\"a\":1}");
        let ok = folder(&[("a.jsonl", "{\"prompt\":\"x\"}")]);
        assert!(open(ok.path(), EndpointKind::Completions, false).is_ok());
        assert!(
            open(&ok.path().join("b.jsonl"), raw, false)
                .expect_err("missing")
                .to_string()
                .contains("No such file")
        );
    }

    #[test]
    fn bad_rows_are_left_out_where_that_is_wanted() {
        let folder = folder(&[("a.jsonl", "{\"n\":1}\nno\n{\"n\":2}\n[1]\n\n{\"n\":3}")]);
        let path = folder.path().join("a.jsonl");
        let set = FilePlan {
            bad_rows: aiperf_core::plan::BadRows::Skip,
            ..toys::file(&path, FileFormat::RawPayload)
        };
        let open = |set| crate::open(&plan(DatasetPlan::File(set), EndpointKind::Raw), None, context());
        let workload = open(set.clone()).expect("some rows are good");
        assert_eq!(bodies(&*workload), [["{\"n\":1}"], ["{\"n\":2}"], ["{\"n\":3}"]]);
        let facts = workload.describe();
        let rows = facts.rows.expect("it is a file");
        assert_eq!((rows.read, rows.broken), (5, 2));
        assert!(rows.first_broken.expect("the first").contains("a.jsonl:2:"), "{:?}", facts.notes);
        std::fs::write(&path, "no\n[1]\n").expect("written");
        let message = open(set).expect_err("no row is good").to_string();
        assert!(message.contains("none of its 2 rows can be sent; the first: "), "{message}");
    }

    #[test]
    fn bodies_and_streaming_that_do_not_go_together_are_told_of() {
        let folder = folder(&[("a.jsonl", "{\"stream\":true}\n{\"stream\":false}")]);
        let notes = |streaming| {
            open(folder.path(), EndpointKind::Raw, streaming).expect("a good folder").describe().notes
        };
        assert!(
            notes(true)[0].contains("a.jsonl:2: the body does not ask for a stream"),
            "{:?}",
            notes(true)
        );
        assert!(notes(false)[0].contains("a.jsonl:1: the body asks for a stream"), "{:?}", notes(false));
    }

    proptest! {
        #[test]
        fn no_row_is_too_strange(bytes in prop::collection::vec(any::<u8>(), 1..60)) {
            let row = bytes.trim_ascii();
            if let Ok(body) = Body::parse(row, None) {
                let value: Value = serde_json::from_slice(row).expect("what is taken is JSON");
                prop_assert!(value.is_object());
                prop_assert_eq!(body.streams, value["stream"] == true);
            }
        }
    }
}
