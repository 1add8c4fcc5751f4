//! Files of prompts: what they hold, and what is refused.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use aiperf_core::conversation::{ContextMode, Conversation, TextGroup, Turn};
use aiperf_core::plan::{CacheBustPlan, DatasetPlan, FileFormat, MarkerTarget};
use serde_json::json;
use tempfile::NamedTempFile;

use super::*;
use crate::WorkloadKind;
use crate::toys::{self, Cut, Toy, context, plan};
use crate::workload::{Visit, Workload};

fn file(bytes: impl AsRef<[u8]>) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes.as_ref()).expect("written");
    file
}

fn set(path: &Path) -> FilePlan {
    toys::file(path, FileFormat::SingleTurn)
}

fn open(set: FilePlan) -> Result<Arc<dyn Workload>, DataError> {
    crate::open(&plan(DatasetPlan::File(set), EndpointKind::Chat), None, context())
}

fn all(workload: &dyn Workload) -> Vec<Conversation> {
    (0..workload.len()).map(|i| workload.conversation(i, Visit::default()).expect("a checked row")).collect()
}

fn texts(conversations: &[Conversation]) -> Vec<Vec<&str>> {
    conversations.iter().map(|c| c.turns.iter().map(|t| t.texts[0].as_str()).collect()).collect()
}

/// The message of a file that is refused, without its path.
fn refusal(bytes: impl AsRef<[u8]>) -> String {
    let file = file(bytes);
    let message = open(set(file.path())).map(|w| w.len()).expect_err("a bad file").to_string();
    message.strip_prefix(&file.path().display().to_string()).expect("begins with the path").to_owned()
}

#[test]
fn rows_become_conversations_in_order() {
    let file = file(concat!(
        "\u{feff}{\"text\":\"naïve 東京\",\"output_length\":7}\r\n",
        "\n",
        "  {\"texts\":[\"a\",\"b\"],\"extra\":{\"top_k\":1}}  \n",
        " \t\r\n",
        "{\"text\":\"last\",\"role\":\"system\"}",
    ));
    let workload = open(set(file.path())).expect("a good file");
    let got = all(workload.as_ref());
    let ids: Vec<_> = got.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(ids, ["session_000000", "session_000001", "session_000002"]);
    assert_eq!(got[0].turns[0].texts, ["naïve 東京"]);
    assert_eq!((got[0].turns[0].max_tokens, got[1].turns[0].max_tokens), (Some(7), None));
    assert_eq!(got[1].turns[0].texts, ["a", "b"]);
    assert_eq!(got[1].turns[0].extra["top_k"], 1);
    assert_eq!(got[2].turns[0].role.as_deref(), Some("system"));
    assert_eq!(got.iter().map(|c| c.turns[0].model.as_str()).collect::<Vec<_>>(), ["a", "b", "a"]);
    assert!(got.iter().all(|c| c.turns[0].length.is_none()));
    let facts = workload.describe();
    assert_eq!(
        (facts.kind, facts.entries, facts.turns, facts.most_turns),
        (WorkloadKind::SingleTurn, 3, 3, 1)
    );
    assert!(facts.notes.is_empty());
    assert!(matches!(
        workload.conversation(3, Visit::default()),
        Err(DataError::OutOfRange { index: 3, len: 3 })
    ));
}

/// A file as it is opened for rankings.
fn ranked(bytes: &str) -> Result<(Vec<Conversation>, Vec<String>), String> {
    let file = file(bytes);
    let path = file.path().display().to_string();
    let plan = plan(DatasetPlan::File(set(file.path())), EndpointKind::CohereRankings);
    let workload = crate::open(&plan, None, context()).map_err(|e| e.to_string().replace(&path, ""))?;
    let notes = workload.describe().notes.iter().map(|note| note.replace(&path, "")).collect();
    Ok((all(&*workload), notes))
}

#[test]
fn named_texts_are_query_and_passages() {
    let (got, notes) = ranked(concat!(
        r#"{"texts":[{"name":"passages","contents":["p","r"]},{"name":"query","contents":["q"]}]}"#,
        "\n",
        r#"{"texts":[{"name":"queries","contents":["s"]},{"name":"passages","contents":["t"]}]}"#,
    ))
    .expect("good rows");
    let ranked = |i: usize| (got[i].turns[0].query(), got[i].turns[0].passages().collect::<Vec<_>>());
    assert_eq!([ranked(0), ranked(1)], [(Some("q"), vec!["p", "r"]), (Some("s"), vec!["t"])]);
    assert_eq!(notes, Vec::<String>::new());
}

#[test]
fn rows_without_a_query_are_refused_and_oddities_told_once() {
    let needs = "no text is named 'query', which cohere_rankings needs: {\"texts\": [{\"name\": \"query\", \"contents\": [\"…\"]}, \
                 {\"name\": \"passages\", \"contents\": [\"…\", \"…\"]}]}";
    for row in [
        r#"{"text":"a"}"#,
        r#"{"texts":["a"]}"#,
        r#"{"texts":[{"name":"passages","contents":["p"]}]}"#,
        r#"{"texts":[{"name":"query","contents":[]},{"name":"passages","contents":["p"]}]}"#,
    ] {
        let good = r#"{"texts":[{"name":"query","contents":["q"]}]}"#;
        let error = ranked(&format!("{good}\n{row}\n")).map(|r| r.1).expect_err(row);
        assert_eq!(error, format!(":2: {needs}"), "{row}");
    }
    let (_, notes) = ranked(concat!(
        r#"{"texts":[{"name":"query","contents":["q"]}]}"#,
        "\n",
        r#"{"texts":[{"name":"query","contents":["q","r"]},{"name":"a b","contents":["s"]}],"output_length":3}"#,
    ))
    .expect("oddities are no errors");
    assert_eq!(
        notes,
        [
            ": 2 rows (line 1 is the first) with a query and no text named 'passages': nothing is there to be ranked",
            ": the row in line 2 with several queries: the first is sent, the others are not",
            ": the row in line 2 with texts that are neither 'query' nor 'passages', such as 'a b', which are not sent",
            ": the row in line 2 with an output_length, which is not sent: cohere_rankings has no output limit",
        ]
    );
}

#[test]
fn rows_of_a_session_are_turns() {
    let file = file(concat!(
        "{\"text\":\"1\"}\n",
        "{\"text\":\"2\",\"session_id\":\"s\"}\n",
        "{\"text\":\"3\"}\n",
        "{\"text\":\"4\",\"session_id\":\"s\",\"delay\":250}\n",
        "{\"text\":\"5\",\"session_id\":\"t\"}\n",
    ));
    let workload = open(set(file.path())).expect("a good file");
    let got = all(workload.as_ref());
    assert_eq!(texts(&got), [vec!["1"], vec!["2", "4"], vec!["3"], vec!["5"]]);
    let ids: Vec<_> = got.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(ids, ["session_000000", "s", "session_000001", "t"]);
    assert_eq!(got[1].turns.iter().map(|t| t.delay_ns).collect::<Vec<_>>(), [None, Some(250_000_000)]);
    // Models go around over turns, not over conversations.
    let models: Vec<_> = got.iter().flat_map(|c| &c.turns).map(|t| t.model.as_str()).collect();
    assert_eq!(models, ["a", "b", "a", "b", "a"]);
    let facts = workload.describe();
    assert_eq!((facts.entries, facts.turns, facts.most_turns), (4, 5, 2));

    let two = open(FilePlan { entries: Some(2), ..set(file.path()) }).expect("a good file");
    assert_eq!(texts(&all(two.as_ref())), [vec!["1"], vec!["2", "4"]]);
}

