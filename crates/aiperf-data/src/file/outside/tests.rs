use std::path::Path;

use aiperf_core::plan::{ColumnsPlan, DatasetPlan, EndpointKind, FileFormat, FilePlan, LengthPlan};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use super::*;
use crate::toys::{self, Cut, Toy, context, plan};
use crate::workload::Visit;

/// What is sent of a file: system message, and text and limit of each turn.
type Sent = Vec<(Option<String>, Vec<(String, Option<u64>)>)>;

struct Set {
    plan: FilePlan,
    api: EndpointKind,
    counts: bool,
}

fn set(format: FileFormat) -> Set {
    let plan = toys::file(Path::new("none"), format);
    Set { plan, api: EndpointKind::Chat, counts: true }
}

/// What is sent of the file `name` that holds `bytes`, and what is told of it, without its place.
fn open(set: &Set, name: &str, bytes: &[u8]) -> Result<(Sent, Vec<String>), String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    let place = format!("{}/", folder.path().display());
    open_at(set, &path)
        .map_err(|e| e.replace(&place, ""))
        .map(|(sent, notes)| (sent, notes.into_iter().map(|note| note.replace(&place, "")).collect()))
}

fn open_at(set: &Set, path: &Path) -> Result<(Sent, Vec<String>), String> {
    let file = FilePlan { path: path.to_owned(), ..set.plan.clone() };
    let plan = plan(DatasetPlan::File(file), set.api);
    let tokenizer = set.counts.then(|| Toy::shared(Cut::Letters));
    let workload = crate::open(&plan, tokenizer, context()).map_err(|error| error.to_string())?;
    let sent = (0..workload.len()).map(|i| {
        let talk = workload.conversation(i, Visit::default()).expect("it was checked");
        assert_eq!(talk.turns.len(), workload.turn_count(i));
        let turns = talk.turns.into_iter().map(|turn| (turn.texts.concat(), turn.max_tokens)).collect();
        (talk.system, turns)
    });
    Ok((sent.collect(), workload.describe().notes))
}

fn one(text: &str, limit: Option<u64>) -> (Option<String>, Vec<(String, Option<u64>)>) {
    (None, vec![(text.to_owned(), limit)])
}

/// ShareGPT with the texts of each conversation, from the two sides in turn.
fn sharegpt(talks: &[&[&str]]) -> String {
    let message =
        |(i, text): (usize, &&str)| json!({"from": if i % 2 == 0 { "human" } else { "gpt" }, "value": text});
    let talk = |(i, texts): (usize, &&[&str])| json!({"id": format!("t{i}"), "conversations": texts.iter().enumerate().map(message).collect::<Vec<_>>()});
    serde_json::to_string_pretty(&talks.iter().enumerate().map(talk).collect::<Vec<_>>()).expect("JSON")
}

#[test]
fn sharegpt_is_known_and_each_answered_prompt_is_a_turn() {
    let file = sharegpt(&[&["hello", "world!"], &["first", "reply", "second", "replies", "unanswered"]]);
    let (sent, notes) = open(&set(FileFormat::Detect), "s.json", file.as_bytes()).expect("a good file");
    let second = (None, vec![("first".to_owned(), Some(5)), ("second".to_owned(), Some(7))]);
    assert_eq!(sent, [one("hello", Some(6)), second]);
    assert_eq!(
        notes,
        [
            "s.json: read as sharegpt, for there is a list of 'conversations' with 'value' in element 1; --custom-dataset-type says otherwise"
        ]
    );
    // Lines are as good, packed ones too.
    let lines: Vec<String> =
        serde_json::from_str::<Vec<Value>>(&file).expect("JSON").iter().map(Value::to_string).collect();
    let (again, _) =
        open(&set(FileFormat::Detect), "s.jsonl", lines.join("\n").as_bytes()).expect("a good file");
    assert_eq!(again, sent);
}

