//! Files are read back by the library that wrote them; what pandas makes of one was looked at by hand.

use std::collections::BTreeMap;

use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, List};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Column names and types in their order, and each row's values that are not null.
struct Read {
    columns: Vec<(String, String)>,
    rows: Vec<BTreeMap<String, Value>>,
    groups: usize,
    units: Value,
}

fn written(lines: &[String]) -> Vec<u8> {
    let mut columns = Columns::default();
    for line in lines {
        columns.learn(line.as_bytes());
    }
    let mut bytes = Vec::new();
    let mut writer = RowWriter::new(columns, &mut bytes).expect("a schema");
    for line in lines {
        writer.add(line.as_bytes()).expect("memory takes it");
    }
    writer.finish().expect("memory takes it");
    bytes
}

fn value(field: &Field) -> Option<Value> {
    let list = |list: &List| Value::Array(list.elements().iter().filter_map(value).collect());
    Some(match field {
        Field::Null => return None,
        Field::Bool(v) => json!(v),
        Field::Long(v) => json!(v),
        Field::Double(v) => json!(v),
        Field::Str(v) => json!(v),
        Field::ListInternal(v) => list(v),
        other => panic!("{other:?}"),
    })
}

fn read(bytes: Vec<u8>) -> Read {
    let file = SerializedFileReader::new(Bytes::from(bytes)).expect("a file");
    let metadata = file.metadata().file_metadata();
    let columns = metadata.schema().get_fields().iter().map(|field| {
        let kind =
            if field.is_primitive() { format!("{:?}", field.get_physical_type()) } else { "LIST".to_owned() };
        (field.name().to_owned(), kind)
    });
    let told = metadata.key_value_metadata().and_then(|all| all.iter().find(|kv| kv.key == UNITS_KEY));
    let units = told.and_then(|kv| kv.value.as_deref()).expect("units");
    let rows = file.get_row_iter(None).expect("rows").map(|row| {
        let row = row.expect("a row");
        row.get_column_iter().filter_map(|(name, field)| Some((name.clone(), value(field)?))).collect()
    });
    Read {
        columns: columns.collect(),
        rows: rows.collect(),
        groups: file.num_row_groups(),
        units: serde_json::from_str(units).expect("JSON"),
    }
}

#[test]
fn records_become_typed_columns_with_nulls() {
    let first = json!({
        "metadata": {"session_num": 0, "x_request_id": "a\"b", "request_ack_ns": 1_700_000_000_000_000_123u64, "was_cancelled": false},
        "metrics": {"request_latency": {"value": 12.5, "unit": "ms"}, "inter_chunk_latency": {"value": [1.5, 2], "unit": "ms"},
            "output_sequence_length": {"value": 3, "unit": "tokens"}},
        "trace_data": {"left": "out"}
    });
    let second = json!({
        "metadata": {"session_num": 1, "x_request_id": "c", "was_cancelled": true, "cancellation_time_ns": 5, "nothing": null},
        "metrics": {"request_latency": {"value": 3, "unit": "ms"}, "inter_chunk_latency": {"value": [], "unit": "ms"},
            "error_isl": {"value": 9, "unit": "tokens"}},
        "error": {"code": 499, "type": "RequestCancellationError", "message": "é", "retryable": true}
    });
    let read = read(written(&[first.to_string(), "no record".to_owned(), second.to_string()]));
    let columns: Vec<(&str, &str)> = read.columns.iter().map(|(name, kind)| (&**name, &**kind)).collect();
    assert_eq!(
        columns,
        [
            ("session_num", "INT64"),
            ("x_request_id", "BYTE_ARRAY"),
            ("request_ack_ns", "INT64"),
            ("was_cancelled", "BOOLEAN"),
            ("cancellation_time_ns", "INT64"),
            // One of them is a whole number and one is not.
            ("request_latency", "DOUBLE"),
            ("inter_chunk_latency", "LIST"),
            ("error_isl", "INT64"),
            ("output_sequence_length", "INT64"),
            ("error_code", "INT64"),
            ("error_type", "BYTE_ARRAY"),
            ("error_message", "BYTE_ARRAY"),
            ("error_retryable", "BOOLEAN"),
        ]
    );
    let rows: Vec<Value> = read.rows.iter().map(|row| json!(row)).collect();
    assert_eq!(
        rows,
        [
            json!({"session_num": 0, "x_request_id": "a\"b", "request_ack_ns": 1_700_000_000_000_000_123u64,
                "was_cancelled": false, "request_latency": 12.5, "inter_chunk_latency": [1.5, 2.0], "output_sequence_length": 3}),
            json!({"session_num": 1, "x_request_id": "c", "was_cancelled": true, "cancellation_time_ns": 5,
                "request_latency": 3.0, "inter_chunk_latency": [], "error_isl": 9, "error_code": 499,
                "error_type": "RequestCancellationError", "error_message": "é", "error_retryable": true}),
        ]
    );
    assert_eq!(
        read.units,
        json!({"request_latency": "ms", "inter_chunk_latency": "ms", "output_sequence_length": "tokens", "error_isl": "tokens"})
    );
}

