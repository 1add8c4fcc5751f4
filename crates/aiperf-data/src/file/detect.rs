//! Which form a file has, where the user does not say it: what its first row shows.

use std::path::Path;

use serde_json::{Map, Value};

use super::lines;
use super::record::Form;
use crate::error::DataError;

/// A form, and what showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Detected {
    pub(crate) form: Form,
    /// One line for the user; none where it is the form that files have anyway.
    pub(crate) note: Option<String>,
}

/// Forms that are told by a key of theirs, and have to be named by the user: they are not made of texts, or not read yet.
const OTHERS: [(&str, &str); 8] = [
    ("messages", "raw_payload"),
    ("hash_ids", "mooncake_trace"),
    ("input_length", "mooncake_trace"),
    ("text_input", "mooncake_trace"),
    ("chat_id", "bailian_trace"),
    ("captureData", "sagemaker_data_capture"),
    ("payloads", "inputs_json"),
    ("round_index", "tracelab"),
];

/// Looks at the first row of the file at `path`. What is no row at all is left to the reader of the form, which says what is wrong.
pub(crate) fn detect(path: &Path) -> Result<Detected, DataError> {
    let plain = Detected { form: Form::SingleTurn, note: None };
    let file = lines::open(path)?;
    let Some((number, first)) = lines::first(path, &file)? else { return Ok(plain) };
    let Ok(row) = serde_json::from_slice::<Map<String, Value>>(&first) else { return Ok(plain) };
    let talk = |why: &str| Detected {
        form: Form::MultiTurn,
        note: Some(format!(
            "{}: read as multi_turn, for {why} in line {number}; --custom-dataset-type says otherwise",
            path.display()
        )),
    };
    let has = |key: &str| row.get(key).is_some_and(|value| !value.is_null());
    match row.get("type").and_then(Value::as_str) {
        Some("multi_turn") => return Ok(talk("its type says so")),
        Some("single_turn") => return Ok(plain),
        _ if row.get("turns").is_some_and(Value::is_array) => return Ok(talk("there is a list of 'turns'")),
        _ => {}
    }
    let is_text = has("text") || has("texts");
    match OTHERS.into_iter().find(|(key, _)| has(key)).filter(|_| !is_text) {
        Some((key, format)) => Err(DataError::OtherForm { path: path.to_owned(), line: number, key, format }),
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
        let found = detect(file.path()).map_err(|error| error.to_string().replace(&path, ""));
        found.map(|found| (found.form, found.note.is_some()))
    }

    #[test]
    fn the_first_row_tells() {
        let (single, talk) = (Ok((Form::SingleTurn, false)), Ok((Form::MultiTurn, true)));
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
