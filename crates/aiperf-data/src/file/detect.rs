//! Which form a file has, where the user does not say it: what its first row shows.

use aiperf_core::plan::{FileFormat, FilePlan};
use aiperf_files::Input;
use serde_json::{Map, Value};

use super::lines;
use super::mooncake::BLOCK;
use super::record::Form;
use crate::error::DataError;

/// A form, and what showed it: one line for the user, none where it is the form that files have anyway.
type Detected = (Form, Option<String>);

/// The form of `input`, as the user says it or the file shows it.
pub(crate) fn form_of(set: &FilePlan, input: &Input) -> Result<Detected, DataError> {
    let named = match set.format {
        FileFormat::Detect | FileFormat::RawPayload => return detect(input, set.block),
        FileFormat::SingleTurn => Form::SingleTurn,
        FileFormat::MultiTurn => Form::MultiTurn,
        FileFormat::Mooncake => mooncake(set.block),
    };
    Ok((named, None))
}

fn mooncake(block: Option<usize>) -> Form {
    Form::Mooncake { block: block.unwrap_or(BLOCK) }
}

/// Keys of a trace of lengths.
const TRACE: [&str; 3] = ["hash_ids", "input_length", "text_input"];
/// Forms that are told by a key of theirs, and have to be named by the user: they are not made of texts, or not read yet.
const OTHERS: [(&str, &str); 5] = [
    ("messages", "raw_payload"),
    ("chat_id", "bailian_trace"),
    ("captureData", "sagemaker_data_capture"),
    ("payloads", "inputs_json"),
    ("round_index", "tracelab"),
];

/// Looks at the first row of `input`. What is no row at all is left to the reader of the form, which says what is wrong.
fn detect(input: &Input, block: Option<usize>) -> Result<Detected, DataError> {
    let plain = (Form::SingleTurn, None);
    let Some((number, first)) = lines::first(input)? else { return Ok(plain) };
    let Ok(row) = serde_json::from_slice::<Map<String, Value>>(&first) else { return Ok(plain) };
    let read_as = |form: Form, why: &str| {
        let (file, name) = (input.name.display(), form.kind().name());
        let note = format!(
            "{file}: read as {name}, for {why} in line {number}; --custom-dataset-type says otherwise"
        );
        Ok((form, Some(note)))
    };
    let has = |key: &str| row.get(key).is_some_and(|value| !value.is_null());
    match row.get("type").and_then(Value::as_str) {
        Some("multi_turn") => return read_as(Form::MultiTurn, "its type says so"),
        Some("mooncake_trace") => return read_as(mooncake(block), "its type says so"),
        Some("single_turn") => return Ok(plain),
        _ if row.get("turns").is_some_and(Value::is_array) => {
            return read_as(Form::MultiTurn, "there is a list of 'turns'");
        }
        _ => {}
    }
    if !has("chat_id")
        && !has("round_index")
        && let Some(key) = TRACE.into_iter().find(|key| has(key))
    {
        return read_as(mooncake(block), &format!("there is '{key}'"));
    }
    let is_text = has("text") || has("texts");
    match OTHERS.into_iter().find(|(key, _)| has(key)).filter(|_| !is_text) {
        Some((key, format)) => {
            Err(DataError::OtherForm { path: input.name.clone(), line: number, key, format })
        }
        None => Ok(plain),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn found(bytes: &str) -> Result<(Form, bool), String> {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(bytes.as_bytes()).expect("written");
        let path = file.path().display().to_string();
        let input = aiperf_files::open(file.path()).expect("a file");
        let found = detect(&input, Some(8)).map_err(|error| error.to_string().replace(&path, ""));
        found.map(|(form, note)| (form, note.is_some()))
    }

    #[test]
    fn the_first_row_tells() {
        let (single, talk) = (Ok((Form::SingleTurn, false)), Ok((Form::MultiTurn, true)));
        let trace = Ok((Form::Mooncake { block: 8 }, true));
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
        ] {
            assert_eq!(&found(bytes), wanted, "{bytes}");
        }
        assert_eq!(
            found("\n{\"messages\":[]}\n"),
            Err(":2: 'messages' is a key of raw_payload; if the file is one, say so: --custom-dataset-type raw_payload"
                .to_owned())
        );
    }
}
