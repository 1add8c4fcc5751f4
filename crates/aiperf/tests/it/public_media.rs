//! Public data sets with images, videos and speech: what is in their tables goes out as it stands.

use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};

use crate::support::{Done, Run, Tally, flat, sim, url};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
const PNG_URL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ";
/// 0.05 s.
const FLAC: &[u8] = include_bytes!("../../../aiperf-data/src/sound/mono.flac");

/// What a column holds: values that are there, and the levels of each place.
type Column<'a> = (Vec<&'a [u8]>, Vec<i16>, Vec<i16>);

/// A table of one group of rows; every column is of bytes.
fn table(schema: &str, columns: &[Column<'_>]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema, properties.into()).expect("into memory");
    let mut group = file.next_row_group().expect("into memory");
    for (values, there, again) in columns {
        let mut column = group.next_column().expect("into memory").expect("as many as in the schema");
        let values: Vec<ByteArray> = values.iter().map(|value| ByteArray::from(value.to_vec())).collect();
        column.typed::<ByteArrayType>().write_batch(&values, Some(there), Some(again)).expect("into memory");
        column.close().expect("into memory");
    }
    group.close().expect("into memory");
    file.into_inner().expect("into memory")
}

/// A column `name` in the hub's form, of files that may be missing.
fn files(name: &str, text: &str, rows: &[(&str, Option<&[u8]>)]) -> Vec<u8> {
    let schema = format!(
        "message schema {{ optional binary {text} (UTF8);
            optional group {name} {{ optional binary bytes; optional binary path (UTF8); }} }}"
    );
    let texts = rows.iter().map(|(text, _)| text.as_bytes()).collect();
    let bytes = rows.iter().filter_map(|(_, bytes)| *bytes).collect();
    let there = rows.iter().map(|(_, bytes)| if bytes.is_some() { 2 } else { 1 }).collect();
    let none = vec![0; rows.len()];
    table(
        &schema,
        &[
            (texts, vec![1; rows.len()], none.clone()),
            (bytes, there, none.clone()),
            (vec![], vec![1; rows.len()], none),
        ],
    )
}

fn ask(url: &str, set: &str, table: &[u8]) -> Run {
    Run::unseeded(url)
        .args(&format!("--random-seed 3 --concurrency 1 --public-dataset {set} --input-file t.parquet"))
        .file("t.parquet", table)
}

