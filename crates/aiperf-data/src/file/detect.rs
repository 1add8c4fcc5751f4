//! Which form a file has, where the user does not say it: what its first row shows.

use std::path::Path;

use aiperf_core::plan::{FileFormat, FilePlan};
use aiperf_core::text::for_terminal;
use aiperf_files::Input;
use serde_json::{Map, Value};

use super::burst_gpt::Columns;
use super::folder::is_jsonl;
use super::inputs_json::Shown;
use super::record::Form;
use super::records::files_below;
use super::row::broken;
use super::{bailian, baseten, lines, mooncake};
use crate::error::DataError;

/// A form, and what showed it, a line each for the user; none where it is the form that files have anyway.
type Detected = (Shape, Vec<String>);

/// Which reader reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Rows of a form.
    Rows(Form),
    /// Bodies in one document.
    InputsJson,
}

/// The form of `input`, as the user says it or the file shows it.
pub(super) fn shape_of(set: &FilePlan, input: &Input) -> Result<Detected, DataError> {
    let named = match set.format {
        FileFormat::Detect | FileFormat::RawPayload => return detect(input, set),
        FileFormat::InputsJson => return Ok((Shape::InputsJson, Vec::new())),
        FileFormat::SingleTurn => Form::SingleTurn,
        // The latter two are, once they are converted; an empty file is not.
        FileFormat::MultiTurn | FileFormat::ShareGpt | FileFormat::Chat => Form::MultiTurn,
        FileFormat::RandomPool => Form::RandomPool,
        FileFormat::SageMaker => Form::SageMaker,
        FileFormat::Mooncake => mooncake(set.block),
        FileFormat::Bailian => bailian(set.block),
        FileFormat::BurstGpt => return table(input),
        FileFormat::Baseten => completions(set),
    };
    Ok((Shape::Rows(named), Vec::new()))
}

fn mooncake(block: Option<usize>) -> Form {
    Form::Mooncake { block: block.unwrap_or(mooncake::BLOCK) }
}

fn bailian(block: Option<usize>) -> Form {
    Form::Bailian { block: block.unwrap_or(bailian::BLOCK) }
}

/// Recorded completions.
fn completions(set: &FilePlan) -> Form {
    Form::Baseten(baseten::Fields::of_lines(set.completions))
}

/// A file with a line of names, and those that are not read.
fn table(input: &Input) -> Result<Detected, DataError> {
    let path = &input.name;
    let Some((number, header)) = lines::first(input)? else {
        return Err(DataError::EmptyFile { path: path.clone() });
    };
    let (columns, unread) =
        Columns::find(&header).map_err(|problem| lines::placed_error(path, number, (None, problem)))?;
    let names: Vec<String> = unread.iter().map(|name| format!("'{}'", for_terminal(name, 40))).collect();
    let unread = format!("{}: columns that are not read: {}", path.display(), names.join(", "));
    let form = Shape::Rows(Form::BurstGpt(columns));
    Ok((form, if names.is_empty() { Vec::new() } else { vec![unread] }))
}

/// Keys of what a row has to send.
pub(super) const CONTENT: [&str; 8] =
    ["text", "texts", "image", "images", "audio", "audios", "video", "videos"];
/// Keys of a trace of lengths.
const TRACE: [&str; 3] = ["hash_ids", "input_length", "text_input"];
/// Forms that are told by a key of theirs and have to be named by the user, for they are not made of texts.
const OTHERS: [(&str, &str); 2] = [("messages", "raw_payload"), ("payloads", "inputs_json")];
/// Forms that are told by a key of theirs, or of their turns, and are not read yet.
const LATER: [(&str, &str); 3] =
    [("round_index", "tracelab"), ("orchestrator", "dag_jsonl"), ("question_id", "speed_bench_*")];
/// One document, perhaps over several lines.
const WEKA: (&str, &str) = ("hash_id_scope", "weka_trace");
const LATER_TURNS: [&str; 3] = ["messages", "forks", "spawns"];

/// The form that a row says it is of, of those that rows can say.
pub(super) fn named(kind: &str, block: Option<usize>) -> Option<Form> {
    match kind {
        "single_turn" => Some(Form::SingleTurn),
        "multi_turn" => Some(Form::MultiTurn),
        "mooncake_trace" => Some(mooncake(block)),
        "random_pool" => Some(Form::RandomPool),
        _ => None,
    }
}

