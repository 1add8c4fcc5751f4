//! Images, audio and video of rows on the wire.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{Done, Run, Tally, flat, scripted, sim, url};
use aiperf_sim::scripted::Reply;

/// A PNG of one pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
const PNG_URL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ";

fn rows(rows: &[Value]) -> String {
    rows.iter().map(|row| row.to_string() + "\n").collect()
}

fn ask(url: &str, rows_of: &[Value]) -> Run {
    Run::unseeded(url)
        .args("--random-seed 3 --concurrency 1 --input-file d/rows.jsonl")
        .file("d/rows.jsonl", rows(rows_of))
        .file("a.png", PNG)
        .file("d/s.wav", b"RIFF")
}

fn contents(done: &Done) -> Vec<Value> {
    done.inputs().iter().map(|body| body["messages"][0]["content"].clone()).collect()
}

/// Local files are found where the program was started, and beside the rows.
#[test]
fn rows_show_and_play_what_they_name() {
    let server = sim("ttft=0&itl=0");
    let done = ask(
        &url(&server),
        &[
            json!({"text": "what is it?", "image": "a.png"}),
            json!({"texts": ["one", "two"], "images": ["http://h/i.png", "data:image/jpeg;base64,/9j/"], "audio": "s.wav", "video": "https://h/v.mp4"}),
            json!({"text": "words alone"}),
        ],
    )
    .args("--request-count 3")
    .run()
    .expect_exit(0)
    .ends(Tally::of(3, 0));
    let text = |text| json!({"type": "text", "text": text});
    let image = |url| json!({"type": "image_url", "image_url": {"url": url}});
    let expected = [
        json!([text("what is it?"), image(PNG_URL)]),
        json!([text("one"), text("two"), image("http://h/i.png"), image("data:image/jpeg;base64,/9j/"),
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            {"type": "video_url", "video_url": {"url": "https://h/v.mp4"}}]),
        json!("words alone"),
    ];
    assert_eq!(contents(&done), expected);
    // Media are no text.
    let by_images: BTreeMap<u64, u64> = done
        .records()
        .iter()
        .map(|record| {
            let value = |tag: &str| record["metrics"][tag]["value"].as_u64();
            (value("num_images").unwrap_or(0), value("input_sequence_length").expect("a count"))
        })
        .collect();
    assert_eq!(by_images, BTreeMap::from([(0, 2), (1, 4), (2, 2)]));
    assert!((done.stat("num_images", "avg") - 1.5).abs() < 1e-12);
    assert_eq!(done.summary()["image_throughput"]["unit"], "images/sec");
    assert_eq!(done.summary()["image_latency"]["unit"], "ms/image");
    assert!(flat(&done.stdout).contains("Image Latency (ms/image)"), "{}", done.stdout);
    // What records hold is enough to make the summary again.
    let (told, rebuilt) = {
        let told = done.summary();
        let again = Run::new("report out --force").run_in(done).expect_exit(0);
        (told, again.summary())
    };
    for tag in ["num_images", "image_throughput", "image_latency"] {
        assert_eq!(told[tag], rebuilt[tag], "{tag}");
    }
}

/// What was shown in an earlier turn is part of a later one.
#[test]
fn a_conversation_remembers_its_images() {
    let server = scripted(vec![Reply::chat("ok", 1, 1); 3]);
    let turns = json!({"turns": [{"text": "first", "image": "a.png"}, {"text": "second", "images": ["http://h/i", "http://h/j"]}, {"text": "third"}]});
    let done = ask(&server.url(), &[turns]).args("--num-conversations 1").run().expect_exit(0);
    let images: Vec<u64> = done
        .records()
        .iter()
        .map(|record| record["metrics"]["num_images"]["value"].as_u64().expect("a number"))
        .collect();
    assert_eq!(images, [1, 3, 3]);
    let last = String::from_utf8(server.requests()[2].body.clone()).expect("JSON");
    assert!(last.contains(PNG_URL) && last.contains("http://h/j"), "{last}");
}

/// What the server keeps of a conversation is shown to it once.
#[test]
fn images_that_a_server_keeps_are_not_counted_again() {
    let answer = |id: &str| {
        json!({"object": "response", "id": id, "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "fine"}]}],
            "usage": {"input_tokens": 9, "output_tokens": 1}})
    };
    let server = scripted(["r1", "r2", "r3"].map(|id| Reply::json(200, &answer(id).to_string())).to_vec());
    let turns = json!({"turns": [{"text": "first", "image": "a.png"}, {"text": "second", "images": ["http://h/i", "http://h/j"]}, {"text": "third"}]});
    let done = ask(&server.url(), &[turns])
        .args("--num-conversations 1 --endpoint-type responses --extra-inputs store:true --use-server-token-count")
        .run()
        .expect_exit(0);
    let images: Vec<Option<u64>> =
        done.records().iter().map(|record| record["metrics"]["num_images"]["value"].as_u64()).collect();
    assert_eq!(images, [Some(1), Some(2), None]);
    assert!(!String::from_utf8_lossy(&server.requests()[2].body).contains("input_image"));
}

