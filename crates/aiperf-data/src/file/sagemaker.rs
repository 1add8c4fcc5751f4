//! `sagemaker_data_capture`: what Amazon SageMaker recorded of requests to an endpoint. A row has the body of one, and when it
//! came; its messages are sent again.

use aiperf_core::plan::EndpointKind;
use aiperf_core::text::for_terminal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::mooncake::{lay_messages, messages_of};
use super::record::Record;
use super::row::{Placed, Row, broken, length, moment_ns, read, shown, string, wrong};
use crate::error::RowProblem;

/// Keys of a row, of its parts and of the metadata, which say nothing that could be sent.
const ROW: [&str; 1] = ["eventVersion"];
const CAPTURE: [&str; 1] = ["endpointOutput"];
const INPUT: [&str; 3] = ["observedContentType", "mode", "encoding"];
const EVENT: [&str; 4] = ["eventId", "inferenceId", "customAttributes", "invocationSource"];
/// What the options of a run say anew.
const ANEW: [&str; 2] = ["model", "stream"];
/// Limits of the answer, the first before the second, as AIPerf takes them.
const LIMITS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// Reads a line for requests of the type `api`.
pub(super) fn parse(line: &[u8], api: EndpointKind) -> Result<Record, Placed> {
    let value = read(line)?;
    let Value::Object(map) = value else {
        return Err((None, RowProblem::NotAnObject { found: shown(&value) }));
    };
    let id = map.get("eventMetadata").and_then(|event| event.get("eventId")).and_then(Value::as_str);
    let id = id.map(|id| for_terminal(id, 60));
    record(map, api).map_err(|problem| match id {
        Some(id) => (None, RowProblem::InEvent { id, problem: Box::new(problem) }),
        None => (None, problem),
    })
}

fn record(mut map: Map<String, Value>, api: EndpointKind) -> Result<Record, RowProblem> {
    const FORM: &str = "sagemaker_data_capture";
    let mut record = Record::default();
    let mut event = object(&mut map, "eventMetadata")?;
    let time = event.shift_remove("inferenceTime");
    let time = time.ok_or(RowProblem::Lacks { field: "eventMetadata.inferenceTime", form: FORM })?;
    let mut capture = object(&mut map, "captureData")?;
    let mut input = object(&mut capture, "endpointInput")?;
    let data = match input.shift_remove("data") {
        None | Some(Value::Null) => {
            return Err(RowProblem::Lacks { field: "captureData.endpointInput.data", form: FORM });
        }
        Some(data) => string("captureData.endpointInput.data", data)?,
    };
    let mut body = decoded(&data, input.get("encoding"))?;
    let messages = body.shift_remove("messages");
    let messages = messages.ok_or(RowProblem::NoCapturedMessages)?;
    let mut row = Row { at_ns: Some(moment(&time)?), ..Row::default() };
    for limit in LIMITS {
        match body.shift_remove(limit) {
            None | Some(Value::Null) => {}
            Some(tokens) if row.output_length.is_none() => row.output_length = Some(length(limit, &tokens)?),
            Some(_) => {}
        }
    }
    match body.shift_remove("tools") {
        None | Some(Value::Null) => {}
        Some(Value::Array(tools)) if tools.is_empty() => {}
        Some(tools @ Value::Array(_)) => {
            row.extra.insert("tools".to_owned(), tools);
        }
        Some(other) => return Err(wrong("tools", "a list of tools", &other)),
    }
    record.input_length = prompt_tokens(capture.get("endpointOutput"));
    lay_messages(&mut row, messages_of(messages)?, api)?;
    let unread = |of: &Map<String, Value>, known: &[&str], before: &str| -> Vec<String> {
        let unread = of.iter().filter(|(key, value)| !value.is_null() && !known.contains(&key.as_str()));
        unread.map(|(key, _)| format!("{before}{key}")).collect()
    };
    record.unknown.extend(unread(&body, &ANEW, ""));
    for (of, known, before) in [
        (&map, &ROW[..], ""),
        (&capture, &CAPTURE[..], "captureData."),
        (&input, &INPUT[..], "captureData.endpointInput."),
        (&event, &EVENT[..], "eventMetadata."),
    ] {
        record.unknown.extend(unread(of, known, before));
    }
    record.turns.push(row);
    Ok(record)
}

fn object(of: &mut Map<String, Value>, field: &'static str) -> Result<Map<String, Value>, RowProblem> {
    match of.shift_remove(field) {
        Some(Value::Object(map)) => Ok(map),
        None | Some(Value::Null) => Err(RowProblem::Lacks { field, form: "sagemaker_data_capture" }),
        Some(other) => Err(wrong(field, "an object", &other)),
    }
}

/// How many tokens the server counted in the prompt, if its answer was captured and says so.
fn prompt_tokens(output: Option<&Value>) -> Option<u64> {
    let output = output?.as_object()?;
    // An answer that came as events, or none at all, is not what is sent again: it may be anything.
    let answer = decoded(output.get("data")?.as_str()?, output.get("encoding")).ok()?;
    answer.get("usage")?.get("prompt_tokens")?.as_u64()
}

/// The body that was captured.
fn decoded(data: &str, encoding: Option<&Value>) -> Result<Map<String, Value>, RowProblem> {
    const FIELD: &str = "captureData.endpointInput.data";
    let bytes = match encoding {
        Some(Value::String(encoding)) if encoding == "JSON" => data.as_bytes().to_vec(),
        None | Some(Value::Null) => base64_of(data)?,
        Some(Value::String(encoding)) if encoding == "BASE64" => base64_of(data)?,
        Some(other) => {
            return Err(wrong("captureData.endpointInput.encoding", "\"JSON\" or \"BASE64\"", other));
        }
    };
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| {
        let (column, problem) = broken(&error);
        let at = column.map(|column| format!(" (byte {column})")).unwrap_or_default();
        RowProblem::Captured { problem: format!("{problem}{at}") }
    })?;
    match value {
        Value::Object(body) => Ok(body),
        other => Err(wrong(FIELD, "a JSON object", &other)),
    }
}