#[test]
fn a_key_that_is_now_this_and_now_that_is_text() {
    let line = |value: Value| {
        json!({"metadata": {"code": value, "same": 1}, "error": {"same": 2}, "metrics": {"same": {"value": 3}}}).to_string()
    };
    let read =
        read(written(&[line(json!(404)), line(json!("no_such_model")), line(json!(true)), line(json!([1]))]));
    let codes: Vec<&Value> = read.rows.iter().map(|row| &row["code"]).collect();
    assert_eq!(codes, ["404", "no_such_model", "true", "[1.0]"]);
    assert_eq!(json!(read.rows[0]), json!({"code": "404", "same": 1, "same_": 3, "error_same": 2}));
}

#[test]
fn groups_bound_what_is_held() {
    let line = |at: usize, gaps: usize| {
        json!({"metadata": {"session_num": at}, "metrics": {"inter_chunk_latency": {"value": vec![0.25; gaps], "unit": "ms"}}}).to_string()
    };
    let many: Vec<String> = (0..=GROUP_ROWS).map(|at| line(at, at % 3)).collect();
    let got = read(written(&many));
    assert_eq!((got.groups, got.rows.len()), (2, GROUP_ROWS + 1));
    for (at, row) in got.rows.iter().enumerate() {
        assert_eq!(json!(row), json!({"session_num": at, "inter_chunk_latency": vec![0.25; at % 3]}));
    }
    let long: Vec<String> = (0..3).map(|at| line(at, GROUP_VALUES / 2)).collect();
    let got = read(written(&long));
    assert_eq!((got.groups, got.rows.len()), (2, 3));
}

/// A cell of a column that keeps to one kind.
fn cell(kind: u8) -> BoxedStrategy<Option<Value>> {
    let some = match kind % 5 {
        0 => any::<bool>().prop_map(Value::from).boxed(),
        1 => any::<i64>().prop_map(Value::from).boxed(),
        2 => (-1e6..1e6f64).prop_map(|v| Value::from((v * 64.0).round() / 64.0)).boxed(),
        3 => ".{0,6}".prop_map(Value::from).boxed(),
        _ => prop::collection::vec((0..4000i32).prop_map(|v| f64::from(v) / 8.0), 0..5)
            .prop_map(Value::from)
            .boxed(),
    };
    prop_oneof![3 => some.prop_map(Some), 1 => Just(None)].boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each row says what its line says, whatever other lines say or leave out.
    #[test]
    fn what_is_written_is_read(rows in (1usize..9).prop_flat_map(|width| {
        prop::collection::vec((0..width as u8).map(cell).collect::<Vec<_>>(), 1..40)
    })) {
        let lines: Vec<BTreeMap<String, Value>> = rows
            .into_iter()
            .enumerate()
            .map(|(number, row)| {
                let cells = row.into_iter().enumerate().filter_map(|(at, v)| Some((format!("k{at}"), v?)));
                std::iter::once(("session_num".to_owned(), json!(number))).chain(cells).collect()
            })
            .collect();
        let texts: Vec<String> = lines.iter().map(|row| json!({ "metadata": row, "metrics": {} }).to_string()).collect();
        let got = read(written(&texts));
        prop_assert_eq!(&got.rows, &lines);
        let mut names: Vec<&String> = got.columns.iter().map(|(name, _)| name).collect();
        names.sort();
        let mut seen: Vec<&String> = lines.iter().flat_map(|row| row.keys()).collect();
        seen.sort();
        seen.dedup();
        prop_assert_eq!(names, seen);
    }
}
