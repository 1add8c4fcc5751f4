//! `profile_export.parquet`: the records as columns, read back and held against the lines that they were made of.

use std::fs::File;

use aiperf_sim::scripted::Reply;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, List};
use serde_json::{Map, Value, json};

use crate::support::{Done, Run, Tally, cycling, scripted, sim, url};

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

/// The rows of a file; what is null is not there.
fn rows(done: &Done, name: &str) -> Vec<Map<String, Value>> {
    let file = File::open(done.path(name)).expect("it is there");
    let file = SerializedFileReader::new(file).expect("a file of columns");
    let rows = file.get_row_iter(None).expect("rows");
    rows.map(|row| {
        let row = row.expect("a row");
        row.get_column_iter().filter_map(|(name, field)| Some((name.clone(), value(field)?))).collect()
    })
    .collect()
}

/// The row that a record is to become.
fn flat(record: &Value) -> Map<String, Value> {
    let object = |key: &str| record[key].as_object().cloned().unwrap_or_default();
    let mut row = object("metadata");
    row.extend(object("metrics").into_iter().map(|(tag, metric)| (tag, metric["value"].clone())));
    row.extend(object("error").into_iter().map(|(key, value)| (format!("error_{key}"), value)));
    row
}

/// Demands that the file has the records, one by one; a column of numbers that are not all whole has the whole ones as reals.
#[track_caller]
fn same(done: &Done, name: &str) {
    let (rows, records) = (rows(done, name), done.records());
    assert_eq!(rows.len(), records.len());
    assert!(!rows.is_empty());
    for (row, record) in rows.iter().zip(&records) {
        let expected = flat(record);
        let (mut keys, mut wanted): (Vec<_>, Vec<_>) = (row.keys().collect(), expected.keys().collect());
        keys.sort();
        wanted.sort();
        assert_eq!(keys, wanted);
        for (key, value) in expected {
            let numbers = |v: &Value| match v {
                Value::Array(list) => list.iter().map(Value::as_f64).collect::<Vec<_>>(),
                other => vec![other.as_f64()],
            };
            let alike = row[&key] == value
                || (numbers(&value)[0].is_some() && numbers(&row[&key]) == numbers(&value));
            assert!(alike, "{key}: {} for {value}", row[&key]);
        }
    }
}

#[test]
fn every_record_is_a_row_and_every_key_a_column() {
    let streaming = sim("ttft=2&itl=1");
    let failing = cycling(vec![
        Reply::chat("a b c", 9, 3),
        Reply::json(503, "{\"error\":{\"message\":\"busy\",\"code\":\"later\"}}"),
    ]);
    for (url, more, tally) in [
        (url(&streaming), "--streaming --warmup-request-count 3 --request-rate 400", Tally::of(12, 0)),
        (failing.url(), "--concurrency 1", Tally::of(6, 6)),
    ] {
        let run = Run::profile(&url).args("--request-count 12 --export-parquet").args(more);
        let done = run.run().expect_exit(0).ends(tally);
        same(&done, "profile_export.parquet");
        assert!(done.stdout.contains("Records Parquet") && done.stdout.contains("profile_export.parquet"));
    }
}

#[test]
fn a_file_asks_for_columns_beside_lines() {
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let file = "benchmark:\n  model: demo\n  artifacts: {dir: out, prefix: foo, records: [jsonl, parquet]}\n  tokenizer: {name: builtin}\n";
    let done = Run::new("profile -f c.yaml --ui none --request-count 3 --url").arg(server.url());
    let done = done.file("c.yaml", file).run().expect_exit(0);
    assert_eq!(rows(&done, "foo.parquet").len(), 3);
    // The next run moves it with the others.
    let done = Run::new("profile -f c.yaml --ui none --request-count 1 --url").arg(server.url()).run_in(done);
    let done = done.expect_exit(0);
    assert_eq!((rows(&done, "previous-1/foo.parquet").len(), rows(&done, "foo.parquet").len()), (3, 1));
}

#[test]
fn records_of_any_run_become_columns_later() {
    let server = scripted(vec![Reply::chat("a b", 9, 2)]);
    let done = Run::profile(&server.url()).args("--request-count 4").run().expect_exit(0);
    let before = done.made();
    let done = Run::new("report out --export-parquet").run_in(done).expect_exit(0);
    assert!(done.stdout.ends_with("profile_export.parquet: 4 rows\n"), "{}", done.stdout);
    assert_eq!(done.made().difference(&before).count(), 1, "nothing else is written");
    same(&done, "profile_export.parquet");
    let done = Run::new("report out --export-parquet").run_in(done).expect_exit(2).says(&["--force"]);

    // What is not whole or no record is left out.
    let text = done.text("profile_export.jsonl");
    let all: Vec<&str> = text.lines().collect();
    let broken = format!("{}\nnothing\n{}\n{}", all[0], all[1], &all[2][..40]);
    std::fs::write(done.path("profile_export.jsonl"), broken).expect("it is written");
    // A folder of the reference has no file that tells what was run.
    std::fs::remove_file(done.path("profile_export_run.json")).expect("it was there");
    let done = Run::new("report out --export-parquet --force").run_in(done).expect_exit(0);
    let done = done.says(&["1 line of the records could not be read and was left out."]);
    assert_eq!(rows(&done, "profile_export.parquet").len(), 2);
    std::fs::write(done.path("profile_export.jsonl"), "").expect("it is written");
    Run::new("report out --export-parquet --force")
        .run_in(done)
        .expect_exit(2)
        .says(&["no line of it is a record"]);
}

#[test]
fn a_killed_run_s_report_has_the_columns_it_was_to_have() {
    let server = scripted(vec![Reply::chat("a b", 9, 2), Reply::chat("c", 9, 1), Reply::new().stall()]);
    let running =
        Run::profile(&server.url()).args("--request-count 50 --concurrency 1 --export-parquet").start();
    let records = running.home().join("out/profile_export.jsonl");
    while std::fs::read(&records).map_or(0, |bytes| bytes.split(|b| *b == b'\n').count()) < 3 {
        std::thread::yield_now();
    }
    running.signal("KILL");
    let done = running.finish().expect_exit(-1);
    assert!(!done.path("profile_export.parquet").exists());
    let done = Run::new("report out").run_in(done).expect_exit(0);
    same(&done, "profile_export.parquet");
    assert_eq!(rows(&done, "profile_export.parquet").len(), 2);
}

#[test]
fn an_interrupted_run_has_its_columns() {
    let server = scripted(vec![Reply::chat("a b", 9, 2), Reply::new().stall()]);
    let running =
        Run::profile(&server.url()).args("--request-count 50 --concurrency 1 --export-parquet").start();
    server.wait_requests(2);
    running.signal("INT");
    let done = running.finish().expect_exit(130);
    same(&done, "profile_export.parquet");
}

#[test]
fn columns_that_do_not_fit_are_removed() {
    let server = scripted(vec![Reply::chat("a b", 9, 2)]);
    let done = Run::profile(&server.url()).args("--request-count 4").run().expect_exit(0);
    let records = done.text("profile_export.jsonl");
    let done = Run::new("report out --export-parquet").disk_full_after(1).run_in(done).expect_exit(2);
    let done = done.says(&["error: cannot write out/profile_export.parquet: File too large"]);
    assert!(done.made().is_empty(), "{:?}", done.made());
    assert_eq!(done.text("profile_export.jsonl"), records);
}