#[test]
fn bodies_with_parts_travel_as_they_are() {
    let server = sim("ttft=0&itl=0");
    let body = json!({"model": "demo", "messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "a.png", "detail": "low"}}, {"type": "text", "text": "between"},
        {"type": "image_url", "image_url": {"url": "http://h/i"}}]}]});
    for (form, file) in [
        ("raw_payload", rows(std::slice::from_ref(&body))),
        ("inputs_json", json!({"data": [{"session_id": "s", "payloads": [body]}]}).to_string()),
    ] {
        let done = Run::unseeded(&url(&server))
            .args(&format!("--request-count 1 --input-file b.jsonl --custom-dataset-type {form}"))
            .file("b.jsonl", file)
            .run()
            .expect_exit(0)
            .ends(Tally::of(1, 0));
        assert_eq!(done.stat("num_images", "avg").to_string(), "2", "{form}");
        assert_eq!(done.records()[0]["metrics"]["input_sequence_length"]["value"], 1, "{form}");
    }
    let trace = json!({"messages": body["messages"], "output_length": 3});
    let done = Run::unseeded(&url(&server))
        .args("--request-count 1 --input-file t.jsonl --custom-dataset-type mooncake_trace")
        .file("t.jsonl", rows(&[trace]))
        .run()
        .expect_exit(0);
    assert_eq!(done.inputs()[0]["messages"], body["messages"]);
    assert_eq!(done.stat("num_images", "avg").to_string(), "2");
    // Conversations of others have their texts first.
    let talk = json!([{"messages": [body["messages"][0], {"role": "assistant", "content": "ok"}]}]);
    let done = Run::unseeded(&url(&server))
        .args("--request-count 1 --input-file c.json --custom-dataset-type chat")
        .file("c.json", talk.to_string().replace("a.png", "http://h/a"))
        .run()
        .expect_exit(0);
    let image = |url| json!({"type": "image_url", "image_url": {"url": url}});
    assert_eq!(
        contents(&done),
        [json!([{"type": "text", "text": "between"}, image("http://h/a"), image("http://h/i")])]
    );
}

#[test]
fn other_apis_have_forms_of_their_own() {
    let server = sim("ttft=0&itl=0&embedding-dimensions=4");
    let run = |api: &str, row: Value| {
        let run = ask(&url(&server), &[row]).args(&format!("--request-count 1 --endpoint-type {api}"));
        let done = run.run().expect_exit(0).ends(Tally::of(1, 0));
        done.inputs()[0].clone()
    };
    let row = json!({"text": "a", "image": "a.png"});
    assert_eq!(
        run("responses", row.clone())["input"][0]["content"],
        json!([{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": PNG_URL}])
    );
    let data = PNG_URL.trim_start_matches("data:image/png;base64,");
    assert_eq!(
        run("messages", row.clone())["messages"][0]["content"],
        json!([{"type": "text", "text": "a"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}])
    );
    assert_eq!(run("nim_embeddings", row.clone())["input"], json!([format!("a {PNG_URL}")]));
    assert_eq!(run("completions", row)["prompt"], "a");
    let template = r#"{"model": "demo", "prompt": "x", "by_name": {{images_by_name.n|tojson}}, "all": {{images|tojson}}, "none": {{video|tojson}}}"#;
    let named = json!({"images": [{"name": "n", "contents": ["a.png"]}]});
    let done = ask(&url(&server), &[named])
        .args(
            "--request-count 1 --endpoint-type template --custom-endpoint /v1/completions --payload-template",
        )
        .arg(template)
        .run()
        .expect_exit(0);
    assert_eq!(
        done.inputs()[0],
        json!({"model": "demo", "prompt": "x", "by_name": [PNG_URL], "all": [PNG_URL], "none": null})
    );
}

#[test]
fn ids_alone_are_sent_of_images_that_were_shown() {
    let server = sim("ttft=0&itl=0");
    let row =
        |text: &str| json!({"session_id": "s", "text": text, "images": ["a.png"], "image_uuids": ["u"]});
    let sent = |more: &str| {
        let done = ask(&url(&server), &[row("1"), row("2")]).args("--num-conversations 1").args(more).run();
        let done = done.expect_exit(0);
        let urls: Vec<String> = contents(&done)
            .iter()
            .map(|content| {
                assert_eq!(content[1]["uuid"], "u");
                content[1]["image_url"]["url"].as_str().expect("an address").to_owned()
            })
            .collect();
        urls
    };
    assert_eq!(sent(""), [PNG_URL, PNG_URL]);
    assert_eq!(sent("--uuid-and-strip"), [PNG_URL, ""]);
    let refused = |more: &str, words: &[&str]| {
        let done = ask(&url(&server), &[row("1")]).args("--uuid-and-strip").args(more).run();
        done.expect_exit(2).says(words);
    };
    refused("--endpoint-type responses", &["--uuid-and-strip", "'responses'", "chat"]);
    refused("--custom-dataset-type multi_turn", &["--uuid-and-strip", "single_turn"]);
    Run::profile(&url(&server))
        .args("--uuid-and-strip")
        .run()
        .expect_exit(2)
        .says(&["--uuid-and-strip", "--input-file"]);
}

#[test]
fn what_cannot_be_shown_is_refused_by_its_row() {
    let server = sim("ttft=0");
    for (row, api, words) in [
        (
            json!({"text": "a", "image": "b.png"}),
            "chat",
            &["rows.jsonl:2: the image 'b.png' does not exist"][..],
        ),
        (
            json!({"text": "a", "image": "d/s.wav"}),
            "chat",
            &["rows.jsonl:2: the image 'd/s.wav' is neither a PNG nor a JPEG"],
        ),
        (
            json!({"text": "a", "audio": "http://h/a.wav"}),
            "chat",
            &["rows.jsonl:2", "audio travels in the request"],
        ),
        (
            json!({"text": "a", "video": "http://h/v.mp4"}),
            "messages",
            &["requests of type 'messages' hold no videos"],
        ),
        (
            json!({"text": "a", "image": "http://"}),
            "chat",
            &["rows.jsonl:2: the image 'http://' has no host"],
        ),
    ] {
        let done =
            ask(&url(&server), &[json!({"text": "good"}), row]).args(&format!("--endpoint-type {api}")).run();
        let done = done.expect_exit(2).says(words);
        assert!(done.made().is_empty(), "nothing is made");
    }
}