#[test]
fn markers_are_on_the_texts_unless_fields_bring_a_system_text() {
    let file = file(concat!(
        "{\"text\":\"1\"}\n",
        "{\"text\":\"2\",\"extra\":{\"system\":\"brief\"}}\n",
        "{\"text\":\"3\",\"extra\":{\"system\":null}}\n",
        "{\"texts\":[\"4\",\"5\"],\"extra\":{\"instructions\":\"another API's\"}}\n",
    ));
    let marked = |target, laid_over: Value, system: Option<&str>| {
        let mut plan = plan(DatasetPlan::File(set(file.path())), EndpointKind::Messages);
        plan.cache_bust = Some(CacheBustPlan { target, run_id: Some("run".into()) });
        plan.system_prompt = system.map(str::to_owned);
        plan.endpoint.extra = laid_over.as_object().expect("an object").clone();
        let workload = crate::open(&plan, None, context()).expect("a good file");
        assert!(workload.replaces_messages());
        let got = all(workload.as_ref());
        for conversation in &got {
            let marker = conversation.marker.as_ref().expect("each has one");
            assert_eq!(marker.target, target);
            let system = conversation.system.iter();
            let texts = conversation.turns.iter().map(|turn| &turn.texts[0]).chain(system);
            assert!(texts.filter(|text| text.contains("[rid:")).all(|text| marker.is_on(text)));
        }
        let is_marked = |text: &str| text.contains("[rid:");
        let texts: Vec<bool> = got.iter().map(|c| is_marked(&c.turns[0].texts[0])).collect();
        let systems = got.iter().filter_map(|c| c.system.as_deref()).filter(|text| is_marked(text)).count();
        (texts, systems)
    };
    let (on_system, on_turn) = (MarkerTarget::SystemSuffix, MarkerTarget::FirstTurnSuffix);
    assert_eq!(marked(on_turn, json!({"system": "s"}), None), (vec![true; 4], 0));
    assert_eq!(marked(on_system, json!({}), None), (vec![true, false, true, true], 0));
    // A row's field is above the run's.
    assert_eq!(marked(on_system, json!({"system": "s"}), None), (vec![false, false, true, false], 0));
    assert_eq!(marked(on_system, json!({}), Some("s")), (vec![false; 4], 4));
}

#[test]
fn rows_without_messages_of_their_own_replace_none() {
    let file = file("{\"text\":\"1\",\"extra\":{\"input\":\"another API's\",\"top_k\":1}}");
    assert!(!open(set(file.path())).expect("a good file").replaces_messages());
}

#[test]
fn a_missing_output_length_is_the_plans() {
    let file = file("{\"text\":\"1\",\"output_length\":9}\n{\"text\":\"2\"}\n{\"text\":\"3\"}\n");
    let osl = Some(LengthPlan::normal(64.0, 0.0));
    let workload = open(FilePlan { osl, entries: Some(2), ..set(file.path()) }).expect("a good file");
    let got: Vec<_> = all(workload.as_ref()).iter().map(|c| c.turns[0].max_tokens).collect();
    assert_eq!(got, [Some(9), Some(64)]);
}

#[test]
fn timestamps_are_a_schedule_unless_they_are_to_be_ignored() {
    let file = file(concat!(
        "{\"text\":\"1\",\"timestamp\":0}\n",
        "{\"text\":\"2\",\"timestamp\":250.5,\"session_id\":\"s\"}\n",
        "{\"text\":\"3\",\"timestamp\":1777420998000}\n",
        "{\"text\":\"4\",\"timestamp\":700,\"session_id\":\"s\"}\n",
        "{\"text\":\"5\"}\n",
        "{\"text\":\"6\",\"session_id\":\"s\",\"delay\":3}\n",
    ));
    let timed = open(set(file.path())).expect("a good file");
    let starts: Vec<_> = (0..5).map(|i| timed.start_ns(i)).collect();
    let want = [Some(0), Some(250_500_000), Some(1_777_420_998_000_000_000), None, None];
    assert_eq!((timed.is_timed(), starts.as_slice()), (true, &want[..]));
    let got = all(timed.as_ref());
    // What is told without making a conversation is what it says when it is made.
    assert!(got.iter().zip(&starts).all(|(c, start)| c.turns[0].at_ns == *start));
    assert!(got.iter().enumerate().all(|(i, c)| c.turns.len() == timed.turn_count(i)));
    let times: Vec<_> = got[1].turns.iter().map(|t| (t.at_ns, t.delay_ns)).collect();
    assert_eq!(times, [(Some(250_500_000), None), (Some(700_000_000), None), (None, Some(3_000_000))]);
    assert!(timed.describe().notes.is_empty());
    let two = open(FilePlan { entries: Some(2), ..set(file.path()) }).expect("a good file");
    assert_eq!([1, 2].map(|i| two.start_ns(i)), [Some(250_500_000), None]);

    let ignored = open(FilePlan { ignore_timestamps: true, ..set(file.path()) }).expect("a good file");
    assert!(!ignored.is_timed() && (0..4).all(|i| ignored.start_ns(i).is_none()));
    let got = all(ignored.as_ref());
    assert!(got.iter().flat_map(|c| &c.turns).all(|turn| turn.at_ns.is_none()));
    assert_eq!(got[1].turns[2].delay_ns, Some(3_000_000), "think time is none of it");
}

#[test]
fn timestamps_behind_a_first_row_without_are_told_of() {
    let file =
        file("{\"text\":\"1\"}\n\n{\"text\":\"2\",\"timestamp\":5}\n{\"text\":\"3\",\"timestamp\":6}\n");
    let workload = open(set(file.path())).expect("a good file");
    assert!(!workload.is_timed());
    assert_eq!([0, 1, 2].map(|i| workload.start_ns(i)), [None, Some(5_000_000), Some(6_000_000)]);
    let said = "line 3 has a timestamp and the first row has none, so the file is no schedule of its own";
    assert_eq!(workload.describe().notes, [format!("{}: {said}", file.path().display())]);
    let ignored = open(FilePlan { ignore_timestamps: true, ..set(file.path()) }).expect("a good file");
    assert!(ignored.describe().notes.is_empty());
}

#[test]
fn bad_files_are_refused_by_line_and_column() {
    for empty in ["", "\n \n\r\n", "\u{feff}"] {
        assert_eq!(refusal(empty), ": holds no rows");
    }
    let good = "{\"text\":\"a\"}\n";
    assert_eq!(
        refusal(format!("{good}\n  {{\"text\":\"a\"")),
        ":3:13: the row ends in the middle of its JSON; is the file cut off?"
    );
    assert_eq!(refusal(format!("{good}hello\n")), ":2:1: not valid JSON: expected value");
    assert_eq!(refusal([good.as_bytes(), b" {\"text\":\"\xff\"}"].concat()), ":2:11: is not UTF-8");
    assert_eq!(
        refusal(format!("{good}{{\"role\":\"x\"}}")),
        ":2: holds nothing to send: 'text' or 'texts', 'image' or 'images', 'audio' or 'audios', 'video' or 'videos'"
    );
    assert!(
        refusal(format!("{good}{{\"text\":\"x\",\"images\":[\"a.png\"]}}"))
            .starts_with(":2: the image 'a.png' does not exist")
    );
    assert_eq!(
        refusal(format!("{good}{{\"text\":\"x\",\"output_length\":0}}")),
        ":2: 'output_length' must be a whole number above 0, not 0"
    );
    assert_eq!(refusal(b"\x1f\x8b\x08\x00"), ": ends in the middle of its gzip data; is the file cut off?");
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert!(matches!(open(set(folder.path())), Err(DataError::Input(_))));
    let shown = FilePlan { format: FileFormat::Detect, ..set(folder.path()) };
    assert!(matches!(open(shown), Err(DataError::Folder { .. })));
    let missing = folder.path().join("none.jsonl");
    let error = open(set(&missing)).map(|w| w.len()).expect_err("missing");
    assert!(error.to_string().starts_with(&format!("{}: No such file", missing.display())), "{error}");
    let good = file("{\"text\":\"a\"}");
    let none = FilePlan { entries: Some(0), ..set(good.path()) };
    assert!(matches!(open(none), Err(DataError::NoEntries)));
}