fn contents(done: &Done) -> Vec<Value> {
    done.inputs().iter().map(|body| body["messages"][0]["content"].clone()).collect()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image(url: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": url}})
}

#[test]
fn a_question_is_shown_with_its_image() {
    let server = sim("ttft=0&itl=0");
    let rows =
        [("What is it?", Some(PNG)), (" ", Some(PNG)), ("And this?", Some(b"\xff\xd8\xff")), ("Words", None)];
    let done = ask(&url(&server), "mmstar", &files("image", "question", &rows))
        .args("--request-count 3")
        .run()
        .expect_exit(0)
        .ends(Tally::of(3, 0));
    assert_eq!(
        contents(&done),
        [
            json!([text("What is it?"), image(PNG_URL)]),
            json!([text("And this?"), image("data:image/jpeg;base64,/9j/")]),
            json!("Words"),
        ]
    );
    assert_eq!(done.stat("num_images", "avg").to_string(), "1", "of those that have any");
    assert_eq!(done.stat("num_images", "count").to_string(), "2");
    assert!(
        flat(&done.stdout).contains("1 of 4 rows is left out: 1 without a prompt (row 2)"),
        "{}",
        done.stdout
    );
}

/// Each message in a list by itself, and images in a list, of which the first goes with it.
#[test]
fn the_first_message_is_shown_with_its_first_image() {
    let server = sim("ttft=0&itl=0");
    let schema = "message schema {
        optional group conversation (LIST) { repeated group list { optional group element (LIST) { repeated group list {
            optional group element { optional binary role (UTF8); optional binary content (UTF8); } } } } }
        optional group images (LIST) { repeated group list { optional group element {
            optional binary bytes; optional binary path (UTF8); } } }
    }";
    let message = |texts: [&'static str; 4]| -> Column<'_> {
        (texts.iter().map(|text| text.as_bytes()).collect(), vec![6; 4], vec![0, 1, 0, 1])
    };
    let jpeg = &b"\xff\xd8\xff"[..];
    let bytes = table(
        schema,
        &[
            message(["user", "assistant", "assistant", "user"]),
            message(["<image>\nWho?", "Nobody.", "Hello.", "Second."]),
            (vec![PNG, jpeg], vec![4, 4, 1], vec![0, 1, 0]),
            (vec![], vec![3, 3, 1], vec![0, 1, 0]),
        ],
    );
    let run = |count: u64| {
        let run = ask(&url(&server), "vision-arena", &bytes).args(&format!("--request-count {count}"));
        run.run().expect_exit(0).ends(Tally::of(count, 0))
    };
    let first = json!([text("Who?"), image(PNG_URL)]);
    assert_eq!(contents(&run(2)), [first.clone(), json!("Second.")]);
}

#[test]
fn speech_is_to_be_written_down() {
    let server = sim("ttft=0&itl=0");
    let mut wav =
        b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\x08\0\0\0"
            .to_vec();
    let mut long = wav.clone();
    let len = 16_000 * 30 + 2;
    let at = long.len();
    long[at - 4..].copy_from_slice(&(len as u32).to_le_bytes());
    long.resize(at + len, 0);
    wav.extend_from_slice(&[1, 0, 2, 0, 3, 0, 4, 0]);
    let rows = [("a", Some(&wav[..])), ("b", Some(&long[..])), ("c", Some(FLAC)), ("d", None)];
    let done = ask(&url(&server), "librispeech", &files("audio", "text", &rows))
        .args("--request-count 3")
        .run()
        .expect_exit(0)
        .ends(Tally::of(3, 0));
    let sent = contents(&done);
    assert_eq!(sent.len(), 2, "the third is the first again");
    let heard = |content: &Value| {
        assert_eq!(content[0], text("Transcribe this audio."));
        assert_eq!(
            (&content[1]["type"], &content[1]["input_audio"]["format"]),
            (&json!("input_audio"), &json!("wav"))
        );
        content[1]["input_audio"]["data"].as_str().expect("base64").to_owned()
    };
    assert_eq!(heard(&sent[0]), "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQgAAAABAAIAAwAEAA==");
    // Unpacked: 44 bytes and 400 samples of two, at 8 kHz.
    let unpacked = heard(&sent[1]);
    assert!(unpacked.starts_with("UklGRkQDAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YSADAA"), "{unpacked}");
    assert_eq!(unpacked.len(), 844_usize.div_ceil(3) * 4);
    // How long each plays, and how many times faster it is written down.
    let records = done.records();
    let value = |record: &Value, tag: &str| record["metrics"][tag]["value"].as_f64().expect("a number");
    let mut played: Vec<f64> = records.iter().map(|record| value(record, "audio_duration")).collect();
    played.sort_by(f64::total_cmp);
    assert_eq!(played, [0.000_5, 0.000_5, 0.05]);
    for record in &records {
        let factor = value(record, "audio_duration") / (value(record, "request_latency") / 1e3);
        assert!((value(record, "rtfx") - factor).abs() < 1e-9 * factor, "{record}");
    }
    assert_eq!(records[0]["metrics"]["audio_duration"]["unit"], "sec");
    let summary = done.summary();
    assert_eq!(summary["audio_duration"]["max"], 0.05);
    assert_eq!(summary["rtfx"]["unit"], "ratio");
    let told = flat(&done.stdout);
    assert!(told.contains("Inverse Real-Time Factor (RTFx)"), "{told}");
    let again = Run::new("report out --force").run_in(done).expect_exit(0);
    for tag in ["audio_duration", "rtfx"] {
        assert_eq!(summary[tag], again.summary()[tag], "{tag}");
    }
    assert!(told.contains("2 of 4 rows are left out:"), "{told}");
    assert!(
        told.contains("1 with a clip of more than 30 s (row 2)") && told.contains("1 without audio (row 4)"),
        "{told}"
    );
}

#[test]
fn a_video_is_asked_about_by_its_address() {
    let server = sim("ttft=0&itl=0");
    let rows = json!([{"id": "v", "question": "Why?", "choices": {"A": "one", "B": "two"}, "answer": "A", "video": "https://h/v.mp4"}]);
    let done = ask(&url(&server), "mmvu", rows.to_string().as_bytes()).args("--request-count 1").run();
    let video = json!({"type": "video_url", "video_url": {"url": "https://h/v.mp4"}});
    assert_eq!(contents(&done.expect_exit(0)), [json!([text("Why? A.one B.two"), video])]);
}

#[test]
fn a_broken_cell_is_told_by_its_row() {
    let server = sim("ttft=0&itl=0");
    let rows = [("good", Some(PNG)), ("broken", Some(&b"<html>"[..])), ("also", Some(PNG))];
    let broken = files("image", "question", &rows);
    let run = |args: &str| ask(&url(&server), "mmstar", &broken).args("--request-count 2").args(args).run();
    let done = run("").expect_exit(2).says(&[
        "t.parquet: row 2: the image in 'image' begins with 3c 68 74 6d 6c 3e, which is none of PNG, JPEG",
    ]);
    assert!(done.made().is_empty(), "nothing is made");
    let done = run("--on-bad-row skip").expect_exit(0).ends(Tally::of(2, 0));
    assert_eq!(contents(&done).len(), 2);
    assert!(
        flat(&done.stdout).contains("1 of 3 rows is left out: 1 that cannot be read (row 2)"),
        "{}",
        done.stdout
    );
    // Of a large set no more is read than is sent.
    let speech = files("audio", "text", &[("a", Some(FLAC)), ("b", Some(&FLAC[..FLAC.len() - 20]))]);
    let hear = |args: &str| ask(&url(&server), "ami", &speech).args(args).run();
    hear("--request-count 1").expect_exit(0);
    hear("--request-count 2 --num-dataset-entries 1").expect_exit(0).ends(Tally::of(2, 0));
    hear("--request-count 2")
        .expect_exit(2)
        .says(&["t.parquet: row 2: the audio in 'audio' is FLAC that cannot be unpacked"]);
}
