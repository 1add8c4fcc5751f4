//! Files of prompts that are packed, or come through a pipe.

use std::io::Write;

use aiperf_sim::scripted::Reply;
use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::support::{Done, Run, Tally, scripted};

/// The server has something else to say for each of them.
const ROWS: &str =
    "{\"text\":\"one\"}\n\n{\"text\":\"two three\",\"output_length\":3}\n{\"text\":\"four\"}\n";
const TALKS: &str = "{\"turns\":[{\"text\":\"one\"},{\"text\":\"two\"}]}\n";
const TRACE: &str =
    "{\"timestamp\":5,\"input_length\":20,\"hash_ids\":[1]}\n{\"timestamp\":6,\"input_length\":9}\n";

fn gzip(text: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(text.as_bytes()).expect("into memory");
    packer.finish().expect("into memory")
}

fn zstd(text: &str) -> Vec<u8> {
    compress_to_vec(text.as_bytes(), CompressionLevel::Fastest)
}

/// What was sent for the file `name` that holds `bytes`.
fn sent(url: &str, name: &str, bytes: &[u8], more: &str) -> Done {
    let run = Run::unseeded(url).args("--random-seed 3 --concurrency 1 --input-file").arg(name);
    let run = run.args(more).file(if name == "-" { "piped" } else { name }, bytes);
    let run = if name == "-" { run.script("cat piped | \"$0\" \"$@\"") } else { run };
    run.run().expect_exit(0)
}

#[test]
fn packed_and_piped_files_are_read_as_if_they_were_not() {
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let url = server.url();
    for (text, more) in [
        (ROWS, "--request-count 3"),
        (TALKS, "--num-conversations 1"),
        (TRACE, "--no-fixed-schedule --request-count 2"),
    ] {
        let plain = sent(&url, "rows.jsonl", text.as_bytes(), more);
        let (gzip, zstd) = (gzip(text), zstd(text));
        // The bytes tell how a file is packed, not its name.
        for (name, bytes) in [
            ("rows.jsonl.gz", &gzip[..]),
            ("rows.jsonl.zst", &zstd[..]),
            ("rows", &gzip[..]),
            ("-", text.as_bytes()),
            ("-", &gzip[..]),
            ("-", &zstd[..]),
        ] {
            let done = sent(&url, name, bytes, more);
            assert_eq!(done.inputs(), plain.inputs(), "{name}");
        }
    }
}

#[test]
fn a_packed_trace_is_a_schedule_as_others_are() {
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    for (name, bytes) in
        [("t.jsonl", TRACE.as_bytes().to_vec()), ("t.gz", gzip(TRACE)), ("t.zst", zstd(TRACE))]
    {
        let done = sent(&server.url(), name, &bytes, "--custom-dataset-type mooncake_trace");
        let phases = &done.summary()["input_config"]["benchmark"]["phases"];
        let phases =
            if phases.is_null() { done.summary()["input_config"]["phases"].clone() } else { phases.clone() };
        assert!(phases.to_string().contains("fixed_schedule"), "{name}: {phases}");
        done.ends(Tally::of(2, 0));
    }
    // What comes through a pipe is one if it is asked for.
    let more = "--custom-dataset-type mooncake_trace --fixed-schedule";
    sent(&server.url(), "-", TRACE.as_bytes(), more).ends(Tally::of(2, 0));
}

#[test]
fn errors_in_packed_files_name_the_line_and_what_is_wrong() {
    let refused = |name: &str, bytes: &[u8], words: &[&str]| {
        let run = Run::unseeded("http://127.0.0.1:1").args("--request-count 1 --input-file").arg(name);
        let run = run.file(if name == "-" { "piped" } else { name }, bytes);
        let run = if name == "-" { run.script("\"$0\" \"$@\" < piped") } else { run };
        let done = run.run().expect_exit(2).says(words);
        assert!(done.made().is_empty(), "nothing is made");
    };
    refused("r.gz", &gzip("{\"text\":\"a\"}\n{\"text\":1}\n"), &["r.gz:2: 'text' must be a string, not 1"]);
    refused("-", b"{\"text\":\"a\"}\n[]\n", &["standard input:2: a row must be a JSON object"]);
    refused("-", b"", &["standard input: holds no rows"]);
    let whole = gzip(ROWS);
    refused(
        "r.gz",
        &whole[..whole.len() - 9],
        &["r.gz: ends in the middle of its gzip data; is the file cut off?"],
    );
    refused(
        "r.jsonl.gz",
        ROWS.as_bytes(),
        &["r.jsonl.gz: its name ends like that of gzip data, and it holds none"],
    );
    refused(
        "r.xz",
        b"\xfd7zXZ\0\0\0",
        &["r.xz: is packed with xz, which is not read; pack it with gzip or zstd"],
    );
    refused("r.zst", b"\x28\xb5\x2f\xfd\xff\xff\xff\xff", &["r.zst: "]);
}

#[test]
fn no_room_for_what_a_file_holds_is_told() {
    let rows = ROWS.repeat(2000);
    let run = Run::unseeded("http://127.0.0.1:1").args("--request-count 1 --input-file r.gz");
    let done = run.file("r.gz", gzip(&rows)).disk_full_after(16).run().expect_exit(2);
    done.says(&["r.gz: cannot be written to a file in ", "File too large", "TMPDIR"]);
}