#[test]
fn unknown_keys_are_named_once() {
    let file = file("{\"text\":\"a\",\"foo\":1}\n{\"text\":\"a\",\"foo\":1,\"b\\u001bar\":2}\n");
    let notes = open(set(file.path())).expect("unknown keys are ignored").describe().notes;
    let name = file.path().display();
    let want =
        format!("{name}: keys that single_turn rows do not have are ignored: 'foo' (line 1), 'bar' (line 2)");
    assert_eq!(notes, [want]);
    let many: Vec<String> = (0..10).map(|i| format!("{{\"text\":\"a\",\"k{i}\":1}}\n")).collect();
    let many = super::tests::file(many.concat());
    let notes = open(set(many.path())).expect("unknown keys are ignored").describe().notes;
    assert!(notes[0].ends_with("'k7' (line 8) and more"), "{notes:?}");
}

#[test]
fn a_file_changed_under_the_run_is_an_error_with_its_row() {
    let mut file = file("{\"text\":\"aaaaaaaa\"}\n{\"text\":\"b\"}\n");
    let workload = open(set(file.path())).expect("a good file");
    file.as_file_mut().seek(SeekFrom::Start(0)).expect("sought");
    file.write_all(b"{\"role\":\"xxxxxxxx\"}\n").expect("overwritten");
    let error = workload.conversation(0, Visit::default()).expect_err("no text any more");
    assert!(matches!(error, DataError::Row { line: 1, problem: RowProblem::NoText, .. }), "{error}");
    assert!(workload.conversation(1, Visit::default()).is_ok());
    file.as_file_mut().set_len(5).expect("cut");
    let error = workload.conversation(1, Visit::default()).expect_err("it is cut off");
    assert!(matches!(error, DataError::Row { line: 2, problem: RowProblem::Changed, .. }), "{error}");
}

#[test]
fn rows_are_read_in_any_order_by_many_threads() {
    let rows: Vec<String> =
        (0..500).map(|i| format!("{{\"text\":\"row {i}\"}}\n{}", "\n".repeat(i % 3))).collect();
    let file = file(rows.concat());
    let workload = open(set(file.path())).expect("a good file");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let workload = &workload;
            scope.spawn(move || {
                for i in (0..500).map(|i| (i * 7 + thread * 131) % 500) {
                    let conversation = workload.conversation(i, Visit::default()).expect("a checked row");
                    assert_eq!(conversation.turns[0].texts, [format!("row {i}")]);
                }
            });
        }
    });
}

fn talks(
    bytes: &str,
    api: EndpointKind,
    change: impl FnOnce(&mut Plan),
) -> Result<Arc<dyn Workload>, String> {
    let file = file(bytes);
    let set = FilePlan { format: FileFormat::MultiTurn, ..set(file.path()) };
    let mut plan = plan(DatasetPlan::File(set), api);
    change(&mut plan);
    let path = file.path().display().to_string();
    crate::open(&plan, None, context()).map_err(|error| error.to_string().replace(&path, ""))
}

#[test]
fn turns_of_a_conversation_are_one_behind_the_other() {
    let workload = talks(
        concat!(
            "{\"session_id\":\"c1\",\"turns\":[{\"text\":\"Hello\"},{\"text\":\"Again\",\"delay\":1000,\"output_length\":5}]}\n",
            "{\"turns\":[{\"text\":\"anon\"}]}\n",
            "{\"type\":\"multi_turn\",\"session_id\":\"c1\",\"turns\":[{\"text\":\"More\",\"extra\":{\"top_k\":1}}],\"mood\":1}\n",
        ),
        EndpointKind::Chat,
        |_| {},
    )
    .expect("a good file");
    let got = all(&*workload);
    assert_eq!(texts(&got), [vec!["Hello", "Again", "More"], vec!["anon"]]);
    assert_eq!(got.iter().map(|c| c.id.as_str()).collect::<Vec<_>>(), ["c1", "session_000000"]);
    assert!(got.iter().all(|c| c.context == ContextMode::History));
    let turns = &got[0].turns;
    assert_eq!(turns.iter().map(|t| t.delay_ns).collect::<Vec<_>>(), [None, Some(1_000_000_000), None]);
    assert_eq!(turns.iter().map(|t| t.max_tokens).collect::<Vec<_>>(), [None, Some(5), None]);
    assert_eq!(turns[2].extra["top_k"], 1);
    // Models go around over turns of all conversations.
    let models: Vec<_> = got.iter().flat_map(|c| &c.turns).map(|t| t.model.as_str()).collect();
    assert_eq!(models, ["a", "b", "a", "b"]);
    assert_eq!([0, 1].map(|i| workload.turn_count(i)), [3, 1]);
    let facts = workload.describe();
    assert_eq!(
        (facts.kind, facts.entries, facts.turns, facts.most_turns),
        (WorkloadKind::MultiTurn, 2, 4, 3)
    );
    let said = ": keys that multi_turn rows do not have are ignored: 'mood' (line 3)";
    assert!(facts.notes.len() == 1 && facts.notes[0].ends_with(said), "{:?}", facts.notes);
}