/// Looks at the first row of `input`. What is no row at all is left to the reader of the form, which says what is wrong.
fn detect(input: &Input, set: &FilePlan) -> Result<Detected, DataError> {
    let block = set.block;
    let plain = (Shape::Rows(Form::SingleTurn), Vec::new());
    let path = &input.name;
    let shown = Shown::by(input)?;
    // What a row says that it is goes before what it looks like.
    let named = shown.kind.as_deref().and_then(|kind| named(kind, block));
    if shown.is_inputs && named.is_none() {
        let why = "there is a list 'data' of 'payloads'";
        let note = format!(
            "{}: read as inputs_json, for {why}; --custom-dataset-type says otherwise",
            path.display()
        );
        return Ok((Shape::InputsJson, vec![note]));
    }
    if named.is_none() && shown.keys.iter().any(|key| key == WEKA.0) {
        let (key, format) = WEKA;
        return Err(DataError::LaterForm { path: path.clone(), line: 1, key, format });
    }
    let Some((number, first)) = lines::first(input)? else { return Ok(plain) };
    let read_as = |form: Form, why: &str| {
        let (file, name) = (input.name.display(), form.kind().name());
        let note = format!(
            "{file}: read as {name}, for {why} in line {number}; --custom-dataset-type says otherwise"
        );
        Ok((Shape::Rows(form), vec![note]))
    };
    if Columns::are_in(&first) {
        let (shape, unread) = table(input)?;
        let why = format!(
            "{}: read as burst_gpt_trace, for its columns are named in line {number}",
            path.display()
        );
        return Ok((shape, std::iter::once(why).chain(unread).collect()));
    }
    let Ok(row) = serde_json::from_slice::<Map<String, Value>>(&first) else { return Ok(plain) };
    let has = |key: &str| row.get(key).is_some_and(|value| !value.is_null());
    let later = |key, format| Err(DataError::LaterForm { path: path.clone(), line: number, key, format });
    match named {
        Some(Form::SingleTurn) => return Ok(plain),
        Some(form) => return read_as(form, "its type says so"),
        None => {}
    }
    let has_content = CONTENT.into_iter().any(has);
    if !has_content && let Some((key, format)) = LATER.into_iter().find(|(key, _)| has(key)) {
        return later(key, format);
    }
    if let Some(turns) = row.get("turns").and_then(Value::as_array) {
        let of_turn = |key: &&str| turns.iter().any(|turn| turn.get(*key).is_some());
        if let Some(key) = LATER_TURNS.into_iter().find(of_turn) {
            return later(key, "dag_jsonl");
        }
        return read_as(Form::MultiTurn, "there is a list of 'turns'");
    }
    if has("chat_id") && has("input_length") {
        return read_as(bailian(block), "there is 'chat_id'");
    }
    if let Some(key) = TRACE.into_iter().find(|key| has(key)) {
        return read_as(mooncake(block), &format!("there is '{key}'"));
    }
    if baseten::NEEDED.into_iter().all(has) {
        return read_as(completions(set), &format!("there is '{}'", baseten::AT));
    }
    if has("captureData") && has("eventMetadata") {
        return read_as(Form::SageMaker, "there is 'captureData'");
    }
    match OTHERS.into_iter().find(|(key, _)| has(key)).filter(|_| !has_content) {
        Some((key, format)) => {
            Err(DataError::OtherForm { path: input.name.clone(), line: number, key, format })
        }
        None => Ok(plain),
    }
}