#[test]
fn pairs_are_those_of_aiperf() {
    let said = |messages: Value| {
        let list = messages.as_array().expect("a list").clone();
        Talk::of_pairs(&list)
            .map(|talk| talk.turns.into_iter().map(|t| (t.text, t.reply)).collect::<Vec<_>>())
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let human = |text: &str| json!({"from": "human", "value": text});
    let gpt = |text: &str| json!({"from": "gpt", "value": text});
    let system = json!({"from": "system", "value": "s"});
    assert_eq!(said(json!([system, human("a"), gpt("b")])), Ok(vec![pair("a", "b")]));
    assert_eq!(said(json!([gpt("x"), human("a"), human("b"), gpt("c")])), Ok(vec![pair("b", "c")]));
    assert_eq!(said(json!([human("a"), gpt(""), human("b"), gpt("c")])), Ok(vec![pair("b", "c")]));
    assert_eq!(said(json!([{"value": "a"}, {"value": "b"}, {"value": "c"}])), Ok(vec![pair("a", "b")]));
    assert_eq!(said(json!([human("a")])), Err(LeftOut::NoPair));
    assert_eq!(said(json!([{"value": "a"}])), Err(LeftOut::NoPair));
    assert_eq!(said(json!([])), Err(LeftOut::NoPair));
}

#[test]
fn lengths_that_are_not_usual_leave_a_conversation_out_and_are_told() {
    let (long, longest) = ("p".repeat(1024), "p".repeat(1025));
    let reply = "r".repeat(1025);
    let talks: &[&[&str]] = &[
        &["good", "good"],
        &["abc", "good"],
        &[&longest, "good"],
        &[&long, "good"],
        &["good", "bad"],
        &[&long, &reply],
        &["good", "good", "ab", "good"],
        &[],
    ];
    let file = sharegpt(talks);
    let (sent, notes) = open(&set(FileFormat::ShareGpt), "s.json", file.as_bytes()).expect("a good file");
    assert_eq!(sent, [one("good", Some(4)), one(&long, Some(4))]);
    assert_eq!(
        notes,
        [
            "s.json: 6 of 8 elements are left out: 5 with a prompt that is not 4 to 1024 tokens long, a reply below 4, or more than 2048 \
          together (the first is element 2); 1 without a prompt that was answered (element 8)"
        ]
    );
    // With a length of the user's own a reply may be short, and still is what it was.
    let mut own = set(FileFormat::ShareGpt);
    own.plan.osl = Some(LengthPlan::normal(64.0, 0.0));
    let (sent, _) = open(&own, "s.json", file.as_bytes()).expect("a good file");
    assert_eq!(sent, [one("good", Some(4)), one(&long, Some(4)), one("good", Some(3))]);
    own.plan.entries = Some(1);
    let (sent, notes) = open(&own, "s.json", file.as_bytes()).expect("a good file");
    assert_eq!(sent, [one("good", Some(4))]);
    // Nobody looked further.
    assert_eq!(notes, ["s.json: every row says its output length, so that --osl has no effect"]);
    own.counts = false;
    let said = open(&own, "s.json", file.as_bytes()).expect_err("nothing counts");
    assert!(said.starts_with("s.json: what is sent of ShareGPT is chosen by its lengths"), "{said}");
    let said = open(&set(FileFormat::ShareGpt), "s.json", sharegpt(&[&["a", "b"]]).as_bytes());
    assert!(
        said.expect_err("nothing is left")
            .starts_with("s.json: none of its 1 elements can be sent: 1 with a prompt")
    );
}

#[test]
fn messages_become_turns() {
    let rows = r#"[
        {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one"},
                      {"role": "assistant", "content": "two!"}, {"role": "user", "content": [{"type": "text", "text": "three"}]}]},
        {"messages": [{"role": "assistant", "content": "Hi."}, {"role": "user", "content": "a"}, {"role": "user", "content": "b"},
                      {"role": "assistant", "content": "cd"}, {"role": "assistant", "content": null}]},
        {"messages": [{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        {"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]},
        {"messages": []},
        {"messages": null}
    ]"#;
    let (sent, notes) = open(&set(FileFormat::Detect), "a.json", rows.as_bytes()).expect("a good file");
    let first = (Some("Be brief.".to_owned()), vec![("one".to_owned(), Some(4)), ("three".to_owned(), None)]);
    assert_eq!(sent, [first, one("a\n\nb", Some(2))]);
    assert_eq!(
        notes,
        [
            "a.json: read as chat, messages from 'messages'; --dataset-prompt-column and the like say otherwise",
            "a.json: 5 of 7 elements are left out: 2 without a prompt (the first is element 6); 1 with messages of neither side, such as of \
             'tool' (element 3); 1 with contents that are no text, such as 'image_url' (element 4); 1 with a system message between turns \
             (element 5)"
        ]
    );
    // An API that has one turn and no system message gets the first.
    let embeddings = Set { api: EndpointKind::Embeddings, ..set(FileFormat::Chat) };
    let (sent, notes) = open(&embeddings, "a.json", rows.as_bytes()).expect("a good file");
    assert_eq!(sent, [one("one", None), one("a\n\nb", None)]);
    let told = |words: &str| notes.iter().any(|note| note.contains(words));
    assert!(told("of 1 conversations the first turn alone is sent"), "{notes:?}");
    assert!(told("the system messages of 1 conversations are left out"), "{notes:?}");
}

#[test]
fn columns_have_usual_names_or_those_that_the_user_says() {
    let table =
        "id,question,answer,system,n\n1,\"Say \"\"a,\nb\"\"\",abc,Be kind.,7\n2,,x,,\n3,why?,because,,\n";
    let (sent, notes) = open(&set(FileFormat::Detect), "q.csv", table.as_bytes()).expect("a good table");
    let kind = |text: &str, limit| (Some("Be kind.".to_owned()), vec![(text.to_owned(), limit)]);
    assert_eq!(sent, [kind("Say \"a,\nb\"", None), one("why?", None)]);
    assert_eq!(
        notes,
        [
            "q.csv: read as chat, prompts from 'question', system messages from 'system'; --dataset-prompt-column and the like say otherwise",
            "q.csv: names that are not read: 'answer', 'n'",
            "q.csv: 1 of 3 rows is left out: 1 without a prompt (row 2)"
        ]
    );
    let mut named = set(FileFormat::Chat);
    named.plan.columns = ColumnsPlan {
        prompt: Some("question".to_owned()),
        reply: Some("answer".to_owned()),
        output: Some("n".to_owned()),
        ..ColumnsPlan::default()
    };
    // A length that is said counts before one that is counted.
    let wanted = [kind("Say \"a,\nb\"", Some(7)), one("why?", Some(7))];
    assert_eq!(open(&named, "q.csv", table.as_bytes()).expect("a good table").0, wanted);
    let tabs = table.replace(',', "\t").replace("a\t\nb", "a,\nb");
    assert_eq!(open(&named, "q.tsv", tabs.as_bytes()).expect("a good table").0, wanted);
    let marked = [b"\xef\xbb\xbf", table.as_bytes()].concat();
    assert_eq!(open(&named, "q", &marked).expect("a good table").0, wanted);
    let lines =
        "{\"question\":\"why?\",\"answer\":\"so\",\"n\":null}\n\n{\"question\":\"who?\",\"n\":\"12\"}\n";
    let sent = open(&named, "q.jsonl", lines.as_bytes()).expect("good lines").0;
    assert_eq!(sent, [one("why?", Some(2)), one("who?", Some(12))]);

    named.plan.columns.reply = Some("reply".to_owned());
    assert_eq!(
        open(&named, "q.csv", table.as_bytes()).map(|_| ()),
        Err("q.csv: has no 'reply', which --dataset-response-column names; it has 'id', 'question', 'answer', 'system', 'n'".to_owned())
    );
    let talks =
        open(&set(FileFormat::ShareGpt), "q.csv", table.as_bytes()).expect_err("it has no conversations");
    assert!(talks.contains("has no 'conversations', which sharegpt has; it has 'id', 'question'"), "{talks}");
    assert_eq!(open(&named, "q.jsonl", b" \n").map(|_| ()), Err("q.jsonl: holds no rows".to_owned()));
    let said = open(&set(FileFormat::Detect), "q.csv", b"a,b\n1,2\n").expect_err("nothing is known of it");
    assert!(
        said.starts_with(
            "q.csv: which column says what is sent? It has 'a', 'b'; name one with --dataset-prompt"
        ),
        "{said}"
    );
}

#[test]
fn output_lengths_that_are_none_are_bad_rows() {
    let chat = set(FileFormat::Chat);
    for (found, shown) in [("-5", "\"-5\""), ("many", "\"many\""), ("7.5", "\"7.5\""), ("0", "\"0\"")] {
        let table = format!("prompt,output_tokens\na,12\n,bad\nb,{found}\n");
        let said = open(&chat, "q.csv", table.as_bytes()).expect_err("a bad length");
        let wanted = "'output_tokens' must be a whole number above 0, the output length, not";
        assert_eq!(said, format!("q.csv: row 3: {wanted} {shown}"));
    }
    let lines = b"{\"prompt\":\"a\",\"output_length\":4}\n{\"prompt\":\"b\",\"output_length\":[1]}\n";
    let said = open(&chat, "q.jsonl", lines).expect_err("no number");
    assert_eq!(said, "q.jsonl:2: 'output_length' must be a whole number above 0, the output length, not [1]");
    let list = b"[{\"prompt\":\"a\",\"output_length\":3.0},{\"prompt\":\"b\",\"output_length\":true}]";
    let said = open(&chat, "q.json", list).expect_err("no number");
    assert_eq!(
        said,
        "q.json: element 2: 'output_length' must be a whole number above 0, the output length, not true"
    );
    let mut skip = set(FileFormat::Chat);
    skip.plan.bad_rows = BadRows::Skip;
    let (sent, notes) = open(&skip, "q.json", list).expect("the other is good");
    assert_eq!(sent, [one("a", Some(3))]);
    assert!(notes.iter().any(|note| note.contains("1 that cannot be read (element 2)")), "{notes:?}");
}

#[test]
fn rows_of_our_own_forms_stay_what_they_are() {
    for line in [r#"{"text":"a"}"#, r#"{"turns":[{"text":"a"}]}"#, r#"{"text_input":"a","prompt":"b"}"#] {
        let (sent, notes) = open(&set(FileFormat::Detect), "a.jsonl", line.as_bytes()).expect("a good row");
        assert_eq!(sent, [one("a", None)], "{line}");
        assert!(notes.iter().all(|note| !note.contains("read as chat")), "{notes:?}");
    }
    let image = br#"{"image":"http://h/i.png","prompt":"b"}"#;
    let (sent, notes) = open(&set(FileFormat::Detect), "a.jsonl", image).expect("a good row");
    assert_eq!(sent, [one("", None)]);
    assert!(notes.iter().all(|note| !note.contains("read as chat")), "{notes:?}");
    let typed = br#"{"type":"single_turn","prompt":"b"}"#;
    let said = open(&set(FileFormat::Detect), "a.jsonl", typed).expect_err("a row without a text");
    assert!(said.starts_with("a.jsonl:1: holds nothing to send"), "{said}");
    let said =
        open(&set(FileFormat::Detect), "a.jsonl", br#"{"messages":[]}"#).expect_err("it may be a body");
    assert!(said.contains("raw_payload"), "{said}");
    let (sent, notes) = open(&set(FileFormat::Detect), "a.jsonl", b"{\"prompt\":\"a\"}\n").expect("a prompt");
    assert_eq!((sent, notes.len()), (vec![one("a", None)], 1));
}

#[test]
fn a_row_of_another_s_names_tells_the_option_that_names_them() {
    let talk = br#"{"conversation":[{"role":"user","content":"hello"}]}"#;
    let said = open(&set(FileFormat::Detect), "a.jsonl", talk).expect_err("no name that is known");
    assert!(said.ends_with("if 'conversation' holds it, say so with --dataset-messages-column"), "{said}");
    let said =
        open(&set(FileFormat::Detect), "a.jsonl", br#"{"role":"user","ask":"hello"}"#).expect_err("nor this");
    assert!(said.ends_with("if 'ask' holds it, say so with --dataset-prompt-column"), "{said}");
    let mut named = set(FileFormat::Detect);
    named.plan.columns.messages = Some("conversation".into());
    let (sent, notes) = open(&named, "a.jsonl", talk).expect("as it says");
    assert_eq!(sent, [one("hello", None)]);
    assert_eq!(
        notes,
        ["a.jsonl: read as chat, for its columns are named; --custom-dataset-type says otherwise"]
    );
}

#[test]
fn columns_that_are_named_are_never_passed_over() {
    let named = |prompt: &str| {
        let mut set = set(FileFormat::Detect);
        set.plan.columns.prompt = Some(prompt.into());
        set
    };
    let (sent, _) = open(&named("text"), "a.jsonl", b"{\"text\":\"a\"}\n").expect("a prompt by another name");
    assert_eq!(sent, vec![one("a", None)]);
    for (name, bytes) in [
        ("a.json", "{\"data\":[{\"session_id\":\"a\",\"payloads\":[{\"messages\":[]}]}]}"),
        ("a.csv", "Timestamp, Request tokens,Response tokens\n1,2,3\n"),
        ("a.txt", "just words\n"),
    ] {
        let said = open(&named("x"), name, bytes.as_bytes()).expect_err(name);
        assert!(said.starts_with(&format!("{name}: has no columns that")), "{said}");
    }
    let said = open(
        &set(FileFormat::Detect),
        "a.csv",
        b"timestamp_start_unix_ms,prompt,input_tokens,output_tokens\n",
    )
    .expect_err("a trace in other clothes");
    assert_eq!(
        said,
        "a.csv: baseten_trace is read from Parquet, JSONL or a JSON list; CSV has no lists, which it needs"
    );
}

#[test]
fn files_that_are_broken_say_where() {
    let refusal =
        |format, name: &str, text: &str| open(&set(format), name, text.as_bytes()).expect_err("a bad file");
    let chat = FileFormat::Chat;
    assert_eq!(
        refusal(chat, "a.json", "[{\"prompt\":\"a\"}, 5]"),
        "a.json: element 2: a row must be a JSON object, not 5"
    );
    assert_eq!(
        refusal(chat, "a.json", "[{\"prompt\":\"a\"}, {\"pro"),
        "a.json:1:22: the row ends in the middle of its JSON; is the file cut off?"
    );
    assert_eq!(
        refusal(chat, "a.json", "[{\"prompt\":\"a\"}\n {}]"),
        "a.json:2:2: not valid JSON: expected `,` or `]`"
    );
    assert_eq!(
        refusal(chat, "a.json", "[{\"prompt\":\"a\"}] x"),
        "a.json:1:18: not valid JSON: trailing characters"
    );
    assert_eq!(
        refusal(chat, "a.jsonl", "{\"prompt\":\"a\"}\n{\"prompt\""),
        "a.jsonl:2:9: the row ends in the middle of its JSON; is the file cut off?"
    );
    assert_eq!(
        refusal(chat, "a.csv", "prompt,b\n1,2\n3\n"),
        "a.csv: cannot be read as CSV: CSV error: record 2 (line: 3, byte: 13): found record with 1 fields, but the previous record has 2 \
         fields"
    );
    for (text, row) in
        [("x,prompt\n1,\"cut off", 1), ("x,prompt\n1,a\n2,\"say \"\"so\"\"\n", 2), ("x,prompt\n1,\"", 1)]
    {
        assert_eq!(
            refusal(chat, "a.csv", text),
            format!(
                "a.csv: cannot be read as CSV: row {row}: the file ends between the quotes of a cell; is it cut off?"
            )
        );
    }
    for text in
        ["x,prompt\n1,\"whole\"", "x,prompt\n1,5\"", "x,prompt\r\n1,\"a \"\"b\"\"\"\r\n", "prompt,x\na,\"\""]
    {
        let said = open(&set(chat), "a.csv", text.as_bytes()).map(|_| ());
        assert!(said.is_ok(), "{text}: {said:?}");
    }
    assert_eq!(
        refusal(chat, "a.csv", "prompt,prompt\n1,2\n"),
        "a.csv: cannot be read as CSV: two columns are called 'prompt'"
    );
    assert_eq!(
        refusal(chat, "a.csv", "\0prompt,b\n1,2\n"),
        "a.csv: cannot be read as CSV: the name of column 1 has a character that is not seen: \"\\0prompt\""
    );
    let mut skip = set(chat);
    skip.plan.bad_rows = BadRows::Skip;
    for (name, text) in [
        ("a.json", "[7, {\"prompt\":\"a\"}, [], {\"prompt\":\"b\"}]"),
        ("a.jsonl", "{\"\n{\"prompt\":\"a\"}\n[]\n{\"prompt\":\"b\"}\n"),
        ("a.csv", "prompt,x\na,1\nc\nb,2\nd,3,4\n"),
    ] {
        let (sent, notes) = open(&skip, name, text.as_bytes()).expect("some are good");
        assert_eq!(sent, [one("a", None), one("b", None)]);
        let said = |words: &str| notes.iter().any(|note| note.contains(words));
        assert!(said("2 that cannot be read (the first is"), "{notes:?}");
        assert_eq!(said("a.csv: names that are not read: 'x'"), name == "a.csv", "{notes:?}");
    }
    assert_eq!(refusal(chat, "a.json", "[]"), "a.json: holds no rows");
    assert_eq!(refusal(chat, "a.csv", "prompt\n"), "a.csv: holds no rows");
    assert_eq!(refusal(chat, "a.csv", ""), "a.csv: holds no rows");
    assert!(
        refusal(chat, "a.parquet", "PAR1 and no more").starts_with("a.parquet: cannot be read as Parquet: ")
    );
}

/// A table with a prompt, a length, and a column of messages, in groups of two rows.
fn parquet(packing: parquet::basic::Compression) -> Vec<u8> {
    let schema = "message schema {
        optional binary prompt (UTF8);
        optional int64 output_tokens;
        optional group messages (LIST) { repeated group list { optional group element {
            optional binary role (UTF8); optional binary content (UTF8); } } }
    }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let properties = WriterProperties::builder().set_compression(packing).build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema, properties.into()).expect("into memory");
    let bytes = |texts: &[&str]| texts.iter().map(|text| ByteArray::from(*text)).collect::<Vec<_>>();
    for (prompts, lengths) in
        [([Some("東京?"), None], [Some(9), None]), ([Some("c"), Some("d")], [None, Some(3)])]
    {
        let mut group = file.next_row_group().expect("into memory");
        let mut at = 0;
        while let Some(mut column) = group.next_column().expect("into memory") {
            let there = |is_there: bool| i16::from(is_there);
            match at {
                0 => {
                    let texts: Vec<&str> = prompts.into_iter().flatten().collect();
                    let levels = prompts.map(|p| there(p.is_some()));
                    column.typed::<ByteArrayType>().write_batch(&bytes(&texts), Some(&levels), None)
                }
                1 => {
                    let numbers: Vec<i64> = lengths.into_iter().flatten().collect();
                    let levels = lengths.map(|l| there(l.is_some()));
                    column.typed::<Int64Type>().write_batch(&numbers, Some(&levels), None)
                }
                _ => {
                    let texts = if at == 2 { ["user", "assistant"] } else { ["hey", "you"] };
                    // Two messages in the first row, no list in the second.
                    column.typed::<ByteArrayType>().write_batch(
                        &bytes(&texts),
                        Some(&[4, 4, 0]),
                        Some(&[0, 1, 0]),
                    )
                }
            }
            .expect("into memory");
            column.close().expect("into memory");
            at += 1;
        }
        group.close().expect("into memory");
    }
    file.into_inner().expect("into memory")
}

#[test]
fn parquet_is_read_group_after_group() {
    use parquet::basic::{Compression, GzipLevel};
    let mut named = set(FileFormat::Detect);
    named.plan.columns.prompt = Some("prompt".to_owned());
    for packing in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::LZ4_RAW,
        Compression::GZIP(GzipLevel::default()),
    ] {
        let table = parquet(packing);
        let (sent, notes) = open(&named, "p.parquet", &table).expect("a good table");
        assert_eq!(sent, [one("東京?", Some(9)), one("c", None), one("d", Some(3))], "{packing}");
        assert_eq!(notes[1], "p.parquet: names that are not read: 'messages'");
        assert!(notes[2].contains("1 of 4 rows is left out: 1 without a prompt (row 2)"), "{notes:?}");
        let (talks, _) = open(&set(FileFormat::Detect), "p", &table).expect("a good table");
        assert_eq!(talks, [one("hey", Some(3)), one("hey", Some(3))], "{packing}");
    }
    let table = parquet(Compression::UNCOMPRESSED);
    assert!(open(&named, "p", &table[..table.len() / 2]).is_err());
    for at in (0..table.len()).step_by(7) {
        let mut damaged = table.clone();
        damaged[at] ^= 0x55;
        // Whatever comes of it: nobody falls over it.
        let _ = open(&named, "p", &damaged);
    }
}

#[test]
fn a_cell_that_is_no_text_is_told_with_its_row_and_left_out_where_it_may_be() {
    let schema = parse_message_type("message schema { required binary prompt; }").expect("a schema");
    let mut file =
        SerializedFileWriter::new(Vec::new(), Arc::new(schema), WriterProperties::default().into())
            .expect("into memory");
    let mut group = file.next_row_group().expect("into memory");
    let mut column = group.next_column().expect("into memory").expect("one column");
    let cells = [ByteArray::from("good"), ByteArray::from(vec![0xff, 0xfe])];
    column.typed::<ByteArrayType>().write_batch(&cells, None, None).expect("into memory");
    column.close().expect("into memory");
    group.close().expect("into memory");
    let table = file.into_inner().expect("into memory");
    let mut set = set(FileFormat::Chat);
    let said = open(&set, "p.parquet", &table).expect_err("a broken cell");
    assert_eq!(said, "p.parquet: row 2, column 'prompt': is not UTF-8");
    set.plan.bad_rows = BadRows::Skip;
    let (sent, notes) = open(&set, "p.parquet", &table).expect("one is good");
    assert_eq!(sent, [one("good", None)]);
    assert!(
        notes.iter().any(|note| note.contains("1 of 2 rows is left out: 1 that cannot be read")),
        "{notes:?}"
    );
}

/// A table of recorded completions with lists of ids, two rows.
fn completions() -> Vec<u8> {
    let schema = "message schema {
        required int64 timestamp_start_unix_ms; optional binary prompt (UTF8); optional int64 input_tokens; optional int64 output_tokens;
        optional group total_hashes (LIST) { repeated group list { optional int64 element; } }
        optional int64 duration_ttft_ms; optional binary poor_man_session_id (UTF8);
    }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let mut file = SerializedFileWriter::new(Vec::new(), schema, WriterProperties::default().into())
        .expect("into memory");
    let mut group = file.next_row_group().expect("into memory");
    let mut at = 0;
    while let Some(mut column) = group.next_column().expect("into memory") {
        let there = Some(&[1, 1][..]);
        let texts = |texts: [&str; 2]| texts.map(ByteArray::from);
        match at {
            0 => column.typed::<Int64Type>().write_batch(&[1_700_000_000_040, 1_700_000_000_000], None, None),
            1 => column.typed::<ByteArrayType>().write_batch(&texts(["東京?", "second"]), there, None),
            4 => column.typed::<Int64Type>().write_batch(&[11, 12], Some(&[3, 3, 0]), Some(&[0, 1, 0])),
            6 => column.typed::<ByteArrayType>().write_batch(&texts(["s", "s"]), there, None),
            _ => column.typed::<Int64Type>().write_batch(&[9, 4], there, None),
        }
        .expect("into memory");
        column.close().expect("into memory");
        at += 1;
    }
    group.close().expect("into memory");
    file.into_inner().expect("into memory")
}

#[test]
fn completions_are_read_from_parquet() {
    let table = completions();
    let turns = vec![("second".to_owned(), Some(4)), ("東京?".to_owned(), Some(9))];
    for format in [FileFormat::Detect, FileFormat::Baseten] {
        let (sent, notes) = open(&set(format), "b.parquet", &table).expect("a good table");
        assert_eq!(sent, [(None, turns.clone())]);
        let unread = "b.parquet: columns that are not read: 'duration_ttft_ms'".to_owned();
        assert!(notes.contains(&unread), "{notes:?}");
        assert_eq!(
            notes[0].starts_with("b.parquet: read as baseten_trace, for there are "),
            format == FileFormat::Detect
        );
    }
    let chat = open(&set(FileFormat::Chat), "b.parquet", &table).expect("a good table").0;
    assert_eq!(chat.len(), 2, "whoever says that it is prompts has them");
    assert!(open(&set(FileFormat::Baseten), "p", &parquet(parquet::basic::Compression::SNAPPY)).expect_err("other columns").starts_with(
        "p: no column is called 'timestamp_start_unix_ms', which baseten_trace has; there are 'prompt', 'output_tokens', 'messages'"
    ));
}

proptest! {
    /// Whatever is said: each pair of a human and the gpt right behind it is a turn, in order, and nothing else is.
    #[test]
    fn pairs_stay_in_order(sides in prop::collection::vec((0..3usize, "[a-z]{0,2}"), 0..12)) {
        let names = ["human", "gpt", "system"];
        let messages: Vec<Value> = sides.iter().map(|(side, text)| json!({"from": names[*side], "value": text})).collect();
        let told: Vec<&(usize, String)> = sides.iter().filter(|(side, _)| *side < 2).collect();
        let wanted: Vec<(String, String)> = told
            .windows(2)
            .filter(|pair| pair[0].0 == 0 && pair[1].0 == 1 && !pair[0].1.is_empty() && !pair[1].1.is_empty())
            .map(|pair| (pair[0].1.clone(), pair[1].1.clone()))
            .collect();
        let found = Talk::of_pairs(&messages)
            .map_or(Vec::new(), |talk| talk.turns.into_iter().map(|turn| (turn.text, turn.reply)).collect());
        if told.is_empty() {
            // Nobody has a name: the first two are the pair, whoever they are.
            prop_assert!(found.len() <= 1);
        } else {
            prop_assert_eq!(found, wanted);
        }
    }

    /// Whatever is in the texts, each comes back from a list, from lines, from CSV.
    #[test]
    fn any_text_comes_back(texts in prop::collection::vec("\\PC*[a-z]\\PC*", 1..6)) {
        let mut named = set(FileFormat::Chat);
        named.plan.columns.prompt = Some("p".to_owned());
        let rows: Vec<Value> = texts.iter().map(|text| json!({"p": text})).collect();
        let lines = rows.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
        let mut table = csv::Writer::from_writer(Vec::new());
        table.write_record(["p", "q"]).expect("into memory");
        for text in &texts {
            table.write_record([text.as_str(), "x"]).expect("into memory");
        }
        let table = table.into_inner().expect("into memory");
        let wanted: Vec<_> = texts.iter().map(|text| one(text, None)).collect();
        for bytes in [Value::from(rows).to_string().into_bytes(), lines.into_bytes(), table] {
            prop_assert_eq!(open(&named, "x", &bytes).expect("good rows").0, wanted.clone());
        }
    }
}