/// AIPerf's own cases, and one whose second turn is in another line.
#[test]
fn a_leading_instruction_is_the_system_message() {
    let rows = concat!(
        "{\"session_id\":\"c1\",\"turns\":[{\"role\":\"system\",\"text\":\"Be brief.\"},{\"text\":\"Hi\"},{\"text\":\"More\",\"delay\":5}]}\n",
        "{\"session_id\":\"c2\",\"turns\":[{\"role\":\"system\",\"text\":\"only\"}]}\n",
        "{\"session_id\":\"c3\",\"turns\":[{\"role\":\"system\",\"text\":\"a\"},{\"role\":\"system\",\"text\":\"b\"},{\"text\":\"u\"}]}\n",
        "{\"session_id\":\"c4\",\"turns\":[{\"role\":\"system\",\"texts\":[\"a\",\"b\"]}]}\n",
        "{\"session_id\":\"c4\",\"turns\":[{\"text\":\"u\"}]}\n",
        "{\"session_id\":\"c5\",\"turns\":[{\"role\":\"system\",\"text\":\"a\",\"output_length\":3},{\"text\":\"u\"}]}\n",
    );
    let told = |api, system: Option<&str>| {
        let workload = talks(rows, api, |plan| plan.system_prompt = system.map(str::to_owned)).expect("good");
        let got = all(&*workload);
        assert!(got.iter().enumerate().all(|(i, c)| c.turns.len() == workload.turn_count(i)));
        assert_eq!(workload.describe().turns, got.iter().map(|c| c.turns.len() as u64).sum::<u64>());
        let numbered: Vec<_> = got.iter().flat_map(|c| &c.turns).map(|t| t.model.clone()).collect();
        assert!(numbered.iter().enumerate().all(|(i, m)| m == ["a", "b"][i % 2]), "{numbered:?}");
        got.iter()
            .map(|c| (c.system.clone(), c.turns.iter().map(|t| t.texts[0].clone()).collect::<Vec<_>>()))
            .collect::<Vec<_>>()
    };
    let said = |system: Option<&str>, turns: &[&str]| {
        (system.map(str::to_owned), turns.iter().map(|&t| t.to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(
        told(EndpointKind::Chat, None),
        [
            said(Some("Be brief."), &["Hi", "More"]),
            said(None, &["only"]),
            said(None, &["a", "b", "u"]),
            said(Some("a\nb"), &["u"]),
            said(None, &["a", "u"]),
        ]
    );
    let with_ours = told(EndpointKind::Chat, Some("Ours."));
    assert_eq!(with_ours[0].0.as_deref(), Some("Ours.\n\nBe brief."));
    assert_eq!(with_ours[1].0.as_deref(), Some("Ours."));
}

#[test]
fn markers_are_on_the_first_turn_of_a_conversation_alone() {
    let rows = "{\"turns\":[{\"text\":\"1\"},{\"text\":\"2\"}]}\n";
    let workload = talks(rows, EndpointKind::Chat, |plan| {
        plan.cache_bust =
            Some(CacheBustPlan { target: MarkerTarget::FirstTurnPrefix, run_id: Some("run".into()) });
    });
    let got = all(&*workload.expect("a good file"));
    let marked: Vec<bool> = got[0].turns.iter().map(|t| t.texts[0].contains("[rid:")).collect();
    assert_eq!(marked, [true, false]);
}

#[test]
fn conversations_that_begin_at_a_time_are_a_schedule() {
    let rows = concat!(
        "{\"turns\":[{\"role\":\"system\",\"text\":\"s\"},{\"text\":\"1\",\"timestamp\":5},{\"text\":\"2\",\"timestamp\":9}]}\n",
        "{\"turns\":[{\"text\":\"3\",\"timestamp\":7},{\"text\":\"4\",\"delay\":2}]}\n",
    );
    let workload = talks(rows, EndpointKind::Chat, |_| {}).expect("a good file");
    assert!(workload.is_timed());
    assert_eq!([0, 1].map(|i| workload.start_ns(i)), [Some(5_000_000), Some(7_000_000)]);
    let got = all(&*workload);
    assert_eq!(got[0].turns.iter().map(|t| t.at_ns).collect::<Vec<_>>(), [Some(5_000_000), Some(9_000_000)]);
}

#[test]
fn bad_conversations_are_refused_by_line_and_turn() {
    let refused = |rows: &str| talks(rows, EndpointKind::Chat, |_| {}).map(|w| w.len()).expect_err(rows);
    let good = "{\"turns\":[{\"text\":\"a\"}]}\n";
    for (row, said) in [
        ("{\"turns\":[]}", "'turns' holds no turn"),
        ("{\"text\":\"a\"}", "'turns' holds no turn"),
        ("{\"turns\":{}}", "'turns' must be a list of objects, one for each turn, not {}"),
        (
            "{\"turns\":[{\"text\":\"a\"},{\"role\":\"user\"}]}",
            "turns[1]: holds nothing to send: 'text' or 'texts', 'image' or 'images', 'audio' or 'audios', 'video' or 'videos'",
        ),
        ("{\"turns\":[\"a\"]}", "turns[0]: a row must be a JSON object, not \"a\""),
        (
            "{\"turns\":[{\"text\":\"a\",\"delay\":-1}]}",
            "turns[0]: 'delay' must be a number of milliseconds from 0 to 18446744073709, not -1",
        ),
        ("{\"type\":\"single_turn\",\"turns\":[]}", "'type' must be \"multi_turn\", not \"single_turn\""),
        ("[1]", "a row must be a JSON object, not [1]"),
    ] {
        assert_eq!(refused(&format!("{good}{row}\n")), format!(":2: {said}"));
    }
    assert_eq!(
        refused(&format!("{good}{{\"turns\":[")),
        ":2:10: the row ends in the middle of its JSON; is the file cut off?"
    );
    let completions = |rows: &str| talks(rows, EndpointKind::Completions, |_| {}).map(|w| w.len());
    assert_eq!(completions(good), Ok(1));
    let two = "{\"session_id\":\"s\",\"turns\":[{\"text\":\"a\"}]}\n";
    for rows in
        [format!("{two}{two}"), format!("{good}{{\"turns\":[{{\"text\":\"a\"}},{{\"text\":\"b\"}}]}}\n")]
    {
        let error = completions(&rows).expect_err("several turns");
        assert!(
            error.starts_with(":2: the conversation has several turns") && error.contains("completions"),
            "{error}"
        );
    }
}

type Opened = (Arc<dyn Workload>, Arc<dyn Tokenizer>);

fn trace(bytes: &str, change: impl FnOnce(&mut Plan)) -> Result<Opened, String> {
    trace_of(FileFormat::Mooncake, bytes, change)
}

fn trace_of(format: FileFormat, bytes: &str, change: impl FnOnce(&mut Plan)) -> Result<Opened, String> {
    let file = file(bytes);
    let block = (format == FileFormat::Mooncake).then_some(16);
    let set = FilePlan { format, block, ..set(file.path()) };
    let mut plan = plan(DatasetPlan::File(set), EndpointKind::Chat);
    change(&mut plan);
    let path = file.path().display().to_string();
    let tokenizer = Toy::shared(Cut::Words);
    crate::open(&plan, Some(Arc::clone(&tokenizer)), context())
        .map(|workload| (workload, tokenizer))
        .map_err(|error| error.to_string().replace(&path, ""))
}

#[test]
fn a_trace_s_blocks_become_text_that_is_equal_where_they_are() {
    let rows = concat!(
        "{\"timestamp\":0,\"input_length\":50,\"output_length\":4,\"hash_ids\":[46,47,48,5]}\n",
        "{\"timestamp\":10,\"input_length\":64,\"hash_ids\":[46,47,48,49]}\n",
        "{\"timestamp\":20,\"input_length\":9}\n",
        "{\"timestamp\":30,\"text_input\":\"as it is\"}\n",
        "{\"timestamp\":40,\"messages\":[{\"role\":\"user\",\"content\":\"hey\"}],\"mood\":2}\n",
        "{\"timestamp\":50,\"payload\":{\"prompt\":\"raw\"}}\n",
    );
    let (workload, tokenizer) = trace(rows, |_| {}).expect("a good trace");
    let got = all(&*workload);
    let text = |i: usize| got[i].turns[0].texts[0].as_str();
    let counts: Vec<usize> = (0..3).map(|i| tokenizer.count(text(i))).collect();
    assert_eq!(counts, [50, 64, 9]);
    let common = text(0).bytes().zip(text(1).bytes()).take_while(|(a, b)| a == b).count();
    let common = text(0)[..common].rfind(' ').expect("several words");
    assert_eq!(tokenizer.count(&text(0)[..common]), 48, "three blocks: {:?} {:?}", text(0), text(1));
    let lengths: Vec<_> = got.iter().map(|c| c.turns[0].length.map(|l| (l.asked, l.made))).collect();
    assert_eq!(lengths, [Some((50, 50)), Some((64, 64)), Some((9, 9)), None, None, None]);
    assert_eq!(
        (text(3), got[0].turns[0].max_tokens, got[1].turns[0].at_ns),
        ("as it is", Some(4), Some(10_000_000))
    );
    assert_eq!(got[4].turns[0].extra["messages"][0]["content"], "hey");
    assert_eq!(got[5].turns[0].payload.as_deref(), Some(&b"{\"prompt\":\"raw\"}"[..]));
    assert!(workload.is_timed() && workload.replaces_messages());
    assert!(
        workload.describe().notes[0]
            .ends_with("mooncake_trace rows do not have are ignored: 'mood' (line 5)")
    );
    // The same ids in another file are other blocks; the same file is the same text.
    let (again, _) = trace(rows, |_| {}).expect("a good trace");
    assert_eq!(all(&*again)[0].turns[0].texts[0], text(0));
    let (other, _) = trace(rows.lines().next().expect("a line"), |_| {}).expect("a good trace");
    assert_ne!(all(&*other)[0].turns[0].texts[0], text(0));
}

#[test]
fn sessions_of_a_trace_add_up_unless_their_rows_already_hold_what_was_before() {
    let rows = concat!(
        "{\"session_id\":\"adds\",\"input_length\":64,\"hash_ids\":[1,2,3,4]}\n",
        "{\"session_id\":\"grows\",\"input_length\":64,\"output_length\":7,\"hash_ids\":[5,6,7,8]}\n",
        "{\"session_id\":\"adds\",\"input_length\":32,\"hash_ids\":[9,10],\"delay\":5}\n",
        "{\"session_id\":\"grows\",\"input_length\":90,\"hash_ids\":[5,6,7,8,11,12]}\n",
        "{\"session_id\":\"grows\",\"input_length\":112,\"hash_ids\":[5,6,7,8,11,12,13]}\n",
        "{\"session_id\":\"one\",\"input_length\":16,\"hash_ids\":[1]}\n",
    );
    let (workload, tokenizer) = trace(rows, |_| {}).expect("a good trace");
    let got = all(&*workload);
    let told: Vec<_> = got.iter().map(|c| (c.id.as_str(), c.context, c.turns.len())).collect();
    let (goes_on, alone) = (ContextMode::History, ContextMode::SelfContained);
    assert_eq!(told, [("adds", goes_on, 2), ("grows", alone, 3), ("one", alone, 1)]);
    let count = |text: &str| tokenizer.count(text);
    assert_eq!(got[0].turns.iter().map(|t| count(&t.texts[0])).collect::<Vec<_>>(), [64, 32]);
    // The first request is a message; later ones begin with it and hold the answers that the trace had.
    let first = got[1].turns[0].texts[0].as_str();
    let messages = |turn: usize| got[1].turns[turn].extra["messages"].as_array().expect("messages").clone();
    let lengths = |turn: usize| -> Vec<(String, usize)> {
        let text = |m: &Value| m["content"].as_str().expect("a text").to_owned();
        assert_eq!(text(&messages(turn)[0]), first);
        let role = |m: &Value| m["role"].as_str().expect("a role").to_owned();
        messages(turn).iter().map(|m| (role(m), count(&text(m)))).collect()
    };
    let said = |told: &[(&str, usize)]| told.iter().map(|(r, n)| ((*r).to_owned(), *n)).collect::<Vec<_>>();
    assert_eq!(lengths(1), said(&[("user", 64), ("assistant", 16), ("user", 10)]));
    assert_eq!(lengths(2), said(&[("user", 64), ("assistant", 16), ("user", 32)]));
    let (with_system, _) = trace(rows, |plan| plan.system_prompt = Some("Be brief.".into())).expect("good");
    let with_system = all(&*with_system);
    assert_eq!(with_system[1].turns[1].extra["messages"][0]["content"], "Be brief.");
    let notes = &workload.describe().notes;
    assert!(
        notes.len() == 1
            && notes[0].contains("the rows of a conversation (such as 'grows', line 4) hold their history"),
        "{notes:?}"
    );
}

#[test]
fn traces_that_contradict_themselves_are_refused() {
    let refused = |rows: &str, change: fn(&mut Plan)| trace(rows, change).map(|_| ()).expect_err(rows);
    assert_eq!(
        refused(
            "{\"input_length\":100,\"hash_ids\":[1]}\n{\"input_length\":20,\"hash_ids\":[1,2,3]}\n",
            |_| {}
        ),
        ":2: 3 blocks of 16 tokens are more than a prompt of 20 tokens holds, the last one cut short; --isl-block-size says how many \
         tokens a block has"
    );
    let mixed = "{\"session_id\":\"a\",\"input_length\":5}\n{\"session_id\":\"a\",\"payload\":{\"a\":1}}\n";
    assert!(refused(mixed, |_| {}).starts_with(":2: the session has rows with messages or whole bodies"));
    let marked = refused("{\"payload\":{\"a\":1}}\n", |plan| {
        plan.cache_bust = Some(CacheBustPlan { target: MarkerTarget::FirstTurnPrefix, run_id: None });
    });
    assert!(marked.starts_with(":1: the row holds a whole body"), "{marked}");
}

#[test]
fn chats_of_a_trace_go_on_or_hold_what_was_before() {
    let rows = concat!(
        "{\"chat_id\":159,\"parent_chat_id\":-1,\"timestamp\":61.114,\"input_length\":32,\"output_length\":9,\"type\":\"text\",\"turn\":1,\"hash_ids\":[1,2]}\n",
        "{\"chat_id\":7,\"parent_chat_id\":-1,\"timestamp\":61.2,\"input_length\":20,\"output_length\":0,\"type\":\"search\",\"turn\":1,\"hash_ids\":[1,9]}\n",
        "{\"chat_id\":161,\"parent_chat_id\":160,\"timestamp\":70,\"input_length\":90,\"output_length\":5,\"turn\":3,\"hash_ids\":[1,2,3,4,5,6]}\n",
        "{\"chat_id\":160,\"parent_chat_id\":159,\"timestamp\":62.5,\"input_length\":64,\"output_length\":5,\"turn\":2,\"hash_ids\":[1,2,3,4]}\n",
        "{\"chat_id\":8,\"parent_chat_id\":7,\"timestamp\":80,\"input_length\":16,\"output_length\":5,\"turn\":2,\"hash_ids\":[30]}\n",
        "{\"chat_id\":12,\"parent_chat_id\":11,\"timestamp\":81,\"input_length\":5,\"output_length\":5,\"turn\":4,\"salt\":1}\n",
    );
    let (workload, tokenizer) = trace_of(FileFormat::Bailian, rows, |_| {}).expect("a good trace");
    let got = all(&*workload);
    let told: Vec<_> = got.iter().map(|c| (c.id.as_str(), c.context, c.turns.len())).collect();
    let (goes_on, alone) = (ContextMode::History, ContextMode::SelfContained);
    assert_eq!(told, [("159", alone, 3), ("7", goes_on, 2), ("12", alone, 1)]);
    let count = |text: &str| tokenizer.count(text);
    assert_eq!(got[1].turns.iter().map(|t| count(&t.texts[0])).collect::<Vec<_>>(), [20, 16]);
    let said = |turn: usize| -> Vec<usize> {
        let messages = got[0].turns[turn].extra["messages"].as_array().expect("messages").clone();
        messages.iter().map(|m| count(m["content"].as_str().expect("a text"))).collect()
    };
    assert_eq!((said(1), said(2)), (vec![32, 16, 16], vec![32, 16, 16, 16, 10]));
    let times: Vec<_> = got[0].turns.iter().map(|t| t.at_ns.map(|ns| ns / 1_000_000)).collect();
    assert_eq!(times, [Some(61_114), Some(62_500), Some(70_000)]);
    assert_eq!(
        [0, 1, 2].map(|i| workload.start_ns(i)),
        [61_114, 61_200, 81_000].map(|ms| Some(ms * 1_000_000))
    );
    assert_eq!(got[1].turns[0].max_tokens, Some(1));
    assert!(workload.is_timed() && workload.replaces_messages());
    let notes = workload.describe().notes;
    for said in [
        "keys that bailian_trace rows do not have are ignored: 'salt' (line 6)",
        "the row in line 2 of type 'search': all are sent as texts of their length",
        "the row in line 2 with a length of 0 tokens, as of a request that failed: it is sent as 1",
        "1 row has a parent_chat_id that no row has as its chat_id: it begins a conversation",
        "the rows have timestamps, and the load options say when they are sent; --fixed-schedule sends them at their times",
    ] {
        assert!(notes.iter().any(|note| note.ends_with(said)), "{said}: {notes:?}");
    }
    let (ignored, _) = trace_of(FileFormat::Bailian, rows, |plan| {
        let DatasetPlan::File(set) = &mut plan.dataset else { panic!("a file") };
        (set.ignore_timestamps, set.entries) = (true, Some(2));
    })
    .expect("a good trace");
    assert!((0..2).all(|i| ignored.start_ns(i).is_none()) && ignored.len() == 2 && !ignored.is_timed());
}

#[test]
fn a_block_may_be_cut_short_and_whole_later() {
    let rows = concat!(
        "{\"chat_id\":1,\"timestamp\":0,\"input_length\":40,\"output_length\":1,\"hash_ids\":[1,2,3]}\n",
        "{\"chat_id\":2,\"timestamp\":1,\"input_length\":48,\"output_length\":1,\"hash_ids\":[1,2,3]}\n",
    );
    let (workload, tokenizer) = trace_of(FileFormat::Bailian, rows, |_| {}).expect("AIPerf refuses it");
    let lengths: Vec<usize> = all(&*workload).iter().map(|c| tokenizer.count(&c.turns[0].texts[0])).collect();
    assert_eq!(lengths, [40, 48]);
}

#[test]
fn a_table_of_lengths_is_a_trace_and_says_what_it_leaves_out() {
    let table = concat!(
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\r\n",
        "5,ChatGPT,12,30,42,Conversation log\r\n",
        "45.5,GPT-4,20,7,27,API log\r\n",
        "bad,GPT-4,1,1,2,x\r\n",
        "60,GPT-4,0,9,9,API log\r\n",
        "\r\n61,GPT-4\r\n",
    );
    let (workload, tokenizer) = trace_of(FileFormat::BurstGpt, table, |_| {}).expect("a good table");
    let got = all(&*workload);
    let rows: Vec<_> = got
        .iter()
        .map(|c| {
            let turn = &c.turns[0];
            let ms = turn.at_ns.map(|ns| ns / 1_000_000);
            (c.id.as_str(), tokenizer.count(&turn.texts[0]), turn.max_tokens, ms)
        })
        .collect();
    let wanted = [
        ("session_000000", 12, Some(30), Some(5_000)),
        ("session_000001", 20, Some(7), Some(45_500)),
        ("session_000002", 1, Some(9), Some(60_000)),
    ];
    assert_eq!(rows, wanted);
    assert_eq!(workload.start_ns(2), Some(60_000_000_000));
    let notes = workload.describe().notes;
    for said in [
        "columns that are not read: 'Model', 'Total tokens', 'Log Type'",
        "the row in line 5 with a length of 0 tokens, as of a request that failed: it is sent as 1",
        ":4: 'Timestamp' must be a number of seconds from 0 to 18446744073, not 'bad'",
    ] {
        assert!(notes.iter().any(|note| note.ends_with(said)), "{said}: {notes:?}");
    }
    let refused = |table: &str| trace_of(FileFormat::BurstGpt, table, |_| {}).map(|_| ()).expect_err(table);
    assert_eq!(
        refused("Timestamp,Request tokens\n5,12\n"),
        ":1: no column is called 'Response tokens', which burst_gpt_trace has; there are 'Timestamp', 'Request tokens'"
    );
    let header = "Timestamp,Request tokens,Response tokens\n";
    assert_eq!(refused(header), ": holds no rows");
    assert_eq!(refused(""), ": holds no rows");
    assert_eq!(
        refused(&format!("{header}5,a,3\n6,b,3\n")),
        ": none of its 2 rows can be sent; the first: :2: 'Request tokens' must be a whole number of tokens, not 'a'"
    );
}

/// Roles and contents of the messages that a turn brings; of one that brings none, its texts.
fn said(turn: &Turn) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    match turn.extra.get("messages").and_then(|m| m.as_array()) {
        Some(list) => list.iter().map(|m| (text(&m["role"]), text(&m["content"]))).collect(),
        None => turn.texts.iter().map(|t| ("own".to_owned(), t.clone())).collect(),
    }
}

#[test]
fn conversations_say_what_their_turns_are_sent_with() {
    let talk = |mode: &str, more: &str| {
        let turns = r#"[{"role":"system","text":"s"},{"text":"a"},{"role":"assistant","text":"A"},{"text":"b"MORE},{"text":"c"}]"#;
        let turns = turns.replace("MORE", more);
        let file = file(format!(
            "{{\"context_mode\":\"{mode}\",\"session_id\":\"t\",\"turns\":{turns}}}\n{{\"session_id\":\"t\",\"turns\":[{{\"text\":\"d\"}}]}}"
        ));
        let set = FilePlan { format: FileFormat::MultiTurn, ..set(file.path()) };
        let workload = open(set).map_err(|error| error.to_string())?;
        let talk = workload.conversation(0, Visit::default()).expect("a checked row");
        assert_eq!(workload.turn_count(0), talk.turns.len());
        Ok::<_, String>((talk.context, talk.turns.iter().map(said).collect::<Vec<_>>(), talk))
    };
    let pairs = |of: &[(&str, &str)]| -> Vec<(String, String)> {
        of.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
    };
    let (context, turns, whole) = talk("deltas_with_responses", "").expect("a good file");
    assert_eq!((context, whole.system.as_deref()), (ContextMode::SelfContained, Some("s")));
    let all =
        [("system", "s"), ("user", "a"), ("assistant", "A"), ("user", "b"), ("user", "c"), ("user", "d")];
    assert_eq!(turns, [pairs(&[("own", "a")]), pairs(&all[..4]), pairs(&all[..5]), pairs(&all)]);
    // A turn that resets has nothing before it.
    let (_, turns, _) = talk("deltas_with_responses", ",\"reset_context\":true").expect("a good file");
    let anew = [("system", "s"), ("user", "b"), ("user", "c"), ("user", "d")];
    assert_eq!(turns[1..], [pairs(&[("own", "b")]), pairs(&anew[..3]), pairs(&anew)]);
    let own = |of: &[&str]| of.iter().map(|t| pairs(&[("own", *t)])).collect::<Vec<_>>();
    let (context, turns, _) = talk("message_array_with_responses", "").expect("a good file");
    assert_eq!((context, turns), (ContextMode::SelfContained, own(&["a", "A", "b", "c", "d"])));
    let (context, turns, whole) =
        talk("deltas_without_responses", ",\"reset_context\":true").expect("a good file");
    assert_eq!((context, turns), (ContextMode::History, own(&["a", "A", "b", "c", "d"])));
    assert_eq!(whole.turns.iter().map(|t| t.resets).collect::<Vec<_>>(), [false, false, true, false, false]);
    let refused =
        |mode: &str, more: &str| talk(mode, more).map(|(context, ..)| context).expect_err("a bad file");
    assert!(
        refused("somehow", "")
            .contains("'context_mode' must be deltas_without_responses, deltas_with_responses")
    );
    assert!(
        refused("message_array_with_responses", ",\"reset_context\":true")
            .contains("'reset_context' must be absent")
    );
    assert!(
        refused("deltas_with_responses", ",\"reset_context\":1")
            .contains("'reset_context' must be true or false, not 1")
    );
}

#[test]
fn what_a_turn_cannot_say_is_named() {
    let file =
        file("{\"session_id\":\"t\",\"turns\":[{\"text\":\"a\",\"session_id\":\"u\",\"model\":\"m\"}]}\n");
    let workload = open(FilePlan { format: FileFormat::MultiTurn, ..set(file.path()) }).expect("a good file");
    let said = "keys that multi_turn rows do not have are ignored: 'turns[].model' (line 1), 'turns[].session_id' (line 1)";
    assert!(workload.describe().notes[0].ends_with(said), "{:?}", workload.describe().notes);
}

#[test]
fn rows_that_go_on_want_the_conversation_as_it_began() {
    let refused = |rows: &str| {
        let file = file(rows);
        let set = FilePlan { format: FileFormat::MultiTurn, ..set(file.path()) };
        open(set).map(|w| w.len()).expect_err("a bad file").to_string()
    };
    let two = r#"{"session_id":"t","turns":[{"text":"a"}]}
{"session_id":"t","context_mode":"deltas_with_responses","turns":[{"text":"b"}]}"#;
    assert!(refused(two).contains(
        ":2: 'context_mode' is 'deltas_with_responses' here and 'deltas_without_responses' in the row"
    ));
    let answers = r#"{"context_mode":"deltas_with_responses","turns":[{"role":"assistant","text":"a"}]}"#;
    assert!(refused(answers).contains("every turn is a recorded answer"));
}

/// A folder with files of these names and texts.
fn folder_of(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    dir
}

fn opened(
    dir: &tempfile::TempDir,
    name: &str,
    change: impl FnOnce(&mut FilePlan),
    kind: EndpointKind,
) -> Result<Arc<dyn Workload>, String> {
    let mut set = set(&dir.path().join(name));
    change(&mut set);
    crate::open(&plan(DatasetPlan::File(set), kind), None, context())
        .map_err(|error| error.to_string().replace(&dir.path().display().to_string(), ""))
}

fn pool(set: &mut FilePlan) {
    set.format = FileFormat::RandomPool;
}

#[test]
fn conversations_are_drawn_from_a_pool() {
    let rows =
        ["t0", "t1", "t2", "t3", "t4"].map(|text| format!("{{\"text\":\"{text}\",\"delay\":5}}\n")).concat();
    let dir = folder_of(&[("a.jsonl", &rows)]);
    let open = |seed: u64, draws: usize| {
        let set = FilePlan { format: FileFormat::RandomPool, draws, ..set(&dir.path().join("a.jsonl")) };
        let mut plan = plan(DatasetPlan::File(set), EndpointKind::Chat);
        plan.seed = seed;
        crate::open(&plan, None, context()).expect("a good pool")
    };
    let drawn = |seed, draws| -> Vec<String> {
        all(&*open(seed, draws)).into_iter().map(|mut c| c.turns.remove(0).texts.remove(0)).collect()
    };
    let first = drawn(1, 60);
    assert_eq!(first[..6], drawn(1, 6)[..], "more draws do not change the first ones");
    assert_ne!(first, drawn(2, 60));
    let different: std::collections::BTreeSet<_> = first.iter().map(String::as_str).collect();
    assert_eq!(different.into_iter().collect::<Vec<_>>(), ["t0", "t1", "t2", "t3", "t4"]);
    let workload = open(1, 6);
    let one = workload.conversation(5, Visit::default()).expect("drawn");
    assert_eq!((one.id.as_str(), one.turns.len(), one.turns[0].delay_ns), ("session_000005", 1, None));
    let named = [TextGroup { name: "a".into(), count: 1 }];
    assert_eq!((one.turns[0].groups.as_slice(), one.turns[0].texts.len()), (&named[..], 1));
    let facts = workload.describe();
    assert_eq!(
        (facts.kind, facts.entries, facts.turns, facts.most_turns),
        (WorkloadKind::RandomPool, 6, 6, 1)
    );
    let said =
        "6 conversations are drawn with replacement, each one of 5 rows; --num-dataset-entries says how many";
    assert!(facts.notes.iter().any(|note| note.ends_with(said)), "{:?}", facts.notes);
    assert!(facts.notes[0].ends_with("keys that random_pool rows do not have are ignored: 'delay' (line 1)"));
}

#[test]
fn each_file_of_a_folder_is_a_pool() {
    let dir = folder_of(&[
        ("p/passages.jsonl", "{\"texts\":[\"p0\",\"p1\"]}\n\n{\"texts\":[\"p2\"]}\n"),
        ("p/query.txt", "{\"text\":\"q0\"}\n{\"texts\":[{\"name\":\"query\",\"contents\":[\"q1\"]}]}\n"),
        ("p/zero.jsonl", "\n"),
        ("p/below/c.jsonl", "{\"text\":\"no\"}\n"),
    ]);
    for format in [FileFormat::RandomPool, FileFormat::Detect] {
        let workload = opened(&dir, "p", |set| set.format = format, EndpointKind::CohereRankings);
        let workload = workload.expect("a good folder");
        assert_eq!(workload.len(), 100);
        for c in all(&*workload) {
            let turn = &c.turns[0];
            assert!(turn.query().expect("a query").starts_with('q'), "{turn:?}");
            let passages: Vec<&str> = turn.passages().collect();
            assert!([&["p0", "p1"][..], &["p2"]].contains(&&passages[..]), "{passages:?}");
        }
    }
    let refused = |change: fn(&mut FilePlan), kind| {
        opened(&dir, "p", change, kind).map(|w| w.len()).expect_err("it is refused")
    };
    let batch: fn(&mut FilePlan) = |set| (set.format, set.batch) = (FileFormat::RandomPool, 2);
    assert!(refused(batch, EndpointKind::Chat).starts_with("/p: its 2 files are pools with names"));
    let bad =
        folder_of(&[("a.jsonl", "{\"text\":\"a\"}\n"), ("b.jsonl", "{\"text\":\"b\"}\n{\"text\":1}\n")]);
    let error = opened(&bad, "", pool, EndpointKind::Chat).map(|w| w.len()).expect_err("a bad row");
    assert!(error.ends_with("b.jsonl:2: 'text' must be a string, not 1"), "{error}");
    let error =
        opened(&bad, "a.jsonl", pool, EndpointKind::CohereRankings).map(|w| w.len()).expect_err("no query");
    assert!(error.starts_with("/a.jsonl:1: no text is named 'query'"), "{error}");
    let empty = folder_of(&[("a.jsonl", "\n")]);
    let error = opened(&empty, "", pool, EndpointKind::Chat).map(|w| w.len()).expect_err("nothing");
    assert!(error.ends_with(": holds no rows"), "{error}");
}

#[test]
fn texts_of_one_pool_go_with_images_of_another_where_they_are_as_many() {
    let nim = EndpointKind::NimEmbeddings;
    let dir = |images: &str| {
        folder_of(&[("p/a.jsonl", "{\"text\":\"one\"}\n{\"text\":\"two\"}\n"), ("p/b.jsonl", images)])
    };
    let pairs = dir("\n{\"image\":\"http://h/1.png\"}\n");
    for c in all(&*opened(&pairs, "p", pool, nim).expect("a text and an image each")) {
        assert_eq!((c.turns[0].texts.len(), c.turns[0].media.len()), (1, 1));
    }
    // A row with more of one kind is right where the other pool brings what it lacks.
    let more = folder_of(&[
        ("p/a.jsonl", "{\"texts\":[\"one\",\"two\"],\"image\":\"http://h/0.png\"}\n"),
        ("p/b.jsonl", "{\"image\":\"http://h/1.png\"}\n"),
    ]);
    assert!(opened(&more, "p", pool, nim).is_ok());
    let odd = dir("{\"images\":[\"http://h/1.png\",\"http://h/2.png\"]}\n");
    let error = opened(&odd, "p", pool, nim).map(|w| w.len()).expect_err("one text, two images");
    assert!(error.starts_with("/p/b.jsonl:1: drawn together with /p/a.jsonl:"), "{error}");
    assert!(error.contains("has 1 texts and 2 images"), "{error}");
    assert!(opened(&odd, "p", pool, EndpointKind::Chat).is_ok());
}

#[test]
fn an_image_that_vanished_is_told_at_its_own_line() {
    let dir = folder_of(&[("i.png", "\u{89}")]);
    let png = dir.path().join("i.png");
    std::fs::write(&png, b"\x89PNG\r\n\x1a\n").expect("written");
    let rows = "{\"text\":\"a\"}\n".repeat(3) + "{\"image\":\"i.png\"}\n";
    std::fs::write(dir.path().join("a.jsonl"), rows).expect("written");
    let workload = opened(&dir, "a.jsonl", pool, EndpointKind::Chat).expect("a good pool");
    std::fs::remove_file(png).expect("removed");
    let read = (0..workload.len()).map(|i| workload.conversation(i, Visit::default()));
    let errors: Vec<String> = read.filter_map(|c| c.err().map(|e| e.to_string())).collect();
    assert!(
        !errors.is_empty() && errors.iter().all(|e| e.contains("a.jsonl:4: the image 'i.png'")),
        "{errors:?}"
    );
}

#[test]
fn a_batch_is_drawn_text_by_text() {
    let dir = folder_of(&[(
        "a.jsonl",
        "{\"texts\":[\"a\",\"b\",\"c\"]}\n{\"type\":\"random_pool\",\"text\":\"d\"}\n",
    )]);
    let batch = |set: &mut FilePlan| (set.format, set.batch, set.draws) = (FileFormat::RandomPool, 4, 50);
    let got = all(&*opened(&dir, "a.jsonl", batch, EndpointKind::Chat).expect("a good pool"));
    assert!(got.iter().all(|c| c.turns[0].texts.len() == 4 && c.turns[0].groups.is_empty()));
    let different: std::collections::BTreeSet<_> =
        got.iter().flat_map(|c| c.turns[0].texts.clone()).collect();
    assert_eq!(different.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    assert!(
        got.iter().any(|c| c.turns[0].texts.iter().any(|text| text == "d") && c.turns[0].texts[0] != "d")
    );
    let named =
        folder_of(&[("a.jsonl", "{\"text\":\"a\"}\n{\"texts\":[{\"name\":\"n\",\"contents\":[\"b\"]}]}\n")]);
    let error = opened(&named, "a.jsonl", batch, EndpointKind::Chat).map(|w| w.len()).expect_err("a name");
    assert!(error.starts_with("/a.jsonl:2: a text has a name, and --batch-size"), "{error}");
    assert!(opened(&named, "a.jsonl", pool, EndpointKind::Chat).is_ok());
}

fn captured(id: &str, time: &str, body: &Value) -> String {
    let input = json!({"data": body.to_string(), "encoding": "JSON", "mode": "INPUT"});
    let row = json!({
        "captureData": {"endpointInput": input, "endpointOutput": {"data": "{\"usage\":{\"prompt_tokens\":3}}"}},
        "eventMetadata": {"eventId": id, "inferenceTime": time},
        "eventVersion": "0",
    });
    format!("{row}\n")
}

#[test]
fn captures_are_sent_in_the_order_of_their_times() {
    let said =
        |text: &str| json!({"messages": [{"role": "user", "content": text}], "max_tokens": 5, "top_p": 0.5});
    let late = captured("a", "2026-04-29T00:03:20Z", &said("late"))
        + &captured("b", "2026-04-29T00:03:18Z", &said("first"));
    let middle = captured("c", "2026-04-29T00:03:19.5Z", &said("middle"));
    let dir = folder_of(&[
        ("x/1.jsonl", &late),
        ("x/y/2.jsonl", &middle),
        ("x/z.jsonl", "\n"),
        ("x/note.txt", "no row"),
    ]);
    for format in [FileFormat::SageMaker, FileFormat::Detect] {
        let workload =
            opened(&dir, "x", |set| set.format = format, EndpointKind::Chat).expect("good captures");
        let got = all(&*workload);
        let read: Vec<_> = got
            .iter()
            .map(|c| (c.turns[0].extra["messages"][0]["content"].as_str().expect("a text"), c.turns[0].at_ns))
            .collect();
        let ns = |ms: u64| Some(ms * 1_000_000);
        assert_eq!(read, [("first", ns(0)), ("middle", ns(1_500)), ("late", ns(2_000))]);
        assert_eq!([0, 1, 2].map(|i| workload.start_ns(i)), [ns(0), ns(1_500), ns(2_000)]);
        let first = &got[0];
        assert_eq!((first.id.as_str(), first.context), ("session_000000", ContextMode::SelfContained));
        assert_eq!(first.turns[0].max_tokens, Some(5));
        assert!(workload.is_timed() && workload.replaces_messages());
        let facts = workload.describe();
        assert_eq!((facts.kind, facts.entries), (WorkloadKind::SageMaker, 3));
        let note = "1.jsonl: keys that are not sent again are ignored: 'top_p' (line 1)";
        assert!(facts.notes.iter().any(|n| n.ends_with(note)), "{:?}", facts.notes);
    }
    let two = opened(
        &dir,
        "x",
        |set| (set.format, set.entries) = (FileFormat::SageMaker, Some(2)),
        EndpointKind::Chat,
    );
    assert_eq!(two.expect("good captures").len(), 2);
    let bad = folder_of(&[(
        "1.jsonl",
        &(middle + &captured("e-7", "2026-04-29T00:03:19Z", &json!({"inputs": "x"}))),
    )]);
    let sagemaker = |set: &mut FilePlan| set.format = FileFormat::SageMaker;
    let refused =
        |kind| opened(&bad, "1.jsonl", sagemaker, kind).map(|w| w.len()).expect_err("it is refused");
    assert_eq!(
        refused(EndpointKind::Chat),
        "/1.jsonl:2: event 'e-7': the captured body has no 'messages'; captures of chat endpoints are sent again, and no others"
    );
    assert!(refused(EndpointKind::Completions).starts_with("/1.jsonl:1: event 'c': holds messages"));
}