/// Looks at the first row of the first file of a folder, and of the first below it: the form of its rows, none if they are bodies.
pub(super) fn folder(path: &Path) -> Result<(Option<Form>, String), DataError> {
    let row_of = |file: &Path| -> Result<Option<Map<String, Value>>, DataError> {
        let Some((number, first)) = lines::first(&aiperf_files::open(file)?)? else { return Ok(None) };
        match serde_json::from_slice::<Value>(&first) {
            Ok(Value::Object(row)) => Ok(Some(row)),
            // A broken row shows nothing, and that it is broken is what helps.
            Err(error) if is_jsonl(file) => Err(lines::placed_error(file, number, broken(&error))),
            _ => Ok(Some(Map::new())),
        }
    };
    let note = |form: &str, file: &Path, key: &str, how: &str| {
        let (folder, file) = (path.display(), file.display());
        format!("{folder}: read as {form}, for there is '{key}' in the first row of {file}; {how}")
    };
    // None at all is nothing that shows a form; one that cannot be looked into is.
    let files = |form: Form| match files_below(path, form) {
        Err(DataError::NoJsonl { .. } | DataError::EmptyFile { .. }) => Ok(Vec::new()),
        found => found.map(|folder| folder.paths),
    };
    for file in files(Form::SageMaker)? {
        let Some(row) = row_of(&file)? else { continue };
        let has = |key: &str| row.get(key).is_some_and(|value| !value.is_null());
        if has("captureData") && has("eventMetadata") {
            let how = "rows of all files go in the order of their times";
            return Ok((Some(Form::SageMaker), note("sagemaker_data_capture", &file, "captureData", how)));
        }
        if file.parent() == Some(path) && row.get("messages").is_some_and(Value::is_array) {
            return Ok((None, note("raw_payload", &file, "messages", "each JSONL file is a conversation")));
        }
        break;
    }
    for file in files(Form::RandomPool)? {
        let Some(row) = row_of(&file)? else { continue };
        let is_there = |key: &&str| row.get(*key).is_some_and(|value| !value.is_null());
        if let Some(key) = CONTENT.into_iter().find(is_there) {
            return Ok((Some(Form::RandomPool), note("random_pool", &file, key, "each file is a pool")));
        }
        break;
    }
    Err(DataError::Folder { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn found(bytes: &str) -> Result<(Shape, bool), String> {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(bytes.as_bytes()).expect("written");
        let path = file.path().display().to_string();
        let input = aiperf_files::open(file.path()).expect("a file");
        let set = FilePlan { block: Some(8), ..crate::toys::file(file.path(), FileFormat::Detect) };
        let found = detect(&input, &set).map_err(|error| error.to_string().replace(&path, ""));
        found.map(|(form, notes)| (form, !notes.is_empty()))
    }

    #[test]
    fn the_first_row_tells() {
        let rows = |form, is_told| Ok((Shape::Rows(form), is_told));
        let (single, talk) = (rows(Form::SingleTurn, false), rows(Form::MultiTurn, true));
        let trace = rows(Form::Mooncake { block: 8 }, true);
        for (bytes, wanted) in [
            ("", &single),
            ("\n\nhello\n", &single),
            ("[1]\n", &single),
            ("{\"text\":\"a\"}\n{\"turns\":[]}\n", &single),
            ("{\"text\":\"a\",\"messages\":[]}\n", &single),
            ("{\"type\":\"single_turn\",\"turns\":[]}\n", &single),
            ("{}", &single),
            ("\n{\"turns\":[{\"text\":\"a\"}]}", &talk),
            ("{\"type\":\"multi_turn\"}", &talk),
            ("{\"timestamp\":0,\"input_length\":5,\"hash_ids\":[]}", &trace),
            ("{\"text_input\":\"a\"}", &trace),
            (
                "{\"chat_id\":1,\"timestamp\":0,\"input_length\":5,\"output_length\":1}",
                &rows(Form::Bailian { block: 8 }, true),
            ),
            ("{\"text\":\"a\",\"question_id\":1}", &single),
            ("{\"image\":\"a.png\",\"question_id\":1}", &single),
            ("{\"audios\":[\"a.wav\"],\"messages\":[]}", &single),
            ("{\"type\":\"multi_turn\",\"turns\":[{\"text\":\"a\"}],\"question_id\":1}", &talk),
            ("{\"hash_id_scope\":\"local\",\"type\":\"mooncake_trace\",\"input_length\":5}", &trace),
            ("{\"type\":\"single_turn\",\"data\":[{\"payloads\":[]}],\"text\":\"a\"}", &single),
            ("{\"type\":5,\"text\":\"a\"}", &single),
        ] {
            assert_eq!(&found(bytes), wanted, "{bytes}");
        }
        assert_eq!(
            found("\n{\"messages\":[]}\n"),
            Err(":2: 'messages' is a key of raw_payload; if the file is one, say so: --custom-dataset-type raw_payload"
                .to_owned())
        );
        let (columns, _) = Columns::find(b"Timestamp,Request tokens,Response tokens").expect("all are there");
        let table = "Timestamp,Request tokens,Response tokens\n1,2,3\n";
        assert_eq!(found(table), rows(Form::BurstGpt(columns), true));
        for (row, key, format) in [
            ("{\"session_id\":\"a\",\"turns\":[{\"messages\":[]}]}", "messages", "dag_jsonl"),
            ("{\"session_id\":\"a\",\"orchestrator\":true}", "orchestrator", "dag_jsonl"),
            ("{\"session_id\":\"a\",\"round_index\":0,\"input_tokens_total\":4}", "round_index", "tracelab"),
            ("{\"id\":\"a\",\"hash_id_scope\":\"local\",\"requests\":[]}", "hash_id_scope", "weka_trace"),
            ("{\"question_id\":\"a\",\"messages\":[]}", "question_id", "speed_bench_*"),
        ] {
            let said = format!(":1: '{key}' is a key of {format}, which this version does not read yet");
            assert_eq!(found(row), Err(said), "{row}");
        }
    }

    #[test]
    fn a_folder_is_told_by_its_first_file() {
        let folder_of = |files: &[(&str, &str)]| {
            let dir = tempfile::tempdir().expect("a temporary folder");
            for (name, text) in files {
                std::fs::write(dir.path().join(name), text).expect("written");
            }
            let found = folder(dir.path()).map(|(form, note)| (form, note.contains(": read as ")));
            found.map_err(|error| error.to_string().replace(&dir.path().display().to_string(), ""))
        };
        let bodies = [("a.jsonl", "\n"), ("b.jsonl", "{\"messages\":[]}\n"), ("a.txt", "x")];
        assert_eq!(folder_of(&bodies), Ok((None, true)));
        let pools = [("b.jsonl", "{\"texts\":[\"a\"]}\n"), ("c.jsonl", "x")];
        assert_eq!(folder_of(&pools), Ok((Some(Form::RandomPool), true)));
        let images = [("b.jsonl", "{\"image\":\"i.png\"}\n")];
        assert_eq!(folder_of(&images), Ok((Some(Form::RandomPool), true)));
        // A folder that cannot be looked into is told as such.
        let said = folder(Path::new("/no/such/folder")).expect_err("it is not there").to_string();
        assert!(said.starts_with("/no/such/folder: ") && !said.contains("JSONL"), "{said}");
        let said = folder_of(&[("b.jsonl", "\n{\"texts\": tru}\n")]).expect_err("it is broken");
        assert!(said.starts_with("/b.jsonl:2:") && said.contains("not valid JSON"), "{said}");
        let capture = [("b.jsonl", "{\"captureData\":{},\"eventMetadata\":{}}")];
        assert_eq!(folder_of(&capture), Ok((Some(Form::SageMaker), true)));
        let none = ": no JSONL file of the folder shows what it holds; --custom-dataset-type says it (raw_payload, random_pool and \
                    sagemaker_data_capture may be folders)";
        assert_eq!(folder_of(&[("a.jsonl", "{}")]), Err(none.to_owned()));
        assert_eq!(folder_of(&[]), Err(none.to_owned()));
    }

    #[test]
    fn a_document_is_known_whatever_its_lines_are() {
        let inputs = "{\n  \"version\": 1,\n  \"data\": [\n    {\n      \"payloads\": [{}]\n    }\n  ]\n}\n";
        assert_eq!(found(inputs), Ok((Shape::InputsJson, true)));
        assert_eq!(found("{\"data\":[{\"session_id\":\"a\"}]}"), Ok((Shape::Rows(Form::SingleTurn), false)));
        let weka = "{\n \"id\": \"a\",\n \"hash_id_scope\": \"local\"\n}";
        let said = ":1: 'hash_id_scope' is a key of weka_trace, which this version does not read yet";
        assert_eq!(found(weka), Err(said.to_owned()));
    }
}