fn base64_of(data: &str) -> Result<Vec<u8>, RowProblem> {
    let data: String = data.split_ascii_whitespace().collect();
    STANDARD.decode(data).map_err(|error| RowProblem::Captured { problem: format!("is no base64: {error}") })
}

/// A moment in ISO 8601 as nanoseconds since 1970; one that names no zone is UTC.
fn moment(time: &Value) -> Result<u64, RowProblem> {
    moment_ns(time.as_str().unwrap_or_default()).ok_or_else(|| {
        wrong("eventMetadata.inferenceTime", "a moment from 1970 on, as 2026-04-29T00:03:18Z", time)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn capture(body: &Value, encoding: Option<&str>, time: &str) -> Value {
        let text = body.to_string();
        let data = if encoding == Some("JSON") { text } else { STANDARD.encode(text) };
        let mut row = json!({
            "captureData": {"endpointInput": {"data": data, "mode": "INPUT"}, "endpointOutput": {"data": "{}"}},
            "eventMetadata": {"eventId": "e-1", "inferenceTime": time},
            "eventVersion": "0",
        });
        if let Some(encoding) = encoding {
            row["captureData"]["endpointInput"]["encoding"] = encoding.into();
        }
        row
    }

    fn of(row: &Value) -> Result<Record, String> {
        parse(row.to_string().as_bytes(), EndpointKind::Chat).map_err(|(_, problem)| problem.to_string())
    }

    #[test]
    fn a_body_is_read_in_both_encodings() {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "東"}], "max_completion_tokens": 9, "tools": [{"type": "f"}],
            "temperature": 0.5});
        for encoding in [Some("JSON"), Some("BASE64"), None] {
            let record = of(&capture(&body, encoding, "2026-04-29T00:03:18.5Z")).expect("a good row");
            let row = &record.turns[0];
            assert_eq!(row.extra["messages"][0]["content"], "東");
            assert_eq!((row.output_length, row.extra["tools"][0]["type"].as_str()), (Some(9), Some("f")));
            assert_eq!(row.at_ns, Some(1_777_420_998_500_000_000));
            assert_eq!(record.unknown, ["temperature"]);
        }
    }

    #[test]
    fn the_answer_says_how_long_the_prompt_was() {
        let body = json!({"messages": [{"role": "user", "content": "a"}]});
        let mut row = capture(&body, Some("JSON"), "2026-04-29T00:03:18Z");
        assert_eq!(of(&row).expect("a good row").input_length, None);
        let answer = json!({"usage": {"prompt_tokens": 31}}).to_string();
        row["captureData"]["endpointOutput"] = json!({"data": answer, "encoding": "JSON"});
        assert_eq!(of(&row).expect("a good row").input_length, Some(31));
        row["captureData"]["endpointOutput"] = json!({"data": STANDARD.encode(answer)});
        assert_eq!(of(&row).expect("a good row").input_length, Some(31));
        row["captureData"]["endpointOutput"] = json!({"data": "data: {}", "encoding": "JSON"});
        assert_eq!(of(&row).expect("a good row").input_length, None);
    }

    #[test]
    fn moments_have_many_forms() {
        let ns = |text: &str| moment(&json!(text)).map_err(|problem| problem.to_string());
        let wanted = Ok(1_777_420_998_000_000_000);
        for text in [
            "2026-04-29T00:03:18Z",
            "2026-04-29 00:03:18",
            "2026-04-29T02:03:18+02:00",
            "2026-04-29T00:03:18.000+00:00",
        ] {
            assert_eq!(ns(text), wanted, "{text}");
        }
        assert!(
            ns("soon").expect_err("no moment").starts_with("'eventMetadata.inferenceTime' must be a moment")
        );
        assert!(ns("1969-01-01T00:00:00Z").is_err() && moment(&json!(5)).is_err());
    }

    #[test]
    fn what_is_wrong_names_the_event() {
        let good = json!({"messages": [{"role": "user", "content": "a"}]});
        let said = |row: &Value| of(row).map(|_| ()).expect_err("a bad row");
        let chat = capture(&json!({"inputs": "x"}), Some("JSON"), "2026-04-29T00:03:18Z");
        assert_eq!(
            said(&chat),
            "event 'e-1': the captured body has no 'messages'; captures of chat endpoints are sent again, and no others"
        );
        assert!(
            said(&capture(&good, Some("JSON"), "then"))
                .starts_with("event 'e-1': 'eventMetadata.inferenceTime' must be")
        );
        let mut row = capture(&good, Some("CSV"), "2026-04-29T00:03:18Z");
        assert!(
            said(&row).ends_with(
                "'captureData.endpointInput.encoding' must be \"JSON\" or \"BASE64\", not \"CSV\""
            )
        );
        row["captureData"]["endpointInput"]["encoding"] = "JSON".into();
        row["captureData"]["endpointInput"]["data"] = "{\"messages\"".into();
        assert_eq!(
            said(&row),
            "event 'e-1': the captured body: the row ends in the middle of its JSON; is the file cut off? (byte 11)"
        );
        row["captureData"]["endpointInput"]["encoding"] = "BASE64".into();
        assert!(said(&row).starts_with("event 'e-1': the captured body: is no base64"));
        assert_eq!(
            said(&json!({"eventMetadata": {"inferenceTime": "x"}})),
            "'captureData' is missing, which every row of sagemaker_data_capture has"
        );
    }
}
